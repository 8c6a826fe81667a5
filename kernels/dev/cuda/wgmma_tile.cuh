/* wgmma_tile.cuh - a tile of 128 x 256 of a product by wgmma, for kernels that differ in what they
 * do with it. Two warpgroups multiply, each 64 rows; a ninth warp has one thread that loads: four
 * steps of 64 along k are in shared memory or on their way, and it runs ahead into the next tile
 * while the others store, or while they have an earlier tile to finish besides
 * (wide_multiply_beside). A block stays for all tiles that it makes. */
#ifndef RNP_KERNELS_DEV_WGMMA_TILE_CUH
#define RNP_KERNELS_DEV_WGMMA_TILE_CUH

#include "kernels/dev/cuda/mma_tile.cuh"
#include "kernels/dev/cuda/wgmma_stages.cuh"

#define WIDE_ROWS    128
#define WIDE_COLUMNS 256
#define WIDE_DEPTH   WGMMA_WIDE /* along k of a step */
#define WIDE_STAGES  4
#define WIDE_GROUPS  2 /* of WGMMA_GROUP threads, that multiply */
#define WIDE_THREADS (WIDE_GROUPS * WGMMA_GROUP + 32)
#define WIDE_A_BYTES (WIDE_ROWS * WGMMA_ROW)
#define WIDE_STAGE   (WIDE_A_BYTES + WIDE_COLUMNS * WGMMA_ROW)
#define WIDE_BYTES   WGMMA_STAGES_BYTES(WIDE_STAGES, WIDE_STAGE)

/* Rows of the boxes of an operand of `rows` a load, as the maps of wide_load say. */
#define WIDE_BOX(turned) ((turned) ? WIDE_DEPTH : 128)

#if CUDA_WGMMA
typedef wgmma_stages<WIDE_STAGES, WIDE_STAGE> wide_stages;

/* By all threads of a block; ends with a barrier. */
__device__ __forceinline__ wide_stages wide_begin(void *memory)
{
	wide_stages s;

	s.begin(memory, WIDE_GROUPS);
	return s;
}

/* Loads the steps of a tile, whose rows of A begin at i, and those of B at j and, for its second
 * half, at `second`; from k on. By one thread. */
template <bool A_TURNED, bool B_TURNED>
__device__ __forceinline__ void wide_load(wide_stages &s, const wgmma_map *a,
	const wgmma_map *b, unsigned i, unsigned j, unsigned second, unsigned k,
	unsigned steps)
{
	enum { BOX = WGMMA_ROW * WIDE_DEPTH }; /* of a turned operand */

	for (unsigned step = 0; step < steps; step++, k += WIDE_DEPTH) {
		unsigned parity = s.phase ^ 1, slot = s.next();
		unsigned char *at = s.at + slot * WIDE_STAGE;
		uint64_t *full = s.full + slot;

		wgmma_await(s.empty + slot, parity);
		wgmma_expect(full, WIDE_STAGE);
		if (A_TURNED)
			for (unsigned n = 0; n < 2; n++)
				wgmma_load(at + n * BOX, a, i + n * WGMMA_WIDE, k, full);
		else
			wgmma_load(at, a, k, i, full);
		at += WIDE_A_BYTES;
		if (B_TURNED)
			for (unsigned n = 0; n < 4; n++)
				wgmma_load(at + n * BOX, b,
					(n < 2 ? j : second) + n % 2 * WGMMA_WIDE, k,
					full);
		else
			for (unsigned n = 0; n < 2; n++)
				wgmma_load(at + n * 128 * WGMMA_ROW, b, k,
					n ? second : j, full);
	}
}

/* What a warpgroup multiplies in all steps of a tile. */
template <bool A_TURNED, bool B_TURNED> struct wide_product {
	enum { A_NEXT = (A_TURNED ? 16 * WGMMA_ROW : 32) >> 4,
		B_NEXT = (B_TURNED ? 16 * WGMMA_ROW : 32) >> 4,
		BOX = WGMMA_ROW * WIDE_DEPTH };
	uint64_t a, b; /* of the first stage */
	unsigned before;
	bool arrives;

	/* of a K-major operand the leading offset is not used, and as if it were 1 */
	__device__ __forceinline__ explicit wide_product(const wide_stages &s)
		: a(wgmma_operand(s.at + threadIdx.x / WGMMA_GROUP * (WIDE_A_BYTES / 2),
			  A_TURNED ? BOX : 16, WGMMA_ATOM)),
		  b(wgmma_operand(s.at + WIDE_A_BYTES, B_TURNED ? BOX : 16, WGMMA_ATOM)),
		  before(0), arrives(threadIdx.x % 32 == 0)
	{
	}

	/* Starts the products of a step. FIRST: they are the sums. */
	template <bool FIRST>
	__device__ __forceinline__ unsigned start(float (&sum)[128], wide_stages &s)
	{
		unsigned parity = s.phase, slot = s.next();
		uint64_t stage = (uint64_t)slot * (WIDE_STAGE >> 4);

		wgmma_await(s.full + slot, parity);
		wgmma_fence();
		UNROLL
		for (unsigned k = 0; k < WIDE_DEPTH / 16; k++)
			wgmma_multiply<A_TURNED, B_TURNED>(sum, a + stage + k * A_NEXT,
				b + stage + k * B_NEXT, !FIRST || k > 0);
		wgmma_commit();
		return slot;
	}

	/* Gives back the step before this one. */
	template <bool FIRST>
	__device__ __forceinline__ void go_on(wide_stages &s, unsigned slot)
	{
		if (!FIRST) {
			wgmma_wait<1>();
			if (arrives)
				wgmma_arrive(s.empty + before);
		}
		before = slot;
	}

	__device__ __forceinline__ void end(float (&sum)[128], wide_stages &s)
	{
		wgmma_wait<0>();
		wgmma_pin(sum);
		if (arrives)
			wgmma_arrive(s.empty + before);
	}
};

/* Sums the steps of a tile, of which there is at least one, as wgmma_multiply says of d. By the
 * warpgroups that multiply. While a step is multiplied the one before is given back. */
template <bool A_TURNED, bool B_TURNED>
__device__ __forceinline__ void wide_multiply(float (&sum)[128], wide_stages &s,
	unsigned steps)
{
	wide_product<A_TURNED, B_TURNED> p(s);

	wgmma_pin(sum);
	p.template go_on<true>(s, p.template start<true>(sum, s));
	for (unsigned step = 1; step < steps; step++)
		p.template go_on<false>(s, p.template start<false>(sum, s));
	p.end(sum, s);
}

/* The same of at least W::PARTS steps, and while the first of them are multiplied work.part<0>,
 * part<1>, ...: what is to be done of an earlier tile, which touches neither sum nor the stages.
 * The products of a step take 1,024 cycles and more, in which the schedulers have nothing else to
 * issue. */
template <bool A_TURNED, bool B_TURNED, class W>
__device__ __forceinline__ void wide_multiply_beside(float (&sum)[128], wide_stages &s,
	unsigned steps, W &work)
{
	wide_product<A_TURNED, B_TURNED> p(s);
	unsigned slot;

	wgmma_pin(sum);
	slot = p.template start<true>(sum, s);
	work.part(0);
	p.template go_on<true>(s, slot);
	UNROLL
	for (unsigned step = 1; step < W::PARTS; step++) {
		slot = p.template start<false>(sum, s);
		work.part(step);
		p.template go_on<false>(s, slot);
	}
	for (unsigned step = W::PARTS; step < steps; step++)
		p.template go_on<false>(s, p.template start<false>(sum, s));
	p.end(sum, s);
}

/* This thread's first row of a tile, of two that are 8 apart, and its first column, of pairs that
 * are 8 apart. */
__device__ __forceinline__ unsigned wide_row(void)
{
	return threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
}

__device__ __forceinline__ unsigned wide_column(void)
{
	return threadIdx.x % 4 * 2;
}
#endif

#endif
