/* query.h - query fields of all paths, and what all replies have in common.
 *
 * Each function that can refuse fills r with 400 and a message, and returns -1. */
#ifndef RNP_CMD_REGISTER_STORAGE_QUERY_H
#define RNP_CMD_REGISTER_STORAGE_QUERY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/httpd/httpd.h"

#define REGISTRY_PAGE_MAX     1000
#define REGISTRY_PAGE_DEFAULT 100

/* Part of a list: up to limit rows after the row of that number. */
struct registry_page {
	int64_t limit, after;
};

struct registry_nodes_query {
	struct registry_page page;
	const char *model; /* canonical if it is known; NULL: any */
	const char *country, *maker, *device;
	int64_t tier;                 /* index into pool_tiers; -1: any */
	int64_t min_memory, min_gpus; /* -1: any */
	bool quotes; /* with each node its newest rnp.quote and verdict */
};

struct registry_records_query {
	struct registry_page page;
	const char *kind, *node, *signer; /* NULL: any */
	bool beats;                       /* kind is rnp.heartbeat */
	int64_t from_ms, to_ms;           /* 0 and INT64_MAX: any */
};

struct registry_uptime_query {
	struct registry_page page;
	const char *node;
	int64_t from_ms, to_ms;
};

/* Parse a query. Texts of the result are borrowed from q. */
int registry_query_nodes(const struct httpd_request *q, struct httpd_reply *r,
	struct registry_nodes_query *out);
int registry_query_records(const struct httpd_request *q, struct httpd_reply *r,
	struct registry_records_query *out);
int registry_query_uptime(const struct httpd_request *q, struct httpd_reply *r,
	struct registry_uptime_query *out);

/* Refuses a query that has other fields than these (names separated by spaces), or one of them
 * twice: a misspelt filter must not list everything. */
int registry_query_known(const struct httpd_request *q, struct httpd_reply *r,
	const char *keys);

/* Parses an address, if the field is present. */
int registry_query_address(const struct httpd_request *q, struct httpd_reply *r,
	const char *key);

/* Fills r with 503 for the pending error of the store, which goes to the server's log. */
enum httpd_when registry_unavailable(struct httpd_reply *r);

/* Adds the entity tag of its body to a finished reply. */
void registry_etag(struct httpd_reply *r);

#endif
