/* prime.c - reads Prime Intellect's availability, of its API or its command line: one row for each
 * provider, place, GPU and number of GPUs.
 *
 * Pitfalls: most fields may be null; the list is paginated, and one page is not the market; a
 * price is for all GPUs of the row; the form of the chip is in `socket`, which does not give
 * the number of an SXM socket. */
#include "cmd/rnp-price/feed/item.h"

#include <stdio.h>
#include <stdlib.h>
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

/* --- what Prime's own command line writes ---------------------------------------------------- */

static void copy(json_t *to, const char *name, const json_t *v)
{
	const char *text = json_string_value(v);

	if (v && !json_is_null(v) && !(text && strcmp(text, "N/A") == 0))
		json_object_set(to, name, (json_t *)v);
}

/* "8", or "8-16" for several machines that are alike: the least of them. */
static json_t *counted(const char *text)
{
	json_t *out = json_object();

	if (text && *text >= '0' && *text <= '9')
		json_set_i64(out, "defaultCount", strtol(text, NULL, 10));
	return out;
}

/* Returns a row of `prime availability list --output json` as the API would have it. */
static json_t *api_row(const json_t *row)
{
	static const char *const same[][2] = { { "cloudId", "cloud_id" },
		{ "socket", "socket" }, { "provider", "provider" },
		{ "country", "location" }, { "gpuCount", "gpu_count" },
		{ "gpuMemory", "gpu_memory" }, { "stockStatus", "stock_status" },
		{ "isSpot", "is_spot" }, { "dataCenter", "id" } };
	const char *type = json_string_value(json_object_get(row, "gpu_type")),
		   *security = json_string_value(json_object_get(row, "security"));
	const char *spot = type ? strstr(type, " (Spot)") : NULL;
	json_t *out = json_object(), *prices = json_object();

	for (size_t i = 0; i < sizeof same / sizeof *same; i++)
		copy(out, same[i][0], json_object_get(row, same[i][1]));
	if (type)
		json_object_set_new(out, "gpuType",
			json_stringn(type, spot ? (size_t)(spot - type) : strlen(type)));
	if (security)
		json_set_text(out, "security",
			strcmp(security, "community") == 0 ? "community_cloud" :
							     "secure_cloud");
	copy(prices, "onDemand", json_object_get(row, "price_value"));
	json_set(out, "prices", prices);
	json_set(out, "vcpu", counted(json_string_value(json_object_get(row, "vcpus"))));
	json_set(out, "memory",
		counted(json_string_value(json_object_get(row, "memory_gb"))));
	return out;
}

static int read_any(struct feed *f, const struct item *it)
{
	struct item row = *it;
	json_t *made = json_object_get(it->obj, "gpu_type") ? api_row(it->obj) : NULL;
	int rc;

	if (made)
		row.obj = made;
	rc = read_row(f, &row);
	json_decref(made);
	return rc;
}

static int read_field(struct feed_list *l, const char *key, const json_t *v)
{
	int64_t total = json_integer_value(v);

	if (strcmp(key, "totalCount") != 0 && strcmp(key, "total_count") != 0)
		return 0;
	if (!json_is_integer(v) || total < 0 || total > JSON_SAFE_INTEGER_MAX)
		return err_set(EX_DATAERR, "%s: %s: not a number of rows", l->name, key);
	if (l->feed->stated >= 0 && l->feed->stated != total)
		return err_set(EX_TEMPFAIL,
			"%s: the list changed from %lld to %lld rows while it was read",
			l->name, (long long)l->feed->stated, (long long)total);
	l->feed->stated = total;
	return 0;
}

int feed_prime(struct feed *f, const char *text, size_t len, const char *name)
{
	static const char *const fields[] = { "cloudId", "gpuType", "socket", "provider",
		"region", "dataCenter", "country", "gpuCount", "gpuMemory", "vcpu",
		"memory", "stockStatus", "security", "prices", "isSpot", "id", "cloud_id",
		"gpu_type", "gpu_count", "location", "stock_status", "price_value",
		"vcpus", "memory_gb", "gpu_memory", "is_spot", NULL };
	static const struct feed_form form = {
		.list = "items|gpu_resources",
		.no_list = "no 'items': not a list of Prime's",
		.fields = fields,
		.item = read_any,
		.field = read_field,
	};

	return feed_list_read(f, &form, text, len, name);
}
