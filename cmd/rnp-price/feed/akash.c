/* akash.c - reads the GPU prices that Akash's console publishes: one row for each model,
 * memory and interface, with what its providers bid for one GPU.
 *
 * Pitfalls: a row is a statistic of bids and no offer: the median is taken, because the lowest
 * bid is what one stranger likes; the price is null where nobody bids; memory is "80Gi"; the
 * interface names the number of a socket ("SXM4"), which a model's name does not. */
#include "cmd/rnp-price/feed/item.h"

#include <stdio.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/num.h"
#include "common/json/json.h"

static int read_memory(const struct item *it, const char *ram, int64_t *bytes)
{
	size_t len = ram ? strlen(ram) : 0;
	char digits[8];
	int64_t gib;

	if (!len)
		return 0;
	if (len < 3 || len > 6 || strcmp(ram + len - 2, "Gi") != 0)
		return item_wrong(it, "ram", "a memory such as 80Gi");
	snprintf(digits, sizeof digits, "%.*s", (int)(len - 2), ram);
	if (num_i64(digits, "ram", 1, 4096, &gib) < 0)
		return item_wrong(it, "ram", "a memory such as 80Gi");
	*bytes = gib << 30;
	return 0;
}

static int read_available(const struct item *it, struct offer *o)
{
	struct item inside = *it;
	const json_t *n;

	inside.obj = item_field(it, "availability");
	n = inside.obj ? item_field(&inside, "available") : NULL;
	if (!n)
		return 0;
	if (!json_is_integer(n) || json_integer_value(n) < 0)
		return item_wrong(it, "availability.available", "a number of GPUs");
	o->rentable = json_integer_value(n) > 0;
	return 0;
}

static int read_row(struct feed *f, const struct item *it)
{
	struct item price = *it;
	const char *vendor = NULL, *model = NULL, *ram = NULL, *form = NULL,
		   *currency = NULL;
	static __thread char name[512];
	const struct gpu_model *m;
	char id[640];
	struct offer o;

	f->rows++;
	offer_init(&o);
	if (!json_is_object(it->obj))
		return err_set(EX_DATAERR, "%s: not an object", it->where);
	price.obj = item_field(it, "price");
	if (item_text(it, "vendor", &vendor) < 0 || item_text(it, "model", &model) < 0 ||
		item_text(it, "ram", &ram) < 0 || item_text(it, "interface", &form) < 0 ||
		read_memory(it, ram, &o.gpu_memory_bytes) < 0 ||
		read_available(it, &o) < 0)
		return -1;
	if (!model || !*model)
		return item_wrong(it, "model", "there");
	if (!price.obj) {
		feed_note(f, it->where, "a model without a price, left out");
		return 0;
	}
	if (item_text(&price, "currency", &currency) < 0 ||
		item_price(&price, "med", 1, &o.uusd_per_gpu_hour) < 0)
		return -1;
	if (currency && strcmp(currency, "USD") != 0)
		return item_wrong(it, "price.currency", "USD");
	if (!o.uusd_per_gpu_hour) {
		feed_note(f, it->where, "a model without a price, left out");
		return 0;
	}
	snprintf(name, sizeof name, "%s%s%s", model, form ? " " : "",
		!form                           ? "" :
			strncmp(form, "SXM", 3) ? form :
						  "SXM");
	snprintf(id, sizeof id, "%s/%s/%s/%s", vendor ? vendor : "", model,
		ram ? ram : "", form ? form : "");
	o.market = "akash";
	o.id = id;
	if (strlen(name) > 200)
		return item_wrong(it, "model",
			"of at most 200 bytes, with its interface");
	/* only data-centre cards are sold in several forms */
	m = gpu_find(name, o.gpu_memory_bytes > 0 ? o.gpu_memory_bytes : 0);
	if (!m)
		m = gpu_find(model, o.gpu_memory_bytes > 0 ? o.gpu_memory_bytes : 0);
	feed_name_model(f, &o, m, name, it->where);
	feed_add(f, &o, it->where);
	return 0;
}

int feed_akash(struct feed *f, const char *text, size_t len, const char *name)
{
	static const char *const fields[] = { "vendor", "model", "ram", "interface",
		"availability", "price", NULL };
	static const struct feed_form form = {
		.list = "models",
		.no_list = "no 'models': not Akash's prices of GPUs",
		.fields = fields,
		.item = read_row,
	};

	return feed_list_read(f, &form, text, len, name);
}
