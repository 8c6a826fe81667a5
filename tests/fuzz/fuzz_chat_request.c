/* fuzz_chat_request.c - fuzz target: requests from clients of the chat API, and text from a
 * model.
 *
 * uses: cmd/rnp-serve
 *
 * The first byte selects one of the two; then follows a body, or pieces of text with stop texts
 * before them. It checks that an accepted request is within its bounds, and that an error names
 * its cause and becomes an answer in JSON; that the output of a filter does not depend on how
 * the text was divided and contains no stop text. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-serve/request/error.h"
#include "cmd/rnp-serve/chat/filter.h"
#include "cmd/rnp-serve/chat/prompt.h"
#include "common/base/err.h"
#include "common/json/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool promise)
{
	if (!promise)
		abort();
}

/* What the client gets to read is JSON with the message, whatever its own text put there. */
static void check_error(const struct api_error *e)
{
	struct buf body = BUF_INIT;
	json_t *v, *error;

	must(e->status >= 400 && e->type && err_get()->code && *err_get()->text);
	api_error_body(&body, e);
	v = json_parse_object(body.data, body.len, "error");
	error = json_object_get(v, "error");
	must(json_string_length(json_object_get(error, "message")) > 0);
	must(json_is_string(json_object_get(error, "type")));
	json_decref(v);
	buf_release(&body);
}

static void check_request(enum request_kind kind, const char *text, size_t len)
{
	struct api_error e = { 0 };
	struct request q;
	struct buf content = BUF_INIT;
	uint32_t prompts;

	if (request_parse(&q, kind, text, len, &e) < 0) {
		check_error(&e);
	} else {
		must(q.n >= 1 && q.n <= REQUEST_CHOICES_MAX);
		must(q.stop_count <= REQUEST_STOPS_MAX);
		must(q.sampling.temperature >= 0 && q.sampling.temperature <= 2);
		must(q.sampling.top_p > 0 && q.sampling.top_p <= 1);
		must(q.top_logprobs <= LM_TOP_LOGPROBS_MAX);
		must(q.tokens_max >= -1 && (q.tokens_max || kind == REQUEST_COMPLETION));
		for (uint32_t i = 0; i < q.sampling.bias_count; i++)
			must(isfinite(q.sampling.bias[i].bias));
		for (size_t i = 0; i < json_array_size(q.messages); i++)
			request_content(&content,
				json_object_get(json_array_get(q.messages, i), "content"),
				"content", &e);
		must(q.tools_read.count <= TOOLS_MAX);
		must(q.tools_read.mode == TOOLS_OFF || q.tools_read.count);
		for (uint32_t i = 0; i < q.tools_read.count; i++)
			must((q.tools_read.at[i].strict ?
					     json_is_object(q.tools_read.at[i].schema) :
					     q.tools_read.at[i].schema != NULL) &&
				strlen(q.tools_read.at[i].name) <= TOOLS_NAME_BYTES);
		must(!q.held_to == (!q.response_format && !q.pattern));
		must(!q.ignored.len || !strpbrk(q.ignored.data, "\r\n"));
		if (prompt_count(&q, &prompts, &e) < 0)
			check_error(&e);
		else
			must(prompts >= 1 && prompts <= REQUEST_INPUTS_MAX);
		request_forget(&q);
	}
	err_clear();
	buf_release(&content);
	request_release(&q);
}

/* Passes a whole text in pieces of `step` bytes. */
static void filter_all(const char *const *stop, uint32_t stops, const char *text,
	size_t len, size_t step, struct buf *content, struct buf *reasoning)
{
	struct filter f;
	bool stopped = false;

	filter_init(&f, stop, stops, true, false);
	for (size_t i = 0; i < len && !stopped; i += step)
		stopped = filter_push(&f, text + i, len - i < step ? len - i : step,
			content, reasoning);
	if (!stopped)
		filter_end(&f, content, reasoning);
	filter_release(&f);
}

static bool same(const struct buf *a, const struct buf *b)
{
	return a->len == b->len && (!a->len || memcmp(a->data, b->data, a->len) == 0);
}

static void check_filter(const char *data, size_t len)
{
	char stops[2][9] = { "", "" };
	const char *list[2] = { stops[0], stops[1] };
	uint32_t n = 0;

	for (; n < 2 && len > 1 && data[0] > 0 && data[0] <= 8 && (size_t)data[0] < len;
		n++) {
		size_t bytes = (size_t)data[0];

		memcpy(stops[n], data + 1, bytes);
		if (strlen(stops[n]) != bytes)
			return;
		data += 1 + bytes;
		len -= 1 + bytes;
	}
	struct buf whole = BUF_INIT, thought = BUF_INIT;

	filter_all(list, n, data, len, len ? len : 1, &whole, &thought);
	for (size_t step = 1; step < 6; step++) {
		struct buf content = BUF_INIT, reasoning = BUF_INIT;

		filter_all(list, n, data, len, step, &content, &reasoning);
		must(same(&content, &whole) && same(&reasoning, &thought));
		buf_release(&content);
		buf_release(&reasoning);
	}
	for (uint32_t i = 0; i < n && whole.len; i++)
		must(!memmem(whole.data, whole.len, stops[i], strlen(stops[i])));
	buf_release(&whole);
	buf_release(&thought);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data + 1;

	if (!size)
		return 0;
	switch (data[0] % 4) {
	case 0:
		check_filter(text, size - 1);
		break;
	case 1:
		check_request(REQUEST_CHAT, text, size - 1);
		break;
	case 2:
		check_request(REQUEST_COMPLETION, text, size - 1);
		break;
	default:
		check_request(data[0] & 0x80   ? REQUEST_RESPONSE :
				data[0] & 0x40 ? REQUEST_EMBEDDING :
						 REQUEST_TEMPLATE,
			text, size - 1);
	}
	return 0;
}
