/* page.h - the registry for people: / lists its nodes, /nodes/{address} shows one. */
#ifndef RNP_CMD_REGISTER_PAGES_PAGE_H
#define RNP_CMD_REGISTER_PAGES_PAGE_H

#include "common/httpd/httpd.h"

/* The handlers of GET / and GET /nodes/{address}. They show the API's reply to the same
 * request: / takes the filters of /v1/nodes. ctx: the registry. */
enum httpd_when registry_get_page(void *ctx, struct httpd_request *q,
	struct httpd_reply *r);
enum httpd_when registry_get_node_page(void *ctx, struct httpd_request *q,
	struct httpd_reply *r);

#endif
