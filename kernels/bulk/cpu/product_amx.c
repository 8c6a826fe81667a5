/* product_amx.c - products of bf16 and int8 on tiles (AMX). A tile has 16 rows of 64 bytes; a
 * tile of B holds 16 words of 16 columns, where a word is the unit of multiplication: two bf16
 * or four int8.
 *
 * Speed depends on how often a byte is used before it leaves the level-2 cache: Sapphire Rapids
 * multiplies 2.4 T times a second from its level-1 cache, 2.0 from its level-2 and 0.7 from its
 * level-3, which gives a core only 26 GB/s. So C is computed in blocks of up to 384 x 384 that
 * stay in the level-2 cache until the end of k, together with a chunk of k of the rows and
 * columns that they need, while the next chunk is prefetched: 96 multiplications for each byte
 * from the level-3 cache. A group of 32 rows stays in the level-1 cache while the block's
 * columns pass. */
#include "kernels/bulk/product.h"

#ifdef __x86_64__
#include <immintrin.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "kernels/dev/cpu.h"

#define AMX \
	__attribute__((target("amx-tile,amx-bf16,amx-int8,avx512f,avx512bw,avx512dq")))

#define SIDE      16                /* rows and columns of a tile */
#define PAIR      (2 * SIDE)        /* rows and columns of one product of tiles */
#define STEP      ((uint64_t)64)    /* bytes of k in a row of a tile */
#define TILE      (SIDE * STEP)     /* bytes */
#define STEPS     8                 /* in a chunk of k */
#define STRIPE    (STEPS * TILE)    /* 16 rows or columns of a chunk, packed */
#define PART      ((uint64_t)16384) /* most bytes of k that are packed at once */
#define BLOCK     384           /* most rows and columns of C that are computed at once */
#define SUMS      (PAIR * PAIR) /* sums of one product of tiles: its four quarters */
#define PACKED    ((uint64_t)32 << 20) /* bytes of A, and of B, that are packed at once */
#define TASKS     4 /* least number of blocks per thread, if the product is large enough */
#define HUGE_PAGE ((uint64_t)2 << 20)
#define STREAM    ((uint64_t)4 << 20) /* size of C from which non-temporal stores are used */
/* least number of multiplications that are worth packing for */
#define LEAST ((double)(1 << 21))
#define LARGE ((double)(1 << 30)) /* with fewer multiplications oneDNN is faster */

struct tiles {
	uint8_t palette, start_row, reserved[14];
	uint16_t row_bytes[16];
	uint8_t rows[16];
} __attribute__((packed));

AMX static void configure(void)
{
	struct tiles c = { .palette = 1 };

	for (int i = 0; i < 8; i++) {
		c.row_bytes[i] = STEP;
		c.rows[i] = SIDE;
	}
	/* gcc 12 does not know that the instruction reads all of the configuration */
	__asm__ volatile("" : : "r"(&c) : "memory");
	_tile_loadconfig(&c);
}

static uint64_t min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t round_up(uint64_t n, uint64_t to)
{
	return (n + to - 1) / to * to;
}

/* --- packing ------------------------------------------------------------------------------- */

/* A matrix of which some rows are packed: by chunks of k, then by stripes, then by steps. */
struct packed {
	const char *from; /* the first row, at the beginning of this part of k */
	uint64_t row_bytes, rows;
	uint64_t bytes, steps; /* of this part of k */
	uint64_t stripes;      /* even */
	char *to;
};

/* Loads up to 64 bytes of row i from `at` on; zeros beyond its end and for rows that do not
 * exist. */
AMX static inline __m512i row_part(const struct packed *x, uint64_t i, uint64_t at)
{
	uint64_t n = x->bytes - at;
	__mmask64 mask = n >= STEP ? ~UINT64_C(0) : (UINT64_C(1) << n) - 1;

	if (i >= x->rows)
		return _mm512_setzero_si512();
	return _mm512_maskz_loadu_epi8(mask, x->from + i * x->row_bytes + at);
}

/* Transposes: row w of a tile gets word w of each of 16 rows. */
AMX static inline void store_turned(char *to, __m512i r[16])
{
	__m512i t[16];

	for (int i = 0; i < 16; i += 2) {
		t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
		t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
	}
	/* r[i + q]: word 4 l + q of rows i .. i + 3, l the lane */
	for (int i = 0; i < 16; i += 4) {
		r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
		r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
		r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
		r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
	}
	for (int q = 0; q < 4; q++) {
		__m512i low = _mm512_shuffle_i32x4(r[q], r[4 + q], 0x44);
		__m512i high = _mm512_shuffle_i32x4(r[q], r[4 + q], 0xee);
		__m512i low2 = _mm512_shuffle_i32x4(r[8 + q], r[12 + q], 0x44);
		__m512i high2 = _mm512_shuffle_i32x4(r[8 + q], r[12 + q], 0xee);
		char *out = to + (uint64_t)q * STEP;

		_mm512_storeu_si512(out, _mm512_shuffle_i32x4(low, low2, 0x88));
		_mm512_storeu_si512(out + 4 * STEP,
			_mm512_shuffle_i32x4(low, low2, 0xdd));
		_mm512_storeu_si512(out + 8 * STEP,
			_mm512_shuffle_i32x4(high, high2, 0x88));
		_mm512_storeu_si512(out + 12 * STEP,
			_mm512_shuffle_i32x4(high, high2, 0xdd));
	}
}

AMX static void pack_stripe(const struct packed *x, uint64_t stripe, bool turned)
{
	for (uint64_t s = 0; s < x->steps; s++) {
		char *to = x->to + (s / STEPS * x->stripes + stripe) * STRIPE +
			s % STEPS * TILE;
		__m512i r[16];

		for (uint64_t i = 0; i < SIDE; i++)
			r[i] = row_part(x, stripe * SIDE + i, s * STEP);
		if (turned)
			store_turned(to, r);
		else
			for (uint64_t i = 0; i < SIDE; i++)
				_mm512_storeu_si512(to + i * STEP, r[i]);
	}
}

/* Runs in the team. */
static void pack(const struct packed *x, bool turned)
{
#pragma omp for schedule(static)
	for (int64_t i = 0; i < (int64_t)x->stripes; i++)
		pack_stripe(x, (uint64_t)i, turned);
}

/* --- a block ------------------------------------------------------------------------------- */

#define AHEAD 3 /* cache lines of each matrix that are prefetched in a step */

AMX static inline void prefetch(const char *at)
{
	for (uint64_t i = 0; i < AHEAD; i++)
		_mm_prefetch(at + i * STEP, _MM_HINT_T1);
}

/* Computes 32 rows by 32 columns by a chunk of k; add: adds to c. */
#define DEFINE(name, multiply)                                                    \
	AMX static void name(int32_t *c, const char *a, const char *b,            \
		const char *next_a, const char *next_b, uint64_t steps, bool add) \
	{                                                                         \
		if (add) {                                                        \
			_tile_loadd(0, c, STEP);                                  \
			_tile_loadd(1, c + 256, STEP);                            \
			_tile_loadd(2, c + 512, STEP);                            \
			_tile_loadd(3, c + 768, STEP);                            \
		} else {                                                          \
			_tile_zero(0);                                            \
			_tile_zero(1);                                            \
			_tile_zero(2);                                            \
			_tile_zero(3);                                            \
		}                                                                 \
		for (uint64_t s = 0; s < steps; s++) {                            \
			_tile_loadd(6, b + s * TILE, STEP);                       \
			_tile_loadd(4, a + s * TILE, STEP);                       \
			multiply(0, 4, 6);                                        \
			prefetch(next_a + s * AHEAD * STEP);                      \
			_tile_loadd(7, b + STRIPE + s * TILE, STEP);              \
			multiply(1, 4, 7);                                        \
			_tile_loadd(5, a + STRIPE + s * TILE, STEP);              \
			multiply(2, 5, 6);                                        \
			prefetch(next_b + s * AHEAD * STEP);                      \
			multiply(3, 5, 7);                                        \
		}                                                                 \
		_tile_stored(0, c, STEP);                                         \
		_tile_stored(1, c + 256, STEP);                                   \
		_tile_stored(2, c + 512, STEP);                                   \
		_tile_stored(3, c + 768, STEP);                                   \
	}

DEFINE(multiply_bf16, _tile_dpbf16ps)
DEFINE(multiply_i8, _tile_dpbssd)

struct block {
	uint64_t i0, j0, rows, columns; /* within the packed rows and columns */
};

/* The sums of a block: for each 32 x 32, its four quarters. */
static void multiply_block(const struct packed *a, const struct packed *b,
	const struct block *k, bool whole, int32_t *sums)
{
	uint64_t ni = (k->rows + PAIR - 1) / PAIR, nj = (k->columns + PAIR - 1) / PAIR;

	for (uint64_t s = 0; s < a->steps; s += STEPS) {
		const char *ca = a->to + (s / STEPS * a->stripes + k->i0 / SIDE) * STRIPE;
		const char *cb = b->to + (s / STEPS * b->stripes + k->j0 / SIDE) * STRIPE;
		uint64_t steps = min(STEPS, a->steps - s);
		bool more = s + STEPS < a->steps;

		for (uint64_t i = 0; i < ni; i++)
			for (uint64_t j = 0; j < nj; j++) {
				const char *ta = ca + 2 * i * STRIPE;
				const char *tb = cb + 2 * j * STRIPE;
				const char *na = ta, *nb = tb; /* these lines exist */

				if (more) {
					na += a->stripes * STRIPE +
						round_up(2 * STRIPE / nj, STEP) * j;
					nb += b->stripes * STRIPE +
						round_up(2 * STRIPE / ni, STEP) * i;
				}
				(whole ? multiply_i8 :
					 multiply_bf16)(sums + (i * nj + j) * SUMS, ta,
					tb, na, nb, steps, s > 0);
			}
	}
}

/* Stores the sums of a block to C, or adds them to it; past: with non-temporal stores where
 * possible. */
AMX static void give(const struct product *p, const struct block *k, const int32_t *sums,
	bool add, bool past)
{
	uint64_t nj = (k->columns + PAIR - 1) / PAIR;

	for (uint64_t i = 0; i < k->rows; i++) {
		int32_t *to = (int32_t *)p->c + (k->i0 + i) * p->ldc + k->j0;

		for (uint64_t j = 0; j < k->columns; j += SIDE) {
			uint64_t n = min(SIDE, k->columns - j);
			const int32_t *from = sums + (i / PAIR * nj + j / PAIR) * SUMS +
				(i % PAIR / SIDE * 2 + j % PAIR / SIDE) * 256 +
				i % SIDE * SIDE;
			__mmask16 mask = (__mmask16)((1u << n) - 1);
			__m512i sum = _mm512_loadu_si512(from);

			if (add && p->type == PRODUCT_I8)
				sum = _mm512_add_epi32(sum,
					_mm512_maskz_loadu_epi32(mask, to + j));
			else if (add)
				sum = _mm512_castps_si512(
					_mm512_add_ps(_mm512_castsi512_ps(sum),
						_mm512_maskz_loadu_ps(mask, to + j)));
			if (past && n == SIDE && (uintptr_t)(to + j) % STEP == 0)
				_mm512_stream_si512((__m512i *)(void *)(to + j), sum);
			else
				_mm512_mask_storeu_epi32(to + j, mask, sum);
		}
	}
}

/* --- all of it ----------------------------------------------------------------------------- */

/* Kept from one product to the next: faulting in the memory's pages takes longer than
 * multiplying. */
static struct {
	pthread_mutex_t lock;
	char *at;
	uint64_t bytes;
} packed = { .lock = PTHREAD_MUTEX_INITIALIZER };

static int packed_reserve(uint64_t bytes)
{
	void *at;

	bytes = round_up(bytes, HUGE_PAGE);
	if (bytes <= packed.bytes)
		return 0;
	free(packed.at);
	packed.at = NULL;
	packed.bytes = 0;
	if (posix_memalign(&at, HUGE_PAGE, bytes))
		return -1;
	madvise(at, bytes, MADV_HUGEPAGE);
	packed.at = at;
	packed.bytes = bytes;
	return 0;
}

/* How a product is divided. */
struct split {
	uint64_t rows, columns; /* of A and B that are packed at once */
	uint64_t block_rows, block_columns;
	uint64_t steps; /* in a part of k */
};

static uint64_t stripes_of(uint64_t rows)
{
	return round_up(rows, PAIR) / SIDE;
}

/* Divides n into equal pieces of at most `max`, each a multiple of a pair. */
static uint64_t even(uint64_t n, uint64_t max)
{
	uint64_t pieces = (n + max - 1) / max;

	return round_up((n + pieces - 1) / pieces, PAIR);
}

static struct split split_of(const struct product *p, uint64_t team)
{
	uint64_t bytes = min(p->k * product_element_bytes(p->type), PART);
	uint64_t steps = (bytes + STEP - 1) / STEP;
	uint64_t max = PACKED / (round_up(steps, STEPS) * STEP), side = BLOCK;
	struct split c = { .rows = even(p->m, max),
		.columns = even(p->n, max),
		.steps = steps };

	do {
		c.block_rows = even(c.rows, side);
		c.block_columns = even(c.columns, side);
		side -= PAIR;
	} while (side >= 4 * PAIR &&
		(c.rows / c.block_rows) * (c.columns / c.block_columns) < TASKS * team);
	return c;
}

static struct packed place(const void *m, uint64_t ld, uint64_t row, uint64_t rows,
	uint64_t at, uint64_t bytes, uint64_t size, char *to)
{
	return (struct packed){ .from = (const char *)m + row * ld * size + at,
		.row_bytes = ld * size,
		.rows = rows,
		.bytes = bytes,
		.steps = (bytes + STEP - 1) / STEP,
		.stripes = stripes_of(rows),
		.to = to };
}

/* Computes the blocks of the packed matrices: rows from i0, columns from j0 on. Runs in the
 * team. */
AMX static void multiply_packed(const struct product *p, const struct split *c,
	const struct packed *a, const struct packed *b, uint64_t i0, uint64_t j0,
	bool add, int32_t *sums)
{
	uint64_t down = (a->rows + c->block_rows - 1) / c->block_rows;
	uint64_t across = (b->rows + c->block_columns - 1) / c->block_columns;
	struct product part = *p;
	bool past = p->m * p->n * 4 >= STREAM;

	part.c = (int32_t *)p->c + i0 * p->ldc + j0;
#pragma omp for schedule(dynamic, 1)
	for (int64_t t = 0; t < (int64_t)(down * across); t++) {
		struct block k = { .i0 = (uint64_t)t / across * c->block_rows,
			.j0 = (uint64_t)t % across * c->block_columns };

		k.rows = min(c->block_rows, a->rows - k.i0);
		k.columns = min(c->block_columns, b->rows - k.j0);
		multiply_block(a, b, &k, p->type == PRODUCT_I8, sums);
		give(&part, &k, sums, add, past);
	}
	_mm_sfence();
}

AMX static void multiply(const struct product *p, const struct split *c, char *room_a,
	char *room_b, int32_t *room_sums)
{
	uint64_t size = product_element_bytes(p->type), bytes = p->k * size;

#pragma omp parallel
	{
		int32_t *sums = room_sums;

#ifdef _OPENMP
		sums += (uint64_t)omp_get_thread_num() * BLOCK * BLOCK;
#endif
		configure();
		for (uint64_t at = 0; at < bytes; at += PART) {
			uint64_t n = min(PART, bytes - at);

			for (uint64_t j = 0; j < p->n; j += c->columns) {
				struct packed b = place(p->b, p->ldb, j,
					min(c->columns, p->n - j), at, n, size, room_b);

				pack(&b, true);
				for (uint64_t i = 0; i < p->m; i += c->rows) {
					struct packed a = place(p->a, p->lda, i,
						min(c->rows, p->m - i), at, n, size,
						room_a);

					pack(&a, false);
					multiply_packed(p, c, &a, &b, i, j, at > 0, sums);
				}
			}
		}
		_tile_release();
	}
}

bool product_amx_large(const struct product *p)
{
	return (double)p->m * (double)p->n * (double)p->k > LARGE;
}

int product_amx(const struct product *p)
{
	uint64_t team = 1, bytes_a, bytes_b;
	struct split c;
	int rc;

	if ((p->type != PRODUCT_BF16 && p->type != PRODUCT_I8) ||
		(double)p->m * (double)p->n * (double)p->k < LEAST || p->m < PAIR ||
		p->n < PAIR)
		return -1;
#ifdef _OPENMP
	team = (uint64_t)omp_get_max_threads();
#endif
	c = split_of(p, team);
	bytes_a = stripes_of(c.rows) * round_up(c.steps, STEPS) * TILE;
	bytes_b = stripes_of(c.columns) * round_up(c.steps, STEPS) * TILE;
	pthread_mutex_lock(&packed.lock);
	rc = packed_reserve(bytes_a + bytes_b + team * BLOCK * BLOCK * 4);
	if (rc == 0)
		multiply(p, &c, packed.at, packed.at + bytes_a,
			(int32_t *)(void *)(packed.at + bytes_a + bytes_b));
	pthread_mutex_unlock(&packed.lock);
	return rc;
}
#else
bool product_amx_large(const struct product *p)
{
	(void)p;
	return false;
}

int product_amx(const struct product *p)
{
	(void)p;
	return -1;
}
#endif
