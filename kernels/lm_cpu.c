/* The table of lm_ops.h on the CPU: one team shares each operation. */
#include "kernels/lm_cpu.h"

#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "kernels/dev_cpu.h"

struct lm_cpu {
	struct lm_kernels kernels;
};

void lm_cpu_kernels(struct lm_kernels *out, enum cpu_level level)
{
	*out = (struct lm_kernels){
		.embed = lm_embed_ref,
		.embed_back = lm_embed_back_ref,
		.norm = lm_norm_ref,
		.norm_back_rows = lm_norm_back_rows_ref,
		.norm_back_columns = lm_norm_back_columns_ref,
		.rotate = lm_rotate_ref,
		.swiglu = lm_swiglu_ref,
		.swiglu_back = lm_swiglu_back_ref,
		.bias_back = lm_bias_back_ref,
		.narrow = lm_narrow_ref,
		.squares = lm_squares_ref,
		.adamw = lm_adamw_ref,
	};
	(void)level;
}

static int cpu_prepare(struct dev *d, uint64_t *bytes)
{
	struct cpu *c = cpu_of(d);

	if (bytes)
		*bytes = sizeof *c->lm;
	if (c->lm)
		return 0;
	c->lm = calloc(1, sizeof *c->lm);
	if (!c->lm)
		return dev_fail(d, EX_OSERR, "cpu: no memory");
	lm_cpu_kernels(&c->lm->kernels, c->level);
	return 0;
}

void lm_cpu_free(struct lm_cpu *lm)
{
	free(lm);
}

/* An operation whose rows, columns or elements a team shares. */
#define SHARED(name, kernel, count, grain)                                \
	struct name##_work {                                              \
		const struct lm_kernels *kernels;                         \
		const struct lm_##name *x;                                \
	};                                                                \
	static void kernel##_part(void *work, uint64_t from, uint64_t to) \
	{                                                                 \
		struct name##_work *w = work;                             \
                                                                          \
		w->kernels->kernel(w->x, from, to);                       \
	}                                                                 \
	static int cpu_##name(struct dev *d, const struct lm_##name *x)   \
	{                                                                 \
		struct name##_work w = { &cpu_of(d)->lm->kernels, x };    \
                                                                          \
		cpu_in_parts(count, grain, kernel##_part, &w);            \
		return 0;                                                 \
	}

/* rows of a size, such that a piece is worth handing to a thread */
static uint64_t rows_grain(uint64_t width)
{
	return 1 + 4096 / (width + 1);
}

SHARED(embed, embed, x->rows, rows_grain(x->dim))
SHARED(embed_back, embed_back, x->dim, 64)
SHARED(norm, norm, x->rows, rows_grain(x->dim))
SHARED(rotate, rotate, x->rows, rows_grain(x->heads * x->head_dim))
SHARED(swiglu, swiglu, x->rows, rows_grain(x->hidden))
SHARED(swiglu_back, swiglu_back, x->rows, rows_grain(x->hidden))
SHARED(bias_back, bias_back, x->n, 64)
SHARED(narrow, narrow, x->n, 4096)
SHARED(squares, squares, (x->n + LM_SQUARES_BLOCK - 1) / LM_SQUARES_BLOCK, 1)
SHARED(adamw, adamw, x->n, 4096)

struct norm_back_work {
	const struct lm_kernels *kernels;
	const struct lm_norm_back *x;
};

static void norm_back_rows_part(void *work, uint64_t from, uint64_t to)
{
	struct norm_back_work *w = work;

	w->kernels->norm_back_rows(w->x, from, to);
}

static void norm_back_columns_part(void *work, uint64_t from, uint64_t to)
{
	struct norm_back_work *w = work;

	w->kernels->norm_back_columns(w->x, from, to);
}

static int cpu_norm_back(struct dev *d, const struct lm_norm_back *x)
{
	struct norm_back_work w = { &cpu_of(d)->lm->kernels, x };

	cpu_in_parts(x->dim, 64, norm_back_columns_part, &w);
	cpu_in_parts(x->rows, rows_grain(x->dim), norm_back_rows_part, &w);
	return 0;
}

static void gemm_part(void *work, uint64_t from, uint64_t to)
{
	lm_gemm_ref(work, from, to);
}

static int cpu_gemm(struct dev *d, const struct lm_gemm *g)
{
	(void)d;
	cpu_in_parts(g->m, 1, gemm_part, (void *)g);
	return 0;
}

static void attend_part(void *work, uint64_t from, uint64_t to)
{
	lm_attend_ref(work, from, to);
}

static int cpu_attend(struct dev *d, const struct lm_attend *a)
{
	(void)d;
	cpu_in_parts(a->batch * a->heads * a->positions, 1, attend_part, (void *)a);
	return 0;
}

static void attend_back_q_part(void *work, uint64_t from, uint64_t to)
{
	lm_attend_back_q_ref(work, from, to);
}

static void attend_back_kv_part(void *work, uint64_t from, uint64_t to)
{
	lm_attend_back_kv_ref(work, from, to);
}

static int cpu_attend_back(struct dev *d, const struct lm_attend_back *a)
{
	const struct lm_attend *f = &a->forward;

	(void)d;
	cpu_in_parts(f->batch * f->heads * f->positions, 1, attend_back_q_part,
		(void *)a);
	cpu_in_parts(f->batch * f->kv_heads * f->keys, 1, attend_back_kv_part, (void *)a);
	return 0;
}

static int cpu_head_scratch(struct dev *d, const struct lm_head *h, uint64_t *bytes)
{
	(void)d;
	*bytes = LM_HEAD_SCRATCH_REF(h->dim, h->vocab);
	return 0;
}

static int cpu_head(struct dev *d, const struct lm_head *h)
{
	(void)d;
	lm_head_ref(h);
	return 0;
}

static int cpu_clip(struct dev *d, const struct lm_clip *c)
{
	(void)d;
	lm_clip_ref(c);
	return 0;
}

const struct lm_ops lm_cpu_ops = {
	.prepare = cpu_prepare,
	.gemm = cpu_gemm,
	.embed = cpu_embed,
	.embed_back = cpu_embed_back,
	.norm = cpu_norm,
	.norm_back = cpu_norm_back,
	.rotate = cpu_rotate,
	.swiglu = cpu_swiglu,
	.swiglu_back = cpu_swiglu_back,
	.bias_back = cpu_bias_back,
	.narrow = cpu_narrow,
	.attend = cpu_attend,
	.attend_back = cpu_attend_back,
	.head_scratch = cpu_head_scratch,
	.head = cpu_head,
	.squares = cpu_squares,
	.clip = cpu_clip,
	.adamw = cpu_adamw,
};
