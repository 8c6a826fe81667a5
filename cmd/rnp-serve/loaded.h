/* loaded.h - an open model with what it takes to answer: device, file, tokenizer, weights. */
#ifndef RNP_SERVE_LOADED_H
#define RNP_SERVE_LOADED_H

#include "common/lm/infer/weights.h"
#include "common/lm/token/token.h"

struct loaded {
	struct dev d;
	struct model_file *model_file;
	struct lm_token *token;
	struct lm_weights *weights;
};

#define LOADED_INIT           \
	{                     \
		.d = DEV_INIT \
	}

/* Opens a model. tokenizer: NULL takes the model's own; device as dev_open. Returns 0, or -1 with
 * err_set(); release either way. */
int loaded_open(struct loaded *l, const char *model, const char *tokenizer,
	const char *device);
void loaded_release(struct loaded *l);

/* Whether a token ends an answer. */
bool loaded_ends(const struct loaded *l, uint32_t id);

#endif
