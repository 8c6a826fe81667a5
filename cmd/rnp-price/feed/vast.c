/* vast.c - reads Vast's offers, from its API, its command line (vastai search offers --raw) or an
 * exporter that wraps them, piece by piece as they arrive.
 *
 * Pitfalls: `offers` is an array or, for one, the object itself; the command line writes the array
 * alone; the documentation's example
 * nests them in `response_example`; ids repeat; gpu_ram and cpu_ram are MiB, network is Mbit/s;
 * all prices are for all GPUs of the offer. dph_total includes the renter's disk, which our
 * price does not: dph_base is the price of the machine. min_bid is the minimum price of an
 * interruptible (spot) contract. Nearly every field may be null.
 *
 * A list has 19,000 offers of 2.5 kB, so that it is never in memory as a whole: json_items cuts
 * it into offers, and of each offer only the fields that count become objects. */
#include "cmd/rnp-price/feed/feed.h"

#include <stdio.h>
#include <string.h>

#include "cmd/rnp-price/feed/item.h"
#include "common/base/err.h"
#include "common/json/json.h"

#define GPUS_MAX 1024

/* what read_item and the functions below it look at */
static const char *const fields[] = { "id", "machine_id", "host_id", "num_gpus",
	"gpu_name", "gpu_ram", "cpu_cores_effective", "cpu_ram", "inet_down", "inet_up",
	"reliability", "reliability2", "geolocation", "verification", "rentable",
	"rented", "dph_base", "dph_total", "min_bid", NULL };

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
	m = offer_list_find(&f->offers, name,
		o->gpu_memory_bytes > 0 ? o->gpu_memory_bytes : 0);
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

/* --- the list ----------------------------------------------------------------------------- */

static int read_field(struct feed_list *l, const char *key, const json_t *v)
{
	json_t *doc;
	int rc = 0;

	if (strcmp(key, "count") == 0 && json_is_integer(v))
		l->stated = json_integer_value(v);
	if (strcmp(key, "timestamp") == 0) {
		doc = json_object();
		json_object_set(doc, key, (json_t *)v);
		rc = json_get_time(doc, l->name, key, &l->feed->at_ms);
		l->feed->own_time = rc == 0;
		json_decref(doc);
	}
	return rc;
}

const struct feed_form feed_vast_form = {
	.list = "offers",
	.inside = "response_example",
	.no_list = "no 'offers': not a list of Vast's offers",
	.fields = fields,
	.item = read_item,
	.field = read_field,
};

int feed_vast(struct feed *f, const char *text, size_t len, const char *name)
{
	return feed_list_read(f, &feed_vast_form, text, len, name);
}
