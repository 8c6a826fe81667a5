/* member.h - what is asked of clusters and their nodes beside the market's own routes. */
#ifndef RNP_CMD_REGISTER_MARKET_MEMBER_H
#define RNP_CMD_REGISTER_MARKET_MEMBER_H

#include <stdbool.h>

#include "cmd/rnp-register/storage/registry.h"
#include "common/httpd/httpd.h"

/* Finds the customer of a cluster for somebody who is himself the customer, or a node that has a
 * lease in it. Returns false with r filled: 404, which does not tell whether there is such a
 * cluster. */
bool member_customer(struct registry *g, struct httpd_reply *r, const char *cluster,
	const char *who, char customer[KEY_ADDRESS_MAX]);

/* Returns the turn of a node that has the lease of a rank, or -1 with r filled, likewise. */
int member_turn(struct registry *g, struct httpd_reply *r, const char *cluster, int rank,
	const char *node);

/* Whether a key is a customer's, a node's, a gateway's, or trusted by the operator: not everybody
 * has as many of those as he likes. */
bool member_is_known(struct registry *g, const char *address);

/* Whether a node of the cluster has a lease. */
bool member_cluster_live(struct registry *g, const char *cluster);

#endif
