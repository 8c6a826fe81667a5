/* blobs.c - the registry's blobs: they are opened, counted, and go when their time is over. */
#include "cmd/rnp-register/market/blobs.h"

#include <stdlib.h>

#include "cmd/rnp-register/market/blob_parts.h"
#include "cmd/rnp-register/market/parts.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/cli/prog.h"

#define SWEEP_NS     INT64_C(30000000000)
#define PART_IDLE_NS INT64_C(3600000000000)

/* --- what goes -------------------------------------------------------------------------------- */

/* Removes a file that nobody holds any more. */
static int remove_unheld(struct registry *g, struct store *s, const char *name)
{
	int held = blob_rows_held(s, name);

	if (held == 0 && blob_remove(&g->blobs->files, name) < 0) {
		prog_warn("%s", err_get()->text);
		err_clear();
	}
	return held < 0 ? -1 : 0;
}

static int remove_gone(void *ctx, const char *name)
{
	struct registry *g = ctx;

	return remove_unheld(g, g->market->rows.s, name);
}

static int sweep(struct market *m, void *ctx)
{
	struct registry *g = ctx;

	return blob_rows_sweep(m->rows.s, clock_now_ms(), g->blobs->keep_ms, remove_gone,
		g);
}

static void on_swept(struct market *m, void *ctx, bool ok)
{
	struct registry *g = ctx;

	(void)m, (void)ok;
	g->blobs->sweeping = false;
}

void blobs_tick(struct registry *g)
{
	struct blobs *b = g->blobs;
	int64_t now_ns = clock_mono_ns();
	int64_t every_ns = b && b->keep_ms < 600000 ? SWEEP_NS / 30 : SWEEP_NS;

	if (!b || b->sweeping || now_ns - b->swept_ns < every_ns)
		return;
	b->swept_ns = now_ns;
	b->sweeping = true;
	blob_parts_sweep(&b->files, PART_IDLE_NS);
	market_write(g->market, sweep, on_swept, g);
}

/* --- opening ---------------------------------------------------------------------------------- */

static void remove_orphan(void *ctx, const char *name)
{
	struct registry *g = ctx;

	(void)remove_unheld(g, &g->db.store, name);
}

int blobs_open(struct registry *g)
{
	struct blobs *b;
	struct buf dir = BUF_INIT;
	int rc;

	/* a registry in memory has no folder */
	if (!g->config.market || g->db.in_memory)
		return 0;
	b = xcalloc(1, sizeof *b);
	pthread_mutex_init(&b->quota_lock, NULL);
	b->quota_bytes = g->config.blob_quota_bytes ? g->config.blob_quota_bytes :
						      BLOBS_QUOTA_BYTES;
	b->keep_ms = g->config.blob_keep_ms ? g->config.blob_keep_ms : BLOBS_KEEP_MS;
	g->blobs = b;
	if (g->config.blobs_path)
		buf_adds(&dir, g->config.blobs_path);
	else
		buf_addf(&dir, "%s.blobs", g->config.db_path);
	rc = blob_files_open(&b->files, dir.data);
	buf_release(&dir);
	/* what was named, or not removed, when the registry was killed */
	return rc < 0 ? -1 : blob_each(&b->files, remove_orphan, g);
}

void blobs_close(struct registry *g)
{
	struct blobs *b = g->blobs;

	if (!b)
		return;
	blob_files_close(&b->files);
	pthread_mutex_destroy(&b->quota_lock);
	free(b);
	g->blobs = NULL;
}

void blobs_metrics(struct registry *g, struct buf *out)
{
	struct blobs *b = g->blobs;
	struct store *s;
	sqlite3_stmt *q = NULL;

	if (!b)
		return;
	s = registry_db_quick(&g->db);
	if (store_prepare(s, &q, "SELECT coalesce(sum(bytes), 0) FROM blob_use") == 0 &&
		store_step(s, q) == 1)
		buf_addf(out,
			"# HELP rnp_registry_blob_bytes Of blobs, each as often as it is held.\n"
			"# TYPE rnp_registry_blob_bytes gauge\nrnp_registry_blob_bytes %lld\n",
			(long long)sqlite3_column_int64(q, 0));
	sqlite3_finalize(q);
	registry_db_quick_done(&g->db);
	buf_addf(out,
		"# HELP rnp_registry_blobs_received_total Blobs received since the start.\n"
		"# TYPE rnp_registry_blobs_received_total counter\n"
		"rnp_registry_blobs_received_total %llu\n"
		"# HELP rnp_registry_blobs_sent_total Blobs asked for since the start.\n"
		"# TYPE rnp_registry_blobs_sent_total counter\n"
		"rnp_registry_blobs_sent_total %llu\n",
		(unsigned long long)b->received, (unsigned long long)b->sent);
}
