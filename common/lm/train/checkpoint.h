/* checkpoint.h - a training run as one file, to go on from with the same bits: parameters, AdamW's
 * state, and where in the data it is. Uses train.h, safetensors, json.
 *
 * A safetensors file: the parameters under Hugging Face's names, AdamW's m and v under "adamw.m."
 * and "adamw.v." before these names, all f32, and the numbers of struct lm_progress as texts in the
 * metadata, with what of the model's config the shapes of the tensors do not show. It appears whole
 * or not at all. */
#ifndef RNP_COMMON_LM_TRAIN_CHECKPOINT_H
#define RNP_COMMON_LM_TRAIN_CHECKPOINT_H

#include <jansson.h>

#include "common/lm/model/model_file.h"
#include "common/lm/train/train.h"

struct lm_progress {
	uint64_t steps;         /* of the schedule */
	uint64_t sequences;     /* read so far: shuffle.h's n of the next */
	uint64_t tokens;        /* that were targets */
	uint64_t seed;          /* of the shuffle */
	uint32_t length;        /* tokens of a sequence */
	unsigned char data[32]; /* digest of what was read, of the caller's making */
};

/* Loads the parameters of a model, whose config must be t's, into t: any type becomes f32. Returns
 * 0, or -1 with err_set(). */
int lm_train_load(struct lm_train *t, const struct model_file *s);

/* Writes the checkpoint. The steps of t's AdamW go with it where they are not the schedule's. more:
 * further texts for the metadata, of the caller's making; borrowed, may be NULL. Returns 0, or -1
 * with err_set(): 73, 74, 77; the file that was there is then untouched. */
int lm_checkpoint_save(const char *path, struct lm_train *t, const struct lm_progress *at,
	const json_t *more);

/* Loads parameters, AdamW's state and steps into t, whose config must be the same. Returns 0, or -1
 * with err_set(): 66 cannot be opened, 65 no checkpoint of this model, or a value that is not
 * finite; t may then hold a part. */
int lm_checkpoint_load(const char *path, struct lm_train *t, struct lm_progress *at);

/* Reads the numbers alone, and all texts of the metadata, to be json_decref'ed. Errors as load. */
int lm_checkpoint_peek(const char *path, struct lm_progress *at, json_t **texts);

#endif
