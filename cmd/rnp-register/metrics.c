/* metrics.c - rnp-register metrics: prints what a registry counts. */
#include "cmd/rnp-register/commands.h"
#include "common/base/err.h"
#include "common/cli/prog.h"
#include "common/registry/metrics_client.h"
#include "common/registry/client.h"

static const char *registry, *name, *ca_file;

static const struct opt opts[] = {
	OPT_REGISTRY(&registry),
	OPT_METRIC_NAME(&name),
	OPT_WATCH,
	OPT_CA(&ca_file),
	{ 0 },
};

static int run(int n, char **args)
{
	(void)n, (void)args;
	return metrics_print(registry, ca_file, name) < 0 ? err_report() : EX_OK;
}

const struct command command_metrics = {
	.name = "metrics",
	.summary = "What a registry counts: requests and their times, nodes, challenges.",
	.details =
		"Writes one rnp.metric record for each sample of the registry's /metrics; one for each\n"
		"histogram. The exit status is 1 when there is no such metric.",
	.columns = METRICS_COLUMNS,
	.group = "registry",
	.opts = opts,
	.run = run,
};
