/* server.h - what all requests of `rnp-serve run` share, and its routes. */
#ifndef RNP_SERVE_SERVER_H
#define RNP_SERVE_SERVER_H

#include "cmd/rnp-serve/exchange.h"
#include "cmd/rnp-serve/keys.h"

struct server {
	struct served *models;
	uint32_t model_count;
	struct lm_outbox *outbox;
	struct writer *writer;
	int64_t started_s;     /* since 1970 */
	_Atomic bool draining; /* no new requests */
	struct keys keys;      /* path NULL: everybody may ask */
	bool cache_shared;     /* keys share what is in the cache */
	bool loopback;         /* only this machine reaches it */
	const char *const *hosts, *const *origins;
	int host_count, origin_count;
};

extern const struct httpd_route server_routes[];

/* For httpd_config.metrics. */
void server_metrics(void *ctx, struct buf *out);

#endif
