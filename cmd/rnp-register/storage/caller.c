/* caller.c - finds the signer of a private read. */
#include "cmd/rnp-register/storage/caller.h"

#include <stdio.h>

#include "common/base/clock.h"
#include "common/http/sign.h"
#include "common/httpd/nonces.h"
#include "common/httpd/sign.h"
#include "common/record/uptime.h"

#define AGE_MAX_S 60

/* Keys of which nothing is known have a small space in common: anybody can make them. */
static bool nonce_seen(void *ctx, const char *address, const char *nonce, int64_t until_s)
{
	struct registry *g = ctx;

	return (g->knows && g->knows(g, address) ?
			nonces_seen :
			nonces_seen_of_stranger)(g->nonces, address, nonce, until_s);
}

bool registry_caller(struct registry *g, const struct httpd_request *q,
	struct httpd_reply *r, char address[KEY_ADDRESS_MAX])
{
	const struct httpsig_policy policy = { .required = HTTP_SIGN_COMPONENTS,
		.tag = HTTP_SIGN_TAG,
		.now_s = clock_now_ms() / 1000,
		.max_age_s = AGE_MAX_S,
		.skew_s = UPTIME_SKEW_MS / 1000,
		.nonce_required = true,
		.nonce_seen = nonce_seen,
		.ctx = g };
	struct httpsig_result result;
	enum httpsig_outcome outcome = httpd_verify(q, false, &policy, &result);
	char text[400], now[CLOCK_TEXT_MAX];

	if (outcome == HTTPSIG_GOOD) {
		snprintf(address, KEY_ADDRESS_MAX, "%s", result.address);
		return true;
	}
	/* most often a clock is wrong: which time is right here tells */
	clock_format(now, clock_now_ms());
	if (outcome == HTTPSIG_ABSENT)
		snprintf(text, sizeof text,
			"only the owner may ask this, by requests that his key signed (RFC 9421): this one is not signed");
	else
		snprintf(text, sizeof text,
			"only the owner may ask this, by requests that his key signed (RFC 9421): %.200s; our clock shows %s",
			result.reason, now);
	httpd_ask_signature(r, text);
	return false;
}
