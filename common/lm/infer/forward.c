/* forward.c - the layers of a model, run over rows of many sequences; long because the operations of a
 * pass share one set of tables and work space. */
#include "common/lm/infer/forward.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/hw/device.h"
#include "common/lm/infer/infer_parts.h"
#include "common/lm/infer/replay.h"
#include "common/lm/model/rope.h"
#include "kernels/dev/team.h"

#define LAST_ROWS LM_LOGITS_MAX /* that the last layer can be restricted to */
#define KEYS_STEP 128           /* positions with which a GPU divides attention alike */
/* rows up to which the CPU may make gates and what quantises them together */
#define TOGETHER_ROWS 8
/* Up to so many numbers one thread embeds sooner than others wake up. */
#define EMBED_ALONE 65536

/* Columns of `indices` and `host`: one number for each row. CHOSEN: the rows whose logits are wanted; then their
 * positions and tables. */
enum column { POSITION, SLOT, TABLE, CHOSEN, CHOSEN_POSITION, CHOSEN_TABLE, COLUMNS };

struct lm_forward {
	const struct lm_weights *w;
	struct lm_cache *cache;
	struct lm_forward_limits limits;

	/* in device memory */
	float *table;         /* rotary positions of the context */
	float *local_table;   /* those of layers with a window, where they differ */
	float *x, *h;         /* [rows][dim] */
	float *q, *a;         /* [rows][heads head_dim] */
	float *k, *v;         /* [rows][kv_heads head_dim]; k lies after the rows of q */
	float *gu, *y;        /* [rows][2 hidden], [rows][hidden] */
	struct lm_block8 *x8; /* activations of the next quantised products */
	struct lm_block8 *y8; /* y, where the operation that makes it quantises it, too */
	float *low;           /* [rows][rank] of adapters; NULL: there are none */
	float *gathered;      /* [LAST_ROWS][dim]: rows of x that lie apart */
	float *logits;        /* [logits_rows()][vocab] */
	uint32_t *indices;    /* the device's copy of `host` */

	/* in host memory */
	float *embedded, *scores; /* copies of x and logits */
	uint32_t *host;           /* the columns, then lists of pages */
	bool sent;                /* the device may still read embedded and host */
	uint32_t rows;   /* of the current pass, or of them those in its last layer */
	uint32_t wanted; /* rows of the pass whose logits are wanted */
	bool narrowed;   /* only those are left, in `gathered` */
	const struct lm_row *pass;
	bool adapts;     /* some row has an adapter */
	uint32_t scored; /* wanted rows that came before those that are scored */
	uint32_t keys_max;
	bool apart;                /* no two rows are of one sequence */
	struct lm_replays replays; /* by rows, less one */
};

/* --- sizes ---------------------------------------------------------------------------------- */

/* Sizes of the buffers, in numbers of 4 bytes. The bounds in config.h keep every product below
 * 2^63. */
struct sizes {
	uint64_t table, x, q, kv, gu, y, x8, y8, gathered, logits, indices;
};

/* Returns the size of the widest activations that a quantised matrix can take. */
static uint64_t x8_size(const struct lm_config *c, uint64_t rows)
{
	uint64_t max = c->hidden > c->dim ? c->hidden : c->dim;

	max = max > lm_q_dim(c) ? max : lm_q_dim(c);
	return rows * (max / LM_WEIGHT_BLOCK) * (sizeof(struct lm_block8) / 4);
}

static uint32_t logits_rows(const struct lm_forward_limits *l)
{
	uint32_t n = l->logits ? l->logits : LM_LOGITS;

	return n < LM_LOGITS_MAX ? n : LM_LOGITS_MAX;
}

static struct sizes sizes_of(const struct lm_config *c, const struct lm_forward_limits *l)
{
	uint64_t rows = l->rows;

	return (struct sizes){ .table = (uint64_t)l->context * lm_config_rotary(c),
		.x = rows * c->dim,
		.q = rows * lm_q_dim(c),
		.kv = rows * lm_kv_dim(c),
		.gu = rows * 2 * c->hidden,
		.y = rows * c->hidden,
		.x8 = x8_size(c, rows),
		.y8 = (rows < TOGETHER_ROWS ? rows : TOGETHER_ROWS) *
			(c->hidden / LM_WEIGHT_BLOCK) * (sizeof(struct lm_block8) / 4),
		.gathered = (rows < LAST_ROWS ? rows : LAST_ROWS) * c->dim,
		.logits = logits_rows(l) * (uint64_t)c->vocab,
		.indices = COLUMNS * rows +
			(uint64_t)l->sequences * lm_cache_pages(l->context) };
}

void lm_forward_bytes(const struct lm_config *c, const struct lm_forward_limits *limits,
	uint64_t *tables, uint64_t *work)
{
	struct sizes z = sizes_of(c, limits);

	*tables = 4 * z.table * (c->rope.local_base > 0 ? 2 : 1);
	*work = 4 *
		(3 * z.x + 2 * z.q + 2 * z.kv + z.gu + z.y + z.x8 + z.y8 + z.gathered +
			2 * z.logits + 2 * z.indices);
}

/* --- open and close ------------------------------------------------------------------------- */

static int put_table(struct lm_forward *f, float **to, uint64_t count, bool local)
{
	struct dev *d = f->w->d;
	float *table;
	int rc;

	if (lm_infer_alloc(d, to, count) < 0)
		return -1;
	table = xmalloc(4 * count);
	lm_rope_table(table, &f->w->config, f->limits.context, local);
	rc = d->ops->put(d, *to, table, 4 * count);
	free(table);
	return rc < 0 ? device_failed(d) : 0;
}

/* Allocates host memory that the device copies at full speed. */
static int pin(struct lm_forward *f, float **out, uint64_t count)
{
	void *p;

	if (f->w->d->ops->pin(f->w->d, &p, 4 * count) < 0)
		return device_failed(f->w->d);
	*out = p;
	return 0;
}

static int allocate(struct lm_forward *f)
{
	struct sizes z = sizes_of(&f->w->config, &f->limits);
	struct {
		float **to;
		uint64_t count;
	} all[] = { { &f->x, z.x }, { &f->h, z.x }, { &f->q, z.q + z.kv }, { &f->a, z.q },
		{ &f->v, z.kv }, { &f->gu, z.gu }, { &f->y, z.y },
		{ &f->gathered, z.gathered }, { &f->logits, z.logits } };
	float *indices, *x8, *y8, *host;
	uint64_t rank = 0;

	for (uint32_t i = 0; i < f->w->adapter_count; i++)
		if (lm_adapter_rank(f->w->adapters[i]) > rank)
			rank = lm_adapter_rank(f->w->adapters[i]);
	if (rank && lm_infer_alloc(f->w->d, &f->low, f->limits.rows * rank) < 0)
		return -1;
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (lm_infer_alloc(f->w->d, all[i].to, all[i].count) < 0)
			return -1;
	if (lm_infer_alloc(f->w->d, &x8, z.x8) < 0)
		return -1;
	f->x8 = (struct lm_block8 *)(void *)x8;
	if (lm_infer_alloc(f->w->d, &y8, z.y8) < 0)
		return -1;
	f->y8 = (struct lm_block8 *)(void *)y8;
	if (lm_infer_alloc(f->w->d, &indices, z.indices) < 0)
		return -1;
	f->indices = (uint32_t *)(void *)indices;
	if (pin(f, &f->embedded, z.x) < 0 || pin(f, &f->scores, z.logits) < 0 ||
		pin(f, &host, z.indices) < 0)
		return -1;
	f->host = (uint32_t *)(void *)host;
	if (f->w->config.rope.local_base > 0 &&
		put_table(f, &f->local_table, z.table, true) < 0)
		return -1;
	return put_table(f, &f->table, z.table, false);
}

int lm_forward_open(struct lm_forward **out, const struct lm_weights *w,
	struct lm_cache *c, const struct lm_forward_limits *limits)
{
	struct lm_forward *f;

	*out = NULL;
	if (limits->context > LM_CONTEXT_MAX)
		return err_set(EX_USAGE, "a context has at most %u tokens",
			LM_CONTEXT_MAX);
	f = xcalloc(1, sizeof *f);
	f->w = w;
	f->cache = c;
	f->limits = *limits;
	if (allocate(f) < 0) {
		lm_forward_close(f);
		return -1;
	}
	*out = f;
	return 0;
}

void lm_forward_close(struct lm_forward *f)
{
	if (!f)
		return;
	void *all[] = { f->table, f->local_table, f->x, f->h, f->q, f->a, f->v, f->gu,
		f->y, f->x8, f->y8, f->low, f->gathered, f->logits, f->indices };

	if (f->sent)
		(void)f->w->d->ops->sync(f->w->d);
	lm_replays_free(&f->replays, f->w->d);
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		f->w->d->ops->free(f->w->d, all[i]);
	f->w->d->ops->unpin(f->w->d, f->embedded);
	f->w->d->ops->unpin(f->w->d, f->scores);
	f->w->d->ops->unpin(f->w->d, f->host);
	free(f);
}

/* --- operations ----------------------------------------------------------------------------- */

static const struct lm_ops *ops(const struct lm_forward *f)
{
	return f->w->d->ops->lm;
}

static uint32_t *column(const struct lm_forward *f, enum column which)
{
	return f->indices + which * f->limits.rows;
}

static uint32_t *host_column(const struct lm_forward *f, enum column which)
{
	return f->host + which * f->limits.rows;
}

static bool is_quantized(const struct lm_matrix *w)
{
	return lm_weight_is_quantized(w->type);
}

/* Quantises activations into x8 if a matrix that takes them needs that. */
static int quantize(struct lm_forward *f, const float *x, uint64_t k, uint64_t rows,
	bool needed)
{
	struct lm_quantize q = { .to = f->x8, .x = x, .rows = rows, .k = k, .ldx = k };

	return needed ? ops(f)->quantize(f->w->d, &q) : 0;
}

/* Adds what an adapter does to the product of rows first .. first + n - 1 with a matrix. */
static int add_delta(struct lm_forward *f, const struct lm_matrix *w,
	const struct lm_delta *delta, float *y, uint64_t ldy, const float *x,
	uint64_t first, uint64_t n)
{
	struct lm_project down = { .type = LM_WEIGHT_F32,
		.y = f->low,
		.x = x + first * w->k,
		.w = delta->a,
		.rows = n,
		.n = delta->rank,
		.k = w->k,
		.ldx = w->k,
		.ldy = delta->rank };
	struct lm_project up = { .type = LM_WEIGHT_F32,
		.y = y + first * ldy,
		.x = f->low,
		.from = y + first * ldy,
		.w = delta->b,
		.rows = n,
		.n = w->n,
		.k = delta->rank,
		.ldx = delta->rank,
		.ldy = ldy };

	if (ops(f)->project(f->w->d, &down) < 0)
		return -1;
	return ops(f)->project(f->w->d, &up);
}

/* The adapter of row i of those that the pass is at. */
static uint32_t adapter_of(const struct lm_forward *f, uint32_t i)
{
	return f->pass[f->narrowed ? host_column(f, CHOSEN)[i] : i].adapter;
}

/* Adds what the adapters of the rows do to the product of all rows with a matrix: adjacent rows
 * with the same adapter together. */
static int adapt(struct lm_forward *f, const struct lm_matrix *w, float *y, uint64_t ldy,
	const float *x)
{
	for (uint32_t i = 0, n; i < f->rows; i += n) {
		uint32_t adapter = adapter_of(f, i);
		const struct lm_delta *delta = adapter ?
			lm_adapter_at(f->w->adapters[adapter - 1], w->layer, w->adapted) :
			NULL;

		for (n = 1; i + n < f->rows && adapter_of(f, i + n) == adapter; n++)
			;
		if (delta && delta->a && add_delta(f, w, delta, y, ldy, x, i, n) < 0)
			return -1;
	}
	return 0;
}

/* x, or x8 if w is quantised, times a matrix. */
static struct lm_project product_of(const struct lm_forward *f, const struct lm_matrix *w,
	float *y, uint64_t ldy, const float *x, uint64_t rows, const float *from)
{
	const void *packed = atomic_load_explicit(&w->packed, memory_order_acquire);

	return (struct lm_project){ .type = w->type,
		.y = y,
		.x = x,
		.x8 = f->x8,
		.from = from,
		.bias = w->bias,
		.w = packed ? packed : w->w,
		.packed = packed != NULL,
		.rows = rows,
		.n = w->n,
		.k = w->k,
		.ldx = w->k,
		.ldy = ldy };
}

/* Computes it. x is needed for adapters in any case. */
static int project_with(struct lm_forward *f, const struct lm_matrix *w, float *y,
	uint64_t ldy, const float *x, const struct lm_block8 *x8, uint64_t rows,
	const float *from)
{
	struct lm_project p = product_of(f, w, y, ldy, x, rows, from);

	p.x8 = x8;
	if (ops(f)->project(f->w->d, &p) < 0)
		return -1;
	return f->adapts && w->adapted != LM_ADAPTED ? adapt(f, w, y, ldy, x) : 0;
}

static int project(struct lm_forward *f, const struct lm_matrix *w, float *y,
	uint64_t ldy, const float *x, uint64_t rows, const float *from)
{
	return project_with(f, w, y, ldy, x, f->x8, rows, from);
}

/* y = norm(x) w + from; from may be NULL. */
static int norm_to(struct lm_forward *f, float *y, const float *x, const float *w,
	uint64_t rows, uint64_t dim, const float *from)
{
	struct lm_norm n = { .dtype = LM_DTYPE_F32,
		.y = y,
		.x = x,
		.w = w,
		.from = from,
		.rows = rows,
		.dim = dim,
		.eps = (float)f->w->config.rms_eps };

	return ops(f)->norm(f->w->d, &n);
}

static int norm(struct lm_forward *f, const float *x, const float *w, uint64_t rows)
{
	return norm_to(f, f->h, x, w, rows, f->w->config.dim, NULL);
}

/* What layers of norm(x) multiply, in h or x8. */
static int layer_input(struct lm_forward *f, const float *weights, bool quantized)
{
	return norm(f, f->x, weights, f->rows) < 0 ||
			quantize(f, f->h, f->w->config.dim, f->rows, quantized) < 0 ?
		-1 :
		0;
}

/* Makes layers of norm(x) together. Returns 0; 1: they are to be made one by one, and their input is made; or -1. */
static int project_together(struct lm_forward *f, struct lm_project_group *g,
	bool quantized)
{
	bool host = f->w->d->is_host;
	int rc = host || f->adapts ? 1 : ops(f)->project_group(f->w->d, g);

	if (rc <= 0)
		return rc;
	if (layer_input(f, g->norm, quantized) < 0)
		return -1;
	if (!host || f->adapts)
		return 1;
	g->norm = NULL;
	for (uint32_t i = 0; i < g->n; i++)
		g->p[i].x = f->h;
	return ops(f)->project_group(f->w->d, g);
}

/* Normalises each head of q or k, if the model does. */
static int norm_heads(struct lm_forward *f, float *x, const float *w, uint64_t heads)
{
	return w ? norm_to(f, x, x, w, f->rows * heads, f->w->config.head_dim, NULL) : 0;
}

static struct lm_rotate rotation(const struct lm_forward *f, float *x, uint64_t heads,
	uint32_t layer)
{
	const struct lm_config *c = &f->w->config;
	bool local = c->rope.local_base > 0 && lm_config_window(c, layer);

	return (struct lm_rotate){ .dtype = LM_DTYPE_F32,
		.x = x,
		.table = local ? f->local_table : f->table,
		.position = column(f, f->narrowed ? CHOSEN_POSITION : POSITION),
		.rows = f->rows,
		.ld = heads * c->head_dim,
		.heads = heads,
		.head_dim = lm_config_rotary(c),
		.stride = c->head_dim,
		.interleaved = c->rope.interleaved };
}

static int rotate_heads(struct lm_forward *f, float *x, uint64_t heads, uint32_t layer)
{
	struct lm_rotate r = rotation(f, x, heads, layer);

	return ops(f)->rotate(f->w->d, &r);
}

static struct lm_paged_put putting(const struct lm_forward *f, uint32_t layer)
{
	return (struct lm_paged_put){ .type = lm_cache_type(f->cache),
		.keys = lm_cache_keys(f->cache, layer),
		.values = lm_cache_values(f->cache, layer),
		.k = f->k,
		.v = f->v,
		.slot = column(f, SLOT),
		.rows = f->rows,
		.width = lm_kv_dim(&f->w->config),
		.by_head = f->w->d->is_host ? f->w->config.head_dim : 0,
		.stride = lm_cache_stride(f->cache) };
}

static int store(struct lm_forward *f, uint32_t layer)
{
	struct lm_paged_put p = putting(f, layer);

	return ops(f)->paged_put(f->w->d, &p);
}

/* Rotates q and k, and stores k and v. */
static int rotate_and_store(struct lm_forward *f, uint32_t layer)
{
	const struct lm_config *c = &f->w->config;
	struct lm_rotate_put all = { rotation(f, f->q, c->heads, layer),
		rotation(f, f->k, c->kv_heads, layer), putting(f, layer) };
	int rc = f->w->d->is_host ? 1 : ops(f)->rotate_put(f->w->d, &all);

	if (rc <= 0)
		return rc;
	/* of one row q and k are heads side by side: one operation rotates both */
	if (f->rows == 1)
		rc = rotate_heads(f, f->q, c->heads + c->kv_heads, layer);
	else
		rc = rotate_heads(f, f->q, c->heads, layer) < 0 ?
			-1 :
			rotate_heads(f, f->k, c->kv_heads, layer);
	return rc < 0 ? -1 : store(f, layer);
}

static int attend(struct lm_forward *f, uint32_t layer)
{
	const struct lm_config *c = &f->w->config;
	struct lm_paged_attend a = { .type = lm_cache_type(f->cache),
		.out = f->a,
		.q = f->q,
		.keys = lm_cache_keys(f->cache, layer),
		.values = lm_cache_values(f->cache, layer),
		.position = column(f, f->narrowed ? CHOSEN_POSITION : POSITION),
		.table = column(f, f->narrowed ? CHOSEN_TABLE : TABLE),
		.blocks = f->indices + COLUMNS * (uint64_t)f->limits.rows,
		.rows = f->rows,
		.heads = c->heads,
		.kv_heads = c->kv_heads,
		.head_dim = c->head_dim,
		.window = lm_config_window(c, layer),
		.ldq = lm_q_dim(c),
		.ldk = lm_kv_dim(c),
		.ldo = lm_q_dim(c),
		.keys_max = f->keys_max,
		.apart = f->apart,
		.scale = c->query_scale > 0 ? (float)c->query_scale :
					      1 / sqrtf((float)c->head_dim),
		.softcap = (float)c->score_cap,
		.by_head = f->w->d->is_host,
		.stride = lm_cache_stride(f->cache) };

	return ops(f)->paged_attend(f->w->d, &a);
}

static int swiglu(struct lm_forward *f)
{
	struct lm_swiglu g = { .dtype = LM_DTYPE_F32,
		.y = f->y,
		.x = f->gu,
		.rows = f->rows,
		.hidden = f->w->config.hidden,
		.gelu = f->w->config.gelu };

	return ops(f)->swiglu(f->w->d, &g);
}

/* y = from + x times w, of a device that quantises x for that itself. Returns 0; 1: it does not; or -1. */
static int product_of_floats(struct lm_forward *f, const struct lm_matrix *w, float *y,
	const float *x, uint64_t rows, const float *from)
{
	struct lm_project_group g = { .p = { product_of(f, w, y, f->w->config.dim, x,
					      rows, from) },
		.n = 1 };

	g.p->x8 = NULL;
	return f->adapts || !is_quantized(w) ? 1 : ops(f)->project_group(f->w->d, &g);
}

/* x += activations times w, normalised if the model does. The activations are not h; x8: they are quantised already. */
static int add_product(struct lm_forward *f, const struct lm_matrix *w, const float *x,
	const struct lm_block8 *x8, const float *post_norm)
{
	uint64_t dim = f->w->config.dim, rows = f->rows;
	float *y = post_norm ? f->h : f->x, *from = post_norm ? NULL : f->x;
	int rc = x8 ? 1 : product_of_floats(f, w, y, x, rows, from);

	if (rc > 0 && quantize(f, x, w->k, rows, !x8 && is_quantized(w)) < 0)
		return -1;
	if (rc > 0)
		rc = project_with(f, w, y, dim, x, x8 ? x8 : f->x8, rows, from);
	if (rc < 0 || !post_norm)
		return rc;
	return norm_to(f, f->x, f->h, post_norm, rows, dim, f->x);
}

static bool heads_quantized(const struct lm_layer *l)
{
	return is_quantized(&l->q) || is_quantized(&l->k) || is_quantized(&l->v);
}

static int queries(struct lm_forward *f, const struct lm_layer *l)
{
	return project(f, &l->q, f->q, l->q.n, f->h, f->rows, NULL) < 0 ||
			norm_heads(f, f->q, l->q_norm, f->w->config.heads) < 0 ?
		-1 :
		0;
}

static int keys_and_values(struct lm_forward *f, const struct lm_layer *l)
{
	uint64_t kv = lm_kv_dim(&f->w->config);

	return project(f, &l->k, f->k, kv, f->h, f->rows, NULL) < 0 ||
			project(f, &l->v, f->v, kv, f->h, f->rows, NULL) < 0 ||
			norm_heads(f, f->k, l->k_norm, f->w->config.kv_heads) < 0 ?
		-1 :
		0;
}

/* Queries, keys and values of all rows. */
static int all_heads(struct lm_forward *f, const struct lm_layer *l)
{
	const struct lm_config *c = &f->w->config;
	uint64_t kv = lm_kv_dim(c), rows = f->rows;
	struct lm_project_group g = {
		.p = { product_of(f, &l->q, f->q, l->q.n, f->x, rows, NULL),
			product_of(f, &l->k, f->k, kv, f->x, rows, NULL),
			product_of(f, &l->v, f->v, kv, f->x, rows, NULL) },
		.n = 3,
		.norm = l->attn_norm,
		.eps = (float)c->rms_eps
	};
	int rc = project_together(f, &g, heads_quantized(l));

	if (rc > 0)
		return queries(f, l) < 0 ? -1 : keys_and_values(f, l);
	return rc < 0 || norm_heads(f, f->q, l->q_norm, c->heads) < 0 ?
		-1 :
		norm_heads(f, f->k, l->k_norm, c->kv_heads);
}

/* What `down` multiplies, in y. Sets *quantized if it is in y8, too. */
static int gates(struct lm_forward *f, const struct lm_layer *l, bool *quantized)
{
	const struct lm_config *c = &f->w->config;
	uint64_t hidden = c->hidden, rows = f->rows;
	struct lm_project_group g = { .p = { product_of(f, &l->gate, f->gu, 2 * hidden,
						     f->x, rows, NULL),
					      product_of(f, &l->up, f->gu + hidden,
						      2 * hidden, f->x, rows, NULL) },
		.n = 2,
		.norm = l->ffn_norm,
		.eps = (float)c->rms_eps,
		.gated = f->y,
		.gated8 = is_quantized(&l->down) ? f->y8 : NULL,
		.gelu = c->gelu };
	int rc = project_together(f, &g, is_quantized(&l->gate) || is_quantized(&l->up));

	*quantized = rc == 0 && f->w->d->is_host;
	if (rc <= 0)
		return rc;
	if (project(f, &l->gate, f->gu, 2 * hidden, f->h, rows, NULL) < 0 ||
		project(f, &l->up, f->gu + hidden, 2 * hidden, f->h, rows, NULL) < 0)
		return -1;
	return swiglu(f);
}

/* Leaves of the pass the rows whose logits are wanted: behind the keys and values of the last layer nobody reads
 * the others. */
static int narrow(struct lm_forward *f)
{
	struct lm_embed e = { .dtype = LM_DTYPE_F32,
		.x = f->gathered,
		.w = f->x,
		.token = column(f, CHOSEN),
		.rows = f->wanted,
		.dim = f->w->config.dim,
		.vocab = f->rows };

	if (f->wanted && ops(f)->embed(f->w->d, &e) < 0)
		return -1;
	f->x = f->gathered;
	f->rows = f->wanted;
	f->narrowed = true;
	return 0;
}

static bool narrows(const struct lm_forward *f, uint32_t layer)
{
	return layer + 1 == f->w->config.layers && f->wanted < f->rows &&
		f->wanted <= LAST_ROWS;
}

/* Writes keys and values of all rows, and q of those that go on. */
static int project_heads(struct lm_forward *f, const struct lm_layer *l, uint32_t i)
{
	const struct lm_config *c = &f->w->config;

	if (!narrows(f, i))
		return all_heads(f, l) < 0 ? -1 : rotate_and_store(f, i);
	if (layer_input(f, l->attn_norm, heads_quantized(l)) < 0 ||
		keys_and_values(f, l) < 0 || rotate_heads(f, f->k, c->kv_heads, i) < 0 ||
		store(f, i) < 0 || narrow(f) < 0)
		return -1;
	if (!f->rows)
		return 0;
	return layer_input(f, l->attn_norm, heads_quantized(l)) < 0 || queries(f, l) < 0 ?
		-1 :
		rotate_heads(f, f->q, c->heads, i);
}

static int layer(struct lm_forward *f, uint32_t i)
{
	const struct lm_layer *l = &f->w->layers[i];
	bool quantized;

	if (project_heads(f, l, i) < 0)
		return -1;
	if (!f->rows)
		return 0;
	if (attend(f, i) < 0 ||
		add_product(f, &l->o, f->a, NULL, l->attn_post_norm) < 0 ||
		gates(f, l, &quantized) < 0)
		return -1;
	return add_product(f, &l->down, f->y, quantized ? f->y8 : NULL, l->ffn_post_norm);
}

/* --- a pass --------------------------------------------------------------------------------- */

static int check(const struct lm_forward *f, const struct lm_row *rows, uint32_t n)
{
	const struct lm_sequence *last = NULL;
	uint32_t next = 0, sequences = 0;

	if (!n || n > f->limits.rows)
		bug("a pass of %u rows", n);
	for (uint32_t i = 0; i < n; i++) {
		const struct lm_row *r = &rows[i];

		if (r->token >= f->w->config.vocab)
			return err_set(EX_DATAERR,
				"token %u is not in a vocabulary of %u", r->token,
				f->w->config.vocab);
		if (r->position >= f->limits.context)
			return err_set(EX_DATAERR, "the context of %u tokens is full",
				f->limits.context);
		if (r->sequence != last) {
			last = r->sequence;
			next = last->length;
			sequences++;
		}
		if (r->position != next++ || r->position / LM_PAGE >= r->sequence->n ||
			r->adapter > f->w->adapter_count)
			bug("row %u of a pass is not where its sequence goes on", i);
	}
	if (sequences > f->limits.sequences)
		bug("a pass of %u sequences", sequences);
	return 0;
}

/* Copies to the device where each row lies in the cache, and the page lists of the sequences,
 * one after the other. */
static int put_indices(struct lm_forward *f, const struct lm_row *rows)
{
	uint32_t *lists = f->host + COLUMNS * (uint64_t)f->limits.rows, from = 0,
		 used = 0;
	struct dev *d = f->w->d;

	f->keys_max = f->wanted = 0;
	f->apart = true;
	for (uint32_t i = 0; i < f->rows; i++) {
		const struct lm_sequence *s = rows[i].sequence;
		uint32_t at = rows[i].position, page = s->pages[at / LM_PAGE];

		if (i == 0 || s != rows[i - 1].sequence) {
			from = used;
			memcpy(lists + from, s->pages, s->n * sizeof *lists);
			used += s->n;
		} else {
			f->apart = false;
		}
		host_column(f, POSITION)[i] = at;
		host_column(f, SLOT)[i] = page * LM_PAGE + at % LM_PAGE;
		host_column(f, TABLE)[i] = from;
		if (at >= f->keys_max)
			f->keys_max = at + 1;
		if (!rows[i].logits)
			continue;
		host_column(f, CHOSEN)[f->wanted] = i;
		host_column(f, CHOSEN_POSITION)[f->wanted] = at;
		host_column(f, CHOSEN_TABLE)[f->wanted++] = from;
	}
	f->sent = true;
	if (d->ops->put_later(d, f->indices, f->host,
		    4 * (COLUMNS * (uint64_t)f->limits.rows + used)) < 0)
		return device_failed(d);
	return 0;
}

/* Embeds rows from .. to - 1 of the pass, on the host. */
static void embed_rows(void *work, uint64_t from, uint64_t to)
{
	const struct lm_forward *f = work;
	const struct lm_tensor *e = f->w->embed;
	uint64_t dim = f->w->config.dim, row_bytes = e->bytes / e->shape[0];
	float scale = sqrtf((float)dim);

	for (uint64_t i = from; i < to; i++) {
		float *x = f->embedded + i * dim;

		lm_to_f32(x, (const char *)e->data + f->pass[i].token * row_bytes,
			e->type, dim);
		for (uint64_t k = 0; f->w->config.scaled_embed && k < dim; k++)
			x[k] *= scale;
	}
}

static int put_embeddings(struct lm_forward *f)
{
	uint64_t dim = f->w->config.dim;
	struct dev *d = f->w->d;
	struct team_op op = { embed_rows, f, f->rows, 1, 1, EMBED_ALONE / dim + 1 };

	team_run(&op, 1);
	if (d->ops->put_later(d, f->x, f->embedded, 4 * (uint64_t)f->rows * dim) < 0)
		return device_failed(d);
	return 0;
}

/* Waits until the device has read what the last pass gave it, if nothing did since. */
static int take_back(struct lm_forward *f)
{
	if (f->sent && f->w->d->ops->sync(f->w->d) < 0)
		return device_failed(f->w->d);
	f->sent = false;
	return 0;
}

/* Returns how many rows are scored next, of those that want logits and are not yet. */
static uint32_t next_scored(const struct lm_forward *f)
{
	uint32_t left = f->wanted - f->scored, most = logits_rows(&f->limits);

	return left < most ? left : most;
}

/* Returns the chosen rows of x, contiguous: in place if they already are, else gathered. */
static const float *gather(struct lm_forward *f, uint32_t n)
{
	const uint32_t *chosen = host_column(f, CHOSEN) + f->scored;
	struct lm_embed e = { .dtype = LM_DTYPE_F32,
		.x = f->gathered,
		.w = f->x,
		.token = column(f, CHOSEN) + f->scored,
		.rows = n,
		.dim = f->w->config.dim,
		.vocab = f->rows };

	if (f->narrowed)
		return f->gathered + f->scored * (uint64_t)f->w->config.dim;
	if (chosen[n - 1] - chosen[0] == n - 1)
		return f->x + chosen[0] * (uint64_t)f->w->config.dim;
	if (ops(f)->embed(f->w->d, &e) < 0)
		return NULL;
	return f->gathered;
}

static int cap_logits(struct lm_forward *f, uint64_t count)
{
	struct lm_softcap s = { .x = f->logits,
		.n = count,
		.cap = (float)f->w->config.logit_cap };

	return s.cap > 0 ? ops(f)->softcap(f->w->d, &s) : 0;
}

/* Computes the logits of the n chosen rows. */
static int score_chosen(struct lm_forward *f, uint32_t n)
{
	uint64_t vocab = f->w->config.vocab;
	const float *x = gather(f, n);

	if (!x || norm(f, x, f->w->out_norm, n) < 0 ||
		quantize(f, f->h, f->w->config.dim, n, is_quantized(&f->w->output)) < 0 ||
		project(f, &f->w->output, f->logits, vocab, f->h, n, NULL) < 0 ||
		cap_logits(f, n * vocab) < 0)
		return -1;
	return 0;
}

/* Copies the logits of n rows to the host. */
static int fetch(struct lm_forward *f, uint32_t n)
{
	struct dev *d = f->w->d;

	if (d->ops->get(d, f->scores, f->logits, 4 * n * (uint64_t)f->w->config.vocab) <
		0)
		return -1;
	f->sent = false;
	return 0;
}

int lm_forward_hidden(struct lm_forward *f, uint32_t i, float *out)
{
	uint64_t dim = f->w->config.dim;
	struct dev *d = f->w->d;

	return d->ops->get(d, out, f->h + i * dim, 4 * dim) < 0 ? device_failed(d) : 0;
}

/* Runs all layers and computes the logits of the first chosen rows. */
static int compute(void *arg)
{
	struct lm_forward *f = arg;
	uint32_t rows = f->rows;
	float *x = f->x;
	int rc = 0;

	for (uint32_t i = 0; i < f->w->config.layers && rc == 0; i++)
		rc = layer(f, i);
	if (rc == 0 && f->wanted)
		rc = score_chosen(f, next_scored(f));
	f->x = x;
	f->rows = rows;
	return rc;
}

/* Whether the pass is one of those that come again on a GPU: a token of each of a few sequences. Then the bound of
 * its keys becomes that of the next passes, too. */
static bool repeats(struct lm_forward *f)
{
	uint64_t keys = ((uint64_t)f->keys_max + KEYS_STEP - 1) / KEYS_STEP * KEYS_STEP;

	if (f->w->d->is_host || f->adapts || f->wanted != f->rows ||
		f->rows > logits_rows(&f->limits) || f->rows > LM_REPLAYS)
		return false;
	f->keys_max = keys < f->limits.context ? (uint32_t)keys : f->limits.context;
	return true;
}

/* The same as one batch of the device, and copies the logits to the host. */
static int pass(struct lm_forward *f)
{
	struct dev *d = f->w->d;
	bool repeated = repeats(f);
	unsigned kind = f->rows - 1;
	int rc;

	f->narrowed = false;
	f->scored = 0;
	if (repeated)
		lm_replay_prepare(&f->replays, d, kind, f->keys_max, compute, f);
	if (d->ops->batch_begin(d) < 0)
		return -1;
	rc = repeated ? lm_replay_run(&f->replays, d, kind, compute, f) : compute(f);
	if (rc == 0 && f->wanted)
		rc = fetch(f, next_scored(f));
	return d->ops->batch_end(d) < 0 ? -1 : rc;
}

int lm_forward_scores(struct lm_forward *f, const struct lm_row *rows, uint32_t n,
	lm_scores_fn scores, void *arg)
{
	if (check(f, rows, n) < 0)
		return -1;
	f->rows = n;
	f->k = f->q + n * lm_q_dim(&f->w->config);
	f->pass = rows;
	f->adapts = false;
	for (uint32_t i = 0; i < n; i++)
		f->adapts |= rows[i].adapter != 0;
	if (take_back(f) < 0 || put_indices(f, rows) < 0 || put_embeddings(f) < 0)
		return -1;
	if (pass(f) < 0)
		return device_failed(f->w->d);
	for (uint32_t i = 0; i < n; i++)
		rows[i].sequence->length++;
	for (uint32_t k; (k = next_scored(f)); f->scored += k) {
		if (f->scored && (score_chosen(f, k) < 0 || fetch(f, k) < 0))
			return device_failed(f->w->d);
		if (scores(arg, host_column(f, CHOSEN) + f->scored, k, f->scores) < 0)
			return -1;
	}
	return 0;
}

/* Passes the logits of several rows on one by one. */
struct one_by_one {
	lm_logits_fn logits;
	void *arg;
	uint32_t vocab;
};

static int tell_each(void *arg, const uint32_t *rows, uint32_t n, const float *logits)
{
	const struct one_by_one *o = arg;

	for (uint32_t i = 0; i < n; i++)
		if (o->logits(o->arg, rows[i], logits + (uint64_t)i * o->vocab) < 0)
			return -1;
	return 0;
}

int lm_forward_rows(struct lm_forward *f, const struct lm_row *rows, uint32_t n,
	lm_logits_fn logits, void *arg)
{
	struct one_by_one o = { logits, arg, f->w->config.vocab };

	return lm_forward_scores(f, rows, n, tell_each, &o);
}
