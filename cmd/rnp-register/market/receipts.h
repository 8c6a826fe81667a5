/* receipts.h - the registry signs what the nodes of clusters earned: every hour, at 00:00 UTC
 * and at the end of each node an rnp.receipt, which is public as all records are; and an
 * rnp.invoice for the customer. */
#ifndef RNP_CMD_REGISTER_MARKET_RECEIPTS_H
#define RNP_CMD_REGISTER_MARKET_RECEIPTS_H

#include "cmd/rnp-register/storage/registry.h"
#include "common/httpd/httpd.h"

extern const struct store_module receipts_tables;

/* About once a second: receipts that are due. */
void receipts_tick(struct registry *g);

/* GET /v1/invoices/{cluster} -> {"invoice", "booking", "receipts"}: with what it can be checked. */
enum httpd_when receipts_get_invoice(void *g, struct httpd_request *q,
	struct httpd_reply *r);

#endif
