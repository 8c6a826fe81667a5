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
 * zephyr, plain), for models without one, or NULL. */
const char *lm_chat_named(const char *name);

/* Returns the name of the format for a model that brings no template: chatml where it has its
 * tokens, else plain ("User: ...", "Assistant: ..."). */
const char *lm_chat_fallback(const struct lm_token *t);

/* The same names, as shells offer them; a test compares them. */
#define LM_CHAT_NAMES "chatml|llama3|llama2|mistral|gemma|phi3|zephyr|plain"

/* Appends the names of these formats, "a, b". */
void lm_chat_names(struct buf *out);

/* Parses a template; text NULL: the model's own, and its other one for conversations with tools.
 * Tries whether it reads content as a text or as a list of parts. where names it in errors. t is
 * borrowed until close. Returns 0 and *out, or -1 with err_set(EX_DATAERR): the model has none, as
 * lm_template_parse, or nothing of what a user says is shown. */
int lm_chat_open(struct lm_chat **out, const struct lm_token *t, const char *text,
	size_t bytes, const char *where);
void lm_chat_close(struct lm_chat *c); /* NULL is allowed */

/* Sets how many ids lm_chat_apply may come to, so that a stranger's conversation costs no more:
 * before other threads have it. Without it there is no limit. */
void lm_chat_limit(struct lm_chat *c, uint32_t most);

/* Whether the template looks at the messages at all: else each question makes the same prompt. */
bool lm_chat_reads_messages(const struct lm_chat *c);

/* Returns the text of the template. */
const char *lm_chat_source(const struct lm_chat *c);

/* Returns the text that ends an answer where the format marks turns by text alone; NULL: tokens
 * end it. */
const char *lm_chat_stop(const struct lm_chat *c);

/* Renders a conversation: variables as in lm_template_render; content may be text whatever the
 * template reads. Where continue_final_message is true among them nothing stands behind the text of
 * the last message, so that an answer goes on with it; -1: the template changes that text. With
 * tools (a list that is not empty) by the model's template for these. Appends the text to text and
 * its tokens (uint32_t), with BOS if the model wants it, to ids; either may be
 * NULL. Only bytes of the template become special tokens. now_s: for templates that insert the
 * date. Returns 0, 1: there are more ids than lm_chat_limit allows, or -1 with err_set(EX_DATAERR);
 * text and ids may then hold a part. */
int lm_chat_apply(const struct lm_chat *c, const json_t *variables, int64_t now_s,
	struct buf *text, struct buf *ids);

#endif
