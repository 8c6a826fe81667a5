/* tools.c - reads the tools of a request and its choice among them, in the forms that OpenAI's
 * chat API has. */
#include "cmd/rnp-serve/request/tools.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/json/json.h"

static int wrong(struct tools_error *e, const char *where, const char *what)
{
	snprintf(e->where, sizeof e->where, "%s", where);
	snprintf(e->what, sizeof e->what, "%s", what);
	return -1;
}

bool tools_name_byte(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
		(c >= '0' && c <= '9') || c == '_' || c == '-';
}

static bool is_name(const char *name)
{
	size_t len = name ? strlen(name) : 0;

	if (!len || len > TOOLS_NAME_BYTES)
		return false;
	for (size_t i = 0; i < len; i++)
		if (!tools_name_byte(name[i]))
			return false;
	return true;
}

static bool is_object(const json_t *type)
{
	return json_is_string(type) && strcmp(json_string_value(type), "object") == 0;
}

/* Returns the schema of a function's arguments: an object, and one without properties where the
 * function names none. null: it is not of an object. */
static json_t *schema_of(const json_t *function)
{
	const json_t *parameters = json_object_get(function, "parameters");
	const json_t *type = json_object_get(parameters, "type");
	json_t *schema, *one;
	bool object = !type;
	size_t i;

	if (json_is_array(type))
		json_array_foreach(type, i, one)
			object |= is_object(one);
	object |= is_object(type);
	if (!parameters || json_is_null(parameters))
		return json_pack("{s:s,s:b}", "type", "object", "additionalProperties",
			0);
	if (!json_is_object(parameters) || !object)
		return json_null();
	schema = json_copy((json_t *)parameters);
	json_set_text(schema, "type", "object");
	return schema;
}

/* Reads schema and strict of a function. One that is not strict may have any value as its schema:
 * the model sees an object in place of a value that is none, which templates cannot take apart. */
static int read_schema(struct tool *to, json_t *function, size_t i, struct tools_error *e)
{
	const json_t *strict = json_object_get(function, "strict");
	char where[64];

	snprintf(where, sizeof where, "tools[%zu].function.strict", i);
	if (strict && !json_is_boolean(strict) && !json_is_null(strict))
		return wrong(e, where, "true or false");
	to->strict = json_is_true(strict);
	to->schema = schema_of(function);
	if (!json_is_null(to->schema))
		return 0;
	snprintf(where, sizeof where, "tools[%zu].function.parameters", i);
	if (to->strict)
		return wrong(e, where, "a schema of type object");
	if (!json_is_object(json_object_get(function, "parameters")))
		json_set(function, "parameters",
			json_pack("{s:s,s:{}}", "type", "object", "properties"));
	return 0;
}

static int read_tool(struct tools *t, const json_t *tool, size_t i, struct tools_error *e)
{
	const char *type = json_string_value(json_object_get(tool, "type"));
	json_t *function = json_object_get(tool, "function");
	const char *name = json_string_value(json_object_get(function, "name"));
	struct tool *to = &t->at[t->count];
	char where[64];

	snprintf(where, sizeof where, "tools[%zu]", i);
	if (!type || strcmp(type, "function") != 0 || !json_is_object(function))
		return wrong(e, where, "{\"type\":\"function\",\"function\":{...}}");
	snprintf(where, sizeof where, "tools[%zu].function.name", i);
	if (!is_name(name))
		return wrong(e, where, "1 to 64 letters, digits, '_' and '-'");
	for (uint32_t k = 0; k < t->count; k++)
		if (strcmp(t->at[k].name, name) == 0)
			return wrong(e, where,
				"another name than that of the other tools");
	*to = (struct tool){ .name = name };
	if (read_schema(to, function, i, e) < 0)
		return -1;
	t->count++;
	return 0;
}

/* --- tool_choice -------------------------------------------------------------------------- */

static struct tool *find(const struct tools *t, const char *name)
{
	for (uint32_t i = 0; name && i < t->count; i++)
		if (strcmp(t->at[i].name, name) == 0)
			return &t->at[i];
	return NULL;
}

/* Keeps the tools that a choice names, from an array of tools or one of them. */
static int keep(struct tools *t, const json_t *named, struct tools_error *e)
{
	struct tool *kept = xcalloc((size_t)t->count + 1, sizeof *kept);
	size_t n = json_is_array(named) ? json_array_size(named) : 1;
	uint32_t count = 0;
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0; i++) {
		const json_t *one = json_is_array(named) ? json_array_get(named, i) :
							   named;
		const json_t *function = json_object_get(one, "function");
		struct tool *tool = find(t,
			json_string_value(
				json_object_get(function ? function : one, "name")));

		if (!tool || !tool->schema) {
			rc = wrong(e, "tool_choice", "the name of one of 'tools'");
			break;
		}
		kept[count++] = *tool;
		tool->schema = NULL;
	}
	for (uint32_t i = 0; i < t->count; i++)
		json_decref(t->at[i].schema);
	free(t->at);
	t->at = kept;
	t->count = count;
	return rc;
}

static int read_word(struct tools *t, const char *word, struct tools_error *e)
{
	if (word && strcmp(word, "none") == 0)
		t->mode = TOOLS_OFF;
	else if (word && strcmp(word, "auto") == 0)
		t->mode = t->count ? TOOLS_AUTO : TOOLS_OFF;
	else if (word && strcmp(word, "required") == 0)
		t->mode = TOOLS_REQUIRED;
	else
		return wrong(e, "tool_choice",
			"none, auto, required, or the function to call");
	return 0;
}

static int read_choice(struct tools *t, const json_t *choice, struct tools_error *e)
{
	const char *type = json_string_value(json_object_get(choice, "type"));
	const json_t *allowed = json_object_get(choice, "allowed_tools");

	if (json_is_string(choice))
		return read_word(t, json_string_value(choice), e);
	if (type && strcmp(type, "function") == 0) {
		t->mode = TOOLS_REQUIRED;
		return keep(t, choice, e);
	}
	if (type && strcmp(type, "allowed_tools") == 0) {
		allowed = allowed ? allowed : choice; /* the responses API nests less */
		if (!json_is_array(json_object_get(allowed, "tools")))
			return wrong(e, "tool_choice.tools", "an array");
		if (read_word(t, json_string_value(json_object_get(allowed, "mode")), e) <
			0)
			return -1;
		return keep(t, json_object_get(allowed, "tools"), e);
	}
	return read_word(t, NULL, e);
}

/* --- both --------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct tool *)a)->name, ((const struct tool *)b)->name);
}

int tools_read(struct tools *out, const json_t *tools, const json_t *choice,
	bool parallel, struct tools_error *e)
{
	json_t *tool;
	size_t i;

	*out = (struct tools){ .parallel = parallel };
	if (json_array_size(tools) > TOOLS_MAX)
		return wrong(e, "tools", "an array of at most 128 functions");
	out->at = xcalloc(json_array_size(tools) + 1, sizeof *out->at);
	json_array_foreach((json_t *)tools, i, tool)
		if (read_tool(out, tool, i, e) < 0)
			return -1;
	out->mode = out->count ? TOOLS_AUTO : TOOLS_OFF;
	if (choice && !json_is_null(choice) && read_choice(out, choice, e) < 0)
		return -1;
	if (out->mode == TOOLS_REQUIRED && !out->count)
		return wrong(e, "tool_choice", "none or auto where there are no 'tools'");
	if (!out->count)
		out->mode = TOOLS_OFF;
	qsort(out->at, out->count, sizeof *out->at, by_name);
	return 0;
}

void tools_release(struct tools *t)
{
	for (uint32_t i = 0; i < t->count; i++)
		json_decref(t->at[i].schema);
	free(t->at);
	*t = (struct tools){ 0 };
}

bool tools_have(const struct tools *t, const char *name, size_t len)
{
	for (uint32_t i = 0; i < t->count; i++)
		if (strlen(t->at[i].name) == len && memcmp(t->at[i].name, name, len) == 0)
			return true;
	return false;
}
