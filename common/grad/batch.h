/* batch.h - the memory of a batch of chunks and its transfer to and from the device, for
 * common/grad only. */
#ifndef RNP_COMMON_GRAD_BATCH_H
#define RNP_COMMON_GRAD_BATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "common/grad/grad.h"
#include "kernels/grad/ops.h"

/* A plane of a chunk in coded form. */
struct grad_piece {
	const unsigned char *from;
	uint64_t bytes;
};

struct grad_batch {
	struct dev *d;
	struct grad g;
	bool host; /* device memory is host memory */
	uint32_t chunk;
	uint64_t elements, chunks_max; /* capacity of a batch */
	uint64_t chunks;               /* chunks in the current batch */
	unsigned char check[GRAD_CHECK_BYTES];
	struct quant_layout layout;
	enum cpu_level level;
	const struct huff_kernels *huff;
	struct huff_work *work; /* one per thread */
	/* planes on the host, and the same on the device where its memory is separate; for all
	 * chunks or, on the host, one set per thread */
	unsigned char *planes, *d_planes;
	uint32_t *used, *d_used;
	struct quant_step *steps, *d_steps;
	uint32_t *bad;  /* device */
	uint32_t *bins; /* device, for ecq:E:chunk */
	float *floats; /* device: the f32 of bf16 input that a lossy method works on, else NULL */
	/* planes that a separate device codes itself, so that not all symbols are transferred */
	bool apart[QUANT_PLANES_MAX];
	unsigned char *coded[QUANT_PLANES_MAX], *d_coded;
	uint64_t *at[QUANT_PLANES_MAX], *d_at; /* offsets of the chunks in them */
	struct grad_piece *pieces; /* for the decoder: plane by plane, one per chunk */
	unsigned char *slots;
	unsigned char *checks; /* checks of the chunks in the slots */
	bool checked; /* they are computed already, for the next grad_batch_decode alone */
	uint64_t slot_bytes; /* a chunk with its header, and slack for the coder */
};

/* Each returns 0, or -1 with err_set; grad_batch_release releases what was allocated in any
 * case. */
int grad_batch_init(struct grad_batch *b, struct dev *d, const struct grad *g);
/* The same for one chunk at a time, of the calling thread alone. */
int grad_batch_init_one(struct grad_batch *b, struct dev *d, const struct grad *g);
void grad_batch_release(struct grad_batch *b);

/* Returns the elements of chunk c of a batch of n. */
uint32_t grad_batch_length(const struct grad_batch *b, uint64_t c, uint64_t n);

/* Fill in a job for n elements from `first` on, except its elements, and copy the steps to the
 * device. */
int grad_batch_job(struct grad_batch *b, struct quant_job *j, uint64_t first, uint64_t n);
/* Copies planes and lengths of n elements from the device, coded where the device does that;
 * symbols: also the symbols of the first plane, to be counted. */
int grad_batch_get(struct grad_batch *b, uint64_t n, bool symbols);
/* Copies them to the device; *bad: how many chunks it could not decode. */
int grad_batch_put(struct grad_batch *b, uint64_t n, uint32_t *bad);

/* Computes the checks of the chunks in the slots into b->checks; number is that of the first
 * chunk. The thread team hashes several side by side. */
void grad_batch_check(struct grad_batch *b, uint64_t number);

/* The same for n batches, at most BLAKE2B_LANES, of one chunk each, all of that number: they are
 * hashed side by side by the calling thread, and grad_batch_decode does not do it again. */
void grad_batch_check_side_by_side(struct grad_batch *const *b, size_t n,
	uint64_t number);

/* Decodes the b->chunks chunks in the slots, of which the first has this number and begins with
 * element `first`: n elements in device memory. Returns 0, or -1 (EX_DATAERR). */
int grad_batch_decode(struct grad_batch *b, uint64_t number, uint64_t first,
	void *elements, uint64_t n);

bool grad_on_host(const struct dev *d);
int grad_alloc(struct grad_batch *b, void **out, uint64_t bytes);
/* Returns the rc of a device operation; sets its error as ours. */
int grad_dev(const struct grad_batch *b, int rc);

#endif
