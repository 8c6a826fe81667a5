/* sign.h - requests without a record are signed (RFC 9421): which parts of them, and how
 * the other side checks it. Uses http_sign, httpd_sign, httpsig.
 *
 * Covered are method, path, query, the header rnp-run with the name of the run, and Content-Digest
 * where there is a body. The authority is not: a reverse proxy may stand in front. */
#ifndef RNP_TRAIN_WIRE_SIGN_H
#define RNP_TRAIN_WIRE_SIGN_H

#include "common/httpd/nonces.h"
#include "common/httpd/sign.h"
#include "common/record/key.h"

/* Appends the header lines rnp-run, Content-Digest (body: of the body; NULL: there is none),
 * Signature-Input and Signature to lines, each in a buf of its own; lines has 4. now_s: as the
 * server's clock has it. Returns how many, or -1 with err_set(). */
#define PROTOCOL_LINES 4
struct content_digest;
int protocol_sign(struct buf lines[PROTOCOL_LINES], const char *method, const char *url,
	const struct content_digest *body, const char *run, const struct key *key,
	int64_t now_s);

enum protocol_who { PROTOCOL_GOOD, PROTOCOL_CLOCK, PROTOCOL_UNSIGNED };

/* Finds the signer of a request: address receives it. with_body: q->body is complete and is
 * covered by the signature. PROTOCOL_CLOCK: only the client's clock is wrong. reason: one line,
 * if the signature is not good. seen: nonces of such requests; may be NULL. */
enum protocol_who protocol_verify(const struct httpd_request *q, bool with_body,
	const char *run, struct nonces *seen, char address[KEY_ADDRESS_MAX],
	char reason[256]);

#endif
