/* told.h - what a transaction has changed, for those who are told after its commit. The writer's
 * thread alone uses it. */
#ifndef RNP_CMD_REGISTER_MARKET_TOLD_H
#define RNP_CMD_REGISTER_MARKET_TOLD_H

#include "cmd/rnp-register/market/parts.h"

struct told;

struct told *told_new(void);
void told_free(struct told *t);

/* There is news of a cluster (its name) or for a node or customer (his address). */
void told_news(struct market *m, const char *subject);

/* Devices were leased, or are free again; gpus: a JSON array. */
void told_lease(struct market *m, const char *node, const char *gpus, bool leased);

/* Who may do what on gateways has changed; leases say so themselves. */
void told_access(struct market *m);

/* What was told so far, and back to it: a part of the transaction is undone. */
struct told_mark {
	size_t n, nleases;
};
struct told_mark told_now(const struct market *m);
void told_back(struct market *m, struct told_mark to);

#endif
