/* supply.c - the schedule of issuance. */
#include "cmd/rnp-reward/supply.h"

#include "common/base/money.h"

void supply_at(const struct supply_schedule *s, int month, struct supply_month *out)
{
	int64_t cap = muldiv_floor(s->start_base_units, s->cap_ppm, MONEY_PPM);
	int64_t rate = s->first_month_base_units, full = 0;

	*out = (struct supply_month){ .left = cap };
	for (int m = 0; m <= month; m++) {
		if (m && m % 12 == 0)
			rate = muldiv_floor(rate, s->damping_ppm, MONEY_PPM);
		out->recycled = out->left ?
			0 :
			muldiv_floor(full, s->recycling_ppm, MONEY_PPM);
		out->minted = rate < out->left ? rate : out->left;
		full = out->left ? rate : full;
		out->total += out->minted;
		out->left -= out->minted;
	}
}
