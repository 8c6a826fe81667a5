/* registry_reads.h - the handlers that answer readers (registry_nodes.c, registry_pools.c).
 * ctx: the registry. */
#ifndef RNP_CMD_REGISTER_REGISTRY_READS_H
#define RNP_CMD_REGISTER_REGISTRY_READS_H

#include "common/net/httpd.h"

enum httpd_when registry_get_nodes(void *ctx, struct httpd_request *q,
	struct httpd_reply *r);
enum httpd_when registry_get_node(void *ctx, struct httpd_request *q,
	struct httpd_reply *r);
enum httpd_when registry_get_records(void *ctx, struct httpd_request *q,
	struct httpd_reply *r);
enum httpd_when registry_get_pools(void *ctx, struct httpd_request *q,
	struct httpd_reply *r);

#endif
