/* flat.h - a trainer's parameters, or AdamW's state, as one flat array: all tensors that learn in
 * their order (lora.h), row-major, without the padding that lies between them on the device.
 * Deltas, outer steps and the hash of a run over a network are computed on it. Uses train.h.
 *
 * Element ranges are [from, from + count) with from + count <= lm_flat_count. Every function
 * returns 0, or -1 with err_set(): the device's error. Memory beyond the caller's is a fixed
 * piece of 4 MiB at most, of the host's or the device's, however many elements are processed. */
#ifndef RNP_COMMON_LM_TRAIN_FLAT_H
#define RNP_COMMON_LM_TRAIN_FLAT_H

#include "common/lm/train/train.h"

/* Returns the number of elements: the parameters that learn. */
uint64_t lm_flat_count(const struct lm_train *t);

/* Copy a range to and from the host. Setting parameters also updates the bf16 working copies of
 * exactly this range. */
int lm_flat_get(struct lm_train *t, enum lm_state what, uint64_t from, uint64_t count,
	float *host);
int lm_flat_set(struct lm_train *t, enum lm_state what, uint64_t from, uint64_t count,
	const float *host);

/* x[from + i] = x[from + i] + scale host[i], each product and each sum rounded to f32 once (no
 * fused operation), so that all devices have the same bits. */
int lm_flat_add(struct lm_train *t, enum lm_state what, uint64_t from, uint64_t count,
	const float *host, float scale);

/* What a worker computes between its parameters, which stay on the device, and an array that all
 * have, `count` elements in host memory, which goes there in pieces. The formulas are those of
 * kernels/grad/outer.h: all devices have the same bits.
 *
 * delta: out = began - x, in device memory; merge: x <- a x + (1 - a) published, and the bf16
 * working copies with it. */
int lm_flat_delta(struct lm_train *t, uint64_t from, uint64_t count, const float *began,
	float *out);
int lm_flat_merge(struct lm_train *t, uint64_t from, uint64_t count,
	const float *published, double a);

/* Computes BLAKE2b-256 over all elements as little-endian f32. Records identify parameters by
 * it. */
int lm_flat_hash(struct lm_train *t, enum lm_state what, unsigned char out[32]);

#endif
