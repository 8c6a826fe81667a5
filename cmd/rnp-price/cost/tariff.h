/* tariff.h - the price of a kWh in each hour from a moment on: by hour of UTC, by hour and day
 * in a time zone, or from a day-ahead file. Uses jansson, err, amount, keys, clock, and libc's time
 * zones. */
#ifndef RNP_PRICE_COST_TARIFF_H
#define RNP_PRICE_COST_TARIFF_H

#include <jansson.h>
#include <stdint.h>

#include "common/base/amount.h"

#define TARIFF_HOURS 168 /* hours that are computed ahead: a week */

/* Fill uusd[i] with the price of a kWh in the i-th whole hour of UTC from from_ms on, which is
 * the hour that from_ms lies in. v is
 *   an array of 24 prices, the first from 00:00 UTC; or
 *   {"zone": "Europe/Berlin", "rates": [{"days": "mon-fri", "hours": "06-22", "per_kwh": P}],
 *    "otherwise": P}: the first rate that matches counts; an hour that two rates share costs the
 *    dearer one; or
 *   {"day_ahead": "FILE", "add": P, "otherwise": P}: lines of "2026-11-20T18:00:00Z,PRICE" in
 *    dollars per kWh, or in the unit that stands behind the price or in the heading ("EUR/MWh");
 *    it may be negative. Each is good until the next one and for at most an hour; hours that are
 *    missing cost `otherwise`. A relative FILE lies beside base_path.
 * Other prices are whole numbers of uusd or texts with a unit. rates: what other currencies are
 * worth, or NULL. Returns 0, or -1: EX_DATAERR, naming where and the field, or the file's own
 * error. */
int tariff_read(int64_t uusd[TARIFF_HOURS], const json_t *v, const char *where,
	const char *base_path, const struct amount_rate *rates, int64_t from_ms);

#endif
