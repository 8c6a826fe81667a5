/* fuzz_registry.c - fuzz target: a request from a stranger (target, body and header) through
 * the routes and handlers of the registry, with a store in memory.
 *
 * uses: cmd/rnp-register
 *
 * Input: method letter (G, P, other), target, newline, If-None-Match, newline, body. A body
 * that begins with '+' is signed first, so that the code after the signature check is reached.
 *
 * It checks that every request gets exactly one answer with an HTTP status; that an answer
 * declared as JSON is JSON; that an error has a message; and that a refused record leaves no
 * trace. */
#include <sodium.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-register/storage/registry.h"
#include "cmd/rnp-register/registry/api.h"
#include "common/base/err.h"
#include "common/json/json.h"
#include "common/record/signature.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define NOW_MS INT64_C(1767225600000) /* 2026-01-01T00:00:00Z, also in RNP_NOW below */

static struct registry registry;
static struct key key;
static int answered;

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

static void set_up(void)
{
	static const char *trusted[1];
	unsigned char seed[crypto_sign_SEEDBYTES] = { 7 }, secret[KEY_SECRET_BYTES];
	unsigned char public_key[KEY_PUBLIC_BYTES];
	struct registry_config config = { .db_path = ":memory:",
		.trusted = trusted,
		.ntrusted = 1 };

	must(sodium_init() >= 0);
	setenv("RNP_NOW", "2026-01-01T00:00:00Z", 1);
	crypto_sign_seed_keypair(public_key, secret, seed);
	must(key_from_secret(&key, secret) == 0);
	trusted[0] = key.address;
	must(registry_open(&registry, &config) == 0);
}

/* Signs the rest of the input as a record of ours; where it names no node, it gets our node. */
static void sign_body(struct buf *body, const char *text, size_t len)
{
	json_t *record = json_parse_object(text, len, "body");

	if (!record) {
		err_clear();
		buf_add(body, text, len);
		return;
	}
	if (!json_object_get(record, "node"))
		json_set_text(record, "node", key.address);
	if (!json_object_get(record, "at"))
		json_set_time(record, "at", NOW_MS);
	if (!json_object_get(record, "v"))
		json_set_i64(record, "v", 1);
	if (signature_add(record, &key, NOW_MS) < 0)
		err_clear();
	json_write(body, record);
	json_decref(record);
}

static int64_t stored(void)
{
	sqlite3_stmt *q = NULL;
	int64_t n;

	must(store_prepare(&registry.db.store, &q,
		     "SELECT (SELECT count(*) FROM records) + (SELECT count(*) FROM heartbeats)") ==
		0);
	must(store_step(&registry.db.store, q) == 1);
	n = sqlite3_column_int64(q, 0);
	sqlite3_finalize(q);
	return n;
}

static void check_reply(struct httpd_request *q, struct httpd_reply *r, int64_t before)
{
	json_t *body;

	must(r->status >= 200 && r->status < 600);
	must(r->status != 500);
	if (strcmp(q->method, "POST") == 0 && r->status >= 300)
		must(stored() == before);
	if (r->content_type)
		return;
	body = json_parse_object(buf_text(&r->body), r->body.len, "reply");
	must(body != NULL);
	if (r->status >= 300)
		must(json_string_length(json_object_get(body, "error")) > 0);
	json_decref(body);
}

static void ask(struct httpd_request *q)
{
	struct httpd_reply r = { .status = 200 };
	const struct httpd_route *route;
	int64_t before = stored();
	enum httpd_when when;
	int status;

	answered = 0;
	route = httpd_find_route(registry_routes, q, &status, &r.allow);
	if (!route) {
		must(status == 404 || (status == 405 && r.allow));
		return;
	}
	if (q->body.len > route->body_bytes_max)
		q->body.len = 0;
	/* as the server does: `begin` may refuse before the body is read, and `done` ends every
	 * request */
	when = route->begin ? route->begin(&registry, q, &r) : HTTPD_GO_ON;
	if (when == HTTPD_GO_ON)
		when = route->handler(&registry, q, &r);
	must(answered == (when == HTTPD_LATER));
	if (route->done)
		route->done(&registry, q);
	check_reply(q, &r, before);
	(void)httpd_etag_matches(q->if_none_match, r.etag);
	buf_release(&r.body);
	err_clear();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const methods[] = { "GET", "POST", "DELETE" };
	struct httpd_request q = { .client = "fuzz", .finish = on_finish };
	char *text, *line, *header;

	if (!registry.db.writer)
		set_up();
	if (size < 1 || size > 65536)
		return 0;
	text = malloc(size + 1);
	memcpy(text, data, size);
	text[size] = '\0';
	q.method = methods[text[0] == 'G' ? 0 : text[0] == 'P' ? 1 : 2];
	line = memchr(text, '\n', size);
	header = line ? memchr(line + 1, '\n', size - (size_t)(line + 1 - text)) : NULL;
	if (line)
		*line = '\0';
	if (header) {
		size_t at = (size_t)(header + 1 - text);

		*header = '\0';
		q.if_none_match = line + 1;
		if (text[at] == '+')
			sign_body(&q.body, text + at + 1, size - at - 1);
		else
			buf_add(&q.body, text + at, size - at);
	}
	if (httpd_parse_uri(&q, text + 1) == 0)
		ask(&q);
	httpd_request_release(&q);
	free(text);
	return 0;
}
