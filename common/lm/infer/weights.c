/* weights.c - loads the matrices of a model file in the form that the kernels take. */
#include "common/lm/infer/weights.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/hw/device.h"
#include "common/lm/infer/parts.h"

int lm_infer_alloc(struct dev *d, float **out, uint64_t count)
{
	void *p;

	*out = NULL;
	if (d->ops->alloc(d, &p, 4 * count) < 0)
		return device_failed(d);
	*out = p;
	return 0;
}

static const struct lm_tensor *tensor_of(const struct lm_weights *w, enum lm_part part,
	uint32_t layer)
{
	int64_t i = lm_layout_index(&w->config, part, layer);

	return i < 0 ? NULL : model_file_tensor(w->model_file, (uint32_t)i);
}

/* Copies bytes to device memory that close frees. Returns NULL with the error in d. */
static void *keep(struct lm_weights *w, const void *host, uint64_t bytes)
{
	const struct dev_ops *ops = w->d->ops;
	void *p;

	if (ops->alloc(w->d, &p, bytes) < 0)
		return NULL;
	w->owned[w->owned_count++] = p;
	return lm_upload_put(&w->upload, p, host, bytes) < 0 ? NULL : p;
}

/* Loads a tensor of one dimension as f32; *out is NULL if the model has none. */
static int vector(struct lm_weights *w, const float **out, enum lm_part part,
	uint32_t layer)
{
	const struct lm_tensor *t = tensor_of(w, part, layer);
	bool norm = part != LM_Q_BIAS && part != LM_K_BIAS && part != LM_V_BIAS;
	float *values;

	*out = NULL;
	if (!t)
		return 0;
	values = xmalloc(t->count * sizeof *values);
	lm_to_f32(values, t->data, t->type, t->count);
	for (uint64_t i = 0; norm && w->config.norms_from_1 && i < t->count; i++)
		values[i] += 1;
	*out = keep(w, values, t->count * sizeof *values);
	free(values);
	return *out ? 0 : device_failed(w->d);
}

static int matrix(struct lm_weights *w, struct lm_matrix *out, enum lm_part part,
	enum lm_part bias, uint32_t layer)
{
	const struct lm_tensor *t = tensor_of(w, part, layer);

	out->adapted = LM_ADAPTED;
	out->type = lm_weight_of(t->type);
	out->n = t->shape[0];
	out->k = t->shape[1];
	out->w = w->d->is_host ? t->data : keep(w, t->data, t->bytes);
	if (!out->w)
		return device_failed(w->d);
	return bias == part ? 0 : vector(w, &out->bias, bias, layer);
}

/* Takes rows from .. from + n - 1 of a matrix that is loaded. */
static struct lm_matrix rows_of(const struct lm_matrix *w, uint64_t from, uint64_t n)
{
	struct lm_matrix part = *w;

	part.w = (const char *)w->w + from * lm_weight_row_bytes(w->type, w->k);
	part.n = n;
	return part;
}

/* Loads q, k, v, gate and up. */
static int load_inputs(struct lm_weights *w, struct lm_layer *l, uint32_t i)
{
	const struct lm_config *c = &w->config;
	uint64_t q = lm_q_dim(c), kv = lm_kv_dim(c);
	struct lm_matrix qkv = { 0 }, gate_up = { 0 };

	if (!c->fused)
		return matrix(w, &l->q, LM_Q, LM_Q_BIAS, i) < 0 ||
				matrix(w, &l->k, LM_K, LM_K_BIAS, i) < 0 ||
				matrix(w, &l->v, LM_V, LM_V_BIAS, i) < 0 ||
				matrix(w, &l->gate, LM_GATE, LM_GATE, i) < 0 ||
				matrix(w, &l->up, LM_UP, LM_UP, i) < 0 ?
			-1 :
			0;
	if (matrix(w, &qkv, LM_QKV, LM_QKV, i) < 0 ||
		matrix(w, &gate_up, LM_GATE_UP, LM_GATE_UP, i) < 0)
		return -1;
	l->q = rows_of(&qkv, 0, q);
	l->k = rows_of(&qkv, q, kv);
	l->v = rows_of(&qkv, q + kv, kv);
	l->gate = rows_of(&gate_up, 0, c->hidden);
	l->up = rows_of(&gate_up, c->hidden, c->hidden);
	return 0;
}

/* Gives the matrices of a layer the names that adapters know. */
static void name_matrices(struct lm_layer *l, uint32_t i)
{
	struct lm_matrix *all[LM_ADAPTED] = { [LM_ADAPTED_Q] = &l->q,
		[LM_ADAPTED_K] = &l->k,
		[LM_ADAPTED_V] = &l->v,
		[LM_ADAPTED_O] = &l->o,
		[LM_ADAPTED_GATE] = &l->gate,
		[LM_ADAPTED_UP] = &l->up,
		[LM_ADAPTED_DOWN] = &l->down };

	for (int k = 0; k < LM_ADAPTED; k++) {
		all[k]->layer = i;
		all[k]->adapted = (enum lm_adapted)k;
	}
}

static int load_layer(struct lm_weights *w, uint32_t i)
{
	struct lm_layer *l = &w->layers[i];

	if (vector(w, &l->attn_norm, LM_ATTN_NORM, i) < 0 ||
		vector(w, &l->ffn_norm, LM_FFN_NORM, i) < 0 ||
		vector(w, &l->q_norm, LM_Q_NORM, i) < 0 ||
		vector(w, &l->k_norm, LM_K_NORM, i) < 0 ||
		vector(w, &l->attn_post_norm, LM_ATTN_POST_NORM, i) < 0 ||
		vector(w, &l->ffn_post_norm, LM_FFN_POST_NORM, i) < 0 ||
		load_inputs(w, l, i) < 0 || matrix(w, &l->o, LM_O, LM_O, i) < 0 ||
		matrix(w, &l->down, LM_DOWN, LM_DOWN, i) < 0)
		return -1;
	name_matrices(l, i);
	return 0;
}

static int load(struct lm_weights *w)
{
	enum lm_part output = w->config.tied ? LM_EMBED : LM_OUTPUT;

	if (w->d->ops->lm->prepare(w->d, NULL) < 0)
		return device_failed(w->d);
	device_warn(w->d);
	for (uint32_t i = 0; i < w->config.layers; i++)
		if (load_layer(w, i) < 0)
			return -1;
	if (vector(w, &w->out_norm, LM_OUT_NORM, 0) < 0)
		return -1;
	return matrix(w, &w->output, output, output, 0);
}

int lm_weights_open(struct lm_weights **out, struct dev *d, const struct model_file *s)
{
	struct lm_weights *w = xcalloc(1, sizeof *w);
	int rc;

	w->model_file = s;
	w->config = *model_file_config(s);
	w->d = d;
	w->layers = xcalloc(w->config.layers, sizeof *w->layers);
	w->embed = tensor_of(w, LM_EMBED, 0);
	w->owned = xcalloc(lm_layout_count(&w->config) + 1, sizeof *w->owned);
	*out = w;
	lm_upload_begin(&w->upload, d);
	rc = load(w);
	if (lm_upload_end(&w->upload) < 0 && rc == 0)
		rc = device_failed(d);
	if (rc < 0) {
		lm_weights_close(w);
		*out = NULL;
		return -1;
	}
	return 0;
}

void lm_weights_close(struct lm_weights *w)
{
	if (!w)
		return;
	lm_weights_unpack(w);
	while (w->adapter_count)
		lm_adapter_close(w->adapters[--w->adapter_count]);
	free(w->adapters);
	while (w->owned_count)
		w->d->ops->free(w->d, w->owned[--w->owned_count]);
	free(w->owned);
	free(w->layers);
	free(w);
}

const struct lm_config *lm_weights_config(const struct lm_weights *w)
{
	return &w->config;
}

int lm_weights_adapt(struct lm_weights *w, const char *dir)
{
	struct lm_adapter *a;

	if (lm_adapter_open(&a, w->d, &w->config, dir) < 0)
		return -1;
	w->adapters = xrealloc(w->adapters,
		((size_t)w->adapter_count + 1) * sizeof *w->adapters);
	w->adapters[w->adapter_count++] = a;
	return 0;
}

uint64_t lm_weights_adapter_bytes(const struct lm_weights *w)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < w->adapter_count; i++)
		bytes += lm_adapter_bytes(w->adapters[i]);
	return bytes;
}
