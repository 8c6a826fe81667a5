/* read.h - reads jobs and nodes for sale from records. Uses jansson, gpu, match_core. */
#ifndef RNP_PRICE_MATCH_READ_H
#define RNP_PRICE_MATCH_READ_H

#include "common/market/core.h"
#include "common/base/index.h"
#include "common/base/mem.h"

/* Equal texts, case aside, become one pointer. */
struct match_texts {
	struct arena arena;
	struct match_text {
		const char *text;
		uint32_t node,
			job; /* 1 + the index of those with this id; 0: there is none */
	} * items;
	size_t n, cap;
	struct hash_index index; /* of items, by text */
};

struct match_market {
	struct match_texts texts;
	struct match_node *nodes;
	size_t nnodes, nodes_cap;
	struct match_job *jobs; /* sorted by at_ms */
	size_t njobs, jobs_cap;
	size_t unpriced,
		left_out; /* nodes without a quote or GPUs; offers of no whole GPU */
	struct match_sale *sales; /* beside each node: what its records said, and when */
	size_t sales_cap;
};

/* Reads rnp.job records ("-": standard input). A job without a time is of now_ms. Returns 0, or
 * -1: 65 naming file, line and field, or two jobs of one name; 66; 74. */
int match_read_jobs(struct match_market *m, const char *path, int64_t now_ms);

/* Reads rnp.offer, rnp.node and rnp.quote records. A node is for sale once it has a quote, whose
 * price for its customer is that of the whole node; of several records of a node the newest
 * counts. Offers that cannot be rented, and parts of GPUs, are left out. */
int match_read_nodes(struct match_market *m, char **files, int n);

/* Reads the uptime and reputation of nodes: rnp.reputation records (reputation_ppm). */
int match_read_reputations(struct match_market *m, const char *path);

/* Reads a file of throughputs: {"TYPE": {"MODEL": NUMBER}}, and sets those of the jobs. */
int match_read_throughputs(struct match_market *m, const char *path);

/* Takes in rnp.match records of earlier calls. Those that run have their GPUs, the GPU time of the
 * others counts for their owners. Jobs of m that have begun do not arrive again, one that was
 * stopped waits for what is left of its work; a job that m lacks is added to it. Without a
 * job that waits, now_ms is the time. Returns how many run, or -1: 65 where two matches have the
 * same GPU, or a stop has no match. A node that is not there is left out with a warning. */
int match_read_running(struct match_market *m, const char *path, int64_t now_ms,
	struct match *to);

void match_market_release(struct match_market *m);

#endif
