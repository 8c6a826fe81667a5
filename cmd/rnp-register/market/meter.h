/* meter.h - what a node earned by being ready, in pieces that add up. Pure. Uses money. */
#ifndef RNP_CMD_REGISTER_MARKET_METER_H
#define RNP_CMD_REGISTER_MARKET_METER_H

#include <stdint.h>

/* From the first moment on, or between two. */
struct meter {
	int64_t ready_ms, earned_uusd, gpu_seconds;
};

/* Moves a sum to a later reading of a node of that price and so many GPUs: each of its figures
 * is the floor of the whole, whatever the pieces were. Returns what has been added. A reading
 * that is not later adds nothing. */
struct meter meter_read(struct meter *sum, int64_t node_uusd_per_hour, int64_t gpus,
	int64_t ready_ms);

/* When the next receipt is due after one, or after the beginning: in an hour, or at 00:00 UTC. */
int64_t meter_due_ms(int64_t from_ms);

#endif
