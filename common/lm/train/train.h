/* train.h - a language model being trained on one device: parameters, gradients, AdamW's state, activations, and a step over them.
 * Uses layout.h and the tables of kernels/dev/dev.h and kernels/lm/ops.h.
 *
 * Everything is allocated by open; a step allocates nothing. Parameters are f32 masters; with LM_DTYPE_BF16 products run on bf16 copies and
 * bf16 activations with f32 sums, while the residual stream, norms, gradients and the optimiser stay f32. The same seed, device, thread
 * count and data give the same bits. One thread uses a trainer at a time. */
#ifndef RNP_COMMON_LM_TRAIN_TRAIN_H
#define RNP_COMMON_LM_TRAIN_TRAIN_H

#include "common/lm/model/layout.h"
#include "kernels/lm/ops.h"

struct lm_train;

/* A gradient range whose values are final: [from, from + count) of lm_train_gradients(), in the order in which the backward pass
 * gets there: the output first, the embedding last; together they are all. Called on the thread that called
 * the step, between operations; returns 0, or -1 with err_set(), which ends the step. Data-parallel training starts sending
 * here and waits in `settle`, which the step calls before it looks at the gradients. settle may also change *targets, which at first
 * is what this process counted (rank sums: both are sums, the mean is made afterwards). */
typedef int (*lm_grad_ready_fn)(void *arg, uint64_t from, uint64_t count);
typedef int (*lm_grad_sync_fn)(void *arg, double *loss_sum, uint64_t *targets);

struct lm_train_options {
	struct lm_config config;
	uint32_t batch, positions; /* sequences and tokens each, of one lm_train_add */
	enum lm_dtype dtype;
	bool recompute; /* keep only each layer's input and compute the layer again on the way back */
	bool each; /* ask the device for every operation of every step: no captured graphs */
	bool eval_only; /* parameters and a forward pass: no gradients, no optimiser */
	float beta1, beta2, eps, decay, clip; /* decay is for matrices only, as usual */
	lm_grad_ready_fn grad_ready;          /* both NULL: one process */
	lm_grad_sync_fn grad_sync;
	void *arg;
};

/* batch 1, all positions of the config (at most 1024), bf16, betas 0.9 and 0.95, eps 1e-8, decay 0.1, clip 1. */
void lm_train_defaults(struct lm_train_options *o, const struct lm_config *c);

/* Exactly what open will ask the device for, in bytes. */
struct lm_train_plan {
	uint64_t parameters; /* f32 masters */
	uint64_t copies;     /* bf16 */
	uint64_t gradients;
	uint64_t optimiser;
	uint64_t activations; /* kept from forward to backward */
	uint64_t scratch;     /* everything else */
	uint64_t total;
};

/* Nothing is allocated. d: an open device, or NULL for a plan of the CPU's. Returns 0, or -1 with err_set(): 65 the config, 64 the
 * other options, or too large for 64 bits. */
int lm_train_plan(struct lm_train_plan *plan, struct dev *d,
	const struct lm_train_options *o);

/* d is borrowed until close. Parameters are zero (norms too): put or init them. Returns 0 and *out to be closed, or -1 with err_set(): as
 * plan, 71 no memory, 69 the device has no kernels for it. */
int lm_train_open(struct lm_train **out, struct dev *d, const struct lm_train_options *o);
void lm_train_close(struct lm_train *t); /* NULL is fine */

const struct lm_config *lm_train_config(const struct lm_train *t);

/* Random parameters, those of `rnp-train init` with this seed (common/lm/model/init.h); the optimiser starts anew. */
int lm_train_init(struct lm_train *t, uint64_t seed);

/* Tensor i of the layout, f32 on the host in the layout's shape. Returns 0 or -1 with err_set(). After putting parameters the working
 * copies follow by themselves. */
enum lm_state { LM_STATE_PARAMETER, LM_STATE_M, LM_STATE_V, LM_STATE_GRADIENT };
int lm_train_get(struct lm_train *t, enum lm_state what, uint32_t i, float *host);
int lm_train_put(struct lm_train *t, enum lm_state what, uint32_t i, const float *host);

/* Steps that AdamW has made: its bias correction. Part of a checkpoint. */
uint64_t lm_train_steps(const struct lm_train *t);
void lm_train_set_steps(struct lm_train *t, uint64_t steps);

/* The flat arrays behind get and put, on the device: tensor i from element lm_train_offset(i) on; what pads them to whole cache lines
 * stays 0. For all-reduce and outer optimisers. */
uint64_t lm_train_flat_count(const struct lm_train *t);
uint64_t lm_train_offset(const struct lm_train *t, uint32_t i);
float *lm_train_flat(struct lm_train *t, enum lm_state what);
int lm_train_touched(struct lm_train
		*t); /* flat parameters were written: make the working copies again */

/* From their second time on the passes of a step are captured, and replayed from then on, where the device does that: the same bits
 * sooner. captured: there was something to replay. why: they cannot be captured; "": they can, or need not. */
bool lm_train_captured(const struct lm_train *t);
const char *lm_train_why(const struct lm_train *t);

struct lm_step {
	double loss; /* mean over the targets */
	double norm; /* of the gradient of that mean, before clipping; NaN where the loss is not finite */
	uint64_t targets; /* that were counted */
};

/* Add one batch's gradients: tokens and targets uint32_t [batch][positions] on the host, borrowed for the call; LM_NO_TARGET is not
 * counted. last: no more will be added before apply (the ready hook is called). Ids from vocab on are EX_DATAERR, nothing added. */
int lm_train_add(struct lm_train *t, const uint32_t *tokens, const uint32_t *targets,
	bool last);

/* Forget what was added since the last apply: the next add starts from 0. */
void lm_train_zero_grad(struct lm_train *t);

/* Divide by the targets, clip, one step of AdamW; the next add starts from 0. Returns 0, or -1 with err_set(EX_DATAERR): loss or gradient is
 * not finite, and then nothing has changed but the gradients. */
int lm_train_apply(struct lm_train *t, float lr, struct lm_step *out);

/* add (last) and apply. */
int lm_train_step(struct lm_train *t, const uint32_t *tokens, const uint32_t *targets,
	float lr, struct lm_step *out);

/* The loss alone: sum over the targets and their number. Parameters and gradients stay as they are, also between adds. */
int lm_train_eval(struct lm_train *t, const uint32_t *tokens, const uint32_t *targets,
	double *loss_sum, uint64_t *counted);

#endif
