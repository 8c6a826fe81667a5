/* customer.c - requests of a customer. */
#include "cmd/rnp-register/customer/customer.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/sha256.h"
#include "common/json/json.h"
#include "common/record/signature.h"

#define REPLY_BYTES_MAX ((size_t)4 << 20)

static int send_request(struct customer *c, const char *path, struct http_request *q,
	struct http_response *r)
{
	struct buf url = BUF_INIT;
	int rc = http_url(&url, c->registry, path);

	q->url = buf_text(&url);
	q->ca_file = c->ca;
	q->abort = c->abort;
	q->response_bytes_max = REPLY_BYTES_MAX;
	if (rc == 0)
		rc = http_fetch(&c->http, q, r);
	buf_release(&url);
	return rc;
}

static json_t *reply_of(const struct customer *c, const struct http_response *r)
{
	return json_parse_object_to(buf_text(&r->body), r->body.len, JSON_DEPTH_MAX_LIST,
		c->registry);
}

/* What a refusal means to a customer, whose exit codes are those of launch. */
static void name_refusal(int status)
{
	struct err e;

	err_save(&e);
	if (status == 402)
		e.code = EX_NOPERM;
	else if (status == 409)
		e.code = EX_TEMPFAIL;
	err_restore(&e);
}

static void keep_refusal(const struct customer *c, const struct http_response *r,
	json_t **out)
{
	struct err e;

	*out = NULL;
	if (!r->status || !r->body.len)
		return;
	err_save(&e);
	*out = reply_of(c, r);
	err_restore(&e);
}

json_t *customer_post(struct customer *c, const char *path, json_t *record, bool sign,
	json_t **refusal)
{
	struct http_response r = HTTP_RESPONSE_INIT;
	struct buf body = BUF_INIT;
	struct http_request q = { 0 };
	int64_t now_ms = clock_now_ms();
	json_t *reply = NULL;
	int rc = 0;

	if (refusal)
		*refusal = NULL;
	if (sign) {
		json_set_text(record, "signer", c->key->address);
		json_set_time(record, "at", now_ms);
		/* whole seconds: some readers of `created` accept no fraction */
		rc = signature_add(record, c->key, now_ms / 1000 * 1000);
	}
	json_write(&body, record);
	q.body = body.data;
	q.body_bytes = body.len;
	if (rc == 0)
		rc = send_request(c, path, &q, &r);
	if (rc == 0) {
		reply = reply_of(c, &r);
	} else {
		name_refusal(r.status);
		if (refusal)
			keep_refusal(c, &r, refusal);
	}
	buf_release(&body);
	http_response_release(&r);
	return reply;
}

json_t *customer_get(struct customer *c, const char *path, int64_t timeout_ms)
{
	struct http_response r = HTTP_RESPONSE_INIT;
	struct http_request q = { .signer = c->key, .timeout_ms = timeout_ms };
	json_t *reply = NULL;

	if (send_request(c, path, &q, &r) == 0)
		reply = reply_of(c, &r);
	http_response_release(&r);
	return reply;
}

int customer_put(struct customer *c, const void *text, size_t bytes, char name[65])
{
	struct http_response r = HTTP_RESPONSE_INIT;
	struct http_request q = { .method = "PUT",
		.signer = c->key,
		.content_type = "application/octet-stream",
		.body = text,
		.body_bytes = bytes };
	unsigned char hash[SHA256_BYTES];
	char path[96];
	int rc;

	sha256(hash, text, bytes);
	sodium_bin2hex(name, 65, hash, sizeof hash);
	snprintf(path, sizeof path, "/v1/blobs/%s", name);
	rc = send_request(c, path, &q, &r);
	if (rc < 0)
		name_refusal(r.status);
	http_response_release(&r);
	return rc;
}

bool customer_is_cluster(const char *text)
{
	return strlen(text) == 32 && strspn(text, "0123456789abcdef") == 32;
}

void customer_release(struct customer *c)
{
	http_release(&c->http);
}
