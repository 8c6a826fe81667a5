/* invoice.h - recomputes an invoice from what at least two parties have signed: the customer's
 * booking with the registry's proposal, the nodes' events, the registry's receipts. Pure. Uses
 * json, signature, money. */
#ifndef RNP_CMD_REGISTER_CUSTOMER_INVOICE_H
#define RNP_CMD_REGISTER_CUSTOMER_INVOICE_H

#include <jansson.h>
#include <stdbool.h>

#include "common/base/buf.h"

/* All are borrowed; each record is one of its schema, or it is a difference. */
struct invoice_parts {
	const char *cluster, *customer; /* that was asked for, and who asks */
	const json_t *invoice, *booking;
	const json_t *receipts; /* an array of rnp.receipt */
	const json_t *events;   /* an array of rnp.event */
};

/* Whether the invoice follows from the rest. If not, writes the first difference, one sentence. */
bool invoice_agrees(const struct invoice_parts *p, struct buf *difference);

#endif
