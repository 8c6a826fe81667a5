/* merkle.c - builds Merkle trees and checks inclusion proofs, as the public Solana distributors
 * do. */
#include "cmd/rnp-reward/epoch/merkle.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/mem.h"
#include "kernels/crypto/sha256_rows.h"

#define SLICE (MERKLE_SLICE / 4) /* rows that one thread hashes at a time */

static int by_claimant(const void *a, const void *b)
{
	return memcmp(a, b, sizeof((struct merkle_leaf *)0)->claimant);
}

#define BUCKETS 256 /* by a claimant's first byte */

/* Moves each leaf into its bucket, in place (American flag sort: McIlroy, Bostic and McIlroy,
 * 1993). start has BUCKETS + 1 entries. */
static void into_buckets(struct merkle_leaf *leaves, size_t n, size_t *start)
{
	size_t at[BUCKETS];

	memset(start, 0, (BUCKETS + 1) * sizeof *start);
	for (size_t i = 0; i < n; i++)
		start[leaves[i].claimant[0] + 1]++;
	for (int b = 0; b < BUCKETS; b++) {
		start[b + 1] += start[b];
		at[b] = start[b];
	}
	for (int b = 0; b < BUCKETS; b++)
		while (at[b] < start[b + 1]) {
			struct merkle_leaf *here = &leaves[at[b]], swap = *here;
			unsigned char wanted = here->claimant[0];

			if (wanted == b) {
				at[b]++;
				continue;
			}
			*here = leaves[at[wanted]];
			leaves[at[wanted]++] = swap;
		}
}

/* Sorts on all cores, and without the copy of all leaves that qsort makes. */
static void sort(struct merkle_leaf *leaves, size_t n)
{
	size_t start[BUCKETS + 1];

	into_buckets(leaves, n, start);
#pragma omp parallel for schedule(dynamic, 1) if (n > 4096)
	for (int b = 0; b < BUCKETS; b++)
		qsort(leaves + start[b], start[b + 1] - start[b], sizeof *leaves,
			by_claimant);
}

long merkle_sort(struct merkle_leaf *leaves, size_t n)
{
	size_t kept = 0;

	sort(leaves, n);
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

/* --- hashing, many rows at once ------------------------------------------------------------ */

_Static_assert(sizeof(struct merkle_leaf) == 48,
	"a leaf in memory is claimant || unlocked || locked");

typedef unsigned char hash_row[MERKLE_HASH_BYTES];

static sha256_rows_fn hasher(void)
{
	enum cpu_level level;

	/* an RNP_ISA that this machine lacks is reported by programs that depend on it; here it
	 * only changes the speed */
	cpu_level_chosen(&level);
	return sha256_rows_choose(level);
}

static void hash_rows(sha256_rows_fn hash, hash_row *out, const void *rows,
	uint64_t row_bytes, size_t n, int prefix)
{
	struct sha256_rows in = { .rows = rows,
		.row_bytes = row_bytes,
		.stride_bytes = row_bytes,
		.count = n };

	if (prefix >= 0) {
		in.prefix_bytes = 1;
		in.prefix[0] = (unsigned char)prefix;
	}
	hash(out[0], &in);
}

/* H(0x00 || H(claimant || unlocked || locked)) of at most SLICE leaves */
static void hash_leaves(sha256_rows_fn hash, hash_row *out,
	const struct merkle_leaf *leaves, size_t n)
{
	hash_row inner[SLICE];
	struct merkle_leaf swapped[__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? SLICE : 1];

	if (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__) {
		for (size_t i = 0; i < n; i++) {
			swapped[i] = leaves[i];
			swapped[i].unlocked = htole64(leaves[i].unlocked);
			swapped[i].locked = htole64(leaves[i].locked);
		}
		leaves = swapped;
	}
	hash_rows(hash, inner, leaves, sizeof *leaves, n, -1);
	hash_rows(hash, out, inner, sizeof *inner, n, 0);
}

/* H(0x01 || smaller || larger) of at most SLICE pairs of the n rows below; the last may be
 * unpaired. */
static void hash_pairs(sha256_rows_fn hash, hash_row *out, const hash_row *below,
	size_t n)
{
	hash_row pairs[2 * SLICE];

	for (size_t i = 0; i < n; i += 2) {
		const unsigned char *a = below[i], *b = below[i + 1 < n ? i + 1 : i];
		bool in_order = memcmp(a, b, MERKLE_HASH_BYTES) <= 0;

		memcpy(pairs[i], in_order ? a : b, MERKLE_HASH_BYTES);
		memcpy(pairs[i + 1], in_order ? b : a, MERKLE_HASH_BYTES);
	}
	hash_rows(hash, out, pairs, sizeof(hash_row[2]), (n + 1) / 2, 1);
}

void merkle_leaf_hash(const struct merkle_leaf *leaf,
	unsigned char out[MERKLE_HASH_BYTES])
{
	hash_row row;

	hash_leaves(sha256_rows_ref, &row, leaf, 1);
	memcpy(out, row, sizeof row);
}

/* Computes the level above: (n + 1) / 2 nodes. */
static void level_up(sha256_rows_fn hash, const hash_row *below, size_t n,
	hash_row *above)
{
#pragma omp parallel for schedule(static) if (n > 4 * SLICE)
	for (size_t i = 0; i < n; i += 2 * SLICE)
		hash_pairs(hash, above + i / 2, below + i,
			n - i < 2 * SLICE ? n - i : 2 * SLICE);
}

/* Computes level 2 of a large tree, slice by slice, so that the two levels below it are never
 * whole in memory. Returns its width. */
static size_t level_two(sha256_rows_fn hash, merkle_leaves_fn make, void *ctx, size_t n,
	hash_row *out)
{
#pragma omp parallel for schedule(static)
	for (size_t i = 0; i < n; i += MERKLE_SLICE) {
		struct merkle_leaf leaves[MERKLE_SLICE];
		hash_row below[MERKLE_SLICE], above[MERKLE_SLICE / 2];
		size_t m = n - i < MERKLE_SLICE ? n - i : MERKLE_SLICE;

		make(ctx, i, m, leaves);
		for (size_t k = 0; k < m; k += SLICE)
			hash_leaves(hash, below + k, leaves + k,
				m - k < SLICE ? m - k : SLICE);
		for (size_t k = 0; k < m; k += 2 * SLICE)
			hash_pairs(hash, above + k / 2, (const hash_row *)below + k,
				m - k < 2 * SLICE ? m - k : 2 * SLICE);
		hash_pairs(hash, out + i / 4, (const hash_row *)above, (m + 1) / 2);
	}
	return (n + 3) / 4;
}

/* Computes the root above a level of n nodes, which is overwritten, and the siblings of node
 * `index` on the way unless proof is NULL. */
static void climb(sha256_rows_fn hash, hash_row *level, size_t n,
	unsigned char root[MERKLE_HASH_BYTES], size_t index,
	unsigned char (*proof)[MERKLE_HASH_BYTES], int *nproof)
{
	hash_row *other = xmalloc((n + 1) / 2 * sizeof *other), *above = other, *swap;

	if (proof)
		*nproof = 0;
	for (; n > 1; n = (n + 1) / 2, index /= 2) {
		size_t sibling = (index ^ 1) < n ? index ^ 1 : index;

		if (proof)
			memcpy(proof[(*nproof)++], level[sibling], MERKLE_HASH_BYTES);
		level_up(hash, (const hash_row *)level, n, above);
		swap = level;
		level = above;
		above = swap;
	}
	memcpy(root, level[0], MERKLE_HASH_BYTES);
	free(other);
}

static void copy_leaves(void *ctx, size_t from, size_t n, struct merkle_leaf *leaves)
{
	memcpy(leaves, (const struct merkle_leaf *)ctx + from, n * sizeof *leaves);
}

void merkle_root_of(merkle_leaves_fn make, void *ctx, size_t n,
	unsigned char root[MERKLE_HASH_BYTES])
{
	struct merkle_leaf *leaves = NULL;
	hash_row *level = NULL;

	if (n <= MERKLE_SLICE) {
		leaves = xmalloc((n + 1) * sizeof *leaves);
		make(ctx, 0, n, leaves);
		merkle_root(leaves, n, root, 0, NULL, NULL);
	} else {
		sha256_rows_fn hash = hasher();

		level = xmalloc((n + 3) / 4 * sizeof *level);
		n = level_two(hash, make, ctx, n, level);
		climb(hash, level, n, root, 0, NULL, NULL);
	}
	free(leaves);
	free(level);
}

void merkle_root(const struct merkle_leaf *leaves, size_t n,
	unsigned char root[MERKLE_HASH_BYTES], size_t index,
	unsigned char (*proof)[MERKLE_HASH_BYTES], int *nproof)
{
	sha256_rows_fn hash = hasher();
	hash_row *level;

	if (!n)
		bug("Merkle tree without leaves");
	if (!proof && n > MERKLE_SLICE) {
		merkle_root_of(copy_leaves, (void *)leaves, n, root);
		return;
	}
	level = xmalloc(n * sizeof *level);
	for (size_t i = 0; i < n; i += SLICE)
		hash_leaves(hash, level + i, leaves + i, n - i < SLICE ? n - i : SLICE);
	climb(hash, level, n, root, index, proof, nproof);
	free(level);
}

void merkle_tree_build(struct merkle_tree *t, const struct merkle_leaf *leaves, size_t n)
{
	sha256_rows_fn hash = hasher();
	size_t all = 0, width = n;

	if (!n)
		bug("Merkle tree without leaves");
	for (t->levels = 0;; width = (width + 1) / 2) {
		t->start[t->levels] = all;
		t->width[t->levels++] = width;
		all += width;
		if (width == 1)
			break;
	}
	t->nodes = xmalloc(all * sizeof *t->nodes);
#pragma omp parallel for schedule(static) if (n > 4 * SLICE)
	for (size_t i = 0; i < n; i += SLICE)
		hash_leaves(hash, t->nodes + i, leaves + i,
			n - i < SLICE ? n - i : SLICE);
	for (int i = 1; i < t->levels; i++)
		level_up(hash, (const hash_row *)t->nodes + t->start[i - 1],
			t->width[i - 1], t->nodes + t->start[i]);
}

void merkle_tree_release(struct merkle_tree *t)
{
	free(t->nodes);
	t->nodes = NULL;
}

const unsigned char *merkle_tree_sibling(const struct merkle_tree *t, size_t index,
	int level)
{
	size_t at = index >> level, sibling = (at ^ 1) < t->width[level] ? at ^ 1 : at;

	return t->nodes[t->start[level] + sibling];
}

bool merkle_verify(const struct merkle_leaf *leaf,
	const unsigned char (*proof)[MERKLE_HASH_BYTES], int nproof,
	const unsigned char root[MERKLE_HASH_BYTES])
{
	hash_row pair[2], at;

	merkle_leaf_hash(leaf, at);
	for (int i = 0; i < nproof; i++) {
		memcpy(pair[0], at, sizeof at);
		memcpy(pair[1], proof[i], sizeof at);
		hash_pairs(sha256_rows_ref, &at, (const hash_row *)pair, 2);
	}
	return memcmp(at, root, MERKLE_HASH_BYTES) == 0;
}
