/* chat.c - the table of chat formats, and rendering a conversation in one of them. */
#include "common/lm/infer/chat.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/mem.h"

/* For formats without a system turn: the system message goes before the first user message. */
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

void lm_chat_names(struct buf *out)
{
	for (size_t i = 0; i < sizeof named / sizeof *named; i++)
		buf_addf(out, "%s%s", i ? ", " : "", named[i].name);
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

bool lm_chat_reads_messages(const struct lm_chat *c)
{
	return lm_template_names(c->template, "messages");
}

const char *lm_chat_source(const struct lm_chat *c)
{
	return c->source;
}

/* Whether the template itself begins the text with BOS. */
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
