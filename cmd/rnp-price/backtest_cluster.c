/* backtest_cluster.c - traces of jobs on several GPU models: see backtest_cluster.h. */
#include "cmd/rnp-price/backtest_cluster.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-price/hetero_read.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/num.h"
#include "common/json/json.h"

#define BARS_MAX 8

json_t *backtest_jobs_record(const char *algorithm, int64_t gpus,
	const struct sched_result *res)
{
	json_t *r = json_record("rnp.backtest");

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

void backtest_jobs_bars(struct backtest_report *report, const char *const *names,
	const struct sched_result *results, size_t n)
{
	double mean[BARS_MAX], p99[BARS_MAX];

	for (size_t i = 0; i < n && i < BARS_MAX; i++) {
		mean[i] = results[i].mean_s / 3600;
		p99[i] = results[i].p99_s / 3600;
	}
	backtest_report_bars(report, "Mean completion", "h", names, mean, n);
	backtest_report_bars(report, "99th percentile of completion", "h", names, p99, n);
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
		(num_i64(copy, "--window", 0, SCHED_JOBS_MAX, &a) < 0 ||
			num_i64(end, "--window", 1, SCHED_JOBS_MAX, &b) < 0))
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

static int play(const struct backtest_cluster *b, const struct hetero_cluster *c,
	struct sched_trace *t, struct backtest_report *report)
{
	struct sched_result results[HETERO_ALGORITHMS];
	const char *names[HETERO_ALGORITHMS];
	enum hetero_algorithm which[HETERO_ALGORITHMS];
	size_t first, count, n = 0;
	int64_t gpus = 0;
	int rc = read_window(b->window, t->n, &first, &count);

	for (int m = 0; m < c->models; m++)
		gpus += c->gpus[m];
	for (int a = 0; a < HETERO_ALGORITHMS; a++)
		if (strcmp(b->algorithm, "all") == 0 ||
			strcmp(b->algorithm, hetero_names[a]) == 0) {
			names[n] = hetero_names[a];
			which[n++] = (enum hetero_algorithm)a;
		}
	if (rc == 0) {
		/* each algorithm on a copy of its own: the result does not depend on the threads */
#pragma omp parallel for schedule(dynamic)
		for (size_t i = 0; i < n; i++) {
			struct sched_job *jobs = xmalloc(t->n * sizeof *jobs);

			memcpy(jobs, t->jobs, t->n * sizeof *jobs);
			hetero_run(which[i], c, jobs, t->n, first, count,
				(uint64_t)b->seed, &results[i]);
			free(jobs);
		}
		backtest_jobs_bars(report, names, results, n);
	}
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = b->write(backtest_jobs_record(names[i], gpus, &results[i]));
	return rc;
}

int backtest_cluster(const struct backtest_cluster *b, struct backtest_report *report)
{
	struct hetero_cluster c = { 0 };
	struct sched_trace t = { 0 };
	int rc = hetero_cluster_parse(&c, b->cluster);

	if (rc == 0)
		rc = sched_trace_read(&t, b->jobs_path);
	if (rc == 0 && !t.ntypes)
		rc = err_set(EX_DATAERR, "%s: no column 'job_type'", b->jobs_path);
	if (rc == 0)
		rc = hetero_read_speeds(&c, &t, b->throughputs_path);
	if (rc == 0)
		rc = play(b, &c, &t, report);
	hetero_cluster_release(&c);
	sched_trace_release(&t);
	return rc;
}
