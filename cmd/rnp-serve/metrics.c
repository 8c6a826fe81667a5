/* metrics.c - rnp-serve metrics: prints what a server counts. */
#include "cmd/rnp-serve/commands.h"
#include "cmd/rnp-serve/request/url.h"
#include "common/base/err.h"
#include "common/cli/prog.h"
#include "common/registry/metrics_client.h"
#include "common/registry/client.h"

static const char *url = "http://127.0.0.1:8080", *name, *ca_file;

static const struct opt opts[] = {
	OPT(TEXT, "url", &url, "U", "the server (default http://127.0.0.1:8080)"),
	OPT_METRIC_NAME(&name),
	OPT_WATCH,
	OPT_CA(&ca_file),
	{ 0 },
};

static int run(int n, char **args)
{
	struct buf base = BUF_INIT;
	int rc;

	(void)n, (void)args;
	server_url_base(&base, url);
	rc = metrics_print(buf_text(&base), ca_file, name);
	buf_release(&base);
	return rc < 0 ? err_report() : EX_OK;
}

const struct command command_metrics = {
	.name = "metrics",
	.summary =
		"What a server counts: answers, tokens, times, the cache, by model and key.",
	.details =
		"Writes one rnp.metric record for each sample of the server's /metrics; one for each\n"
		"histogram. The exit status is 1 when there is no such metric.",
	.columns = METRICS_COLUMNS,
	.opts = opts,
	.run = run,
};
