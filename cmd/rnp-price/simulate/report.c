/* report.c - a backtest as pictures and as one self-contained page: see
 * backtest.h. */
#include "cmd/rnp-price/simulate/backtest.h"

#include <stdio.h>
#include <string.h>

#include "common/base/io.h"
#include "common/base/mem.h"
#include "common/cli/html.h"
#include "common/cli/out.h"
#include "common/json/json.h"

#define CURVES_MAX 16

/* --- what is collected ---------------------------------------------------------------------- */

static bool is_one_world(const json_t *record)
{
	const char *mode = json_string_value(json_object_get(record, "mode"));

	return mode && strcmp(mode, "world") == 0;
}

void backtest_report_add(struct backtest_report *r, json_t *record)
{
	json_t **list = is_one_world(record) ? &r->worlds : &r->records;

	if (!*list)
		*list = json_array();
	json_push(*list, json_incref(record));
}

int backtest_report_write(struct backtest_report *r, json_t *record)
{
	int rc = out_record(record);

	backtest_report_add(r, record);
	json_decref(record);
	return rc;
}

void backtest_report_curves(struct backtest_report *r, const char *title,
	const char *x_label, const char *y_label, const double *x, size_t points,
	const struct backtest_curve *curves, size_t n)
{
	struct plot_line lines[CURVES_MAX] = { { 0 } };
	struct plot_chart chart = { .title = title,
		.x = { .label = x_label },
		.y = { .label = y_label, .zero = true },
		.lines = lines,
		.n = n < CURVES_MAX ? n : CURVES_MAX };

	for (size_t i = 0; i < chart.n; i++)
		lines[i] = (struct plot_line){ .name = curves[i].name,
			.style = PLOT_CURVE,
			.n = points,
			.x = x,
			.y = curves[i].y };
	plot_add_chart(&r->plot, &chart);
}

void backtest_report_bars(struct backtest_report *r, const char *title, const char *unit,
	const char *const *names, const double *values, size_t n)
{
	struct plot_bar *bars = xcalloc(n + 1, sizeof *bars);
	struct plot_bars all = { .title = title,
		.axis = { .unit = unit, .zero = true },
		.bars = bars,
		.n = n };

	for (size_t i = 0; i < n; i++)
		bars[i] = (struct plot_bar){ .name = names[i],
			.value = values[i],
			.low = 1 };
	plot_add_bars(&r->plot, &all);
	free(bars);
}

/* --- the page ------------------------------------------------------------------------------- */

/* A column: the record's key, its heading, and by what the value is divided ("%": ppm as
 * percent). */
static const struct column {
	const char *key, *heading, *unit;
} columns[] = { { "world", "world", "" }, { "series", "series", "" },
	{ "policy", "policy", "" }, { "algorithm", "algorithm", "" },
	{ "steepness_ppm", "steepness", "1" }, { "load_ppm", "load", "1" },
	{ "lease_s", "mean lease", "h" }, { "gpus", "GPUs", "" }, { "runs", "runs", "" },
	{ "refused", "refused", "" }, { "best", "best in hindsight", "" },
	{ "revenue_ppm", "revenue", "%" }, { "mean_ppm", "mean", "%" },
	{ "p10_ppm", "tenth percentile", "%" }, { "worst_ppm", "worst", "%" },
	{ "busy_ppm", "busy", "%" }, { "changes_a_day_ppm", "changes a day", "1" },
	{ "changes_max", "most in a day", "" }, { "mean_s", "mean", "h" },
	{ "median_s", "median", "h" }, { "p99_s", "99th percentile", "h" },
	{ "wait_mean_s", "mean wait", "h" }, { "makespan_s", "makespan", "h" },
	{ "allocated_100_ppm", "allocated at 100%", "%" },
	{ "allocated_130_ppm", "at 130%", "%" },
	{ "fragments_80_ppm", "fragments at 80%", "%" } };
#define COLUMNS (sizeof columns / sizeof *columns)

static void add_value(struct buf *out, const struct column *c, const json_t *v)
{
	double number = (double)json_integer_value(v);
	char text[64] = "";

	if (json_is_string(v))
		snprintf(text, sizeof text, "%.60s", json_string_value(v));
	else if (json_is_integer(v) && *c->unit == '%')
		snprintf(text, sizeof text, "%.1f %%", number / 1e4);
	else if (json_is_integer(v) && *c->unit == '1')
		snprintf(text, sizeof text, "%.3g", number / 1e6);
	else if (json_is_integer(v) && *c->unit == 'h')
		snprintf(text, sizeof text, "%.2f h", number / 3600);
	else if (json_is_integer(v))
		snprintf(text, sizeof text, "%.0f", number);
	html_cell(out, c->heading, text);
}

static bool any_has(const json_t *records, const char *key)
{
	for (size_t i = 0; i < json_array_size(records); i++)
		if (json_object_get(json_array_get(records, i), key))
			return true;
	return false;
}

static void add_table(struct buf *out, const char *title, const json_t *records)
{
	struct buf headings = BUF_INIT;
	bool shown[COLUMNS];

	if (!json_array_size(records))
		return;
	for (size_t k = 0; k < COLUMNS; k++) {
		shown[k] = any_has(records, columns[k].key);
		if (shown[k])
			buf_addf(&headings, "%s%s", headings.len ? "|" : "",
				columns[k].heading);
	}
	buf_addf(out, "<h2>%s</h2>\n", title);
	html_table(out, buf_text(&headings));
	for (size_t i = 0; i < json_array_size(records); i++) {
		const json_t *r = json_array_get(records, i);

		buf_adds(out, "<tr>");
		for (size_t k = 0; k < COLUMNS; k++)
			if (shown[k])
				add_value(out, &columns[k],
					json_object_get(r, columns[k].key));
		buf_adds(out, "</tr>\n");
	}
	html_table_end(out);
	buf_release(&headings);
}

static int save_page(const struct backtest_report *r, const char *path,
	const char *command)
{
	struct buf out = BUF_INIT;
	int rc;

	html_begin(&out, "Backtest");
	buf_adds(&out,
		"<p>Played again with recorded prices, jobs or pods. The same command prints the "
		"same figures:</p>\n<pre>$ ");
	html_text(&out, command);
	buf_adds(&out, "</pre>\n");
	add_table(&out, "Results", r->records);
	plot_embed(&out, &r->plot, NULL);
	add_table(&out, "Each world", r->worlds);
	html_end(&out);
	rc = io_replace(path, out.data, out.len, 0644);
	buf_release(&out);
	return rc;
}

int backtest_report_save(const struct backtest_report *r, const char *plot_path,
	const char *html_path, const char *command)
{
	if (plot_path && plot_save(&r->plot, "Backtest", command, plot_path) < 0)
		return -1;
	return html_path ? save_page(r, html_path, command) : 0;
}

void backtest_report_release(struct backtest_report *r)
{
	plot_release(&r->plot);
	json_decref(r->records);
	json_decref(r->worlds);
}
