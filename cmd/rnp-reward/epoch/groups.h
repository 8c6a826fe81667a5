/* groups.h - the groups of equal GPUs of a node, each as a usage of its own. Pure. Uses usage_rows,
 * rules.
 *
 * What a policy pays for a node as a whole, as its uptime, the first group that meets its
 * requirements gets. A further one is paid what its GPUs and their work add: its pay less what it
 * would be without them. */
#ifndef RNP_CMD_REWARD_EPOCH_GROUPS_H
#define RNP_CMD_REWARD_EPOCH_GROUPS_H

#include "cmd/rnp-reward/epoch/usage_rows.h"

struct groups {
	const struct usage *node; /* with the first group; borrowed */
	const struct usage_group *more;
	size_t n, next; /* of all groups */
	struct usage one;
};

/* Prepares to go through the groups of row i, which `node` is. */
void groups_init(struct groups *g, const struct usage_rows *rows, size_t i,
	const struct usage *node);

/* Returns the next group as a usage, which holds until the next call; NULL at the end. */
const struct usage *groups_next(struct groups *g);

/* Makes of a group the same node without these GPUs and their work. */
void groups_idle(const struct usage *group, struct usage *idle);

#endif
