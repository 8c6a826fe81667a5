/* stake_core.h - decides what becomes of a node's stake. Pure: values in, a decision out. */
#ifndef RNP_CMD_REWARD_STAKE_CORE_H
#define RNP_CMD_REWARD_STAKE_CORE_H

#include <stdbool.h>
#include <stdint.h>

enum stake_move { STAKE_STAYS, STAKE_RELEASE, STAKE_SLASH };

/* What is known of a node at the end of an epoch. */
struct stake_view {
	bool challenged;    /* it has verdicts in the epoch */
	int64_t passed_ppm; /* what part of them was passed */
	bool up;            /* it was up in the epoch */
	int64_t absent_ms;  /* since the end of the last epoch in which it was up */
};

/* Applies a policy's rule: a challenged node that passed less than slash_below_ppm loses its
 * stake; one that was not up for release_after_s gets it. -1 means never. Losing comes first, so
 * that nobody escapes by leaving. */
enum stake_move stake_decide(int64_t slash_below_ppm, int64_t release_after_s,
	const struct stake_view *v);

#endif
