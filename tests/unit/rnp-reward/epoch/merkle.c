/* merkle.c - the tree of the public Solana distributors. The expected hashes were
 * computed with Python's hashlib, see tests/tools/merkle.py. */
/* uses: cmd/rnp-reward */
#include "cmd/rnp-reward/epoch/merkle.h"

#include <stdlib.h>

#include "common/base/buf.h"
#include "common/base/mem.h"
#include "tests/unit/test.h"

static void leaves_of(struct merkle_leaf *leaves, size_t n)
{
	memset(leaves, 0, n * sizeof *leaves);
	for (size_t i = 0; i < n; i++) {
		/* in order: the highest byte first */
		leaves[i].claimant[0] = (unsigned char)(i >> 8);
		leaves[i].claimant[1] = (unsigned char)i;
		leaves[i].unlocked = 1000 + i;
	}
}

static void check_root(size_t n, const char *expected)
{
	struct merkle_leaf leaves[8];
	unsigned char root[32];
	struct buf hex = BUF_INIT;

	leaves_of(leaves, n);
	merkle_root(leaves, n, root, 0, NULL, NULL);
	buf_add_hex(&hex, root, 32);
	CHECK_TEXT(expected, hex.data);
	buf_release(&hex);
}

/* Every leaf of trees of many sizes is proven, and nothing else. */
static void check_proofs(size_t n)
{
	struct merkle_leaf *leaves = xmalloc(n * sizeof *leaves), other;
	unsigned char root[32], again[32], proof[MERKLE_DEPTH_MAX][32];
	int nproof;

	leaves_of(leaves, n);
	merkle_root(leaves, n, root, 0, NULL, NULL);
	for (size_t i = 0; i < n; i++) {
		merkle_root(leaves, n, again, i, proof, &nproof);
		CHECK(memcmp(root, again, 32) == 0);
		CHECK(merkle_verify(&leaves[i], (const unsigned char(*)[32])proof, nproof,
			root));
		other = leaves[i];
		other.unlocked++;
		CHECK(!merkle_verify(&other, (const unsigned char(*)[32])proof, nproof,
			root));
		if (nproof) {
			proof[nproof - 1][0] ^= 1;
			CHECK(!merkle_verify(&leaves[i],
				(const unsigned char(*)[32])proof, nproof, root));
		}
	}
	free(leaves);
}

static void check_sort(void)
{
	struct merkle_leaf leaves[4];

	leaves_of(leaves, 4);
	leaves[3] = leaves[1];
	leaves[3].unlocked = 5;
	leaves[0].claimant[0] = 200;
	CHECK_I64(3, merkle_sort(leaves, 4));
	CHECK_I64(1006, (int64_t)leaves[0].unlocked); /* 1001 + 5 of one claimant */
	CHECK_I64(200, leaves[2].claimant[0]);
	leaves_of(leaves, 2);
	leaves[1] = leaves[0];
	leaves[0].unlocked = leaves[1].unlocked = INT64_MAX;
	CHECK_FAILS(EX_DATAERR, (int)merkle_sort(leaves, 2));
}

/* A large tree is computed slice by slice: the root is that of the tree that is stored whole. */
static void check_large(size_t n)
{
	struct merkle_leaf *leaves = xcalloc(n, sizeof *leaves);
	unsigned char root[MERKLE_HASH_BYTES];
	struct merkle_tree t;

	for (size_t i = 0; i < n; i++) {
		memcpy(leaves[i].claimant, &i, sizeof i);
		leaves[i].unlocked = 7 * i;
	}
	merkle_root(leaves, n, root, 0, NULL, NULL);
	merkle_tree_build(&t, leaves, n);
	CHECK(memcmp(root, t.nodes[t.start[t.levels - 1]], sizeof root) == 0);
	merkle_tree_release(&t);
	free(leaves);
}

int main(void)
{
	check_root(1, "cf2c5279c1b5f7eee037fe4adb09bac21a893ffcd5abdbe0e101e911074aeddf");
	check_root(2, "f48e4a0cfa99c1cbfe80c974a376f74a1782fd1739383a2e4c9798cf4761c817");
	check_root(3, "d0e5df13d544eca7a505024f78b53bb9cc06cc8ac0e64436d7e593c9af9f255d");
	check_root(5, "a8e603459319fd4a6f27e6197e0376c146fe3084fd435c6c34c1a149df0a4aca");
	for (size_t n = 1; n < 40; n++)
		check_proofs(n);
	for (size_t n = 2040; n < 2060; n++)
		check_large(n);
	for (size_t n = 4090; n < 4105; n++)
		check_large(n);
	check_large(10007);
	check_sort();
	TEST_END();
}
