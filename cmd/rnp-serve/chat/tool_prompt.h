/* tool_prompt.h - tells a model of tools whose chat template does not. Uses model/call_format.h.
 * Pure. */
#ifndef RNP_SERVE_CHAT_TOOL_PROMPT_H
#define RNP_SERVE_CHAT_TOOL_PROMPT_H

#include <jansson.h>

#include "cmd/rnp-serve/model/call_format.h"

/* Returns the messages of a chat as a template without tools can show them: the tools (NULL:
 * none) described in the system's message, or with in_user before the first message of the
 * user; and where it does not show calls, earlier calls as text of the answer, and what tools
 * returned as messages of the user.
 * The contents of messages are texts. The caller owns the result. */
json_t *tool_prompt(const json_t *messages, const json_t *tools,
	const struct call_format *f, bool in_user);

/* Returns a copy of tools whose parameters may be null without that: "string" for ["string",
 * "null"], the other branch of an anyOf with null, enums without null, no nullable. For templates
 * that show types in words of their own and have none for null; what a call may hold stays as it
 * was. The caller owns it. */
json_t *tool_prompt_plain(const json_t *tools);

#endif
