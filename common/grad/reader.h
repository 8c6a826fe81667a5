/* reader.h - single chunks of many containers, for callers that read them side by side: memory
 * for a chunk, not for a batch, a container. Uses grad.h; host memory and the CPU only. A
 * chunk's check is verified each time that it is read, the root of a container is not: if a
 * stranger sent it, the caller has read it whole with grad_decoder_next before. */
#ifndef RNP_COMMON_GRAD_READER_H
#define RNP_COMMON_GRAD_READER_H

#include "common/grad/grad.h"

/* Reads exactly len bytes at an offset; may be called by several threads at a time. Returns 0, or
 * -1 with err_set. */
typedef int (*grad_read_at_fn)(void *ctx, uint64_t at, void *data, size_t len);

/* A container whose header and index were read. */
struct grad_reader {
	struct grad g;
	unsigned char check[GRAD_CHECK_BYTES];
	uint64_t elements, chunks;
	uint32_t chunk; /* elements of all but the last */
	uint64_t *at;   /* [chunks + 1]: where they begin */
	grad_read_at_fn read;
	void *ctx;
};

/* Opens a container of `bytes` bytes that must hold this many elements of f32. Returns 0, or -1
 * with err_set(EX_DATAERR), or read's error. Close either way. */
int grad_reader_open(struct grad_reader *r, grad_read_at_fn read, void *ctx,
	uint64_t bytes, uint64_t elements);
void grad_reader_close(struct grad_reader *r);

/* A decoder for one thread; d: the CPU, borrowed. It is made for the containers of one method
 * and serves all, but is made again where the next container has another method. */
struct grad_chunk_decoder;
struct grad_chunk_decoder *grad_chunk_decoder_new(struct dev *d);
void grad_chunk_decoder_free(struct grad_chunk_decoder *c);

/* The elements of a reader's chunk: r->chunk of them, the last perhaps fewer. */
uint64_t grad_reader_length(const struct grad_reader *r, uint64_t chunk);
/* Decodes chunk number `chunk` of each of n readers, 1 .. GRAD_READERS, reader i with decoder c[i]
 * to out[i]: their checks are computed side by side. Returns 0, or -1 with err_set(), and the
 * reader in
 * *failed. */
#define GRAD_READERS 8
int grad_reader_get(const struct grad_reader *r, struct grad_chunk_decoder *const *c,
	size_t n, uint64_t chunk, float *const *out, size_t *failed);

/* A grad_read_at_fn over memory: ctx is a struct buf. */
int grad_read_buf(void *ctx, uint64_t at, void *data, size_t len);

#endif
