/* recompute.h - recomputes an epoch from its usages, and names the first difference. */
#ifndef RNP_CMD_REWARD_EPOCH_RECOMPUTE_H
#define RNP_CMD_REWARD_EPOCH_RECOMPUTE_H

#include <jansson.h>

#include "cmd/rnp-reward/epoch/core.h"
#include "common/base/buf.h"

/* Called with the computed epoch before the records are compared; may add to reason. */
typedef int (*recompute_fn)(void *ctx, const struct epoch *e, struct buf *reason);
struct recompute_hook {
	recompute_fn fn;
	void *ctx;
};

/* Recomputes the epoch of record from the usages in files (none: standard input), with the pool,
 * scales and price that the record states, and compares the records. Fields that only a ledger's
 * row has (sequence, previous, proof) are ignored. policy: name or path, NULL: the one that the
 * record names. hook may be NULL. Returns 0 with the first difference in reason or nothing, or
 * -1. */
int recompute_compare(const json_t *record, const char *policy, char **files, int n,
	const struct recompute_hook *hook, struct buf *reason);

/* Reads from an rnp.epoch what was decided outside of the computation: pool, scales, price.
 * Returns 0, or -1 with EX_DATAERR. */
int recompute_read_decisions(struct epoch *e, const json_t *record);

/* Compares an rnp.epoch with a computed epoch; the first difference goes to reason. */
void recompute_compare_row(const json_t *record, const struct epoch *e,
	struct buf *reason);

/* Appends the first field in which two records differ to out, as "terms.gpu_ppm is 1, computed
 * 2". Returns false if they have the same fields, and agree in each. */
bool recompute_difference(const json_t *stated, const json_t *computed, struct buf *out);

#endif
