/* market.h - the market of a registry: customers book nodes, and pay for the time that they were
 * ready.
 *
 * tables.h has the rows, states.h and money.h the rules, change.h what happens within a
 * transaction, watch.h whoever waits for news, supply.h what is for sale. The files plan, booking,
 * event, action, work, account, listing and cluster have the routes. */
#ifndef RNP_CMD_REGISTER_MARKET_MARKET_H
#define RNP_CMD_REGISTER_MARKET_MARKET_H

#include "cmd/rnp-register/storage/registry.h"
#include "common/base/buf.h"
#include "common/httpd/httpd.h"

/* Prepares the market between registry_db_open and registry_db_start, if the configuration wants
 * one. Returns 0 or -1. */
int market_open(struct registry *g);

/* Begins to serve: after registry_db_start. Returns 0 or -1. */
int market_start(struct registry *g);

/* market_stop: before registry_db_stop; market_close: after. */
void market_stop(struct registry *g);
void market_close(struct registry *g);

/* About once a second: deadlines of states, ends of clusters, nodes that fell silent. */
void market_tick(struct registry *g);

/* The same at once, for tests with a clock of their own. */
void market_sweep(struct registry *g);

/* A record was stored: the hook of the storage. */
void market_stored(struct registry *g, const struct registry_put *p);

/* Whether this node is not to be challenged: a device of it is leased, and proven. */
bool market_spares(struct registry *g, const char *node);

/* Whether that is an image with its digest, "NAME@sha256:...". */
bool market_image(const char *image);

void market_metrics(struct registry *g, struct buf *out);

/* The routes. All answer 404 where the registry has no market. */
enum httpd_when market_post_plan(void *g, struct httpd_request *q, struct httpd_reply *r);
enum httpd_when market_post_booking(void *g, struct httpd_request *q,
	struct httpd_reply *r);
enum httpd_when market_post_listing(void *g, struct httpd_request *q,
	struct httpd_reply *r);
enum httpd_when market_post_deposit(void *g, struct httpd_request *q,
	struct httpd_reply *r);
enum httpd_when market_post_event(void *g, struct httpd_request *q,
	struct httpd_reply *r);
enum httpd_when market_post_action(void *g, struct httpd_request *q,
	struct httpd_reply *r);
enum httpd_when market_get_clusters(void *g, struct httpd_request *q,
	struct httpd_reply *r);
enum httpd_when market_get_cluster(void *g, struct httpd_request *q,
	struct httpd_reply *r);
enum httpd_when market_get_events(void *g, struct httpd_request *q,
	struct httpd_reply *r);
enum httpd_when market_get_work(void *g, struct httpd_request *q, struct httpd_reply *r);
enum httpd_when market_get_account(void *g, struct httpd_request *q,
	struct httpd_reply *r);
enum httpd_when market_post_gateway(void *g, struct httpd_request *q,
	struct httpd_reply *r);
enum httpd_when market_get_gateways(void *g, struct httpd_request *q,
	struct httpd_reply *r);
enum httpd_when market_get_access(void *g, struct httpd_request *q,
	struct httpd_reply *r);
enum httpd_when market_get_leases(void *g, struct httpd_request *q,
	struct httpd_reply *r);

/* route.disconnected of all that wait for news. */
void market_disconnected(void *g, struct httpd_request *q);

#endif
