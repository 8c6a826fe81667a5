/* booking.c - POST /v1/bookings: a customer takes an offer. Cluster, leases and what is held of his
 * money are written in one transaction: one GPU is let once, and no money is spent twice, whoever
 * else books meanwhile. */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-register/market/blob_rows.h"
#include "cmd/rnp-register/market/change.h"
#include "cmd/rnp-register/market/cluster.h"
#include "cmd/rnp-register/market/money.h"
#include "cmd/rnp-register/market/plan.h"
#include "cmd/rnp-register/market/keys.h"
#include "cmd/rnp-register/market/sshkey.h"
#include "cmd/rnp-register/market/supply.h"
#include "cmd/rnp-register/market/told.h"
#include "cmd/rnp-register/market/watch.h"
#include "cmd/rnp-register/storage/ack.h"
#include "cmd/rnp-register/storage/query.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/money.h"
#include "common/json/json.h"
#include "common/json/schema.h"
#include "common/record/signature.h"

/* A lease that ends before it is metered would run for nothing. */
#define LEAST_MS INT64_C(60000)

/* A booking on its way into the database. */
struct booking {
	struct registry *g;
	struct httpd_request *q;
	struct httpd_reply *r;
	struct market_record record;
	const json_t *proposal;        /* of the record */
	struct signature_result proof; /* of the proposal */
	struct cluster_row c;
	struct member_row *rows;
	char **events; /* of the rows, as many */
	size_t n;
	int64_t uusd_per_hour;
	struct buf ssh_keys; /* a JSON array; empty: none */
	/* out */
	enum { BOOKED_NEW, BOOKED_SAME, BOOKED_POOR, BOOKED_MANY, BOOKED_TAKEN } outcome;
	int64_t missing_uusd;
	char taken[KEY_ADDRESS_MAX];
};

static void booking_free(struct booking *b)
{
	for (size_t i = 0; i < b->n; i++)
		free(b->events[i]);
	free(b->events);
	buf_release(&b->ssh_keys);
	free(b->rows);
	market_record_release(&b->record);
	free(b);
}

/* --- what was signed -------------------------------------------------------------------------- */

/* Whether the proposal is ours, whole. Returns false with r filled. */
static bool is_ours(struct booking *b)
{
	const struct signature_result *proof = &b->proof;
	struct registry *g = b->g;

	if (schema_check(b->proposal, "body: proposal", "rnp.proposal") < 0) {
		market_refuse(g, b->r, 422, "proposal", "send it as the registry sent it",
			"%s", err_get()->text);
		err_clear();
		return false;
	}
	if (proof->valid && signature_is_by(proof, g->config.key->address))
		return true;
	market_refuse(g, b->r, 422, "proposal", "send it as the registry sent it",
		"proposal: was not signed by this registry%s%s", proof->valid ? "" : ": ",
		proof->valid ? "" : proof->reason);
	return false;
}

/* Whether it still binds us. Returns false with r filled, a new one in it. */
static bool is_valid_still(struct booking *b)
{
	int64_t until_ms;

	if (json_get_time(b->proposal, "proposal", "valid_until", &until_ms) == 0 &&
		b->record.now_ms <= until_ms)
		return true;
	err_clear();
	market_refuse(b->g, b->r, 409, "old",
		"plan again, or book the new proposal in this answer",
		"the proposal was valid for 10 minutes, which are over");
	plan_again(b->g, b->r, b->proposal);
	return false;
}

/* Whether all its nodes can be had at that price now. What others take meanwhile is found in the
 * transaction. */
static bool is_there_still(struct booking *b, const json_t *nodes)
{
	char why[SUPPLY_WHY_MAX] = "";
	const json_t *part;
	size_t i;
	int rc;

	json_array_foreach(nodes, i, part) {
		rc = supply_check(b->g->market->supply, part, b->c.hours,
			b->record.now_ms, why);
		if (!rc)
			continue;
		market_refuse(b->g, b->r, 409, rc == 2 ? "dearer" : "taken",
			"plan again, or book the new proposal in this answer", "%s", why);
		plan_again(b->g, b->r, b->proposal);
		return false;
	}
	return true;
}

bool market_image(const char *image)
{
	const char *digest = strstr(image, "@sha256:");

	return digest && digest > image && strlen(digest + 8) == 64 &&
		strspn(digest + 8, "0123456789abcdef") == 64;
}

static bool refuse_field(struct booking *b, const char *remedy, const char *text)
{
	market_refuse(b->g, b->r, 422, "booking", remedy, "%s", text);
	return false;
}

static bool has_good_keys(struct booking *b)
{
	const json_t *keys = json_object_get(b->record.json, "ssh_keys");

	if (!keys || keys_write(keys, &b->ssh_keys) == 0)
		return true;
	refuse_field(b, "one of " SSHKEY_TYPES, err_get()->text);
	err_clear();
	return false;
}

/* What a node would refuse later is refused here. */
static bool is_sound(struct booking *b)
{
	const json_t *record = b->record.json;
	const char *image = json_string_value(json_object_get(record, "image"));

	if (!image)
		image = json_string_value(json_object_get(b->proposal, "image"));
	if (!image)
		return refuse_field(b, "name one",
			"image: is missing, and this registry has no --default-image");
	if (!market_image(image))
		return refuse_field(b, "write it as NAME@sha256:DIGEST",
			"image: has no digest, and what runs must be what was booked");
	if (!has_good_keys(b))
		return false;
	if (b->c.deadline_ms && b->c.deadline_ms < b->record.now_ms + LEAST_MS)
		return refuse_field(b, "leave it out, or choose a later one",
			"deadline: is over, or will be in a minute");
	return true;
}

/* --- rows ------------------------------------------------------------------------------------- */

static void read_part(struct booking *b, const json_t *part, struct member_row *w)
{
	const json_t *gpus = json_object_get(part, "gpus");
	struct buf text = BUF_INIT;

	*w = (struct member_row){ .rank = (int)b->n,
		.state = NODE_RESERVED,
		.since_ms = b->record.now_ms,
		.heard_ms = b->record.now_ms,
		.uusd_per_hour = json_integer_value(
			json_object_get(part, "uusd_per_hour")),
		.node_uusd_per_hour = json_integer_value(
			json_object_get(part, "node_uusd_per_hour")) };
	snprintf(w->node, sizeof w->node, "%s",
		json_string_value(json_object_get(part, "node")));
	snprintf(w->quote, sizeof w->quote, "%s",
		json_string_value(json_object_get(part, "quote")));
	snprintf(w->cause, sizeof w->cause, "booked");
	if (gpus)
		json_write(&text, gpus);
	snprintf(w->gpus, sizeof w->gpus, "%s", gpus ? text.data : "[]");
	buf_release(&text);
	b->uusd_per_hour += w->uusd_per_hour;
}

/* Makes the rows of all nodes, and their first events. */
static void read_nodes(struct booking *b, const json_t *nodes)
{
	const json_t *part;
	size_t i;

	b->rows = xcalloc(json_array_size(nodes), sizeof *b->rows);
	b->events = xcalloc(json_array_size(nodes), sizeof *b->events);
	json_array_foreach(nodes, i, part) {
		json_t *event = json_record("rnp.event");
		struct buf text = BUF_INIT;

		read_part(b, part, &b->rows[i]);
		json_set_text(event, "cluster", b->c.name);
		json_set_i64(event, "rank", (int64_t)i);
		json_set_i64(event, "seq", (int64_t)i + 1);
		json_set_text(event, "to", node_state_names[NODE_RESERVED]);
		json_set_text(event, "cause", "booked");
		market_sign(b->g, &text, event);
		b->events[i] = buf_take(&text);
		b->n++;
	}
}

static void read_wishes(struct booking *b)
{
	const json_t *record = b->record.json;
	const char *on_failure = json_string_value(
		json_object_get(record, "on_node_failure"));
	const json_t *replace = json_object_get(record, "replace_uusd_per_hour");
	unsigned char name[16];

	randombytes_buf(name, sizeof name);
	sodium_bin2hex(b->c.name, sizeof b->c.name, name, sizeof name);
	snprintf(b->c.customer, sizeof b->c.customer, "%s", b->record.signer);
	snprintf(b->c.booking, sizeof b->c.booking, "%s", b->record.sha256);
	snprintf(b->c.cause, sizeof b->c.cause, "booked");
	b->c.live = true;
	b->c.booked_ms = b->record.now_ms;
	b->c.hours = json_integer_value(json_object_get(record, "hours"));
	b->c.replace_uusd = replace ? json_integer_value(replace) : -1;
	b->c.on_failure = !on_failure || !strcmp(on_failure, "restart") ?
		ON_FAILURE_RESTART :
		!strcmp(on_failure, "end") ? ON_FAILURE_END :
					     ON_FAILURE_CONTINUE;
	if (json_opt_time(record, "body", "deadline", &b->c.deadline_ms) < 0)
		err_clear();
	/* a job of the sweep sets when to look next */
	b->c.due_ms = b->c.deadline_ms ? 1 : 0;
}

static bool read_money(struct booking *b)
{
	const json_t *budget = json_object_get(b->record.json, "budget_uusd");

	b->c.limit_uusd = budget ? json_integer_value(budget) : 0;
	if (!budget &&
		(money_muldiv(b->uusd_per_hour, b->c.hours, 1, MONEY_CEIL,
			 &b->c.limit_uusd) < 0 ||
			b->c.limit_uusd > JSON_SAFE_INTEGER_MAX)) {
		err_clear();
		return refuse_field(b, "book fewer hours, or give a budget_uusd",
			"hours: they would cost more than there is");
	}
	if (market_lasts_ms(b->uusd_per_hour, b->c.limit_uusd) < LEAST_MS)
		return refuse_field(b, "leave it out, or give a larger one",
			"budget_uusd: does not pay for one minute");
	b->c.held_uusd = market_hold(b->uusd_per_hour, b->c.limit_uusd);
	b->c.seq = (int64_t)b->n;
	return true;
}

/* A customer has no more clusters open than that, and books what costs nothing only while he has
 * few: money bounds the others. */
#define OPEN_MAX      1024
#define OPEN_FREE_MAX 16

/* --- the transaction -------------------------------------------------------------------------- */

/* Takes the money aside. Returns 1, 0: there is not enough, or too much is open, or -1. */
static int hold(struct market *m, struct booking *b)
{
	int64_t available = 0, open = 0, most = b->c.held_uusd ? OPEN_MAX : OPEN_FREE_MAX;
	sqlite3_stmt *q;

	/* also where it costs nothing: whoever books has an account, which costs something */
	if (rows_run(&m->rows, ROWS_ACCOUNT_HOLD, "tii", b->c.customer, b->c.held_uusd,
		    most) < 0)
		return -1;
	if (sqlite3_changes(m->rows.s->db))
		return 1;
	q = rows_get(&m->rows, ROWS_ACCOUNT);
	if (!q)
		return -1;
	store_bind(q, "t", b->c.customer);
	if (store_step(m->rows.s, q) == 1) {
		available = sqlite3_column_int64(q, 0) - sqlite3_column_int64(q, 1) -
			sqlite3_column_int64(q, 2);
		open = sqlite3_column_int64(q, 3);
	}
	sqlite3_reset(q);
	b->outcome = open >= most ? BOOKED_MANY : BOOKED_POOR;
	b->missing_uusd = b->c.held_uusd > available ? b->c.held_uusd - available : 1;
	return 0;
}

/* Returns 1, 0: something was taken, or -1. */
static int lease_all(struct market *m, struct booking *b)
{
	int rc = 1;

	for (size_t i = 0; i < b->n && rc == 1; i++) {
		struct member_row *w = &b->rows[i];

		w->cluster = b->c.id;
		if (member_insert(&m->rows, w) < 0 ||
			rows_run(&m->rows, ROWS_EVENT_INSERT, "iit", b->c.id,
				(int64_t)i + 1, b->events[i]) < 0)
			return -1;
		rc = change_lease(m, w, b->record.now_ms);
		told_news(m, w->node);
		if (rc == 0) {
			b->outcome = BOOKED_TAKEN;
			snprintf(b->taken, sizeof b->taken, "%s", w->node);
		}
	}
	return rc;
}

static int book(struct market *m, struct booking *b)
{
	int rc = hold(m, b);

	if (rc != 1)
		return rc;
	if (cluster_insert(&m->rows, &b->c, buf_text(&b->q->body)) < 0)
		return -1;
	if (blob_rows_book(m->rows.s, b->c.name, b->record.json) < 0)
		return -1;
	if (b->ssh_keys.len &&
		rows_run(&m->rows, ROWS_KEYS_PUT, "tti", b->ssh_keys.data, "", b->c.id) <
			0)
		return -1;
	rc = lease_all(m, b);
	if (rc != 1)
		return rc;
	told_news(m, b->c.customer);
	return rows_run(&m->rows, ROWS_MEMBERS_TOUCH, "ii", b->c.id, INT64_C(0)) < 0 ?
		-1 :
		1;
}

static int booking_job(struct market *m, void *ctx)
{
	struct booking *b = ctx;
	struct told_mark mark = told_now(m);
	int rc = cluster_by_booking(&m->rows, b->record.sha256, &b->c);

	if (rc < 0)
		return -1;
	if (rc == 1) {
		b->outcome = BOOKED_SAME;
		return 0;
	}
	b->outcome = BOOKED_NEW;
	if (rows_save(&m->rows) < 0)
		return -1;
	rc = book(m, b);
	if (rc == 0)
		told_back(m, mark);
	return rc < 0 ? -1 : rows_saved(&m->rows, rc == 0);
}

/* --- the answer ------------------------------------------------------------------------------- */

static void answer_cluster(struct booking *b)
{
	struct store *s = registry_db_reader(&b->g->db);
	struct cluster_row c;
	struct rows rows;

	rows_open(&rows, s);
	if (cluster_by_booking(&rows, b->record.sha256, &c) != 1 ||
		cluster_write(b->g, &rows, &c, &b->r->body) < 0)
		registry_unavailable(b->r);
	else
		b->r->status = b->outcome == BOOKED_NEW ? 201 : 200;
	rows_close(&rows);
	registry_db_reader_done(&b->g->db, s);
}

static void answer(void *ctx)
{
	struct booking *b = ctx;
	struct buf missing = BUF_INIT;

	switch (b->outcome) {
	case BOOKED_POOR:
		money_format(&missing, b->missing_uusd, MONEY_USD_DECIMALS);
		market_refuse(b->g, b->r, 402, "credit",
			"deposit that much, then book again",
			"%s $ are missing: the next hour has to be covered",
			missing.data);
		registry_add_field(b->r, "missing_uusd", json_integer(b->missing_uusd));
		break;
	case BOOKED_MANY:
		market_refuse(b->g, b->r, 429, "open", "release some first",
			"%d clusters of yours are open, and this one would%s be one too many",
			b->c.held_uusd ? OPEN_MAX : OPEN_FREE_MAX,
			b->c.held_uusd ? "" : ", as it costs nothing,");
		break;
	case BOOKED_TAKEN:
		market_refuse(b->g, b->r, 409, "taken",
			"plan again, or book the new proposal in this answer",
			"node %s: a device is let already, or another node has proven it",
			b->taken);
		plan_again(b->g, b->r, b->proposal);
		break;
	default:
		b->g->market->bookings += b->outcome == BOOKED_NEW;
		answer_cluster(b);
	}
	buf_release(&missing);
	httpd_finish(b->q);
	booking_free(b);
}

static void booking_done(struct market *m, void *ctx, bool ok)
{
	struct booking *b = ctx;

	if (ok) {
		watch_later(m->watch, answer, b);
		return;
	}
	registry_unwritable(b->r);
	httpd_finish(b->q);
	booking_free(b);
}

/* Whether this very booking is known: then it is answered as the first time, however late it comes
 * again. */
static bool is_known(struct booking *b)
{
	struct store *s = registry_db_reader(&b->g->db);
	struct cluster_row c;
	struct rows rows;
	bool known;

	rows_open(&rows, s);
	known = cluster_by_booking(&rows, b->record.sha256, &c) == 1;
	rows_close(&rows);
	registry_db_reader_done(&b->g->db, s);
	return known;
}

/* Whether it may go into the transaction. Returns false with r filled. */
static bool may_be_booked(struct booking *b)
{
	const json_t *offers, *nodes;
	int64_t offer;

	b->proposal = json_object_get(b->record.json, "proposal");
	if (market_timely(b->g, b->r, &b->record) < 0 || !is_ours(b) ||
		!is_valid_still(b))
		return false;
	offers = json_object_get(b->proposal, "offers");
	offer = json_integer_value(json_object_get(b->record.json, "offer"));
	nodes = json_object_get(json_array_get(offers, (size_t)offer), "nodes");
	if (!nodes) {
		market_refuse(b->g, b->r, 422, "offer", "number them from 0",
			"offer: the proposal has %zu", json_array_size(offers));
		return false;
	}
	read_wishes(b);
	if (!is_sound(b) || !is_there_still(b, nodes))
		return false;
	read_nodes(b, nodes);
	return read_money(b);
}

/* The same. One that is known is looked for only where it would be refused, as its own lease makes
 * it so; else the transaction finds it. */
static bool check(struct booking *b)
{
	if (may_be_booked(b))
		return true;
	if (is_known(b)) {
		b->g->refused--;
		buf_reset(&b->r->body);
		b->r->retry_after_s = 0;
		b->outcome = BOOKED_SAME;
		answer_cluster(b);
	}
	return false;
}

enum httpd_when market_post_booking(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct registry *g = ctx;
	struct booking *b = xcalloc(1, sizeof *b);

	*b = (struct booking){ .g = g, .q = q, .r = r };
	if (market_read_both(g, q, r, "rnp.booking", "signer", "proposal", &b->record,
		    &b->proof) == 0 &&
		check(b)) {
		market_write(g->market, booking_job, booking_done, b);
		return HTTPD_LATER;
	}
	booking_free(b);
	return HTTPD_NOW;
}
