/* chat.h - a conversation as the tokens that a model was taught to expect. Uses template.h, token.h.
 *
 * Models bring a template that says how. What people write is never taken for a mark: names of
 * special tokens in it stay plain text. */
#ifndef RNP_COMMON_LM_INFER_CHAT_H
#define RNP_COMMON_LM_INFER_CHAT_H

#include <jansson.h>
#include <stddef.h>

#include "common/base/buf.h"
#include "common/lm/template/template.h"
#include "common/lm/token/token.h"

struct lm_chat; /* a template with its model's tokenizer; threads may share it */

/* Returns the template of a well-known format (chatml, llama2, llama3, mistral, gemma, phi3,
 * zephyr), for models that bring none, or NULL. */
const char *lm_chat_named(const char *name);

/* Parses a template; text NULL: the one that the model brings. where names it in errors. t is
 * borrowed until close. Returns 0 and *out, or -1 with err_set(EX_DATAERR): there is none, or
 * as lm_template_parse. */
int lm_chat_open(struct lm_chat **out, const struct lm_token *t, const char *text,
	size_t bytes, const char *where);
void lm_chat_close(struct lm_chat *c); /* NULL is allowed */

/* The text of the template. */
const char *lm_chat_source(const struct lm_chat *c);

/* Renders a conversation: variables as lm_template_render takes them. Appends the text to text
 * and its tokens (uint32_t), with BOS where the model wants it, to ids; either may be NULL.
 * Only bytes of the template become special tokens. now_s: for templates that tell the date.
 * Returns 0, or -1 with err_set(EX_DATAERR); text and ids may then hold a part. */
int lm_chat_apply(const struct lm_chat *c, const json_t *variables, int64_t now_s,
	struct buf *text, struct buf *ids);

#endif
