/* PCRE2, opened when the first tokenizer wants it. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "common/lm/token_pcre.h"

#include <pcre2.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "common/buf.h"
#include "common/err.h"
#include "kernels/library.h"

/* Of one match. A pattern of ours takes a few steps a character; one of a stranger that takes more than these on a single match is
 * refused rather than waited for. */
#define STEPS_MAX       10000000u
#define HEAP_KIB_MAX    65536u
#define JIT_STACK_BYTES ((size_t)512 << 10)

static struct {
	pcre2_code *(*compile)(PCRE2_SPTR8, PCRE2_SIZE, uint32_t, int *, PCRE2_SIZE *,
		pcre2_compile_context *);
	void (*code_free)(pcre2_code *);
	int (*jit_compile)(pcre2_code *, uint32_t);
	int (*match)(const pcre2_code *, PCRE2_SPTR8, PCRE2_SIZE, PCRE2_SIZE, uint32_t,
		pcre2_match_data *, pcre2_match_context *);
	pcre2_match_data *(*data_create)(uint32_t, pcre2_general_context *);
	void (*data_free)(pcre2_match_data *);
	PCRE2_SIZE *(*ovector)(pcre2_match_data *);
	pcre2_match_context *(*context_create)(pcre2_general_context *);
	void (*context_free)(pcre2_match_context *);
	int (*match_limit)(pcre2_match_context *, uint32_t);
	int (*heap_limit)(pcre2_match_context *, uint32_t);
	pcre2_jit_stack *(*stack_create)(PCRE2_SIZE, PCRE2_SIZE, pcre2_general_context *);
	void (*stack_assign)(pcre2_match_context *, pcre2_jit_callback, void *);
	void (*stack_free)(pcre2_jit_stack *);
	int (*message)(int, PCRE2_UCHAR8 *, PCRE2_SIZE);
	bool ready;
	char problem[256];
} lib;

static void load_library(void)
{
	static const struct library_symbol symbols[] = {
		{ "pcre2_compile_8", &lib.compile },
		{ "pcre2_code_free_8", &lib.code_free },
		{ "pcre2_jit_compile_8", &lib.jit_compile },
		{ "pcre2_match_8", &lib.match },
		{ "pcre2_match_data_create_8", &lib.data_create },
		{ "pcre2_match_data_free_8", &lib.data_free },
		{ "pcre2_get_ovector_pointer_8", &lib.ovector },
		{ "pcre2_match_context_create_8", &lib.context_create },
		{ "pcre2_match_context_free_8", &lib.context_free },
		{ "pcre2_set_match_limit_8", &lib.match_limit },
		{ "pcre2_set_heap_limit_8", &lib.heap_limit },
		{ "pcre2_jit_stack_create_8", &lib.stack_create },
		{ "pcre2_jit_stack_assign_8", &lib.stack_assign },
		{ "pcre2_jit_stack_free_8", &lib.stack_free },
		{ "pcre2_get_error_message_8", &lib.message },
	};

	lib.ready = library_open("libpcre2-8.so.0", symbols,
		sizeof symbols / sizeof *symbols, lib.problem, sizeof lib.problem);
}

static int library(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, load_library);
	if (lib.ready)
		return 0;
	err_set(EX_UNAVAILABLE, "cannot use PCRE2: %s", lib.problem);
	return err_hint("install the package libpcre2-8-0");
}

/* --- patterns ---------------------------------------------------------------------------- */

#define SPACE_CLASS "\\t-\\r\\x{85}\\p{Z}"

/* Oniguruma's dialect in PCRE2's: \s by its definition here, \uHHHH; what means something else there is refused. */
static int translate(struct buf *out, const char *from, size_t n, const char *where)
{
	bool in_class = false;

	for (size_t i = 0; i < n; i++) {
		char c = from[i], next = i + 1 < n ? from[i + 1] : '\0';

		if (c == '\\' && next == 's') {
			buf_adds(out, in_class ? SPACE_CLASS : "[" SPACE_CLASS "]");
			i++;
		} else if (c == '\\' && next == 'S' && !in_class) {
			buf_adds(out, "[^" SPACE_CLASS "]");
			i++;
		} else if (c == '\\' && next == 'u' && i + 5 < n) {
			buf_addf(out, "\\x{%.4s}", from + i + 2);
			i += 5;
		} else if (c == '\\' && (next == 'S' || next == 'h' || next == 'H')) {
			return err_set(EX_DATAERR,
				"%s: a pattern has '\\%c', which is not supported", where,
				next);
		} else if (c == '\\' && next) {
			buf_addc(out, c);
			buf_addc(out, next);
			i++;
		} else if (in_class && c == '&' && next == '&') {
			return err_set(EX_DATAERR,
				"%s: a pattern intersects classes with '&&', which is not supported",
				where);
		} else {
			if (c == '[' && !in_class)
				in_class = true;
			else if (c == ']' && in_class)
				in_class = false;
			buf_addc(out, c);
		}
	}
	return 0;
}

void *pcre_compile(const char *pattern, size_t bytes, const char *where)
{
	struct buf text = BUF_INIT;
	pcre2_code *code = NULL;
	PCRE2_UCHAR8 says[128];
	PCRE2_SIZE at;
	int error;

	if (bytes > PRE_PATTERN_BYTES_MAX)
		err_set(EX_DATAERR, "%s: a pattern is longer than %zu bytes", where,
			PRE_PATTERN_BYTES_MAX);
	else if (library() == 0 && translate(&text, pattern, bytes, where) == 0) {
		code = lib.compile((PCRE2_SPTR8)buf_text(&text), text.len,
			PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NO_AUTO_CAPTURE |
				PCRE2_NEVER_BACKSLASH_C,
			&error, &at, NULL);
		if (!code) {
			lib.message(error, says, sizeof says);
			err_set(EX_DATAERR, "%s: a pattern cannot be compiled: %s", where,
				(char *)says);
		} else {
			/* where there is no JIT the interpreter serves */
			lib.jit_compile(code, PCRE2_JIT_COMPLETE);
		}
	}
	buf_release(&text);
	return code;
}

void pcre_free(void *code)
{
	lib.code_free(code);
}

int pre_run_init(struct pre_run *r)
{
	*r = (struct pre_run){ 0 };
	if (library() < 0)
		return -1;
	r->match = lib.data_create(1, NULL);
	r->context = lib.context_create(NULL);
	r->stack = lib.stack_create(32 << 10, JIT_STACK_BYTES, NULL);
	if (!r->match || !r->context) {
		pre_run_release(r);
		return err_set(EX_OSERR, "out of memory for PCRE2");
	}
	lib.match_limit(r->context, STEPS_MAX);
	lib.heap_limit(r->context, HEAP_KIB_MAX);
	if (r->stack)
		lib.stack_assign(r->context, NULL, r->stack);
	return 0;
}

void pre_run_release(struct pre_run *r)
{
	if (r->match)
		lib.data_free(r->match);
	if (r->context)
		lib.context_free(r->context);
	if (r->stack)
		lib.stack_free(r->stack);
	*r = (struct pre_run){ 0 };
}

int pcre_match(const void *code, struct pre_run *r, const char *s, size_t n, size_t from,
	size_t *begin, size_t *end)
{
	int rc = lib.match(code, (PCRE2_SPTR8)s, n, from, PCRE2_NO_UTF_CHECK, r->match,
		r->context);
	PCRE2_SIZE *at;

	if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
		rc = lib.match(code, (PCRE2_SPTR8)s, n, from,
			PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, r->match, r->context);
	if (rc == PCRE2_ERROR_NOMATCH)
		return 0;
	if (rc < 0)
		return err_set(EX_DATAERR,
			"the pre-tokenizer's pattern takes too long on this text (PCRE2 error %d)",
			rc);
	at = lib.ovector(r->match);
	/* \K in a lookahead can put the begin behind the end */
	if (at[0] < from || at[1] < at[0] || at[1] > n)
		return err_set(EX_DATAERR,
			"the pre-tokenizer's pattern matches outside the text");
	*begin = at[0];
	*end = at[1];
	return 1;
}
