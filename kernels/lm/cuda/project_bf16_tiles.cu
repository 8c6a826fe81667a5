/* project_bf16_tiles.cu - linear layers with bf16 weights on tensor cores, for many rows, by
 * mma.sync: tiles of ROWS x OUTPUTS, whose steps along k are in shared memory or on their way. The
 * same numbers in the same instructions as in project_bf16.cu; for GPUs without wgmma
 * (project_sm90a.cu). Besides tensor cores there are additions alone: contraction (-fmad) changes
 * nothing. */
#include "kernels/lm/cuda/project_bf16.cuh"

#define THREADS      256
#define STEP         32 /* along k */
#define OUTPUTS      128
#define ROWS         64
#define STAGES       4
#define FEW          32  /* rows up to which they are made a few at a time */
#define MANY         128 /* rows from which tiles are better even where they are few */
#define TILES_WANTED 96

/* What 16 rows of x are for 32 of k in the scratch memory and in a stage: what each lane takes of
 * them for the first instruction and for the second. */
#define GROUP_CHUNKS 64

/* Writes all groups of 16 rows, with zeros where there is no row or no k. */
__global__ void round_kernel(struct lm_project p, uint4 *to)
{
	uint64_t steps = (p.k + STEP - 1) / STEP, groups = (p.rows + 15) / 16;

	for (uint64_t n = GRID_FIRST; n < groups * steps * GROUP_CHUNKS;
		n += GRID_STRIDE) {
		unsigned lane = n % 32, half = n / 32 % 2;
		uint64_t r = n / GROUP_CHUNKS / steps * 16 + lane / 4;
		uint64_t k = n / GROUP_CHUNKS % steps * STEP + 16 * half + lane % 4 * 4;
		uint2 upper = make_uint2(0, 0), lower = make_uint2(0, 0);

		if (k < p.k && r < p.rows)
			upper = bf16_four(bf16_load_four(p.x + r * p.ldx + k));
		if (k < p.k && r + 8 < p.rows)
			lower = bf16_four(bf16_load_four(p.x + (r + 8) * p.ldx + k));
		to[n] = make_uint4(upper.x, lower.x, upper.y, lower.y);
	}
}

#if CUDA_TENSOR
/* What a thread copies of each step of a tile: a chunk of 16 bytes of two rows of W, and one of x.
 * Of W the halves of a row's 64 bytes change places in two of four rows: half a warp reads 32 bytes
 * of each of four rows from all banks. */
struct tile_source {
	const uint16_t *w;
	const uint4 *x;
	uint64_t k; /* of its chunk in the next step */
	bool w_there[2], x_there;

	__device__ __forceinline__ void copy(const struct lm_project &p, uint4 *w_to,
		uint4 *x_to)
	{
		unsigned bytes = k < p.k ? 16 : 0;
		unsigned at = threadIdx.x ^ threadIdx.x / 8 % 2 * 2;

		tensor_copy(w_to + at, w_there[0] && bytes ? w + k : w,
			w_there[0] ? bytes : 0);
		tensor_copy(w_to + THREADS + at,
			w_there[1] && bytes ? w + 64 * p.k + k : w,
			w_there[1] ? bytes : 0);
		tensor_copy(x_to + threadIdx.x, x, x_there ? 16 : 0);
		k += STEP;
		x += x_there ? GROUP_CHUNKS : 0;
	}
};

/* Adds a step to a warp's 32 rows x 32 outputs. row: this lane's of the first eight outputs. */
__device__ __forceinline__ void multiply_step(float (&sum)[2][4][4], const uint4 *w,
	const uint4 *x, unsigned row)
{
	unsigned lane = threadIdx.x % 32;

	UNROLL
	for (unsigned h = 0; h < 2; h++) {
		unsigned a[2][4];

		UNROLL
		for (int m = 0; m < 2; m++) {
			uint4 v = x[m * GROUP_CHUNKS + h * 32 + lane];

			a[m][0] = v.x, a[m][1] = v.y, a[m][2] = v.z, a[m][3] = v.w;
		}
		UNROLL
		for (unsigned n = 0; n < 4; n++) {
			const uint4 *chunk = w + (row + 8 * n) * 4 +
				((2 * h + lane % 4 / 2) ^ row / 2 % 2 * 2);
			uint2 b = ((const uint2 *)(const void *)chunk)[lane % 2];

			UNROLL
			for (int m = 0; m < 2; m++)
				tensor_mma_bf16(sum[m][n], a[m], b.x, b.y);
		}
	}
}
#endif

/* A block makes tiles of ROWS x OUTPUTS, a warp 32 x 32 of them. */
__global__ void __launch_bounds__(THREADS, 2)
	project_bf16_tile_kernel(struct lm_project p, const uint4 *rounded)
{
#if CUDA_TENSOR
	SHARED(uint4, w_shared, STAGES * OUTPUTS * 4);
	SHARED(uint4, x_shared, STAGES * ROWS * 4);
	unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	unsigned output = warp % 4 * 32, row = warp / 4 * 32, i = threadIdx.x / 4;
	uint64_t down = (p.rows + ROWS - 1) / ROWS;
	uint64_t tasks = (p.n + OUTPUTS - 1) / OUTPUTS * down;
	unsigned steps = (unsigned)((p.k + STEP - 1) / STEP);

	for (uint64_t task = blockIdx.x; task < tasks; task += gridDim.x) {
		uint64_t r0 = task % down * ROWS, j0 = task / down * OUTPUTS;
		unsigned group = threadIdx.x / GROUP_CHUNKS; /* of 16 rows */
		bool there = r0 + group * 16 < p.rows;
		tile_source from = { (const uint16_t *)p.w +
				(j0 + i < p.n ? j0 + i : 0) * p.k,
			rounded + (there ? r0 / 16 + group : 0) * steps * GROUP_CHUNKS +
				threadIdx.x % GROUP_CHUNKS,
			threadIdx.x % 4 * 8, { j0 + i < p.n, j0 + 64 + i < p.n }, there };
		float sum[2][4][4] = {};
		unsigned slot = 0, next = STAGES - 1;

		__syncthreads(); /* until the stages of the tile before are used */
		UNROLL
		for (unsigned s = 0; s < STAGES - 1; s++) {
			if (s < steps)
				from.copy(p, w_shared + s * OUTPUTS * 4,
					x_shared + s * ROWS * 4);
			tensor_commit();
		}
		for (unsigned s = 0; s < steps; s++) {
			tensor_wait<STAGES - 2>();
			__syncthreads();
			if (s + STAGES - 1 < steps)
				from.copy(p, w_shared + next * OUTPUTS * 4,
					x_shared + next * ROWS * 4);
			tensor_commit();
			multiply_step(sum, w_shared + slot * OUTPUTS * 4,
				x_shared + slot * ROWS * 4 + row / 16 * GROUP_CHUNKS,
				output + lane / 4);
			slot = slot + 1 == STAGES ? 0 : slot + 1;
			next = next + 1 == STAGES ? 0 : next + 1;
		}
		UNROLL
		for (unsigned e = 0; e < 32; e++) {
			uint64_t r = r0 + row + e / 16 * 16 + e / 2 % 2 * 8 + lane / 4;
			uint64_t j = j0 + output + e / 4 % 4 * 8 + lane % 4 * 2 + e % 2;

			if (r < p.rows && j < p.n)
				lm_project_store(p, r, j, sum[e / 16][e / 4 % 4][e % 4]);
		}
	}
#else
	(void)p, (void)rounded;
#endif
}

/* As many rows at a time as have room in the scratch memory. */
int cuda_lm_project_bf16_tiles(struct dev *d, const struct lm_project *p)
{
	uint64_t steps = (p->k + STEP - 1) / STEP;
	uint64_t most = 2 * LM_SCRATCH_FLOATS / (steps * STEP) / ROWS * ROWS;
	uint64_t outputs = (p->n + OUTPUTS - 1) / OUTPUTS;
	uint4 *rounded = (uint4 *)(void *)cuda_of(d)->lm_scratch;
	cudaStream_t stream = cuda_of(d)->stream;
	struct lm_project part = *p;

	if (!most || p->rows <= FEW ||
		(p->rows <= MANY &&
			outputs * ((p->rows + ROWS - 1) / ROWS) < TILES_WANTED))
		return 1;
	for (uint64_t row = 0; row < p->rows; row += most) {
		uint64_t down;

		part.rows = p->rows - row < most ? p->rows - row : most;
		part.x = p->x + row * p->ldx;
		part.y = p->y + row * p->ldy;
		part.from = p->from ? p->from + row * p->ldy : NULL;
		down = (part.rows + ROWS - 1) / ROWS;
		LAUNCH(round_kernel,
			cuda_grid(d, (part.rows + 15) / 16 * steps * GROUP_CHUNKS,
				THREADS),
			THREADS, stream, part, rounded);
		LAUNCH(project_bf16_tile_kernel, cuda_grid(d, outputs * down, 1), THREADS,
			stream, part, (const uint4 *)rounded);
	}
	return lm_started(d);
}
