/* pcre.c - PCRE2, opened when the first tokenizer needs it. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "common/lm/token/pcre.h"

#include <ctype.h>
#include <pcre2.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/err.h"
#include "kernels/dev/library.h"

/* PCRE2 limits the steps of one match, but does not report how many one took. An untrusted
 * pattern may take many on every byte, so a match first gets a small limit, which our own
 * patterns rarely exceed, and then four times as many, repeatedly: tries beyond the first are
 * paid from a budget for the whole text, and cost at most about six times what the match takes. */
#define STEPS_MAX       10000000u /* limit of one match */
#define STEPS_FIRST     256u
#define STEPS_MORE      4
#define BUDGET_TEXT     1000000 /* steps per text, and per byte of it */
#define BUDGET_BYTE     1000
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

/* \s and \w as in Oniguruma's tables (make_unicode_property_data.py); PCRE2's \w lacks most
 * marks and connectors. */
#define SPACE_CLASS "\\t-\\r\\x{85}\\p{Z}"
#define WORD_CLASS  "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"
#define IN_WORD     "(?=[" WORD_CLASS "])"
#define NOT_WORD    "(?![" WORD_CLASS "])"
#define BEHIND_WORD "(?<=[" WORD_CLASS "])"
#define NOT_BEHIND  "(?<![" WORD_CLASS "])"

/* A translation in progress, from Oniguruma's dialect in Ruby's syntax, as Hugging Face uses
 * it, to PCRE2's. */
struct dialect {
	struct buf *out;
	const char *from, *where;
	size_t n, i;
	unsigned depth; /* nesting of classes: 0 outside */
};

static char at(const struct dialect *d, size_t ahead)
{
	return d->i + ahead < d->n ? d->from[d->i + ahead] : '\0';
}

static int refuse(const struct dialect *d, size_t bytes)
{
	return err_set(EX_DATAERR, "%s: a pattern has '%.*s', which is not supported",
		d->where, (int)(bytes < d->n - d->i ? bytes : d->n - d->i),
		d->from + d->i);
}

/* Replaces the next bytes. Returns 0. */
static int put(struct dialect *d, const char *text, size_t bytes)
{
	buf_adds(d->out, text);
	d->i += bytes;
	return 0;
}

static int copy(struct dialect *d, size_t bytes)
{
	buf_add(d->out, d->from + d->i, bytes);
	d->i += bytes;
	return 0;
}

/* \p{Han} is a script in Oniguruma, but includes script extensions in PCRE2. */
static int property(struct dialect *d)
{
	static const char *const same[] = { "Any", "Alphabetic", "Uppercase", "Lowercase",
		"White_Space" };
	const char *name = d->from + d->i + 3, *end;
	bool negated = at(d, 1) == 'P';
	size_t len;

	end = at(d, 2) == '{' ? memchr(name, '}', d->n - d->i - 3) : NULL;
	if (!end)
		return refuse(d, 3);
	if (name < end && *name == '^') {
		negated = !negated;
		name++;
	}
	len = (size_t)(end - name);
	for (size_t k = 0; k < len; k++)
		if (!isalnum((unsigned char)name[k]) && name[k] != '_')
			return refuse(d, (size_t)(end - (d->from + d->i)) + 1);
	buf_addf(d->out, negated ? "\\P{" : "\\p{");
	if (len > 2) {
		bool script = true;

		for (size_t k = 0; k < sizeof same / sizeof *same; k++)
			if (strlen(same[k]) == len && memcmp(same[k], name, len) == 0)
				script = false;
		buf_adds(d->out, script ? "sc:" : "");
	}
	buf_add(d->out, name, len);
	buf_addc(d->out, '}');
	d->i = (size_t)(end - d->from) + 1;
	return 0;
}

static int escape(struct dialect *d)
{
	char c = at(d, 1);
	bool in = d->depth > 0;

	switch (c) {
	case 's':
		return put(d, in ? SPACE_CLASS : "[" SPACE_CLASS "]", 2);
	case 'w':
		return put(d, in ? WORD_CLASS : "[" WORD_CLASS "]", 2);
	case 'S':
		return in ? refuse(d, 2) : put(d, "[^" SPACE_CLASS "]", 2);
	case 'W':
		return in ? refuse(d, 2) : put(d, "[^" WORD_CLASS "]", 2);
	case 'b':
		return put(d,
			in ? "\\x08" :
			     "(?:" BEHIND_WORD NOT_WORD "|" NOT_BEHIND IN_WORD ")",
			2);
	case 'B':
		return in ?
			refuse(d, 2) :
			put(d, "(?:" BEHIND_WORD IN_WORD "|" NOT_BEHIND NOT_WORD ")", 2);
	case 'v': /* a class of blanks in PCRE2 */
		return put(d, "\\x0b", 2);
	case 'p':
	case 'P':
		return property(d);
	case 'u':
		if (d->n - d->i < 6)
			return refuse(d, 6);
		buf_addf(d->out, "\\x{%.4s}", d->from + d->i + 2);
		d->i += 6;
		return 0;
	case 'x': /* its braces are no repetition */
		return copy(d, at(d, 2) == '{' ? 3 : 2);
	case '\0':
		return refuse(d, 1);
	}
	if (isalnum((unsigned char)c) && !strchr(in ? "dDtnrfae" : "dDtnrfaeAzZGKR", c))
		return refuse(d, 2);
	return copy(d, 2);
}

/* Translates "(" and the option that follows it. Oniguruma's and PCRE2's other options share
 * letters but not meanings; in Oniguruma an isolated option also applies beyond a "|". */
static int group(struct dialect *d)
{
	static const char *const known[] = { "(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!",
		"(?i:", "(?-i:" };

	if (at(d, 1) == '*')
		return refuse(d, 2);
	if (at(d, 1) != '?')
		return copy(d, 1);
	for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
		size_t len = strlen(known[k]);

		if (d->n - d->i >= len && memcmp(d->from + d->i, known[k], len) == 0)
			return copy(d, len);
	}
	return d->i == 0 && d->n >= 4 && memcmp(d->from, "(?i)", 4) == 0 ? copy(d, 4) :
									   refuse(d, 3);
}

/* Translates {2,5}: Oniguruma has no possessive form of it, {2}? means (?:...{2})?, and {,5}
 * begins at 0. */
static int interval(struct dialect *d)
{
	size_t k = 1;
	bool comma = false;

	while (isdigit((unsigned char)at(d, k)) || at(d, k) == ',')
		comma |= at(d, k++) == ',';
	if (at(d, k) == '}' && k > 1 &&
		(at(d, 1) == ',' || at(d, k + 1) == '+' ||
			(!comma && at(d, k + 1) == '?')))
		return refuse(d, k + 2);
	return copy(d, 1);
}

/* Translates a class within a class to its characters, except a negated or empty one and
 * [:alpha:]. */
static int open_class(struct dialect *d)
{
	size_t k = 1 + (at(d, 1) == '^');

	if (at(d, k) == ']')
		return refuse(d, k + 1);
	if (!d->depth++)
		return copy(d, k);
	if (k > 1 || at(d, 1) == ':' || at(d, 1) == '-' || d->from[d->i - 1] == '-')
		return refuse(d, 2);
	d->i++;
	return 0;
}

static int close_class(struct dialect *d)
{
	if (!--d->depth)
		return copy(d, 1);
	/* its end would begin a range */
	if (at(d, 1) == '-' || d->from[d->i - 1] == '-')
		return refuse(d, 2);
	d->i++;
	return 0;
}

/* Refuses constructs with another meaning in PCRE2 that are not translated here. */
static int translate(struct buf *out, const char *from, size_t n, const char *where)
{
	struct dialect d = { .out = out, .from = from, .where = where, .n = n };
	int rc = 0;

	while (rc == 0 && d.i < n)
		switch (from[d.i]) {
		case '\\':
			rc = escape(&d);
			break;
		case '[':
			rc = open_class(&d);
			break;
		case ']':
			rc = d.depth ? close_class(&d) : copy(&d, 1);
			break;
		case '&':
			rc = d.depth && at(&d, 1) == '&' ? refuse(&d, 2) : copy(&d, 1);
			break;
		case '(':
			rc = d.depth ? copy(&d, 1) : group(&d);
			break;
		case '{':
			rc = d.depth ? copy(&d, 1) : interval(&d);
			break;
		default:
			rc = copy(&d, 1);
		}
	return rc;
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
			/* without JIT the interpreter is used */
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

void pcre_begin(struct pre_run *r, size_t bytes)
{
	r->steps = BUDGET_TEXT + BUDGET_BYTE * (int64_t)bytes;
}

/* Tries a match with at most that many steps. */
static int try_match(const void *code, struct pre_run *r, const char *s, size_t n,
	size_t from, uint32_t steps)
{
	int rc;

	lib.match_limit(r->context, steps);
	rc = lib.match(code, (PCRE2_SPTR8)s, n, from, PCRE2_NO_UTF_CHECK, r->match,
		r->context);
	if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
		rc = lib.match(code, (PCRE2_SPTR8)s, n, from,
			PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, r->match, r->context);
	return rc;
}

int pcre_match(const void *code, struct pre_run *r, const char *s, size_t n, size_t from,
	size_t *begin, size_t *end)
{
	uint32_t steps = STEPS_FIRST;
	int rc = try_match(code, r, s, n, from, steps);
	PCRE2_SIZE *at;

	while (rc == PCRE2_ERROR_MATCHLIMIT && steps < STEPS_MAX && r->steps > 0) {
		steps = steps < STEPS_MAX / STEPS_MORE ? steps * STEPS_MORE : STEPS_MAX;
		r->steps -= steps;
		rc = try_match(code, r, s, n, from, steps);
	}
	if (rc == PCRE2_ERROR_NOMATCH)
		return 0;
	if (rc < 0)
		return err_set(EX_DATAERR,
			"the pre-tokenizer's pattern takes too long on this text (PCRE2 error %d)",
			rc);
	at = lib.ovector(r->match);
	/* \K in a lookahead can put the start after the end */
	if (at[0] < from || at[1] < at[0] || at[1] > n)
		return err_set(EX_DATAERR,
			"the pre-tokenizer's pattern matches outside the text");
	*begin = at[0];
	*end = at[1];
	return 1;
}
