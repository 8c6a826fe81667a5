/* fuzz_reply.c - fuzz target: a model's text, as the answer of each of the APIs, streamed and
 * whole.
 *
 * uses: cmd/rnp-serve
 *
 * Byte 0 selects the API (bits 0 and 1), whether tools may be called (bit 2) and where the text
 * is divided (the other bits); the rest is the text, in which what is not UTF-8 is replaced as
 * the decoder of tokens does. It checks that every event is one line of JSON, that events are
 * numbered without a gap, and that what a client puts together from the pieces of a stream is
 * what it gets from an answer that is not streamed: text, reasoning, and calls. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-serve/answer/completion.h"
#include "common/base/err.h"
#include "common/base/utf8.h"
#include "common/json/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool promise)
{
	if (!promise)
		abort();
}

/* What a client has of an answer. */
struct heard {
	struct buf text, reasoning, calls;
	bool ended;
};

/* One answer that is being written. */
struct answer {
	struct completion x;
	struct choice c;
	struct model_slot model;
	struct tools tools;
	json_t *tools_given;
	struct heard heard;
	int64_t events;
};

static void add(struct buf *out, const json_t *text)
{
	buf_add(out, json_string_value(text), json_string_length(text));
}

/* A call begins where its name comes; its arguments follow. */
static void hear_calls(struct heard *h, const json_t *calls)
{
	json_t *call;
	size_t i;

	json_array_foreach(calls, i, call) {
		const json_t *f = json_object_get(call, "function");

		if (json_object_get(f, "name")) {
			buf_adds(&h->calls, "\n");
			add(&h->calls, json_object_get(f, "name"));
			buf_adds(&h->calls, ":");
		}
		add(&h->calls, json_object_get(f, "arguments"));
	}
}

/* Of a chat or a completion, a piece or the whole. */
static void hear_choice(struct heard *h, const json_t *choice, const char *of)
{
	const json_t *said = json_object_get(choice, of);

	add(&h->text, json_object_get(choice, "text"));
	add(&h->text, json_object_get(said, "content"));
	add(&h->reasoning, json_object_get(said, "reasoning_content"));
	hear_calls(h, json_object_get(said, "tool_calls"));
	h->ended |= json_is_string(json_object_get(choice, "finish_reason"));
}

static void hear_response(struct answer *a, const json_t *v)
{
	const char *type = json_string_value(json_object_get(v, "type"));
	const json_t *delta = json_object_get(v, "delta"),
		     *item = json_object_get(v, "item");
	struct heard *h = &a->heard;

	must(type &&
		json_integer_value(json_object_get(v, "sequence_number")) == a->events);
	if (strcmp(type, "response.output_text.delta") == 0)
		add(&h->text, delta);
	else if (strcmp(type, "response.reasoning_text.delta") == 0)
		add(&h->reasoning, delta);
	else if (strcmp(type, "response.function_call_arguments.delta") == 0)
		add(&h->calls, delta);
	else if (strcmp(type, "response.output_item.added") == 0 &&
		json_object_get(item, "name")) {
		buf_adds(&h->calls, "\n");
		add(&h->calls, json_object_get(item, "name"));
		buf_adds(&h->calls, ":");
	}
	h->ended |= strcmp(type, "response.completed") == 0;
}

static void hear_whole_response(struct heard *h, const json_t *v)
{
	json_t *item;
	size_t i;

	json_array_foreach(json_object_get(v, "output"), i, item) {
		const json_t *part = json_array_get(json_object_get(item, "content"), 0);

		if (json_object_get(item, "name")) {
			buf_adds(&h->calls, "\n");
			add(&h->calls, json_object_get(item, "name"));
			buf_adds(&h->calls, ":");
			add(&h->calls, json_object_get(item, "arguments"));
		} else {
			add(json_object_get(item, "summary") ? &h->reasoning : &h->text,
				json_object_get(part, "text"));
		}
	}
	h->ended = true;
}

/* Reads the events of a stream as a client does: "event: TYPE", "data: JSON", an empty line. */
static void hear_events(struct answer *a, const struct buf *out)
{
	bool response = a->x.format == &reply_response;
	const char *at = buf_text(out), *end = at + out->len, *stop;

	for (; at < end; at = stop + 2) {
		const char *data;
		json_t *v;

		stop = strstr(at, "\n\n");
		must(stop != NULL);
		data = response ? memchr(at, '\n', (size_t)(stop - at)) : at - 1;
		must(data && strncmp(data + 1, "data: ", 6) == 0);
		data += 7;
		must(!memchr(data, '\n', (size_t)(stop - data)));
		if (!response && strncmp(data, "[DONE]", 6) == 0)
			continue;
		v = json_parse_object(data, (size_t)(stop - data), "event");
		must(v != NULL);
		if (response)
			hear_response(a, v);
		else
			hear_choice(&a->heard,
				json_array_get(json_object_get(v, "choices"), 0),
				"delta");
		a->events++;
		json_decref(v);
	}
}

/* Writes what is new, as the writer does. */
static void write_stream(struct answer *a)
{
	struct buf out = BUF_INIT;

	a->x.format->chunk(&a->x, &a->c, &out);
	buf_reset(&a->c.content);
	buf_reset(&a->c.reasoning);
	if (a->c.ended) {
		a->c.finish = NULL;
		a->x.format->end(&a->x, &out);
	}
	hear_events(a, &out);
	buf_release(&out);
}

static void write_whole(struct answer *a)
{
	struct buf out = BUF_INIT;
	json_t *v;

	a->x.format->whole(&a->x, &out);
	v = json_parse_object(out.data, out.len, "answer");
	must(v != NULL);
	if (a->x.format == &reply_response)
		hear_whole_response(&a->heard, v);
	else
		hear_choice(&a->heard, json_array_get(json_object_get(v, "choices"), 0),
			"message");
	json_decref(v);
	buf_release(&out);
}

/* Takes a piece through the filter, and its content to the calls. */
static void push(struct answer *a, const char *text, size_t len, bool last)
{
	struct buf content = BUF_INIT;

	if (last)
		filter_end(&a->c.filter, &content, &a->c.reasoning);
	else
		filter_push(&a->c.filter, text, len, &content, &a->c.reasoning);
	if (!a->c.calls.tools) {
		buf_add(&a->c.content, buf_text(&content), content.len);
	} else {
		calls_push(&a->c.calls, buf_text(&content), content.len, &a->c.content);
		if (last)
			calls_end(&a->c.calls, &a->c.content);
	}
	buf_release(&content);
}

/* A format of calls that is known without a template. */
static void use_tools(struct answer *a)
{
	static const char tools[] =
		"[{\"type\":\"function\",\"function\":{\"name\":\"get\"}},"
		"{\"type\":\"function\",\"function\":{\"name\":\"get_b\"}}]";
	struct call_format *f = &a->model.calls;
	struct tools_error e;

	f->open[0] = (char *)"<c>{\"name\": \"";
	f->open[1] = (char *)"}</c><c>{\"name\": \"";
	f->middle[0] = f->middle[1] = (char *)"\", \"arguments\": ";
	f->close = (char *)"}</c>";
	f->mark = (char *)"<c>";
	f->most = 2;
	a->tools_given = json_parse(tools, strlen(tools), 8, "tools");
	must(tools_read(&a->tools, a->tools_given, NULL, true, &e) == 0);
	calls_init(&a->c.calls, f, &a->tools);
}

static void answer(struct answer *a, const struct reply_format *format, bool tools,
	bool stream, const struct buf *text, size_t step)
{
	*a = (struct answer){ .model = { .name = (char *)"a \"model\"" } };
	a->x = (struct completion){ .format = format,
		.model = &a->model,
		.choices = &a->c,
		.count = 1,
		.id = "id",
		.request = { .n = 1, .stream = stream, .include_usage = true } };
	a->c.x = &a->x;
	filter_init(&a->c.filter, NULL, 0, format != &reply_completion, false);
	if (tools)
		use_tools(a);
	for (size_t i = 0, n, pieces = 0; i < text->len; i += n) {
		n = text->len - i < step ? text->len - i : step;
		while (i + n < text->len && (text->data[i + n] & 0xc0) == 0x80)
			n++; /* a piece ends with a character */
		push(a, text->data + i, n, false);
		if (stream && pieces++ % 3 == 0)
			write_stream(a);
	}
	push(a, "", 0, true);
	a->c.ended = true;
	a->c.finish = a->c.outcome = a->c.calls.count ? "tool_calls" : "stop";
	if (stream)
		write_stream(a);
	else
		write_whole(a);
	must(a->heard.ended);
}

static void answer_release(struct answer *a)
{
	filter_release(&a->c.filter);
	calls_release(&a->c.calls);
	tools_release(&a->tools);
	json_decref(a->tools_given);
	buf_release(&a->c.content);
	buf_release(&a->c.reasoning);
	buf_release(&a->c.whole_text);
	buf_release(&a->c.whole_reasoning);
	buf_release(&a->heard.text);
	buf_release(&a->heard.reasoning);
	buf_release(&a->heard.calls);
}

static void same(const struct buf *a, const struct buf *b)
{
	must(a->len == b->len && (!a->len || memcmp(a->data, b->data, a->len) == 0));
}

/* Appends the text as a decoder of tokens gives it: whole characters, without NUL. */
static void decoded(struct buf *out, const char *text, size_t len)
{
	for (size_t i = 0, n; i < len; i += n) {
		n = 1;
		while (n < 4 && i + n < len && (text[i + n] & 0xc0) == 0x80)
			n++;
		if (text[i] && utf8_valid(text + i, n))
			buf_add(out, text + i, n);
		else
			buf_adds(out, "\xef\xbf\xbd");
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct reply_format *const formats[] = { &reply_chat,
		&reply_response, &reply_completion };
	static struct answer whole, streamed;
	const struct reply_format *format;
	struct buf text = BUF_INIT;
	bool tools;

	if (!size || size > 8192)
		return 0;
	format = formats[(data[0] & 3) % 3];
	tools = data[0] & 4 && format != &reply_completion;
	decoded(&text, (const char *)data + 1, size - 1);
	answer(&whole, format, tools, false, &text, text.len ? text.len : 1);
	answer(&streamed, format, tools, true, &text, 1 + (data[0] >> 3));
	same(&whole.heard.text, &streamed.heard.text);
	same(&whole.heard.reasoning, &streamed.heard.reasoning);
	same(&whole.heard.calls, &streamed.heard.calls);
	answer_release(&whole);
	answer_release(&streamed);
	buf_release(&text);
	err_clear();
	return 0;
}
