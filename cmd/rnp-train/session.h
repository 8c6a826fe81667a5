/* session.h - a training run: model, data, trainer and where it is. run.c says what is wanted, session.c does it. */
#ifndef RNP_TRAIN_SESSION_H
#define RNP_TRAIN_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "common/lm/train/checkpoint.h"
#include "common/lm/train/shuffle.h"
#include "common/lm/train/ddp.h"
#include "common/lm/token/shard.h"
#include "common/lm/model/model_file.h"
#include "common/lm/token/token.h"

struct session_options {
	const char *model, *data, *valid, *out, *device;
	int64_t batch, micro,
		length; /* sequences of a step, of one pass; tokens of a sequence */
	int64_t steps, time_ms,
		warmup; /* 0: no end; -1 warmup: a tenth of the steps, at most 100 */
	double lr, lr_min, beta1, beta2, decay, clip;
	uint64_t seed;
	int64_t save_every, eval_every, eval_tokens, every;
	const char *precision; /* "bf16", "f32" */
	bool recompute, resume;
	/* How this process meets the others that share each batch; as comm_mpi_open. NULL: there are none. */
	int (*join)(struct comm *c, void *arg);
	void *join_arg;
	bool no_overlap, no_graph;
	/* The GPUs of this machine's ranks, one after the other; 0: `device`. */
	const char *const *devices;
	int n_devices;
	int ranks; /* without join, for a plan: how many would share the batch; 0: one */
	/* Whether the person gave this option: what was not given a resumed run takes from its checkpoint. */
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
	struct model_file *source;
	struct lm_token *token; /* goes with what is saved; NULL: none */
	struct lm_shards data, valid;
	struct shuffle order;
	struct lm_train *train;
	struct lm_progress at;
	uint32_t *tokens, *targets; /* [micro][length] */
	uint32_t *window;           /* length + 1 ids */
	int out_fd; /* the output directory, locked; 0: not (streams have 0 to 2), -1: it cannot be */
	double matrix_flops; /* what the device's matrix products reach, measured; 0: not */
	double first_loss, last_loss, valid_loss; /* NaN: none yet */
};

/* What is known without the trainer: model, data, options that go together. Returns 0, or -1 with err_set(); release either way. */
int session_open(struct session *s, const struct session_options *o);

/* The trainer with the model's parameters, or the checkpoint's when the run is resumed. 65: not every rank has the same. */
int session_begin(struct session *s);

/* Waits for the other ranks; a rank that failed ends without it. */
void session_release(struct session *s);

/* The learning rate of a step (from 0): linear warm-up, then a cosine down to lr_min of it, where the number of steps is known. */
double session_rate(const struct session_options *o, uint64_t step);

/* One optimiser step on the next `batch` sequences, of which each rank takes its part. Returns 0, or -1 with err_set(): 65 the loss is
 * not finite, 75 or 69 another rank stalls or is gone. */
int session_step(struct session *s, struct lm_step *out);

/* The wishes of all ranks as of the last step; of a process alone: as of now. */
unsigned session_stop_flags(const struct session *s);

/* The mean loss over the first eval_tokens of the validation text. */
int session_eval(struct session *s, double *loss);

/* Write the checkpoint and the model into the output directory, each whole or not at all. Called by every rank: 65 their parameters
 * are not the same, and nothing is written. */
int session_save(struct session *s);

/* Bytes of path DIR/checkpoint.safetensors. */
#define SESSION_CHECKPOINT "checkpoint.safetensors"

#endif
