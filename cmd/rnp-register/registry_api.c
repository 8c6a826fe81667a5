/* The registry's routes. Listing of nodes is in registry_nodes.c, sums in registry_sums.c. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cmd/rnp-register/registry.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/json/json.h"
#include "common/base/num.h"
#include "common/cli/prog.h"

extern const char *const api_embedded_texts[]; /* cmd/rnp-register/api/openapi.json */

static enum httpd_when post(struct registry *g, struct httpd_request *q,
	struct httpd_reply *r, const char *kind)
{
	struct registry_put *p = registry_accept(g, q, r, kind);

	if (!p)
		return HTTPD_NOW;
	registry_put(g, p);
	return HTTPD_LATER;
}

static enum httpd_when post_node(void *g, struct httpd_request *q, struct httpd_reply *r)
{
	return post(g, q, r, "rnp.node");
}

static enum httpd_when post_heartbeat(void *g, struct httpd_request *q,
	struct httpd_reply *r)
{
	return post(g, q, r, "rnp.heartbeat");
}

static enum httpd_when post_record(void *g, struct httpd_request *q,
	struct httpd_reply *r)
{
	return post(g, q, r, NULL);
}

static enum httpd_when get_openapi(void *g, struct httpd_request *q,
	struct httpd_reply *r)
{
	(void)g, (void)q;
	buf_adds(&r->body, api_embedded_texts[0]);
	snprintf(r->etag, sizeof r->etag, "\"%s-%zu\"", RNP_VERSION, r->body.len);
	return HTTPD_NOW;
}

static enum httpd_when get_health(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct registry *g = ctx;
	struct store *s = registry_reader(g);
	sqlite3_stmt *query = NULL;
	bool ok = store_prepare(s, &query, "SELECT max(id) FROM records") == 0 &&
		store_step(s, query) == 1;

	(void)q;
	sqlite3_finalize(query);
	registry_reader_done(g, s);
	if (!ok)
		return registry_unavailable(r);
	buf_adds(&r->body, "{\"status\":\"ok\"}\n");
	return HTTPD_NOW;
}

enum httpd_when registry_unavailable(struct httpd_reply *r)
{
	prog_error("%s", err_get()->text);
	r->retry_after_s = 1;
	return httpd_error(r, 503, "the registry cannot read its records at present");
}

static bool is_word_of(const char *words, const char *word)
{
	size_t n = strlen(word);

	for (const char *s = words; *s; s += strspn(s, " ")) {
		size_t len = strcspn(s, " ");

		if (len == n && memcmp(s, word, n) == 0)
			return true;
		s += len;
	}
	return false;
}

int registry_query_known(const struct httpd_request *q, struct httpd_reply *r,
	const char *keys)
{
	for (int i = 0; i < q->nquery; i++) {
		const char *key = q->query[i].key;
		bool twice = httpd_query(q, key) != q->query[i].value;

		if (is_word_of(keys, key) && !twice)
			continue;
		httpd_error(r, 400,
			twice ? "%.40s: is given twice" :
				"%.40s: this path has no such query field",
			key);
		return -1;
	}
	return 0;
}

int registry_query_address(const struct httpd_request *q, struct httpd_reply *r,
	const char *key)
{
	const char *text = httpd_query(q, key);
	unsigned char public_key[KEY_PUBLIC_BYTES];

	if (!text || address_parse(text, key, public_key) == 0)
		return 0;
	httpd_error(r, 400, "%s", err_get()->text);
	return -1;
}

int registry_query_i64(const struct httpd_request *q, struct httpd_reply *r,
	const char *key, int64_t min, int64_t max, int64_t *out)
{
	const char *text = httpd_query(q, key);

	if (!text || num_i64(text, key, min, max, out) == 0)
		return 0;
	httpd_error(r, 400, "%s", err_get()->text);
	return -1;
}

int registry_query_time(const struct httpd_request *q, struct httpd_reply *r,
	const char *key, int64_t *ms)
{
	const char *text = httpd_query(q, key);

	if (!text || clock_parse(text, key, ms) == 0)
		return 0;
	httpd_error(r, 400, "%s", err_get()->text);
	return -1;
}

void registry_metrics(void *ctx, struct buf *out)
{
	struct registry *g = ctx;
	struct store *s = registry_reader(g);
	sqlite3_stmt *query = NULL;

	if (store_prepare(s, &query,
		    "SELECT (SELECT count(*) FROM nodes), (SELECT max(id) FROM heartbeats),"
		    " (SELECT max(id) FROM records)") == 0 &&
		store_step(s, query) == 1)
		buf_addf(out,
			"# HELP rnp_registry_nodes Nodes that are registered.\n"
			"# TYPE rnp_registry_nodes gauge\nrnp_registry_nodes %lld\n"
			"# HELP rnp_registry_heartbeats Heartbeats that are stored.\n"
			"# TYPE rnp_registry_heartbeats gauge\nrnp_registry_heartbeats %lld\n"
			"# HELP rnp_registry_records Other records that are stored.\n"
			"# TYPE rnp_registry_records gauge\nrnp_registry_records %lld\n",
			sqlite3_column_int64(query, 0), sqlite3_column_int64(query, 1),
			sqlite3_column_int64(query, 2));
	sqlite3_finalize(query);
	registry_reader_done(g, s);
	buf_addf(out,
		"# HELP rnp_registry_stored_total Records acknowledged since the start.\n"
		"# TYPE rnp_registry_stored_total counter\nrnp_registry_stored_total %" PRIu64
		"\n"
		"# HELP rnp_registry_refused_total Records refused since the start.\n"
		"# TYPE rnp_registry_refused_total counter\nrnp_registry_refused_total %" PRIu64
		"\n"
		"# HELP rnp_registry_commits_total Commits since the start.\n"
		"# TYPE rnp_registry_commits_total counter\nrnp_registry_commits_total %" PRIu64
		"\n",
		g->stored, g->refused, g->commits);
}

const struct httpd_route registry_routes[] = {
	{ "POST", "/v1/heartbeats", post_heartbeat, REGISTRY_BEAT_BODY_MAX },
	{ "POST", "/v1/nodes", post_node, REGISTRY_BODY_MAX },
	{ "POST", "/v1/records", post_record, REGISTRY_BODY_MAX },
	{ "POST", "/v1/answers", registry_post_answer, REGISTRY_ANSWER_MAX },
	{ "GET", "/v1/exchange/{challenge}", registry_get_bandwidth_test, 0 },
	{ "POST", "/v1/exchange/{challenge}", registry_post_bandwidth_test,
		REGISTRY_EXCHANGE_MAX },
	{ "GET", "/v1/nodes", registry_get_nodes, 0 },
	{ "GET", "/v1/nodes/{address}", registry_get_node, 0 },
	{ "GET", "/v1/records", registry_get_records, 0 },
	{ "GET", "/v1/pools", registry_get_pools, 0 },
	{ "GET", "/v1/uptime", registry_get_uptime, 0 },
	{ "GET", "/openapi.json", get_openapi, 0 },
	{ "GET", "/health", get_health, 0 },
	{ 0 },
};
