/* schema_values.c - which values a schema allows, where they are few: for arrays whose items must
 * differ. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/lm/grammar/schema_parts.h"

#define TEXT_CHARS_MAX 256

/* Appends the schema of a value, which is taken, unless it is there. Returns 1, or 0: there are too
 * many. */
static int add_value(struct schema *s, struct pointers *out, json_t *value)
{
	json_t *schema;

	for (size_t i = 0; i < out->n; i++) {
		const json_t *other = json_object_get(out->at[i], "const");

		if (json_is_number(value) && json_is_number(other) ?
				json_number_value(value) == json_number_value(other) :
				json_equal(value, (json_t *)other)) {
			json_decref(value);
			return 1;
		}
	}
	schema = json_pack("{s:o}", "const", value);
	dfa_use(&s->budget, 50, MADE_WORDS + json_string_length(value) / 4);
	if (!s->made)
		s->made = json_array();
	/* kept as long as the schema is compiled; values of const and enum are found by their
	 * place in made_of */
	pointers_add(s, &s->made_of, schema);
	json_array_append_new(s->made, schema);
	pointers_add(s, out, schema);
	return out->n <= UNIQUE_MAX;
}

/* Returns whether a decimal is a whole number that a double has exactly. */
static bool whole_of(const struct lm_decimal *d, int64_t *out)
{
	if (d->part_len || d->whole_len > 15)
		return false;
	*out = 0;
	for (uint32_t i = 0; i < d->whole_len; i++)
		*out = *out * 10 + (d->digits[i] - '0');
	*out = d->negative ? -*out : *out;
	return true;
}

/* Returns 1, 0: they are too many or not known, or -1. */
static int add_numbers(struct schema *s, struct pointers *out, const struct lm_number *n)
{
	int64_t low, high, step = n->multiple ? (int64_t)n->multiple : 1;
	int rc = 1;

	if (!n->whole || n->places || !n->has_min || !n->has_max ||
		!whole_of(&n->min, &low) || !whole_of(&n->max, &high) ||
		(high - low) / step > 2 * UNIQUE_MAX)
		return 0;
	low += n->min_excluded;
	high -= n->max_excluded;
	/* to the first multiple, and from one to the next: there may be 10^15 numbers between */
	low += (step - low % step) % step;
	for (; low <= high && rc > 0; low += step)
		rc = dfa_spend(&s->budget, 0, 50) < 0 ?
			-1 :
			add_value(s, out, json_integer(low));
	return rc;
}

/* A number with a fraction is known where it is the only one. */
static int add_one_number(struct schema *s, struct pointers *out,
	const struct lm_number *n)
{
	struct buf text = BUF_INIT;
	int rc;

	if (!n->has_min || !n->has_max || n->multiple || n->whole ||
		decimal_compare(&n->min, &n->max) != 0)
		return add_numbers(s, out, n);
	buf_addf(&text, "%s%.*s.%.*s", n->min.negative ? "-" : "", (int)n->min.whole_len,
		n->min.digits, (int)n->min.part_len, n->min.digits + n->min.whole_len);
	rc = add_value(s, out, json_real(strtod(buf_text(&text), NULL)));
	buf_release(&text);
	return rc;
}

static void add_char(struct buf *to, uint32_t c)
{
	unsigned n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

	if (n == 1) {
		buf_addc(to, (char)c);
		return;
	}
	buf_addc(to, (char)((0xf00u >> n & 0xf0) | c >> 6 * (n - 1)));
	while (--n)
		buf_addc(to, (char)(0x80 | (c >> 6 * (n - 1) & 63)));
}

/* Appends the texts that an automaton accepts from a state on; text is what led there. Each state
 * leads to one, so that this ends soon whatever the automaton is. Returns as add_numbers. */
static int add_texts(struct schema *s, struct pointers *out, const struct lm_dfa *d,
	uint32_t state, struct buf *text, unsigned chars)
{
	size_t len = text->len;
	int rc;

	if (dfa_spend(&s->budget, 0, d->intervals / 4 + 1) < 0)
		return -1;
	if (d->accept[state] && !add_value(s, out, json_stringn(buf_text(text), len)))
		return 0;
	for (uint32_t i = 0; i < d->intervals; i++) {
		uint32_t to = d->next[(size_t)state * d->intervals + i];
		uint32_t end = i + 1 < d->intervals ? d->cuts[i + 1] : 0x110000;

		if (to == DFA_DEAD)
			continue;
		if (end - d->cuts[i] > UNIQUE_MAX || chars == TEXT_CHARS_MAX)
			return 0;
		for (uint32_t c = d->cuts[i]; c < end; c++) {
			add_char(text, c);
			rc = add_texts(s, out, d, to, text, chars + 1);
			if (rc <= 0)
				return rc;
			text->len = len;
		}
	}
	return 1;
}

static int add_strings(struct schema *s, struct pointers *out, const struct alt *a)
{
	struct buf text = BUF_INIT;
	struct lm_dfa d;
	int rc = 1;

	if (!a->dfas.n)
		return 0;
	if (schema_string(s, a, &d) < 0)
		return -1;
	if (d.states)
		rc = add_texts(s, out, &d, 0, &text, 0);
	dfa_release(&d);
	buf_release(&text);
	return rc;
}

int schema_item_values(struct schema *s, const struct alt *a, struct pointers *out)
{
	struct pointers schemas = { 0 };
	struct alts alts;
	int rc = 1;

	if (!schema_item(s, a, 0, &schemas))
		return 1;
	if (schema_alts(s, &schemas, &alts) < 0)
		return -1;
	for (size_t i = 0; i < alts.n && rc > 0; i++) {
		const struct alt *one = &alts.at[i];

		if (one->type == ALT_NULL)
			rc = add_value(s, out, json_null());
		else if (one->type == ALT_BOOL)
			rc = (!(one->bools & 1) || add_value(s, out, json_false())) &&
				(!(one->bools & 2) || add_value(s, out, json_true()));
		else if (one->type == ALT_NUMBER)
			rc = add_one_number(s, out, &one->number);
		else if (one->type == ALT_STRING)
			rc = add_strings(s, out, one);
		else
			rc = 0;
	}
	return rc;
}
