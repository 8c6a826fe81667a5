/* place.h - pods on nodes whose GPUs are shared, and the fragments that they leave. Pure.
 *
 * Weng et al., Beware of Fragmentation (USENIX ATC 2023): those free GPU parts of a node count as
 * fragments for a class of pods which it cannot use there, all of them if it cannot run there at
 * all; the expectation is over the classes by frequency. Their fragmentation gradient descent
 * (fgd) chooses the node whose expected fragmentation grows least. */
#ifndef RNP_COMMON_MARKET_PLACE_H
#define RNP_COMMON_MARKET_PLACE_H

#include <stddef.h>
#include <stdint.h>

#define PLACE_GPUS_MAX    8
#define PLACE_MILLI       1000 /* parts of a GPU */
#define PLACE_CLASSES_MAX 512

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

/* Groups n pods into classes: the most frequent ones, until they cover 95% of all; also sets
 * each pod's class (-1: a rare one). */
void place_classify(struct place_classes *c, struct place_pod *pods, size_t n);

/* Returns the expected fragments of one node, in thousandths of a GPU. */
double place_fragments(const struct place_classes *classes, const struct place_node *n);

#endif
