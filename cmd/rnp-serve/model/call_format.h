/* call_format.h - how a model writes calls of tools, learned from its chat template. Uses chat.h.
 *
 * Every template shows earlier calls in the form that its model was taught. A conversation with
 * calls of invented names is rendered, and what stands before a name, between name and
 * arguments, between two calls and after the last one is the format. Where a template shows no
 * calls, or writes arguments otherwise than as JSON, the format is one of our own, which the
 * model is told about (chat/tool_prompt.h). */
#ifndef RNP_SERVE_MODEL_CALL_FORMAT_H
#define RNP_SERVE_MODEL_CALL_FORMAT_H

#include "common/lm/infer/chat.h"

#define CALLS_MAX     16 /* of one answer */
#define CALL_ID_BYTES 9  /* of an id that a format holds: letters and digits */

/* Places in the texts of a format: the id of the call that begins there, and that of the call
 * before it. */
#define CALL_OWN_ID   '\1'
#define CALL_OTHER_ID '\2'

/* A special token that a format contains; its text is not part of a model's ordinary output. */
struct call_token {
	uint32_t id;
	char *text;
};

struct call_format {
	bool shows_calls; /* the template shows calls, and results of tools, itself */
	bool shows_tools; /* and the tools, too */
	bool knows_calls; /* the template shows calls in some form, maybe one that we cannot read */
	char *mark; /* calls begin with this text, which is how open[0] begins */
	/* the mark counts only where an answer begins, blanks and line breaks aside */
	bool at_start;
	uint32_t most; /* calls of an answer, 1 to CALLS_MAX */
	/* before the name of a call: from the mark on, or after the arguments of the call before */
	char *open[CALLS_MAX];
	char *middle[CALLS_MAX]; /* between name and arguments */
	char *close;             /* after the arguments of the last call */
	struct call_token *tokens;
	uint32_t token_count;
};

/* Learns the format of a template. t: the tokenizer that it goes with. */
void call_format_learn(struct call_format *f, const struct lm_chat *chat,
	const struct lm_token *t);
void call_format_release(struct call_format *f);

/* Returns the special token of a format that a text begins with, the longest one; NULL: none. */
const struct call_token *call_format_token(const struct call_format *f, const char *text);

/* Returns the special token with this id, or NULL. */
const struct call_token *call_format_special(const struct call_format *f, uint32_t id);

#endif
