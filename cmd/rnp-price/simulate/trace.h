/* trace.h - reads traces of jobs, nodes and pods, as CSV. Uses csv, player, pods, err.
 *
 * Other columns than those that are named are ignored. All return 0, or -1 (65 naming line and
 * column, 66, 74). */
#ifndef RNP_PRICE_SIMULATE_TRACE_H
#define RNP_PRICE_SIMULATE_TRACE_H

#include "cmd/rnp-price/simulate/player.h"
#include "cmd/rnp-price/simulate/pods.h"

#define TRACE_JOBS_MAX  10000000
#define TRACE_TYPES_MAX 1024

struct trace {
	struct player_job *jobs; /* sorted by arrival */
	size_t n, cap;
	char **types; /* of the column job_type, in the order in which they come; owned */
	size_t ntypes, types_cap;
};

/* Reads jobs: columns timestamp ("2017-10-09 07:01:55", UTC), duration (seconds) and num_gpus;
 * job_type, a name for jobs that run equally fast on equal GPUs, may be missing. */
int trace_read(struct trace *t, const char *path);
int trace_parse(struct trace *t, const char *text, size_t len, const char *name);
void trace_release(struct trace *t);

/* Read the form of Alibaba's openb traces. Nodes: columns cpu_milli, memory_mib, gpu (how many,
 * at most 8). Pods: cpu_milli, memory_mib, num_gpu, gpu_milli (of each, 1000 for a whole one; a
 * fraction only of a single GPU). The caller frees the results. */
int trace_read_nodes(struct place_cluster *c, const char *path);
int trace_read_pods(struct pods *p, const char *path);

#endif
