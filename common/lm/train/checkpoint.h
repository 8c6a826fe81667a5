/* checkpoint.h - a training run as one file, from which it continues with the same bits:
 * parameters, AdamW's state, and the position in the data. Uses train.h, safetensors, json.
 *
 * A safetensors file: the parameters under Hugging Face's names, AdamW's m and v under these
 * names with the prefixes "adamw.m." and "adamw.v.", all f32. The metadata holds the numbers of
 * struct lm_progress as text, and what the shapes of the tensors do not show of the model's
 * config. The file appears whole or not at all. */
#ifndef RNP_COMMON_LM_TRAIN_CHECKPOINT_H
#define RNP_COMMON_LM_TRAIN_CHECKPOINT_H

#include <jansson.h>

#include "common/lm/model/model_file.h"
#include "common/lm/train/train.h"

struct lm_progress {
	uint64_t steps;     /* of the schedule */
	uint64_t sequences; /* read so far: the n of shuffle.h for the next sequence */
	uint64_t tokens;    /* number of targets so far */
	uint64_t seed;      /* of the shuffle */
	uint32_t length;    /* tokens of a sequence */
	unsigned char data[32]; /* the caller's digest of the training data */
};

/* Loads the parameters of a model, whose config must equal t's, into t; any dtype is converted
 * to f32. Returns 0, or -1 with err_set(). */
int lm_train_load(struct lm_train *t, const struct model_file *s);

/* Writes the checkpoint. AdamW's step count is written if it differs from the schedule's. more:
 * the caller's own texts for the metadata; borrowed, may be NULL. Returns 0, or -1 with
 * err_set(): 73, 74, 77; a file that existed before is then untouched. */
int lm_checkpoint_save(const char *path, struct lm_train *t, const struct lm_progress *at,
	const json_t *more);

/* Loads parameters, AdamW's state and steps into t, whose config must be the same. Returns 0,
 * or -1 with err_set(): 66 cannot be opened, 65 not a checkpoint of this model, or a value is
 * not finite; t may then be partly loaded. */
int lm_checkpoint_load(const char *path, struct lm_train *t, struct lm_progress *at);

/* Reads only the numbers, and all texts of the metadata, which the caller json_decref's. Errors
 * as load. */
int lm_checkpoint_peek(const char *path, struct lm_progress *at, json_t **texts);

#endif
