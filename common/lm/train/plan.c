/* plan.c - the memory layout: one function walks over all that a trainer needs, for the
 * plan, which only counts, and for open, which assigns addresses. */
#include "common/base/err.h"
#include "common/lm/train/parts.h"
#include "common/hw/device.h"

#include <math.h>

#define PLACE_ALIGN 256
#define FLAT_ALIGN  LM_SPARED /* elements: 256 bytes as f32 */
#define BYTES_MAX   (UINT64_C(1) << 62)

/* Returns count x each, or more than any memory on overflow. */
static uint64_t bytes_of(uint64_t count, uint64_t each)
{
	uint64_t bytes;

	return __builtin_mul_overflow(count, each, &bytes) || bytes > BYTES_MAX ?
		BYTES_MAX :
		bytes;
}

/* Returns the next `bytes` of an area, or NULL while it is only being counted. */
static void *place(struct lm_train *t, enum lm_area area, uint64_t bytes)
{
	uint64_t *used = &t->used[area];
	void *at = t->areas[area] ? (char *)t->areas[area] + *used : NULL;

	if (bytes > BYTES_MAX - PLACE_ALIGN || *used > BYTES_MAX - bytes - PLACE_ALIGN)
		*used = BYTES_MAX;
	else
		*used += (bytes + PLACE_ALIGN - 1) / PLACE_ALIGN * PLACE_ALIGN;
	return at;
}

/* Tensors that one product reads together are stored without a gap. */
static bool joins_last(enum lm_part part)
{
	return part == LM_K || part == LM_V || part == LM_K_BIAS || part == LM_V_BIAS ||
		part == LM_UP;
}

static uint64_t aligned(uint64_t at)
{
	return (at + FLAT_ALIGN - 1) / FLAT_ALIGN * FLAT_ALIGN;
}

/* Returns where the next tensor of an array begins, and moves its end past it. */
static uint64_t append(uint64_t *end, const struct lm_place *p, bool joins)
{
	uint64_t at = joins ? *end : aligned(*end);

	*end = at + p->count;
	return at;
}

/* Of a frozen model: matrices in one array, norms and biases in another. */
static void base_offsets(struct lm_train *t)
{
	t->base_count = t->vector_count = 0;
	for (uint32_t i = 0; i < lm_layout_count(&t->o.config); i++) {
		struct lm_place p;
		uint64_t at;

		lm_layout_at(&t->o.config, i, &p);
		at = append(p.dims == 2 ? &t->base_count : &t->vector_count, &p,
			joins_last(p.part));
		if (t->base_offset)
			t->base_offset[i] = at;
	}
	t->base_count = aligned(t->base_count);
	t->vector_count = aligned(t->vector_count);
}

void lm_train_offsets(struct lm_train *t)
{
	t->flat = 0;
	for (uint32_t i = 0; i < t->tensors; i++) {
		struct lm_learned p;
		uint64_t at;

		lm_learned_at(&t->o.config, &t->o.lora, i, &p);
		at = append(&t->flat, &p.place,
			p.factor == LM_FACTOR_WHOLE && joins_last(p.place.part));
		if (t->offset)
			t->offset[i] = at;
	}
	t->flat = aligned(t->flat);
	if (lm_train_frozen(t))
		base_offsets(t);
}

void lm_train_sizes(struct lm_train *t)
{
	const struct lm_config *c = &t->o.config;

	t->tensors = lm_learned_count(c, &t->o.lora);
	t->rows = (uint64_t)t->o.batch * t->o.positions;
	t->dim = c->dim;
	t->q = (uint64_t)c->heads * c->head_dim;
	t->kv = (uint64_t)c->kv_heads * c->head_dim;
	t->qkv = t->q + 2 * t->kv;
	t->hidden = c->hidden;
	t->scale = (float)(1 / sqrt((double)c->head_dim));
	if (lm_train_frozen(t))
		t->low_scale = (float)lm_lora_scale(&t->o.lora);
}

struct lm_head lm_train_head_of(const struct lm_train_options *o, uint64_t rows)
{
	/* Gradients of the sum would do as well. Dividing by the number of rows keeps them far
	 * from the limits of bf16's range; apply takes it into account. */
	return (struct lm_head){ .dtype = o->dtype,
		.rows = rows,
		.dim = o->config.dim,
		.vocab = o->config.vocab,
		.scale = (float)(1 / (double)rows) };
}

static void place_parameters(struct lm_train *t)
{
	uint64_t bytes = bytes_of(t->flat, 4);

	if (lm_train_frozen(t)) {
		t->base = place(t, LM_AREA_BASE,
			bytes_of(t->base_count, lm_dtype_bytes(t->o.dtype)));
		t->vectors = place(t, LM_AREA_BASE, bytes_of(t->vector_count, 4));
	}
	t->p = place(t, LM_AREA_PARAMETERS, bytes);
	if (t->o.dtype == LM_DTYPE_BF16)
		t->copy = place(t, LM_AREA_COPIES, bytes / 2);
	if (t->o.eval_only)
		return;
	t->g = place(t, LM_AREA_GRADIENTS, bytes);
	t->m = place(t, LM_AREA_OPTIMISER, bytes);
	t->v = place(t, LM_AREA_OPTIMISER, bytes);
}

static struct lm_saved_activations place_saved(struct lm_train *t)
{
	uint64_t dtype = lm_dtype_bytes(t->o.dtype), rows = t->rows;
	struct lm_saved_activations k = {
		.h1 = place(t, LM_AREA_ACTIVATIONS, bytes_of(rows, t->dim * dtype)),
		.h2 = place(t, LM_AREA_ACTIVATIONS, bytes_of(rows, t->dim * dtype)),
		.rms1 = place(t, LM_AREA_ACTIVATIONS, bytes_of(rows, 4)),
		.rms2 = place(t, LM_AREA_ACTIVATIONS, bytes_of(rows, 4)),
		.qkv = place(t, LM_AREA_ACTIVATIONS, bytes_of(rows, t->qkv * dtype)),
		.att = place(t, LM_AREA_ACTIVATIONS, bytes_of(rows, t->q * dtype)),
		.lse = place(t, LM_AREA_ACTIVATIONS,
			bytes_of(rows, t->o.config.heads * UINT64_C(4))),
		.mid = place(t, LM_AREA_ACTIVATIONS, bytes_of(rows, t->dim * 4)),
		.gu = place(t, LM_AREA_ACTIVATIONS,
			bytes_of(rows, 2 * t->hidden * dtype)),
		.act = place(t, LM_AREA_ACTIVATIONS, bytes_of(rows, t->hidden * dtype)),
	};

	if (lm_train_frozen(t))
		k.low = place(t, LM_AREA_ACTIVATIONS,
			bytes_of(rows, LM_ADAPTED * t->o.lora.rank * dtype));

	return k;
}

/* The activations saved by one layer: separate for each, or shared by all if there is no
 * backward pass or layers are computed again. */
static void place_activations(struct lm_train *t)
{
	uint32_t layers = t->o.config.layers;
	bool one = t->o.eval_only || t->o.recompute;
	struct lm_saved_activations saved = { 0 };
	float *x[2] = { NULL, NULL };

	for (uint32_t l = 0; l < (one ? 1 : layers); l++) {
		saved = place_saved(t);
		if (t->saved)
			t->saved[l] = saved;
	}
	for (uint32_t l = 1; t->saved && one && l < layers; l++)
		t->saved[l] = saved;
	for (uint32_t l = 0; l <= layers; l++) {
		if (l < 2 || !t->o.eval_only)
			x[l & 1] = place(t, LM_AREA_ACTIVATIONS,
				bytes_of(t->rows, t->dim * 4));
		if (t->x)
			t->x[l] = x[l & 1];
	}
	t->hf = place(t, LM_AREA_ACTIVATIONS,
		bytes_of(t->rows, t->dim * lm_dtype_bytes(t->o.dtype)));
	t->rmsf = place(t, LM_AREA_ACTIVATIONS, bytes_of(t->rows, 4));
}

/* Returns the most columns of a product. */
static uint64_t widest(const struct lm_train *t)
{
	uint64_t most = t->qkv > 2 * t->hidden ? t->qkv : 2 * t->hidden;

	return most > t->dim ? most : t->dim;
}

static void place_scratch(struct lm_train *t, uint64_t head_bytes)
{
	uint64_t dtype = lm_dtype_bytes(t->o.dtype), rows = t->rows;

	t->loss = place(t, LM_AREA_SCRATCH, bytes_of(rows, 4));
	t->token = place(t, LM_AREA_SCRATCH, bytes_of(rows, 8));
	t->target = t->token ? t->token + rows : NULL;
	t->table = place(t, LM_AREA_SCRATCH,
		bytes_of(t->o.positions, t->o.config.head_dim * UINT64_C(4)));
	t->head_scratch = place(t, LM_AREA_SCRATCH, head_bytes);
	if (lm_train_frozen(t))
		t->wide = place(t, LM_AREA_SCRATCH, bytes_of(rows, widest(t) * 4));
	if (t->o.eval_only)
		return;
	if (lm_train_frozen(t)) {
		t->dlow = place(t, LM_AREA_SCRATCH,
			bytes_of(rows, 3 * t->o.lora.rank * dtype));
		t->spare = place(t, LM_AREA_SCRATCH, t->dim * 4);
	}
	t->dx = place(t, LM_AREA_SCRATCH, bytes_of(rows, t->dim * 4));
	if (t->o.dtype == LM_DTYPE_BF16)
		t->dxc = place(t, LM_AREA_SCRATCH, bytes_of(rows, t->dim * 2)),
		t->dxr = place(t, LM_AREA_SCRATCH, bytes_of(rows, t->dim * 2));
	t->dh = place(t, LM_AREA_SCRATCH, bytes_of(rows, t->dim * dtype));
	t->dact = place(t, LM_AREA_SCRATCH, bytes_of(rows, t->hidden * dtype));
	t->datt = place(t, LM_AREA_SCRATCH, bytes_of(rows, t->q * dtype));
	t->dqkv = place(t, LM_AREA_SCRATCH, bytes_of(rows, t->qkv * dtype));
	t->squares = place(t, LM_AREA_SCRATCH,
		(t->flat + LM_SQUARES_BLOCK - 1) / LM_SQUARES_BLOCK * 8);
	t->rates = place(t, LM_AREA_SCRATCH, sizeof *t->rates);
	t->spared = place(t, LM_AREA_SCRATCH, t->flat / LM_SPARED);
}

int lm_train_place(struct lm_train *t)
{
	struct lm_head h = lm_train_head_of(&t->o, t->rows);
	uint64_t head_bytes, device_bytes, total = 0;

	if (t->lm->prepare(t->d, &device_bytes) < 0)
		return lm_train_failed(t);
	device_warn(t->d);
	/* only whether they are NULL matters here */
	h.dh = t->o.eval_only ? NULL : t;
	if (t->lm->head_scratch(t->d, &h, &head_bytes) < 0)
		return lm_train_failed(t);
	for (int a = 0; a < LM_AREAS; a++)
		t->used[a] = 0;
	place_parameters(t);
	place_activations(t);
	place_scratch(t, head_bytes);
	for (int a = 0; a < LM_AREAS; a++) {
		if (t->used[a] >= BYTES_MAX / LM_AREAS)
			return err_set(EX_DATAERR,
				"the model and its batch need more memory than there is on any machine");
		total += t->used[a];
	}
	t->plan = (struct lm_train_plan){ .base = t->used[LM_AREA_BASE],
		.parameters = t->used[LM_AREA_PARAMETERS],
		.copies = t->used[LM_AREA_COPIES],
		.gradients = t->used[LM_AREA_GRADIENTS],
		.optimiser = t->used[LM_AREA_OPTIMISER],
		.activations = t->used[LM_AREA_ACTIVATIONS],
		.scratch = t->used[LM_AREA_SCRATCH] + device_bytes,
		.total = total + device_bytes };
	return 0;
}
