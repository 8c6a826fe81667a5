/* prompt.h - a parsed request as the tokens of its prompts. Uses request.h, served.h.
 *
 * The one place where messages become tokens: chat templates are applied here. */
#ifndef RNP_SERVE_PROMPT_H
#define RNP_SERVE_PROMPT_H

#include "cmd/rnp-serve/request.h"
#include "cmd/rnp-serve/served.h"

struct prompt {
	struct buf ids;  /* uint32_t */
	struct buf text; /* of completions: what `echo` repeats */
	bool reasoning;  /* the prompt ends within the marks of reasoning */
};

/* How many prompts a request has: of a chat 1. Returns 0, or -1 with e: it is of no known form. */
int prompt_count(const struct request *q, uint32_t *n, struct api_error *e);

/* The tokens of prompt i, BOS included where the model wants it; at least one. p is empty. Returns
 * 0, or -1 with e and the pending error; release either way. Any thread. */
int prompt_encode(struct prompt *p, const struct served *m, const struct request *q,
	uint32_t i, struct api_error *e);

/* The text that a chat's messages become: of REQUEST_CHAT and REQUEST_TEMPLATE. */
int prompt_text(struct buf *out, const struct served *m, const struct request *q,
	struct api_error *e);

void prompt_release(struct prompt *p);

#endif
