/* core.c - seeds, indices, hash trees, and the two kernels that prover and verifier use
 * most. */
#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/poc/poc.h"
#include "common/base/rng.h"
#include "common/base/sha256.h"
#include "kernels/bulk/cpu/cpu.h"
#include "kernels/dev/dev_cpu.h"
#include "kernels/poc/cpu/cpu.h"
#include "kernels/crypto/sha256_chain.h"

#define SEED_PREFIX    "rnp-challenge-1"
#define INDICES_PREFIX "rnp-indices-1"

/* what one thread processes at a time */
#define FILL_BYTES ((uint64_t)1 << 18)
#define HASH_BYTES ((uint64_t)1 << 16)

uint64_t poc_folds = UINT64_C(1) << 18;
sha256_chain_fn poc_sha256_chain;

static void hash_add(struct sha256_state *s, const void *data, size_t len)
{
	sha256_update(s, data, len);
}

void poc_cpu_uuid(char out[POC_UUID_MAX], const unsigned char key[KEY_PUBLIC_BYTES])
{
	unsigned char hash[POC_HASH_BYTES];

	sha256(hash, key, KEY_PUBLIC_BYTES);
	memcpy(out, "cpu:", 5);
	sodium_bin2hex(out + 4, POC_UUID_MAX - 4, hash, sizeof hash);
}

void poc_seed(unsigned char out[POC_HASH_BYTES], const struct poc_challenge *c,
	const char *uuid)
{
	struct sha256_state s;

	sha256_init(&s);
	hash_add(&s, SEED_PREFIX, sizeof SEED_PREFIX - 1);
	hash_add(&s, c->nonce, sizeof c->nonce);
	hash_add(&s, c->node_key, sizeof c->node_key);
	hash_add(&s, uuid, strlen(uuid));
	sha256_final(&s, out);
}

void poc_derive(unsigned char out[POC_HASH_BYTES],
	const unsigned char seed[POC_HASH_BYTES], const char *name)
{
	struct sha256_state s;

	sha256_init(&s);
	hash_add(&s, seed, POC_HASH_BYTES);
	hash_add(&s, name, strlen(name));
	sha256_final(&s, out);
}

static uint64_t u64_at(const unsigned char *p)
{
	uint64_t v = 0;

	for (int i = 7; i >= 0; i--)
		v = v << 8 | p[i];
	return v;
}

static void sequence_of(struct philox *out, const unsigned char hash[POC_HASH_BYTES])
{
	*out = (struct philox){ u64_at(hash), u64_at(hash + 8), 0 };
}

void poc_sequence(struct philox *out, const unsigned char seed[POC_HASH_BYTES],
	const char *name)
{
	unsigned char hash[POC_HASH_BYTES];

	poc_derive(hash, seed, name);
	sequence_of(out, hash);
}

void poc_first_key(struct philox *out, const unsigned char seed[POC_HASH_BYTES])
{
	poc_sequence(out, seed, "memory");
}

void poc_next_key(struct philox *out, const unsigned char x[POC_HASH_BYTES])
{
	poc_sequence(out, x, "next");
}

/* Cache of computed folds, each in the one slot that its start selects, so that a node that
 * sends the same answer again and again does not make the verifier work each time. */
#define REMEMBERED 4096
static struct {
	pthread_mutex_t lock;
	struct {
		unsigned char from[POC_HASH_BYTES], to[POC_HASH_BYTES];
	} at[REMEMBERED];
} folds = { .lock = PTHREAD_MUTEX_INITIALIZER };

static size_t place_of(const unsigned char x[POC_HASH_BYTES])
{
	return u64_at(x) % REMEMBERED;
}

static bool remembered(unsigned char x[POC_HASH_BYTES])
{
	size_t i = place_of(x);
	bool found;

	pthread_mutex_lock(&folds.lock);
	found = memcmp(folds.at[i].from, x, POC_HASH_BYTES) == 0;
	if (found)
		memcpy(x, folds.at[i].to, POC_HASH_BYTES);
	pthread_mutex_unlock(&folds.lock);
	return found;
}

static void remember(const unsigned char from[POC_HASH_BYTES],
	const unsigned char to[POC_HASH_BYTES])
{
	size_t i = place_of(from);

	pthread_mutex_lock(&folds.lock);
	memcpy(folds.at[i].from, from, POC_HASH_BYTES);
	memcpy(folds.at[i].to, to, POC_HASH_BYTES);
	pthread_mutex_unlock(&folds.lock);
}

static void fold(unsigned char x[POC_HASH_BYTES], const struct poc_challenge *c,
	const unsigned char seed[POC_HASH_BYTES], const void *test, size_t test_bytes,
	const unsigned char root[POC_HASH_BYTES])
{
	unsigned char start[POC_HASH_BYTES];
	struct sha256_state s;

	sha256_init(&s);
	hash_add(&s, INDICES_PREFIX, sizeof INDICES_PREFIX - 1);
	hash_add(&s, c->nonce, sizeof c->nonce);
	hash_add(&s, seed, POC_HASH_BYTES);
	hash_add(&s, test, test_bytes);
	hash_add(&s, root, POC_HASH_BYTES);
	sha256_final(&s, x);
	if (remembered(x))
		return;
	memcpy(start, x, sizeof start);
	(poc_sha256_chain ? poc_sha256_chain : sha256_chain_fast())(x, 1, poc_folds);
	remember(start, x);
}

void poc_fold(unsigned char x[POC_HASH_BYTES], const struct poc_challenge *c,
	const unsigned char seed[POC_HASH_BYTES], const char *test,
	const unsigned char root[POC_HASH_BYTES])
{
	fold(x, c, seed, test, strlen(test), root);
}

void poc_fold_step(unsigned char x[POC_HASH_BYTES], const struct poc_challenge *c,
	const unsigned char seed[POC_HASH_BYTES], int64_t u,
	const unsigned char root[POC_HASH_BYTES])
{
	unsigned char test[10] = "memory";

	for (int i = 0; i < 4; i++)
		test[6 + i] = (unsigned char)(u >> 8 * i);
	fold(x, c, seed, test, sizeof test, root);
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

size_t poc_sort(uint64_t *at, size_t n)
{
	size_t left = 0;

	qsort(at, n, sizeof *at, compare);
	for (size_t i = 0; i < n; i++)
		if (!i || at[i] != at[i - 1])
			at[left++] = at[i];
	return left;
}

size_t poc_find(const uint64_t *at, size_t n, uint64_t v)
{
	size_t low = 0;

	while (n > 1) {
		size_t half = n / 2;

		if (at[low + half] <= v)
			low += half;
		n -= half;
	}
	return low;
}

void poc_draw(uint64_t *out, int count, uint64_t total,
	const unsigned char x[POC_HASH_BYTES])
{
	struct rng r;

	rng_seed_bytes(&r, x);
	for (int n = 0; n < count;) {
		uint64_t v = rng_below(&r, total);
		int i = 0;

		while (i < n && out[i] != v)
			i++;
		if (i == n)
			out[n++] = v;
	}
	qsort(out, (size_t)count, sizeof *out, compare);
}

static struct poc_kernels chosen;

static void choose_kernels(void)
{
	struct mem_cpu mem;
	struct bulk_cpu bulk;
	struct poc_cpu poc;
	enum cpu_level level;

	(void)cpu_level_chosen(&level);
	mem_cpu_choose(&mem, level);
	bulk_cpu_choose(&bulk, level);
	poc_cpu_choose(&poc, level);
	chosen = (struct poc_kernels){ .philox = mem.philox,
		.sha256 = poc.sha256,
		.balance = poc.balance,
		.product = bulk.product[PRODUCT_I8] };
}

const struct poc_kernels *poc_kernels(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, choose_kernels);
	return &chosen;
}

void poc_fill(void *out, uint64_t bytes, const struct philox *p)
{
	philox_fill_fn fn = poc_kernels()->philox;

#pragma omp parallel for schedule(static) if (bytes > FILL_BYTES)
	for (uint64_t at = 0; at < bytes; at += FILL_BYTES) {
		struct philox there = *p;

		there.block += at / PHILOX_BLOCK_BYTES;
		fn((char *)out + at, bytes - at < FILL_BYTES ? bytes - at : FILL_BYTES,
			&there);
	}
}

/* all rows with the same prefix; in->first and the index stay unchanged */
static void hash_rows(unsigned char *out, const struct sha256_rows *in)
{
	uint64_t each = HASH_BYTES / in->row_bytes / 16 * 16 + 16;
	sha256_rows_fn fn = poc_kernels()->sha256;

#pragma omp parallel for schedule(static) if (in->count > each)
	for (uint64_t at = 0; at < in->count; at += each) {
		struct sha256_rows part = *in;

		part.rows = (const char *)in->rows + at * in->stride_bytes;
		part.first += at;
		part.count = in->count - at < each ? in->count - at : each;
		fn(out + POC_HASH_BYTES * at, &part);
	}
}

void poc_leaves(unsigned char *out, const void *rows, uint64_t row_bytes, uint64_t count,
	uint32_t a, uint64_t first)
{
	struct sha256_rows in = { .rows = rows,
		.row_bytes = row_bytes,
		.stride_bytes = row_bytes,
		.count = count,
		.first = first,
		.index_bytes = 4,
		.prefix_bytes = 5 };

	in.prefix[0] = 0x00;
	for (int i = 0; i < 4; i++)
		in.prefix[1 + i] = (unsigned char)(a >> 8 * i);
	hash_rows(out, &in);
}

/* --- trees -------------------------------------------------------------------------------- */

/* Hashes count nodes from adjacent pairs. */
static void hash_pairs(unsigned char *out, const unsigned char *pairs, uint64_t count)
{
	struct sha256_rows in = { .rows = pairs,
		.row_bytes = 64,
		.stride_bytes = 64,
		.count = count,
		.prefix_bytes = 1,
		.prefix = { 0x01 } };

	hash_rows(out, &in);
}

/* hashes of all levels: each has at most half as many as the level below, plus one */
void poc_tree_init(struct poc_tree *t, uint64_t leaves)
{
	uint64_t all = 0;

	for (uint64_t width = leaves;; width = (width + 1) / 2) {
		all += width;
		if (width <= 1)
			break;
	}
	t->leaves = leaves;
	t->nodes = xmalloc(POC_HASH_BYTES * all);
}

void poc_tree_release(struct poc_tree *t)
{
	free(t->nodes);
	*t = (struct poc_tree){ 0 };
}

void poc_tree_build(struct poc_tree *t, unsigned char root[POC_HASH_BYTES])
{
	unsigned char *level = t->nodes;

	for (uint64_t width = t->leaves; width > 1; width = (width + 1) / 2) {
		unsigned char *next = level + POC_HASH_BYTES * width;

		hash_pairs(next, level, width / 2);
		if (width % 2)
			memcpy(next + POC_HASH_BYTES * (width / 2),
				level + POC_HASH_BYTES * (width - 1), POC_HASH_BYTES);
		level = next;
	}
	memcpy(root, level, POC_HASH_BYTES);
}

/* Computes the known positions of the next level; returns how many. */
static size_t parents(uint64_t *at, size_t n)
{
	size_t left = 0;

	for (size_t i = 0; i < n; i++)
		if (!left || at[left - 1] != at[i] / 2)
			at[left++] = at[i] / 2;
	return left;
}

void poc_tree_open(const struct poc_tree *t, const uint64_t *at, size_t n,
	struct buf *out)
{
	uint64_t *known = xmalloc(n * sizeof *known + 1);
	const unsigned char *level = t->nodes;

	memcpy(known, at, n * sizeof *known);
	for (uint64_t width = t->leaves; n && width > 1; width = (width + 1) / 2) {
		for (size_t i = 0; i < n; i++) {
			uint64_t other = known[i] ^ 1;

			if ((i + 1 < n && known[i + 1] == other) ||
				(i && known[i - 1] == other) || other >= width)
				continue;
			buf_add(out, level + POC_HASH_BYTES * other, POC_HASH_BYTES);
		}
		n = parents(known, n);
		level += POC_HASH_BYTES * width;
	}
	free(known);
}

/* Goes one level up: pairs are formed from known hashes and the proof, and hashed at once.
 * Returns the bytes of proof used, or -1 if it ends too early. */
static int64_t climb(uint64_t *known, unsigned char *hashes, size_t *n, uint64_t width,
	unsigned char *pairs, unsigned char *joined, const unsigned char *proof,
	size_t bytes)
{
	size_t npairs = 0, left = 0, used = 0, odd = 0;

	for (size_t i = 0; i < *n; i++) {
		unsigned char *pair = pairs + 2 * POC_HASH_BYTES * npairs,
			      *own = hashes + POC_HASH_BYTES * i;
		uint64_t place = known[i], other = place ^ 1;

		known[left++] = place / 2;
		if (other >=
			width) { /* the last node has no sibling: it is promoted unchanged */
			odd = i + 1;
			continue;
		}
		memcpy(pair + POC_HASH_BYTES * (place & 1), own, POC_HASH_BYTES);
		if (i + 1 < *n && known[i + 1] == other) {
			memcpy(pair + POC_HASH_BYTES, own + POC_HASH_BYTES,
				POC_HASH_BYTES);
			i++;
		} else {
			if (bytes - used < POC_HASH_BYTES)
				return -1;
			memcpy(pair + POC_HASH_BYTES * (other & 1), proof + used,
				POC_HASH_BYTES);
			used += POC_HASH_BYTES;
		}
		npairs++;
	}
	if (odd)
		memmove(hashes + POC_HASH_BYTES * npairs,
			hashes + POC_HASH_BYTES * (odd - 1), POC_HASH_BYTES);
	hash_pairs(joined, pairs, npairs);
	memcpy(hashes, joined, POC_HASH_BYTES * npairs);
	*n = left;
	return (int64_t)used;
}

bool poc_tree_check(const unsigned char root[POC_HASH_BYTES], uint64_t leaves,
	const uint64_t *at, unsigned char *hashes, size_t n, const unsigned char *proof,
	size_t proof_bytes)
{
	uint64_t *known = xmalloc(n * sizeof *known + 1);
	unsigned char *pairs = xmalloc(2 * POC_HASH_BYTES * n + 1);
	unsigned char *joined = xmalloc(POC_HASH_BYTES * n + 1);
	int64_t used = 0;
	bool good;

	memcpy(known, at, n * sizeof *known);
	for (uint64_t width = leaves; n && used >= 0 && width > 1;
		width = (width + 1) / 2) {
		used = climb(known, hashes, &n, width, pairs, joined, proof, proof_bytes);
		if (used >= 0)
			proof += used, proof_bytes -= (size_t)used;
	}
	good = n == 1 && used >= 0 && !proof_bytes &&
		memcmp(hashes, root, POC_HASH_BYTES) == 0;
	free(known);
	free(pairs);
	free(joined);
	return good;
}
