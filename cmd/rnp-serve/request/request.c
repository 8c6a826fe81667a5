/* request.c - parses API requests: a table of fields, and a reader for each kind of value. */
#include "cmd/rnp-serve/request/request.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-serve/request/parts.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/num.h"
#include "common/json/json.h"

int api_error_set(struct api_error *e, int status, const char *code, const char *param,
	const char *fmt, ...)
{
	char text[ERR_TEXT_MAX];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	e->status = status;
	e->code = code;
	e->type = status == 401 || status == 403 ? "authentication_error" :
		status == 429                    ? "rate_limit_error" :
		status >= 500                    ? "server_error" :
						   "invalid_request_error";
	snprintf(e->param, sizeof e->param, "%s", param ? param : "");
	return err_set(EX_DATAERR, "%s", text);
}

static int bad(struct api_error *e, const char *param, const char *what)
{
	return api_error_set(e, 400, "invalid_value", param, "'%s' must be %s", param,
		what);
}

/* --- kinds of fields -------------------------------------------------------------------------- */

struct field {
	const char *name;
	unsigned kinds; /* kinds of requests that have the field */
	int (*read)(struct request *q, const struct field *f, json_t *v,
		struct api_error *e);
	size_t offset; /* in struct request */
	double min, max;
};

#define AT(type) ((type *)(void *)((char *)q + f->offset))

static int read_number(struct request *q, const struct field *f, json_t *v,
	struct api_error *e)
{
	double x = json_number_value(v);
	char what[80];

	snprintf(what, sizeof what, "a number from %g to %g", f->min, f->max);
	if (!json_is_number(v) || !(x >= f->min && x <= f->max))
		return bad(e, f->name, what);
	*AT(double) = x;
	return 0;
}

/* Reads a whole number, however it is spelled; what is beyond 64 bits is the largest, or the least,
 * of them. */
static bool whole(const json_t *v, int64_t *out)
{
	double x = json_number_value(v);

	if (json_is_integer(v))
		*out = json_integer_value(v);
	else if (json_is_real(v) && x == trunc(x))
		*out = x >= 0x1p63 ? INT64_MAX : x < -0x1p63 ? INT64_MIN : (int64_t)x;
	else
		return false;
	return true;
}

static int read_count(struct request *q, const struct field *f, json_t *v,
	struct api_error *e)
{
	char what[80];
	int64_t n;

	snprintf(what, sizeof what, "a whole number from %.0f to %.0f", f->min, f->max);
	if (!whole(v, &n) || n < (int64_t)f->min || n > (int64_t)f->max)
		return bad(e, f->name, what);
	*AT(uint32_t) = (uint32_t)n;
	return 0;
}

/* Any number of tokens may be allowed: there are no more than fit in the context. */
static int read_tokens_max(struct request *q, const struct field *f, json_t *v,
	struct api_error *e)
{
	/* without an answer a prompt can still be echoed, and its logprobs told */
	int least = q->kind == REQUEST_COMPLETION ? 0 : 1;
	int64_t n;

	if (!whole(v, &n) || n < least)
		return bad(e, f->name,
			least ? "a whole number from 1 on" : "a whole number from 0 on");
	*AT(int64_t) = n < INT32_MAX ? n : INT32_MAX;
	return 0;
}

static int read_bool(struct request *q, const struct field *f, json_t *v,
	struct api_error *e)
{
	if (!json_is_boolean(v))
		return bad(e, f->name, "true or false");
	*AT(bool) = json_is_true(v);
	return 0;
}

static int read_text(struct request *q, const struct field *f, json_t *v,
	struct api_error *e)
{
	if (!json_is_string(v))
		return bad(e, f->name, "a text");
	*AT(const char *) = json_string_value(v);
	return 0;
}

static int read_object(struct request *q, const struct field *f, json_t *v,
	struct api_error *e)
{
	if (!json_is_object(v))
		return bad(e, f->name, "an object");
	*AT(json_t *) = v;
	return 0;
}

static int read_array(struct request *q, const struct field *f, json_t *v,
	struct api_error *e)
{
	if (!json_is_array(v))
		return bad(e, f->name, "an array");
	*AT(json_t *) = v;
	return 0;
}

static int read_any(struct request *q, const struct field *f, json_t *v,
	struct api_error *e)
{
	(void)e;
	*AT(json_t *) = v;
	return 0;
}

static int read_accepted(struct request *q, const struct field *f, json_t *v,
	struct api_error *e)
{
	(void)q, (void)f, (void)v, (void)e;
	return 0;
}

/* Refuses a field that the API defines and this server does not support. */
static int refuse(struct request *q, const struct field *f, json_t *v,
	struct api_error *e)
{
	(void)q;
	if (json_is_false(v) || (json_is_array(v) && !json_array_size(v)) ||
		(json_is_string(v) && !json_string_length(v)))
		return 0;
	return api_error_set(e, 400, "unsupported_parameter", f->name,
		"'%s' is not supported by this server", f->name);
}

/* --- single fields ------------------------------------------------------------------------ */

static int read_seed(struct request *q, const struct field *f, json_t *v,
	struct api_error *e)
{
	int64_t seed;

	if (!whole(v, &seed) ||
		(json_is_real(v) && (seed == INT64_MIN || seed == INT64_MAX)))
		return bad(e, f->name, "a whole number of 64 bits with a sign");
	q->sampling.seed = (uint64_t)seed;
	q->seeded = true;
	return 0;
}

static int add_stop(struct request *q, const json_t *v, struct api_error *e)
{
	if (!json_is_string(v) || !json_string_length(v) ||
		json_string_length(v) > REQUEST_STOP_BYTES)
		return bad(e, "stop", "one or several texts of 1 to 64 bytes");
	if (q->stop_count == REQUEST_STOPS_MAX)
		return bad(e, "stop", "at most 16 texts");
	q->stop[q->stop_count++] = json_string_value(v);
	return 0;
}

static int read_stop(struct request *q, const struct field *f, json_t *v,
	struct api_error *e)
{
	json_t *item;
	size_t i;

	(void)f;
	if (!json_is_array(v))
		return add_stop(q, v, e);
	json_array_foreach(v, i, item)
		if (add_stop(q, item, e) < 0)
			return -1;
	return 0;
}

static int read_bias(struct request *q, const struct field *f, json_t *v,
	struct api_error *e)
{
	const char *key;
	json_t *item;
	int64_t id;

	if (!json_is_object(v) || json_object_size(v) > REQUEST_BIAS_MAX)
		return bad(e, f->name, "an object of at most 1024 token ids");
	free(q->bias);
	q->bias = xcalloc(json_object_size(v) + 1, sizeof *q->bias);
	q->sampling.bias_count = 0;
	json_object_foreach(v, key, item) {
		double x = json_number_value(item);

		if (num_i64(key, "token", 0, UINT32_MAX, &id) < 0 ||
			!json_is_number(item) || !(x >= -100 && x <= 100))
			return bad(e, f->name, "numbers from -100 to 100 by token id");
		q->bias[q->sampling.bias_count++] = (struct lm_bias){ (uint32_t)id,
			(float)x };
	}
	q->sampling.bias = q->bias;
	return 0;
}

/* A flag in chat requests, a number in completions requests. */
static int read_logprobs(struct request *q, const struct field *f, json_t *v,
	struct api_error *e)
{
	int64_t n;

	if (q->kind == REQUEST_CHAT)
		return read_bool(q, f, v, e);
	if (!whole(v, &n) || n < 0 || n > LM_TOP_LOGPROBS_MAX)
		return bad(e, "logprobs", "a whole number from 0 to 20");
	q->logprobs = true;
	q->top_logprobs = (uint32_t)n;
	return 0;
}

static int read_stream_options(struct request *q, const struct field *f, json_t *v,
	struct api_error *e)
{
	json_t *usage = json_object_get(v, "include_usage");

	if (!json_is_object(v) ||
		(usage && !json_is_boolean(usage) && !json_is_null(usage)))
		return bad(e, f->name, "an object with 'include_usage'");
	q->include_usage = json_is_true(usage);
	/* the other asks for padding, which nothing depends on */
	return request_only(v, f->name, "include_usage include_obfuscation", e);
}

static int read_prediction(struct request *q, const struct field *f, json_t *v,
	struct api_error *e)
{
	q->prediction = json_object_get(v, "content");
	if (!q->prediction ||
		(!json_is_string(q->prediction) && !json_is_array(q->prediction)))
		return bad(e, f->name, "an object with 'content'");
	return request_only(v, f->name, "type content", e);
}

static int read_modalities(struct request *q, const struct field *f, json_t *v,
	struct api_error *e)
{
	const char *only = json_string_value(json_array_get(v, 0));

	if (json_array_size(v) == 1 && only && strcmp(only, "text") == 0)
		return 0;
	return refuse(q, f, v, e);
}

static int read_tool_choice(struct request *q, const struct field *f, json_t *v,
	struct api_error *e)
{
	q->tool_choice = v;
	return request_only(v, f->name, "type function name allowed_tools mode tools", e);
}

/* A summary is not made; whether there is one is left to us by "auto". */
static int read_reasoning(struct request *q, const struct field *f, json_t *v,
	struct api_error *e)
{
	const char *summary = json_string_value(json_object_get(v, "summary"));

	q->reasoning = v;
	if (!json_is_object(v))
		return bad(e, f->name, "an object");
	return request_only(v, f->name,
		summary && strcmp(summary, "auto") == 0 ? "effort summary" : "effort", e);
}

static int read_truncation(struct request *q, const struct field *f, json_t *v,
	struct api_error *e)
{
	const char *text = json_string_value(v);

	return text && strcmp(text, "disabled") == 0 ? 0 : refuse(q, f, v, e);
}

static int read_encoding(struct request *q, const struct field *f, json_t *v,
	struct api_error *e)
{
	const char *text = json_string_value(v);

	if (!text || (strcmp(text, "float") != 0 && strcmp(text, "base64") != 0))
		return bad(e, f->name, "'float' or 'base64'");
	q->base64 = strcmp(text, "base64") == 0;
	return 0;
}

static int read_one(struct request *q, const struct field *f, json_t *v,
	struct api_error *e)
{
	return json_integer_value(v) == 1 ? 0 : refuse(q, f, v, e);
}

static int read_zero(struct request *q, const struct field *f, json_t *v,
	struct api_error *e)
{
	return json_is_integer(v) && !json_integer_value(v) ? 0 : refuse(q, f, v, e);
}

static int read_messages(struct request *q, const struct field *f, json_t *v,
	struct api_error *e)
{
	(void)f;
	return request_read_messages(q, v, e);
}

static int read_constraint(struct request *q, const struct field *f, json_t *v,
	struct api_error *e)
{
	return request_read_constraint(q, f->name, v, e);
}

/* --- the table ---------------------------------------------------------------------------- */

#define CHAT      (REQUEST_CHAT | REQUEST_TEMPLATE)
#define TEXT      REQUEST_COMPLETION
#define BOTH      (CHAT | REQUEST_RESPONSE)
#define ANSWER    REQUEST_RESPONSE
#define EMBED     REQUEST_EMBEDDING
#define ALL       (CHAT | TEXT | ANSWER)
#define TO(field) offsetof(struct request, field)

static const struct field fields[] = {
	{ "model", ALL, read_text, TO(model), 0, 0 },
	{ "messages", CHAT, read_messages, 0, 0, 0 },
	{ "prompt", TEXT, read_any, TO(prompt), 0, 0 },
	{ "max_tokens", CHAT | TEXT, read_tokens_max, TO(tokens_max), 0, 0 },
	{ "max_completion_tokens", CHAT, read_tokens_max, TO(tokens_max), 0, 0 },
	{ "temperature", ALL, read_number, TO(sampling.temperature), 0, 2 },
	{ "top_p", ALL, read_number, TO(sampling.top_p), 0, 1 },
	{ "min_p", ALL, read_number, TO(sampling.min_p), 0, 1 },
	{ "top_k", ALL, read_count, TO(sampling.top_k), 0, UINT32_MAX },
	{ "frequency_penalty", ALL, read_number, TO(sampling.frequency_penalty), -2, 2 },
	{ "presence_penalty", ALL, read_number, TO(sampling.presence_penalty), -2, 2 },
	{ "repetition_penalty", ALL, read_number, TO(sampling.repetition_penalty), 0.01,
		100 },
	{ "seed", ALL, read_seed, 0, 0, 0 },
	{ "stop", ALL, read_stop, 0, 0, 0 },
	{ "n", CHAT | TEXT, read_count, TO(n), 1, REQUEST_CHOICES_MAX },
	{ "logit_bias", CHAT | TEXT, read_bias, 0, 0, 0 },
	{ "logprobs", CHAT | TEXT, read_logprobs, TO(logprobs), 0, 0 },
	{ "top_logprobs", CHAT, read_count, TO(top_logprobs), 0, LM_TOP_LOGPROBS_MAX },
	{ "stream", ALL, read_bool, TO(stream), 0, 0 },
	{ "stream_options", CHAT | TEXT, read_stream_options, 0, 0, 0 },
	{ "tools", BOTH, read_array, TO(tools), 0, 0 },
	{ "tool_choice", BOTH, read_tool_choice, 0, 0, 0 },
	{ "parallel_tool_calls", BOTH, read_bool, TO(parallel_tool_calls), 0, 0 },
	{ "response_format", ALL, read_constraint, 0, 0, 0 },
	{ "guided_json", ALL, read_constraint, 0, 0, 0 },
	{ "guided_choice", ALL, read_constraint, 0, 0, 0 },
	{ "guided_regex", ALL, read_constraint, 0, 0, 0 },
	{ "structured_outputs", ALL, read_constraint, 0, 0, 0 },
	{ "json_schema", ALL, read_constraint, 0, 0, 0 },
	{ "format", ALL, read_constraint, 0, 0, 0 },
	{ "regex", ALL, read_constraint, 0, 0, 0 },
	{ "guided_grammar", ALL, refuse, 0, 0, 0 },
	{ "grammar", ALL, refuse, 0, 0, 0 },
	{ "ebnf", ALL, refuse, 0, 0, 0 },
	{ "structural_tag", ALL, refuse, 0, 0, 0 },
	{ "allowed_token_ids", ALL, refuse, 0, 0, 0 },
	{ "bad_words", ALL, refuse, 0, 0, 0 },
	{ "stop_token_ids", ALL, refuse, 0, 0, 0 },
	{ "ignore_eos", ALL, refuse, 0, 0, 0 },
	{ "min_tokens", ALL, read_zero, 0, 0, 0 },
	{ "add_generation_prompt", CHAT, read_bool, TO(begins_turn), 0, 0 },
	{ "continue_final_message", CHAT, read_bool, TO(continues), 0, 0 },
	{ "prediction", CHAT, read_prediction, 0, 0, 0 },
	{ "reasoning_effort", CHAT, read_text, TO(reasoning_effort), 0, 0 },
	{ "chat_template_kwargs", BOTH, read_object, TO(template_kwargs), 0, 0 },
	{ "user", ALL, read_accepted, 0, 0, 0 },
	{ "echo", TEXT, read_bool, TO(echo), 0, 0 },
	{ "modalities", CHAT, read_modalities, 0, 0, 0 },
	{ "best_of", TEXT, read_one, 0, 0, 0 },
	{ "suffix", TEXT, read_text, TO(suffix), 0, 0 },
	{ "audio", CHAT, refuse, 0, 0, 0 },
	{ "functions", CHAT, refuse, 0, 0, 0 },
	{ "function_call", CHAT, refuse, 0, 0, 0 },
	{ "web_search_options", CHAT, refuse, 0, 0, 0 },
	{ "store", BOTH, refuse, 0, 0, 0 },
	{ "input", ANSWER, read_any, TO(input), 0, 0 },
	{ "model", EMBED, read_text, TO(model), 0, 0 },
	{ "input", EMBED, read_any, TO(prompt), 0, 0 },
	{ "dimensions", EMBED, read_count, TO(dimensions), 1, 65536 },
	{ "encoding_format", EMBED, read_encoding, 0, 0, 0 },
	{ "user", EMBED, read_accepted, 0, 0, 0 },
	{ "instructions", ANSWER, read_text, TO(instructions), 0, 0 },
	{ "max_output_tokens", ANSWER, read_tokens_max, TO(tokens_max), 0, 0 },
	{ "text", ANSWER, read_constraint, 0, 0, 0 },
	{ "reasoning", ANSWER, read_reasoning, 0, 0, 0 },
	{ "metadata", ANSWER, read_accepted, 0, 0, 0 },
	{ "truncation", ANSWER, read_truncation, 0, 0, 0 },
	{ "previous_response_id", ANSWER, refuse, 0, 0, 0 },
	{ "conversation", ANSWER, refuse, 0, 0, 0 },
	{ "background", ANSWER, refuse, 0, 0, 0 },
	{ "include", ANSWER, refuse, 0, 0, 0 },
	{ "prompt", ANSWER, refuse, 0, 0, 0 },
	{ "max_tool_calls", ANSWER, refuse, 0, 0, 0 },
	{ "top_logprobs", ANSWER, refuse, 0, 0, 0 },
};

static const struct field *find_field(const char *name, enum request_kind kind)
{
	for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
		if (strcmp(fields[i].name, name) == 0 && (fields[i].kinds & kind))
			return &fields[i];
	return NULL;
}

#define IGNORED_NAME_MAX 64
#define IGNORED_MAX      1000

/* The names go into a header as a list, where '?' stands for what no header may have, and "..." for
 * what is too long. */
static void add_ignored(struct buf *out, const char *name)
{
	size_t len = strlen(name),
	       shown = len < IGNORED_NAME_MAX ? len : IGNORED_NAME_MAX;

	if (out->len > IGNORED_MAX) {
		if (memcmp(out->data + out->len - 3, "...", 3) != 0)
			buf_adds(out, ", ...");
		return;
	}
	if (out->len)
		buf_adds(out, ", ");
	for (size_t i = 0; i < shown; i++) {
		bool is_plain = name[i] > ' ' && name[i] < 0x7f && name[i] != ',';

		buf_addc(out, is_plain ? name[i] : '?');
	}
	if (shown < len)
		buf_adds(out, "...");
}

void request_ignore(struct request *q, const char *names)
{
	char *copy = xstrdup(names), *rest = copy, *name;

	while ((name = strsep(&rest, " ,")) != NULL)
		if (*name)
			add_ignored(&q->ignored, name);
	free(copy);
}

static int read_fields(struct request *q, struct api_error *e)
{
	const struct field *f;
	const char *name;
	json_t *v;
	void *next;

	json_object_foreach_safe(q->body, next, name, v) {
		f = find_field(name, q->kind);
		if (!f) {
			add_ignored(&q->ignored, name);
			json_object_del(q->body, name);
		} else if (!json_is_null(v) && f->read(q, f, v, e) < 0) {
			return -1;
		}
	}
	return 0;
}

static int check_tools(struct request *q, struct api_error *e)
{
	struct tools_error wrong;

	if (tools_read(&q->tools_read, q->tools, q->tool_choice, q->parallel_tool_calls,
		    &wrong) == 0)
		return q->pattern && q->tools_read.mode != TOOLS_OFF ?
			api_error_set(e, 400, "unsupported_parameter", q->held_to,
				"'%s' together with 'tools' is not supported by this server",
				q->held_to) :
			0;
	return api_error_set(e, 400, "invalid_value", wrong.where, "'%s' must be %s",
		wrong.where, wrong.what);
}

static int check_together(struct request *q, struct api_error *e)
{
	if (q->kind == REQUEST_RESPONSE && request_read_input(q, e) < 0)
		return -1;
	if ((q->kind & CHAT) && !q->messages)
		return api_error_set(e, 400, "missing_required_parameter", "messages",
			"'messages' is missing");
	if (request_has_prompts(q) && !q->prompt)
		return api_error_set(e, 400, "missing_required_parameter",
			q->kind == TEXT ? "prompt" : "input", "'%s' is missing",
			q->kind == TEXT ? "prompt" : "input");
	if (q->kind == REQUEST_CHAT && q->top_logprobs && !q->logprobs)
		return api_error_set(e, 400, "invalid_value", "top_logprobs",
			"'top_logprobs' needs 'logprobs'");
	if (q->echo && q->logprobs && q->suffix)
		return api_error_set(e, 400, "unsupported_parameter", "suffix",
			"'suffix' with 'echo' and 'logprobs' is not supported by this server");
	if (q->sampling.top_p <= 0)
		return bad(e, "top_p", "above 0");
	if (q->messages && request_check_messages(q, e) < 0)
		return -1;
	return check_tools(q, e);
}

int request_take(struct request *q, enum request_kind kind, json_t *body,
	struct api_error *e)
{
	*q = (struct request){ .kind = kind,
		.tokens_max = -1,
		.n = 1,
		.parallel_tool_calls = true,
		.begins_turn = true,
		.body = body };
	lm_sampling_defaults(&q->sampling, 0);
	if (!json_is_object(body))
		return api_error_set(e, 400, "invalid_json", NULL,
			"the body must be a JSON object");
	return read_fields(q, e) < 0 ? -1 : check_together(q, e);
}

int request_parse(struct request *q, enum request_kind kind, const char *text, size_t len,
	struct api_error *e)
{
	json_t *body = json_parse_bounded(text, len, REQUEST_DEPTH_MAX, REQUEST_ROOM(len),
		"body");

	if (body)
		return request_take(q, kind, body, e);
	*q = (struct request){ 0 };
	return api_error_set(e, 400, "invalid_json", NULL, "%s", err_get()->text);
}

void request_forget(struct request *q)
{
	static const char *const read[] = { "messages", "messages as a chat has them",
		"input", "prompt", "prediction", "chat_template_kwargs" };

	q->messages = q->input = q->prompt = q->prediction = q->template_kwargs = NULL;
	for (size_t i = 0; i < sizeof read / sizeof *read; i++)
		json_object_del(q->body, read[i]);
}

void request_release(struct request *q)
{
	json_decref(q->body);
	json_decref(q->format_made);
	free(q->pattern);
	free(q->bias);
	tools_release(&q->tools_read);
	buf_release(&q->ignored);
	*q = (struct request){ 0 };
}
