/* prompt.c - chat formats, and the four forms of a completion's prompt. */
#include "cmd/rnp-serve/prompt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/mem.h"

/* --- chats --------------------------------------------------------------------------------------- */

/* Messages as lm_chat_encode takes them; texts are owned. */
struct talk {
	struct lm_message *messages;
	struct buf *texts;
	size_t n;
};

static void talk_release(struct talk *t)
{
	for (size_t i = 0; i < t->n; i++)
		buf_release(&t->texts[i]);
	free(t->texts);
	free(t->messages);
}

static int role_of(const char *text, enum lm_role *role)
{
	static const struct {
		const char *name;
		enum lm_role role;
	} roles[] = { { "system", LM_SYSTEM }, { "developer", LM_SYSTEM },
		{ "user", LM_USER }, { "assistant", LM_ASSISTANT } };

	for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
		if (strcmp(roles[i].name, text) == 0) {
			*role = roles[i].role;
			return 0;
		}
	return -1;
}

static int read_talk(struct talk *t, const struct request *q, struct api_error *e)
{
	size_t n = json_array_size(q->messages), i;
	char where[80];
	json_t *m;

	t->messages = xcalloc(n + 1, sizeof *t->messages);
	t->texts = xcalloc(n + 1, sizeof *t->texts);
	json_array_foreach(q->messages, i, m) {
		const char *role = json_string_value(json_object_get(m, "role"));

		t->n = i + 1;
		snprintf(where, sizeof where, "messages[%zu].role", i);
		if (role_of(role, &t->messages[i].role) < 0)
			return api_error_set(e, 400, "invalid_value", where,
				"'%s' is '%.40s', which this model's format does not have",
				where, role);
		snprintf(where, sizeof where, "messages[%zu].content", i);
		if (request_content(&t->texts[i], json_object_get(m, "content"), where,
			    e) < 0)
			return -1;
		t->messages[i].text = buf_text(&t->texts[i]);
	}
	return 0;
}

/* What needs a template engine or constraints. */
static int check_supported(const struct served *m, const struct request *q,
	struct api_error *e)
{
	const char *format = json_string_value(
		json_object_get(q->response_format, "type"));

	if (!m->format)
		return api_error_set(e, 400, "unsupported_parameter", "messages",
			"model '%s' has no chat template that is known: it only continues "
			"text (/v1/completions)",
			m->name);
	if (json_array_size(q->tools))
		return api_error_set(e, 400, "unsupported_parameter", "tools",
			"'tools' is not supported by this server");
	if (q->response_format && (!format || strcmp(format, "text") != 0))
		return api_error_set(e, 400, "unsupported_parameter", "response_format",
			"'response_format' must be of type 'text'");
	return 0;
}

static int failed(struct api_error *e, const char *param)
{
	return api_error_set(e, 400, "invalid_value", param, "%s", err_get()->text);
}

static int encode_chat(struct prompt *p, const struct served *m, const struct request *q,
	struct api_error *e)
{
	struct talk t = { 0 };
	int rc = -1;

	if (check_supported(m, q, e) == 0 && read_talk(&t, q, e) == 0) {
		rc = lm_chat_encode(m->format, m->l.token, &p->ids, t.messages, t.n);
		if (rc < 0)
			failed(e, "messages");
	}
	talk_release(&t);
	return rc;
}

int prompt_text(struct buf *out, const struct served *m, const struct request *q,
	struct api_error *e)
{
	struct talk t = { 0 };
	int rc = -1;

	if (check_supported(m, q, e) == 0 && read_talk(&t, q, e) == 0) {
		rc = lm_chat_text(m->format, out, t.messages, t.n);
		if (rc < 0)
			failed(e, "messages");
	}
	talk_release(&t);
	return rc;
}

/* --- completions --------------------------------------------------------------------------------- */

static int bad_prompt(struct api_error *e)
{
	return api_error_set(e, 400, "invalid_value", "prompt",
		"'prompt' must be a text, an array of at most %d texts, or token ids",
		REQUEST_PROMPTS_MAX);
}

int prompt_count(const struct request *q, uint32_t *n, struct api_error *e)
{
	const json_t *first;

	*n = 1;
	if (q->kind != REQUEST_COMPLETION || json_is_string(q->prompt))
		return 0;
	first = json_array_get(q->prompt, 0);
	if (!first)
		return bad_prompt(e);
	if (json_is_integer(first))
		return 0;
	if (json_array_size(q->prompt) > REQUEST_PROMPTS_MAX)
		return bad_prompt(e);
	*n = (uint32_t)json_array_size(q->prompt);
	return 0;
}

static int add_ids(struct prompt *p, const struct served *m, const json_t *ids,
	struct api_error *e)
{
	uint32_t vocab = lm_token_count(m->l.token);
	struct lm_detoken d;
	json_t *v;
	size_t i;

	lm_detoken_init(&d, m->l.token);
	json_array_foreach(ids, i, v) {
		uint32_t id = (uint32_t)json_integer_value(v);

		if (!json_is_integer(v) || json_integer_value(v) < 0 ||
			json_integer_value(v) >= vocab)
			return api_error_set(e, 400, "invalid_value", "prompt",
				"'prompt': token %zu is not in the vocabulary", i);
		buf_add(&p->ids, &id, sizeof id);
		if (lm_detoken_push(&d, &p->text, id) < 0)
			return failed(e, "prompt");
	}
	lm_detoken_end(&d, &p->text);
	return 0;
}

static int encode_text(struct prompt *p, const struct served *m, const struct request *q,
	uint32_t i, struct api_error *e)
{
	const json_t *one = q->prompt;

	if (json_is_array(one) && !json_is_integer(json_array_get(one, 0)))
		one = json_array_get(one, i);
	if (json_is_array(one))
		return add_ids(p, m, one, e);
	if (!json_is_string(one))
		return bad_prompt(e);
	buf_add(&p->text, json_string_value(one), json_string_length(one));
	if (lm_token_encode(m->l.token, &p->ids, json_string_value(one),
		    json_string_length(one), false) < 0)
		return failed(e, "prompt");
	return 0;
}

/* --- both ---------------------------------------------------------------------------------------- */

int prompt_encode(struct prompt *p, const struct served *m, const struct request *q,
	uint32_t i, struct api_error *e)
{
	int64_t bos = lm_token_bos(m->l.token);
	uint32_t id = bos < 0 ? 0 : (uint32_t)bos, n;
	bool given = json_is_integer(json_array_get(q->prompt, 0)) ||
		json_is_array(json_array_get(q->prompt, 0));

	if (bos >= 0 && lm_token_adds_bos(m->l.token) && !given)
		buf_add(&p->ids, &id, sizeof id);
	if ((q->kind == REQUEST_COMPLETION ? encode_text(p, m, q, i, e) :
					     encode_chat(p, m, q, e)) < 0)
		return -1;
	if (!p->ids.len && bos >= 0)
		buf_add(&p->ids, &id, sizeof id);
	n = (uint32_t)(p->ids.len / sizeof id);
	if (!n)
		return api_error_set(e, 400, "invalid_value", "prompt",
			"the prompt is empty, and the model has no BOS to begin with");
	if (lm_service_accepts(m->service, (const uint32_t *)(void *)p->ids.data, n) < 0)
		return api_error_set(e, 400, "context_length_exceeded",
			q->kind == REQUEST_COMPLETION ? "prompt" : "messages", "%s",
			err_get()->text);
	return 0;
}

void prompt_release(struct prompt *p)
{
	buf_release(&p->ids);
	buf_release(&p->text);
}
