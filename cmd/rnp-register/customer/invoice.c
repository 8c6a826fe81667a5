/* invoice.c - checks in the order in which one thing follows from another, and ends with the first
 * that does not. Each check returns false with the difference written. */
#include "cmd/rnp-register/customer/invoice.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-register/market/meter.h"
#include "cmd/rnp-register/market/money.h"
#include "cmd/rnp-register/market/states.h"
#include "common/base/err.h"
#include "common/json/canon.h"
#include "common/json/json.h"
#include "common/json/schema.h"
#include "common/record/signature.h"

/* Readings are rounded, and a node's clock may be set a little meanwhile. */
#define CLOCK_SLACK_MS 5000

struct checker {
	const struct invoice_parts *p;
	struct buf *why;
	const char *registry; /* who made the proposal */
	const json_t *offer, *spares;
	size_t nranks;
	int64_t uusd, node_uusd; /* of the nodes so far */
	size_t receipt;          /* the next one */
};

/* One node of the invoice. */
struct line {
	const json_t *json;
	const char *node;
	int64_t rank, turn, gpus, ready_ms, uusd_per_hour, node_uusd_per_hour, uusd,
		node_uusd;
};

static bool differs(struct checker *c, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
static bool differs(struct checker *c, const char *fmt, ...)
{
	char text[600];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	buf_reset(c->why);
	buf_adds(c->why, text);
	err_clear();
	return false;
}

static const char *text_of(const json_t *obj, const char *key)
{
	const char *text = json_string_value(json_object_get(obj, key));

	return text ? text : "";
}

static int64_t number_of(const json_t *obj, const char *key, int64_t otherwise)
{
	int64_t v = otherwise;

	if (json_opt_i64(obj, "record", key, INT64_MIN, INT64_MAX, &v) < 0)
		err_clear();
	return v;
}

/* Whether a record is of its schema and signed by that key. */
static bool is_signed(struct checker *c, const json_t *record, const char *kind,
	const char *what, const char *who)
{
	struct signature_result proof;

	if (!record || schema_check(record, what, kind) < 0)
		return differs(c, "%s", record ? err_get()->text : "a record is missing");
	signature_verify(record, &proof);
	if (!proof.valid || !signature_is_by(&proof, who))
		return differs(c, "%s: %s has not signed it%s%s", what, who,
			proof.valid ? "" : ": ", proof.valid ? "" : proof.reason);
	return true;
}

static bool hash_is(const json_t *record, const char *hex)
{
	unsigned char hash[CANON_HASH_BYTES];
	char is[2 * sizeof hash + 1];

	if (canon_hash_record(hash, record) < 0) {
		err_clear();
		return false;
	}
	return strcmp(sodium_bin2hex(is, sizeof is, hash, sizeof hash), hex) == 0;
}

/* --- whose it is ------------------------------------------------------------------------------ */

static bool check_records(struct checker *c)
{
	const struct invoice_parts *p = c->p;
	const json_t *proposal = json_object_get(p->booking, "proposal");
	const json_t *offers = json_object_get(proposal, "offers");
	int64_t number = number_of(p->booking, "offer", -1);

	if (!is_signed(c, p->booking, "rnp.booking", "booking", p->customer))
		return false;
	c->registry = text_of(proposal, "signer");
	if (!is_signed(c, proposal, "rnp.proposal", "proposal", c->registry) ||
		!is_signed(c, p->invoice, "rnp.invoice", "invoice", c->registry))
		return false;
	if (strcmp(text_of(p->invoice, "cluster"), p->cluster) != 0)
		return differs(c, "the invoice is that of another cluster, %s",
			text_of(p->invoice, "cluster"));
	if (!hash_is(p->booking, text_of(p->invoice, "booking")))
		return differs(c, "the invoice is that of another booking, %s",
			text_of(p->invoice, "booking"));
	c->offer = json_array_get(offers, (size_t)number);
	c->spares = json_object_get(proposal, "spares");
	if (number < 0 || !c->offer)
		return differs(c,
			"the booking takes an offer that the proposal does not have");
	c->nranks = json_array_size(json_object_get(c->offer, "nodes"));
	if (c->nranks > 64)
		return differs(c, "the offer has more than 64 nodes");
	return true;
}

/* --- prices ----------------------------------------------------------------------------------- */

/* Whether what was proposed is what is charged. */
static bool is_price_of(const struct line *l, const json_t *proposed)
{
	return proposed && strcmp(text_of(proposed, "node"), l->node) == 0 &&
		number_of(proposed, "uusd_per_hour", -1) == l->uusd_per_hour &&
		number_of(proposed, "node_uusd_per_hour", -1) == l->node_uusd_per_hour &&
		(int64_t)json_array_size(json_object_get(proposed, "gpus")) == l->gpus;
}

/* The price of the node that had the rank before. */
static int64_t price_before(const struct checker *c, const struct line *l)
{
	const json_t *nodes = json_object_get(c->p->invoice, "nodes"), *one;
	size_t i;

	json_array_foreach(nodes, i, one)
		if (number_of(one, "rank", -1) == l->rank &&
			number_of(one, "turn", 0) == l->turn - 1)
			return number_of(one, "uusd_per_hour", 0);
	return 0;
}

static bool check_price(struct checker *c, const struct line *l)
{
	const json_t *nodes = json_object_get(c->offer, "nodes"), *spare;
	int64_t most;
	size_t i;

	if (l->turn == 0 && is_price_of(l, json_array_get(nodes, (size_t)l->rank)))
		return true;
	if (l->turn == 0)
		return differs(c,
			"rank %" PRId64 ": node %s at %" PRId64
			" uusd an hour is not what was booked",
			l->rank, l->node, l->uusd_per_hour);
	most = number_of(c->p->booking, "replace_uusd_per_hour", price_before(c, l));
	json_array_foreach(c->spares, i, spare)
		if (is_price_of(l, spare) && l->uusd_per_hour <= most)
			return true;
	return differs(c,
		"rank %" PRId64 ": node %s at %" PRId64
		" uusd an hour is no spare of the proposal, or dearer than %" PRId64,
		l->rank, l->node, l->uusd_per_hour, most);
}

/* --- time ------------------------------------------------------------------------------------- */

/* What a node has signed of its time, and what follows from the events of all: nothing counts
 * before all ranks are ready, nor after its run has ended. When another's event came its own events
 * before and after tell, as clocks differ. */
struct signed_time {
	int64_t ready_ms; /* the most that it said */
	int64_t own_ms;   /* for how long it was ready, with the others, by its clock */
	int64_t seen_ms;  /* its last event */
	int64_t begin_ms; /* 0: its time does not count */
	bool closing;     /* it ends with its next event */
	bool exited;
	int64_t restarts; /* how often the registry has said that run begins again */
	enum node_state ranks[64]; /* as the events so far have them */
};

static bool goes_on(const struct checker *c)
{
	return strcmp(text_of(c->p->booking, "on_node_failure"), "continue") == 0;
}

/* Whether the time of the line's rank counts, as far as the events have come. */
static bool counts(const struct checker *c, const struct line *l,
	const struct signed_time *t)
{
	if (t->ranks[l->rank] != NODE_READY || t->exited)
		return false;
	if (t->begin_ms && goes_on(c))
		return true;
	for (size_t i = 0; i < c->nranks; i++)
		if (t->ranks[i] < NODE_READY)
			return false;
	return true;
}

static void count(const struct checker *c, const struct line *l, struct signed_time *t,
	bool own)
{
	bool counting = counts(c, l, t);

	if (counting && !t->begin_ms)
		t->begin_ms = t->seen_ms;
	if (counting || !t->begin_ms)
		t->closing = false;
	else if (!own)
		t->closing = true;
	else {
		t->own_ms += t->seen_ms - t->begin_ms;
		t->begin_ms = 0;
		t->closing = false;
	}
}

/* Notes what an event, of whomever, says of its rank. */
static void note_state(const struct checker *c, const json_t *event,
	struct signed_time *t)
{
	int64_t rank = number_of(event, "rank", -1);
	int state = node_state_find(text_of(event, "to"));

	/* ready is a node's word; it is held against that node's signature with its line */
	if (rank >= 0 && (size_t)rank < c->nranks && state >= 0 &&
		(state != NODE_READY || json_object_get(event, "node") ||
			t->ranks[rank] == NODE_READY))
		t->ranks[rank] = (enum node_state)state;
	if (!json_object_get(event, "node") &&
		number_of(event, "restarts", 0) > t->restarts) {
		t->restarts = number_of(event, "restarts", 0);
		t->exited = false;
	}
}

static bool note_event(struct checker *c, const json_t *event, const struct line *l,
	struct signed_time *t)
{
	bool own = strcmp(text_of(event, "node"), l->node) == 0 &&
		number_of(event, "rank", -1) == l->rank;
	int64_t ready_ms = number_of(event, "ready_ms", -1);

	if (strcmp(text_of(event, "cluster"), c->p->cluster) != 0)
		return true;
	if (own && !is_signed(c, event, "rnp.event", "event", l->node))
		return false;
	if (own && json_get_time(event, "event", "at", &t->seen_ms) < 0)
		return differs(c, "%s", err_get()->text);
	if (own && ready_ms > t->ready_ms)
		t->ready_ms = ready_ms;
	if (own && t->closing)
		count(c, l, t, own);
	note_state(c, event, t);
	t->exited = t->exited ||
		(own && json_object_get(event, "exit") &&
			number_of(event, "restarts", t->restarts) == t->restarts);
	count(c, l, t, own);
	return true;
}

static bool check_time(struct checker *c, const struct line *l)
{
	struct signed_time t = { 0 };
	const json_t *event;
	size_t i;

	json_array_foreach(c->p->events, i, event)
		if (!note_event(c, event, l, &t))
			return false;
	if (t.begin_ms)
		t.own_ms += t.seen_ms - t.begin_ms;
	if (l->ready_ms > t.ready_ms)
		return differs(c,
			"rank %" PRId64 ": %" PRId64
			" ms are charged, and the node has signed %" PRId64,
			l->rank, l->ready_ms, t.ready_ms);
	if (l->ready_ms && t.own_ms + CLOCK_SLACK_MS < l->ready_ms)
		return differs(c,
			"rank %" PRId64 ": %" PRId64
			" ms are charged, and it was ready for %" PRId64
			" by its events and those of the other ranks",
			l->rank, l->ready_ms, t.own_ms);
	return true;
}

/* --- receipts --------------------------------------------------------------------------------- */

/* Sums of the receipts of a node. */
struct receipts {
	int64_t earned_uusd, gpu_seconds, to_ms;
};

static bool check_receipt(struct checker *c, const struct line *l, const char *hash,
	struct receipts *sum)
{
	const json_t *r = json_array_get(c->p->receipts, c->receipt++);
	int64_t from_ms = 0, to_ms = 0;

	if (!is_signed(c, r, "rnp.receipt", "receipt", c->registry))
		return false;
	if (!hash_is(r, hash) || strcmp(text_of(r, "node"), l->node) != 0 ||
		strcmp(text_of(r, "job"), c->p->cluster) != 0)
		return differs(c, "rank %" PRId64 ": receipt %.16s is of something else",
			l->rank, hash);
	if (json_get_time(r, "receipt", "from", &from_ms) < 0 ||
		json_get_time(r, "receipt", "to", &to_ms) < 0)
		return differs(c, "%s", err_get()->text);
	if (from_ms < sum->to_ms || to_ms <= from_ms)
		return differs(c,
			"rank %" PRId64 ": receipt %.16s overlaps the one before",
			l->rank, hash);
	sum->to_ms = to_ms;
	sum->earned_uusd += number_of(r, "earned_uusd", 0);
	sum->gpu_seconds += number_of(r, "gpu_seconds", 0);
	return true;
}

static bool check_receipts(struct checker *c, const struct line *l)
{
	const json_t *hashes = json_object_get(l->json, "receipts"), *hash;
	bool final = json_is_true(json_object_get(c->p->invoice, "final"));
	struct receipts sum = { 0, 0, 0 };
	struct meter whole = { 0, 0, 0 };
	size_t i;

	json_array_foreach(hashes, i, hash)
		if (!check_receipt(c, l, json_string_value(hash), &sum))
			return false;
	(void)meter_read(&whole, l->node_uusd_per_hour, l->gpus, l->ready_ms);
	if (final ? sum.earned_uusd != l->node_uusd : sum.earned_uusd > l->node_uusd)
		return differs(c,
			"rank %" PRId64 ": its receipts have %" PRId64
			" uusd, the invoice %" PRId64,
			l->rank, sum.earned_uusd, l->node_uusd);
	if (final ? sum.gpu_seconds != whole.gpu_seconds :
		    sum.gpu_seconds > whole.gpu_seconds)
		return differs(c,
			"rank %" PRId64 ": its receipts have %" PRId64
			" GPU seconds, its time %" PRId64,
			l->rank, sum.gpu_seconds, whole.gpu_seconds);
	return true;
}

/* --- sums ------------------------------------------------------------------------------------- */

static bool check_cost(struct checker *c, const struct line *l)
{
	int64_t uusd, node_uusd;

	if (l->uusd_per_hour > MARKET_UUSD_MAX ||
		l->node_uusd_per_hour > l->uusd_per_hour)
		return differs(c, "rank %" PRId64 ": its price is impossible", l->rank);
	uusd = market_cost(l->uusd_per_hour, l->ready_ms);
	node_uusd = market_cost(l->node_uusd_per_hour, l->ready_ms);
	if (l->uusd != uusd || l->node_uusd != node_uusd)
		return differs(c,
			"rank %" PRId64 ": %" PRId64 " ms at %" PRId64
			" uusd an hour are %" PRId64 " uusd, %" PRId64
			" of them the node's, and not %" PRId64 " and %" PRId64,
			l->rank, l->ready_ms, l->uusd_per_hour, uusd, node_uusd, l->uusd,
			l->node_uusd);
	c->uusd += uusd;
	c->node_uusd += node_uusd;
	return true;
}

static bool check_sum(struct checker *c, const char *what, int64_t want)
{
	int64_t is = number_of(c->p->invoice, what, 0);

	return is == want ||
		differs(c, "%s is %" PRId64 ", and the nodes' sum is %" PRId64, what, is,
			want);
}

static bool check_sums(struct checker *c)
{
	int64_t budget = number_of(c->p->booking, "budget_uusd", INT64_MAX);

	if (!check_sum(c, "uusd", c->uusd) ||
		!check_sum(c, "fee_uusd", c->uusd - c->node_uusd) ||
		!check_sum(c, "burn_uusd", c->node_uusd) ||
		!check_sum(c, "credits", c->node_uusd))
		return false;
	if (c->uusd > budget)
		return differs(c, "%" PRId64 " uusd are more than the budget of %" PRId64,
			c->uusd, budget);
	if (c->receipt != json_array_size(c->p->receipts))
		return differs(c, "there are receipts that the invoice does not name");
	return true;
}

static bool check_line(struct checker *c, const json_t *one)
{
	const struct line l = { .json = one,
		.node = text_of(one, "node"),
		.rank = number_of(one, "rank", 0),
		.turn = number_of(one, "turn", 0),
		.gpus = number_of(one, "gpus", 0),
		.ready_ms = number_of(one, "ready_ms", 0),
		.uusd_per_hour = number_of(one, "uusd_per_hour", 0),
		.node_uusd_per_hour = number_of(one, "node_uusd_per_hour", 0),
		.uusd = number_of(one, "uusd", 0),
		.node_uusd = number_of(one, "node_uusd", 0) };

	if (l.rank < 0 || (size_t)l.rank >= c->nranks)
		return differs(c, "rank %" PRId64 ": is none of the booking", l.rank);
	if (l.ready_ms > MARKET_HOURS_MAX * MARKET_HOUR_MS)
		return differs(c, "rank %" PRId64 ": its time is impossible", l.rank);
	return check_price(c, &l) && check_time(c, &l) && check_cost(c, &l) &&
		check_receipts(c, &l);
}

bool invoice_agrees(const struct invoice_parts *p, struct buf *difference)
{
	struct checker c = { .p = p, .why = difference };
	const json_t *one;
	size_t i;

	if (!check_records(&c))
		return false;
	json_array_foreach(json_object_get(p->invoice, "nodes"), i, one)
		if (!check_line(&c, one))
			return false;
	return check_sums(&c);
}
