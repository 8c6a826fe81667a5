/* tool_grammar.h - a grammar for a model's calls of tools. Uses call_format.h, tools.h,
 * grammar.h. Pure. */
#ifndef RNP_SERVE_TOOL_GRAMMAR_H
#define RNP_SERVE_TOOL_GRAMMAR_H

#include "cmd/rnp-serve/call_format.h"
#include "cmd/rnp-serve/tools.h"
#include "common/lm/grammar/grammar.h"

/* Compiles what a model may write to call tools: names of the tools, and arguments that keep to
 * their schemas. behind_mark: the format's mark is already written. otherwise: a schema that an
 * answer may keep to instead of calling a tool; may be NULL; not with behind_mark. Returns 0 and
 * *out, which the caller frees, or -1 with err_set(EX_DATAERR), and *bad is then the tool whose
 * schema is refused (NULL: `otherwise` is, or all of them together). */
int tool_grammar(struct lm_grammar **out, const struct call_format *f,
	const struct tools *tools, bool behind_mark, const json_t *otherwise,
	const struct tool **bad);

#endif
