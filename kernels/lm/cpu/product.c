/* product.c - matrix products of any size, made of block products. A task is a block of C: it
 * packs its columns of B once, as many as fit a core's level-2 cache, and moves the rows of A
 * past them, so that each number is loaded from memory only a few times. Every element of C is
 * summed in the order of k, whichever thread computes it and however the blocks are cut. */
#include <stdlib.h>
#include <string.h>

#include "kernels/dev/dev_cpu.h"
#include "kernels/lm/cpu/fast.h"

#define K_MAX 4096 /* values of k that are packed at once */
/* rows of B stored [k][n] that are packed for all columns before the next ones */
#define K_PIECE    64
#define STRIP_MAX  128 /* rows of A that are packed at once */
#define M_MIN      256 /* rows per task: packing B then takes less than a fifth of its time */
#define N_MIN      128
#define SQUARE     (LM_TILE * LM_TILE)
#define C_BYTES    (SQUARE * sizeof(float))
#define A_BYTES    (UINT64_C(1152) << 10)
#define SUMS_BYTES (UINT64_C(1) << 20)
#define SMALL      32768 /* products of fewer multiplications run on one thread */

_Static_assert(C_BYTES + A_BYTES + SUMS_BYTES + LM_BLOCK_BYTES_MAX <= LM_OWN_BYTES,
	"a thread's scratch");

/* One product, and the plan that follows from its sizes. */
struct plan {
	const struct lm_tiles *t;
	struct lm_product p;
	const struct lm_scratch *s;
	uint64_t each, a_each; /* bytes of an element, packed and as stored */
	uint64_t k_chunk;
	bool packs_a;
	uint64_t mb, nb, m_tasks,
		n_tasks; /* rows and columns of a task: whole tiles, except in the last */
};

/* Scratch memory of one task. */
struct own {
	float *c, *sums;
	char *a, *b;
};

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t whole_tiles(uint64_t n, uint64_t parts)
{
	return ((n + parts - 1) / parts + LM_TILE - 1) / LM_TILE * LM_TILE;
}

/* Divides rows or columns among tasks, whichever packs less. */
static void plan_tasks(struct plan *x)
{
	const struct lm_gemm *g = &x->p.g;
	uint64_t column_bytes = x->each * (x->k_chunk + 1), largest, wanted;
	uint64_t m_tasks = 1, n_tasks;
	bool parallel = g->m * g->n * (g->k + 1) > SMALL && x->s->threads > 1;

	largest = x->s->block_bytes / column_bytes / LM_TILE * LM_TILE;
	largest = largest ? largest : LM_TILE;
	n_tasks = (g->n + largest - 1) / largest;
	if (g->k > K_MAX)
		m_tasks = (g->m * min_u64(largest, g->n) * 4 + SUMS_BYTES - 1) /
			SUMS_BYTES;
	wanted = parallel ? 2 * (uint64_t)x->s->threads : 1;
	for (uint64_t least_m = M_MIN, least_n = N_MIN;
		m_tasks * n_tasks < wanted && least_m;) {
		bool m_can = g->m >= least_m * (m_tasks + 1);
		bool n_can = g->n >= least_n * (n_tasks + 1);
		bool rows = x->packs_a ? g->m * 2 > g->n : g->m > 4 * g->n;

		if (m_can && (rows || !n_can))
			m_tasks++;
		else if (n_can)
			n_tasks++;
		else
			least_m /= 2, least_n = least_n > LM_TILE ? least_n / 2 : LM_TILE;
	}
	x->mb = whole_tiles(g->m, m_tasks);
	x->nb = whole_tiles(g->n, n_tasks);
	x->m_tasks = (g->m + x->mb - 1) / x->mb;
	x->n_tasks = (g->n + x->nb - 1) / x->nb;
}

/* Packs columns from j on, k0 .. k0 + k, as panels. */
static void pack_b(const struct plan *x, char *to, uint64_t j, uint64_t columns,
	uint64_t k0, uint64_t k)
{
	const struct lm_gemm *g = &x->p.g;
	bool by_k = g->form != LM_XWT;
	uint64_t piece = by_k ? K_PIECE : K_MAX, bytes = lm_panel_bytes(x->t, k);

	for (uint64_t t = 0; t < k; t += piece) {
		uint64_t part = min_u64(piece, k - t);

		for (uint64_t n = 0; n < columns; n += LM_PANEL) {
			uint64_t at = by_k ? (k0 + t) * g->ldb + j + n :
					     (j + n) * g->ldb + k0 + t;

			x->t->pack_b(to + n / LM_PANEL * bytes + t * LM_PANEL * x->each,
				g->dtype, (const char *)g->b + at * x->a_each, g->ldb,
				min_u64(LM_PANEL, columns - n), part,
				lm_pad_k(x->t, part), by_k);
		}
	}
}

/* Returns rows from i on in the form that block products take: in place, or packed; *stride in
 * bytes. Packed rows are padded by a cache line: sixteen rows whose stride is a power of two
 * would compete for the same few sets of the cache. */
static const char *rows_of_a(const struct plan *x, char *packed, uint64_t i,
	uint64_t rows, uint64_t k0, uint64_t k, uint64_t *stride)
{
	const struct lm_gemm *g = &x->p.g;
	bool by_k = g->form == LM_XTX;
	uint64_t at = by_k ? k0 * g->lda + i : i * g->lda + k0;
	const char *a = (const char *)g->a + at * x->a_each;
	uint64_t padded = lm_pad_k(x->t, k) + 64 / x->each;

	if (!x->packs_a) {
		*stride = g->lda * x->a_each;
		return a;
	}
	*stride = padded * x->each;
	x->t->pack_a(packed, g->dtype, a, g->lda, rows, k, padded, by_k);
	return packed;
}

static void end_of(const struct plan *x, const float *c, uint64_t i, uint64_t rows,
	uint64_t j, uint64_t columns)
{
	const struct lm_gemm *g = &x->p.g;
	uint64_t at = i * g->ldc + j;
	struct lm_done d = { .out = x->p.out,
		.to = (char *)g->c + at * (x->p.out == LM_OUT_F32 ? 4 : 2),
		.from = g->from ? g->from + at : NULL,
		.bias = g->bias ? g->bias + j : NULL,
		.scale = lm_gemm_scale(g),
		.ld = g->ldc,
		.rows = rows,
		.columns = columns };

	x->t->done(&d, c);
}

/* Computes 32 rows of C for one chunk of k, in a task whose first row and column are i0 and j0. */
static void do_rows(const struct plan *x, const struct own *own, const char *a,
	uint64_t stride, uint64_t i0, uint64_t i, uint64_t rows, uint64_t j0,
	uint64_t columns, uint64_t k0, uint64_t k)
{
	uint64_t bytes = lm_panel_bytes(x->t, k), padded = lm_pad_k(x->t, k);
	bool whole = x->p.g.k <= K_MAX, last = k0 + k == x->p.g.k;

	for (uint64_t j = 0; j < columns; j += LM_TILE) {
		uint64_t n = min_u64(LM_TILE, columns - j);
		float *c = whole ? own->c :
				   own->sums +
				((i - i0) / LM_TILE * (x->nb / LM_TILE) + j / LM_TILE) *
					SQUARE;

		x->t->mul(c, a, stride, rows, own->b + j / LM_PANEL * bytes, bytes,
			n > LM_PANEL ? 2 : 1, padded, k0 > 0);
		if (last)
			end_of(x, c, i, rows, j0 + j, n);
	}
}

static void do_task(const struct plan *x, uint64_t task)
{
	const struct lm_gemm *g = &x->p.g;
	char *at = lm_own(x->s);
	struct own own = { .c = (float *)(void *)at,
		.sums = (float *)(void *)(at + C_BYTES),
		.a = at + C_BYTES + SUMS_BYTES,
		.b = at + C_BYTES + SUMS_BYTES + A_BYTES };
	uint64_t i0 = task / x->n_tasks * x->mb, i1 = min_u64(i0 + x->mb, g->m);
	uint64_t j0 = task % x->n_tasks * x->nb, columns = min_u64(x->nb, g->n - j0);
	uint64_t k0 = 0;

	do {
		uint64_t k = min_u64(x->k_chunk, g->k - k0), stride;
		uint64_t strip = LM_TILE, row_bytes = x->each * (k + 64);

		if (x->packs_a)
			strip = min_u64(STRIP_MAX,
				A_BYTES / row_bytes / LM_TILE * LM_TILE);
		pack_b(x, own.b, j0, columns, k0, k);
		for (uint64_t i = i0; i < i1; i += strip) {
			uint64_t rows = min_u64(strip, i1 - i);
			const char *a = rows_of_a(x, own.a, i, rows, k0, k, &stride);

			for (uint64_t n = 0; n < rows; n += LM_TILE)
				do_rows(x, &own, a + n * stride, stride, i0, i + n,
					min_u64(LM_TILE, rows - n), j0, columns, k0, k);
		}
		k0 += k;
	} while (k0 < g->k);
}

char *lm_own(const struct lm_scratch *s)
{
	int me = team_me();

	if (me >= s->threads)
		abort(); /* the team has grown since prepare */
	return s->own + (uint64_t)me * LM_OWN_BYTES;
}

static void product_part(void *work, uint64_t from, uint64_t to)
{
	const struct plan *x = work;

	x->t->begin();
	for (uint64_t task = from; task < to; task++)
		do_task(x, task);
	x->t->end();
}

int lm_product_fast(struct dev *d, const struct lm_scratch *s, const struct lm_tiles *t,
	const struct lm_product *p)
{
	const struct lm_gemm *g = &p->g;
	struct plan x = { .t = t,
		.p = *p,
		.s = s,
		.each = lm_tile_bytes(t),
		.a_each = lm_dtype_bytes(g->dtype),
		.k_chunk = min_u64(g->k, K_MAX) };
	struct team_op op = { .part = product_part,
		.work = &x,
		.grain = 1,
		.pieces = UINT32_MAX };

	if (!g->m || !g->n)
		return 0;
	x.packs_a = g->form == LM_XTX || (g->dtype == LM_DTYPE_BF16) != t->halves ||
		(lm_pad_k(t, g->k) != g->k && !p->a_padded);
	plan_tasks(&x);
	op.n = x.m_tasks * x.n_tasks;
	return cpu_do(d, &op, sizeof x);
}
