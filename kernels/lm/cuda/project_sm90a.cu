/* project_sm90a.cu - linear layers with bf16 weights by wgmma, for more than eight rows. Outputs
 * are the rows of a tile, 64 of a warpgroup, and rows of x its columns, 32 to 256: W goes from
 * memory through the TMA into stages of shared memory, x beside it, and both from there into the
 * tensor cores, without an instruction for any number. A ninth or fifth warp has one thread that
 * loads, and runs ahead into the next tile while the others store; a block stays for all tiles that
 * it makes. Of gate and up a tile takes eight rows in turns, so that a lane has both numbers of
 * which SwiGLU makes one.
 *
 * With 64 rows W bounds it, which is read once, and x for each tile from the level-2 cache; with
 * 256 and more the tensor cores. The sum of an output is that of project_bf16.cu: 16 neighbours
 * along k an instruction, from the first to the last, in one sum (project_ask.cu asks the GPU
 * whether both instructions add the same way). Besides wgmma there are additions alone: contraction
 * (-fmad) changes nothing but norm and SwiGLU, as it does where these are kernels of their own. */
#include "kernels/dev/cuda/wgmma_stages.cuh"
#include "kernels/lm/cuda/project_bf16.cuh"

#include <sysexits.h>

#define DEPTH      WGMMA_WIDE /* along k of a step */
#define GROUP_ROWS 64         /* of W, a warpgroup */
#define GROUP_W    (GROUP_ROWS * WGMMA_ROW)
#define THREADS    256 /* of the kernels that round x */
#define RATHER     256 /* columns of a tile, for many rows */
/* Enough tiles to take larger ones; in the emulation few are. */
#ifdef CUDA_EMU
#define ENOUGH(d, tiles) ((tiles) > 1)
#else
#define ENOUGH(d, tiles) ((tiles) >= (uint64_t)cuda_of(d)->sm_count)
#endif
#define SIZE_END ((uint64_t)1 << 31) /* coordinates have 32 bits */

/* Layers of the same x, bf16 [rows][k]; gated: two, of which SwiGLU is stored. */
struct wide_layers {
	struct lm_project p[LM_GROUP];
	uint32_t n;
	float *gated;
	bool gelu;
};

struct wide_maps {
	wgmma_map x, w[LM_GROUP];
};

/* A tile of COLUMNS rows of x by GROUPS warpgroups. */
template <unsigned COLUMNS, unsigned GROUPS, bool GATED> struct wide_shape {
	enum {
		W_BYTES = GROUPS * GROUP_W,
		STAGE = W_BYTES + COLUMNS * WGMMA_ROW,
		STAGES = 192 * 1024 / STAGE, /* all that a multiprocessor has */
		BYTES = WGMMA_STAGES_BYTES(STAGES, STAGE),
		THREAD_COUNT = GROUPS * WGMMA_GROUP + 32,
		OUTPUTS = GROUPS * GROUP_ROWS / (GATED ? 2 : 1)
	};
};

#if CUDA_WGMMA
/* Which layer's tile a task is, and where it begins. */
struct wide_place {
	unsigned which, row, output;

	template <unsigned COLUMNS, unsigned OUTPUTS>
	__device__ __forceinline__ static wide_place of(const struct wide_layers &q,
		unsigned task)
	{
		unsigned down = ((unsigned)q.p[0].rows + COLUMNS - 1) / COLUMNS;
		wide_place at = { 0, task % down * COLUMNS, task / down };

		while (at.output >= (unsigned)((q.p[at.which].n + OUTPUTS - 1) / OUTPUTS))
			at.output -= (unsigned)((q.p[at.which++].n + OUTPUTS - 1) /
				OUTPUTS);
		at.output *= OUTPUTS;
		return at;
	}
};

/* Loads the steps of a tile; by one thread. */
template <class SHAPE, bool GATED, class S>
__device__ __forceinline__ void load_tile(S &s, const wide_maps &maps,
	const wide_place &at, unsigned k_end)
{
	for (unsigned k = 0; k < k_end; k += DEPTH) {
		unsigned parity = s.phase ^ 1, slot = s.next();
		unsigned char *to = s.at + slot * SHAPE::STAGE;
		uint64_t *full = s.full + slot;

		wgmma_await(s.empty + slot, parity);
		wgmma_expect(full, SHAPE::STAGE);
		if (GATED)
			UNROLL
		for (unsigned i = 0; i < SHAPE::W_BYTES / WGMMA_ATOM; i++)
			wgmma_load(to + i * WGMMA_ATOM, &maps.w[i % 2], k,
				at.output + i / 2 * 8, full);
		else wgmma_load(to, &maps.w[at.which], k, at.output, full);
		wgmma_load(to + SHAPE::W_BYTES, &maps.x, k, at.row, full);
	}
}

/* Sums the steps of a tile, of which there is at least one; by the warpgroups that multiply. While
 * a step is multiplied the one before is given back. */
template <unsigned COLUMNS, class SHAPE, class S>
__device__ __forceinline__ void multiply_tile(float (&sum)[COLUMNS / 2], S &s,
	unsigned steps)
{
	/* of a K-major operand the leading offset is not used, and as if it were 1 */
	uint64_t a = wgmma_operand(s.at + threadIdx.x / WGMMA_GROUP * GROUP_W, 16,
		WGMMA_ATOM);
	uint64_t b = wgmma_operand(s.at + SHAPE::W_BYTES, 16, WGMMA_ATOM);
	bool arrives = threadIdx.x % 32 == 0;
	unsigned before = 0;

	UNROLL
	for (unsigned i = 0; i < COLUMNS / 2; i++)
		sum[i] = 0;
	wgmma_pin(sum);
	UNROLL_1
	for (unsigned step = 0; step < steps; step++) {
		unsigned parity = s.phase, slot = s.next();
		uint64_t stage = (uint64_t)slot * (SHAPE::STAGE >> 4);

		wgmma_await(s.full + slot, parity);
		wgmma_fence();
		UNROLL
		for (unsigned k = 0; k < DEPTH / 16; k++)
			wgmma_multiply<false, false>(sum, a + stage + 2 * k,
				b + stage + 2 * k, true);
		wgmma_commit();
		if (step) {
			wgmma_wait<1>();
			if (arrives)
				wgmma_arrive(s.empty + before);
		}
		before = slot;
	}
	wgmma_wait<0>();
	wgmma_pin(sum);
	if (arrives)
		wgmma_arrive(s.empty + before);
}

/* Stores a thread's outputs j and j + 8 of rows from r on: what is added to many of them is loaded
 * before one is stored, as y may be there, too. */
template <unsigned COLUMNS>
__device__ __forceinline__ void store_outputs(const struct lm_project &p,
	const float (&sum)[COLUMNS / 2], unsigned r, unsigned j)
{
	enum { MANY = 16 };
	float bias[2] = {};

	UNROLL
	for (unsigned h = 0; h < 2 && p.bias; h++)
		bias[h] = j + 8 * h < p.n ? p.bias[j + 8 * h] : 0;
	UNROLL
	for (unsigned first = 0; first < COLUMNS / 2; first += MANY) {
		float from[MANY];

		UNROLL
		for (unsigned i = 0; i < MANY; i++) {
			unsigned row = r + (first + i) / 4 * 8 + i % 2;
			unsigned output = j + i / 2 % 2 * 8;
			bool there = p.from && row < p.rows && output < p.n;

			from[i] = there ? p.from[row * p.ldy + output] : 0;
		}
		UNROLL
		for (unsigned i = 0; i < MANY; i++) {
			unsigned row = r + (first + i) / 4 * 8 + i % 2;
			unsigned output = j + i / 2 % 2 * 8;
			float y = sum[first + i];

			if (p.bias)
				y += bias[i / 2 % 2];
			if (p.from)
				y += from[i];
			if (row < p.rows && output < p.n)
				p.y[row * p.ldy + output] = y;
		}
	}
}

/* The same of SwiGLU: eight rows of g and eight of u are in turns. */
template <unsigned COLUMNS>
__device__ __forceinline__ void store_gated(const struct wide_layers &q,
	const float (&sum)[COLUMNS / 2], unsigned r, unsigned j)
{
	const struct lm_project &g = q.p[0], &u = q.p[1];
	float g_bias = 0, u_bias = 0;

	if (j >= g.n)
		return;
	if (g.bias)
		g_bias = g.bias[j];
	if (u.bias)
		u_bias = u.bias[j];
	UNROLL
	for (unsigned i = 0; i < COLUMNS / 4; i++) {
		unsigned row = r + i / 2 * 8 + i % 2, at = i / 2 * 4 + i % 2;
		float of_g = sum[at], of_u = sum[at + 2];

		if (g.bias)
			of_g += g_bias;
		if (u.bias)
			of_u += u_bias;
		if (row < g.rows)
			q.gated[row * g.n + j] = lm_gated(of_g, of_u, q.gelu);
	}
}
#endif

template <unsigned COLUMNS, unsigned GROUPS, bool GATED>
__global__ void __launch_bounds__(GROUPS *WGMMA_GROUP + 32, 1)
	project_wgmma_kernel(const GRID_CONSTANT wide_maps maps,
		const GRID_CONSTANT struct wide_layers q, unsigned tasks)
{
#if CUDA_WGMMA
	typedef wide_shape<COLUMNS, GROUPS, GATED> shape;
	LARGE_SHARED(uint4, memory, shape::BYTES / 16);
	wgmma_stages<shape::STAGES, shape::STAGE> s;
	unsigned k = (unsigned)q.p[0].k, lane = threadIdx.x % 32;
	bool loads = threadIdx.x >= GROUPS * WGMMA_GROUP;
	/* a warp has 16 of a tile's rows: two times eight outputs, or eight twice */
	unsigned output = threadIdx.x / 32 * (GATED ? 8 : 16) + lane / 4;

	s.begin(memory, GROUPS);
	if (loads && lane)
		return;
	for (unsigned task = blockIdx.x; task < tasks; task += gridDim.x) {
		wide_place at = wide_place::of<COLUMNS, shape::OUTPUTS>(q, task);
		float sum[COLUMNS / 2];

		if (loads) {
			load_tile<shape, GATED>(s, maps, at, k);
			continue;
		}
		multiply_tile<COLUMNS, shape>(sum, s, (k + DEPTH - 1) / DEPTH);
		if (GATED)
			store_gated<COLUMNS>(q, sum, at.row + lane % 4 * 2,
				at.output + output);
		else
			store_outputs<COLUMNS>(q.p[at.which], sum, at.row + lane % 4 * 2,
				at.output + output);
	}
#else
	(void)maps, (void)q, (void)tasks;
#endif
}

/* --- x as bf16 ------------------------------------------------------------------------------ */

/* to[r][i] = x[r][i]: a thread for eight numbers. */
__global__ void round_rows_kernel(struct lm_project p, uint16_t *to)
{
	uint64_t packs = p.k / LM_PACK;

	for (uint64_t n = GRID_FIRST; n < p.rows * packs; n += GRID_STRIDE) {
		float v[LM_PACK];

		lm_load(v, p.x + n / packs * p.ldx + n % packs * LM_PACK, LM_PACK, true);
		lm_store(to + n * LM_PACK, v, LM_PACK, true);
	}
}

/* The same of the rows' norm, as lm_norm's kernel makes it: a warp for each row. */
__global__ void round_normed_kernel(struct lm_project p, const float *w, float eps,
	uint16_t *to)
{
	unsigned lane = threadIdx.x % 32;

	for (uint64_t r = GRID_FIRST / 32; r < p.rows; r += GRID_STRIDE / 32) {
		const float *x = p.x + r * p.ldx;
		float rms = lm_row_rms(x, p.k, eps, true);

		for (uint64_t i = lane * 4; i < p.k; i += 128)
			*(uint2 *)(void *)(to + r * p.k + i) = bf16_four(
				bf16_normed(bf16_load_four(x + i), rms,
					bf16_load_four(w + i)));
	}
}

/* --- on the host --------------------------------------------------------------------------- */

/* Returns 0; 1: the driver makes no map of these sizes, and nothing was started; -1 on error. */
template <unsigned COLUMNS, unsigned GROUPS, bool GATED>
static int launch(struct dev *d, const struct wide_layers *q, const uint16_t *x)
{
	typedef wide_shape<COLUMNS, GROUPS, GATED> shape;
	auto kernel = project_wgmma_kernel<COLUMNS, GROUPS, GATED>;
	uint64_t rows = q->p->rows, k = q->p->k, tasks = 0;
	unsigned sms = (unsigned)cuda_of(d)->sm_count;
	wide_maps maps;

	if (wgmma_map_of(&maps.x, x, rows, k, k, COLUMNS))
		return 1;
	for (unsigned i = 0; i < LM_GROUP; i++) {
		const struct lm_project *p = &q->p[i < q->n ? i : 0];

		if (wgmma_map_of(&maps.w[i], p->w, p->n, k, k,
			    GATED ? 8 : GROUPS * GROUP_ROWS))
			return 1;
	}
	for (unsigned i = 0; i < (GATED ? 1 : q->n); i++)
		tasks += (q->p[i].n + shape::OUTPUTS - 1) / shape::OUTPUTS *
			((rows + COLUMNS - 1) / COLUMNS);
	CUDA_TRY(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
		shape::BYTES));
	LAUNCH_LARGE(kernel, tasks < sms ? (unsigned)tasks : sms, shape::THREAD_COUNT,
		shape::BYTES, cuda_of(d)->stream, maps, *q, (unsigned)tasks);
	return lm_started(d);
}

/* Tiles of two warpgroups, of so many rows of x. */
template <bool GATED>
static uint64_t tiles_of(const struct wide_layers *q, unsigned columns)
{
	enum { OUTPUTS = wide_shape<64, 2, GATED>::OUTPUTS };
	uint64_t tiles = 0;

	for (unsigned i = 0; i < (GATED ? 1 : q->n); i++)
		tiles += (q->p[i].n + OUTPUTS - 1) / OUTPUTS;
	return tiles * ((q->p->rows + columns - 1) / columns);
}

/* The shapes of tiles: rows of x, and warpgroups. */
enum { WIDE_32_1, WIDE_64_1, WIDE_64_2, WIDE_128_2, WIDE_MOST_2 };
static_assert(WIDE_MOST_2 + 1 == WIDE_SHAPES, "all are asked for");

template <bool GATED>
static unsigned best_shape(struct dev *d, const struct wide_layers *q)
{
	uint64_t rows = q->p->rows;

	if (rows <= 32)
		return WIDE_32_1;
	if (rows <= 64)
		return ENOUGH(d, tiles_of<GATED>(q, 64)) ? WIDE_64_2 : WIDE_64_1;
	return rows <= 128 || !ENOUGH(d, tiles_of<GATED>(q, RATHER)) ? WIDE_128_2 :
								       WIDE_MOST_2;
}

/* In tiles of a shape, or of the best where there is no such. */
template <bool GATED>
static int launch_shape(struct dev *d, const struct wide_layers *q, const uint16_t *x,
	unsigned shape)
{
	switch (shape < WIDE_SHAPES ? shape : best_shape<GATED>(d, q)) {
	case WIDE_32_1:
		return launch<32, 1, GATED>(d, q, x);
	case WIDE_64_1:
		return launch<64, 1, GATED>(d, q, x);
	case WIDE_64_2:
		return launch<64, 2, GATED>(d, q, x);
	case WIDE_128_2:
		return launch<128, 2, GATED>(d, q, x);
	default:
		return launch<RATHER, 2, GATED>(d, q, x);
	}
}

/* Rows at a time of which bf16 have room in the scratch memory; 0: of a tile not even. */
static uint64_t rows_at_once(uint64_t k)
{
	return 2 * LM_SCRATCH_FLOATS / k / RATHER * RATHER;
}

static bool fits(const struct lm_project *p)
{
	return p->n && p->n < SIZE_END && p->rows < SIZE_END && rows_at_once(p->k) &&
		(uintptr_t)p->w % 16 == 0;
}

/* Layers of x, whose norm is taken if there are weights of one; as many rows at a time as fit. */
static int project(struct dev *d, const struct wide_layers *layers, const float *norm,
	float eps, unsigned shape)
{
	uint16_t *rounded = (uint16_t *)(void *)cuda_of(d)->lm_scratch;
	uint64_t rows = layers->p->rows, k = layers->p->k, most = rows_at_once(k);
	cudaStream_t stream = cuda_of(d)->stream;

	for (uint64_t row = 0; row < rows; row += most) {
		struct wide_layers q = *layers;
		struct lm_project *p = q.p;
		int rc;

		for (unsigned i = 0; i < q.n; i++) {
			p[i].rows = rows - row < most ? rows - row : most;
			p[i].x += row * p[i].ldx;
			p[i].y += q.gated ? 0 : row * p[i].ldy;
			if (p[i].from)
				p[i].from += row * p[i].ldy;
		}
		q.gated += q.gated ? row * p->n : 0;
		if (norm)
			LAUNCH(round_normed_kernel, cuda_grid(d, p->rows * 32, THREADS),
				THREADS, stream, *p, norm, eps, rounded);
		else
			LAUNCH(round_rows_kernel,
				cuda_grid(d, p->rows * (k / LM_PACK), THREADS), THREADS,
				stream, *p, rounded);
		if (lm_started(d) < 0)
			return -1;
		rc = q.gated ? launch_shape<true>(d, &q, rounded, shape) :
			       launch_shape<false>(d, &q, rounded, shape);
		/* where the driver makes no map of these sizes the layers have other kernels */
		if (rc)
			return rc > 0 && row ?
				dev_fail(d, EX_SOFTWARE, "%s: no map of a product",
					d->name) :
				rc;
	}
	return 0;
}

int cuda_lm_project_wide(struct dev *d, const struct lm_project *p)
{
	struct wide_layers q = { { *p }, 1, NULL, false };

	return fits(p) ? project(d, &q, NULL, 0, WIDE_SHAPES) : 1;
}

int cuda_lm_project_wide_group(struct dev *d, const struct lm_project_group *g,
	unsigned shape)
{
	struct wide_layers q = { {}, g->n, g->gated, g->gelu };

	for (unsigned i = 0; i < g->n; i++) {
		if (!fits(&g->p[i]))
			return 1;
		q.p[i] = g->p[i];
	}
	return project(d, &q, g->norm, g->eps, shape);
}
