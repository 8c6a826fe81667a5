/* handles.h - an open model with all that is needed to run it: device, file, tokenizer,
 * weights. */
#ifndef RNP_SERVE_MODEL_HANDLES_H
#define RNP_SERVE_MODEL_HANDLES_H

#include "common/lm/infer/chat.h"
#include "common/lm/infer/weights.h"
#include "common/lm/token/token.h"

struct model_handles {
	struct dev d;
	struct model_file *model_file;
	struct lm_token *token;
	struct lm_weights *weights;
};

#define MODEL_HANDLES_INIT    \
	{                     \
		.d = DEV_INIT \
	}

/* Opens a model but for its weights, of which the device has nothing yet. tokenizer: NULL for the
 * model's own; device as in dev_open; type: the matrices are quantised to "q8_0" or "q4_0", NULL:
 * they stay as they are. Returns 0, or -1 with err_set(); release it either way. */
int model_handles_open(struct model_handles *h, const char *model, const char *tokenizer,
	const char *device, const char *type);
/* Loads the weights of an open model. Returns 0, or -1 with err_set(). */
int model_handles_weights(struct model_handles *h);
void model_handles_release(struct model_handles *h);

/* Opens the chat template of an open model: a file, a format's name, or NULL for the model's own,
 * and where it brings none for lm_chat_fallback, of which it warns by the model's name. Returns 0
 * and *out, or -1 with err_set(): as lm_chat_open, or the template does not use the messages; close
 * *out either way. */
int model_handles_chat(const struct model_handles *h, const char *name,
	const char *template, struct lm_chat **out);

/* Warns of a context that is longer than what the model was made for. */
void model_handles_check_context(const struct model_file *model, const char *name,
	int64_t context);

/* Whether a token ends an answer. */
bool model_handles_ends(const struct model_handles *h, uint32_t id);

#endif
