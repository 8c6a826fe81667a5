/* parts.h - the trainer's memory and passes, shared by its files. Only for train*.c and
 * flat.c. */
#ifndef RNP_COMMON_LM_TRAIN_PARTS_H
#define RNP_COMMON_LM_TRAIN_PARTS_H

#include "common/lm/train/train.h"

/* Memory by purpose, one allocation each. */
enum lm_area {
	LM_AREA_BASE,
	LM_AREA_PARAMETERS,
	LM_AREA_COPIES,
	LM_AREA_GRADIENTS,
	LM_AREA_OPTIMISER,
	LM_AREA_ACTIVATIONS,
	LM_AREA_SCRATCH,
	LM_AREAS
};

/* The activations of one layer that its backward pass reads. There is one for each layer, or a
 * single one if layers are computed again. */
struct lm_saved_activations {
	void *h1, *h2; /* of dtype, [rows, dim]: outputs of the norms */
	float *rms1, *rms2;
	void *qkv;  /* of dtype, [rows, (heads + 2 kv_heads) head_dim] */
	void *att;  /* of dtype, [rows, heads head_dim] */
	float *lse; /* [batch, heads, positions] */
	float *mid; /* [rows, dim]: the residual stream between attention and MLP */
	void *gu;   /* of dtype, [rows, 2 hidden] */
	void *act;  /* of dtype, [rows, hidden]: SwiGLU of gu */
	void *low; /* of dtype, [LM_ADAPTED][rows, rank]: what A makes of a matrix's inputs */
};

/* Matrices of a layer whose rows one product reads together. */
struct lm_group {
	uint32_t layer;
	enum lm_adapted first, last;
};

/* A pass of a step as graphs of the device: one, or if grad_ready is called during the pass,
 * one up to each call. */
struct lm_captured {
	enum { LM_PASS_NEW, LM_PASS_WARM, LM_PASS_LAUNCH, LM_PASS_CAPTURED } state;
	struct lm_captured_part {
		void *graph;
		/* range of gradients that is final after it, for grad_ready; count 0: none */
		uint64_t from, count;
	} * parts;
	size_t n, cap;
};

enum lm_pass {
	/* base of four variants: + 1 with grad_ready, + 2 if gradients are added to earlier
	 * ones */
	LM_PASS_ADD,
	LM_PASS_UPDATE = LM_PASS_ADD + 4,
	LM_PASS_EVAL,
	LM_PASSES
};

struct lm_train {
	struct lm_train_options o;
	struct dev *d;
	const struct lm_ops *lm;
	struct lm_train_plan plan;

	/* sizes */
	uint64_t rows, dim, q, kv, qkv, hidden; /* q, kv: columns of all heads */
	uint64_t flat;                          /* elements of the flat arrays */
	uint64_t *offset; /* of each tensor that learns, on the host */
	uint32_t tensors; /* that learn */
	/* with an adapter: where each tensor of the layout begins in `base`, or in `vectors` */
	uint64_t *base_offset;
	uint64_t base_count, vector_count;
	float low_scale; /* of B A */
	float scale;     /* of scores */

	/* device memory */
	void *areas[LM_AREAS]; /* NULL while sizes are only counted */
	uint64_t used[LM_AREAS];
	float *p, *g, *m, *v;
	uint16_t *copy; /* NULL with f32 */
	/* with an adapter: the model, which is frozen. Matrices of dtype; norms and biases f32 */
	void *base;
	float *vectors;
	float **x; /* [layers + 1], in host memory: the residual stream before each layer */
	/* [layers], in host memory; all the same if layers are computed again */
	struct lm_saved_activations *saved;
	void *hf; /* output of the last norm */
	float *rmsf;
	float *dx;
	uint16_t *dxc,
		*dxr; /* halves of the gradient of the residual stream; NULL with f32 */
	void *dh, *dact, *datt, *dqkv;
	float *loss, *table;
	uint32_t *token, *target; /* one after the other */
	double *squares;
	struct lm_rates *rates;
	uint8_t *spared; /* of the flat arrays, for AdamW */
	void *head_scratch;
	float *wide;  /* low-rank part of a product [rows, its columns] */
	void *dlow;   /* of dtype, [3][rows, rank]: its gradients, of one group */
	float *spare; /* [dim]: gradients of norms that do not learn */

	struct lm_captured passes[LM_PASSES];
	struct lm_captured *capturing; /* pass that is being captured; NULL: none */
	char why[256]; /* reason why passes cannot be captured; "": they can */

	/* pinned: tokens, then targets; losses */
	uint32_t *host_batch; /* [2 rows] */
	float *host_loss;     /* [rows] */
	bool adding;          /* gradients are added to earlier ones */
	double loss_sum;
	uint64_t targets, steps;
};

/* Updates the bf16 copies of `count` parameters from `from` of the flat array on; does nothing
 * with f32. */
int lm_train_narrow(struct lm_train *t, uint64_t from, uint64_t count);

/* Return the offset of a part in the flat arrays, if it learns; where products read a matrix: the
 * parameter, its bf16 copy, or what is frozen; and where norms and biases are. */
uint64_t lm_train_at(const struct lm_train *t, enum lm_part part, uint32_t layer);
const void *lm_train_weight(const struct lm_train *t, enum lm_part part, uint32_t layer);
const float *lm_train_vector(const struct lm_train *t, enum lm_part part, uint32_t layer);

/* Copies the device's last error to err. Returns -1. */
int lm_train_failed(const struct lm_train *t);

/* Computes the sizes that follow from the options; the offsets of tensors (t->offset may be
 * NULL) and t->flat; every pointer, NULL while its area is not allocated; and the plan. */
void lm_train_sizes(struct lm_train *t);
void lm_train_offsets(struct lm_train *t);
int lm_train_place(struct lm_train *t);

/* Returns the arguments of the output operation, without pointers. */
struct lm_head lm_train_head_of(const struct lm_train_options *o, uint64_t rows);

/* Runs a pass: calls `all`, or replays the graphs captured from it. all may only start
 * operations and fills, with the same arguments every time, and call lm_train_ready. */
int lm_train_pass(struct lm_train *t, enum lm_pass pass,
	int (*all)(struct lm_train *t, bool last), bool last);

/* Reports final gradients to grad_ready, or records them for the replay. */
int lm_train_ready(struct lm_train *t, uint64_t from, uint64_t count);

void lm_train_drop(struct lm_train *t); /* frees all graphs */

/* Runs the forward pass: from tokens on the device to hf. */
int lm_train_forward(struct lm_train *t);

/* Starts a product; and the address of a column of an array of dtype. */
int lm_train_product(struct lm_train *t, const struct lm_gemm *g);
void *lm_train_column(const struct lm_train *t, const void *x, uint64_t at);

/* The products of an adapter (adapt.c). x: the inputs [rows, in] of a group; dy: the gradient of
 * its outputs [rows, columns of all].
 *
 * adapt: to [rows, columns] = from + the low-rank part, f32; *sum is what the product with the
 * frozen matrices is added to: to, or `from` (which may be NULL) if none of them is adapted. from
 * is for groups of one matrix.
 *
 * adapt_inputs: *sum is likewise the gradient [rows, in] of the inputs, or NULL; adapt_factors:
 * then computes the gradients of A and B. */
int lm_train_adapt(struct lm_train *t, const struct lm_group *g, const void *x, float *to,
	const float *from, const float **sum);
int lm_train_adapt_inputs(struct lm_train *t, const struct lm_group *g, const void *dy,
	const float **sum);
int lm_train_adapt_factors(struct lm_train *t, const struct lm_group *g, const void *dy,
	const void *x);

/* Computes the loss per row into t->loss; with back also dh and the output's gradient. */
int lm_train_head(struct lm_train *t, bool back);

/* Runs the backward pass: from dh to all gradients; last: calls grad_ready. */
int lm_train_backward(struct lm_train *t, bool last);

#endif
