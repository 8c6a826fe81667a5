/* logs.h - the registry keeps what ranks print, so that it outlives their nodes, and passes it on
 * while they run.
 *
 * An answer is a row of frames: "RANK OFFSET BYTES\n" and so many bytes. Where OFFSET is beyond the
 * end of the frame before, the bytes between were dropped. "RANK OFFSET 0\n" means nothing but that
 * the answer goes on; "end\n" that nothing more will come. */
#ifndef RNP_CMD_REGISTER_MARKET_LOGS_H
#define RNP_CMD_REGISTER_MARKET_LOGS_H

#include "cmd/rnp-register/storage/registry.h"
#include "common/httpd/httpd.h"

#define LOGS_BODY_MAX ((size_t)64 << 10)

int logs_open(struct registry *g);   /* 0 or -1; after registry_db_open */
void logs_close(struct registry *g); /* after registry_db_stop */
void logs_tick(struct registry *g);  /* about once a second */

/* POST /v1/logs/{cluster}/{rank}?offset= -> {"have": bytes}: how many of the node's are here. */
enum httpd_when logs_post(void *g, struct httpd_request *q, struct httpd_reply *r);

/* GET /v1/logs/{cluster}/{rank}?from=&follow=1, and GET
 * /v1/logs/{cluster}?at=RANK:FROM,...&follow=1 of all ranks. */
enum httpd_when logs_get(void *g, struct httpd_request *q, struct httpd_reply *r);
enum httpd_when logs_get_all(void *g, struct httpd_request *q, struct httpd_reply *r);
void logs_done(void *g, struct httpd_request *q);

#endif
