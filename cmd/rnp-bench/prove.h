/* prove.h - a node's side of the proof of compute: do what a challenge asks, as poc.h defines it.
 *
 * No I/O and no clock. All devices of a challenge work at the same time. */
#ifndef RNP_BENCH_PROVE_H
#define RNP_BENCH_PROVE_H

#include "common/poc.h"

/* Where the tests' dishonest provers get at the work; all NULL: an honest one. */
struct prove_hooks {
	void *ctx;
	/* after round t: its matrix may be changed before it is hashed and used */
	void (*round)(void *ctx, int64_t t, int8_t *a, int64_t n);
	/* after a step of the fill: its slice may be changed before it is hashed */
	void (*step)(void *ctx, const struct memfill *m);
	/* after a segment of the chain */
	void (*segment)(void *ctx, int64_t segment, unsigned char state[POC_HASH_BYTES]);
};

/* The record that answers c, without node's proof; the caller owns it. memory_bytes bounds what is
 * kept of all rounds beside what the test needs; less only costs time. Returns NULL with err_set:
 * 69 a device that is not here. */
json_t *prove(const struct poc_challenge *c, int64_t memory_bytes,
	const struct prove_hooks *hooks);

/* The tests alone, as objects of the answer. */
json_t *prove_matmul(const struct poc_challenge *c, const struct poc_device *d,
	int64_t memory_bytes, const struct prove_hooks *hooks);
json_t *prove_memory(const struct poc_challenge *c, const struct poc_device *d,
	const struct prove_hooks *hooks);
json_t *prove_chain(const struct poc_challenge *c, const struct poc_device *d,
	const struct prove_hooks *hooks);

/* --- parts that provers on other devices use ----------------------------------------------- */

/* The rows that an answer holds; rows is allocated by draw, to be filled, and freed by part. */
struct prove_rows {
	uint64_t n, drawn[POC_OPENINGS], at[2 * POC_OPENINGS];
	size_t count;
	unsigned char *rows;
};

void prove_rows_draw(struct prove_rows *p, const struct poc_challenge *c,
	const unsigned char seed[POC_HASH_BYTES], uint64_t leaves,
	const unsigned char root[POC_HASH_BYTES]);
json_t *prove_rows_part(struct prove_rows *p, const struct poc_tree *tree,
	const unsigned char root[POC_HASH_BYTES]);

/* Who fills memory: a step with its leaf hashes, lane by lane, and one block by its index. */
struct prove_filler {
	void *ctx;
	int (*step)(void *ctx, const struct memfill *m, unsigned char *leaves);
	int (*get)(void *ctx, uint32_t *out, const struct memfill *m, uint64_t index);
};

/* The memory test's object; NULL with err_set when the filler fails. */
json_t *prove_fill(const struct poc_challenge *c, const struct poc_device *d,
	const struct prove_filler *by, uint32_t *blocks);

/* The same tests on any device of kernels/dev.h (prove_dev.c). NULL with err_set. */
struct dev;
json_t *prove_dev_matmul(const struct poc_challenge *c, const struct poc_device *d,
	int64_t memory_bytes, struct dev *dev);
json_t *prove_dev_memory(const struct poc_challenge *c, const struct poc_device *d,
	struct dev *dev);

#endif
