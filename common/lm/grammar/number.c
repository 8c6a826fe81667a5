/* number.c - numbers between bounds as automata over their digits.
 *
 * The state knows how many digits of the whole part have come, how they compare with as many digits
 * of each bound, and the remainder: with the last digit it is decided on which side of the bounds
 * the number lies. */
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/lm/grammar/dfa.h"

#define WHOLE_DIGITS_MAX 64 /* of a number without bounds */
#define EXACT_DIGITS     15 /* multiples have no more: readers take numbers as doubles */
#define REMAINDERS_MAX   500
#define DIGITS_MAX       sizeof(((struct lm_decimal *)0)->digits)

int decimal_set(struct lm_decimal *d, const char *text)
{
	char digits[DIGITS_MAX + 400];
	size_t n = 0, skip = 0;
	long point = -1, exponent = 0;

	*d = (struct lm_decimal){ .negative = *text == '-' };
	for (text += *text == '-'; *text && *text != 'e' && *text != 'E'; text++) {
		if (*text == '.')
			point = (long)n;
		else if (n < sizeof digits)
			digits[n++] = *text;
	}
	if (*text)
		exponent = strtol(text + 1, NULL, 10);
	point = (point < 0 ? (long)n : point) + exponent;
	while (skip < n && digits[skip] == '0')
		skip++;
	while (n > skip && digits[n - 1] == '0')
		n--;
	point -= (long)skip;
	n -= skip;
	if (!n) {
		d->negative = false;
		return 0;
	}
	if (point > (long)DIGITS_MAX || point < -(long)DIGITS_MAX + (long)n ||
		(point < (long)n ? (long)n - (point < 0 ? point : 0) : point) >
			(long)DIGITS_MAX)
		return err_set(EX_DATAERR, "a bound with too many digits");
	d->whole_len = point > 0 ? (uint32_t)point : 0;
	for (uint32_t i = 0; i < d->whole_len; i++)
		d->digits[i] = i < n ? digits[skip + i] : '0';
	for (long i = point; i < (long)n; i++)
		d->digits[d->whole_len + d->part_len++] = i < 0 ?
			'0' :
			digits[skip + (size_t)i];
	return 0;
}

static int compare_magnitude(const struct lm_decimal *a, const struct lm_decimal *b)
{
	uint32_t limit = a->part_len > b->part_len ? a->part_len : b->part_len;
	int c;

	if (a->whole_len != b->whole_len)
		return a->whole_len < b->whole_len ? -1 : 1;
	c = a->whole_len ? memcmp(a->digits, b->digits, a->whole_len) : 0;
	for (uint32_t i = 0; !c && i < limit; i++) {
		char x = i < a->part_len ? a->digits[a->whole_len + i] : '0';
		char y = i < b->part_len ? b->digits[b->whole_len + i] : '0';

		c = (x > y) - (x < y);
	}
	return c;
}

int decimal_compare(const struct lm_decimal *a, const struct lm_decimal *b)
{
	if (a->negative != b->negative)
		return a->negative ? -1 : 1;
	return a->negative ? compare_magnitude(b, a) : compare_magnitude(a, b);
}

/* --- the automaton ------------------------------------------------------------------------ */

/* Numbers of one sign: their magnitude lies between these. */
struct side {
	bool possible, has_low, has_high, low_excluded, high_excluded;
	struct lm_decimal low, high;
};

struct maker {
	const struct lm_number *n;
	struct side sides[2]; /* positive, negative */
	uint32_t digits_max;  /* of the whole part */
	bool free;            /* exponents are allowed */
};

enum phase { START, SIGN, ZERO, WHOLE, POINT, PART, E, E_SIGN, E_ONE, E_TWO };

struct number_key {
	uint8_t phase, negative;
	int8_t low, high; /* what came, against the bound's beginning: -1, 0, 1 */
	uint32_t at; /* digits of the part that is being read, as far as they matter */
	uint64_t rest;
};

static char digit_of(const struct lm_decimal *d, bool part, uint32_t at)
{
	if (part)
		return at < d->part_len ? d->digits[d->whole_len + at] : '0';
	return at < d->whole_len ? d->digits[at] : '0';
}

/* How the whole part, now complete, compares with a bound's. */
static int whole_order(const struct lm_decimal *d, uint32_t digits, int so_far)
{
	return digits < d->whole_len ? -1 : digits > d->whole_len ? 1 : so_far;
}

/* How the number, if it ends here, compares with a bound: -1, 0, 1. */
static int order(const struct lm_decimal *d, const struct number_key *k, int so_far)
{
	uint32_t at = k->phase == PART ? k->at : 0;

	if (k->phase == ZERO || k->phase == WHOLE)
		so_far = whole_order(d, k->phase == ZERO ? 0 : k->at, so_far);
	if (so_far)
		return so_far;
	return at < d->part_len ? -1 : 0; /* parts do not end in zeros */
}

/* Whether what came so far, if it ends here, is a multiple as wanted. */
static bool is_multiple(const struct maker *m, const struct number_key *k)
{
	uint64_t rest = k->rest;

	for (uint32_t i = k->phase == PART ? k->at : 0; i < m->n->places; i++)
		rest = rest * 10 % m->n->multiple;
	return !rest;
}

static bool ends_well(const struct maker *m, const struct number_key *k)
{
	const struct side *s = &m->sides[k->negative];
	int low = s->has_low ? order(&s->low, k, k->low) : 1;
	int high = s->has_high ? order(&s->high, k, k->high) : -1;

	if (!s->possible || !is_multiple(m, k))
		return false;
	return (low > 0 || (low == 0 && !s->low_excluded)) &&
		(high < 0 || (high == 0 && !s->high_excluded));
}

static bool number_accept(const void *ctx, const void *key)
{
	const struct number_key *k = key;

	switch (k->phase) {
	case ZERO:
	case WHOLE:
	case PART:
		return ends_well(ctx, k);
	case E_ONE:
	case E_TWO:
		return true;
	default:
		return false;
	}
}

static int compare_digit(int so_far, char c, char bound)
{
	return so_far ? so_far : (c > bound) - (c < bound);
}

static bool whole_digit(const struct maker *m, const struct number_key *k, char c,
	struct number_key *to)
{
	const struct side *s = &m->sides[k->negative];
	uint32_t at = k->phase == WHOLE ? k->at : 0;

	*to = *k;
	if (!s->possible || at == m->digits_max)
		return false;
	to->phase = WHOLE;
	/* beyond a bound's digits the number is larger already */
	if (s->has_low)
		to->low = (int8_t)(at < s->low.whole_len ?
				compare_digit(k->low, c, digit_of(&s->low, false, at)) :
				1);
	if (s->has_high)
		to->high = (int8_t)(at < s->high.whole_len ?
				compare_digit(k->high, c, digit_of(&s->high, false, at)) :
				1);
	/* with many remainders the digits are not counted */
	to->at = m->n->multiple > REMAINDERS_MAX && !s->has_low && !s->has_high ? 1 :
										  at + 1;
	if (m->n->multiple)
		to->rest = (k->rest * 10 + (uint64_t)(c - '0')) % m->n->multiple;
	return true;
}

static bool part_digit(const struct maker *m, const struct number_key *k, char c,
	struct number_key *to)
{
	const struct side *s = &m->sides[k->negative];
	uint32_t at = k->phase == PART ? k->at : 0, limit = 0;

	*to = *k;
	if (m->n->whole && (c != '0' || at > 0))
		return false; /* 1.0 is whole; one zero is enough */
	if (m->n->multiple && at >= m->n->places && !m->n->whole)
		return false;
	to->phase = PART;
	if (at < m->n->places)
		to->rest = (k->rest * 10 + (uint64_t)(c - '0')) % m->n->multiple;
	limit = m->n->places;
	if (s->has_low) {
		to->low = (int8_t)compare_digit(k->low, c, digit_of(&s->low, true, at));
		if (s->low.part_len > limit)
			limit = s->low.part_len;
	}
	if (s->has_high) {
		to->high = (int8_t)compare_digit(k->high, c,
			digit_of(&s->high, true, at));
		if (s->high.part_len > limit)
			limit = s->high.part_len;
	}
	to->at = at + 1 > limit + 1 ? limit + 1 : at + 1;
	return true;
}

static bool point(const struct maker *m, const struct number_key *k,
	struct number_key *to)
{
	const struct side *s = &m->sides[k->negative];
	uint32_t digits = k->phase == ZERO ? 0 : k->at;

	*to = *k;
	to->phase = POINT;
	to->at = 0;
	if (s->has_low)
		to->low = (int8_t)whole_order(&s->low, digits, k->low);
	if (s->has_high)
		to->high = (int8_t)whole_order(&s->high, digits, k->high);
	return s->possible;
}

static bool exponent(const struct number_key *k, char c, struct number_key *to)
{
	*to = (struct number_key){ 0 };
	if (c == 'e' && (k->phase == ZERO || k->phase == WHOLE || k->phase == PART)) {
		to->phase = E;
		return true;
	}
	if ((c == '+' || c == '-') && k->phase == E) {
		to->phase = E_SIGN;
		return true;
	}
	if (c >= '0' && c <= '9' &&
		(k->phase == E || k->phase == E_SIGN || k->phase == E_ONE)) {
		to->phase = k->phase == E_ONE ? E_TWO : E_ONE;
		return true;
	}
	return false;
}

static const uint32_t cuts_of_numbers[] = { 0, 1, '+', '+' + 1, '-', '.', '.' + 1, '0',
	'1', '2', '3', '4', '5', '6', '7', '8', '9', '9' + 1, 'E', 'E' + 1, 'e', 'e' + 1,
	0xd800, 0xe000 };

static bool number_step(const void *ctx, const void *key, uint32_t interval, void *next)
{
	const struct maker *m = ctx;
	const struct number_key *k = key;
	struct number_key *to = next;
	char c = (char)cuts_of_numbers[interval];

	if (cuts_of_numbers[interval] == 0 || cuts_of_numbers[interval] > 'e' ||
		!strchr("+-.0123456789eE", c))
		return false;
	if (c == 'E')
		c = 'e';
	if (c == 'e' || c == '+' || k->phase >= E)
		return m->free && exponent(k, c, to);
	if (c == '-') {
		*to = *k;
		to->phase = SIGN;
		to->negative = 1;
		return k->phase == START && m->sides[1].possible;
	}
	if (c == '.')
		return (k->phase == ZERO || k->phase == WHOLE) && point(m, k, to);
	if (k->phase == POINT || k->phase == PART)
		return part_digit(m, k, c, to);
	if (k->phase == ZERO)
		return false;
	if (c == '0' && k->phase != WHOLE) {
		*to = *k;
		to->phase = ZERO;
		return m->sides[k->negative].possible;
	}
	return whole_digit(m, k, c, to);
}

static void set_sides(struct maker *m, const struct lm_number *n)
{
	struct side *positive = &m->sides[0], *negative = &m->sides[1];
	bool low_negative = n->has_min && n->min.negative;
	bool high_negative = n->has_max && n->max.negative;
	bool low_zero = n->has_min && !n->min.whole_len && !n->min.part_len;

	positive->possible = !high_negative;
	if (n->has_min && !low_negative) {
		positive->has_low = true;
		positive->low = n->min;
		positive->low_excluded = n->min_excluded;
	}
	if (n->has_max && !high_negative) {
		positive->has_high = true;
		positive->high = n->max;
		positive->high_excluded = n->max_excluded;
	}
	/* -0 is 0 */
	negative->possible = !n->has_min || low_negative ||
		(low_zero && !n->min_excluded);
	if (n->has_max && (high_negative || (!n->max.whole_len && !n->max.part_len))) {
		negative->has_low = true;
		negative->low = n->max;
		negative->low_excluded = n->max_excluded;
	}
	if (n->has_min) {
		negative->has_high = true;
		negative->high = n->min;
		negative->high_excluded = n->min_excluded;
	}
}

int dfa_number(struct lm_dfa *out, const struct lm_number *n, struct lm_budget *b)
{
	struct maker m = { .n = n,
		.digits_max = n->multiple ? EXACT_DIGITS - n->places : WHOLE_DIGITS_MAX,
		.free = !n->whole && !n->has_min && !n->has_max && !n->multiple };
	struct dfa_maker maker = { .cuts = cuts_of_numbers,
		.intervals = sizeof cuts_of_numbers / sizeof *cuts_of_numbers,
		.key_bytes = sizeof(struct number_key),
		.step = number_step,
		.accept = number_accept,
		.ctx = &m };
	struct number_key start;

	memset(&start, 0, sizeof start);
	set_sides(&m, n);
	if (n->multiple > UINT64_MAX / 16)
		return err_set(EX_DATAERR, "multipleOf is too large");
	return dfa_make(out, &maker, &start, b, NULL);
}
