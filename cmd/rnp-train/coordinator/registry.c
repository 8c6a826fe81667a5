/* registry.c - a coordinator and a registry: only nodes that are registered there, and meet a
 * policy, take part, and receipts go there, each until it is taken. */
#include "cmd/rnp-train/coordinator/registry.h"

#include <string.h>

#include "cmd/rnp-train/coordinator/db.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/cli/prog.h"
#include "common/json/json.h"
#include "common/registry/client.h"
#include "common/record/eligibility.h"

#define TRY_MS   3000
#define AGAIN_NS INT64_C(10000000000) /* after a failure */

/* Workers ask again every few seconds, and the operator reads why nobody joins once in a while. */
static void tell(void)
{
	static _Atomic int64_t told_ns;
	int64_t now_ns = clock_mono_ns();

	if (told_ns && now_ns - told_ns < 6 * AGAIN_NS)
		return;
	told_ns = now_ns;
	prog_warn("nobody can join: %s", err_get()->text);
}

int coordinate_admits(struct coordinator *g, const char *node, struct buf *why)
{
	const struct registry_call p = { .base = g->o.registry,
		.per_try_ms = TRY_MS,
		.tries = 2 };
	struct http http = HTTP_INIT;
	struct http_response r = HTTP_RESPONSE_INIT;
	json_t *reply;
	int rc;

	if (!g->o.registry)
		return 1;
	reply = registry_node(&http, &p, node, &r);
	rc = reply ? 1 : r.status == 404 ? 0 : -1;
	if (rc < 0)
		tell();
	if (rc == 0) {
		err_clear();
		buf_adds(why, "is not registered where this run asks for it");
	}
	if (rc == 1 && g->o.policy) {
		buf_addf(why, "does not qualify under %s: ", g->o.policy->name);
		rc = eligibility_check(g->o.policy, json_object_get(reply, "record"),
			why);
	}
	json_decref(reply);
	http_release(&http);
	http_response_release(&r);
	return rc;
}

/* The next receipt that the registry has not. Returns 1, 0 or -1. */
static int next_receipt(struct coordinator *g, int64_t *id, struct buf *text)
{
	sqlite3_stmt *q = NULL;
	int rc;

	pthread_mutex_lock(&g->rounds.lock);
	rc = store_prepare(&g->rounds.db, &q,
		"SELECT id, record FROM receipts WHERE posted = 0 ORDER BY id LIMIT 1");
	if (rc == 0)
		rc = store_step(&g->rounds.db, q);
	if (rc == 1) {
		*id = sqlite3_column_int64(q, 0);
		buf_adds(text, store_text(q, 1));
	}
	sqlite3_finalize(q);
	pthread_mutex_unlock(&g->rounds.lock);
	return rc;
}

static int set_posted(struct coordinator *g, int64_t id)
{
	sqlite3_stmt *q = NULL;
	int rc;

	pthread_mutex_lock(&g->rounds.lock);
	rc = store_prepare(&g->rounds.db, &q,
		"UPDATE receipts SET posted = 1 WHERE id = ?");
	if (rc == 0)
		rc = store_run(&g->rounds.db, q, "i", id);
	sqlite3_finalize(q);
	pthread_mutex_unlock(&g->rounds.lock);
	return rc;
}

/* Returns 1: the registry has it, or will never take it; 0: later. */
static int post(struct coordinator *g, struct http *http, const struct buf *text)
{
	struct http_response r = HTTP_RESPONSE_INIT;
	json_t *record = json_parse_object(buf_text(text), text->len, "receipt");
	const struct registry_call p = { .base = g->o.registry, .per_try_ms = TRY_MS };
	json_t *stored = record ?
		registry_post(http, &p, record, text->data, text->len, &r) :
		NULL;
	bool done = stored != NULL;
	bool refused = !done && r.status >= 400 && r.status < 500 && r.status != 429;

	if (!stored)
		prog_warn("a receipt is %s the registry: %s",
			refused ? "refused by" : "not yet at", err_get()->text);
	err_clear();
	json_decref(record);
	json_decref(stored);
	http_response_release(&r);
	return done || refused;
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
