/* priced_node.h - the node that a price is for, and what it costs: files that quote, estimate and
 * floor read alike. Uses json, gpu, cost, prog. */
#ifndef RNP_PRICE_PRICED_NODE_H
#define RNP_PRICE_PRICED_NODE_H

#include <jansson.h>
#include <stdint.h>

#include "cmd/rnp-price/cost.h"
#include "common/record/gpu.h"

/* Texts belong to the record. */
struct priced_node {
	json_t *record;
	const char *address; /* NULL: the record has none */
	/* model of all its GPUs, by our table's name if that has it; NULL: no_gpu says why */
	const char *model;
	const struct gpu_model *known; /* its entry in our table; NULL: it has none */
	int64_t gpus;
	int64_t memory_bytes; /* of one GPU; 0: not known */
	const char *no_gpu;   /* why no market lists such a node; else NULL */
};

/* Reads the rnp.node record at path ("-": standard input). A node with GPUs of several models is
 * read without one: a mixture has no rivals. Returns 0, or -1: 65 no such record, or as
 * io_read. */
int priced_node_read(struct priced_node *n, const char *path);
void priced_node_release(struct priced_node *n);

/* Reads costs as cost_load, and warns of an amount so small that dollars were probably meant. */
int priced_node_costs(struct costs *c, const char *path, int64_t from_ms);

#endif
