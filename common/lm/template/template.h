/* template.h - chat templates: the Jinja in which models say how a conversation becomes text.
 * Uses json, buf, mem, err. No I/O, no clock.
 *
 * A template comes with a model, a conversation from people: both are untrusted. What a
 * template cannot say (an unknown tag, filter, test or method) is refused when it is parsed.
 * The semantics are those of Jinja 3.1 as Hugging Face's transformers set it up: trim_blocks,
 * lstrip_blocks, loop controls, `generation` blocks, an immutable sandbox, and a tojson that
 * escapes nothing of HTML. */
#ifndef RNP_COMMON_LM_TEMPLATE_TEMPLATE_H
#define RNP_COMMON_LM_TEMPLATE_TEMPLATE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"

#define LM_TEMPLATE_BYTES_MAX   ((size_t)64 << 10)
#define LM_TEMPLATE_STEPS_MAX   1000000
#define LM_TEMPLATE_OUT_MAX     ((size_t)16 << 20)  /* bytes that come out */
#define LM_TEMPLATE_MEMORY_MAX  ((size_t)256 << 20) /* bytes that it may use meanwhile */
#define LM_TEMPLATE_NESTING_MAX 64                  /* tags, brackets, calls of macros */

struct lm_template; /* parsed; threads may share it */

/* Parses a template. where names it in errors. Returns 0 and *out, which the caller frees, or
 * -1 with err_set(EX_DATAERR): too long, not UTF-8, or malformed or unknown words, with line
 * and word. */
int lm_template_parse(struct lm_template **out, const char *text, size_t bytes,
	const char *where);
void lm_template_free(struct lm_template *t); /* NULL is allowed */

/* Whether the template has this name outside of its text, as a variable or as what belongs to
 * one. */
bool lm_template_names(const struct lm_template *t, const char *name);

/* Where a byte of the output came from. */
enum lm_template_origin { LM_FROM_INPUT, LM_FROM_TEMPLATE };

struct lm_template_text {
	struct buf text;
	struct buf from; /* an enum lm_template_origin for each byte of text, as char */
};
void lm_template_text_release(struct lm_template_text *t);

struct lm_template_env {
	const char *bos, *eos; /* the model's names of these tokens; NULL: undefined */
	int64_t now_s;         /* for strftime_now: seconds since 1970, shown in UTC */
};

/* Appends to out what the template makes of variables, an object (messages, tools,
 * add_generation_prompt and others), which is borrowed. bos_token and eos_token count as the
 * template's words, and so do roles of messages that are one of system, developer, user,
 * assistant and tool; all else in variables is input. Returns 0, or -1 with
 * err_set(EX_DATAERR): a limit, the template's own raise_exception, or what Jinja refuses; out
 * may then hold a part. */
int lm_template_render(const struct lm_template *t, const json_t *variables,
	const struct lm_template_env *env, struct lm_template_text *out);

#endif
