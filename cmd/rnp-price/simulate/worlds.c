/* worlds.c - price policies in worlds of recorded markets, as rnp.backtest records: see
 * backtest.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-price/simulate/backtest.h"
#include "cmd/rnp-price/simulate/world.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/json/json.h"

#define SERIES_MAX   64
#define POLICIES_MAX 8
#define UNITS        8

struct play {
	struct backtest *asked;
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

static int read_policies(struct play *s)
{
	char *names = s->asked->policies ? xstrdup(s->asked->policies) : NULL,
	     *rest = NULL, *name;
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

static struct world world_of(const struct play *s, enum world_kind kind, int i)
{
	struct world w = { .kind = kind,
		.series = &s->series[i % s->nseries],
		.beta = betas[i / s->nseries % 3],
		.load = loads[i / s->nseries / 3 % 3],
		.lease_hours = leases[i / s->nseries / 9],
		.units = UNITS,
		.seed = (uint64_t)s->asked->seed * 1000003 + (uint64_t)i };

	memcpy(w.lease_shape, world_philly_leases, sizeof w.lease_shape);
	return w;
}

static void run_world(const struct play *s, enum world_kind kind, int i,
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

static json_t *new_policy_record(const struct play *s, const char *mode,
	enum world_kind kind, int p)
{
	json_t *r = json_record("rnp.backtest");

	json_set_text(r, "mode", mode);
	json_set_text(r, "world", world_kind_names[kind]);
	json_set_text(r, "policy", s->policies[p]->name);
	return r;
}

static int write_policy(const struct play *s, enum world_kind kind, int p,
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
	json_set_i64(r, "seed", s->asked->seed);
	set_ppm(r, "mean_ppm", mean);
	set_ppm(r, "p10_ppm", ratios[n / 10]);
	set_ppm(r, "worst_ppm", ratios[0]);
	set_ppm(r, "busy_ppm", busy);
	set_ppm(r, "changes_a_day_ppm", changes);
	json_set_i64(r, "changes_max", (int64_t)limit);
	free(ratios);
	return backtest_report_write(&s->asked->report, r);
}

/* One world under one policy; only on the page unless --each is given. */
static int write_world(const struct play *s, const struct world *w,
	const struct outcome *o, int p)
{
	const struct world_result *one = &o->results[p];
	json_t *r = new_policy_record(s, "world", w->kind, p);

	json_set_i64(r, "runs", 1);
	json_set_i64(r, "seed", s->asked->seed);
	json_set_text(r, "series", w->series->name);
	set_ppm(r, "steepness_ppm", w->beta);
	set_ppm(r, "load_ppm", w->load);
	json_set_i64(r, "lease_s", llround(w->lease_hours * 3600));
	json_set_text(r, "best", o->which);
	set_ppm(r, "revenue_ppm", revenue_of(o, p));
	set_ppm(r, "busy_ppm", one->busy);
	set_ppm(r, "changes_a_day_ppm", one->changes_a_day);
	json_set_i64(r, "changes_max", (int64_t)one->day_changes_max);
	if (s->asked->each)
		return backtest_report_write(&s->asked->report, r);
	backtest_report_add(&s->asked->report, r);
	json_decref(r);
	return 0;
}

static void draw_kind(const struct play *s, enum world_kind kind,
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
	backtest_report_curves(&s->asked->report, title,
		"part of the worlds, % (the worst first)", "revenue", x, (size_t)n,
		curves, (size_t)s->npolicies);
	free(x);
	free(y);
}

/* Each world is run by whichever thread is free; the result does not depend on it. */
static int run_kind(const struct play *s, enum world_kind kind)
{
	int n = GRID * s->nseries, rc = 0;
	struct outcome *all = xcalloc((size_t)n, sizeof *all);

#pragma omp parallel for schedule(dynamic)
	for (int i = 0; i < n; i++)
		run_world(s, kind, i, &all[i]);
	for (int p = 0; rc == 0 && p < s->npolicies; p++)
		rc = write_policy(s, kind, p, all, n);
	for (int i = 0; rc == 0 && i < n && (s->asked->each || s->asked->report_path);
		i++) {
		struct world w = world_of(s, kind, i);

		for (int p = 0; rc == 0 && p < s->npolicies; p++)
			rc = write_world(s, &w, &all[i], p);
	}
	draw_kind(s, kind, all, n);
	free(all);
	return rc;
}

static int play(struct play *s)
{
	const struct opt_list *histories = &s->asked->histories;

	if (histories->n > SERIES_MAX)
		return err_set(EX_USAGE, "more than %d series", SERIES_MAX);
	if (read_policies(s) < 0)
		return -1;
	for (; s->nseries < histories->n; s->nseries++)
		if (world_series_read(&s->series[s->nseries],
			    (char *)(uintptr_t)histories->items[s->nseries]) < 0)
			return -1;
	for (int k = 0; k < WORLD_KINDS; k++)
		if (strcmp(s->asked->worlds, "all") == 0 ||
			strcmp(s->asked->worlds, world_kind_names[k]) == 0)
			if (run_kind(s, (enum world_kind)k) < 0)
				return -1;
	return 0;
}

int backtest_worlds(struct backtest *b)
{
	struct play *s = xcalloc(1, sizeof *s);
	int rc;

	s->asked = b;
	rc = play(s);
	for (int i = 0; i < SERIES_MAX; i++)
		world_series_release(&s->series[i]);
	free(s);
	return rc;
}
