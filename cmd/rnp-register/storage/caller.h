/* caller.h - who asks: private reads are requests that a key signed (common/http/sign.h). */
#ifndef RNP_CMD_REGISTER_STORAGE_CALLER_H
#define RNP_CMD_REGISTER_STORAGE_CALLER_H

#include <stdbool.h>

#include "cmd/rnp-register/storage/registry.h"
#include "common/httpd/httpd.h"

/* Finds the key that signed the request; each nonce counts once. May be called from a route's
 * begin: the body is not looked at. Returns false with r filled: 401, which says what has to be
 * signed. */
bool registry_caller(struct registry *g, const struct httpd_request *q,
	struct httpd_reply *r, char address[KEY_ADDRESS_MAX]);

#endif
