/* proof_check.h - whether an rnp.proof record proves what it says. Uses merkle. Pure. */
#ifndef RNP_REWARD_PROOF_CHECK_H
#define RNP_REWARD_PROOF_CHECK_H

#include <jansson.h>
#include <stdbool.h>

#include "cmd/rnp-reward/merkle.h"

/* Reads a hash in hex; false: v is none. */
bool proof_hash(const json_t *v, unsigned char out[MERKLE_HASH_BYTES]);

/* Reads a proof that its schema has accepted; where names it in errors. wallet points into record; root is the root that
 * it names, good whether its leaf is below that root. Returns 0, or -1: a number or an address cannot be. */
int proof_check(const json_t *record, const char *where, const char **wallet,
	unsigned char root[MERKLE_HASH_BYTES], bool *good);

#endif
