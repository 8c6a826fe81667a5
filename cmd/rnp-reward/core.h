/* core.h - computes what each node is paid for an epoch. Pure: usages and rules in, base units
 * out; no I/O, no clock, no floats. Uses OpenMP; the result does not depend on the number of
 * threads. */
#ifndef RNP_CMD_REWARD_CORE_H
#define RNP_CMD_REWARD_CORE_H

#include <stddef.h>

#include "cmd/rnp-reward/merkle.h"
#include "cmd/rnp-reward/rules.h"

struct outcome {
	uint64_t unmet; /* bit per requirement of the rules that the node does not meet */
	uint64_t waived;    /* bit per requirement that is unknown and therefore waived */
	uint32_t missing;   /* bit per field that a term needed but the usage lacks */
	int64_t pay[PAY_N]; /* base units */
	int64_t locked;     /* part of their sum that is locked: the node's stake */
};

struct epoch {
	const struct rules *rules;
	const struct usage *usages; /* borrowed */
	size_t n;
	int64_t scheduled_base_units; /* -1: no pool was given */
	struct frac scale[PAY_N];     /* set by the foundation, usually 1 */
	int64_t price_uusd;           /* of a token; 0: not given */
	bool lean; /* terms_ppm is not stored: epoch_terms computes them when they are needed */

	/* results of epoch_compute, released by epoch_release */
	int64_t epoch_s;
	int64_t from_ms, to_ms; /* -1: no usage states them */
	struct outcome *outcomes;
	int64_t *terms_ppm; /* n rows of rules->nterms, rounded down; NULL if lean */
	int64_t max[FIELD_USAGE];
	size_t qualified;
	int64_t pool_base_units, total_base_units, locked_base_units;
	bool scaled_down; /* pay at the rates exceeded the pool */
	size_t capped;    /* claimants whose pay was reduced to the policy's cap */
	size_t claimants;
	unsigned char root[MERKLE_HASH_BYTES]; /* only when claimants > 0 */
};

/* Initialises an epoch with a scale of 1 and no pool. */
void epoch_init(struct epoch *e, const struct rules *r, const struct usage *usages,
	size_t n);
void epoch_release(struct epoch *e);

/* Computes everything. Returns 0, or -1: 64 a pool is needed and there is none, or a scale is
 * beyond what the policy allows; 65 a usage breaks a rule (more time than the epoch has,
 * different epochs, a term that does not fit 128 bits). bad_index is then the index of that
 * usage, or n. */
int epoch_compute(struct epoch *e, size_t *bad_index);

/* Gets the terms of a node of a computed epoch: rules->nterms of them. */
void epoch_terms(const struct epoch *e, size_t i, int64_t *ppm);

static inline bool outcome_qualified(const struct outcome *o)
{
	return o->unmet == 0;
}

static inline int64_t outcome_total(const struct outcome *o)
{
	return o->pay[PAY_JOB] + o->pay[PAY_AVAILABILITY];
}

/* Returns the address that is paid for a node: its wallet, or the node itself if the policy
 * needs no wallet. */
const char *epoch_claimant(const struct usage *u);

/* Makes the leaves of the tree: one per claimant that is paid something, in order. The caller
 * frees them. Returns how many, or -1 with EX_DATAERR. */
long epoch_leaves(const struct epoch *e, struct merkle_leaf **leaves);

/* Finds two usages of one node: the lowest second one and the first. Returns false if there are
 * none. */
bool usage_duplicate(const struct usage *usages, size_t n, size_t *first, size_t *second);

/* Splits total over n weights, exact to the last unit (largest remainder, ties to the lower
 * index); weights are num / den, and their memory is used up. Returns 0, or -1 if their common denominator does not fit. */
int split_fracs(int64_t total, struct frac *weights, size_t n, int64_t *parts);

#endif
