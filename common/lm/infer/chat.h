/* chat.h - turns a conversation into the tokens that a model was trained to expect. Uses
 * template.h, token.h.
 *
 * A model brings a template that defines the format. Text from users never becomes a special
 * token: a special token's name in it stays plain text. */
#ifndef RNP_COMMON_LM_INFER_CHAT_H
#define RNP_COMMON_LM_INFER_CHAT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/base/buf.h"
#include "common/lm/template/template.h"
#include "common/lm/token/token.h"

struct lm_chat; /* a template with its model's tokenizer; threads may share it */

/* Returns the template of a well-known format (chatml, llama2, llama3, mistral, gemma, phi3,
 * zephyr), for models without one, or NULL. */
const char *lm_chat_named(const char *name);

/* Appends the names of these formats, "a, b". */
void lm_chat_names(struct buf *out);

/* Parses a template; text NULL: the model's own. where names it in errors. t is borrowed until
 * close. Returns 0 and *out, or -1 with err_set(EX_DATAERR): the model has none, or as
 * lm_template_parse. */
int lm_chat_open(struct lm_chat **out, const struct lm_token *t, const char *text,
	size_t bytes, const char *where);
void lm_chat_close(struct lm_chat *c); /* NULL is allowed */

/* Whether the template looks at the messages at all: else each question makes the same prompt. */
bool lm_chat_reads_messages(const struct lm_chat *c);

/* Returns the text of the template. */
const char *lm_chat_source(const struct lm_chat *c);

/* Renders a conversation: variables as in lm_template_render. Appends the text to text and its
 * tokens (uint32_t), with BOS if the model wants it, to ids; either may be NULL. Only bytes of
 * the template become special tokens. now_s: for templates that insert the date. Returns 0, or
 * -1 with err_set(EX_DATAERR); text and ids may then hold a part. */
int lm_chat_apply(const struct lm_chat *c, const json_t *variables, int64_t now_s,
	struct buf *text, struct buf *ids);

#endif
