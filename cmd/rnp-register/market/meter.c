/* meter.c - the whole is computed anew each time, and a piece is the difference. */
#include "cmd/rnp-register/market/meter.h"

#include "cmd/rnp-register/market/money.h"
#include "common/base/money.h"

#define DAY_MS INT64_C(86400000)

struct meter meter_read(struct meter *sum, int64_t node_uusd_per_hour, int64_t gpus,
	int64_t ready_ms)
{
	struct meter before = *sum;

	if (ready_ms > sum->ready_ms)
		*sum = (struct meter){ ready_ms,
			market_cost(node_uusd_per_hour, ready_ms),
			muldiv_floor(gpus, ready_ms, 1000) };
	return (struct meter){ sum->ready_ms - before.ready_ms,
		sum->earned_uusd - before.earned_uusd,
		sum->gpu_seconds - before.gpu_seconds };
}

int64_t meter_due_ms(int64_t from_ms)
{
	int64_t midnight_ms = (from_ms / DAY_MS + 1) * DAY_MS;

	return from_ms + MARKET_HOUR_MS < midnight_ms ? from_ms + MARKET_HOUR_MS :
							midnight_ms;
}
