/* backtest.c - rnp-price backtest: runs price policies in simulated worlds of recorded markets,
 * and schedulers on traces of jobs. */
#include <string.h>

#include "cmd/rnp-price/commands.h"
#include "cmd/rnp-price/simulate/backtest.h"
#include "cmd/rnp-price/simulate/pods.h"
#include "cmd/rnp-price/simulate/player.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/cli/prog.h"

static struct backtest asked = { .worlds = "formula",
	.algorithm = "all",
	.seed = 1,
	.runs = 10 };

static const struct opt options[] = {
	OPT(LIST, "history", &asked.histories, "F",
		"a recorded market, one snapshot every 30 min; may be given several times"),
	OPT(CHOICE, "worlds", &asked.worlds, "W",
		"how customers choose (default formula)",
		.choices =
			"formula|cheapest|loyal|fall|copy|follow|outage|frozen|hostile|all"),
	OPT(TEXT, "policy", &asked.policies, "P",
		"policies with commas: ours, undercut, step10, median (default: all)"),
	OPT(TEXT, "jobs", &asked.jobs_path, "F",
		"instead: a trace of jobs, CSV with timestamp, duration and num_gpus"),
	OPT_IN(I64, "gpus", &asked.gpus, "N", 1, 10000000,
		"with --jobs: how many GPUs the cluster has"),
	OPT(TEXT, "cluster", &asked.cluster, "C",
		"with --jobs: GPUs of several models instead, as v100=36,k80=36; durations are of the first"),
	OPT(TEXT, "throughputs", &asked.throughputs_path, "F",
		"with --cluster: {\"TYPE\": {\"GPU model\": work per hour}}"),
	OPT(TEXT, "window", &asked.window, "A:B",
		"with --cluster: tell what became of jobs A to B - 1 (default all)"),
	OPT(TEXT, "pods", &asked.pods_path, "F",
		"instead: pods that share GPUs, CSV with cpu_milli, memory_mib, num_gpu and gpu_milli"),
	OPT(TEXT, "nodes", &asked.nodes_path, "F",
		"with --pods: the cluster, CSV with cpu_milli, memory_mib and gpu"),
	OPT_IN(I64, "runs", &asked.runs, "N", 1, 1000,
		"with --pods: how many orders of arrival the mean is over (default 10)"),
	OPT(CHOICE, "algorithm", &asked.algorithm, "A",
		"with --jobs who runs next, with --pods on which node (default all)",
		.choices =
			"fifo|las|las-queues|shortest|max-min|gavel|gavel-makespan|gavel-match|random|dot-product|gpu-clustering|gpu-packing|best-fit|fgd|all"),
	OPT_IN(I64, "seed", &asked.seed, "N", 0, INT64_C(1000000000),
		"of the worlds' luck (default 1)"),
	OPT_SWITCH("each", &asked.each,
		"with --history: write a record for each world, too"),
	OPT(TEXT, "plot", &asked.plot_path, "F", "draw the results into this SVG file"),
	OPT(TEXT, "report", &asked.report_path, "F",
		"write them as one HTML page, with pictures and each world"),
	{ .kind = OPT_END },
};

/* Whether the selected algorithm, or one of all, is for what is played. */
static bool algorithm_fits(void)
{
	bool fits = !asked.jobs_path && !asked.pods_path;

	for (int i = 0; asked.jobs_path && i < PLAYER_POLICIES; i++)
		fits |= player_policy_is(&player_policies[i], asked.algorithm,
			asked.cluster);
	for (int i = 0; !asked.jobs_path && asked.pods_path && i < PLACE_POLICIES; i++)
		fits |= strcmp(asked.algorithm, "all") == 0 ||
			strcmp(asked.algorithm, place_policies[i].name) == 0;
	return fits;
}

/* Whether the options for clusters and algorithms fit together. */
static int check_options(void)
{
	if (!!asked.jobs_path + !!asked.pods_path + !!asked.histories.n > 1)
		return err_set(EX_USAGE,
			"--history, --jobs and --pods exclude each other");
	if (!asked.pods_path != !asked.nodes_path)
		return err_set(EX_USAGE, "--pods and --nodes belong together");
	if (!asked.cluster != !asked.throughputs_path)
		return err_set(EX_USAGE, "--cluster and --throughputs belong together");
	if (asked.window && !asked.cluster)
		return err_set(EX_USAGE, "--window is one of --cluster");
	if (asked.cluster && (!asked.jobs_path || asked.gpus))
		return err_set(EX_USAGE,
			"--cluster wants --jobs and takes the place of --gpus");
	if (!algorithm_fits())
		return err_set(EX_USAGE, "--algorithm %s is not one for %s",
			asked.algorithm,
			asked.cluster           ? "--cluster" :
				asked.jobs_path ? "--jobs with --gpus" :
						  "--pods");
	if (!asked.cluster && !asked.jobs_path != !asked.gpus)
		return err_set(EX_USAGE, "--jobs and --gpus belong together");
	return 0;
}

static int backtest(void)
{
	if (check_options() < 0)
		return -1;
	if (asked.pods_path)
		return backtest_pods(&asked);
	if (asked.jobs_path)
		return backtest_jobs(&asked);
	if (!asked.histories.n)
		return err_set(EX_USAGE, "one of --history, --jobs and --pods is wanted");
	return backtest_worlds(&asked);
}

/* The command that gives the same results, for whoever reads the page. */
static void command_text(struct buf *out)
{
	buf_adds(out, "rnp-price backtest");
	for (int i = 0; i < asked.histories.n; i++)
		buf_addf(out, " --history %s", asked.histories.items[i]);
	if (asked.histories.n)
		buf_addf(out, " --worlds %s", asked.worlds);
	if (asked.policies)
		buf_addf(out, " --policy %s", asked.policies);
	if (asked.jobs_path)
		buf_addf(out, " --jobs %s", asked.jobs_path);
	if (asked.gpus)
		buf_addf(out, " --gpus %lld", (long long)asked.gpus);
	if (asked.cluster)
		buf_addf(out, " --cluster %s --throughputs %s", asked.cluster,
			asked.throughputs_path);
	if (asked.window)
		buf_addf(out, " --window %s", asked.window);
	if (asked.pods_path)
		buf_addf(out, " --pods %s --nodes %s --runs %lld", asked.pods_path,
			asked.nodes_path, (long long)asked.runs);
	if (!asked.histories.n)
		buf_addf(out, " --algorithm %s", asked.algorithm);
	buf_addf(out, " --seed %lld", (long long)asked.seed);
}

static int write_files(void)
{
	struct buf command = BUF_INIT;
	int rc;

	command_text(&command);
	rc = backtest_report_save(&asked.report, asked.plot_path, asked.report_path,
		buf_text(&command));
	buf_release(&command);
	return rc;
}

static int check_places(void)
{
	if (asked.plot_path && io_check_place(asked.plot_path) < 0)
		return -1;
	return asked.report_path ? io_check_place(asked.report_path) : 0;
}

static int run(int n, char **args)
{
	int rc = check_places();

	(void)n;
	(void)args;
	if (rc == 0)
		rc = backtest();
	if (rc == 0 && (asked.plot_path || asked.report_path))
		rc = write_files();
	backtest_report_release(&asked.report);
	opt_list_release(&asked.histories);
	return rc < 0 ? err_report() : 0;
}

const struct command command_backtest = {
	.name = "backtest",
	.arguments = NULL,
	.summary = "What price policies would have earned, or jobs would have waited.",
	.details =
		"Plays policies in worlds made of recorded markets and made-up customers: eight units\n"
		"of one model, 18 worlds for each series, three steepnesses of demand, three loads, two\n"
		"lengths of leases. Writes one rnp.backtest record per kind of world and policy, its\n"
		"revenue over that of the best fixed price or constant ratio in hindsight. With --jobs:\n"
		"plays a trace of jobs on a cluster under scheduling algorithms instead; with --pods:\n"
		"places pods that share GPUs on nodes. --plot and --report draw the results.",
	.columns =
		"world,policy,runs,mean_ppm,p10_ppm,worst_ppm,busy_ppm,changes_a_day_ppm,"
		"changes_max=changes at most",
	.opts = options,
	.run = run,
};
