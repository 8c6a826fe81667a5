/* rnp-bench report - figures as one page: tables and pictures, and how two machines compare. */
#include <string.h>

#include "cmd/rnp-bench/commands.h"
#include "cmd/rnp-bench/figures/pairs.h"
#include "cmd/rnp-bench/figures/picture.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/cli/html.h"
#include "common/cli/human.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/json/json.h"

static const char *html;

static const struct opt opts[] = {
	OPT(TEXT, "html", &html, "F", "the page: one file, whole by itself"),
	{ 0 },
};

static const char *text_of(const json_t *record, const char *key)
{
	const char *text = json_string_value(json_object_get(record, key));

	return text ? text : "";
}

static void add_number(struct buf *out, const char *heading, int64_t v, const char *unit)
{
	json_t *number = json_integer(v);
	struct buf text = BUF_INIT;

	human_value(&text, "median", number, unit, 0);
	html_cell(out, heading, buf_text(&text));
	json_decref(number);
	buf_release(&text);
}

static void add_interval(struct buf *out, const char *heading, struct figure f,
	const char *unit)
{
	json_t *low = json_integer(f.low), *high = json_integer(f.high);
	struct buf text = BUF_INIT;

	human_value(&text, "low", low, unit, 0);
	buf_adds(&text, " to ");
	human_value(&text, "high", high, unit, 0);
	html_cell(out, heading, text.data);
	json_decref(low);
	json_decref(high);
	buf_release(&text);
}

static void add_params(struct buf *out, const json_t *record)
{
	struct buf text = BUF_INIT;

	if (json_object_get(record, "params"))
		human_value(&text, "params", json_object_get(record, "params"), NULL, 0);
	html_open_cell(out, "With");
	html_name(out, buf_text(&text));
	buf_adds(out, "</td>");
	buf_release(&text);
}

static void add_figures(struct buf *out, const struct entries *e)
{
	html_table(out, "Suite|Test|Median|95% interval|Samples|With");
	for (size_t i = 0; i < e->n; i++) {
		const json_t *r = e->at[i].record;
		struct figure f = figure_of(r);
		const char *unit = text_of(r, "unit");

		buf_adds(out, "<tr>");
		html_cell(out, "Suite", text_of(r, "suite"));
		html_cell(out, "Test", text_of(r, "test"));
		add_number(out, "Median", f.median, unit);
		add_interval(out, "95% interval", f, unit);
		add_number(out, "Samples",
			json_integer_value(json_object_get(r, "samples")), NULL);
		add_params(out, r);
		buf_adds(out, "</tr>\n");
	}
	html_table_end(out);
}

/* A table of what both have; those that differ stand out. */
static void add_comparison(struct buf *out, const struct entries *old,
	const struct entries *new)
{
	size_t matched = 0;

	buf_adds(out, "<h2>Compared</h2>\n");
	html_table(out, "Suite|Test|First|Second|Change|Verdict");
	for (size_t i = 0; i < new->n; i++) {
		const json_t *r = new->at[i].record;
		const struct entry *before = entries_find(old, new->at[i].key);
		const char *unit = text_of(r, "unit"), *verdict;
		struct difference d;
		json_t *compared;

		if (!before)
			continue;
		matched++;
		d = difference_of(figure_of(before->record), figure_of(r),
			difference_smaller_is_better(unit));
		compared = compare_record(before->record, r, d);
		verdict = text_of(compared, "verdict");
		buf_adds(out, "<tr>");
		html_cell(out, "Suite", text_of(r, "suite"));
		html_cell(out, "Test", text_of(r, "test"));
		add_number(out, "First", figure_of(before->record).median, unit);
		add_number(out, "Second", figure_of(r).median, unit);
		html_open_cell(out, "Change");
		buf_addf(out, "%+.1f %%</td>", (double)d.change_ppm / 1e4);
		html_open_cell(out, "Verdict");
		buf_addf(out, "<span class=\"%s\">%s</span>: ",
			d.verdict == VERDICT_BETTER        ? "good" :
				d.verdict == VERDICT_WORSE ? "bad" :
							     "soft",
			verdict);
		html_text(out, text_of(compared, "why"));
		buf_adds(out, "</td></tr>\n");
		json_decref(compared);
	}
	html_table_end(out);
	if (!matched)
		buf_adds(out, "<p>The two files have no test in common.</p>\n");
}

static void add_machine(struct buf *out, const struct entries *e, const char *path)
{
	json_t *records = json_array();

	for (size_t i = 0; i < e->n; i++)
		json_push(records, json_incref(e->at[i].record));
	buf_adds(out, "<h2>");
	html_name(out, path);
	buf_adds(out, "</h2>\n<p>");
	html_name(out, e->n ? text_of(e->at[0].record, "device") : "");
	buf_addf(out, ", %s</p>\n", e->n ? text_of(e->at[0].record, "at") : "no records");
	add_figures(out, e);
	picture_write(out, records, path);
	json_decref(records);
}

static int write_page(const struct entries *files, int n, char **args)
{
	struct buf out = BUF_INIT;
	int rc;

	html_begin(&out, n == 2 ? "Two machines, measured" : "A machine, measured");
	if (n == 2)
		add_comparison(&out, &files[0], &files[1]);
	for (int i = 0; i < n; i++)
		add_machine(&out, &files[i], args[i]);
	html_end(&out);
	rc = io_replace(html, out.data, out.len, 0644);
	buf_release(&out);
	if (rc == 0)
		prog_info("wrote %s", html);
	return rc;
}

static int run(int n, char **args)
{
	struct entries files[2] = { { 0 }, { 0 } };
	int rc = html ? io_check_place(html) : 0;

	if (!html && n == 2)
		rc = err_set(EX_USAGE,
			"two files without --html F: rnp-bench compare tells how they differ");
	for (int i = 0; i < n && rc == 0; i++) {
		rc = entries_load(&files[i], args[i]);
		if (rc == 0 && !files[i].n)
			rc = err_set(EX_DATAERR, "%s: no rnp.bench records", args[i]);
	}
	if (rc == 0 && html)
		rc = write_page(files, n, args);
	for (size_t i = 0; i < files[0].n && rc == 0 && !html; i++)
		rc = out_record(files[0].at[i].record);
	entries_release(&files[0]);
	entries_release(&files[1]);
	return rc < 0 ? err_report() : EX_OK;
}

const struct command command_report = {
	.name = "report",
	.arguments = "FILE [FILE]",
	.args_min = 1,
	.args_max = 2,
	.summary = "Figures as one page with tables and pictures.",
	.details =
		"Reads rnp.bench records and writes them on, as rows for people. --html writes one HTML file\n"
		"without scripts, which loads nothing; of two files it also says which figures differ, and why\n"
		"or why not.",
	.columns = BENCH_COLUMNS,
	.opts = opts,
	.run = run,
};
