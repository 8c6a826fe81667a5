/* place_read.h - clusters and pods, as CSV in the form of Alibaba's openb traces. Uses csv,
 * place. */
#ifndef RNP_PRICE_PLACE_READ_H
#define RNP_PRICE_PLACE_READ_H

#include "cmd/rnp-price/place.h"

#define PLACE_TRACE_BYTES_MAX ((size_t)256 << 20)
#define PLACE_ROWS_MAX        1000000

struct place_pods {
	struct place_pod *items;
	size_t n, cap;
};

/* Nodes: columns cpu_milli, memory_mib, gpu (how many, 8 at most). Pods: cpu_milli, memory_mib,
 * num_gpu, gpu_milli (of each, 1000 for a whole one; a part only of a single GPU). Other
 * columns aside. Return 0, or -1 (65 naming line and column, 66, 74). What was read is the
 * caller's to free. */
int place_read_nodes(struct place_cluster *c, const char *path);
int place_read_pods(struct place_pods *p, const char *path);

#endif
