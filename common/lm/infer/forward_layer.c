/* forward_layer.c - one layer of a model for the rows of a pass, as operations of the device:
 * norms, products with matrices and what adapters add to them, attention over the cache, SwiGLU;
 * and the logits behind the last. */
#include "common/lm/infer/forward_parts.h"

static bool is_quantized(const struct lm_matrix *w)
{
	return lm_weight_is_quantized(w->type);
}

/* Quantises activations into x8 if a matrix that takes them needs that. */
static int quantize(struct lm_forward *f, const float *x, uint64_t k, uint64_t rows,
	bool needed)
{
	struct lm_quantize q = { .to = f->x8, .x = x, .rows = rows, .k = k, .ldx = k };

	return needed ? forward_ops(f)->quantize(f->w->d, &q) : 0;
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

	if (forward_ops(f)->project(f->w->d, &down) < 0)
		return -1;
	return forward_ops(f)->project(f->w->d, &up);
}

/* The adapter of row i of those that the pass is at. */
static uint32_t adapter_of(const struct lm_forward *f, uint32_t i)
{
	return f->pass[f->narrowed ? forward_host_column(f, CHOSEN)[i] : i].adapter;
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
	if (forward_ops(f)->project(f->w->d, &p) < 0)
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

	return forward_ops(f)->norm(f->w->d, &n);
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

/* Makes layers of norm(x) together. Returns 0; 1: they are to be made one by one, and their input
 * is made; or -1. */
static int project_together(struct lm_forward *f, struct lm_project_group *g,
	bool quantized)
{
	bool host = f->w->d->is_host;
	int rc = host || f->adapts ? 1 : forward_ops(f)->project_group(f->w->d, g);

	if (rc <= 0)
		return rc;
	if (layer_input(f, g->norm, quantized) < 0)
		return -1;
	if (!host || f->adapts)
		return 1;
	g->norm = NULL;
	for (uint32_t i = 0; i < g->n; i++)
		g->p[i].x = f->h;
	return forward_ops(f)->project_group(f->w->d, g);
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
		.position = forward_column(f, f->narrowed ? CHOSEN_POSITION : POSITION),
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

	return forward_ops(f)->rotate(f->w->d, &r);
}

static struct lm_paged_put putting(const struct lm_forward *f, uint32_t layer)
{
	return (struct lm_paged_put){ .type = lm_cache_type(f->cache),
		.keys = lm_cache_keys(f->cache, layer),
		.values = lm_cache_values(f->cache, layer),
		.k = f->k,
		.v = f->v,
		.slot = forward_column(f, SLOT),
		.rows = f->rows,
		.width = lm_kv_dim(&f->w->config),
		.by_head = f->w->d->is_host ? f->w->config.head_dim : 0,
		.stride = lm_cache_stride(f->cache) };
}

static int store(struct lm_forward *f, uint32_t layer)
{
	struct lm_paged_put p = putting(f, layer);

	return forward_ops(f)->paged_put(f->w->d, &p);
}

/* Rotates q and k, and stores k and v. */
static int rotate_and_store(struct lm_forward *f, uint32_t layer)
{
	const struct lm_config *c = &f->w->config;
	struct lm_rotate_put all = { rotation(f, f->q, c->heads, layer),
		rotation(f, f->k, c->kv_heads, layer), putting(f, layer) };
	int rc = f->w->d->is_host ? 1 : forward_ops(f)->rotate_put(f->w->d, &all);

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
		.position = forward_column(f, f->narrowed ? CHOSEN_POSITION : POSITION),
		.table = forward_column(f, f->narrowed ? CHOSEN_TABLE : TABLE),
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

	return forward_ops(f)->paged_attend(f->w->d, &a);
}

static int swiglu(struct lm_forward *f)
{
	struct lm_swiglu g = { .dtype = LM_DTYPE_F32,
		.y = f->y,
		.x = f->gu,
		.rows = f->rows,
		.hidden = f->w->config.hidden,
		.gelu = f->w->config.gelu };

	return forward_ops(f)->swiglu(f->w->d, &g);
}

/* y = from + x times w, of a device that quantises x for that itself. Returns 0; 1: it does not; or
 * -1. */
static int product_of_floats(struct lm_forward *f, const struct lm_matrix *w, float *y,
	const float *x, uint64_t rows, const float *from)
{
	struct lm_project_group g = { .p = { product_of(f, w, y, f->w->config.dim, x,
					      rows, from) },
		.n = 1 };

	g.p->x8 = NULL;
	return f->adapts || !is_quantized(w) ? 1 :
					       forward_ops(f)->project_group(f->w->d, &g);
}

/* x += activations times w, normalised if the model does. The activations are not h; x8: they are
 * quantised already. */
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

/* Leaves of the pass the rows whose logits are wanted: behind the keys and values of the last layer
 * nobody reads the others. */
static int narrow(struct lm_forward *f)
{
	struct lm_embed e = { .dtype = LM_DTYPE_F32,
		.x = f->gathered,
		.w = f->x,
		.token = forward_column(f, CHOSEN),
		.rows = f->wanted,
		.dim = f->w->config.dim,
		.vocab = f->rows };

	if (f->wanted && forward_ops(f)->embed(f->w->d, &e) < 0)
		return -1;
	f->x = f->gathered;
	f->rows = f->wanted;
	f->narrowed = true;
	return 0;
}

static bool narrows(const struct lm_forward *f, uint32_t layer)
{
	return layer + 1 == f->w->config.layers && f->wanted < f->rows &&
		f->wanted <= FORWARD_LAST_ROWS;
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

int forward_layer(struct lm_forward *f, uint32_t i)
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

static int cap_logits(struct lm_forward *f, uint64_t count)
{
	struct lm_softcap s = { .x = f->logits,
		.n = count,
		.cap = (float)f->w->config.logit_cap };

	return s.cap > 0 ? forward_ops(f)->softcap(f->w->d, &s) : 0;
}

int forward_logits(struct lm_forward *f, const float *x, uint32_t n)
{
	uint64_t vocab = f->w->config.vocab;

	if (norm(f, x, f->w->out_norm, n) < 0 ||
		quantize(f, f->h, f->w->config.dim, n, is_quantized(&f->w->output)) < 0 ||
		project(f, &f->w->output, f->logits, vocab, f->h, n, NULL) < 0 ||
		cap_logits(f, n * vocab) < 0)
		return -1;
	return 0;
}
