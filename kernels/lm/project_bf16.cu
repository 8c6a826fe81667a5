/* project_bf16.cu - linear layers with bf16 weights on tensor cores. An activation is the sum of
 * two bf16 (it is off by at most 2^-18 of itself), each of which is multiplied by the weight: 16
 * rows of x are the left operand, eight rows of W the right one. A few rows of x are multiplied by
 * warps that each read a part of W, many by tiles in shared memory. Both take the same
 * numbers into the same places of the same instructions in the same order, CHUNK along k in one
 * sum and then the sums in order, so that the bits of a row do not depend on which it was. Besides
 * tensor cores there are additions alone: contraction (-fmad) changes nothing, but the norm and
 * SwiGLU of layers that are made together, as it does where these are kernels of their own. */
#include "kernels/dev/tensor.cuh"
#include "kernels/lm/cuda.cuh"

#define THREADS      256
#define WARPS        (THREADS / 32)
#define CHUNK        512 /* weights of a row that are one sum */
#define STEP         32  /* of them two instructions take at once: 16 bytes a lane */
#define K_MIN        32  /* below it the bound of project.h is less than what x loses */
#define OUTPUTS      128 /* of a tile */
#define ROWS         64
#define STAGES       3
#define FEW          32  /* rows that a block of project_bf16_rows_kernel takes at most */
#define MANY         128 /* rows from which tiles are better even where they are few */
#define TILES_WANTED 96

/* steps of W that a warp keeps on their way, and the one that it multiplies */
enum { AHEAD = 4 };
#ifdef CUDA_EMU
#define UNROLL_STEPS
#else
#define UNROLL_STEPS _Pragma("unroll 2")
#endif
#define K_END ((uint64_t)1 << 31) /* offsets along k have 32 bits */

/* Splits two numbers: high + low, rounded once each. */
__device__ __forceinline__ void split_two(float a, float b, unsigned *high, unsigned *low)
{
	*high = cuda_two_bf16(a, b);
	*low = cuda_two_bf16(a - half_float_of_bits(*high << 16),
		b - half_float_of_bits(*high & 0xffff0000u));
}

/* 16 rows of x and 16 of k as left operands: of the high halves and of the low ones. */
struct left {
	unsigned high[4], low[4];
};

/* Four numbers of row g and of row g + 8; in a step of 32 along k a lane has eight neighbours of
 * each row, of which the first instruction takes four. W agrees with that. */
__device__ __forceinline__ left left_of(const float4 &upper, const float4 &lower)
{
	left a;

	split_two(upper.x, upper.y, &a.high[0], &a.low[0]);
	split_two(lower.x, lower.y, &a.high[1], &a.low[1]);
	split_two(upper.z, upper.w, &a.high[2], &a.low[2]);
	split_two(lower.z, lower.w, &a.high[3], &a.low[3]);
	return a;
}

__device__ __forceinline__ float4 load_four(const float *p)
{
	return __ldg((const float4 *)(const void *)p);
}

#if CUDA_TENSOR
/* sum += x W for 16 of k: the first words of a lane's 16 bytes of W, or the last ones. */
template <int HALF>
__device__ __forceinline__ void multiply_half(float (&sum)[4], const unsigned (&a)[4],
	const uint4 &w)
{
	tensor_mma_bf16(sum, a, HALF ? w.z : w.x, HALF ? w.w : w.y);
}
#endif

#if CUDA_TENSOR
/* This lane's rows of x, of each eight one. */
template <int EIGHTS> struct plain_rows {
	const float *x[EIGHTS];

	__device__ __forceinline__ float4 four(unsigned i, unsigned k) const
	{
		return load_four(x[i] + k);
	}
};

/* The same, of eight, times r and the norm's weights, as lm_norm has it. */
struct normed_rows {
	const float *x, *w;
	float rms;

	/* rounded before it is split: what is subtracted there must not become part of it */
	__device__ __forceinline__ float one(float v, float by) const
	{
#ifdef __CUDA_ARCH__
		return __fmul_rn(__fmul_rn(v, rms), by);
#else
		return v * rms * by;
#endif
	}

	__device__ __forceinline__ float4 four(unsigned, unsigned k) const
	{
		float4 v = load_four(x + k), by = load_four(w + k);

		return make_float4(one(v.x, by.x), one(v.y, by.y), one(v.z, by.z),
			one(v.w, by.w));
	}
};

/* Where a lane's parts of rows j0 + g and j0 + g + 8 of W begin. What does not exist is made of the
 * last row, and not stored. */
struct weight_rows {
	const uint16_t *w[2];

	__device__ __forceinline__ weight_rows(const struct lm_project &p, uint64_t j0)
	{
		UNROLL
		for (unsigned i = 0; i < 2; i++) {
			uint64_t j = j0 + 8 * i + threadIdx.x % 32 / 4;

			w[i] = (const uint16_t *)p.w + (j < p.n ? j : p.n - 1) * p.k +
				threadIdx.x % 4 * 8;
		}
	}
};

/* Asks for a step of W, of a lane's two rows, or zeros behind the end. */
__device__ __forceinline__ void fetch_step(uint4 *slot, const weight_rows &from,
	unsigned k, unsigned end, unsigned all)
{
	unsigned bytes = k + threadIdx.x % 4 * 8 < all ? 16 : 0;

	UNROLL
	for (int i = 0; i < 2 && k < end; i++)
		tensor_copy(slot + 32 * i, from.w[i] + (bytes ? k : 0), bytes);
	tensor_commit();
}

/* Adds up 16 outputs of 8 EIGHTS rows by a block: its warps take a chunk of k each, and their sums are
 * added in the order of the chunks. Number threadIdx.x + e THREADS of the results is in total[e].
 * What a lane takes of W passes through a ring of its own in shared memory, so that memory is never
 * idle while a step is multiplied: with loads into registers instead an H200 gave half of its rate. */
template <int EIGHTS, class X>
__device__ __forceinline__ void add_outputs(float (&total)[(EIGHTS + 1) / 2], float *sums,
	uint4 *rings, const weight_rows &from, const X &x, unsigned all)
{
	enum { GROUPS = (EIGHTS + 1) / 2, RESULTS = 128 * EIGHTS };
	unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	unsigned g = lane / 4, t = lane % 4;
	unsigned chunks = (all + CHUNK - 1) / CHUNK;
	uint4 *ring = rings + warp * AHEAD * 64 + lane;

	for (unsigned c0 = 0; c0 < chunks; c0 += WARPS) {
		unsigned begin = (c0 + warp) * CHUNK;
		unsigned end = begin + CHUNK < all ? begin + CHUNK : all;
		float sum[GROUPS][2][4] = {};

		UNROLL
		for (unsigned s = 0; s < AHEAD - 1; s++)
			fetch_step(ring + s * 64, from, begin + s * STEP, end, all);
		UNROLL_STEPS
		for (unsigned k = begin; k < end; k += STEP) {
			const uint4 *slot = ring + k / STEP % AHEAD * 64;
			bool there = k + 8 * t < all;
			left a[GROUPS][2];
			uint4 b[2];

			tensor_wait<AHEAD - 2>();
			UNROLL
			for (int i = 0; i < 2; i++)
				b[i] = slot[32 * i];
			/* into the place of the step before, which is in registers */
			fetch_step(ring + (k / STEP + AHEAD - 1) % AHEAD * 64, from,
				k + (AHEAD - 1) * STEP, end, all);
			UNROLL
			for (int i = 0; i < GROUPS; i++)
				UNROLL
			for (int h = 0; h < 2; h++) {
				float4 upper = {}, lower = {};

				if (there)
					upper = x.four(2 * i, k + 4 * h);
				if (there && 2 * i + 1 < EIGHTS)
					lower = x.four((2 * i + 1) % EIGHTS, k + 4 * h);
				a[i][h] = left_of(upper, lower);
			}
			UNROLL
			for (int n = 0; n < 2 * GROUPS; n++)
				multiply_half<0>(sum[n / 2][n % 2], a[n / 2][0].low,
					b[n % 2]);
			UNROLL
			for (int n = 0; n < 2 * GROUPS; n++)
				multiply_half<1>(sum[n / 2][n % 2], a[n / 2][1].low,
					b[n % 2]);
			UNROLL
			for (int n = 0; n < 2 * GROUPS; n++)
				multiply_half<0>(sum[n / 2][n % 2], a[n / 2][0].high,
					b[n % 2]);
			UNROLL
			for (int n = 0; n < 2 * GROUPS; n++)
				multiply_half<1>(sum[n / 2][n % 2], a[n / 2][1].high,
					b[n % 2]);
		}
		__syncthreads(); /* until the sums before are read */
		UNROLL
		for (unsigned e = 0; e < 8 * GROUPS; e++) {
			unsigned r = e / 8 * 16 + e / 2 % 2 * 8 + g;

			if (e / 8 * 2 + e / 2 % 2 < EIGHTS)
				sums[warp * RESULTS + r * 16 + e / 4 % 2 * 8 + 2 * t +
					e % 2] = sum[e / 8][e / 4 % 2][e % 4];
		}
		__syncthreads();
		UNROLL
		for (unsigned e = 0; e < GROUPS; e++) {
			unsigned at = threadIdx.x + e * THREADS;

			for (unsigned s = 0; s < WARPS && c0 + s < chunks && at < RESULTS;
				s++)
				total[e] += sums[s * RESULTS + at];
		}
	}
}
#endif

/* A block makes 16 outputs of 8 EIGHTS rows. */
template <int EIGHTS>
__global__ void __launch_bounds__(THREADS, 2)
	project_bf16_rows_kernel(struct lm_project p)
{
#if CUDA_TENSOR
	enum { RESULTS = 128 * EIGHTS, EACH = (EIGHTS + 1) / 2 };
	SHARED(float, sums, WARPS *RESULTS);
	SHARED(uint4, rings, WARPS * AHEAD * 64);
	uint64_t down = (p.rows + 8 * EIGHTS - 1) / (8 * EIGHTS);
	uint64_t tasks = (p.n + 15) / 16 * down;

	for (uint64_t task = blockIdx.x; task < tasks; task += gridDim.x) {
		uint64_t j0 = task / down * 16, r0 = task % down * 8 * EIGHTS;
		plain_rows<EIGHTS> x;
		float total[EACH] = {};

		UNROLL
		for (unsigned i = 0; i < EIGHTS; i++) {
			uint64_t r = r0 + 8 * i + threadIdx.x % 32 / 4;

			x.x[i] = p.x + (r < p.rows ? r : p.rows - 1) * p.ldx +
				threadIdx.x % 4 * 8;
		}
		add_outputs<EIGHTS>(total, sums, rings, weight_rows(p, j0), x,
			(unsigned)p.k);
		UNROLL
		for (unsigned e = 0; e < EACH; e++) {
			unsigned at = threadIdx.x + e * THREADS;
			uint64_t r = r0 + at / 16, j = j0 + at % 16;

			if (at < RESULTS && r < p.rows && j < p.n)
				lm_project_store(p, r, j, total[e]);
		}
	}
#else
	(void)p;
#endif
}

#if CUDA_TENSOR
/* Asks for the weights of 16 outputs, which lie one after the other. */
__device__ __forceinline__ void fetch_outputs(const struct lm_project &p, uint64_t j0)
{
#ifdef __CUDA_ARCH__
	const char *w = (const char *)p.w + j0 * p.k * 2;
	uint64_t bytes = (p.n - j0 < 16 ? p.n - j0 : 16) * p.k * 2;

	for (uint64_t i = threadIdx.x * 128; i < bytes; i += THREADS * 128)
		asm volatile("prefetch.global.L2 [%0];" : : "l"(w + i));
#else
	(void)p, (void)j0;
#endif
}
#endif

/* Layers that take the norm of the same few rows. A block makes 16 outputs of one of them, or of both g
 * and u; it finds the norm's factors itself while its first weights are on their way, which one kernel
 * after the other would leave the memory idle for. */
__global__ void __launch_bounds__(THREADS, 2)
	project_bf16_group_kernel(const GRID_CONSTANT struct lm_project_group q)
{
#if CUDA_TENSOR
	SHARED(float, sums, WARPS * 128);
	SHARED(uint4, rings, WARPS * AHEAD * 64);
	SHARED(float, rms, 8);
	unsigned warp = threadIdx.x / 32, row = threadIdx.x % 32 / 4;
	uint64_t rows = q.p[0].rows, ldx = q.p[0].ldx, k = q.p[0].k, tasks = 0;
	normed_rows x;

	for (unsigned i = 0; i < (q.gated ? 1 : q.n); i++)
		tasks += (q.p[i].n + 15) / 16;
	for (uint64_t task = blockIdx.x; task < tasks; task += gridDim.x) {
		uint64_t left = task, r = threadIdx.x / 16, j;
		unsigned which = 0, parts = q.gated ? 2 : 1;
		float g = 0;

		while (left >= (q.p[which].n + 15) / 16)
			left -= (q.p[which++].n + 15) / 16;
		if (task == blockIdx.x) {
			for (unsigned i = 0; i < parts; i++)
				fetch_outputs(q.p[which + i], left * 16);
			if (warp < rows) {
				float v = lm_row_rms(q.p[0].x + warp * ldx, k, q.eps,
					true);

				if (threadIdx.x % 32 == 0)
					rms[warp] = v;
			}
			__syncthreads();
			row = row < rows ? row : (unsigned)rows - 1;
			x.x = q.p[0].x + row * ldx + threadIdx.x % 4 * 8;
			x.w = q.norm + threadIdx.x % 4 * 8;
			x.rms = rms[row];
		}
		j = left * 16 + threadIdx.x % 16;
		UNROLL_1
		for (unsigned i = 0; i < parts; i++) {
			const struct lm_project &p = q.p[which + i];
			float total[1] = {};

			add_outputs<1>(total, sums, rings, weight_rows(p, left * 16), x,
				(unsigned)k);
			if (r >= rows || j >= p.n)
				continue;
			if (!q.gated)
				lm_project_store(p, r, j, total[0]);
			else if (p.bias)
				total[0] += p.bias[j];
			if (q.gated && i)
				q.gated[r * p.n + j] = lm_gated(g, total[0], q.gelu);
			g = total[0];
		}
	}
#else
	(void)q;
#endif
}

/* What 16 rows of x are for 32 of k in the scratch memory and in a stage: what each lane takes of
 * the high halves for the first instruction and for the second, then of the low halves. */
#define GROUP_CHUNKS 128

/* Writes all groups of 16 rows, with zeros where there is no row or no k. */
__global__ void split_kernel(struct lm_project p, uint4 *to)
{
	uint64_t steps = (p.k + STEP - 1) / STEP, groups = (p.rows + 15) / 16;

	for (uint64_t n = GRID_FIRST; n < groups * steps * 64; n += GRID_STRIDE) {
		unsigned lane = n % 32, half = n / 32 % 2;
		uint64_t r = n / 64 / steps * 16 + lane / 4;
		uint64_t k = n / 64 % steps * STEP + lane % 4 * 8 + 4 * half;
		float4 upper = {}, lower = {};
		left a;

		if (k < p.k && r < p.rows)
			upper = load_four(p.x + r * p.ldx + k);
		if (k < p.k && r + 8 < p.rows)
			lower = load_four(p.x + (r + 8) * p.ldx + k);
		a = left_of(upper, lower);
		to[n / 64 * GROUP_CHUNKS + n % 64] = make_uint4(a.high[0], a.high[1],
			a.high[2], a.high[3]);
		to[n / 64 * GROUP_CHUNKS + 64 + n % 64] = make_uint4(a.low[0], a.low[1],
			a.low[2], a.low[3]);
	}
}

#if CUDA_TENSOR
/* What a thread copies of each step of a tile: a chunk of 16 bytes of two rows of W, and of two
 * groups of x. */
struct tile_source {
	const uint16_t *w;
	const uint4 *x;
	uint64_t k,
		apart; /* k of its chunk in the next step; chunks between its groups */
	bool w_there[2], x_there[2];
};

__device__ __forceinline__ void copy_step(const struct lm_project &p, uint4 *w, uint4 *x,
	tile_source &s)
{
	unsigned bytes = s.k < p.k ? 16 : 0;

	tensor_copy(w + threadIdx.x, s.w + s.k, s.w_there[0] ? bytes : 0);
	tensor_copy(w + THREADS + threadIdx.x, s.w + 64 * p.k + s.k,
		s.w_there[1] ? bytes : 0);
	tensor_copy(x + threadIdx.x, s.x, s.x_there[0] ? 16 : 0);
	tensor_copy(x + THREADS + threadIdx.x, s.x + s.apart, s.x_there[1] ? 16 : 0);
	s.k += STEP;
	s.x += GROUP_CHUNKS;
}

__device__ __forceinline__ void load_left(unsigned (&a)[4], const uint4 *from)
{
	uint4 v = *from;

	a[0] = v.x, a[1] = v.y, a[2] = v.z, a[3] = v.w;
}

/* Adds a step to a warp's 32 rows x 32 outputs. */
__device__ __forceinline__ void multiply_step(float (&sum)[2][4][4], const uint4 *w,
	const uint4 *x)
{
	uint4 b[4];

	UNROLL
	for (int n = 0; n < 4; n++)
		b[n] = w[8 * n * 4];
	UNROLL
	for (int low = 1; low >= 0; low--) {
		unsigned a[2][2][4];

		UNROLL
		for (int m = 0; m < 2; m++)
			UNROLL
		for (int h = 0; h < 2; h++)
			load_left(a[m][h], x + m * GROUP_CHUNKS + low * 64 + h * 32);
		UNROLL
		for (int m = 0; m < 2; m++)
			UNROLL
		for (int n = 0; n < 4; n++)
			multiply_half<0>(sum[m][n], a[m][0], b[n]);
		UNROLL
		for (int m = 0; m < 2; m++)
			UNROLL
		for (int n = 0; n < 4; n++)
			multiply_half<1>(sum[m][n], a[m][1], b[n]);
	}
}
#endif

/* A block makes tiles of ROWS x OUTPUTS, a warp 32 x 32 of them. Eight lanes that are served
 * together read 128 adjacent bytes of shared memory. */
__global__ void __launch_bounds__(THREADS, 2)
	project_bf16_tile_kernel(struct lm_project p, const uint4 *split)
{
#if CUDA_TENSOR
	SHARED(uint4, w_shared, STAGES * OUTPUTS * 4);
	SHARED(uint4, x_shared, STAGES * ROWS * 8);
	unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	unsigned output = warp % 4 * 32, row = warp / 4 * 32, i = threadIdx.x / 4;
	unsigned w_lane = (output + lane / 4) * 4 + lane % 4;
	unsigned x_lane = row / 16 * GROUP_CHUNKS + lane;
	uint64_t down = (p.rows + ROWS - 1) / ROWS;
	uint64_t tasks = (p.n + OUTPUTS - 1) / OUTPUTS * down;
	unsigned steps = (unsigned)((p.k + STEP - 1) / STEP);

	for (uint64_t task = blockIdx.x; task < tasks; task += gridDim.x) {
		uint64_t r0 = task % down * ROWS, j0 = task / down * OUTPUTS;
		unsigned group = threadIdx.x / GROUP_CHUNKS * 16; /* its first row */
		tile_source from = { (const uint16_t *)p.w + (j0 + i) * p.k,
			split + (r0 + group) / 16 * steps * GROUP_CHUNKS +
				threadIdx.x % GROUP_CHUNKS,
			threadIdx.x % 4 * 8, (uint64_t)2 * steps * GROUP_CHUNKS,
			{ j0 + i < p.n, j0 + 64 + i < p.n },
			{ r0 + group < p.rows, r0 + group + 32 < p.rows } };
		float sum[2][4][4] = {}, total[2][4][4] = {};
		unsigned slot = 0, next = STAGES - 1;

		__syncthreads(); /* until the stages of the tile before are used */
		UNROLL
		for (unsigned s = 0; s < STAGES - 1; s++) {
			if (s < steps)
				copy_step(p, w_shared + s * OUTPUTS * 4,
					x_shared + s * ROWS * 8, from);
			tensor_commit();
		}
		for (unsigned s = 0; s < steps; s++) {
			tensor_wait<STAGES - 2>();
			__syncthreads();
			if (s + STAGES - 1 < steps)
				copy_step(p, w_shared + next * OUTPUTS * 4,
					x_shared + next * ROWS * 8, from);
			tensor_commit();
			multiply_step(sum, w_shared + slot * OUTPUTS * 4 + w_lane,
				x_shared + slot * ROWS * 8 + x_lane);
			slot = slot + 1 == STAGES ? 0 : slot + 1;
			next = next + 1 == STAGES ? 0 : next + 1;
			if ((s + 1) % (CHUNK / STEP) != 0 && s + 1 != steps)
				continue;
			UNROLL
			for (int e = 0; e < 32; e++) {
				total[e / 16][e / 4 % 4][e % 4] +=
					sum[e / 16][e / 4 % 4][e % 4];
				sum[e / 16][e / 4 % 4][e % 4] = 0;
			}
		}
		UNROLL
		for (unsigned e = 0; e < 32; e++) {
			uint64_t r = r0 + row + e / 16 * 16 + e / 2 % 2 * 8 + lane / 4;
			uint64_t j = j0 + output + e / 4 % 4 * 8 + lane % 4 * 2 + e % 2;

			if (r < p.rows && j < p.n)
				lm_project_store(p, r, j,
					total[e / 16][e / 4 % 4][e % 4]);
		}
	}
#else
	(void)p, (void)split;
#endif
}

/* --- on the host --------------------------------------------------------------------------- */

template <int EIGHTS> static int launch_rows(struct dev *d, const struct lm_project *p)
{
	auto kernel = project_bf16_rows_kernel<EIGHTS>;
	uint64_t tasks = (p->n + 15) / 16 * ((p->rows + 8 * EIGHTS - 1) / (8 * EIGHTS));

	LAUNCH(kernel, cuda_grid(d, tasks, 1), THREADS, cuda_of(d)->stream, *p);
	return lm_started(d);
}

/* As many rows at a time as have room in the scratch memory. */
static int launch_tiles(struct dev *d, const struct lm_project *p)
{
	uint64_t steps = (p->k + STEP - 1) / STEP;
	uint64_t most = LM_SCRATCH_FLOATS / (steps * STEP) / ROWS * ROWS;
	uint4 *split = (uint4 *)(void *)cuda_of(d)->lm_scratch;
	cudaStream_t stream = cuda_of(d)->stream;
	struct lm_project part = *p;

	for (uint64_t row = 0; row < p->rows; row += most) {
		uint64_t tiles;

		part.rows = p->rows - row < most ? p->rows - row : most;
		part.x = p->x + row * p->ldx;
		part.y = p->y + row * p->ldy;
		part.from = p->from ? p->from + row * p->ldy : NULL;
		tiles = (p->n + OUTPUTS - 1) / OUTPUTS * ((part.rows + ROWS - 1) / ROWS);
		LAUNCH(split_kernel,
			cuda_grid(d, (part.rows + 15) / 16 * steps * 64, THREADS),
			THREADS, stream, part, split);
		LAUNCH(project_bf16_tile_kernel, cuda_grid(d, tiles, 1), THREADS, stream,
			part, (const uint4 *)split);
	}
	return lm_started(d);
}

int cuda_lm_project_bf16(struct dev *d, const struct lm_project *p)
{
	uint64_t tiles = (p->n + OUTPUTS - 1) / OUTPUTS * ((p->rows + ROWS - 1) / ROWS);

	if (!cuda_tensor(d) || p->k < K_MIN || p->k % 8 != 0 || p->k >= K_END)
		return 1;
	if (LM_SCRATCH_FLOATS / (p->k + STEP) >= ROWS &&
		(p->rows > MANY || (p->rows > FEW && tiles >= TILES_WANTED)))
		return launch_tiles(d, p);
	if (p->rows <= 8)
		return launch_rows<1>(d, p);
	return p->rows <= 16 ? launch_rows<2>(d, p) : launch_rows<4>(d, p);
}

int cuda_lm_project_bf16_group(struct dev *d, const struct lm_project_group *g)
{
	const struct lm_project *p = g->p;
	uint64_t tasks = 0;

	if (!cuda_tensor(d) || p->k < K_MIN || p->k >= K_END || !p->rows || p->rows > 8 ||
		p->ldx != p->k || !lm_wide(p->k, p->x, g->norm, NULL, NULL))
		return 1;
	for (uint32_t i = 0; i < g->n; i++) {
		if (p[i].type != LM_WEIGHT_BF16 || !p[i].n || (uintptr_t)p[i].w % 16)
			return 1;
		tasks += g->gated && i ? 0 : (p[i].n + 15) / 16;
	}
	LAUNCH(project_bf16_group_kernel, cuda_grid(d, tasks, 1), THREADS,
		cuda_of(d)->stream, *g);
	return lm_started(d);
}
