/* error.h - errors in the format of OpenAI's API. Uses request.h, common/httpd/httpd.h. */
#ifndef RNP_SERVE_REQUEST_ERROR_H
#define RNP_SERVE_REQUEST_ERROR_H

#include "cmd/rnp-serve/request/request.h"
#include "common/httpd/httpd.h"

/* Appends {"error":{"message","type","param","code"}} with the pending error's message. */
void api_error_body(struct buf *out, const struct api_error *e);

/* Fills r with the error. Returns HTTPD_NOW. */
enum httpd_when api_error_reply(struct httpd_reply *r, const struct api_error *e);

/* For httpd_config.error: gives the HTTP server's own errors the same format. */
void api_error_render(struct httpd_reply *r, const char *text);

#endif
