/* backtest.h - what rnp-price backtest is asked for, the three ways to answer it, and what it
 * draws. Uses json, plot, html, OpenMP; writes files. */
#ifndef RNP_PRICE_SIMULATE_BACKTEST_H
#define RNP_PRICE_SIMULATE_BACKTEST_H

#include <jansson.h>
#include <stddef.h>

#include "common/cli/opt.h"
#include "common/plot/plot.h"

/* What is drawn, and written as one self-contained page. The same records give the same bytes. */
struct backtest_report {
	struct plot plot;
	json_t *records; /* the summaries, in the order of the output */
	json_t *worlds;  /* single worlds, one record a world and policy */
};

struct backtest {
	/* price policies in worlds of recorded markets */
	struct opt_list histories;
	const char *worlds;   /* the kind, or "all" */
	const char *policies; /* with commas; NULL: all */
	bool each;            /* write a record for each world, too */
	/* jobs on a cluster */
	const char *jobs_path;
	int64_t gpus;        /* that are all alike; or else: */
	const char *cluster; /* of several models, as MODEL=NUMBER,...; NULL: none */
	const char *throughputs_path;
	const char *window; /* "A:B": of the jobs, in order of arrival; NULL: all */
	/* pods that share the GPUs of nodes */
	const char *nodes_path, *pods_path;
	int64_t runs; /* traces drawn, with seeds of their own */

	const char *algorithm; /* of jobs or pods, or "all" */
	int64_t seed;
	const char *plot_path, *report_path; /* NULL: not wanted */
	struct backtest_report report;
};

/* Write a record for each policy or algorithm. Return 0, or -1. */
int backtest_worlds(struct backtest *b);
int backtest_jobs(struct backtest *b);
int backtest_pods(struct backtest *b);

/* --- report.c: pictures and a page ------------------------------------------------------------ */

/* Adds a record of the output to the page's tables; those with mode "world" go into a table of
 * their own. */
void backtest_report_add(struct backtest_report *r, json_t *record);

/* Writes a record to the output and adds it; takes it. Returns 0, or -1. */
int backtest_report_write(struct backtest_report *r, json_t *record);

/* Adds a chart of curves. x and each of the n lines' y have `points` values. */
struct backtest_curve {
	const char *name;
	const double *y;
};
void backtest_report_curves(struct backtest_report *r, const char *title,
	const char *x_label, const char *y_label, const double *x, size_t points,
	const struct backtest_curve *curves, size_t n);

/* Adds a chart of bars. */
void backtest_report_bars(struct backtest_report *r, const char *title, const char *unit,
	const char *const *names, const double *values, size_t n);

/* Writes the picture and the page to those paths that are not NULL. command: what a reader
 * types to see the same. Returns 0, or -1 with err_set (73, 74, 77). */
int backtest_report_save(const struct backtest_report *r, const char *plot_path,
	const char *html_path, const char *command);

void backtest_report_release(struct backtest_report *r);

#endif
