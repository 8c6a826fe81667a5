/* backtest_pods.h - places a trace of pods on nodes whose GPUs they share, as rnp.backtest records. Uses place,
 * place_read, backtest_report, OpenMP. */
#ifndef RNP_PRICE_BACKTEST_PODS_H
#define RNP_PRICE_BACKTEST_PODS_H

#include <jansson.h>
#include <stdint.h>

#include "cmd/rnp-price/backtest_report.h"

struct backtest_pods {
	const char *nodes_path, *pods_path;
	const char *algorithm;        /* or "all" */
	int64_t runs, seed;           /* runs: traces drawn, with seeds of their own */
	int (*write)(json_t *record); /* takes it */
};

/* Places the pods under the algorithms and writes a record for each. Returns 0, or -1. */
int backtest_pods(const struct backtest_pods *b, struct backtest_report *report);

#endif
