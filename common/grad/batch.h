/* batch.h - the memory of a batch of chunks and its way to and from the device, for common/grad only. */
#ifndef RNP_COMMON_GRAD_BATCH_H
#define RNP_COMMON_GRAD_BATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "common/grad/grad.h"
#include "kernels/grad/ops.h"

/* A plane of a chunk as it is coded. */
struct grad_piece {
	const unsigned char *from;
	uint64_t bytes;
};

struct grad_batch {
	struct dev *d;
	struct grad g;
	bool host; /* the device's memory is ours */
	uint32_t chunk;
	uint64_t elements, chunks_max; /* of a whole batch */
	uint64_t chunks;               /* of this one */
	unsigned char check[GRAD_CHECK_BYTES];
	struct quant_layout layout;
	enum cpu_level level;
	const struct huff_kernels *huff;
	struct huff_work *work; /* a thread each */
	/* of the host, and the same of the device where that is another; of all chunks or, on the host, of as many as
	 * there are threads */
	unsigned char *planes, *d_planes;
	uint32_t *used, *d_used;
	struct quant_step *steps, *d_steps;
	uint32_t *bad;  /* device */
	uint32_t *bins; /* device, of ecq:E:chunk */
	float *floats;  /* device: of bf16 that a lossy method works on, else NULL */
	/* planes that a device apart codes itself: lest all symbols travel */
	bool apart[QUANT_PLANES_MAX];
	unsigned char *coded[QUANT_PLANES_MAX], *d_coded;
	uint64_t *at[QUANT_PLANES_MAX], *d_at; /* where chunks are in them */
	struct grad_piece *pieces; /* of the decoder: plane by plane, a chunk each */
	unsigned char *slots;
	unsigned char *checks; /* of the chunks in them */
	uint64_t
		slot_bytes; /* a chunk with all before its payload, and room for the coder */
};

/* Each: 0, or -1 with err_set; what was made is released by grad_batch_release in any case. */
int grad_batch_init(struct grad_batch *b, struct dev *d, const struct grad *g);
void grad_batch_release(struct grad_batch *b);

/* Elements of chunk c of a batch of n. */
uint32_t grad_batch_length(const struct grad_batch *b, uint64_t c, uint64_t n);

/* Fill in a job for n elements at `first`, its elements apart, and bring the steps to the device. */
int grad_batch_job(struct grad_batch *b, struct quant_job *j, uint64_t first, uint64_t n);
/* Planes and lengths of n elements from the device, coded where the device does that; symbols: also the symbols of the first
 * plane, to be counted. */
int grad_batch_get(struct grad_batch *b, uint64_t n, bool symbols);
/* And to it; *bad: how many chunks it could not decode. */
int grad_batch_put(struct grad_batch *b, uint64_t n, uint32_t *bad);

/* The checks of the chunks in the slots, the first of which has that number, to b->checks: by the team, several
 * side by side. */
void grad_batch_check(struct grad_batch *b, uint64_t number);

bool grad_on_host(const struct dev *d);
int grad_alloc(struct grad_batch *b, void **out, uint64_t bytes);
/* rc of a device's operation: its error becomes ours */
int grad_dev(const struct grad_batch *b, int rc);
int grad_thread(void);

#endif
