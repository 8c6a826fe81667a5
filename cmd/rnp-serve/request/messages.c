/* messages.c - checks the messages of a chat, and turns what older clients and other servers write
 * into what templates read: what stands in a message reaches the model, or is an error. */
#include <stdio.h>
#include <string.h>

#include "cmd/rnp-serve/request/parts.h"
#include "common/json/json.h"

static int bad_at(struct api_error *e, size_t i, const char *field, const char *what)
{
	char where[96];

	snprintf(where, sizeof where, "messages[%zu]%s", i, field);
	return api_error_set(e, 400, "invalid_value", where, "'%s' must be %s", where,
		what);
}

static bool has_role(const json_t *m, const char *role)
{
	const char *has = json_string_value(json_object_get(m, "role"));

	return has && strcmp(has, role) == 0;
}

/* Whether a value is there and says something. */
static bool says(const json_t *v)
{
	return v && !request_is_blank(v) &&
		!(json_is_string(v) && !json_string_length(v));
}

int request_read_messages(struct request *q, json_t *v, struct api_error *e)
{
	json_t *m;
	size_t i;

	if (!json_is_array(v) || !json_array_size(v) ||
		json_array_size(v) > REQUEST_MESSAGES_MAX)
		return api_error_set(e, 400, "invalid_value", "messages",
			"'messages' must be an array of 1 to 4096 messages");
	json_array_foreach(v, i, m) {
		if (!json_is_object(m))
			return bad_at(e, i, "", "an object");
		if (!json_is_string(json_object_get(m, "role")))
			return bad_at(e, i, ".role", "a text");
	}
	q->messages = v;
	return 0;
}

/* A call that a template cannot find would vanish from the conversation. */
static int check_calls(const json_t *m, size_t i, struct api_error *e)
{
	json_t *calls = json_object_get(m, "tool_calls"), *call;
	char at[48];
	size_t k;

	if (!calls || json_is_null(calls))
		return 0;
	if (!json_is_array(calls))
		return bad_at(e, i, ".tool_calls", "an array of calls");
	if (json_array_size(calls) && !has_role(m, "assistant"))
		return bad_at(e, i, ".tool_calls", "in a message of the assistant");
	json_array_foreach(calls, k, call) {
		const json_t *type = json_object_get(call, "type");
		const json_t *function = json_object_get(call, "function");

		snprintf(at, sizeof at, ".tool_calls[%zu]", k);
		if ((json_is_string(type) &&
			    strcmp(json_string_value(type), "function") != 0) ||
			!says(json_object_get(function, "name")))
			return bad_at(e, i, at,
				"{\"type\":\"function\",\"function\":{\"name\",...}}");
	}
	return 0;
}

/* Makes of a call in the API's first form one of `tool_calls`, with an id (as long as those of
 * Mistral's templates) for the answer to it. */
static int convert_call(json_t *m, size_t i, char id[16], struct api_error *e)
{
	json_t *call = json_object_get(m, "function_call");
	const json_t *arguments = json_object_get(call, "arguments");
	char where[64];

	if (!call || json_is_null(call)) {
		json_object_del(m, "function_call");
		return 0;
	}
	if (!has_role(m, "assistant") || !says(json_object_get(call, "name")) ||
		(arguments && !json_is_string(arguments) && !json_is_object(arguments) &&
			!json_is_null(arguments)))
		return bad_at(e, i, ".function_call",
			"an assistant's call, with 'name' and 'arguments'");
	if (says(json_object_get(m, "tool_calls")))
		return bad_at(e, i, ".function_call", "without 'tool_calls' beside it");
	snprintf(where, sizeof where, "messages[%zu].function_call", i);
	if (request_only(call, where, "name arguments", e) < 0)
		return -1;
	snprintf(id, 16, "call%05u", (unsigned)i);
	json_set(m, "tool_calls",
		json_pack("[{s:s,s:s,s:O}]", "id", id, "type", "function", "function",
			call));
	json_object_del(m, "function_call");
	return 0;
}

/* What the assistant said in a refusal it said. */
static int convert_refusal(json_t *m, size_t i, struct api_error *e)
{
	json_t *refusal = json_object_get(m, "refusal");

	if (!says(refusal))
		return 0;
	if (!json_is_string(refusal) || !has_role(m, "assistant") ||
		says(json_object_get(m, "content")))
		return bad_at(e, i, ".refusal",
			"a text of the assistant in place of 'content'");
	json_object_set(m, "content", refusal);
	return 0;
}

/* Other fields are variables that a template may read. */
static int check_parts(const json_t *m, size_t i, struct api_error *e)
{
	static const char *const no_text[] = { "audio", "images", "files", "parts" };
	char where[64];

	for (size_t k = 0; k < sizeof no_text / sizeof *no_text; k++) {
		if (!says(json_object_get(m, no_text[k])))
			continue;
		snprintf(where, sizeof where, "messages[%zu].%s", i, no_text[k]);
		return api_error_set(e, 400, "unsupported_parameter", where,
			"'%s' is not supported by this server", where);
	}
	return 0;
}

/* Whether the last message is to be gone on with: a word of the request, or one in the message, as
 * DeepSeek and Mistral have it. */
static int check_end(struct request *q, struct api_error *e)
{
	const json_t *last = json_array_get(q->messages,
		json_array_size(q->messages) - 1);
	json_t *m;
	size_t i;

	json_array_foreach(q->messages, i, m) {
		if (!json_is_true(json_object_get(m, "prefix")))
			continue;
		if (m != last || !has_role(m, "assistant"))
			return bad_at(e, i, ".prefix",
				"in a last message of the assistant");
		q->continues = true;
	}
	if (!q->continues)
		return 0;
	if (json_is_true(json_object_get(q->body, "add_generation_prompt")))
		return api_error_set(e, 400, "invalid_value", "add_generation_prompt",
			"'add_generation_prompt' must be false where the last message is continued");
	if (!says(json_object_get(last, "content")) ||
		says(json_object_get(last, "tool_calls")))
		return bad_at(e, json_array_size(q->messages) - 1, ".content",
			"a text that can be continued");
	q->begins_turn = false;
	return 0;
}

int request_check_messages(struct request *q, struct api_error *e)
{
	char id[16] = "";
	json_t *m;
	size_t i;

	json_array_foreach(q->messages, i, m) {
		if (convert_call(m, i, id, e) < 0 || check_calls(m, i, e) < 0 ||
			convert_refusal(m, i, e) < 0 || check_parts(m, i, e) < 0)
			return -1;
		if (!has_role(m, "function"))
			continue;
		json_set_text(m, "role", "tool");
		if (*id && !json_object_get(m, "tool_call_id"))
			json_set_text(m, "tool_call_id", id);
	}
	return check_end(q, e);
}
