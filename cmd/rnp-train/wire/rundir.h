/* rundir.h - the directory of a training run: its lock, its checkpoint, and the model that
 * others can read at every instant. Uses checkpoint.h, export.h. */
#ifndef RNP_TRAIN_WIRE_RUNDIR_H
#define RNP_TRAIN_WIRE_RUNDIR_H

#include <jansson.h>
#include <stdbool.h>

#include "common/lm/export/adapter.h"
#include "common/lm/token/token.h"
#include "common/lm/train/checkpoint.h"

/* The checkpoint's path is DIR/checkpoint.safetensors. */
#define RUNDIR_CHECKPOINT "checkpoint.safetensors"

struct rundir {
	const char *path; /* borrowed */
	/* the directory, locked; 0: not locked (0 to 2 are the standard streams), -1: cannot be
	 * locked */
	int lock_fd;
};

/* Whether there is a checkpoint, or another file with that name. */
bool rundir_resumes(const char *path);
bool rundir_has(const char *path, const char *name);

/* Creates the directory if it is missing and locks it: two runs would each replace what the
 * other has learnt. Returns 0, or -1 with err_set(): 73, 77 it is not writable, 75 another run
 * has it. Calling it twice is fine. */
int rundir_hold(struct rundir *r, const char *path);
void rundir_release(struct rundir *r);

/* Reads the metadata of the checkpoint, to be json_decref'ed, or NULL if there is no
 * checkpoint. Returns 0, or -1 with err_set(). */
int rundir_peek(const char *path, json_t **texts);

/* Loads the checkpoint into t. want: seed, length and data that the run was started with;
 * data_name: names the data in messages. *at becomes the run's progress. Returns 0, or -1 with
 * err_set(): as lm_checkpoint_load, 64 it was made with others. */
int rundir_load(const char *path, struct lm_train *t, const struct lm_progress *want,
	const char *data_name, struct lm_progress *at);

/* What is known of a frozen model, for its adapter's files. */
struct rundir_base {
	const char *name;
	char digest[LM_BASE_BYTES];
};

/* Writes model or adapter, and checkpoint, each whole or not at all, the checkpoint last:
 * parameters that are not finite (65) replace neither. token goes with a model, may be NULL. base:
 * of an adapter. texts: for the checkpoint's metadata. Returns 0, or -1 with err_set(): 65, 73, 74,
 * 77. */
int rundir_save(const char *path, struct lm_train *t, const struct lm_token *token,
	const struct rundir_base *base, const struct lm_progress *at,
	const json_t *texts);

#endif
