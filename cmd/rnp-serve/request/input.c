/* input.c - converts the input items of /v1/responses to the messages, tools and
 * response format of a chat. */
#include <stdio.h>
#include <string.h>

#include "cmd/rnp-serve/request/parts.h"
#include "common/base/err.h"
#include "common/json/json.h"

static json_t *message(const char *role, json_t *content)
{
	json_t *m = json_object();

	json_set_text(m, "role", role);
	if (content)
		json_object_set(m, "content", content);
	return m;
}

static json_t *text_message(const char *role, const char *text)
{
	json_t *content = json_string(text), *m = message(role, content);

	json_decref(content);
	return m;
}

/* Adds an earlier tool call of the model: to the assistant's last message, or as a message of
 * its own. */
static void add_call(json_t *messages, const json_t *item)
{
	json_t *last = json_array_get(messages, json_array_size(messages) - 1), *calls;
	json_t *call = json_object(), *function = json_object();
	const char *role = json_string_value(json_object_get(last, "role"));

	if (!role || strcmp(role, "assistant") != 0) {
		last = message("assistant", NULL);
		json_push(messages, last);
	}
	calls = json_object_get(last, "tool_calls");
	if (!calls) {
		calls = json_array();
		json_set(last, "tool_calls", calls);
	}
	json_object_set(function, "name", json_object_get(item, "name"));
	json_object_set(function, "arguments", json_object_get(item, "arguments"));
	json_object_set(call, "id", json_object_get(item, "call_id"));
	json_set_text(call, "type", "function");
	json_set(call, "function", function);
	json_push(calls, call);
}

static bool has_texts(const json_t *item, const char *a, const char *b, const char *c)
{
	return json_is_string(json_object_get(item, a)) &&
		(!b || json_is_string(json_object_get(item, b))) &&
		(!c || json_is_string(json_object_get(item, c)));
}

static bool has_value(const json_t *item, const char *key)
{
	const json_t *v = json_object_get(item, key);

	return v && !json_is_null(v);
}

static int add_item(json_t *messages, const json_t *item, size_t i, struct api_error *e)
{
	const char *type = json_string_value(json_object_get(item, "type"));
	const char *role = json_string_value(json_object_get(item, "role"));
	char where[64];

	snprintf(where, sizeof where, "input[%zu]", i);
	if (request_only(item, where,
		    "type id status role content call_id name arguments output summary "
		    "encrypted_content",
		    e) < 0)
		return -1;
	if (role && (!type || strcmp(type, "message") == 0) &&
		(has_value(item, "content") || strcmp(role, "assistant") == 0)) {
		json_push(messages, message(role, json_object_get(item, "content")));
	} else if (type && strcmp(type, "function_call") == 0 &&
		has_texts(item, "name", "arguments", "call_id")) {
		add_call(messages, item);
	} else if (type && strcmp(type, "function_call_output") == 0 &&
		has_texts(item, "call_id", NULL, NULL) && has_value(item, "output")) {
		json_t *m = message("tool", json_object_get(item, "output"));

		json_object_set(m, "tool_call_id", json_object_get(item, "call_id"));
		json_push(messages, m);
	} else if (type && strcmp(type, "reasoning") == 0) {
		return 0; /* earlier reasoning is not shown to the model again */
	} else {
		return api_error_set(e, 400, "invalid_value", where,
			"'%s' must be a message, function_call or function_call_output",
			where);
	}
	return 0;
}

static int add_input(json_t *messages, const json_t *input, struct api_error *e)
{
	json_t *item;
	size_t i;

	if (json_is_string(input)) {
		json_push(messages, text_message("user", json_string_value(input)));
		return 0;
	}
	if (!json_is_array(input) || !json_array_size(input) ||
		json_array_size(input) > REQUEST_MESSAGES_MAX)
		return api_error_set(e, 400,
			input ? "invalid_value" : "missing_required_parameter", "input",
			"'input' must be a text or an array of 1 to 4096 items");
	json_array_foreach(input, i, item)
		if (add_item(messages, item, i, e) < 0)
			return -1;
	return 0;
}

/* {"type","name","parameters",...} becomes {"type","function":{"name",...}}. */
static int convert_tools(struct request *q, struct api_error *e)
{
	json_t *tools = json_array(), *tool;
	char where[64];
	size_t i;

	json_array_foreach(q->tools, i, tool) {
		const char *type = json_string_value(json_object_get(tool, "type"));
		json_t *function, *chat;

		snprintf(where, sizeof where, "tools[%zu]", i);
		if (!type || strcmp(type, "function") != 0) {
			json_decref(tools);
			return api_error_set(e, 400, "unsupported_parameter", where,
				"'%s': only functions are supported", where);
		}
		function = json_copy(tool);
		json_object_del(function, "type");
		chat = json_object();
		json_set_text(chat, "type", "function");
		json_set(chat, "function", function);
		json_push(tools, chat);
	}
	json_set(q->body, "tools as a chat has them", tools);
	q->tools = tools;
	return 0;
}

/* {"type":"json_schema","name","schema"} becomes {"type","json_schema":{"name","schema"}}. */
static int convert_format(struct request *q, struct api_error *e)
{
	json_t *format = json_object_get(q->text, "format"), *chat, *schema;
	const char *type = json_string_value(json_object_get(format, "type"));

	if (!type)
		return 0;
	chat = json_object();
	json_set_text(chat, "type", type);
	if (strcmp(type, "json_schema") == 0) {
		schema = json_copy(format);
		json_object_del(schema, "type");
		json_set(chat, "json_schema", schema);
	}
	json_set(q->body, "format as a chat has it", chat);
	return request_hold_format(q, chat, e);
}

int request_read_input(struct request *q, struct api_error *e)
{
	json_t *messages = json_array(),
	       *effort = json_object_get(q->reasoning, "effort");

	json_set(q->body, "messages as a chat has them", messages);
	if (q->instructions)
		json_push(messages, text_message("system", q->instructions));
	if (add_input(messages, q->input, e) < 0)
		return -1;
	if (json_is_string(effort))
		q->reasoning_effort = json_string_value(effort);
	q->messages = messages;
	if (convert_format(q, e) < 0)
		return -1;
	return q->tools ? convert_tools(q, e) : 0;
}
