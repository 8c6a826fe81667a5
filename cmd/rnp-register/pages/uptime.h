/* uptime.h - the registry signs, day by day, when each node was up; and deletes old
 * records. */
#ifndef RNP_CMD_REGISTER_PAGES_UPTIME_H
#define RNP_CMD_REGISTER_PAGES_UPTIME_H

#include "cmd/rnp-register/storage/registry.h"
#include "common/httpd/httpd.h"

/* Call it about once a second: writes an rnp.uptime for some nodes of a day that is over, and
 * deletes some records older than config.keep_ms, in the writer's thread. Without config.key
 * nothing is signed. */
void registry_uptime_tick(struct registry *g);

/* The handler of GET /v1/uptime. */
enum httpd_when registry_get_uptime(void *ctx, struct httpd_request *q,
	struct httpd_reply *r);

#endif
