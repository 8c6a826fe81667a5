/* format.c - what answers must keep to: response_format, and what vLLM, SGLang, llama.cpp and
 * Ollama call it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-serve/request/parts.h"
#include "common/base/err.h"
#include "common/json/json.h"

static int bad(struct api_error *e, const char *name, const char *what)
{
	return api_error_set(e, 400, "invalid_value", name, "'%s' must be %s", name,
		what);
}

/* An answer keeps to one thing. */
static int hold(struct request *q, const char *name, struct api_error *e)
{
	if (q->held_to)
		return api_error_set(e, 400, "invalid_value", name,
			"'%s' must be without '%s': an answer keeps to one of them", name,
			q->held_to);
	q->held_to = name;
	return 0;
}

int request_hold_format(struct request *q, json_t *format, struct api_error *e)
{
	const char *type = json_string_value(json_object_get(format, "type"));

	if (type && strcmp(type, "text") == 0)
		return 0;
	if (hold(q, "response_format", e) < 0)
		return -1;
	q->response_format = format;
	return 0;
}

/* Takes a schema, as a value or as its text, which becomes the one of a response_format. */
static int hold_schema(struct request *q, const char *name, json_t *v,
	struct api_error *e)
{
	size_t len = json_string_length(v);
	json_t *schema = json_is_string(v) ?
		json_parse_bounded(json_string_value(v), len, REQUEST_DEPTH_MAX,
			REQUEST_ROOM(len), name) :
		json_incref(v);

	if ((json_is_object(schema) ? hold(q, name, e) : bad(e, name, "a schema")) < 0) {
		json_decref(schema);
		return -1;
	}
	q->format_made = json_pack("{s:s,s:{s:o}}", "type", "json_schema", "json_schema",
		"schema", schema);
	q->response_format = q->format_made;
	return 0;
}

static int hold_any_object(struct request *q, const char *name, struct api_error *e)
{
	if (hold(q, name, e) < 0)
		return -1;
	q->format_made = json_pack("{s:s}", "type", "json_object");
	q->response_format = q->format_made;
	return 0;
}

static int hold_pattern(struct request *q, const char *name, struct buf *pattern,
	struct api_error *e)
{
	if (hold(q, name, e) < 0) {
		buf_release(pattern);
		return -1;
	}
	q->pattern = buf_take(pattern);
	return 0;
}

static int hold_regex(struct request *q, const char *name, const json_t *v,
	struct api_error *e)
{
	struct buf pattern = BUF_INIT;

	if (!json_string_length(v))
		return bad(e, name, "a regular expression");
	buf_addf(&pattern, "^(?:%s)$", json_string_value(v));
	return hold_pattern(q, name, &pattern, e);
}

/* One of several texts is a pattern, too. */
static int hold_choice(struct request *q, const char *name, json_t *v,
	struct api_error *e)
{
	struct buf pattern = BUF_INIT;
	json_t *one;
	size_t i;

	buf_adds(&pattern, "^(?:");
	json_array_foreach(v, i, one) {
		if (!json_string_length(one))
			break;
		if (i)
			buf_addc(&pattern, '|');
		for (const char *c = json_string_value(one); *c; c++) {
			if (strchr("^$\\.*+?()[]{}|", *c))
				buf_addc(&pattern, '\\');
			buf_addc(&pattern, *c);
		}
	}
	buf_adds(&pattern, ")$");
	if (json_array_size(v) && i == json_array_size(v))
		return hold_pattern(q, name, &pattern, e);
	buf_release(&pattern);
	return bad(e, name, "an array of texts that are not empty");
}

/* Of vLLM: one of several ways, and words on how it is done. */
static int hold_structured(struct request *q, json_t *v, struct api_error *e)
{
	const char *key;
	char param[96];
	json_t *one;

	if (!json_is_object(v))
		return bad(e, "structured_outputs", "an object");
	json_object_foreach(v, key, one) {
		int rc = 0;

		if (request_is_blank(one) || json_is_false(one) ||
			strcmp(key, "disable_fallback") == 0)
			continue;
		if (strcmp(key, "json") == 0) {
			rc = hold_schema(q, "structured_outputs.json", one, e);
		} else if (strcmp(key, "choice") == 0) {
			rc = hold_choice(q, "structured_outputs.choice", one, e);
		} else if (strcmp(key, "regex") == 0) {
			rc = hold_regex(q, "structured_outputs.regex", one, e);
		} else if (strcmp(key, "json_object") == 0) {
			rc = hold_any_object(q, "structured_outputs.json_object", e);
		} else {
			snprintf(param, sizeof param, "structured_outputs.%.60s", key);
			rc = api_error_set(e, 400, "unsupported_parameter", param,
				"'%s' is not supported by this server", param);
		}
		if (rc < 0)
			return -1;
	}
	return 0;
}

/* {"type","json_schema":{"name","schema","strict"}}, or the schema beside the type. */
static int read_format(struct request *q, const char *name, json_t *v,
	struct api_error *e)
{
	if (!json_is_object(v))
		return bad(e, name, "an object");
	if (request_only(v, name, "type json_schema name description schema strict", e) <
			0 ||
		request_only(json_object_get(v, "json_schema"),
			"response_format.json_schema", "name description schema strict",
			e) < 0)
		return -1;
	return request_hold_format(q, v, e);
}

/* Of what the responses API has in `text`. */
static int read_text(struct request *q, const char *name, json_t *v, struct api_error *e)
{
	const char *verbosity = json_string_value(json_object_get(v, "verbosity"));
	/* the middle one asks for nothing */
	bool middle = verbosity && strcmp(verbosity, "medium") == 0;

	q->text = v;
	if (!json_is_object(v))
		return bad(e, name, "an object");
	return request_only(v, name, middle ? "format verbosity" : "format", e) < 0 ?
		-1 :
		request_only(json_object_get(v, "format"), "text.format",
			"type name description schema strict", e);
}

int request_read_constraint(struct request *q, const char *name, json_t *v,
	struct api_error *e)
{
	const char *text = json_string_value(v);

	if (strcmp(name, "response_format") == 0)
		return read_format(q, name, v, e);
	if (strcmp(name, "text") == 0)
		return read_text(q, name, v, e);
	if (json_is_false(v) || (text && !*text))
		return 0; /* as clients write that they ask for nothing */
	if (strcmp(name, "structured_outputs") == 0)
		return hold_structured(q, v, e);
	if (strcmp(name, "guided_choice") == 0)
		return hold_choice(q, name, v, e);
	if (strcmp(name, "guided_regex") == 0 || strcmp(name, "regex") == 0)
		return hold_regex(q, name, v, e);
	if (strcmp(name, "format") == 0 && text)
		return strcmp(text, "json") == 0 ? hold_any_object(q, name, e) :
						   bad(e, name, "'json' or a schema");
	return hold_schema(q, name, v, e);
}
