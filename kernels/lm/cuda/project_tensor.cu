/* project_tensor.cu - products of more than a few rows with quantised weights, on int8 tensor
 * cores. The rows of x that a block multiplies are brought to shared memory eight blocks of 32
 * along k at a time, the next while these are used; each warp brings the weights of its own
 * outputs, as they lie in the file, and takes them from there (project_fragment.cuh). An MMA makes
 * the exact sum of a block; it is scaled and added in the order of the blocks by fmaf(): the same
 * bits as those of few rows (project_few.cu), and the reference's. That takes three instructions of
 * f32 for a sum and block, 12 beside each MMA, which is what bounds products of many rows.
 * Contraction (-fmad) changes nothing. */
#include "kernels/lm/cuda/project_fragment.cuh"

#define WARPS    4
#define THREADS  128 /* of four warps */
#define X_CHUNKS 24  /* of eight blocks of a row: 48 bytes each */
#define X_STRIDE 25  /* so that eight rows are read from different banks */
#ifdef CUDA_EMU
#define UNROLL_SOME
#else
#define UNROLL_SOME _Pragma("unroll AT_ONCE")
#endif
#define SHARED_MOST (99 << 10) /* that a block has on every GPU with these instructions */

/* A warp multiplies 16 M rows by 8 N outputs; a block has 16 M rows and four warps. */
template <int TYPE, int M, int N, int STAGES> struct tile {
	enum {
		ROWS = 16 * M,
		OUTPUTS = 8 * N,
		APART = EIGHT * OUTPUTS, /* floats of a plane of scales */
		X = ROWS * X_STRIDE,     /* of a stage, in 16 bytes */
		W = OUTPUTS * eight_blocks<TYPE>::CHUNKS,
		STAGE = X + WARPS * W,
		TABLE = eight_blocks<TYPE>::PLANES * APART,
		BYTES = STAGES * STAGE * 16 + WARPS * TABLE * 4
	};
};

#if CUDA_TENSOR
/* What a thread brings of x: some of the chunks of a row. */
template <int ROWS> struct x_reader {
	enum { EACH = THREADS / ROWS }; /* threads for a row */
	const uint4 *from;
	unsigned part, chunks; /* chunks: of a row */

	/* rows that do not exist are the last one, and not stored */
	__device__ __forceinline__ x_reader(const struct lm_project &p, uint64_t r0)
	{
		uint64_t r = r0 + threadIdx.x / EACH, blocks = p.k / LM_WEIGHT_BLOCK;

		part = threadIdx.x % EACH;
		chunks = (unsigned)blocks * 3;
		from = (const uint4 *)(const void *)(p.x8 +
			       (r < p.rows ? r : p.rows - 1) * blocks) +
			part;
	}

	/* Behind the end of k there are zeros. */
	__device__ __forceinline__ void fetch(uint4 *stage, unsigned step) const
	{
		uint4 *to = stage + threadIdx.x / EACH * X_STRIDE + part;
		const uint4 *at = from + step * X_CHUNKS;

		if (step * X_CHUNKS + X_CHUNKS <= chunks) {
			UNROLL
			for (unsigned i = 0; i < X_CHUNKS; i += EACH)
				tensor_copy_16(to + i, at + i);
			return;
		}
		UNROLL_1
		for (unsigned i = 0; i < X_CHUNKS; i += EACH) {
			bool there = step * X_CHUNKS + part + i < chunks;

			tensor_copy(to + i, there ? at + i : from, there ? 16 : 0);
		}
	}
};

/* Multiplies block i of a stage, whose x is at `x` and whose output of this lane begins at
 * row[n]. */
template <int TYPE, int M, int N>
__device__ __forceinline__ void multiply_block(float (&sum)[M][N][4],
	const unsigned char *x, const unsigned char *const (&row)[N], const float *table,
	unsigned i)
{
	enum { APART = EIGHT * 8 * N };
	unsigned lane = threadIdx.x % 32, b[N][2];

	UNROLL
	for (unsigned n = 0; n < N; n++)
		read_fragment<TYPE>(b[n], row[n], i, lane % 4);
	UNROLL
	for (unsigned m = 0; m < M; m++) {
		const unsigned char *at = x + 16 * m * X_STRIDE * 16 + i * 48;
		float2 scale[2];
		unsigned a[4];

		tensor_matrices<false>(a,
			at + lane % 16 * X_STRIDE * 16 + lane / 16 * 16);
		UNROLL
		for (unsigned h = 0; h < 2; h++)
			scale[h] = *(const float2 *)(const void *)(at +
				(8 * h + lane / 4) * X_STRIDE * 16 + 32);
		UNROLL
		for (unsigned n = 0; n < N; n++) {
			two_scales<TYPE> w(table + i * 8 * N + 8 * n + lane % 4 * 2,
				APART);
			block_sums<TYPE> sums(a, b[n]);

			UNROLL
			for (unsigned e = 0; e < 4; e++)
				sum[m][n][e] = sums.added(sum[m][n][e], e, w,
					scale[e / 2]);
		}
	}
}

/* Multiplies a step of eight blocks, of which `left` exist. */
template <int TYPE, int M, int N>
__device__ __forceinline__ void multiply_step(float (&sum)[M][N][4], const uint4 *x,
	const uint4 *w, float *table, const unsigned (&head)[N], unsigned step,
	unsigned left)
{
	/* blocks that there are registers for */
	enum { AT_ONCE = block_bytes<TYPE>::PARTS ? 1 : 2 };
	unsigned lane = threadIdx.x % 32;
	const unsigned char *row[N];

	UNROLL
	for (unsigned n = 0; n < N; n++)
		row[n] = (const unsigned char *)(const void *)(w +
				 (8 * n + lane / 4) * eight_blocks<TYPE>::CHUNKS) +
			head_at<TYPE>(head[n], step);
	UNROLL
	for (unsigned n = 0; n < N; n++)
		UNROLL
	for (unsigned i = lane % 4; i < EIGHT; i += 4)
		write_scales<TYPE>(table + i * 8 * N + 8 * n + lane / 4, EIGHT * 8 * N,
			row[n], i, i < left);
	__syncwarp();
	UNROLL_SOME
	for (unsigned i = 0; i < EIGHT; i++)
		multiply_block<TYPE, M, N>(sum, (const unsigned char *)(const void *)x,
			row, table, i);
}
#endif

template <int TYPE, int M, int N, int STAGES, int BLOCKS>
__global__ void __launch_bounds__(THREADS, BLOCKS)
	project_tensor_kernel(struct lm_project p)
{
#if CUDA_TENSOR
	typedef tile<TYPE, M, N, STAGES> sizes;
	LARGE_SHARED(uint4, memory, SHARED_MOST / 16);
	unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	uint4 *weights = memory + sizes::X + warp * sizes::W; /* of the first stage */
	float *table = (float *)(void *)(memory + STAGES * sizes::STAGE) +
		warp * sizes::TABLE;
	unsigned blocks = (unsigned)(p.k / LM_WEIGHT_BLOCK);
	unsigned steps = (blocks + EIGHT - 1) / EIGHT;
	uint64_t down = (p.rows + sizes::ROWS - 1) / sizes::ROWS;
	uint64_t tasks = (p.n + WARPS * sizes::OUTPUTS - 1) / (WARPS * sizes::OUTPUTS) *
		down;

	for (uint64_t task = blockIdx.x; task < tasks; task += gridDim.x) {
		uint64_t r0 = task % down * sizes::ROWS;
		uint64_t j0 = (task / down * WARPS + warp) * sizes::OUTPUTS;
		x_reader<sizes::ROWS> x(p, r0);
		weight_reader<TYPE, sizes::OUTPUTS> w;
		unsigned stage = 0, filled = STAGES - 1, head[N];
		float sum[M][N][4] = {};

		w.aim(p, j0, steps);
		UNROLL
		for (unsigned n = 0; n < N; n++)
			head[n] = head_of<TYPE>(p, j0 + 8 * n + lane / 4);
		__syncthreads(); /* until the stages of the task before are used */
		UNROLL_1
		for (unsigned s = 0; s + 1 < STAGES; s++) {
			if (s < steps) {
				x.fetch(memory + s * sizes::STAGE, s);
				w.template fetch<false>(weights + s * sizes::STAGE, s);
			}
			tensor_commit();
		}
		UNROLL_1
		for (unsigned s = 0; s < steps; s++) {
			tensor_wait<STAGES - 2>();
			__syncthreads(); /* all threads' copies; and the stage before is used */
			if (s + STAGES - 1 < steps) {
				x.fetch(memory + filled * sizes::STAGE, s + STAGES - 1);
				if (w.inside)
					w.template fetch<true>(weights +
							filled * sizes::STAGE,
						s + STAGES - 1);
				else
					w.template fetch<false>(weights +
							filled * sizes::STAGE,
						s + STAGES - 1);
			}
			tensor_commit();
			filled = stage;
			multiply_step<TYPE, M, N>(sum, memory + stage * sizes::STAGE,
				weights + stage * sizes::STAGE, table, head, s,
				blocks - s * EIGHT);
			stage = stage + 1 == STAGES ? 0 : stage + 1;
		}
		UNROLL
		for (unsigned e = 0; e < M * N * 4; e++) {
			uint64_t r = r0 + e / 4 / N * 16 + e / 2 % 2 * 8 + lane / 4;
			uint64_t j = j0 + e / 4 % N * 8 + lane % 4 * 2 + e % 2;

			if (r < p.rows && j < p.n)
				lm_project_store(p, r, j,
					sum[e / 4 / N][e / 4 % N][e % 4]);
		}
	}
#else
	(void)p;
#endif
}

template <int TYPE, int M, int N, int STAGES, int BLOCKS>
static int launch(struct dev *d, const struct lm_project *p)
{
	typedef tile<TYPE, M, N, STAGES> sizes;
	auto kernel = project_tensor_kernel<TYPE, M, N, STAGES, BLOCKS>;
	uint64_t tiles = (p->n + WARPS * sizes::OUTPUTS - 1) / (WARPS * sizes::OUTPUTS) *
		((p->rows + sizes::ROWS - 1) / sizes::ROWS);

	static_assert(sizes::BYTES <= SHARED_MOST, "all GPUs have that much");
	CUDA_TRY(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
		sizes::BYTES));
	LAUNCH_LARGE(kernel, cuda_grid(d, tiles, 1), THREADS, sizes::BYTES,
		cuda_of(d)->stream, *p);
	CUDA_TRY(cudaGetLastError());
	return 0;
}

/* Up to 32 rows are bound by memory, and more steps are on their way. So are tiles of half the
 * outputs and rows better where others are fewer than multiprocessors: they take 1.6 times as many
 * instructions for an MMA, but four times as many warps issue them (64 rows and 4,096 outputs are
 * 64 tiles, or 256). */
template <int TYPE> static int start(struct dev *d, const struct lm_project *p)
{
	typedef tile<TYPE, 4, 2, 2> large;
	uint64_t tiles = (p->n + WARPS * large::OUTPUTS - 1) / (WARPS * large::OUTPUTS) *
		((p->rows + large::ROWS - 1) / large::ROWS);
	/* on an SM, for which those of super blocks have too many registers, and others most often
	 * more shared memory than an H100 has for three */
	enum { BLOCKS = TYPE == LM_WEIGHT_Q4_0 ? 3 : 2 };

	return p->rows <= 32 || tiles < (uint64_t)cuda_of(d)->sm_count ?
		launch<TYPE, 2, 1, 4, 3>(d, p) :
		launch<TYPE, 4, 2, 2, BLOCKS>(d, p);
}

int cuda_lm_project_tensor(struct dev *d, const struct lm_project *p)
{
	if (!cuda_tensor(d) || !p->k || p->k >= (uint64_t)1 << 30 || (uintptr_t)p->w % 16)
		return 1;
	switch (p->type) {
	case LM_WEIGHT_Q8_0:
		return start<LM_WEIGHT_Q8_0>(d, p);
	case LM_WEIGHT_Q4_0:
		return start<LM_WEIGHT_Q4_0>(d, p);
	case LM_WEIGHT_Q4_1:
		return start<LM_WEIGHT_Q4_1>(d, p);
	case LM_WEIGHT_Q5_0:
		return start<LM_WEIGHT_Q5_0>(d, p);
	case LM_WEIGHT_Q5_1:
		return start<LM_WEIGHT_Q5_1>(d, p);
	case LM_WEIGHT_Q4_K:
		return start<LM_WEIGHT_Q4_K>(d, p);
	case LM_WEIGHT_Q5_K:
		return start<LM_WEIGHT_Q5_K>(d, p);
	default:
		return start<LM_WEIGHT_Q6_K>(d, p);
	}
}
