/* prove.h - a node's side of proof of compute: does what a challenge asks, as poc.h defines it.
 *
 * No I/O and no clock. All devices of a challenge work at the same time. */
#ifndef RNP_BENCH_PROVE_PROVE_H
#define RNP_BENCH_PROVE_PROVE_H

#include "common/poc/poc.h"

/* The tests of a device, in the order of the work. */
enum prove_test { PROVE_CHAIN, PROVE_MATMUL, PROVE_MEMORY, PROVE_TESTS };

struct dev;

/* Hooks of those who watch the work, and of the dishonest provers of the tests; each may be NULL.
 * Every device has a thread of its own, which calls them. */
struct prove_hooks {
	void *ctx;
	/* Once all devices are open, before any of them works: called for each, by one thread. -1
	 * with err_set() refuses the challenge. */
	int (*begin)(void *ctx, const struct poc_device *d, struct dev *dev);
	/* Once, when no device has refused it: the work begins. */
	void (*begun)(void *ctx);
	/* Of a test's segments, rounds or steps, `done` of `all` are done; 0: it prepares. The same
	 * number may come again. -1 with err_set() ends the work of this device. */
	int (*part)(void *ctx, const struct poc_device *d, enum prove_test test,
		int64_t done, int64_t all);
	/* after round t: its matrix may be changed before it is hashed and used */
	void (*round)(void *ctx, int64_t t, int8_t *a, int64_t n);
	/* after a step of the fill, on the CPU only: its slice may be changed before it is
	 * hashed */
	void (*step)(void *ctx, const struct memfill *m);
	/* after a segment of the chain */
	void (*segment)(void *ctx, int64_t segment, unsigned char state[POC_HASH_BYTES]);
};

/* Returns the record that answers c, unsigned; the caller owns it. memory_bytes limits the
 * rounds that are saved beside what the test needs; less memory only costs time. Returns NULL
 * with err_set: 69 a device that this machine lacks. */
json_t *prove(const struct poc_challenge *c, int64_t memory_bytes,
	const struct prove_hooks *hooks);

/* Run one test and return its object of the answer; NULL with err_set if the device fails, or a
 * hook ends the work. */
json_t *prove_matmul(const struct poc_challenge *c, const struct poc_device *d,
	struct dev *dev, int64_t memory_bytes, const struct prove_hooks *hooks);
json_t *prove_memory(const struct poc_challenge *c, const struct poc_device *d,
	struct dev *dev, const struct prove_hooks *hooks);
json_t *prove_chain(const struct poc_challenge *c, const struct poc_device *d,
	const struct prove_hooks *hooks);

/* --- what they share ---------------------------------------------------------------------- */

/* Makes the device's error the pending one; returns -1. */
int prove_failed(const struct dev *dev);
/* Calls hooks->part, if there is one. */
int prove_part(const struct prove_hooks *hooks, const struct poc_device *d,
	enum prove_test test, int64_t done, int64_t all);
/* Returns an array of n numbers; the caller owns it. */
json_t *prove_tuple(const int64_t *v, int n);

#endif
