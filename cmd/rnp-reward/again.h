/* again.h - an epoch computed again from its usages, and the first difference named. */
#ifndef RNP_CMD_REWARD_AGAIN_H
#define RNP_CMD_REWARD_AGAIN_H

#include <jansson.h>

#include "cmd/rnp-reward/core.h"
#include "common/base/buf.h"

/* Called with the computed epoch before the records are compared; may add to reason. */
typedef int (*again_fn)(void *ctx, const struct epoch *e, struct buf *reason);
struct again_also {
	again_fn fn;
	void *ctx;
};

/* Compute the epoch of record again from the usages in files (none: standard input), with the pool
 * and scales that the record states, and compare the records; what stands only in a ledger's row
 * (sequence, previous, proof) is left aside. policy: name or path, NULL: as the record names it.
 * also may be NULL. Returns 0 with the first difference in reason or nothing, or -1. */
int again_compare(const json_t *record, const char *policy, char **files, int n,
	const struct again_also *also, struct buf *reason);

/* The first field in which two records differ, as "terms.gpu_ppm is 1, computed 2", appended to
 * out. False when they are the same in all that computed has. */
bool again_difference(const json_t *given, const json_t *computed, struct buf *out);

#endif
