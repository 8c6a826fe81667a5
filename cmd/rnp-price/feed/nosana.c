/* nosana.c - reads Nosana's markets: they state what a host gets for an hour; its customer
 * pays a tenth more, which is the price. */
#include "cmd/rnp-price/feed/item.h"

#include <stdio.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/money.h"
#include "common/json/json.h"

static int read_market(struct feed *f, const struct item *it)
{
	struct offer o;
	const char *name = NULL, *type = NULL;
	const json_t *types;

	f->rows++;
	offer_init(&o);
	if (!json_is_object(it->obj))
		return err_set(EX_DATAERR, "%s: not an object", it->where);
	if (item_text(it, "name", &name) < 0 ||
		item_price(it, "usd_reward_per_hour", 1, &o.uusd_per_gpu_hour) < 0 ||
		item_scaled(it, "lowest_vram", 0, (int64_t)1 << 30, &o.gpu_memory_bytes) <
			0)
		return -1;
	if (!name || !*name)
		return item_wrong(it, "name", "there");
	types = item_field(it, "gpu_types");
	/* a market of several models states none for each: it keeps its own name */
	if (json_is_array(types) && json_array_size(types) == 1)
		type = json_string_value(json_array_get(types, 0));
	if (!type || !*type || strlen(type) > 200)
		type = name;
	if (!o.uusd_per_gpu_hour) {
		feed_note(f, it->where, "a market without a price, left out");
		return 0;
	}
	o.uusd_per_gpu_hour = o.uusd_per_gpu_hour +
		muldiv_half_up(o.uusd_per_gpu_hour, 1, 10);
	o.market = "nosana";
	o.id = name;
	feed_name_model(f, &o,
		gpu_find(type, o.gpu_memory_bytes > 0 ? o.gpu_memory_bytes : 0), type,
		it->where);
	feed_add(f, &o, it->where);
	return 0;
}

int feed_nosana(struct feed *f, const char *text, size_t len, const char *name)
{
	static const char *const fields[] = { "name", "type", "usd_reward_per_hour",
		"gpu_types", "lowest_vram", NULL };
	static const struct feed_form form = {
		.list = "",
		.no_list = "not a list of Nosana's markets",
		.fields = fields,
		.item = read_market,
	};

	return feed_list_read(f, &form, text, len, name);
}
