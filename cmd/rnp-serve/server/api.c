/* api.c - the routes of the API. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-serve/server/access.h"
#include "cmd/rnp-serve/request/error.h"
#include "cmd/rnp-serve/server/page.h"
#include "cmd/rnp-serve/server/server.h"
#include "cmd/rnp-serve/server/texts.h"
#include "cmd/rnp-serve/server/work.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/httpd/parts.h"
#include "common/json/json.h"

#define BODY_MAX ((size_t)16 << 20)

static void give_model(void *pool, struct model_slot *m)
{
	model_pool_give(pool, m);
}

/* --- answers ------------------------------------------------------------------------------ */

/* Whether the key may ever have as many answers at the same time; that of several prompts has fewer
 * of them at a time. */
static int check_streams(uint32_t limit, const struct completion *x, struct api_error *e)
{
	if (!limit || x->prompts > 1 || x->window <= limit)
		return 0;
	return api_error_set(e, 400, "invalid_value", "n",
		"'n' is %u, and the key may have %u answers at the same time", x->window,
		limit);
}

/* Takes from the limits of the key. */
static int take_key(struct server *s, struct completion *x, struct api_key *key,
	struct httpd_reply *r, struct api_error *e)
{
	uint32_t limit = keys_streams(&s->keys, key);
	struct key_share share;
	int wait_s = 1;

	if (x->prompts > 1)
		completion_limit(x, limit);
	if (check_streams(limit, x, e) < 0)
		return -1;
	share = completion_share(x);
	if (keys_take(&s->keys, key, &share, clock_mono_ns(), &wait_s) == 0) {
		completion_allow(x, &share);
		return 0;
	}
	if (err_get()->code == EX_DATAERR)
		return api_error_set(e, 400, "rate_limit_exceeded", NULL, "%s",
			err_get()->text);
	r->retry_after_s = wait_s;
	return api_error_set(e, 429, "rate_limit_exceeded", NULL, "%s", err_get()->text);
}

/* Applies the limits of the key, and takes a place in the queue. If it returns -1, it has
 * released x. */
static int start(struct server *s, struct completion *x, struct api_key *key,
	struct httpd_request *q, struct httpd_reply *r, struct api_error *e)
{
	int rc = 0;

	/* without keys, addresses take turns and share cached prompts */
	completion_belongs(x, key ? key->id : httpd_client_group(q->client),
		key && !s->cache_shared ? key->id : 0);
	if (key)
		rc = take_key(s, x, key, r, e);
	if (rc == 0) {
		x->keys = &s->keys;
		x->key = key;
		rc = completion_start(x, q, r);
		if (rc < 0) {
			api_error_set(e, 429, "queue_full", NULL, "%s", err_get()->text);
			r->retry_after_s = 1;
			if (key)
				keys_give(&s->keys, key, &x->share, 0);
		}
	}
	if (rc < 0)
		completion_drop(x);
	return rc;
}

static int check_dimensions(const struct request *ask, const struct model_slot *m,
	struct api_error *e)
{
	uint32_t dim = model_file_config(m->handles.model_file)->dim;

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
	struct model_slot *m;
	struct completion *x;
	uint32_t n = 0, adapter;
	int64_t compiling_ns = 0;
	int rc = -1;

	if (prompt_count(ask, &n, e) < 0)
		return -1;
	m = work_take_model(s, ask->model, &adapter, e);
	if (!m)
		return -1;
	prompts = xcalloc(n, sizeof *prompts);
	if (check_dimensions(ask, m, e) == 0 &&
		prompt_encode_all(prompts, n, m, ask, e) == 0 &&
		work_constrain(&constraint, s, m, ask, key, r, &compiling_ns, e) == 0 &&
		!work_lacked_memory(e)) {
		x = completion_new(s->writer, m, ask, format, prompts, n, constraint);
		completion_adapts(x, adapter);
		x->give_model = give_model;
		x->pool = &s->pool;
		rc = start(s, x, key, q, r, e);
	} else {
		constraint_free(constraint);
		model_pool_give(&s->pool, m);
	}
	work_charge_time(s, key, compiling_ns);
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
	else if (!work_lacks_memory(q, &e) &&
		request_parse(&ask, kind, q->body.data, q->body.len, &e) == 0)
		rc = begin(s, &ask, key, q, r, format, &e);
	request_release(&ask);
	work_give_memory(q);
	if (rc == 0)
		return HTTPD_LATER;
	if (e.status == 400)
		work_charge(s, key, q, 0);
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

static void on_disconnect(void *ctx, struct httpd_request *q)
{
	(void)ctx;
	completion_gone(q->state);
}

static void on_half_close(void *ctx, struct httpd_request *q)
{
	(void)ctx;
	completion_half_closed(q->state);
}

static void done(void *ctx, struct httpd_request *q)
{
	(void)ctx;
	completion_drop(q->state);
}

/* --- models ------------------------------------------------------------------------------- */

static json_t *describe(const struct server *s, const struct model_slot *m,
	uint32_t adapter)
{
	json_t *o = json_object();

	json_set_text(o, "id", adapter ? m->adapters[adapter - 1].name : m->name);
	json_set_text(o, "object", "model");
	json_set_i64(o, "created", s->started_s);
	json_set_text(o, "owned_by", "rnp");
	json_set_i64(o, "context", m->context);
	json_set_bool(o, "chat",
		true); /* by a form of ours where the model brings none */
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
	for (uint32_t i = 0; i < s->pool.count; i++)
		for (uint32_t k = 0; k <= s->pool.at[i].adapter_count; k++)
			json_push(list, describe(s, &s->pool.at[i], k));
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
	struct model_slot *m;
	struct api_key *key;
	uint32_t adapter;
	json_t *o;

	if (!access_allows(ctx, q, r, false, &key))
		return HTTPD_NOW;
	m = model_pool_find(&((struct server *)ctx)->pool, q->arg, &adapter, &e);
	if (!m)
		return api_error_reply(r, &e);
	o = describe(ctx, m, adapter);
	json_write(&r->body, o);
	json_decref(o);
	return HTTPD_NOW;
}

/* --- how it is ---------------------------------------------------------------------------- */

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
	if (model_pool_failing(&s->pool, clock_mono_ns()))
		return httpd_error(r, 503,
			"the device failed in the last %d steps of a model",
			MODEL_POOL_FAILING);
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

/* --- before the body comes ---------------------------------------------------------------- */

/* Whether a key has anything left; else r is the reply. */
static bool may_ask(struct server *s, struct api_key *key, struct httpd_reply *r)
{
	struct api_error e;
	int wait_s = 1;

	if (!key || keys_may_ask(&s->keys, key, clock_mono_ns(), &wait_s) == 0)
		return true;
	r->retry_after_s = wait_s;
	api_error_set(&e, 429, "rate_limit_exceeded", NULL, "%s", err_get()->text);
	api_error_reply(r, &e);
	return false;
}

/* Access is checked before the body is read, so that a client does not upload 16 MiB in
 * vain, nor is what it would have cost lost. */
static enum httpd_when begin_post(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct httpd_reply scratch = { 0 };
	struct api_key *key;
	bool allowed = access_allows(ctx, q, &scratch, false, &key);

	httpd_reply_release(&scratch);
	if (!allowed)
		access_allows(ctx, q, r, false, &key);
	return allowed && may_ask(ctx, key, r) ? HTTPD_GO_ON : HTTPD_NOW;
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
		.begin = begin_post, .disconnected = on_disconnect,
		.half_closed = on_half_close, .done = done),
	HTTPD_POST("/v1/completions", post_completion, BODY_MAX, .slow = true,
		.begin = begin_post, .disconnected = on_disconnect,
		.half_closed = on_half_close, .done = done),
	HTTPD_POST("/v1/responses", post_response, BODY_MAX, .slow = true,
		.begin = begin_post, .disconnected = on_disconnect,
		.half_closed = on_half_close, .done = done),
	HTTPD_POST("/v1/embeddings", post_embedding, BODY_MAX, .slow = true,
		.begin = begin_post, .disconnected = on_disconnect, .done = done),
	HTTPD_GET("/v1/models", get_models),
	HTTPD_GET("/v1/models/{model}", get_model),
	HTTPD_POST("/tokenize", texts_post_tokenize, BODY_MAX, .slow = true,
		.begin = begin_post),
	HTTPD_POST("/detokenize", texts_post_detokenize, BODY_MAX, .slow = true,
		.begin = begin_post),
	HTTPD_POST("/apply-template", texts_post_template, BODY_MAX, .slow = true,
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
