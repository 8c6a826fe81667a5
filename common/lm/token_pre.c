#define PCRE2_CODE_UNIT_WIDTH 8
#include "common/lm/token_pre.h"

#include <dlfcn.h>
#include <pcre2.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/err.h"
#include "common/lm/token_names.h"
#include "common/mem.h"

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
	static const struct {
		const char *name;
		void *to;
	} symbols[] = {
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
	void *so = dlopen("libpcre2-8.so.0", RTLD_NOW | RTLD_LOCAL);

	if (!so) {
		snprintf(lib.problem, sizeof lib.problem, "%s", dlerror());
		return;
	}
	for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
		void *f = dlsym(so, symbols[i].name);

		if (!f) {
			snprintf(lib.problem, sizeof lib.problem, "libpcre2-8 lacks %s",
				symbols[i].name);
			return;
		}
		memcpy(symbols[i].to, &f, sizeof f);
	}
	lib.ready = true;
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

static void *compile(const char *pattern, size_t bytes, const char *where)
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

int pre_add(struct pre *p, const char *pattern, size_t bytes, enum pre_keep keep,
	const char *where)
{
	struct pre_step *step;
	void *code;

	if (p->count == PRE_STEPS_MAX)
		return err_set(EX_DATAERR, "%s: more than %d steps of a pre-tokenizer",
			where, PRE_STEPS_MAX);
	code = compile(pattern, bytes, where);
	if (!code)
		return -1;
	step = &p->steps[p->count++];
	*step = (struct pre_step){ .pattern = xstrndup(pattern, bytes),
		.keep = keep,
		.code = code };
	return 0;
}

void pre_release(struct pre *p)
{
	for (unsigned i = 0; i < p->count; i++) {
		free(p->steps[i].pattern);
		lib.code_free(p->steps[i].code);
	}
	*p = (struct pre){ 0 };
}

/* --- names ------------------------------------------------------------------------------- */

/* The i-th of "a|b|c"; returns its length, 0 when there is none. */
static size_t name_in(const char *names, size_t i, const char **name)
{
	for (; i; i--) {
		names = strchr(names, '|');
		if (!names)
			return 0;
		names++;
	}
	*name = names;
	return strcspn(names, "|");
}

const char *pre_name_at(size_t i)
{
	static _Thread_local char text[64];

	for (const struct pre_family *f = pre_families; f->names; f++) {
		const char *name;
		size_t len;

		for (size_t j = 0; (len = name_in(f->names, j, &name)); j++)
			if (i-- == 0) {
				snprintf(text, sizeof text, "%.*s", (int)len, name);
				return text;
			}
	}
	return NULL;
}

static const struct pre_family *family_of(const char *wanted)
{
	for (const struct pre_family *f = pre_families; f->names; f++) {
		const char *name;
		size_t len;

		for (size_t j = 0; (len = name_in(f->names, j, &name)); j++)
			if (len == strlen(wanted) && memcmp(name, wanted, len) == 0)
				return f;
	}
	return NULL;
}

static void set_hand(struct pre *p, const struct pre_family *f)
{
	struct pre_step *last = &p->steps[p->count - 1];

	p->steps[f->hand_at].how = f->hand;
	last->ascii = f->ascii;
	last->digits = f->digits;
	p->lines_apart = !f->lines_together;
}

int pre_by_name(struct pre *p, const char *name, struct pre_habits *habits)
{
	const struct pre_family *f = family_of(name);

	*p = (struct pre){ 0 };
	if (!f)
		return err_set(EX_DATAERR, "unknown pre-tokenizer '%s'", name);
	*habits = f->habits;
	for (size_t i = 0; f->patterns[i]; i++)
		if (pre_add(p, f->patterns[i], strlen(f->patterns[i]), PRE_ISOLATED,
			    name) < 0) {
			pre_release(p);
			return -1;
		}
	set_hand(p, f);
	snprintf(p->name, sizeof p->name, "%s", name);
	return 0;
}

/* The pattern with the usual way to write "'s, 't ... in either case" as ours. */
static char *plain_contraction(const char *pattern)
{
	static const char usual[] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
	const size_t n = sizeof usual - 1;
	struct buf out = BUF_INIT;

	while (*pattern)
		if (strncmp(pattern, usual, n) == 0) {
			buf_adds(&out, pre_contraction);
			pattern += n;
		} else {
			buf_addc(&out, *pattern++);
		}
	return buf_take(&out);
}

static bool same_steps(const struct pre *p, const struct pre_family *f)
{
	for (unsigned i = 0; i < p->count; i++) {
		char *plain = plain_contraction(p->steps[i].pattern);
		bool same = f->patterns[i] && strcmp(plain, f->patterns[i]) == 0 &&
			(p->steps[i].keep == PRE_ISOLATED ||
				(p->steps[i].keep == PRE_MATCHES_ONLY && p->count == 1));

		free(plain);
		if (!same)
			return false;
	}
	return p->count && !f->patterns[p->count];
}

void pre_find_name(struct pre *p, bool ignore_merges)
{
	const struct pre_family *found = NULL;

	for (const struct pre_family *f = pre_families; f->names; f++)
		if (!f->habits.no_bytes && same_steps(p, f) &&
			(!found || found->habits.ignore_merges != ignore_merges))
			found = f;
	if (found) {
		set_hand(p, found);
		if (found->habits.ignore_merges == ignore_merges)
			snprintf(p->name, sizeof p->name, "%.*s",
				(int)strcspn(found->names, "|"), found->names);
		return;
	}
	for (const struct pre_alias *a = pre_aliases; a->name && p->count == 1; a++) {
		char *plain = plain_contraction(p->steps[0].pattern);

		if (strcmp(plain, a->pattern) == 0) {
			snprintf(p->name, sizeof p->name, "%s", a->name);
			p->lines_apart = true;
		}
		free(plain);
	}
}

/* --- running them ------------------------------------------------------------------------ */

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

/* The next match at or after from; 1, 0, or -1. */
static int match_next(const struct pre_step *step, struct pre_run *r, const char *s,
	size_t n, size_t from, size_t *begin, size_t *end)
{
	int rc = lib.match(step->code, (PCRE2_SPTR8)s, n, from, PCRE2_NO_UTF_CHECK,
		r->match, r->context);
	PCRE2_SIZE *at;

	if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
		rc = lib.match(step->code, (PCRE2_SPTR8)s, n, from,
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

static size_t char_bytes(unsigned char lead)
{
	return lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}

struct splitter {
	const struct pre *pre;
	struct pre_run *run;
	pre_fn fn;
	void *ctx;
};

static int split(const struct splitter *sp, unsigned at, const char *s, size_t n);

static int hand_on(const struct splitter *sp, unsigned next, const char *s, size_t begin,
	size_t end)
{
	if (begin == end)
		return 0;
	if (next == sp->pre->count)
		return sp->fn(sp->ctx, s + begin, end - begin);
	return split(sp, next, s + begin, end - begin);
}

/* --- the usual patterns by hand, for ASCII ----------------------------------------------- */

enum { OTHER, LETTER, NUMBER, SPACE, HIGH }; /* HIGH: not ASCII, the pattern has to say */

static unsigned char class_of(const char *s, size_t n, size_t i)
{
	unsigned char c;

	if (i >= n)
		return SPACE + 100; /* the end is of no class */
	c = (unsigned char)s[i];
	if ((c | 32) >= 'a' && (c | 32) <= 'z')
		return LETTER;
	if (c >= '0' && c <= '9')
		return NUMBER;
	if (c == ' ' || (c >= '\t' && c <= '\r'))
		return SPACE;
	return c < 0x80 ? OTHER : HIGH;
}

/* The end of the run of one class from i on; 0 where something beyond ASCII follows, which may belong to it. */
static size_t run_end(const char *s, size_t n, size_t i, unsigned char class)
{
	unsigned char now;

	while ((now = class_of(s, n, i)) == class)
		i++;
	return now == HIGH ? 0 : i;
}

/* "'s", "'re" and so on behind the apostrophe at i: the end, or 0. */
static size_t contraction_end(const char *s, size_t n, size_t i, int fold)
{
	char a, b;

	if (i + 1 >= n)
		return 0;
	a = (char)(s[i + 1] | fold);
	if (a == 's' || a == 't' || a == 'm' || a == 'd')
		return i + 2;
	if (i + 2 >= n)
		return 0;
	b = (char)(s[i + 2] | fold);
	return (b == 'e' && (a == 'r' || a == 'v')) || (b == 'l' && a == 'l') ? i + 3 : 0;
}

/* \\s+(?!\\S)|\\s+, from a blank on */
static size_t blanks_end(const char *s, size_t n, size_t i, bool lines)
{
	size_t end = run_end(s, n, i, SPACE);

	for (size_t k = end; lines && k > i; k--)
		if (s[k - 1] == '\n' || s[k - 1] == '\r')
			return k;
	return end && end < n && end - i > 1 ? end - 1 : end;
}

static size_t gpt2_end(const char *s, size_t n, size_t i)
{
	size_t begin = i + (s[i] == ' '), end;
	unsigned char class = class_of(s, n, begin);

	if (s[i] == '\'' && (end = contraction_end(s, n, i, 0)))
		return end;
	if (class <= NUMBER)
		return run_end(s, n, begin, class);
	return class == HIGH ? 0 : blanks_end(s, n, i, false);
}

static size_t llama_end(const char *s, size_t n, size_t i, unsigned digits)
{
	unsigned char class = class_of(s, n, i), next;
	size_t begin, end;

	if (s[i] == '\'' && (end = contraction_end(s, n, i, 32)))
		return end;
	if (class == HIGH)
		return 0;
	if (class == LETTER)
		return run_end(s, n, i, LETTER);
	if (class == NUMBER) {
		for (end = i;
			class_of(s, n, end) == NUMBER && (!digits || end - i < digits);)
			end++;
		return (!digits || end - i < digits) && class_of(s, n, end) == HIGH ? 0 :
										      end;
	}
	next = class_of(s, n, i + 1);
	if (next == HIGH)
		return 0;
	if (next == LETTER && s[i] != '\n' && s[i] != '\r')
		return run_end(s, n, i + 1, LETTER);
	begin = i + (s[i] == ' ');
	if (class_of(s, n, begin) != OTHER)
		return blanks_end(s, n, i, true);
	end = run_end(s, n, begin, OTHER);
	while (end && end < n && (s[end] == '\n' || s[end] == '\r'))
		end++;
	return end;
}

static int split_ascii(const struct splitter *sp, unsigned at, const char *s, size_t n)
{
	const struct pre_step *step = &sp->pre->steps[at];
	size_t begin = 0, end, from;

	while (begin < n) {
		end = step->ascii == PRE_ASCII_GPT2 ?
			gpt2_end(s, n, begin) :
			llama_end(s, n, begin, step->digits);
		if (!end) { /* both patterns match at every place */
			int found = match_next(step, sp->run, s, n, begin, &from, &end);

			if (found < 0)
				return -1;
			if (!found || end == begin)
				end = n;
		}
		if (hand_on(sp, at + 1, s, begin, end) < 0)
			return -1;
		begin = end;
	}
	return 0;
}

static int split_pattern(const struct splitter *sp, unsigned at, const char *s, size_t n)
{
	const struct pre_step *step = &sp->pre->steps[at];
	size_t begin, end, done = 0, from = 0;
	int found;

	while (from <= n &&
		(found = match_next(step, sp->run, s, n, from, &begin, &end)) != 0) {
		int rc = 0;

		if (found < 0)
			return -1;
		switch (step->keep) {
		case PRE_ISOLATED:
		case PRE_REMOVED:
			rc = hand_on(sp, at + 1, s, done, begin);
			if (rc == 0 && step->keep == PRE_ISOLATED)
				rc = hand_on(sp, at + 1, s, begin, end);
			done = end;
			break;
		case PRE_WITH_PREVIOUS:
			rc = hand_on(sp, at + 1, s, done, end);
			done = end;
			break;
		case PRE_WITH_NEXT:
			rc = hand_on(sp, at + 1, s, done, begin);
			done = begin;
			break;
		case PRE_MATCHES_ONLY:
			rc = hand_on(sp, at + 1, s, begin, end);
			done = n;
			break;
		}
		if (rc < 0)
			return -1;
		/* an empty match is a cut; the search goes on behind the next character */
		from = end > begin ? end :
			end < n    ? end + char_bytes((unsigned char)s[end]) :
				     n + 1;
	}
	return step->keep == PRE_MATCHES_ONLY ? 0 : hand_on(sp, at + 1, s, done, n);
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* ASCII digits in threes from the end of their run. */
static int split_triples(const struct splitter *sp, unsigned at, const char *s, size_t n)
{
	size_t done = 0, i = 0;

	while (i < n) {
		size_t begin = i;

		while (i < n && is_digit(s[i]))
			i++;
		if (i == begin) {
			i++;
			continue;
		}
		for (size_t cut = begin + (i - begin) % 3; cut < i; cut += 3) {
			if (hand_on(sp, at + 1, s, done, cut) < 0)
				return -1;
			done = cut;
		}
	}
	return hand_on(sp, at + 1, s, done, n);
}

/* Runs of \p{N}, which the step's pattern finds one group at a time: cut after each group only. */
static int split_ends(const struct splitter *sp, unsigned at, const char *s, size_t n)
{
	size_t done = 0, i = 0, ends[3], run;

	while (i < n) {
		size_t j = i;

		/* how many characters of \p{N} follow, by a pattern of one of them */
		for (run = 0; j < n; run++) {
			size_t len = char_bytes((unsigned char)s[j]), b, e;
			int is = s[j] & 0x80 ? match_next(&sp->pre->steps[at], sp->run,
						       s + j, len, 0, &b, &e) :
					       is_digit(s[j]);

			if (is < 0)
				return -1;
			if (!is)
				break;
			j += len;
		}
		if (!run) {
			i += char_bytes((unsigned char)s[i]);
			continue;
		}
		for (size_t k = 0; k < run; k++) {
			i += char_bytes((unsigned char)s[i]);
			ends[k % 3] = i;
			if ((run - k - 1) % 3 == 0) {
				if (hand_on(sp, at + 1, s, done, ends[k % 3]) < 0)
					return -1;
				done = i;
			}
		}
	}
	return hand_on(sp, at + 1, s, done, n);
}

static int split(const struct splitter *sp, unsigned at, const char *s, size_t n)
{
	switch (sp->pre->steps[at].how) {
	case PRE_TRIPLES:
		return split_triples(sp, at, s, n);
	case PRE_TRIPLES_ENDS:
		return split_ends(sp, at, s, n);
	case PRE_PATTERN:
		break;
	}
	return sp->pre->steps[at].ascii && sp->pre->steps[at].keep == PRE_ISOLATED ?
		split_ascii(sp, at, s, n) :
		split_pattern(sp, at, s, n);
}

size_t pre_utf8_prefix(const char *text, size_t bytes)
{
	const unsigned char *s = (const unsigned char *)text;
	size_t i = 0;

	while (i < bytes) {
		uint64_t eight;
		size_t n;
		uint32_t c;

		if (bytes - i >= 8) {
			memcpy(&eight, s + i, 8);
			if (!(eight & UINT64_C(0x8080808080808080))) {
				i += 8;
				continue;
			}
		}
		if (s[i] < 0x80) {
			i++;
			continue;
		}
		n = char_bytes(s[i]);
		if (n == 1 || s[i] > 0xf4 || bytes - i < n)
			return i;
		c = s[i] & (0x7fu >> n);
		for (size_t k = 1; k < n; k++) {
			if ((s[i + k] & 0xc0) != 0x80)
				return i;
			c = c << 6 | (s[i + k] & 0x3f);
		}
		if (c < (n == 2                ? 0x80u :
					n == 3 ? 0x800u :
						 0x10000u) ||
			c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
			return i;
		i += n;
	}
	return i;
}

int pre_split(const struct pre *p, struct pre_run *r, const char *text, size_t bytes,
	pre_fn fn, void *ctx)
{
	const struct splitter sp = { p, r, fn, ctx };

	while (bytes) {
		size_t whole = pre_utf8_prefix(text, bytes), broken = whole;

		if (whole &&
			(p->count ? split(&sp, 0, text, whole) : fn(ctx, text, whole)) <
				0)
			return -1;
		while (broken < bytes &&
			pre_utf8_prefix(text + broken,
				bytes - broken < 4 ? bytes - broken : 4) == 0)
			broken++;
		if (broken > whole && fn(ctx, text + whole, broken - whole) < 0)
			return -1;
		text += broken;
		bytes -= broken;
	}
	return 0;
}
