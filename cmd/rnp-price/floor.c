/* floor.c - rnp-price floor: the lowest price at which a node does not lose money. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd/rnp-price/commands.h"
#include "cmd/rnp-price/cost/price_table.h"
#include "cmd/rnp-price/cost/priced_node.h"
#include "common/base/amount.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/json/json.h"
#include "common/base/lines.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/hw/power.h"
#include "common/json/schema.h"
#include "common/record/policy.h"

static const char *costs_path, *policy_name;
static int64_t price_uusd = -1; /* not given */
static int64_t measure_ms, unmetered;
static bool explain, strict, example;

static const struct opt options[] = {
	OPT(TEXT, "costs", &costs_path, "F",
		"what power, hardware and network cost, see rnp-price(1)",
		.setting = true),
	OPT(TEXT, "policy", &policy_name, "P",
		"print a policy's table of break-even prices instead: rnp-004",
		.words = POLICY_NAMES),
	OPT(USD, "price", &price_uusd, "USD",
		"what an hour sells for, for break_even_days (default: the floor)"),
	OPT_IN(DURATION, "measure", &measure_ms, "D", 1000, 3600000,
		"take what GPUs and CPUs draw now, over D, for watts_load"),
	OPT(I64, "unmetered", &unmetered, "WATTS",
		"with --measure: what no meter sees, as fans and the power supply",
		.max = 1000000),
	OPT_SWITCH("explain", &explain, "add each step in why[]"),
	OPT_SWITCH("strict", &strict,
		"refuse amounts that are far from all that is usual, as setup does"),
	OPT_SWITCH("example", &example,
		"print a file of costs to begin with, and nothing else"),
	{ .kind = OPT_END },
};

struct context {
	struct costs costs;
	struct cost_floor floor;
	struct power_reading power; /* .ms 0: not measured */
	int64_t given_watts;        /* watts_load of the costs */
	int64_t now_ms;
};

static void add_measured(json_t *r, json_t *why, const struct context *c)
{
	const struct power_reading *p = &c->power;
	json_t *m = json_object();
	char line[200];
	int n;

	json_set_i64(m, "watts", c->costs.watts_load);
	json_set_i64(m, "ms", p->ms);
	if (p->gpu_mw >= 0)
		json_set_i64(m, "gpu_mw", p->gpu_mw);
	if (p->cpu_mw >= 0)
		json_set_i64(m, "cpu_mw", p->cpu_mw);
	json_set_i64(m, "unmetered_watts", unmetered);
	json_set_i64(m, "costs_watts", c->given_watts);
	json_set(r, "measured", m);
	if (!explain)
		return;
	n = snprintf(line, sizeof line, "measured:");
	if (p->gpu_mw >= 0)
		n += snprintf(line + n, sizeof line - (size_t)n, " %d GPUs %.1f W,",
			p->gpus, (double)p->gpu_mw / 1000);
	if (p->cpu_mw >= 0)
		n += snprintf(line + n, sizeof line - (size_t)n,
			" CPUs and memory %.1f W,", (double)p->cpu_mw / 1000);
	snprintf(line + n, sizeof line - (size_t)n,
		" %lld W that no meter sees: %lld W over %.1f s; the costs say %lld W",
		(long long)unmetered, (long long)c->costs.watts_load,
		(double)p->ms / 1000, (long long)c->given_watts);
	json_push_text(why, line);
}

static int write_floor(const struct context *c, const char *node)
{
	const struct cost_floor *f = &c->floor;
	json_t *r = json_record("rnp.floor"), *terms = json_object(), *why = json_array();
	int64_t price = price_uusd >= 0 ? price_uusd : f->floor_uusd;
	int64_t days = cost_break_even_days(&c->costs, f, price);
	int rc;

	json_set_text(r, "node", node);
	json_set_time(r, "at", c->now_ms);
	json_set_i64(r, "floor_uusd", f->floor_uusd);
	json_set_i64(terms, "energy_uusd", f->energy_uusd);
	json_set_i64(terms, "depreciation_uusd", f->depreciation_uusd);
	json_set_i64(terms, "network_uusd", f->network_uusd);
	json_set_i64(terms, "margin_uusd", f->margin_uusd);
	json_set_i64(terms, "fee_uusd", f->fee_uusd);
	json_set(r, "terms", terms);
	json_set_i64(r, "idle_uusd", f->idle_uusd);
	json_set_i64(r, "hour", c->costs.first_hour);
	if (days >= 0)
		json_set_i64(r, "break_even_days", days);
	if (c->power.ms)
		add_measured(r, why, c);
	if (explain)
		cost_explain(why, &c->costs, 0, f);
	if (days < 0) {
		char line[120];

		snprintf(line, sizeof line,
			"break-even: never at %s $/h, which leaves nothing for the hardware",
			cost_usd(price));
		json_push_text(why, line);
	}
	if (json_array_size(why))
		json_set(r, "why", json_incref(why));
	rc = out_record(r);
	json_decref(why);
	json_decref(r);
	return rc;
}

/* Writes one record per node. If there are none on standard input, one from the costs alone. */
static int floors(const struct context *c, int n, char **args)
{
	struct lines in;
	char *line;
	size_t len;
	long nodes = 0;
	int rc = 0;

	if (!n && isatty(STDIN_FILENO))
		return write_floor(c, NULL);
	lines_open(&in, args, n, JSON_RECORD_BYTES_MAX);
	while (rc == 0 && (rc = lines_next(&in, &line, &len)) > 0) {
		const char *where = lines_where(&in), *node = NULL;
		json_t *r = json_parse_object(line, len, where);

		rc = -1;
		if (r && schema_check(r, where, "rnp.node") == 0 &&
			json_opt_text(r, where, "node", &node) == 0)
			rc = write_floor(c, node);
		json_decref(r);
		nodes++;
	}
	lines_close(&in);
	if (rc == 0 && !nodes)
		rc = write_floor(c, NULL);
	return rc;
}

static int write_table(void)
{
	struct policy p = POLICY_INIT;
	json_t *table = NULL, *r;
	size_t i;
	int rc = policy_load(&p, policy_name);

	out_columns("gpu_model,msrp_uusd,daily_rounded_uusd,hourly_rounded_uusd,"
		    "break_even_days");
	if (rc == 0)
		table = price_table(&p);
	if (!table)
		rc = -1;
	json_array_foreach(table, i, r) {
		rc = out_record(r);
		if (rc < 0)
			break;
	}
	json_decref(table);
	policy_release(&p);
	return rc;
}

/* Puts what the machine draws now in the place of what the costs say. */
static int measure(struct context *c)
{
	struct hw_causes why = { .n = 0 };
	int64_t mw = 0;

	if (power_measure(measure_ms, &c->power, &why) < 0)
		return -1;
	for (int i = 0; i < why.n; i++)
		prog_warn("not metered: %s: %s", why.at[i].field, why.at[i].cause);
	mw += c->power.gpu_mw > 0 ? c->power.gpu_mw : 0;
	mw += c->power.cpu_mw > 0 ? c->power.cpu_mw : 0;
	c->given_watts = c->costs.watts_load;
	c->costs.watts_load = (mw + 999) / 1000 + unmetered;
	if (c->costs.watts_load < c->costs.watts_idle)
		prog_warn(
			"measured are %lld W, under the costs' watts_idle of %lld W: is the node at work?",
			(long long)c->costs.watts_load, (long long)c->costs.watts_idle);
	return 0;
}

static int run(int n, char **args)
{
	struct context c = { .power.ms = 0 };

	if (example)
		return out_text(cost_example, strlen(cost_example)) < 0 ? err_report() :
									  0;
	if (!costs_path == !policy_name) {
		err_set(EX_USAGE, "one of --costs and --policy is wanted");
		return err_report();
	}
	if (policy_name && (n || price_uusd >= 0 || measure_ms)) {
		err_set(EX_USAGE,
			"--policy takes neither files nor --price nor --measure");
		return err_report();
	}
	if (unmetered && !measure_ms) {
		err_set(EX_USAGE, "--unmetered is for --measure");
		return err_report();
	}
	if (policy_name)
		return write_table() < 0 ? err_report() : 0;
	c.now_ms = clock_now_ms();
	if (strict)
		amount_refuse_doubtful();
	if (cost_load(&c.costs, costs_path, c.now_ms) < 0)
		return err_report();
	if (measure_ms && measure(&c) < 0)
		return err_report();
	if (cost_floor(&c.costs, 0, &c.floor) < 0)
		return err_report();
	if (!c.floor.floor_uusd)
		prog_warn("%s: the floor is 0 USD: a node may then be had for nothing",
			costs_path);
	if (floors(&c, n, args) < 0)
		return err_report();
	return 0;
}

const struct command command_floor = {
	.name = "floor",
	.arguments = "[file ...]",
	.args_max = -1,
	.summary = "The lowest price at which a node does not lose money.",
	.details =
		"Reads rnp.node records, writes one rnp.floor record each; without any, one of the\n"
		"costs alone. Costs are those of the whole node.",
	.columns = "node,floor_uusd,terms.energy_uusd,terms.depreciation_uusd,"
		   "terms.network_uusd,terms.margin_uusd,terms.fee_uusd,idle_uusd,"
		   "break_even_days",
	.card = true,
	.opts = options,
	.run = run,
};
