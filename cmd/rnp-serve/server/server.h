/* server.h - the state that all requests of `rnp-serve run` share, and its routes. */
#ifndef RNP_SERVE_SERVER_SERVER_H
#define RNP_SERVE_SERVER_SERVER_H

#include "cmd/rnp-serve/answer/completion.h"
#include "cmd/rnp-serve/request/keys.h"
#include "cmd/rnp-serve/model/pool.h"

struct server {
	struct model_pool pool;
	struct lm_events *outbox;
	struct writer *writer;
	int64_t started_s;     /* seconds since 1970 */
	_Atomic bool loading;  /* the models, for the first time: requests are refused */
	_Atomic bool draining; /* new requests are refused */
	struct keys keys;      /* path NULL: no key is required */
	bool cache_shared;     /* clients with different keys share cached prompts */
	bool loopback;         /* only this machine can connect */
	const char *const *hosts, *const *origins;
	int host_count, origin_count;
};

extern const struct httpd_route server_routes[];

/* For httpd_config.metrics. */
void server_metrics(void *ctx, struct buf *out);

#endif
