/* reach.h - how the nodes of a cluster are reached: their places on the gateways and among the
 * ranks, which follow from their numbers, and the keys of their SSH servers, which their
 * listings have. */
#ifndef RNP_CMD_REGISTER_MARKET_REACH_H
#define RNP_CMD_REGISTER_MARKET_REACH_H

#include "cmd/rnp-register/market/parts.h"

/* Sets `ssh` and `address` of a rank, as everybody computes them. cluster: its name. */
void reach_set_places(json_t *to, const char *cluster, const struct member_row *w);

/* Sets `listing` to what a node has signed last, if it has. Returns 0 or -1. */
int reach_set_listing(struct rows *rows, json_t *to, const char *node);

/* GET /v1/listings */
enum httpd_when reach_get_listings(void *g, struct httpd_request *q,
	struct httpd_reply *r);

#endif
