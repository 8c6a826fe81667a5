/* accept.h - decides what a registry accepts: the record must be of the kind, signed by the
 * right party, and timely. */
#ifndef RNP_CMD_REGISTER_REGISTRY_ACCEPT_H
#define RNP_CMD_REGISTER_REGISTRY_ACCEPT_H

#include "cmd/rnp-register/storage/registry.h"
#include "common/httpd/httpd.h"

/* Checks a posted body: syntax, schema, signature, party, time. Returns what to store, which
 * borrows the body's text, or NULL with the reply filled. kind: "rnp.node", "rnp.heartbeat", or
 * NULL for the other kinds. */
struct registry_put *registry_accept(struct registry *g, struct httpd_request *q,
	struct httpd_reply *r, const char *kind);

#endif
