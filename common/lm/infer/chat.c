/* chat.c - the table of chat formats, and writing a conversation in one of them. */
#include "common/lm/infer/chat.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/mem.h"

/* --- templates ------------------------------------------------------------------------------- */

/* A system's words that have no turn of their own come before the first user's. */
#define SYSTEM_FIRST                                                       \
	"{% set ns = namespace(system='') %}{% for message in messages %}" \
	"{% if message.role == 'system' and not loop.first %}"             \
	"{{ raise_exception('the system speaks first or not at all') }}{% endif %}"
#define OTHER_ROLES \
	"{% else %}{{ raise_exception('the format has no role ' ~ message.role) }}{% endif %}"

static const struct {
	const char *name, *text;
} named[] = {
	{ "chatml",
		"{% for message in messages %}"
		"{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}"
		"{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}" },
	{ "llama3",
		"{% for message in messages %}"
		"{{ '<|start_header_id|>' + message.role + '<|end_header_id|>\n\n' + message.content"
		" + '<|eot_id|>' }}{% endfor %}"
		"{% if add_generation_prompt %}"
		"{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}" },
	{ "llama2",
		SYSTEM_FIRST
		"{% if message.role == 'system' %}"
		"{% set ns.system = '<<SYS>>\n' + message.content + '\n<</SYS>>\n\n' %}"
		"{% elif message.role == 'user' %}"
		"{{ '[INST] ' + ns.system + message.content + ' [/INST]' }}{% set ns.system = '' %}"
		"{% elif message.role == 'assistant' %}{{ ' ' + message.content + ' </s><s>' }}" OTHER_ROLES
		"{% endfor %}" },
	{ "mistral",
		SYSTEM_FIRST
		"{% if message.role == 'system' %}{% set ns.system = message.content + '\n\n' %}"
		"{% elif message.role == 'user' %}"
		"{{ '[INST] ' + ns.system + message.content + ' [/INST]' }}{% set ns.system = '' %}"
		"{% elif message.role == 'assistant' %}{{ ' ' + message.content + '</s>' }}" OTHER_ROLES
		"{% endfor %}" },
	{ "gemma",
		SYSTEM_FIRST
		"{% if message.role == 'system' %}{% set ns.system = message.content + '\n\n' %}"
		"{% elif message.role == 'user' %}"
		"{{ '<start_of_turn>user\n' + ns.system + message.content + '<end_of_turn>\n' }}"
		"{% set ns.system = '' %}"
		"{% elif message.role == 'assistant' %}"
		"{{ '<start_of_turn>model\n' + message.content + '<end_of_turn>\n' }}" OTHER_ROLES
		"{% endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}" },
	{ "phi3",
		"{% for message in messages %}"
		"{{ '<|' + message.role + '|>\n' + message.content + '<|end|>\n' }}{% endfor %}"
		"{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}" },
	{ "zephyr",
		"{% for message in messages %}"
		"{{ '<|' + message.role + '|>\n' + message.content + '</s>\n' }}{% endfor %}"
		"{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}" },
};

struct lm_chat {
	const struct lm_token *token;
	struct lm_template *template;
	char *source;
	char *bos, *eos; /* NULL: none */
};

const char *lm_chat_named(const char *name)
{
	for (size_t i = 0; i < sizeof named / sizeof *named; i++)
		if (strcmp(named[i].name, name) == 0)
			return named[i].text;
	return NULL;
}

static char *name_of(const struct lm_token *t, int64_t id)
{
	const char *text;
	size_t bytes;

	if (id < 0)
		return NULL;
	text = lm_token_text(t, (uint32_t)id, &bytes);
	return xstrndup(text, bytes);
}

int lm_chat_open(struct lm_chat **out, const struct lm_token *t, const char *text,
	size_t bytes, const char *where)
{
	struct lm_template *template = NULL;
	struct lm_chat *c;

	if (!text) {
		text = lm_token_chat_template(t);
		if (!text) {
			err_set(EX_DATAERR,
				"the model has no chat template: it only continues text");
			return err_hint("name the format that it was taught with "
					"--chat-template");
		}
		bytes = strlen(text);
	}
	if (lm_template_parse(&template, text, bytes, where) < 0)
		return -1;
	c = xcalloc(1, sizeof *c);
	c->token = t;
	c->template = template;
	c->source = xstrndup(text, bytes);
	c->bos = name_of(t, lm_token_bos(t));
	c->eos = name_of(t, lm_token_eos(t));
	*out = c;
	return 0;
}

void lm_chat_close(struct lm_chat *c)
{
	if (!c)
		return;
	lm_template_free(c->template);
	free(c->source);
	free(c->bos);
	free(c->eos);
	free(c);
}

const char *lm_chat_source(const struct lm_chat *c)
{
	return c->source;
}

/* Whether the template begins its text with BOS itself. */
static bool begins_with(const struct lm_template_text *text, const char *bos)
{
	size_t len = strlen(bos);

	return len && text->text.len >= len && memcmp(text->text.data, bos, len) == 0 &&
		!memchr(text->from.data, LM_FROM_INPUT, len);
}

int lm_chat_apply(const struct lm_chat *c, const json_t *variables, int64_t now_s,
	struct buf *text, struct buf *ids)
{
	const struct lm_template_env env = { c->bos, c->eos, now_s };
	struct lm_template_text out = { 0 };
	int64_t bos = lm_token_bos(c->token);
	int rc = lm_template_render(c->template, variables, &env, &out);

	if (rc == 0 && ids) {
		if (bos >= 0 && lm_token_adds_bos(c->token) &&
			!begins_with(&out, c->bos)) {
			uint32_t id = (uint32_t)bos;

			buf_add(ids, &id, sizeof id);
		}
		rc = lm_token_encode_marked(c->token, ids, buf_text(&out.text),
			out.text.len, buf_text(&out.from));
	}
	if (rc == 0 && text)
		buf_add(text, buf_text(&out.text), out.text.len);
	lm_template_text_release(&out);
	return rc;
}

/* --- formats --------------------------------------------------------------------------------- */

struct lm_chat_format {
	const char *name;
	/* substrings that a template of this format contains, all of them */
	const char *markers[2];
	const char *before[LM_ROLES], *after[LM_ROLES];
	const char *answer; /* precedes the assistant's text */
	/* formats without a system turn put its text before the first user's, between these two */
	bool system_in_user;
	const char *system_open, *system_close;
};

/* The first format that matches wins. */
static const struct lm_chat_format formats[] = {
	{ .name = "chatml",
		.markers = { "<|im_start|>" },
		.before = { "<|im_start|>system\n", "<|im_start|>user\n",
			"<|im_start|>assistant\n" },
		.after = { "<|im_end|>\n", "<|im_end|>\n", "<|im_end|>\n" },
		.answer = "<|im_start|>assistant\n" },
	{ .name = "llama3",
		.markers = { "<|start_header_id|>", "<|eot_id|>" },
		.before = { "<|start_header_id|>system<|end_header_id|>\n\n",
			"<|start_header_id|>user<|end_header_id|>\n\n",
			"<|start_header_id|>assistant<|end_header_id|>\n\n" },
		.after = { "<|eot_id|>", "<|eot_id|>", "<|eot_id|>" },
		.answer = "<|start_header_id|>assistant<|end_header_id|>\n\n" },
	{ .name = "llama2",
		.markers = { "[INST]", "<<SYS>>" },
		.before = { "", "[INST] ", " " },
		.after = { "", " [/INST]", " </s><s>" },
		.answer = "",
		.system_in_user = true,
		.system_open = "<<SYS>>\n",
		.system_close = "\n<</SYS>>\n\n" },
	{ .name = "mistral",
		.markers = { "[INST]" },
		.before = { "", "[INST] ", " " },
		.after = { "", " [/INST]", "</s>" },
		.answer = "",
		.system_in_user = true,
		.system_open = "",
		.system_close = "\n\n" },
	{ .name = "gemma",
		.markers = { "<start_of_turn>" },
		.before = { "", "<start_of_turn>user\n", "<start_of_turn>model\n" },
		.after = { "", "<end_of_turn>\n", "<end_of_turn>\n" },
		.answer = "<start_of_turn>model\n",
		.system_in_user = true,
		.system_open = "",
		.system_close = "\n\n" },
	{ .name = "phi3",
		.markers = { "<|assistant|>", "<|end|>" },
		.before = { "<|system|>\n", "<|user|>\n", "<|assistant|>\n" },
		.after = { "<|end|>\n", "<|end|>\n", "<|end|>\n" },
		.answer = "<|assistant|>\n" },
	{ .name = "zephyr",
		.markers = { "<|user|>" },
		.before = { "<|system|>\n", "<|user|>\n", "<|assistant|>\n" },
		.after = { "</s>\n", "</s>\n", "</s>\n" },
		.answer = "<|assistant|>\n" },
};

const struct lm_chat_format *lm_chat_format(const char *template)
{
	if (!template) {
		err_set(EX_DATAERR,
			"the model has no chat template: it only continues text");
		return NULL;
	}
	for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
		const struct lm_chat_format *f = &formats[i];

		if (strstr(template, f->markers[0]) &&
			(!f->markers[1] || strstr(template, f->markers[1])))
			return f;
	}
	err_set(EX_DATAERR, "the model's chat template is of no kind that we know");
	return NULL;
}

const char *lm_chat_format_name(const struct lm_chat_format *f)
{
	return f->name;
}

/* --- pieces ---------------------------------------------------------------------------------- */

/* Receives a piece of the conversation: text of the format (words false), or of a message
 * (true). */
typedef int (*piece_fn)(void *ctx, const char *text, bool is_text);

static int turn(const struct lm_chat_format *f, const struct lm_message *m,
	const char *system, piece_fn piece, void *ctx)
{
	if (piece(ctx, f->before[m->role], false) < 0)
		return -1;
	if (system &&
		(piece(ctx, f->system_open, false) < 0 || piece(ctx, system, true) < 0 ||
			piece(ctx, f->system_close, false) < 0))
		return -1;
	if (piece(ctx, m->text, true) < 0)
		return -1;
	return piece(ctx, f->after[m->role], false);
}

static int walk(const struct lm_chat_format *f, const struct lm_message *messages,
	size_t n, piece_fn piece, void *ctx)
{
	const char *system = NULL;

	for (size_t i = 0; i < n; i++) {
		const struct lm_message *m = &messages[i];

		if (m->role == LM_SYSTEM && i)
			return err_set(EX_DATAERR,
				"message %zu: the system speaks first or not at all",
				i + 1);
		if (m->role == LM_SYSTEM && f->system_in_user) {
			system = m->text;
			continue;
		}
		if (system && m->role != LM_USER)
			return err_set(EX_DATAERR,
				"message %zu: a user speaks after the system", i + 1);
		if (turn(f, m, system, piece, ctx) < 0)
			return -1;
		system = NULL;
	}
	return piece(ctx, f->answer, false);
}

static int add_text(void *out, const char *text, bool is_text)
{
	(void)is_text;
	buf_adds(out, text);
	return 0;
}

int lm_chat_text(const struct lm_chat_format *f, struct buf *out,
	const struct lm_message *messages, size_t n)
{
	return walk(f, messages, n, add_text, out);
}

struct encoding {
	const struct lm_token *token;
	struct buf *ids;
	bool special; /* a message contains the name of a special token */
};

/* Sets e->special if the text would encode to special tokens where they are allowed. */
static int find_special(void *ctx, const char *text, bool is_text)
{
	struct encoding *e = ctx;
	struct buf plain = BUF_INIT, special = BUF_INIT;
	size_t bytes = strlen(text);
	int rc = 0;

	if (!is_text || e->special)
		return 0;
	if (lm_token_encode(e->token, &plain, text, bytes, false) < 0 ||
		lm_token_encode(e->token, &special, text, bytes, true) < 0)
		rc = -1;
	else
		e->special = plain.len != special.len ||
			memcmp(plain.data, special.data, plain.len) != 0;
	buf_release(&plain);
	buf_release(&special);
	return rc;
}

static int add_ids(void *ctx, const char *text, bool is_text)
{
	struct encoding *e = ctx;

	return *text ? lm_token_encode(e->token, e->ids, text, strlen(text), !is_text) :
		       0;
}

/* Encodes the whole conversation at once, as models were trained. Only if a message contains
 * the name of a special token is it encoded piece by piece, so that the name stays plain text. */
int lm_chat_encode(const struct lm_chat_format *f, const struct lm_token *t,
	struct buf *ids, const struct lm_message *messages, size_t n)
{
	struct encoding e = { .token = t, .ids = ids };
	struct buf text = BUF_INIT;
	int rc = walk(f, messages, n, find_special, &e);

	if (rc == 0 && e.special) {
		rc = walk(f, messages, n, add_ids, &e);
	} else if (rc == 0) {
		rc = lm_chat_text(f, &text, messages, n);
		if (rc == 0)
			rc = lm_token_encode(t, ids, buf_text(&text), text.len, true);
	}
	buf_release(&text);
	return rc;
}
