/* sign.c - signed requests of a run over a network. */
#include "cmd/rnp-train/wire/sign.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "cmd/rnp-train/wire/protocol.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/httpsig/content_digest.h"
#include "common/http/sign.h"

#define COMPONENTS      "\"@method\" \"@path\" \"@query\" \"rnp-run\""
#define COMPONENTS_BODY COMPONENTS " \"content-digest\""
#define NONCE_BYTES     16
#define MAX_AGE_S       300

int protocol_sign(struct buf lines[PROTOCOL_LINES], const char *method, const char *url,
	const struct content_digest *body, const char *run, const struct key *key,
	int64_t now_s)
{
	unsigned char random[NONCE_BYTES];
	char nonce[2 * NONCE_BYTES + 1];
	struct buf digest = BUF_INIT, input = BUF_INIT, signature = BUF_INIT;
	struct httpsig_field fields[2] = { { "rnp-run", run }, { NULL, NULL } };
	struct httpsig_message m = { .method = method,
		.fields = fields,
		.nfields = body ? 2 : 1 };
	struct httpsig_params params = { .label = "rnp",
		.components = body ? COMPONENTS_BODY : COMPONENTS,
		.created_s = now_s,
		.nonce = nonce,
		.tag = HTTP_SIGN_TAG };
	struct arena arena = ARENA_INIT;
	char did[KEY_DID_MAX];
	int n = 0, rc;

	randombytes_buf(random, sizeof random);
	sodium_bin2hex(nonce, sizeof nonce, random, sizeof random);
	key_did(key->public_key, did);
	params.keyid = did;
	if (body) {
		content_digest_write(&digest, body);
		fields[1] = (struct httpsig_field){ "content-digest", digest.data };
	}
	rc = http_sign_split(&arena, url, &m);
	if (rc == 0)
		rc = httpsig_sign(&input, &signature, &m, &params, key);
	if (rc == 0) {
		buf_addf(&lines[n++], "rnp-run: %s", run);
		if (body)
			buf_addf(&lines[n++], "Content-Digest: %s", digest.data);
		buf_addf(&lines[n++], "Signature-Input: %s", input.data);
		buf_addf(&lines[n++], "Signature: %s", signature.data);
	}
	buf_release(&digest);
	buf_release(&input);
	buf_release(&signature);
	arena_release(&arena);
	return rc < 0 ? -1 : n;
}

/* --- verification ----------------------------------------------------------------------------- */

enum protocol_who protocol_verify(const struct httpd_request *q, bool with_body,
	const char *run, struct nonces *seen, char address[KEY_ADDRESS_MAX],
	char reason[256])
{
	struct httpsig_policy policy = { .required = with_body ? COMPONENTS_BODY :
								 COMPONENTS,
		.tag = HTTP_SIGN_TAG,
		.now_s = clock_now_ms() / 1000,
		.max_age_s = MAX_AGE_S,
		.skew_s = PROTOCOL_SKEW_MS / 1000,
		.nonce_required = true,
		.nonce_seen = seen ? nonces_seen : NULL,
		.ctx = seen };
	const char *of = httpd_header(q, "rnp-run");
	struct httpsig_result result, again;
	enum httpsig_outcome outcome = httpd_verify(q, with_body, &policy, &result);

	if (outcome == HTTPSIG_GOOD && of && strcmp(of, run) == 0) {
		snprintf(address, KEY_ADDRESS_MAX, "%s", result.address);
		return PROTOCOL_GOOD;
	}
	if (outcome == HTTPSIG_GOOD) {
		snprintf(reason, 256, "rnp-run: is not this run");
		return PROTOCOL_UNSIGNED;
	}
	snprintf(reason, 256, "%s",
		outcome == HTTPSIG_ABSENT ? "the request is not signed" : result.reason);
	/* is it the clock alone? A century either way would do */
	policy.nonce_seen = NULL;
	policy.skew_s = policy.max_age_s = INT64_C(3155760000);
	outcome = httpd_verify(q, with_body, &policy, &again);
	return outcome == HTTPSIG_GOOD && !strstr(reason, "nonce") ? PROTOCOL_CLOCK :
								     PROTOCOL_UNSIGNED;
}
