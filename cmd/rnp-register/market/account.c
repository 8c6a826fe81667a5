/* account.c - deposits, what a customer has, and what nodes list for sale. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-register/market/parts.h"
#include "cmd/rnp-register/market/supply.h"
#include "cmd/rnp-register/market/money.h"
#include "cmd/rnp-register/storage/ack.h"
#include "cmd/rnp-register/storage/caller.h"
#include "cmd/rnp-register/storage/query.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/json/json.h"

/* --- GET /v1/account -------------------------------------------------------------------------- */

/* Adds what runs: how many clusters, at which price. Returns 0 or -1. */
static int add_running(struct store *s, const char *customer, json_t *account)
{
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(s, &q,
		"SELECT count(DISTINCT c.id), total(m.uusd_per_hour) FROM clusters c "
		"JOIN members m ON m.cluster = c.id AND m.state <= 5 "
		"WHERE c.customer = ? AND c.live = 1");
	int64_t balance = json_integer_value(json_object_get(account, "balance_uusd"));

	if (rc == 0) {
		store_bind(q, "t", customer);
		rc = store_step(s, q);
	}
	if (rc == 1) {
		int64_t price = (int64_t)sqlite3_column_double(q, 1);

		json_set_i64(account, "clusters", sqlite3_column_int64(q, 0));
		json_set_i64(account, "uusd_per_hour", price);
		if (price)
			json_set_i64(account, "lasts_s",
				market_lasts_ms(price, balance) / 1000);
	}
	sqlite3_finalize(q);
	return rc == 1 ? 0 : -1;
}

/* Appends the account as a record. Returns 0 or -1. */
static int write_account(struct store *s, const char *customer, struct buf *out)
{
	json_t *account = json_record("rnp.account");
	int64_t deposited = 0, charged = 0, held = 0;
	struct rows rows;
	sqlite3_stmt *q;
	int rc = -1;

	rows_open(&rows, s);
	q = rows_get(&rows, ROWS_ACCOUNT);
	if (q) {
		store_bind(q, "t", customer);
		rc = store_step(s, q);
	}
	if (rc == 1) {
		deposited = sqlite3_column_int64(q, 0);
		charged = sqlite3_column_int64(q, 1);
		held = sqlite3_column_int64(q, 2);
	}
	rows_close(&rows);
	json_set_text(account, "customer", customer);
	json_set_time(account, "at", clock_now_ms());
	json_set_i64(account, "deposited_uusd", deposited);
	json_set_i64(account, "charged_uusd", charged);
	json_set_i64(account, "balance_uusd", deposited - charged);
	json_set_i64(account, "held_uusd", held);
	json_set_i64(account, "available_uusd", deposited - charged - held);
	if (rc >= 0)
		rc = add_running(s, customer, account);
	if (rc == 0) {
		json_write(out, account);
		buf_addc(out, '\n');
	}
	json_decref(account);
	return rc;
}

static void reply_account(struct registry *g, struct httpd_reply *r, const char *customer)
{
	struct store *s = registry_db_reader(&g->db);

	if (write_account(s, customer, &r->body) < 0)
		registry_unavailable(r);
	registry_db_reader_done(&g->db, s);
}

enum httpd_when market_get_account(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct registry *g = ctx;
	char caller[KEY_ADDRESS_MAX];

	if (market_is_here(g, r) && registry_query_known(q, r, "") == 0 &&
		registry_caller(g, q, r, caller))
		reply_account(g, r, caller);
	return HTTPD_NOW;
}

/* --- POST /v1/deposits, POST /v1/listings ----------------------------------------------------- */

/* A record that is stored, and answered by rnp.stored. */
struct posted {
	struct httpd_request *q;
	struct httpd_reply *r;
	struct market_record record;
	/* a deposit's */
	const char *id, *customer;
	int64_t uusd, until_ms;
	bool known, other; /* out: this one, or another of that id, was here */
	bool stranger;     /* out: the node is not registered */
};

static struct posted *posted_new(struct httpd_request *q, struct httpd_reply *r)
{
	struct posted *p = xcalloc(1, sizeof *p);

	p->q = q;
	p->r = r;
	return p;
}

static void posted_free(struct posted *p)
{
	market_record_release(&p->record);
	free(p);
}

static void posted_done(struct market *m, struct posted *p, const char *kind,
	const char *node)
{
	json_t *ack = json_record("rnp.stored");

	json_set_text(ack, "of", kind);
	json_set_text(ack, "node", node);
	json_set_time(ack, "at", p->record.at_ms);
	json_set_text(ack, "sha256", p->record.sha256);
	json_set_bool(ack, "new", !p->known);
	p->r->status = p->known ? 200 : 201;
	json_write(&p->r->body, ack);
	buf_addc(&p->r->body, '\n');
	json_decref(ack);
	m->taken++;
}

static int deposit_job(struct market *m, void *ctx)
{
	struct posted *p = ctx;
	sqlite3_stmt *q;

	if (rows_run(&m->rows, ROWS_DEPOSIT_INSERT, "tttiit", p->id, p->record.sha256,
		    p->customer, p->uusd, p->record.at_ms, buf_text(&p->q->body)) < 0)
		return -1;
	if (sqlite3_changes(m->rows.s->db))
		return rows_run(&m->rows, ROWS_ACCOUNT_ADD, "ti", p->customer, p->uusd);
	q = rows_get(&m->rows, ROWS_DEPOSIT);
	if (!q)
		return -1;
	/* the same payment, told again, has another time and so another hash */
	store_bind(q, "titt", p->customer, p->uusd,
		json_string_value(json_object_get(p->record.json, "source")), p->id);
	if (store_step(m->rows.s, q) < 0)
		return -1;
	p->known = sqlite3_column_int64(q, 0) ||
		strcmp(store_text(q, 1), p->record.sha256) == 0;
	p->other = !p->known;
	sqlite3_reset(q);
	return 0;
}

static void deposit_done(struct market *m, void *ctx, bool ok)
{
	struct posted *p = ctx;

	if (!ok)
		registry_unwritable(p->r);
	else if (p->other)
		market_refuse(m->g, p->r, 409, "deposit", "give each payment its own id",
			"id: a deposit '%.100s' is here already, and is another", p->id);
	else
		posted_done(m, p, "rnp.deposit", p->customer);
	httpd_finish(p->q);
	posted_free(p);
}

static int read_deposit(struct registry *g, struct posted *p)
{
	const json_t *d = p->record.json;

	if (!market_trusts(g, p->record.signer)) {
		market_refuse(g, p->r, 403, "signature",
			"the registry's operator names who may, by serve --trust",
			"deposits of %s do not count here", p->record.signer);
		return -1;
	}
	if (json_get_text(d, "body", "id", &p->id) == 0 &&
		json_get_text(d, "body", "customer", &p->customer) == 0 &&
		json_get_i64(d, "body", "uusd", 1, INT64_C(1000000000000000), &p->uusd) ==
			0)
		return 0;
	market_refuse(g, p->r, 400, "form", "see rnp-json(5)", "%s", err_get()->text);
	err_clear();
	return -1;
}

/* A payment may be told late: its time is not looked at, as its id counts once. */
enum httpd_when market_post_deposit(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct registry *g = ctx;
	struct posted *p = posted_new(q, r);

	if (market_read(g, q, r, "rnp.deposit", "signer", &p->record) == 0 &&
		read_deposit(g, p) == 0) {
		market_write(g->market, deposit_job, deposit_done, p);
		return HTTPD_LATER;
	}
	posted_free(p);
	return HTTPD_NOW;
}

static int listing_job(struct market *m, void *ctx)
{
	struct posted *p = ctx;
	sqlite3_stmt *q = rows_get(&m->rows, ROWS_NODE);
	int rc;

	if (!q)
		return -1;
	store_bind(q, "t", p->record.signer);
	rc = store_step(m->rows.s, q);
	sqlite3_reset(q);
	p->stranger = rc == 0;
	if (rc <= 0)
		return rc;
	if (rows_run(&m->rows, ROWS_LISTING_PUT, "tiit", p->record.signer,
		    p->record.at_ms, p->until_ms, buf_text(&p->q->body)) < 0)
		return -1;
	p->other = !sqlite3_changes(m->rows.s->db);
	return 0;
}

static void listing_done(struct market *m, void *ctx, bool ok)
{
	struct posted *p = ctx;

	if (!ok) {
		registry_unwritable(p->r);
	} else if (p->stranger) {
		market_refuse(m->g, p->r, 404, "node", "rnp-register setup registers it",
			"node %s is not registered here", p->record.signer);
	} else if (p->other) {
		market_refuse(m->g, p->r, 409, "listing", "sign a newer one",
			"a newer listing of this node is here already");
	} else {
		supply_listing(m->supply, p->record.json);
		posted_done(m, p, "rnp.listing", p->record.signer);
	}
	httpd_finish(p->q);
	posted_free(p);
}

/* A node whose program is gone without a word is not for sale for longer than that. */
#define LISTING_MS (INT64_C(7) * 86400000)

static int read_listing(struct registry *g, struct posted *p)
{
	if (json_get_time(p->record.json, "body", "until", &p->until_ms) == 0 &&
		p->until_ms <= p->record.at_ms + LISTING_MS)
		return 0;
	err_clear();
	market_refuse(g, p->r, 422, "time", "list again from time to time",
		"until: is no time, or more than 7 days after 'at'");
	return -1;
}

enum httpd_when market_post_listing(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct registry *g = ctx;
	struct posted *p = posted_new(q, r);

	if (market_read(g, q, r, "rnp.listing", "node", &p->record) == 0 &&
		market_timely(g, r, &p->record) == 0 && read_listing(g, p) == 0) {
		market_write(g->market, listing_job, listing_done, p);
		return HTTPD_LATER;
	}
	posted_free(p);
	return HTTPD_NOW;
}
