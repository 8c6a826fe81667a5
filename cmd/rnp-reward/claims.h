/* claims.h - the leaves of an epoch's Merkle tree, from its rnp.reward records. Pure. */
#ifndef RNP_CMD_REWARD_CLAIMS_H
#define RNP_CMD_REWARD_CLAIMS_H

#include <jansson.h>

#include "cmd/rnp-reward/merkle.h"
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

/* Add a reward that fits its schema; who is paid nothing gets no leaf. Returns 0, or -1 with
 * EX_DATAERR. */
int claims_add(struct claims *c, const json_t *reward, const char *where);

/* Sort, and sum up those of one wallet. Call it once, after the last. */
int claims_finish(struct claims *c);

/* The leaf of a claimant, or -1. */
long claims_find(const struct claims *c, const unsigned char claimant[KEY_PUBLIC_BYTES]);

/* Who claims the pay of a reward: its wallet, or the node itself. */
int claims_who(const json_t *reward, const char *where, const char **address,
	unsigned char claimant[KEY_PUBLIC_BYTES]);

/* The root as hex text in out, "" without leaves. */
void claims_root(const struct claims *c, char out[2 * MERKLE_HASH_BYTES + 1]);

#endif
