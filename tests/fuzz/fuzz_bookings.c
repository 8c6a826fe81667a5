/* fuzz_bookings.c - fuzz target: what customers and nodes send to a market, one after the other,
 * against a store in memory with one node for sale and one customer with money.
 *
 * uses: cmd/rnp-register
 *
 * Input: lines of a letter and a JSON object: P a job, B a booking, E an event, A an action, L a
 * listing, D a deposit, T time passes. The object's fields go over those of a record that is
 * right; then it is signed, unless it has a proof.
 *
 * It checks that every request gets one answer, that an answer is JSON and an error has its three
 * fields, and after each line the money: nothing is spent that is not there, what is held for
 * clusters is what accounts hold, only who has a lease is charged, and no device is let twice. */
#include <sodium.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-register/market/market.h"
#include "cmd/rnp-register/registry/api.h"
#include "cmd/rnp-register/storage/registry.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/json/json.h"
#include "common/record/signature.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct registry registry;
static struct key key;
static json_t *proposal;
static char cluster[33];
static int answered, seq;
static bool changed;

static void must(bool promise)
{
	if (!promise)
		abort();
}

static void on_finish(struct httpd_request *q)
{
	(void)q;
	answered++;
}

static int64_t number(const char *sql)
{
	sqlite3_stmt *q = NULL;
	int64_t n;

	must(store_prepare(&registry.db.store, &q, sql) == 0);
	must(store_step(&registry.db.store, q) == 1);
	n = sqlite3_column_int64(q, 0);
	sqlite3_finalize(q);
	return n;
}

static void check_money(void)
{
	must(number("SELECT count(*) FROM accounts WHERE held_uusd < 0 OR charged_uusd < 0 OR "
		    "deposited_uusd - charged_uusd - held_uusd < 0") == 0);
	must(number("SELECT total(held_uusd) = (SELECT total(held_uusd) FROM clusters) FROM "
		    "accounts") == 1);
	must(number("SELECT total(charged_uusd) = (SELECT total(spent_uusd) FROM clusters) "
		    "FROM accounts") == 1);
	must(number("SELECT total(spent_uusd) = (SELECT total(charged_uusd) FROM members) "
		    "FROM clusters") == 1);
	must(number("SELECT count(*) FROM clusters WHERE spent_uusd > limit_uusd OR (live = 0 "
		    "AND held_uusd > 0)") == 0);
	must(number("SELECT count(*) FROM (SELECT 1 FROM leases WHERE to_ms IS NULL GROUP BY "
		    "device HAVING count(*) > 1)") == 0);
	must(number("SELECT count(*) FROM members m WHERE (state <= 5) <> EXISTS (SELECT 1 FROM "
		    "leases WHERE member = m.id AND to_ms IS NULL)") == 0);
}

/* Asks a route; returns the reply, which the caller owns. */
static json_t *ask(const char *path, const struct buf *body, int *status)
{
	struct httpd_request q = { .method = "POST",
		.client = "127.0.0.1",
		.finish = on_finish };
	struct httpd_reply r = { .status = 200 };
	const struct httpd_route *route;
	enum httpd_when when;
	const char *allow;
	json_t *reply;
	int none;

	must(httpd_parse_uri(&q, path) == 0);
	buf_add(&q.body, buf_text(body), body->len);
	route = httpd_find_route(registry_routes, &q, &none, &allow);
	must(route != NULL);
	answered = 0;
	when = route->handler(&registry, &q, &r);
	must(answered == (when == HTTPD_LATER));
	*status = r.status;
	reply = json_parse_object_to(buf_text(&r.body), r.body.len, JSON_DEPTH_MAX_LIST,
		"reply");
	must(reply != NULL && r.status != 500 && r.status != 503);
	if (r.status >= 300)
		must(json_string_length(json_object_get(reply, "error")) > 0);
	buf_release(&r.body);
	httpd_request_release(&q);
	err_clear();
	return reply;
}

/* Signs a record (taken) and sends it. Returns the reply, or NULL: it cannot be signed. */
static json_t *send(const char *path, json_t *record, int *status)
{
	struct buf body = BUF_INIT;
	json_t *reply;

	if (!json_object_get(record, "proof") &&
		signature_add(record, &key, clock_now_ms()) < 0)
		err_clear();
	json_write(&body, record);
	json_decref(record);
	reply = ask(path, &body, status);
	buf_release(&body);
	return reply;
}

static json_t *base_of(const char *kind)
{
	json_t *record = json_record(kind);

	json_set_text(record, "node", key.address);
	json_set_text(record, "signer", key.address);
	json_set_time(record, "at", clock_now_ms());
	return record;
}

static void must_send(const char *path, json_t *record)
{
	int status;

	json_decref(send(path, record, &status));
	must(status < 300);
}

static json_t *listing(void)
{
	json_t *record = base_of("rnp.listing");

	json_set_time(record, "until", clock_now_ms() + 3600000);
	json_set_i64(record, "cpu_cores", 8);
	json_set_i64(record, "disk_bytes", 1000000000);
	return record;
}

static json_t *deposit(void)
{
	json_t *record = base_of("rnp.deposit");

	json_object_del(record, "node");
	json_set_text(record, "customer", key.address);
	json_set_i64(record, "uusd", 1000000);
	json_set_text(record, "source", "paid");
	json_set_text(record, "id", "first");
	return record;
}

/* One node with two GPUs, priced, alive and listed, and a customer with a dollar. */
static void fill(void)
{
	json_t *node = base_of("rnp.node"), *gpus = json_array(), *beat, *quote, *sells;

	for (int i = 0; i < 2; i++) {
		json_t *gpu = json_object();

		json_set_text(gpu, "vendor", "NVIDIA");
		json_set_text(gpu, "model", "NVIDIA GeForce RTX 4090");
		json_set_text(gpu, "uuid", i ? "GPU-b" : "GPU-a");
		json_push(gpus, gpu);
	}
	json_set(node, "gpus", gpus);
	must_send("/v1/nodes", node);
	quote = base_of("rnp.quote");
	json_set_i64(quote, "ask_uusd", 400000);
	json_set_i64(quote, "customer_uusd", 420000);
	json_set_i64(quote, "floor_uusd", 0);
	json_set(quote, "why", json_array());
	must_send("/v1/records", quote);
	beat = base_of("rnp.heartbeat");
	json_set_i64(beat, "interval_s", 3600);
	json_set_text(beat, "state", "idle");
	must_send("/v1/heartbeats", beat);
	sells = listing();
	json_set_i64(sells, "part_gpus", 1);
	must_send("/v1/listings", sells);
	must_send("/v1/deposits", deposit());
}

static void set_up(void)
{
	static const char *trusted[1];
	unsigned char seed[crypto_sign_SEEDBYTES] = { 7 }, secret[KEY_SECRET_BYTES];
	unsigned char public_key[KEY_PUBLIC_BYTES];
	const struct registry_config config = {
		.db_path = ":memory:",
		.trusted = trusted,
		.ntrusted = 1,
		.key = &key,
		.market = true,
		.default_image =
			"debian@sha256:"
			"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	};

	if (!key.secret) {
		must(sodium_init() >= 0);
		crypto_sign_seed_keypair(public_key, secret, seed);
		must(key_from_secret(&key, secret) == 0);
		trusted[0] = key.address;
	}
	setenv("RNP_NOW", "2026-01-01T00:00:00Z", 1);
	must(registry_open(&registry, &config) == 0);
	fill();
	json_decref(proposal);
	proposal = NULL;
	cluster[0] = '\0';
	seq = 0;
	changed = false;
}

/* --- lines ---------------------------------------------------------------------------- */

static json_t *job(void)
{
	json_t *record = json_record("rnp.job");

	json_set_text(record, "job", "j");
	return record;
}

static json_t *booking(void)
{
	json_t *record = base_of("rnp.booking");

	json_object_del(record, "node");
	json_set_i64(record, "offer", 0);
	json_set_i64(record, "hours", 1);
	json_set(record, "proposal", proposal ? json_deep_copy(proposal) : json_object());
	return record;
}

static json_t *event(void)
{
	json_t *record = base_of("rnp.event");

	json_object_del(record, "signer");
	json_set_text(record, "cluster", cluster);
	json_set_i64(record, "rank", 0);
	json_set_i64(record, "seq", ++seq);
	json_set_text(record, "to", "proving");
	return record;
}

static json_t *action(void)
{
	json_t *record = base_of("rnp.action");

	json_object_del(record, "node");
	json_set_text(record, "cluster", cluster);
	json_set_text(record, "action", "release");
	return record;
}

static const struct {
	char letter;
	const char *path;
	json_t *(*make)(void);
} kinds[] = { { 'P', "/v1/plans", job }, { 'B', "/v1/bookings", booking },
	{ 'E', "/v1/events", event }, { 'A', "/v1/actions", action },
	{ 'L', "/v1/listings", listing }, { 'D', "/v1/deposits", deposit } };

static void keep(char letter, json_t *reply, int status)
{
	const char *name = json_string_value(json_object_get(reply, "cluster"));

	if (letter != 'P' && status < 300)
		changed = true;
	if (letter == 'P' && status == 200) {
		json_decref(proposal);
		proposal = json_incref(reply);
	}
	if (letter == 'B' && status < 300 && name) {
		memcpy(cluster, name, 33);
		seq = 0;
	}
}

/* Time passes: minutes, as the object's length has it. */
static void pass(size_t len)
{
	char now[CLOCK_TEXT_MAX];

	clock_format(now, clock_now_ms() + (int64_t)len * 60000);
	setenv("RNP_NOW", now, 1);
	market_sweep(&registry);
	changed = true;
}

static void line(const char *text, size_t len)
{
	json_t *over, *record, *reply;
	int status;

	if (text[0] == 'T') {
		pass(len);
		check_money();
		return;
	}
	over = json_parse_object(text + 1, len - 1, "line");
	for (size_t i = 0; over && i < sizeof kinds / sizeof *kinds; i++)
		if (kinds[i].letter == text[0]) {
			record = kinds[i].make();
			json_object_update(record, over);
			reply = send(kinds[i].path, record, &status);
			keep(text[0], reply, status);
			json_decref(reply);
			check_money();
		}
	json_decref(over);
	err_clear();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *at = (const char *)data, *end = at + size, *stop;

	if (size > 16384)
		return 0;
	if (!registry.market)
		set_up();
	for (int n = 0; at < end && n < 64; at = stop + 1, n++) {
		stop = memchr(at, '\n', (size_t)(end - at));
		if (!stop)
			stop = end;
		if (stop - at > 1)
			line(at, (size_t)(stop - at));
	}
	if (changed) {
		registry_close(&registry);
		memset(&registry, 0, sizeof registry);
	}
	return 0;
}
