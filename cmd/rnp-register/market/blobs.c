/* blobs.c - the routes of blobs; long because what they share is private to them. Whose a blob
 * is stands in the database; whether it is there, and its bytes, in the folder. Files are
 * named and removed on the writer's thread alone. */
#include "cmd/rnp-register/market/blobs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/rnp-register/market/blob_files.h"
#include "cmd/rnp-register/market/member.h"
#include "cmd/rnp-register/market/parts.h"
#include "cmd/rnp-register/storage/caller.h"
#include "cmd/rnp-register/storage/query.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/num.h"
#include "common/cli/prog.h"
#include "common/json/json.h"

#define SWEEP_NS     INT64_C(30000000000)
#define SWEEP_ROWS   500
#define PART_IDLE_NS INT64_C(3600000000000)

static const char *const steps[] = {
	"CREATE TABLE blob_holders ("
	" customer TEXT NOT NULL,"
	" sha256 TEXT NOT NULL,"
	" bytes INTEGER NOT NULL,"
	" until_ms INTEGER NOT NULL,"
	" PRIMARY KEY (customer, sha256)"
	") STRICT, WITHOUT ROWID;"
	"CREATE INDEX blob_holders_until ON blob_holders (until_ms);"
	"CREATE INDEX blob_holders_sha256 ON blob_holders (sha256);"
	"CREATE TABLE blob_use ("
	" customer TEXT NOT NULL PRIMARY KEY,"
	" bytes INTEGER NOT NULL"
	") STRICT, WITHOUT ROWID;"
	"CREATE TRIGGER blob_held AFTER INSERT ON blob_holders BEGIN"
	" INSERT INTO blob_use (customer, bytes) VALUES (new.customer, new.bytes)"
	" ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes; END;"
	"CREATE TRIGGER blob_dropped AFTER DELETE ON blob_holders BEGIN"
	" UPDATE blob_use SET bytes = bytes - old.bytes WHERE customer = old.customer;"
	" DELETE FROM blob_use WHERE customer = old.customer AND bytes <= 0; END;",
	NULL,
};
const struct store_module blobs_tables = { "blobs", steps };

/* The registry's blobs. */
struct blobs {
	struct blob_files files;
	int64_t quota_bytes, keep_ms;
	int64_t swept_ns;
	_Atomic bool sweeping;
	_Atomic uint64_t received, sent;
};

/* A blob that is being sent: the state of its request. */
struct upload {
	struct registry *g;
	struct httpd_request *q;
	struct httpd_reply *r;
	struct blob_part *part; /* NULL: it was dropped, or named */
	char holder[KEY_ADDRESS_MAX], name[BLOB_NAME_MAX];
	int64_t bytes;
	bool named;
};

/* --- jobs of the writer ----------------------------------------------------------------------- */

/* Runs a statement of a job. */
static int run_once(struct store *s, const char *sql, const char *customer,
	const char *name, int64_t a, int64_t b)
{
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(s, &q, sql);

	if (rc == 0)
		rc = store_run(s, q, "ttii", customer, name, a, b);
	sqlite3_finalize(q);
	return rc < 0 ? -1 : 0;
}

static int put_blob(struct market *m, void *ctx)
{
	struct upload *u = ctx;
	struct blobs *b = u->g->blobs;
	int rc = blob_part_name(&b->files, u->part);

	u->part = NULL;
	if (rc < 0) {
		/* the fault of this blob is not that of what is stored with it */
		prog_error("%s", err_get()->text);
		err_clear();
		return 0;
	}
	u->named = true;
	return run_once(m->rows.s,
		"INSERT INTO blob_holders (customer, sha256, bytes, until_ms) "
		"VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET until_ms = excluded.until_ms",
		u->holder, u->name, u->bytes, clock_now_ms() + b->keep_ms);
}

static void on_put(struct market *m, void *ctx, bool ok)
{
	struct upload *u = ctx;
	json_t *ack;

	(void)m;
	if (!ok || !u->named) {
		u->r->retry_after_s = 1;
		market_refuse(u->g, u->r, 503, "storage", "try again",
			"the registry cannot store blobs at present");
	} else {
		ack = json_object();
		json_set_text(ack, "sha256", u->name);
		json_set_i64(ack, "bytes", u->bytes);
		json_set_bool(ack, "new", true);
		json_write(&u->r->body, ack);
		buf_addc(&u->r->body, '\n');
		json_decref(ack);
		u->r->status = 201;
		((struct blobs *)u->g->blobs)->received++;
	}
	httpd_finish(u->q);
}

/* --- who may ---------------------------------------------------------------------------------- */

static bool is_here(struct registry *g, struct httpd_reply *r)
{
	if (g->blobs)
		return true;
	httpd_error(r, 404, "this registry keeps no blobs");
	return false;
}

/* Finds whose blobs a request is about: the caller's own, or those of the customer of the cluster
 * that it names and the caller is a node of. Returns false with r filled. */
static bool find_holder(struct registry *g, struct httpd_request *q,
	struct httpd_reply *r, const char *fields, char holder[KEY_ADDRESS_MAX])
{
	const char *cluster = httpd_query(q, "cluster");
	char caller[KEY_ADDRESS_MAX];

	if (!is_here(g, r) || registry_query_known(q, r, fields) < 0 ||
		!registry_caller(g, q, r, caller))
		return false;
	if (q->arg && !blob_name_valid(q->arg)) {
		market_refuse(g, r, 400, "form", "name a blob by its SHA-256, 64 digits",
			"'%.80s' is no SHA-256", q->arg);
		return false;
	}
	if (cluster)
		return member_customer(g, r, cluster, caller, holder);
	snprintf(holder, KEY_ADDRESS_MAX, "%s", caller);
	return true;
}

/* Reads a number of a holder. Returns 1, 0: there is none, or -1 with r filled. */
static int read_number(struct registry *g, struct httpd_reply *r, const char *sql,
	const char *holder, const char *name, int64_t *out)
{
	struct store *s = registry_db_quick(&g->db);
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(s, &q, sql);

	if (rc == 0) {
		if (name)
			store_bind(q, "tt", holder, name);
		else
			store_bind(q, "t", holder);
		rc = store_step(s, q);
	}
	if (rc == 1)
		*out = sqlite3_column_int64(q, 0);
	sqlite3_finalize(q);
	registry_db_quick_done(&g->db);
	if (rc < 0)
		registry_unavailable(r);
	return rc;
}

/* Whether a holder has a blob, and it is there. Returns 1, 0, or -1 with r filled. until_ms: until
 * when it stays. */
static int has_blob(struct registry *g, struct httpd_reply *r, const char *holder,
	const char *name, int64_t *until_ms)
{
	struct blobs *b = g->blobs;
	int rc = read_number(g, r,
		"SELECT until_ms FROM blob_holders WHERE customer = ? AND sha256 = ?",
		holder, name, until_ms);

	return rc == 1 ? blob_is_there(&b->files, name) : rc;
}

/* --- sending ---------------------------------------------------------------------------------- */

/* Checks the holder's credit and quota. Returns the bytes that are left, or -1 with r filled. */
static int64_t room_of(struct registry *g, struct httpd_request *q, struct httpd_reply *r,
	const char *holder)
{
	struct blobs *b = g->blobs;
	const char *length = httpd_header(q, "content-length");
	int64_t deposited = 0, used = 0, left, declared = 0;

	if (read_number(g, r, "SELECT deposited_uusd FROM accounts WHERE customer = ?",
		    holder, NULL, &deposited) < 0 ||
		read_number(g, r, "SELECT bytes FROM blob_use WHERE customer = ?", holder,
			NULL, &used) < 0)
		return -1;
	if (deposited <= 0) {
		market_refuse(g, r, 402, "credit", "deposit first",
			"%s has no account here, for which blobs could be kept", holder);
		return -1;
	}
	left = b->quota_bytes - used - blob_parts_bytes(&b->files, holder);
	if (length && num_i64(length, "length", 0, INT64_MAX, &declared) < 0)
		err_clear();
	if (left <= 0 || declared > left) {
		market_refuse(g, r, 507, "quota",
			"wait until older blobs are gone, a day after the cluster",
			"the account's blobs would have more than %lld bytes together",
			(long long)b->quota_bytes);
		return -1;
	}
	return left;
}

static int refuse_begin(struct registry *g, struct httpd_reply *r, enum blob_begun why,
	int64_t have)
{
	r->retry_after_s = 1;
	if (why == BLOB_BUSY)
		market_refuse(g, r, 409, "busy", "wait until the other request is over",
			"another request sends this blob");
	else if (why == BLOB_OTHER)
		market_refuse(g, r, 409, "offset", "go on there, or from 0",
			"%lld bytes of this blob are here", (long long)have);
	else if (why == BLOB_MANY)
		market_refuse(g, r, 429, "busy", "send fewer blobs at a time",
			"too many blobs are being sent");
	else
		market_refuse(g, r, 507, "storage", "tell the registry's operator", "%s",
			err_get()->text);
	err_clear();
	return -1;
}

static int begin_part(struct registry *g, struct httpd_request *q, struct httpd_reply *r,
	const char *holder, int64_t from, struct blob_part **part)
{
	struct blobs *b = g->blobs;
	enum blob_begun begun = blob_part_begin(&b->files, holder, q->arg, from, part);

	return begun == BLOB_BEGUN ?
		0 :
		refuse_begin(g, r, begun, blob_part_bytes(&b->files, holder, q->arg));
}

static enum httpd_when already(struct httpd_reply *r, const char *name)
{
	json_t *ack = json_object();

	json_set_text(ack, "sha256", name);
	json_set_bool(ack, "new", false);
	json_write(&r->body, ack);
	buf_addc(&r->body, '\n');
	json_decref(ack);
	return HTTPD_NOW;
}

enum httpd_when blobs_begin_put(void *ctx, struct httpd_request *q, struct httpd_reply *r)
{
	struct registry *g = ctx;
	const char *from_text = httpd_query(q, "from");
	char holder[KEY_ADDRESS_MAX];
	int64_t from = 0, left, until_ms;
	struct blob_part *part;
	struct upload *u;
	int has;

	if (!find_holder(g, q, r, "cluster from", holder))
		return HTTPD_NOW;
	if (from_text && num_i64(from_text, "from", 0, BLOB_BYTES_MAX - 1, &from) < 0) {
		err_clear();
		return market_refuse(g, r, 400, "form", "give a number of bytes",
			"from: '%.40s' is no number of bytes", from_text);
	}
	has = has_blob(g, r, holder, q->arg, &until_ms);
	if (has)
		return has < 0 ? HTTPD_NOW : already(r, q->arg);
	left = room_of(g, q, r, holder);
	if (left < 0 || begin_part(g, q, r, holder, from, &part) < 0)
		return HTTPD_NOW;
	if (left > BLOB_BYTES_MAX - from)
		left = BLOB_BYTES_MAX - from;
	q->body_bytes_max = (size_t)left;
	u = xcalloc(1, sizeof *u);
	*u = (struct upload){ .g = g, .q = q, .r = r, .part = part };
	snprintf(u->holder, sizeof u->holder, "%s", holder);
	snprintf(u->name, sizeof u->name, "%s", q->arg);
	q->state = u;
	return HTTPD_GO_ON;
}

/* The part cannot be written: it goes. Returns what the reply is. */
static enum httpd_when refuse_disk(struct upload *u, struct httpd_reply *r)
{
	int error = errno;

	blob_part_drop(&((struct blobs *)u->g->blobs)->files, u->part);
	u->part = NULL;
	prog_warn("a blob of %s could not be written: %s", u->holder, strerror(error));
	r->retry_after_s = 60;
	if (error == ENOSPC || error == EDQUOT)
		return market_refuse(u->g, r, 507, "storage", "try again later",
			"the registry's disk is full");
	return market_refuse(u->g, r, 503, "storage", "try again later",
		"the registry cannot store blobs at present");
}

long blobs_take(void *ctx, struct httpd_request *q, struct httpd_reply *r,
	const void *data, size_t len)
{
	struct upload *u = q->state;

	(void)ctx;
	if (blob_part_write(u->part, data, len) < 0) {
		refuse_disk(u, r);
		return HTTPD_REFUSE;
	}
	return (long)len;
}

enum httpd_when blobs_put(void *ctx, struct httpd_request *q, struct httpd_reply *r)
{
	struct registry *g = ctx;
	struct upload *u = q->state;

	u->bytes = u->part->bytes;
	if (!blob_part_whole(u->part)) {
		blob_part_drop(&((struct blobs *)g->blobs)->files, u->part);
		u->part = NULL;
		return market_refuse(g, r, 422, "hash", "send it again, from 0",
			"the %lld bytes have another SHA-256 than the blob's name",
			(long long)u->bytes);
	}
	if (blob_part_flush(u->part) < 0)
		return refuse_disk(u, r);
	market_write(g->market, put_blob, on_put, u);
	return HTTPD_LATER;
}

void blobs_done(void *ctx, struct httpd_request *q)
{
	struct registry *g = ctx;
	struct upload *u = q->state;

	if (!u)
		return;
	if (u->part)
		blob_part_leave(&((struct blobs *)g->blobs)->files, u->part);
	free(u);
	q->state = NULL;
}

/* --- reading ---------------------------------------------------------------------------------- */

enum httpd_when blobs_get(void *ctx, struct httpd_request *q, struct httpd_reply *r)
{
	struct registry *g = ctx;
	struct blobs *b = g->blobs;
	char holder[KEY_ADDRESS_MAX];
	int64_t bytes = 0, until_ms;
	int has, fd = -1;

	if (!find_holder(g, q, r, "cluster", holder))
		return HTTPD_NOW;
	has = has_blob(g, r, holder, q->arg, &until_ms);
	if (has < 0)
		return HTTPD_NOW;
	if (has)
		fd = blob_open(&b->files, q->arg, &bytes);
	if (fd < 0)
		return market_refuse(g, r, 404, "unknown",
			"send it again: blobs go a day after the cluster",
			"this blob is not here, or not yours");
	b->sent++;
	r->content_type = "application/octet-stream";
	snprintf(r->etag, sizeof r->etag, "\"%s\"", q->arg);
	return httpd_reply_file(r, fd, 0, bytes);
}

/* --- what is missing -------------------------------------------------------------------------- */

/* Blobs that stay longer now. */
struct renewal {
	char holder[KEY_ADDRESS_MAX];
	int64_t until_ms;
	char (*names)[BLOB_NAME_MAX];
	size_t n, cap;
};

static int renew(struct market *m, void *ctx)
{
	struct renewal *w = ctx;
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(m->rows.s, &q,
		"UPDATE blob_holders SET until_ms = max(until_ms, ?3) "
		"WHERE customer = ?1 AND sha256 = ?2");

	for (size_t i = 0; i < w->n && rc >= 0; i++)
		rc = store_run(m->rows.s, q, "tti", w->holder, w->names[i], w->until_ms);
	sqlite3_finalize(q);
	return rc < 0 ? -1 : 0;
}

static void on_renewed(struct market *m, void *ctx, bool ok)
{
	struct renewal *w = ctx;

	(void)m, (void)ok;
	free(w->names);
	free(w);
}

/* Looks at one name of the question. Returns 0, or -1 with r filled. */
static int ask_one(struct registry *g, struct httpd_reply *r, const char *name,
	struct renewal *w, json_t *missing)
{
	struct blobs *b = g->blobs;
	int64_t until_ms = 0, have;
	json_t *one;
	int has;

	if (!name || !blob_name_valid(name)) {
		market_refuse(g, r, 400, "form", "send {\"sha256\":[...]}",
			"sha256: an item is no SHA-256");
		return -1;
	}
	has = has_blob(g, r, w->holder, name, &until_ms);
	if (has < 0)
		return -1;
	if (has) {
		if (until_ms > w->until_ms - b->keep_ms / 4)
			return 0;
		w->names = xgrow(w->names, &w->cap, w->n + 1, sizeof *w->names);
		snprintf(w->names[w->n++], BLOB_NAME_MAX, "%s", name);
		return 0;
	}
	one = json_object();
	json_set_text(one, "sha256", name);
	have = blob_part_bytes(&b->files, w->holder, name);
	if (have)
		json_set_i64(one, "have", have);
	json_push(missing, one);
	return 0;
}

static int ask_all(struct registry *g, struct httpd_request *q, struct httpd_reply *r,
	struct renewal *w, json_t *missing)
{
	json_t *doc = json_parse_object(buf_text(&q->body), q->body.len, "body"), *list;
	const json_t *name;
	size_t i;
	int rc = 0;

	if (!doc || json_get_array(doc, "body", "sha256", &list) < 0 ||
		json_array_size(list) > BLOBS_ASKED_MAX) {
		market_refuse(g, r, 400, "form",
			"send {\"sha256\":[...]} with up to 4096", "%s",
			err_get()->code ? err_get()->text : "sha256: too many");
		err_clear();
		json_decref(doc);
		return -1;
	}
	json_array_foreach(list, i, name) {
		rc = ask_one(g, r, json_string_value(name), w, missing);
		if (rc < 0)
			break;
	}
	json_decref(doc);
	return rc;
}

enum httpd_when blobs_ask(void *ctx, struct httpd_request *q, struct httpd_reply *r)
{
	struct registry *g = ctx;
	struct renewal *w;
	json_t *reply;

	w = xcalloc(1, sizeof *w);
	if (!find_holder(g, q, r, "cluster", w->holder)) {
		free(w);
		return HTTPD_NOW;
	}
	w->until_ms = clock_now_ms() + ((struct blobs *)g->blobs)->keep_ms;
	reply = json_object();
	json_set(reply, "missing", json_array());
	if (ask_all(g, q, r, w, json_object_get(reply, "missing")) == 0) {
		json_write(&r->body, reply);
		buf_addc(&r->body, '\n');
	}
	json_decref(reply);
	if (w->n)
		market_write(g->market, renew, on_renewed, w);
	else
		on_renewed(NULL, w, true);
	return HTTPD_NOW;
}

/* --- what goes -------------------------------------------------------------------------------- */

/* Removes a file that nobody holds any more. */
static int remove_unheld(struct registry *g, struct store *s, const char *name)
{
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(s, &q,
		"SELECT 1 FROM blob_holders WHERE sha256 = ? LIMIT 1");

	if (rc == 0) {
		store_bind(q, "t", name);
		rc = store_step(s, q);
	}
	sqlite3_finalize(q);
	if (rc == 0 && blob_remove(&((struct blobs *)g->blobs)->files, name) < 0) {
		prog_warn("%s", err_get()->text);
		err_clear();
	}
	return rc < 0 ? -1 : 0;
}

/* What is over for one holder. */
struct over {
	char customer[KEY_ADDRESS_MAX], name[BLOB_NAME_MAX];
};

static int find_over(struct store *s, int64_t now_ms, struct over *out, size_t *n)
{
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(s, &q,
		"SELECT customer, sha256 FROM blob_holders WHERE until_ms < ? LIMIT ?");

	*n = 0;
	if (rc == 0)
		store_bind(q, "ii", now_ms, (int64_t)SWEEP_ROWS);
	while (rc == 0 && *n < SWEEP_ROWS && (rc = store_step(s, q)) == 1) {
		snprintf(out[*n].customer, sizeof out->customer, "%s", store_text(q, 0));
		snprintf(out[(*n)++].name, sizeof out->name, "%s", store_text(q, 1));
		rc = 0;
	}
	sqlite3_finalize(q);
	return rc < 0 ? -1 : 0;
}

static int sweep(struct market *m, void *ctx)
{
	struct registry *g = ctx;
	struct blobs *b = g->blobs;
	struct over *over = xcalloc(SWEEP_ROWS, sizeof *over);
	int64_t now_ms = clock_now_ms(), until_ms = now_ms + b->keep_ms;
	sqlite3_stmt *q = NULL;
	size_t n = 0;
	int rc;

	/* what a customer has stays as long as one of his clusters lives */
	rc = store_prepare(m->rows.s, &q,
		"UPDATE blob_holders SET until_ms = ?1 WHERE until_ms < ?2 AND EXISTS "
		"(SELECT 1 FROM clusters c WHERE c.customer = blob_holders.customer "
		"AND c.live = 1)");
	if (rc == 0)
		rc = store_run(m->rows.s, q, "ii", until_ms, until_ms - b->keep_ms / 8);
	sqlite3_finalize(q);
	if (rc >= 0)
		rc = find_over(m->rows.s, now_ms, over, &n);
	for (size_t i = 0; i < n && rc >= 0; i++) {
		rc = run_once(m->rows.s,
			"DELETE FROM blob_holders WHERE customer = ?1 AND sha256 = ?2 "
			"AND ?3 = ?4",
			over[i].customer, over[i].name, 0, 0);
		if (rc == 0)
			rc = remove_unheld(g, m->rows.s, over[i].name);
	}
	free(over);
	return rc < 0 ? -1 : 0;
}

static void on_swept(struct market *m, void *ctx, bool ok)
{
	struct registry *g = ctx;

	(void)m, (void)ok;
	((struct blobs *)g->blobs)->sweeping = false;
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
