/* salad.c - reads Salad's GPU classes: a price for each priority. Pitfalls: prices are
 * texts; anything below high priority may be taken away by a customer who pays more. */
#include "cmd/rnp-price/feed/item.h"

#include <stdio.h>
#include <string.h>

#include "common/base/err.h"
#include "common/json/json.h"

/* Splits "RTX 4090 (24 GB)" into the name and the memory. */
static const struct gpu_model *find_model(const char *name)
{
	const char *open = strstr(name, " (");
	char bare[201];
	int gb = 0, end = 0;

	if (!open || sscanf(open, " (%4d GB)%n", &gb, &end) != 1 || !end || open[end] ||
		gb < 0)
		return gpu_find(name, 0);
	snprintf(bare, sizeof bare, "%.*s", (int)(open - name), name);
	return gpu_find(bare, (int64_t)gb << 30);
}

static int read_price(struct feed *f, const struct item *it, const struct item *class,
	const char *name, const char *class_id)
{
	struct offer o;
	const char *priority = NULL, *type = NULL;
	char id[300];

	offer_init(&o);
	if (item_text(it, "priority", &priority) < 0 ||
		item_text(class, "gpu_class_type", &type) < 0 ||
		item_price_text(it, "price", &o.uusd_per_gpu_hour) < 0)
		return -1;
	if (!priority || !*priority)
		return item_wrong(it, "priority", "there");
	if (!o.uusd_per_gpu_hour) {
		feed_note(f, it->where, "a class without a price, left out");
		return 0;
	}
	snprintf(id, sizeof id, "%s/%s", class_id, priority);
	o.market = "salad";
	o.id = id;
	o.spot = strcmp(priority, "high") != 0;
	if (type)
		o.secure = strcmp(type, "secure") == 0;
	feed_name_model(f, &o, find_model(name), name, it->where);
	feed_add(f, &o, it->where);
	return 0;
}

static int read_class(struct feed *f, const struct item *it)
{
	const json_t *prices;
	const char *name = NULL;
	struct item one;
	char id[64];

	f->rows++;
	if (!json_is_object(it->obj))
		return err_set(EX_DATAERR, "%s: not an object", it->where);
	prices = item_field(it, "prices");
	if (item_id(it, "id", id) < 0 || item_text(it, "name", &name) < 0)
		return -1;
	if (!id[0] || !name || !*name)
		return item_wrong(it, id[0] ? "name" : "id", "there");
	if (!json_is_array(prices))
		return item_wrong(it, "prices", "an array");
	if (!json_array_size(prices))
		feed_note(f, it->where, "a class without a price, left out");
	for (size_t i = 0; i < json_array_size(prices); i++) {
		one.obj = json_array_get(prices, i);
		snprintf(one.where, sizeof one.where, "%.250s.prices[%zu]", it->where, i);
		if (!json_is_object(one.obj))
			return err_set(EX_DATAERR, "%s: not an object", one.where);
		if (read_price(f, &one, it, name, id) < 0)
			return -1;
	}
	return 0;
}

int feed_salad(struct feed *f, const char *text, size_t len, const char *name)
{
	static const char *const fields[] = { "id", "name", "prices", "gpu_class_type",
		NULL };
	static const struct feed_form form = {
		.list = "items",
		.no_list = "no 'items': not a list of Salad's GPU classes",
		.fields = fields,
		.item = read_class,
	};

	return feed_list_read(f, &form, text, len, name);
}
