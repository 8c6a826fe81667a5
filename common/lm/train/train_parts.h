/* train_parts.h - what the trainer's files share: where everything lies, and the two passes. Only for train*.c. */
#ifndef RNP_COMMON_LM_TRAIN_TRAIN_PARTS_H
#define RNP_COMMON_LM_TRAIN_TRAIN_PARTS_H

#include "common/lm/train/train.h"

/* Memory by purpose, one allocation each. */
enum lm_area {
	LM_AREA_PARAMETERS,
	LM_AREA_COPIES,
	LM_AREA_GRADIENTS,
	LM_AREA_OPTIMISER,
	LM_AREA_ACTIVATIONS,
	LM_AREA_SCRATCH,
	LM_AREAS
};

/* What one layer leaves for its way back; one for each layer, or a single one when they are computed again. */
struct lm_saved_activations {
	void *h1, *h2; /* as [rows, dim]: behind the norms */
	float *rms1, *rms2;
	void *qkv;  /* as [rows, (heads + 2 kv_heads) head_dim] */
	void *att;  /* as [rows, heads head_dim] */
	float *lse; /* [batch, heads, positions] */
	float *mid; /* [rows, dim]: the residual stream between the halves */
	void *gu;   /* as [rows, 2 hidden] */
};

/* A pass of a step as the device's graphs: one, or where the gradients of ranges are announced on the way, one up to each. */
struct lm_captured {
	enum { LM_PASS_NEW, LM_PASS_WARM, LM_PASS_EACH, LM_PASS_CAPTURED } state;
	struct lm_captured_part {
		void *graph;
		uint64_t from,
			count; /* final behind it, for the ready hook; 0: nothing */
	} * parts;
	size_t n, room;
};

enum lm_pass {
	LM_PASS_ADD, /* and the three behind it: + 1 with the ready hook, + 2 to gradients that are there */
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
	uint64_t *offset;                       /* of each tensor, on the host */
	uint32_t tensors;
	float scale; /* of scores */

	/* device */
	void *areas[LM_AREAS]; /* NULL while they are only counted */
	uint64_t used[LM_AREAS];
	float *p, *g, *m, *v;
	uint16_t *copy; /* NULL with f32 */
	float **x; /* [layers + 1], on the host: the residual stream before each layer */
	struct lm_saved_activations *
		kept; /* [layers], on the host; all the same when they are computed again */
	void *hf;     /* behind the last norm */
	float *rmsf;
	void *act; /* [rows, hidden] */
	float *dx;
	uint16_t *dxc; /* NULL with f32 */
	void *dh, *dact, *datt, *dqkv;
	float *loss, *table;
	uint32_t *token, *target;
	double *squares;
	struct lm_rates *rates;
	void *head_scratch;

	struct lm_captured passes[LM_PASSES];
	struct lm_captured *noting; /* what is being captured; NULL: nothing */
	char why[256];              /* it is not */

	float *host_loss; /* [rows] */
	bool adding;      /* gradients hold something already */
	double loss_sum;
	uint64_t targets, steps;
};

/* Makes the bf16 copies of parameters from `from` of the flat array on again; nothing with f32. */
int lm_train_narrow(struct lm_train *t, uint64_t from, uint64_t count);

/* Where the products read a weight; the layout's index of a part. */
uint64_t lm_train_at(const struct lm_train *t, enum lm_part part, uint32_t layer);
const void *lm_train_weight(const struct lm_train *t, enum lm_part part, uint32_t layer);

/* The device's error becomes ours. Returns -1. */
int lm_train_failed(const struct lm_train *t);

/* The sizes that follow from the options; the offsets of tensors (t->offset may be NULL) and t->flat; every pointer, or NULL
 * while an area is not allocated, and the plan. */
void lm_train_sizes(struct lm_train *t);
void lm_train_offsets(struct lm_train *t);
int lm_train_place(struct lm_train *t);

/* The shape of the output's operation, without its pointers. */
struct lm_head lm_train_head_of(const struct lm_train_options *o, uint64_t rows);

/* Do a pass: one call of `all`, or a replay of what it asked the device for. all may ask for operations and fills alone, with the same
 * arguments every time, and say lm_train_ready. */
int lm_train_pass(struct lm_train *t, enum lm_pass pass,
	int (*all)(struct lm_train *t, bool last), bool last);

/* Gradients from `from` on are final: the hook's, or noted for the replay. */
int lm_train_ready(struct lm_train *t, uint64_t from, uint64_t count);

void lm_train_drop(struct lm_train *t); /* all graphs */

/* From tokens on the device to hf. */
int lm_train_forward(struct lm_train *t);

/* Loss per row to t->loss; with back also dh and the output's gradient. */
int lm_train_head(struct lm_train *t, bool back);

/* From dh to all gradients; last: says so to the hook. */
int lm_train_backward(struct lm_train *t, bool last);

#endif
