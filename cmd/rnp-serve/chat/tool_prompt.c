/* tool_prompt.c - rewrites a chat with tools as one without. */
#include "cmd/rnp-serve/chat/tool_prompt.h"

#include <string.h>

#include "common/base/buf.h"
#include "common/json/json.h"

static const char *text_of(const json_t *o, const char *key)
{
	const char *text = json_string_value(json_object_get(o, key));

	return text ? text : "";
}

static void describe(struct buf *out, const json_t *tools, const struct call_format *f)
{
	json_t *tool;
	size_t i;

	buf_adds(out, "You can call functions. Each line is one of them:\n");
	json_array_foreach((json_t *)tools, i, tool) {
		json_write(out, json_object_get(tool, "function"));
		buf_addc(out, '\n');
	}
	buf_adds(out,
		"\nTo call one, answer with its name, and its arguments as a JSON object that keeps "
		"to its parameters:\n");
	buf_addf(out, "%sNAME%s{...}%s\n", f->open[0], f->middle[0], f->close);
	buf_adds(out,
		"Several calls follow one another. What they return comes between <tool_response> "
		"and </tool_response>.");
}

/* Appends the calls of an earlier answer. */
static void add_calls(struct buf *out, const json_t *calls, const struct call_format *f)
{
	uint32_t n = 0;
	json_t *call;
	size_t i;

	json_array_foreach((json_t *)calls, i, call) {
		const json_t *function = json_object_get(call, "function");
		const json_t *arguments = json_object_get(function, "arguments");

		if (!n && out->len)
			buf_addc(out, '\n');
		/* more than a format numbers are written as its last one */
		buf_adds(out, f->open[n]);
		buf_adds(out, text_of(function, "name"));
		buf_adds(out, f->middle[n]);
		if (json_is_string(arguments))
			buf_adds(out, json_string_value(arguments));
		else if (arguments)
			json_write(out, arguments);
		else
			buf_adds(out, "{}");
		n += n + 1 < f->most;
	}
	if (n || json_array_size(calls))
		buf_adds(out, f->close);
}

static json_t *message(const char *role, const struct buf *text)
{
	json_t *m = json_object();

	json_set_text(m, "role", role);
	json_set_text(m, "content", buf_text(text));
	return m;
}

/* Puts a text before the content of a message. */
static void put_before(json_t *m, const struct buf *text)
{
	struct buf all = BUF_INIT;

	buf_add(&all, text->data, text->len);
	buf_adds(&all, "\n\n");
	buf_adds(&all, text_of(m, "content"));
	json_set_text(m, "content", buf_text(&all));
	buf_release(&all);
}

/* Tells of the tools in the first message of a role; without one a system's message is added. */
static void tell(json_t *messages, const json_t *tools, const struct call_format *f,
	const char *role)
{
	struct buf text = BUF_INIT;
	json_t *m, *first = NULL;
	size_t i;

	describe(&text, tools, f);
	json_array_foreach(messages, i, m)
		if (!first && strcmp(text_of(m, "role"), role) == 0)
			first = m;
	if (first)
		put_before(first, &text);
	else
		json_array_insert_new(messages, 0, message("system", &text));
	buf_release(&text);
}

/* Adds what a tool returned: a message of the user, together with the result before it. */
static void add_result(json_t *out, const json_t *m, bool again)
{
	struct buf text = BUF_INIT;
	json_t *last = json_array_get(out, json_array_size(out) - 1);

	if (again)
		buf_addf(&text, "%s\n", text_of(last, "content"));
	buf_addf(&text, "<tool_response>\n%s\n</tool_response>", text_of(m, "content"));
	if (again)
		json_set_text(last, "content", buf_text(&text));
	else
		json_push(out, message("user", &text));
	buf_release(&text);
}

json_t *tool_prompt(const json_t *messages, const json_t *tools,
	const struct call_format *f, bool in_user)
{
	json_t *out = json_array(), *m;
	bool result = false;
	size_t i;

	json_array_foreach((json_t *)messages, i, m) {
		const json_t *calls = json_object_get(m, "tool_calls");
		struct buf text = BUF_INIT;

		if (f->shows_calls) {
			json_push(out, json_copy(m));
			continue;
		}
		if (strcmp(text_of(m, "role"), "tool") == 0) {
			add_result(out, m, result);
			result = true;
			continue;
		}
		result = false;
		m = json_copy(m);
		if (json_array_size(calls)) {
			buf_adds(&text, text_of(m, "content"));
			add_calls(&text, calls, f);
			json_set_text(m, "content", buf_text(&text));
		}
		json_object_del(m, "tool_calls");
		json_push(out, m);
		buf_release(&text);
	}
	if (json_array_size(tools))
		tell(out, tools, f, in_user ? "user" : "system");
	return out;
}

/* --- without null --------------------------------------------------------------------------- */

static bool is_null_type(const json_t *v)
{
	const char *text = json_string_value(
		json_is_object(v) ? json_object_get(v, "type") : v);

	return json_is_null(v) || (text && strcmp(text, "null") == 0);
}

/* Returns a list without its nulls: one that remains alone stands for itself if it may. NULL: there
 * is nothing to take out, or nothing that would be left. */
static json_t *without_nulls(const json_t *list, bool alone)
{
	json_t *some = json_array(), *v, *one = NULL;
	size_t i;

	json_array_foreach(list, i, v)
		if (!is_null_type(v))
			json_array_append(some, v);
	if (json_array_size(some) && json_array_size(some) < json_array_size(list))
		one = json_array_size(some) == 1 && alone ? json_array_get(some, 0) :
							    some;
	json_incref(one);
	json_decref(some);
	return one;
}

static void make_plain(json_t *v);

/* Puts the only branch that is not null, if there is one, in the place of the choice. */
static void take_branch(json_t *schema, const char *choice)
{
	json_t *rest = without_nulls(json_object_get(schema, choice), true);

	if (json_is_object(rest)) {
		json_object_del(schema, choice);
		json_object_update_missing(schema, rest);
		json_decref(rest);
	} else if (rest) {
		json_object_set_new(schema, choice, rest);
	}
}

static void make_plain_object(json_t *schema)
{
	json_t *type, *words, *v;
	const char *key;

	take_branch(schema, "anyOf");
	take_branch(schema, "oneOf");
	type = without_nulls(json_object_get(schema, "type"), true);
	words = without_nulls(json_object_get(schema, "enum"), false);
	if (type)
		json_object_set_new(schema, "type", type);
	if (words)
		json_object_set_new(schema, "enum", words);
	if (json_is_boolean(json_object_get(schema, "nullable")))
		json_object_del(schema, "nullable");
	json_object_foreach(schema, key, v)
		make_plain(v);
}

/* The depth is that of the request, which is bounded. */
static void make_plain(json_t *v)
{
	json_t *one;
	size_t i;

	if (json_is_object(v))
		make_plain_object(v);
	json_array_foreach(v, i, one)
		make_plain(one);
}

json_t *tool_prompt_plain(const json_t *tools)
{
	json_t *copy = json_deep_copy(tools);

	make_plain(copy);
	return copy;
}
