/* owner.h - whose a device is: a uuid is public, and anybody can claim it. It belongs to whoever
 * has proven it; where nobody has, to whoever leases it first. */
#ifndef RNP_CMD_REGISTER_MARKET_OWNER_H
#define RNP_CMD_REGISTER_MARKET_OWNER_H

#include "cmd/rnp-register/market/parts.h"

/* A proof counts for that long: CHALLENGED_PAID_MS. */
#define OWNER_MS 691200000

#define OWNER_STRING(x) #x
#define OWNER_NUMBER(x) OWNER_STRING(x)

/* SQL: when another than that node has last proven the uuid, where the node itself has not proven
 * it within OWNER_MS before; else NULL. */
#define OWNER_ELSE(uuid, node)                                                    \
	"(SELECT max(p.at_ms) FROM proven_devices p WHERE p.uuid = " uuid         \
	" AND p.node <> " node " AND NOT EXISTS (SELECT 1 FROM proven_devices o " \
	"WHERE o.uuid = p.uuid AND o.node = " node                                \
	" AND o.at_ms > p.at_ms - " OWNER_NUMBER(OWNER_MS) "))"

/* On the writer's thread, after a commit: node has a new record, or has proven its devices. Whoever
 * claims a device that another has proven is not for sale. */
void owner_look(struct market *m, const char *node);

/* Within a transaction: node has proven its devices. Others that have a lease of one, and have not
 * come to be ready, lose it. Returns 0, or -1 with err_set. */
int owner_take(struct market *m, const char *node, int64_t now_ms);

#endif
