/* regex.c - regular expressions of ECMA-262 as automata: parsed into a tree, the tree into a
 * nondeterministic automaton (Thompson, 1968), and that into sets of its states;
 * long because these three are one thing. */
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/fnv.h"
#include "common/base/mem.h"
#include "common/base/utf8.h"
#include "common/lm/grammar/dfa.h"
#include "common/lm/grammar/property.h"

#define AHEAD_MAX      8 /* look-aheads of a pattern */
#define NESTING_MAX    64
#define NFA_MAX        20000
#define REPEAT_MAX     10000
#define PROPERTY_STEPS 300000 /* to find the characters of one that is not known yet */
#define COMPILE_STEPS  1000   /* of any pattern, for its tables */
#define TOP            0x110000u

struct range {
	uint32_t low, high; /* inclusive */
};

struct set {
	struct range *ranges;
	size_t n, cap;
};

enum tree_kind { EMPTY, CHARS, CAT, ALT, REPEAT, BEGIN, END };

struct tree {
	enum tree_kind kind;
	struct tree *a, *b;
	uint32_t min, max; /* REPEAT; max UINT32_MAX: no bound */
	uint32_t set;      /* CHARS */
};

enum nfa_kind { NFA_CHARS, NFA_SPLIT, NFA_BEGIN, NFA_END, NFA_MATCH };

struct nfa {
	enum nfa_kind kind;
	uint32_t set, out, out2;
};

struct regex {
	const char *s, *end, *where;
	struct arena arena;
	unsigned nesting;
	bool folds; /* (?i): the case of letters does not matter */
	struct set *sets;
	size_t set_count, sets_cap;
	struct nfa *nfa;
	size_t nfa_count, nfa_cap;
	struct lm_budget *b;
	uint64_t held; /* words of memory that are freed when it is compiled */
};

static int refuse(const struct regex *r, const char *what)
{
	return err_set(EX_DATAERR, "%s: %s", r->where, what);
}

/* --- sets of characters ------------------------------------------------------------------- */

static void add(struct set *s, uint32_t low, uint32_t high)
{
	s->ranges = xgrow(s->ranges, &s->cap, s->n + 1, sizeof *s->ranges);
	s->ranges[s->n++] = (struct range){ low, high };
}

static int by_low(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	return (x->low > y->low) - (x->low < y->low);
}

static void negate(struct set *s)
{
	struct set out = { 0 };
	uint32_t from = 0;

	if (s->n)
		qsort(s->ranges, s->n, sizeof *s->ranges, by_low);
	for (size_t i = 0; i < s->n; i++) {
		if (s->ranges[i].low > from)
			add(&out, from, s->ranges[i].low - 1);
		if (s->ranges[i].high + 1 > from)
			from = s->ranges[i].high + 1;
	}
	if (from < TOP)
		add(&out, from, TOP - 1);
	free(s->ranges);
	*s = out;
}

/* \d \w \s and their negations. Returns whether c is one of them. */
static bool add_class(struct set *s, char c)
{
	static const struct range space[] = { { 9, 13 }, { 32, 32 }, { 0xa0, 0xa0 },
		{ 0x1680, 0x1680 }, { 0x2000, 0x200a }, { 0x2028, 0x2029 },
		{ 0x202f, 0x202f }, { 0x205f, 0x205f }, { 0x3000, 0x3000 },
		{ 0xfeff, 0xfeff } };
	static const struct range word[] = { { '0', '9' }, { 'A', 'Z' }, { '_', '_' },
		{ 'a', 'z' } };
	const struct range *from = word;
	size_t n = 4;
	struct set class = { 0 };

	if (!strchr("dDwWsS", c))
		return false;
	if (c == 'd' || c == 'D')
		n = 1;
	if (c == 's' || c == 'S') {
		from = space;
		n = sizeof space / sizeof *space;
	}
	for (size_t i = 0; i < n; i++)
		add(&class, from[i].low, from[i].high);
	if (c < 'a')
		negate(&class);
	for (size_t i = 0; i < class.n; i++)
		add(s, class.ranges[i].low, class.ranges[i].high);
	free(class.ranges);
	return true;
}

/* \p{...} and \P{...}, after the backslash. Returns 1, 0: it is none of them, or -1. */
static int take_property(struct regex *r, struct set *s)
{
	const char *close;
	struct set class = { 0 };
	const uint32_t *bounds;
	size_t n;

	if (r->end - r->s < 3 || (*r->s | 32) != 'p' || r->s[1] != '{')
		return 0;
	close = memchr(r->s, '}', (size_t)(r->end - r->s));
	if (close && !property_is_known(r->s + 2, (size_t)(close - r->s - 2)) &&
		dfa_spend(r->b, 0, PROPERTY_STEPS) < 0)
		return -1;
	n = close ? property_find(r->s + 2, (size_t)(close - r->s - 2), &bounds) : 0;
	if (!n) {
		err_clear();
		return refuse(r,
			"a pattern with a property of characters that is not known");
	}
	/* most have hundreds of ranges, which are kept, sorted and searched */
	if (dfa_spend(r->b, 0, 8 * n) < 0 || dfa_hold(r->b, 4 * n) < 0)
		return -1;
	r->held += 4 * n;
	for (size_t i = 0; i < n; i++)
		add(&class, bounds[2 * i], bounds[2 * i + 1]);
	if (*r->s == 'P')
		negate(&class);
	for (size_t i = 0; i < class.n; i++)
		add(s, class.ranges[i].low, class.ranges[i].high);
	free(class.ranges);
	r->s = close + 1;
	return 1;
}

/* Adds the letters of ASCII in low..high in their other case. Returns 0, or -1: there are other
 * letters, of whose cases we know nothing. */
static int add_other_case(struct regex *r, struct set *s, uint32_t low, uint32_t high)
{
	for (uint32_t c = low; c <= high && c < 0x80; c++)
		if ((c | 32) >= 'a' && (c | 32) <= 'z')
			add(s, c ^ 32, c ^ 32);
	return high < 0x80 ?
		0 :
		refuse(r,
			"a pattern with (?i) and characters beyond ASCII, which is not supported");
}

static int add_range(struct regex *r, struct set *s, uint32_t low, uint32_t high)
{
	add(s, low, high);
	return r->folds ? add_other_case(r, s, low, high) : 0;
}

static uint32_t take_char(struct regex *r)
{
	const unsigned char *p = (const unsigned char *)r->s;
	unsigned n = *p < 0x80 ? 1 : *p < 0xe0 ? 2 : *p < 0xf0 ? 3 : 4;
	uint32_t c = n == 1 ? *p : *p & (0x7fu >> n);

	for (unsigned i = 1; i < n; i++)
		c = c << 6 | (p[i] & 63u);
	r->s += n;
	return c;
}

static int take_hex(struct regex *r, unsigned digits, uint32_t *out)
{
	*out = 0;
	for (unsigned i = 0; i < digits; i++) {
		char c = r->s < r->end ? *r->s++ : 0;

		if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') ||
			    (c >= 'A' && c <= 'F')))
			return refuse(r, "a pattern with a malformed escape");
		*out = *out << 4 | (uint32_t)(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
	}
	return 0;
}

/* An escape that stands for one character, after the backslash. */
static int take_escape(struct regex *r, uint32_t *out)
{
	static const char from[] = "ntrfv0", to[] = "\n\t\r\f\v\0";
	const char *known;
	uint32_t low;
	char c;

	if (r->s == r->end)
		return refuse(r, "a pattern that ends in a backslash");
	c = *r->s;
	known = strchr(from, c);
	if (c && known) {
		r->s++;
		*out = (unsigned char)to[known - from];
		return 0;
	}
	if (c == 'x' || (c == 'u' && r->end - r->s > 1 && r->s[1] != '{')) {
		r->s++;
		if (take_hex(r, c == 'x' ? 2 : 4, out) < 0)
			return -1;
		if (*out >= 0xd800 && *out < 0xdc00 && r->end - r->s >= 6 &&
			r->s[0] == '\\' && r->s[1] == 'u') {
			r->s += 2;
			if (take_hex(r, 4, &low) < 0)
				return -1;
			*out = 0x10000 + ((*out & 0x3ff) << 10) + (low & 0x3ff);
		}
		return 0;
	}
	if (c == 'u') {
		const char *close = memchr(r->s, '}', (size_t)(r->end - r->s));
		size_t digits = close ? (size_t)(close - r->s) - 2 : 0;

		if (digits < 1 || digits > 6)
			return refuse(r, "a pattern with a malformed escape");
		r->s += 2;
		if (take_hex(r, (unsigned)digits, out) < 0)
			return -1;
		r->s++;
		return *out >= TOP ? refuse(r, "a pattern with a malformed escape") : 0;
	}
	if (c == 'c' && r->end - r->s > 1 &&
		((r->s[1] | 32) >= 'a' && (r->s[1] | 32) <= 'z')) {
		*out = (uint32_t)r->s[1] & 31;
		r->s += 2;
		return 0;
	}
	if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '1' && c <= '9'))
		return refuse(r, "a pattern with an escape that is not supported");
	*out = take_char(r);
	return 0;
}

/* One member of a class in square brackets; is_class: it was \d or the like. */
static int take_member(struct regex *r, struct set *s, uint32_t *c, bool *is_class)
{
	int rc;

	*is_class = false;
	if (*r->s != '\\') {
		*c = take_char(r);
		return 0;
	}
	r->s++;
	if (r->s < r->end && *r->s && add_class(s, *r->s)) {
		r->s++;
		*is_class = true;
		return 0;
	}
	rc = take_property(r, s);
	if (rc) {
		*is_class = true;
		return rc < 0 ? -1 : 0;
	}
	if (r->s < r->end && *r->s == 'b') {
		r->s++;
		*c = 8;
		return 0;
	}
	if (r->s < r->end && *r->s == '-') {
		r->s++;
		*c = '-';
		return 0;
	}
	return take_escape(r, c);
}

static int take_brackets(struct regex *r, struct set *s)
{
	bool negated = r->s < r->end && *r->s == '^';

	r->s += negated;
	while (r->s < r->end && *r->s != ']') {
		uint32_t low, high;
		bool is_class;

		if (take_member(r, s, &low, &is_class) < 0)
			return -1;
		if (is_class)
			continue;
		high = low;
		if (r->end - r->s > 1 && r->s[0] == '-' && r->s[1] != ']') {
			r->s++;
			if (take_member(r, s, &high, &is_class) < 0)
				return -1;
			if (is_class) {
				add(s, '-', '-');
				high = low;
			}
		}
		if (high < low)
			return refuse(r, "a pattern with a range that runs backwards");
		if (add_range(r, s, low, high) < 0)
			return -1;
	}
	if (r->s == r->end)
		return refuse(r, "a pattern with a bracket that is not closed");
	r->s++;
	if (negated)
		negate(s);
	return 0;
}

/* --- the tree ----------------------------------------------------------------------------- */

static struct tree *node(struct regex *r, enum tree_kind kind, struct tree *a,
	struct tree *b)
{
	struct tree *t = arena_alloc(&r->arena, sizeof *t);

	*t = (struct tree){ .kind = kind, .a = a, .b = b };
	return t;
}

static struct set *new_set(struct regex *r, struct tree **t)
{
	*t = node(r, CHARS, NULL, NULL);
	r->sets = xgrow(r->sets, &r->sets_cap, r->set_count + 1, sizeof *r->sets);
	r->sets[r->set_count] = (struct set){ 0 };
	(*t)->set = (uint32_t)r->set_count++;
	return &r->sets[(*t)->set];
}

static struct tree *parse_choice(struct regex *r);

/* What stands behind the bracket of a group: nothing, "?:", or a name, as Python writes it, too. */
static int take_group_kind(struct regex *r)
{
	const char *s = r->s + 1, *close;

	if (r->end - r->s < 2 || *r->s != '?')
		return 0;
	if (*s == ':') {
		r->s += 2;
		return 0;
	}
	s += *s == 'P' && s + 1 < r->end && s[1] == '<';
	if (*s == '=' || *s == '!' ||
		(*s == '<' && s + 1 < r->end && (s[1] == '=' || s[1] == '!')))
		return refuse(r,
			"a pattern that looks around elsewhere than behind a ^ at its beginning, which is not supported");
	if (*s != '<')
		return refuse(r,
			"a pattern with flags other than (?i) at its beginning, or a group of a kind that is not supported");
	close = memchr(r->s, '>', (size_t)(r->end - r->s));
	if (!close)
		return refuse(r, "a pattern with a malformed group");
	r->s = close + 1;
	return 0;
}

static struct tree *parse_group(struct regex *r)
{
	struct tree *t;

	if (take_group_kind(r) < 0)
		return NULL;
	if (++r->nesting > NESTING_MAX)
		return refuse(r, "a pattern that nests too deep"), NULL;
	t = parse_choice(r);
	r->nesting--;
	if (!t)
		return NULL;
	if (r->s == r->end)
		return refuse(r, "a pattern with a bracket that is not closed"), NULL;
	r->s++;
	return t;
}

static struct tree *parse_atom(struct regex *r)
{
	struct tree *t;
	struct set *s;
	uint32_t c;
	int rc;

	switch (*r->s) {
	case '(':
		r->s++;
		return parse_group(r);
	case '^':
		r->s++;
		return node(r, BEGIN, NULL, NULL);
	case '$':
		r->s++;
		return node(r, END, NULL, NULL);
	case '*':
	case '+':
	case '?':
		return refuse(r, "a pattern that repeats nothing"), NULL;
	default:
		break;
	}
	s = new_set(r, &t);
	if (*r->s == '[') {
		r->s++;
		return take_brackets(r, s) < 0 ? NULL : t;
	}
	if (*r->s == '.') {
		r->s++;
		add(s, '\n', '\n');
		add(s, '\r', '\r');
		add(s, 0x2028, 0x2029);
		negate(s);
		return t;
	}
	if (*r->s == '\\') {
		r->s++;
		if (r->s < r->end && *r->s && add_class(s, *r->s)) {
			r->s++;
			return t;
		}
		rc = take_property(r, s);
		if (rc)
			return rc < 0 ? NULL : t;
		if (take_escape(r, &c) < 0)
			return NULL;
	} else {
		c = take_char(r);
	}
	return add_range(r, s, c, c) < 0 ? NULL : t;
}

static const char *take_number(const char *s, const char *end, uint32_t *out)
{
	const char *begin = s;

	*out = 0;
	while (s < end && *s >= '0' && *s <= '9') {
		*out = *out > REPEAT_MAX ? *out : *out * 10 + (uint32_t)(*s - '0');
		s++;
	}
	return s > begin ? s : NULL;
}

/* {m}, {m,}, {m,n}. Returns what follows, or NULL: it is none, and its brace stands for itself. */
static const char *take_bounds(const struct regex *r, uint32_t *min, uint32_t *max)
{
	const char *s = take_number(r->s + 1, r->end, min);

	if (!s || s == r->end)
		return NULL;
	*max = *min;
	if (*s == ',') {
		s++;
		*max = UINT32_MAX;
		if (s < r->end && *s != '}')
			s = take_number(s, r->end, max);
	}
	return s && s < r->end && *s == '}' ? s + 1 : NULL;
}

static struct tree *parse_repeat(struct regex *r)
{
	struct tree *t = parse_atom(r);
	unsigned repeats = 0;

	while (t && r->s < r->end) {
		uint32_t min = 0, max = UINT32_MAX;
		const char *after = r->s + 1;
		struct tree *repeat;

		if (*r->s == '+')
			min = 1;
		else if (*r->s == '?')
			max = 1;
		else if (*r->s == '{')
			after = take_bounds(r, &min, &max);
		else if (*r->s != '*')
			break;
		if (!after)
			break;
		if (max < min)
			return refuse(r, "a pattern with bounds that run backwards"),
			       NULL;
		if (min > REPEAT_MAX || (max != UINT32_MAX && max > REPEAT_MAX))
			return refuse(r, "a pattern that repeats too often"), NULL;
		r->s = after;
		if (r->s < r->end && *r->s == '?') /* lazy: the same language */
			r->s++;
		repeat = node(r, REPEAT, t, NULL);
		repeat->min = min;
		repeat->max = max;
		t = repeat;
		if (++repeats > 1)
			return refuse(r, "a pattern that repeats a repetition"), NULL;
	}
	return t;
}

/* Trees of a sequence stay flat enough: CAT's a is what came before. */
static struct tree *parse_sequence(struct regex *r)
{
	struct tree *t = NULL;

	while (r->s < r->end && *r->s != '|' && *r->s != ')') {
		struct tree *next = parse_repeat(r);

		if (!next)
			return NULL;
		t = t ? node(r, CAT, t, next) : next;
	}
	return t ? t : node(r, EMPTY, NULL, NULL);
}

static struct tree *parse_choice(struct regex *r)
{
	struct tree *t = parse_sequence(r);

	while (t && r->s < r->end && *r->s == '|') {
		struct tree *other;

		r->s++;
		other = parse_sequence(r);
		t = other ? node(r, ALT, t, other) : NULL;
	}
	return t;
}

/* --- the nondeterministic automaton ------------------------------------------------------- */

static uint32_t state(struct regex *r, enum nfa_kind kind, uint32_t out, uint32_t out2)
{
	r->nfa = xgrow(r->nfa, &r->nfa_cap, r->nfa_count + 1, sizeof *r->nfa);
	r->nfa[r->nfa_count] = (struct nfa){ kind, 0, out, out2 };
	return (uint32_t)r->nfa_count++;
}

/* The state where t begins when `to` follows it: that itself, where t is empty, however often it is
 * repeated. Sequences and choices are long on their left. */
static int build(struct regex *r, const struct tree *t, uint32_t to, uint32_t *out)
{
	uint32_t a, b;

	*out = to;
	if (dfa_spend(r->b, 0, 1) < 0)
		return -1;
	while (t->kind == CAT) {
		if (build(r, t->b, *out, out) < 0)
			return -1;
		t = t->a;
	}
	to = *out;
	if (r->nfa_count > NFA_MAX)
		return refuse(r, "a pattern that is too large");
	switch (t->kind) {
	case CHARS:
		*out = state(r, NFA_CHARS, to, 0);
		r->nfa[*out].set = t->set;
		return 0;
	case BEGIN:
	case END:
		*out = state(r, t->kind == BEGIN ? NFA_BEGIN : NFA_END, to, 0);
		return 0;
	case ALT: {
		uint32_t choice = UINT32_MAX;

		for (; t->kind == ALT; t = t->a) {
			if (build(r, t->b, to, &b) < 0)
				return -1;
			choice = choice == UINT32_MAX || choice == b ?
				b :
				state(r, NFA_SPLIT, b, choice);
		}
		if (build(r, t, to, &a) < 0)
			return -1;
		*out = a == choice ? a : state(r, NFA_SPLIT, a, choice);
		return 0;
	}
	case REPEAT:
		if (t->max == UINT32_MAX) {
			uint32_t loop = state(r, NFA_SPLIT, to, to);

			if (build(r, t->a, loop, &a) < 0)
				return -1;
			r->nfa[loop].out = a;
			*out = loop;
		} else {
			for (uint32_t i = t->min; i < t->max; i++) {
				if (build(r, t->a, *out, &a) < 0)
					return -1;
				if (a == *out)
					break;
				*out = state(r, NFA_SPLIT, a, to);
			}
		}
		for (uint32_t i = 0; i < t->min; i++) {
			if (build(r, t->a, *out, &a) < 0)
				return -1;
			if (a == *out)
				break;
			*out = a;
		}
		return 0;
	default:
		return 0;
	}
}

/* --- sets of its states ------------------------------------------------------------------- */

struct subset {
	uint32_t *states; /* NFA_CHARS states, sorted */
	uint32_t n;
	bool accept;
	bool anything; /* it has matched, and the rest is free */
};

struct subsets {
	struct regex *r;
	struct subset *sets;
	size_t count, cap;
	uint32_t *index, mask;
	uint32_t *mark, round; /* of states in the set being made */
	uint32_t *stack;
	uint32_t *found; /* states of the set being made */
};

/* The states that are reached without a character, in x->found until the next call. first: at the
 * begin of the text. */
static struct subset closure(struct subsets *x, const uint32_t *from, size_t n,
	bool first)
{
	struct regex *r = x->r;
	struct subset s = { .states = x->found };
	uint64_t seen = 0;

	/* first without going through $, then, for acceptance alone, through it */
	for (int ends = 0; ends < 2; ends++) {
		size_t depth = 0;

		x->round++;
		for (size_t i = 0; i < n; i++)
			x->stack[depth++] = from[i];
		for (size_t i = 0; i < depth; i++)
			x->mark[x->stack[i]] = x->round;
		while (depth) {
			const struct nfa *f = &r->nfa[x->stack[--depth]];
			uint32_t to[2] = { f->out, f->out2 };
			int outs = f->kind == NFA_SPLIT ? 2 : 1;

			seen++;
			if (f->kind == NFA_MATCH) {
				s.accept = true;
				if (!ends)
					s.anything = true;
				continue;
			}
			if (f->kind == NFA_CHARS) {
				if (!ends)
					s.states[s.n++] = (uint32_t)(f - r->nfa);
				continue;
			}
			if ((f->kind == NFA_BEGIN && !first) ||
				(f->kind == NFA_END && !ends))
				continue;
			for (int i = 0; i < outs; i++)
				if (x->mark[to[i]] != x->round) {
					x->mark[to[i]] = x->round;
					x->stack[depth++] = to[i];
				}
		}
	}
	if (s.anything)
		s.n = 0;
	dfa_use(r->b, seen, 0);
	return s;
}

static int by_state(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* The number of a set, of which a copy is kept where it is new. */
static uint32_t intern(struct subsets *x, struct subset *s)
{
	uint64_t h = s->accept + 2u * s->anything + 77;
	uint32_t at;

	qsort(s->states, s->n, sizeof *s->states, by_state);
	for (uint32_t i = 0; i < s->n; i++)
		h = fnv1a_add(h, s->states[i]);
	h ^= h >> 29;
	for (at = (uint32_t)h & x->mask; x->index[at]; at = (at + 1) & x->mask) {
		const struct subset *o = &x->sets[x->index[at] - 1];

		if (o->n == s->n && o->accept == s->accept &&
			o->anything == s->anything &&
			memcmp(o->states, s->states, s->n * sizeof *s->states) == 0)
			return x->index[at] - 1;
	}
	x->sets = xgrow(x->sets, &x->cap, x->count + 1, sizeof *x->sets);
	x->sets[x->count] = *s;
	x->sets[x->count].states = xmalloc((s->n + 1) * sizeof *s->states);
	memcpy(x->sets[x->count].states, s->states, s->n * sizeof *s->states);
	dfa_use(x->r->b, 4 * s->n, s->n + 16);
	x->r->held += s->n + 16;
	x->index[at] = (uint32_t)++x->count;
	return (uint32_t)x->count - 1;
}

struct made {
	const struct subsets *x;
	const uint32_t *next;
	uint32_t intervals;
};

static bool made_step(const void *ctx, const void *key, uint32_t interval, void *next)
{
	const struct made *m = ctx;
	uint32_t to = m->next[(size_t) * (const uint32_t *)key * m->intervals + interval];

	*(uint32_t *)next = to;
	return to != DFA_DEAD;
}

static bool made_accept(const void *ctx, const void *key)
{
	return ((const struct made *)ctx)->x->sets[*(const uint32_t *)key].accept;
}

static bool in_set(const struct set *s, uint32_t c)
{
	for (size_t i = 0; i < s->n; i++)
		if (c >= s->ranges[i].low && c <= s->ranges[i].high)
			return true;
	return false;
}

/* Which sets the characters of which intervals are in; to be freed. NULL with err_set(). */
static bool *members(struct regex *r, const uint32_t *cuts, uint32_t intervals)
{
	uint64_t steps = 0, words = r->set_count * intervals / sizeof(uint32_t);
	bool *member;

	for (size_t i = 0; i < r->set_count; i++)
		steps += (r->sets[i].n / 8 + 1) * intervals;
	if (dfa_spend(r->b, 0, steps / 4) < 0 || dfa_hold(r->b, words) < 0)
		return NULL;
	r->held += words;
	member = xcalloc(r->set_count * intervals + 1, 1);
	for (size_t i = 0; i < r->set_count; i++)
		for (uint32_t j = 0; j < intervals; j++)
			member[i * intervals + j] = in_set(&r->sets[i], cuts[j]);
	return member;
}

/* start: the first state; it may also match later in the text. */
static int determinise(struct subsets *x, uint32_t start, const uint32_t *cuts,
	uint32_t intervals, struct lm_dfa *out, struct lm_budget *b)
{
	struct regex *r = x->r;
	uint32_t *next = NULL, *to = xmalloc((r->nfa_count + 2) * sizeof *to), zero = 0;
	struct subset s = closure(x, &start, 1, true);
	bool *member = members(r, cuts, intervals);
	size_t cap = 0;
	int rc = -1;

	if (!member)
		goto out;
	intern(x, &s);
	for (size_t i = 0; i < x->count; i++) {
		if (x->count * 2 > x->mask) {
			err_set(EX_DATAERR, "%s: a pattern that needs too many states",
				r->where);
			goto out;
		}
		if (dfa_spend(b, 0, (uint64_t)intervals * (x->sets[i].n + 8)) < 0 ||
			dfa_hold(b, intervals) < 0)
			goto out;
		r->held += intervals;
		next = xgrow(next, &cap, (i + 1) * intervals, sizeof *next);
		for (uint32_t j = 0; j < intervals; j++) {
			size_t n = 0;

			if (x->sets[i].anything) {
				next[i * intervals + j] = (uint32_t)i;
				continue;
			}
			for (uint32_t k = 0; k < x->sets[i].n; k++) {
				const struct nfa *f = &r->nfa[x->sets[i].states[k]];

				if (member[f->set * intervals + j])
					to[n++] = f->out;
			}
			if (dfa_spend(b, 0, 16 * n + 1) < 0)
				goto out;
			to[n++] = start; /* the match may begin here */
			s = closure(x, to, n, false);
			next[i * intervals + j] = intern(x, &s);
			if (x->count * 2 > x->mask)
				break;
		}
	}
	struct made made = { x, next, intervals };
	struct dfa_maker m = { .cuts = cuts,
		.intervals = intervals,
		.key_bytes = sizeof zero,
		.step = made_step,
		.accept = made_accept,
		.ctx = &made };

	rc = dfa_make(out, &m, &zero, b, NULL);
out:
	free(next);
	free(to);
	free(member);
	return rc;
}

static int all_cuts(const struct regex *r, uint32_t **cuts, uint32_t *intervals)
{
	size_t n = 0;

	for (size_t i = 0; i < r->set_count; i++)
		n += 2 * r->sets[i].n;
	*cuts = xmalloc((n + 6) * sizeof **cuts);
	n = 0;
	for (size_t i = 0; i < r->set_count; i++)
		for (size_t j = 0; j < r->sets[i].n; j++) {
			(*cuts)[n++] = r->sets[i].ranges[j].low;
			(*cuts)[n++] = r->sets[i].ranges[j].high + 1;
		}
	*intervals = dfa_sort_cuts(*cuts, (uint32_t)n);
	if (*intervals > DFA_CUT_MAX)
		return refuse(r, "a pattern that tells too many characters apart");
	return 0;
}

/* A pattern that does not look ahead. */
static int compile(struct lm_dfa *out, const char *pattern, size_t len, bool folds,
	const char *where, struct lm_budget *b)
{
	struct regex r = { .s = pattern,
		.end = pattern + len,
		.where = where,
		.folds = folds,
		.b = b };
	struct subsets x = { .r = &r };
	uint32_t *cuts = NULL, intervals, start;
	struct tree *t;
	int rc = -1;

	if (!utf8_valid(pattern, len))
		return refuse(&r, "a pattern that is not UTF-8");
	if (dfa_spend(b, 0, COMPILE_STEPS) < 0)
		return -1;
	t = parse_choice(&r);
	if (t && r.s < r.end) {
		refuse(&r, "a pattern with a bracket that was not opened");
		t = NULL;
	}
	if (!t || build(&r, t, state(&r, NFA_MATCH, 0, 0), &start) < 0 ||
		all_cuts(&r, &cuts, &intervals) < 0)
		goto out;
	x.mask = (1u << 16) - 1;
	x.index = xcalloc(x.mask + 1, sizeof *x.index);
	x.mark = xcalloc(r.nfa_count + 1, sizeof *x.mark);
	x.stack = xmalloc((2 * r.nfa_count + 4) * sizeof *x.stack);
	x.found = xmalloc((r.nfa_count + 1) * sizeof *x.found);
	rc = determinise(&x, start, cuts, intervals, out, b);
out:
	for (size_t i = 0; i < x.count; i++)
		free(x.sets[i].states);
	free(x.sets);
	free(x.index);
	free(x.mark);
	free(x.stack);
	free(x.found);
	b->words += r.held;
	free(cuts);
	for (size_t i = 0; i < r.set_count; i++)
		free(r.sets[i].ranges);
	free(r.sets);
	free(r.nfa);
	arena_release(&r.arena);
	return rc;
}

/* --- look-ahead --------------------------------------------------------------------------- */

/* Returns where the group ends whose bracket stands at s: behind its closing bracket, or NULL. With
 * s within no group, a choice at the top is found instead: its bar, or NULL. */
static const char *group_end(const char *s, const char *end, bool in_group)
{
	unsigned depth = 0;
	bool in_class = false;

	for (; s < end; s++) {
		if (*s == '\\' && s + 1 < end)
			s++;
		else if (in_class)
			in_class = *s != ']';
		else if (*s == '[')
			in_class = true;
		else if (*s == '(')
			depth++;
		else if (*s == ')' && depth && !--depth && in_group)
			return s + 1;
		else if (*s == '|' && !depth && !in_group)
			return s;
	}
	return NULL;
}

/* What begins as a look-ahead says, or what follows all of them. */
static int compile_part(struct lm_dfa *out, const char *s, const char *end, bool folds,
	const char *where, struct lm_budget *b)
{
	struct buf text = BUF_INIT;
	int rc;

	buf_adds(&text, "^(?:");
	buf_add(&text, s, (size_t)(end - s));
	buf_addc(&text, ')');
	rc = compile(out, buf_text(&text), text.len, folds, where, b);
	buf_release(&text);
	return rc;
}

/* Holds *d to one look-ahead more. */
static int look_ahead(struct lm_dfa *d, const struct lm_dfa *part, bool negative,
	struct lm_budget *b)
{
	const struct lm_dfa *both[] = { d, part };
	struct lm_dfa joined;
	int rc = negative ? dfa_without(&joined, d, part, b) :
			    dfa_product(&joined, both, 2, true, b);

	if (rc < 0)
		return -1;
	dfa_release(d);
	*d = joined;
	return 0;
}

int dfa_regex(struct lm_dfa *out, const char *pattern, size_t len, const char *where,
	struct lm_budget *b)
{
	const char *s = pattern, *end = pattern + len, *aheads[AHEAD_MAX + 1], *close;
	bool folds = len >= 4 && memcmp(s, "(?i)", 4) == 0, anchored;
	size_t n = 0;

	s += folds ? 4 : 0;
	anchored = s < end && *s == '^';
	aheads[0] = s + anchored;
	while (n < AHEAD_MAX && aheads[n] + 3 < end && memcmp(aheads[n], "(?", 2) == 0 &&
		(aheads[n][2] == '=' || aheads[n][2] == '!') &&
		(close = group_end(aheads[n], end, true)))
		aheads[++n] = close;
	if (!n || !anchored || group_end(aheads[n], end, false))
		return compile(out, s, (size_t)(end - s), folds, where, b);
	if (compile_part(out, aheads[n], end, folds, where, b) < 0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		struct lm_dfa part;
		int rc = compile_part(&part, aheads[i] + 3, aheads[i + 1] - 1, folds,
			where, b);

		if (rc == 0) {
			rc = look_ahead(out, &part, aheads[i][2] == '!', b);
			dfa_release(&part);
		}
		if (rc < 0) {
			dfa_release(out);
			return -1;
		}
	}
	return 0;
}
