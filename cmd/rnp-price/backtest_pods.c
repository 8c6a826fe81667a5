/* backtest_pods.c - pods that share GPUs: see backtest_pods.h. */
#include "cmd/rnp-price/backtest_pods.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-price/place.h"
#include "cmd/rnp-price/place_read.h"
#include "common/base/mem.h"
#include "common/cli/out.h"
#include "common/json/json.h"

static int write_pods(const struct backtest_pods *b, enum place_policy a,
	const struct place_cluster *c, const struct place_result *all)
{
	struct place_result sum = { 0 };
	json_t *r = json_record("rnp.backtest");
	double n = (double)b->runs;
	int64_t count = 0;

	for (size_t i = 0; i < c->n; i++)
		count += c->nodes[i].ngpus;
	for (int64_t i = 0; i < b->runs; i++) {
		sum.allocated_100 += all[i].allocated_100 / n;
		sum.allocated_130 += all[i].allocated_130 / n;
		sum.fragments_80 += all[i].fragments_80 / n;
		sum.pods += all[i].pods;
		sum.failed += all[i].failed;
	}
	json_set_text(r, "mode", "pods");
	json_set_text(r, "algorithm", place_names[a]);
	json_set_i64(r, "gpus", count);
	json_set_i64(r, "runs", b->runs);
	json_set_i64(r, "seed", b->seed);
	json_set_i64(r, "pods", sum.pods);
	json_set_i64(r, "refused", sum.failed);
	json_set_i64(r, "allocated_100_ppm", llround(sum.allocated_100 * 1e6));
	json_set_i64(r, "allocated_130_ppm", llround(sum.allocated_130 * 1e6));
	json_set_i64(r, "fragments_80_ppm", llround(sum.fragments_80 * 1e6));
	return b->write(r);
}

/* curve: becomes the mean part of the GPUs that is in use after each percent has arrived. */
static int run_pods(const struct backtest_pods *b, const struct place_cluster *c,
	const struct place_pods *p, enum place_policy a, double curve[PLACE_PERCENTS])
{
	struct place_result *all = xcalloc((size_t)b->runs, sizeof *all);
	int rc;

#pragma omp parallel for schedule(dynamic)
	for (int64_t i = 0; i < b->runs; i++)
		place_trace(c, a, p->items, p->n, (uint64_t)(b->seed * 1000 + i),
			&all[i]);
	for (int k = 0; k < PLACE_PERCENTS; k++) {
		curve[k] = 0;
		for (int64_t i = 0; i < b->runs; i++)
			curve[k] += all[i].allocated[k] * 100 / (double)b->runs;
	}
	rc = write_pods(b, a, c, all);
	free(all);
	return rc;
}

int backtest_pods(const struct backtest_pods *b, struct backtest_report *report)
{
	struct place_cluster *c = xcalloc(1, sizeof *c);
	struct place_pods pods = { 0 };
	struct backtest_curve curves[PLACE_POLICIES];
	static double y[PLACE_POLICIES][PLACE_PERCENTS], x[PLACE_PERCENTS];
	size_t n = 0;
	int rc = place_read_nodes(c, b->nodes_path);

	out_columns(
		"algorithm,gpus,runs,allocated_100_ppm,allocated_130_ppm,fragments_80_ppm,"
		"pods,refused");
	if (rc == 0)
		rc = place_read_pods(&pods, b->pods_path);
	if (rc == 0)
		place_classify(&c->classes, pods.items, pods.n);
	for (int a = 0; rc == 0 && a < PLACE_POLICIES; a++)
		if (strcmp(b->algorithm, "all") == 0 ||
			strcmp(b->algorithm, place_names[a]) == 0) {
			rc = run_pods(b, c, &pods, (enum place_policy)a, y[n]);
			curves[n] = (struct backtest_curve){ place_names[a], y[n] };
			n++;
		}
	for (int k = 0; k < PLACE_PERCENTS; k++)
		x[k] = k;
	backtest_report_curves(report, "GPUs in use as pods arrive", "GPUs asked for, %",
		"GPUs in use, %", x, PLACE_PERCENTS, curves, n);
	free(c->nodes);
	free(pods.items);
	free(c);
	return rc;
}
