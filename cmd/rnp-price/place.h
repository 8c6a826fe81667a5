/* place.h - chooses the node and the GPUs for a pod, on nodes whose GPUs are shared. Pure.
 *
 * place_choose makes the decision, for one pod and all nodes; place_trace simulates arrivals
 * with it. The policies are those that Weng et al. compare in Beware of Fragmentation (USENIX
 * ATC 2023). Their fragmentation gradient descent (FGD) chooses the node whose expected
 * fragmentation grows least: those free GPU parts of a node count as fragments for a class of
 * pods which it cannot use there, all of them if it cannot run there at all; the expectation is
 * over the classes by frequency. */
#ifndef RNP_PRICE_PLACE_H
#define RNP_PRICE_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PLACE_GPUS_MAX    8
#define PLACE_MILLI       1000 /* parts of a GPU */
#define PLACE_CLASSES_MAX 512
#define PLACE_PERCENTS    131 /* of the GPUs that a trace asks for, 0 to 130 */

enum place_policy {
	PLACE_RANDOM,
	PLACE_DOT_PRODUCT, /* the smallest product of free and requested resources */
	PLACE_CLUSTERING,  /* pods of one kind together */
	PLACE_PACKING,     /* GPUs in use first, then nodes in use */
	PLACE_BEST_FIT,    /* the smallest remainder */
	PLACE_FGD,
	PLACE_POLICIES
};
extern const char *const place_names[PLACE_POLICIES];

struct place_node {
	int64_t cpu_milli, memory_mib; /* free */
	int ngpus;
	int left[PLACE_GPUS_MAX]; /* free thousandths of each GPU */
	/* of pods that came: bit 0 parts of a GPU, bit k those with k GPUs */
	uint16_t kinds;
};

struct place_pod {
	int64_t cpu_milli, memory_mib;
	int gpus;  /* 0 and up */
	int milli; /* of each GPU: 1000 for whole ones */
	int class; /* index of its class */
};

/* A class of similar pods, with its frequency. */
struct place_classes {
	struct place_pod pods[PLACE_CLASSES_MAX];
	double part[PLACE_CLASSES_MAX];
	int n;
};

struct place_cluster {
	struct place_node *nodes;
	size_t n;
	struct place_classes classes;
	int64_t gpus;              /* all, whole ones */
	double gpu_left;           /* free, in GPUs */
	struct place_cache *cache; /* cached costs of assignments; see place_open */
};

/* Groups n pods into classes: the most frequent ones, until they cover 95% of all; also sets
 * each pod's class (-1: a rare one). */
void place_classify(struct place_classes *c, struct place_pod *pods, size_t n);

void place_open(
	struct place_cluster *c); /* computes what follows from nodes and classes */
void place_close(struct place_cluster *c);

/* Chooses the node for a pod and, for a fraction of a GPU, which one; luck is a random number
 * for PLACE_RANDOM; of equal nodes the first is taken. Returns false if it fits nowhere. */
struct place_choice {
	size_t node;
	int gpu; /* for a fraction; else -1: the first free whole ones */
};
bool place_choose(struct place_cluster *c, enum place_policy policy,
	const struct place_pod *pod, uint64_t luck, struct place_choice *out);
void place_assign(struct place_cluster *c, const struct place_pod *pod,
	const struct place_choice *choice);

/* Returns the expected fragments of one node, in thousandths of a GPU. */
double place_fragments(const struct place_classes *classes, const struct place_node *n);

/* Shuffles the nodes. Lets pods arrive in shuffled order, all of them and as many drawn again, until their GPUs are
 * 130% of the cluster's. */
struct place_result {
	double allocated_100,
		allocated_130; /* fraction of the GPUs, after so many percent arrived */
	double fragments_80;   /* fraction of the GPUs, in expectation */
	double allocated[PLACE_PERCENTS]; /* after each percent has arrived */
	long pods, failed;
};
void place_trace(const struct place_cluster *empty, enum place_policy policy,
	const struct place_pod *pods, size_t npods, uint64_t seed,
	struct place_result *out);

#endif
