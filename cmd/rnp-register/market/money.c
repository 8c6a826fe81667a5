/* money.c - what booked time costs. */
#include "cmd/rnp-register/market/money.h"

#include "common/base/money.h"

int64_t market_cost(int64_t uusd_per_hour, int64_t ready_ms)
{
	return muldiv_floor(uusd_per_hour, ready_ms, MARKET_HOUR_MS);
}

int64_t market_lasts_ms(int64_t uusd_per_hour, int64_t uusd)
{
	/* cost <= uusd while price x ms < (uusd + 1) x hour */
	__int128 ms;

	if (uusd_per_hour <= 0)
		return INT64_MAX;
	if (uusd < 0)
		return 0;
	ms = (((__int128)uusd + 1) * MARKET_HOUR_MS - 1) / uusd_per_hour;
	return ms > INT64_MAX ? INT64_MAX : (int64_t)ms;
}

int64_t market_hold(int64_t uusd_per_hour, int64_t most_uusd)
{
	if (most_uusd < 0)
		return 0;
	return uusd_per_hour < most_uusd ? uusd_per_hour : most_uusd;
}

int64_t market_part_ceil(int64_t uusd, int64_t gpus, int64_t of)
{
	return of > 0 ? muldiv_ceil(uusd, gpus, of) : uusd;
}

int64_t market_part_floor(int64_t uusd, int64_t gpus, int64_t of)
{
	return of > 0 ? muldiv_floor(uusd, gpus, of) : uusd;
}

int market_warning(int64_t left_ms, int *warned)
{
	static const int minutes[] = { 1, 5, 15 };

	for (unsigned i = 0; i < sizeof minutes / sizeof *minutes; i++)
		if (left_ms <= minutes[i] * INT64_C(60000)) {
			if (*warned && *warned <= minutes[i])
				return 0;
			*warned = minutes[i];
			return minutes[i];
		}
	*warned = 0;
	return 0;
}
