/* booked.h - a cluster of serve.h with a booking and events, under a clock of the test's own. */
#ifndef RNP_TESTS_UNIT_RNP_REGISTER_MARKET_BOOKED_H
#define RNP_TESTS_UNIT_RNP_REGISTER_MARKET_BOOKED_H

#include "common/base/clock.h"
#include "common/json/canon.h"
#include "common/json/json.h"
#include "common/record/signature.h"
#include "tests/unit/rnp-register/market/serve.h"

#define MINUTE INT64_C(60000)
#define HOUR   (60 * MINUTE)
#define BEGIN  INT64_C(1767222000000) /* 2025-12-31T23:00:00Z */
#define PRICE  INT64_C(1234567)
#define SHARE  INT64_C(1172839)

static int64_t now_ms;

/* The variable is written in place: threads of the server read it. */
static inline void set_clock(int64_t ms)
{
	static char variable[] = "RNP_NOW=2025-12-31T23:00:00Z";
	char text[CLOCK_TEXT_MAX];

	now_ms = ms;
	clock_format(text, ms);
	memcpy(variable + 8, text, sizeof variable - 9);
	putenv(variable);
}

static inline void sign(json_t *record, const struct key *key)
{
	json_set_text(record, "signer", key->address);
	json_set_time(record, "at", now_ms);
	CHECK(signature_add(record, key, now_ms) == 0);
}

static inline json_t *make_offer_node(const struct key *key, int64_t price, int64_t share)
{
	json_t *one = json_object(), *gpus = json_array();

	json_set_text(one, "node", key->address);
	json_push_text(gpus, "GPU-1");
	json_push_text(gpus, "GPU-2");
	json_set(one, "gpus", gpus);
	json_set_text(one, "quote",
		"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	json_set_i64(one, "uusd_per_hour", price);
	json_set_i64(one, "node_uusd_per_hour", share);
	return one;
}

static inline json_t *make_booking(const struct key *const *ranks, int n,
	const struct key *spare)
{
	json_t *booking = json_record("rnp.booking"),
	       *proposal = json_record("rnp.proposal");
	json_t *offer = json_object(), *nodes = json_array(), *offers = json_array();
	json_t *spares = json_array();

	for (int i = 0; i < n; i++)
		json_push(nodes, make_offer_node(ranks[i], PRICE, SHARE));
	json_push(spares, make_offer_node(spare, PRICE - 1, SHARE - 1));
	json_set(offer, "nodes", nodes);
	json_set_i64(offer, "uusd_per_hour", PRICE);
	json_set_i64(offer, "up_to_uusd", PRICE * 10);
	json_push(offers, offer);
	json_set_text(proposal, "job",
		"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	json_set(proposal, "request", json_record("rnp.job"));
	json_set_time(proposal, "valid_until", now_ms + MINUTE);
	json_set(proposal, "offers", offers);
	json_set(proposal, "spares", spares);
	sign(proposal, &registrar);
	json_set(booking, "proposal", proposal);
	json_set_i64(booking, "offer", 0);
	json_set_i64(booking, "hours", 10);
	sign(booking, &customer);
	return booking;
}

/* A cluster of the customer's whose nodes are starting. */
static inline void put_cluster(const struct key *const *ranks, int n,
	const struct key *spare)
{
	json_t *booking = make_booking(ranks, n, spare);
	unsigned char hash[CANON_HASH_BYTES];
	struct buf text = BUF_INIT, command = BUF_INIT;
	char hex[65];

	CHECK(canon_hash_record(hash, booking) == 0);
	sodium_bin2hex(hex, sizeof hex, hash, sizeof hash);
	json_write(&text, booking);
	make_market();
	for (int i = 1; i < n; i++)
		sql("INSERT INTO members (cluster, rank, turn, node, quote, gpus, cause, address, "
		    "ssh, state, since_ms, heard_ms, deadline_ms, uusd_per_hour, "
		    "node_uusd_per_hour, ready_at_ms, ready_ms, charged_uusd, node_seq, exit, "
		    "bytes, bytes_total, changed) SELECT cluster, %d, turn, '%s', quote, gpus, "
		    "cause, address, ssh, state, since_ms, heard_ms, deadline_ms, uusd_per_hour, "
		    "node_uusd_per_hour, ready_at_ms, ready_ms, charged_uusd, node_seq, exit, "
		    "bytes, bytes_total, changed FROM members WHERE rank = 0",
			i, ranks[i]->address);
	buf_addf(&command,
		"UPDATE clusters SET booking = '%s', body = '%s', live = 1, limit_uusd = 1000000000;"
		"UPDATE accounts SET deposited_uusd = 1000000000;"
		"UPDATE members SET state = 3, gpus = '[\"GPU-1\",\"GPU-2\"]', uusd_per_hour = %lld, "
		"node_uusd_per_hour = %lld",
		hex, text.data, (long long)PRICE, (long long)SHARE);
	sql_text(command.data);
	json_decref(booking);
	buf_release(&text);
	buf_release(&command);
}

/* Its author's next event; ready_ms, exit -1: not said. */
static int seq;

static inline void say(const struct key *key, int rank, const char *to, int64_t ready_ms,
	int exit, int want)
{
	json_t *event = json_record("rnp.event");
	struct buf text = BUF_INIT;

	json_set_text(event, "cluster", CLUSTER);
	json_set_i64(event, "rank", rank);
	json_set_text(event, "node", key->address);
	json_set_i64(event, "seq", ++seq);
	json_set_time(event, "at", now_ms);
	json_set_text(event, "to", to);
	if (ready_ms >= 0)
		json_set_i64(event, "ready_ms", ready_ms);
	if (exit >= 0)
		json_set_i64(event, "exit", exit);
	CHECK(signature_add(event, key, now_ms) == 0);
	json_write(&text, event);
	CHECK_I64(want, ask("POST", "/v1/events", NULL, text.data, text.len, NULL));
	json_decref(event);
	buf_release(&text);
}

static inline json_t *get(const char *path, const struct key *key)
{
	struct buf body = BUF_INIT;
	json_t *reply;

	CHECK_I64(200, ask("GET", path, key, NULL, 0, &body));
	reply = json_parse_object_to(buf_text(&body), body.len, JSON_DEPTH_MAX_LIST,
		"reply");
	CHECK(reply != NULL);
	buf_release(&body);
	return reply;
}

static inline int64_t number_of(const json_t *obj, const char *key)
{
	return json_integer_value(json_object_get(obj, key));
}

static inline json_t *events_now(void)
{
	json_t *reply = get("/v1/events?cluster=" CLUSTER, &customer),
	       *list = json_array(), *one;
	size_t i;

	json_array_foreach(json_object_get(reply, "events"), i, one)
		json_array_append(list, json_object_get(one, "event"));
	json_decref(reply);
	return list;
}

/* Signs a changed record anew. */
static inline void sign_again(json_t *record, const struct key *key)
{
	json_object_del(record, "proof");
	CHECK(signature_add(record, key, now_ms) == 0);
}

#endif
