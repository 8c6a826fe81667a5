/* The fast way to read rnp.usage: see usage_from_plain in usage_read.h.
 *
 * Plain means: one flat object (factors aside) of known keys, each once, strings of printable
 * ASCII without escapes, whole numbers of at most 16 digits. A test and a fuzz target hold
 * what this accepts against usage_from_json. */
#include <string.h>

#include "cmd/rnp-reward/expr.h"
#include "cmd/rnp-reward/usage_read.h"
#include "common/clock.h"
#include "common/num.h"

struct scan {
	const char *at, *end;
};

static void skip_space(struct scan *s)
{
	while (s->at < s->end && (*s->at == ' ' || *s->at == '\t'))
		s->at++;
}

static bool take(struct scan *s, char c)
{
	skip_space(s);
	if (s->at == s->end || *s->at != c)
		return false;
	s->at++;
	return true;
}

/* A string into out, at most size - 1 bytes. */
static bool take_string(struct scan *s, char *out, size_t size)
{
	size_t n = 0;

	if (!take(s, '"'))
		return false;
	for (; s->at < s->end && *s->at != '"'; s->at++) {
		if (*s->at < 0x20 || *s->at > 0x7e || *s->at == '\\' || n + 1 == size)
			return false;
		out[n++] = *s->at;
	}
	out[n] = '\0';
	return take(s, '"');
}

/* Up to 15 digits, so that it is below 2^53 whatever they are. */
static bool take_whole(struct scan *s, int64_t *out)
{
	const char *start;

	skip_space(s);
	*out = 0;
	for (start = s->at; s->at < s->end && *s->at >= '0' && *s->at <= '9'; s->at++)
		if (s->at - start < 15)
			*out = *out * 10 + (*s->at - '0');
	return s->at > start && s->at - start <= 15 &&
		(*start != '0' || s->at - start == 1);
}

/* A decimal of few digits, in 10^-9. */
static bool take_decimal(struct scan *s, int64_t *nano)
{
	int64_t whole, place = 100000000, part = 0;
	const char *start;

	if (!take_whole(s, &whole) || whole > 1000)
		return false;
	if (s->at < s->end && *s->at == '.') {
		start = ++s->at;
		for (; s->at < s->end && *s->at >= '0' && *s->at <= '9';
			s->at++, place /= 10)
			part += (*s->at - '0') * place;
		if (s->at == start || s->at - start > 9)
			return false;
	}
	*nano = whole * (int64_t)RULES_NANO + part;
	return true;
}

static bool take_factors(struct scan *s, struct usage *u)
{
	char name[24];

	if (!take(s, '{'))
		return false;
	do {
		int i;

		if (!take_string(s, name, sizeof name) || !take(s, ':'))
			return false;
		i = factor_find(name);
		if (i < 0 || (u->overridden >> i & 1) ||
			!take_decimal(s, &u->factor_nano[i]))
			return false;
		u->overridden |= (uint8_t)(1u << i);
	} while (take(s, ','));
	return take(s, '}');
}

static bool take_address(struct scan *s, char out[KEY_ADDRESS_MAX])
{
	unsigned char bytes[KEY_PUBLIC_BYTES];

	return !out[0] && take_string(s, out, KEY_ADDRESS_MAX) && out[0] &&
		key_parse_address(out, "", bytes) == 0;
}

static bool take_time(struct scan *s, int64_t *ms)
{
	char text[CLOCK_TEXT_MAX];

	return *ms < 0 && take_string(s, text, sizeof text) &&
		clock_parse(text, "", ms) == 0;
}

static bool take_text(struct scan *s, const char *expected)
{
	char text[16];

	return take_string(s, text, sizeof text) && strcmp(text, expected) == 0;
}

enum seen { SEEN_KIND = 1, SEEN_V = 2 };

static bool take_member(struct scan *s, struct usage *u, char model[81], unsigned *seen)
{
	char key[32];
	int64_t v;
	int i;

	if (!take_string(s, key, sizeof key) || !take(s, ':'))
		return false;
	i = field_find(key);
	if (i >= 0 && i < FIELD_USAGE) {
		if (u->known >> i & 1)
			return false;
		u->known |= (uint16_t)(1u << i);
		return take_whole(s, &u->value[i]);
	}
	if (strcmp(key, "node") == 0)
		return take_address(s, u->node);
	if (strcmp(key, "wallet") == 0)
		return take_address(s, u->wallet);
	if (strcmp(key, "gpu_model") == 0)
		return !model[0] && take_string(s, model, 81) && model[0];
	if (strcmp(key, "factors") == 0)
		return !u->overridden && take_factors(s, u);
	if (strcmp(key, "from") == 0)
		return take_time(s, &u->from_ms);
	if (strcmp(key, "to") == 0)
		return take_time(s, &u->to_ms);
	if (strcmp(key, "kind") == 0 && !(*seen & SEEN_KIND)) {
		*seen |= SEEN_KIND;
		return take_text(s, "rnp.usage");
	}
	if (strcmp(key, "v") == 0 && !(*seen & SEEN_V)) {
		*seen |= SEEN_V;
		return take_whole(s, &v) && v == 1;
	}
	return false;
}

bool usage_from_plain(struct usage *u, struct rules *r, const char *line, size_t len)
{
	struct scan s = { line, line + len };
	char model[81] = "";
	unsigned seen = 0;

	memset(u, 0, sizeof *u);
	u->from_ms = u->to_ms = -1;
	if (!take(&s, '{'))
		return false;
	do {
		if (!take_member(&s, u, model, &seen))
			return false;
	} while (take(&s, ','));
	if (!take(&s, '}'))
		return false;
	skip_space(&s);
	if (s.at != s.end || seen != (SEEN_KIND | SEEN_V) || !u->node[0])
		return false;
	u->model = model[0] ? usage_model(r, model, u->value[FIELD_GPU_MEMORY_BYTES]) :
			      RULES_NO_MODEL;
	return true;
}
