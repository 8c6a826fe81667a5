/* core.h - computes what each node is paid for an epoch. Pure: usages and rules in, base units
 * out; no I/O, no clock, no floats. Uses OpenMP; the result does not depend on the number of
 * threads. */
#ifndef RNP_CMD_REWARD_EPOCH_CORE_H
#define RNP_CMD_REWARD_EPOCH_CORE_H

#include <stddef.h>

#include "cmd/rnp-reward/epoch/merkle.h"
#include "cmd/rnp-reward/policy/rules.h"
#include "cmd/rnp-reward/epoch/usage_rows.h"

struct epoch {
	const struct rules *rules;
	const struct usage_rows *usages; /* borrowed */
	int64_t scheduled_base_units;    /* -1: no pool was given */
	struct frac scale[PAY_N];        /* set by the foundation, usually 1 */
	int64_t price_uusd;              /* of a token; 0: not given */

	/* results of epoch_compute, released by epoch_release */
	size_t n;
	int64_t epoch_s;
	int64_t from_ms, to_ms; /* -1: no usage states them */
	int64_t (*pay)[PAY_N];  /* base units of each node */
	int64_t *locked; /* part of their sum that is the node's stake; NULL: no stakes */
	int64_t max[FIELD_USAGE];
	size_t qualified;
	int64_t pool_base_units, total_base_units, locked_base_units;
	bool scaled_down; /* pay at the rates exceeded the pool */
	size_t capped;    /* claimants whose pay was reduced to the policy's cap */
	size_t claimants;
	unsigned char root[MERKLE_HASH_BYTES]; /* only when claimants > 0 */
};

/* Initialises an epoch with a scale of 1 and no pool. The usages may be filled until
 * epoch_compute. */
void epoch_init(struct epoch *e, const struct rules *r, const struct usage_rows *usages);
void epoch_release(struct epoch *e);

/* Computes everything, in some 90 bytes a node beside the usages, of which 16 to 24 stay. Returns
 * 0, or -1: 64 a pool is needed and there is none, or a scale is beyond what the policy allows; 65
 * a usage breaks a rule (more time than the epoch has, different epochs, a term that does not fit
 * 128 bits). bad_index is then the index of that usage, or the number of usages. */
int epoch_compute(struct epoch *e, size_t *bad_index);

/* The result for one node. */
struct outcome {
	struct usage usage;
	uint64_t unmet; /* bit per requirement of the rules that the node does not meet */
	uint64_t waived;  /* bit per requirement that is unknown and therefore waived */
	uint32_t missing; /* bit per field that a term needed but the usage lacks */
	int64_t terms_ppm[RULES_TERMS_MAX]; /* rules->nterms of them, rounded down */
	int64_t pay[PAY_N];                 /* base units */
	int64_t locked;                     /* part of their sum */
};

/* Gets the result for a node of a computed epoch. The terms are not stored: they are computed
 * anew. Of a node with GPUs of several models usage, needs and terms are those of the first group
 * that qualifies, or of the first. */
void epoch_outcome(const struct epoch *e, size_t i, struct outcome *o);

/* Gets the results for the groups of GPUs of a node; their pay adds up to the node's, of which no
 * part is locked here. Returns how many there are; 1: the node's only one. */
#define EPOCH_GROUPS_MAX 16
size_t epoch_groups(const struct epoch *e, size_t i,
	struct outcome groups[EPOCH_GROUPS_MAX]);

static inline bool outcome_qualified(const struct outcome *o)
{
	return o->unmet == 0;
}

static inline int64_t outcome_total(const struct outcome *o)
{
	return o->pay[PAY_JOB] + o->pay[PAY_AVAILABILITY];
}

static inline int64_t epoch_total(const struct epoch *e, size_t i)
{
	return e->pay[i][PAY_JOB] + e->pay[i][PAY_AVAILABILITY];
}

static inline int64_t epoch_locked(const struct epoch *e, size_t i)
{
	return e->locked ? e->locked[i] : 0;
}

/* Writes the next leaves of the tree to `leaves`, max at most: one for each claimant that is paid
 * something. refs: all rows in the order of claimants; *at: where the next one starts in them, 0 at
 * first. Returns how many, 0 at the end. */
size_t epoch_next_leaves(const struct epoch *e, const struct usage_ref *refs, size_t *at,
	struct merkle_leaf *leaves, size_t max);

/* Makes all leaves at once; the caller frees them. Returns how many. */
size_t epoch_leaves(const struct epoch *e, struct merkle_leaf **leaves);

/* Splits total over n weights, exact to the last unit (largest remainder, ties to the lower
 * index); weights are num / den, and their memory is used up. Returns 0, or -1 if their common
 * denominator does not fit. */
int split_fracs(int64_t total, struct frac *weights, size_t n, int64_t *parts);

#endif
