/* attend_back_load.cuh - what a block of attend_back_sm90a.cu works on, and the loading of it by
 * the TMA: tasks of 128 rows of a head, and the tiles of the other side that belong to each. */
#ifndef RNP_KERNELS_LM_ATTEND_BACK_LOAD_CUH
#define RNP_KERNELS_LM_ATTEND_BACK_LOAD_CUH

#include "kernels/dev/cuda/wgmma_stages.cuh"
#include "kernels/lm/cuda/attend_tensor.cuh"

#define TILE   64  /* rows of the other side */
#define OWN    128 /* rows of a task */
#define GROUPS 2   /* warpgroups that multiply */
#define ROWS   (OWN / GROUPS)

/* Boxes of 64 columns: of a tile, and of own rows. */
#define BOX     (TILE * WGMMA_ROW)
#define OWN_BOX (OWN * WGMMA_ROW)
/* of both matrices */
#define STAGE_BYTES(D) (2 * (D) / WGMMA_WIDE * BOX)
#define OWN_BYTES(D)   (2 * (D) / WGMMA_WIDE * OWN_BOX)
/* Whether own rows stay in registers; else two tasks' lie in shared memory. */
#define HELD(D, KEYS)   ((D) == 64 || !(KEYS))
#define OWN_STAGES      2
#define STAGES(D, KEYS) ((D) == 64 ? 8 : HELD(D, KEYS) ? 6 : 3)
/* KEYS: of the queries of a tile what scores and sums need, as pairs */
#define SUMS_BYTES(D, KEYS) ((KEYS) ? STAGES(D, KEYS) * TILE * 8 : 0)
#define MEMORY_BYTES(D, KEYS)                                                         \
	(WGMMA_ATOM + STAGES(D, KEYS) * (STAGE_BYTES(D) + 16) + SUMS_BYTES(D, KEYS) + \
		(HELD(D, KEYS) ? 0 : OWN_STAGES * (OWN_BYTES(D) + 16)))

static_assert(MEMORY_BYTES(128, true) <= 232448, "what a block may have on sm_90");

/* The matrices that are loaded: of the other side, and own rows where they are in shared memory. */
struct back_maps {
	wgmma_map other[2], own[2];
};

#if CUDA_WGMMA && WGMMA_UNEQUAL
/* A task: own rows of a head, and the rows of the other side that belong to them, `repeats` times:
 * keys see queries of several heads. */
template <bool KEYS> struct back_task {
	unsigned b, h, i, first; /* i: its number among those of the head */
	unsigned from, end, tiles, repeats;

	static __device__ __forceinline__ unsigned count(const struct lm_attend &f)
	{
		return ((unsigned)f.positions + OWN - 1) / OWN;
	}

	static __device__ __forceinline__ unsigned heads(const struct lm_attend &f)
	{
		return (unsigned)(KEYS ? f.kv_heads : f.heads);
	}

	static __device__ __forceinline__ unsigned group(const struct lm_attend &f)
	{
		return (unsigned)f.heads / (unsigned)f.kv_heads;
	}

	/* Sets the rest. Of each head the longest is followed by the shortest, and so on. */
	__device__ __forceinline__ void place(const struct lm_attend &f, unsigned window)
	{
		unsigned all = (unsigned)f.positions;

		first = (i % 2 == KEYS ? count(f) - 1 - i / 2 : i / 2) * OWN;
		end = all - first;
		if (KEYS) {
			/* up to the last query whose window holds the last key */
			end = window < end ?
				OWN - 1 + window < end ? OWN - 1 + window : end :
				end;
			from = first;
			end += first;
		} else {
			end = end < OWN ? all : first + OWN;
			from = first_key_of(window, first) / TILE * TILE;
		}
		tiles = (end - from + TILE - 1) / TILE;
		repeats = KEYS ? group(f) : 1;
	}

	/* n is hidden from the compiler: it would keep in registers, through all the products of a
	 * task, what is computed again after them. */
	__device__ __forceinline__ back_task(const struct lm_attend &f, unsigned n,
		unsigned window)
	{
#ifdef __CUDA_ARCH__
		asm volatile("" : "+r"(n));
#endif
		i = n % count(f);
		h = n / count(f) % heads(f);
		b = n / count(f) / heads(f);
		place(f, window);
	}

	/* The first column of the other side's head. */
	template <int D>
	__device__ __forceinline__ unsigned column(const struct lm_attend &f,
		unsigned repeat) const
	{
		return (KEYS ? h * group(f) + repeat : h / group(f)) * D;
	}
};

/* Starts the copies of rows from y on of both matrices. */
template <int D, unsigned BOX_BYTES>
__device__ __forceinline__ void load_boxes(unsigned char *to, const wgmma_map *maps,
	unsigned column, unsigned y, unsigned z, uint64_t *full)
{
	UNROLL
	for (unsigned n = 0; n < 2 * D / WGMMA_WIDE; n++)
		wgmma_load_sheet(to + n * BOX_BYTES, maps + n / (D / WGMMA_WIDE),
			column + n % (D / WGMMA_WIDE) * WGMMA_WIDE, y, z, full);
}

/* Loads the tiles of all tasks, in their order: by a warp. sums: of the queries of a tile all
 * powers of two that are subtracted, then all d; of_queries has the d. */
template <int D, bool KEYS, class S>
__device__ __forceinline__ void load_tiles(S &stages, float2 *sums,
	const struct back_maps &maps, const struct lm_attend &f, const float *of_queries,
	unsigned from, unsigned end)
{
	unsigned lane = threadIdx.x % 32, window = window_of(&f);

	for (unsigned n = from; n < end; n++) {
		back_task<KEYS> t(f, n, window);

		for (unsigned i = 0, tile = 0; i < t.tiles * t.repeats; i++) {
			unsigned y = t.from + tile * TILE, column, query = 0;
			unsigned parity = stages.phase ^ 1, slot = stages.next();
			uint64_t *full = stages.full + slot;
			float2 lse = { 0, 0 }, d = { 0, 0 };

			column = t.template column<D>(f, i / t.tiles);
			if (KEYS)
				query = (t.b * (unsigned)f.heads + column / D) *
					(unsigned)f.positions;
			/* they come while the stage is waited for */
			if (KEYS && y + 2 * lane < t.end) {
				lse.x = f.lse[query + y + 2 * lane] * LOG2E;
				d.x = of_queries[query + y + 2 * lane];
			}
			if (KEYS && y + 2 * lane + 1 < t.end) {
				lse.y = f.lse[query + y + 2 * lane + 1] * LOG2E;
				d.y = of_queries[query + y + 2 * lane + 1];
			}
			wgmma_await(stages.empty + slot, parity);
			if (KEYS) {
				sums[slot * TILE + lane] = lse;
				sums[slot * TILE + TILE / 2 + lane] = d;
			}
			__syncwarp(); /* all have waited, and written */
			if (lane == 0) {
				wgmma_expect(full, STAGE_BYTES(D));
				load_boxes<D, BOX>(stages.at + slot * STAGE_BYTES(D),
					maps.other, column, y, t.b, full);
			}
			tile = tile + 1 == t.tiles ? 0 : tile + 1;
		}
	}
}

/* Loads own rows of all tasks, where they do not stay in registers: by a thread. */
template <int D, bool KEYS, class S>
__device__ __forceinline__ void load_own_rows(S &own, const struct back_maps &maps,
	const struct lm_attend &f, unsigned from, unsigned end)
{
	unsigned window = window_of(&f);

	for (unsigned n = from; n < end; n++) {
		back_task<KEYS> t(f, n, window);
		unsigned parity = own.phase ^ 1, slot = own.next();

		wgmma_await(own.empty + slot, parity);
		wgmma_expect(own.full + slot, OWN_BYTES(D));
		load_boxes<D, OWN_BOX>(own.at + slot * OWN_BYTES(D), maps.own, t.h * D,
			t.first, t.b, own.full + slot);
	}
}
#endif

#endif
