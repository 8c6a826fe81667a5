/* access.h - who may ask at all: keys, names of the host (DNS rebinding), origins of pages (CORS).
 * Uses server.h. */
#ifndef RNP_SERVE_ACCESS_H
#define RNP_SERVE_ACCESS_H

#include "cmd/rnp-serve/api_error.h"
#include "cmd/rnp-serve/server.h"

/* Whether an address to listen on is reached from this machine alone. */
bool access_is_loopback(const char *listen);

/* Holds a request to the rules. Returns true, with the headers that a page of another origin needs
 * in r and *key (NULL where no keys are asked for), or false and fills r. open: no key is needed. */
bool access_allows(struct server *s, const struct httpd_request *q, struct httpd_reply *r,
	bool open, struct api_key **key);

#endif
