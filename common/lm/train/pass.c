/* pass.c - the forward and the backward pass as operations of the device. */
#include "common/base/err.h"
#include "common/lm/train/parts.h"

#define TRY(call)                                  \
	do {                                       \
		if ((call) < 0)                    \
			return lm_train_failed(t); \
	} while (0)

int lm_train_product(struct lm_train *t, const struct lm_gemm *g)
{
	TRY(t->lm->gemm(t->d, g));
	return 0;
}

/* c [rows, n] = a [rows, k] W^T */
static struct lm_gemm times_weight(const struct lm_train *t, void *c, const void *a,
	uint64_t n, uint64_t k, enum lm_part part, uint32_t layer)
{
	return (struct lm_gemm){ .form = LM_XWT,
		.dtype = t->o.dtype,
		.out = t->o.dtype,
		.c = c,
		.a = a,
		.b = lm_train_weight(t, part, layer),
		.m = t->rows,
		.n = n,
		.k = k,
		.lda = k,
		.ldb = k,
		.ldc = n };
}

/* Multiplies as above and adds the product to the residual stream, in f32. */
static int add_to_stream(struct lm_train *t, float *to, const float *from, const void *a,
	uint64_t k, enum lm_adapted which, uint32_t layer)
{
	struct lm_gemm g = times_weight(t, to, a, t->dim, k, lm_lora_part(which), layer);
	struct lm_group group = { layer, which, which };

	g.out = LM_DTYPE_F32;
	if (lm_train_adapt(t, &group, a, to, from, &g.from) < 0)
		return -1;
	return lm_train_product(t, &g);
}

/* da [rows, k] = dy [rows, n] W for W [n, k], which is that of a group, and what an adapter adds
 * to it */
static int back_to_inputs(struct lm_train *t, void *da, const void *dy, uint64_t n,
	uint64_t k, const struct lm_group *group)
{
	const float *low;

	if (lm_train_adapt_inputs(t, group, dy, &low) < 0)
		return -1;
	return lm_train_product(t,
		&(struct lm_gemm){ .form = LM_XW,
			.dtype = t->o.dtype,
			.out = t->o.dtype,
			.c = da,
			.from = low,
			.a = dy,
			.b = lm_train_weight(t, lm_lora_part(group->first), group->layer),
			.m = t->rows,
			.n = k,
			.k = n,
			.lda = n,
			.ldb = k,
			.ldc = k });
}

/* dW [n, k] (+)= dy^T a, or the gradients of the factors that adapt W. Of these the gradient of the
 * inputs comes first. */
static int back_to_weight(struct lm_train *t, const void *dy, const void *a, uint64_t n,
	uint64_t k, const struct lm_group *group)
{
	float *dw;

	if (lm_train_frozen(t))
		return lm_train_adapt_factors(t, group, dy, a);
	dw = t->g + lm_train_at(t, lm_lora_part(group->first), group->layer);
	return lm_train_product(t,
		&(struct lm_gemm){ .form = LM_XTX,
			.dtype = t->o.dtype,
			.out = LM_DTYPE_F32,
			.c = dw,
			.from = t->adding ? dw : NULL,
			.a = dy,
			.b = a,
			.m = n,
			.n = k,
			.k = t->rows,
			.lda = n,
			.ldb = k,
			.ldc = k });
}

static int norm(struct lm_train *t, void *y, float *rms, const float *x,
	enum lm_part part, uint32_t layer)
{
	struct lm_norm n = { .dtype = t->o.dtype,
		.y = y,
		.rms = rms,
		.x = x,
		.w = lm_train_vector(t, part, layer),
		.rows = t->rows,
		.dim = t->dim,
		.eps = (float)t->o.config.rms_eps };

	TRY(t->lm->norm(t->d, &n));
	return 0;
}

/* Propagates dh through a norm, whose output was h, and adds it to the gradient of the residual
 * stream, of which there is none before the last norm. In bf16 that gradient is in two halves; in
 * f32 it is what the embedding reads, in the end. */
static int norm_back(struct lm_train *t, const float *x, const void *h, const float *rms,
	enum lm_part part, uint32_t layer)
{
	bool frozen = lm_train_frozen(t);
	bool first = part == LM_OUT_NORM, last = part == LM_ATTN_NORM && layer == 0;
	struct lm_norm_back n = { .dtype = t->o.dtype,
		.dx = last || !t->dxc ? t->dx : NULL,
		.dw = frozen ? t->spare : t->g + lm_train_at(t, part, layer),
		.copy = t->dxc,
		.rest = t->dxr,
		.dy = t->dh,
		.y = t->dxc ? h : NULL,
		.x = x,
		.w = lm_train_vector(t, part, layer),
		.rms = rms,
		.from = first || t->dxc ? NULL : t->dx,
		.halves = t->dxc && !first,
		.whole = t->dxc && last,
		.rows = t->rows,
		.dim = t->dim,
		.fresh = frozen || !t->adding };

	TRY(t->lm->norm_back(t->d, &n));
	return 0;
}

void *lm_train_column(const struct lm_train *t, const void *x, uint64_t at)
{
	return (char *)x + at * lm_dtype_bytes(t->o.dtype);
}

/* Rotates the keys in x [rows, qkv]; attention does it with queries, and its gradient back */
static int rotate_keys(struct lm_train *t, void *x)
{
	const struct lm_config *c = &t->o.config;
	struct lm_rotate r = { .dtype = t->o.dtype,
		.x = lm_train_column(t, x, t->q),
		.table = t->table,
		.rows = t->rows,
		.ld = t->qkv,
		.heads = c->kv_heads,
		.head_dim = c->head_dim,
		.positions = t->o.positions,
		.interleaved = c->rope.interleaved };

	TRY(t->lm->rotate(t->d, &r));
	return 0;
}

static struct lm_attend attention(const struct lm_train *t,
	const struct lm_saved_activations *k)
{
	const struct lm_config *c = &t->o.config;

	return (struct lm_attend){ .dtype = t->o.dtype,
		.out = k->att,
		.lse = k->lse,
		.q = k->qkv,
		.k = lm_train_column(t, k->qkv, t->q),
		.v = lm_train_column(t, k->qkv, t->q + t->kv),
		.batch = t->o.batch,
		.heads = c->heads,
		.kv_heads = c->kv_heads,
		.head_dim = c->head_dim,
		.positions = t->o.positions,
		.keys = t->o.positions,
		.window = c->window,
		.ldq = t->qkv,
		.ldk = t->qkv,
		.ldo = t->q,
		.scale = t->scale };
}

/* --- forward ------------------------------------------------------------------------------ */

/* Computes a layer up to h2, of which gu is a product. normed: h1 is there. */
static int layer_inner(struct lm_train *t, uint32_t l, bool normed)
{
	const struct lm_saved_activations *k = &t->saved[l];
	struct lm_attend a = attention(t, k);
	struct lm_gemm g = times_weight(t, k->qkv, k->h1, t->qkv, t->dim, LM_Q, l);
	struct lm_group qkv = { l, LM_ADAPTED_Q, LM_ADAPTED_V };

	if (t->o.config.qkv_bias)
		g.bias = lm_train_vector(t, LM_Q_BIAS, l);
	if ((!normed && norm(t, k->h1, k->rms1, t->x[l], LM_ATTN_NORM, l) < 0) ||
		lm_train_adapt(t, &qkv, k->h1, t->wide, NULL, &g.from) < 0 ||
		lm_train_product(t, &g) < 0 || rotate_keys(t, k->qkv) < 0)
		return -1;
	a.turned = k->qkv;
	a.table = t->table;
	a.interleaved = t->o.config.rope.interleaved;
	TRY(t->lm->attend(t->d, &a));
	if (add_to_stream(t, k->mid, t->x[l], k->att, t->q, LM_ADAPTED_O, l) < 0 ||
		norm(t, k->h2, k->rms2, k->mid, LM_FFN_NORM, l) < 0)
		return -1;
	return 0;
}

/* SwiGLU of a layer, with the product before it; to NULL: the product alone. */
static int gates(struct lm_train *t, uint32_t l, void *to)
{
	const struct lm_saved_activations *k = &t->saved[l];
	struct lm_group both = { l, LM_ADAPTED_GATE, LM_ADAPTED_UP };
	const float *low;
	struct lm_swiglu s = { .dtype = t->o.dtype,
		.y = to,
		.x = k->gu,
		.rows = t->rows,
		.hidden = t->hidden,
		.dim = t->dim,
		.in = k->h2,
		.w = lm_train_weight(t, LM_GATE, l),
		.product = k->gu };

	if (lm_train_adapt(t, &both, k->h2, t->wide, NULL, &low) < 0)
		return -1;
	if (low) {
		struct lm_gemm g = lm_swiglu_inputs(&s);

		g.from = low;
		if (lm_train_product(t, &g) < 0)
			return -1;
		s.in = NULL;
	}
	if (s.in || s.y)
		TRY(t->lm->swiglu(t->d, &s));
	return 0;
}

/* Computes again what the backward pass of a layer needs. */
static int layer_again(struct lm_train *t, uint32_t l)
{
	/* what SwiGLU makes of it, swiglu_back makes again */
	return layer_inner(t, l, false) < 0 ? -1 : gates(t, l, NULL);
}

int lm_train_forward(struct lm_train *t)
{
	struct lm_embed e = { .dtype = t->o.dtype,
		.x = t->x[0],
		.w = lm_train_weight(t, LM_EMBED, 0),
		.token = t->token,
		.rows = t->rows,
		.dim = t->dim,
		.vocab = t->o.config.vocab };

	if (t->o.config.layers) {
		e.y = t->saved[0].h1;
		e.rms = t->saved[0].rms1;
		e.norm = lm_train_vector(t, LM_ATTN_NORM, 0);
		e.eps = (float)t->o.config.rms_eps;
	}
	TRY(t->lm->embed(t->d, &e));
	for (uint32_t l = 0; l < t->o.config.layers; l++) {
		const struct lm_saved_activations *k = &t->saved[l];

		if (layer_inner(t, l, l == 0) < 0 || gates(t, l, k->act) < 0 ||
			add_to_stream(t, t->x[l + 1], k->mid, k->act, t->hidden,
				LM_ADAPTED_DOWN, l) < 0)
			return -1;
	}
	return norm(t, t->hf, t->rmsf, t->x[t->o.config.layers], LM_OUT_NORM, 0);
}

int lm_train_head(struct lm_train *t, bool back)
{
	struct lm_head h = lm_train_head_of(&t->o, t->rows);

	h.loss = t->loss;
	h.dh = back ? t->dh : NULL;
	h.dw = back && !lm_train_frozen(t) ? t->g + lm_train_at(t, LM_OUTPUT, 0) : NULL;
	h.h = t->hf;
	h.w = lm_train_weight(t, LM_OUTPUT, 0);
	h.target = t->target;
	h.fresh = !t->adding;
	h.scratch = t->head_scratch;
	TRY(t->lm->head(t->d, &h));
	return 0;
}

/* --- backward ----------------------------------------------------------------------------- */

static int bias_back(struct lm_train *t, uint32_t l)
{
	struct lm_bias_back b = { .dtype = t->o.dtype,
		.dy = t->dqkv,
		.rows = t->rows,
		.n = t->qkv,
		.ld = t->qkv,
		.fresh = !t->adding };

	if (!t->o.config.qkv_bias || lm_train_frozen(t))
		return 0;
	b.db = t->g + lm_train_at(t, LM_Q_BIAS, l);
	TRY(t->lm->bias_back(t->d, &b));
	return 0;
}

static int ffn_back(struct lm_train *t, uint32_t l)
{
	const struct lm_saved_activations *k = &t->saved[l];
	const void *dy = t->dxc ? (const void *)t->dxc : t->dx;
	struct lm_swiglu_back s = { .dtype = t->o.dtype,
		.dx = k->gu,
		.y = t->o.recompute ? k->act : NULL, /* else it is there */
		.x = k->gu,
		.dy = t->dact,
		.rows = t->rows,
		.hidden = t->hidden,
		.dim = t->dim,
		.dout = dy,
		.w = lm_train_weight(t, LM_DOWN, l),
		.product = t->dact };
	struct lm_group down = { l, LM_ADAPTED_DOWN, LM_ADAPTED_DOWN };
	struct lm_group both = { l, LM_ADAPTED_GATE, LM_ADAPTED_UP };

	if (lm_train_frozen(t)) {
		if (back_to_inputs(t, t->dact, dy, t->dim, t->hidden, &down) < 0)
			return -1;
		s.dout = NULL;
	}
	TRY(t->lm->swiglu_back(t->d, &s));
	if (back_to_weight(t, dy, k->act, t->dim, t->hidden, &down) < 0 ||
		back_to_inputs(t, t->dh, k->gu, 2 * t->hidden, t->dim, &both) < 0 ||
		back_to_weight(t, k->gu, k->h2, 2 * t->hidden, t->dim, &both) < 0)
		return -1;
	return norm_back(t, k->mid, k->h2, k->rms2, LM_FFN_NORM, l);
}

static int attention_back(struct lm_train *t, uint32_t l)
{
	const struct lm_saved_activations *k = &t->saved[l];
	const void *dy = t->dxc ? (const void *)t->dxc : t->dx;
	struct lm_attend_back a = { .forward = attention(t, k),
		.dout = t->datt,
		.dq = t->dqkv,
		.dk = lm_train_column(t, t->dqkv, t->q),
		.dv = lm_train_column(t, t->dqkv, t->q + t->kv),
		.table = t->table,
		.interleaved = t->o.config.rope.interleaved };

	struct lm_group o = { l, LM_ADAPTED_O, LM_ADAPTED_O };
	struct lm_group qkv = { l, LM_ADAPTED_Q, LM_ADAPTED_V };

	if (back_to_inputs(t, t->datt, dy, t->dim, t->q, &o) < 0 ||
		back_to_weight(t, dy, k->att, t->dim, t->q, &o) < 0)
		return -1;
	TRY(t->lm->attend_back(t->d, &a));
	if (bias_back(t, l) < 0 ||
		back_to_inputs(t, t->dh, t->dqkv, t->qkv, t->dim, &qkv) < 0 ||
		back_to_weight(t, t->dqkv, k->h1, t->qkv, t->dim, &qkv) < 0)
		return -1;
	/* nothing before the first layer learns */
	if (l == 0 && lm_train_frozen(t))
		return 0;
	return norm_back(t, t->x[l], k->h1, k->rms1, LM_ATTN_NORM, l);
}

/* Reports that gradients `from` up to `to` are final. */
static int ready(struct lm_train *t, bool last, uint64_t from, uint64_t to)
{
	if (!last || !t->o.grad_ready || from == to)
		return 0;
	return lm_train_ready(t, from, to - from);
}

static int embed_back(struct lm_train *t)
{
	uint64_t at = lm_train_at(t, LM_EMBED, 0);
	uint64_t count = (uint64_t)t->o.config.vocab * t->dim;
	struct lm_embed_back e = { .dw = t->g + at,
		.dx = t->dx,
		.token = t->token,
		.rows = t->rows,
		.dim = t->dim,
		.vocab = t->o.config.vocab };

	/* if tied, the output layer has already written all of it */
	if (!t->o.config.tied && !t->adding)
		TRY(t->d->ops->fill(t->d, (uint32_t *)(void *)(t->g + at), 0, count));
	TRY(t->lm->embed_back(t->d, &e));
	return 0;
}

int lm_train_backward(struct lm_train *t, bool last)
{
	bool frozen = lm_train_frozen(t);
	uint32_t layers = t->o.config.layers;
	uint64_t end = t->flat, at = frozen ? end : lm_train_at(t, LM_OUT_NORM, 0);

	if (norm_back(t, t->x[layers], t->hf, t->rmsf, LM_OUT_NORM, 0) < 0 ||
		ready(t, last, at, end) < 0)
		return -1;
	for (uint32_t l = layers; l-- > 0;) {
		end = at;
		at = frozen ? end : lm_train_at(t, LM_ATTN_NORM, l);
		if ((t->o.recompute && layer_again(t, l) < 0) || ffn_back(t, l) < 0 ||
			attention_back(t, l) < 0 || ready(t, last, at, end) < 0)
			return -1;
	}
	if (!frozen && embed_back(t) < 0)
		return -1;
	/* of an adapter everything: its factors lie by kind, not by layer, and are few */
	return ready(t, last, 0, at);
}
