/* train.h - a language model in training on one device: parameters, gradients, AdamW's state,
 * activations, and steps. Uses layout.h and the tables of kernels/dev/dev.h and
 * kernels/lm/ops.h.
 *
 * open allocates everything; a step allocates nothing. Parameters are f32 masters; with
 * LM_DTYPE_BF16 products run on bf16 copies and bf16 activations with f32 sums, while the
 * residual stream, norms, gradients and the optimiser stay f32. The same seed, device, thread
 * count and data give the same bits. One thread at a time uses a trainer. */
#ifndef RNP_COMMON_LM_TRAIN_TRAIN_H
#define RNP_COMMON_LM_TRAIN_TRAIN_H

#include "common/lm/model/lora.h"
#include "kernels/lm/ops.h"

struct lm_train;

/* The hooks of data-parallel training. grad_ready reports that the gradients [from, from +
 * count) of the flat array are final, in the order of the backward pass: the output first, the
 * embedding last. Together the ranges cover the array. The step calls grad_sync before it reads
 * the gradients: it waits for all sums, and replaces the sums of loss and targets of this
 * process by those of all ranks. Both are called on the step's thread, between operations, and
 * return 0, or -1 with err_set(), which ends the step. */
typedef int (*lm_grad_ready_fn)(void *arg, uint64_t from, uint64_t count);
typedef int (*lm_grad_sync_fn)(void *arg, double *loss_sum, uint64_t *targets);

struct lm_train_options {
	struct lm_config config;
	/* rank 0: the whole model learns. Otherwise an adapter of it does; everything that is said
	 * here of parameters holds for the adapter's, and the model is frozen. Its targets are
	 * borrowed until close. */
	struct lm_lora lora;
	uint32_t batch,
		positions; /* sequences, and tokens of each, in one lm_train_add */
	enum lm_dtype dtype;
	/* save only the input of each layer and compute the layer again in the backward pass */
	bool recompute;
	bool no_graph; /* launches every operation of every step separately: no captured graphs */
	bool eval_only; /* only parameters and a forward pass: no gradients, no optimiser */
	float beta1, beta2, eps, decay,
		clip;                /* decay applies to matrices only, as usual */
	lm_grad_ready_fn grad_ready; /* both NULL: one process */
	lm_grad_sync_fn grad_sync;
	void *arg;
};

/* batch 1, all positions of the config (at most 1024), bf16, betas 0.9 and 0.95, eps 1e-8, decay
 * 0.1, clip 1. */
void lm_train_defaults(struct lm_train_options *o, const struct lm_config *c);

/* Bytes that open allocates on the device, exactly. */
struct lm_train_plan {
	uint64_t base;       /* the frozen model, if an adapter learns */
	uint64_t parameters; /* f32 masters */
	uint64_t copies;     /* bf16 */
	uint64_t gradients;
	uint64_t optimiser;
	uint64_t activations; /* saved from forward to backward */
	uint64_t scratch;     /* all other memory */
	uint64_t total;
};

/* Computes the plan without allocating. d: an open device, or NULL for the CPU. Returns 0, or
 * -1 with err_set(): 65 the config, 64 the other options, or sizes beyond 64 bits. */
int lm_train_plan(struct lm_train_plan *plan, struct dev *d,
	const struct lm_train_options *o);

/* Opens a trainer; d is borrowed until close. All parameters are zero (norms too) until they
 * are put or initialised. Returns 0 and *out to be closed, or -1 with err_set(): as plan, 71 no
 * memory, 69 the device has no kernels for it. */
int lm_train_open(struct lm_train **out, struct dev *d, const struct lm_train_options *o);
void lm_train_close(struct lm_train *t); /* NULL is fine */

const struct lm_config *lm_train_config(const struct lm_train *t);
const struct lm_lora *lm_train_lora(const struct lm_train *t);

/* Whether an adapter learns, and the model is frozen. */
bool lm_train_frozen(const struct lm_train *t);

/* Return the number of tensors that learn, and the i-th of them (lora.h). */
uint32_t lm_train_tensors(const struct lm_train *t);
void lm_train_tensor(const struct lm_train *t, uint32_t i, struct lm_learned *out);

/* Sets random parameters, those of `rnp-train init` with this seed (common/lm/model/init.h),
 * and resets the optimiser. */
int lm_train_init(struct lm_train *t, uint64_t seed);

/* Copy tensor i of those that learn (lora.h) to or from the host, as f32 in its shape. Putting
 * parameters also updates their bf16 copies. Return 0, or -1 with err_set(). */
enum lm_state { LM_STATE_PARAMETER, LM_STATE_M, LM_STATE_V, LM_STATE_GRADIENT };
int lm_train_get(struct lm_train *t, enum lm_state what, uint32_t i, float *host);
int lm_train_put(struct lm_train *t, enum lm_state what, uint32_t i, const float *host);

/* Puts tensor i of the layout of a model that is frozen; matrices are rounded to the dtype. Returns
 * 0, or -1 with err_set(). */
int lm_train_put_base(struct lm_train *t, uint32_t i, const float *host);

/* Get and set the number of steps that AdamW has made, for its bias correction. Part of a
 * checkpoint. */
uint64_t lm_train_steps(const struct lm_train *t);
void lm_train_set_steps(struct lm_train *t, uint64_t steps);

/* The flat arrays on the device: tensor i begins at element lm_train_offset(i); the padding to
 * whole cache lines stays 0. For all-reduce; flat.h gives the same view without padding. */
uint64_t lm_train_flat_count(const struct lm_train *t);
uint64_t lm_train_offset(const struct lm_train *t, uint32_t i);
float *lm_train_flat(struct lm_train *t, enum lm_state what);

/* From the second time on, the passes of a step are captured as graphs, if the device can, and
 * replayed: the same bits sooner. captured: whether a graph has been captured. why: the reason
 * why passes cannot be captured, "" if they can or need not be. */
bool lm_train_captured(const struct lm_train *t);
const char *lm_train_why(const struct lm_train *t);

struct lm_step {
	double loss; /* mean over the targets */
	/* of the gradient of that mean, before clipping; NaN if the loss is not finite */
	double norm;
	uint64_t targets; /* number that were counted */
};

/* Adds one batch's gradients: tokens and targets are uint32_t [batch][positions] in host
 * memory, borrowed for the call; LM_NO_TARGET is not counted. last: no more will be added
 * before apply (grad_ready is called). Ids from vocab on are EX_DATAERR, nothing is added. */
int lm_train_add(struct lm_train *t, const uint32_t *tokens, const uint32_t *targets,
	bool last);

/* Discards what was added since the last apply: the next add starts from 0. */
void lm_train_zero_grad(struct lm_train *t);

/* Divides by the number of targets, clips, and makes one step of AdamW; the next add starts
 * from 0. Returns 0, or -1 with err_set(EX_DATAERR): loss or gradient is not finite, and only
 * the gradients have changed. */
int lm_train_apply(struct lm_train *t, float lr, struct lm_step *out);

/* Calls add (last) and apply. */
int lm_train_step(struct lm_train *t, const uint32_t *tokens, const uint32_t *targets,
	float lr, struct lm_step *out);

/* Computes only the loss: the sum over the targets and their number. Parameters and gradients
 * stay as they are, also between adds. */
int lm_train_eval(struct lm_train *t, const uint32_t *tokens, const uint32_t *targets,
	double *loss_sum, uint64_t *counted);

#endif
