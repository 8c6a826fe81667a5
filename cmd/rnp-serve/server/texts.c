/* texts.c - texts and tokens, for people who write clients and templates. */
#include "cmd/rnp-serve/server/texts.h"

#include <string.h>

#include "cmd/rnp-serve/server/access.h"
#include "cmd/rnp-serve/server/work.h"
#include "common/base/err.h"
#include "common/json/canon.h"
#include "common/json/json.h"

#define TOKENS_MAX (1 << 20) /* of a text of /tokenize */

static void give_back(struct server *s, struct model_slot *m)
{
	if (m)
		model_pool_give(&s->pool, m);
}

/* Names the fields of a body that nobody reads. */
static void tell_ignored(struct httpd_reply *r, const json_t *body, const char *key)
{
	struct request none = { 0 };
	const char *name;
	json_t *v;

	json_object_foreach((json_t *)body, name, v)
		if (strcmp(name, "model") != 0 && strcmp(name, key) != 0 &&
			strcmp(name, "special") != 0 && strcmp(name, "add_special") != 0)
			request_ignore(&none, name);
	if (none.ignored.len)
		httpd_add_header(r, "rnp-ignored", "%s", buf_text(&none.ignored));
	request_release(&none);
}

/* Reads a body {"model": ..., KEY: ...} and returns the value of KEY, after checking its
 * type. The caller gives *m back, unless it is NULL. */
static json_t *read_small(struct server *s, struct httpd_request *q,
	struct httpd_reply *r, const char *key, json_type type, json_t **body,
	struct model_slot **m, struct api_error *e)
{
	uint32_t adapter; /* all of a model's have its tokens */
	json_t *v;

	*m = NULL;
	*body = NULL;
	if (work_lacks_memory(q, e))
		return NULL;
	*body = json_parse_bounded(q->body.data, q->body.len, JSON_DEPTH_MAX,
		REQUEST_ROOM(q->body.len), "body");
	if (*body && !json_is_object(*body))
		err_set(EX_DATAERR, "body: not a JSON object");
	if (!json_is_object(*body)) {
		api_error_set(e, 400, "invalid_json", NULL, "%s", err_get()->text);
		return NULL;
	}
	v = json_object_get(*body, key);
	if (!v || json_typeof(v) != type) {
		api_error_set(e, 400, "invalid_value", key, "'%s' must be %s", key,
			type == JSON_STRING ? "a text" : "an array of token ids");
		return NULL;
	}
	tell_ignored(r, *body, key);
	*m = work_take_model(s, json_string_value(json_object_get(*body, "model")),
		&adapter, e);
	return *m ? v : NULL;
}

static void write_tokens(struct httpd_reply *r, const struct buf *ids)
{
	const uint32_t *id = (const uint32_t *)(const void *)ids->data;
	size_t n = ids->len / sizeof *id;

	buf_addf(&r->body, "{\"count\":%zu,\"tokens\":[", n);
	for (size_t i = 0; i < n; i++)
		buf_addf(&r->body, "%s%u", i ? "," : "", id[i]);
	buf_adds(&r->body, "]}\n");
}

enum httpd_when texts_post_tokenize(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct buf ids = BUF_INIT;
	struct model_slot *m;
	struct api_error e;
	struct api_key *key;
	json_t *body, *v;
	int rc = -1;

	if (!access_allows(ctx, q, r, false, &key))
		return HTTPD_NOW;
	v = read_small(ctx, q, r, "content", JSON_STRING, &body, &m, &e);
	if (v) {
		bool adds = json_is_true(json_object_get(body, "add_special"));
		int64_t last = lm_token_last(m->handles.token);
		uint32_t id = (uint32_t)lm_token_bos(m->handles.token);

		if (adds && lm_token_adds_bos(m->handles.token))
			buf_add(&ids, &id, sizeof id);
		rc = lm_token_encode_most(m->handles.token, &ids, json_string_value(v),
			json_string_length(v),
			json_is_true(json_object_get(body, "special")), NULL, TOKENS_MAX);
		if (rc > 0)
			rc = api_error_set(&e, 400, "invalid_value", "content",
				"'content' has more than %d tokens", TOKENS_MAX);
		else if (rc < 0)
			api_error_set(&e, 400, "invalid_value", "content", "%s",
				err_get()->text);
		id = (uint32_t)last;
		if (rc == 0 && adds && last >= 0)
			buf_add(&ids, &id, sizeof id);
	}
	work_charge(ctx, key, q, ids.len / sizeof(uint32_t));
	if (rc == 0)
		write_tokens(r, &ids);
	else
		api_error_reply(r, &e);
	give_back(ctx, m);
	buf_release(&ids);
	json_decref(body);
	work_give_memory(q);
	return HTTPD_NOW;
}

static int detokenize(struct buf *text, const struct model_slot *m, const json_t *ids,
	struct api_error *e)
{
	struct lm_detoken d;
	json_t *v;
	size_t i;

	lm_detoken_init(&d, m->handles.token);
	json_array_foreach(ids, i, v) {
		json_int_t id = json_integer_value(v);

		if (!json_is_integer(v) || id < 0 ||
			id >= lm_token_count(m->handles.token))
			return api_error_set(e, 400, "invalid_value", "tokens",
				"'tokens[%zu]' is not in the vocabulary", i);
		if (lm_detoken_push(&d, text, (uint32_t)id) < 0)
			return api_error_set(e, 400, "invalid_value", "tokens", "%s",
				err_get()->text);
	}
	lm_detoken_end(&d, text);
	return 0;
}

enum httpd_when texts_post_detokenize(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct buf text = BUF_INIT;
	struct model_slot *m;
	struct api_error e;
	struct api_key *key;
	json_t *body, *v, *o;

	if (!access_allows(ctx, q, r, false, &key))
		return HTTPD_NOW;
	v = read_small(ctx, q, r, "tokens", JSON_ARRAY, &body, &m, &e);
	work_charge(ctx, key, q, 0);
	if (v && detokenize(&text, m, v, &e) == 0) {
		o = json_pack("{s:s%}", "content", buf_text(&text), text.len);
		if (!o) { /* NUL bytes, for example, are not valid JSON text */
			o = json_object();
			json_set_text(o, "content", buf_text(&text));
		}
		json_write(&r->body, o);
		json_decref(o);
	} else {
		api_error_reply(r, &e);
	}
	give_back(ctx, m);
	buf_release(&text);
	json_decref(body);
	work_give_memory(q);
	return HTTPD_NOW;
}

/* Returns the prompt that a chat's messages are rendered to, for people who write clients and
 * templates. */
enum httpd_when texts_post_template(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct request ask = { 0 };
	struct buf text = BUF_INIT;
	struct api_error e;
	struct model_slot *m = NULL;
	struct api_key *key;
	uint32_t adapter;

	if (!access_allows(ctx, q, r, false, &key))
		return HTTPD_NOW;
	if (!work_lacks_memory(q, &e) &&
		request_parse(&ask, REQUEST_TEMPLATE, q->body.data, q->body.len, &e) == 0)
		m = work_take_model(ctx, ask.model, &adapter, &e);
	work_charge(ctx, key, q, 0);
	if (m && prompt_text(&text, m, &ask, &e) == 0) {
		buf_adds(&r->body, "{\"prompt\":");
		canon_string(&r->body, buf_text(&text), text.len);
		buf_adds(&r->body, "}\n");
		if (ask.ignored.len)
			httpd_add_header(r, "rnp-ignored", "%s", buf_text(&ask.ignored));
	} else {
		api_error_reply(r, &e);
	}
	give_back(ctx, m);
	request_release(&ask);
	buf_release(&text);
	work_give_memory(q);
	return HTTPD_NOW;
}
