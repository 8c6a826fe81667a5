/* httpd_sign.c - presents a request of the server as the message that its signature is verified
 * over. */
#include "common/net/httpd_sign.h"

#include <stdlib.h>

#include "common/base/mem.h"
#include "common/net/http_sign.h"

enum httpsig_outcome httpd_verify(const struct httpd_request *q, bool with_body,
	const struct httpsig_policy *policy, struct httpsig_result *out)
{
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
