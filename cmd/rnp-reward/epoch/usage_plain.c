/* usage_plain.c - parses rnp.usage the fast way: see usage_from_plain in usage_read.h.
 * common/json/fast.h takes the fields; a test and a fuzz target compare what this accepts with
 * usage_from_json. */
#include <pthread.h>
#include <string.h>

#include "cmd/rnp-reward/epoch/usage_read.h"
#include "cmd/rnp-reward/policy/fields.h"
#include "common/json/fast.h"

/* Where the fields of fast_usage go: enum field, or one of these. */
enum { NODE = FIELD_USAGE, WALLET, MODEL, FROM, TO, ELSEWHERE };
static unsigned char places[FAST_FIELDS_MAX];
static const struct fast_field *factors;

static void find_fields(void)
{
	static const char *const others[] = { "node", "wallet", "gpu_model", "from",
		"to" };

	memset(places, ELSEWHERE, sizeof places);
	for (int i = 0; i < FIELD_USAGE; i++)
		places[fast_field(&fast_usage, field_names[i])] = (unsigned char)i;
	for (int i = NODE; i < ELSEWHERE; i++)
		places[fast_field(&fast_usage, others[i - NODE])] = (unsigned char)i;
	factors = &fast_usage.fields[fast_field(&fast_usage, "factors")];
}

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

/* Of what is told by no table, factors are plain. */
static bool take_other(struct fast *r, const struct fast_field *f)
{
	return f == factors && take_factors(&r->scan, r->ctx);
}

static void set_field(struct usage *u, int place, const struct fast_piece *v,
	const struct fast_order *order, const struct fast_piece **model)
{
	switch (place) {
	case NODE:
		memcpy(u->node, order->addresses[v->number].bytes, sizeof u->node);
		break;
	case WALLET:
		u->has_wallet = true;
		memcpy(u->wallet, order->addresses[v->number].bytes, sizeof u->wallet);
		break;
	case MODEL:
		*model = v;
		break;
	case FROM:
		u->from_ms = v->number;
		break;
	case TO:
		u->to_ms = v->number;
		break;
	case ELSEWHERE:
		break;
	default:
		u->known |= UINT32_C(1) << place;
		u->value[place] = v->number;
	}
}

bool usage_from_plain(struct usage *u, struct rules *r, const char *line, size_t len)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	static _Thread_local struct fast_order order;
	struct fast f = { .scan = { line, line + len },
		.order = &order,
		.other = take_other,
		.ctx = u };
	struct fast_piece pieces[FAST_FIELDS_MAX];
	const struct fast_piece *model = NULL;
	char name[81];
	uint64_t seen;

	pthread_once(&once, find_fields);
	memset(u, 0, sizeof *u);
	u->from_ms = u->to_ms = -1;
	if (!fast_read(&f, &fast_usage, pieces, &seen))
		return false;
	for (uint64_t left = seen; left; left &= left - 1) {
		int i = __builtin_ctzll(left);

		set_field(u, places[i], &pieces[i], &order, &model);
	}
	if ((u->from_ms < 0) != (u->to_ms < 0))
		return false;
	u->model = RULES_NO_MODEL;
	if (model) {
		if (!fast_copy(model, name, sizeof name))
			return false;
		u->model = rules_model(r, name, u->value[FIELD_GPU_MEMORY_BYTES]);
	}
	return true;
}
