/* ask.c - rnp-serve ask: generates one answer and prints its text as it is generated. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-serve/commands.h"
#include "cmd/rnp-serve/model/handles.h"
#include "cmd/rnp-serve/options.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/utf8.h"
#include "common/json/json.h"
#include "common/lm/infer/chat.h"
#include "common/lm/infer/sample.h"
#include "common/lm/infer/stream.h"
#include "common/base/mem.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"

#define PROMPT_BYTES_MAX ((size_t)64 << 20)

static const char *model, *tokenizer, *device, *system_text, *chat_template, *cache_type,
	*adapter, *type;
static int64_t threads, tokens = 256, context, top_k = 40;
static double temperature = 0.8, top_p = 0.95, min_p, repetition = 1, presence, frequency;
static uint64_t seed = UINT64_MAX; /* not given */
static bool chat, json, echo;

static const struct opt opts[] = {
	OPT_MODEL(&model),
	OPT_TOKENIZER(&tokenizer),
	OPT_SWITCH("chat", &chat, "ask as the model's chat template says"),
	OPT(TEXT, "system", &system_text, "TEXT",
		"with --chat: what the system says first"),
	OPT(TEXT, "chat-template", &chat_template, "F|NAME",
		"with --chat: a Jinja file, or a format's name, instead of the model's",
		.words = LM_CHAT_NAMES),
	OPT(I64, "tokens", &tokens, "N", "at most this many tokens (default 256)",
		.letter = 'n', .min = 0),
	OPT(F64, "temperature", &temperature, "T",
		"0: always the most likely token (default 0.8)"),
	OPT(F64, "top-p", &top_p, "P",
		"choose among the most likely whose probabilities add up to P (default 0.95)"),
	OPT_IN(I64, "top-k", &top_k, "K", 0, LM_VOCAB_MAX,
		"choose among the K most likely; 0: all (default 40)"),
	OPT(F64, "min-p", &min_p, "P",
		"leave out what is less likely than P times the most likely (default 0: nothing)"),
	OPT(F64, "repetition-penalty", &repetition, "R",
		"above 1: tokens of prompt and answer become less likely (default 1)"),
	OPT(F64, "presence-penalty", &presence, "X",
		"lower the logit of a token that was answered before by X (default 0)"),
	OPT(F64, "frequency-penalty", &frequency, "X",
		"lower it by X for each time that it was (default 0)"),
	OPT(U64, "seed", &seed, "S",
		"the same seed gives the same answer (default: the time)",
		.max = JSON_SAFE_INTEGER_MAX),
	OPT_IN(I64, "context", &context, "N", 1, LM_CONTEXT_MAX,
		"tokens that the model sees (default: all it was made for)"),
	OPT_CACHE_TYPE(&cache_type),
	OPT_DEVICE(&device),
	OPT_THREADS(&threads),
	OPT_TYPE(&type),
	OPT(TEXT, "lora", &adapter, "DIR", "answer with this LoRA adapter of the model"),
	OPT_SWITCH("echo", &echo, "print the prompt before the answer"),
	OPT_SWITCH("json", &json, "one rnp.completion record instead of text"),
	{ 0 },
};

struct answer {
	struct model_handles handles;
	struct lm_stream *stream;
	struct buf prompt, ids, text; /* ids: uint32_t */
	struct lm_sampler sampler;
	float *logits;
	uint32_t prompt_tokens, made;
	int64_t prompt_ns, decode_ns;
	const char *finish;
};

static uint32_t ids_count(const struct answer *a)
{
	return (uint32_t)(a->ids.len / sizeof(uint32_t));
}

static int read_prompt(struct answer *a, int n, char **args)
{
	if (n && strcmp(args[0], "-") != 0) {
		buf_adds(&a->prompt, args[0]);
		return 0;
	}
	return io_read(&a->prompt, "-", PROMPT_BYTES_MAX);
}

static json_t *message(const char *role, const char *text, size_t bytes)
{
	json_t *m = json_object();

	json_object_set_new(m, "role", json_string(role));
	json_object_set_new(m, "content", json_stringn(text, bytes));
	return m;
}

/* Returns the question as a conversation, in the variables of a chat template, or NULL with
 * err_set(). */
static json_t *conversation(const struct buf *prompt)
{
	json_t *v, *messages;

	if (!utf8_valid(buf_text(prompt), prompt->len) ||
		(system_text && !utf8_valid(system_text, strlen(system_text)))) {
		err_set(EX_DATAERR, "the question is not UTF-8");
		return NULL;
	}
	v = json_object();
	messages = json_array();
	if (system_text)
		json_array_append_new(messages,
			message("system", system_text, strlen(system_text)));
	json_array_append_new(messages, message("user", buf_text(prompt), prompt->len));
	json_object_set_new(v, "messages", messages);
	json_object_set_new(v, "add_generation_prompt", json_true());
	return v;
}

static int encode_chat(struct answer *a)
{
	struct lm_chat *c = NULL;
	json_t *v = NULL;
	int rc = model_handles_chat(&a->handles, model, chat_template, &c);

	if (rc == 0) {
		v = conversation(&a->prompt);
		rc = v ? lm_chat_apply(c, v, clock_now_ms() / 1000, NULL, &a->ids) : -1;
	}
	json_decref(v);
	lm_chat_close(c);
	return rc;
}

static int encode(struct answer *a)
{
	int64_t bos = lm_token_bos(a->handles.token);

	if (chat)
		return encode_chat(a);
	if (bos >= 0 && lm_token_adds_bos(a->handles.token)) {
		uint32_t id = (uint32_t)bos;

		buf_add(&a->ids, &id, sizeof id);
	}
	return lm_token_encode(a->handles.token, &a->ids, buf_text(&a->prompt),
		a->prompt.len, true); /* as /v1/completions takes a prompt */
}

/* An empty prompt is refused: a model needs something to continue. */
static int check_prompt(struct answer *a)
{
	int64_t bos = lm_token_bos(a->handles.token);
	uint32_t id = bos < 0 ? 0 : (uint32_t)bos;

	if (!ids_count(a)) {
		if (bos < 0)
			return err_set(EX_DATAERR,
				"the prompt is empty, and the model has no BOS to begin with");
		buf_add(&a->ids, &id, sizeof id);
	}
	a->prompt_tokens = ids_count(a);
	if (a->prompt_tokens > lm_stream_context(a->stream))
		return err_set(EX_DATAERR, "the prompt has %u tokens, the context %u",
			a->prompt_tokens, lm_stream_context(a->stream));
	return 0;
}

/* Text is printed as it is generated, unless the output is one record. */
static int show(struct answer *a)
{
	int rc;

	if (json)
		return 0;
	rc = a->text.len ? out_text(a->text.data, a->text.len) : 0;
	if (rc == 0)
		rc = out_flush();
	buf_reset(&a->text);
	return rc;
}

/* For penalties, which count what was said before. */
static void remember_prompt(struct answer *a, uint32_t vocab)
{
	const uint32_t *ids = (const uint32_t *)(const void *)a->ids.data;

	if (!lm_sampling_penalises(&a->sampler.how))
		return;
	lm_history_init(&a->sampler.history, vocab);
	for (uint32_t i = 0; i < ids_count(a); i++)
		lm_history_prompt(&a->sampler.history, ids[i]);
}

static int speak(struct answer *a)
{
	uint32_t vocab = model_file_config(a->handles.model_file)->vocab, id;
	struct lm_detoken d;

	lm_detoken_init(&d, a->handles.token);
	/* the text continues a prompt, so its leading space is kept */
	d.started = a->prompt.len > 0 && !chat;
	a->finish = "length";
	/* the server starts at the same position, so both draw the same text */
	a->sampler.position = a->prompt_tokens;
	remember_prompt(a, vocab);
	while (a->made < tokens) {
		id = lm_sample(&a->sampler, a->logits, vocab);
		if (!isfinite(a->logits[id]))
			return err_set(EX_DATAERR,
				"%s: what the model computes is not finite", model);
		if (model_handles_ends(&a->handles, id)) {
			a->finish = "stop";
			break;
		}
		a->made++;
		if (id < lm_token_count(a->handles.token) &&
			lm_detoken_push(&d, &a->text, id) < 0)
			return -1;
		if (show(a) < 0)
			return -1;
		if (lm_stream_length(a->stream) == lm_stream_context(a->stream))
			break;
		if (a->made < tokens && lm_stream_feed(a->stream, &id, 1, a->logits) < 0)
			return -1;
	}
	lm_detoken_end(&d, &a->text);
	if (!json)
		buf_addc(&a->text, '\n');
	return show(a);
}

static int respond(struct answer *a)
{
	int64_t started = clock_mono_ns(), ready;

	if (lm_stream_feed(a->stream, (const uint32_t *)(void *)a->ids.data,
		    a->prompt_tokens, a->logits) < 0)
		return -1;
	ready = clock_mono_ns();
	a->prompt_ns = ready - started;
	if (echo && !json && out_text(buf_text(&a->prompt), a->prompt.len) < 0)
		return -1;
	if (speak(a) < 0)
		return -1;
	a->decode_ns = clock_mono_ns() - ready;
	return 0;
}

static double rate(uint32_t n, int64_t ns)
{
	return ns > 0 ? n * 1e9 / (double)ns : 0;
}

/* A model may generate NUL, which our records cannot represent. */
static void set_answer(json_t *record, const struct buf *text)
{
	struct buf clean = BUF_INIT;

	for (size_t i = 0; i < text->len; i++)
		if (text->data[i])
			buf_addc(&clean, text->data[i]);
		else
			buf_adds(&clean, "\xef\xbf\xbd");
	json_set_text(record, "text", buf_text(&clean));
	buf_release(&clean);
}

static int report(struct answer *a)
{
	json_t *record;
	int rc;

	prog_detail("%u tokens of prompt at %.0f tokens/s, %u of answer at %.0f tokens/s",
		a->prompt_tokens, rate(a->prompt_tokens, a->prompt_ns), a->made,
		rate(a->made, a->decode_ns));
	if (!json)
		return 0;
	record = json_record("rnp.completion");
	json_set_text(record, "model", model);
	json_set_text(record, "device", a->handles.d.name);
	set_answer(record, &a->text);
	json_set_text(record, "finish", a->finish);
	json_set_i64(record, "prompt_tokens", a->prompt_tokens);
	json_set_i64(record, "tokens", a->made);
	json_set_i64(record, "prompt_ns", a->prompt_ns);
	json_set_i64(record, "decode_ns", a->decode_ns);
	if (temperature > 0)
		json_set_i64(record, "seed", (int64_t)seed);
	rc = out_record(record);
	json_decref(record);
	return rc;
}

static int answer(struct answer *a, int n, char **args)
{
	enum lm_cache_type cache = LM_CACHE_F16;
	const struct lm_config *c;

	if ((cache_type && lm_cache_type_find(&cache, cache_type) < 0) ||
		model_handles_open(&a->handles, model, tokenizer, device, type) < 0 ||
		model_handles_weights(&a->handles) < 0 ||
		(adapter && lm_weights_adapt(a->handles.weights, adapter) < 0) ||
		read_prompt(a, n, args) < 0 || encode(a) < 0)
		return -1;
	c = model_file_config(a->handles.model_file);
	model_handles_check_context(a->handles.model_file, model, context);
	if (!context && tokens < (int64_t)c->context - (int64_t)ids_count(a))
		context = ids_count(a) + tokens + 1; /* no more memory than needed */
	if (lm_stream_open(&a->stream, a->handles.weights, (uint32_t)context, cache) <
			0 ||
		check_prompt(a) < 0)
		return -1;
	if (adapter)
		lm_stream_adapt(a->stream, 1);
	a->logits = xmalloc(c->vocab * sizeof *a->logits);
	return respond(a) < 0 ? -1 : report(a);
}

static int check_options(void)
{
	const struct {
		const char *option;
		double value, from, to;
	} numbers[] = { { "temperature", temperature, 0, 100 }, { "min-p", min_p, 0, 1 },
		{ "repetition-penalty", repetition, 0.01, 100 },
		{ "presence-penalty", presence, -2, 2 },
		{ "frequency-penalty", frequency, -2, 2 } };

	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		if (!(numbers[i].value >= numbers[i].from &&
			    numbers[i].value <= numbers[i].to))
			return err_set(EX_USAGE, "--%s: from %g to %g", numbers[i].option,
				numbers[i].from, numbers[i].to);
	if (!(top_p > 0 && top_p <= 1))
		return err_set(EX_USAGE, "--top-p: above 0, at most 1");
	if (system_text && !chat)
		return err_set(EX_USAGE, "--system: only with --chat");
	if (chat_template && !chat)
		return err_set(EX_USAGE, "--chat-template: only with --chat");
	return 0;
}

static int run(int n, char **args)
{
	struct answer a = { .handles = MODEL_HANDLES_INIT };
	int rc = check_options();

	team_resize((int)threads);
	if (seed ==
		UINT64_MAX) /* small enough for a JSON number, so that users can pass it again */
		seed = (uint64_t)clock_mono_ns() & 0xffffffff;
	lm_sampler_init(&a.sampler, seed);
	a.sampler.how.temperature = temperature;
	a.sampler.how.top_p = top_p;
	a.sampler.how.top_k = (uint32_t)top_k;
	a.sampler.how.min_p = min_p;
	a.sampler.how.repetition_penalty = repetition;
	a.sampler.how.presence_penalty = presence;
	a.sampler.how.frequency_penalty = frequency;
	if (rc == 0)
		rc = answer(&a, n, args);
	lm_stream_close(a.stream);
	model_handles_release(&a.handles);
	lm_sampler_release(&a.sampler);
	buf_release(&a.prompt);
	buf_release(&a.ids);
	buf_release(&a.text);
	free(a.logits);
	return rc < 0 ? err_report() : EX_OK;
}

const struct command command_ask = {
	.name = "ask",
	.arguments = "[TEXT]",
	.args_max = 1,
	.summary = "One answer of a model, on standard output as it comes.",
	.details =
		"Continues TEXT, or with --chat answers it. Without TEXT standard input is the prompt.\n"
		"Ends where the model ends its text, after -n tokens, or when its context is full.",
	.columns = "model,prompt_tokens,tokens,finish,text",
	.opts = opts,
	.run = run,
};
