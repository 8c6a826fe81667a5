/* api.c - the routes of the API. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-serve/access.h"
#include "cmd/rnp-serve/api_error.h"
#include "cmd/rnp-serve/page.h"
#include "cmd/rnp-serve/server.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/json/json.h"

#define BODY_MAX ((size_t)16 << 20)

/* memory that a request takes for each byte of its body, at most: values of JSON, tokens, text */
#define ROOM_PER_BYTE 24
#define SMALL_BODY    65536 /* the reserve has room for it */

/* Whether there is no memory to begin a request with. */
static bool lacks_memory(const struct httpd_request *q, struct api_error *e)
{
	(void)mem_ran_out(); /* for an earlier one */
	if (!mem_is_short() &&
		(q->body.len < SMALL_BODY || mem_has_room(q->body.len * ROOM_PER_BYTE)))
		return false;
	api_error_set(e, 503, "out_of_memory", NULL, "out of memory");
	return true;
}

/* Whether memory ran out while a request was read. */
static bool lacked_memory(struct api_error *e)
{
	if (mem_ran_out())
		return api_error_set(e, 503, "out_of_memory", NULL, "out of memory") < 0;
	return false;
}

/* Finds the model that a request names, and loads it if it is not; the caller gives it back. */
static struct served *take_model(struct server *s, const char *name, uint32_t *adapter,
	struct api_error *e)
{
	struct served *m = models_find(&s->models, name, adapter, e);

	return m && models_take(&s->models, m, e) == 0 ? m : NULL;
}

static void give_model(void *models, struct served *m)
{
	models_give(models, m);
}

/* --- answers -------------------------------------------------------------------------------------- */

/* Without keys, client addresses take turns and share cached prompts. */
static uint64_t address_group(const char *client)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

	for (; *client; client++)
		h = (h ^ (unsigned char)*client) * UINT64_C(0x100000001b3);
	return h;
}

/* Whether the key may ever have as many answers at the same time; that of several prompts has fewer of
 * them at a time. */
static int check_streams(uint32_t limit, const struct exchange *x, struct api_error *e)
{
	if (!limit || x->prompts > 1 || x->window <= limit)
		return 0;
	return api_error_set(e, 400, "invalid_value", "n",
		"'n' is %u, and the key may have %u answers at the same time", x->window,
		limit);
}

/* Takes from the limits of the key. */
static int take_key(struct server *s, struct exchange *x, struct api_key *key,
	struct httpd_reply *r, struct api_error *e)
{
	uint32_t limit = keys_streams(&s->keys, key);
	int wait_s = 1;

	if (x->prompts > 1)
		exchange_limit(x, limit);
	if (check_streams(limit, x, e) < 0)
		return -1;
	if (keys_take(&s->keys, key, x->window, x->prompt_tokens, clock_mono_ns(),
		    &wait_s) == 0)
		return 0;
	r->retry_after_s = wait_s;
	return api_error_set(e, 429, "rate_limit_exceeded", NULL, "%s", err_get()->text);
}

/* Applies the limits of the key, and takes a place in the queue. If it returns -1, it has
 * released x. */
static int start(struct server *s, struct exchange *x, struct api_key *key,
	struct httpd_request *q, struct httpd_reply *r, struct api_error *e)
{
	int rc = 0;

	exchange_belongs(x, key ? key->id : address_group(q->client),
		key && !s->cache_shared ? key->id : 0);
	if (key)
		rc = take_key(s, x, key, r, e);
	if (rc == 0) {
		x->keys = &s->keys;
		x->key = key;
		rc = exchange_start(x, q, r);
		if (rc < 0) {
			api_error_set(e, 429, "queue_full", NULL, "%s", err_get()->text);
			r->retry_after_s = 1;
			if (key)
				keys_give(&s->keys, key, x->window, 0);
		}
	}
	if (rc < 0)
		exchange_drop(x);
	return rc;
}

static int check_dimensions(const struct request *ask, const struct served *m,
	struct api_error *e)
{
	uint32_t dim = model_file_config(m->l.model_file)->dim;

	return ask->dimensions <= dim ?
		0 :
		api_error_set(e, 400, "invalid_value", "dimensions",
			"'dimensions': embeddings of this model have %u", dim);
}

static int begin(struct server *s, struct request *ask, struct api_key *key,
	struct httpd_request *q, struct httpd_reply *r, const struct reply_format *format,
	struct api_error *e)
{
	struct prompt *prompts = NULL;
	struct constraint *constraint = NULL;
	struct served *m;
	struct exchange *x;
	uint32_t n = 0, adapter;
	int rc = -1;

	if (prompt_count(ask, &n, e) < 0)
		return -1;
	m = take_model(s, ask->model, &adapter, e);
	if (!m)
		return -1;
	prompts = xcalloc(n, sizeof *prompts);
	if (check_dimensions(ask, m, e) == 0 &&
		prompt_encode_all(prompts, n, m, ask, e) == 0 &&
		constraint_open(&constraint, m, ask, e) == 0 && !lacked_memory(e)) {
		x = exchange_new(s->writer, m, ask, format, prompts, n, constraint);
		exchange_adapts(x, adapter);
		x->give_model = give_model;
		x->models = &s->models;
		rc = start(s, x, key, q, r, e);
	} else {
		constraint_free(constraint);
		models_give(&s->models, m);
	}
	for (uint32_t i = 0; i < n; i++)
		prompt_release(&prompts[i]);
	free(prompts);
	return rc;
}

static enum httpd_when answer(struct server *s, struct httpd_request *q,
	struct httpd_reply *r, enum request_kind kind, const struct reply_format *format)
{
	struct request ask = { 0 };
	struct api_error e;
	struct api_key *key;
	int rc = -1;

	if (!access_allows(s, q, r, false, &key))
		return HTTPD_NOW;
	if (atomic_load(&s->draining))
		api_error_set(&e, 503, "draining", NULL, "the server is about to end");
	else if (!lacks_memory(q, &e) &&
		request_parse(&ask, kind, q->body.data, q->body.len, &e) == 0)
		rc = begin(s, &ask, key, q, r, format, &e);
	request_release(&ask);
	if (rc == 0)
		return HTTPD_LATER;
	if (e.status == 503)
		r->retry_after_s = 1;
	return api_error_reply(r, &e);
}

static enum httpd_when post_chat(void *s, struct httpd_request *q, struct httpd_reply *r)
{
	return answer(s, q, r, REQUEST_CHAT, &reply_chat);
}

static enum httpd_when post_completion(void *s, struct httpd_request *q,
	struct httpd_reply *r)
{
	return answer(s, q, r, REQUEST_COMPLETION, &reply_completion);
}

static enum httpd_when post_response(void *s, struct httpd_request *q,
	struct httpd_reply *r)
{
	return answer(s, q, r, REQUEST_RESPONSE, &reply_response);
}

static enum httpd_when post_embedding(void *s, struct httpd_request *q,
	struct httpd_reply *r)
{
	return answer(s, q, r, REQUEST_EMBEDDING, &reply_embedding);
}

static void gone(void *ctx, struct httpd_request *q)
{
	(void)ctx;
	exchange_gone(q->state);
}

static void half(void *ctx, struct httpd_request *q)
{
	(void)ctx;
	exchange_half(q->state);
}

static void done(void *ctx, struct httpd_request *q)
{
	(void)ctx;
	exchange_drop(q->state);
}

/* --- models --------------------------------------------------------------------------------------- */

static json_t *describe(const struct server *s, const struct served *m, uint32_t adapter)
{
	json_t *o = json_object();

	json_set_text(o, "id", adapter ? m->adapters[adapter - 1].name : m->name);
	json_set_text(o, "object", "model");
	json_set_i64(o, "created", s->started_s);
	json_set_text(o, "owned_by", "rnp");
	json_set_i64(o, "context", m->context);
	json_set_bool(o, "chat", m->chats);
	if (adapter)
		json_set_text(o, "parent", m->name);
	return o;
}

static enum httpd_when get_models(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct server *s = ctx;
	json_t *list, *o;
	struct api_key *key;

	if (!access_allows(s, q, r, false, &key))
		return HTTPD_NOW;
	list = json_array();
	o = json_object();
	for (uint32_t i = 0; i < s->models.count; i++)
		for (uint32_t k = 0; k <= s->models.at[i].adapter_count; k++)
			json_push(list, describe(s, &s->models.at[i], k));
	json_set_text(o, "object", "list");
	json_set(o, "data", list);
	json_write(&r->body, o);
	json_decref(o);
	return HTTPD_NOW;
}

static enum httpd_when get_model(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct api_error e;
	struct served *m;
	struct api_key *key;
	uint32_t adapter;
	json_t *o;

	if (!access_allows(ctx, q, r, false, &key))
		return HTTPD_NOW;
	m = models_find(&((struct server *)ctx)->models, q->arg, &adapter, &e);
	if (!m)
		return api_error_reply(r, &e);
	o = describe(ctx, m, adapter);
	json_write(&r->body, o);
	json_decref(o);
	return HTTPD_NOW;
}

static void give_back(struct server *s, struct served *m)
{
	if (m)
		models_give(&s->models, m);
}

/* --- texts and tokens ------------------------------------------------------------------------------- */

/* Reads a body {"model": ..., KEY: ...} and returns the value of KEY, after checking its
 * type. The caller gives *m back, unless it is NULL. */
static json_t *read_small(struct server *s, struct httpd_request *q, const char *key,
	json_type type, json_t **body, struct served **m, struct api_error *e)
{
	uint32_t adapter; /* all of a model's have its tokens */
	json_t *v;

	*m = NULL;
	*body = NULL;
	if (lacks_memory(q, e))
		return NULL;
	*body = json_parse_object(q->body.data, q->body.len, "body");
	if (!*body) {
		api_error_set(e, 400, "invalid_json", NULL, "%s", err_get()->text);
		return NULL;
	}
	v = json_object_get(*body, key);
	if (!v || json_typeof(v) != type) {
		api_error_set(e, 400, "invalid_value", key, "'%s' must be %s", key,
			type == JSON_STRING ? "a text" : "an array of token ids");
		return NULL;
	}
	*m = take_model(s, json_string_value(json_object_get(*body, "model")), &adapter,
		e);
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

static enum httpd_when post_tokenize(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct buf ids = BUF_INIT;
	struct served *m;
	struct api_error e;
	struct api_key *key;
	json_t *body, *v;
	int rc = -1;

	if (!access_allows(ctx, q, r, false, &key))
		return HTTPD_NOW;
	v = read_small(ctx, q, "content", JSON_STRING, &body, &m, &e);
	if (v) {
		int64_t bos = lm_token_bos(m->l.token);
		uint32_t id = (uint32_t)bos;

		if (bos >= 0 && json_is_true(json_object_get(body, "add_special")))
			buf_add(&ids, &id, sizeof id);
		rc = lm_token_encode(m->l.token, &ids, json_string_value(v),
			json_string_length(v),
			json_is_true(json_object_get(body, "special")));
		if (rc < 0)
			api_error_set(&e, 400, "invalid_value", "content", "%s",
				err_get()->text);
	}
	if (rc == 0)
		write_tokens(r, &ids);
	else
		api_error_reply(r, &e);
	give_back(ctx, m);
	buf_release(&ids);
	json_decref(body);
	return HTTPD_NOW;
}

static int detokenize(struct buf *text, const struct served *m, const json_t *ids,
	struct api_error *e)
{
	struct lm_detoken d;
	json_t *v;
	size_t i;

	lm_detoken_init(&d, m->l.token);
	json_array_foreach(ids, i, v) {
		json_int_t id = json_integer_value(v);

		if (!json_is_integer(v) || id < 0 || id >= lm_token_count(m->l.token))
			return api_error_set(e, 400, "invalid_value", "tokens",
				"'tokens[%zu]' is not in the vocabulary", i);
		if (lm_detoken_push(&d, text, (uint32_t)id) < 0)
			return api_error_set(e, 400, "invalid_value", "tokens", "%s",
				err_get()->text);
	}
	lm_detoken_end(&d, text);
	return 0;
}

static enum httpd_when post_detokenize(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct buf text = BUF_INIT;
	struct served *m;
	struct api_error e;
	struct api_key *key;
	json_t *body, *v, *o;

	if (!access_allows(ctx, q, r, false, &key))
		return HTTPD_NOW;
	v = read_small(ctx, q, "tokens", JSON_ARRAY, &body, &m, &e);
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
	return HTTPD_NOW;
}

/* Returns the prompt that a chat's messages are rendered to, for people who write clients and
 * templates. */
static enum httpd_when post_template(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct request ask = { 0 };
	struct buf text = BUF_INIT;
	struct api_error e;
	struct served *m = NULL;
	struct api_key *key;
	uint32_t adapter;
	json_t *o;

	if (!access_allows(ctx, q, r, false, &key))
		return HTTPD_NOW;
	if (!lacks_memory(q, &e) &&
		request_parse(&ask, REQUEST_TEMPLATE, q->body.data, q->body.len, &e) == 0)
		m = take_model(ctx, ask.model, &adapter, &e);
	if (m && prompt_text(&text, m, &ask, &e) == 0) {
		o = json_object();
		json_set_text(o, "prompt", buf_text(&text));
		json_write(&r->body, o);
		json_decref(o);
	} else {
		api_error_reply(r, &e);
	}
	give_back(ctx, m);
	request_release(&ask);
	buf_release(&text);
	return HTTPD_NOW;
}

/* --- how it is --------------------------------------------------------------------------------------- */

static enum httpd_when get_health(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct server *s = ctx;
	struct api_key *key;

	if (!access_allows(s, q, r, true, &key))
		return HTTPD_NOW;
	if (atomic_load(&s->loading))
		return httpd_error(r, 503, "the models are being loaded");
	if (atomic_load(&s->draining))
		return httpd_error(r, 503, "the server is about to end");
	if (models_failing(&s->models, clock_mono_ns()))
		return httpd_error(r, 503,
			"the device failed in the last %d steps of a model",
			MODELS_FAILING);
	buf_adds(&r->body, "{\"status\":\"ok\"}\n");
	return HTTPD_NOW;
}

extern const char *const serve_embedded_texts[]; /* openapi.json, page.html */

static enum httpd_when get_openapi(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct api_key *key;

	if (!access_allows(ctx, q, r, true, &key))
		return HTTPD_NOW;
	return httpd_reply_memory(r, serve_embedded_texts[0],
		strlen(serve_embedded_texts[0]));
}

/* --- before the body comes ------------------------------------------------------------------------------- */

/* Access is checked before the body is read, so that a client does not upload 16 MiB in
 * vain. */
static enum httpd_when begin_post(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct httpd_reply scratch = { 0 };
	struct api_key *key;
	bool allowed = access_allows(ctx, q, &scratch, false, &key);

	httpd_reply_release(&scratch);
	if (allowed)
		return HTTPD_GO_ON;
	access_allows(ctx, q, r, false, &key);
	return HTTPD_NOW;
}

/* A browser sends this preflight request before it lets a page of another origin send the real
 * one. */
static enum httpd_when options(void *ctx, struct httpd_request *q, struct httpd_reply *r)
{
	struct api_key *key;

	if (!access_allows(ctx, q, r, true, &key))
		return HTTPD_NOW;
	r->status = 204;
	httpd_add_header(r, "Access-Control-Allow-Methods", "GET, POST");
	httpd_add_header(r, "Access-Control-Allow-Headers",
		"authorization, content-type, %s",
		"x-stainless-arch, x-stainless-lang, x-stainless-os, x-stainless-package-version, "
		"x-stainless-retry-count, x-stainless-runtime, x-stainless-runtime-version, "
		"x-stainless-timeout");
	httpd_add_header(r, "Access-Control-Max-Age", "600");
	return HTTPD_NOW;
}

#define OPTIONS(path) HTTPD_ROUTE("OPTIONS", path, options, 0)

const struct httpd_route server_routes[] = {
	HTTPD_POST("/v1/chat/completions", post_chat, BODY_MAX, .slow = true,
		.begin = begin_post, .gone = gone, .half = half, .done = done),
	HTTPD_POST("/v1/completions", post_completion, BODY_MAX, .slow = true,
		.begin = begin_post, .gone = gone, .half = half, .done = done),
	HTTPD_POST("/v1/responses", post_response, BODY_MAX, .slow = true,
		.begin = begin_post, .gone = gone, .half = half, .done = done),
	HTTPD_POST("/v1/embeddings", post_embedding, BODY_MAX, .slow = true,
		.begin = begin_post, .gone = gone, .done = done),
	HTTPD_GET("/v1/models", get_models),
	HTTPD_GET("/v1/models/{model}", get_model),
	HTTPD_POST("/tokenize", post_tokenize, BODY_MAX, .slow = true,
		.begin = begin_post),
	HTTPD_POST("/detokenize", post_detokenize, BODY_MAX, .slow = true,
		.begin = begin_post),
	HTTPD_POST("/apply-template", post_template, BODY_MAX, .slow = true,
		.begin = begin_post),
	HTTPD_GET("/health", get_health),
	HTTPD_GET("/openapi.json", get_openapi),
	HTTPD_GET("/", page_get),
	OPTIONS("/v1/chat/completions"),
	OPTIONS("/v1/completions"),
	OPTIONS("/v1/responses"),
	OPTIONS("/v1/embeddings"),
	OPTIONS("/v1/models"),
	OPTIONS("/v1/models/{model}"),
	OPTIONS("/tokenize"),
	OPTIONS("/detokenize"),
	OPTIONS("/apply-template"),
	{ 0 },
};
