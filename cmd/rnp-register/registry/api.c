/* api.c - the registry's routes. Lists are in pages/nodes.c, counts in
 * pages/pools.c. */
#include "cmd/rnp-register/registry/api.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cmd/rnp-register/registry/accept.h"
#include "cmd/rnp-register/storage/ack.h"
#include "cmd/rnp-register/challenges/challenge.h"
#include "cmd/rnp-register/market/blobs.h"
#include "cmd/rnp-register/market/logs.h"
#include "cmd/rnp-register/pages/page.h"
#include "cmd/rnp-register/storage/query.h"
#include "cmd/rnp-register/pages/reads.h"
#include "cmd/rnp-register/pages/uptime.h"
#include "cmd/rnp-register/challenges/verdict.h"
#include "cmd/rnp-register/market/market.h"
#include "cmd/rnp-register/market/reach.h"
#include "cmd/rnp-register/market/receipts.h"
#include "common/base/clock.h"
#include "common/registry/bandwidth_test.h"
#include "common/poc/poc.h"

#define RECORD_BODY_MAX ((size_t)64 << 10)
#define NODE_BODY_MAX   ((size_t)32 << 10) /* 64 GPUs with all their fields */
/* a proposal of 64 nodes, and secrets for each */
#define BOOKING_BODY_MAX ((size_t)512 << 10)
#define BEAT_BODY_MAX    ((size_t)4 << 10)

extern const char *const api_embedded_texts[]; /* openapi.json */

static enum httpd_when post(struct registry *g, struct httpd_request *q,
	struct httpd_reply *r, const char *kind)
{
	struct registry_put *p = registry_accept(g, q, r, kind);

	if (!p)
		return HTTPD_NOW;
	registry_store(g, p, q, r);
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
	struct store *s = registry_db_quick(&g->db);
	sqlite3_stmt *query = NULL;
	bool ok = store_prepare(s, &query, "SELECT max(id) FROM records") == 0 &&
		store_step(s, query) == 1;

	(void)q;
	sqlite3_finalize(query);
	registry_db_quick_done(&g->db);
	if (!ok)
		return registry_unavailable(r);
	/* reading may go on for long while heartbeats are lost */
	if (store_failing(&g->db.store))
		return registry_unwritable(r);
	buf_adds(&r->body, "{\"status\":\"ok\"}\n");
	return HTTPD_NOW;
}

void registry_metrics(void *ctx, struct buf *out)
{
	struct registry *g = ctx;
	struct store *s = registry_db_quick(&g->db);
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
	registry_db_quick_done(&g->db);
	buf_addf(out,
		"# HELP rnp_registry_stored_total Records acknowledged since the start.\n"
		"# TYPE rnp_registry_stored_total counter\nrnp_registry_stored_total %" PRIu64
		"\n"
		"# HELP rnp_registry_refused_total Records refused since the start.\n"
		"# TYPE rnp_registry_refused_total counter\nrnp_registry_refused_total %" PRIu64
		"\n"
		"# HELP rnp_registry_commits_total Commits since the start.\n"
		"# TYPE rnp_registry_commits_total counter\nrnp_registry_commits_total %" PRIu64
		"\n"
		"# HELP rnp_registry_bytes Of the database that are in use.\n"
		"# TYPE rnp_registry_bytes gauge\nrnp_registry_bytes %" PRId64 "\n"
		/* promtool takes "bits" for a unit that is none of its own */
		"# HELP rnp_registry_join_difficulty Work that joining costs now: 2 to this power.\n"
		"# TYPE rnp_registry_join_difficulty gauge\nrnp_registry_join_difficulty %d\n",
		g->stored, g->refused, g->db.commits, (int64_t)g->db.bytes_used,
		limits_join_bits(g->limits, clock_now_ms()));
	market_metrics(g, out);
	blobs_metrics(g, out);
}

/* Handlers that read more than a row, or fill large buffers, are marked slow: heartbeats and
 * /health never wait for them, on whatever connection they come. */
const struct httpd_route registry_routes[] = {
	HTTPD_POST("/v1/heartbeats", post_heartbeat, BEAT_BODY_MAX, .class = HTTPD_SMALL),
	HTTPD_POST("/v1/nodes", post_node, NODE_BODY_MAX),
	HTTPD_POST("/v1/records", post_record, RECORD_BODY_MAX),
	HTTPD_POST("/v1/answers", registry_post_answer, POC_ANSWER_BYTES_MAX,
		.class = HTTPD_LARGE, .begin = registry_begin_answer,
		.done = registry_done_answer),
	HTTPD_POST("/v1/roots", registry_post_roots, BEAT_BODY_MAX, .class = HTTPD_SMALL),
	HTTPD_POST("/v1/unanswered", registry_post_unanswered, BEAT_BODY_MAX,
		.class = HTTPD_SMALL),
	HTTPD_GET("/v1/exchange/{challenge}", registry_get_bandwidth_test, .slow = true),
	HTTPD_POST("/v1/exchange/{challenge}", registry_post_bandwidth_test,
		BANDWIDTH_TEST_BYTES_MAX, .class = HTTPD_OTHER, .slow = true,
		.begin = registry_begin_bandwidth_test,
		.done = registry_done_bandwidth_test),
	HTTPD_GET("/v1/nodes", registry_get_nodes, .slow = true),
	HTTPD_GET("/v1/nodes/{address}", registry_get_node, .slow = true),
	HTTPD_GET("/v1/records", registry_get_records, .slow = true),
	/* what a customer or an agent of the market says must get through, as heartbeats do */
	HTTPD_POST("/v1/plans", market_post_plan, RECORD_BODY_MAX, .slow = true),
	HTTPD_POST("/v1/bookings", market_post_booking, BOOKING_BODY_MAX, .slow = true),
	HTTPD_POST("/v1/deposits", market_post_deposit, BEAT_BODY_MAX),
	HTTPD_POST("/v1/listings", market_post_listing, NODE_BODY_MAX),
	HTTPD_POST("/v1/events", market_post_event, BEAT_BODY_MAX, .class = HTTPD_SMALL),
	HTTPD_POST("/v1/actions", market_post_action, BEAT_BODY_MAX,
		.class = HTTPD_SMALL),
	HTTPD_GET("/v1/clusters", market_get_clusters, .slow = true),
	HTTPD_GET("/v1/clusters/{cluster}", market_get_cluster, .slow = true,
		.disconnected = market_disconnected),
	HTTPD_GET("/v1/events", market_get_events, .slow = true,
		.disconnected = market_disconnected),
	HTTPD_GET("/v1/work", market_get_work, .slow = true,
		.disconnected = market_disconnected),
	HTTPD_GET("/v1/account", market_get_account, .slow = true),
	HTTPD_POST("/v1/gateways", market_post_gateway, BEAT_BODY_MAX),
	HTTPD_GET("/v1/gateways", market_get_gateways, .slow = true),
	HTTPD_GET("/v1/access", market_get_access, .slow = true,
		.disconnected = market_disconnected),
	HTTPD_GET("/v1/leases", market_get_leases, .slow = true),
	HTTPD_GET("/v1/listings", reach_get_listings, .slow = true),
	HTTPD_PUT("/v1/blobs/{sha256}", blobs_put, (size_t)BLOB_BYTES_MAX, .slow = true,
		.begin = blobs_begin_put, .take = blobs_take, .done = blobs_done),
	HTTPD_GET("/v1/blobs/{sha256}", blobs_get),
	HTTPD_POST("/v1/blobs", blobs_ask, BLOBS_ASK_BODY_MAX, .slow = true),
	HTTPD_POST("/v1/logs/{cluster}/{rank}", logs_post, LOGS_BODY_MAX),
	HTTPD_GET("/v1/logs/{cluster}/{rank}", logs_get, .done = logs_done),
	HTTPD_GET("/v1/logs/{cluster}", logs_get_all, .done = logs_done),
	HTTPD_GET("/v1/invoices/{cluster}", receipts_get_invoice, .slow = true),
	HTTPD_GET("/v1/pools", registry_get_pools, .slow = true),
	HTTPD_GET("/v1/uptime", registry_get_uptime, .slow = true),
	HTTPD_GET("/", registry_get_page, .slow = true),
	HTTPD_GET("/nodes/{address}", registry_get_node_page, .slow = true),
	HTTPD_GET("/openapi.json", get_openapi),
	HTTPD_GET("/health", get_health),
	{ 0 },
};
