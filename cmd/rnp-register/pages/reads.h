/* reads.h - the handlers that answer readers (nodes.c, pools.c).
 * ctx: the registry. */
#ifndef RNP_CMD_REGISTER_PAGES_READS_H
#define RNP_CMD_REGISTER_PAGES_READS_H

#include "common/httpd/httpd.h"

enum httpd_when registry_get_nodes(void *ctx, struct httpd_request *q,
	struct httpd_reply *r);
enum httpd_when registry_get_node(void *ctx, struct httpd_request *q,
	struct httpd_reply *r);
enum httpd_when registry_get_records(void *ctx, struct httpd_request *q,
	struct httpd_reply *r);
enum httpd_when registry_get_pools(void *ctx, struct httpd_request *q,
	struct httpd_reply *r);

#endif
