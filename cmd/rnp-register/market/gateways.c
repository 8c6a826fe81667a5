/* gateways.c - the gateways of a market: who they are, for everybody, and who may do what on them,
 * for them alone. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-register/market/cluster.h"
#include "cmd/rnp-register/market/watch.h"
#include "cmd/rnp-register/storage/ack.h"
#include "cmd/rnp-register/storage/query.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/json/json.h"

/* --- POST and GET /v1/gateways ---------------------------------------------------------------- */

struct arriving {
	struct httpd_request *q;
	struct httpd_reply *r;
	struct market_record record;
	bool older; /* out */
};

static int gateway_job(struct market *m, void *ctx)
{
	struct arriving *a = ctx;

	if (rows_run(&m->rows, ROWS_GATEWAY_PUT, "tit", a->record.signer, a->record.at_ms,
		    buf_text(&a->q->body)) < 0)
		return -1;
	a->older = !sqlite3_changes(m->rows.s->db);
	return 0;
}

static void write_stored(struct arriving *a)
{
	json_t *ack = json_record("rnp.stored");

	json_set_text(ack, "of", "rnp.gateway");
	json_set_text(ack, "node", a->record.signer);
	json_set_time(ack, "at", a->record.at_ms);
	json_set_text(ack, "sha256", a->record.sha256);
	json_set_bool(ack, "new", true);
	a->r->status = 201;
	json_write(&a->r->body, ack);
	buf_addc(&a->r->body, '\n');
	json_decref(ack);
}

static void gateway_done(struct market *m, void *ctx, bool ok)
{
	struct arriving *a = ctx;

	if (!ok)
		registry_unwritable(a->r);
	else if (a->older)
		market_refuse(m->g, a->r, 409, "gateway", "sign a newer one",
			"a newer record of this gateway is here already");
	else
		write_stored(a);
	market_record_release(&a->record);
	httpd_finish(a->q);
	free(a);
}

/* A gateway sees who talks to whom: the operator names those that may. */
enum httpd_when market_post_gateway(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct registry *g = ctx;
	struct arriving *a = xcalloc(1, sizeof *a);

	*a = (struct arriving){ .q = q, .r = r };
	if (market_read(g, q, r, "rnp.gateway", "gateway", &a->record) == 0 &&
		market_timely(g, r, &a->record) == 0) {
		if (market_trusts(g, a->record.signer)) {
			market_write(g->market, gateway_job, gateway_done, a);
			return HTTPD_LATER;
		}
		market_refuse(g, r, 403, "gateway",
			"the registry's operator names its gateways, by serve --trust",
			"gateway %s is none of this registry's", a->record.signer);
	}
	market_record_release(&a->record);
	free(a);
	return HTTPD_NOW;
}

/* Appends a gateway's record as the registry signs it. */
static void vouch(struct registry *g, struct buf *out, const char *text)
{
	json_t *record = json_parse_object(text, strlen(text), "gateway");

	if (!record) {
		err_clear();
		return;
	}
	json_object_del(record, "proof");
	json_object_del(record, "signer");
	json_object_del(record, "at");
	if (out->data[out->len - 1] != '[')
		buf_addc(out, ',');
	market_sign(g, out, record);
}

enum httpd_when market_get_gateways(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct registry *g = ctx;
	struct store *s;
	struct rows rows;
	sqlite3_stmt *all;
	int rc = -1;

	if (!market_is_here(g, r) || registry_query_known(q, r, "") < 0)
		return HTTPD_NOW;
	s = registry_db_reader(&g->db);
	rows_open(&rows, s);
	all = rows_get(&rows, ROWS_GATEWAYS);
	buf_adds(&r->body, "{\"gateways\":[");
	while (all && (rc = store_step(s, all)) == 1)
		vouch(g, &r->body, store_text(all, 0));
	buf_adds(&r->body, "]}\n");
	rows_close(&rows);
	registry_db_reader_done(&g->db, s);
	if (rc < 0) {
		buf_reset(&r->body);
		registry_unavailable(r);
	}
	return HTTPD_NOW;
}

/* --- GET /v1/access --------------------------------------------------------------------------- */

/* A live member, for a table of all. */
struct lease {
	int64_t cluster, number;
	char node[KEY_ADDRESS_MAX];
};

struct leases {
	struct lease *items;
	size_t n, cap;
	json_t *customers;
};

static void push_number(json_t *list, int64_t number)
{
	json_push(list, json_integer(number));
}

/* Adds the keys of one cluster, whose leases are items[from..n). */
static void add_keys(struct leases *l, size_t from, const char *text)
{
	json_t *keys = json_parse(text, strlen(text), JSON_DEPTH_MAX, "ssh_keys"), *key;
	size_t i;

	if (!keys)
		err_clear();
	json_array_foreach(keys, i, key) {
		json_t *one = json_object(), *numbers = json_array();

		for (size_t k = from; k < l->n; k++)
			push_number(numbers, l->items[k].number);
		json_set_text(one, "key", json_string_value(key));
		json_set(one, "numbers", numbers);
		json_push(l->customers, one);
	}
	json_decref(keys);
}

/* Reads all leases, those of a cluster one after the other. Returns 0 or -1. */
static int read_leases(struct rows *rows, struct leases *l)
{
	sqlite3_stmt *q = rows_get(rows, ROWS_ACCESS);
	char *keys = NULL;
	size_t from = 0;
	int rc = -1;

	while (q && (rc = store_step(rows->s, q)) == 1) {
		int64_t cluster = sqlite3_column_int64(q, 0);

		if (l->n && l->items[l->n - 1].cluster != cluster) {
			add_keys(l, from, keys);
			from = l->n;
		}
		if (from == l->n) {
			free(keys);
			keys = xstrdup(store_text(q, 3));
		}
		l->items = xgrow(l->items, &l->cap, l->n + 1, sizeof *l->items);
		l->items[l->n] = (struct lease){ .cluster = cluster,
			.number = member_number(sqlite3_column_int64(q, 1)) };
		snprintf(l->items[l->n++].node, KEY_ADDRESS_MAX, "%s", store_text(q, 2));
	}
	if (l->n > from && rc == 0)
		add_keys(l, from, keys);
	free(keys);
	return rc;
}

/* Each lease as an entry of its node: what it listens on, and its peers. */
static json_t *nodes_of(const struct leases *l)
{
	json_t *nodes = json_array();

	for (size_t i = 0, first = 0; i < l->n; i++) {
		json_t *one = json_object(), *numbers = json_array(),
		       *peers = json_array();

		if (l->items[i].cluster != l->items[first].cluster)
			first = i;
		push_number(numbers, l->items[i].number);
		for (size_t k = first;
			k < l->n && l->items[k].cluster == l->items[i].cluster; k++)
			if (k != i)
				push_number(peers, l->items[k].number);
		json_set_text(one, "node", l->items[i].node);
		json_set(one, "numbers", numbers);
		json_set(one, "peers", peers);
		json_push(nodes, one);
	}
	return nodes;
}

static int write_access(struct rows *rows, int64_t seq, struct buf *out)
{
	struct leases l = { .customers = json_array() };
	json_t *access = json_record("rnp.access");
	int rc = read_leases(rows, &l);

	json_set_i64(access, "seq", seq);
	json_set(access, "nodes", nodes_of(&l));
	json_set(access, "customers", l.customers);
	if (rc == 0) {
		json_write(out, access);
		buf_addc(out, '\n');
	}
	json_decref(access);
	free(l.items);
	return rc;
}

/* Returns 1, 0: the caller is no gateway of ours, or -1. */
static int is_gateway(struct rows *rows, const char *caller)
{
	sqlite3_stmt *q = rows_get(rows, ROWS_GATEWAY);

	if (!q)
		return -1;
	store_bind(q, "t", caller);
	return store_step(rows->s, q);
}

static bool look_at_access(struct registry *g, struct waiter *w, bool last)
{
	/* read first: what is newer only makes the next answer come at once */
	int64_t seq = g->market->access_seq;
	bool done = last || seq > w->after;
	struct store *s;
	struct rows rows;
	int rc;

	if (!done)
		return false;
	s = registry_db_reader(&g->db);
	rows_open(&rows, s);
	rc = is_gateway(&rows, w->caller);
	if (rc == 0)
		market_refuse(g, w->r, 403, "gateway", "send an rnp.gateway first",
			"%s is no gateway of this registry", w->caller);
	else if (rc < 0 || write_access(&rows, seq, &w->r->body) < 0)
		registry_unavailable(w->r);
	rows_close(&rows);
	registry_db_reader_done(&g->db, s);
	return true;
}

enum httpd_when market_get_access(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct registry *g = ctx;
	struct waiter *w = cluster_waiter(g, q, r, "wait after");

	if (!w)
		return HTTPD_NOW;
	snprintf(w->subject, sizeof w->subject, MARKET_ACCESS);
	w->look = look_at_access;
	return watch_wait(g->market->watch, w);
}
