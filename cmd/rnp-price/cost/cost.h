/* cost.h - what an hour of a node costs its operator. The compute part is pure.
 *
 * Uses json, money. Every term is rounded up to 10^-6 dollars: a price floor must not be
 * rounded down. */
#ifndef RNP_PRICE_COST_COST_H
#define RNP_PRICE_COST_COST_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "cmd/rnp-price/cost/tariff.h"
#include "common/base/buf.h"

#define COST_FILE_BYTES_MAX ((size_t)1 << 16)

struct costs {
	int64_t watts_load, watts_idle;
	/* price of a kWh by hour of UTC, starting with the hour for which the costs were read;
	 * negative where a day-ahead market pays for consumption */
	int64_t uusd_per_kwh[TARIFF_HOURS];
	int first_hour; /* hour of the day (UTC) of uusd_per_kwh[0] */
	int64_t hardware_uusd, depreciation_days;
	int64_t network_uusd_per_hour;
	int64_t fee_ppm;    /* fraction of the price that is kept by the paying party */
	int64_t margin_ppm; /* of the costs */
};

struct cost_floor {
	int64_t energy_uusd, depreciation_uusd, network_uusd, margin_uusd, fee_uusd;
	int64_t floor_uusd; /* their sum: per hour of the whole node, working */
	int64_t idle_uusd; /* cost of an hour without work: energy at watts_idle and network */
};

/* Reads the costs of an object, for the hours from from_ms on; unknown keys are refused. path:
 * the file that it is from, beside which a day-ahead file lies (NULL: none). Unusual amounts are
 * doubted, see amount_doubt. Returns 0, or -1 with EX_DATAERR naming where and the field. */
int cost_parse(struct costs *c, const json_t *obj, const char *where, const char *path,
	int64_t from_ms);

/* Reads the same from the file at path ("-": standard input). Returns 0, or -1. */
int cost_load(struct costs *c, const char *path, int64_t from_ms);

/* An example file of costs to start from, as --example prints it. */
extern const char cost_example[];

/* Computes terms and floor `ahead` hours after that time (0 to TARIFF_HOURS - 1). The fee is a
 * fraction of the price: price = (costs + margin) / (1 - fee). Energy with a negative price
 * lowers the sum, but not below 0. Returns 0, or -1 with EX_DATAERR: larger than an amount. */
int cost_floor(const struct costs *c, int ahead, struct cost_floor *out);

/* Returns the days until the hardware is paid for if every hour is sold at price_uusd, fully
 * used; rounded up. -1: never, because nothing is left after energy, network and fee; 0: it
 * cost nothing. */
int64_t cost_break_even_days(const struct costs *c, const struct cost_floor *f,
	int64_t price_uusd);

/* Adds one line per term to the array why. */
void cost_explain(json_t *why, const struct costs *c, int ahead,
	const struct cost_floor *f);

/* Formats an amount for people: "0.135000", "-0.010000". Borrowed until the eighth next call in
 * this thread. */
const char *cost_usd(int64_t uusd);

/* Formats a part for people, exactly: "10%", "0.025%". Borrowed until the eighth next call in this
 * thread. */
const char *cost_percent(int64_t ppm);

#endif
