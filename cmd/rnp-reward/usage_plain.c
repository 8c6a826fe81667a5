/* usage_plain.c - parses rnp.usage the fast way: see usage_from_plain in usage_read.h.
 *
 * Plain means: one flat object (except for factors) of known keys, each once, strings of
 * printable ASCII without escapes, whole numbers of at most 16 digits. A test and a fuzz target
 * compare what this accepts with usage_from_json. */
#include <string.h>

#include "cmd/rnp-reward/fields.h"
#include "cmd/rnp-reward/usage_read.h"
#include "common/base/clock.h"
#include "common/base/num.h"
#include "common/json/plain.h"

/* Parses a decimal of few digits, in 10^-9. */
static bool take_decimal(struct json_plain *s, int64_t *nano)
{
	int64_t whole, place = 100000000, part = 0;
	const char *start;

	if (!json_plain_whole(s, &whole) || whole > 1000)
		return false;
	if (s->at < s->end && *s->at == '.') {
		start = ++s->at;
		for (; s->at < s->end && *s->at >= '0' && *s->at <= '9';
			s->at++, place /= 10)
			part += (*s->at - '0') * place;
		if (s->at == start || s->at - start > 9)
			return false;
	}
	*nano = whole * (int64_t)FIELD_NANO + part;
	return true;
}

static bool take_factors(struct json_plain *s, struct usage *u)
{
	char name[24];

	if (!json_plain_take(s, '{'))
		return false;
	do {
		int i;

		if (!json_plain_copy(s, name, sizeof name) || !json_plain_take(s, ':'))
			return false;
		i = factor_find(name);
		if (i < 0 || (u->overridden >> i & 1) ||
			!take_decimal(s, &u->factor_nano[i]))
			return false;
		u->overridden |= (uint8_t)(1u << i);
	} while (json_plain_take(s, ','));
	return json_plain_take(s, '}');
}

static bool take_address(struct json_plain *s, unsigned char out[ADDRESS_BYTES])
{
	char text[ADDRESS_MAX];

	return json_plain_copy(s, text, sizeof text) && address_parse(text, "", out) == 0;
}

static bool take_time(struct json_plain *s, int64_t *ms)
{
	char text[CLOCK_TEXT_MAX];

	return *ms < 0 && json_plain_copy(s, text, sizeof text) &&
		clock_parse(text, "", ms) == 0;
}

static bool take_text(struct json_plain *s, const char *expected)
{
	char text[16];

	return json_plain_copy(s, text, sizeof text) && strcmp(text, expected) == 0;
}

enum seen { SEEN_KIND = 1, SEEN_V = 2, SEEN_NODE = 4 };

struct line {
	struct json_plain scan;
	struct usage *usage;
	char model[81];
	unsigned seen; /* enum seen */
	int next;      /* fields usually come in the order of field_names */
};

/* Returns the index of a field, searched from the position after the last one; -1: none. */
static int find_field(struct line *l, const char *key, size_t len)
{
	for (int k = 0; k < FIELD_USAGE; k++) {
		int i = (l->next + k) % FIELD_USAGE;

		if (field_names[i][0] == key[0] &&
			json_plain_is(key, len, field_names[i])) {
			l->next = i + 1;
			return i;
		}
	}
	return -1;
}

static bool take_other(struct line *l, const char *key, size_t len)
{
	struct usage *u = l->usage;
	struct json_plain *s = &l->scan;
	int64_t v;

	if (json_plain_is(key, len, "node") && !(l->seen & SEEN_NODE)) {
		l->seen |= SEEN_NODE;
		return take_address(s, u->node);
	}
	if (json_plain_is(key, len, "wallet") && !u->has_wallet) {
		u->has_wallet = true;
		return take_address(s, u->wallet);
	}
	if (json_plain_is(key, len, "gpu_model"))
		return !l->model[0] && json_plain_copy(s, l->model, sizeof l->model) &&
			l->model[0];
	if (json_plain_is(key, len, "factors"))
		return !u->overridden && take_factors(s, u);
	if (json_plain_is(key, len, "from"))
		return take_time(s, &u->from_ms);
	if (json_plain_is(key, len, "to"))
		return take_time(s, &u->to_ms);
	if (json_plain_is(key, len, "kind") && !(l->seen & SEEN_KIND)) {
		l->seen |= SEEN_KIND;
		return take_text(s, "rnp.usage");
	}
	if (json_plain_is(key, len, "v") && !(l->seen & SEEN_V)) {
		l->seen |= SEEN_V;
		return json_plain_whole(s, &v) && v == 1;
	}
	return false;
}

static bool take_member(struct line *l)
{
	struct usage *u = l->usage;
	const char *key;
	size_t len;
	int i = -1;

	if (!json_plain_string(&l->scan, &key, &len) || !json_plain_take(&l->scan, ':') ||
		!len || len > 31)
		return false;
	/* of the other keys, only gpu_model and wallet begin like a field */
	if (!strchr("kvnft", key[0]))
		i = find_field(l, key, len);
	if (i < 0)
		return take_other(l, key, len);
	if (u->known >> i & 1)
		return false;
	u->known |= (UINT32_C(1) << i);
	return json_plain_whole(&l->scan, &u->value[i]);
}

bool usage_from_plain(struct usage *u, struct rules *r, const char *line, size_t len)
{
	struct line l = { .scan = { line, line + len }, .usage = u };

	memset(u, 0, sizeof *u);
	u->from_ms = u->to_ms = -1;
	if (!json_plain_take(&l.scan, '{'))
		return false;
	do {
		if (!take_member(&l))
			return false;
	} while (json_plain_take(&l.scan, ','));
	if (!json_plain_take(&l.scan, '}'))
		return false;
	json_plain_space(&l.scan);
	if (l.scan.at != l.scan.end || l.seen != (SEEN_KIND | SEEN_V | SEEN_NODE) ||
		(u->from_ms < 0) != (u->to_ms < 0))
		return false;
	u->model = l.model[0] ?
		usage_model(r, l.model, u->value[FIELD_GPU_MEMORY_BYTES]) :
		RULES_NO_MODEL;
	return true;
}
