/* cluster.h - rnp.cluster: a cluster as its customer sees it. */
#ifndef RNP_CMD_REGISTER_MARKET_CLUSTER_H
#define RNP_CMD_REGISTER_MARKET_CLUSTER_H

#include "cmd/rnp-register/market/parts.h"

/* Appends a cluster as an rnp.cluster that the registry signs, and a newline. Returns 0 or -1. */
int cluster_write(struct registry *g, struct rows *r, const struct cluster_row *c,
	struct buf *out);

/* The booking as its customer signed it: a new reference, or NULL with err_set. */
json_t *cluster_booking(struct rows *r, int64_t cluster);

/* Finds a cluster that belongs to the caller. Returns 1; or 0 or -1 with reply filled: 404, also
 * where it is somebody else's, or 503. */
int cluster_of_caller(struct registry *g, struct rows *r, struct httpd_reply *reply,
	const char *name, const char *caller, struct cluster_row *out);

/* Reads ?after= and ?wait=, and the caller. Returns a new waiter that waits so long, or NULL with
 * r filled. known: all query fields that there may be, separated by spaces. */
struct waiter *cluster_waiter(struct registry *g, struct httpd_request *q,
	struct httpd_reply *r, const char *known);

#endif
