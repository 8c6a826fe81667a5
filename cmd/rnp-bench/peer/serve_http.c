/* serve_http.c - the routes of rnp-bench serve: bytes down and up, echo, sum. */
#include <stdio.h>
#include <string.h>

#include "cmd/rnp-bench/peer/peer.h"
#include "cmd/rnp-bench/peer/serve.h"
#include "common/record/bench.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/json/json.h"
#include "common/base/num.h"
#include "common/cli/out.h"
#include "common/record/signature.h"

#define BINARY "application/octet-stream"

static enum httpd_when get_peer(void *ctx, struct httpd_request *q, struct httpd_reply *r)
{
	const struct serve *s = ctx;
	json_t *record = json_record("rnp.peer");

	(void)q;
	json_set_i64(record, "tcp_port", s->tcp_port);
	json_set_i64(record, "bytes_max", (int64_t)PEER_BYTES_MAX);
	json_write(&r->body, record);
	buf_addc(&r->body, '\n');
	json_decref(record);
	return HTTPD_NOW;
}

static enum httpd_when get_bytes(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	const struct serve *s = ctx;
	int64_t n;

	if (!q->arg || num_i64(q->arg, "bytes", 0, (int64_t)PEER_BYTES_MAX, &n) < 0) {
		httpd_error(r, 400, "%s", q->arg ? err_get()->text : "how many bytes?");
		err_clear();
		return HTTPD_NOW;
	}
	r->content_type = BINARY;
	return httpd_reply_memory(r, s->random, (size_t)n);
}

static enum httpd_when post_bytes(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	(void)ctx;
	buf_addf(&r->body, "{\"bytes\":%zu}\n", q->body.len);
	return HTTPD_NOW;
}

/* Returns the body as the reply. */
static void turn_around(struct httpd_request *q, struct httpd_reply *r)
{
	struct buf swap = r->body;

	r->content_type = BINARY;
	r->body = q->body;
	q->body = swap;
}

static enum httpd_when post_echo(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	(void)ctx;
	turn_around(q, r);
	return HTTPD_NOW;
}

/* Adds our vector, that of rank 1, see peer.h. */
static enum httpd_when post_sum(void *ctx, struct httpd_request *q, struct httpd_reply *r)
{
	float *v;

	(void)ctx;
	if (q->body.len % sizeof(float))
		return httpd_error(r, 400, "the body is no array of floats");
	turn_around(q, r);
	v = (float *)(void *)r->body.data;
	for (size_t i = 0; i < r->body.len / sizeof *v; i++)
		v[i] += peer_value(1, i);
	return HTTPD_NOW;
}

/* --- the bandwidth test of the proof of compute -------------------------------------------- */

/* Writes one signed record, for rnp-bench verdict. It names no node, since none signed it: the
 * challenge names it. */
static int write_reading(struct serve *s, const char *id,
	const struct bandwidth_test_reading *reading)
{
	double rate = (double)reading->bytes_per_s;
	struct stats once = { rate, rate, rate, 1, 0 };
	json_t *record = bench_record("net", "exchange", NULL, "B/s", &once);
	json_t *params = bench_params(record);
	int rc;

	json_set_text(params, "challenge_sha256", id);
	json_set_i64(params, "bytes", reading->bytes);
	json_set_i64(params, "down_ns", reading->down_ns);
	json_set_i64(params, "up_ns", reading->up_ns);
	rc = signature_add(record, s->key, clock_now_ms() / 1000 * 1000);
	pthread_mutex_lock(&s->output);
	if (rc == 0)
		rc = out_record(record);
	pthread_mutex_unlock(&s->output);
	json_decref(record);
	return rc;
}

static enum httpd_when get_exchange(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct serve *s = ctx;

	if (!s->key)
		return httpd_error(r, 404, "this peer has no key to sign readings with");
	return bandwidth_test_get(s->exchanges, q, r);
}

/* Writes the best measurement once no better one can follow. */
static enum httpd_when post_exchange(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct bandwidth_test_reading reading = { .enough = false };
	struct serve *s = ctx;

	if (!s->key)
		return httpd_error(r, 404, "this peer has no key to sign readings with");
	bandwidth_test_post(s->exchanges, q, r, &reading);
	if (r->status == 200 && reading.enough &&
		bandwidth_test_take(s->exchanges, q->arg, &reading) &&
		write_reading(s, q->arg, &reading) < 0)
		return httpd_error(r, 500, "%s", err_get()->text);
	return HTTPD_NOW;
}

const struct httpd_route serve_routes[] = {
	HTTPD_GET("/v1/peer", get_peer),
	HTTPD_GET("/v1/bytes/{n}", get_bytes),
	HTTPD_POST("/v1/bytes", post_bytes, PEER_BYTES_MAX),
	HTTPD_POST("/v1/echo", post_echo, PEER_BYTES_MAX),
	HTTPD_POST("/v1/sum", post_sum, PEER_BYTES_MAX),
	HTTPD_GET("/v1/exchange/{id}", get_exchange),
	HTTPD_POST("/v1/exchange/{id}", post_exchange, (size_t)BANDWIDTH_TEST_BYTES_MAX),
	{ 0 },
};
