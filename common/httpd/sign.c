/* sign.c - presents a request of the server as the message that its signature is verified
 * over. */
#include "common/httpd/sign.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/http/sign.h"
#include "common/httpd/proxy.h"

/* Says of a signature over other bytes which path arrived: most often a proxy has changed it. */
static void add_path(const struct httpd_request *q, struct httpsig_result *out)
{
	size_t n = strlen(out->reason);

	snprintf(out->reason + n, sizeof out->reason - n,
		"; the path that arrived here is '%.60s'%s", q->target,
		q->external ? "" : "; a proxy that changes it needs --external-url");
}

enum httpsig_outcome httpd_verify(const struct httpd_request *q, bool with_body,
	const struct httpsig_policy *policy, struct httpsig_result *out)
{
	struct httpsig_result asked;
	char *target = NULL;
	size_t n = (size_t)q->nheaders;
	struct httpsig_field *fields = xcalloc(n + 1, sizeof *fields);
	struct httpsig_message m = { .method = q->method,
		.scheme = q->secure ? "https" : "http",
		.authority = q->authority,
		.target = q->target,
		.fields = fields,
		.nfields = n,
		.body = with_body ? buf_text(&q->body) : NULL,
		.body_bytes = with_body ? q->body.len : 0 };
	enum httpsig_outcome outcome;

	for (size_t i = 0; i < n; i++)
		fields[i] = (struct httpsig_field){ q->headers[i].key,
			q->headers[i].value };
	outcome = httpsig_verify(&m, policy, out);
	if (outcome == HTTPSIG_BAD && out->mismatched && q->external) {
		m.scheme = q->external->scheme;
		m.authority = q->external->authority;
		m.target = target = httpd_external_target(q);
		outcome = httpsig_verify(&m, policy, &asked);
		if (outcome == HTTPSIG_GOOD || !asked.mismatched)
			*out = asked;
	}
	if (outcome == HTTPSIG_BAD && out->mismatched)
		add_path(q, out);
	free(target);
	free(fields);
	return outcome;
}

enum httpd_when httpd_ask_signature(struct httpd_reply *r, const char *text)
{
	httpd_add_header(r, "Accept-Signature",
		"rnp=(" HTTP_SIGN_COMPONENTS ");created;nonce;keyid;tag=\"" HTTP_SIGN_TAG
		"\"");
	return httpd_error(r, 401, "%s", text);
}
