/* market.c - the market's parts together, and what time brings about. */
#include "cmd/rnp-register/market/market.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-register/market/change.h"
#include "cmd/rnp-register/market/owner.h"
#include "cmd/rnp-register/market/supply.h"
#include "cmd/rnp-register/market/told.h"
#include "cmd/rnp-register/market/watch.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/json/json.h"

int market_open(struct registry *g)
{
	struct market *m;

	if (!g->config.market)
		return 0;
	m = g->market = xcalloc(1, sizeof *m);
	m->g = g;
	m->started_ms = clock_now_ms();
	m->access_seq = m->started_ms; /* more than that of any run before */
	m->supply = supply_new();
	m->watch = watch_new(g);
	m->told = told_new();
	rows_open(&m->rows, &g->db.store);
	return supply_load(m->supply, &g->db.store, m->started_ms);
}

int market_start(struct registry *g)
{
	if (!g->market || g->db.in_memory)
		return 0;
	return watch_start(g->market->watch);
}

void market_stop(struct registry *g)
{
	if (g->market)
		watch_stop(g->market->watch);
}

void market_close(struct registry *g)
{
	struct market *m = g->market;

	if (!m)
		return;
	rows_close(&m->rows);
	supply_free(m->supply);
	watch_free(m->watch);
	told_free(m->told);
	free(m);
	g->market = NULL;
}

void market_disconnected(void *ctx, struct httpd_request *q)
{
	struct registry *g = ctx;

	if (g->market)
		watch_gone(g->market->watch, q);
}

bool market_spares(struct registry *g, const char *node)
{
	return g->market && supply_is_spared(g->market->supply, node);
}

/* --- what is stored elsewhere ----------------------------------------------------------------- */

static void note_record(struct market *m, const struct registry_put *p)
{
	json_t *record = json_parse_object(p->text, strlen(p->text), "record");

	if (!record)
		err_clear();
	else if (strcmp(p->kind, "rnp.quote") == 0)
		supply_quote(m->supply, record, p->sha256);
	json_decref(record);
}

void market_stored(struct registry *g, const struct registry_put *p)
{
	struct market *m = g->market;

	if (!m)
		return;
	if (p->what == PUT_HEARTBEAT) {
		/* idle and busy are for sale; see registry_states */
		supply_beat(m->supply, p->node, p->received_ms, p->beat.interval_s * 1000,
			p->beat.state > 1);
	} else if (p->what == PUT_NODE) {
		supply_node(m->supply, p->record);
		owner_look(m, p->node);
	} else if (p->proves[0]) {
		supply_proven(m->supply, p->node, p->at_ms);
		owner_look(m, p->node);
		event_proven(m, p->node);
	} else if (strcmp(p->kind, "rnp.quote") == 0) {
		note_record(m, p);
	}
}

/* --- what time brings about ------------------------------------------------------------------- */

#define SWEEP_NS  INT64_C(1000000000)
#define SWEPT_MAX 100

/* Reads a member and its cluster again, as what was done for others may have changed them. Returns
 * 1, 0: it is in another state now, or -1. */
static int again(struct market *m, struct member_row *w, struct cluster_row *c)
{
	struct member_row now;
	int rc = cluster_by_id(&m->rows, w->cluster, c);

	if (rc == 1)
		rc = member_by_rank(&m->rows, w->cluster, w->rank, &now);
	return rc == 1 ? now.id == w->id && now.state == w->state : rc;
}

/* Members whose deadline is over, and clusters of which something is due. */
static int sweep_late(struct market *m, int64_t now_ms)
{
	struct member_row *late = xcalloc(SWEPT_MAX, sizeof *late);
	sqlite3_stmt *q = rows_get(&m->rows, ROWS_LATE);
	struct cluster_row c;
	int n = 0, rc = q ? 0 : -1;

	if (q)
		store_bind(q, "i", now_ms);
	while (q && (rc = store_step(m->rows.s, q)) == 1 && n < SWEPT_MAX)
		member_read(q, &late[n++]);
	if (q)
		sqlite3_reset(q);
	for (int i = 0; i < n && rc >= 0; i++) {
		const char *cause = node_state_late(late[i].state);

		rc = again(m, &late[i], &c);
		if (rc == 1)
			rc = late[i].state == NODE_RELEASING ?
				change_move(m, &c, &late[i], NODE_RELEASED, cause, NULL,
					now_ms) :
				change_fail(m, &c, &late[i], cause, NULL, now_ms);
	}
	free(late);
	return rc < 0 ? -1 : 0;
}

static int sweep_due(struct market *m, int64_t now_ms)
{
	struct cluster_row *due = xcalloc(SWEPT_MAX, sizeof *due);
	sqlite3_stmt *q = rows_get(&m->rows, ROWS_DUE);
	int n = 0, rc = q ? 0 : -1;

	if (q)
		store_bind(q, "i", now_ms);
	while (q && (rc = store_step(m->rows.s, q)) == 1 && n < SWEPT_MAX)
		cluster_read(q, &due[n++]);
	if (q)
		sqlite3_reset(q);
	for (int i = 0; i < n && rc >= 0; i++)
		rc = change_due(m, &due[i], now_ms);
	free(due);
	return rc < 0 ? -1 : 0;
}

/* Nodes with a lease that have fallen silent. */
static int sweep_silent(struct market *m, int64_t now_ms)
{
	struct member_row *silent = xcalloc(SWEPT_MAX, sizeof *silent), w;
	const char *why[SWEPT_MAX];
	sqlite3_stmt *q = rows_get(&m->rows, ROWS_LIVE);
	struct cluster_row c;
	int n = 0, rc = q ? 0 : -1;

	while (q && (rc = store_step(m->rows.s, q)) == 1 && n < SWEPT_MAX) {
		member_read(q, &w);
		why[n] = supply_silence(m->supply, w.node, m->started_ms, now_ms);
		if (why[n])
			silent[n++] = w;
	}
	if (q)
		sqlite3_reset(q);
	for (int i = 0; i < n && rc >= 0; i++) {
		rc = again(m, &silent[i], &c);
		if (rc == 1)
			rc = change_fail(m, &c, &silent[i], why[i], NULL, now_ms);
	}
	free(silent);
	return rc < 0 ? -1 : 0;
}

/* Reading all nodes with a lease takes a while: every fifth time. */
#define SILENT_EVERY 5

static int sweep_job(struct market *m, void *ctx)
{
	int64_t now_ms = clock_now_ms();

	(void)ctx;
	if (sweep_late(m, now_ms) < 0 || sweep_due(m, now_ms) < 0)
		return -1;
	return m->sweeps++ % SILENT_EVERY ? 0 : sweep_silent(m, now_ms);
}

static void sweep_done(struct market *m, void *ctx, bool ok)
{
	(void)ctx, (void)ok;
	m->sweeping = false;
}

void market_sweep(struct registry *g)
{
	struct market *m = g->market;

	m->sweeping = true;
	m->sweeps = 0;
	market_write(m, sweep_job, sweep_done, NULL);
}

void market_tick(struct registry *g)
{
	struct market *m = g->market;
	int64_t now_ns = clock_mono_ns();

	if (!m || m->sweeping || now_ns < m->sweep_ns)
		return;
	if (m->sweeps % SILENT_EVERY == 0)
		supply_sweep(m->supply, clock_now_ms());
	m->sweeping = true;
	m->sweep_ns = now_ns + SWEEP_NS;
	market_write(m, sweep_job, sweep_done, NULL);
}

void market_metrics(struct registry *g, struct buf *out)
{
	struct market *m = g->market;

	if (!m)
		return;
	buf_addf(out,
		"# HELP rnp_market_nodes Nodes that are for sale.\n"
		"# TYPE rnp_market_nodes gauge\nrnp_market_nodes %" PRId64 "\n"
		"# HELP rnp_market_waiting Requests that wait for news.\n"
		"# TYPE rnp_market_waiting gauge\nrnp_market_waiting %" PRId64 "\n"
		"# HELP rnp_market_plans_total Proposals made since the start.\n"
		"# TYPE rnp_market_plans_total counter\nrnp_market_plans_total %" PRIu64
		"\n"
		"# HELP rnp_market_bookings_total Clusters booked since the start.\n"
		"# TYPE rnp_market_bookings_total counter\nrnp_market_bookings_total %" PRIu64
		"\n"
		"# HELP rnp_market_events_total Events of clusters since the start.\n"
		"# TYPE rnp_market_events_total counter\nrnp_market_events_total %" PRIu64
		"\n",
		supply_count(m->supply), watch_waiting(m->watch), m->plans, m->bookings,
		m->events);
}
