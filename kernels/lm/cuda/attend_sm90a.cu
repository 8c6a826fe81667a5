/* attend_sm90a.cu - attention by wgmma and the TMA, forward, for heads of 64 and 128 columns. A
 * block has 128 queries of a head, of which each of two warpgroups owns 64, and a warp that loads
 * tiles of 128 keys and of their values. Queries, scores and weights stay in registers: weights are
 * the operand A of their product with values. While a warpgroup makes weights of a tile's scores,
 * tensor cores multiply the weights of the tile before with its values, or work for the other
 * warpgroup (Shah et al. 2024, FlashAttention-3). A block makes tasks that follow each other, so
 * that keys of a head come from the level-2 cache, where the longest and the shortest take turns.
 * Contraction (-fmad) joins what it does in attend_tensor.cu. */
#include "kernels/dev/cuda/wgmma_stages.cuh"
#include "kernels/lm/cuda/attend_tensor.cuh"

#define KEYS    128 /* of a tile */
#define QUERIES 128 /* of a task */
#define GROUPS  2   /* warpgroups that multiply */
/* a whole warpgroup loads, so that it can leave its registers to the others, as in
 * swiglu_sm90a.cu */
#define THREADS            ((GROUPS + 1) * WGMMA_GROUP)
#define LOAD_REGISTERS     40
#define MULTIPLY_REGISTERS 232
/* Tasks of a block: with fewer it would have one or none. In the emulation smaller shapes are left
 * to the other kernel, which is tested with them. */
#ifdef CUDA_EMU
#define TASKS_EACH 4
#else
#define TASKS_EACH 2
#endif

/* A stage has a tile of keys or of values, in boxes of 64 columns. */
#define BOX             (KEYS * WGMMA_ROW)
#define STAGE_BYTES(D)  ((D) / WGMMA_WIDE * BOX)
#define STAGE_COUNT(D)  ((D) == 64 ? 8 : 6)
#define MEMORY_BYTES(D) WGMMA_STAGES_BYTES(STAGE_COUNT(D), STAGE_BYTES(D))

#if CUDA_WGMMA && WGMMA_UNEQUAL
/* A task: queries of a head, and the tiles of keys that they see. */
struct wide_task {
	unsigned b, h, i, first; /* i: its number among those of the head */
	unsigned key, tiles; /* the first key of the first tile, and how many there are */
	int ahead;           /* the first query's position less that of the first key */

	/* Tasks of a head. */
	static __device__ __forceinline__ unsigned count(const struct lm_attend &a)
	{
		return ((unsigned)a.positions + QUERIES - 1) / QUERIES;
	}

	/* Sets the rest. Of each head the longest is followed by the shortest, and so on. */
	__device__ __forceinline__ void place(const struct lm_attend &a, unsigned window)
	{
		unsigned keys = (unsigned)a.keys, p, end;

		first = (i % 2 ? i / 2 : count(a) - 1 - i / 2) * QUERIES;
		p = keys - (unsigned)a.positions + first;
		end = p + QUERIES < keys ? p + QUERIES : keys;
		key = first_key_of(window, p) / KEYS * KEYS;
		tiles = (end - key + KEYS - 1) / KEYS;
		ahead = (int)(p - key);
	}

	__device__ __forceinline__ void begin(const struct lm_attend &a, unsigned n,
		unsigned window)
	{
		i = n % count(a);
		h = n / count(a) % (unsigned)a.heads;
		b = n / count(a) / (unsigned)a.heads;
		place(a, window);
	}

	/* Goes on to the next, without a division. */
	__device__ __forceinline__ void next(const struct lm_attend &a, unsigned window)
	{
		i = i + 1 == count(a) ? 0 : i + 1;
		h += i == 0;
		b += h == (unsigned)a.heads;
		h = h == (unsigned)a.heads ? 0 : h;
		place(a, window);
	}
};

/* Loads the tiles of all tasks, in the order in which they are multiplied: by one thread. */
template <int D, class S>
__device__ __forceinline__ void load_tiles(S &stages, const wgmma_map *k,
	const wgmma_map *v, const struct lm_attend &a, unsigned window, unsigned from,
	unsigned end)
{
	unsigned group = (unsigned)a.heads / (unsigned)a.kv_heads;
	wide_task t;

	t.begin(a, from, window);
	for (unsigned n = from; n < end; n++, t.next(a, window)) {
		unsigned column = t.h / group * D;

		/* keys of tile i, then values of the one before */
		for (unsigned i = 0; i < 2 * t.tiles; i++) {
			bool is_key = i == 0 || (i % 2 && i + 1 < 2 * t.tiles);
			unsigned tile = is_key ? (i + 1) / 2 : (i - 1) / 2;
			unsigned parity = stages.phase ^ 1, slot = stages.next();
			uint64_t *full = stages.full + slot;

			wgmma_await(stages.empty + slot, parity);
			wgmma_expect(full, STAGE_BYTES(D));
			UNROLL
			for (unsigned box = 0; box < D / WGMMA_WIDE; box++)
				wgmma_load_sheet(stages.at + slot * STAGE_BYTES(D) +
						box * BOX,
					is_key ? k : v, column + box * WGMMA_WIDE,
					t.key + tile * KEYS, t.b, full);
		}
	}
}

/* What a warpgroup has of its 64 queries. */
template <int D, class S> struct wide_queries {
	S &stages;
	uint64_t keys, values; /* descriptors, of the first stage */
	float s[KEYS / 2], sum[D / 2], largest[2], total[2];
	unsigned q[D / 16][4], p[KEYS / 16][4]; /* operands A: queries, and weights */
	float factor, shrink[2];
	int ahead;
	unsigned window, row; /* row: of the warpgroup's first query in the task */

	__device__ __forceinline__ wide_queries(S &has, const struct lm_attend &a)
	    : stages(has), keys(wgmma_operand(has.at, 16, WGMMA_ATOM)),
	      values(wgmma_operand(has.at, BOX, WGMMA_ATOM)), factor(a.scale * LOG2E),
	      window(window_of(&a)), row(threadIdx.x / WGMMA_GROUP * (QUERIES / GROUPS))
	{
	}

	/* Of a lane's queries, which are in two rows: where its first numbers lie in memory like q,
	 * and how many of the rows exist. */
	struct rows {
		uint64_t at, apart;
		bool there[2];

		__device__ __forceinline__ rows(const struct lm_attend &a,
			const wide_task &t, uint64_t ld)
		    : at((t.b * a.positions + t.first + row_of(0)) * ld + t.h * D +
			      column_of(0)),
		      apart(8 * ld)
		{
			there[0] = t.first + row_of(0) < (unsigned)a.positions;
			there[1] = t.first + row_of(2) < (unsigned)a.positions;
		}

		__device__ __forceinline__ unsigned *pair(const void *base, unsigned half,
			unsigned column) const
		{
			return (unsigned *)(void *)((uint16_t *)base + at + half * apart +
				column);
		}
	};

	__device__ __forceinline__ void load(const struct lm_attend &a,
		const wide_task &t)
	{
		rows r(a, t, a.ldq);

		UNROLL
		for (unsigned half = 0; half < 2; half++)
			UNROLL
		for (unsigned k = 0; k < D / 8; k++) {
			unsigned &pair = q[k / 2][k % 2 * 2 + half];

			pair = r.there[half] ? *r.pair(a.q, half, 8 * k) : 0;
		}
	}

	/* Rotates two pairs of numbers, of which each register has one of both. */
	static __device__ __forceinline__ void turn(unsigned &x, unsigned &y,
		const float4 &t)
	{
		float a = lm_low(x), b = lm_high(x), c = lm_low(y), d = lm_high(y);

		x = cuda_two_bf16(a * t.x - c * t.y, b * t.z - d * t.w);
		y = cuda_two_bf16(a * t.y + c * t.x, b * t.w + d * t.z);
	}

	/* The same of a register that has both. */
	static __device__ __forceinline__ void turn_pair(unsigned &pair, const float2 &t)
	{
		float x = lm_low(pair), y = lm_high(pair);

		pair = cuda_two_bf16(x * t.x - y * t.y, x * t.y + y * t.x);
	}

	/* PAIRS: numbers that are rotated together are beside each other. */
	template <bool PAIRS>
	__device__ __forceinline__ void rotate(const struct lm_attend &a,
		const wide_task &t)
	{
		rows r(a, t, a.ldq);

		UNROLL
		for (unsigned half = 0; half < 2; half++) {
			const float *table = a.table +
				(a.keys - a.positions + t.first + row_of(2 * (int)half)) *
					D +
				column_of(0) * (PAIRS ? 1 : 2);

			if (!r.there[half])
				continue;
			UNROLL
			for (unsigned k = 0; k < D / (PAIRS ? 8 : 16); k++)
				if constexpr (PAIRS)
					turn_pair(q[k / 2][k % 2 * 2 + half],
						*(const float2 *)(const void *)(table +
							8 * k));
				else
					turn(q[k / 2][k % 2 * 2 + half],
						q[k / 2 + D / 32][k % 2 * 2 + half],
						*(const float4 *)(const void *)(table +
							16 * k));
			UNROLL
			for (unsigned k = 0; k < D / 8; k++)
				*r.pair(a.turned, half,
					8 * k) = q[k / 2][k % 2 * 2 + half];
		}
	}

	/* Starts the products of the queries with a tile's keys, or of weights with its values;
	 * returns its slot. */
	__device__ __forceinline__ unsigned start_scores()
	{
		unsigned parity = stages.phase, slot = stages.next();
		uint64_t b = keys + (uint64_t)slot * (STAGE_BYTES(D) >> 4);

		wgmma_await(stages.full + slot, parity);
		wgmma_fence();
		UNROLL
		for (unsigned k = 0; k < D / 16; k++)
			wgmma_multiply_left<false>(s, q[k],
				b + ((k / 4 * BOX + k % 4 * 32) >> 4), k > 0);
		wgmma_commit();
		return slot;
	}

	__device__ __forceinline__ unsigned start_values()
	{
		unsigned parity = stages.phase, slot = stages.next();
		uint64_t b = values + (uint64_t)slot * (STAGE_BYTES(D) >> 4);

		wgmma_await(stages.full + slot, parity);
		wgmma_fence();
		UNROLL
		for (unsigned k = 0; k < KEYS / 16; k++)
			wgmma_multiply_left<true>(sum, p[k],
				b + (k * 16 * WGMMA_ROW >> 4), true);
		wgmma_commit();
		return slot;
	}

	/* A stage is read: by each warp for itself. */
	__device__ __forceinline__ void give_back(unsigned slot)
	{
		if (threadIdx.x % 32 == 0)
			wgmma_arrive(stages.empty + slot);
	}

	/* Whether no query of this warpgroup misses a key of the next tile. */
	__device__ __forceinline__ bool whole()
	{
		return all_visible(ahead + (int)row, window, QUERIES / GROUPS, KEYS);
	}

	/* Makes weights of scores. masked: some keys are not seen, and it may be all of a row where
	 * EDGE. */
	template <bool EDGE> __device__ __forceinline__ void weigh_all(bool masked)
	{
		float(&rows)[1][KEYS / 8][4] = reinterpret_cast<float(&)[1][KEYS / 8][4]>(
			s);

		if (EDGE && masked)
			mask<KEYS, 1>(rows, ahead, window);
		UNROLL
		for (int half = 0; half < 2; half++)
			shrink[half] = weigh<KEYS, EDGE>(rows[0], 2 * half, factor,
				&largest[half], &total[half]);
		ahead -= KEYS;
	}

	/* Rounds weights to the operand of the next product. */
	__device__ __forceinline__ void pack()
	{
		UNROLL
		for (unsigned k = 0; k < KEYS / 16; k++)
			UNROLL
		for (unsigned i = 0; i < 4; i++)
			p[k][i] = cuda_two_bf16(s[8 * k + 2 * i], s[8 * k + 2 * i + 1]);
	}

	/* The first tile's weights. */
	__device__ __forceinline__ void begin(const wide_task &t)
	{
		unsigned slot;

		ahead = t.ahead;
		for (unsigned i = 0; i < D / 2; i++)
			sum[i] = 0;
		for (unsigned half = 0; half < 2; half++) {
			largest[half] = -INFINITY;
			total[half] = 0;
		}
		wgmma_pin(s);
		slot = start_scores();
		wgmma_wait<0>();
		wgmma_pin(s);
		give_back(slot);
		weigh_all<true>(!whole());
		pack();
	}

	/* The next tile's, while those of the one before are multiplied with its values. */
	template <bool EDGE> __device__ __forceinline__ void step()
	{
		unsigned key_slot, value_slot;

		wgmma_pin(s);
		wgmma_pin(sum);
		key_slot = start_scores();
		value_slot = start_values();
		wgmma_wait<1>();
		wgmma_pin(s);
		give_back(key_slot);
		weigh_all<EDGE>(EDGE);
		wgmma_wait<0>();
		wgmma_pin(sum);
		wgmma_pin_left(p);
		give_back(value_slot);
		UNROLL
		for (unsigned i = 0; i < D / 2; i++)
			sum[i] *= shrink[i / 2 % 2];
		pack();
	}

	__device__ __forceinline__ void end()
	{
		unsigned slot;

		wgmma_pin(sum);
		slot = start_values();
		wgmma_wait<0>();
		wgmma_pin(sum);
		wgmma_pin_left(p);
		give_back(slot);
	}

	__device__ __forceinline__ void store(const struct lm_attend &a,
		const wide_task &t)
	{
		rows r(a, t, a.ldo);

		UNROLL
		for (unsigned half = 0; half < 2; half++) {
			float all = lm_warp_sum(total[half], 4), f = 1 / all;

			if (!r.there[half])
				continue;
			if (a.lse && threadIdx.x % 4 == 0)
				a.lse[(t.b * a.heads + t.h) * a.positions + t.first +
					row_of(2 * (int)half)] = largest[half] * factor *
						LN2 +
					logf(all);
			UNROLL
			for (unsigned k = 0; k < D / 8; k++)
				*r.pair(a.out, half,
					8 * k) = cuda_two_bf16(sum[4 * k + 2 * half] * f,
					sum[4 * k + 2 * half + 1] * f);
		}
	}
};
#endif

template <int D, bool PAIRS>
__global__ void __launch_bounds__(THREADS, 1)
	attend_wide_kernel(const GRID_CONSTANT wgmma_map k,
		const GRID_CONSTANT wgmma_map v, struct lm_attend a, unsigned all)
{
#if CUDA_WGMMA && WGMMA_UNEQUAL
	typedef wgmma_stages<STAGE_COUNT(D), STAGE_BYTES(D)> stages_of;
	LARGE_SHARED(uint4, memory, MEMORY_BYTES(D) / 16);
	unsigned from = first_task(all, blockIdx.x),
		 end = first_task(all, blockIdx.x + 1);
	stages_of stages;

	stages.begin(memory, GROUPS);
	if (threadIdx.x >= GROUPS * WGMMA_GROUP) {
		wgmma_registers_less<LOAD_REGISTERS>();
		if (threadIdx.x % WGMMA_GROUP == 0)
			load_tiles<D>(stages, &k, &v, a, window_of(&a), from, end);
	} else {
		wide_queries<D, stages_of> w(stages, a);
		wide_task t, next;

		wgmma_registers_more<MULTIPLY_REGISTERS>();
		t.begin(a, from, w.window);
		if (from < end)
			w.load(a, t);
		for (unsigned n = from; n < end; n++, t = next) {
			if (a.table)
				w.template rotate<PAIRS>(a, t);
			w.begin(t);
			for (unsigned i = 1; i < t.tiles;) {
				/* the hot loop: tiles at an edge are few */
				for (; i < t.tiles && w.whole(); i++)
					w.template step<false>();
				if (i++ < t.tiles)
					w.template step<true>();
			}
			wgmma_pin_left(w.q);
			/* the next task's queries come while this one ends */
			next = t;
			next.next(a, w.window);
			if (n + 1 < end)
				w.load(a, next);
			w.end();
			w.store(a, t);
		}
	}
#else
	(void)k, (void)v, (void)a, (void)all;
#endif
}

template <int D, bool PAIRS>
static int launch(struct dev *d, const struct lm_attend *a, unsigned tasks)
{
	auto kernel = attend_wide_kernel<D, PAIRS>;
	unsigned blocks = (unsigned)cuda_of(d)->sm_count;
	uint64_t columns = a->kv_heads * D, apart = a->keys * a->ldk;
	wgmma_map k, v;

	if (wgmma_map_of_sheets(&k, a->k, a->batch, apart, a->keys, columns, a->ldk,
		    KEYS) ||
		wgmma_map_of_sheets(&v, a->v, a->batch, apart, a->keys, columns, a->ldk,
			KEYS))
		return 1;
	CUDA_TRY(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
		MEMORY_BYTES(D)));
	LAUNCH_LARGE(kernel, blocks, THREADS, MEMORY_BYTES(D), cuda_of(d)->stream, k, v,
		*a, tasks);
	return lm_started(d);
}

int cuda_lm_attend_wide(struct dev *d, const struct lm_attend *a)
{
	uint64_t tasks = tiles_of(a->batch, a->positions, a->heads, QUERIES);

	if (!WGMMA_UNEQUAL || !cuda_of(d)->wgmma || !cuda_lm_attend_takes(d, a) ||
		!lm_wide(LM_PACK, a->table, NULL, NULL, NULL) ||
		tasks < TASKS_EACH * (uint64_t)cuda_of(d)->sm_count)
		return 1;
	if (a->head_dim == 64)
		return a->table && a->interleaved ?
			launch<64, true>(d, a, (unsigned)tasks) :
			launch<64, false>(d, a, (unsigned)tasks);
	return a->table && a->interleaved ? launch<128, true>(d, a, (unsigned)tasks) :
					    launch<128, false>(d, a, (unsigned)tasks);
}
