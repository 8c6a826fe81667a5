/* reply_response.c - formats answers as OpenAI's responses API does: output items, and an event
 * for each step of an item. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cmd/rnp-serve/answer/completion.h"
#include "common/base/err.h"
#include "common/json/canon.h"
#include "common/json/json.h"

/* --- the response object ------------------------------------------------------------------ */

static void add_string(struct buf *out, const struct buf *text)
{
	canon_string(out, buf_text(text), text->len);
}

static void add_reasoning_item(const struct completion *x, struct buf *out,
	const struct buf *text, bool done)
{
	buf_addf(out,
		"{\"id\":\"rs_%s\",\"type\":\"reasoning\",\"status\":\"%s\",\"summary\":[]",
		x->id, done ? "completed" : "in_progress");
	if (done) {
		buf_adds(out, ",\"content\":[{\"type\":\"reasoning_text\",\"text\":");
		add_string(out, text);
		buf_adds(out, "}]");
	}
	buf_addc(out, '}');
}

static void add_part(struct buf *out, const struct buf *text)
{
	buf_adds(out,
		"{\"type\":\"output_text\",\"annotations\":[],\"logprobs\":[],\"text\":");
	add_string(out, text);
	buf_addc(out, '}');
}

static void add_message_item(const struct completion *x, struct buf *out,
	const struct buf *text, const char *status)
{
	buf_addf(out,
		"{\"id\":\"msg_%s\",\"type\":\"message\",\"status\":\"%s\","
		"\"role\":\"assistant\",\"content\":[",
		x->id, status);
	if (text)
		add_part(out, text);
	buf_adds(out, "]}");
}

/* Appends a function call as an output item; done: with its arguments. */
static void add_call_item(const struct completion *x, const struct choice *c, uint32_t i,
	struct buf *out, bool done)
{
	const struct call *call = &c->calls.at[i];
	const struct buf empty = BUF_INIT;

	buf_addf(out,
		"{\"id\":\"fc_%s_%u\",\"type\":\"function_call\",\"status\":\"%s\",\"call_id\":",
		x->id, i,
		!done                  ? "in_progress" :
			call->complete ? "completed" :
					 "incomplete");
	canon_string(out, call->id, strlen(call->id));
	buf_adds(out, ",\"name\":");
	add_string(out, &call->name);
	buf_adds(out, ",\"arguments\":");
	add_string(out, done ? &call->arguments : &empty);
	buf_addc(out, '}');
}

/* The outcome is not known yet where calls follow a text: that is whole. */
static const char *item_status(const struct choice *c)
{
	return c->outcome && strcmp(c->outcome, "length") == 0 ? "incomplete" :
								 "completed";
}

static void add_usage(const struct completion *x, const struct choice *c, struct buf *out)
{
	buf_addf(out,
		"{\"input_tokens\":%u,\"input_tokens_details\":{\"cached_tokens\":%u},"
		"\"output_tokens\":%u,\"output_tokens_details\":{\"reasoning_tokens\":0},"
		"\"total_tokens\":%u}",
		x->prompt_tokens, x->cached_tokens, c->tokens,
		x->prompt_tokens + c->tokens);
}

static void add_value(struct buf *out, const char *key, const json_t *v,
	const char *without)
{
	buf_addf(out, ",\"%s\":", key);
	if (v && !json_is_null(v))
		json_write(out, v);
	else
		buf_adds(out, without);
}

/* Appends the output items: reasoning, text (there is none where all is calls), and calls. */
static void add_output(const struct completion *x, const struct choice *c,
	struct buf *out, const struct buf *said, const struct buf *thought)
{
	const char *comma = "";

	if (thought->len) {
		add_reasoning_item(x, out, thought, true);
		comma = ",";
	}
	if (said->len || !c->calls.count) {
		buf_adds(out, comma);
		add_message_item(x, out, said, item_status(c));
		comma = ",";
	}
	for (uint32_t i = 0; i < c->calls.count; i++) {
		buf_adds(out, comma);
		add_call_item(x, c, i, out, true);
		comma = ",";
	}
}

/* Appends the response object. said, thought: the content and the reasoning so far; with status
 * "in_progress" there is no output yet. */
static void add_response(const struct completion *x, const struct choice *c,
	struct buf *out, const char *status, const struct buf *said,
	const struct buf *thought)
{
	const json_t *body = x->request.body;
	bool done = strcmp(status, "in_progress") != 0;

	buf_addf(out,
		"{\"id\":\"resp_%s\",\"object\":\"response\",\"created_at\":%lld,\"status\":\"%s\"",
		x->id, (long long)x->created, status);
	buf_adds(out, ",\"model\":");
	canon_string(out, completion_model_name(x), strlen(completion_model_name(x)));
	buf_adds(out, ",\"output\":[");
	if (done)
		add_output(x, c, out, said, thought);
	buf_addf(out, "],\"error\":null,\"incomplete_details\":%s",
		strcmp(status, "incomplete") == 0 ? "{\"reason\":\"max_output_tokens\"}" :
						    "null");
	add_value(out, "instructions", json_object_get(body, "instructions"), "null");
	add_value(out, "max_output_tokens", json_object_get(body, "max_output_tokens"),
		"null");
	add_value(out, "metadata", json_object_get(body, "metadata"), "{}");
	add_value(out, "temperature", json_object_get(body, "temperature"), "1");
	add_value(out, "top_p", json_object_get(body, "top_p"), "1");
	add_value(out, "text", json_object_get(body, "text"),
		"{\"format\":{\"type\":\"text\"}}");
	add_value(out, "tools", json_object_get(body, "tools"), "[]");
	add_value(out, "tool_choice", json_object_get(body, "tool_choice"), "\"auto\"");
	add_value(out, "parallel_tool_calls",
		json_object_get(body, "parallel_tool_calls"), "true");
	buf_adds(out,
		",\"previous_response_id\":null,\"store\":false,\"truncation\":\"disabled\",\"usage\":");
	if (done)
		add_usage(x, c, out);
	else
		buf_adds(out, "null");
	buf_addc(out, '}');
}

/* --- events ------------------------------------------------------------------------------- */

static void begin_event(struct completion *x, struct buf *out, const char *type)
{
	buf_addf(out, "event: %s\ndata: {\"type\":\"%s\",\"sequence_number\":%llu", type,
		type, (unsigned long long)x->sequence++);
}

static void end_event(struct buf *out)
{
	buf_adds(out, "}\n\n");
}

/* Appends an event about one part of an item; its field `key` holds the text. */
static void part_event(struct completion *x, struct buf *out, const char *type,
	const char *prefix, uint32_t index, const char *key, const struct buf *text)
{
	begin_event(x, out, type);
	buf_addf(out,
		",\"item_id\":\"%s%s\",\"output_index\":%u,\"content_index\":0,\"%s\":",
		prefix, x->id, index, key);
	add_string(out, text);
	if (strncmp(type, "response.output_text", 20) == 0)
		buf_adds(out, ",\"logprobs\":[]");
	end_event(out);
}

static void begin_item_event(struct completion *x, struct buf *out, const char *type,
	uint32_t index)
{
	begin_event(x, out, type);
	buf_addf(out, ",\"output_index\":%u,\"item\":", index);
}

static void begin_response(struct completion *x, struct choice *c, struct buf *out)
{
	static const char *const types[] = { "response.created", "response.in_progress" };

	for (int i = 0; i < 2; i++) {
		begin_event(x, out, types[i]);
		buf_adds(out, ",\"response\":");
		add_response(x, c, out, "in_progress", NULL, NULL);
		end_event(out);
	}
}

static void reason(struct completion *x, struct choice *c, struct buf *out)
{
	if (!c->whole_reasoning.len) {
		begin_item_event(x, out, "response.output_item.added", 0);
		add_reasoning_item(x, out, &c->whole_reasoning, false);
		end_event(out);
	}
	part_event(x, out, "response.reasoning_text.delta", "rs_", 0, "delta",
		&c->reasoning);
	buf_add(&c->whole_reasoning, c->reasoning.data, c->reasoning.len);
}

static void end_reasoning(struct completion *x, struct choice *c, struct buf *out)
{
	c->reasoning_done = true;
	c->item = c->whole_reasoning.len > 0;
	if (!c->whole_reasoning.len)
		return;
	part_event(x, out, "response.reasoning_text.done", "rs_", 0, "text",
		&c->whole_reasoning);
	begin_item_event(x, out, "response.output_item.done", 0);
	add_reasoning_item(x, out, &c->whole_reasoning, true);
	end_event(out);
}

static void begin_message(struct completion *x, struct choice *c, struct buf *out)
{
	const struct buf empty = BUF_INIT;

	c->text_begun = true;
	begin_item_event(x, out, "response.output_item.added", c->item);
	add_message_item(x, out, NULL, "in_progress");
	end_event(out);
	begin_event(x, out, "response.content_part.added");
	buf_addf(out,
		",\"item_id\":\"msg_%s\",\"output_index\":%u,\"content_index\":0,\"part\":",
		x->id, c->item);
	add_part(out, &empty);
	end_event(out);
}

static void end_message(struct completion *x, struct choice *c, struct buf *out)
{
	part_event(x, out, "response.output_text.done", "msg_", c->item, "text",
		&c->whole_text);
	begin_event(x, out, "response.content_part.done");
	buf_addf(out,
		",\"item_id\":\"msg_%s\",\"output_index\":%u,\"content_index\":0,\"part\":",
		x->id, c->item);
	add_part(out, &c->whole_text);
	end_event(out);
	begin_item_event(x, out, "response.output_item.done", c->item);
	add_message_item(x, out, &c->whole_text, item_status(c));
	end_event(out);
}

/* Appends what is new of a call. Calls are output items after reasoning and text. */
static void call_events(struct completion *x, struct choice *c, uint32_t i,
	struct buf *out)
{
	struct call *call = &c->calls.at[i];
	uint32_t item = c->item + c->text_begun + i;

	if (!call->told) {
		begin_item_event(x, out, "response.output_item.added", item);
		add_call_item(x, c, i, out, false);
		end_event(out);
		call->told = true;
	}
	if (call->sent < call->arguments.len) {
		begin_event(x, out, "response.function_call_arguments.delta");
		buf_addf(out,
			",\"item_id\":\"fc_%s_%u\",\"output_index\":%u,\"delta\":", x->id,
			i, item);
		canon_string(out, buf_text(&call->arguments) + call->sent,
			call->arguments.len - call->sent);
		end_event(out);
		call->sent = call->arguments.len;
	}
	if (!call->closed && (call->complete || c->ended)) {
		begin_event(x, out, "response.function_call_arguments.done");
		buf_addf(out,
			",\"item_id\":\"fc_%s_%u\",\"output_index\":%u,\"name\":", x->id,
			i, item);
		add_string(out, &call->name);
		buf_adds(out, ",\"arguments\":");
		add_string(out, &call->arguments);
		end_event(out);
		begin_item_event(x, out, "response.output_item.done", item);
		add_call_item(x, c, i, out, true);
		end_event(out);
		call->closed = true;
	}
}

static void response_chunk(struct completion *x, struct choice *c, struct buf *out)
{
	bool calls = c->calls.count > 0;

	if (!c->role_sent) {
		begin_response(x, c, out);
		c->role_sent = true;
	}
	if (c->reasoning.len && !c->reasoning_done)
		reason(x, c, out);
	if ((c->content.len || c->ended || calls) && !c->reasoning_done)
		end_reasoning(x, c, out);
	if ((c->content.len || (c->ended && !calls)) && !c->text_begun)
		begin_message(x, c, out);
	if (c->content.len) {
		part_event(x, out, "response.output_text.delta", "msg_", c->item, "delta",
			&c->content);
		buf_add(&c->whole_text, c->content.data, c->content.len);
	}
	if (c->text_begun && !c->text_done && (c->ended || calls)) {
		end_message(x, c, out);
		c->text_done = true;
	}
	for (uint32_t i = 0; i < c->calls.count; i++)
		call_events(x, c, i, out);
}

static void response_end(struct completion *x, struct buf *out)
{
	struct choice *c = &x->choices[0];
	bool complete = strcmp(c->outcome, "length") != 0;

	begin_event(x, out, complete ? "response.completed" : "response.incomplete");
	buf_adds(out, ",\"response\":");
	add_response(x, c, out, complete ? "completed" : "incomplete", &c->whole_text,
		&c->whole_reasoning);
	end_event(out);
}

static void response_whole(struct completion *x, struct buf *out)
{
	struct choice *c = &x->choices[0];

	add_response(x, c, out,
		strcmp(c->outcome, "length") == 0 ? "incomplete" : "completed",
		&c->content, &c->reasoning);
	buf_addc(out, '\n');
}

/* An error's event has a type, a number, and what the error says outside of it, too. */
static void response_error(struct completion *x, const struct api_error *e,
	const struct buf *body, struct buf *out)
{
	buf_addf(out,
		"{\"type\":\"error\",\"sequence_number\":%llu,\"code\":\"%s\",\"param\":null,\"message\":",
		(unsigned long long)x->sequence++, e->code);
	canon_string(out, err_get()->text, strlen(err_get()->text));
	buf_addc(out, ',');
	buf_add(out, body->data + 1, body->len - 1);
}

const struct reply_format reply_response = {
	.id_prefix = "",
	.chunk = response_chunk,
	.end = response_end,
	.whole = response_whole,
	.error = response_error,
};
