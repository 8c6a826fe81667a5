/* bandwidth.c - the node's end of the bandwidth test, in a thread of its own beside the other
 * tests. */
#include "cmd/rnp-bench/peer/bandwidth.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "common/registry/bandwidth_test.h"
#include "common/http/http.h"
#include "common/json/json.h"

#define GROWTH     4
#define TRIES      3 /* the verifier may be busy with another node */
#define TRY_MIN_MS 1000

/* A verifier that stalls must not make the answer late: the last transfer to begin, of three
 * tries down and one up, ends before the time is out. */
static int64_t try_ms(const struct bandwidth *b)
{
	int64_t ms = b->left_ms / 5;

	if (ms < TRY_MIN_MS)
		return TRY_MIN_MS;
	return ms < BANDWIDTH_TEST_SECONDS * 1000 ? ms : BANDWIDTH_TEST_SECONDS * 1000;
}

static int make_url(struct buf *url, const struct bandwidth *b, const char *field,
	const char *value)
{
	char path[200 + KEY_ADDRESS_MAX], id[2 * POC_HASH_BYTES + 1];

	sodium_bin2hex(id, sizeof id, b->c->sha256, sizeof b->c->sha256);
	snprintf(path, sizeof path, "/v1/exchange/%s?node=%s&%s=%s", id, b->c->node,
		field, value);
	return http_url(url, b->verifier, path);
}

/* Downloads n bytes. */
static int take_bytes(const struct bandwidth *b, struct http *http, int64_t n,
	struct http_response *r)
{
	struct buf url = BUF_INIT;
	struct http_request q = { .ca_file = b->ca_file,
		.signer = b->key,
		.timeout_ms = try_ms(b),
		.tries = TRIES,
		.response_bytes_max = (size_t)n };
	char text[32];
	int rc;

	snprintf(text, sizeof text, "%lld", (long long)n);
	rc = make_url(&url, b, "bytes", text);
	if (rc == 0) {
		q.url = url.data;
		rc = http_fetch(http, &q, r);
	}
	if (rc == 0 && r->body.len != (size_t)n)
		rc = err_set(EX_DATAERR, "'%s' lies about sizes: %zu bytes, not %lld",
			b->verifier, r->body.len, (long long)n);
	buf_release(&url);
	return rc;
}

/* Uploads them again. */
static int give_bytes(const struct bandwidth *b, struct http *http,
	const struct buf *bytes, bool *enough)
{
	struct buf url = BUF_INIT;
	struct http_response r = HTTP_RESPONSE_INIT;
	struct http_request q = { .ca_file = b->ca_file,
		.signer = b->key,
		.body = bytes->data,
		.body_bytes = bytes->len,
		.content_type = "application/octet-stream",
		.timeout_ms = try_ms(b),
		.tries = 1 };
	char token[2 * BANDWIDTH_TEST_TOKEN_BYTES + 1];
	json_t *reply = NULL;
	int rc;

	sodium_bin2hex(token, sizeof token,
		(unsigned char *)bytes->data + bytes->len - BANDWIDTH_TEST_TOKEN_BYTES,
		BANDWIDTH_TEST_TOKEN_BYTES);
	rc = make_url(&url, b, "token", token);
	if (rc == 0) {
		q.url = url.data;
		rc = http_fetch(http, &q, &r);
	}
	if (rc == 0) {
		reply = json_parse_object(buf_text(&r.body), r.body.len, b->verifier);
		rc = reply ? json_get_bool(reply, b->verifier, "enough", enough) : -1;
	}
	json_decref(reply);
	http_response_release(&r);
	buf_release(&url);
	return rc;
}

static int exchange(struct bandwidth *b)
{
	struct http http = HTTP_INIT;
	struct http_response r = HTTP_RESPONSE_INIT;
	int64_t n = BANDWIDTH_TEST_BYTES_MIN;
	bool enough = false;
	int rc = 0;

	for (int i = 0; rc == 0 && !enough && i < BANDWIDTH_TEST_TRIES_MAX; i++) {
		rc = take_bytes(b, &http, n, &r);
		if (rc == 0)
			rc = give_bytes(b, &http, &r.body, &enough);
		n = n < BANDWIDTH_TEST_BYTES_MAX / GROWTH ? n * GROWTH :
							    BANDWIDTH_TEST_BYTES_MAX;
	}
	http_response_release(&r);
	http_release(&http);
	return rc;
}

static void *run(void *arg)
{
	struct bandwidth *b = arg;

	b->rc = exchange(b);
	err_save(&b->error);
	return NULL;
}

void bandwidth_start(struct bandwidth *b)
{
	if (!b->verifier)
		return;
	b->started = pthread_create(&b->thread, NULL, run, b) == 0;
	if (!b->started)
		run(b);
}

int bandwidth_finish(struct bandwidth *b)
{
	if (b->started)
		pthread_join(b->thread, NULL);
	b->started = false;
	return b->rc < 0 ? err_restore(&b->error) : 0;
}
