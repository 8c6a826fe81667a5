/* metrics.c - rnp-train metrics: prints what a coordinator counts. */
#include "cmd/rnp-train/commands.h"
#include "common/base/err.h"
#include "common/cli/prog.h"
#include "common/registry/metrics_client.h"
#include "common/registry/client.h"

static const char *url, *name, *ca_file;

static const struct opt opts[] = {
	OPT(TEXT, "url", &url, "URL", "the coordinator", .required = true),
	OPT_METRIC_NAME(&name),
	OPT_WATCH,
	OPT_CA(&ca_file),
	{ 0 },
};

static int run(int n, char **args)
{
	(void)n, (void)args;
	return metrics_print(url, ca_file, name) < 0 ? err_report() : EX_OK;
}

const struct command command_metrics = {
	.name = "metrics",
	.summary =
		"What a coordinator counts: rounds, tokens, workers that wait, requests.",
	.details =
		"Writes one rnp.metric record for each sample of the coordinator's /metrics; one for each\n"
		"histogram. The exit status is 1 when there is no such metric.",
	.columns = METRICS_COLUMNS,
	.opts = opts,
	.run = run,
};
