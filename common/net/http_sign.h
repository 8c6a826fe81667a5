/* http_sign.h - the client's half of signed requests: which headers a request gets.
 *
 * Covered are method, authority, path and query; with created, a random nonce, the address as
 * keyid and the tag "rnp". A body is not covered: what we send is a signed record, or compared
 * whole. Uses httpsig, clock, libsodium. */
#ifndef RNP_COMMON_NET_HTTP_SIGN_H
#define RNP_COMMON_NET_HTTP_SIGN_H

#include "common/net/httpsig.h"

#define HTTP_SIGN_TAG "rnp"
/* What a verifier requires of every request, with a nonce. */
#define HTTP_SIGN_COMPONENTS "\"@method\" \"@authority\" \"@path\" \"@query\""

/* Gives scheme, authority and target of an http(s) URL, a fragment left out; the texts are in out.
 * Returns 0, or -1 (64): it has no host, or a user. */
int http_sign_split(struct arena *out, const char *url, struct httpsig_message *m);

/* Writes "Signature-Input: ..." and "Signature: ..." for a request, created now with a new nonce.
 * Returns 0, or -1 with err_set. */
int http_sign(struct buf *input, struct buf *signature, const char *method,
	const char *url, const struct key *key);

#endif
