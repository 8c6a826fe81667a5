/* feed_prime.c - reads Prime Intellect's availability: one row for each provider, place, GPU
 * and number of GPUs.
 *
 * Pitfalls: most fields may be null; the list is paginated, and one page is not the market; a
 * price is for all GPUs of the row; the form of the chip is in `socket`, which does not give
 * the number of an SXM socket. */
#include "cmd/rnp-price/feed_item.h"

#include <stdio.h>
#include <string.h>

#include "common/base/err.h"
#include "common/json/json.h"

#define GPUS_MAX 1024

static int read_model(struct feed *f, const struct item *it, struct offer *o)
{
	const char *type = NULL, *socket = NULL;
	static __thread char name[420];
	int64_t memory = OFFER_UNKNOWN;

	if (item_text(it, "gpuType", &type) < 0 || item_text(it, "socket", &socket) < 0 ||
		item_scaled(it, "gpuMemory", 0, (int64_t)1 << 30, &memory) < 0)
		return -1;
	if (!type || !*type)
		return item_wrong(it, "gpuType", "there");
	if (socket && strncmp(socket, "SXM", 3) == 0)
		socket = "SXM";
	else if (socket && strcmp(socket, "PCIe") != 0)
		socket = NULL;
	snprintf(name, sizeof name, "%s%s%s", type, socket ? " " : "",
		socket ? socket : "");
	o->gpu_memory_bytes = memory;
	feed_name_model(f, o, gpu_find(name, memory > 0 ? memory : 0), name, it->where);
	return 0;
}

static int read_facts(const struct item *it, struct offer *o)
{
	struct item cpu = *it, memory = *it;
	const char *stock = NULL, *security = NULL;
	int spot = 0;

	cpu.obj = item_field(it, "vcpu");
	memory.obj = item_field(it, "memory");
	if (item_text(it, "stockStatus", &stock) < 0 ||
		item_text(it, "security", &security) < 0 ||
		item_flag(it, "isSpot", &spot) < 0 ||
		item_text(it, "region", &o->region) < 0 ||
		item_text(it, "provider", &o->host) < 0 ||
		(cpu.obj && item_scaled(&cpu, "defaultCount", 0, 1, &o->cpu_cores) < 0) ||
		(memory.obj &&
			item_scaled(&memory, "defaultCount", 0, (int64_t)1 << 30,
				&o->memory_bytes) < 0))
		return -1;
	o->spot = spot;
	if (stock)
		o->rentable = strcmp(stock, "Unavailable") != 0;
	if (security)
		o->secure = strcmp(security, "secure_cloud") == 0;
	return 0;
}

static int read_row(struct feed *f, const struct item *it)
{
	struct offer o;
	struct item prices = *it;
	const char *cloud = NULL, *place = NULL, *country = NULL, *currency = NULL;
	const json_t *count = item_field(it, "gpuCount");
	char id[512], letters[3];

	f->rows++;
	offer_init(&o);
	if (!json_is_object(it->obj))
		return err_set(EX_DATAERR, "%s: not an object", it->where);
	if (!json_is_integer(count) || json_integer_value(count) < 1 ||
		json_integer_value(count) > GPUS_MAX)
		return item_wrong(it, "gpuCount", "a whole number from 1 to 1024");
	o.gpu_count = json_integer_value(count);
	prices.obj = item_field(it, "prices");
	if (!json_is_object(prices.obj))
		return item_wrong(it, "prices", "an object");
	if (item_text(it, "cloudId", &cloud) < 0 ||
		item_text(it, "dataCenter", &place) < 0 ||
		item_text(it, "country", &country) < 0 ||
		item_text(&prices, "currency", &currency) < 0 ||
		read_model(f, it, &o) < 0 || read_facts(it, &o) < 0 ||
		item_price(&prices, "onDemand", o.gpu_count, &o.uusd_per_gpu_hour) < 0)
		return -1;
	if (!cloud || !*cloud)
		return item_wrong(it, "cloudId", "there");
	if (currency && strcmp(currency, "USD") != 0)
		return item_wrong(it, "prices.currency", "USD");
	if (!o.uusd_per_gpu_hour) {
		feed_note(f, it->where, "a row without a price, left out");
		return 0;
	}
	snprintf(id, sizeof id, "%s/%s@%s x%lld", o.host ? o.host : "", cloud,
		place            ? place :
			o.region ? o.region :
				   "",
		(long long)o.gpu_count);
	o.market = "prime";
	o.id = id;
	if (country && feed_country(country, letters))
		o.country = letters;
	feed_add(f, &o, it->where);
	return 0;
}

int feed_prime(struct feed *f, const char *text, size_t len, const char *name)
{
	json_t *doc = json_parse_object(text, len, name), *items = NULL;
	struct item it;
	int64_t total = -1;
	int rc = -1;

	if (doc && json_get_array(doc, name, "items", &items) == 0 &&
		json_opt_i64(doc, name, "totalCount", 0, JSON_SAFE_INTEGER_MAX, &total) ==
			0)
		rc = 0;
	if (rc == 0 && total >= 0) {
		if (f->stated >= 0 && f->stated != total)
			rc = err_set(EX_TEMPFAIL,
				"%s: the list changed from %lld to %lld rows while it was read",
				name, (long long)f->stated, (long long)total);
		f->stated = total;
	}
	for (size_t i = 0; rc == 0 && i < json_array_size(items); i++) {
		it.obj = json_array_get(items, i);
		snprintf(it.where, sizeof it.where, "%.200s: items[%zu]", name, i);
		rc = read_row(f, &it);
	}
	json_decref(doc);
	return rc;
}
