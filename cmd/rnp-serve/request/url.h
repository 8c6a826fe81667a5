/* url.h - a server's URL as people give it to `bench` and `metrics`. Uses buf. Pure. */
#ifndef RNP_SERVE_REQUEST_URL_H
#define RNP_SERVE_REQUEST_URL_H

#include "common/base/buf.h"

/* Appends the URL without the /v1 with which clients of OpenAI's API know a server, and without
 * slashes behind it. */
void server_url_base(struct buf *out, const char *url);

#endif
