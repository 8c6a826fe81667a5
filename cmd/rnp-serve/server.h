/* server.h - what all requests of `rnp-serve run` share, and its routes. */
#ifndef RNP_SERVE_SERVER_H
#define RNP_SERVE_SERVER_H

#include "cmd/rnp-serve/exchange.h"

struct server {
	struct served *models;
	uint32_t model_count;
	struct lm_outbox *outbox;
	struct writer *writer;
	int64_t started_s;     /* since 1970 */
	_Atomic bool draining; /* no new requests */
};

extern const struct httpd_route server_routes[];

/* For httpd_config.metrics. */
void server_metrics(void *ctx, struct buf *out);

#endif
