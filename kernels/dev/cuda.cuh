/* cuda.cuh - what the kernels of the plug-in share. They use LAUNCH and SHARED instead of CUDA's own
 * spelling, so that the same text runs on a chip and in the emulation of tests/kernels/cuda_emu.h. */
#ifndef RNP_KERNELS_DEV_CUDA_CUH
#define RNP_KERNELS_DEV_CUDA_CUH

#include "kernels/dev/dev.h"

#ifdef CUDA_EMU
#include "tests/kernels/cuda_emu.h"
#define UNROLL
#define UNROLL_4
#else
#include <cuda_runtime.h>
/* kernel<<<grid, block, 0, stream>>>(arguments); a template's name without commas */
#define LAUNCH(kernel, grid, block, stream, ...) \
	kernel<<<grid, block, 0, stream>>>(__VA_ARGS__)
/* an array that the threads of a block share, contents undefined; count is a constant */
#define SHARED(type, name, count) __shared__ type name[count]
/* before a loop: unroll it all, or by four */
#define UNROLL                    _Pragma("unroll")
#define UNROLL_4                  _Pragma("unroll 4")
#endif

/* In a function that returns int and has a `struct dev *d`. */
#define CUDA_TRY(call)                                           \
	do {                                                     \
		cudaError_t cuda_error_ = (call);                \
		if (cuda_error_ != cudaSuccess)                  \
			return cuda_fail(d, cuda_error_, #call); \
	} while (0)

int cuda_fail(struct dev *d, cudaError_t e, const char *call);

struct cuda {
	int number, sm_count, major; /* major: of the compute capability */
	int peer;                    /* the GPU that from_peer reached last, plus 1 */
	cudaStream_t stream;
	cudaEvent_t from, to;
	void *lt;      /* cuBLASLt's state, once a product has needed it */
	void *scratch; /* what huff works in, as large as was ever needed */
	uint64_t scratch_bytes;
	float *lm_scratch; /* of a language model's operations, once prepared */
};

static inline struct cuda *cuda_of(struct dev *d)
{
	return (struct cuda *)d->state;
}

/* Whether the chip has the bf16 tensor cores of lm_tensor.cuh. */
static inline bool cuda_tensor(struct dev *d)
{
#ifdef CUDA_EMU
	(void)d;
	return true;
#else
	return cuda_of(d)->major >= 8;
#endif
}

/* Blocks of `threads` for n items with grid-stride loops: enough to fill the chip, no more. */
static inline unsigned cuda_grid(struct dev *d, uint64_t n, unsigned threads)
{
	uint64_t wanted = (n + threads - 1) / threads;
	uint64_t most = (uint64_t)cuda_of(d)->sm_count * 32;

	return (unsigned)(wanted < most ? (wanted ? wanted : 1) : most);
}

/* this thread's first item and the stride, in grid-stride loops */
#define GRID_FIRST  ((uint64_t)blockIdx.x * blockDim.x + threadIdx.x)
#define GRID_STRIDE ((uint64_t)gridDim.x * blockDim.x)

/* Each starts its kernels on the device's stream. Returns 0 or -1. */
int cuda_copy(struct dev *d, void *to, const void *from, uint64_t bytes);
int cuda_fill(struct dev *d, uint32_t *to, uint32_t word, uint64_t words);
int cuda_triad(struct dev *d, double *a, const double *b, const double *c, double s,
	uint64_t n);
int cuda_random(struct dev *d, uint64_t *sum, const struct bulk_random *r);
int cuda_philox(struct dev *d, void *out, uint64_t bytes, const struct philox *p);
int cuda_sha256(struct dev *d, unsigned char *out, const struct sha256_rows *in);
int cuda_memfill(struct dev *d, const struct memfill *m);
int cuda_balance(struct dev *d, int8_t *x, uint64_t count);
int cuda_mix(struct dev *d, int8_t *out, const struct int8_mix *m);
int cuda_huff_count(struct dev *d, uint32_t *counts, const unsigned char *in, uint64_t n);
int cuda_huff_encode(struct dev *d, unsigned char *out, uint64_t *at,
	const unsigned char *in, uint64_t n, uint32_t chunk);
int cuda_huff_decode(struct dev *d, unsigned char *out, uint32_t *bad,
	const unsigned char *in, uint64_t bytes, const uint64_t *at, uint64_t n,
	uint32_t chunk);
int cuda_product(struct dev *d, const struct product *p); /* without tensor cores */
int cuda_lm_project(struct dev *d, const struct lm_project *p);

extern const struct lm_ops lm_cuda_ops;
extern const struct quant_ops quant_cuda_ops;

/* cuBLASLt: 0; 1: it is not there or does not do this product, nothing was started; -1: an error. */
int cuda_product_lt(struct dev *d, const struct product *p);
/* The same for a product without bias whose `from` is of the type of C. */
int cuda_gemm_lt(struct dev *d, const struct lm_gemm *g);
/* Open it if it is there; bytes: what it then holds of the GPU's memory. */
int cuda_lt_prepare(struct dev *d, uint64_t *bytes);
void cuda_lt_close(struct dev *d);

#endif
