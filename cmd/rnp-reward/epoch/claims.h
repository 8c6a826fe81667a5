/* claims.h - the leaves of an epoch's Merkle tree, from its rnp.reward records. Pure. */
#ifndef RNP_CMD_REWARD_EPOCH_CLAIMS_H
#define RNP_CMD_REWARD_EPOCH_CLAIMS_H

#include <jansson.h>
#include <stdbool.h>

#include "cmd/rnp-reward/epoch/merkle.h"
#include "common/record/key.h"

struct claims {
	struct merkle_leaf *leaves;
	size_t n, cap;
	size_t nodes, qualified;
	int64_t total_base_units;
};
#define CLAIMS_INIT \
	{           \
		0   \
	}

void claims_release(struct claims *c);

/* Adds a reward that fits its schema. A claimant without pay gets no leaf. Returns 0, or -1
 * with EX_DATAERR. */
int claims_add(struct claims *c, const json_t *reward, const char *where);

/* What one reward contributes to the epoch's tree. */
struct claim {
	struct merkle_leaf leaf; /* claimant is undefined if nothing is paid */
	bool qualified;
};

/* Reads a line of exactly the form that reward_write writes, without building objects; any thread.
 * Returns false for any other line, good or bad, which the caller has to give to the schema and
 * claims_add. A line that is accepted is a record that fits its schema. */
bool claims_scan(struct claim *out, const char *line, size_t len);

/* Adds what claims_scan read. Returns 0, or -1 with EX_DATAERR: the sum of all does not fit. */
int claims_add_scanned(struct claims *c, const struct claim *claim, const char *where);

/* Sorts the leaves and adds up those of one wallet. Call it once, after the last reward. */
int claims_finish(struct claims *c);

/* Returns the index of a claimant's leaf, or -1. */
long claims_find(const struct claims *c, const unsigned char claimant[KEY_PUBLIC_BYTES]);

/* Returns the address that claims the pay of a reward: its wallet, or the node itself. */
int claims_address(const json_t *reward, const char *where, const char **address,
	unsigned char claimant[KEY_PUBLIC_BYTES]);

/* Writes the root in hex to out; "" if there are no leaves. */
void claims_root(const struct claims *c, char out[2 * MERKLE_HASH_BYTES + 1]);

#endif
