/* The routes of rnp-bench serve: bytes down and up, echo, sum. */
#include <stdio.h>
#include <string.h>

#include "cmd/rnp-bench/peer.h"
#include "cmd/rnp-bench/serve.h"
#include "common/err.h"
#include "common/json.h"
#include "common/num.h"

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
	buf_add(&r->body, s->random, (size_t)n);
	return HTTPD_NOW;
}

static enum httpd_when post_bytes(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	(void)ctx;
	buf_addf(&r->body, "{\"bytes\":%zu}\n", q->body.len);
	return HTTPD_NOW;
}

/* The body becomes the reply. */
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

/* Our vector is that of rank 1, see peer.h. */
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

const struct httpd_route serve_routes[] = {
	{ "GET", "/v1/peer", get_peer, 0 },
	{ "GET", "/v1/bytes/{n}", get_bytes, 0 },
	{ "POST", "/v1/bytes", post_bytes, PEER_BYTES_MAX },
	{ "POST", "/v1/echo", post_echo, PEER_BYTES_MAX },
	{ "POST", "/v1/sum", post_sum, PEER_BYTES_MAX },
	{ 0 },
};
