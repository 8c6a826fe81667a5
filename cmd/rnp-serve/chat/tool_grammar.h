/* tool_grammar.h - a grammar for a model's calls of tools. Uses model/call_format.h,
 * request/tools.h, grammar.h. Pure. */
#ifndef RNP_SERVE_CHAT_TOOL_GRAMMAR_H
#define RNP_SERVE_CHAT_TOOL_GRAMMAR_H

#include "cmd/rnp-serve/model/call_format.h"
#include "cmd/rnp-serve/request/tools.h"
#include "common/lm/grammar/grammar.h"

/* Compiles what a model may write to call tools: names of the tools, and arguments that keep to
 * their schemas. behind_mark: the format's mark is already written. otherwise: a schema that an
 * answer may keep to instead of calling a tool; may be NULL; not with behind_mark. What cannot be
 * held in the schema of a tool that is not strict is left out, and appended to left_out:
 * "f.schema.not"; where its schema is wrong, all of it: "f.schema". Returns 0 and *out, which the
 * caller frees, or -1 with err_set(EX_DATAERR), and
 * *bad is then the tool whose schema is refused (NULL: `otherwise` is, or all of them together). */
int tool_grammar(struct lm_grammar **out, const struct call_format *f,
	const struct tools *tools, bool behind_mark, const json_t *otherwise,
	struct buf *left_out, const struct tool **bad);

#endif
