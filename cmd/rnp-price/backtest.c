/* backtest.c - rnp-price backtest: runs price policies in simulated worlds of recorded markets,
 * and schedulers on traces of jobs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-price/commands.h"
#include "cmd/rnp-price/place.h"
#include "cmd/rnp-price/place_read.h"
#include "cmd/rnp-price/sched.h"
#include "cmd/rnp-price/sched_read.h"
#include "cmd/rnp-price/world.h"
#include "cmd/rnp-price/world_read.h"
#include "common/base/err.h"
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
static const char *pods_path, *nodes_path;
static int64_t seed = 1, gpus, runs = 10;

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
		.choices = "formula|cheapest|loyal|fall|copy|outage|all",
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
			"fifo|las|las-queues|shortest|random|dot-product|best-fit|fgd|all",
		.help = "with --jobs who runs next, with --pods on which node (default all)" },
	{ .name = "seed",
		.kind = OPT_I64,
		.to = &seed,
		.metavar = "N",
		.min = 0,
		.max = INT64_C(1000000000),
		.help = "of the worlds' luck (default 1)" },
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
	double best; /* best fixed price, known in hindsight */
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

static void run_world(const struct session *s, enum world_kind kind, int i,
	struct outcome *out)
{
	struct world w = { .kind = kind,
		.series = &s->series[i % s->nseries],
		.beta = betas[i / s->nseries % 3],
		.load = loads[i / s->nseries / 3 % 3],
		.lease_hours = leases[i / s->nseries / 9],
		.units = UNITS,
		.seed = (uint64_t)seed * 1000003 + (uint64_t)i };

	memcpy(w.lease_shape, world_philly_leases, sizeof w.lease_shape);
	world_open(&w);
	out->best = world_hindsight(&w, NULL);
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

static int write_policy(const struct session *s, enum world_kind kind, int p,
	const struct outcome *all, int n)
{
	json_t *r = json_record("rnp.backtest");
	double *ratios = xmalloc((size_t)n * sizeof *ratios), mean = 0, changes = 0,
	       busy = 0;
	double limit = 0;
	int rc;

	for (int i = 0; i < n; i++) {
		const struct world_result *one = &all[i].results[p];

		ratios[i] = all[i].best > 0 ? one->revenue / all[i].best : 0;
		mean += ratios[i] / n;
		changes += one->changes_a_day / n;
		busy += one->busy / n;
		limit = one->day_changes_max > limit ? one->day_changes_max : limit;
	}
	qsort(ratios, (size_t)n, sizeof *ratios, by_value);
	json_set_text(r, "mode", "worlds");
	json_set_text(r, "world", world_kind_names[kind]);
	json_set_text(r, "policy", s->policies[p]->name);
	json_set_i64(r, "runs", n);
	json_set_i64(r, "seed", seed);
	set_ppm(r, "mean_ppm", mean);
	set_ppm(r, "p10_ppm", ratios[n / 10]);
	set_ppm(r, "worst_ppm", ratios[0]);
	set_ppm(r, "busy_ppm", busy);
	set_ppm(r, "changes_a_day_ppm", changes);
	json_set_i64(r, "changes_max", (int64_t)limit);
	rc = out_record(r);
	json_decref(r);
	free(ratios);
	return rc;
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
	free(all);
	return rc;
}

/* --- traces of jobs -------------------------------------------------------------------------- */

static int write_jobs(enum sched_algorithm a, const struct sched_result *res)
{
	json_t *r = json_record("rnp.backtest");
	int rc;

	json_set_text(r, "mode", "jobs");
	json_set_text(r, "algorithm", sched_names[a]);
	json_set_i64(r, "gpus", gpus);
	json_set_i64(r, "runs", (int64_t)res->jobs);
	json_set_i64(r, "refused", (int64_t)res->refused);
	json_set_i64(r, "mean_s", llround(res->mean_s));
	json_set_i64(r, "median_s", llround(res->p50_s));
	json_set_i64(r, "p99_s", llround(res->p99_s));
	json_set_i64(r, "wait_mean_s", llround(res->wait_mean_s));
	json_set_i64(r, "makespan_s", llround(res->makespan_s));
	set_ppm(r, "busy_ppm", res->busy);
	rc = out_record(r);
	json_decref(r);
	return rc;
}

static int backtest_jobs(void)
{
	struct sched_trace t = { 0 };
	struct sched_result results[SCHED_ALGORITHMS];
	int rc = sched_trace_read(&t, jobs_path);

	out_columns(
		"algorithm,gpus,runs,refused,mean_s,median_s,p99_s,wait_mean_s,makespan_s,"
		"busy_ppm");
	for (int a = 0; rc == 0 && a < SCHED_ALGORITHMS; a++) {
		if (strcmp(algorithm, "all") != 0 &&
			strcmp(algorithm, sched_names[a]) != 0)
			continue;
		sched_run((enum sched_algorithm)a, t.jobs, t.n, gpus, &results[a]);
		rc = write_jobs((enum sched_algorithm)a, &results[a]);
	}
	sched_trace_release(&t);
	return rc;
}

/* --- pods that share GPUs ---------------------------------------------------------------------- */

static int write_pods(enum place_policy a, const struct place_cluster *c,
	const struct place_result *all)
{
	struct place_result sum = { 0 };
	json_t *r = json_record("rnp.backtest");
	double n = (double)runs;
	int64_t count = 0;
	int rc;

	for (size_t i = 0; i < c->n; i++)
		count += c->nodes[i].ngpus;
	for (int64_t i = 0; i < runs; i++) {
		sum.allocated_100 += all[i].allocated_100 / n;
		sum.allocated_130 += all[i].allocated_130 / n;
		sum.fragments_80 += all[i].fragments_80 / n;
		sum.pods += all[i].pods;
		sum.failed += all[i].failed;
	}
	json_set_text(r, "mode", "pods");
	json_set_text(r, "algorithm", place_names[a]);
	json_set_i64(r, "gpus", count);
	json_set_i64(r, "runs", runs);
	json_set_i64(r, "seed", seed);
	json_set_i64(r, "pods", sum.pods);
	json_set_i64(r, "refused", sum.failed);
	set_ppm(r, "allocated_100_ppm", sum.allocated_100);
	set_ppm(r, "allocated_130_ppm", sum.allocated_130);
	set_ppm(r, "fragments_80_ppm", sum.fragments_80);
	rc = out_record(r);
	json_decref(r);
	return rc;
}

static int run_pods(const struct place_cluster *c, const struct place_pods *p,
	enum place_policy a)
{
	struct place_result *all = xcalloc((size_t)runs, sizeof *all);
	int rc;

#pragma omp parallel for schedule(dynamic)
	for (int64_t i = 0; i < runs; i++)
		place_trace(c, a, p->items, p->n, (uint64_t)(seed * 1000 + i), &all[i]);
	rc = write_pods(a, c, all);
	free(all);
	return rc;
}

static int backtest_pods(void)
{
	struct place_cluster *c = xcalloc(1, sizeof *c);
	struct place_pods pods = { 0 };
	int rc = place_read_nodes(c, nodes_path);

	out_columns(
		"algorithm,gpus,runs,allocated_100_ppm,allocated_130_ppm,fragments_80_ppm,"
		"pods,refused");
	if (rc == 0)
		rc = place_read_pods(&pods, pods_path);
	if (rc == 0)
		place_classify(&c->classes, pods.items, pods.n);
	for (int a = 0; rc == 0 && a < PLACE_POLICIES; a++)
		if (strcmp(algorithm, "all") == 0 ||
			strcmp(algorithm, place_names[a]) == 0)
			rc = run_pods(c, &pods, (enum place_policy)a);
	free(c->nodes);
	free(pods.items);
	free(c);
	return rc;
}

/* Whether an algorithm was selected, by name or as one of all. */
static bool is_algorithm_of(const char *const *names, int n)
{
	for (int i = 0; i < n; i++)
		if (strcmp(algorithm, names[i]) == 0)
			return true;
	return strcmp(algorithm, "all") == 0;
}

static int backtest(struct session *s)
{
	if (!!jobs_path + !!pods_path + !!histories.n > 1)
		return err_set(EX_USAGE,
			"--history, --jobs and --pods exclude each other");
	if (!pods_path != !nodes_path)
		return err_set(EX_USAGE, "--pods and --nodes belong together");
	if ((jobs_path && !is_algorithm_of(sched_names, SCHED_ALGORITHMS)) ||
		(pods_path && !is_algorithm_of(place_names, PLACE_POLICIES)))
		return err_set(EX_USAGE, "--algorithm %s is not one for %s", algorithm,
			jobs_path ? "--jobs" : "--pods");
	if (pods_path)
		return backtest_pods();
	if (!jobs_path != !gpus)
		return err_set(EX_USAGE, "--jobs and --gpus belong together");
	if (jobs_path)
		return backtest_jobs();
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

static int run(int n, char **args)
{
	struct session *s = xcalloc(1, sizeof *s);
	int rc = backtest(s);

	(void)n;
	(void)args;
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
		"places pods that share GPUs on nodes.",
	.columns =
		"world,policy,runs,mean_ppm,p10_ppm,worst_ppm,busy_ppm,changes_a_day_ppm,changes_max",
	.opts = options,
	.run = run,
};
