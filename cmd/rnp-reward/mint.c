/* mint.c - rnp-reward mint: what the schedule mints, month by month; rnp-reward simulate:
 * supply over years. */
#include <stdlib.h>

#include "cmd/rnp-reward/commands.h"
#include "cmd/rnp-reward/schedule.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/money.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/json/json.h"
#include "common/plot/plot.h"

#define YEARS_MAX 100
#define TOKEN     1e8

static const char *schedule_path, *svg;
static int64_t month = -1, years = 60, burned = 0;

static const struct opt mint_options[] = {
	{ .name = "schedule",
		.kind = OPT_TEXT,
		.required = true,
		.to = &schedule_path,
		.metavar = "F",
		.help = "the schedule of issuance, see rnp-json(5)" },
	OPT_EXAMPLE("a schedule"),
	{ .name = "month",
		.kind = OPT_I64,
		.to = &month,
		.metavar = "N",
		.help = "only this month, counted from 1 (default: every month of --years)",
		.min = 1,
		.max = 12 * YEARS_MAX },
	{ .name = "years",
		.kind = OPT_I64,
		.to = &years,
		.metavar = "N",
		.help = "how many years (default 60)",
		.min = 1,
		.max = YEARS_MAX },
	{ .kind = OPT_END },
};

static const struct opt simulate_options[] = {
	{ .name = "schedule",
		.kind = OPT_TEXT,
		.required = true,
		.to = &schedule_path,
		.metavar = "F",
		.help = "the schedule of issuance, see rnp-json(5)" },
	OPT_EXAMPLE("a schedule"),
	{ .name = "years",
		.kind = OPT_I64,
		.to = &years,
		.metavar = "N",
		.help = "how many years (default 60)",
		.min = 1,
		.max = YEARS_MAX },
	{ .name = "burned",
		.kind = OPT_RENDER,
		.to = &burned,
		.metavar = "TOKENS",
		.help = "burned in each month (default 0)" },
	{ .name = "svg",
		.kind = OPT_TEXT,
		.to = &svg,
		.metavar = "F",
		.help = "draw the supply into this file" },
	{ .kind = OPT_END },
};

static int write_month(const struct supply_schedule *s, int at, int64_t supply)
{
	json_t *record = json_record("rnp.supply");
	struct supply_month m;
	int rc;

	supply_at(s, at, &m);
	json_set_i64(record, "month", at + 1);
	json_set_i64(record, "minted_base_units", m.minted);
	json_set_i64(record, "recycled_base_units", m.recycled);
	json_set_i64(record, "total_minted_base_units", m.total);
	json_set_i64(record, "left_base_units", m.left);
	if (supply >= 0)
		json_set_i64(record, "supply_base_units", supply);
	rc = out_record(record);
	json_decref(record);
	return rc;
}

static int run_mint(int n, char **args)
{
	struct supply_schedule s;
	int rc = schedule_load(&s, schedule_path);

	(void)n;
	(void)args;
	if (rc == 0 && month > 0)
		rc = write_month(&s, (int)month - 1, -1);
	for (int at = 0; at < 12 * years && month < 0 && rc == 0; at++)
		rc = write_month(&s, at, -1);
	return rc < 0 ? err_report() : EX_OK;
}

/* Supply after each month, never below 0: only existing tokens can be burned. NULL with err_set
 * (65): more than 2^63 base units. */
static int64_t *run_months(const struct supply_schedule *s, int months)
{
	int64_t *supply = xmalloc((size_t)months * sizeof *supply),
		now = s->start_base_units;

	for (int at = 0; at < months; at++) {
		struct supply_month m;

		supply_at(s, at, &m);
		if (__builtin_add_overflow(now, m.minted, &now) ||
			__builtin_add_overflow(now, m.recycled, &now)) {
			err_set(EX_DATAERR,
				"%s: the supply of month %d does not fit 64 bits",
				schedule_path, at + 1);
			free(supply);
			return NULL;
		}
		now -= burned < now ? burned : now;
		supply[at] = now;
	}
	return supply;
}

static int draw(const int64_t *supply, int months)
{
	double *x = xmalloc((size_t)months * sizeof *x),
	       *y = xmalloc((size_t)months * sizeof *y);
	struct plot_line line = { .name = "supply",
		.style = PLOT_CURVE,
		.n = (size_t)months,
		.x = x,
		.y = y };
	struct plot_chart chart = { .title = "Supply of tokens",
		.x = { .label = "year" },
		.y = { .label = "tokens", .zero = true },
		.lines = &line,
		.n = 1 };
	struct plot p = PLOT_INIT;
	int rc;

	for (int at = 0; at < months; at++) {
		x[at] = (at + 1) / 12.0;
		y[at] = (double)supply[at] / TOKEN;
	}
	plot_add_chart(&p, &chart);
	rc = plot_save(&p, chart.title,
		"What is minted never depends on what was burned.", svg);
	plot_release(&p);
	free(x);
	free(y);
	return rc;
}

static int run_simulate(int n, char **args)
{
	struct supply_schedule s;
	int rc = schedule_load(&s, schedule_path), months = (int)(12 * years);
	int64_t *supply = NULL;

	(void)n;
	(void)args;
	if (rc == 0) {
		supply = run_months(&s, months);
		rc = !supply ? -1 : svg ? draw(supply, months) : 0;
	}
	for (int at = 11; at < months && rc == 0; at += 12)
		rc = write_month(&s, at, supply[at]);
	free(supply);
	return rc < 0 ? err_report() : EX_OK;
}

static const char schedule_example[] =
	"{\n"
	"  \"kind\": \"rnp.schedule\",\n"
	"  \"v\": 1,\n"
	"  \"title\": \"a first month of 100,000 tokens, each year 0.8 of the one before\",\n"
	"  \"notes\": [\"cap: the most that is ever minted, as a part of supply\",\n"
	"    \"recycling: after the cap, as a part of the last full month\"],\n"
	"  \"supply\": \"10000000\",\n"
	"  \"first_month\": \"100000\",\n"
	"  \"damping\": \"0.8\",\n"
	"  \"cap\": \"0.5\",\n"
	"  \"recycling\": \"0.1\"\n"
	"}\n";

const struct command command_mint = {
	.name = "mint",
	.example = schedule_example,
	.summary = "What the schedule of issuance mints, month by month.",
	.details =
		"Writes one rnp.supply for each month. What is minted never depends on what was\n"
		"burned.",
	.columns =
		"month,minted_base_units,recycled_base_units,total_minted_base_units,left_base_units",
	.opts = mint_options,
	.run = run_mint,
};

const struct command command_simulate = {
	.name = "simulate",
	.example = schedule_example,
	.summary = "The supply of tokens over many years, with a steady burn.",
	.details = "Writes the rnp.supply of the last month of each year.",
	.columns = "month,minted_base_units,total_minted_base_units,supply_base_units",
	.opts = simulate_options,
	.run = run_simulate,
};
