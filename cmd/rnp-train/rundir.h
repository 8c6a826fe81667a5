/* rundir.h - the directory of a training run: whose it is, the checkpoint in it, and the model that
 * others can read at every instant. Uses checkpoint.h, export.h. */
#ifndef RNP_TRAIN_RUNDIR_H
#define RNP_TRAIN_RUNDIR_H

#include <jansson.h>
#include <stdbool.h>

#include "common/lm/token/token.h"
#include "common/lm/train/checkpoint.h"

/* The checkpoint's path is DIR/checkpoint.safetensors. */
#define RUNDIR_CHECKPOINT "checkpoint.safetensors"

struct rundir {
	const char *path; /* borrowed */
	int lock_fd; /* the directory, locked; 0: not (streams have 0 to 2), -1: it cannot be */
};

/* Whether there is a checkpoint, or another file of this name. */
bool rundir_resumes(const char *path);
bool rundir_has(const char *path, const char *name);

/* Makes the directory where it is missing and takes it for this process: two runs would each
 * replace what the other learnt. Returns 0, or -1 with err_set(): 73, 77 it cannot be written into,
 * 75 another run has it. Twice is fine. */
int rundir_hold(struct rundir *r, const char *path);
void rundir_release(struct rundir *r);

/* Of the checkpoint: the texts of its metadata, to be json_decref'ed, or NULL where there is no
 * checkpoint. Returns 0, or -1 with err_set(). */
int rundir_peek(const char *path, json_t **texts);

/* Loads the checkpoint into t. want: seed, length and data that the run was asked for; data_name:
 * the data, for the message. *at becomes where the run is. Returns 0, or -1 with err_set(): as
 * lm_checkpoint_load, 64 it was made with others. */
int rundir_load(const char *path, struct lm_train *t, const struct lm_progress *want,
	const char *data_name, struct lm_progress *at);

/* Writes model and checkpoint, each whole or not at all, the model first: parameters that are not
 * finite (65) replace neither. token goes with the model, may be NULL. texts: for the checkpoint's
 * metadata. Returns 0, or -1 with err_set(): 65, 73, 74, 77. */
int rundir_save(const char *path, struct lm_train *t, const struct lm_token *token,
	const struct lm_progress *at, const json_t *texts);

#endif
