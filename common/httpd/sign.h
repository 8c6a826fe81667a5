/* sign.h - the server's half of signed requests (common/http/sign.h): finds the signer of a
 * request. Uses httpd, httpsig. */
#ifndef RNP_COMMON_HTTPD_SIGN_H
#define RNP_COMMON_HTTPD_SIGN_H

#include "common/httpd/httpd.h"
#include "common/httpsig/httpsig.h"

/* As httpsig_verify, for a request of the server. with_body: q->body is complete, and is
 * compared with a Content-Digest that the signature covers; otherwise that is not checked. The
 * signature is over what the client asked for (RFC 9421, 2.2): the request as it arrived, or below
 * q->external. */
enum httpsig_outcome httpd_verify(const struct httpd_request *q, bool with_body,
	const struct httpsig_policy *policy, struct httpsig_result *out);

/* Fills r with 401 and the header Accept-Signature, which says what has to be signed. text is the
 * sentence, as in httpd_error. Returns HTTPD_NOW. */
enum httpd_when httpd_ask_signature(struct httpd_reply *r, const char *text);

#endif
