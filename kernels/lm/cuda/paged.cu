/* paged.cu - keys and values into a paged cache, and attention over it for heads of any width
 * (paged_tensor.cu and paged_split.cu have those of 64, 128 and 256 columns): a thread block for
 * each row and head. Each thread computes the score of one key of a chunk; then every thread sums
 * the values in one column. A head with more columns than a block has threads is computed in parts,
 * with its scores again for each part. The order of each sum depends only on the row's position.
 * Contraction (-fmad) makes its steps multiply-adds, within the bound of ops.h; what is put into
 * the cache has the same bits with it and without. */
#include "kernels/lm/cuda/cuda.cuh"

/* and keys of a chunk, and columns of a head that a block makes */
#define PAGED_THREADS 128

/* A thread for each 32 numbers of a row. */
__global__ void paged_put_kernel(struct lm_paged_put p)
{
	uint64_t groups = (p.width + 31) / 32, bytes = lm_cache_bytes(p.type, p.width);

	for (uint64_t n = GRID_FIRST; n < p.rows * groups; n += GRID_STRIDE) {
		uint64_t r = n / groups, g = n % groups;

		lm_cache_put_32(p.type, (char *)p.keys + p.slot[r] * bytes,
			p.k + r * p.width, g, p.width);
		lm_cache_put_32(p.type, (char *)p.values + p.slot[r] * bytes,
			p.v + r * p.width, g, p.width);
	}
}

int cuda_lm_paged_put(struct dev *d, const struct lm_paged_put *p)
{
	uint64_t n = p->rows * ((p->width + 31) / 32);

	if (!n)
		return 0;
	LAUNCH(paged_put_kernel, cuda_grid(d, n, LM_THREADS), LM_THREADS,
		cuda_of(d)->stream, *p);
	return lm_started(d);
}

#define ROTATE_THREADS 64

/* A block for each head of a row of q and k. */
__global__ void __launch_bounds__(ROTATE_THREADS)
	rotate_put_kernel(const GRID_CONSTANT struct lm_rotate_put x, bool wide)
{
	uint64_t heads = x.q.heads + x.k.heads, dim = lm_rotate_stride(&x.k);
	uint64_t bytes = lm_cache_bytes(x.put.type, x.put.width);

	for (uint64_t n = blockIdx.x; n < x.put.rows * heads; n += gridDim.x) {
		uint64_t row = n / heads, h = n % heads;
		bool key = h >= x.q.heads;
		const struct lm_rotate &r = key ? x.k : x.q;

		h -= key ? x.q.heads : 0;
		for (uint64_t i = threadIdx.x * LM_PACK; i < r.head_dim / 2;
			i += ROTATE_THREADS * LM_PACK)
			lm_rotate_pack<float>(r, row, h, i, wide);
		if (!key)
			continue;
		__syncthreads();
		/* halves of the block: keys and values */
		for (uint64_t g = threadIdx.x % (ROTATE_THREADS / 2); g < dim / 32;
			g += ROTATE_THREADS / 2) {
			bool value = threadIdx.x >= ROTATE_THREADS / 2;
			const float *from = value ? x.put.v : x.put.k;

			lm_cache_put_32(x.put.type,
				(char *)(value ? x.put.values : x.put.keys) +
					x.put.slot[row] * bytes,
				from + row * x.put.width, h * (dim / 32) + g,
				x.put.width);
		}
	}
}

int cuda_lm_rotate_put(struct dev *d, const struct lm_rotate_put *x)
{
	uint64_t dim = lm_rotate_stride(&x->k), n = x->put.rows;

	if (!n || x->q.dtype != LM_DTYPE_F32 || x->k.dtype != LM_DTYPE_F32 || dim % 32 ||
		x->k.ld != x->put.width || x->k.heads * dim != x->put.width)
		return 1;
	n *= x->q.heads + x->k.heads;
	LAUNCH(rotate_put_kernel, cuda_grid(d, n, 1), ROTATE_THREADS, cuda_of(d)->stream,
		*x, lm_rotate_wide(&x->q) && lm_rotate_wide(&x->k));
	return lm_started(d);
}

/* Row of key j, in bytes. */
__device__ uint64_t place_of(const struct lm_paged_attend *a, const uint32_t *blocks,
	uint64_t j)
{
	return ((uint64_t)blocks[j / LM_PAGE] * LM_PAGE + j % LM_PAGE) *
		lm_cache_bytes(a->type, a->ldk);
}

/* Reduces each thread's number to the largest, or the sum, which all threads get. `parts` is
 * shared memory, one number for each warp. */
__device__ float all_max(float v, float *parts)
{
	v = lm_warp_max(v);
	if (threadIdx.x % 32 == 0)
		parts[threadIdx.x / 32] = v;
	__syncthreads();
	v = parts[0];
	for (int w = 1; w < PAGED_THREADS / 32; w++)
		v = parts[w] > v ? parts[w] : v;
	__syncthreads();
	return v;
}

__device__ float all_sum(float v, float *parts)
{
	v = lm_warp_sum(v);
	if (threadIdx.x % 32 == 0)
		parts[threadIdx.x / 32] = v;
	__syncthreads();
	v = parts[0];
	for (int w = 1; w < PAGED_THREADS / 32; w++)
		v += parts[w];
	__syncthreads();
	return v;
}

/* Returns the score of key j, -inf beyond the last key. */
__device__ float score_of(const struct lm_paged_attend *a, const uint32_t *blocks,
	const float *q, uint64_t kv, uint64_t j, uint64_t last)
{
	const char *k;
	float sum = 0;

	if (j > last)
		return -INFINITY;
	k = (const char *)a->keys + place_of(a, blocks, j);
	for (uint64_t i = 0; i < a->head_dim; i++)
		sum += q[i] * lm_cache_at(a->type, k, kv + i);
	sum *= a->scale;
	return a->softcap > 0 ? a->softcap * tanhf(sum / a->softcap) : sum;
}

__global__ void paged_attend_kernel(struct lm_paged_attend a, uint64_t chunks)
{
	SHARED(float, p, PAGED_THREADS);
	SHARED(float, parts, PAGED_THREADS / 32);

	for (uint64_t task = blockIdx.x; task < a.rows * a.heads * chunks;
		task += gridDim.x) {
		/* this thread's column */
		uint64_t i = task % chunks * PAGED_THREADS + threadIdx.x;
		uint64_t h = task / chunks % a.heads, r = task / chunks / a.heads;
		uint64_t kv = h / (a.heads / a.kv_heads) * a.head_dim,
			 last = a.position[r];
		uint64_t first = a.window && last + 1 > a.window ? last + 1 - a.window :
								   0;
		const uint32_t *blocks = a.blocks + a.table[r];
		const float *q = a.q + r * a.ldq + h * a.head_dim;
		float out = 0, largest = -INFINITY, sum = 0;

		for (uint64_t j = first; j <= last; j += PAGED_THREADS) {
			uint64_t n = last - j + 1 < PAGED_THREADS ? last - j + 1 :
								    PAGED_THREADS;
			float s = score_of(&a, blocks, q, kv, j + threadIdx.x, last);
			float more = all_max(s, parts), less;

			more = more > largest ? more : largest;
			less = largest == -INFINITY ? 0 : expf(largest - more);
			largest = more;
			s = s == -INFINITY ? 0 : expf(s - more);
			p[threadIdx.x] = s;
			sum = sum * less + all_sum(s, parts);
			out *= less;
			for (uint64_t t = 0; i < a.head_dim && t < n; t++)
				out += p[t] *
					lm_cache_at(a.type,
						(const char *)a.values +
							place_of(&a, blocks, j + t),
						kv + i);
			__syncthreads(); /* until p is used */
		}
		if (i < a.head_dim)
			a.out[r * a.ldo + h * a.head_dim + i] = out / sum;
	}
}

int cuda_lm_paged_attend(struct dev *d, const struct lm_paged_attend *a)
{
	uint64_t chunks = (a->head_dim + PAGED_THREADS - 1) / PAGED_THREADS;
	uint64_t n = a->rows * a->heads * chunks;
	int rc;

	if (!n)
		return 0;
	rc = cuda_lm_paged_tensor(d, a);
	if (rc > 0)
		rc = cuda_lm_paged_split(d, a);
	if (rc <= 0)
		return rc;
	LAUNCH(paged_attend_kernel, cuda_grid(d, n * PAGED_THREADS, PAGED_THREADS),
		PAGED_THREADS, cuda_of(d)->stream, *a, chunks);
	return lm_started(d);
}
