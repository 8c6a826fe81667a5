/* jobs.c - traces of jobs on clusters, as rnp.backtest records: see backtest.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cmd/rnp-price/match/throughputs.h"
#include "cmd/rnp-price/simulate/backtest.h"
#include "cmd/rnp-price/simulate/trace.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/num.h"
#include "common/cli/out.h"
#include "common/json/json.h"
#include "common/record/gpu.h"

#define GPUS_MAX 100000 /* of one model */

/* --- the cluster ---------------------------------------------------------------------------- */

/* The one name of a GPU model, however it is written. */
static const char *one_name(const char *name)
{
	const struct gpu_model *m = gpu_find(name, 0);

	return m ? m->name : name;
}

static int find_model(const struct player_cluster *c, const char *name)
{
	for (int m = 0; m < c->models; m++)
		if (strcasecmp(c->names[m], one_name(name)) == 0)
			return m;
	return -1;
}

static int parse_model(struct player_cluster *c, char *text)
{
	char *number = strchr(text, '=');

	if (!number || number == text)
		return err_set(EX_USAGE, "--cluster: '%.40s' is not MODEL=NUMBER", text);
	*number++ = 0;
	if (find_model(c, text) >= 0)
		return err_set(EX_USAGE, "--cluster: '%.40s' is there twice", text);
	if (c->models == FAIR_MODELS_MAX)
		return err_set(EX_USAGE, "--cluster: more than %d models",
			FAIR_MODELS_MAX);
	if (num_i64(number, "--cluster", 1, GPUS_MAX, &c->gpus[c->models]) < 0)
		return err_set(EX_USAGE,
			"--cluster: %.40s: '%.40s' is not a number of GPUs", text,
			number);
	c->names[c->models++] = xstrdup(one_name(text));
	return 0;
}

/* Reads "MODEL=NUMBER,MODEL=NUMBER...". Returns 0, or -1 (64). */
static int parse_cluster(struct player_cluster *c, const char *text)
{
	char *copy = xstrdup(text), *rest = copy, *one;
	int rc = 0;

	while (rc == 0 && (one = strsep(&rest, ",")))
		rc = parse_model(c, one);
	free(copy);
	return rc;
}

struct speed_reader {
	struct player_cluster *c;
	const struct trace *t;
};

static int read_speed(void *ctx, const char *where, const char *type, const char *model,
	double rate)
{
	struct speed_reader *r = ctx;
	int m = find_model(r->c, model);

	(void)where;
	for (size_t i = 0; m >= 0 && i < r->t->ntypes; i++)
		if (strcmp(r->t->types[i], type) == 0)
			r->c->speed[i][m] = rate;
	return 0;
}

/* Reads the speeds of the types of a trace. Those that are not of the trace and the cluster are
 * ignored. Returns 0, or -1: 65 where a type is not in the file, or has no throughput on the first
 * model, which durations are of. */
static int read_speeds(struct player_cluster *c, const struct trace *t, const char *path)
{
	struct speed_reader r = { c, t };

	c->speed = xcalloc(t->ntypes, sizeof *c->speed);
	if (throughputs_each(path, read_speed, &r) < 0)
		return -1;
	for (size_t i = 0; i < t->ntypes; i++) {
		double first = c->speed[i][0];

		if (!(first > 0))
			return err_set(EX_DATAERR,
				"%s: '%.60s' has no throughput on %s, of which durations are",
				path, t->types[i], c->names[0]);
		for (int m = 0; m < c->models; m++)
			c->speed[i][m] /= first;
	}
	return 0;
}

static void release_cluster(struct player_cluster *c)
{
	for (int m = 0; m < c->models; m++)
		free((char *)(uintptr_t)c->names[m]);
	free(c->speed);
	memset(c, 0, sizeof *c);
}

/* --- the play ------------------------------------------------------------------------------- */

static json_t *new_record(const char *algorithm, const struct player_cluster *c,
	const struct player_result *res)
{
	json_t *r = json_record("rnp.backtest");
	int64_t gpus = 0;

	for (int m = 0; m < c->models; m++)
		gpus += c->gpus[m];
	json_set_text(r, "mode", "jobs");
	json_set_text(r, "algorithm", algorithm);
	json_set_i64(r, "gpus", gpus);
	json_set_i64(r, "runs", (int64_t)res->jobs);
	json_set_i64(r, "refused", (int64_t)res->refused);
	json_set_i64(r, "mean_s", llround(res->mean_s));
	json_set_i64(r, "median_s", llround(res->p50_s));
	json_set_i64(r, "p99_s", llround(res->p99_s));
	json_set_i64(r, "wait_mean_s", llround(fmax(0, res->wait_mean_s)));
	json_set_i64(r, "makespan_s", llround(res->makespan_s));
	json_set_i64(r, "busy_ppm", llround(res->busy * 1e6));
	json_set_i64(r, "fairness_ppm", llround(res->fairness * 1e6));
	json_set_i64(r, "slowdown_p99_ppm", llround(res->slowdown_p99 * 1e6));
	return r;
}

/* Jobs A to B - 1 are first to first + count - 1. */
static int read_window(const char *text, size_t n, size_t *first, size_t *count)
{
	char *copy, *end;
	int64_t a, b;
	int rc = 0;

	*first = 0;
	*count = n;
	if (!text)
		return 0;
	copy = xstrdup(text);
	end = strchr(copy, ':');
	if (!end)
		rc = err_set(EX_USAGE, "--window: '%.40s' is not A:B", text);
	else
		*end++ = 0;
	if (rc == 0 &&
		(num_i64(copy, "--window", 0, TRACE_JOBS_MAX, &a) < 0 ||
			num_i64(end, "--window", 1, TRACE_JOBS_MAX, &b) < 0))
		rc = err_set(EX_USAGE, "--window: '%.40s' is not A:B", text);
	if (rc == 0 && (b <= a || b > (int64_t)n))
		rc = err_set(EX_USAGE, "--window %.40s: the trace has %zu jobs", text, n);
	free(copy);
	if (rc == 0) {
		*first = (size_t)a;
		*count = (size_t)(b - a);
	}
	return rc;
}

/* Each algorithm plays a copy of its own: the result does not depend on the threads. */
static int play(struct backtest *b, const struct player_cluster *c, const struct trace *t)
{
	const struct player_policy *policies[PLAYER_POLICIES];
	struct player_result results[PLAYER_POLICIES];
	const char *names[PLAYER_POLICIES];
	double mean_h[PLAYER_POLICIES], p99_h[PLAYER_POLICIES];
	size_t first, count, n = 0;
	int rc = read_window(b->window, t->n, &first, &count);

	if (rc < 0)
		return rc;
	for (int i = 0; i < PLAYER_POLICIES; i++)
		if (player_policy_is(&player_policies[i], b->algorithm, b->cluster))
			policies[n++] = &player_policies[i];
#pragma omp parallel for schedule(dynamic)
	for (size_t i = 0; i < n; i++) {
		struct player_job *jobs = xmalloc(t->n * sizeof *jobs);

		memcpy(jobs, t->jobs, t->n * sizeof *jobs);
		player_run(policies[i], c, jobs, t->n, first, count, (uint64_t)b->seed,
			&results[i]);
		free(jobs);
	}
	for (size_t i = 0; i < n; i++) {
		names[i] = policies[i]->name;
		mean_h[i] = results[i].mean_s / 3600;
		p99_h[i] = results[i].p99_s / 3600;
	}
	backtest_report_bars(&b->report, "Mean completion", "h", names, mean_h, n);
	backtest_report_bars(&b->report, "99th percentile of completion", "h", names,
		p99_h, n);
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = backtest_report_write(&b->report,
			new_record(names[i], c, &results[i]));
	return rc;
}

int backtest_jobs(struct backtest *b)
{
	struct player_cluster c = { 0 };
	struct trace t = { 0 };
	int rc = 0;

	out_columns("algorithm,refused,mean_s,p99_s,wait_mean_s,busy_ppm,fairness_ppm");
	if (b->cluster)
		rc = parse_cluster(&c, b->cluster);
	else
		c.gpus[c.models++] = b->gpus;
	if (rc == 0)
		rc = trace_read(&t, b->jobs_path);
	if (rc == 0 && b->cluster && !t.ntypes)
		rc = err_set(EX_DATAERR, "%s: no column 'job_type'", b->jobs_path);
	if (rc == 0 && b->cluster)
		rc = read_speeds(&c, &t, b->throughputs_path);
	if (rc == 0)
		rc = play(b, &c, &t);
	release_cluster(&c);
	trace_release(&t);
	return rc;
}
