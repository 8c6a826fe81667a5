/* product.cu - products: by cuBLASLt, else by our own kernels on tensor cores
 * (kernels/dev/cuda/mma.cu), else by those below for every GPU, type and alignment: tiles of 64 x
 * 64, in shared memory as f32 (int8 as int32), 4 x 4 results per thread. Contraction (-fmad) makes
 * each step of these a multiply-add, within the bounds of product.h; int8 is exact. */
#include "kernels/bulk/ops.h"
#include "kernels/dev/cuda/cuda.cuh"
#include "kernels/dev/half.h"
#include "kernels/dev/cuda/lt.cuh"
#include "kernels/dev/cuda/mma.cuh"

#include <stdio.h>
#include <sysexits.h>

#define TILE    64
#define DEPTH   16
#define THREADS 256

struct f32_element {
	typedef float in;
	typedef float sum;
	static __device__ __forceinline__ float load(const in *p)
	{
		return *p;
	}
};

struct bf16_element {
	typedef uint16_t in;
	typedef float sum;
	static __device__ __forceinline__ float load(const in *p)
	{
		return bf16_to_f32(*p);
	}
};

struct f16_element {
	typedef uint16_t in;
	typedef float sum;
	static __device__ __forceinline__ float load(const in *p)
	{
		return f16_to_f32(*p);
	}
};

struct f8_element {
	typedef uint8_t in;
	typedef float sum;
	static __device__ __forceinline__ float load(const in *p)
	{
		return f8_to_f32(*p);
	}
};

struct i8_element {
	typedef int8_t in;
	typedef int32_t sum;
	static __device__ __forceinline__ int32_t load(const in *p)
	{
		return *p;
	}
};

/* Loads rows i0 .. i0 + 63, columns t0 .. t0 + 15 of a matrix into tile[column][row], with
 * zeros beyond its edges. */
template <class T>
__device__ void load_tile(typename T::sum *tile, const typename T::in *from, uint64_t ld,
	uint64_t rows, uint64_t columns, uint64_t i0, uint64_t t0)
{
	for (unsigned at = threadIdx.x; at < TILE * DEPTH; at += THREADS) {
		unsigned i = at / DEPTH, t = at % DEPTH;
		bool inside = i0 + i < rows && t0 + t < columns;

		tile[t * (TILE + 1) + i] = inside ?
			T::load(from + (i0 + i) * ld + t0 + t) :
			0;
	}
}

template <class T> __global__ void product_kernel(struct product p)
{
	SHARED(typename T::sum, a, DEPTH * (TILE + 1));
	SHARED(typename T::sum, b, DEPTH * (TILE + 1));
	uint64_t tiles_n = (p.n + TILE - 1) / TILE,
		 tiles = (p.m + TILE - 1) / TILE * tiles_n;
	unsigned y = threadIdx.x / 16, x = threadIdx.x % 16;

	for (uint64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
		uint64_t i0 = tile / tiles_n * TILE, j0 = tile % tiles_n * TILE;
		typename T::sum sum[4][4] = {};

		for (uint64_t t0 = 0; t0 < p.k; t0 += DEPTH) {
			__syncthreads(); /* until the previous tiles are used */
			load_tile<T>(a, (const typename T::in *)p.a, p.lda, p.m, p.k, i0,
				t0);
			load_tile<T>(b, (const typename T::in *)p.b, p.ldb, p.n, p.k, j0,
				t0);
			__syncthreads();
			for (int t = 0; t < DEPTH; t++)
				for (int i = 0; i < 4; i++)
					for (int j = 0; j < 4; j++)
						sum[i][j] +=
							a[t * (TILE + 1) + y + 16 * i] *
							b[t * (TILE + 1) + x + 16 * j];
		}
		for (int i = 0; i < 4; i++)
			for (int j = 0; j < 4; j++) {
				uint64_t row = i0 + y + 16 * i, column = j0 + x + 16 * j;

				if (row < p.m && column < p.n)
					((typename T::sum *)p.c)[row * p.ldc + column] =
						sum[i][j];
			}
	}
}

static int plain_product(struct dev *d, const struct product *p)
{
	uint64_t tiles = ((p->m + TILE - 1) / TILE) * ((p->n + TILE - 1) / TILE);
	unsigned grid = cuda_grid(d, tiles, 1);
	cudaStream_t stream = cuda_of(d)->stream;

	switch (p->type) {
	case PRODUCT_F32:
		LAUNCH(product_kernel<f32_element>, grid, THREADS, stream, *p);
		break;
	case PRODUCT_BF16:
		LAUNCH(product_kernel<bf16_element>, grid, THREADS, stream, *p);
		break;
	case PRODUCT_F16:
		LAUNCH(product_kernel<f16_element>, grid, THREADS, stream, *p);
		break;
	case PRODUCT_F8:
		LAUNCH(product_kernel<f8_element>, grid, THREADS, stream, *p);
		break;
	default:
		LAUNCH(product_kernel<i8_element>, grid, THREADS, stream, *p);
		break;
	}
	CUDA_TRY(cudaGetLastError());
	return 0;
}

static const enum lt_type lt_types[PRODUCT_TYPES] = { LT_F32, LT_BF16, LT_F16, LT_F8,
	LT_I8 };

int cuda_bulk_product(struct dev *d, const struct product *p)
{
	struct mma_extra extra = {};
	struct lt_product q = {};
	int rc;

	if ((unsigned)p->type >= PRODUCT_TYPES)
		return dev_fail(d, EX_SOFTWARE, "%s: product of type %d", d->name,
			(int)p->type);
	if (p->type == PRODUCT_I8 && p->k > PRODUCT_I8_K_MAX)
		return dev_fail(d, EX_SOFTWARE, "%s: product of int8 with k = %llu",
			d->name, (unsigned long long)p->k);
	q.in = lt_types[p->type];
	q.out = p->type == PRODUCT_I8 ? LT_I32 : LT_F32;
	q.m = p->m, q.n = p->n, q.k = p->k;
	q.lda = p->lda, q.ldb = p->ldb, q.ldc = p->ldc;
	q.c = p->c, q.a = p->a, q.b = p->b;
	rc = cuda_lt_multiply(d, &q);
	snprintf(d->kernel, sizeof d->kernel, "%s", rc > 0 ? d->isa : "cuBLASLt");
	if (rc > 0) {
		rc = cuda_mma_multiply(d, &q, &extra);
		if (rc <= 0)
			snprintf(d->kernel, sizeof d->kernel, "%.10s mma", d->isa);
	}
	return rc > 0 ? plain_product(d, p) : rc;
}
