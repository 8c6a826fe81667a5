/* project_bf16.cu - linear layers with bf16 weights on tensor cores, for few rows. An activation is
 * rounded to bf16: 16 rows of x are the left operand, eight rows of W the right one. Each output is
 * one sum of one tensor core, 16 neighbours along k an instruction, from the first to the last;
 * tiles for many rows (project_bf16_tiles.cu, project_sm90a.cu) give the same numbers to the same
 * instructions in the same order, so that the bits of a row do not depend on which it was (where
 * wgmma has others it makes all: project_ask.cu). Besides tensor cores there are additions alone:
 * contraction (-fmad) changes nothing, but the norm and SwiGLU of layers that are made together, as
 * it does where these are kernels of their own.
 *
 * What bounds it is W, which is read once. A warp makes eight outputs, and what it takes of W
 * passes through a ring of its own in shared memory, so that memory is never idle while a step is
 * multiplied: 8 KB of a warp are on their way, 64 of a multiprocessor that has two blocks, where
 * the latency needs about 24. x lies in shared memory as bf16: loads of it from the level-2 cache,
 * step by step, would take longer than W. */
#include "kernels/lm/cuda/project_bf16.cuh"

#define THREADS 128
#define WARPS   (THREADS / 32)
#define OUTPUTS (8 * WARPS) /* of a block */
#define STEP    64          /* along k: 128 bytes of each of a warp's rows of W */
#define SLOTS   8           /* steps of a ring, of which one is multiplied */
#define FEW     32          /* rows of a block at most */
/* numbers of x that a block has in shared memory at a time */
#define X_NUMBERS (32 << 10)
/* between its rows: half a warp reads 32 bytes of each of four rows, from all banks */
#define X_GAP 16

/* What the threads of a block share. */
struct few_room {
	uint4 rings[WARPS][SLOTS * STEP];
	uint16_t x[X_NUMBERS + FEW * X_GAP];
	float rms[8];
};

#if CUDA_TENSOR
/* x as it is. AT_ONCE: so many loads of a thread are on their way, 32 KB of a block: with 8 KB
 * eight rows of 4,096 numbers would take 10 us, in which the ring's weights are long there. */
struct plain_rows {
	enum { AT_ONCE = 16 };
	const float *x;
	uint64_t ld;

	__device__ __forceinline__ float4 four(unsigned r, unsigned k) const
	{
		return bf16_load_four(x + r * ld + k);
	}
};

/* x times its factor and the norm's weights, as lm_norm has it. */
struct normed_rows {
	enum { AT_ONCE = 8 }; /* and as many of weights */
	const float *x, *w, *rms;
	uint64_t ld;

	__device__ __forceinline__ float4 four(unsigned r, unsigned k) const
	{
		return bf16_normed(bf16_load_four(x + r * ld + k), rms[r],
			bf16_load_four(w + k));
	}
};

/* A warp's eight rows of W on their way through its ring. A lane copies 16 bytes of two of them in
 * a step; eight lanes one row's. The chunk c of row r goes to c ^ r % 4 * 2, so that half a warp
 * reads 32 bytes of each of four rows from all banks. */
struct weight_ring {
	uint4 *at;
	const uint16_t *w[2];
	unsigned end;

	/* Of rows that do not exist the last one is read, and not stored. */
	__device__ __forceinline__ void begin(uint4 *ring, const struct lm_project &p,
		uint64_t j0)
	{
		unsigned lane = threadIdx.x % 32, row = lane / 8, chunk = lane % 8;

		at = ring;
		end = (unsigned)p.k;
		UNROLL
		for (unsigned i = 0; i < 2; i++) {
			uint64_t j = j0 + row + 4 * i;

			w[i] = (const uint16_t *)p.w + (j < p.n ? j : p.n - 1) * p.k +
				chunk * 8;
		}
		UNROLL
		for (unsigned s = 0; s < SLOTS - 1; s++)
			fetch(s * STEP);
	}

	/* Asks for the step from k on, with zeros behind the end. */
	__device__ __forceinline__ void fetch(unsigned k)
	{
		unsigned lane = threadIdx.x % 32, row = lane / 8, chunk = lane % 8;
		unsigned bytes = k + chunk * 8 < end ? 16 : 0;
		uint4 *to = at + k / STEP % SLOTS * STEP + row * 8 + (chunk ^ row * 2);

		UNROLL
		for (unsigned i = 0; i < 2 && k < end; i++)
			tensor_copy(to + 32 * i, w[i] + (bytes ? k : 0), bytes);
		tensor_commit();
	}

	/* What this lane has of the right operand of 16 along k: four neighbours of row lane /
	 * 4. */
	__device__ __forceinline__ uint2 right(unsigned k, unsigned i) const
	{
		unsigned g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
		const uint4 *slot = at + k / STEP % SLOTS * STEP;

		return ((const uint2 *)(const void *)(slot + g * 8 +
			((i ^ g % 4) * 2 + t / 2)))[t % 2];
	}
};

/* The numbers of x that a block has in shared memory: `rows` rows, of which each lane reads those
 * of its operands, of `piece` numbers from `first` on. */
struct shared_rows {
	enum : unsigned { NOWHERE = 0xffffffff };
	uint16_t *at;
	unsigned rows, piece, first;

	__device__ __forceinline__ shared_rows(few_room *s, unsigned n)
	    : at(s->x), rows(n), piece(X_NUMBERS / n / STEP * STEP), first(0xffffffff)
	{
	}

	/* Has them there, from k on, with zeros behind the end; by all threads of a block. */
	template <class X>
	__device__ __forceinline__ void fill(const X &x, unsigned k, unsigned end)
	{
		unsigned count = end - k < piece ? end - k : piece;
		/* of four numbers each, of a row */
		unsigned quads = (count + STEP - 1) / STEP * (STEP / 4);
		unsigned r = 0, c = threadIdx.x;

		if (first == k)
			return;
		first = k;
		__syncthreads(); /* until those before are used */
		UNROLL_1
		for (unsigned n = threadIdx.x; n < rows * quads;
			n += X::AT_ONCE * THREADS) {
			float4 v[X::AT_ONCE];
			unsigned to[X::AT_ONCE];

			UNROLL
			for (unsigned i = 0; i < X::AT_ONCE; i++) {
				while (c >= quads)
					c -= quads, r++;
				v[i] = make_float4(0, 0, 0, 0);
				to[i] = r < rows ? r * (piece + X_GAP) + c * 4 : NOWHERE;
				if (r < rows && c * 4 < count)
					v[i] = x.four(r, k + c * 4);
				c += THREADS;
			}
			UNROLL
			for (unsigned i = 0; i < X::AT_ONCE; i++)
				if (to[i] != NOWHERE)
					*(uint2 *)(void *)(at + to[i]) = bf16_four(v[i]);
		}
		__syncthreads();
	}

	__device__ __forceinline__ uint2 left(unsigned r, unsigned k) const
	{
		r = r < rows ? r : rows - 1;
		return *(const uint2 *)(const void *)(at + r * (piece + X_GAP) +
			(k - first) + threadIdx.x % 4 * 4);
	}
};

/* Asks for what follows what the rings have asked for at k, of rows j0 to j0 + OUTPUTS - 1: while a
 * block finds its x nothing else would. */
__device__ __forceinline__ void ask_ahead(const struct lm_project &p, uint64_t j0,
	unsigned k)
{
	enum { LINES = 16, LINE = 64 };

	k += (SLOTS - 1) * STEP;
	for (unsigned i = threadIdx.x; i < OUTPUTS * LINES; i += THREADS) {
		uint64_t j = j0 + i / LINES, at = k + i % LINES * LINE;

		if (j < p.n && at < p.k)
			tensor_ask((const uint16_t *)p.w + j * p.k + at);
	}
}

/* sum = the products of a block's rows of x with the eight rows of W from j0 on of each warp: of 16
 * rows r a lane has in sum[r / 16] those of mma.m16n8k16. */
template <int EIGHTS, class X>
__device__ __forceinline__ void multiply_rows(float (&sum)[(EIGHTS + 1) / 2][4],
	few_room *s, shared_rows &rows, const struct lm_project &p, uint64_t j0,
	const X &x)
{
	enum { GROUPS = (EIGHTS + 1) / 2 };
	unsigned g = threadIdx.x % 32 / 4, all = (unsigned)p.k;
	weight_ring ring;

	ring.begin(s->rings[threadIdx.x / 32], p, j0 + threadIdx.x / 32 * 8);
	UNROLL
	for (unsigned i = 0; i < GROUPS * 4; i++)
		sum[i / 4][i % 4] = 0;
	for (unsigned k0 = 0; k0 < all; k0 += rows.piece) {
		unsigned end = all - k0 < rows.piece ? all : k0 + rows.piece;

		if (k0)
			ask_ahead(p, j0, k0);
		rows.fill(x, k0, all);
		UNROLL_STEPS
		for (unsigned k = k0; k < end; k += STEP) {
			tensor_wait<SLOTS - 2>();
			/* the copies of other lanes, and their reads of the step before */
			__syncwarp();
			ring.fetch(k + (SLOTS - 1) * STEP);
			UNROLL
			for (unsigned i = 0; i < STEP / 16; i++) {
				uint2 b = ring.right(k, i);

				UNROLL
				for (unsigned n = 0; n < GROUPS; n++) {
					uint2 upper = rows.left(16 * n + g, k + 16 * i);
					uint2 lower = 2 * n + 1 < EIGHTS ?
						rows.left(16 * n + 8 + g, k + 16 * i) :
						make_uint2(0, 0);
					unsigned a[4] = { upper.x, lower.x, upper.y,
						lower.y };

					tensor_mma_bf16(sum[n], a, b.x, b.y);
				}
			}
		}
	}
	__syncwarp(); /* until the last step is read */
}

#endif

/* A block makes OUTPUTS outputs of 8 EIGHTS rows. */
template <int EIGHTS>
__global__ void __launch_bounds__(THREADS, 2)
	project_bf16_rows_kernel(struct lm_project p)
{
#if CUDA_TENSOR
	enum { ROWS = 8 * EIGHTS };
	LARGE_SHARED(uint4, memory, sizeof(few_room) / 16);
	few_room *s = (few_room *)(void *)memory;
	uint64_t down = (p.rows + ROWS - 1) / ROWS;
	uint64_t tasks = (p.n + OUTPUTS - 1) / OUTPUTS * down;
	unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;

	for (uint64_t task = blockIdx.x; task < tasks; task += gridDim.x) {
		uint64_t j0 = task / down * OUTPUTS, r0 = task % down * ROWS;
		unsigned count = p.rows - r0 < ROWS ? (unsigned)(p.rows - r0) : ROWS;
		shared_rows rows(s, count);
		plain_rows x = { p.x + r0 * p.ldx, p.ldx };
		float sum[(EIGHTS + 1) / 2][4];

		ask_ahead(p, j0, 0);
		multiply_rows<EIGHTS>(sum, s, rows, p, j0, x);
		UNROLL
		for (unsigned e = 0; e < sizeof sum / 4; e++) {
			uint64_t r = e / 4 * 16 + e / 2 % 2 * 8 + lane / 4;
			uint64_t j = j0 + warp * 8 + lane % 4 * 2 + e % 2;

			if (r < count && j < p.n)
				lm_project_store(p, r0 + r, j, sum[e / 4][e % 4]);
		}
	}
#else
	(void)p;
#endif
}

/* Layers that take the norm of the same few rows. A block makes OUTPUTS outputs of one of them, or
 * of both g and u; it finds the norm's factors itself while its first weights are on their way,
 * which one kernel after the other would leave the memory idle for. */
__global__ void __launch_bounds__(THREADS, 2)
	project_bf16_group_kernel(const GRID_CONSTANT struct lm_project_group q)
{
#if CUDA_TENSOR
	LARGE_SHARED(uint4, memory, sizeof(few_room) / 16);
	few_room *s = (few_room *)(void *)memory;
	unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	unsigned count = (unsigned)q.p[0].rows, parts = q.gated ? 2 : 1;
	uint64_t tasks = 0;
	shared_rows rows(s, count);
	normed_rows x = { q.p[0].x, q.norm, s->rms, q.p[0].ldx };

	for (unsigned i = 0; i < (q.gated ? 1 : q.n); i++)
		tasks += (q.p[i].n + OUTPUTS - 1) / OUTPUTS;
	for (uint64_t task = blockIdx.x; task < tasks; task += gridDim.x) {
		uint64_t left = task, r = lane / 4;
		unsigned which = 0;
		float before[2] = {};

		while (left >= (q.p[which].n + OUTPUTS - 1) / OUTPUTS)
			left -= (q.p[which++].n + OUTPUTS - 1) / OUTPUTS;
		for (unsigned i = 0; i < parts; i++)
			ask_ahead(q.p[which + i], left * OUTPUTS, 0);
		for (unsigned i = warp; i < count && task == blockIdx.x; i += WARPS) {
			float v = lm_row_rms(q.p[0].x + i * q.p[0].ldx, q.p[0].k, q.eps,
				true);

			if (lane == 0)
				s->rms[i] = v;
		}
		UNROLL_1
		for (unsigned i = 0; i < parts; i++) {
			const struct lm_project &p = q.p[which + i];
			float sum[1][4];

			multiply_rows<1>(sum, s, rows, p, left * OUTPUTS, x);
			UNROLL
			for (unsigned e = 0; e < 2; e++) {
				uint64_t j = left * OUTPUTS + warp * 8 + lane % 4 * 2 + e;

				if (r >= count || j >= p.n)
					continue;
				if (!q.gated)
					lm_project_store(p, r, j, sum[0][e]);
				else if (p.bias)
					sum[0][e] += p.bias[j];
				if (q.gated && i)
					q.gated[r * p.n + j] = lm_gated(before[e],
						sum[0][e], q.gelu);
				before[e] = sum[0][e];
			}
		}
	}
#else
	(void)q;
#endif
}

/* --- on the host --------------------------------------------------------------------------- */

template <int EIGHTS> static int launch_rows(struct dev *d, const struct lm_project *p)
{
	auto kernel = project_bf16_rows_kernel<EIGHTS>;
	uint64_t tasks = (p->n + OUTPUTS - 1) / OUTPUTS *
		((p->rows + 8 * EIGHTS - 1) / (8 * EIGHTS));

	CUDA_TRY(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
		sizeof(few_room)));
	LAUNCH_LARGE(kernel, cuda_grid(d, tasks, 1), THREADS, sizeof(few_room),
		cuda_of(d)->stream, *p);
	return lm_started(d);
}

int cuda_lm_project_bf16_few(struct dev *d, const struct lm_project *p)
{
	if (p->rows <= 8)
		return launch_rows<1>(d, p);
	return p->rows <= 16 ? launch_rows<2>(d, p) : launch_rows<4>(d, p);
}

int cuda_lm_project_bf16(struct dev *d, const struct lm_project *p)
{
	int rc = 1;

	if (!cuda_tensor(d) || p->k < BF16_K_MIN || p->k % 8 != 0 || p->k >= BF16_K_END)
		return 1;
	if (cuda_lm_wide(d, p->rows))
		rc = cuda_lm_project_wide(d, p);
	if (rc > 0 && p->rows > 16)
		rc = cuda_lm_project_bf16_tiles(d, p);
	return rc > 0 ? cuda_lm_project_bf16_few(d, p) : rc;
}

int cuda_lm_project_bf16_group(struct dev *d, const struct lm_project_group *g)
{
	const struct lm_project *p = g->p;
	uint64_t tasks = 0;

	if (!cuda_tensor(d) || p->k < BF16_K_MIN || p->k >= BF16_K_END || !p->rows ||
		p->ldx != p->k || !lm_wide(p->k, p->x, g->norm, NULL, NULL))
		return 1;
	for (uint32_t i = 0; i < g->n; i++) {
		if (p[i].type != LM_WEIGHT_BF16 || !p[i].n || (uintptr_t)p[i].w % 16)
			return 1;
		tasks += g->gated && i ? 0 : (p[i].n + OUTPUTS - 1) / OUTPUTS;
	}
	if (cuda_lm_wide(d, p->rows))
		return cuda_lm_project_wide_group(d, g, WIDE_SHAPES);
	if (p->rows > 8)
		return 1;
	CUDA_TRY(cudaFuncSetAttribute(project_bf16_group_kernel,
		cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(few_room)));
	LAUNCH_LARGE(project_bf16_group_kernel, cuda_grid(d, tasks, 1), THREADS,
		sizeof(few_room), cuda_of(d)->stream, *g);
	return lm_started(d);
}
