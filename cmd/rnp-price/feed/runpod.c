/* feed_runpod.c - reads RunPod's GPU types: a price per GPU for each tier, on demand and spot.
 *
 * Pitfalls: prices are null where nothing is in stock; GraphQL wraps the list in `data`, while
 * the documentation shows a single type; older answers have only `lowestPrice`, which does not
 * state the tier. */
#include "cmd/rnp-price/feed_item.h"

#include <stdio.h>
#include <string.h>

#include "common/base/err.h"
#include "common/json/json.h"

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

int feed_runpod(struct feed *f, const char *text, size_t len, const char *name)
{
	json_t *doc = json_parse(text, len, JSON_DEPTH_MAX, name);
	const json_t *types = json_object_get(json_object_get(doc, "data"), "gpuTypes");
	struct item it;
	int rc = doc ? 0 : -1;

	if (rc == 0 && json_object_get(doc, "errors"))
		rc = err_set(EX_DATAERR, "%s: the market answered with errors", name);
	if (json_is_array(doc))
		types = doc;
	snprintf(it.where, sizeof it.where, "%.200s", name);
	it.obj = doc;
	if (rc == 0 && !types && json_object_get(doc, "id"))
		rc = read_type(f, &it);
	else if (rc == 0 && !json_is_array(types))
		rc = err_set(EX_DATAERR, "%s: no 'data.gpuTypes': not a list of RunPod's",
			name);
	for (size_t i = 0; rc == 0 && json_is_array(types) && i < json_array_size(types);
		i++) {
		it.obj = json_array_get(types, i);
		snprintf(it.where, sizeof it.where, "%.200s: gpuTypes[%zu]", name, i);
		rc = read_type(f, &it);
	}
	json_decref(doc);
	return rc;
}
