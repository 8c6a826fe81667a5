/* nodes.c - lists of nodes and of records: filters, pages, one node with its history. */
#include <stdio.h>
#include <string.h>

#include "cmd/rnp-register/storage/registry.h"
#include "cmd/rnp-register/storage/beats.h"
#include "cmd/rnp-register/storage/query.h"
#include "cmd/rnp-register/storage/twins.h"
#include "cmd/rnp-register/pages/reads.h"
#include "common/json/json.h"
#include "common/json/canon.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/record/pool.h"

/* A page, or a history, ends after this many bytes; then there is more at the cursor. */
#define PAGE_BYTES  ((size_t)1 << 20)
#define HISTORY_MAX 100
#define FILTERS_MAX 12

/* A growing WHERE clause, and its bound values. */
struct filter {
	struct buf sql;
	struct {
		const char *text; /* NULL: a number */
		int64_t number;
	} values[FILTERS_MAX];
	int n;
};

static void filter_text(struct filter *f, const char *condition, const char *value)
{
	if (!value)
		return;
	buf_adds(&f->sql, condition);
	f->values[f->n++].text = value;
}

static void filter_number(struct filter *f, const char *condition, int64_t value)
{
	buf_adds(&f->sql, condition);
	f->values[f->n].text = NULL;
	f->values[f->n++].number = value;
}

static int filter_prepare(struct filter *f, struct store *s, sqlite3_stmt **q)
{
	int rc = store_prepare(s, q, f->sql.data);

	for (int i = 0; i < f->n && rc == 0; i++) {
		if (f->values[i].text)
			sqlite3_bind_text(*q, i + 1, f->values[i].text, -1,
				SQLITE_STATIC);
		else
			sqlite3_bind_int64(*q, i + 1, f->values[i].number);
	}
	buf_release(&f->sql);
	return rc;
}

static void field(struct buf *out, const char *name, const char *value)
{
	buf_addf(out, "%s\"%s\":", out->data[out->len - 1] == '{' ? "" : ",", name);
	canon_string(out, value, strlen(value));
}

static void time_field(struct buf *out, const char *name, int64_t ms)
{
	char text[CLOCK_TEXT_MAX];

	clock_format(text, ms);
	field(out, name, text);
}

/* Writes "seen_at", "state" and "online" of a node, from its last heartbeat. beat:
 * NODE_BEAT_SQL */
#define NODE_BEAT_SQL                                                     \
	"SELECT at_ms, interval_s, state FROM heartbeats WHERE node = ? " \
	"ORDER BY at_ms DESC LIMIT 1"

static int write_status(struct buf *out, struct store *s, sqlite3_stmt *beat, int64_t id,
	int64_t now_ms)
{
	int64_t at, interval_ms;
	int rc;

	store_bind(beat, "i", id);
	rc = store_step(s, beat);
	if (rc <= 0) {
		buf_adds(out, ",\"online\":false");
		return rc;
	}
	at = sqlite3_column_int64(beat, 0);
	interval_ms = sqlite3_column_int64(beat, 1) * 1000;
	time_field(out, "seen_at", at);
	field(out, "state", registry_states[sqlite3_column_int64(beat, 2) & 3]);
	buf_addf(out, ",\"online\":%s",
		now_ms - at <= 2 * interval_ms ? "true" : "false");
	sqlite3_reset(beat);
	return 0;
}

#define NODE_COLUMNS                                                                      \
	"SELECT n.id, n.address, n.tier, n.country, n.device, n.maker, n.model, r.body, " \
	"n.proven_ms FROM nodes n JOIN records r ON r.id = n.record "

/* Writes "quote", the node's newest, if it has one. */
#define NODE_QUOTE_SQL                                                    \
	"SELECT body FROM records WHERE node = ? AND kind = 'rnp.quote' " \
	"ORDER BY id DESC LIMIT 1"

static int write_quote(struct buf *out, struct store *s, sqlite3_stmt *quote,
	const char *node)
{
	int rc;

	store_bind(quote, "t", node);
	rc = store_step(s, quote);
	if (rc > 0) {
		buf_adds(out, ",\"quote\":");
		buf_adds(out, store_text(quote, 0));
	}
	sqlite3_reset(quote);
	return rc < 0 ? -1 : 0;
}

/* Writes "verdict", the word for the node's newest, if it has one: as / says it. */
#define NODE_VERDICT_SQL                                                    \
	"SELECT body FROM records WHERE node = ? AND kind = 'rnp.verdict' " \
	"ORDER BY id DESC LIMIT 1"

static int write_verdict(struct buf *out, struct store *s, sqlite3_stmt *verdict,
	const char *node)
{
	json_t *r = NULL;
	int rc;

	store_bind(verdict, "t", node);
	rc = store_step(s, verdict);
	if (rc > 0) {
		const char *text = store_text(verdict, 0);

		r = json_parse_object(text, strlen(text), "registry");
	}
	if (r)
		field(out, "verdict",
			json_is_true(json_object_get(r, "passed")) ? "passed" : "failed");
	json_decref(r);
	sqlite3_reset(verdict);
	return rc < 0 ? -1 : 0;
}

/* What a page of nodes reads beside its rows. */
struct beside {
	sqlite3_stmt *beat;    /* NODE_BEAT_SQL */
	sqlite3_stmt *quote;   /* NODE_QUOTE_SQL, or NULL */
	sqlite3_stmt *verdict; /* NODE_VERDICT_SQL, or NULL */
};

static int write_node(struct buf *out, struct store *s, sqlite3_stmt *row,
	const struct beside *beside, int64_t now_ms)
{
	buf_addc(out, '{');
	field(out, "node", store_text(row, 1));
	buf_adds(out, ",\"pool\":{");
	field(out, "tier", pool_tier_name(sqlite3_column_int64(row, 2)));
	field(out, "country", store_text(row, 3));
	field(out, "device", store_text(row, 4));
	field(out, "maker", store_text(row, 5));
	field(out, "model", store_text(row, 6));
	buf_addc(out, '}');
	if (write_status(out, s, beside->beat, sqlite3_column_int64(row, 0), now_ms) < 0)
		return -1;
	/* no buyer should take a claim for a fact */
	if (sqlite3_column_type(row, 8) == SQLITE_NULL)
		buf_adds(out, ",\"pending\":true");
	else
		time_field(out, "proven_at", sqlite3_column_int64(row, 8));
	if (beside->verdict &&
		write_verdict(out, s, beside->verdict, store_text(row, 1)) < 0)
		return -1;
	buf_adds(out, ",\"record\":");
	buf_adds(out, store_text(row, 7));
	if (beside->quote && write_quote(out, s, beside->quote, store_text(row, 1)) < 0)
		return -1;
	buf_addc(out, '}');
	return 0;
}

static void node_filters(struct filter *f, const struct registry_nodes_query *q)
{
	filter_number(f, NODE_COLUMNS "WHERE n.id > ? ", q->page.after);
	filter_text(f, "AND n.model = ? COLLATE NOCASE ", q->model);
	filter_text(f, "AND n.country = ? COLLATE NOCASE ", q->country);
	filter_text(f, "AND n.maker = ? COLLATE NOCASE ", q->maker);
	filter_text(f, "AND n.device = ? COLLATE NOCASE ", q->device);
	if (q->model && !q->device)
		buf_adds(&f->sql, "AND n.device = 'GPU' ");
	if (q->tier >= 0)
		filter_number(f, "AND n.tier = ? ", q->tier);
	if (q->min_memory >= 0)
		filter_number(f, "AND n.gpu_memory_bytes >= ? ", q->min_memory);
	if (q->min_gpus >= 0)
		filter_number(f, "AND n.gpus >= ? ", q->min_gpus);
	filter_number(f, "ORDER BY n.id LIMIT ?", q->page.limit + 1);
}

#define BEAT_COLUMNS                                                             \
	"SELECT h.id, n.address, h.at_ms, h.interval_s, h.state, h.created_ms, " \
	"h.signature, h.body FROM heartbeats h JOIN nodes n ON n.id = h.node "

static void write_beat(struct buf *out, sqlite3_stmt *row)
{
	struct registry_beat b = { .interval_s = sqlite3_column_int64(row, 3),
		.state = (int)sqlite3_column_int64(row, 4) & 3,
		.created_ms = sqlite3_column_int64(row, 5) };

	if (registry_beat_unpack(&b, sqlite3_column_blob(row, 6),
		    sqlite3_column_bytes(row, 6))) {
		registry_beat_write(out, store_text(row, 1), sqlite3_column_int64(row, 2),
			&b);
	} else {
		buf_adds(out, store_text(row, 7));
	}
}

/* what a page lists */
enum page { PAGE_NODES, PAGE_BEATS, PAGE_RECORDS };

/* Writes the rows of a page, and "next" if there are more than limit. beside: for PAGE_NODES. */
static int write_page(struct buf *out, struct store *s, sqlite3_stmt *rows,
	const struct beside *beside, int64_t limit, enum page what)
{
	int64_t last = 0, now_ms = clock_now_ms();
	int rc;

	for (int64_t n = 0; (rc = store_step(s, rows)) == 1; n++) {
		if (n == limit || out->len > PAGE_BYTES) {
			buf_addf(out, "],\"next\":\"%lld\"}\n", (long long)last);
			return 0;
		}
		if (n)
			buf_addc(out, ',');
		last = sqlite3_column_int64(rows, 0);
		if (what == PAGE_NODES)
			rc = write_node(out, s, rows, beside, now_ms);
		else if (what == PAGE_BEATS)
			write_beat(out, rows);
		else
			buf_adds(out, store_text(rows, 1));
		if (rc < 0)
			return -1;
	}
	buf_adds(out, "]}\n");
	return rc;
}

enum httpd_when registry_get_nodes(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct registry *g = ctx;
	struct registry_nodes_query wanted;
	struct filter f = { .n = 0 };
	sqlite3_stmt *rows = NULL;
	struct beside beside = { NULL, NULL, NULL };
	struct store *s;
	int rc;

	if (registry_query_nodes(q, r, &wanted) < 0)
		return HTTPD_NOW;
	node_filters(&f, &wanted);
	s = registry_db_reader(&g->db);
	buf_adds(&r->body, "{\"nodes\":[");
	rc = filter_prepare(&f, s, &rows) < 0 ||
			store_prepare(s, &beside.beat, NODE_BEAT_SQL) < 0 ||
			(wanted.quotes &&
				(store_prepare(s, &beside.quote, NODE_QUOTE_SQL) < 0 ||
					store_prepare(s, &beside.verdict,
						NODE_VERDICT_SQL) < 0)) ?
		-1 :
		write_page(&r->body, s, rows, &beside, wanted.page.limit, PAGE_NODES);
	sqlite3_finalize(rows);
	sqlite3_finalize(beside.beat);
	sqlite3_finalize(beside.quote);
	sqlite3_finalize(beside.verdict);
	registry_db_reader_done(&g->db, s);
	if (rc < 0)
		return registry_unavailable(r);
	registry_etag(r);
	return HTTPD_NOW;
}

static int write_history(struct buf *out, struct store *s, const char *address)
{
	sqlite3_stmt *rows = NULL;
	int rc = store_prepare(s, &rows,
		"SELECT body FROM records WHERE node = ? AND kind = 'rnp.node' "
		"ORDER BY id DESC LIMIT ?");

	buf_adds(out, "\"history\":[");
	if (rc == 0) {
		store_bind(rows, "ti", address, (int64_t)HISTORY_MAX);
		for (int n = 0; out->len <= PAGE_BYTES && (rc = store_step(s, rows)) == 1;
			n++)
			buf_addf(out, "%s%s", n ? "," : "", store_text(rows, 0));
	}
	buf_adds(out, "]}\n");
	sqlite3_finalize(rows);
	return rc < 0 ? -1 : 0;
}

enum httpd_when registry_get_node(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct registry *g = ctx;
	sqlite3_stmt *row = NULL;
	struct beside beside = { NULL, NULL, NULL };
	unsigned char key[KEY_PUBLIC_BYTES];
	struct store *s;
	int rc;

	if (registry_query_known(q, r, "") < 0)
		return HTTPD_NOW;
	if (address_parse(q->arg, "address", key) < 0)
		return httpd_error(r, 400, "%s", err_get()->text);
	s = registry_db_reader(&g->db);
	rc = store_prepare(s, &row, NODE_COLUMNS "WHERE n.address = ?") < 0 ||
			store_prepare(s, &beside.beat, NODE_BEAT_SQL) < 0 ||
			store_prepare(s, &beside.quote, NODE_QUOTE_SQL) < 0 ?
		-1 :
		0;
	if (rc == 0) {
		store_bind(row, "t", q->arg);
		rc = store_step(s, row);
	}
	if (rc == 1) {
		int64_t now_ms = clock_now_ms(), twin_ms;

		rc = write_node(&r->body, s, row, &beside, now_ms);
		r->body.data[r->body.len - 1] = ','; /* the object continues */
		twin_ms = twins_of(g->twins, q->arg, now_ms);
		if (twin_ms >= 0)
			buf_addf(&r->body, "\"twin_ms\":%lld,", (long long)twin_ms);
		if (rc == 0)
			rc = write_history(&r->body, s, q->arg);
		registry_etag(r);
	} else if (rc == 0) {
		httpd_error(r, 404, "node %s is not registered here", q->arg);
	}
	sqlite3_finalize(row);
	sqlite3_finalize(beside.beat);
	sqlite3_finalize(beside.quote);
	registry_db_reader_done(&g->db, s);
	return rc < 0 ? registry_unavailable(r) : HTTPD_NOW;
}

static void record_filters(struct filter *f, const struct registry_records_query *q)
{
	filter_number(f,
		q->beats ? BEAT_COLUMNS "WHERE h.id > ? " :
			   "SELECT id, body FROM records WHERE id > ? ",
		q->page.after);
	if (!q->beats)
		filter_text(f, "AND kind = ? ", q->kind);
	filter_text(f,
		q->beats ? "AND node = (SELECT id FROM nodes WHERE address = ?) " :
			   "AND node = ? ",
		q->node);
	if (!q->beats)
		filter_text(f, "AND signer = ? ", q->signer);
	if (q->from_ms)
		filter_number(f, q->beats ? "AND h.at_ms >= ? " : "AND at_ms >= ? ",
			q->from_ms);
	if (q->to_ms != INT64_MAX)
		filter_number(f, q->beats ? "AND h.at_ms < ? " : "AND at_ms < ? ",
			q->to_ms);
	filter_number(f, "ORDER BY 1 LIMIT ?", q->page.limit + 1);
}

enum httpd_when registry_get_records(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct registry *g = ctx;
	struct registry_records_query wanted;
	struct filter f = { .n = 0 };
	sqlite3_stmt *rows = NULL;
	struct store *s;
	int rc;

	if (registry_query_records(q, r, &wanted) < 0)
		return HTTPD_NOW;
	record_filters(&f, &wanted);
	s = registry_db_reader(&g->db);
	buf_adds(&r->body, "{\"records\":[");
	rc = filter_prepare(&f, s, &rows);
	if (rc == 0)
		rc = write_page(&r->body, s, rows, NULL, wanted.page.limit,
			wanted.beats ? PAGE_BEATS : PAGE_RECORDS);
	sqlite3_finalize(rows);
	registry_db_reader_done(&g->db, s);
	if (rc < 0)
		return registry_unavailable(r);
	registry_etag(r);
	return HTTPD_NOW;
}
