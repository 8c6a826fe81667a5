/* chat.c - the table of chat formats, and rendering a conversation in one of them. */
#include "common/lm/infer/chat.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/json/json.h"

/* For formats without a system turn: the system message goes before the first user message. */
#define SYSTEM_FIRST                                                       \
	"{% set ns = namespace(system='') %}{% for message in messages %}" \
	"{% if message.role == 'system' and not loop.first %}"             \
	"{{ raise_exception('the system speaks first or not at all') }}{% endif %}"
#define OTHER_ROLES \
	"{% else %}{{ raise_exception('the format has no role ' ~ message.role) }}{% endif %}"

/* What scripts/chat.jinja says: the form of conversations as text. */
#define PLAIN                                                                        \
	"{% for m in messages %}{% if m.role == 'assistant' %}"                      \
	"{{ 'Assistant: ' + m.content + (eos_token or '') + '\n' }}{% else %}"       \
	"{{ ('User: ' if m.role == 'user' else '') + m.content + '\n' }}{% endif %}" \
	"{% endfor %}{{ 'Assistant:' }}"

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
	{ "plain", PLAIN },
};

/* Roles whose content a template may read as a list of parts only. */
static const char *const part_roles[] = { "user", "system", "assistant" };
#define PART_ROLES (sizeof part_roles / sizeof *part_roles)

struct lm_chat {
	const struct lm_token *token;
	struct lm_template *template;
	struct lm_template *with_tools; /* of conversations with tools; NULL: the same */
	bool in_parts[PART_ROLES];      /* of both templates */
	char *source;
	char *bos, *eos; /* NULL: none */
	uint32_t most;   /* ids; 0: no limit */
};

const char *lm_chat_named(const char *name)
{
	for (size_t i = 0; i < sizeof named / sizeof *named; i++)
		if (strcmp(named[i].name, name) == 0)
			return named[i].text;
	return NULL;
}

const char *lm_chat_fallback(const struct lm_token *t)
{
	static const char mark[] = "<|im_start|>";

	return lm_token_find(t, mark, sizeof mark - 1) < 0 ? "plain" : "chatml";
}

const char *lm_chat_stop(const struct lm_chat *c)
{
	return strcmp(c->source, PLAIN) == 0 ? "\nUser:" : NULL;
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

static json_t *message(const char *role, json_t *takes_content)
{
	return json_pack("{s:s,s:o}", "role", role, "content", takes_content);
}

/* The API's content as the list of parts that it stands for. */
static json_t *parts_of(const json_t *text)
{
	return json_pack("[{s:s,s:O}]", "type", "text", "text", text);
}

enum shown { SHOWN_ERROR, SHOWN, SHOWN_LOST };

/* Whether a template shows the word that a message of this role consists of. */
static enum shown shows(const struct lm_chat *c, const struct lm_template *template,
	const char *role, bool in_parts)
{
	static const char word[] = "zq7Xw0kv"; /* no template has it */
	const struct lm_template_env env = { c->bos, c->eos, 0 };
	struct lm_template_text out = { 0 };
	json_t *text = json_string(word), *messages = json_array(), *v;
	bool by_user = strcmp(role, "user") == 0;
	enum shown said = SHOWN_ERROR;

	if (strcmp(role, "assistant") == 0)
		json_push(messages, message("user", json_string("a")));
	json_push(messages, message(role, in_parts ? parts_of(text) : json_incref(text)));
	if (!by_user)
		json_push(messages, message("user", json_string("b")));
	v = json_pack("{s:o,s:b}", "messages", messages, "add_generation_prompt", 1);
	if (lm_template_render(template, v, &env, &out) == 0) {
		buf_addc(&out.text, '\0');
		said = strstr(out.text.data, word) ? SHOWN : SHOWN_LOST;
	}
	err_clear();
	lm_template_text_release(&out);
	json_decref(v);
	json_decref(text);
	return said;
}

/* Finds out how the templates read content. Some read a list of parts only, and of a text they show
 * nothing, without an error: an invented word tells. Returns 0, or -1 with err_set(EX_DATAERR): the
 * user's words reach the model in neither way. */
static int probe_content(struct lm_chat *c, const char *where)
{
	for (size_t i = 0; i < PART_ROLES; i++) {
		enum shown plain = shows(c, c->template, part_roles[i], false);

		if (plain == SHOWN)
			continue;
		c->in_parts[i] = shows(c, c->template, part_roles[i], true) == SHOWN;
		if (i == 0 && plain == SHOWN_LOST && !c->in_parts[i] &&
			lm_chat_reads_messages(c))
			return err_set(EX_DATAERR,
				"%s: it shows the model nothing of what a user says",
				where);
	}
	return 0;
}

static int parse_tools(struct lm_chat *c, const char *where)
{
	const char *text = lm_token_tool_template(c->token);

	return text ? lm_template_parse(&c->with_tools, text, strlen(text), where) : 0;
}

int lm_chat_open(struct lm_chat **out, const struct lm_token *t, const char *text,
	size_t bytes, const char *where)
{
	struct lm_template *template = NULL;
	bool own = !text;
	struct lm_chat *c;

	if (!text) {
		text = lm_token_chat_template(t);
		if (!text)
			return err_set(EX_DATAERR, "the model has no chat template");
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
	if ((own && parse_tools(c, where) < 0) || probe_content(c, where) < 0) {
		lm_chat_close(c);
		return -1;
	}
	*out = c;
	return 0;
}

void lm_chat_close(struct lm_chat *c)
{
	if (!c)
		return;
	lm_template_free(c->template);
	lm_template_free(c->with_tools);
	free(c->source);
	free(c->bos);
	free(c->eos);
	free(c);
}

void lm_chat_limit(struct lm_chat *c, uint32_t most)
{
	c->most = most;
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

static bool reads_parts(const struct lm_chat *c, const char *role)
{
	for (size_t i = 0; role && i < PART_ROLES; i++)
		if (strcmp(role, part_roles[i]) == 0)
			return c->in_parts[i];
	return c->in_parts[0]; /* of other roles: as the user's */
}

/* Returns the variables with content in the form that the template reads; the caller's own, one
 * reference more, where nothing is to be changed. */
static json_t *as_read(const struct lm_chat *c, const json_t *variables)
{
	const json_t *messages = json_object_get(variables, "messages"), *m;
	json_t *out, *list;
	bool any = false;
	size_t i;

	for (i = 0; i < PART_ROLES; i++)
		any |= c->in_parts[i];
	if (!any)
		return json_incref((json_t *)variables);
	out = json_copy((json_t *)variables);
	list = json_array();
	json_array_foreach(messages, i, m) {
		const json_t *content = json_object_get(m, "content");
		json_t *one = json_copy((json_t *)m);

		if (json_is_string(content) &&
			reads_parts(c, json_string_value(json_object_get(m, "role"))))
			json_set(one, "content", parts_of(content));
		json_push(list, one);
	}
	json_set(out, "messages", list);
	return out;
}

/* The template for what is asked: models with two have one for conversations with tools. */
static const struct lm_template *template_for(const struct lm_chat *c,
	const json_t *variables)
{
	bool tools = json_array_size(json_object_get(variables, "tools")) > 0;

	return tools && c->with_tools ? c->with_tools : c->template;
}

#define CLOSING_MAX 256 /* bytes that a template sets behind a message */

/* Cuts off what stands behind the text of the last message, which the user's bytes end. Returns 0,
 * or -1 with err_set: the template changed that text. */
static int cut_behind_last(const json_t *variables, struct lm_template_text *out)
{
	const json_t *messages = json_object_get(variables, "messages");
	const json_t *content = json_object_get(json_array_get(messages,
							json_array_size(messages) - 1),
		"content");
	const char *text = json_string_value(content), *from = out->from.data;
	size_t len = json_string_length(content), all = out->text.len;

	while (len) {
		for (size_t end = all; end >= len && all - end <= CLOSING_MAX; end--)
			if (from[end - 1] == LM_FROM_INPUT &&
				(end == all || from[end] != LM_FROM_INPUT) &&
				memcmp(out->text.data + end - len, text, len) == 0) {
				out->text.len = out->from.len = end;
				out->text.data[end] = '\0';
				return 0;
			}
		if (isspace((unsigned char)text[len - 1])) /* templates may trim it */
			while (len && isspace((unsigned char)text[len - 1]))
				len--;
		else if (isspace((unsigned char)*text))
			while (len && isspace((unsigned char)*text))
				text++, len--;
		else
			break;
	}
	return err_set(EX_DATAERR,
		"the last message cannot be continued: the template does not show its text as it is");
}

int lm_chat_apply(const struct lm_chat *c, const json_t *variables, int64_t now_s,
	struct buf *text, struct buf *ids)
{
	const struct lm_template_env env = { c->bos, c->eos, now_s };
	struct lm_template_text out = { 0 };
	int64_t bos = lm_token_bos(c->token);
	json_t *read = as_read(c, variables);
	int rc = lm_template_render(template_for(c, read), read, &env, &out);

	json_decref(read);
	if (rc == 0 && json_is_true(json_object_get(variables, "continue_final_message")))
		rc = cut_behind_last(variables, &out);
	if (rc == 0 && ids) {
		if (bos >= 0 && lm_token_adds_bos(c->token) &&
			!begins_with(&out, c->bos)) {
			uint32_t id = (uint32_t)bos;

			buf_add(ids, &id, sizeof id);
		}
		rc = c->most ? lm_token_encode_most(c->token, ids, buf_text(&out.text),
				       out.text.len, true, buf_text(&out.from), c->most) :
			       lm_token_encode_marked(c->token, ids, buf_text(&out.text),
				       out.text.len, buf_text(&out.from));
	}
	if (rc == 0 && text && !text->len) { /* it may be long: it is not copied */
		buf_release(text);
		*text = out.text;
		out.text = (struct buf)BUF_INIT;
	} else if (rc == 0 && text) {
		buf_add(text, buf_text(&out.text), out.text.len);
	}
	lm_template_text_release(&out);
	return rc;
}
