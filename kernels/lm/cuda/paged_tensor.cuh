/* paged_tensor.cuh - what attention over a paged cache on tensor cores computes of a part of the
 * keys: the same operations for a few rows and for a prompt's.
 *
 * A part is SPLIT keys from a multiple of SPLIT on. Its keys, values and queries are f16 in shared
 * memory. A product has the scores of sixteen pairs of a row and a head, which share keys and
 * values. Each element of a product depends on its own pair alone, and its terms are added in the
 * same order wherever the pair lies. Sums of a part begin at 0, and parts are joined in order. Keys
 * that a pair does not see have weight 0, and a part of which it sees none changes no bit: the
 * bits of a pair follow from its own keys alone. */
#ifndef RNP_KERNELS_LM_PAGED_TENSOR_CUH
#define RNP_KERNELS_LM_PAGED_TENSOR_CUH

#include "kernels/dev/cuda/tensor.cuh"
#include "kernels/lm/cuda/cuda.cuh"

#define THREADS 128
#define WARPS   (THREADS / 32)
#define SPLIT   64 /* keys of a part */
#define PAIRS   16 /* of a product: rows of an operand */
#define LOG2E   1.4426950408889634f

/* How a part lies in shared memory, and comes there. */
template <int TYPE, int D> struct part_of {
	enum {
		QUANTIZED = TYPE == LM_CACHE_Q8_0,
		/* of a tile's row, in numbers: eight rows of 16 bytes lie in different banks */
		STRIDE = D + 8,
		TILE_BYTES = SPLIT * STRIDE * 2,
		/* a head's numbers of a key as the cache has them, which are copied in pieces */
		PIECE = QUANTIZED ? D / 16 : 16,
		PIECES = QUANTIZED ? 17 : D / 8,
		RAW_BYTES = SPLIT * PIECE * PIECES,
		/* f16 is copied to its place. What is quantised is copied as it is, and then
		 * keys and values take turns in one tile */
		KEYS_BYTES = QUANTIZED ? RAW_BYTES : TILE_BYTES,
		BYTES = 2 * KEYS_BYTES + (QUANTIZED ? TILE_BYTES : 0)
	};
};

/* What a launch is told besides the operation. */
struct division {
	unsigned first, tasks; /* of the launch: tasks first .. first + tasks - 1 */
	unsigned parts; /* of a task, each with its own block; 0: a block for a task */
	unsigned spare; /* paged_mixed_kernel: parts of rows that there is room for */
	unsigned each;  /* heads of a task, at most */
	unsigned tile, chunks; /* rows of a tile, and tasks of a row; 0: no tiles */
	float *room;           /* of parts: sums, then largest score and total */
	unsigned *done;        /* of tasks: how many of its parts are */
};

/* Launches the tiles of a prompt's rows, where there may be some, and sets v->tile; the other rows
 * are left. Returns 0 or -1. */
int cuda_lm_paged_prompt(struct dev *d, const struct lm_paged_attend *a, division *v);

/* Whether a kernel may have so much shared memory. */
template <class F> static bool allowed(F *kernel, size_t bytes)
{
	if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
		    (int)bytes) == cudaSuccess)
		return true;
	(void)cudaGetLastError();
	return false;
}

#if CUDA_TENSOR
/* The places in the BYTES of a part. */
template <int TYPE, int D> struct part_places {
	char *keys_raw, *values_raw; /* what is copied */
	uint16_t *keys, *values;     /* the same in f16 */

	__device__ __forceinline__ void place(char *room)
	{
		typedef part_of<TYPE, D> part;

		keys_raw = room;
		values_raw = room + part::KEYS_BYTES;
		keys = (uint16_t *)(void *)(part::QUANTIZED ?
				values_raw + part::KEYS_BYTES :
				keys_raw);
		values = part::QUANTIZED ? keys : (uint16_t *)(void *)values_raw;
	}
};

/* Where one head's keys and values of a sequence lie in the cache: the list of blocks, and bytes in
 * a row. Pointers are made of it where they are used: a warp's registers are few. */
struct part_source {
	unsigned table, column;
};

/* The keys that a row sees: first .. first + more. */
struct seen {
	unsigned first, more;

	__device__ __forceinline__ bool has(unsigned j) const
	{
		return j - first <= more;
	}
};

__device__ __forceinline__ seen seen_by(const struct lm_paged_attend &a, unsigned r)
{
	unsigned last = __ldg(a.position + r);
	seen s;

	s.first = a.window && last >= a.window ? last + 1 - (unsigned)a.window : 0;
	s.more = last - s.first;
	return s;
}

/* --- keys and values ------------------------------------------------------------------------ */

/* Starts to copy the part from key `base` on of keys, or values; those but lo .. end - 1 become
 * zeros. A warp copies a page. The caller commits. */
template <int TYPE, int D>
__device__ __forceinline__ void ask(char *to, const void *cache,
	const struct lm_paged_attend &a, const part_source &from, unsigned base,
	unsigned lo, unsigned end)
{
	static_assert(WARPS * LM_PAGE == SPLIT, "a page for each warp");
	typedef part_of<TYPE, D> part;
	unsigned lane = threadIdx.x % 32, first = threadIdx.x / 32 * LM_PAGE;
	unsigned key = lane / part::PIECES, piece = lane % part::PIECES;
	unsigned id = 0, j = base + first;
	unsigned row_bytes = (unsigned)lm_cache_bytes((enum lm_cache_type)TYPE, a.ldk);
	const char *row;

	if (j < end && j + LM_PAGE > lo)
		id = __ldg(a.blocks + from.table + j / LM_PAGE);
	row = (const char *)cache + (uint64_t)(id * LM_PAGE + key) * row_bytes +
		from.column;
	if constexpr (!part::QUANTIZED) {
		enum { KEYS = 32 / part::PIECES }; /* of a turn */

		row += piece * part::PIECE;
		j += key;
		to += (first + key) * part::STRIDE * 2 + piece * part::PIECE;
		UNROLL
		for (unsigned i = 0; i < LM_PAGE; i += KEYS) {
			tensor_copy<part::PIECE>(to + i * part::STRIDE * 2, row,
				j + i - lo < end - lo ? part::PIECE : 0);
			row += KEYS * row_bytes;
		}
	} else {
		to += (first * part::PIECES + lane) * part::PIECE;
		UNROLL_1
		for (; key < LM_PAGE; to += 32 * part::PIECE) {
			tensor_copy<part::PIECE>(to, row + piece * part::PIECE,
				j + key - lo < end - lo ? part::PIECE : 0);
			/* 32 pieces on */
			piece += 32 - part::PIECES;
			key++;
			row += row_bytes;
			if (piece >= part::PIECES) {
				piece -= part::PIECES;
				key++;
				row += row_bytes;
			}
		}
	}
}

/* (n - 128) scale of the bytes n of `four`, rounded to f16 once: 0x6400 + n is 1024 + n in f16. */
__device__ __forceinline__ uint2 scaled(unsigned four, unsigned scales)
{
	unsigned two[2] = { __byte_perm(four, 0x64646464, 0x4140),
		__byte_perm(four, 0x64646464, 0x4342) };

	UNROLL
	for (int i = 0; i < 2; i++) {
#ifdef __CUDA_ARCH__
		asm("sub.rn.f16x2 %0, %0, %1;" : "+r"(two[i]) : "r"(0x64806480));
		asm("mul.rn.f16x2 %0, %0, %1;" : "+r"(two[i]) : "r"(scales));
#else
		float scale = cuda_f16(scales & 0xffff);

		two[i] = cuda_two_f16((cuda_f16(two[i] & 0xffff) - 1152) * scale,
			(cuda_f16(two[i] >> 16) - 1152) * scale);
#endif
	}
	return make_uint2(two[0], two[1]);
}

/* Makes f16 of what was copied of q8_0: 64 numbers, two scales among them, are 17 words. */
template <int D> __device__ __forceinline__ void unpack(uint16_t *tile, const char *raw)
{
	UNROLL_1
	for (unsigned n = threadIdx.x; n < SPLIT * D / 64; n += THREADS) {
		unsigned key = n % SPLIT, half = n / SPLIT, scales = 0;
		const unsigned *from = (const unsigned *)(const void *)raw +
			(key * (D / 64) + half) * 17;
		uint4 *to = (uint4 *)(void *)(tile + key * (D + 8) + half * 64);
		unsigned w[17];

		UNROLL
		for (int i = 0; i < 17; i++)
			w[i] = from[i];
		UNROLL
		for (int i = 0; i < 8; i++) {
			uint2 a, b;

			if (i == 0)
				scales = __byte_perm(w[0], 0, 0x1010);
			if (i == 4)
				scales = __byte_perm(w[8], 0, 0x3232);
			a = i < 4 ? scaled(__byte_perm(w[2 * i], w[2 * i + 1], 0x5432) ^
						    0x80808080,
					    scales) :
				    scaled(w[2 * i + 1] ^ 0x80808080, scales);
			b = i < 4 ?
				scaled(__byte_perm(w[2 * i + 1], w[2 * i + 2], 0x5432) ^
						0x80808080,
					scales) :
				scaled(w[2 * i + 2] ^ 0x80808080, scales);
			to[i] = make_uint4(a.x, a.y, b.x, b.y);
		}
	}
}

/* Waits until at most N later groups of copies are under way, and all threads are here: keys or
 * values, of which `raw` was copied, are in `tile` then. */
template <int TYPE, int D, int N>
__device__ __forceinline__ void land(uint16_t *tile, const char *raw)
{
	tensor_wait<N>();
	__syncthreads();
	if constexpr (part_of<TYPE, D>::QUANTIZED) {
		unpack<D>(tile, raw);
		__syncthreads();
	}
}

/* --- queries ------------------------------------------------------------------------------- */

/* The rows and heads of a block, which share keys and values: pair p has row p / each and head
 * p % each, where these exist. */
struct pairs_task {
	unsigned r0, rows, h0, heads, each, kv;

	__device__ __forceinline__ bool has(unsigned pair) const
	{
		return pair / each < rows && pair % each < heads;
	}
};

/* The n-th task of `tile` rows each: heads that share keys are computed `each` at a time. */
__device__ __forceinline__ pairs_task task_of(const struct lm_paged_attend &a, unsigned n,
	unsigned tile, unsigned each)
{
	unsigned group = (unsigned)a.heads / (unsigned)a.kv_heads;
	unsigned chunks = (group + each - 1) / each, all = chunks * (unsigned)a.kv_heads;
	unsigned at = n % all, first = at % chunks * each;
	pairs_task t;

	t.each = each;
	t.r0 = n / all * tile;
	t.rows = (unsigned)a.rows - t.r0 < tile ? (unsigned)a.rows - t.r0 : tile;
	t.kv = at / chunks;
	t.h0 = t.kv * group + first;
	t.heads = group - first < each ? group - first : each;
	return t;
}

template <int TYPE, int D>
__device__ __forceinline__ part_source source_of(const struct lm_paged_attend &a,
	const pairs_task &t)
{
	part_source from = { __ldg(a.table + t.r0),
		(unsigned)lm_cache_bytes((enum lm_cache_type)TYPE, (uint64_t)t.kv * D) };

	return from;
}

/* Stores COUNT pairs' queries as f16, each times a power of two by which the largest becomes one
 * from 1 to 2. What makes a product a score in base 2, or what tanh is taken of, lies behind it. */
template <int D, unsigned COUNT>
__device__ __forceinline__ void store_queries(uint16_t *to,
	const struct lm_paged_attend &a, const pairs_task &t)
{
	unsigned lane = threadIdx.x % 8;
	float unit = a.softcap > 0 ? a.scale / a.softcap : a.scale * LOG2E;

	UNROLL_1
	for (unsigned p = threadIdx.x / 8; p < COUNT; p += THREADS / 8) {
		unsigned row = p / t.each, h = p % t.each, e;
		const float *q = a.q + (uint64_t)(t.r0 + row) * a.ldq +
			(uint64_t)(t.h0 + h) * D + 4 * lane;
		uint16_t *mine = to + p * (D + 8);
		bool is = row < t.rows && h < t.heads;
		float x[D / 32][4], most = 0, by;

		UNROLL
		for (int i = 0; i < D / 32; i++) {
			float4 v = is ? *(const float4 *)(const void *)(q + 32 * i) :
					make_float4(0, 0, 0, 0);

			x[i][0] = v.x, x[i][1] = v.y, x[i][2] = v.z, x[i][3] = v.w;
			for (int k = 0; k < 4; k++)
				most = fmaxf(most, fabsf(x[i][k]));
		}
		e = half_bits_of_float(lm_warp_max(most, 8)) >> 23;
		/* so that the reverse is a normal number, too */
		e = e < 27 ? 27 : e > 252 ? 252 : e;
		by = half_float_of_bits((254 - e) << 23);
		UNROLL
		for (int i = 0; i < D / 32; i++)
			*(uint2 *)(void *)(mine + 32 * i + 4 * lane) =
				make_uint2(cuda_two_f16(x[i][0] * by, x[i][1] * by),
					cuda_two_f16(x[i][2] * by, x[i][3] * by));
		if (lane == 0)
			*(float *)(void *)(mine + D) = unit * half_float_of_bits(e << 23);
	}
}

/* This lane's two pairs are lane / 4 and eight on. */
template <int D>
__device__ __forceinline__ void load_factors(float (&factor)[2], const uint16_t *queries)
{
	for (unsigned half = 0; half < 2; half++)
		factor[half] = *(const float *)(const void *)(queries +
			(threadIdx.x % 32 / 4 + 8 * half) * (D + 8) + D);
}

/* --- products ------------------------------------------------------------------------------ */

/* Columns c .. c + 15 of sixteen queries. */
template <int D>
__device__ __forceinline__ void load_query(unsigned (&q)[4], const uint16_t *queries,
	unsigned c)
{
	unsigned lane = threadIdx.x % 32;

	tensor_matrices<false>(q, queries + lane % 16 * (D + 8) + c + lane / 16 * 8);
}

/* s[n] += products of these columns with those of the keys 8 n .. of a tile. */
template <int D, int N>
__device__ __forceinline__ void add_scores(float (&s)[N][4], const unsigned (&q)[4],
	const uint16_t *keys, unsigned c)
{
	unsigned lane = threadIdx.x % 32;

	UNROLL
	for (unsigned n = 0; n < N; n += 2) {
		unsigned b[4];

		tensor_matrices<false>(b,
			keys + (8 * n + lane / 16 * 8 + lane % 8) * (D + 8) + c +
				lane / 8 % 2 * 8);
		tensor_mma_f16(s[n], q, b[0], b[1]);
		tensor_mma_f16(s[n + 1], q, b[2], b[3]);
	}
}

/* sum[n] += weights of sixteen keys times columns 8 n .. of their values. */
template <int D, int N>
__device__ __forceinline__ void add_values(float (&sum)[N][4], const unsigned (&w)[4],
	const uint16_t *values)
{
	unsigned lane = threadIdx.x % 32;

	UNROLL
	for (unsigned n = 0; n < N; n += 2) {
		unsigned b[4];

		tensor_matrices<true>(b,
			values + lane % 16 * (D + 8) + 8 * n + lane / 16 * 8);
		tensor_mma_f16(sum[n], w, b[0], b[1]);
		tensor_mma_f16(sum[n + 1], w, b[2], b[3]);
	}
}

/* total += the sum of the weights, in each column. */
__device__ __forceinline__ void add_weights(float (&total)[4], const unsigned (&w)[4])
{
	tensor_mma_f16(total, w, 0x3c003c00, 0x3c003c00); /* ones */
}

/* --- softmax ------------------------------------------------------------------------------- */

/* cap tanh(x) in base 2; factors become 1. */
template <int N>
__device__ __forceinline__ void cap_scores(float (&s)[N][4], float (&factor)[2],
	float softcap)
{
	float most = softcap * LOG2E;

	UNROLL
	for (int i = 0; i < N * 4; i++) {
		float *x = &s[i / 4][i % 4];
		float e = lm_exp2(*x * factor[i % 4 / 2] * (2 * LOG2E));

		*x = most * fmaf(-2, lm_reciprocal(1 + e), 1);
	}
	factor[0] = factor[1] = 1;
}

/* What a pair does not see of the keys from j on becomes -infinity. */
template <int N>
__device__ __forceinline__ void mask_scores(float (&s)[N][4], const seen (&pair)[2],
	unsigned j)
{
	j += threadIdx.x % 4 * 2;
	UNROLL
	for (int i = 0; i < N * 4; i++)
		if (!pair[i % 4 / 2].has(j + (unsigned)(i / 4 * 8 + i % 2)))
			s[i / 4][i % 4] = -INFINITY;
}

/* The largest of a pair's scores in the columns of N products. */
template <int N>
__device__ __forceinline__ float largest_of(const float (&s)[N][4], int half)
{
	float most = fmaxf(s[0][2 * half], s[0][2 * half + 1]);

	UNROLL
	for (int n = 1; n < N; n++)
		most = fmaxf(most, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
	most = fmaxf(most, __shfl_xor_sync(LM_ALL, most, 2));
	return fmaxf(most, __shfl_xor_sync(LM_ALL, most, 1));
}

/* w[n][half] = weights of a pair, relative to that of the largest score. */
template <int N>
__device__ __forceinline__ void weigh(unsigned (&w)[N][2], const float (&s)[N][4],
	int half, float factor, float largest)
{
	float less = largest == -INFINITY ? 0 : largest;

	UNROLL
	for (int n = 0; n < N; n++)
		w[n][half] = cuda_two_f16(lm_exp2(fmaf(s[n][2 * half], factor, -less)),
			lm_exp2(fmaf(s[n][2 * half + 1], factor, -less)));
}

/* The softmax of a pair's parts so far: the largest score and the sum of weights. */
struct running {
	float largest, total;
};

/* By what sums so far and those of a part are multiplied: out = fmaf(out, mine, part * other). A
 * part of which nothing is seen has sums of +0: times -0 they change nothing, not even a zero's
 * sign. */
struct shares {
	float mine, other;
};

__device__ __forceinline__ shares join(running *to, float largest, float total)
{
	float more = fmaxf(to->largest, largest), less = more == -INFINITY ? 0 : more;
	shares by = { lm_exp2(to->largest - less),
		largest == -INFINITY ? -0.0f : lm_exp2(largest - less) };

	to->total = fmaf(to->total, by.mine, total * by.other);
	to->largest = more;
	return by;
}

/* --- tiles ---------------------------------------------------------------------------------- */

/* Whether the rows of the tile are of one sequence, and which keys all see, and any; called by
 * whole warps. */
struct tile_view {
	unsigned lo, end; /* any row sees */
	bool is;
};

__device__ __forceinline__ tile_view view_of(const struct lm_paged_attend &a, unsigned r0,
	unsigned rows)
{
	tile_view v = { UINT32_MAX, 0, true };

	for (unsigned i = threadIdx.x % 32; i < rows; i += 32) {
		seen s = seen_by(a, r0 + i);

		v.lo = min(v.lo, s.first);
		v.end = max(v.end, s.first + s.more + 1);
		v.is = v.is && __ldg(a.table + r0 + i) == __ldg(a.table + r0);
	}
	for (int by = 16; by; by /= 2) {
		v.lo = min(v.lo, __shfl_xor_sync(LM_ALL, v.lo, by));
		v.end = max(v.end, __shfl_xor_sync(LM_ALL, v.end, by));
	}
	v.is = __all_sync(LM_ALL, v.is) && rows > 1;
	return v;
}
#endif

#endif
