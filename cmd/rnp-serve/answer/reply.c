/* reply.c - formats answers as OpenAI's chat and completions APIs do. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cmd/rnp-serve/answer/completion.h"
#include "common/base/clock.h"
#include "common/json/canon.h"
#include "common/json/json.h"

static void add_string(struct buf *out, const char *key, const struct buf *text)
{
	buf_addf(out, "\"%s\":", key);
	canon_string(out, buf_text(text), text->len);
}

static void add_head(const struct completion *x, struct buf *out, const char *object)
{
	buf_addf(out,
		"{\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,\"model\":", x->id,
		object, (long long)x->created);
	canon_string(out, completion_model_name(x), strlen(completion_model_name(x)));
}

static void add_finish(struct buf *out, const struct choice *c)
{
	if (c->ended && c->finish)
		buf_addf(out, ",\"finish_reason\":\"%s\"}", c->finish);
	else
		buf_adds(out, ",\"finish_reason\":null}");
}

static double ms(int64_t from, int64_t to)
{
	return from && to > from ? (double)((to - from) / 1000) / 1000 : 0;
}

/* Appends tokens and times of the whole request. */
static void add_usage(const struct completion *x, struct buf *out)
{
	const struct lm_answer *first = &x->choices[0].answer;
	uint32_t tokens = 0, proposed = 0, accepted = 0;
	int64_t now = clock_mono_ns();
	double decode = ms(x->first_ns, now);

	for (uint32_t i = 0; i < x->count; i++) {
		tokens += x->choices[i].tokens;
		proposed += x->choices[i].answer.proposed;
		accepted += x->choices[i].answer.accepted;
	}
	buf_addf(out,
		"\"usage\":{\"prompt_tokens\":%u,\"completion_tokens\":%u,\"total_tokens\":%u,"
		"\"prompt_tokens_details\":{\"cached_tokens\":%u},"
		"\"completion_tokens_details\":{\"accepted_prediction_tokens\":%u,"
		"\"rejected_prediction_tokens\":%u}},",
		x->prompt_tokens, tokens, x->prompt_tokens + tokens, x->cached_tokens,
		accepted, proposed - accepted);
	buf_adds(out, "\"timings\":{\"queue_ms\":");
	canon_number(out, ms(x->started_ns, first->admitted_ns));
	buf_adds(out, ",\"first_token_ms\":");
	canon_number(out, ms(x->started_ns, x->first_ns));
	buf_adds(out, ",\"decode_ms\":");
	canon_number(out, decode);
	buf_adds(out, ",\"tokens_per_s\":");
	canon_number(out,
		decode > 0 && tokens > 1 ? round((tokens - 1) * 1e5 / decode) / 100 : 0);
	buf_addc(out, '}');
}

/* Appends the chunk with usage, if the client asked for it, and the end of the stream. */
static void end_stream(struct completion *x, struct buf *out, const char *object)
{
	if (x->request.include_usage) {
		buf_adds(out, "data: ");
		add_head(x, out, object);
		buf_adds(out, ",\"choices\":[],");
		add_usage(x, out);
		buf_adds(out, "}\n\n");
	}
	buf_adds(out, "data: [DONE]\n\n");
}

/* --- chat --------------------------------------------------------------------------------- */

static void add_chat_logprobs(struct buf *out, const struct choice *c)
{
	if (!c->told.token) {
		buf_adds(out, ",\"logprobs\":null");
		return;
	}
	buf_adds(out, ",\"logprobs\":{\"content\":");
	text_logprobs_write_list(out, &c->told);
	buf_adds(out, ",\"refusal\":null}");
}

static void begin_chat_chunk(struct completion *x, struct choice *c, struct buf *out)
{
	buf_adds(out, "data: ");
	add_head(x, out, "chat.completion.chunk");
	buf_addf(out, ",\"choices\":[{\"index\":%u,\"delta\":{", c->index);
}

static void end_chat_chunk(struct completion *x, struct buf *out)
{
	buf_adds(out, x->request.include_usage ? "],\"usage\":null}\n\n" : "]}\n\n");
}

static void add_delta(struct completion *x, struct choice *c, struct buf *out,
	const char *key, const struct buf *text, bool logprobs)
{
	begin_chat_chunk(x, c, out);
	add_string(out, key, text);
	buf_addc(out, '}');
	if (logprobs)
		add_chat_logprobs(out, c);
	buf_adds(out, ",\"finish_reason\":null}");
	end_chat_chunk(x, out);
}

/* Appends what is new of a call: its name first, then pieces of its arguments. */
static void add_call_delta(struct completion *x, struct choice *c, uint32_t i,
	struct buf *out)
{
	struct call *call = &c->calls.at[i];

	begin_chat_chunk(x, c, out);
	buf_addf(out, "\"tool_calls\":[{\"index\":%u", i);
	if (!call->told) {
		buf_adds(out, ",\"id\":");
		canon_string(out, call->id, strlen(call->id));
		buf_adds(out, ",\"type\":\"function\"");
	}
	buf_adds(out, ",\"function\":{");
	if (!call->told) {
		add_string(out, "name", &call->name);
		buf_addc(out, ',');
	}
	buf_adds(out, "\"arguments\":");
	canon_string(out, buf_text(&call->arguments) + call->sent,
		call->arguments.len - call->sent);
	buf_adds(out, "}}]},\"finish_reason\":null}");
	end_chat_chunk(x, out);
	call->told = true;
	call->sent = call->arguments.len;
}

static void chat_chunk(struct completion *x, struct choice *c, struct buf *out)
{
	bool logprobs = text_logprobs_any(&c->told);

	if (!c->role_sent) {
		begin_chat_chunk(x, c, out);
		buf_adds(out,
			"\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}");
		end_chat_chunk(x, out);
		c->role_sent = true;
	}
	if (c->reasoning.len)
		add_delta(x, c, out, "reasoning_content", &c->reasoning,
			logprobs && !c->content.len);
	if (c->content.len || (logprobs && !c->reasoning.len))
		add_delta(x, c, out, "content", &c->content, logprobs);
	for (uint32_t i = 0; i < c->calls.count; i++)
		if (!c->calls.at[i].told ||
			c->calls.at[i].sent < c->calls.at[i].arguments.len)
			add_call_delta(x, c, i, out);
	if (c->ended) {
		begin_chat_chunk(x, c, out);
		buf_addc(out, '}');
		add_finish(out, c);
		end_chat_chunk(x, out);
	}
}

static void chat_end(struct completion *x, struct buf *out)
{
	end_stream(x, out, "chat.completion.chunk");
}

static void add_calls(struct buf *out, const struct choice *c)
{
	buf_adds(out, ",\"tool_calls\":[");
	for (uint32_t i = 0; i < c->calls.count; i++) {
		const struct call *call = &c->calls.at[i];

		buf_addf(out, "%s{\"id\":", i ? "," : "");
		canon_string(out, call->id, strlen(call->id));
		buf_adds(out, ",\"type\":\"function\",\"function\":{");
		add_string(out, "name", &call->name);
		buf_addc(out, ',');
		add_string(out, "arguments", &call->arguments);
		buf_adds(out, "}}");
	}
	buf_addc(out, ']');
}

static void chat_whole(struct completion *x, struct buf *out)
{
	add_head(x, out, "chat.completion");
	buf_adds(out, ",\"choices\":[");
	for (uint32_t i = 0; i < x->count; i++) {
		const struct choice *c = &x->choices[i];

		buf_addf(out, "%s{\"index\":%u,\"message\":{\"role\":\"assistant\",",
			i ? "," : "", c->index);
		if (c->calls.count && !c->content.len)
			buf_adds(out, "\"content\":null");
		else
			add_string(out, "content", &c->content);
		if (c->calls.count)
			add_calls(out, c);
		if (c->reasoning.len) {
			buf_addc(out, ',');
			add_string(out, "reasoning_content", &c->reasoning);
		}
		buf_adds(out, ",\"refusal\":null}");
		add_chat_logprobs(out, c);
		add_finish(out, c);
	}
	buf_adds(out, "],");
	add_usage(x, out);
	buf_adds(out, "}\n");
}

const struct reply_format reply_chat = {
	.id_prefix = "chatcmpl-",
	.chunk = chat_chunk,
	.end = chat_end,
	.whole = chat_whole,
};

/* --- completions -------------------------------------------------------------------------- */

static void add_text_choice(struct buf *out, const struct choice *c)
{
	const struct completion *x = c->x;
	/* the first of the answers to a prompt has what is told of it, unless they are streamed */
	const struct choice *first = x->request.stream ?
		c :
		&x->choices[c->index - c->index % x->request.n];

	buf_addf(out, "{\"index\":%u,", c->index);
	add_string(out, "text", &c->content);
	buf_adds(out, ",\"logprobs\":");
	if (c->told.token)
		text_logprobs_write(out, x->request.echo ? &first->prompt_told : NULL,
			&c->told);
	else
		buf_adds(out, "null");
	add_finish(out, c);
}

static void text_chunk(struct completion *x, struct choice *c, struct buf *out)
{
	buf_adds(out, "data: ");
	add_head(x, out, "text_completion");
	buf_adds(out, ",\"choices\":[");
	add_text_choice(out, c);
	end_chat_chunk(x, out);
}

static void text_end(struct completion *x, struct buf *out)
{
	end_stream(x, out, "text_completion");
}

static void text_whole(struct completion *x, struct buf *out)
{
	add_head(x, out, "text_completion");
	buf_adds(out, ",\"choices\":[");
	for (uint32_t i = 0; i < x->count; i++) {
		if (i)
			buf_addc(out, ',');
		add_text_choice(out, &x->choices[i]);
	}
	buf_adds(out, "],");
	add_usage(x, out);
	buf_adds(out, "}\n");
}

const struct reply_format reply_completion = {
	.id_prefix = "cmpl-",
	.chunk = text_chunk,
	.end = text_end,
	.whole = text_whole,
};
