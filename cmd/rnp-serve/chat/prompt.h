/* prompt.h - turns a parsed request into the tokens of its prompts. Uses request/request.h,
 * model/slot.h.
 *
 * Chat templates are applied only here. */
#ifndef RNP_SERVE_CHAT_PROMPT_H
#define RNP_SERVE_CHAT_PROMPT_H

#include "cmd/rnp-serve/request/request.h"
#include "cmd/rnp-serve/model/slot.h"

struct prompt {
	struct buf ids;  /* uint32_t */
	struct buf text; /* completions: the text that `echo` repeats */
	bool reasoning;  /* the prompt ends within reasoning */
};

/* Counts the prompts of a request; a chat has 1. Returns 0, or -1 with e if the prompt has an
 * unknown form. */
int prompt_count(const struct request *q, uint32_t *n, struct api_error *e);

/* Encodes all n prompts, each as above. Those of embeddings have a limit together, as OpenAI's
 * have. */
int prompt_encode_all(struct prompt *prompts, uint32_t n, const struct model_slot *m,
	const struct request *q, struct api_error *e);

/* Renders a chat's messages to text: for REQUEST_CHAT and REQUEST_TEMPLATE. */
int prompt_text(struct buf *out, const struct model_slot *m, const struct request *q,
	struct api_error *e);

void prompt_release(struct prompt *p);

#endif
