/* embed_back.cu - the gradient of a table of embeddings. It adds rows with the same token one after
 * the other, so they are sorted: blocks of SORT_ROWS in shared memory, then each row looks up how
 * many rows of the other blocks come before it. A row is a key, its token above its number: no two
 * are equal. Besides additions there is nothing: contraction (-fmad) changes nothing. */
#include "kernels/lm/cuda/cuda.cuh"

#define SORT_ROWS    2048
#define SORT_THREADS (SORT_ROWS / 2)
/* rows that are sorted together; in the emulation so few that small batches take several turns */
#ifdef CUDA_EMU
#define SORTED_MAX (2 * SORT_ROWS)
#else
#define SORTED_MAX ((uint64_t)1 << 20)
#endif
static_assert(SORTED_MAX * 4 <= LM_SCRATCH_FLOATS, "two arrays of keys");

__device__ __forceinline__ uint32_t token_of(uint64_t key)
{
	return (uint32_t)(key >> 32);
}

/* Batcher 1968, bitonic: every thread compares and swaps a pair. */
__global__ void __launch_bounds__(SORT_THREADS)
	sort_tokens_kernel(const uint32_t *token, unsigned rows, uint64_t *sorted)
{
	SHARED(uint64_t, key, SORT_ROWS);

	for (unsigned first = blockIdx.x * SORT_ROWS; first < rows;
		first += gridDim.x * SORT_ROWS) {
		unsigned n = rows - first < SORT_ROWS ? rows - first : SORT_ROWS, all = 2;

		while (all < n)
			all *= 2;
		__syncthreads(); /* until the previous keys are stored */
		for (unsigned i = threadIdx.x; i < all; i += SORT_THREADS)
			key[i] = i < n ? (uint64_t)token[first + i] << 32 | (first + i) :
					 UINT64_MAX;
		for (unsigned size = 2; size <= all; size *= 2)
			for (unsigned apart = size / 2; apart; apart /= 2) {
				unsigned i = threadIdx.x;
				unsigned at = 2 * i - (i & (apart - 1));

				__syncthreads();
				if (i < all / 2) {
					uint64_t x = key[at], y = key[at + apart];

					if ((x > y) == !(at & size)) {
						key[at] = y;
						key[at + apart] = x;
					}
				}
			}
		__syncthreads();
		for (unsigned i = threadIdx.x; i < n; i += SORT_THREADS)
			sorted[first + i] = key[i];
	}
}

/* blocks in which a row is looked up at once, so that their loads overlap */
#define TOGETHER 4

__global__ void merge_tokens_kernel(const uint64_t *sorted, unsigned rows,
	uint64_t *merged)
{
	for (unsigned i = (unsigned)GRID_FIRST; i < rows; i += (unsigned)GRID_STRIDE) {
		uint64_t key = sorted[i];
		unsigned before = 0;

		for (unsigned first = 0; first < rows; first += TOGETHER * SORT_ROWS) {
			unsigned at[TOGETHER] = {};

			UNROLL_1
			for (unsigned step = SORT_ROWS; step; step /= 2) {
				UNROLL
				for (unsigned k = 0; k < TOGETHER; k++) {
					unsigned from = first + k * SORT_ROWS;
					unsigned last = at[k] + step - 1;

					if (last < SORT_ROWS && from + last < rows &&
						sorted[from + last] < key)
						at[k] += step;
				}
			}
			UNROLL
			for (unsigned k = 0; k < TOGETHER; k++)
				before += at[k];
		}
		merged[before] = key;
	}
}

/* A block looks for tokens' first rows among so many, and has AHEAD rows of a token on their way
 * while it adds, and looks for those behind them: of text one row in 25 may have the same token. */
#define TURN          8
#define AHEAD         16
#define EMBED_THREADS 192

/* Four numbers, of which n exist. */
__device__ __forceinline__ float4 load_four(const float *p, unsigned n, bool wide)
{
	if (wide)
		return *(const float4 *)(const void *)p;
	return make_float4(p[0], n > 1 ? p[1] : 0, n > 2 ? p[2] : 0, n > 3 ? p[3] : 0);
}

__device__ __forceinline__ void store_four(float *p, float4 v, unsigned n, bool wide)
{
	if (wide) {
		*(float4 *)(void *)p = v;
		return;
	}
	p[0] = v.x;
	if (n > 1)
		p[1] = v.y;
	if (n > 2)
		p[2] = v.z;
	if (n > 3)
		p[3] = v.w;
}

/* Sets the rows of the token that are next at `at` of the keys, and returns how many. */
__device__ __forceinline__ unsigned next_rows(uint32_t (&row)[AHEAD], const uint64_t *key,
	uint32_t token, unsigned at, unsigned rows)
{
	unsigned have = 0;

	UNROLL
	for (unsigned k = 0; k < AHEAD; k++) {
		uint64_t next = at + k < rows ? key[at + k] : UINT64_MAX;

		row[k] = (uint32_t)next;
		have += token_of(next) == token;
	}
	return have;
}

/* Adds the rows of the token at `first` of the keys. */
__device__ __forceinline__ void add_token(const struct lm_embed_back &e,
	const uint64_t *key, unsigned first, unsigned rows, bool wide)
{
	uint32_t token = token_of(key[first]);

	for (uint64_t i = threadIdx.x * 4; i < e.dim; i += EMBED_THREADS * 4) {
		float *to = e.dw + token * e.dim + i;
		unsigned n = e.dim - i < 4 ? (unsigned)(e.dim - i) : 4, at = first;
		float4 sum = load_four(to, n, wide);
		uint32_t row[AHEAD];
		unsigned have = next_rows(row, key, token, at, rows);

		while (have) {
			float4 x[AHEAD];
			unsigned here = have;

			UNROLL
			for (unsigned k = 0; k < AHEAD; k++)
				if (k < here)
					x[k] = load_four(e.dx + row[k] * e.dim + i, n,
						wide);
			at += AHEAD;
			have = here < AHEAD ? 0 : next_rows(row, key, token, at, rows);
			UNROLL
			for (unsigned k = 0; k < AHEAD; k++) {
				if (k >= here)
					continue;
				sum.x += x[k].x;
				sum.y += x[k].y;
				sum.z += x[k].z;
				sum.w += x[k].w;
			}
		}
		store_four(to, sum, n, wide);
	}
}

__global__ void __launch_bounds__(EMBED_THREADS) embed_back_kernel(struct lm_embed_back e,
	unsigned rows, const uint64_t *key, bool wide)
{
	for (unsigned base = blockIdx.x * TURN; base < rows; base += gridDim.x * TURN)
		for (unsigned at = base; at < rows && at < base + TURN; at++)
			if (at == 0 || token_of(key[at - 1]) != token_of(key[at]))
				add_token(e, key, at, rows, wide);
}

int cuda_lm_embed_back(struct dev *d, const struct lm_embed_back *e)
{
	uint64_t *sorted = (uint64_t *)(void *)cuda_of(d)->lm_scratch;
	uint64_t *merged = sorted + SORTED_MAX;
	bool wide = e->dim % 4 == 0 && ((uintptr_t)e->dw | (uintptr_t)e->dx) % 16 == 0;
	cudaStream_t stream = cuda_of(d)->stream;
	struct lm_embed_back part = *e;

	for (uint64_t r = 0; e->dim && r < e->rows; r += SORTED_MAX) {
		unsigned rows = (unsigned)(e->rows - r < SORTED_MAX ? e->rows - r :
								      SORTED_MAX);

		part.token = e->token + r;
		part.dx = e->dx + r * e->dim;
		LAUNCH(sort_tokens_kernel, cuda_grid(d, rows, SORT_ROWS), SORT_THREADS,
			stream, part.token, rows, sorted);
		LAUNCH(merge_tokens_kernel, cuda_grid(d, rows, LM_THREADS), LM_THREADS,
			stream, (const uint64_t *)sorted, rows, merged);
		LAUNCH(embed_back_kernel, cuda_grid(d, rows, TURN), EMBED_THREADS, stream,
			part, rows, (const uint64_t *)merged, wide);
	}
	return lm_started(d);
}
