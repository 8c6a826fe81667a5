/* burn_core.c - the arithmetic of burns. */
#include "cmd/rnp-reward/burn_core.h"

#include "common/base/money.h"

#define BASE_UNITS INT64_C(100000000)
#define DAY_MS     INT64_C(86400000)

int burn_base_units(int64_t uusd, int64_t price_uusd, int64_t *base_units)
{
	return money_muldiv(uusd, BASE_UNITS, price_uusd, MONEY_FLOOR, base_units);
}

int burn_compute(struct burn *b, const struct burn_split *s, int64_t usd_uusd,
	int64_t price_uusd)
{
	int64_t rest_ppm = MONEY_PPM - s->burned_ppm - s->fee_ppm;

	b->fee_uusd = muldiv_floor(usd_uusd, s->fee_ppm, MONEY_PPM);
	b->operator_uusd = muldiv_floor(usd_uusd, rest_ppm, MONEY_PPM);
	b->burned_uusd = usd_uusd - b->fee_uusd - b->operator_uusd;
	b->credits = b->burned_uusd;
	return burn_base_units(b->burned_uusd, price_uusd, &b->base_units);
}

int64_t burn_due(enum burn_payment how, int64_t paid_ms, int64_t used_ms)
{
	int64_t unused = paid_ms + BURN_CHARGEBACK_MS;
	int64_t day_end = used_ms - used_ms % DAY_MS + DAY_MS;

	if (how != BURN_CARD)
		return paid_ms;
	/* what is used on the last day is burned no later than what is not used at all */
	return used_ms >= 0 && used_ms < unused && day_end < unused ? day_end : unused;
}

int burn_top_up(int64_t rewarded_uusd, int64_t burned_uusd, int64_t over_ppm,
	int64_t *more_uusd)
{
	int64_t wanted;

	if (money_muldiv(rewarded_uusd, MONEY_PPM + over_ppm, MONEY_PPM, MONEY_CEIL,
		    &wanted) < 0)
		return -1;
	*more_uusd = wanted > burned_uusd ? wanted - burned_uusd : 0;
	return 0;
}
