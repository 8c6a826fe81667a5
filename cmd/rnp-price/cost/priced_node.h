/* priced_node.h - the node that a price is for, and what it costs: files that quote, estimate and
 * floor read alike. Uses json, gpus, cost, prog. */
#ifndef RNP_PRICE_COST_PRICED_NODE_H
#define RNP_PRICE_COST_PRICED_NODE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "cmd/rnp-price/cost/cost.h"
#include "common/base/buf.h"
#include "common/record/gpus.h"

/* Texts belong to the record. */
struct priced_node {
	json_t *record;
	const char *address; /* NULL: the record has none */
	/* model of the GPUs that are priced, by our table's name if that has it; NULL: no_gpu
	 * says why */
	const char *model;
	const struct gpu_model *known; /* its entry in our table; NULL: it has none */
	int64_t gpus;
	bool first;           /* they are the node's most powerful ones */
	int64_t memory_bytes; /* of one GPU; 0: not known */
	const char *no_gpu;   /* why no market lists such a node; else NULL */
	struct buf others;    /* its GPUs that are not priced; may be empty */
};

#define PRICED_NODE_INIT \
	{                \
		NULL     \
	}

/* Reads the rnp.node record at path ("-": standard input). Of GPUs of several models those of
 * gpu_model are priced; NULL: the most powerful ones (gpus.h), since a mixture has no rivals.
 * Returns 0, or -1: 64 the node has none of gpu_model, 65 no such record, or as io_read. */
int priced_node_read(struct priced_node *n, const char *path, const char *gpu_model);
void priced_node_release(struct priced_node *n);

/* Returns a label of the node; NULL: it has none of this name. */
const char *priced_node_label(const struct priced_node *n, const char *name);

#endif
