/* Products of any size from block products. B is packed once, together, a chunk that the caches hold at a time; then each
 * thread takes strips of rows. Every element of C is summed in the same order whoever does it. */
#include <string.h>

#include "kernels/lm_fast.h"

#define CHUNK_BYTES (UINT64_C(8) << 20) /* of packed B */
#define K_MOST      4096 /* sums of f32 results are cut there, so that chunks stay wide */
#define STRIP_MOST  128  /* rows of A */
#define C_BYTES     (LM_TILE * LM_TILE * sizeof(float))
#define SMALL       32768 /* products of fewer multiplications stay on one thread */

/* One product with all that follows from its sizes. */
struct plan {
	const struct lm_tiles *t;
	const struct lm_product *p;
	const struct lm_scratch *s;
	uint64_t k, k_padded, panel_bytes, a_bytes; /* a_bytes: of an element as stored */
	bool packs_a;
	uint64_t strip, strips; /* rows of a task */
	uint64_t first, panels; /* of the chunk that is packed */
	uint64_t groups, group; /* tasks along n, and panels of each */
};

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static void plan_tasks(struct plan *x)
{
	const struct lm_gemm *g = &x->p->g;
	uint64_t row_bytes = x->k_padded * lm_tile_bytes(x->t), wanted, room;

	x->strip = STRIP_MOST;
	wanted = 4 * (uint64_t)x->s->threads;
	if (x->packs_a && row_bytes) {
		room = (LM_OWN_BYTES - C_BYTES) / row_bytes;
		while (x->strip > LM_TILE &&
			(g->m / x->strip < wanted || x->strip > room))
			x->strip /= 2;
		if (x->strip > room)
			x->strip = room;
	}
	x->strips = (g->m + x->strip - 1) / x->strip;
}

/* How the chunk's columns are shared out, where there are too few rows for all threads. */
static void plan_groups(struct plan *x)
{
	uint64_t pairs = (x->panels + 1) / 2, wanted = 4 * (uint64_t)x->s->threads;

	x->groups = x->strips >= wanted ? 1 : (wanted + x->strips - 1) / x->strips;
	if (x->packs_a && x->strips >= (uint64_t)x->s->threads)
		x->groups = 1;
	x->groups = least(x->groups, pairs);
	x->group = (pairs + x->groups - 1) / x->groups * 2;
}

static void pack_panel(const struct plan *x, uint64_t n)
{
	const struct lm_gemm *g = &x->p->g;
	uint64_t j = (x->first + n) * LM_PANEL;
	bool by_k = g->form != LM_XWT;
	const char *b = (const char *)g->b + (by_k ? j : j * g->ldb) * lm_as_bytes(g->as);

	x->t->pack_b(x->s->shared + n * x->panel_bytes, g->as, b, g->ldb,
		least(LM_PANEL, g->n - j), x->k, x->k_padded, by_k);
}

/* Where rows i on of A are, as block products want them; *stride in bytes. */
static const char *rows_of_a(const struct plan *x, char *own, uint64_t i, uint64_t rows,
	uint64_t *stride)
{
	const struct lm_gemm *g = &x->p->g;
	bool by_k = g->form == LM_XTX;
	const char *a = (const char *)g->a + (by_k ? i : i * g->lda) * x->a_bytes;

	if (!x->packs_a) {
		*stride = g->lda * x->a_bytes;
		return a;
	}
	*stride = x->k_padded * lm_tile_bytes(x->t);
	x->t->pack_a(own, g->as, a, g->lda, rows, x->k, x->k_padded, by_k);
	return own;
}

static void *advance(const struct plan *x, uint64_t at)
{
	return (char *)x->p->g.c + at * (x->p->out == LM_OUT_F32 ? 4 : 2);
}

static void do_task(const struct plan *x, uint64_t task)
{
	const struct lm_gemm *g = &x->p->g;
	char *own = x->s->own + (uint64_t)lm_me() * LM_OWN_BYTES;
	float *c = (float *)(void *)own;
	uint64_t i0 = task / x->groups * x->strip, rows = least(x->strip, g->m - i0);
	uint64_t from = task % x->groups * x->group;
	uint64_t to = least(from + x->group, x->panels), stride;
	const char *a;

	if (from >= to)
		return;
	a = rows_of_a(x, own + C_BYTES, i0, rows, &stride);
	for (uint64_t n = from; n < to; n += 2)
		for (uint64_t i = 0; i < rows; i += LM_TILE) {
			uint64_t j = (x->first + n) * LM_PANEL;
			uint64_t at = (i0 + i) * g->ldc + j, panels = least(2, to - n);
			struct lm_done d = { .out = x->p->out,
				.to = advance(x, at),
				.from = g->from ? g->from + at : NULL,
				.bias = g->bias ? g->bias + j : NULL,
				.ld = g->ldc,
				.rows = least(LM_TILE, rows - i),
				.columns = least(panels * LM_PANEL, g->n - j) };

			x->t->mul(c, a + i * stride, stride, d.rows,
				x->s->shared + n * x->panel_bytes, x->panel_bytes, panels,
				x->k_padded, false);
			x->t->done(&d, c);
		}
}

/* All of C for one range of k. */
static void multiply(const struct lm_scratch *s, const struct lm_tiles *t,
	const struct lm_product *p)
{
	const struct lm_gemm *g = &p->g;
	struct plan x = { .t = t,
		.p = p,
		.s = s,
		.k = g->k,
		.k_padded = lm_pad_k(t, g->k),
		.panel_bytes = lm_panel_bytes(t, g->k),
		.a_bytes = lm_as_bytes(g->as) };
	uint64_t panels = (g->n + LM_PANEL - 1) / LM_PANEL, most;

	x.packs_a = g->form == LM_XTX || (g->as == LM_AS_BF16) != t->halves ||
		(x.k_padded != x.k && !p->a_padded);
	plan_tasks(&x);
	most = x.panel_bytes ? CHUNK_BYTES / x.panel_bytes / 2 * 2 : panels;
	most = most ? most : 1;
	for (x.first = 0; x.first < panels; x.first += most) {
		x.panels = least(most, panels - x.first);
		plan_groups(&x);
#pragma omp parallel num_threads(s->threads) if (g->m * g->n * (g->k + 1) > SMALL)
		{
			t->begin();
#pragma omp for schedule(static)
			for (uint64_t n = 0; n < x.panels; n++)
				pack_panel(&x, n);
#pragma omp for schedule(dynamic) nowait
			for (uint64_t task = 0; task < x.strips * x.groups; task++)
				do_task(&x, task);
			t->end();
		}
	}
}

void lm_product_fast(const struct lm_scratch *s, const struct lm_tiles *t,
	const struct lm_product *p)
{
	struct lm_product part = *p;
	struct lm_gemm *g = &part.g;
	uint64_t each = lm_as_bytes(g->as);

	if (!g->m || !g->n)
		return;
	if (p->out != LM_OUT_F32 || g->k <= K_MOST) {
		multiply(s, t, p);
		return;
	}
	for (uint64_t k = 0; k < p->g.k; k += K_MOST) {
		uint64_t a = g->form == LM_XTX ? k * g->lda : k;
		uint64_t b = g->form == LM_XWT ? k : k * g->ldb;

		g->k = least(K_MOST, p->g.k - k);
		g->a = (const char *)p->g.a + a * each;
		g->b = (const char *)p->g.b + b * each;
		g->from = k ? (const float *)g->c : p->g.from;
		g->bias = k ? NULL : p->g.bias;
		multiply(s, t, &part);
	}
}
