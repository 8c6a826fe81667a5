/* project_few.cu - products of up to eight rows with quantised weights, and layers of one input, on
 * int8 tensor cores: bound by the memory that the weights come from. A warp makes eight outputs of
 * all rows and goes along k; all of x is in shared memory, weights come through a ring of the
 * warp's own, which goes on from one output to the next, so that after x is there no warp waits for
 * another. What a block of 32 adds is exact, and scaled and added in the order of the blocks: the
 * reference's bits. But for the norm and SwiGLU of layers that are made together, contraction
 * (-fmad) changes nothing. */
#include "kernels/lm/cuda/project_fragment.cuh"

#define WARPS_MAX 12
#define WARPS_MIN 4 /* they share the work of x, too */
#define ROWS_MAX  8
#define OUTPUTS   8 /* of a warp at a time */
/* uint4 after a row of codes: two rows are read from different banks */
#define CODES_PAD 4
/* numbers from which one kernel had better quantise them for all blocks */
#define ALONE_MAX   24576
#define K_END       ((uint64_t)1 << 24)
#define N_END       ((uint64_t)1 << 30)
#define SHARED_MOST (227 << 10) /* that any GPU gives a block */

/* Steps in a warp's ring: where four warps are all that an SM has, as with 4,096 outputs, 32 KB or
 * more are on their way. */
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
	uint64_t pairs = steps * (EIGHT / 2);

	return rows * (pairs * 4 + CODES_PAD + pairs + 1) * 16 + ROWS_MAX * 4;
}

#if CUDA_TENSOR
/* x of all rows in shared memory, two blocks of 32 side by side: 16 bytes have words t of both,
 * then words t + 4, so that one load is the left operand of both blocks' products, one in its upper
 * rows and the other in the lower ones. Beside them scale and sum of both. */
struct few_x {
	uint4 *codes;
	float4 *scales;
	float *rms;
	unsigned rows, blocks, pairs; /* pairs: of whole steps */

	__device__ __forceinline__ few_x(void *at, const struct lm_project &p)
	{
		rows = (unsigned)p.rows;
		blocks = (unsigned)(p.k / LM_WEIGHT_BLOCK);
		pairs = (blocks + EIGHT - 1) / EIGHT * (EIGHT / 2);
		codes = (uint4 *)at;
		scales = (float4 *)(void *)(codes + rows * (pairs * 4 + CODES_PAD));
		rms = (float *)(void *)(scales + rows * (pairs + 1));
	}

	__device__ __forceinline__ uint4 *codes_of(unsigned r, unsigned pair) const
	{
		return codes + r * (pairs * 4 + CODES_PAD) + pair * 4;
	}

	__device__ __forceinline__ float4 *scales_of(unsigned r, unsigned pair) const
	{
		return scales + r * (pairs + 1) + pair;
	}

	/* From quantised activations. */
	__device__ __forceinline__ void copy(const struct lm_block8 *x8) const
	{
		for (unsigned n = threadIdx.x; n < rows * pairs; n += blockDim.x) {
			unsigned r = n / pairs, pair = n % pairs;
			uint4 *to = codes_of(r, pair), b[2][3] = {};

			UNROLL
			for (unsigned i = 0; i < 2; i++) {
				const uint4 *from = (const uint4 *)(const void *)(x8 +
					(uint64_t)r * blocks + 2 * pair + i);

				UNROLL
				for (unsigned c = 0; c < 3 && 2 * pair + i < blocks; c++)
					b[i][c] = __ldg(from + c);
			}
			to[0] = make_uint4(b[0][0].x, b[1][0].x, b[0][1].x, b[1][1].x);
			to[1] = make_uint4(b[0][0].y, b[1][0].y, b[0][1].y, b[1][1].y);
			to[2] = make_uint4(b[0][0].z, b[1][0].z, b[0][1].z, b[1][1].z);
			to[3] = make_uint4(b[0][0].w, b[1][0].w, b[0][1].w, b[1][1].w);
			*scales_of(r, pair) = make_float4(half_float_of_bits(b[0][2].x),
				half_float_of_bits(b[0][2].y),
				half_float_of_bits(b[1][2].x),
				half_float_of_bits(b[1][2].y));
		}
	}

	/* As lm_norm has it. */
	__device__ __forceinline__ void multiply(float (&v)[4], float by,
		const float *w) const
	{
		float4 four = __ldg((const float4 *)(const void *)w);

		v[0] = v[0] * by * four.x;
		v[1] = v[1] * by * four.y;
		v[2] = v[2] * by * four.z;
		v[3] = v[3] * by * four.w;
	}

	/* From rows of x, or with w from their norm. All threads of the block. */
	__device__ __forceinline__ void quantize(const float *x, const float *w,
		float eps) const
	{
		unsigned warp = threadIdx.x / 32, part = threadIdx.x % 8;
		unsigned warps = blockDim.x / 32;

		for (unsigned r = warp; r < rows && w; r += warps) {
			float v = lm_row_rms(x + (uint64_t)r * blocks * LM_WEIGHT_BLOCK,
				blocks * LM_WEIGHT_BLOCK, eps, true);

			if (threadIdx.x % 32 == 0)
				rms[r] = v;
		}
		__syncthreads();
		UNROLL_4
		for (unsigned first = warp * 4; first < rows * pairs * 2;
			first += warps * 4) {
			unsigned n = first + threadIdx.x % 32 / 8;
			unsigned r = n / (pairs * 2), b = n % (pairs * 2);
			float v[4] = {};

			if (r < rows && b < blocks) {
				unsigned at = b * LM_WEIGHT_BLOCK + 4 * part;
				float4 from = __ldg((const float4 *)(const void *)(x +
					(uint64_t)r * blocks * LM_WEIGHT_BLOCK + at));

				v[0] = from.x, v[1] = from.y, v[2] = from.z,
				v[3] = from.w;
				if (w)
					multiply(v, rms[r], w + at);
			}
			quantized_four four(v);

			if (r >= rows)
				continue;
			((unsigned *)(void *)(codes_of(r, b / 2) +
				part % 4))[part / 4 * 2 + b % 2] = four.word;
			if (part == 0)
				((float2 *)(void *)scales_of(r,
					b / 2))[b % 2] = make_float2(four.scale,
					four.sum);
		}
	}
};

/* Which eight outputs of which layer: a warp's tasks are those of all layers in turn, `parts` of
 * each. */
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
	/* stage: where the next one begins; steps: 0, as step, when there is nothing more to
	 * bring */
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

	/* Starts the copies of a step, if there is one. */
	template <bool INSIDE> __device__ __forceinline__ void next()
	{
		if (INSIDE || step < steps)
			reader.template fetch<INSIDE>(ring + stage, step++);
		tensor_commit();
		stage = stage + sizes::STAGE == sizes::STAGES * sizes::STAGE ?
			0 :
			stage + sizes::STAGE;
	}
};

/* Writes the scales of a step, of which `left` blocks exist: of two blocks and two outputs side by
 * side. */
template <int TYPE>
__device__ __forceinline__ void write_table(float *table, const unsigned char *row,
	unsigned left)
{
	unsigned g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
	float *to = table + g / 2 * 4 + g % 2;

	UNROLL
	for (unsigned i = t; i < EIGHT; i += 4)
		write_scales<TYPE>(to + i / 2 * 16 + i % 2 * 2, EIGHT * OUTPUTS, row, i,
			i < left);
}

/* Adds a step of eight blocks, two by two. */
template <int TYPE>
__device__ __forceinline__ void add_step(float (&sum)[2], const unsigned char *row,
	const float *table, const uint4 *codes, const float4 *scales)
{
	enum { PLANES = eight_blocks<TYPE>::PLANES };
	unsigned t = threadIdx.x % 4;

	UNROLL
	for (unsigned pair = 0; pair < EIGHT / 2; pair++) {
		uint4 x = codes[pair * 4];
		float4 by = scales[pair], w[PLANES];
		unsigned a[4] = { x.x, x.y, x.z, x.w }, b[2];

		UNROLL
		for (unsigned n = 0; n < PLANES; n++)
			w[n] = *(const float4 *)(const void *)(table +
				n * EIGHT * OUTPUTS + pair * 16 + t * 4);
		read_fragment<TYPE>(b, row, 2 * pair, t);
		block_sums<TYPE> first(a, b);

		read_fragment<TYPE>(b, row, 2 * pair + 1, t);
		block_sums<TYPE> second(a, b);

		UNROLL
		for (unsigned e = 0; e < 2; e++) {
			sum[e] = first.added(sum[e], e, two_scales<TYPE>(w, false),
				make_float2(by.x, by.y));
			sum[e] = second.added(sum[e], e + 2, two_scales<TYPE>(w, true),
				make_float2(by.z, by.w));
		}
	}
}

/* What multiplies: where it is in the ring, and this lane's row of x. */
template <int TYPE> struct few_sums {
	typedef few_ring<TYPE> sizes;
	const unsigned char *ring; /* of the lane's output */
	float *table;              /* of a step; of the next */
	const uint4 *codes;
	const float4 *scales;
	unsigned stage, blocks, steps; /* stage: in bytes */

	/* Adds steps s to end - 1, and brings as many. A step's scales are written a step before,
	 * so that nothing waits for them. */
	template <bool INSIDE>
	__device__ __forceinline__ void add(float (&sum)[2], unsigned head, unsigned s,
		unsigned end, few_ahead<TYPE> &ahead)
	{
		enum { STAGE = sizes::STAGE * 16 };

		UNROLL_1
		for (; s < end; s++) {
			const unsigned char *row = ring + stage + head_at<TYPE>(head, s);

			tensor_wait<sizes::STAGES - 3>();
			/* of the stage that is filled now nobody reads any more, nor of the
			 * table that is written */
			__syncwarp();
			ahead.template next<INSIDE>();
			stage = stage + STAGE == sizes::STAGES * STAGE ? 0 :
									 stage + STAGE;
			if (s + 1 < steps)
				write_table<TYPE>(table + (s + 1) % 2 * sizes::TABLE,
					ring + stage + head_at<TYPE>(head, s + 1),
					blocks - (s + 1) * EIGHT);
			add_step<TYPE>(sum, row, table + s % 2 * sizes::TABLE,
				codes + s * (EIGHT / 2) * 4, scales + s * (EIGHT / 2));
		}
	}

	/* Adds up outputs j0 .. j0 + 7 of p. */
	__device__ __forceinline__ void make(float (&sum)[2], const struct lm_project &p,
		uint64_t j0, few_ahead<TYPE> &ahead, const struct lm_project_group &q)
	{
		unsigned head = head_of<TYPE>(p, j0 + threadIdx.x % 32 / 4), end;

		tensor_wait<sizes::STAGES - 2>();
		__syncwarp();
		write_table<TYPE>(table, ring + stage + head_at<TYPE>(head, 0), blocks);
		UNROLL_1
		for (unsigned s = 0; s < steps; s = end) {
			unsigned left = ahead.steps - ahead.step;

			end = left && left < steps - s ? s + left : steps;
			if (left && ahead.reader.inside)
				add<true>(sum, head, s, end, ahead);
			else
				add<false>(sum, head, s, end, ahead);
			if (left && ahead.step == ahead.steps)
				ahead.turn(q);
		}
	}
};

/* Asks for what follows the steps that the ring has asked for, of the eight outputs that a warp
 * begins with: while x is made nothing else would. 64 KB of a block are what comes meanwhile. More
 * would have x wait behind them, and all of a layer's weights, asked for at once, would come before
 * anything is multiplied, and not while. */
template <int TYPE>
__device__ __forceinline__ void ask_outputs(const struct lm_project &p, uint64_t j0,
	unsigned warps)
{
	enum { LINE = 128, LINES = (64 << 10) / (OUTPUTS * LINE) };
	uint64_t bytes = lm_weight_row_bytes((enum lm_weight)TYPE, p.k);
	uint64_t j = j0 + threadIdx.x % 32 / 4;
	const char *row = (const char *)p.w + j * bytes;

	for (unsigned i = threadIdx.x % 4; i < LINES / warps; i += 4) {
		unsigned at = (few_ring<TYPE>::STAGES - 1) * eight_blocks<TYPE>::BYTES +
			i * LINE;

		if (j < p.n && at < bytes)
			tensor_ask(row + at);
	}
}

/* Stores outputs j0 + 2 t and the next of row g; of g and u together only what SwiGLU makes of
 * them. */
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
	float *tables = (float *)(void *)(memory + warps * sizes::STAGES * sizes::STAGE);
	few_x x(tables + warps * 2 * sizes::TABLE, q.p[0]);
	few_ahead<TYPE> ahead = {};
	few_sums<TYPE> sums;
	few_task now;

	ahead.ring = ring;
	ahead.tasks = tasks;
	ahead.apart = gridDim.x * warps;
	ahead.parts = q.gated ? 2 : 1;
	sums.steps = x.pairs / (EIGHT / 2);
	now.set(q, blockIdx.x + gridDim.x * warp);
	ahead.at = now;
	if (now.task < tasks) {
		ahead.steps = sums.steps;
		ahead.reader.aim(q.p[now.which], now.j0, sums.steps);
	}
	/* the first weights are on their way while x is made */
	UNROLL_1
	for (unsigned s = 0; s + 1 < sizes::STAGES; s++) {
		ahead.template next<false>();
		if (ahead.steps && ahead.step == ahead.steps)
			ahead.turn(q);
	}
	if (!q.p[0].x8 && now.task < tasks)
		ask_outputs<TYPE>(q.p[now.which], now.j0, warps);
	if (q.p[0].x8)
		x.copy(q.p[0].x8);
	else
		x.quantize(q.p[0].x, q.norm, q.eps);
	__syncthreads();
	sums.ring = (const unsigned char *)(const void *)(ring +
		g * eight_blocks<TYPE>::CHUNKS);
	sums.table = tables + warp * 2 * sizes::TABLE;
	g = g < x.rows ? g : x.rows - 1; /* rows that do not exist are not stored */
	sums.codes = x.codes_of(g, 0) + t;
	sums.scales = x.scales_of(g, 0);
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
	uint64_t all = (uint64_t)c->shared_bytes,
		 room = all > x_bytes ? all - x_bytes : 0;

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
	/* all that a block may have, and not what this one needs: of a kernel there is one such
	 * number, and while one launch lowers it, another thread's, or one that is being captured,
	 * may need more */
	CUDA_TRY(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
		c->shared_bytes));
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
	struct lm_project_group q = *g;

	if (q.p[0].ldx != q.p[0].k || !lm_wide(q.p[0].k, q.p[0].x, q.norm, NULL, NULL) ||
		(!q.norm && (q.p[0].x8 || q.p[0].rows * q.p[0].k > ALONE_MAX)))
		return 1;
	for (uint32_t i = 0; i < q.n; i++)
		if (q.p[i].type != q.p[0].type || !few_takes(d, &q.p[i]))
			return 1;
	q.p[0].x8 = NULL; /* x is what is taken */
	return start(d, &q);
}
