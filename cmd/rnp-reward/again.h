/* again.h - recomputes an epoch from its usages, and names the first difference. */
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

/* Recomputes the epoch of record from the usages in files (none: standard input), with the pool
 * and scales that the record states, and compares the records; fields that only a ledger's row
 * has (sequence, previous, proof) are ignored. policy: name or path, NULL: the one that the
 * record names. also may be NULL. Returns 0 with the first difference in reason or nothing, or
 * -1. */
int again_compare(const json_t *record, const char *policy, char **files, int n,
	const struct again_also *also, struct buf *reason);

/* Takes what was decided outside of the computation (pool, scales, price) from an rnp.epoch.
 * Returns 0, or -1 with EX_DATAERR. */
int again_take_decisions(struct epoch *e, const json_t *record);

/* Compares an rnp.epoch with a computed epoch; the first difference goes to reason. */
void again_compare_row(const json_t *record, const struct epoch *e, struct buf *reason);

/* Appends the first field in which two records differ to out, as "terms.gpu_ppm is 1, computed
 * 2". Returns false if they agree in every field that computed has. */
bool again_difference(const json_t *given, const json_t *computed, struct buf *out);

#endif
