/* wild.c - compiles a pattern into steps, and runs them all at once: the set of steps that may come
 * next moves over the text byte by byte, as in an automaton, so that stars need no trying. */
#include "cmd/rnp-register/pack/wild.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"

/* A pattern while it is read. */
struct reader {
	struct wild *w;
	const char *p, *start, *end;
	size_t steps_cap, sets_cap;
};

size_t wild_literal(const char *pattern, size_t len)
{
	size_t n = 0;

	while (n < len && !strchr("*?[\\", pattern[n]))
		n++;
	return n;
}

static void add_step(struct reader *r, enum wild_what what, unsigned char byte)
{
	struct wild *w = r->w;

	w->steps = xgrow(w->steps, &r->steps_cap, w->nsteps + 1, sizeof *w->steps);
	w->steps[w->nsteps++] = (struct wild_step){ .what = what, .byte = byte };
}

static void set_add(struct wild_set *s, unsigned c)
{
	s->bits[c / 64] |= UINT64_C(1) << c % 64;
}

static bool set_has(const struct wild_set *s, unsigned char c)
{
	return s->bits[c / 64] >> c % 64 & 1;
}

static bool is_upper(int c)
{
	return c >= 'A' && c <= 'Z';
}
static bool is_lower(int c)
{
	return c >= 'a' && c <= 'z';
}
static bool is_digit(int c)
{
	return c >= '0' && c <= '9';
}
static bool is_alpha(int c)
{
	return is_upper(c) || is_lower(c);
}
static bool is_alnum(int c)
{
	return is_alpha(c) || is_digit(c);
}
static bool is_blank(int c)
{
	return c == ' ' || c == '\t';
}
static bool is_space(int c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}
static bool is_cntrl(int c)
{
	return c < 0x20 || c == 0x7f;
}
static bool is_graph(int c)
{
	return c > 0x20 && c < 0x7f;
}
static bool is_print(int c)
{
	return c >= 0x20 && c < 0x7f;
}
static bool is_punct(int c)
{
	return is_graph(c) && !is_alnum(c);
}
static bool is_xdigit(int c)
{
	return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* Adds a class of POSIX, of ASCII whatever the locale. Returns false when there is none of the
 * name. */
static bool add_class(struct wild_set *s, const char *name, size_t len)
{
	static const struct {
		const char *name;
		bool (*has)(int c);
	} classes[] = {
		{ "alnum", is_alnum },
		{ "alpha", is_alpha },
		{ "blank", is_blank },
		{ "cntrl", is_cntrl },
		{ "digit", is_digit },
		{ "graph", is_graph },
		{ "lower", is_lower },
		{ "print", is_print },
		{ "punct", is_punct },
		{ "space", is_space },
		{ "upper", is_upper },
		{ "xdigit", is_xdigit },
	};

	for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
		if (strlen(classes[i].name) != len ||
			memcmp(classes[i].name, name, len) != 0)
			continue;
		for (int c = 0; c < 128; c++)
			if (classes[i].has(c))
				set_add(s, (unsigned)c);
		return true;
	}
	return false;
}

/* Reads the byte at r->p, which a backslash may precede. Returns -1 at the end. */
static int read_escaped(struct reader *r)
{
	if (r->p < r->end && *r->p == '\\')
		r->p++;
	return r->p < r->end ? (unsigned char)*r->p : -1;
}

/* Reads one member of a bracket expression at r->p and moves to its last byte. *before: the byte
 * that could begin a range, -1: none. Returns false when the expression is broken. */
static bool read_member(struct reader *r, struct wild_set *s, int *before)
{
	const char *from = r->p, *close;
	int c = (unsigned char)*r->p;

	if (c == '-' && *before >= 0 && r->end - r->p > 1 && r->p[1] != ']') {
		r->p++;
		c = read_escaped(r);
		for (int i = *before; i <= c; i++)
			set_add(s, (unsigned)i);
		*before = -1;
		return c >= 0;
	}
	if (c == '[' && r->end - r->p > 1 && r->p[1] == ':') {
		close = memchr(r->p + 2, ']', (size_t)(r->end - r->p - 2));
		if (!close)
			return false;
		if (close > from + 2 && close[-1] == ':') {
			r->p = close;
			*before = -1;
			return add_class(s, from + 2, (size_t)(close - from - 3));
		}
	}
	c = read_escaped(r);
	if (c < 0)
		return false;
	set_add(s, (unsigned)c);
	*before = c;
	return true;
}

/* Reads a bracket expression; r->p stands behind its "[". A "]" that comes first is a member. */
static bool read_set(struct reader *r)
{
	struct wild_set s = { { 0 } };
	struct wild *w = r->w;
	bool negated, first = true;
	int before = -1;

	negated = r->p < r->end && (*r->p == '!' || *r->p == '^');
	r->p += negated;
	for (; r->p < r->end && (first || *r->p != ']'); r->p++) {
		if (!read_member(r, &s, &before))
			return false;
		first = false;
	}
	if (r->p >= r->end)
		return false;
	r->p++;
	for (int i = 0; i < 4 && negated; i++)
		s.bits[i] = ~s.bits[i];
	s.bits['/' / 64] &= ~(UINT64_C(1) << '/' % 64);
	w->sets = xgrow(w->sets, &r->sets_cap, w->nsets + 1, sizeof *w->sets);
	w->sets[w->nsets] = s;
	add_step(r, WILD_SET, 0);
	w->steps[w->nsteps - 1].set = w->nsets++;
	return true;
}

/* Reads stars; r->p stands at the first. */
static void read_stars(struct reader *r)
{
	const char *from = r->p;
	bool whole;

	while (r->p < r->end && *r->p == '*')
		r->p++;
	whole = r->p - from > 1 && (from == r->start || from[-1] == '/') &&
		(r->p == r->end || *r->p == '/' ||
			(r->end - r->p > 1 && r->p[0] == '\\' && r->p[1] == '/'));
	if (whole && r->p < r->end && *r->p == '/') {
		r->p++;
		add_step(r, WILD_ROOMS, 0);
	} else {
		add_step(r, whole ? WILD_ALL : WILD_STAR, 0);
	}
}

void wild_compile(struct wild *w, const char *pattern, size_t len)
{
	struct reader r = { w, pattern, pattern, pattern + len, 0, 0 };

	memset(w, 0, sizeof *w);
	while (r.p < r.end) {
		unsigned char c = (unsigned char)*r.p;

		if (c == '*') {
			read_stars(&r);
		} else if (c == '?') {
			r.p++;
			add_step(&r, WILD_ANY, 0);
		} else if (c == '[') {
			r.p++;
			if (!read_set(&r))
				goto never;
		} else {
			int byte = read_escaped(&r);

			if (byte < 0)
				goto never;
			r.p++;
			add_step(&r, WILD_BYTE, (unsigned char)byte);
		}
	}
	return;
never:
	add_step(&r, WILD_NEVER, 0);
}

void wild_release(struct wild *w)
{
	free(w->steps);
	free(w->sets);
	memset(w, 0, sizeof *w);
}

static bool repeats(const struct wild_step *s)
{
	return s->what == WILD_STAR || s->what == WILD_ALL || s->what == WILD_ROOMS;
}

/* Marks a step, and what follows steps that may take nothing. */
static void mark(const struct wild *w, unsigned char *now, uint32_t i)
{
	for (;; i++) {
		now[i] = 1;
		if (i == w->nsteps || !repeats(&w->steps[i]))
			return;
	}
}

/* Whether a step takes the byte. */
static bool takes(const struct wild *w, const struct wild_step *s, unsigned char c)
{
	switch (s->what) {
	case WILD_BYTE:
		return c == s->byte;
	case WILD_SET:
		return set_has(&w->sets[s->set], c);
	case WILD_ANY:
	case WILD_STAR:
		return c != '/';
	case WILD_ALL:
	case WILD_ROOMS:
		return true;
	case WILD_NEVER:
		break;
	}
	return false;
}

/* Sets in next what may come after the byte c. Returns false when nothing may. */
static bool advance(const struct wild *w, const unsigned char *now, unsigned char *next,
	unsigned char c)
{
	bool alive = false;

	memset(next, 0, w->nsteps + 1);
	for (uint32_t i = 0; i < w->nsteps; i++) {
		const struct wild_step *s = &w->steps[i];

		/* bit 1: within the rooms, which only a slash ends */
		if (!now[i] || !takes(w, s, c))
			continue;
		alive = true;
		if (s->what == WILD_ROOMS) {
			next[i] |= 2;
			if (c == '/')
				mark(w, next, i + 1);
		} else {
			mark(w, next, repeats(s) ? i : i + 1);
		}
	}
	return alive;
}

#define STEPS_QUICK 256

bool wild_match(const struct wild *w, const char *path, size_t len)
{
	unsigned char quick[2][STEPS_QUICK], *mine = NULL, *now = quick[0],
					     *next = quick[1];
	bool alive = true;

	if (w->nsteps >= STEPS_QUICK) {
		mine = xcalloc(2, w->nsteps + 1);
		now = mine;
		next = mine + w->nsteps + 1;
	}
	memset(now, 0, w->nsteps + 1);
	mark(w, now, 0);
	for (size_t i = 0; i < len && alive; i++) {
		unsigned char *other = now;

		alive = advance(w, now, next, (unsigned char)path[i]);
		now = next;
		next = other;
	}
	alive = alive && now[w->nsteps] & 1;
	free(mine);
	return alive;
}
