/* gather_hold.h - how much counts of what a node says of itself and policies pay for. Pure. Uses jansson,
 * facts, gpu. */
#ifndef RNP_CMD_REWARD_GATHER_HOLD_H
#define RNP_CMD_REWARD_GATHER_HOLD_H

#include <jansson.h>
#include <stdint.h>

/* Sets *v, the fact of that name of a node record, to what counts of it. bandwidth: the most bytes a second
 * that a verdict measured, 0: none did. Returns what is said of a claim that counts only in part, "": it
 * counts whole. */
const char *gather_hold(const json_t *node, const char *name, int64_t bandwidth,
	int64_t *v);

#endif
