/* backtest_report.h - a backtest as pictures and as one self-contained page. Uses json, plot,
 * html; writes files. The same records give the same bytes. */
#ifndef RNP_PRICE_BACKTEST_REPORT_H
#define RNP_PRICE_BACKTEST_REPORT_H

#include <jansson.h>
#include <stddef.h>

#include "common/plot/plot.h"

struct backtest_report {
	struct plot plot;
	json_t *records; /* the summaries, in the order of the output */
	json_t *worlds;  /* single worlds, one record a world and policy */
};
/* clang-format off */
#define BACKTEST_REPORT_INIT { .records = NULL }
/* clang-format on */

/* Adds a record of the output to the page's tables; those with mode "world" go into a table of
 * their own. */
void backtest_report_add(struct backtest_report *r, json_t *record);

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
