/* texts.h - the routes that turn texts into tokens, tokens into texts, and chats into the text that
 * a model gets. Uses server.h. */
#ifndef RNP_SERVE_SERVER_TEXTS_H
#define RNP_SERVE_SERVER_TEXTS_H

#include "cmd/rnp-serve/server/server.h"

/* Handlers of POST /tokenize, /detokenize and /apply-template; ctx is the server. */
enum httpd_when texts_post_tokenize(void *ctx, struct httpd_request *q,
	struct httpd_reply *r);
enum httpd_when texts_post_detokenize(void *ctx, struct httpd_request *q,
	struct httpd_reply *r);
enum httpd_when texts_post_template(void *ctx, struct httpd_request *q,
	struct httpd_reply *r);

#endif
