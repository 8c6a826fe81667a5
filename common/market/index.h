/* index.h - what is for sale at present, and which of it a wish is best served by. Pure: no I/O,
 * no clock. Uses core.h's wishes, nodes and choice, base, mem.
 *
 * Nodes, their prices and leases come and go one at a time; each change takes microseconds. A
 * question reads and changes nothing, so that several threads may ask at a time while none
 * changes: the caller holds a lock. The same nodes, prices and leases give the same answer, in
 * whatever order they came.
 *
 * Places of GPUs are those in the node's rnp.node record, from 0, as a bit for each. A node
 * without GPUs has one unit, bit 0. */
#ifndef RNP_COMMON_MARKET_INDEX_H
#define RNP_COMMON_MARKET_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/market/core.h"

struct match_index;

struct match_index *match_index_new(void);
void match_index_free(struct match_index *ix);

/* Puts a node for sale, or what has changed of it. All texts of n are copied; its state is not
 * looked at: what was leased of the node stays leased. Returns 0, or -1 with err_set(): 65 there
 * are more than MATCH_GPUS_MAX GPUs, places do not number the GPUs, or an amount is negative. */
int match_index_put(struct match_index *ix, const struct match_node *n);

/* Takes a node off the market, its leases with it. Returns false when it is not there. */
bool match_index_remove(struct match_index *ix, const char *id);

/* Sets the price of the whole node for an hour, as its customer pays; a part of it costs its share,
 * rounded up. Returns false when the node is not there. */
bool match_index_price(struct match_index *ix, const char *id, int64_t all_uusd);

/* Takes GPUs, and gives them back. Returns false, and changes nothing, when the node is not there,
 * when one of these is not for sale, or is leased (released) already. */
bool match_index_lease(struct match_index *ix, const char *id, uint64_t gpus);
bool match_index_release(struct match_index *ix, const char *id, uint64_t gpus);

/* Returns a node by its id, or NULL; valid until the next change. Its free GPUs are
 * match_free_places(). */
const struct match_node *match_index_find(const struct match_index *ix, const char *id);
size_t match_index_count(const struct match_index *ix);

/* The places of the node's GPUs that nobody has, a bit for each. */
uint64_t match_free_places(const struct match_node *n);

/* --- questions ----------------------------------------------------------------------------- */

/* What a node may lack, in the order in which it is asked. A node counts under the first. */
enum match_reason {
	MATCH_LACKS_MODEL, /* another GPU, or none, or it has one and none is wanted */
	MATCH_LACKS_GPU_MEMORY,
	MATCH_LACKS_PLACE,
	MATCH_LACKS_COMPLIANCE,
	MATCH_LACKS_FIRMNESS, /* a spot offer, and the wish wants none */
	MATCH_LACKS_HOST_TYPE,
	MATCH_LACKS_TIER,
	MATCH_LACKS_PING,
	MATCH_LACKS_CPU_CORES,
	MATCH_LACKS_MEMORY,
	MATCH_LACKS_DISK,
	MATCH_IS_EXCLUDED,
	MATCH_LACKS_REPUTATION,
	MATCH_LACKS_GPUS, /* it has fewer than one node of the job needs */
	MATCH_IS_DEAR,    /* with the cheapest others it is above the limit */
	MATCH_IS_BUSY,    /* its free GPUs are too few */
	MATCH_REASONS
};
/* Their names in left_out: "model", "gpu_memory", "place" ... */
extern const char *const match_reason_names[MATCH_REASONS];

/* One place where the job can be. Nodes and GPUs in the order of the parts. */
struct match_offer {
	int64_t uusd_per_hour; /* for all */
	size_t nparts;
	const struct match_part *parts; /* node: for match_index_at */
};

/* The wish that, relaxed alone and as little as will do, makes the job possible; of several the one
 * with which most nodes fit. */
struct match_nearest {
	bool any;
	enum match_reason reason; /* MATCH_REASONS: too few nodes have all */
	const char *wish;         /* the field of rnp.job to change: "gpu_memory_bytes" */
	int64_t value; /* to this; -1: leave it out. nodes: with as many GPUs on each */
	const char *text; /* or to this text, which is the index's */
	size_t nodes;     /* that fit then */
};

struct match_answer {
	struct match_offer *offers; /* cheapest first; no two share a node */
	size_t noffers;
	/* the cheapest nodes that may take the place of one of the first offer: of its model, not
	 * in it, at a price with which all stays within the limit */
	const struct match_part *spares;
	size_t nspares;
	size_t left_out[MATCH_REASONS]; /* nodes */
	size_t fit;                     /* nodes that lack nothing */
	struct match_nearest nearest;   /* looked for only where there is no offer */
	struct match_part *parts;       /* what the above point into */
};

/* Answers a wish with at most so many offers and spares. Its texts are those of match_index_text.
 * The cost of an offer is the least that there is: of all ways to take `nodes` different nodes of
 * one model, spread over its places as it says, without those of the offers before it. The answer
 * is released by the caller, and its node numbers hold until the next change. */
void match_index_ask(const struct match_index *ix, const struct match_job *wish,
	size_t offers_max, size_t spares_max, struct match_answer *out);
void match_answer_release(struct match_answer *a);

/* The node of a part. */
const struct match_node *match_index_at(const struct match_index *ix, size_t node);

/* The index's pointer for a model, country or region, or for a node's id; NULL: no node has it.
 * Texts are compared without case, ids with it. See match_index_words (wish.h). */
const char *match_index_text(const struct match_index *ix, const char *text);
const char *match_index_id(const struct match_index *ix, const char *id);

#endif
