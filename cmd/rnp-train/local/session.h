/* session.h - one process of `rnp-train run`: options, model, data, device, ranks, loop and run
 * directory. */
#ifndef RNP_TRAIN_LOCAL_SESSION_H
#define RNP_TRAIN_LOCAL_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "cmd/rnp-train/wire/rundir.h"
#include "common/hw/roof.h"
#include "common/lm/model/model_file.h"
#include "common/lm/token/shard.h"
#include "common/lm/token/token.h"
#include "common/lm/train/checkpoint.h"
#include "common/lm/train/loop.h"
#include "common/lm/train/shuffle.h"

struct session_options {
	const char *model, *data, *valid, *ids, *out, *device;
	int64_t batch, micro;   /* sequences of a step, and of one pass on one rank */
	int64_t length;         /* tokens of a sequence */
	int64_t steps, time_ms; /* 0: no end */
	int64_t warmup;         /* -1: a tenth of the steps, at most 100 */
	double lr, lr_min, beta1, beta2, decay, clip;
	int64_t lora;      /* rank of the adapter that learns; 0: the whole model does */
	double lora_alpha; /* 0: twice the rank */
	const char *lora_target; /* NULL: every matrix that can be adapted */
	bool rslora;
	uint64_t seed;
	int64_t save_every, eval_every, eval_tokens, every;
	const char *precision; /* "bf16", "f32" */
	bool recompute, resume;
	/* Joins this process to the others that share each batch; as comm_mpi_open. NULL: a
	 * single process. */
	int (*join)(struct comm *c, void *arg);
	void *join_arg;
	bool no_overlap, no_graph;
	/* The GPUs of this machine's ranks, in order; 0: use `device`. */
	const char *const *devices;
	int n_devices;
	int ranks; /* without join, for a plan: how many ranks would share the batch; 0: one */
	/* Whether the user gave this option; a resumed run takes the others from its
	 * checkpoint. */
	bool (*given)(const char *option);
	/* Returns the caller's bits for why the run is to stop; it stops as soon as one rank
	 * has any. */
	unsigned (*stop_flags)(void);
};

struct session {
	struct session_options o;
	struct lm_train_options train_options;
	struct ddp *ranks; /* NULL: a single process */
	int rank, size;    /* 0 and 1 without ranks; rank 0 evaluates and writes */
	struct dev d;
	struct model_file *model_file;
	struct lm_token *token; /* saved with the model; NULL: none */
	struct lm_shards data, valid;
	unsigned char data_digest[32];
	uint8_t *targets;        /* of the adapter; NULL: all */
	struct rundir_base base; /* of the adapter */
	json_t *saved;           /* texts of the checkpoint that is resumed, or NULL */
	struct shuffle shuffle;
	struct lm_loop loop;
	struct rundir dir;
	struct figure roof; /* the rate of the device's matrix products */
	bool roof_again;    /* it has been measured again in this run */
	double first_loss, last_loss, valid_loss; /* NaN: none yet */
};

#define SESSION_INIT                                \
	{                                           \
		.d = DEV_INIT, .loop = LM_LOOP_INIT \
	}

/* Opens everything that does not need the trainer: model, data, compatible options. Returns 0,
 * or -1 with err_set(); release either way. */
int session_open(struct session *s, const struct session_options *o);

/* Opens the loop with the model's parameters, or the checkpoint's if the run is resumed. 65:
 * the ranks differ. */
int session_begin(struct session *s);

/* Reads or measures s->roof; again: measures it in any case. */
int session_roof(struct session *s, bool again);

/* Waits for the other ranks; a rank that failed exits without it. */
void session_release(struct session *s);

/* One optimiser step, as lm_loop_step. */
int session_step(struct session *s, struct lm_step *out);

/* Computes the mean loss over the first eval_tokens of the validation text, also into
 * s->valid_loss. */
int session_eval(struct session *s, double *loss);

/* Writes checkpoint and model into the output directory, each atomically. Called by every rank:
 * 65 their parameters differ, and nothing is written. */
int session_save(struct session *s);

#endif
