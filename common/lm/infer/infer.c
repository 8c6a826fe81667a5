#include "common/lm/infer/infer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/hw/device.h"
#include "common/lm/model/rope.h"
#include "common/base/mem.h"

/* Rows whose logits are on the host at once. */
#define SCORE_ROWS 8

struct matrix {
	enum lm_weight type;
	const void *w;
	const float *bias; /* NULL: none */
	uint64_t n, k;
};

struct layer {
	const float *attn_norm, *ffn_norm;
	struct matrix q, k, v, o, gate, up, down;
};

struct lm_infer {
	const struct model_file *source;
	struct lm_config config;
	struct dev *d;
	struct layer *layers;
	const float *out_norm;
	struct matrix output;
	void **owned; /* device memory of weights, norms and biases */
	uint32_t owned_count;
};

struct lm_stream {
	struct lm_infer *m;
	uint32_t context, length;
	float *table;             /* of rotary positions */
	float *cache;             /* [layers][2][context][kv_dim]: keys, then values */
	float *x, *h;             /* [LM_INFER_ROWS][dim] */
	float *q, *a;             /* [LM_INFER_ROWS][heads head_dim] */
	float *gu, *y;            /* [LM_INFER_ROWS][2 hidden], [hidden] */
	float *logits;            /* [SCORE_ROWS][vocab] */
	float *embedded, *scores; /* the same of x and logits on the host */
};

static uint64_t q_dim(const struct lm_config *c)
{
	return (uint64_t)c->heads * c->head_dim;
}

static uint64_t kv_dim(const struct lm_config *c)
{
	return (uint64_t)c->kv_heads * c->head_dim;
}

/* --- the plan ------------------------------------------------------------------------------- */

/* What a stream of a context holds, in numbers of 4 bytes; the bounds of config.h keep every product below 2^63. */
struct sizes {
	uint64_t table, cache, x, q, gu, y, logits;
};

static int sizes_of(struct sizes *s, const struct lm_config *c, uint32_t context)
{
	uint64_t one;

	if (__builtin_mul_overflow(2 * kv_dim(c) * 4, (uint64_t)c->layers, &one) ||
		__builtin_mul_overflow(one, (uint64_t)context, &s->cache) ||
		s->cache > (uint64_t)INT64_MAX / 2)
		return err_set(EX_DATAERR,
			"a cache of %u tokens of this model is beyond 64 bits", context);
	s->cache /= 4;
	s->table = (uint64_t)context * c->head_dim;
	s->x = (uint64_t)LM_INFER_ROWS * c->dim;
	s->q = LM_INFER_ROWS * q_dim(c);
	s->gu = (uint64_t)LM_INFER_ROWS * 2 * c->hidden;
	s->y = (uint64_t)LM_INFER_ROWS * c->hidden;
	s->logits = (uint64_t)SCORE_ROWS * c->vocab;
	return 0;
}

int lm_infer_plan(struct lm_infer_plan *plan, const struct model_file *s,
	uint32_t context)
{
	const struct lm_config *c = model_file_config(s);
	struct sizes z;

	memset(plan, 0, sizeof *plan);
	if (sizes_of(&z, c, context ? context : c->context) < 0)
		return -1;
	for (uint32_t i = 0; i < lm_layout_count(c); i++) {
		const struct lm_tensor *t = model_file_tensor(s, i);

		if (t->dims == 1)
			plan->tables += 4 * t->count;
		else
			plan->weights += t->bytes;
	}
	plan->tables += 4 * z.table;
	plan->cache = 4 * z.cache;
	plan->work = 4 * (3 * z.x + 2 * z.q + z.gu + z.y + 2 * z.logits);
	plan->total = plan->weights + plan->tables + plan->cache + plan->work;
	return 0;
}

/* --- weights -------------------------------------------------------------------------------- */

static int weight_type(enum lm_type type)
{
	switch (type) {
	case LM_F32:
		return LM_WEIGHT_F32;
	case LM_F16:
		return LM_WEIGHT_F16;
	case LM_BF16:
		return LM_WEIGHT_BF16;
	case LM_Q8_0:
		return LM_WEIGHT_Q8_0;
	case LM_Q4_0:
		return LM_WEIGHT_Q4_0;
	default:
		return -1;
	}
}

static const struct lm_tensor *tensor_of(const struct lm_infer *m, enum lm_part part,
	uint32_t layer)
{
	int64_t i = lm_layout_index(&m->config, part, layer);

	return i < 0 ? NULL : model_file_tensor(m->source, (uint32_t)i);
}

/* Device memory with these bytes in it, the model's own; NULL with the error in d. */
static void *keep(struct lm_infer *m, const void *host, uint64_t bytes)
{
	const struct dev_ops *ops = m->d->ops;
	void *p;

	if (ops->alloc(m->d, &p, bytes) < 0)
		return NULL;
	m->owned[m->owned_count++] = p;
	return ops->put(m->d, p, host, bytes) < 0 ? NULL : p;
}

/* A tensor of one dimension as f32. */
static int vector(struct lm_infer *m, const float **out, enum lm_part part,
	uint32_t layer)
{
	const struct lm_tensor *t = tensor_of(m, part, layer);
	float *values;

	*out = NULL;
	if (!t)
		return 0;
	values = xmalloc(t->count * sizeof *values);
	lm_to_f32(values, t->data, t->type, t->count);
	*out = keep(m, values, t->count * sizeof *values);
	free(values);
	return *out ? 0 : device_failed(m->d);
}

static int matrix(struct lm_infer *m, struct matrix *out, enum lm_part part,
	enum lm_part bias, uint32_t layer)
{
	const struct lm_tensor *t = tensor_of(m, part, layer);

	out->type = (enum lm_weight)weight_type(t->type);
	out->n = t->shape[0];
	out->k = t->shape[1];
	out->w = m->d->is_host ? t->data : keep(m, t->data, t->bytes);
	if (!out->w)
		return device_failed(m->d);
	return bias == part ? 0 : vector(m, &out->bias, bias, layer);
}

static int load_layer(struct lm_infer *m, uint32_t i)
{
	struct layer *l = &m->layers[i];

	if (vector(m, &l->attn_norm, LM_ATTN_NORM, i) < 0 ||
		vector(m, &l->ffn_norm, LM_FFN_NORM, i) < 0 ||
		matrix(m, &l->q, LM_Q, LM_Q_BIAS, i) < 0 ||
		matrix(m, &l->k, LM_K, LM_K_BIAS, i) < 0 ||
		matrix(m, &l->v, LM_V, LM_V_BIAS, i) < 0 ||
		matrix(m, &l->o, LM_O, LM_O, i) < 0 ||
		matrix(m, &l->gate, LM_GATE, LM_GATE, i) < 0 ||
		matrix(m, &l->up, LM_UP, LM_UP, i) < 0)
		return -1;
	return matrix(m, &l->down, LM_DOWN, LM_DOWN, i);
}

static int load(struct lm_infer *m)
{
	enum lm_part output = m->config.tied ? LM_EMBED : LM_OUTPUT;

	if (m->d->ops->lm->prepare(m->d, NULL) < 0)
		return device_failed(m->d);
	for (uint32_t i = 0; i < m->config.layers; i++)
		if (load_layer(m, i) < 0)
			return -1;
	if (vector(m, &m->out_norm, LM_OUT_NORM, 0) < 0)
		return -1;
	return matrix(m, &m->output, output, output, 0);
}

int lm_infer_open(struct lm_infer **out, struct dev *d, const struct model_file *s)
{
	struct lm_infer *m = xcalloc(1, sizeof *m);

	m->source = s;
	m->config = *model_file_config(s);
	m->d = d;
	m->layers = xcalloc(m->config.layers, sizeof *m->layers);
	m->owned = xcalloc(lm_layout_count(&m->config) + 1, sizeof *m->owned);
	*out = m;
	if (load(m) < 0) {
		lm_infer_close(m);
		*out = NULL;
		return -1;
	}
	return 0;
}

void lm_infer_close(struct lm_infer *m)
{
	if (!m)
		return;
	while (m->owned_count)
		m->d->ops->free(m->d, m->owned[--m->owned_count]);
	free(m->owned);
	free(m->layers);
	free(m);
}

const struct lm_config *lm_infer_config(const struct lm_infer *m)
{
	return &m->config;
}

/* --- streams -------------------------------------------------------------------------------- */

/* count numbers on the device, kept by nobody yet */
static int room(struct dev *d, float **out, uint64_t count)
{
	void *p;

	if (d->ops->alloc(d, &p, 4 * count) < 0)
		return device_failed(d);
	*out = p;
	return 0;
}

static int make_table(struct lm_stream *s, uint64_t count)
{
	struct dev *d = s->m->d;
	float *table = xmalloc(4 * count);
	int rc;

	lm_rope_table(table, &s->m->config, s->context);
	rc = d->ops->put(d, s->table, table, 4 * count);
	free(table);
	return rc < 0 ? device_failed(d) : 0;
}

static int make_room(struct lm_stream *s)
{
	struct dev *d = s->m->d;
	struct sizes z;

	if (sizes_of(&z, &s->m->config, s->context) < 0 ||
		room(d, &s->table, z.table) < 0 || room(d, &s->cache, z.cache) < 0 ||
		room(d, &s->x, z.x) < 0 || room(d, &s->h, z.x) < 0 ||
		room(d, &s->q, z.q) < 0 || room(d, &s->a, z.q) < 0 ||
		room(d, &s->gu, z.gu) < 0 || room(d, &s->y, z.y) < 0 ||
		room(d, &s->logits, z.logits) < 0)
		return -1;
	s->embedded = xmalloc(4 * z.x);
	s->scores = xmalloc(4 * z.logits);
	return make_table(s, z.table);
}

int lm_stream_open(struct lm_stream **out, struct lm_infer *m, uint32_t context)
{
	struct lm_stream *s;

	*out = NULL;
	if (context > LM_CONTEXT_MAX)
		return err_set(EX_USAGE, "a context has at most %u tokens",
			LM_CONTEXT_MAX);
	s = xcalloc(1, sizeof *s);
	s->m = m;
	s->context = context ? context : m->config.context;
	if (make_room(s) < 0) {
		lm_stream_close(s);
		return -1;
	}
	*out = s;
	return 0;
}

void lm_stream_close(struct lm_stream *s)
{
	if (!s)
		return;
	float *all[] = { s->table, s->cache, s->x, s->h, s->q, s->a, s->gu, s->y,
		s->logits };

	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		s->m->d->ops->free(s->m->d, all[i]);
	free(s->embedded);
	free(s->scores);
	free(s);
}

uint32_t lm_stream_length(const struct lm_stream *s)
{
	return s->length;
}

uint32_t lm_stream_context(const struct lm_stream *s)
{
	return s->context;
}

void lm_stream_truncate(struct lm_stream *s, uint32_t length)
{
	if (length < s->length)
		s->length = length;
}

/* --- the layers ----------------------------------------------------------------------------- */

static int project(struct lm_stream *s, const struct matrix *w, float *y, uint64_t ldy,
	const float *x, uint64_t rows, const float *from)
{
	struct lm_project p = { .type = w->type,
		.y = y,
		.x = x,
		.from = from,
		.bias = w->bias,
		.w = w->w,
		.rows = rows,
		.n = w->n,
		.k = w->k,
		.ldx = w->k,
		.ldy = ldy };

	return s->m->d->ops->lm->project(s->m->d, &p);
}

static int norm(struct lm_stream *s, const float *x, const float *w, uint64_t rows)
{
	struct lm_norm n = { .dtype = LM_DTYPE_F32,
		.y = s->h,
		.x = x,
		.w = w,
		.rows = rows,
		.dim = s->m->config.dim,
		.eps = (float)s->m->config.rms_eps };

	return s->m->d->ops->lm->norm(s->m->d, &n);
}

static int rotate(struct lm_stream *s, float *x, uint64_t heads, uint64_t rows)
{
	const struct lm_config *c = &s->m->config;
	struct lm_rotate r = { .dtype = LM_DTYPE_F32,
		.x = x,
		.table = s->table,
		.rows = rows,
		.ld = heads * c->head_dim,
		.heads = heads,
		.head_dim = c->head_dim,
		.positions = rows,
		.first = s->length,
		.interleaved = c->rope.interleaved };

	return s->m->d->ops->lm->rotate(s->m->d, &r);
}

static int attend(struct lm_stream *s, const float *k, const float *v, uint64_t rows)
{
	const struct lm_config *c = &s->m->config;
	struct lm_attend a = { .dtype = LM_DTYPE_F32,
		.out = s->a,
		.q = s->q,
		.k = k,
		.v = v,
		.batch = 1,
		.heads = c->heads,
		.kv_heads = c->kv_heads,
		.head_dim = c->head_dim,
		.positions = rows,
		.keys = s->length + rows,
		.window = c->window,
		.ldq = q_dim(c),
		.ldk = kv_dim(c),
		.ldo = q_dim(c),
		.scale = 1 / sqrtf((float)c->head_dim) };

	return s->m->d->ops->lm->attend(s->m->d, &a);
}

static int swiglu(struct lm_stream *s, uint64_t rows)
{
	struct lm_swiglu g = { .dtype = LM_DTYPE_F32,
		.y = s->y,
		.x = s->gu,
		.rows = rows,
		.hidden = s->m->config.hidden };

	return s->m->d->ops->lm->swiglu(s->m->d, &g);
}

static int layer(struct lm_stream *s, uint32_t i, uint64_t rows)
{
	const struct lm_config *c = &s->m->config;
	const struct layer *l = &s->m->layers[i];
	uint64_t kv = kv_dim(c), hidden = c->hidden;
	float *keys = s->cache + 2 * (uint64_t)i * s->context * kv;
	float *values = keys + s->context * kv, *k = keys + s->length * kv;
	float *v = values + s->length * kv;

	if (norm(s, s->x, l->attn_norm, rows) < 0 ||
		project(s, &l->q, s->q, l->q.n, s->h, rows, NULL) < 0 ||
		project(s, &l->k, k, kv, s->h, rows, NULL) < 0 ||
		project(s, &l->v, v, kv, s->h, rows, NULL) < 0 ||
		rotate(s, s->q, c->heads, rows) < 0 ||
		rotate(s, k, c->kv_heads, rows) < 0 ||
		attend(s, keys, values, rows) < 0 ||
		project(s, &l->o, s->x, c->dim, s->a, rows, s->x) < 0 ||
		norm(s, s->x, l->ffn_norm, rows) < 0 ||
		project(s, &l->gate, s->gu, 2 * hidden, s->h, rows, NULL) < 0 ||
		project(s, &l->up, s->gu + hidden, 2 * hidden, s->h, rows, NULL) < 0 ||
		swiglu(s, rows) < 0)
		return -1;
	return project(s, &l->down, s->x, c->dim, s->y, rows, s->x);
}

/* The embeddings of at most LM_INFER_ROWS tokens through all layers to x. */
static int pass(struct lm_stream *s, const uint32_t *ids, uint32_t rows)
{
	const struct lm_config *c = &s->m->config;
	const struct lm_tensor *e = tensor_of(s->m, LM_EMBED, 0);
	uint64_t row_bytes = lm_weight_row_bytes((enum lm_weight)weight_type(e->type),
		c->dim);
	struct dev *d = s->m->d;

	for (uint32_t r = 0; r < rows; r++)
		lm_to_f32(s->embedded + (uint64_t)r * c->dim,
			(const char *)e->data + ids[r] * row_bytes, e->type, c->dim);
	if (d->ops->put(d, s->x, s->embedded, 4 * (uint64_t)rows * c->dim) < 0)
		return device_failed(d);
	for (uint32_t i = 0; i < c->layers; i++)
		if (layer(s, i, rows) < 0)
			return device_failed(d);
	return 0;
}

/* The logits of `rows` <= SCORE_ROWS rows of x from `first` on, to the host. */
static int predict(struct lm_stream *s, uint32_t first, uint32_t rows, float *to)
{
	const struct lm_config *c = &s->m->config;
	struct dev *d = s->m->d;

	if (norm(s, s->x + (uint64_t)first * c->dim, s->m->out_norm, rows) < 0 ||
		project(s, &s->m->output, s->logits, c->vocab, s->h, rows, NULL) < 0 ||
		d->ops->get(d, to, s->logits, 4 * (uint64_t)rows * c->vocab) < 0)
		return device_failed(d);
	return 0;
}

static int check(const struct lm_stream *s, const uint32_t *ids, uint32_t n)
{
	if (n > s->context - s->length)
		return err_set(EX_DATAERR, "the context of %u tokens is full",
			s->context);
	for (uint32_t i = 0; i < n; i++)
		if (ids[i] >= s->m->config.vocab)
			return err_set(EX_DATAERR,
				"token %u is not in a vocabulary of %u", ids[i],
				s->m->config.vocab);
	return 0;
}

int lm_stream_feed(struct lm_stream *s, const uint32_t *ids, uint32_t n, float *logits)
{
	uint32_t rows;

	if (check(s, ids, n) < 0)
		return -1;
	for (; n; n -= rows, ids += rows) {
		rows = n < LM_INFER_ROWS ? n : LM_INFER_ROWS;
		if (pass(s, ids, rows) < 0)
			return -1;
		s->length += rows;
		if (rows == n && logits && predict(s, rows - 1, 1, logits) < 0)
			return -1;
	}
	return 0;
}

/* -log of the share that softmax gives to `id` */
static double cost(const float *logits, uint32_t vocab, uint32_t id)
{
	double sum = 0, most = logits[0];

	for (uint32_t i = 1; i < vocab; i++)
		if (logits[i] > most)
			most = logits[i];
	for (uint32_t i = 0; i < vocab; i++)
		sum += exp(logits[i] - most);
	return log(sum) - (logits[id] - most);
}

/* rows of x have been computed; each predicts the token behind it */
static int score_rows(struct lm_stream *s, const uint32_t *next, uint32_t rows,
	double *loss_sum)
{
	uint32_t vocab = s->m->config.vocab, some;

	for (uint32_t r = 0; r < rows; r += some) {
		some = rows - r < SCORE_ROWS ? rows - r : SCORE_ROWS;
		if (predict(s, r, some, s->scores) < 0)
			return -1;
		for (uint32_t i = 0; i < some; i++)
			*loss_sum += cost(s->scores + (uint64_t)i * vocab, vocab,
				next[r + i]);
	}
	return 0;
}

int lm_stream_score(struct lm_stream *s, const uint32_t *ids, uint32_t n,
	double *loss_sum, uint64_t *counted)
{
	uint32_t rows;

	if (check(s, ids, n) < 0)
		return -1;
	for (; n; n -= rows, ids += rows) {
		rows = n < LM_INFER_ROWS ? n : LM_INFER_ROWS;
		if (pass(s, ids, rows) < 0)
			return -1;
		s->length += rows;
		/* the last of a piece predicts the first of the next */
		if (score_rows(s, ids + 1, rows == n ? rows - 1 : rows, loss_sum) < 0)
			return -1;
		*counted += rows == n ? rows - 1 : rows;
	}
	return 0;
}
