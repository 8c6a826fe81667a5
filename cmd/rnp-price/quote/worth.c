/* worth.c - compares prices of nodes with different links and places: see worth.h. */
#include "cmd/rnp-price/quote/worth.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/money.h"

#define MBYTE_BPS INT64_C(8000000) /* RNP-004 speaks of bytes, records hold bits */

const struct worth_tier *worth_tier(const struct worth *w, int64_t down_bps,
	int64_t up_bps)
{
	int64_t lower_bps = down_bps < up_bps ? down_bps : up_bps;
	const struct worth_tier *best = NULL;

	for (size_t i = 0; i < w->ntiers; i++)
		if (lower_bps >= w->tiers[i].min_bps &&
			(!best || w->tiers[i].min_bps > best->min_bps))
			best = &w->tiers[i];
	return best;
}

/* A link below every tier has no surcharge, as the lowest tier has none. */
static int64_t surcharge_of(const struct worth *w, int64_t down_bps, int64_t up_bps)
{
	const struct worth_tier *t;

	if (down_bps < 0 || up_bps < 0 || !w->ntiers)
		return WORTH_UNKNOWN;
	t = worth_tier(w, down_bps, up_bps);
	return t ? t->surcharge_ppm : 0;
}

void worth_init(struct worth *w, const json_t *connectivity, int64_t down_bps,
	int64_t up_bps)
{
	const json_t *row;
	size_t i;

	memset(w, 0, sizeof *w);
	json_array_foreach(connectivity, i, row) {
		struct worth_tier *t = &w->tiers[w->ntiers];

		if (w->ntiers == WORTH_TIERS_MAX)
			break;
		t->min_bps = MBYTE_BPS *
			json_integer_value(json_object_get(row, "at_least_mbytes"));
		t->surcharge_ppm = json_integer_value(
			json_object_get(row, "surcharge_ppm"));
		snprintf(t->name, sizeof t->name, "%s",
			json_string_value(json_object_get(row, "tier")));
		w->ntiers++;
	}
	w->surcharge_ppm = surcharge_of(w, down_bps, up_bps);
}

/* Returns how much dearer the node's country is than the offer's, in millionths. */
static int64_t place_ppm(const struct worth *w, const struct offer *o)
{
	int own, other;
	double ratio;

	if (!w->fit || !w->country || !o->country)
		return MONEY_PPM;
	own = fit_find(w->fit, FIT_COUNTRY, w->country);
	other = fit_find(w->fit, FIT_COUNTRY, o->country);
	if (own < 0 || other < 0)
		return MONEY_PPM;
	ratio = exp(w->fit->columns[own].value - w->fit->columns[other].value);
	if (!(ratio > 1.0 / WORTH_PLACE_MAX))
		ratio = 1.0 / WORTH_PLACE_MAX;
	if (ratio > WORTH_PLACE_MAX)
		ratio = WORTH_PLACE_MAX;
	return (int64_t)(ratio * MONEY_PPM + 0.5);
}

int64_t worth_of(const struct worth *w, const struct offer *o, int64_t uusd)
{
	int64_t theirs, place;

	if (!w)
		return uusd;
	theirs = surcharge_of(w, o->down_bps, o->up_bps);
	if (theirs >= 0 && w->surcharge_ppm >= 0 && theirs != w->surcharge_ppm)
		uusd = muldiv_half_up(uusd, MONEY_PPM + w->surcharge_ppm,
			MONEY_PPM + theirs);
	place = place_ppm(w, o);
	return place == MONEY_PPM ? uusd : muldiv_half_up(uusd, place, MONEY_PPM);
}
