/* merkle.h - the Merkle tree of an epoch, as the public Solana Merkle distributors build it.
 * Uses the SHA-256 of kernels, OpenMP. Pure.
 *
 *     inner = H(claimant || unlocked u64le || locked u64le)
 *     leaf  = H(0x00 || inner)
 *     node  = H(0x01 || smaller || larger)
 *
 * The leaves are sorted by claimant; an odd last node is paired with itself. */
#ifndef RNP_CMD_REWARD_EPOCH_MERKLE_H
#define RNP_CMD_REWARD_EPOCH_MERKLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MERKLE_HASH_BYTES 32
#define MERKLE_DEPTH_MAX  40

struct merkle_leaf {
	unsigned char claimant[32];
	uint64_t unlocked, locked;
};

/* Sorts leaves by claimant and adds up those of one claimant. Returns how many remain, or -1
 * with EX_DATAERR if a sum does not fit int64_t. */
long merkle_sort(struct merkle_leaf *leaves, size_t n);

void merkle_leaf_hash(const struct merkle_leaf *leaf,
	unsigned char out[MERKLE_HASH_BYTES]);

/* Computes the root of n >= 1 leaves in order. If proof is not NULL, also the siblings of leaf
 * `index` from the leaf up, *nproof of them. */
void merkle_root(const struct merkle_leaf *leaves, size_t n,
	unsigned char root[MERKLE_HASH_BYTES], size_t index,
	unsigned char (*proof)[MERKLE_HASH_BYTES], int *nproof);

/* Makes n leaves of a tree from leaf `from` on, a multiple of MERKLE_SLICE; n is at most
 * MERKLE_SLICE. Called on all threads at once. */
#define MERKLE_SLICE 2048
typedef void (
	*merkle_leaves_fn)(void *ctx, size_t from, size_t n, struct merkle_leaf *leaves);

/* Computes the root of n >= 1 leaves that are never whole in memory. */
void merkle_root_of(merkle_leaves_fn make, void *ctx, size_t n,
	unsigned char root[MERKLE_HASH_BYTES]);

/* All nodes of a tree, for the proofs of all its leaves: 64 bytes per leaf. */
struct merkle_tree {
	unsigned char (*nodes)[MERKLE_HASH_BYTES]; /* level by level, the leaves first */
	size_t start[MERKLE_DEPTH_MAX + 1];        /* of each level */
	size_t width[MERKLE_DEPTH_MAX + 1];
	int levels; /* the last one holds only the root */
};

/* Builds the tree of n >= 1 leaves in order; release it with merkle_tree_release. */
void merkle_tree_build(struct merkle_tree *t, const struct merkle_leaf *leaves, size_t n);
void merkle_tree_release(struct merkle_tree *t);

/* Returns the sibling of leaf `index` at a level below the root. */
const unsigned char *merkle_tree_sibling(const struct merkle_tree *t, size_t index,
	int level);

/* Whether the proof leads from the leaf to the root. */
bool merkle_verify(const struct merkle_leaf *leaf,
	const unsigned char (*proof)[MERKLE_HASH_BYTES], int nproof,
	const unsigned char root[MERKLE_HASH_BYTES]);

#endif
