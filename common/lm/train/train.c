/* train.c - a trainer's memory, parameters, and steps; the passes are in pass.c. */
#include "common/lm/train/train.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/hw/device.h"
#include "common/lm/model/rope.h"
#include "common/lm/train/parts.h"
#include "common/base/mem.h"

#define TRY(call)                                  \
	do {                                       \
		if ((call) < 0)                    \
			return lm_train_failed(t); \
	} while (0)

int lm_train_failed(const struct lm_train *t)
{
	return device_failed(t->d);
}

/* --- open and close ----------------------------------------------------------------------- */

void lm_train_defaults(struct lm_train_options *o, const struct lm_config *c)
{
	*o = (struct lm_train_options){ .config = *c,
		.batch = 1,
		.positions = c->context < 1024 ? c->context : 1024,
		.dtype = LM_DTYPE_BF16,
		.beta1 = 0.9f,
		.beta2 = 0.95f,
		.eps = 1e-8f,
		.decay = 0.1f,
		.clip = 1 };
}

static int check_lora(const struct lm_train_options *o)
{
	const struct lm_lora *l = &o->lora;

	if (!l->rank)
		return 0;
	if (l->rank > LM_LORA_RANK_MAX)
		return err_set(EX_USAGE, "a rank of %" PRIu32 " is above %d", l->rank,
			LM_LORA_RANK_MAX);
	/* as f32 it must be a usable factor */
	if (!(fabs(lm_lora_scale(l)) >= 1e-30 && fabs(lm_lora_scale(l)) <= 1e30))
		return err_set(EX_USAGE, "an alpha of %g is no usable scale", l->alpha);
	return 0;
}

static int check_options(const struct lm_train_options *o)
{
	if (lm_config_check(&o->config, "model") < 0)
		return -1;
	if (!o->batch || !o->positions)
		return err_set(EX_USAGE,
			"a batch needs at least one sequence and one token");
	if (o->positions > LM_CONTEXT_MAX || o->batch > LM_CONTEXT_MAX)
		return err_set(EX_USAGE,
			"a batch of %" PRIu32 " x %" PRIu32 " is too large", o->batch,
			o->positions);
	if (!(o->beta1 >= 0 && o->beta1 < 1 && o->beta2 >= 0 && o->beta2 < 1 &&
		    o->eps > 0 && o->decay >= 0 && o->clip >= 0))
		return err_set(EX_USAGE,
			"betas must be at least 0 and below 1, eps above 0, decay and clip not negative");
	if (!o->grad_ready != !o->grad_sync)
		bug("one hook without the other");
	return check_lora(o);
}

/* Sets everything but memory: what the plan needs. */
static int begin(struct lm_train *t, struct dev *d, const struct lm_train_options *o)
{
	*t = (struct lm_train){ .o = *o, .d = d, .lm = d->ops->lm };
	if (check_options(o) < 0)
		return -1;
	lm_train_sizes(t);
	lm_train_offsets(t);
	return lm_train_place(t);
}

int lm_train_plan(struct lm_train_plan *plan, struct dev *d,
	const struct lm_train_options *o)
{
	struct dev cpu = DEV_INIT;
	struct lm_train t;
	int rc;

	if (!d && device_open(&cpu, "cpu") < 0)
		return -1;
	rc = begin(&t, d ? d : &cpu, o);
	*plan = t.plan;
	dev_close(&cpu);
	return rc;
}

static int allocate(struct lm_train *t)
{
	static const char *const names[] = { "the model", "parameters", "working copies",
		"gradients", "the optimiser", "activations", "scratch" };

	t->offset = xcalloc(t->tensors, sizeof *t->offset);
	if (lm_train_frozen(t))
		t->base_offset = xcalloc(lm_layout_count(&t->o.config),
			sizeof *t->base_offset);
	t->saved = xcalloc(t->o.config.layers, sizeof *t->saved);
	t->x = xcalloc(t->o.config.layers + UINT64_C(1), sizeof *t->x);
	for (int a = 0; a < LM_AREAS; a++) {
		if (!t->used[a])
			continue;
		if (t->d->ops->alloc(t->d, &t->areas[a], t->used[a]) < 0) {
			lm_train_failed(t);
			return err_add("memory for %s", names[a]);
		}
		TRY(t->d->ops->fill(t->d, t->areas[a], 0, t->used[a] / 4));
	}
	TRY(t->d->ops->pin(t->d, (void **)&t->host_batch,
		2 * t->rows * sizeof *t->host_batch));
	TRY(t->d->ops->pin(t->d, (void **)&t->host_loss, t->rows * sizeof *t->host_loss));
	lm_train_offsets(t);
	return lm_train_place(t);
}

static int put_table(struct lm_train *t)
{
	uint64_t count = (uint64_t)t->o.positions * t->o.config.head_dim;
	float *table = xcalloc(count ? count : 1, sizeof *table);
	int rc;

	lm_rope_table(table, &t->o.config, t->o.positions, false);
	rc = t->d->ops->put(t->d, t->table, table, count * sizeof *table);
	free(table);
	return rc < 0 ? lm_train_failed(t) : 0;
}

/* Tensors that are not matrices have no weight decay. No block of LM_SPARED has some of both: what
 * is stored without a gap is of one kind. */
static int put_spared(struct lm_train *t)
{
	uint64_t count = t->flat / LM_SPARED;
	uint8_t *spared;
	int rc;

	if (t->o.eval_only)
		return 0;
	spared = xcalloc(count, 1);
	for (uint32_t i = 0; i < t->tensors; i++) {
		struct lm_learned p;
		uint64_t from = t->offset[i] / LM_SPARED;

		lm_learned_at(&t->o.config, &t->o.lora, i, &p);
		for (uint64_t b = from; b * LM_SPARED < t->offset[i] + p.place.count; b++)
			spared[b] = p.place.dims != 2;
	}
	rc = t->d->ops->put(t->d, t->spared, spared, count);
	free(spared);
	return rc < 0 ? lm_train_failed(t) : 0;
}

int lm_train_open(struct lm_train **out, struct dev *d, const struct lm_train_options *o)
{
	struct lm_train *t = xcalloc(1, sizeof *t);

	*out = NULL;
	if (lm_config_need_llama(&o->config, "trained") < 0 || begin(t, d, o) < 0 ||
		allocate(t) < 0 || put_table(t) < 0 || put_spared(t) < 0) {
		lm_train_close(t);
		return -1;
	}
	*out = t;
	return 0;
}

void lm_train_close(struct lm_train *t)
{
	if (!t)
		return;
	lm_train_drop(t);
	for (int a = 0; a < LM_AREAS; a++)
		t->d->ops->free(t->d, t->areas[a]);
	free(t->offset);
	free(t->base_offset);
	free(t->saved);
	free(t->x);
	t->d->ops->unpin(t->d, t->host_batch);
	t->d->ops->unpin(t->d, t->host_loss);
	free(t);
}

/* --- parameters --------------------------------------------------------------------------- */

const struct lm_config *lm_train_config(const struct lm_train *t)
{
	return &t->o.config;
}

const struct lm_lora *lm_train_lora(const struct lm_train *t)
{
	return &t->o.lora;
}

bool lm_train_frozen(const struct lm_train *t)
{
	return t->o.lora.rank > 0;
}

uint32_t lm_train_tensors(const struct lm_train *t)
{
	return t->tensors;
}

void lm_train_tensor(const struct lm_train *t, uint32_t i, struct lm_learned *out)
{
	lm_learned_at(&t->o.config, &t->o.lora, i, out);
}

/* Returns the index of a part in the layout. */
static uint32_t index_of(const struct lm_train *t, enum lm_part part, uint32_t layer)
{
	int64_t i;

	if (part == LM_OUTPUT && t->o.config.tied)
		part = LM_EMBED;
	i = lm_layout_index(&t->o.config, part, layer);
	if (i < 0)
		bug("the model has no part %d", (int)part);
	return (uint32_t)i;
}

uint64_t lm_train_at(const struct lm_train *t, enum lm_part part, uint32_t layer)
{
	if (lm_train_frozen(t))
		bug("part %d does not learn", (int)part);
	return t->offset[index_of(t, part, layer)];
}

const void *lm_train_weight(const struct lm_train *t, enum lm_part part, uint32_t layer)
{
	uint32_t i = index_of(t, part, layer);

	if (lm_train_frozen(t))
		return (const char *)t->base +
			t->base_offset[i] * lm_dtype_bytes(t->o.dtype);
	return t->copy ? (const void *)(t->copy + t->offset[i]) : t->p + t->offset[i];
}

const float *lm_train_vector(const struct lm_train *t, enum lm_part part, uint32_t layer)
{
	uint32_t i = index_of(t, part, layer);

	return lm_train_frozen(t) ? t->vectors + t->base_offset[i] : t->p + t->offset[i];
}

uint64_t lm_train_flat_count(const struct lm_train *t)
{
	return t->flat;
}

uint64_t lm_train_offset(const struct lm_train *t, uint32_t i)
{
	return t->offset[i];
}

float *lm_train_flat(struct lm_train *t, enum lm_state what)
{
	switch (what) {
	case LM_STATE_M:
		return t->m;
	case LM_STATE_V:
		return t->v;
	case LM_STATE_GRADIENT:
		return t->g;
	default:
		return t->p;
	}
}

/* parameters that are made on the host at a time */
#define INIT_BLOCK (UINT64_C(1) << 20)

int lm_train_narrow(struct lm_train *t, uint64_t from, uint64_t count)
{
	struct lm_narrow n = { .from = t->p + from, .n = count };

	if (!t->copy)
		return 0;
	n.to = t->copy + from;
	TRY(t->lm->narrow(t->d, &n));
	return 0;
}

/* Updates the bf16 copies after the flat parameters were written. */
static int lm_train_touched(struct lm_train *t)
{
	return lm_train_narrow(t, 0, t->flat);
}

int lm_train_get(struct lm_train *t, enum lm_state what, uint32_t i, float *host)
{
	struct lm_learned p;

	lm_learned_at(&t->o.config, &t->o.lora, i, &p);
	TRY(t->d->ops->get(t->d, host, lm_train_flat(t, what) + t->offset[i],
		p.place.count * sizeof *host));
	return 0;
}

int lm_train_put(struct lm_train *t, enum lm_state what, uint32_t i, const float *host)
{
	struct lm_learned p;

	lm_learned_at(&t->o.config, &t->o.lora, i, &p);
	TRY(t->d->ops->put(t->d, lm_train_flat(t, what) + t->offset[i], host,
		p.place.count * sizeof *host));
	return what == LM_STATE_PARAMETER ?
		lm_train_narrow(t, t->offset[i], p.place.count) :
		0;
}

int lm_train_put_base(struct lm_train *t, uint32_t i, const float *host)
{
	uint64_t at = t->base_offset[i];
	struct lm_place p;
	uint16_t *half;
	int rc;

	lm_layout_at(&t->o.config, i, &p);
	if (p.dims != 2 || t->o.dtype == LM_DTYPE_F32) {
		float *to = p.dims == 2 ? (float *)t->base : t->vectors;

		TRY(t->d->ops->put(t->d, to + at, host, p.count * sizeof *host));
		return 0;
	}
	half = xmalloc(p.count * sizeof *half);
	for (uint64_t k = 0; k < p.count; k++)
		half[k] = bf16_from_f32(host[k]);
	rc = t->d->ops->put(t->d, (uint16_t *)t->base + at, half, p.count * sizeof *half);
	free(half);
	return rc < 0 ? lm_train_failed(t) : 0;
}

static int init_tensor(struct lm_train *t, uint32_t i, float *w, uint64_t seed)
{
	struct lm_learned p;

	lm_learned_at(&t->o.config, &t->o.lora, i, &p);
	for (uint64_t from = 0; from < p.place.count; from += INIT_BLOCK) {
		uint64_t left = p.place.count - from;
		uint64_t count = left < INIT_BLOCK ? left : INIT_BLOCK;

		lm_learned_init(w, &t->o.config, &t->o.lora, seed, i, from, count);
		TRY(t->d->ops->put(t->d, t->p + t->offset[i] + from, w,
			count * sizeof *w));
	}
	return 0;
}

int lm_train_init(struct lm_train *t, uint64_t seed)
{
	float *w = xcalloc(INIT_BLOCK, sizeof *w);
	int rc = 0;

	t->steps = 0;
	lm_train_zero_grad(t);
	if (!t->o.eval_only &&
		t->d->ops->fill(t->d, t->areas[LM_AREA_OPTIMISER], 0,
			t->used[LM_AREA_OPTIMISER] / 4) < 0)
		rc = lm_train_failed(t);
	for (uint32_t i = 0; rc == 0 && i < t->tensors; i++)
		rc = init_tensor(t, i, w, seed);
	free(w);
	return rc < 0 ? -1 : lm_train_touched(t);
}

uint64_t lm_train_steps(const struct lm_train *t)
{
	return t->steps;
}

void lm_train_set_steps(struct lm_train *t, uint64_t steps)
{
	t->steps = steps;
}

/* --- steps -------------------------------------------------------------------------------- */

/* Returns the number of targets, or -1: an id out of range. */
static int64_t put_batch(struct lm_train *t, const uint32_t *tokens,
	const uint32_t *targets)
{
	uint32_t vocab = t->o.config.vocab;
	uint64_t bytes = t->rows * sizeof *tokens;
	int64_t counted = 0;

	for (uint64_t i = 0; i < t->rows; i++) {
		if (tokens[i] >= vocab ||
			(targets[i] >= vocab && targets[i] != LM_NO_TARGET))
			return err_set(EX_DATAERR,
				"token %" PRIu64 " of the batch has id %" PRIu32
				", the vocabulary ends at %" PRIu32,
				i, tokens[i] >= vocab ? tokens[i] : targets[i],
				vocab - 1);
		counted += targets[i] != LM_NO_TARGET;
	}
	memcpy(t->host_batch, tokens, bytes);
	memcpy(t->host_batch + t->rows, targets, bytes);
	TRY(t->d->ops->put(t->d, t->token, t->host_batch, 2 * bytes));
	return counted;
}

static int get_loss(struct lm_train *t, double *sum)
{
	TRY(t->d->ops->get(t->d, t->host_loss, t->loss, t->rows * sizeof(float)));
	*sum = 0;
	for (uint64_t i = 0; i < t->rows; i++)
		*sum += (double)t->host_loss[i];
	return 0;
}

static int add_pass(struct lm_train *t, bool last)
{
	return lm_train_forward(t) < 0 || lm_train_head(t, true) < 0 ?
		-1 :
		lm_train_backward(t, last);
}

int lm_train_add(struct lm_train *t, const uint32_t *tokens, const uint32_t *targets,
	bool last)
{
	/* arguments of operations depend only on these */
	enum lm_pass pass = LM_PASS_ADD + (last && t->o.grad_ready ? 1 : 0) +
		(t->adding ? 2 : 0);
	int64_t counted;
	double sum;

	if (t->o.eval_only)
		bug("a trainer for evaluation cannot add gradients");
	counted = put_batch(t, tokens, targets);
	if (counted < 0 || lm_train_pass(t, pass, add_pass, last) < 0 ||
		get_loss(t, &sum) < 0)
		return -1;
	t->adding = true;
	t->loss_sum += sum;
	t->targets += (uint64_t)counted;
	return 0;
}

void lm_train_zero_grad(struct lm_train *t)
{
	t->adding = false;
	t->loss_sum = 0;
	t->targets = 0;
}

/* All tensors at once: what lies between them is 0 in all four arrays, and stays so. */
static int adamw(struct lm_train *t)
{
	struct lm_adamw a = { .p = t->p,
		.m = t->m,
		.v = t->v,
		.g = t->g,
		.copy = t->copy,
		.spared = t->spared,
		.rates = t->rates,
		.n = t->flat,
		.beta1 = t->o.beta1,
		.beta2 = t->o.beta2,
		.eps = t->o.eps,
		.decay = t->o.decay };

	TRY(t->lm->adamw(t->d, &a));
	return 0;
}

/* If the norm is not finite, AdamW changes nothing. */
static int update_pass(struct lm_train *t, bool last)
{
	struct lm_squares s = { .part = t->squares, .g = t->g, .n = t->flat };
	struct lm_clip c = { .rates = t->rates,
		.part = t->squares,
		.parts = (t->flat + LM_SQUARES_BLOCK - 1) / LM_SQUARES_BLOCK };

	(void)last;
	TRY(t->lm->squares(t->d, &s));
	TRY(t->lm->clip(t->d, &c));
	return adamw(t);
}

static int not_finite(const struct lm_train *t, const char *what)
{
	return err_set(EX_DATAERR, "step %" PRIu64 ": the %s is not finite", t->steps + 1,
		what);
}

static int update(struct lm_train *t, float lr, double loss, struct lm_step *out)
{
	double step = (double)t->steps + 1;
	struct lm_rates r = { .lr = lr,
		.correct1 = (float)(1 / (1 - pow((double)t->o.beta1, step))),
		.correct2 = (float)(1 / (1 - pow((double)t->o.beta2, step))),
		/* the output layer has divided by the number of rows */
		.unit = (float)((double)t->rows / (double)(t->targets ? t->targets : 1)),
		.clip = t->o.clip };

	*out = (struct lm_step){ .loss = loss, .norm = NAN, .targets = t->targets };
	if (!isfinite(loss))
		return not_finite(t, "loss");
	TRY(t->d->ops->put(t->d, t->rates, &r, sizeof r));
	if (lm_train_pass(t, LM_PASS_UPDATE, update_pass, true) < 0)
		return -1;
	TRY(t->d->ops->get(t->d, &r, t->rates, sizeof r));
	out->norm = (double)r.norm;
	if (!isfinite(r.norm))
		return not_finite(t, "gradient");
	t->steps++;
	return 0;
}

int lm_train_apply(struct lm_train *t, float lr, struct lm_step *out)
{
	int rc;

	*out = (struct lm_step){ 0 };
	if (!t->adding)
		bug("apply without add");
	rc = t->o.grad_sync ? t->o.grad_sync(t->o.arg, &t->loss_sum, &t->targets) : 0;
	if (rc == 0)
		rc = update(t, lr, t->targets ? t->loss_sum / (double)t->targets : 0,
			out);
	lm_train_zero_grad(t);
	return rc;
}

int lm_train_step(struct lm_train *t, const uint32_t *tokens, const uint32_t *targets,
	float lr, struct lm_step *out)
{
	*out = (struct lm_step){ 0 };
	if (lm_train_add(t, tokens, targets, true) < 0)
		return -1;
	return lm_train_apply(t, lr, out);
}

static int eval_pass(struct lm_train *t, bool last)
{
	(void)last;
	return lm_train_forward(t) < 0 ? -1 : lm_train_head(t, false);
}

int lm_train_eval(struct lm_train *t, const uint32_t *tokens, const uint32_t *targets,
	double *loss_sum, uint64_t *counted)
{
	int64_t count = put_batch(t, tokens, targets);

	if (count < 0 || lm_train_pass(t, LM_PASS_EVAL, eval_pass, true) < 0)
		return -1;
	*counted = (uint64_t)count;
	return get_loss(t, loss_sum);
}
