/* place_read.h - reads clusters and pods, as CSV in the form of Alibaba's openb traces. Uses
 * csv, place. */
#ifndef RNP_PRICE_PLACE_READ_H
#define RNP_PRICE_PLACE_READ_H

#include "cmd/rnp-price/place.h"

#define PLACE_TRACE_BYTES_MAX ((size_t)256 << 20)
#define PLACE_ROWS_MAX        1000000

struct place_pods {
	struct place_pod *items;
	size_t n, cap;
};

/* Nodes: columns cpu_milli, memory_mib, gpu (how many, at most 8). Pods: cpu_milli, memory_mib,
 * num_gpu, gpu_milli (of each, 1000 for a whole one; a fraction only of a single GPU). Other
 * columns are ignored. Return 0, or -1 (65 naming line and column, 66, 74). The caller frees
 * the results. */
int place_read_nodes(struct place_cluster *c, const char *path);
int place_read_pods(struct place_pods *p, const char *path);

#endif
