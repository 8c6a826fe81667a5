/* bandwidth.c - the bandwidth test of a node that has a challenge open, by requests
 * that it has signed. */
#include "cmd/rnp-register/challenges/challenge.h"

#include <stdio.h>
#include <string.h>

#include "cmd/rnp-register/challenges/table.h"
#include "cmd/rnp-register/storage/query.h"
#include "common/base/clock.h"
#include "common/registry/bandwidth_test.h"
#include "common/http/sign.h"
#include "common/httpd/nonces.h"
#include "common/httpd/sign.h"
#include "common/record/uptime.h"

/* Signed requests per challenge: one transfer each way, and retries while others transfer. */
#define SIGNED_READS_MAX 64
#define SIGNED_AGE_MAX_S 60

int64_t registry_challenge_bandwidth(struct registry *g, const struct poc_challenge *c)
{
	struct bandwidth_test_reading reading;
	char id[65];

	challenged_hex(id, c);
	return bandwidth_test_take(g->challenger->exchanges, id, &reading) ?
		reading.bytes_per_s :
		0;
}

static bool is_open(struct registry *g, const char *node, const char *id)
{
	bool open;

	pthread_mutex_lock(&g->challenger->lock);
	open = challenged_find_open(g->challenger, node, id) != NULL;
	pthread_mutex_unlock(&g->challenger->lock);
	return open;
}

/* The subject of a signed request. */
struct signed_read {
	struct registry *g;
	const char *node, *id;
};

static bool find_node_key(void *ctx, const char *keyid,
	unsigned char public_key[KEY_PUBLIC_BYTES])
{
	const struct signed_read *s = ctx;

	return strcmp(keyid, s->node) == 0 &&
		address_parse(keyid, "keyid", public_key) == 0;
}

/* Counts a signed request about the node's open challenge; false: there were too many. */
static bool counts(const struct signed_read *s)
{
	struct challenged *a;
	bool may;

	pthread_mutex_lock(&s->g->challenger->lock);
	a = challenged_find_open(s->g->challenger, s->node, s->id);
	may = a && a->signed_reads < SIGNED_READS_MAX;
	if (may)
		a->signed_reads++;
	pthread_mutex_unlock(&s->g->challenger->lock);
	return may;
}

/* A request that somebody has overheard is not answered a second time (replay). It is counted
 * first: a challenge takes room for no more nonces than that. */
static bool nonce_seen(void *ctx, const char *address, const char *nonce, int64_t until_s)
{
	const struct signed_read *s = ctx;

	return !counts(s) || nonces_seen(s->g->nonces, address, nonce, until_s);
}

/* Only the node itself may transfer for its challenge. Returns false with r filled. */
static bool is_signed(struct registry *g, struct httpd_request *q, struct httpd_reply *r,
	const char *node)
{
	struct signed_read s = { g, node, q->arg };
	struct httpsig_policy policy = { .required = HTTP_SIGN_COMPONENTS,
		.tag = HTTP_SIGN_TAG,
		.now_s = clock_now_ms() / 1000,
		.max_age_s = SIGNED_AGE_MAX_S,
		.skew_s = UPTIME_SKEW_MS / 1000,
		.nonce_required = true,
		.nonce_seen = nonce_seen,
		.find_key = find_node_key,
		.ctx = &s };
	struct httpsig_result result;
	char text[400];

	if (httpd_verify(q, false, &policy, &result) == HTTPSIG_GOOD)
		return true;
	snprintf(text, sizeof text,
		"only node %s may ask this, by requests that its key signed (RFC 9421): %s",
		node, result.reason);
	httpd_ask_signature(r, text);
	return false;
}

/* Names the challenge and the direction in the reply: a node may have several connections open, and
 * what comes through a proxy need not come in order. */
static void name_phase(const struct httpd_request *q, struct httpd_reply *r,
	const char *phase)
{
	httpd_add_header(r, "Rnp-Challenge", "%s", q->arg);
	httpd_add_header(r, "Rnp-Phase", "%s", phase);
}

/* Only a node with an open challenge may use the registry's bandwidth. Returns false with r
 * filled. */
static bool may_exchange(struct registry *g, struct httpd_request *q,
	struct httpd_reply *r, const char *fields)
{
	const char *node = httpd_query(q, "node");

	if (!g->challenger)
		httpd_error(r, 404, "this registry issues no challenges");
	else if (registry_query_known(q, r, fields) < 0 ||
		registry_query_address(q, r, "node") < 0)
		return false;
	else if (!node || !q->arg)
		httpd_error(r, 400, "which node's challenge?");
	else if (!is_open(g, node, q->arg))
		registry_challenge_none(r, node);
	else
		return is_signed(g, q, r, node);
	return false;
}

enum httpd_when registry_get_bandwidth_test(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct registry *g = ctx;

	if (!may_exchange(g, q, r, "node bytes"))
		return HTTPD_NOW;
	name_phase(q, r, "down");
	return bandwidth_test_get(g->challenger->exchanges, q, r);
}

enum httpd_when registry_begin_bandwidth_test(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct registry *g = ctx;
	int64_t now_ns = clock_mono_ns(), bytes;
	struct challenged *a;

	if (!may_exchange(g, q, r, "node token"))
		return HTTPD_NOW;
	bytes = bandwidth_test_awaited(g->challenger->exchanges, q->arg, now_ns);
	if (!bytes)
		return httpd_error(r, 409, "no exchange of that id is on its way");
	q->body_bytes_max = (size_t)bytes;
	q->until_ns = now_ns + BANDWIDTH_TEST_SECONDS * INT64_C(1000000000);
	pthread_mutex_lock(&g->challenger->lock);
	a = *challenged_place(g->challenger, httpd_query(q, "node"));
	if (a && a->exchange)
		a->exchange->until_ns = 1;
	if (a)
		a->exchange = q;
	pthread_mutex_unlock(&g->challenger->lock);
	return HTTPD_GO_ON;
}

void registry_done_bandwidth_test(void *ctx, struct httpd_request *q)
{
	struct registry *g = ctx;
	const char *node = httpd_query(q, "node");
	struct challenged *a;

	if (!g->challenger || !node)
		return;
	pthread_mutex_lock(&g->challenger->lock);
	a = *challenged_place(g->challenger, node);
	if (a && a->exchange == q)
		a->exchange = NULL;
	pthread_mutex_unlock(&g->challenger->lock);
}

enum httpd_when registry_post_bandwidth_test(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct registry *g = ctx;
	struct bandwidth_test_reading reading;

	name_phase(q, r, "up");
	return bandwidth_test_post(g->challenger->exchanges, q, r, &reading);
}
