/* attend_tensor.cu - attention in bf16 on tensor cores, forward, for heads of 64 and 128 columns.
 * A warp owns rows of a tile, whose scores never leave its registers (Dao 2023, FlashAttention-2).
 * Keys are loaded while weights multiply values, values while keys are multiplied. Scores and
 * weights are f32 until they become operands of a product. Contraction (-fmad) joins their scaling
 * and subtraction, and the steps of a rotation, within the bound of ops.h. */
#include "kernels/lm/cuda/attend_tensor.cuh"

#define KEYS 64 /* per tile */

#if CUDA_TENSOR
/* A block's work: 64 M queries of a head, of which each of four warps owns M times 16 rows, 64
 * apart. */
template <int D, int M> struct forward {
	float sum[M][D / 8][4], largest[M][2], total[M][2];
	/* the queries: in registers, or where these are too few in shared memory */
	static constexpr bool SHARED_OWN = M > 1;
	unsigned own[M][SHARED_OWN ? 1 : D / 16][4];
	tile_source<D, KEYS> k, v;
	uint16_t *keys, *values, *queries; /* shared memory for a tile of each, and M */
	float factor;
	int ahead;
	unsigned window;

	/* One tile of keys, whose loading has been started. EDGE: some are not seen. */
	template <bool EDGE> __device__ __forceinline__ void step()
	{
		float s[M][KEYS / 8][4];

		for (int m = 0; m < M; m++)
			for (int n = 0; n < KEYS / 8; n++)
				for (int e = 0; e < 4; e++)
					s[m][n][e] = 0;
		tensor_wait<0>();
		__syncthreads(); /* the keys are here, and the earlier values are used */
		v.template start<!EDGE>(values); /* keys that all see exist */
		tensor_commit();
		if constexpr (SHARED_OWN)
			add_scores_of<D, KEYS, M>(s, queries, keys);
		else
			add_scores<D, KEYS, M>(s, own, keys);
		if (EDGE)
			mask<KEYS, M>(s, ahead, window);
		tensor_wait<0>();
		__syncthreads(); /* the values are here, and the keys are used */
		k.start(keys);
		tensor_commit();
		UNROLL
		for (int m = 0; m < M; m++)
			for (int half = 0; half < 2; half++) {
				float shrink = weigh<KEYS, EDGE>(s[m], 2 * half, factor,
					&largest[m][half], &total[m][half]);

				UNROLL
				for (int d = 0; d < D / 8; d++) {
					sum[m][d][2 * half] *= shrink;
					sum[m][d][2 * half + 1] *= shrink;
				}
			}
		add_weighted<D, KEYS, M>(sum, s, values);
		ahead -= KEYS;
	}

	/* Rotates the queries, which are in shared memory, and stores them besides: eight pairs a
	 * thread and turn. */
	__device__ __forceinline__ void rotate(const struct lm_attend *a,
		const tile_task &t)
	{
		UNROLL_1
		for (unsigned n = threadIdx.x; n < M * KEYS * (D / 16); n += 128) {
			unsigned r = n / (D / 16), i = n % (D / 16) * LM_PACK;
			unsigned column = a->interleaved ? 2 * i : i;
			unsigned apart = a->interleaved ? LM_PACK : D / 2;
			uint64_t row = t.first + r;
			uint16_t *from = queries + r * STRIDE(D) + column;
			uint16_t *to = (uint16_t *)a->turned +
				(t.b * a->positions + row) * a->ldq + t.h * D + column;
			const float *table = a->table +
				(a->keys - a->positions + row) * D + 2 * i;
			float x[LM_PACK], y[LM_PACK], cos_sin[2 * LM_PACK];

			if (row >= a->positions)
				continue;
			lm_load(x, from, LM_PACK, true);
			lm_load(y, from + apart, LM_PACK, true);
			lm_load(cos_sin, table, LM_PACK, true);
			lm_load(cos_sin + LM_PACK, table + LM_PACK, LM_PACK, true);
			/* apart, so that no index of a register is computed */
			if (a->interleaved)
				lm_rotate_pairs(x, y, cos_sin, true, false);
			else
				lm_rotate_pairs(x, y, cos_sin, false, false);
			lm_store(from, x, LM_PACK, true);
			lm_store(from + apart, y, LM_PACK, true);
			lm_store(to, x, LM_PACK, true);
			lm_store(to + apart, y, LM_PACK, true);
		}
	}

	/* Loads the queries, rotates them, and starts with the first keys. Where queries go to
	 * registers, they lie in the place of values until the first step. */
	__device__ __forceinline__ void begin(const struct lm_attend *a,
		const tile_task &t, unsigned first, unsigned end)
	{
		uint64_t at = t.h * D, row = t.b * a->positions + t.first;
		uint64_t key = t.b * a->keys + first;
		unsigned group = (unsigned)a->heads / (unsigned)a->kv_heads;
		uint64_t kv_at = (unsigned)t.h / group * (uint64_t)D;

		tensor_wait<0>();
		__syncthreads(); /* until the previous tiles are used */
		k.place(a->q, a->ldq, row, (unsigned)(a->positions - t.first), at);
		UNROLL
		for (int m = 0; m < M; m++)
			k.start(queries + m * KEYS * STRIDE(D));
		tensor_commit();
		if constexpr (!SHARED_OWN) {
			tensor_wait<0>();
			__syncthreads();
			if (a->table) {
				rotate(a, t);
				__syncthreads();
			}
			left_rows<D>(own[0], queries);
		}
		k.place(a->k, a->ldk, key, end - first, kv_at);
		v.place(a->v, a->ldk, key, end - first, kv_at);
		k.start(keys);
		tensor_commit();
		if (SHARED_OWN && a->table) {
			tensor_wait<1>();
			__syncthreads();
			rotate(a, t);
		}
		for (int m = 0; m < M; m++) {
			for (int d = 0; d < D / 8; d++)
				for (int e = 0; e < 4; e++)
					sum[m][d][e] = 0;
			for (int half = 0; half < 2; half++) {
				largest[m][half] = -INFINITY;
				total[m][half] = 0;
			}
		}
	}

	__device__ __forceinline__ void store(const struct lm_attend *a,
		const tile_task &t)
	{
		UNROLL
		for (int m = 0; m < M; m++) {
			uint64_t first = t.first + 64 * m;

			UNROLL
			for (int half = 0; half < 2; half++) {
				uint64_t i = first + row_of(2 * half);

				total[m][half] = lm_warp_sum(total[m][half], 4);
				if (a->lse && threadIdx.x % 4 == 0 && i < a->positions)
					a->lse[(t.b * a->heads + t.h) * a->positions +
						i] = largest[m][half] * factor * LN2 +
						logf(total[m][half]);
			}
			if (first < a->positions)
				store_tile<D>((uint16_t *)a->out +
						(t.b * a->positions + first) * a->ldo +
						t.h * D,
					a->ldo, a->positions - first, sum[m],
					1 / total[m][0], 1 / total[m][1]);
		}
	}
};
#endif

template <int D, int M>
__global__ void __launch_bounds__(128)
	attend_tensor_kernel(struct lm_attend a, uint64_t all)
{
#if CUDA_TENSOR
	SHARED(uint4, keys_shared, KEYS * STRIDE(D) / 8);
	SHARED(uint4, values_shared, KEYS * STRIDE(D) / 8);
	SHARED(uint4, queries_shared, M > 1 ? M * KEYS * STRIDE(D) / 8 : 1);
	forward<D, M> f;

	f.keys = (uint16_t *)(void *)keys_shared;
	f.values = (uint16_t *)(void *)values_shared;
	f.queries = M > 1 ? (uint16_t *)(void *)queries_shared : f.values;
	f.factor = a.scale * LOG2E;
	f.window = window_of(&a);
	for (uint64_t n = blockIdx.x; n < all; n += gridDim.x) {
		tile_task t = tile_of(n, a.positions, a.heads, 64 * M);
		unsigned p = (unsigned)(a.keys - a.positions + t.first), end = p + 64 * M;
		unsigned j = first_key_of(f.window, p) / KEYS * KEYS;

		end = end < a.keys ? end : (unsigned)a.keys;
		f.begin(&a, t, j, end);
		f.ahead = (int)(p - j);
		/* the inner loop is the hot one: tiles at an edge are few */
		while (j < end) {
			for (; all_visible(f.ahead, f.window, 64 * M, KEYS); j += KEYS)
				f.template step<false>();
			if (j < end) {
				f.template step<true>();
				j += KEYS;
			}
		}
		f.store(&a, t);
	}
	tensor_wait<0>();
#else
	(void)a, (void)all;
#endif
}

bool cuda_lm_attend_takes(struct dev *d, const struct lm_attend *a)
{
	return cuda_tensor(d) && a->dtype == LM_DTYPE_BF16 &&
		(a->head_dim == 64 || a->head_dim == 128) &&
		lm_wide(a->ldq, a->q, a->k, a->v, a->out) && a->ldq < 1u << 31 &&
		a->ldk < 1u << 31 && a->ldo < 1u << 31 && a->ldk % LM_PACK == 0 &&
		a->ldo % LM_PACK == 0 && a->scale > 0 && a->heads <= UINT32_MAX &&
		a->keys < 1u << 30 &&
		tiles_of(a->batch, a->positions, a->heads, 32) <= UINT32_MAX;
}

int cuda_lm_attend_tensor(struct dev *d, const struct lm_attend *a)
{
	unsigned tile = a->head_dim == 64 ? 128 : 64;
	uint64_t n = tiles_of(a->batch, a->positions, a->heads, tile);
	unsigned grid = cuda_grid(d, n, 1);
	/* the macro LAUNCH would split template arguments at their comma */
	void (*kernel)(struct lm_attend, uint64_t) = attend_tensor_kernel<128, 1>;

	if (!cuda_lm_attend_takes(d, a) || !lm_wide(LM_PACK, a->table, NULL, NULL, NULL))
		return 1;
	if (!n)
		return 0;
	if (a->head_dim == 64)
		kernel = attend_tensor_kernel<64, 2>;
	LAUNCH(kernel, grid, 128, cuda_of(d)->stream, *a, n);
	return lm_started(d);
}
