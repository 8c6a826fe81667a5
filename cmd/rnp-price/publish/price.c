/* price.c - which price may be listed: see market.h. */
#include "cmd/rnp-price/publish/market.h"

#include <stdio.h>

#include "common/base/err.h"
#include "common/base/exit.h"
#include "common/base/money.h"

#define PPM       INT64_C(1000000)
#define PRICE_MAX INT64_C(1000000000000) /* a million dollars an hour */

int publish_price(const struct publish_input *in, struct publish_price *out)
{
	int64_t low, high;

	if (in->ask_uusd < 1 || in->customer_uusd < in->ask_uusd ||
		in->customer_uusd > PRICE_MAX)
		return err_set(EX_DATAERR,
			"a quote of %lld uusd, %lld for the customer, is no price",
			(long long)in->ask_uusd, (long long)in->customer_uusd);
	if (in->ask_uusd < in->floor_uusd)
		return err_set(EX_DATAERR,
			"the quote asks %lld uusd, less than its floor of %lld",
			(long long)in->ask_uusd, (long long)in->floor_uusd);
	*out = (struct publish_price){ in->customer_uusd, in->ask_uusd, false };
	if (in->day_before_uusd < 1)
		return 0;
	low = muldiv_ceil(in->day_before_uusd, PPM - in->max_change_ppm, PPM);
	high = muldiv_floor(in->day_before_uusd, PPM + in->max_change_ppm, PPM);
	if (in->customer_uusd >= low && in->customer_uusd <= high)
		return 0;
	out->limited = true;
	out->customer_uusd = in->customer_uusd < low ? low : high;
	out->ask_uusd = muldiv_floor(out->customer_uusd, in->ask_uusd, in->customer_uusd);
	if (out->ask_uusd < in->floor_uusd)
		return err_set(EXIT_NO,
			"the floor of %lld uusd is more above the price of a day ago, %lld uusd, "
			"than --max-change allows",
			(long long)in->floor_uusd, (long long)in->day_before_uusd);
	return 0;
}

int64_t publish_per_gpu(int64_t uusd, int64_t gpus)
{
	return muldiv_ceil(uusd, 1, gpus);
}

void publish_dollars(struct buf *out, int64_t uusd)
{
	char places[8];
	int n = 6;

	buf_addf(out, "%lld", (long long)(uusd / PPM));
	snprintf(places, sizeof places, "%06lld", (long long)(uusd % PPM));
	while (n && places[n - 1] == '0')
		n--;
	if (n)
		buf_addf(out, ".%.*s", n, places);
}
