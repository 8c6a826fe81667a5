/* paged_split.cu - attention over a paged cache for heads of 64, 128 and 256 columns (Dao et al.
 * 2023, Flash-Decoding). The keys that a row sees are split, from the first on, into parts of
 * SPLIT. A thread block computes a part for up to four heads that share keys and values, which it
 * loads 16 bytes at a time, eight numbers a lane. Where there are few rows each part has its own
 * block, and that which is the last to end joins the parts; where there are many, a block computes all parts of
 * its row, and rows of one sequence, as those of a prompt are, share a block that loads a part's
 * keys and values once for 16 of them. Parts are joined in order by the same operations, and each
 * sum has the same terms in the same order, so that the bits are the same: multiply-adds are
 * fmaf(), and contraction (-fmad) changes nothing (long because the three kernels must agree in
 * this). */
#include "kernels/lm/cuda.cuh"

#define THREADS 128
#define WARPS   (THREADS / 32)
#define SPLIT   128 /* keys of a part */
#define HEADS   4   /* of a group that a block computes together */
#define LOG2E   1.4426950408889634f
/* fewer blocks than this leave multiprocessors idle: parts get their own */
#define BLOCKS_WANTED 256

/* Loads numbers c .. c + 7 of a row of the cache. */
template <int TYPE>
__device__ __forceinline__ void load_eight(float (&v)[8], const char *row, unsigned c)
{
	if (TYPE == LM_CACHE_F32) {
		const float4 *p = (const float4 *)(const void *)(row + 4 * c);
		float4 a = __ldg(p), b = __ldg(p + 1);

		v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w;
		v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
	} else if (TYPE == LM_CACHE_F16) {
		uint4 a = __ldg((const uint4 *)(const void *)(row + 2 * c));
		unsigned w[4] = { a.x, a.y, a.z, a.w };

		UNROLL
		for (int i = 0; i < 4; i++) {
			v[2 * i] = cuda_f16(w[i] & 0xffff);
			v[2 * i + 1] = cuda_f16(w[i] >> 16);
		}
	} else { /* blocks of 34 bytes: two bytes at a time */
		const uint16_t *p = (const uint16_t *)(const void *)(row + c / 32 * 34);
		float scale = cuda_f16(__ldg(p));

		p += 1 + c % 32 / 2;
		UNROLL
		for (int i = 0; i < 4; i++) {
			unsigned two = __ldg(p + i);

			v[2 * i] = scale * (float)(int8_t)two;
			v[2 * i + 1] = scale * (float)(int8_t)(two >> 8);
		}
	}
}

/* What a row sees, and where. */
struct view {
	const uint32_t *blocks;
	uint64_t first, last, parts;
};

__device__ __forceinline__ view view_of(const struct lm_paged_attend &a, uint64_t r)
{
	view v;

	v.blocks = a.blocks + a.table[r];
	v.last = a.position[r];
	v.first = a.window && v.last + 1 > a.window ? v.last + 1 - a.window : 0;
	v.parts = (v.last - v.first) / SPLIT + 1;
	return v;
}

template <int TYPE>
__device__ __forceinline__ uint64_t place_of(const struct lm_paged_attend &a,
	const view &v, uint64_t j)
{
	return ((uint64_t)__ldg(v.blocks + j / LM_PAGE) * LM_PAGE + j % LM_PAGE) *
		lm_cache_bytes((enum lm_cache_type)TYPE, a.ldk);
}

/* The softmax of the keys so far, in base 2: sums are relative to 2^largest. */
struct running {
	float largest, sum, out;
};

__device__ __forceinline__ void join(running *to, float largest, float sum, float out)
{
	float more = fmaxf(to->largest, largest);
	float mine = lm_exp2(to->largest - more), other = lm_exp2(largest - more);

	to->sum = fmaf(to->sum, mine, sum * other);
	to->out = fmaf(to->out, mine, out * other);
	to->largest = more;
}

/* What the threads of a block share. */
/* MOST: heads that a block computes together, at most. */
template <int D, int MOST> struct part_room {
	float score[MOST][SPLIT];
	float out[WARPS][MOST][D];
	float largest[MOST], sum[MOST];
};

/* Computes part `part` of `heads` heads from h0 on, of keys and values in the columns from kv on:
 * s->largest, s->sum and s->out[0]. */
template <int TYPE, int D, int MOST>
__device__ __forceinline__ void compute_part(part_room<D, MOST> *s,
	const struct lm_paged_attend &a, const view &v, uint64_t r, uint64_t h0,
	unsigned heads, uint64_t kv, uint64_t part)
{
	enum { LANES = D / 8, KEYS = 32 / LANES * WARPS, PASSES = SPLIT / KEYS };
	unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	unsigned mine = warp * (32 / LANES) + lane / LANES, c = lane % LANES * 8;
	uint64_t base = v.first + part * SPLIT;
	unsigned count = v.last + 1 - base < SPLIT ? (unsigned)(v.last + 1 - base) :
						     SPLIT;
	const char *keys = (const char *)a.keys, *values = (const char *)a.values;
	float q[MOST][8], out[MOST][8] = {};

	for (unsigned h = 0; h < MOST; h++)
		for (unsigned i = 0; i < 8; i++)
			q[h][i] = h < heads ? a.q[r * a.ldq + (h0 + h) * D + c + i] : 0;
	__syncthreads(); /* until the previous part is used */
	UNROLL_4
	for (unsigned pass = 0; pass < PASSES; pass++) {
		unsigned j = pass * KEYS + mine;
		float k[8] = {};

		if (j < count)
			load_eight<TYPE>(k, keys + place_of<TYPE>(a, v, base + j),
				(unsigned)kv + c);
		UNROLL
		for (unsigned h = 0; h < MOST; h++) {
			float sum = 0;

			if (MOST > 1 && h >= heads)
				break;
			UNROLL
			for (int i = 0; i < 8; i++)
				sum = fmaf(q[h][i], k[i], sum);
			sum = lm_warp_sum(sum, LANES) * a.scale;
			if (a.softcap > 0)
				sum = a.softcap * tanhf(sum / a.softcap);
			if (lane % LANES == 0)
				s->score[h][j] = j < count ? sum * LOG2E : -INFINITY;
		}
	}
	__syncthreads();
	if (warp < heads) { /* a warp for each head */
		float *score = s->score[warp], largest = -INFINITY, sum = 0;

		for (unsigned j = lane; j < SPLIT; j += 32)
			largest = fmaxf(largest, score[j]);
		largest = lm_warp_max(largest);
		for (unsigned j = lane; j < SPLIT; j += 32) {
			float p = lm_exp2(score[j] - largest);

			score[j] = p;
			sum += p;
		}
		sum = lm_warp_sum(sum);
		if (lane == 0) {
			s->largest[warp] = largest;
			s->sum[warp] = sum;
		}
	}
	__syncthreads();
	UNROLL_4
	for (unsigned pass = 0; pass < PASSES; pass++) {
		unsigned j = pass * KEYS + mine;
		float x[8];

		if (j >= count)
			continue;
		load_eight<TYPE>(x, values + place_of<TYPE>(a, v, base + j),
			(unsigned)kv + c);
		UNROLL
		for (unsigned h = 0; h < MOST; h++) {
			float p;

			if (MOST > 1 && h >= heads)
				break;
			p = s->score[h][j];
			UNROLL
			for (int i = 0; i < 8; i++)
				out[h][i] = fmaf(p, x[i], out[h][i]);
		}
	}
	for (unsigned h = 0; h < heads; h++)
		UNROLL
	for (int i = 0; i < 8; i++) {
		float sum = out[h][i];

		for (int by = LANES; by < 32; by *= 2)
			sum += __shfl_xor_sync(LM_ALL, sum, by);
		if (lane < LANES)
			s->out[warp][h][c + (unsigned)i] = sum;
	}
	__syncthreads();
	for (unsigned i = threadIdx.x; i < heads * D; i += THREADS) {
		float sum = s->out[0][i / D][i % D];

		for (unsigned w = 1; w < WARPS; w++)
			sum += s->out[w][i / D][i % D];
		s->out[0][i / D][i % D] = sum;
	}
	__syncthreads();
}

/* The heads that a task computes, and its row. */
struct heads_task {
	uint64_t r, h0, kv;
	unsigned heads;
};

__device__ __forceinline__ heads_task heads_of(const struct lm_paged_attend &a,
	uint64_t n)
{
	unsigned group = (unsigned)(a.heads / a.kv_heads),
		 fours = (group + HEADS - 1) / HEADS;
	unsigned all = fours * (unsigned)a.kv_heads, at = (unsigned)(n % all);
	heads_task t;

	t.r = n / all;
	t.kv = at / fours;
	t.h0 = t.kv * group + at % fours * HEADS;
	t.heads = group - at % fours * HEADS < HEADS ? group - at % fours * HEADS : HEADS;
	return t;
}

/* Joins the parts of a task's heads, which lie in `room`, where other blocks wrote them. */
template <int D>
__device__ __forceinline__ void join_parts(const struct lm_paged_attend &a,
	const heads_task &t, const view &v, uint64_t parts, const volatile float *room)
{
	for (unsigned i = threadIdx.x; i < t.heads * D; i += THREADS) {
		const volatile float *from = room + i / D * parts * (D + 2);
		running sum = { -INFINITY, 0, 0 };

		UNROLL_4
		for (uint64_t part = 0; part < v.parts; part++, from += D + 2)
			join(&sum, from[D], from[D + 1], from[i % D]);
		a.out[t.r * a.ldo + t.h0 * D + i] = sum.out / sum.sum;
	}
}

/* Each block computes one part, and leaves it in room: out, largest and sum of each head. The last one of a
 * task joins all. */
template <int TYPE, int D, int MOST>
__global__ void __launch_bounds__(THREADS, 5) paged_part_kernel(struct lm_paged_attend a,
	uint64_t tasks, uint64_t parts, float *room, unsigned *done)
{
	typedef part_room<D, MOST> room_type;
	SHARED(room_type, s, 1);
	SHARED(unsigned, before, 1);

	for (uint64_t n = blockIdx.x; n < tasks * parts; n += gridDim.x) {
		uint64_t task = n / parts, part = n % parts;
		heads_task t = heads_of(a, task);
		view v = view_of(a, t.r);
		float *mine = room + (t.r * a.heads + t.h0) * parts * (D + 2);

		if (part >= v.parts)
			continue;
		compute_part<TYPE, D, MOST>(s, a, v, t.r, t.h0, t.heads, t.kv * D, part);
		for (unsigned i = threadIdx.x; i < t.heads * (D + 2); i += THREADS) {
			unsigned h = i / (D + 2), c = i % (D + 2);

			mine[(h * parts + part) * (D + 2) + c] = c < D ? s->out[0][h][c] :
				c == D                                 ? s->largest[h] :
									 s->sum[h];
		}
		__threadfence();
		__syncthreads();
		if (threadIdx.x == 0) {
			before[0] = atomicAdd(done + task, 1u);
			if (before[0] + 1 == v.parts)
				CUDA_ORDERED(mine, t.heads * parts * (D + 2) * 4);
		}
		__syncthreads();
		if (before[0] + 1 < v.parts)
			continue;
		__threadfence();
		join_parts<D>(a, t, v, parts, mine);
		if (threadIdx.x == 0)
			done[task] = 0; /* for the next launch */
	}
}

/* --- rows of one sequence ------------------------------------------------------------------- */

#define TILE          16 /* rows of a tile */
#define TILE_ROWS_MIN 8  /* with fewer rows none is looked for */

/* The order of compute_part()'s sums: a score is the sum of chains of eight columns, one a lane; an
 * output that of chains over the keys of each group of lanes. */
template <int D> struct part_order {
	enum {
		CHAINS = D / 8,        /* of a score: LANES there */
		GROUPS = 32 / CHAINS,  /* of keys, in a warp */
		KEYS = GROUPS * WARPS, /* groups in a block */
		PASSES = SPLIT / KEYS, /* keys of a group */
		PLACES = PASSES + 4,   /* padded: in different banks */
		COLUMNS = D / 4,       /* staged at once, of all keys */
		STRIDE = COLUMNS + 4,
		STAGE = SPLIT * STRIDE > 32 * D ? SPLIT *STRIDE : 32 * D,
		ACROSS = D < 128 ? D / 4 :
				   32, /* lanes side by side in a row of outputs */
		EACH = TILE / WARPS * ACROSS /
			32 /* rows of outputs that a thread computes */
	};
};

/* What the threads of a block share. */
template <int D> struct tile_room {
	typedef part_order<D> order;
	float4 q[TILE * D / 4];
	float4 stage[order::STAGE / 4];
	/* of keys: those of a group side by side */
	float4 score[TILE * order::KEYS * order::PLACES / 4];
	uint64_t place[SPLIT];
	float largest[TILE], sum[TILE], mine[TILE], other[TILE];
	unsigned count[TILE]; /* keys of the part that a row sees */
};

/* Whether the rows of the tile from r0 on belong to one sequence and see it from its first key on.
 * Called by whole warps. last: the largest position. */
__device__ __forceinline__ bool is_tile(const struct lm_paged_attend &a, uint64_t r0,
	uint64_t *last)
{
	unsigned lane = threadIdx.x % 32;
	unsigned rows = a.rows - r0 < TILE ? (unsigned)(a.rows - r0) : TILE;
	uint64_t r = r0 + (lane < rows ? lane : 0);
	uint32_t position = __ldg(a.position + r);
	bool same = __ldg(a.table + r) == __ldg(a.table + r0) &&
		(!a.window || position < a.window);

	for (int by = 16; by; by /= 2)
		position = max(position, __shfl_xor_sync(LM_ALL, position, by));
	*last = position;
	return __all_sync(LM_ALL, same) && rows > 1;
}

/* Loads columns 8 l .. 8 l + 7 for l = from, from + 4 ... of all keys of a part. */
template <int TYPE, int D>
__device__ __forceinline__ void stage_keys(tile_room<D> *s, const char *keys, unsigned kv,
	unsigned from)
{
	typedef part_order<D> order;

	UNROLL
	for (unsigned m = 0; m < order::CHAINS / 4; m++) {
		unsigned j = threadIdx.x;
		float v[8] = {};
		float4 *to = s->stage + (j * order::STRIDE + 8 * m) / 4;

		if (s->place[j] != UINT64_MAX)
			load_eight<TYPE>(v, keys + s->place[j], kv + 8 * (from + 4 * m));
		to[0] = make_float4(v[0], v[1], v[2], v[3]);
		to[1] = make_float4(v[4], v[5], v[6], v[7]);
	}
}

/* Loads the values of the 32 keys that warp w of compute_part() sums. */
template <int TYPE, int D>
__device__ __forceinline__ void stage_values(tile_room<D> *s, const char *values,
	unsigned kv, unsigned w)
{
	typedef part_order<D> order;

	UNROLL
	for (unsigned n = threadIdx.x; n < 32 * D / 8; n += THREADS) {
		unsigned at = n / (D / 8), c = n % (D / 8) * 8;
		unsigned j = at % order::PASSES * order::KEYS + w * order::GROUPS +
			at / order::PASSES;
		float v[8] = {};
		float4 *to = s->stage + (at * D + c) / 4;

		if (s->place[j] != UINT64_MAX)
			load_eight<TYPE>(v, values + s->place[j], kv + c);
		to[0] = make_float4(v[0], v[1], v[2], v[3]);
		to[1] = make_float4(v[4], v[5], v[6], v[7]);
	}
}

__device__ __forceinline__ float chain(float4 a, float4 b, float sum)
{
	sum = fmaf(a.x, b.x, sum);
	sum = fmaf(a.y, b.y, sum);
	sum = fmaf(a.z, b.z, sum);
	return fmaf(a.w, b.w, sum);
}

/* A sum of the chains from + 4 m of four rows with four keys, for N of the m from `first` on, STEP
 * apart: halves of them are added, and halves of these. */
template <int D, int N, int STEP>
__device__ __forceinline__ void add_chains(float (&to)[4][4], const tile_room<D> *s,
	unsigned from, unsigned first)
{
	typedef part_order<D> order;
	unsigned lane = threadIdx.x % 32, row = threadIdx.x / 32 * 4;

	if constexpr (N > 1) {
		float more[4][4];

		add_chains<D, N / 2, STEP * 2>(to, s, from, first);
		add_chains<D, N / 2, STEP * 2>(more, s, from, first + STEP);
		UNROLL
		for (int i = 0; i < 16; i++)
			to[i / 4][i % 4] += more[i / 4][i % 4];
	} else {
		UNROLL
		for (int i = 0; i < 16; i++)
			to[i / 4][i % 4] = 0;
		UNROLL
		for (unsigned half = 0; half < 2; half++) {
			float4 q[4], k[4];

			UNROLL
			for (unsigned i = 0; i < 4; i++) {
				q[i] = s->q[((row + i) * D + 8 * (from + 4 * first)) / 4 +
					half];
				k[i] = s->stage[((lane + 32 * i) * order::STRIDE +
							8 * first) /
						4 +
					half];
			}
			UNROLL
			for (int i = 0; i < 16; i++)
				to[i / 4][i % 4] = chain(q[i / 4], k[i % 4],
					to[i / 4][i % 4]);
		}
	}
}

template <int D>
__device__ __forceinline__ float *score_at(tile_room<D> *s, unsigned row, unsigned j)
{
	typedef part_order<D> order;

	return (float *)(void *)s->score +
		(row * order::KEYS + j % order::KEYS) * order::PLACES + j / order::KEYS;
}

/* The scores of four rows, which this warp then turns into weights, and with them how the sums of
 * the parts before shrink. */
template <int TYPE, int D>
__device__ __forceinline__ void weigh_part(tile_room<D> *s,
	const struct lm_paged_attend &a, unsigned kv)
{
	typedef part_order<D> order;
	unsigned lane = threadIdx.x % 32, row = threadIdx.x / 32 * 4;
	float sum[4][4], even[4][4];

	UNROLL_1
	for (unsigned stage = 0; stage < 4; stage++) {
		unsigned from = stage == 1 ? 2 : stage == 2 ? 1 : stage;
		float one[4][4];

		__syncthreads(); /* until what was staged is used */
		stage_keys<TYPE, D>(s, (const char *)a.keys, kv, from);
		__syncthreads();
		add_chains<D, order::CHAINS / 4, 1>(one, s, from, 0);
		UNROLL
		for (int i = 0; i < 16; i++) {
			float *all = &sum[i / 4][i % 4], *first = &even[i / 4][i % 4];
			float now = one[i / 4][i % 4];

			if (stage == 1)
				*first += now;
			else if (stage == 3)
				*all = *first + (*all + now);
			else
				*(stage ? all : first) = now;
		}
	}
	UNROLL
	for (unsigned i = 0; i < 16; i++) {
		unsigned j = lane + 32 * (i % 4);
		float x = sum[i / 4][i % 4] * a.scale;

		if (a.softcap > 0)
			x = a.softcap * tanhf(x / a.softcap);
		*score_at(s, row + i / 4, j) = j < s->count[row + i / 4] ? x * LOG2E :
									   -INFINITY;
	}
	__syncwarp();
	for (unsigned i = row; i < row + 4; i++) {
		float largest = -INFINITY, all = 0;

		if (!s->count[i])
			continue;
		for (unsigned j = lane; j < SPLIT; j += 32)
			largest = fmaxf(largest, *score_at(s, i, j));
		largest = lm_warp_max(largest);
		for (unsigned j = lane; j < SPLIT; j += 32) {
			float *p = score_at(s, i, j);

			*p = lm_exp2(*p - largest);
			all += *p;
		}
		all = lm_warp_sum(all);
		__syncwarp();
		if (lane == 0) {
			float more = fmaxf(s->largest[i], largest);

			s->mine[i] = lm_exp2(s->largest[i] - more);
			s->other[i] = lm_exp2(largest - more);
			s->sum[i] = fmaf(s->sum[i], s->mine[i], all * s->other[i]);
			s->largest[i] = more;
		}
	}
}

/* Adds the four values of a pass's weights to a chain. FULL: the row sees all keys. */
template <int D, bool FULL>
__device__ __forceinline__ void add_values(float (&sum)[4], const tile_room<D> *s,
	unsigned row, unsigned group, unsigned at, unsigned pass, unsigned c)
{
	typedef part_order<D> order;
	float4 four = s->score[((row * order::KEYS + group) * order::PLACES + pass) / 4];
	float p[4] = { four.x, four.y, four.z, four.w };

	UNROLL
	for (unsigned k = 0; k < 4; k++) {
		float4 v = s->stage[((at + pass + k) * D + c) / 4];

		if (!FULL && (pass + k) * order::KEYS + group >= s->count[row])
			break;
		sum[0] = fmaf(p[k], v.x, sum[0]);
		sum[1] = fmaf(p[k], v.y, sum[1]);
		sum[2] = fmaf(p[k], v.z, sum[2]);
		sum[3] = fmaf(p[k], v.w, sum[3]);
	}
}

/* out[e] = the part's outputs of row `row` + e and four columns from c on. */
template <int TYPE, int D, bool FULL>
__device__ __forceinline__ void sum_part(float (&out)[part_order<D>::EACH][4],
	tile_room<D> *s, const struct lm_paged_attend &a, unsigned kv, unsigned row,
	unsigned c)
{
	typedef part_order<D> order;

	UNROLL_1
	for (unsigned w = 0; w < WARPS; w++) {
		float warp[order::EACH][4], pair[order::EACH][4];

		__syncthreads(); /* until what was staged is used */
		stage_values<TYPE, D>(s, (const char *)a.values, kv, w);
		__syncthreads();
		UNROLL
		for (unsigned g = 0; g < order::GROUPS; g++) {
			float one[order::EACH][4] = {};

			UNROLL_1
			for (unsigned pass = 0; pass < order::PASSES; pass += 4)
				UNROLL
			for (unsigned e = 0; e < order::EACH; e++)
				add_values<D, FULL>(one[e], s, row + e,
					w * order::GROUPS + g, g * order::PASSES, pass,
					c);
			/* two groups are added, then pairs of them */
			UNROLL
			for (unsigned i = 0; i < order::EACH * 4; i++) {
				float now = one[i / 4][i % 4];

				if (g == 0)
					warp[i / 4][i % 4] = now;
				else if (g == 1)
					warp[i / 4][i % 4] += now;
				else if (g == 2)
					pair[i / 4][i % 4] = now;
				else
					warp[i / 4][i % 4] += pair[i / 4][i % 4] + now;
			}
		}
		UNROLL
		for (unsigned i = 0; i < order::EACH * 4; i++) {
			float now = warp[i / 4][i % 4];

			out[i / 4][i % 4] = w ? out[i / 4][i % 4] + now : now;
		}
	}
}

/* Each block computes a tile of rows of one sequence for a head; other tiles are left to
 * paged_row_kernel. */
template <int TYPE, int D>
__global__ void __launch_bounds__(THREADS, 3)
	paged_tile_kernel(struct lm_paged_attend a, uint64_t tasks)
{
	typedef part_order<D> order;
	SHARED(tile_room<D>, s, 1);
	unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	unsigned row = warp * 4 + lane / order::ACROSS * order::EACH;
	unsigned c = lane % order::ACROSS * 4;

	for (uint64_t n = blockIdx.x; n < tasks; n += gridDim.x) {
		/* the tiles that see most come first */
		uint64_t r0 = (tasks - 1 - n) / a.heads * TILE, h = n % a.heads, last;
		unsigned rows = a.rows - r0 < TILE ? (unsigned)(a.rows - r0) : TILE;
		unsigned kv = (unsigned)(h / (a.heads / a.kv_heads) * D);
		const uint32_t *blocks = a.blocks + a.table[r0];
		float out[order::EACH][4] = {};

		if (!is_tile(a, r0, &last))
			continue;
		__syncthreads(); /* until the previous tile is done */
		for (unsigned i = threadIdx.x; i < TILE * D; i += THREADS)
			((float *)(void *)s->q)[i] = i / D < rows ?
				a.q[(r0 + i / D) * a.ldq + h * D + i % D] :
				0;
		if (threadIdx.x < TILE) {
			s->largest[threadIdx.x] = -INFINITY;
			s->sum[threadIdx.x] = 0;
		}
		for (uint64_t base = 0; base <= last; base += SPLIT) {
			uint64_t j = base + threadIdx.x;
			float now[order::EACH][4];
			bool full = true;

			__syncthreads(); /* until the previous part is used */
			s->place[threadIdx.x] = j > last ?
				UINT64_MAX :
				((uint64_t)__ldg(blocks + j / LM_PAGE) * LM_PAGE +
					j % LM_PAGE) *
					lm_cache_bytes((enum lm_cache_type)TYPE, a.ldk);
			if (threadIdx.x < TILE) {
				uint64_t end = threadIdx.x < rows ?
					a.position[r0 + threadIdx.x] + (uint64_t)1 :
					0;

				s->count[threadIdx.x] = end <= base ? 0 :
					end - base < SPLIT ? (unsigned)(end - base) :
							     SPLIT;
			}
			__syncthreads();
			for (unsigned i = 0; i < TILE; i++)
				full = full && s->count[i] == SPLIT;
			weigh_part<TYPE, D>(s, a, kv);
			if (full)
				sum_part<TYPE, D, true>(now, s, a, kv, row, c);
			else
				sum_part<TYPE, D, false>(now, s, a, kv, row, c);
			UNROLL
			for (unsigned i = 0; i < order::EACH * 4; i++) {
				unsigned e = i / 4;

				if (s->count[row + e])
					out[e][i % 4] = fmaf(out[e][i % 4],
						s->mine[row + e],
						now[e][i % 4] * s->other[row + e]);
			}
		}
		UNROLL
		for (unsigned e = 0; e < order::EACH; e++)
			for (unsigned i = 0; i < 4 && row + e < rows; i++)
				a.out[(r0 + row + e) * a.ldo + h * D + c + i] =
					out[e][i] / s->sum[row + e];
	}
}

/* Each block computes all parts of its heads, but for the rows of tiles. */
template <int TYPE, int D>
__global__ void __launch_bounds__(THREADS, 5)
	paged_row_kernel(struct lm_paged_attend a, uint64_t tasks, bool tiles)
{
	enum { EACH = (HEADS * D + THREADS - 1) / THREADS }; /* numbers of a thread */
	typedef part_room<D, HEADS> room_type;
	SHARED(room_type, s, 1);

	for (uint64_t n = blockIdx.x; n < tasks; n += gridDim.x) {
		heads_task t = heads_of(a, n);
		view v = view_of(a, t.r);
		running sum[EACH];
		uint64_t last;

		if (tiles && is_tile(a, t.r / TILE * TILE, &last))
			continue;

		UNROLL
		for (int e = 0; e < EACH; e++)
			sum[e] = { -INFINITY, 0, 0 };
		for (uint64_t part = 0; part < v.parts; part++) {
			compute_part<TYPE, D, HEADS>(s, a, v, t.r, t.h0, t.heads,
				t.kv * D, part);
			UNROLL
			for (unsigned e = 0; e < EACH; e++) {
				unsigned i = threadIdx.x + e * THREADS;

				if (i < t.heads * D)
					join(&sum[e], s->largest[i / D], s->sum[i / D],
						s->out[0][i / D][i % D]);
			}
		}
		UNROLL
		for (unsigned e = 0; e < EACH; e++) {
			unsigned i = threadIdx.x + e * THREADS;

			if (i < t.heads * D)
				a.out[t.r * a.ldo + t.h0 * D + i] = sum[e].out /
					sum[e].sum;
		}
	}
}

/* --- on the host --------------------------------------------------------------------------- */

template <int TYPE, int D>
static int launch(struct dev *d, const struct lm_paged_attend *a)
{
	auto part_kernel = a->heads == a->kv_heads ? paged_part_kernel<TYPE, D, 1> :
						     paged_part_kernel<TYPE, D, HEADS>;
	auto row_kernel = paged_row_kernel<TYPE, D>;
	static_assert(BLOCKS_WANTED <= LM_COUNTERS, "a counter for each task");
	uint64_t group = a->heads / a->kv_heads;
	uint64_t tasks = a->rows * a->kv_heads * ((group + HEADS - 1) / HEADS);
	uint64_t parts = (a->keys_max + SPLIT - 1) / SPLIT;
	float *room = cuda_of(d)->lm_scratch;
	cudaStream_t stream = cuda_of(d)->stream;

	if (parts < 2 || tasks >= BLOCKS_WANTED ||
		a->rows * a->heads * parts * (D + 2) > LM_SCRATCH_FLOATS) {
		/* 256 columns would need 61 KB of shared memory */
		bool tiles = D <= 128 && a->rows >= TILE_ROWS_MIN;

		if constexpr (D <= 128) {
			auto tile_kernel = paged_tile_kernel<TYPE, D>;
			uint64_t n = (a->rows + TILE - 1) / TILE * a->heads;

			if (tiles)
				LAUNCH(tile_kernel, cuda_grid(d, n, 1), THREADS, stream,
					*a, n);
		}
		LAUNCH(row_kernel, cuda_grid(d, tasks, 1), THREADS, stream, *a, tasks,
			tiles);
	} else {
		LAUNCH(part_kernel, cuda_grid(d, tasks * parts, 1), THREADS, stream, *a,
			tasks, parts, room, (unsigned *)(room + LM_SCRATCH_FLOATS));
	}
	return lm_started(d);
}

template <int D> static int launch_type(struct dev *d, const struct lm_paged_attend *a)
{
	switch (a->type) {
	case LM_CACHE_F16:
		return launch<LM_CACHE_F16, D>(d, a);
	case LM_CACHE_F32:
		return launch<LM_CACHE_F32, D>(d, a);
	default:
		return launch<LM_CACHE_Q8_0, D>(d, a);
	}
}

int cuda_lm_paged_split(struct dev *d, const struct lm_paged_attend *a)
{
	bool whole = a->ldk % 8 == 0 &&
		(((uintptr_t)a->keys | (uintptr_t)a->values) & 15) == 0;

	if (!whole || a->heads * a->rows >= UINT32_MAX)
		return 1;
	switch (a->head_dim) {
	case 64:
		return launch_type<64>(d, a);
	case 128:
		return launch_type<128>(d, a);
	case 256:
		return launch_type<256>(d, a);
	default:
		return 1;
	}
}
