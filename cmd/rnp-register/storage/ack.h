/* ack.h - stores an accepted record, and tells who posted it what became of it. */
#ifndef RNP_CMD_REGISTER_STORAGE_ACK_H
#define RNP_CMD_REGISTER_STORAGE_ACK_H

#include "cmd/rnp-register/storage/registry.h"
#include "common/httpd/httpd.h"

/* Stores p (taken), then fills r and finishes q. */
void registry_store(struct registry *g, struct registry_put *p, struct httpd_request *q,
	struct httpd_reply *r);

/* Adds a field to an error that r is filled with, for programs. Takes the value. */
void registry_add_field(struct httpd_reply *r, const char *key, json_t *value);

/* Replies that nothing can be stored at present: 503. */
enum httpd_when registry_unwritable(struct httpd_reply *r);

#endif
