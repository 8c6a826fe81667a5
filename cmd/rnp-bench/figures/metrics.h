/* metrics.h - writes what `run` measured as a file for Prometheus' node exporter (its textfile
 * collector). Uses io, canon. */
#ifndef RNP_BENCH_FIGURES_METRICS_H
#define RNP_BENCH_FIGURES_METRICS_H

#include <jansson.h>

#include "common/base/buf.h"

/* Writes them to a file atomically. Returns 0, or -1 with err_set (73, 74, 77). */
int metrics_save(const json_t *records, const char *path);

#endif
