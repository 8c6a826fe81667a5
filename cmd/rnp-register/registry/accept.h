/* registry_accept.h - decides what a registry accepts: the record must be of the kind, signed
 * by the right party, and timely; and what it replies. */
#ifndef RNP_CMD_REGISTER_REGISTRY_ACCEPT_H
#define RNP_CMD_REGISTER_REGISTRY_ACCEPT_H

#include "cmd/rnp-register/registry.h"
#include "common/net/httpd.h"

/* Checks a posted body: syntax, schema, signature, party, time. Returns what to store, which
 * borrows the body's text, or NULL with the reply filled. kind: "rnp.node", "rnp.heartbeat", or
 * NULL for the other kinds. */
struct registry_put *registry_accept(struct registry *g, struct httpd_request *q,
	struct httpd_reply *r, const char *kind);

/* Stores p (taken), then fills r and finishes q. */
void registry_store(struct registry *g, struct registry_put *p, struct httpd_request *q,
	struct httpd_reply *r);

#endif
