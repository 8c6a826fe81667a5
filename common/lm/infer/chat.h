/* chat.h - turns a conversation into the tokens that a model was trained on. Uses token.h, err,
 * buf.
 *
 * A model file brings a template in a language of its own (Jinja). In practice the templates
 * describe a handful of formats, which are recognised by strings in them. User input never
 * becomes a special token: names of special tokens in it stay plain text. */
#ifndef RNP_COMMON_LM_INFER_CHAT_H
#define RNP_COMMON_LM_INFER_CHAT_H

#include <jansson.h>
#include <stddef.h>

#include "common/base/buf.h"
#include "common/lm/template/template.h"
#include "common/lm/token/token.h"

/* --- templates --------------------------------------------------------------------------- */

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

/* --- formats without a template engine --------------------------------------------------- */

enum lm_role { LM_SYSTEM, LM_USER, LM_ASSISTANT, LM_ROLES };

struct lm_message {
	enum lm_role role;
	const char *text; /* NUL-terminated */
};

struct lm_chat_format;

/* Returns the format of a template, or NULL with err_set(EX_DATAERR): there is no template
 * (NULL), or its format is unknown. */
const struct lm_chat_format *lm_chat_format(const char *template);
const char *lm_chat_format_name(const struct lm_chat_format *f);

/* Appends the ids (uint32_t) of a conversation up to where the assistant's next message begins,
 * without BOS. A system message is allowed only as the first. Returns 0, or -1 with err_set():
 * as lm_token_encode, 65 roles out of order. */
int lm_chat_encode(const struct lm_chat_format *f, const struct lm_token *t,
	struct buf *ids, const struct lm_message *messages, size_t n);

/* Appends the same as text, for people and tests. */
int lm_chat_text(const struct lm_chat_format *f, struct buf *out,
	const struct lm_message *messages, size_t n);

#endif
