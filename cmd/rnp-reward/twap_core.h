/* twap_core.h - the time-weighted average of prices from several sources. Pure, integers only. */
#ifndef RNP_CMD_REWARD_TWAP_CORE_H
#define RNP_CMD_REWARD_TWAP_CORE_H

#include <stddef.h>
#include <stdint.h>

#define TWAP_SOURCES_MAX 32

struct twap_sample {
	int64_t at_ms;
	int64_t price_uusd; /* > 0 */
	int source;         /* below TWAP_SOURCES_MAX */
};

struct twap {
	int64_t from_ms, to_ms; /* the window, [from, to) */
	int64_t age_ms; /* a sample is valid until its source's next one, and at most this long */
	int64_t outlier_ppm; /* sources further than this from the median are ignored */
	int quorum;          /* sources that must remain at every instant */

	/* results of twap_compute */
	int64_t price_uusd;                    /* half to even */
	int64_t used_ms[TWAP_SOURCES_MAX];     /* how long each source counted */
	int64_t left_out_ms[TWAP_SOURCES_MAX]; /* how long it was an outlier */
	int64_t gap_ms; /* start of the first time without a quorum, or -1 */
};

/* Sorts samples by time. At each instant it takes the sources whose sample is not too old, of
 * these the ones within outlier_ppm of their median (of each of two middle ones: half of the
 * sources cannot outvote the other half), and of these the median again (of two middle ones the
 * mean). Of two samples of a source at one instant the higher counts. The average over the window is the sum
 * of price x time, divided once. Returns 0, or -1 with EX_DATAERR: at some instant (gap_ms)
 * fewer than quorum remain. */
int twap_compute(struct twap *t, struct twap_sample *samples, size_t n);

#endif
