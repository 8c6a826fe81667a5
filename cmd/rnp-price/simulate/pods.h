/* pods.h - plays traces of pods that share the GPUs of nodes. Pure.
 *
 * The policies that choose a node are those that Weng et al. compare: common/market/place.h. */
#ifndef RNP_PRICE_SIMULATE_PODS_H
#define RNP_PRICE_SIMULATE_PODS_H

#include <stddef.h>
#include <stdint.h>

#include "common/market/place.h"

#define PODS_PERCENTS 131 /* of the GPUs that a trace asks for, 0 to 130 */

struct pods {
	struct place_pod *items;
	size_t n, cap;
};

struct place_cluster {
	struct place_node *nodes;
	size_t n;
	struct place_classes classes;
	int64_t gpus;              /* all, whole ones */
	double gpu_left;           /* free, in GPUs */
	struct place_cache *cache; /* cached costs of assignments; while it is played */
};

/* A policy gives each node a whole number from 0 to 100, and the first node with the highest is
 * taken. *gpu is the fullest GPU that a fraction fits on; a policy may change it. NULL: a node at
 * random. */
struct place_policy {
	const char *name;
	int (*score)(struct place_cluster *c, const struct place_node *n,
		const struct place_pod *p, int *gpu);
};

#define PLACE_POLICIES 6
extern const struct place_policy place_policies[PLACE_POLICIES];

/* Shuffles the nodes. Lets pods arrive in shuffled order, all of them and as many drawn again,
 * until their GPUs are 130% of the cluster's. */
struct pods_result {
	double allocated_100,
		allocated_130; /* fraction of the GPUs, after so many percent arrived */
	double fragments_80;   /* fraction of the GPUs, in expectation */
	double allocated[PODS_PERCENTS]; /* after each percent has arrived */
	long pods, failed;
};
void pods_play(const struct place_cluster *empty, const struct place_policy *policy,
	const struct pods *pods, uint64_t seed, struct pods_result *out);

#endif
