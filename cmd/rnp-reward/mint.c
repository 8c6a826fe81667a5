/* mint.c - rnp-reward mint: what the schedule mints, month by month; rnp-reward simulate:
 * supply over years. */
#include <stdlib.h>

#include "cmd/rnp-reward/commands.h"
#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/mem.h"
#include "common/base/money.h"
#include "common/base/num.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/json/json.h"
#include "common/json/schema.h"
#include "common/plot/plot.h"

#define YEARS_MAX          100
#define TOKEN              1e8
#define SCHEDULE_BYTES_MAX ((size_t)1 << 16)

static const char *schedule_path, *svg;
static int64_t month = -1, years = 60, burned = 0;

static const struct opt mint_options[] = {
	OPT(TEXT, "schedule", &schedule_path, "F",
		"the schedule of issuance, see rnp-json(5)", .required = true),
	OPT_EXAMPLE("a schedule"),
	OPT_IN(I64, "month", &month, "N", 1, 12 * YEARS_MAX,
		"only this month, counted from 1 (default: every month of --years)"),
	OPT_IN(I64, "years", &years, "N", 1, YEARS_MAX, "how many years (default 60)"),
	{ .kind = OPT_END },
};

static const struct opt simulate_options[] = {
	OPT(TEXT, "schedule", &schedule_path, "F",
		"the schedule of issuance, see rnp-json(5)", .required = true),
	OPT_EXAMPLE("a schedule"),
	OPT_IN(I64, "years", &years, "N", 1, YEARS_MAX, "how many years (default 60)"),
	OPT(RENDER, "burned", &burned, "TOKENS", "burned in each month (default 0)"),
	OPT(TEXT, "svg", &svg, "F", "draw the supply into this file"),
	{ .kind = OPT_END },
};

/* --- the schedule of issuance --------------------------------------------------------------- */

/* The amount minted depends only on the schedule and the month: no function here takes the burned
 * amount, and none may. Integers only. */
struct supply_schedule {
	int64_t start_base_units;       /* supply before the first month */
	int64_t first_month_base_units; /* minted in each month of the first year */
	int64_t damping_ppm;            /* from year to year, at most 10^6 */
	int64_t cap_ppm;       /* of the initial supply: the most that is ever minted */
	int64_t recycling_ppm; /* after the cap: fraction of the last full month's issuance */
};

struct supply_month {
	int64_t minted;   /* by the schedule */
	int64_t recycled; /* in addition, once the cap is reached */
	int64_t total;    /* minted by the schedule so far, at most the cap */
	int64_t left;     /* until the cap */
};

/* Computes what is minted in a month; 0 is the first. Pure. Each year's months mint those of the
 * year before times the damping, rounded down; the month in which the cap is reached gets the
 * remainder. */
static void supply_at(const struct supply_schedule *s, int at, struct supply_month *out)
{
	int64_t cap = muldiv_floor(s->start_base_units, s->cap_ppm, MONEY_PPM);
	int64_t rate = s->first_month_base_units, full = 0;

	*out = (struct supply_month){ .left = cap };
	for (int m = 0; m <= at; m++) {
		if (m && m % 12 == 0)
			rate = muldiv_floor(rate, s->damping_ppm, MONEY_PPM);
		out->recycled = out->left ?
			0 :
			muldiv_floor(full, s->recycling_ppm, MONEY_PPM);
		out->minted = rate < out->left ? rate : out->left;
		full = out->left ? rate : full;
		out->total += out->minted;
		out->left -= out->minted;
	}
}

static int read_one(const json_t *doc, const char *key, int decimals, int64_t max,
	int64_t *out)
{
	const char *text = json_string_value(json_object_get(doc, key));

	*out = 0;
	if (!text)
		return 0;
	if (num_decimal(text, key, decimals, 0, out) < 0)
		return -1;
	return *out < 0 || *out > max ? err_set(EX_DATAERR, "%s: is out of range", key) :
					0;
}

static int read_all(struct supply_schedule *s, const json_t *doc)
{
	if (read_one(doc, "supply", MONEY_RENDER_DECIMALS, INT64_MAX / 2,
		    &s->start_base_units) < 0 ||
		read_one(doc, "first_month", MONEY_RENDER_DECIMALS, INT64_MAX / 2,
			&s->first_month_base_units) < 0 ||
		read_one(doc, "damping", 6, MONEY_PPM, &s->damping_ppm) < 0 ||
		read_one(doc, "cap", 6, MONEY_PPM, &s->cap_ppm) < 0)
		return -1;
	return read_one(doc, "recycling", 6, MONEY_PPM, &s->recycling_ppm);
}

/* Reads an rnp.schedule: decimals in strings, which become whole base units and millionths.
 * Returns 0, or -1: 66, 65 naming the field. */
static int schedule_load(struct supply_schedule *s, const char *path)
{
	struct buf text = BUF_INIT;
	json_t *doc = NULL;
	int rc = -1;

	if (io_read(&text, path, SCHEDULE_BYTES_MAX) < 0)
		goto out;
	doc = json_parse_object(buf_text(&text), text.len, path);
	if (!doc || schema_check(doc, path, "rnp.schedule") < 0)
		goto out;
	rc = read_all(s, doc);
	if (rc < 0)
		err_add("%s", path);
out:
	json_decref(doc);
	buf_release(&text);
	return rc;
}

/* --- the commands --------------------------------------------------------------------------- */

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

/* Returns the supply after each month; the caller owns it. It is never below 0: only existing
 * tokens can be burned. NULL with err_set (65): it would be more than 2^63 base units. */
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
