#include "cmd/rnp-reward/merkle.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "common/err.h"
#include "common/mem.h"

static int by_claimant(const void *a, const void *b)
{
	return memcmp(a, b, sizeof((struct merkle_leaf *)0)->claimant);
}

long merkle_sort(struct merkle_leaf *leaves, size_t n)
{
	size_t kept = 0;

	qsort(leaves, n, sizeof *leaves, by_claimant);
	for (size_t i = 0; i < n; i++) {
		struct merkle_leaf *last = kept ? &leaves[kept - 1] : NULL;

		if (!last || by_claimant(last, &leaves[i]) != 0) {
			leaves[kept++] = leaves[i];
			continue;
		}
		last->unlocked += leaves[i].unlocked;
		last->locked += leaves[i].locked;
		if (last->unlocked > INT64_MAX || last->locked > INT64_MAX)
			return err_set(EX_DATAERR,
				"what one wallet is paid does not fit 64 bits");
	}
	return (long)kept;
}

static void put_u64le(unsigned char *to, uint64_t v)
{
	for (int i = 0; i < 8; i++)
		to[i] = (unsigned char)(v >> (8 * i));
}

void merkle_leaf_hash(const struct merkle_leaf *leaf,
	unsigned char out[MERKLE_HASH_BYTES])
{
	unsigned char text[48], inner[1 + MERKLE_HASH_BYTES];

	memcpy(text, leaf->claimant, 32);
	put_u64le(text + 32, leaf->unlocked);
	put_u64le(text + 40, leaf->locked);
	inner[0] = 0;
	crypto_hash_sha256(inner + 1, text, sizeof text);
	crypto_hash_sha256(out, inner, sizeof inner);
}

static void node_hash(const unsigned char *a, const unsigned char *b, unsigned char *out)
{
	unsigned char text[1 + 2 * MERKLE_HASH_BYTES];
	bool in_order = memcmp(a, b, MERKLE_HASH_BYTES) <= 0;

	text[0] = 1;
	memcpy(text + 1, in_order ? a : b, MERKLE_HASH_BYTES);
	memcpy(text + 1 + MERKLE_HASH_BYTES, in_order ? b : a, MERKLE_HASH_BYTES);
	crypto_hash_sha256(out, text, sizeof text);
}

typedef unsigned char hash_row[MERKLE_HASH_BYTES];

/* The level above: (n + 1) / 2 nodes. */
static void level_up(const hash_row *below, size_t n, hash_row *above)
{
	size_t pairs = (n + 1) / 2;

#pragma omp parallel for schedule(static) if (pairs > 4096)
	for (size_t i = 0; i < pairs; i++) {
		size_t right = 2 * i + 1 < n ? 2 * i + 1 : 2 * i;

		node_hash(below[2 * i], below[right], above[i]);
	}
}

void merkle_root(const struct merkle_leaf *leaves, size_t n,
	unsigned char root[MERKLE_HASH_BYTES], size_t index,
	unsigned char (*proof)[MERKLE_HASH_BYTES], int *nproof)
{
	hash_row *level = xmalloc(n * sizeof *level),
		 *above = xmalloc((n + 1) / 2 * sizeof *above);

	if (!n)
		bug("Merkle tree without leaves");
#pragma omp parallel for schedule(static) if (n > 4096)
	for (size_t i = 0; i < n; i++)
		merkle_leaf_hash(&leaves[i], level[i]);
	if (proof)
		*nproof = 0;
	for (; n > 1; n = (n + 1) / 2, index /= 2) {
		hash_row *swap = level;
		size_t sibling = (index ^ 1) < n ? index ^ 1 : index;

		if (proof)
			memcpy(proof[(*nproof)++], level[sibling], MERKLE_HASH_BYTES);
		level_up((const hash_row *)level, n, above);
		level = above;
		above = swap;
	}
	memcpy(root, level[0], MERKLE_HASH_BYTES);
	free(level);
	free(above);
}

bool merkle_verify(const struct merkle_leaf *leaf,
	const unsigned char (*proof)[MERKLE_HASH_BYTES], int nproof,
	const unsigned char root[MERKLE_HASH_BYTES])
{
	unsigned char at[MERKLE_HASH_BYTES];

	merkle_leaf_hash(leaf, at);
	for (int i = 0; i < nproof; i++)
		node_hash(at, proof[i], at);
	return memcmp(at, root, MERKLE_HASH_BYTES) == 0;
}
