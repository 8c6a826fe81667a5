/* registry.h - a coordinator and a registry (--registry). */
#ifndef RNP_TRAIN_COORDINATOR_REGISTRY_H
#define RNP_TRAIN_COORDINATOR_REGISTRY_H

#include "cmd/rnp-train/coordinator/coordinator.h"

/* Whether a node may join as far as the registry goes. Returns 1: it is registered there and what
 * it is there meets --policy, or there is no --registry; 0: not, with why appended; -1 with
 * err_set(): the registry cannot be asked. */
int coordinate_admits(struct coordinator *g, const char *node, struct buf *why);

/* Posts receipts that the registry has not; after a failure not at once again, unless now. Of one
 * thread. */
void coordinate_post_receipts(struct coordinator *g, bool now);

#endif
