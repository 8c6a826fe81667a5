/* backtest.c - rnp-price backtest: runs price policies in simulated worlds of recorded markets,
 * and schedulers on traces of jobs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-price/backtest_cluster.h"
#include "cmd/rnp-price/backtest_pods.h"
#include "cmd/rnp-price/backtest_report.h"
#include "cmd/rnp-price/commands.h"
#include "cmd/rnp-price/hetero.h"
#include "cmd/rnp-price/place.h"
#include "cmd/rnp-price/sched.h"
#include "cmd/rnp-price/sched_read.h"
#include "cmd/rnp-price/world.h"
#include "cmd/rnp-price/world_read.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/mem.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/json/json.h"

#define SERIES_MAX   64
#define POLICIES_MAX 8
#define UNITS        8

static struct opt_list histories;
static const char *worlds = "formula", *policy_names;
static const char *jobs_path, *algorithm = "all";
static const char *cluster, *throughputs_path, *window;
static const char *pods_path, *nodes_path;
static int64_t seed = 1, gpus, runs = 10;
static const char *plot_path, *report_path;
static bool each;
static struct backtest_report report = BACKTEST_REPORT_INIT;

static const struct opt options[] = {
	{ .name = "history",
		.kind = OPT_LIST,
		.to = &histories,
		.metavar = "F",
		.help = "a recorded market, one snapshot every 30 min; may be given several times" },
	{ .name = "worlds",
		.kind = OPT_CHOICE,
		.to = &worlds,
		.metavar = "W",
		.choices =
			"formula|cheapest|loyal|fall|copy|follow|outage|frozen|hostile|all",
		.help = "how customers choose (default formula)" },
	{ .name = "policy",
		.kind = OPT_TEXT,
		.to = &policy_names,
		.metavar = "P",
		.help = "policies with commas: ours, undercut, step10, median (default: all)" },
	{ .name = "jobs",
		.kind = OPT_TEXT,
		.to = &jobs_path,
		.metavar = "F",
		.help = "instead: a trace of jobs, CSV with timestamp, duration and num_gpus" },
	{ .name = "gpus",
		.kind = OPT_I64,
		.to = &gpus,
		.metavar = "N",
		.min = 1,
		.max = 10000000,
		.help = "with --jobs: how many GPUs the cluster has" },
	{ .name = "cluster",
		.kind = OPT_TEXT,
		.to = &cluster,
		.metavar = "C",
		.help = "with --jobs: GPUs of several models instead, as v100=36,k80=36; durations are of the first" },
	{ .name = "throughputs",
		.kind = OPT_TEXT,
		.to = &throughputs_path,
		.metavar = "F",
		.help = "with --cluster: {\"TYPE\": {\"GPU model\": work per hour}}" },
	{ .name = "window",
		.kind = OPT_TEXT,
		.to = &window,
		.metavar = "A:B",
		.help = "with --cluster: tell what became of jobs A to B - 1 (default all)" },
	{ .name = "pods",
		.kind = OPT_TEXT,
		.to = &pods_path,
		.metavar = "F",
		.help = "instead: pods that share GPUs, CSV with cpu_milli, memory_mib, num_gpu and gpu_milli" },
	{ .name = "nodes",
		.kind = OPT_TEXT,
		.to = &nodes_path,
		.metavar = "F",
		.help = "with --pods: the cluster, CSV with cpu_milli, memory_mib and gpu" },
	{ .name = "runs",
		.kind = OPT_I64,
		.to = &runs,
		.metavar = "N",
		.min = 1,
		.max = 1000,
		.help = "with --pods: mean of so many orders of arrival (default 10)" },
	{ .name = "algorithm",
		.kind = OPT_CHOICE,
		.to = &algorithm,
		.metavar = "A",
		.choices =
			"fifo|las|las-queues|shortest|max-min|gavel|gavel-makespan|gavel-match|random|dot-product|gpu-clustering|gpu-packing|best-fit|fgd|all",
		.help = "with --jobs who runs next, with --pods on which node (default all)" },
	{ .name = "seed",
		.kind = OPT_I64,
		.to = &seed,
		.metavar = "N",
		.min = 0,
		.max = INT64_C(1000000000),
		.help = "of the worlds' luck (default 1)" },
	{ .name = "each",
		.kind = OPT_FLAG,
		.to = &each,
		.help = "with --history: write a record for each world, too" },
	{ .name = "plot",
		.kind = OPT_TEXT,
		.to = &plot_path,
		.metavar = "F",
		.help = "draw the results into this SVG file" },
	{ .name = "report",
		.kind = OPT_TEXT,
		.to = &report_path,
		.metavar = "F",
		.help = "write them as one HTML page, with pictures and each world" },
	{ .kind = OPT_END },
};

struct session {
	struct world_series series[SERIES_MAX];
	int nseries;
	const struct world_policy *policies[POLICIES_MAX];
	int npolicies;
};

/* The results of one world. */
struct outcome {
	double best; /* of fixed prices and constant ratios, known in hindsight */
	char which[40];
	struct world_result results[POLICIES_MAX];
};

static const double betas[] = { 3, 10, 30 }, loads[] = { 0.4, 1, 3 },
		    leases[] = { 6, 24 };
#define GRID 18

static int read_policies(struct session *s)
{
	char *names = policy_names ? xstrdup(policy_names) : NULL, *rest = NULL, *name;
	int rc = 0;

	if (!names) {
		for (int i = 0; world_policy_names[i]; i++)
			s->policies[s->npolicies++] = world_policy(world_policy_names[i]);
		return 0;
	}
	for (name = strtok_r(names, ",", &rest); name && rc == 0;
		name = strtok_r(NULL, ",", &rest)) {
		const struct world_policy *p = world_policy(name);

		if (!p)
			rc = err_set(EX_USAGE, "there is no policy '%.40s'", name);
		else if (s->npolicies == POLICIES_MAX)
			rc = err_set(EX_USAGE, "more than %d policies", POLICIES_MAX);
		else
			s->policies[s->npolicies++] = p;
	}
	if (rc == 0 && !s->npolicies)
		rc = err_set(EX_USAGE, "--policy names none");
	free(names);
	return rc;
}

static struct world world_of(const struct session *s, enum world_kind kind, int i)
{
	struct world w = { .kind = kind,
		.series = &s->series[i % s->nseries],
		.beta = betas[i / s->nseries % 3],
		.load = loads[i / s->nseries / 3 % 3],
		.lease_hours = leases[i / s->nseries / 9],
		.units = UNITS,
		.seed = (uint64_t)seed * 1000003 + (uint64_t)i };

	memcpy(w.lease_shape, world_philly_leases, sizeof w.lease_shape);
	return w;
}

static void run_world(const struct session *s, enum world_kind kind, int i,
	struct outcome *out)
{
	struct world w = world_of(s, kind, i);

	world_open(&w);
	out->best = world_hindsight(&w, out->which);
	for (int p = 0; p < s->npolicies; p++)
		world_run(&w, s->policies[p], &out->results[p]);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void set_ppm(json_t *r, const char *key, double v)
{
	json_set_i64(r, key, llround(v * 1e6));
}

static int write_record(json_t *r)
{
	int rc = out_record(r);

	backtest_report_add(&report, r);
	json_decref(r);
	return rc;
}

static double revenue_of(const struct outcome *o, int p)
{
	return o->best > 0 ? o->results[p].revenue / o->best : 0;
}

/* Fills in the n ratios of revenue to the best in hindsight, ascending. */
static void sort_ratios(const struct outcome *all, int n, int p, double *ratios)
{
	for (int i = 0; i < n; i++)
		ratios[i] = revenue_of(&all[i], p);
	qsort(ratios, (size_t)n, sizeof *ratios, by_value);
}

static json_t *new_policy_record(const struct session *s, const char *mode,
	enum world_kind kind, int p)
{
	json_t *r = json_record("rnp.backtest");

	json_set_text(r, "mode", mode);
	json_set_text(r, "world", world_kind_names[kind]);
	json_set_text(r, "policy", s->policies[p]->name);
	return r;
}

static int write_policy(const struct session *s, enum world_kind kind, int p,
	const struct outcome *all, int n)
{
	json_t *r = new_policy_record(s, "worlds", kind, p);
	double *ratios = xmalloc((size_t)n * sizeof *ratios), mean = 0, changes = 0,
	       busy = 0;
	double limit = 0;

	sort_ratios(all, n, p, ratios);
	for (int i = 0; i < n; i++) {
		const struct world_result *one = &all[i].results[p];

		mean += ratios[i] / n;
		changes += one->changes_a_day / n;
		busy += one->busy / n;
		limit = one->day_changes_max > limit ? one->day_changes_max : limit;
	}
	json_set_i64(r, "runs", n);
	json_set_i64(r, "seed", seed);
	set_ppm(r, "mean_ppm", mean);
	set_ppm(r, "p10_ppm", ratios[n / 10]);
	set_ppm(r, "worst_ppm", ratios[0]);
	set_ppm(r, "busy_ppm", busy);
	set_ppm(r, "changes_a_day_ppm", changes);
	json_set_i64(r, "changes_max", (int64_t)limit);
	free(ratios);
	return write_record(r);
}

/* One world under one policy; only on the page unless --each is given. */
static int write_world(const struct session *s, const struct world *w,
	const struct outcome *o, int p)
{
	const struct world_result *one = &o->results[p];
	json_t *r = new_policy_record(s, "world", w->kind, p);

	json_set_i64(r, "runs", 1);
	json_set_i64(r, "seed", seed);
	json_set_text(r, "series", w->series->name);
	set_ppm(r, "steepness_ppm", w->beta);
	set_ppm(r, "load_ppm", w->load);
	json_set_i64(r, "lease_s", llround(w->lease_hours * 3600));
	json_set_text(r, "best", o->which);
	set_ppm(r, "revenue_ppm", revenue_of(o, p));
	set_ppm(r, "busy_ppm", one->busy);
	set_ppm(r, "changes_a_day_ppm", one->changes_a_day);
	json_set_i64(r, "changes_max", (int64_t)one->day_changes_max);
	if (each)
		return write_record(r);
	backtest_report_add(&report, r);
	json_decref(r);
	return 0;
}

static void draw_kind(const struct session *s, enum world_kind kind,
	const struct outcome *all, int n)
{
	struct backtest_curve curves[POLICIES_MAX];
	double *y = xmalloc((size_t)n * POLICIES_MAX * sizeof *y);
	double *x = xmalloc((size_t)n * sizeof *x);
	char title[80];

	for (int i = 0; i < n; i++)
		x[i] = (i + 1) * 100.0 / n;
	for (int p = 0; p < s->npolicies; p++) {
		sort_ratios(all, n, p, y + (size_t)p * (size_t)n);
		curves[p] = (struct backtest_curve){ s->policies[p]->name,
			y + (size_t)p * (size_t)n };
	}
	snprintf(title, sizeof title, "Worlds '%s': revenue over the best in hindsight",
		world_kind_names[kind]);
	backtest_report_curves(&report, title, "part of the worlds, % (the worst first)",
		"revenue", x, (size_t)n, curves, (size_t)s->npolicies);
	free(x);
	free(y);
}

/* Each world is run by whichever thread is free; the result does not depend on it. */
static int run_kind(const struct session *s, enum world_kind kind)
{
	int n = GRID * s->nseries, rc = 0;
	struct outcome *all = xcalloc((size_t)n, sizeof *all);

#pragma omp parallel for schedule(dynamic)
	for (int i = 0; i < n; i++)
		run_world(s, kind, i, &all[i]);
	for (int p = 0; rc == 0 && p < s->npolicies; p++)
		rc = write_policy(s, kind, p, all, n);
	for (int i = 0; rc == 0 && i < n && (each || report_path); i++) {
		struct world w = world_of(s, kind, i);

		for (int p = 0; rc == 0 && p < s->npolicies; p++)
			rc = write_world(s, &w, &all[i], p);
	}
	draw_kind(s, kind, all, n);
	free(all);
	return rc;
}

/* --- traces of jobs -------------------------------------------------------------------------- */

static int backtest_jobs(void)
{
	struct sched_trace t = { 0 };
	struct sched_result results[SCHED_ALGORITHMS];
	const char *names[SCHED_ALGORITHMS];
	size_t n = 0;
	int rc = sched_trace_read(&t, jobs_path);

	for (int a = 0; rc == 0 && a < SCHED_ALGORITHMS; a++) {
		if (strcmp(algorithm, "all") != 0 &&
			strcmp(algorithm, sched_names[a]) != 0)
			continue;
		sched_run((enum sched_algorithm)a, t.jobs, t.n, gpus, &results[n]);
		rc = write_record(
			backtest_jobs_record(sched_names[a], gpus, &results[n]));
		names[n++] = sched_names[a];
	}
	backtest_jobs_bars(&report, names, results, n);
	sched_trace_release(&t);
	return rc;
}

static int backtest_models(void)
{
	struct backtest_cluster b = { .jobs_path = jobs_path,
		.throughputs_path = throughputs_path,
		.cluster = cluster,
		.window = window,
		.algorithm = algorithm,
		.seed = seed,
		.write = write_record };

	return backtest_cluster(&b, &report);
}

static int backtest_shared(void)
{
	struct backtest_pods b = { .nodes_path = nodes_path,
		.pods_path = pods_path,
		.algorithm = algorithm,
		.runs = runs,
		.seed = seed,
		.write = write_record };

	return backtest_pods(&b, &report);
}

/* Whether an algorithm was selected, by name or as one of all. */
static bool is_algorithm_of(const char *const *names, int n)
{
	for (int i = 0; i < n; i++)
		if (strcmp(algorithm, names[i]) == 0)
			return true;
	return strcmp(algorithm, "all") == 0;
}

/* Whether the options for clusters and algorithms fit together. */
static int check_options(void)
{
	bool fits = cluster ? is_algorithm_of(hetero_names, HETERO_ALGORITHMS) :
		jobs_path   ? is_algorithm_of(sched_names, SCHED_ALGORITHMS) :
		pods_path   ? is_algorithm_of(place_names, PLACE_POLICIES) :
			      true;

	if (!!jobs_path + !!pods_path + !!histories.n > 1)
		return err_set(EX_USAGE,
			"--history, --jobs and --pods exclude each other");
	if (!pods_path != !nodes_path)
		return err_set(EX_USAGE, "--pods and --nodes belong together");
	if (!cluster != !throughputs_path)
		return err_set(EX_USAGE, "--cluster and --throughputs belong together");
	if (window && !cluster)
		return err_set(EX_USAGE, "--window is one of --cluster");
	if (cluster && (!jobs_path || gpus))
		return err_set(EX_USAGE,
			"--cluster wants --jobs and takes the place of --gpus");
	if (!fits)
		return err_set(EX_USAGE, "--algorithm %s is not one for %s", algorithm,
			cluster           ? "--cluster" :
				jobs_path ? "--jobs with --gpus" :
					    "--pods");
	if (!cluster && !jobs_path != !gpus)
		return err_set(EX_USAGE, "--jobs and --gpus belong together");
	return 0;
}

static int backtest(struct session *s)
{
	if (check_options() < 0)
		return -1;
	if (pods_path)
		return backtest_shared();
	if (jobs_path) {
		out_columns("algorithm,refused,mean_s,p99_s,wait_mean_s,busy_ppm,"
			    "fairness_ppm");
		return cluster ? backtest_models() : backtest_jobs();
	}
	if (!histories.n)
		return err_set(EX_USAGE, "one of --history, --jobs and --pods is wanted");
	if (histories.n > SERIES_MAX)
		return err_set(EX_USAGE, "more than %d series", SERIES_MAX);
	if (read_policies(s) < 0)
		return -1;
	for (; s->nseries < histories.n; s->nseries++)
		if (world_series_read(&s->series[s->nseries],
			    (char *)(uintptr_t)histories.items[s->nseries]) < 0)
			return -1;
	for (int k = 0; k < WORLD_KINDS; k++)
		if (strcmp(worlds, "all") == 0 ||
			strcmp(worlds, world_kind_names[k]) == 0)
			if (run_kind(s, (enum world_kind)k) < 0)
				return -1;
	return 0;
}

/* The command that gives the same results, for whoever reads the page. */
static void command_text(struct buf *out)
{
	buf_adds(out, "rnp-price backtest");
	for (int i = 0; i < histories.n; i++)
		buf_addf(out, " --history %s", histories.items[i]);
	if (histories.n)
		buf_addf(out, " --worlds %s", worlds);
	if (policy_names)
		buf_addf(out, " --policy %s", policy_names);
	if (jobs_path)
		buf_addf(out, " --jobs %s", jobs_path);
	if (gpus)
		buf_addf(out, " --gpus %lld", (long long)gpus);
	if (cluster)
		buf_addf(out, " --cluster %s --throughputs %s", cluster,
			throughputs_path);
	if (window)
		buf_addf(out, " --window %s", window);
	if (pods_path)
		buf_addf(out, " --pods %s --nodes %s --runs %lld", pods_path, nodes_path,
			(long long)runs);
	if (!histories.n)
		buf_addf(out, " --algorithm %s", algorithm);
	buf_addf(out, " --seed %lld", (long long)seed);
}

static int write_files(void)
{
	struct buf command = BUF_INIT;
	int rc;

	command_text(&command);
	rc = backtest_report_save(&report, plot_path, report_path, buf_text(&command));
	buf_release(&command);
	return rc;
}

static int check_places(void)
{
	if (plot_path && io_check_place(plot_path) < 0)
		return -1;
	return report_path ? io_check_place(report_path) : 0;
}

static int run(int n, char **args)
{
	struct session *s = xcalloc(1, sizeof *s);
	int rc = check_places();

	(void)n;
	(void)args;
	if (rc == 0)
		rc = backtest(s);
	if (rc == 0 && (plot_path || report_path))
		rc = write_files();
	backtest_report_release(&report);
	for (int i = 0; i < SERIES_MAX; i++)
		world_series_release(&s->series[i]);
	free(s);
	opt_list_release(&histories);
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
