/* runpod.c - reads RunPod's GPU types: a price per GPU for each tier, on demand and spot.
 *
 * Pitfalls: prices are null where nothing is in stock; GraphQL wraps the list in `data`, while
 * the documentation shows a single type; older answers have only `lowestPrice`, which does not
 * state the tier. */
#include "cmd/rnp-price/feed/item.h"

#include <stdio.h>
#include <string.h>

#include "common/base/err.h"

static const struct tier {
	const char *price, *name;
	int secure;
	bool spot, lowest; /* lowest: within lowestPrice, used if no tier has a price */
} tiers[] = { { "securePrice", "secure", 1, false, false },
	{ "communityPrice", "community", 0, false, false },
	{ "secureSpotPrice", "secure", 1, true, false },
	{ "communitySpotPrice", "community", 0, true, false },
	{ "uninterruptablePrice", "lowest", OFFER_UNKNOWN, false, true },
	{ "minimumBidPrice", "lowest", OFFER_UNKNOWN, true, true } };

static int read_type(struct feed *f, const struct item *it)
{
	struct item lowest = *it;
	const char *type = NULL, *display = NULL;
	int64_t memory = OFFER_UNKNOWN;
	const struct gpu_model *m;
	bool had[2] = { false, false };
	char id[300];

	f->rows++;
	if (!json_is_object(it->obj))
		return err_set(EX_DATAERR, "%s: not an object", it->where);
	lowest.obj = item_field(it, "lowestPrice");
	if (item_text(it, "id", &type) < 0 ||
		item_text(it, "displayName", &display) < 0 ||
		item_scaled(it, "memoryInGb", 0, (int64_t)1 << 30, &memory) < 0)
		return -1;
	if (!type || !*type)
		return item_wrong(it, "id", "there");
	m = gpu_find(type, memory > 0 ? memory : 0);
	if (!m && display)
		m = gpu_find(display, memory > 0 ? memory : 0);
	for (size_t i = 0; i < sizeof tiers / sizeof *tiers; i++) {
		const struct tier *t = &tiers[i];
		struct offer o;

		if (t->lowest && (!lowest.obj || had[t->spot]))
			continue;
		offer_init(&o);
		if (item_price(t->lowest ? &lowest : it, t->price, 1,
			    &o.uusd_per_gpu_hour) < 0)
			return -1;
		if (!o.uusd_per_gpu_hour)
			continue;
		had[t->spot] = true;
		snprintf(id, sizeof id, "%s/%s", type, t->name);
		o.market = "runpod";
		o.id = id;
		o.gpu_memory_bytes = memory;
		o.spot = t->spot;
		o.secure = t->secure;
		feed_name_model(f, &o, m, type, it->where);
		feed_add(f, &o, it->where);
	}
	if (!had[0] && !had[1])
		feed_note(f, it->where, "a GPU type without a price, left out");
	return 0;
}

static int read_field(struct feed_list *l, const char *key, const json_t *v)
{
	(void)v;
	return strcmp(key, "errors") == 0 ?
		err_set(EX_DATAERR, "%s: the market answered with errors", l->name) :
		0;
}

int feed_runpod(struct feed *f, const char *text, size_t len, const char *name)
{
	static const char *const fields[] = { "id", "displayName", "memoryInGb",
		"securePrice", "communityPrice", "secureSpotPrice", "communitySpotPrice",
		"lowestPrice", NULL };
	static const struct feed_form form = {
		.list = "gpuTypes",
		.inside = "data",
		.no_list = "no 'data.gpuTypes': not a list of RunPod's",
		.fields = fields,
		.item = read_type,
		.field = read_field,
		.single = true,
	};

	return feed_list_read(f, &form, text, len, name);
}
