/* pre.c - splits a text before its words are merged: patterns by name, run by PCRE2, and
 * hand-written scanners for the usual ones where text is ASCII. */
#include "common/lm/token/pre.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/lm/token/names.h"
#include "common/lm/token/pcre.h"
#include "common/base/mem.h"

int pre_add(struct pre *p, const char *pattern, size_t bytes, enum pre_keep keep,
	const char *where)
{
	struct pre_step *step;
	void *code;

	if (p->count == PRE_STEPS_MAX)
		return err_set(EX_DATAERR, "%s: more than %d steps of a pre-tokenizer",
			where, PRE_STEPS_MAX);
	code = pcre_compile(pattern, bytes, where);
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
		pcre_free(p->steps[i].code);
	}
	*p = (struct pre){ 0 };
}

/* --- names ------------------------------------------------------------------------------- */

/* Finds the i-th of "a|b|c"; returns its length, 0 when there is none. */
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

/* Rewrites a pattern so that the usual spelling of "'s, 't ... in either case" becomes ours. */
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

enum { OTHER, LETTER, NUMBER, SPACE, HIGH }; /* HIGH: not ASCII, left to the pattern */

static unsigned char class_of(const char *s, size_t n, size_t i)
{
	unsigned char c;

	if (i >= n)
		return SPACE + 100; /* the end has no class */
	c = (unsigned char)s[i];
	if ((c | 32) >= 'a' && (c | 32) <= 'z')
		return LETTER;
	if (c >= '0' && c <= '9')
		return NUMBER;
	if (c == ' ' || (c >= '\t' && c <= '\r'))
		return SPACE;
	return c < 0x80 ? OTHER : HIGH;
}

/* Returns the end of the run of one class from i on; 0 when a character beyond ASCII follows,
 * which may belong to it. */
static size_t run_end(const char *s, size_t n, size_t i, unsigned char class)
{
	unsigned char now;

	while ((now = class_of(s, n, i)) == class)
		i++;
	return now == HIGH ? 0 : i;
}

/* Matches "'s", "'re" and so on after the apostrophe at i: returns the end, or 0. */
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
		if (!end) { /* both patterns match at every position */
			int found = pcre_match(step->code, sp->run, s, n, begin, &from,
				&end);

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
		(found = pcre_match(step->code, sp->run, s, n, from, &begin, &end)) !=
			0) {
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
		/* an empty match is a split point; the search continues after the next
		 * character */
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

/* Splits ASCII digits in threes from the end of their run. */
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

/* Splits runs of \p{N}, which the step's pattern finds one group at a time: after each group
 * only. */
static int split_ends(const struct splitter *sp, unsigned at, const char *s, size_t n)
{
	size_t done = 0, i = 0, ends[3], run;

	while (i < n) {
		size_t j = i;

		/* counts the characters of \p{N} that follow, by a pattern for one of them */
		for (run = 0; j < n; run++) {
			size_t len = char_bytes((unsigned char)s[j]), b, e;
			int is = s[j] & 0x80 ? pcre_match(sp->pre->steps[at].code,
						       sp->run, s + j, len, 0, &b, &e) :
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

	pcre_begin(r, bytes);
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
