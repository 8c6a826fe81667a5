/* fuzz_bid.c - fuzz target: orders from strangers to a provider's price script, and the price
 * file.
 *
 * The first line is the price file, the rest an order. It checks that a rate is a decimal that
 * does not exceed the tenant's offer, and that the same order with a dearer core costs no
 * less. */
/* uses: cmd/rnp-price */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-price/publish/akash.h"
#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/json/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool promise)
{
	if (!promise)
		abort();
}

static void bid(struct bid_prices *p, const json_t *order)
{
	char rate[BID_RATE_MAX], dearer[BID_RATE_MAX], why[256];

	if (bid_rate(p, order, "fuzz", rate, why, sizeof why) <= 0)
		return;
	must(strspn(rate, "0123456789.") == strlen(rate) && *rate != '.');
	if (strlen(rate) < 18) {
		p->uusd[BID_CPU]++;
		if (bid_rate(p, order, "fuzz", dearer, why, sizeof why) > 0)
			must(strlen(dearer) > strlen(rate) || strcmp(dearer, rate) >= 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *end = size ? memchr(data, '\n', size) : NULL;
	json_t *file, *order;
	struct bid_prices p = { 0 };

	if (!end)
		return 0;
	file = json_parse_object((const char *)data, (size_t)(end - data), "prices");
	order = json_parse_object((const char *)end + 1, size - (size_t)(end - data) - 1,
		"order");
	if (file && bid_parse(&p, file, "prices") == 0 && order)
		bid(&p, order);
	bid_release(&p);
	json_decref(file);
	json_decref(order);
	err_clear();
	return 0;
}
