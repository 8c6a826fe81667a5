/* access.h - which requests the server accepts: API keys, host names (against DNS rebinding),
 * origins of pages (CORS). Uses server.h. */
#ifndef RNP_SERVE_SERVER_ACCESS_H
#define RNP_SERVE_SERVER_ACCESS_H

#include "cmd/rnp-serve/request/error.h"
#include "cmd/rnp-serve/server/server.h"

/* Checks the names that --host and --origin gave: no request would ever have those that are
 * malformed. Returns 0, or
 * -1 with err_set(EX_USAGE). */
int access_check_names(const struct server *s);

/* Checks a request against the rules. Returns true, with *key (NULL if no keys are required)
 * and, in r, the headers that a page of another origin needs; or false, with the whole reply in
 * r. open: the request needs no key. */
bool access_allows(struct server *s, const struct httpd_request *q, struct httpd_reply *r,
	bool open, struct api_key **key);

#endif
