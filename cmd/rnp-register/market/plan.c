/* plan.c - POST /v1/plans: offers for a job. Nothing is stored, and nothing reserved: what was
 * offered is known again by the registry's own signature. */
#include "cmd/rnp-register/market/plan.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-register/market/supply.h"
#include "cmd/rnp-register/storage/ack.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/json/canon.h"
#include "common/json/json.h"
#include "common/json/schema.h"
#include "common/record/signature.h"

/* The hash of a job, as a signature of it would have it. */
static int set_hash(json_t *proposal, const json_t *job)
{
	unsigned char hash[CANON_HASH_BYTES];
	char hex[2 * CANON_HASH_BYTES + 1];

	if (canon_hash_record(hash, job) < 0)
		return -1;
	sodium_bin2hex(hex, sizeof hex, hash, sizeof hash);
	json_set_text(proposal, "job", hex);
	return 0;
}

int plan_write(struct registry *g, const json_t *job, struct buf *out)
{
	json_t *proposal = json_record("rnp.proposal"),
	       *request = json_copy((json_t *)job);
	const char *image = json_string_value(json_object_get(job, "image"));
	int64_t now_ms = clock_now_ms();

	json_object_del(request, "proof");
	json_set_time(proposal, "at", now_ms);
	json_set_time(proposal, "valid_until", now_ms + PLAN_VALID_MS);
	json_set_text(proposal, "image", image ? image : g->config.default_image);
	if (set_hash(proposal, request) < 0 ||
		supply_propose(g->market->supply, request, now_ms, proposal) < 0) {
		json_decref(request);
		json_decref(proposal);
		return -1;
	}
	json_set(proposal, "request", request);
	market_sign(g, out, proposal);
	return 0;
}

void plan_again(struct registry *g, struct httpd_reply *r, const json_t *proposal)
{
	const json_t *job = json_object_get(proposal, "request");
	struct buf text = BUF_INIT;
	json_t *fresh = NULL;

	if (job && schema_check(job, "request", "rnp.job") == 0 &&
		plan_write(g, job, &text) == 0)
		fresh = json_parse_object(text.data, text.len, "proposal");
	if (fresh)
		registry_add_field(r, "proposal", fresh);
	else
		err_clear();
	buf_release(&text);
}

/* Whoever signs with a key that has an account may ask as often as he likes. Returns false with r
 * filled. */
static bool may_ask(struct registry *g, const struct httpd_request *q,
	struct httpd_reply *r, const json_t *job)
{
	char who[LIMITS_CLIENT_MAX];
	struct signature_result proof;

	if (json_object_get(job, "proof")) {
		signature_verify(job, &proof);
		if (!proof.valid) {
			market_refuse(g, r, 422, "signature",
				"send it unsigned, or sign it anew", "proof: %s",
				proof.reason);
			return false;
		}
	}
	limits_client(who, q->client ? q->client : "");
	if (!q->client || !limits_hold_for(g->limits, q->client) ||
		limits_take(g->limits, LIMIT_PLANS, who, 1, clock_now_ms()))
		return true;
	r->retry_after_s = 1;
	market_refuse(g, r, 429, "rate", "wait a second",
		"this address asks for more than one plan a second");
	return false;
}

enum httpd_when market_post_plan(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct registry *g = ctx;
	json_t *job;

	if (!market_is_here(g, r))
		return HTTPD_NOW;
	job = json_parse_object_to(buf_text(&q->body), q->body.len,
		JSON_DEPTH_MAX_LISTED - 2, "body");
	if (!job || schema_check(job, "body", "rnp.job") < 0) {
		market_refuse(g, r, 400, "form", "see rnp.job in rnp-json(5)", "%s",
			err_get()->text);
		err_clear();
	} else if (may_ask(g, q, r, job)) {
		if (plan_write(g, job, &r->body) < 0) {
			buf_reset(&r->body);
			market_refuse(g, r, 422, "job", "see rnp.job in rnp-json(5)",
				"%s", err_get()->text);
			err_clear();
		} else {
			buf_addc(&r->body, '\n');
			g->market->plans++;
		}
	}
	json_decref(job);
	return HTTPD_NOW;
}
