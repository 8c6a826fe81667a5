/* hetero_read.h - reads clusters of several GPU models, and how fast each runs each type of job.
 * Uses gpu, sched_read, throughputs. */
#ifndef RNP_PRICE_HETERO_READ_H
#define RNP_PRICE_HETERO_READ_H

#include "cmd/rnp-price/hetero.h"
#include "cmd/rnp-price/sched_read.h"

/* Reads "MODEL=NUMBER,MODEL=NUMBER...". Returns 0, or -1 (64). */
int hetero_cluster_parse(struct hetero_cluster *c, const char *text);

/* Reads the speeds of the types of a trace from a file of throughputs (throughputs.h). Types and
 * models that are not of the trace and the cluster are ignored. Returns 0, or -1: 65 where a
 * type is not in the file, or has no throughput on the first model, which durations are of. */
int hetero_read_speeds(struct hetero_cluster *c, const struct sched_trace *t,
	const char *path);

void hetero_cluster_release(struct hetero_cluster *c);

#endif
