/* state.h - what was listed where and when, so that a price moves only so far in a day.
 * Uses store. */
#ifndef RNP_PRICE_PUBLISH_STATE_H
#define RNP_PRICE_PUBLISH_STATE_H

#include <stdint.h>

#include "common/store/store.h"

#define PUBLISH_DAY_MS INT64_C(86400000)

struct publish_state {
	struct store store;
	int lock; /* only one publishes at a time */
};
#define PUBLISH_STATE_INIT                      \
	{                                       \
		.store = STORE_INIT, .lock = -1 \
	}

/* Opens the file at path and locks it. Returns 0, or -1: as store_open, and 75: another
 * publisher has it. */
int publish_state_open(struct publish_state *s, const char *path);
void publish_state_close(struct publish_state *s);

/* Stores that this price (uusd an hour of the whole node) is listed now, before it is changed.
 * unit: the market's name of what is listed. Returns 0 or -1. */
int publish_state_saw(struct publish_state *s, const char *market, const char *unit,
	int64_t at_ms, int64_t uusd);

/* Sets *uusd to what was listed a day before now_ms: the last price seen until then, else the
 * first one since; unchanged when none was. Returns 0, or -1: also when the clock went back
 * (65). */
int publish_state_day_before(struct publish_state *s, const char *market,
	const char *unit, int64_t now_ms, int64_t *uusd);

#endif
