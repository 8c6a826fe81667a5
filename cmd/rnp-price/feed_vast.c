/* feed_vast.c - reads Vast's offers, from its API or from an exporter that wraps them.
 *
 * Pitfalls: `offers` is an array or, for one, the object itself; the documentation's example
 * nests them in `response_example`; ids repeat; gpu_ram and cpu_ram are MiB, network is Mbit/s;
 * all prices are for all GPUs of the offer. dph_total includes the renter's disk, which our
 * price does not: dph_base is the price of the machine. min_bid is the minimum price of an
 * interruptible (spot) contract. Nearly every field may be null. */
#include "cmd/rnp-price/feed_item.h"

#include <stdio.h>
#include <string.h>

#include "common/base/err.h"
#include "common/json/json.h"

#define GPUS_MAX 1024

static int read_facts(const struct item *it, struct offer *o)
{
	const char *verification = NULL;
	int64_t reliability = OFFER_UNKNOWN;

	if (item_scaled(it, "cpu_cores_effective", 3, 1, &o->cpu_cores) < 0 ||
		item_scaled(it, "cpu_ram", 0, (int64_t)1 << 20, &o->memory_bytes) < 0 ||
		item_scaled(it, "inet_down", 6, 1, &o->down_bps) < 0 ||
		item_scaled(it, "inet_up", 6, 1, &o->up_bps) < 0 ||
		item_scaled(it, "reliability", 6, 1, &reliability) < 0 ||
		item_scaled(it, "reliability2", 6, 1, &reliability) < 0 ||
		item_text(it, "geolocation", &o->region) < 0 ||
		item_text(it, "verification", &verification) < 0 ||
		item_flag(it, "rentable", &o->rentable) < 0 ||
		item_flag(it, "rented", &o->rented) < 0)
		return -1;
	if (o->cpu_cores >= 0)
		o->cpu_cores /= 1000; /* a fraction of a core does not count */
	if (reliability > 1000000)
		return item_wrong(it, "reliability2", "between 0 and 1");
	o->reliability_ppm = reliability;
	if (verification)
		o->verified = strcmp(verification, "verified") == 0;
	return 0;
}

/* Reads the price of the machine without the renter's disk, for each GPU. */
static int read_price(struct feed *f, const struct item *it, struct offer *o)
{
	int rc = item_price(it, "dph_base", o->gpu_count, &o->uusd_per_gpu_hour);

	if (rc != 0 || o->uusd_per_gpu_hour)
		return rc < 0 ? -1 : 0;
	if (item_price(it, "dph_total", o->gpu_count, &o->uusd_per_gpu_hour) < 0)
		return -1;
	if (o->uusd_per_gpu_hour)
		feed_note(f, it->where,
			"no dph_base: dph_total is taken, which includes storage");
	return 0;
}

static int read_gpu(struct feed *f, const struct item *it, struct offer *o)
{
	const char *name = NULL;
	const json_t *n = item_field(it, "num_gpus");
	const struct gpu_model *m;

	if (!json_is_integer(n) || json_integer_value(n) < 0 ||
		json_integer_value(n) > GPUS_MAX)
		return item_wrong(it, "num_gpus", "a whole number from 0 to 1024");
	o->gpu_count = json_integer_value(n);
	if (!o->gpu_count)
		return 0;
	if (item_text(it, "gpu_name", &name) < 0 ||
		item_scaled(it, "gpu_ram", 0, (int64_t)1 << 20, &o->gpu_memory_bytes) < 0)
		return -1;
	if (!name || !*name)
		return item_wrong(it, "gpu_name", "there");
	m = gpu_find(name, o->gpu_memory_bytes > 0 ? o->gpu_memory_bytes : 0);
	feed_name_model(f, o, m, name, it->where);
	return 0;
}

static int read_item(struct feed *f, const struct item *it)
{
	struct offer o;
	char ids[3][64], country[3];
	bool had;

	f->rows++;
	offer_init(&o);
	if (!json_is_object(it->obj))
		return err_set(EX_DATAERR, "%s: not an object", it->where);
	if (item_id(it, "id", ids[0]) < 0 || item_id(it, "machine_id", ids[1]) < 0 ||
		item_id(it, "host_id", ids[2]) < 0)
		return -1;
	if (!ids[0][0])
		return item_wrong(it, "id", "there");
	if (read_gpu(f, it, &o) < 0)
		return -1;
	if (!o.gpu_count) {
		feed_note(f, it->where, "an offer without a GPU, left out");
		return 0;
	}
	if (read_facts(it, &o) < 0 || read_price(f, it, &o) < 0)
		return -1;
	o.market = "vast";
	o.id = ids[0];
	o.at_ms = f->at_ms;
	o.machine = ids[1][0] ? ids[1] : NULL;
	o.host = ids[2][0] ? ids[2] : NULL;
	if (o.region && feed_country(o.region, country))
		o.country = country;
	had = o.uusd_per_gpu_hour;
	if (had)
		feed_add(f, &o, it->where);
	if (item_price(it, "min_bid", o.gpu_count, &o.uusd_per_gpu_hour) < 0)
		return -1;
	if (o.uusd_per_gpu_hour) {
		o.spot = true;
		feed_add(f, &o, it->where);
	} else if (!had) {
		feed_note(f, it->where, "an offer without a price, left out");
	}
	return 0;
}

/* Returns the value that holds the offers, in one of the known envelopes. */
static const json_t *find_offers(const json_t *doc, const char **path)
{
	const json_t *v = json_object_get(doc, "offers");

	*path = "offers";
	if (!v) {
		v = json_object_get(json_object_get(doc, "response_example"), "offers");
		*path = "response_example.offers";
	}
	return v;
}

static int read_all(struct feed *f, const json_t *doc, const char *name)
{
	const char *path;
	const json_t *offers = find_offers(doc, &path),
		     *stated = json_object_get(doc, "count");
	struct item it;

	if (json_object_get(doc, "timestamp")) {
		if (json_get_time(doc, name, "timestamp", &f->at_ms) < 0)
			return -1;
		f->own_time = true;
	}
	if (json_is_object(offers)) {
		it.obj = offers;
		snprintf(it.where, sizeof it.where, "%.200s: %s", name, path);
		return read_item(f, &it);
	}
	if (!json_is_array(offers))
		return err_set(EX_DATAERR, "%s: no 'offers': not a list of Vast's offers",
			name);
	for (size_t i = 0; i < json_array_size(offers); i++) {
		it.obj = json_array_get(offers, i);
		snprintf(it.where, sizeof it.where, "%.200s: %s[%zu]", name, path, i);
		if (read_item(f, &it) < 0)
			return -1;
	}
	if (json_is_integer(stated) && json_integer_value(stated) != (json_int_t)f->rows)
		feed_note(f, name, "the feed says that it has %lld offers, it holds %ld",
			(long long)json_integer_value(stated), f->rows);
	return 0;
}

int feed_vast(struct feed *f, const char *bytes, size_t len, const char *name)
{
	json_t *doc = json_parse(bytes, len, JSON_DEPTH_MAX, name);
	int rc = doc ? read_all(f, doc, name) : -1;

	json_decref(doc);
	return rc;
}
