/* place.h - on which node and which GPUs a pod goes, of nodes that share GPUs. Pure.
 *
 * place_choose is the decision, for one pod and all nodes; place_trace plays arrivals with it.
 * The policies are those that Weng et al. compare in Beware of Fragmentation (USENIX ATC 2023).
 * Their fragmentation gradient descent (FGD) takes the node whose expected fragmentation grows
 * least: of a node's free GPU parts those count as fragments for a class of pods which it
 * cannot use there, all of them if it cannot run at all; expected over the classes by how often
 * they come. */
#ifndef RNP_PRICE_PLACE_H
#define RNP_PRICE_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PLACE_GPUS_MAX    8
#define PLACE_MILLI       1000 /* parts of a GPU */
#define PLACE_CLASSES_MAX 512

enum place_policy {
	PLACE_RANDOM,
	PLACE_DOT_PRODUCT, /* the least product of what is free and what is wanted */
	PLACE_BEST_FIT,    /* the least left afterwards */
	PLACE_FGD,
	PLACE_POLICIES
};
extern const char *const place_names[PLACE_POLICIES];

struct place_node {
	int64_t cpu_milli, memory_mib; /* free */
	int ngpus;
	int left[PLACE_GPUS_MAX]; /* of each GPU, in thousandths */
};

struct place_pod {
	int64_t cpu_milli, memory_mib;
	int gpus;  /* 0 and up */
	int milli; /* of each: 1000 for whole ones */
	int class; /* index of its class */
};

/* What comes: pods that are alike, by how often. */
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
	struct place_cache *cache; /* of what an assignment costs; see place_open */
};

/* Classes of n pods: the most frequent ones, until they are 99.9% of all; sets each pod's class
 * too (-1: of the rare ones). */
void place_classify(struct place_classes *c, struct place_pod *pods, size_t n);

void place_open(
	struct place_cluster *c); /* from nodes and classes: what follows from them */
void place_close(struct place_cluster *c);

/* Where the pod goes: the node and, for a part of a GPU, which one; luck is a random number for
 * PLACE_RANDOM. Returns false when it fits nowhere. */
struct place_choice {
	size_t node;
	int gpu; /* of a part; else -1: whole free ones, the first */
};
bool place_choose(struct place_cluster *c, enum place_policy policy,
	const struct place_pod *pod, uint64_t luck, struct place_choice *out);
void place_assign(struct place_cluster *c, const struct place_pod *pod,
	const struct place_choice *choice);

/* Expected fragments of one node, in thousandths of a GPU. */
double place_fragments(const struct place_classes *classes, const struct place_node *n);

/* Let pods arrive, in a shuffled order and, when all did, drawn again, until their GPUs are
 * 130% of the cluster's. */
struct place_result {
	double allocated_100,
		allocated_130; /* of the GPUs, when so many percent arrived */
	double fragments_80;   /* of the GPUs, in expectation */
	long pods, failed;
};
void place_trace(const struct place_cluster *empty, enum place_policy policy,
	const struct place_pod *pods, size_t npods, uint64_t seed,
	struct place_result *out);

#endif
