/* run.h - one market's feed from its source to records: read, judged, written, remembered.
 * Uses feed_market, feed_state, out. */
#ifndef RNP_PRICE_FEED_RUN_H
#define RNP_PRICE_FEED_RUN_H

#include <stdint.h>

#include "cmd/rnp-price/feed/market.h"

#define FEED_NAME_MAX 32

struct feed_job {
	struct feed_source source;
	const char *name;       /* the market's name in the records; NULL: its own */
	const char *state_path; /* NULL: of a URL in the cache, of a file none */
	int64_t max_age_ms;     /* 0: any age */
	int64_t max_move;
	const char *const *own; /* ids of offers, machines and hosts that are ours */
	int nown;
};

/* Writes the offers of a market, all or none. Returns 0; or -1 with why not, after the last good
 * offers were written where there are some (75). */
int feed_run(const struct feed_job *job);

#endif
