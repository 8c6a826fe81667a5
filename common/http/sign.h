/* sign.h - the client's half of signed requests: which headers a request gets.
 *
 * The signature covers method, authority, path and query, and has the parameters created, a
 * random nonce, the address as keyid and the tag "rnp". It does not cover the body: what we
 * send is a signed record, or is compared as a whole. Uses httpsig, clock, libsodium. */
#ifndef RNP_COMMON_HTTP_SIGN_H
#define RNP_COMMON_HTTP_SIGN_H

#include "common/httpsig/httpsig.h"

#define HTTP_SIGN_TAG "rnp"
/* The components that a verifier requires to be covered in every request, along with a nonce. */
#define HTTP_SIGN_COMPONENTS "\"@method\" \"@authority\" \"@path\" \"@query\""

/* Splits an http(s) URL into scheme, authority and target, without the fragment; out owns the
 * texts. Returns 0, or -1 (64): it has no host, or has a user. */
int http_sign_split(struct arena *out, const char *url, struct httpsig_message *m);

/* Writes "Signature-Input: ..." and "Signature: ..." for a request, created now with a new nonce.
 * Returns 0, or -1 with err_set. */
int http_sign(struct buf *input, struct buf *signature, const char *method,
	const char *url, const struct key *key);

#endif
