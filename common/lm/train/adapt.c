/* adapt.c - the products of an adapter, beside those of the frozen matrices. The low-rank part is
 * made first, in f32, and the product with W is added to it, so that it is rounded once. */
#include "common/base/err.h"
#include "common/lm/train/parts.h"

static uint64_t outputs_of(const struct lm_train *t, enum lm_adapted which)
{
	return lm_lora_outputs(&t->o.config, which);
}

static uint64_t inputs_of(const struct lm_train *t, enum lm_adapted which)
{
	return lm_lora_inputs(&t->o.config, which);
}

/* Returns the columns of all matrices of a group together. */
static uint64_t columns_of(const struct lm_train *t, const struct lm_group *g)
{
	uint64_t n = 0;

	for (int w = (int)g->first; w <= (int)g->last; w++)
		n += outputs_of(t, (enum lm_adapted)w);
	return n;
}

/* Returns which of the group are adapted in this layer, as bits. */
static unsigned adapted(const struct lm_train *t, const struct lm_group *g)
{
	return lm_lora_targets(&t->o.lora, g->layer) &
		((2u << g->last) - (1u << g->first));
}

static const void *factor(const struct lm_train *t, enum lm_factor f,
	enum lm_adapted which, uint32_t layer)
{
	uint64_t at =
		t->offset[lm_learned_index(&t->o.config, &t->o.lora, f, which, layer)];

	return t->copy ? (const void *)(t->copy + at) : t->p + at;
}

static float *gradient(const struct lm_train *t, enum lm_factor f, enum lm_adapted which,
	uint32_t layer)
{
	return t->g +
		t->offset[lm_learned_index(&t->o.config, &t->o.lora, f, which, layer)];
}

/* Returns block `i` of memory for [rows, rank]. */
static void *low(const struct lm_train *t, void *blocks, unsigned i)
{
	return (char *)blocks + i * t->rows * t->o.lora.rank * lm_dtype_bytes(t->o.dtype);
}

/* u [rows, rank] = x [rows, in] A^T */
static int shrink(struct lm_train *t, uint32_t layer, enum lm_adapted which,
	const void *x)
{
	uint64_t rank = t->o.lora.rank, in = inputs_of(t, which);

	return lm_train_product(t,
		&(struct lm_gemm){ .form = LM_XWT,
			.dtype = t->o.dtype,
			.out = t->o.dtype,
			.c = low(t, t->saved[layer].low, which),
			.a = x,
			.b = factor(t, LM_FACTOR_A, which, layer),
			.m = t->rows,
			.n = rank,
			.k = in,
			.lda = in,
			.ldb = in,
			.ldc = rank });
}

/* to [rows, out] of rows of ld = from + scale u B^T */
static int widen(struct lm_train *t, uint32_t layer, enum lm_adapted which, float *to,
	const float *from, uint64_t ld)
{
	uint64_t rank = t->o.lora.rank;

	return lm_train_product(t,
		&(struct lm_gemm){ .form = LM_XWT,
			.dtype = t->o.dtype,
			.out = LM_DTYPE_F32,
			.c = to,
			.from = from,
			.a = low(t, t->saved[layer].low, which),
			.b = factor(t, LM_FACTOR_B, which, layer),
			.m = t->rows,
			.n = outputs_of(t, which),
			.k = rank,
			.lda = rank,
			.ldb = rank,
			.ldc = ld,
			.scale = t->low_scale });
}

int lm_train_adapt(struct lm_train *t, const struct lm_group *g, const void *x, float *to,
	const float *from, const float **sum)
{
	unsigned bits = adapted(t, g);
	uint64_t ld = columns_of(t, g);

	*sum = from;
	if (!bits)
		return 0;
	*sum = to;
	if (bits != (2u << g->last) - (1u << g->first) &&
		t->d->ops->fill(t->d, (uint32_t *)(void *)to, 0, t->rows * ld) < 0)
		return lm_train_failed(t);
	for (int w = (int)g->first; w <= (int)g->last; w++) {
		enum lm_adapted which = (enum lm_adapted)w;

		if (bits >> w & 1 &&
			(shrink(t, g->layer, which, x) < 0 ||
				widen(t, g->layer, which, to, from, ld) < 0))
			return -1;
		to += outputs_of(t, which);
	}
	return 0;
}

/* du [rows, rank] = scale dy B; then sum [rows, in] += du A */
static int inputs_back(struct lm_train *t, uint32_t layer, enum lm_adapted which,
	const void *dy, uint64_t ld, void *du, const float *from)
{
	uint64_t rank = t->o.lora.rank, in = inputs_of(t, which);
	struct lm_gemm shrinks = { .form = LM_XW,
		.dtype = t->o.dtype,
		.out = t->o.dtype,
		.c = du,
		.a = dy,
		.b = factor(t, LM_FACTOR_B, which, layer),
		.m = t->rows,
		.n = rank,
		.k = outputs_of(t, which),
		.lda = ld,
		.ldb = rank,
		.ldc = rank,
		.scale = t->low_scale };
	struct lm_gemm widens = { .form = LM_XW,
		.dtype = t->o.dtype,
		.out = LM_DTYPE_F32,
		.c = t->wide,
		.from = from,
		.a = du,
		.b = factor(t, LM_FACTOR_A, which, layer),
		.m = t->rows,
		.n = in,
		.k = rank,
		.lda = rank,
		.ldb = in,
		.ldc = in };

	return lm_train_product(t, &shrinks) < 0 ? -1 : lm_train_product(t, &widens);
}

int lm_train_adapt_inputs(struct lm_train *t, const struct lm_group *g, const void *dy,
	const float **sum)
{
	unsigned bits = adapted(t, g);
	uint64_t ld = columns_of(t, g), at = 0;

	*sum = NULL;
	for (int w = (int)g->first; w <= (int)g->last; w++) {
		enum lm_adapted which = (enum lm_adapted)w;

		if (bits >> w & 1) {
			if (inputs_back(t, g->layer, which, lm_train_column(t, dy, at),
				    ld, low(t, t->dlow, (unsigned)w - g->first),
				    *sum) < 0)
				return -1;
			*sum = t->wide;
		}
		at += outputs_of(t, which);
	}
	return 0;
}

/* dA [rank, in] (+)= du^T x, dB [out, rank] (+)= scale dy^T u */
static int factors_back(struct lm_train *t, uint32_t layer, enum lm_adapted which,
	const void *dy, uint64_t ld, const void *du, const void *x)
{
	uint64_t rank = t->o.lora.rank, in = inputs_of(t, which);
	float *da = gradient(t, LM_FACTOR_A, which, layer);
	float *db = gradient(t, LM_FACTOR_B, which, layer);
	struct lm_gemm a = { .form = LM_XTX,
		.dtype = t->o.dtype,
		.out = LM_DTYPE_F32,
		.c = da,
		.from = t->adding ? da : NULL,
		.a = du,
		.b = x,
		.m = rank,
		.n = in,
		.k = t->rows,
		.lda = rank,
		.ldb = in,
		.ldc = in };
	struct lm_gemm b = { .form = LM_XTX,
		.dtype = t->o.dtype,
		.out = LM_DTYPE_F32,
		.c = db,
		.from = t->adding ? db : NULL,
		.a = dy,
		.b = low(t, t->saved[layer].low, which),
		.m = outputs_of(t, which),
		.n = rank,
		.k = t->rows,
		.lda = ld,
		.ldb = rank,
		.ldc = rank,
		.scale = t->low_scale };

	return lm_train_product(t, &a) < 0 ? -1 : lm_train_product(t, &b);
}

int lm_train_adapt_factors(struct lm_train *t, const struct lm_group *g, const void *dy,
	const void *x)
{
	unsigned bits = adapted(t, g);
	uint64_t ld = columns_of(t, g), at = 0;

	for (int w = (int)g->first; w <= (int)g->last; w++) {
		enum lm_adapted which = (enum lm_adapted)w;

		/* what is computed again ends before the last product of a layer */
		if (bits >> w & 1 && t->o.recompute && which == LM_ADAPTED_DOWN &&
			shrink(t, g->layer, which, x) < 0)
			return -1;
		if (bits >> w & 1 &&
			factors_back(t, g->layer, which, lm_train_column(t, dy, at), ld,
				low(t, t->dlow, (unsigned)w - g->first), x) < 0)
			return -1;
		at += outputs_of(t, which);
	}
	return 0;
}
