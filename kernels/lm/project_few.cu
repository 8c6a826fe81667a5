/* project_few.cu - products of up to eight rows with quantised weights, and layers of one norm, on int8
 * tensor cores: bound by the memory that the weights come from. A warp makes eight outputs of all rows
 * and goes along k; all of x is in shared memory, weights come through a ring of the warp's own, which
 * goes on from one output to the next, so that after x is there no warp waits for another. What a block
 * of 32 adds is exact, and scaled and added in the order of the blocks: the reference's bits. But for the
 * norm and SwiGLU of layers that are made together, contraction (-fmad) changes nothing. */
#include "kernels/lm/project_fragment.cuh"

#define WARPS_MAX 12
#define WARPS_MIN 4 /* they share the work of x, too */
#define ROWS_MAX  8
#define OUTPUTS   8    /* of a warp at a time */
#define ROWS_PAD  4    /* uint2 after a row of codes: four rows are read from different banks */
#define K_END     ((uint64_t)1 << 24)
#define N_END     ((uint64_t)1 << 30)
#define SHARED_MOST (227 << 10) /* that any GPU gives a block */

/* Steps in a warp's ring: where four warps are all that an SM has, as with 4,096 outputs, 32 KB or more
 * are on their way. */
template <int TYPE> struct few_ring {
	enum {
		STAGE = OUTPUTS * eight_blocks<TYPE>::CHUNKS,
		STAGES = STAGE * 16 <= 1408 ? 8 : 6,
		TABLE = eight_blocks<TYPE>::PLANES * EIGHT * OUTPUTS, /* floats */
		WARP_BYTES = STAGES * STAGE * 16 + 2 * TABLE * 4
	};
};

/* Bytes of x: codes, then scales and sums, of whole steps; and the norm's factors. */
HD uint64_t few_x_bytes(uint64_t rows, uint64_t steps)
{
	return rows * ((steps * EIGHT * 4 + ROWS_PAD) * 8 + (steps * EIGHT + 1) * 8) +
		ROWS_MAX * 4;
}

#if CUDA_TENSOR
/* x of all rows in shared memory. The words of a block's codes are in the order 0 4 1 5 ...: a lane reads
 * its two at once. */
struct few_x {
	uint2 *codes;
	float2 *scales;
	float *rms;
	unsigned rows, blocks, padded; /* padded: blocks of whole steps */

	__device__ __forceinline__ few_x(void *at, const struct lm_project &p)
	{
		rows = (unsigned)p.rows;
		blocks = (unsigned)(p.k / LM_WEIGHT_BLOCK);
		padded = (blocks + EIGHT - 1) / EIGHT * EIGHT;
		codes = (uint2 *)at;
		scales = (float2 *)(void *)(codes + rows * (padded * 4 + ROWS_PAD));
		rms = (float *)(void *)(scales + rows * (padded + 1));
	}

	__device__ __forceinline__ uint2 *codes_of(unsigned r, unsigned b) const
	{
		return codes + r * (padded * 4 + ROWS_PAD) + b * 4;
	}

	__device__ __forceinline__ float2 *scale_of(unsigned r, unsigned b) const
	{
		return scales + r * (padded + 1) + b;
	}

	/* From quantised activations. */
	__device__ __forceinline__ void copy(const struct lm_block8 *x8) const
	{
		for (unsigned n = threadIdx.x; n < rows * padded; n += blockDim.x) {
			unsigned r = n / padded, b = n % padded;
			uint4 low = {}, high = {}, rest = {};
			uint2 *to = codes_of(r, b);

			if (b < blocks) {
				const uint4 *from = (const uint4 *)(const void *)(x8 +
					(uint64_t)r * blocks + b);

				low = __ldg(from);
				high = __ldg(from + 1);
				rest = __ldg(from + 2);
			}
			to[0] = make_uint2(low.x, high.x);
			to[1] = make_uint2(low.y, high.y);
			to[2] = make_uint2(low.z, high.z);
			to[3] = make_uint2(low.w, high.w);
			*scale_of(r, b) = make_float2(half_float_of_bits(rest.x),
				half_float_of_bits(rest.y));
		}
	}

	/* From rows of x, whose norm is found and quantised. All threads of the block. */
	__device__ __forceinline__ void norm(const float *x, const float *w,
		float eps) const
	{
		unsigned warp = threadIdx.x / 32, part = threadIdx.x % 8;
		unsigned warps = blockDim.x / 32;

		for (unsigned r = warp; r < rows; r += warps) {
			float v = lm_row_rms(x + (uint64_t)r * blocks * LM_WEIGHT_BLOCK,
				blocks * LM_WEIGHT_BLOCK, eps, true);

			if (threadIdx.x % 32 == 0)
				rms[r] = v;
		}
		__syncthreads();
		UNROLL_4
		for (unsigned first = warp * 4; first < rows * padded;
			first += warps * 4) {
			unsigned n = first + threadIdx.x % 32 / 8;
			unsigned r = n / padded, b = n % padded;
			float v[4] = {};

			if (r < rows && b < blocks) {
				unsigned at = b * LM_WEIGHT_BLOCK + 4 * part;
				float4 from = __ldg((const float4 *)(const void *)(x +
					(uint64_t)r * blocks * LM_WEIGHT_BLOCK + at));
				float4 by = __ldg((const float4 *)(const void *)(w + at));

				v[0] = from.x * rms[r] * by.x;
				v[1] = from.y * rms[r] * by.y;
				v[2] = from.z * rms[r] * by.z;
				v[3] = from.w * rms[r] * by.w;
			}
			quantized_four four(v);

			if (r >= rows)
				continue;
			((unsigned *)(void *)codes_of(r, b))[part % 4 * 2 + part / 4] =
				four.word;
			if (part == 0)
				*scale_of(r, b) = make_float2(four.scale, four.sum);
		}
	}
};

/* Which eight outputs of which layer: a warp's tasks are those of all layers in turn, `parts` of each. */
struct few_task {
	unsigned task, which;
	uint64_t j0;

	__device__ __forceinline__ void set(const struct lm_project_group &q,
		unsigned task_)
	{
		uint64_t left = task_, of;

		task = task_;
		which = 0;
		while (which + 1 < q.n &&
			left >= (of = (q.p[which].n + OUTPUTS - 1) / OUTPUTS)) {
			left -= of;
			which++;
		}
		j0 = left * OUTPUTS;
	}
};

/* What brings weights: it is some steps ahead of what multiplies them. */
template <int TYPE> struct few_ahead {
	typedef few_ring<TYPE> sizes;
	weight_reader<TYPE, OUTPUTS> reader;
	few_task at;
	uint4 *ring;
	/* stage: where the next one begins; steps: 0 when there is nothing more to bring */
	unsigned tasks, apart, part, parts, step, steps, stage;

	__device__ __forceinline__ void turn(const struct lm_project_group &q)
	{
		step = 0;
		if (++part == parts) {
			part = 0;
			at.set(q, at.task + apart);
		}
		if (at.task < tasks)
			reader.aim(q.p[at.which + part], at.j0, steps);
		else
			steps = 0;
	}

	__device__ __forceinline__ void next(const struct lm_project_group &q)
	{
		if (step < steps)
			reader.fetch(ring + stage, step++);
		tensor_commit();
		if (step == steps && steps)
			turn(q);
		stage = stage + sizes::STAGE == sizes::STAGES * sizes::STAGE ?
			0 :
			stage + sizes::STAGE;
	}
};

/* Writes the scales of a step, of which `left` blocks exist. */
template <int TYPE>
__device__ __forceinline__ void write_table(float *table, const unsigned char *row,
	unsigned left)
{
	unsigned g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;

	UNROLL
	for (unsigned i = t; i < EIGHT; i += 4)
		write_scales<TYPE>(table + i * OUTPUTS + g, EIGHT * OUTPUTS, row, i,
			i < left);
}

/* Adds a step of eight blocks. */
template <int TYPE>
__device__ __forceinline__ void add_step(float (&sum)[2], const unsigned char *row,
	const float *table, const uint2 *codes, const float2 *scales)
{
	unsigned t = threadIdx.x % 4;

	UNROLL
	for (unsigned i = 0; i < EIGHT; i++) {
		two_scales<TYPE> w(table + i * OUTPUTS + 2 * t, EIGHT * OUTPUTS);
		uint2 x = codes[i * 4];
		unsigned a[4] = { x.x, 0, x.y, 0 }, b[2];

		read_fragment<TYPE>(b, row, i, t);
		block_sums<TYPE> sums(a, b);

		UNROLL
		for (unsigned e = 0; e < 2; e++)
			sum[e] = sums.added(sum[e], e, w, scales[i]);
	}
}

/* What multiplies: where it is in the ring, and this lane's row of x. */
template <int TYPE> struct few_sums {
	typedef few_ring<TYPE> sizes;
	const unsigned char *ring; /* of the lane's output */
	float *table;              /* of a step; of the next */
	const uint2 *codes;
	const float2 *scales;
	unsigned stage, blocks, steps; /* stage: in bytes */

	/* Adds up outputs j0 .. j0 + 7 of p. A step's scales are written a step before, so that
	 * nothing waits for them. */
	__device__ __forceinline__ void make(float (&sum)[2], const struct lm_project &p,
		uint64_t j0, few_ahead<TYPE> &ahead, const struct lm_project_group &q)
	{
		enum { STAGE = sizes::STAGE * 16 };
		unsigned head = head_of<TYPE>(p, j0 + threadIdx.x % 32 / 4);

		tensor_wait<sizes::STAGES - 2>();
		__syncwarp();
		write_table<TYPE>(table, ring + stage + head_at<TYPE>(head, 0), blocks);
		UNROLL_1
		for (unsigned s = 0; s < steps; s++) {
			const unsigned char *row = ring + stage + head_at<TYPE>(head, s);

			tensor_wait<sizes::STAGES - 3>();
			/* of the stage that is filled now nobody reads any more, nor of the
			 * table that is written */
			__syncwarp();
			ahead.next(q);
			stage = stage + STAGE == sizes::STAGES * STAGE ? 0 :
									 stage + STAGE;
			if (s + 1 < steps)
				write_table<TYPE>(table + (s + 1) % 2 * sizes::TABLE,
					ring + stage + head_at<TYPE>(head, s + 1),
					blocks - (s + 1) * EIGHT);
			add_step<TYPE>(sum, row, table + s % 2 * sizes::TABLE,
				codes + s * EIGHT * 4, scales + s * EIGHT);
		}
	}
};

/* Stores outputs j0 + 2 t and the next of row g; of g and u together only what SwiGLU makes of them. */
__device__ __forceinline__ void few_store(const struct lm_project_group &q,
	const few_task &at, unsigned part, const float (&sum)[2], float (&gate)[2])
{
	const struct lm_project &p = q.p[at.which + part];
	uint64_t r = threadIdx.x % 32 / 4;

	UNROLL
	for (unsigned e = 0; e < 2; e++) {
		uint64_t j = at.j0 + threadIdx.x % 4 * 2 + e;
		float y = sum[e];

		if (r >= p.rows || j >= p.n)
			continue;
		if (!q.gated) {
			lm_project_store(p, r, j, y);
			continue;
		}
		if (p.bias)
			y += p.bias[j];
		if (part)
			q.gated[r * p.n + j] = lm_gated(gate[e], y, q.gelu);
		gate[e] = y;
	}
}
#endif

/* Blocks of a few warps, one block on each SM. */
template <int TYPE>
__global__ void __launch_bounds__(32 * WARPS_MAX, 1)
	project_few_kernel(const GRID_CONSTANT struct lm_project_group q, unsigned tasks)
{
#if CUDA_TENSOR
	typedef few_ring<TYPE> sizes;
	LARGE_SHARED(uint4, memory, SHARED_MOST / 16);
	unsigned warp = threadIdx.x / 32, warps = blockDim.x / 32;
	unsigned g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
	uint4 *ring = memory + warp * sizes::STAGES * sizes::STAGE;
	float *tables =
		(float *)(void *)(memory + warps * sizes::STAGES * sizes::STAGE);
	few_x x(tables + warps * 2 * sizes::TABLE, q.p[0]);
	few_ahead<TYPE> ahead = {};
	few_sums<TYPE> sums;
	few_task now;

	ahead.ring = ring;
	ahead.tasks = tasks;
	ahead.apart = gridDim.x * warps;
	ahead.parts = q.gated ? 2 : 1;
	sums.steps = x.padded / EIGHT;
	now.set(q, blockIdx.x + gridDim.x * warp);
	ahead.at = now;
	if (now.task < tasks) {
		ahead.steps = sums.steps;
		ahead.reader.aim(q.p[now.which], now.j0, sums.steps);
	}
	/* the first weights are on their way while x is made */
	UNROLL_1
	for (unsigned s = 0; s + 1 < sizes::STAGES; s++)
		ahead.next(q);
	if (q.norm)
		x.norm(q.p[0].x, q.norm, q.eps);
	else
		x.copy(q.p[0].x8);
	__syncthreads();
	sums.ring = (const unsigned char *)(const void *)(ring +
		g * eight_blocks<TYPE>::CHUNKS);
	sums.table = tables + warp * 2 * sizes::TABLE;
	g = g < x.rows ? g : x.rows - 1; /* rows that do not exist are not stored */
	sums.codes = x.codes_of(g, 0) + t;
	sums.scales = x.scale_of(g, 0);
	sums.blocks = x.blocks;
	sums.stage = 0;
	for (; now.task < tasks; now.set(q, now.task + ahead.apart)) {
		float gate[2] = {};

		UNROLL_1
		for (unsigned part = 0; part < ahead.parts; part++) {
			float sum[2] = {};

			sums.make(sum, q.p[now.which + part], now.j0, ahead, q);
			few_store(q, now, part, sum, gate);
		}
	}
#else
	(void)q, (void)tasks;
#endif
}

/* Warps of a block for so many tasks, or 0 where there is no room for enough of them. */
static unsigned few_warps(const struct cuda *c, uint64_t tasks, uint64_t warp_bytes,
	uint64_t x_bytes)
{
	uint64_t wanted = (tasks + (uint64_t)c->sm_count - 1) / (uint64_t)c->sm_count;
	uint64_t all = (uint64_t)c->shared_bytes, room = all > x_bytes ? all - x_bytes : 0;

	wanted = wanted < WARPS_MIN ? WARPS_MIN : wanted > WARPS_MAX ? WARPS_MAX : wanted;
	if (wanted * warp_bytes > room)
		wanted = room / warp_bytes;
	return wanted < WARPS_MIN ? 0 : (unsigned)wanted;
}

template <int TYPE> static int launch(struct dev *d, const struct lm_project_group *q)
{
	auto kernel = project_few_kernel<TYPE>;
	const struct cuda *c = cuda_of(d);
	uint64_t steps = (q->p[0].k / LM_WEIGHT_BLOCK + EIGHT - 1) / EIGHT;
	uint64_t x_bytes = few_x_bytes(q->p[0].rows, steps), tasks = 0, bytes;
	unsigned warps, grid;

	for (uint32_t i = 0; i < (q->gated ? 1 : q->n); i++)
		tasks += (q->p[i].n + OUTPUTS - 1) / OUTPUTS;
	warps = few_warps(c, tasks, few_ring<TYPE>::WARP_BYTES, x_bytes);
	if (!warps)
		return 1;
	grid = (unsigned)(tasks < (uint64_t)c->sm_count ? tasks : (uint64_t)c->sm_count);
	bytes = warps * few_ring<TYPE>::WARP_BYTES + x_bytes;
	CUDA_TRY(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
		(int)bytes));
	LAUNCH_LARGE(kernel, grid, 32 * warps, bytes, cuda_of(d)->stream, *q,
		(unsigned)tasks);
	CUDA_TRY(cudaGetLastError());
	return 0;
}

static int start(struct dev *d, const struct lm_project_group *q)
{
	switch (q->p[0].type) {
	case LM_WEIGHT_Q8_0:
		return launch<LM_WEIGHT_Q8_0>(d, q);
	case LM_WEIGHT_Q4_0:
		return launch<LM_WEIGHT_Q4_0>(d, q);
	case LM_WEIGHT_Q4_1:
		return launch<LM_WEIGHT_Q4_1>(d, q);
	case LM_WEIGHT_Q5_0:
		return launch<LM_WEIGHT_Q5_0>(d, q);
	case LM_WEIGHT_Q5_1:
		return launch<LM_WEIGHT_Q5_1>(d, q);
	case LM_WEIGHT_Q4_K:
		return launch<LM_WEIGHT_Q4_K>(d, q);
	case LM_WEIGHT_Q5_K:
		return launch<LM_WEIGHT_Q5_K>(d, q);
	default:
		return launch<LM_WEIGHT_Q6_K>(d, q);
	}
}

static bool few_takes(struct dev *d, const struct lm_project *p)
{
	return cuda_tensor(d) && lm_weight_is_quantized(p->type) && p->rows &&
		p->rows <= ROWS_MAX && p->n && p->n < N_END && p->k && p->k < K_END &&
		(uintptr_t)p->w % 16 == 0;
}

int cuda_lm_project_few(struct dev *d, const struct lm_project *p)
{
	struct lm_project_group q = { { *p }, 1 };

	return few_takes(d, p) ? start(d, &q) : 1;
}

int cuda_lm_project_few_group(struct dev *d, const struct lm_project_group *g)
{
	if (g->p[0].ldx != g->p[0].k || !lm_wide(g->p[0].k, g->p[0].x, g->norm, NULL, NULL))
		return 1;
	for (uint32_t i = 0; i < g->n; i++)
		if (g->p[i].type != g->p[0].type || !few_takes(d, &g->p[i]))
			return 1;
	return start(d, g);
}
