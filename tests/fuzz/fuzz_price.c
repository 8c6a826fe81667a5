/* fuzz_price: what people and strangers give rnp-price - files of costs, lines of offers.
 *
 * The first byte picks the reader. Promises held: costs that are taken have a floor or a reason, and
 * a floor that grows with the network's cost; a line of offers that is read without building objects
 * says the same as one that is built. */
/* uses: cmd/rnp-price */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-price/cost.h"
#include "cmd/rnp-price/offer.h"
#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/json/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool promise)
{
	if (!promise)
		abort();
}

static void read_costs(const char *text, size_t len)
{
	json_t *obj = json_parse_object(text, len, "fuzz");
	struct costs c;
	struct cost_floor f, dearer;

	/* a day-ahead file is another file's business */
	if (obj && !json_object_get(json_object_get(obj, "tariff"), "day_ahead") &&
		cost_parse(&c, obj, "fuzz", NULL, 0, NULL) == 0) {
		must(c.watts_idle <= c.watts_load);
		if (cost_floor(&c, 5, &f) == 0) {
			must(f.floor_uusd >= 0);
			c.network_uusd_per_hour++;
			must(cost_floor(&c, 5, &dearer) < 0 ||
				dearer.floor_uusd >= f.floor_uusd);
		}
	}
	json_decref(obj);
}

static void read_offer(const char *text, size_t len)
{
	struct offer_list fast = { 0 }, slow = { 0 };

	if (offer_list_add_plain(&fast, text, len)) {
		json_t *r = json_parse_object(text, len, "fuzz"), *a, *b;

		must(r && offer_list_add_json(&slow, r, "fuzz") == 0);
		a = offer_to_json(&fast.items[0]);
		b = offer_to_json(&slow.items[0]);
		must(json_equal(a, b));
		json_decref(a);
		json_decref(b);
		json_decref(r);
	}
	offer_list_release(&fast);
	offer_list_release(&slow);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf text = BUF_INIT;

	if (size < 1)
		return 0;
	buf_add(&text, data + 1, size - 1);
	buf_reserve(&text, 1);
	text.data[text.len] = '\0';
	if (data[0] % 2 == 0)
		read_costs(text.data, text.len);
	else
		read_offer(text.data, text.len);
	err_clear();
	buf_release(&text);
	return 0;
}
