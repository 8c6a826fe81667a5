/* grad.h - gradient containers: floats quantised, entropy-coded and checksummed, in chunks that
 * can be decoded on their own.
 *
 * Uses kernels/ (quant.h, huff.h, dev.h), libsodium, buf, err, mem. Little-endian throughout.
 *
 *   container = header, chunk ..., 8 zero bytes, index
 *   header    = "RNPG" version:1 method:1 flags:1 rank:1 elements:8 block:4 levels:4 seed:8
 *             log2(chunk):1 0:3
 *               E:f32 b:f32 step:5f32 dimension:8 (rank of them) check:16
 *   chunk     = bytes:4 elements:4 check:16 payload (bytes of them)
 *   payload   = (step:5f32, ecq:E:chunk only) plane ...; a coded or variable plane begins with its
 *             length:3
 *   index     = elements:8 chunks:8 bytes:4 (one per chunk) root:32 length:8 "GPNR"
 *
 * flags: 1 the input is bf16, 2 sigma, 4 stochastic, 8 a step for each chunk, 16 error feedback
 * by b. elements is 2^64 - 1 (and rank 0) when the length was not known, as from a pipe; the
 * index has it. length counts from the 8 zero bytes to the end. Every chunk but the last holds
 * the full number of elements of its method, and no chunk is empty. Planes are those of
 * quant.h; a coded plane holds one chunk of huff.h, and is absent when it has no symbols.
 *
 * The check of the header is the BLAKE2b-128 of all bytes before it. The check of a chunk is
 * the BLAKE2b-128, keyed by the header's check, of its number (8 bytes), elements, bytes and
 * payload, so that no chunk fits another place or another container. root is the BLAKE2b-256,
 * keyed likewise, of check, bytes and elements of all chunks in order, then elements and
 * chunks. So chunks can be checked in parallel and fetched one by one, and nothing is written
 * out unchecked. These are checksums: who wrote a container is proved by the signature on the
 * record that names it. */
#ifndef RNP_COMMON_GRAD_GRAD_H
#define RNP_COMMON_GRAD_GRAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "kernels/grad/ops.h"

#define GRAD_VERSION     1
#define GRAD_RANK_MAX    8
#define GRAD_HEADER_MIN  80
#define GRAD_HEADER_MAX  (GRAD_HEADER_MIN + 8 * GRAD_RANK_MAX)
#define GRAD_CHUNK_BYTES 24 /* before its payload */
#define GRAD_CHECK_BYTES 16
#define GRAD_ROOT_BYTES  32
#define GRAD_UNKNOWN     UINT64_MAX

/* The settings of a compression; the header stores all of them. */
struct grad {
	struct quant q;
	bool bf16; /* input and output are bf16; lossy methods work on f32 in between */
	double error;  /* for ecq: the target relative L2 error, 1e-6 .. 0.99 */
	bool each;     /* for ecq: a step for each chunk */
	bool feedback; /* e = carry e + x is quantised */
	float carry;
	struct quant_step step; /* for ecq without each */
	uint64_t elements;      /* or GRAD_UNKNOWN */
	int rank;               /* 0: no shape */
	uint64_t dims[GRAD_RANK_MAX];
};

/* Fills in method, block, levels, error and the method's default carry from "q8", "q4:sigma",
 * "ecq:0.1", "ecq:0.1:chunk", "qsgd:4" and so on; all else becomes 0. block 0: the method's
 * default. Returns 0, or -1 (EX_USAGE). */
int grad_parse(struct grad *g, const char *method, uint32_t block);

/* Writes the same text, without the block. */
void grad_name(char out[64], const struct grad *g);

/* Returns "none|lossless|..." for messages. */
extern const char grad_methods[];

/* Computes the step for a relative error from what ops->quant->spread counted over all
 * elements. Pure. thorough: tries several dead zones. */
void grad_step(struct quant_step *out, const uint64_t bins[QUANT_BINS], double error,
	bool thorough);

/* Convert the header to and from bytes. grad_header_write returns its length. grad_header_read
 * returns 0, or -1 (EX_DATAERR); *len receives its length in bytes; too small a `have` is an
 * error that says so. */
size_t grad_header_write(unsigned char out[GRAD_HEADER_MAX], const struct grad *g,
	unsigned char check[GRAD_CHECK_BYTES]);
int grad_header_read(struct grad *g, unsigned char check[GRAD_CHECK_BYTES],
	const unsigned char *in, size_t have, size_t *len);

/* Returns the longest payload of a chunk of n elements. */
uint64_t grad_payload_max(const struct grad *g, uint32_t n);

/* Statistics of the compression, summed over everything so far. */
struct grad_stats {
	uint64_t elements, input_bytes, output_bytes;
	uint64_t symbols;    /* of the first coded plane */
	double entropy_bits; /* of these symbols, by their frequencies in each chunk */
	uint64_t coded_bits; /* bits that they took */
	double energy, error, dot,
		sent; /* sums of x^2, (x - y)^2, x y, y^2 over finite x and y */
	uint64_t not_finite;
};

/* Write and read bytes: they return 0, or -1 with err_set. read returns exactly len bytes. */
typedef int (*grad_write_fn)(void *ctx, const void *data, size_t len);
typedef int (*grad_read_fn)(void *ctx, void *data, size_t len);

/* --- encoder --------------------------------------------------------------------------------- */

struct grad_encoder;

/* Begin a container by writing its header. d is borrowed and stays open. stats may be NULL; it
 * costs a decode. Return NULL with err_set on failure. */
struct grad_encoder *grad_encoder_new(struct dev *d, const struct grad *g,
	grad_write_fn write, void *ctx, struct grad_stats *stats);

/* Adds n elements in device memory: all calls but the last pass a multiple of grad_batch(). e:
 * error feedback for them, in and out, or NULL. The memory may be changed only after the call. */
int grad_encoder_add(struct grad_encoder *e, const void *elements, uint64_t n,
	float *feedback);
/* Does the same from host memory. */
int grad_encoder_add_host(struct grad_encoder *e, const void *elements, uint64_t n,
	float *feedback);
int grad_encoder_end(struct grad_encoder *e); /* writes the index */
void grad_encoder_free(struct grad_encoder *e);

/* Returns the number of elements that are processed at a time. */
uint64_t grad_batch(const struct grad *g);

/* Encodes everything at once, appended to out. elements: g->elements of them in host memory.
 * ecq's step is computed first, from the values to be quantised. */
int grad_encode(struct dev *d, const struct grad *g, const void *elements,
	float *feedback, struct buf *out, struct grad_stats *stats);

/* Counts n elements in host memory for grad_step; with feedback (n values, only read; or NULL)
 * it counts what g->carry makes of them, as this is what will be quantised. bins are added to. */
int grad_spread(struct dev *d, const struct grad *g, const void *elements,
	const float *feedback, uint64_t n, uint64_t bins[QUANT_BINS]);
/* Does the same for f32 in device memory, of at most 2^32 - 1 elements; the feedback is in host
 * memory. */
int grad_spread_on(struct dev *d, const struct grad *g, const float *x,
	const float *feedback, uint64_t n, uint64_t bins[QUANT_BINS]);

/* --- decoder --------------------------------------------------------------------------------- */

struct grad_decoder;

/* Read the header. Return NULL with err_set (EX_DATAERR: not a container, another version,
 * damaged). */
struct grad_decoder *grad_decoder_new(struct dev *d, grad_read_fn read, void *ctx);
const struct grad *grad_decoder_info(const struct grad_decoder *r);

/* Read the next elements, checked: at most grad_batch() of them, to device (or host) memory. *n
 * is 0 when everything was read and the index agrees. Return 0, or -1 (EX_DATAERR). */
int grad_decoder_next(struct grad_decoder *r, void *elements, uint64_t *n);
int grad_decoder_next_host(struct grad_decoder *r, void *elements, uint64_t *n);
void grad_decoder_free(struct grad_decoder *r);

/* Decodes a whole container in memory, which must hold exactly n elements of g's input type: g
 * (may be NULL) receives the header. It allocates nothing by the sizes that the container
 * claims. elements: host memory, n x 4 or 2 bytes. */
int grad_decode(struct dev *d, struct grad *g, const void *container, size_t len,
	void *elements, uint64_t n, bool bf16);

#endif
