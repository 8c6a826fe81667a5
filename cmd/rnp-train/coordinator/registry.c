/* coordinate_registry.c - a coordinator and a registry: only nodes that are registered there, and meet a
 * policy, take part, and receipts go there, each until it is taken. */
#include "cmd/rnp-train/coordinate_registry.h"

#include <string.h>

#include "cmd/rnp-train/coordinate_db.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/cli/prog.h"
#include "common/json/json.h"
#include "common/net/registry_client.h"
#include "common/record/eligibility.h"

#define TRY_MS   3000
#define AGAIN_NS INT64_C(10000000000) /* after a failure */

/* Holds what the registry says of a node against the policy. Returns 1, 0 with why, or -1. */
static int qualifies(struct coordinator *g, const char *node,
	const struct http_response *r, const char *url, struct buf *why)
{
	json_t *answer = json_parse_object(buf_text(&r->body), r->body.len, url);
	const json_t *record = json_object_get(answer, "record");
	const char *of = json_string_value(json_object_get(record, "node"));
	int rc;

	if (!answer)
		return -1;
	if (!of || strcmp(of, node) != 0) {
		rc = err_set(EX_DATAERR, "'%s' answers without this node's record", url);
	} else {
		rc = eligibility_check(g->o.policy, record, why);
	}
	json_decref(answer);
	return rc;
}

int coordinate_admits(struct coordinator *g, const char *node, struct buf *why)
{
	struct http http = HTTP_INIT;
	struct http_response r = HTTP_RESPONSE_INIT;
	struct http_request q = { .timeout_ms = TRY_MS, .tries = 2 };
	struct buf url = BUF_INIT, path = BUF_INIT;
	int rc;

	if (!g->o.registry)
		return 1;
	buf_addf(&path, "/v1/nodes/%s", node);
	rc = http_url(&url, g->o.registry, path.data);
	if (rc == 0) {
		q.url = url.data;
		rc = http_fetch(&http, &q, &r) == 0 ? 1 : r.status == 404 ? 0 : -1;
	}
	if (rc == 0) {
		err_clear();
		buf_adds(why, "is not registered where this run asks for it");
	}
	if (rc == 1 && g->o.policy) {
		buf_addf(why, "does not qualify under %s: ", g->o.policy->name);
		rc = qualifies(g, node, &r, url.data, why);
	}
	http_release(&http);
	http_response_release(&r);
	buf_release(&url);
	buf_release(&path);
	return rc;
}

/* The next receipt that the registry has not. Returns 1, 0 or -1. */
static int next_receipt(struct coordinator *g, int64_t *id, struct buf *text)
{
	sqlite3_stmt *q = NULL;
	int rc;

	pthread_mutex_lock(&g->lock);
	rc = store_prepare(&g->db, &q,
		"SELECT id, record FROM receipts WHERE posted = 0 ORDER BY id LIMIT 1");
	if (rc == 0)
		rc = store_step(&g->db, q);
	if (rc == 1) {
		*id = sqlite3_column_int64(q, 0);
		buf_adds(text, store_text(q, 1));
	}
	sqlite3_finalize(q);
	pthread_mutex_unlock(&g->lock);
	return rc;
}

static int set_posted(struct coordinator *g, int64_t id)
{
	sqlite3_stmt *q = NULL;
	int rc;

	pthread_mutex_lock(&g->lock);
	rc = store_prepare(&g->db, &q, "UPDATE receipts SET posted = 1 WHERE id = ?");
	if (rc == 0)
		rc = store_run(&g->db, q, "i", id);
	sqlite3_finalize(q);
	pthread_mutex_unlock(&g->lock);
	return rc;
}

/* Returns 1: the registry has it, or will never take it; 0: later. */
static int post(struct coordinator *g, struct http *http, const struct buf *text)
{
	struct http_response r = HTTP_RESPONSE_INIT;
	json_t *record = json_parse_object(buf_text(text), text->len, "receipt");
	int rc = record ? registry_post(http, g->o.registry, NULL, TRY_MS, record,
				  text->data, text->len, &r) :
			  -1;
	bool refused = rc < 0 && r.status >= 400 && r.status < 500 && r.status != 429;

	if (rc < 0)
		prog_warn("a receipt is %s the registry: %s",
			refused ? "refused by" : "not yet at", err_get()->text);
	err_clear();
	json_decref(record);
	http_response_release(&r);
	return rc == 0 || refused;
}

void coordinate_post_receipts(struct coordinator *g, bool now)
{
	struct http http = HTTP_INIT;
	int rc = 1;

	if (!g->o.registry || (!now && clock_mono_ns() < g->post_ns))
		return;
	while (rc == 1) {
		struct buf text = BUF_INIT;
		int64_t id = 0;

		rc = next_receipt(g, &id, &text);
		if (rc == 1 && !post(g, &http, &text)) {
			g->post_ns = clock_mono_ns() + AGAIN_NS;
			rc = 0;
		} else if (rc == 1 && set_posted(g, id) < 0) {
			rc = -1;
		}
		buf_release(&text);
	}
	err_clear();
	http_release(&http);
}
