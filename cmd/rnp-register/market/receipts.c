/* receipts.c - which receipts are due the database notes itself, with each reading: so none is
 * forgotten, whoever writes a member, and nobody has to look through all of them. */
#include "cmd/rnp-register/market/receipts.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-register/market/cluster.h"
#include "cmd/rnp-register/market/meter.h"
#include "cmd/rnp-register/market/money.h"
#include "cmd/rnp-register/market/parts.h"
#include "cmd/rnp-register/storage/caller.h"
#include "cmd/rnp-register/storage/query.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/json/canon.h"
#include "common/json/json.h"
#include "common/record/signature.h"

#define DUE_MAX     200 /* in one transaction */
#define DEVICES_MAX 16  /* that a receipt names: one verdict proves no more */

/* In metered is what the receipts of a member say together. A receipt that is due at once has
 * due_ms 0. NODE_RELEASING, 5, is the last state with a lease. */
static const char *const steps[] = {
	"CREATE TABLE metered ("
	" member INTEGER NOT NULL PRIMARY KEY REFERENCES members (id),"
	" ready_ms INTEGER NOT NULL,"
	" earned_uusd INTEGER NOT NULL,"
	" gpu_seconds INTEGER NOT NULL,"
	" to_ms INTEGER NOT NULL"
	") STRICT;"
	"CREATE TABLE member_receipts ("
	" member INTEGER NOT NULL REFERENCES members (id),"
	" to_ms INTEGER NOT NULL,"
	" sha256 TEXT NOT NULL,"
	" body TEXT NOT NULL,"
	" PRIMARY KEY (member, to_ms)"
	") STRICT, WITHOUT ROWID;"
	"CREATE TABLE receipts_due ("
	" member INTEGER NOT NULL PRIMARY KEY REFERENCES members (id),"
	" due_ms INTEGER NOT NULL"
	") STRICT;"
	"CREATE INDEX receipts_due_when ON receipts_due (due_ms);"
	"CREATE TRIGGER receipt_is_due AFTER UPDATE OF ready_ms, state ON members "
	"WHEN new.ready_ms > old.ready_ms OR (new.state > 5 AND old.state <= 5) BEGIN"
	" INSERT INTO receipts_due (member, due_ms) SELECT new.id, min("
	"new.heard_ms + 3600000, (new.heard_ms / 86400000 + 1) * 86400000)"
	" WHERE new.ready_ms > coalesce((SELECT ready_ms FROM metered WHERE member = new.id), 0)"
	" ON CONFLICT DO NOTHING;"
	" UPDATE receipts_due SET due_ms = 0 WHERE member = new.id AND new.state > 5; END;",
	NULL,
};
const struct store_module receipts_tables = { "receipts", steps };

/* --- receipts --------------------------------------------------------------------------------- */

/* A member whose receipt is due. */
struct due {
	int64_t member, due_ms, ready_ms, node_uusd_per_hour, gpus, ready_at_ms, heard_ms;
	char node[KEY_ADDRESS_MAX], cluster[CLUSTER_NAME_MAX];
	json_t *devices;  /* uuids of its GPUs; owned */
	struct meter sum; /* of the receipts so far */
	int64_t from_ms, to_ms;
};

static int find_due(struct store *s, int64_t now_ms, struct due *out, size_t *n)
{
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(s, &q,
		"SELECT w.id, d.due_ms, w.ready_ms, w.node_uusd_per_hour, "
		"w.gpus, w.ready_at_ms, w.heard_ms, w.node, c.cluster, "
		"coalesce(t.ready_ms, 0), coalesce(t.earned_uusd, 0), "
		"coalesce(t.gpu_seconds, 0), coalesce(t.to_ms, w.ready_at_ms) "
		"FROM receipts_due d JOIN members w ON w.id = d.member "
		"JOIN clusters c ON c.id = w.cluster LEFT JOIN metered t ON t.member = w.id "
		"WHERE d.due_ms <= ? ORDER BY d.due_ms LIMIT ?");

	*n = 0;
	if (rc == 0)
		store_bind(q, "ii", now_ms, (int64_t)DUE_MAX);
	while (rc >= 0 && *n < DUE_MAX && (rc = store_step(s, q)) == 1) {
		struct due *d = &out[(*n)++];

		*d = (struct due){ .member = sqlite3_column_int64(q, 0),
			.due_ms = sqlite3_column_int64(q, 1),
			.ready_ms = sqlite3_column_int64(q, 2),
			.node_uusd_per_hour = sqlite3_column_int64(q, 3),
			.devices = json_loads(store_text(q, 4), 0, NULL),
			.ready_at_ms = sqlite3_column_int64(q, 5),
			.heard_ms = sqlite3_column_int64(q, 6),
			.sum = { sqlite3_column_int64(q, 9), sqlite3_column_int64(q, 10),
				sqlite3_column_int64(q, 11) },
			.from_ms = sqlite3_column_int64(q, 12) };
		snprintf(d->node, sizeof d->node, "%s", store_text(q, 7));
		snprintf(d->cluster, sizeof d->cluster, "%s", store_text(q, 8));
		d->gpus = (int64_t)json_array_size(d->devices);
	}
	sqlite3_finalize(q);
	return rc < 0 ? -1 : 0;
}

static json_t *make_receipt(const struct due *d, const struct meter *piece)
{
	json_t *record = json_record("rnp.receipt");

	json_set_text(record, "node", d->node);
	json_set_text(record, "job", d->cluster);
	json_set_time(record, "from", d->from_ms);
	json_set_time(record, "to", d->to_ms);
	if (d->gpus) {
		json_set_i64(record, "gpu_seconds", piece->gpu_seconds);
		if (d->gpus <= DEVICES_MAX)
			json_set(record, "devices", json_incref(d->devices));
	}
	json_set_i64(record, "earned_uusd", piece->earned_uusd);
	/* what is not the fee is burned, and a credit stands for each dollar of that */
	json_set_i64(record, "credits", piece->earned_uusd);
	return record;
}

/* Stores a receipt as a record that everybody may read, and whose it is. */
static int store_receipt(struct market *m, const struct due *d, json_t *takes_record,
	int64_t now_ms)
{
	struct registry_put p = { .what = PUT_RECORD, .received_ms = now_ms };
	unsigned char hash[CANON_HASH_BYTES];
	struct buf text = BUF_INIT;
	sqlite3_stmt *q = NULL;
	int rc = 0;

	json_incref(takes_record);
	market_sign(m->g, &text, takes_record);
	if (canon_hash_record(hash, takes_record) < 0)
		bug("a receipt has no canonical form: %s", err_get()->text);
	json_decref(takes_record);
	/* at its end, or when it was written, so that a query since a moment finds it */
	p.at_ms = d->to_ms > now_ms ? d->to_ms : now_ms;
	strcpy(p.kind, "rnp.receipt");
	snprintf(p.node, sizeof p.node, "%s", d->node);
	snprintf(p.signer, sizeof p.signer, "%s", m->g->config.key->address);
	sodium_bin2hex(p.sha256, sizeof p.sha256, hash, sizeof hash);
	p.text = text.data;
	rc = registry_db_insert(&m->g->db, &p);
	if (rc == 0)
		rc = store_prepare(m->rows.s, &q,
			"INSERT INTO member_receipts (member, to_ms, sha256, body) "
			"VALUES (?, ?, ?, ?)");
	if (rc == 0)
		rc = store_run(m->rows.s, q, "iitt", d->member, d->to_ms, p.sha256,
			p.text);
	sqlite3_finalize(q);
	buf_release(&text);
	return rc < 0 ? -1 : 0;
}

static int keep_sum(struct market *m, const struct due *d)
{
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(m->rows.s, &q,
		"INSERT INTO metered (member, ready_ms, earned_uusd, gpu_seconds, to_ms) "
		"VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET ready_ms = excluded.ready_ms, "
		"earned_uusd = excluded.earned_uusd, gpu_seconds = excluded.gpu_seconds, "
		"to_ms = excluded.to_ms");

	if (rc == 0)
		rc = store_run(m->rows.s, q, "iiiii", d->member, d->sum.ready_ms,
			d->sum.earned_uusd, d->sum.gpu_seconds, d->to_ms);
	sqlite3_finalize(q);
	return rc < 0 ? -1 : 0;
}

static int write_due(struct market *m, struct due *d, int64_t now_ms)
{
	struct meter piece = meter_read(&d->sum, d->node_uusd_per_hour, d->gpus,
		d->ready_ms);
	sqlite3_stmt *q = NULL;
	int rc;

	/* what was heard before the full hour, or midnight, was worked before it */
	d->to_ms = d->due_ms && d->heard_ms < d->due_ms ? d->due_ms : now_ms;
	if (d->to_ms <= d->from_ms)
		d->to_ms = d->from_ms + 1;
	if (piece.ready_ms > 0 &&
		(store_receipt(m, d, make_receipt(d, &piece), now_ms) < 0 ||
			keep_sum(m, d) < 0))
		return -1;
	rc = store_prepare(m->rows.s, &q, "DELETE FROM receipts_due WHERE member = ?");
	if (rc == 0)
		rc = store_run(m->rows.s, q, "i", d->member);
	sqlite3_finalize(q);
	return rc < 0 ? -1 : 0;
}

static int due_job(struct market *m, void *ctx)
{
	struct due *due = xcalloc(DUE_MAX, sizeof *due);
	int64_t now_ms = clock_now_ms();
	size_t n = 0;
	int rc = find_due(m->rows.s, now_ms, due, &n);

	(void)ctx;
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = write_due(m, &due[i], now_ms);
	for (size_t i = 0; i < n; i++)
		json_decref(due[i].devices);
	free(due);
	return rc;
}

/* Whether a receipt is due, without waiting for the writer. */
static bool any_due(struct registry *g)
{
	struct store *s = registry_db_quick(&g->db);
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(s, &q,
		"SELECT 1 FROM receipts_due WHERE due_ms <= ? LIMIT 1");

	if (rc == 0) {
		store_bind(q, "i", clock_now_ms());
		rc = store_step(s, q);
	}
	sqlite3_finalize(q);
	registry_db_quick_done(&g->db);
	err_clear();
	return rc == 1;
}

void receipts_tick(struct registry *g)
{
	if (g->market && any_due(g))
		market_write(g->market, due_job, NULL, NULL);
}

/* --- invoices --------------------------------------------------------------------------------- */

/* An invoice while it is put together. */
struct bill {
	struct store *s;
	json_t *nodes, *receipts;
	int64_t uusd, node_uusd;
	bool over; /* no node is ready any more, and all receipts are written */
};

/* Adds the receipts of a member; returns its list of hashes, or NULL. */
static json_t *list_receipts(struct bill *b, const struct member_row *w)
{
	json_t *hashes = json_array();
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(b->s, &q,
		"SELECT sha256, body FROM member_receipts WHERE member = ? ORDER BY to_ms");

	if (rc == 0)
		store_bind(q, "i", w->id);
	while (rc >= 0 && (rc = store_step(b->s, q)) == 1) {
		const char *body = store_text(q, 1);

		json_push_text(hashes, store_text(q, 0));
		json_push(b->receipts, json_parse_object(body, strlen(body), "receipt"));
	}
	sqlite3_finalize(q);
	if (rc >= 0)
		return hashes;
	json_decref(hashes);
	return NULL;
}

static int64_t receipted_ms(struct bill *b, const struct member_row *w)
{
	sqlite3_stmt *q = NULL;
	int64_t ms = 0;

	if (store_prepare(b->s, &q, "SELECT ready_ms FROM metered WHERE member = ?") ==
		0) {
		store_bind(q, "i", w->id);
		if (store_step(b->s, q) == 1)
			ms = sqlite3_column_int64(q, 0);
	}
	sqlite3_finalize(q);
	return ms;
}

static int bill_member(void *ctx, struct member_row *w)
{
	struct bill *b = ctx;
	json_t *one = json_object(), *hashes = list_receipts(b, w);
	json_t *gpus = json_parse(w->gpus, strlen(w->gpus), JSON_DEPTH_MAX, "gpus");
	int64_t node_uusd = market_cost(w->node_uusd_per_hour, w->ready_ms);

	json_set_i64(one, "rank", w->rank);
	json_set_i64(one, "turn", w->turn);
	json_set_text(one, "node", w->node);
	json_set_i64(one, "gpus", (int64_t)json_array_size(gpus));
	json_decref(gpus);
	json_set_i64(one, "ready_ms", w->ready_ms);
	json_set_i64(one, "uusd_per_hour", w->uusd_per_hour);
	json_set_i64(one, "node_uusd_per_hour", w->node_uusd_per_hour);
	json_set_i64(one, "uusd", w->charged_uusd);
	json_set_i64(one, "node_uusd", node_uusd);
	b->uusd += w->charged_uusd;
	b->node_uusd += node_uusd;
	b->over = b->over && !node_state_live(w->state) &&
		receipted_ms(b, w) == w->ready_ms;
	if (!hashes) {
		json_decref(one);
		return -1;
	}
	json_set(one, "receipts", hashes);
	json_push(b->nodes, one);
	return 0;
}

static json_t *make_invoice(const struct cluster_row *c, struct bill *b)
{
	json_t *record = json_record("rnp.invoice");

	json_set_text(record, "cluster", c->name);
	json_set_text(record, "customer", c->customer);
	json_set_text(record, "booking", c->booking);
	json_set_bool(record, "final", b->over);
	json_set(record, "nodes", b->nodes);
	json_set_i64(record, "uusd", b->uusd);
	json_set_i64(record, "fee_uusd", b->uusd - b->node_uusd);
	json_set_i64(record, "burn_uusd", b->node_uusd);
	json_set_i64(record, "credits", b->node_uusd);
	return record;
}

static int write_body(struct rows *rows, const struct cluster_row *c, struct buf *out)
{
	sqlite3_stmt *q = rows_get(rows, ROWS_CLUSTER_BODY);
	int rc;

	if (!q)
		return -1;
	store_bind(q, "i", c->id);
	rc = store_step(rows->s, q);
	buf_adds(out, rc == 1 ? store_text(q, 0) : "{}");
	sqlite3_reset(q);
	return rc < 0 ? -1 : 0;
}

/* Returns 0, or -1 where the database fails. */
static int write_invoice(struct registry *g, struct rows *rows,
	const struct cluster_row *c, struct buf *out)
{
	struct bill b = { .s = rows->s,
		.nodes = json_array(),
		.receipts = json_array(),
		.over = true };

	if (members_each(rows, c->id, bill_member, &b) < 0) {
		json_decref(b.nodes);
		json_decref(b.receipts);
		return -1;
	}
	buf_adds(out, "{\"invoice\":");
	market_sign(g, out, make_invoice(c, &b));
	buf_adds(out, ",\"booking\":");
	if (write_body(rows, c, out) < 0) {
		json_decref(b.receipts);
		return -1;
	}
	buf_adds(out, ",\"receipts\":");
	json_write(out, b.receipts);
	buf_adds(out, "}\n");
	json_decref(b.receipts);
	return 0;
}

enum httpd_when receipts_get_invoice(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct registry *g = ctx;
	char caller[KEY_ADDRESS_MAX];
	struct cluster_row c;
	struct store *s;
	struct rows rows;

	if (!market_is_here(g, r) || registry_query_known(q, r, "") < 0 ||
		!registry_caller(g, q, r, caller))
		return HTTPD_NOW;
	s = registry_db_reader(&g->db);
	rows_open(&rows, s);
	if (cluster_of_caller(g, &rows, r, q->arg, caller, &c) == 1 &&
		write_invoice(g, &rows, &c, &r->body) < 0) {
		buf_reset(&r->body);
		registry_unavailable(r);
	}
	rows_close(&rows);
	registry_db_reader_done(&g->db, s);
	return HTTPD_NOW;
}
