/* loaded.h - what a subcommand needs to let a model speak: device, file, tokenizer, model. */
#ifndef RNP_SERVE_LOADED_H
#define RNP_SERVE_LOADED_H

#include "common/lm/infer/infer.h"
#include "common/lm/token/token.h"

struct loaded {
	struct dev d;
	struct model_file *source;
	struct lm_token *token;
	struct lm_infer *infer;
};

#define LOADED_INIT           \
	{                     \
		.d = DEV_INIT \
	}

/* Open a model. tokenizer: NULL takes the model's own; device as dev_open. Returns 0, or -1 with err_set(); release
 * either way. */
int loaded_open(struct loaded *l, const char *model, const char *tokenizer,
	const char *device);
void loaded_release(struct loaded *l);

/* Whether a token ends what the model says. */
bool loaded_ends(const struct loaded *l, uint32_t id);

#endif
