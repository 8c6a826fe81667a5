/* client.c - tasks of every client of a registry: posting a record to the path of its
 * kind, and following the pages of a list. */
#include "common/registry/client.h"

#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/json/canon.h"
#include "common/json/json.h"
#include "common/json/schema.h"

#define REPLY_BYTES_MAX ((size_t)64 << 10)
#define PAGE_BYTES_MAX  ((size_t)300 << 20) /* 1000 nodes of the largest kind */
#define CURSOR_MAX      128

/* Appends the path that a record is posted to. An answer is large, and its query names the node
 * and the challenge, so that the registry knows whose it is before the body comes. */
static void path_for(struct buf *path, const json_t *record)
{
	const char *kind = json_string_value(json_object_get(record, "kind"));
	const char *node = json_string_value(json_object_get(record, "node"));
	const char *challenge = json_string_value(
		json_object_get(record, "challenge_sha256"));
	static const struct {
		const char *kind, *path;
	} paths[] = { { "rnp.node", "/v1/nodes" }, { "rnp.heartbeat", "/v1/heartbeats" },
		{ "rnp.roots", "/v1/roots" }, { "rnp.unanswered", "/v1/unanswered" },
		{ "rnp.answer", "/v1/answers" }, { "rnp.listing", "/v1/listings" },
		{ "rnp.event", "/v1/events" }, { "rnp.gateway", "/v1/gateways" } };
	const char *found = "/v1/records";

	for (size_t i = 0; kind && i < sizeof paths / sizeof *paths; i++)
		if (strcmp(kind, paths[i].kind) == 0)
			found = paths[i].path;
	buf_adds(path, found);
	if (strcmp(found, "/v1/answers") == 0 && node && challenge) {
		buf_adds(path, "?node=");
		http_escape(path, node);
		buf_adds(path, "&challenge=");
		http_escape(path, challenge);
	}
}

#define WARN_NS INT64_C(3600000000000)

/* Warns, at most once an hour, if the reply says that another machine, or process, has this key. */
static void warn_of_twin(const json_t *stored)
{
	static int64_t warned_ns;
	int64_t ms = -1;

	if (json_opt_i64(stored, "reply", "twin_ms", 0, INT64_MAX, &ms) < 0)
		err_clear();
	if (ms < 0 || (warned_ns && clock_mono_ns() - warned_ns < WARN_NS))
		return;
	warned_ns = clock_mono_ns();
	err_warn(
		"another machine, or another process here, uses the same key: it was heard "
		"%lld s ago. One key is one node; each machine needs its own (rnp-register keygen)",
		(long long)(ms / 1000));
}

static int post(struct http *http, const char *base, const char *path, const char *work,
	struct http_request *q, struct http_response *r)
{
	struct buf url = BUF_INIT;
	int rc = http_url(&url, base, path);

	if (rc == 0 && work) {
		buf_adds(&url, "?work=");
		http_escape(&url, work);
	}
	q->response_bytes_max = REPLY_BYTES_MAX;
	q->url = url.data;
	if (rc == 0)
		rc = http_fetch(http, q, r);
	buf_release(&url);
	return rc;
}

static int not_ours(const char *base, const char *key)
{
	return err_set(EX_DATAERR, "%s: %s: is another record's", base, key);
}

static int is_same(const json_t *stored, const char *base, const char *key,
	const json_t *wanted)
{
	return !wanted || json_equal(json_object_get(stored, key), wanted) ?
		0 :
		not_ours(base, key);
}

/* Whether stored confirms the record: a heartbeat is identified by its node and time, others by
 * their hash; what is stored of an answer is the verdict on its challenge. Returns 0, or -1 with
 * err_set. */
static int is_confirmed(const json_t *stored, const char *base, const json_t *record)
{
	const char *sha256 = json_string_value(json_object_get(stored, "sha256"));
	const json_t *kind = json_object_get(record, "kind");
	const char *of = json_string_value(json_object_get(stored, "of"));
	bool answer = strcmp(json_string_value(kind), "rnp.answer") == 0;
	unsigned char hash[CANON_HASH_BYTES];
	char hex[2 * CANON_HASH_BYTES + 1];
	int64_t at_ms, sent_ms;

	if (schema_check(stored, base, "rnp.stored") < 0 ||
		is_same(stored, base, "node", json_object_get(record, "node")) < 0)
		return -1;
	if (answer)
		return strcmp(of, "rnp.verdict") ?
			not_ours(base, "of") :
			is_same(stored, base, "challenge_sha256",
				json_object_get(record, "challenge_sha256"));
	if (is_same(stored, base, "of", kind) < 0)
		return -1;
	if (strcmp(json_string_value(kind), "rnp.heartbeat") == 0) {
		if (json_get_time(record, base, "at", &sent_ms) < 0 ||
			json_get_time(stored, base, "at", &at_ms) < 0)
			return -1;
		return at_ms == sent_ms ? 0 : not_ours(base, "at");
	}
	if (!sha256)
		return 0;
	if (canon_hash_record(hash, record) < 0)
		return -1;
	sodium_bin2hex(hex, sizeof hex, hash, sizeof hash);
	return strcmp(sha256, hex) == 0 ? 0 : not_ours(base, "sha256");
}

/* Anything can answer 200: a hotel's page, a proxy's cache, another server. That is none of the
 * registry's words; the pending error says what is wrong with it. Returns NULL. */
static json_t *no_answer(struct http_response *r, const char *base, const char *what,
	json_t *takes_reply)
{
	struct err why;

	json_decref(takes_reply);
	err_save(&why);
	err_set(EX_UNAVAILABLE, "'%s' did not %s, though it said HTTP %d: %.400s", base,
		what, r->status, why.text);
	err_hint(
		"a login page or a proxy may stand between, or the URL is no registry's");
	r->status = 0;
	return NULL;
}

/* Only an rnp.stored of this record says that it is on a registry's disk. */
static json_t *read_stored(struct http_response *r, const char *base,
	const json_t *record)
{
	json_t *stored = json_parse_object(buf_text(&r->body), r->body.len, base);

	if (stored && is_confirmed(stored, base, record) == 0) {
		warn_of_twin(stored);
		return stored;
	}
	return no_answer(r, base, "confirm the record", stored);
}

static json_t *read_node(struct http_response *r, const char *base, const char *node)
{
	json_t *reply = json_parse_object_to(buf_text(&r->body), r->body.len,
		JSON_DEPTH_MAX_LIST, base);
	const json_t *record = json_object_get(reply, "record");
	const char *of = json_string_value(json_object_get(record, "node"));

	if (of && strcmp(of, node) == 0)
		return reply;
	if (reply)
		err_set(EX_DATAERR, "%s: record: is not this node's", base);
	return no_answer(r, base, "say what it has of the node", reply);
}

json_t *registry_node(struct http *http, const struct registry_call *p, const char *node,
	struct http_response *r)
{
	struct http_request q = { .ca_file = p->ca,
		.timeout_ms = p->per_try_ms,
		.tries = p->tries,
		.public_redirects = p->public_redirects };
	struct buf url = BUF_INIT;
	int rc = http_url(&url, p->base, "/v1/nodes/");

	if (rc == 0) {
		http_escape(&url, node);
		q.url = url.data;
		rc = http_fetch(http, &q, r);
	}
	buf_release(&url);
	return rc < 0 ? NULL : read_node(r, p->base, node);
}

json_t *registry_post(struct http *http, const struct registry_call *p,
	const json_t *record, const void *body, size_t bytes, struct http_response *r)
{
	struct buf path = BUF_INIT;
	struct http_request q = { .body = body,
		.body_bytes = bytes,
		.ca_file = p->ca,
		.timeout_ms = p->per_try_ms,
		.tries = p->tries };
	int rc;

	path_for(&path, record);
	rc = post(http, p->base, path.data, p->work, &q, r);
	buf_release(&path);
	return rc < 0 ? NULL : read_stored(r, p->base, record);
}

#define STATUS_WORK 428 /* Precondition Required, RFC 6585 */

bool registry_work_read(const struct http_response *r, struct registry_work *out)
{
	struct err error;
	json_t *reply;
	const json_t *work;
	const char *token;
	int64_t bits;
	bool good = false;

	if (r->status != STATUS_WORK)
		return false;
	err_save(&error);
	reply = json_parse_object(buf_text(&r->body), r->body.len, "reply");
	work = json_object_get(reply, "work");
	if (work && json_get_text(work, "reply", "token", &token) == 0 &&
		json_get_i64(work, "reply", "bits", 1, WORK_BITS_MAX, &bits) == 0 &&
		strlen(token) < sizeof out->token) {
		strcpy(out->token, token);
		out->bits = (int)bits;
		good = true;
	}
	json_decref(reply);
	err_clear();
	err_restore(&error);
	return good;
}

bool registry_known_read(const struct http_response *r, int64_t *at_ms)
{
	struct err error;
	json_t *reply;
	bool good;

	if (r->status != 409)
		return false;
	err_save(&error);
	reply = json_parse_object(buf_text(&r->body), r->body.len, "reply");
	good = reply && json_get_time(reply, "reply", "known_at", at_ms) == 0;
	json_decref(reply);
	err_clear();
	err_restore(&error);
	return good;
}

/* The place in a list. Pages that lead in a circle would be followed for ever: the cursor of a page
 * whose number is a power of two is kept, until the next such page, and comes again in every circle
 * (Brent, "An improved Monte Carlo factorization algorithm", 1980). */
struct place {
	char cursor[CURSOR_MAX], kept[CURSOR_MAX]; /* "": the first page */
	int64_t pages;
};

/* The next page's cursor replaces this one's; "" at the end. */
static int read_cursor(struct place *at, const json_t *page, const char *base)
{
	const char *next = "";

	if (json_opt_text(page, base, "next", &next) < 0)
		return -1;
	if (strlen(next) >= CURSOR_MAX)
		return err_set(EX_DATAERR, "%s: the cursor of the next page is too long",
			base);
	if (next[0] && (strcmp(next, at->cursor) == 0 || strcmp(next, at->kept) == 0))
		return err_set(EX_DATAERR, "%s: its pages lead in a circle", base);
	strcpy(at->cursor, next);
	at->pages++;
	if (!(at->pages & (at->pages - 1)))
		strcpy(at->kept, next);
	return 0;
}

/* Gets one page. Returns as fn does: 0 go on, 1 end, -1 with err_set. */
static int one_page(struct http *http, struct http_request *q, const char *base,
	const char *list, struct place *at, registry_page_fn fn, void *ctx)
{
	struct http_response r = HTTP_RESPONSE_INIT;
	json_t *page = NULL, *items;
	int rc = -1;

	if (http_fetch(http, q, &r) < 0)
		goto out;
	page = json_parse_object_to(buf_text(&r.body), r.body.len, JSON_DEPTH_MAX_LIST,
		base);
	if (page && json_get_array(page, base, list, &items) == 0 &&
		read_cursor(at, page, base) == 0)
		rc = fn(ctx, items);
out:
	json_decref(page);
	http_response_release(&r);
	return rc;
}

int registry_each_page(struct http *http, const char *base, const char *ca,
	const char *path, const char *list, registry_page_fn fn, void *ctx)
{
	struct http_request q = { .ca_file = ca, .response_bytes_max = PAGE_BYTES_MAX };
	struct place at = { .pages = 0 };
	struct buf url = BUF_INIT;
	int rc;

	do {
		buf_reset(&url);
		rc = http_url(&url, base, path);
		if (rc == 0 && at.cursor[0]) {
			buf_addf(&url, "%ccursor=", strchr(path, '?') ? '&' : '?');
			http_escape(&url, at.cursor);
		}
		q.url = url.data;
		if (rc == 0)
			rc = one_page(http, &q, base, list, &at, fn, ctx);
	} while (rc == 0 && at.cursor[0]);
	buf_release(&url);
	return rc < 0 ? -1 : 0;
}

struct each {
	registry_item_fn fn;
	void *ctx;
};

static int each_of(void *ctx, const json_t *items)
{
	struct each *e = ctx;
	const json_t *item;
	size_t i;
	int rc = 0;

	json_array_foreach(items, i, item)
		if ((rc = e->fn(e->ctx, item)) != 0)
			break;
	return rc;
}

int registry_each(struct http *http, const char *base, const char *ca, const char *path,
	const char *list, registry_item_fn fn, void *ctx)
{
	struct each e = { fn, ctx };

	return registry_each_page(http, base, ca, path, list, each_of, &e);
}
