/* metrics_client.h - the subcommand `metrics` of every program that has a server: what the server
 * counts, for people and scripts without Prometheus. Uses http, metrics_text, opt, out. */
#ifndef RNP_COMMON_REGISTRY_METRICS_CLIENT_H
#define RNP_COMMON_REGISTRY_METRICS_CLIENT_H

#include "common/cli/opt.h"

#define METRICS_COLUMNS "name,labels,value,count,p50,p99"

/* Fetches URL/metrics and writes each record to standard output. name: only metrics whose name
 * contains it, or NULL; ca: certificates to trust, or NULL. Histograms in which nothing was counted
 * are left out. Returns 0, or -1 with err_set: as http_fetch; 65 if the reply is of another form; 1
 * if no metric has such a name. */
int metrics_print(const char *url, const char *ca, const char *name);

/* The row `--name TEXT` of these subcommands. */
/* clang-format off */
#define OPT_METRIC_NAME(to_text) \
	OPT(TEXT, "name", (to_text), "TEXT", "only names that contain TEXT")
/* clang-format on */

#endif
