/* session.h - one process of `rnp-train run`: options, model, data, device, ranks, and the loop and
 * directory that they go into. */
#ifndef RNP_TRAIN_SESSION_H
#define RNP_TRAIN_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "cmd/rnp-train/rundir.h"
#include "common/lm/model/model_file.h"
#include "common/lm/token/shard.h"
#include "common/lm/token/token.h"
#include "common/lm/train/checkpoint.h"
#include "common/lm/train/loop.h"
#include "common/lm/train/shuffle.h"

struct session_options {
	const char *model, *data, *valid, *out, *device;
	int64_t batch, micro;   /* sequences of a step, and of one pass on one rank */
	int64_t length;         /* tokens of a sequence */
	int64_t steps, time_ms; /* 0: no end */
	int64_t warmup;         /* -1: a tenth of the steps, at most 100 */
	double lr, lr_min, beta1, beta2, decay, clip;
	uint64_t seed;
	int64_t save_every, eval_every, eval_tokens, every;
	const char *precision; /* "bf16", "f32" */
	bool recompute, resume;
	/* Joins this process to the others that share each batch; as comm_mpi_open. NULL: there are
	 * none. */
	int (*join)(struct comm *c, void *arg);
	void *join_arg;
	bool no_overlap, no_graph;
	/* The GPUs of this machine's ranks, one after the other; 0: `device`. */
	const char *const *devices;
	int n_devices;
	int ranks; /* without join, for a plan: how many would share the batch; 0: one */
	/* Whether the person gave this option: what was not given a resumed run takes from its
	 * checkpoint. */
	bool (*given)(const char *option);
	/* Bits that end the run when one rank has them: why, of the caller's making. */
	unsigned (*stop_flags)(void);
};

struct session {
	struct session_options o;
	struct lm_train_options train_options;
	struct ddp *ranks; /* NULL: one process alone */
	int rank, size;    /* 0 and 1 then; rank 0 evaluates and writes */
	struct dev d;
	struct model_file *model_file;
	struct lm_token *token; /* goes with what is saved; NULL: none */
	struct lm_shards data, valid;
	unsigned char data_digest[32];
	struct shuffle shuffle;
	struct lm_loop loop;
	struct rundir dir;
	double matrix_flops; /* what the device's matrix products reach, measured; 0: not */
	double first_loss, last_loss, valid_loss; /* NaN: none yet */
};

#define SESSION_INIT                                \
	{                                           \
		.d = DEV_INIT, .loop = LM_LOOP_INIT \
	}

/* Opens all that is known without the trainer: model, data, options that go together. Returns 0, or
 * -1 with err_set(); release either way. */
int session_open(struct session *s, const struct session_options *o);

/* Opens the loop with the model's parameters, or the checkpoint's when the run is resumed. 65: not
 * every rank has the same. */
int session_begin(struct session *s);

/* Waits for the other ranks; a rank that failed ends without it. */
void session_release(struct session *s);

/* One optimiser step, as lm_loop_step. */
int session_step(struct session *s, struct lm_step *out);

/* The mean loss over the first eval_tokens of the validation text, also to s->valid_loss. */
int session_eval(struct session *s, double *loss);

/* Writes checkpoint and model into the output directory, each whole or not at all. Called by every
 * rank: 65 their parameters are not the same, and nothing is written. */
int session_save(struct session *s);

#endif
