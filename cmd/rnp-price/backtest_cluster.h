/* backtest_cluster.h - traces of jobs on clusters of several GPU models, as rnp.backtest records.
 * Uses hetero_read, backtest_report. */
#ifndef RNP_PRICE_BACKTEST_CLUSTER_H
#define RNP_PRICE_BACKTEST_CLUSTER_H

#include <jansson.h>

#include "cmd/rnp-price/backtest_report.h"
#include "cmd/rnp-price/sched.h"

struct backtest_cluster {
	const char *jobs_path, *throughputs_path;
	const char *cluster;   /* as MODEL=NUMBER,... */
	const char *window;    /* "A:B": of the jobs, in order of arrival; NULL: all */
	const char *algorithm; /* or "all" */
	int64_t seed;
	int (*write)(json_t *record); /* takes it */
};

/* Plays the trace under the algorithms and writes a record for each. Returns 0, or -1. */
int backtest_cluster(const struct backtest_cluster *b, struct backtest_report *report);

/* What became of a trace of jobs, as a record; given. */
json_t *backtest_jobs_record(const char *algorithm, int64_t gpus,
	const struct sched_result *res);

/* Adds the bars of n algorithms' mean and worst completion. */
void backtest_jobs_bars(struct backtest_report *report, const char *const *names,
	const struct sched_result *results, size_t n);

#endif
