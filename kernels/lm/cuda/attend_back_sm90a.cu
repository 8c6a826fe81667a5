/* attend_back_sm90a.cu - the gradient of attention by wgmma and the TMA, for heads of 64 and 128
 * columns. As in attend_tensor_back.cu keys and queries change roles, and each result has one
 * owner: one kernel makes dq, and what the other needs of each query, which makes dk and dv. A
 * block has 128 rows of its own, of which each of two warpgroups owns 64, and a warp that loads
 * tiles of 64 rows of the other side: of both matrices, which are read both ways round, for scores
 * and for sums. Scores, weights and sums stay in registers, and so do own rows, but where dk and dv
 * of 128 columns leave them no room. While one warpgroup makes weights, tensor cores work for the
 * other; where registers allow, for dq of 64 columns, for the same one, whose next scores come
 * before its sums. Tasks follow each other in a block as in attend_sm90a.cu. Contraction (-fmad)
 * joins scaling, subtraction and rotation, within what rounding to bf16 changes. */
#include "kernels/lm/cuda/attend_back_load.cuh"

/* a whole warpgroup loads, so that it can leave its registers to the others, as in
 * attend_sm90a.cu */
#define THREADS            ((GROUPS + 1) * WGMMA_GROUP)
#define LOAD_REGISTERS     40
#define MULTIPLY_REGISTERS 232
/* Tasks of a block: with fewer it would have one or none. In the emulation smaller shapes are left
 * to the other kernels, which are tested with them. */
#ifdef CUDA_EMU
#define TASKS_EACH 4
#else
#define TASKS_EACH 2
#endif

#if CUDA_WGMMA && WGMMA_UNEQUAL
/* What a warpgroup has of its 64 rows. */
template <int D, bool KEYS, class S, class O> struct back_rows {
	static constexpr bool IN_REGISTERS = HELD(D, KEYS);
	/* scores are made before the sums of the tile before: where there are registers for both */
	static constexpr bool AHEAD = D == 64 && !KEYS;
	static constexpr unsigned PARTS = IN_REGISTERS ? D / 16 : 1;

	S &stages;
	O &own;            /* where own rows are in shared memory */
	uint64_t at;       /* describes the first stage's first matrix */
	uint64_t own_rows; /* of the first of own rows, of this task */
	const float2 *sums;
	float s[TILE / 2], ds[TILE / 2]; /* scores, then weights; dout . v - d, then ds */
	float sum0[D / 2], sum1[KEYS ? D / 2 : 1];
	unsigned a0[PARTS][4], a1[PARTS][4];         /* own rows */
	unsigned w0[TILE / 16][4], w1[TILE / 16][4]; /* ds and weights, as operands A */
	float lse[2], d[2];                          /* !KEYS: of this lane's queries */
	float factor;
	unsigned window, row; /* row: the warpgroup's first among own rows */
	/* tiles of a task in which own rows see something, one at least; and before and behind
	 * these */
	unsigned seen, before, behind;
	int ahead; /* position of the next tile's first query less that of its first key */
	unsigned slot; /* of the tile whose scores are made */

	__device__ __forceinline__ back_rows(S &has, O &o, const float2 *of,
		const struct lm_attend &f)
	    : stages(has), own(o), sums(of), factor(f.scale * LOG2E),
	      window(window_of(&f)), row(threadIdx.x / WGMMA_GROUP * ROWS)
	{
		at = wgmma_operand(stages.at, 16, WGMMA_ATOM);
	}

	/* Of a lane's own rows, which are two: where its first numbers lie in a matrix whose rows
	 * are ld apart, and which of them exist. */
	struct rows {
		uint64_t at, apart;
		bool there[2];

		__device__ __forceinline__ rows(const struct lm_attend &f,
			const back_task<KEYS> &t, uint64_t ld)
		    : at((t.b * f.positions + t.first + row_of(0)) * ld + t.h * D +
			      column_of(0)),
		      apart(8 * ld)
		{
			there[0] = t.first + row_of(0) < (unsigned)f.positions;
			there[1] = t.first + row_of(2) < (unsigned)f.positions;
		}

		__device__ __forceinline__ unsigned pair(const void *base, unsigned half,
			unsigned column) const
		{
			return there[half] ?
				*(const unsigned *)(const void *)((const uint16_t *)base +
					at + half * apart + column) :
				0;
		}
	};

	__device__ __forceinline__ void load_rows(unsigned (&a)[PARTS][4],
		const void *base, const rows &r)
	{
		UNROLL
		for (unsigned half = 0; half < 2; half++)
			UNROLL
		for (unsigned k = 0; k < D / 8; k++)
			a[k / 2][k % 2 * 2 + half] = r.pair(base, half, 8 * k);
	}

	/* Loads this lane's queries, and what belongs to each; stores their d. */
	__device__ __forceinline__ void load_queries(const struct lm_attend_back &a,
		const back_task<KEYS> &t, float *of_queries)
	{
		const struct lm_attend &f = a.forward;
		unsigned first = (t.b * (unsigned)f.heads + t.h) * (unsigned)f.positions +
			t.first;
		rows r(f, t, f.ldo);

		load_rows(a0, f.q, rows(f, t, f.ldq));
		load_rows(a1, a.dout, r);
		UNROLL
		for (unsigned half = 0; half < 2; half++) {
			unsigned query = first + row_of(2 * (int)half);

			d[half] = 0;
			UNROLL
			for (unsigned k = 0; k < D / 8; k++) {
				unsigned x = a1[k / 2][k % 2 * 2 + half];
				unsigned y = r.pair(f.out, half, 8 * k);

				d[half] += lm_low(x) * lm_low(y) +
					lm_high(x) * lm_high(y);
			}
			d[half] = lm_warp_sum(d[half], 4);
			lse[half] = r.there[half] ? f.lse[query] * LOG2E : 0;
			if (r.there[half] && threadIdx.x % 4 == 0)
				of_queries[query] = d[half];
		}
	}

	/* Loads own rows, where they stay in registers. */
	__device__ __forceinline__ void load(const struct lm_attend_back &a,
		const back_task<KEYS> &t, float *of_queries)
	{
		if constexpr (!KEYS) {
			load_queries(a, t, of_queries);
		} else if constexpr (IN_REGISTERS) {
			rows r(a.forward, t, a.forward.ldk);

			load_rows(a0, a.forward.k, r);
			load_rows(a1, a.forward.v, r);
		}
	}

	/* A task begins. */
	__device__ __forceinline__ void begin(const struct lm_attend &f,
		const back_task<KEYS> &t)
	{
		unsigned p = t.first + row, last = p + ROWS - 1, end;

		before = ((KEYS ? p : first_key_of(window, p)) - t.from) / TILE;
		end = ((KEYS ? last + window - 1 : last) - t.from) / TILE + 1;
		end = end < t.tiles ? end : t.tiles;
		/* rows that are not there see the last one: zeros, which nobody stores */
		if (p >= (unsigned)f.positions) {
			end = t.tiles;
			before = end - 1;
		}
		seen = end - before;
		behind = t.tiles - end;
		for (unsigned i = 0; i < D / 2; i++) {
			sum0[i] = 0;
			if constexpr (KEYS)
				sum1[i] = 0;
		}
		if constexpr (!IN_REGISTERS) {
			unsigned parity = own.phase, at = own.next();

			own_rows = wgmma_operand(own.at + at * OWN_BYTES(D) +
					row * WGMMA_ROW,
				16, WGMMA_ATOM);
			wgmma_await(own.full + at, parity);
		}
	}

	/* The task's last products are made. */
	__device__ __forceinline__ void end()
	{
		if constexpr (!IN_REGISTERS)
			if (threadIdx.x % 32 == 0)
				wgmma_arrive(own.empty +
					(own.slot ? own.slot : OWN_STAGES) - 1);
	}

	/* Goes on to the next tile, which is here then. */
	__device__ __forceinline__ unsigned take()
	{
		unsigned parity = stages.phase, at = stages.next();

		wgmma_await(stages.full + at, parity);
		ahead += KEYS ? TILE : -TILE;
		return at;
	}

	/* A stage is read, by each warp for itself: all its lanes have waited for it, and read the
	 * sums. */
	__device__ __forceinline__ void give_back(unsigned at)
	{
		__syncwarp();
		if (threadIdx.x % 32 == 0)
			wgmma_arrive(stages.empty + at);
	}

	/* Passes tiles in which own rows see nothing. No stage may be held meanwhile: others that
	 * are waited for may come into it. */
	__device__ __forceinline__ void pass(unsigned n)
	{
		for (; n; n--)
			give_back(take());
	}

	/* Whether no query of the next tile, or of own rows, misses a key. */
	__device__ __forceinline__ bool whole()
	{
		return KEYS ? all_visible(ahead - (int)row, window, TILE, ROWS) :
			      all_visible(ahead + (int)row, window, ROWS, TILE);
	}

	/* Starts the products of own rows with those of a tile. */
	__device__ __forceinline__ void start_part(float (&to)[TILE / 2], unsigned which,
		unsigned (&a)[PARTS][4])
	{
		uint64_t b = at + (uint64_t)slot * (STAGE_BYTES(D) >> 4) +
			which * (STAGE_BYTES(D) / 2 >> 4);

		UNROLL
		for (unsigned k = 0; k < D / 16; k++) {
			uint64_t part = b + ((k / 4 * BOX + k % 4 * 32) >> 4);

			if constexpr (IN_REGISTERS)
				wgmma_multiply_left<false>(to, a[k], part, k > 0);
			else
				wgmma_multiply<false, false>(to,
					own_rows +
						(((which * D / WGMMA_WIDE + k / 4) *
								 OWN_BOX +
							 k % 4 * 32) >>
							4),
					part, k > 0);
		}
		wgmma_commit();
	}

	/* Starts the sums of a tile in stage `of`. */
	__device__ __forceinline__ void start_sums(unsigned of)
	{
		/* turned, the next 64 columns are a box further */
		uint64_t b = at + (uint64_t)of * (STAGE_BYTES(D) >> 4) +
			((uint64_t)((BOX - 16) >> 4) << 16);

		UNROLL
		for (unsigned k = 0; k < TILE / 16; k++)
			wgmma_multiply_left<true>(sum0, w0[k],
				b + (k * 16 * WGMMA_ROW >> 4), true);
		if constexpr (KEYS) {
			b += STAGE_BYTES(D) / 2 >> 4;
			UNROLL
			for (unsigned k = 0; k < TILE / 16; k++)
				wgmma_multiply_left<true>(sum1, w1[k],
					b + (k * 16 * WGMMA_ROW >> 4), true);
		}
		wgmma_commit();
	}

	/* Makes weights of scores. masked: some keys are not seen. was: ahead of its tile. */
	__device__ __forceinline__ void weigh(bool masked, int was)
	{
		UNROLL
		for (unsigned n = 0; n < TILE / 8; n++) {
			float2 l = { 0, 0 };

			if (KEYS)
				l = sums[slot * TILE + 4 * n + threadIdx.x % 4];
			for (unsigned e = 0; e < 4; e++)
				s[4 * n + e] = lm_exp2(s[4 * n + e] * factor -
					(KEYS ? e % 2 ? l.y : l.x : lse[e / 2]));
		}
		if (!masked)
			return;
		UNROLL
		for (unsigned n = 0; n < TILE / 8; n++)
			for (int e = 0; e < 4; e++) {
				int column = (int)(8 * n + column_of(e));
				int r = (int)row_of(e);
				bool seen = KEYS ? visible(column, r, was, window) :
						   visible(r, column, was, window);

				s[4 * n + (unsigned)e] = seen ? s[4 * n + (unsigned)e] :
								0;
			}
	}

	/* ds, of weights and dout . v. */
	__device__ __forceinline__ void weigh_gradient()
	{
		UNROLL
		for (unsigned n = 0; n < TILE / 8; n++) {
			float2 less = { 0, 0 };

			if (KEYS)
				less = sums[slot * TILE + TILE / 2 + 4 * n +
					threadIdx.x % 4];
			for (unsigned e = 0; e < 4; e++)
				ds[4 * n + e] = s[4 * n + e] *
					(ds[4 * n + e] -
						(KEYS ? e % 2 ? less.y : less.x :
							d[e / 2]));
		}
	}

	/* Rounds both to the operands of the next products. */
	__device__ __forceinline__ void pack()
	{
		UNROLL
		for (unsigned k = 0; k < TILE / 16; k++)
			UNROLL
		for (unsigned i = 0; i < 4; i++) {
			w0[k][i] = cuda_two_bf16(ds[8 * k + 2 * i],
				ds[8 * k + 2 * i + 1]);
			if (KEYS)
				w1[k][i] = cuda_two_bf16(s[8 * k + 2 * i],
					s[8 * k + 2 * i + 1]);
		}
	}

	__device__ __forceinline__ void pin_sums()
	{
		wgmma_pin(sum0);
		if constexpr (KEYS)
			wgmma_pin(sum1);
	}

	/* Sums are made. */
	__device__ __forceinline__ void end_sums(unsigned of)
	{
		pin_sums();
		wgmma_pin_left(w0);
		if constexpr (KEYS)
			wgmma_pin_left(w1);
		give_back(of);
	}

	/* Weights of a tile before which there is none. */
	__device__ __forceinline__ void first()
	{
		bool masked = !whole();
		int of_tile = ahead;

		wgmma_pin(s);
		wgmma_pin(ds);
		slot = take();
		wgmma_fence();
		start_part(s, 0, a0);
		start_part(ds, 1, a1);
		wgmma_wait<1>();
		wgmma_pin(s);
		weigh(masked, of_tile);
		wgmma_wait<0>();
		wgmma_pin(ds);
		weigh_gradient();
		pack();
	}

	/* The sums of a tile, and the next one's weights. */
	template <bool EDGE> __device__ __forceinline__ void step()
	{
		unsigned was = slot;
		int of_tile = ahead;

		wgmma_pin(s);
		pin_sums();
		if (AHEAD)
			wgmma_pin(ds);
		slot = take();
		wgmma_fence();
		if constexpr (AHEAD) {
			start_part(s, 0, a0);
			start_part(ds, 1, a1);
			start_sums(was);
			wgmma_wait<2>();
			wgmma_pin(s);
			weigh(EDGE, of_tile);
			wgmma_wait<1>();
			wgmma_pin(ds);
			weigh_gradient();
			wgmma_wait<0>();
			end_sums(was);
		} else {
			/* the registers of ds are the operands' until sums are made */
			start_sums(was);
			start_part(s, 0, a0);
			wgmma_wait<0>();
			wgmma_pin(s);
			end_sums(was);
			wgmma_pin(ds);
			wgmma_fence();
			start_part(ds, 1, a1);
			weigh(EDGE, of_tile);
			wgmma_wait<0>();
			wgmma_pin(ds);
			weigh_gradient();
		}
		pack();
	}

	/* Rotates a sum back, and stores it. */
	__device__ __forceinline__ void store_one(void *to, uint64_t ld,
		float (&sum)[D / 2], const struct lm_attend_back &a,
		const back_task<KEYS> &t, float f, bool turn)
	{
		float(&rows)[D / 8][4] = reinterpret_cast<float(&)[D / 8][4]>(sum);
		unsigned exist = (unsigned)a.forward.positions - t.first;

		if (turn)
			rotate_back<D>(rows, a, t.first, exist);
		store_tile<D>((uint16_t *)to +
				(t.b * a.forward.positions + t.first) * ld + t.h * D,
			ld, exist, rows, f, f);
	}

	__device__ __forceinline__ void store(const struct lm_attend_back &a,
		const back_task<KEYS> &t)
	{
		const struct lm_attend &f = a.forward;

		store_one(KEYS ? a.dk : a.dq, KEYS ? f.ldk : f.ldq, sum0, a, t, f.scale,
			true);
		if constexpr (KEYS)
			store_one(a.dv, f.ldk, sum1, a, t, 1, false);
	}

	/* Starts the sums of all tiles of a task that own rows see, of one head. */
	__device__ __forceinline__ void start_all()
	{
		first();
		for (unsigned n = seen - 1; n;) {
			/* the hot loop: tiles at an edge are few */
			for (; n && whole(); n--)
				step<false>();
			if (n) {
				step<true>();
				n--;
			}
		}
		if constexpr (IN_REGISTERS) {
			wgmma_pin_left(a0);
			wgmma_pin_left(a1);
		}
		pin_sums();
		wgmma_fence();
		start_sums(slot);
	}

	/* All tasks of this block. */
	__device__ __forceinline__ void run(const struct lm_attend_back &a,
		float *of_queries, unsigned from, unsigned to)
	{
		const struct lm_attend &f = a.forward;
		unsigned repeats = KEYS ? back_task<KEYS>::group(f) : 1;

		if (from < to)
			load(a, { f, from, window }, of_queries);
		for (unsigned n = from; n < to; n++) {
			back_task<KEYS> t(f, n, window);

			begin(f, t);
			for (unsigned i = 0; i < repeats; i++) {
				ahead = KEYS ? 0 : (int)(t.first - t.from);
				pass(before);
				start_all();
				/* the next task's rows come while this one ends */
				if (i + 1 == repeats && n + 1 < to)
					load(a, { f, n + 1, window }, of_queries);
				wgmma_wait<0>();
				end_sums(slot);
				pass(behind);
			}
			end();
			store(a, { f, n, window });
		}
	}
};
#endif

template <int D, bool KEYS>
__global__ void __launch_bounds__(THREADS, 1)
	attend_back_wide_kernel(const GRID_CONSTANT struct back_maps maps,
		struct lm_attend_back a, float *of_queries, unsigned all)
{
#if CUDA_WGMMA && WGMMA_UNEQUAL
	typedef wgmma_stages<STAGES(D, KEYS), STAGE_BYTES(D)> stages_of;
	typedef wgmma_stages<OWN_STAGES, OWN_BYTES(D)> own_of;
	LARGE_SHARED(uint4, memory, MEMORY_BYTES(D, KEYS) / 16);
	unsigned from = first_task(all, blockIdx.x),
		 end = first_task(all, blockIdx.x + 1);
	unsigned char *at = wgmma_aligned(memory);
	unsigned char *behind = at + STAGES(D, KEYS) * STAGE_BYTES(D);
	unsigned char *own_at = behind;
	float2 *sums;
	uint64_t *barriers;
	stages_of stages;
	own_of own;

	behind += HELD(D, KEYS) ? 0 : OWN_STAGES * OWN_BYTES(D);
	sums = (float2 *)(void *)behind;
	barriers = (uint64_t *)(void *)(behind + SUMS_BYTES(D, KEYS));
	stages.place(at, barriers, GROUPS);
	if (!HELD(D, KEYS))
		own.place(own_at, barriers + 2 * STAGES(D, KEYS), GROUPS);
	if (threadIdx.x == 0)
		wgmma_barriers_ready();
	__syncthreads();
	if (threadIdx.x >= GROUPS * WGMMA_GROUP) {
		unsigned warp = threadIdx.x / 32 - GROUPS * 4;

		wgmma_registers_less<LOAD_REGISTERS>();
		if (warp == 0)
			load_tiles<D, KEYS>(stages, sums, maps, a.forward, of_queries,
				from, end);
		else if (!HELD(D, KEYS) && warp == 1 && threadIdx.x % 32 == 0)
			load_own_rows<D, KEYS>(own, maps, a.forward, from, end);
	} else {
		back_rows<D, KEYS, stages_of, own_of> w(stages, own, sums, a.forward);

		wgmma_registers_more<MULTIPLY_REGISTERS>();
		w.run(a, of_queries, from, end);
	}
#else
	(void)maps, (void)a, (void)of_queries, (void)all;
#endif
}

/* Of a matrix of heads that lie beside each other: boxes of so many rows. */
static int map_of(wgmma_map *map, const void *at, const struct lm_attend *f,
	uint64_t heads, uint64_t ld, unsigned rows)
{
	return wgmma_map_of_sheets(map, at, f->batch, f->positions * ld, f->positions,
		heads * f->head_dim, ld, rows);
}

static int maps_of(struct back_maps *m, const struct lm_attend_back *a, bool keys)
{
	const struct lm_attend *f = &a->forward;

	*m = {};
	if (!keys)
		return map_of(&m->other[0], f->k, f, f->kv_heads, f->ldk, TILE) ||
			map_of(&m->other[1], f->v, f, f->kv_heads, f->ldk, TILE);
	return map_of(&m->other[0], f->q, f, f->heads, f->ldq, TILE) ||
		map_of(&m->other[1], a->dout, f, f->heads, f->ldo, TILE) ||
		map_of(&m->own[0], f->k, f, f->kv_heads, f->ldk, OWN) ||
		map_of(&m->own[1], f->v, f, f->kv_heads, f->ldk, OWN);
}

template <int D, bool KEYS>
static int launch(struct dev *d, const struct lm_attend_back *a, float *sums)
{
	auto kernel = attend_back_wide_kernel<D, KEYS>;
	const struct lm_attend *f = &a->forward;
	uint64_t tasks = tiles_of(f->batch, f->positions, KEYS ? f->kv_heads : f->heads,
		OWN);
	unsigned blocks = (unsigned)cuda_of(d)->sm_count;
	struct back_maps maps;

	if (!WGMMA_UNEQUAL || !cuda_of(d)->wgmma ||
		tasks < TASKS_EACH * (uint64_t)blocks || maps_of(&maps, a, KEYS))
		return 1;
	CUDA_TRY(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
		MEMORY_BYTES(D, KEYS)));
	LAUNCH_LARGE(kernel, blocks, THREADS, MEMORY_BYTES(D, KEYS), cuda_of(d)->stream,
		maps, *a, sums, (unsigned)tasks);
	return lm_started(d);
}

int cuda_lm_attend_back_wide_queries(struct dev *d, const struct lm_attend_back *a,
	float *sums)
{
	return a->forward.head_dim == 64 ? launch<64, false>(d, a, sums) :
					   launch<128, false>(d, a, sums);
}

int cuda_lm_attend_back_wide_keys(struct dev *d, const struct lm_attend_back *a,
	float *sums)
{
	return a->forward.head_dim == 64 ? launch<64, true>(d, a, sums) :
					   launch<128, true>(d, a, sums);
}
