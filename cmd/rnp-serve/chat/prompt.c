/* prompt.c - renders chats with the model's template, and encodes the four forms of a
 * completion's prompt, or a gap's two sides. */
#include "cmd/rnp-serve/chat/prompt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-serve/chat/filter.h"
#include "cmd/rnp-serve/chat/tool_prompt.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/json/json.h"

/* --- chats -------------------------------------------------------------------------------- */

static int failed(struct api_error *e, const char *param)
{
	return api_error_set(e, 400, "invalid_value", param, "%s", err_get()->text);
}

/* Takes what lm_token_encode_most returned: a text that is too long is not read to its end. */
static int encoded(int rc, const struct model_slot *m, struct api_error *e,
	const char *param)
{
	if (rc > 0)
		return api_error_set(e, 400, "context_length_exceeded", param,
			"the prompt has more than %u tokens, the context", m->context);
	return rc < 0 ? failed(e, param) : 0;
}

/* Returns the role under the name that the template knows: "developer" becomes "system" where
 * it has no such role. */
static const char *role_of(const struct model_slot *m, const char *role)
{
	static const char *const roles[] = { "system", "user", "assistant", "tool" };

	if (strcmp(role, "developer") == 0)
		return strstr(lm_chat_source(m->chat), "developer") ? "developer" :
								      "system";
	for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
		if (strcmp(role, roles[i]) == 0)
			return roles[i];
	return NULL;
}

/* Returns the field that has the text of a request. */
static const char *field_of(const struct request *q)
{
	return q->kind == REQUEST_COMPLETION                          ? "prompt" :
		request_has_prompts(q) || q->kind == REQUEST_RESPONSE ? "input" :
									"messages";
}

#define ARGUMENTS_ROOM ((size_t)1 << 20) /* of memory, beside twice their text */

/* Whether a call's arguments say nothing, as clients write those of functions without any. */
static bool are_empty(const json_t *arguments)
{
	const char *text = json_string_value(arguments);

	return !arguments || json_is_null(arguments) ||
		(text && !text[strspn(text, " \t\r\n")]);
}

/* Converts tool calls to the form that templates read: no arguments are an empty object, and with
 * parsed they become an object if their text is one. */
static json_t *tool_calls(const json_t *calls, bool parsed)
{
	json_t *copy = json_deep_copy(calls), *call;
	size_t i;

	json_array_foreach(copy, i, call) {
		json_t *function = json_object_get(call, "function");
		const json_t *text = json_object_get(function, "arguments");
		json_t *arguments;

		if (json_is_object(function) && are_empty(text)) {
			json_set_text(function, "arguments", "{}");
			text = json_object_get(function, "arguments");
		}
		arguments = parsed && json_is_string(text) ?
			json_parse_bounded(json_string_value(text),
				json_string_length(text), JSON_DEPTH_MAX,
				ARGUMENTS_ROOM + 2 * json_string_length(text),
				"arguments") :
			NULL;

		if (json_is_object(arguments))
			json_object_set(function, "arguments", arguments);
		json_decref(arguments);
		err_clear();
	}
	return copy;
}

/* Returns a message whose content is one text. parsed: with arguments of calls as objects. NULL
 * with e. */
static json_t *message_of(const struct model_slot *m, const json_t *given, size_t i,
	bool parsed, struct api_error *e)
{
	const json_t *calls = json_object_get(given, "tool_calls");
	const json_t *content = json_object_get(given, "content");
	const char *role = json_string_value(json_object_get(given, "role"));
	struct buf text = BUF_INIT;
	json_t *out = NULL;
	char where[80];

	snprintf(where, sizeof where, "messages[%zu].role", i);
	if (!role_of(m, role)) {
		api_error_set(e, 400, "invalid_value", where,
			"'%s' is '%.40s', and must be system, developer, user, assistant or tool",
			where, role);
		return NULL;
	}
	snprintf(where, sizeof where, "messages[%zu].content", i);
	if ((!content || json_is_null(content)) && strcmp(role, "assistant") != 0) {
		api_error_set(e, 400, "missing_required_parameter", where,
			"'%s' is missing", where);
		return NULL;
	}
	/* a text stays the one that it is: it may be long */
	if (json_is_string(content) || request_content(&text, content, where, e) == 0) {
		out = json_copy((json_t *)given);
		json_object_set_new(out, "role", json_string(role_of(m, role)));
		if (!json_is_string(content))
			json_object_set_new(out, "content",
				json_stringn(buf_text(&text), text.len));
		if (json_is_array(calls))
			json_object_set_new(out, "tool_calls", tool_calls(calls, parsed));
		if (json_is_null(calls))
			json_object_del(out, "tool_calls");
	}
	buf_release(&text);
	return out;
}

/* How a conversation is shown to a template. */
struct showing {
	bool parsed;  /* arguments of calls are objects */
	bool in_user; /* tools that the template does not know are told by the user */
	bool plain;   /* types of tools' parameters are shown without "null" */
};

/* With tool_choice "none" the model does not see the tools. */
static void add_tools(json_t *v, const struct model_slot *m, const struct request *q,
	const struct showing *how)
{
	const json_t *tools = q->tools_read.mode == TOOLS_OFF ? NULL : q->tools;

	if (tools && m->calls.shows_tools)
		json_set(v, "tools",
			how->plain ? tool_prompt_plain(tools) :
				     json_incref((json_t *)tools));
	if (tools ? m->calls.shows_tools : m->calls.knows_calls)
		return;
	json_set(v, "messages",
		tool_prompt(json_object_get(v, "messages"), tools, &m->calls,
			how->in_user));
}

/* Returns the variables of the template. NULL with e. */
static json_t *variables(const struct model_slot *m, const struct request *q,
	const struct showing *how, struct api_error *e)
{
	json_t *v = json_object(), *messages = json_array(), *given;
	size_t i;

	json_object_set_new(v, "messages", messages);
	if (!q->begins_turn)
		json_set_bool(v, "add_generation_prompt", false);
	if (q->continues)
		json_set_bool(v, "continue_final_message", true);
	json_array_foreach(q->messages, i, given) {
		json_t *message = message_of(m, given, i, how->parsed, e);

		if (!message) {
			json_decref(v);
			return NULL;
		}
		json_array_append_new(messages, message);
	}
	add_tools(v, m, q, how);
	if (q->reasoning_effort) {
		json_object_set_new(v, "reasoning_effort",
			json_string(q->reasoning_effort));
		if (strcmp(q->reasoning_effort, "none") == 0)
			json_object_set_new(v, "enable_thinking", json_false());
	}
	if (q->template_kwargs)
		json_object_update_missing(v, q->template_kwargs);
	if (!json_object_get(v, "add_generation_prompt"))
		json_set_bool(v, "add_generation_prompt", true);
	return v;
}

/* Whether a conversation renders without its tools, so that a failure is theirs. */
static bool renders_without_tools(const struct model_slot *m, json_t *v, int64_t now_s)
{
	struct buf text = BUF_INIT;
	bool renders;

	if (json_object_del(v, "tools") < 0)
		return false;
	renders = lm_chat_apply(m->chat, v, now_s, &text, NULL) >= 0;
	buf_release(&text);
	return renders;
}

/* Some templates write a call's arguments with tojson, others insert them as text: tries
 * objects first, then text, and takes the first that renders. Those without a system's turn
 * are told of tools by the user. */
static int render(const struct model_slot *m, const struct request *q, struct buf *text,
	struct buf *ids, struct api_error *e)
{
	static const struct showing ways[] = { { true, false, false },
		{ false, false, false }, { true, true, false }, { true, false, true } };
	size_t text_len = text->len, ids_len = ids ? ids->len : 0;
	bool of_tools = false;
	int64_t now_s = clock_now_ms() / 1000;
	struct err first;
	json_t *v;
	int rc;

	for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
		if (ways[i].in_user &&
			(m->calls.shows_tools || q->tools_read.mode == TOOLS_OFF))
			continue;
		if (ways[i].plain && !of_tools)
			break;
		v = variables(m, q, &ways[i], e);
		if (!v)
			return -1;
		rc = lm_chat_apply(m->chat, v, now_s, text, ids);
		if (rc < 0 && i == 0) {
			err_save(&first);
			of_tools = renders_without_tools(m, v, now_s);
		}
		json_decref(v);
		if (rc >= 0)
			return encoded(rc, m, e, field_of(q));
		text->len = text_len;
		if (ids)
			ids->len = ids_len;
	}
	err_restore(&first);
	if (of_tools)
		err_add("the chat template cannot show these tools");
	return failed(e, of_tools ? "tools" : "messages");
}

/* Whether a prompt ends with an opening reasoning tag, spaces and line breaks aside. */
static bool ends_thinking(const struct buf *text)
{
	size_t len = text->len, mark = strlen(FILTER_THINK);

	while (len && (text->data[len - 1] == '\n' || text->data[len - 1] == ' '))
		len--;
	return len >= mark && memcmp(text->data + len - mark, FILTER_THINK, mark) == 0;
}

static int encode_chat(struct prompt *p, const struct model_slot *m,
	const struct request *q, struct api_error *e)
{
	struct buf text = BUF_INIT;
	int rc = render(m, q, &text, &p->ids, e);

	if (rc == 0)
		p->reasoning = ends_thinking(&text);
	buf_release(&text);
	return rc;
}

int prompt_text(struct buf *out, const struct model_slot *m, const struct request *q,
	struct api_error *e)
{
	return render(m, q, out, NULL, e);
}

/* --- completions -------------------------------------------------------------------------- */

static int prompts_max(const struct request *q)
{
	return q->kind == REQUEST_EMBEDDING ? REQUEST_INPUTS_MAX : REQUEST_PROMPTS_MAX;
}

static int bad_prompt(const struct request *q, struct api_error *e)
{
	return api_error_set(e, 400, "invalid_value", field_of(q),
		"'%s' must be a text, an array of at most %d texts, or token ids",
		field_of(q), prompts_max(q));
}

int prompt_count(const struct request *q, uint32_t *n, struct api_error *e)
{
	const json_t *first;

	*n = 1;
	if (!request_has_prompts(q) || json_is_string(q->prompt))
		return 0;
	first = json_array_get(q->prompt, 0);
	if (!first)
		return bad_prompt(q, e);
	if (json_is_integer(first))
		return 0;
	if (json_array_size(q->prompt) > (size_t)prompts_max(q))
		return bad_prompt(q, e);
	*n = (uint32_t)json_array_size(q->prompt);
	return 0;
}

/* where: what the client calls the array of ids. */
static int add_ids(struct prompt *p, const struct model_slot *m, const struct request *q,
	const json_t *ids, const char *where, struct api_error *e)
{
	uint32_t vocab = lm_token_count(m->handles.token);
	struct lm_detoken d;
	json_t *v;
	size_t i;

	lm_detoken_init(&d, m->handles.token);
	json_array_foreach(ids, i, v) {
		uint32_t id = (uint32_t)json_integer_value(v);

		if (!json_is_integer(v) || json_integer_value(v) < 0 ||
			json_integer_value(v) >= vocab)
			return api_error_set(e, 400, "invalid_value", field_of(q),
				"'%s[%zu]' is not a token id below %u", where, i, vocab);
		buf_add(&p->ids, &id, sizeof id);
		if (lm_detoken_push(&d, &p->text, id) < 0)
			return failed(e, field_of(q));
	}
	lm_detoken_end(&d, &p->text);
	return 0;
}

static int encode_text(struct prompt *p, const struct model_slot *m,
	const struct request *q, uint32_t i, struct api_error *e)
{
	const json_t *one = q->prompt;
	char where[32];

	snprintf(where, sizeof where, "%s", field_of(q));
	if (json_is_array(one) && !json_is_integer(json_array_get(one, 0))) {
		one = json_array_get(one, i);
		snprintf(where, sizeof where, "%s[%u]", field_of(q), i);
	}
	if (json_is_array(one))
		return add_ids(p, m, q, one, where, e);
	if (!json_is_string(one))
		return bad_prompt(q, e);
	buf_add(&p->text, json_string_value(one), json_string_length(one));
	/* whoever writes a whole prompt writes its marks, too, as for llama.cpp; what is embedded
	 * is somebody's text */
	return encoded(lm_token_encode_most(m->handles.token, &p->ids,
			       json_string_value(one), json_string_length(one),
			       q->kind == REQUEST_COMPLETION, NULL, m->context),
		m, e, field_of(q));
}

/* --- gaps to fill in ---------------------------------------------------------------------- */

static void add_id(struct prompt *p, uint32_t id)
{
	buf_add(&p->ids, &id, sizeof id);
}

static bool is_fill(const struct lm_token_fill *f, uint32_t id)
{
	return id == f->prefix || id == f->suffix || id == f->middle;
}

/* Returns the length of the name of a fill-in token that begins at text; 0: none does. */
static size_t name_at(const struct lm_token *t, const struct lm_token_fill *f,
	const char *text, size_t bytes)
{
	const uint32_t ids[] = { f->prefix, f->suffix, f->middle };
	size_t n;

	for (int i = 0; i < 3; i++) {
		const char *name = lm_token_text(t, ids[i], &n);

		if (n > 1 && n <= bytes && memcmp(text, name, n) == 0)
			return n;
	}
	return 0;
}

/* Encodes text in which names of fill-in tokens are cut before their last byte. Returns as
 * lm_token_encode_most. */
static int add_cut(struct prompt *p, const struct model_slot *m,
	const struct lm_token_fill *f, const char *text, size_t bytes)
{
	const struct lm_token *t = m->handles.token;
	size_t from = 0;
	int rc;

	for (size_t i = 0; i < bytes; i++) {
		size_t n = name_at(t, f, text + i, bytes - i);

		if (!n)
			continue;
		i += n - 2; /* the last byte is looked at again */
		rc = lm_token_encode_most(t, &p->ids, text + from, i + 1 - from, false,
			NULL, m->context);
		if (rc)
			return rc;
		from = i + 1;
	}
	return lm_token_encode_most(t, &p->ids, text + from, bytes - from, false, NULL,
		m->context);
}

/* Encodes what people wrote. A tokenizer's file may say that the names of fill-in tokens count in
 * every text; here they never do. Returns as lm_token_encode_most. */
static int add_written(struct prompt *p, const struct model_slot *m,
	const struct lm_token_fill *f, const char *text, size_t bytes)
{
	size_t before = p->ids.len, n;
	const uint32_t *ids;
	int rc = lm_token_encode_most(m->handles.token, &p->ids, text, bytes, false, NULL,
		m->context);

	if (rc)
		return rc;
	ids = (const uint32_t *)(const void *)(p->ids.data + before);
	n = (p->ids.len - before) / sizeof *ids;
	while (n && !is_fill(f, ids[n - 1]))
		n--;
	if (!n)
		return 0;
	p->ids.len = before;
	return add_cut(p, m, f, text, bytes);
}

/* Encodes the texts before and after the gap. Their order is the one in which nearly all models
 * were trained, and the only one that the names of the tokens tell. */
static int encode_gap(struct prompt *p, const struct model_slot *m,
	const struct request *q, uint32_t i, struct api_error *e)
{
	const json_t *one = json_is_array(q->prompt) ? json_array_get(q->prompt, i) :
						       q->prompt;
	struct lm_token_fill f;

	if (!lm_token_fill(m->handles.token, &f))
		return api_error_set(e, 400, "unsupported_parameter", "suffix",
			"model '%s' has no tokens for filling in: it takes no 'suffix'",
			m->name);
	if (!json_is_string(one))
		return api_error_set(e, 400, "invalid_value", "prompt",
			"with 'suffix', 'prompt' must be a text or an array of texts");
	buf_add(&p->text, json_string_value(one), json_string_length(one));
	add_id(p, f.prefix);
	if (encoded(add_written(p, m, &f, json_string_value(one),
			    json_string_length(one)),
		    m, e, "prompt") < 0)
		return -1;
	add_id(p, f.suffix);
	if (encoded(add_written(p, m, &f, q->suffix, strlen(q->suffix)), m, e, "suffix") <
		0)
		return -1;
	add_id(p, f.middle);
	return 0;
}

/* --- both --------------------------------------------------------------------------------- */

/* A bias for no token would have no effect, and nobody would know. */
static int check_bias(const struct model_slot *m, const struct request *q,
	struct api_error *e)
{
	uint32_t vocab = model_file_config(m->handles.model_file)->vocab;

	for (uint32_t i = 0; i < q->sampling.bias_count; i++)
		if (q->sampling.bias[i].token >= vocab)
			return api_error_set(e, 400, "invalid_value", "logit_bias",
				"'logit_bias': token %u is not in the vocabulary of %u",
				q->sampling.bias[i].token, vocab);
	return 0;
}

/* A prompt that begins with BOS by name gets no other one before it. */
static void drop_second_bos(struct prompt *p, const struct lm_token *t)
{
	const uint32_t *ids = (const uint32_t *)(const void *)p->ids.data;
	int64_t bos = lm_token_bos(t);

	if (!lm_token_adds_bos(t) || p->ids.len < 2 * sizeof *ids || ids[0] != bos ||
		ids[1] != bos)
		return;
	p->ids.len -= sizeof *ids;
	memmove(p->ids.data, p->ids.data + sizeof *ids, p->ids.len);
}

/* Encodes prompt i, with BOS if the model wants it; at least one token. p must be empty.
 * Returns 0, or -1 with e and the pending error; release p either way. Any thread may call it. */
static int prompt_encode(struct prompt *p, const struct model_slot *m,
	const struct request *q, uint32_t i, struct api_error *e)
{
	int64_t bos = lm_token_bos(m->handles.token),
		last = lm_token_last(m->handles.token);
	uint32_t id = bos < 0 ? 0 : (uint32_t)bos, n;
	bool given = json_is_integer(json_array_get(q->prompt, 0)) ||
		json_is_array(json_array_get(q->prompt, 0));

	if (request_has_prompts(q) && bos >= 0 && lm_token_adds_bos(m->handles.token) &&
		!given)
		buf_add(&p->ids, &id, sizeof id);
	if ((q->suffix                             ? encode_gap(p, m, q, i, e) :
			    request_has_prompts(q) ? encode_text(p, m, q, i, e) :
						     encode_chat(p, m, q, e)) < 0)
		return -1;
	if (q->kind == REQUEST_COMPLETION && !given)
		drop_second_bos(p, m->handles.token);
	if (q->kind == REQUEST_EMBEDDING && last >= 0 && !given) {
		id = (uint32_t)last;
		buf_add(&p->ids, &id, sizeof id);
	}
	if (!p->ids.len && bos >= 0)
		buf_add(&p->ids, &id, sizeof id);
	n = (uint32_t)(p->ids.len / sizeof id);
	if (!n)
		return api_error_set(e, 400, "invalid_value", field_of(q),
			"the prompt is empty, and the model has no BOS to begin with");
	if (lm_service_accepts(m->service, (const uint32_t *)(void *)p->ids.data, n,
		    q->kind != REQUEST_EMBEDDING && q->tokens_max) < 0)
		return api_error_set(e, 400, "context_length_exceeded", field_of(q), "%s",
			err_get()->text);
	return check_bias(m, q, e);
}

int prompt_encode_all(struct prompt *prompts, uint32_t n, const struct model_slot *m,
	const struct request *q, struct api_error *e)
{
	uint64_t tokens = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (prompt_encode(&prompts[i], m, q, i, e) < 0)
			return -1;
		tokens += prompts[i].ids.len / sizeof(uint32_t);
		if (q->kind == REQUEST_EMBEDDING && tokens > REQUEST_INPUT_TOKENS_MAX)
			return api_error_set(e, 400, "max_tokens_per_request", "input",
				"the inputs have more than %d tokens together",
				REQUEST_INPUT_TOKENS_MAX);
		if (q->echo && q->logprobs &&
			tokens * (1 + q->top_logprobs) > REQUEST_TOLD_MAX)
			return api_error_set(e, 400, "max_tokens_per_request", "prompt",
				"of a prompt the logprobs of at most %u tokens can be had, with %u others each",
				REQUEST_TOLD_MAX / (1 + q->top_logprobs),
				q->top_logprobs);
	}
	return 0;
}

void prompt_release(struct prompt *p)
{
	buf_release(&p->ids);
	buf_release(&p->text);
}
