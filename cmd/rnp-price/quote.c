/* quote.c - rnp-price quote: sets the price of a node, below its rivals but not below its
 * floor. long because its options and all that it reads are here. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-price/commands.h"
#include "cmd/rnp-price/fit_record.h"
#include "cmd/rnp-price/leases.h"
#include "cmd/rnp-price/priced_node.h"
#include "cmd/rnp-price/quote_core.h"
#include "cmd/rnp-price/quote_state.h"
#include "cmd/rnp-price/render.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/json/json.h"
#include "common/base/money.h"
#include "common/cli/out.h"
#include "common/record/policy.h"
#include "common/cli/prog.h"
#include "common/cli/records.h"
#include "common/json/schema.h"

#define MINUTE_HOURS (1.0 / 60)
#define FEE_PPM_MAX  500000
#define UNSIGNED     "unsigned" /* key of a node without an address in the state */

static const char *node_path, *bench_path, *costs_path, *state_path, *policy_name;
static const char *fit_path, *fit_market;
static struct quote_rules rules = {
	.undercut_ppm = 10000,
	.reliability_ppm = 900000,
	.hysteresis_ppm = 20000,
};
static const char *render_text;
static const char *leases_path;
static int64_t hours, units = 1, peak_ppm;
static const char *surcharges = "rnp-004";
static bool floor_if_empty, split;

static const struct opt options[] = {
	OPT_PRICED_NODE(&node_path),
	OPT_COSTS(&costs_path),
	{ .name = "bench",
		.kind = OPT_TEXT,
		.to = &bench_path,
		.metavar = "F",
		.help = "rnp.bench records: the speed of a GPU that is not in our table" },
	{ .name = "fit",
		.kind = OPT_TEXT,
		.to = &fit_path,
		.metavar = "F",
		.help = "an rnp.fit record: the price where there is no rival, and what a rival has to be believed against" },
	{ .name = "market",
		.kind = OPT_TEXT,
		.to = &fit_market,
		.metavar = "M",
		.help = "with --fit: the market whose level counts (default: their mean)" },
	{ .name = "state",
		.kind = OPT_TEXT,
		.to = &state_path,
		.metavar = "DB",
		.help = "keep the last price here, and change it only for a reason" },
	{ .name = "leases",
		.kind = OPT_TEXT,
		.to = &leases_path,
		.metavar = "F",
		.help = "with --state: rnp.lease records of the node, to learn from its customers" },
	{ .name = "units",
		.kind = OPT_I64,
		.to = &units,
		.metavar = "N",
		.min = 1,
		.max = 1024,
		.help = "with --leases: how many may run at a time (default 1)" },
	{ .name = "policy",
		.kind = OPT_TEXT,
		.to = &policy_name,
		.metavar = "P",
		.help = "network fee and reference chip (default rnp-021)" },
	{ .name = "surcharges",
		.kind = OPT_TEXT,
		.to = &surcharges,
		.metavar = "P",
		.help = "policy whose surcharges compare links (default rnp-004; none: links are alike)" },
	{ .name = "peak",
		.kind = OPT_I64,
		.to = &peak_ppm,
		.metavar = "PPM",
		.min = 0,
		.max = 10000000,
		.help = "ask so much more in the hours of the node's label peak_hours" },
	{ .name = "undercut",
		.kind = OPT_I64,
		.to = &rules.undercut_ppm,
		.metavar = "PPM",
		.min = 0,
		.max = 500000,
		.help = "how far under the lowest rival (default 10000: 1%)" },
	{ .name = "hysteresis",
		.kind = OPT_I64,
		.to = &rules.hysteresis_ppm,
		.metavar = "PPM",
		.min = 0,
		.max = 1000000,
		.help = "with --state: make no smaller change (default 20000: 2%)" },
	OPT_MIN_RELIABILITY(&rules.reliability_ppm),
	{ .name = "hours",
		.kind = OPT_I64,
		.to = &hours,
		.metavar = "N",
		.min = 1,
		.max = 87600,
		.help = "add what a job of N hours comes to" },
	{ .name = "render",
		.kind = OPT_TEXT,
		.to = &render_text,
		.metavar = "P",
		.help = "add amounts in RENDER: its price in dollars, or a file with an rnp.price record" },
	{ .name = "split",
		.kind = OPT_FLAG,
		.to = &split,
		.help = "add what the GPUs would ask in equal parts, and which split earns most" },
	{ .name = "floor-if-empty",
		.kind = OPT_FLAG,
		.to = &floor_if_empty,
		.help = "without any evidence of a price ask the floor (default: exit 75)" },
	OPT_WATCH,
	{ .kind = OPT_END },
};

struct session {
	struct priced_node node;
	struct costs costs;
	struct cost_floor floor;
	struct policy policy;
	struct offer_list offers;
	struct quote_state state;
	struct quote_input in;
	struct leases leases;
	struct fit fit;
	struct fit_price fitted;
	struct worth worth;
	bool *seen, *follows;
	struct quote quote;
	int64_t render_uusd; /* price of a RENDER; 0: not given */
	int64_t now_ms;
};

/* --- what is read ------------------------------------------------------------------------- */

static int read_node(struct session *s)
{
	const struct priced_node *n = &s->node;

	if (priced_node_read(&s->node, node_path) < 0)
		return -1;
	s->in.gpu_count = n->gpus;
	s->in.gpu_model = n->model;
	s->in.known = n->known;
	s->in.no_gpu = n->no_gpu;
	if (n->model && n->known)
		s->in.f32_gflops = n->known->f32_gflops;
	else if (n->model)
		prog_warn("%s: gpus[0].model: '%.100s' is not in our table", node_path,
			n->model);
	return 0;
}

/* measured f32 speed of the GPU, for a chip whose data sheet is unknown */
static int use_bench(void *session, const struct record *record)
{
	struct session *s = session;
	const json_t *r = record->json;
	const char *suite, *test, *unit;
	int64_t median;

	if (schema_check(r, record->where, "rnp.bench") < 0 ||
		json_get_text(r, record->where, "suite", &suite) < 0 ||
		json_get_text(r, record->where, "test", &test) < 0 ||
		json_get_text(r, record->where, "unit", &unit) < 0 ||
		json_get_i64(r, record->where, "median", 0, JSON_SAFE_INTEGER_MAX,
			&median) < 0)
		return -1;
	if (!s->in.f32_gflops && s->in.gpu_model && strcmp(suite, "gpu") == 0 &&
		strstr(test, "f32") && strcmp(unit, "FLOP/s") == 0)
		s->in.f32_gflops = median / 1000000000;
	return 0;
}

static int read_policy(struct session *s)
{
	const char *name = policy_name ? policy_name : "rnp-021";
	const json_t *prices;

	if (policy_load(&s->policy, name) < 0)
		return -1;
	prices = json_object_get(s->policy.doc, "prices");
	if (!json_object_get(prices, "fee_ppm"))
		return err_set(EX_DATAERR, "policy '%s' has no prices.fee_ppm",
			s->policy.name);
	rules.fee_ppm = json_integer_value(json_object_get(prices, "fee_ppm"));
	if (rules.fee_ppm > FEE_PPM_MAX)
		return err_set(EX_DATAERR,
			"policy '%s': prices.fee_ppm: %lld is more than a half",
			s->policy.name, (long long)rules.fee_ppm);
	rules.reference = json_string_value(json_object_get(prices, "reference_model"));
	return 0;
}

/* --- links, places, hours -------------------------------------------------------------------- */

static int64_t link_of(const struct session *s, const char *key)
{
	const json_t *v = json_object_get(json_object_get(s->node.record, "network"),
		key);

	return json_is_integer(v) ? (int64_t)json_integer_value(v) : WORTH_UNKNOWN;
}

static const char *label_of(const struct session *s, const char *key)
{
	return json_string_value(
		json_object_get(json_object_get(s->node.record, "labels"), key));
}

static int read_surcharges(struct session *s)
{
	struct policy p = POLICY_INIT;
	const json_t *tiers = NULL;

	if (strcmp(surcharges, "none") != 0) {
		if (policy_load(&p, surcharges) < 0)
			return -1;
		tiers = json_object_get(json_object_get(p.doc, "prices"), "connectivity");
		if (!tiers) {
			err_set(EX_DATAERR, "policy '%s' has no prices.connectivity",
				p.name);
			policy_release(&p);
			return -1;
		}
	}
	worth_init(&s->worth, tiers, link_of(s, "down_bps"), link_of(s, "up_bps"));
	policy_release(&p);
	s->worth.country = label_of(s, "country");
	s->in.worth = &s->worth;
	return 0;
}

/* Whether an hour of the day lies in "17-22" or "22-6", which goes over midnight. The schema has
 * checked the form. */
static bool is_peak(const char *span, int hour)
{
	int from, to;

	if (!span || sscanf(span, "%d-%d", &from, &to) != 2)
		return false;
	return from < to ? hour >= from && hour < to : hour >= from || hour < to;
}

static int read_peak(struct session *s)
{
	const char *span = label_of(s, "peak_hours");

	if (!peak_ppm)
		return 0;
	if (!span)
		return err_set(EX_DATAERR,
			"%s: --peak, and the node has no label peak_hours", node_path);
	if (is_peak(span, (int)(s->now_ms / 3600000 % 24)))
		s->in.peak_ppm = peak_ppm;
	return 0;
}

/* --- what is written ---------------------------------------------------------------------- */

static json_t *spec_of(const struct session *s)
{
	json_t *spec = json_object();
	const char *country = json_string_value(
		json_object_get(json_object_get(s->node.record, "labels"), "country"));

	json_set_text(spec, "gpu_model", s->in.gpu_model);
	json_set_i64(spec, "gpu_count", s->in.gpu_count);
	if (s->node.memory_bytes)
		json_set_i64(spec, "gpu_memory_bytes", s->node.memory_bytes);
	if (s->in.f32_gflops)
		json_set_i64(spec, "f32_gflops", s->in.f32_gflops);
	json_set_text(spec, "country", country);
	return spec;
}

/* how busy the node will be, at this price and just below its rival */
static json_t *occupancy_of(const struct session *s)
{
	json_t *o = json_object();

	json_set_i64(o, "expected", (int64_t)(s->quote.occupancy * 1e6 + 0.5));
	json_set_i64(o, "just_under", (int64_t)(s->quote.occupancy_under * 1e6 + 0.5));
	json_set_i64(o, "mean_lease_s",
		(int64_t)(demand_mean_lease(s->in.demand) * 3600));
	return o;
}

/* the fit's price of the whole node */
static json_t *fitted_of(const struct session *s)
{
	json_t *m = json_object();

	json_set_i64(m, "low", s->in.low_uusd * s->in.gpu_count);
	json_set_i64(m, "mid", s->in.mid_uusd * s->in.gpu_count);
	json_set_i64(m, "high", s->in.high_uusd * s->in.gpu_count);
	json_set_bool(m, "market_known", s->fitted.market_known);
	json_set_bool(m, "model_known", s->fitted.model_known);
	return m;
}

/* What the node would ask in equal parts, and the split that earns most. */
static void add_splits(json_t *r, json_t *why, const struct session *s)
{
	struct quote_split splits[QUOTE_SPLITS_MAX];
	size_t best,
		n = s->in.gpu_model ? quote_splits(splits, &s->in, &rules, &best) : 0;
	json_t *list = json_array();
	char line[200];

	for (size_t i = 0; i < n; i++) {
		json_t *o = json_object();

		json_set_i64(o, "gpus", splits[i].gpus);
		json_set_i64(o, "parts", splits[i].parts);
		json_set_i64(o, "ask_uusd", splits[i].ask_uusd);
		json_set_i64(o, "customer_uusd", splits[i].customer_uusd);
		json_set_i64(o, "floor_uusd", splits[i].floor_uusd);
		json_set_i64(o, "rival_uusd", splits[i].rival_uusd);
		json_set_i64(o, "total_uusd", splits[i].total_uusd);
		json_push(list, o);
	}
	json_set(r, "splits", list);
	if (!n) {
		json_push_text(why,
			"split: no market sells these GPUs in any equal parts");
		return;
	}
	json_set_i64(r, "sell_gpus", splits[best].gpus);
	snprintf(line, sizeof line, "split: %lld of %lld GPUs each ask %s $/h together",
		(long long)splits[best].parts, (long long)splits[best].gpus,
		cost_usd(splits[best].total_uusd));
	json_push_text(why, line);
}

/* RNP-021: the node's part of a job's price is burned, the rest is the operator fee. */
static int add_job(json_t *r, int64_t ask_uusd)
{
	json_t *job;
	int64_t burn, customer;

	if (money_muldiv(ask_uusd, hours, 1, MONEY_FLOOR, &burn) < 0)
		return -1;
	if (burn > JSON_SAFE_INTEGER_MAX)
		return err_set(EX_DATAERR, "the job's price is beyond every amount");
	customer = quote_customer(burn, rules.fee_ppm);
	job = json_object();
	json_set_i64(job, "hours", hours);
	json_set_i64(job, "customer_uusd", customer);
	json_set_i64(job, "burn_uusd", burn);
	json_set_i64(job, "fee_uusd", customer - burn);
	json_set(r, "job", job);
	return 0;
}

/* the same amounts in 10^-8 RENDER */
static json_t *in_render(const struct quote *q, int64_t price_uusd)
{
	json_t *o = json_object();

	json_set_i64(o, "price_uusd", price_uusd);
	json_set_i64(o, "ask_base_units", render_base_units(q->ask_uusd, price_uusd));
	json_set_i64(o, "customer_base_units",
		render_base_units(q->customer_uusd, price_uusd));
	return o;
}

static int write_quote(const struct session *s)
{
	const struct quote *q = &s->quote;
	json_t *r = json_record("rnp.quote"), *why = json_array();
	int rc = 0;

	json_set_text(r, "node", s->node.address);
	json_set_time(r, "at", s->now_ms);
	json_set_i64(r, "ask_uusd", q->ask_uusd);
	json_set_i64(r, "customer_uusd", q->customer_uusd);
	json_set_i64(r, "fee_uusd", q->customer_uusd - q->ask_uusd);
	json_set_i64(r, "floor_uusd", q->floor_uusd);
	if (q->rival_uusd >= 0)
		json_set_i64(r, "rival_uusd", q->rival_uusd);
	if (q->worth_uusd != q->rival_uusd)
		json_set_i64(r, "rival_worth_uusd", q->worth_uusd);
	if (s->worth.surcharge_ppm >= 0)
		json_set_i64(r, "surcharge_ppm", s->worth.surcharge_ppm);
	if (q->proportion_uusd >= 0)
		json_set_i64(r, "proportion_uusd", q->proportion_uusd);
	if (s->in.mid_uusd >= 0)
		json_set(r, "model_uusd", fitted_of(s));
	if (q->occupancy >= 0)
		json_set(r, "occupancy_ppm", occupancy_of(s));
	if (q->held && s->in.held_hours < demand_rules_default.hold_hours)
		json_set_time(r, "until",
			s->state.changed_ms +
				(int64_t)(demand_rules_default.hold_hours * 3600000));
	json_set(r, "spec", spec_of(s));
	if (hours)
		rc = add_job(r, q->ask_uusd);
	if (s->render_uusd)
		json_set(r, "render", in_render(q, s->render_uusd));
	cost_explain(why, &s->costs, 0, &s->floor);
	json_array_extend(why, q->why);
	if (split)
		add_splits(r, why, s);
	json_set(r, "why", why);
	if (rc == 0)
		rc = out_record(r);
	json_decref(r);
	return rc;
}

static int read_costs(struct session *s)
{
	if (priced_node_costs(&s->costs, costs_path, s->now_ms) < 0)
		return -1;
	return cost_floor(&s->costs, 0, &s->floor);
}

/* The price of a GPU like the node's according to the fit, if enough is known of it. */
static int ask_fit(struct session *s)
{
	struct fit_question q = { .model = s->in.known,
		.memory_bytes = s->node.memory_bytes,
		.gpu_count = s->in.gpu_count,
		.market = fit_market,
		.country = json_string_value(
			json_object_get(json_object_get(s->node.record, "labels"),
				"country")) };

	if (fit_load(&s->fit, fit_path) < 0)
		return -1;
	s->worth.fit = &s->fit;
	if (!fit_price(&s->fit, &q, &s->fitted))
		return 0;
	s->in.low_uusd = s->fitted.low_uusd;
	s->in.mid_uusd = s->fitted.mid_uusd;
	s->in.high_uusd = s->fitted.high_uusd;
	return 0;
}

/* Without evidence of a price the last one stays, and the exit code says that nothing is new. */
static int write_blind(const struct session *s)
{
	if (s->in.last_ask_uusd >= 0) {
		if (write_quote(s) < 0)
			return -1;
		return err_set(EX_TEMPFAIL,
			"no comparable offer among %zu: the last price stands",
			s->offers.n);
	}
	err_set(EX_TEMPFAIL, "no comparable offer among %zu, and no last price",
		s->offers.n);
	return err_hint("with --floor-if-empty the node asks its floor");
}

/* Learns from the customers since the last run, at the price that they saw, against the present
 * rivals. A first run only learns how long leases are. */
static int learn(struct session *s, const struct rivals_question *market)
{
	struct quote_state *state = &s->state;
	bool first = state->learned_ms < 0;
	int64_t from = first ? 0 : state->learned_ms;
	struct leases_between b = leases_between(&s->leases, from, s->now_ms);
	int64_t busy = leases_between(&s->leases, from, from).running;
	struct demand_market seen = { 0 };
	struct rivals r;

	if (!first && s->now_ms > from && state->last_ask_uusd >= 0) {
		double dt_hours = (double)(s->now_ms - from) / 3600000, idle_hours;
		int64_t idle = units - busy;

		if (idle < b.began)
			/* a unit whose lease ended and began again was idle in between */
			idle = b.began;
		/* the time for which units were available */
		idle_hours = (double)units * dt_hours - b.hours;
		if (idle)
			dt_hours = idle_hours / (double)idle;
		if (dt_hours < MINUTE_HOURS)
			dt_hours = MINUTE_HOURS;
		rivals_find(&r, market);
		quote_market(&seen, &s->in, &r);
		rivals_release(&r);
		demand_observe(&state->demand, &seen,
			(double)quote_customer(state->last_ask_uusd, rules.fee_ppm),
			(double)idle, (double)b.began, dt_hours);
	}
	demand_lease(&state->demand, b.hours, false);
	for (int64_t i = 0; i < b.ended; i++)
		demand_lease(&state->demand, 0, true);
	s->in.demand = &state->demand;
	s->in.idle = (double)(units - b.running);
	s->in.units = (double)units;
	return quote_state_learned(state);
}

/* What earlier snapshots tell of the hosts. */
static int read_history(struct session *s, struct rivals_question *market)
{
	if (quote_state_seen(&s->state, market, &s->seen) < 0)
		return -1;
	s->in.seen = market->seen = s->seen;
	if (quote_state_follows(&s->state, market, rules.fee_ppm, &s->follows,
		    &s->in.followers) < 0)
		return -1;
	s->in.follows = market->follows = s->follows;
	return 0;
}

/* Computes the price and writes the record; with a state, reads it before and updates it after. */
static int price(struct session *s)
{
	struct rivals_question market = { .gpu_model = s->in.gpu_model,
		.known = s->in.known,
		.gpu_count = s->in.gpu_count,
		.reliability_ppm = rules.reliability_ppm,
		.low_uusd = s->in.low_uusd,
		.offers = &s->offers };

	if (state_path) {
		if (quote_state_open(&s->state, state_path,
			    s->node.address ? s->node.address : UNSIGNED, s->now_ms) < 0)
			return -1;
		s->in.last_ask_uusd = s->state.last_ask_uusd;
		s->in.changes_today = (int)s->state.changes_today;
		s->in.held_hours = s->state.changed_ms < 0 ?
			1e6 :
			(double)(s->now_ms - s->state.changed_ms) / 3600000;
		if (s->in.gpu_model && read_history(s, &market) < 0)
			return -1;
	}
	if (leases_path && s->in.gpu_model && learn(s, &market) < 0)
		return -1;
	quote_price(&s->quote, &s->in, &rules);
	if (s->quote.basis == QUOTE_BLIND && !floor_if_empty)
		return write_blind(s);
	if (state_path && quote_state_save(&s->state, &market, &s->quote) < 0)
		return -1;
	return write_quote(s);
}

static int quote(struct session *s, int n, char **args)
{
	if (render_text && render_price(render_text, &s->render_uusd) < 0)
		return -1;
	if (read_node(s) < 0 || read_costs(s) < 0 || read_policy(s) < 0 ||
		read_surcharges(s) < 0 || read_peak(s) < 0)
		return -1;
	if (bench_path &&
		records_each((char **)&bench_path, 1, JSON_RECORD_BYTES_MAX, use_bench,
			s) < 0)
		return -1;
	if (offer_list_read(&s->offers, args, n) < 0)
		return -1;
	s->in.floor_uusd = s->floor.floor_uusd;
	s->in.last_ask_uusd = s->in.low_uusd = s->in.mid_uusd = s->in.high_uusd =
		QUOTE_NONE;
	s->in.offers = &s->offers;
	s->in.working_uusd = s->floor.energy_uusd + s->floor.network_uusd -
		s->floor.idle_uusd;
	if (s->in.working_uusd < 0)
		s->in.working_uusd = 0;
	if (leases_path && leases_read(&s->leases, leases_path) < 0)
		return -1;
	if (fit_path && ask_fit(s) < 0)
		return -1;
	return price(s);
}

/* only one of the inputs can be standard input */
static int check_stdin(int n, char **args)
{
	int times = n == 0;

	for (int i = 0; i < n; i++)
		times += strcmp(args[i], "-") == 0;
	times += strcmp(node_path, "-") == 0;
	times += strcmp(costs_path, "-") == 0;
	times += bench_path && strcmp(bench_path, "-") == 0;
	times += fit_path && strcmp(fit_path, "-") == 0;
	times += leases_path && strcmp(leases_path, "-") == 0;
	if (prog_watch_ms && times)
		return err_set(EX_USAGE, "--watch reads files again, not standard input");
	if (leases_path && !state_path)
		return err_set(EX_USAGE, "--leases is learned from in a --state");
	return times > 1 ? err_set(EX_USAGE, "standard input is wanted twice") : 0;
}

static int run(int n, char **args)
{
	struct session s = { .policy = POLICY_INIT,
		.state = QUOTE_STATE_INIT,
		.fit = FIT_INIT };
	int rc;

	s.now_ms = clock_now_ms();
	rc = check_stdin(n, args);
	if (rc == 0)
		rc = quote(&s, n, args);
	quote_release(&s.quote);
	quote_state_close(&s.state);
	free(s.seen);
	free(s.follows);
	fit_release(&s.fit);
	leases_release(&s.leases);
	offer_list_release(&s.offers);
	policy_release(&s.policy);
	priced_node_release(&s.node);
	return rc < 0 ? err_report() : 0;
}

const struct command command_quote = {
	.name = "quote",
	.arguments = "[file ...]",
	.args_max = -1,
	.summary = "The price of a node: just under its rivals, never under its floor.",
	.details =
		"Reads rnp.offer records, writes one rnp.quote record: what the node asks for an\n"
		"hour of all its GPUs, what the customer pays, and why, step by step.",
	.columns =
		"node,spec.gpu_model,spec.gpu_count,ask_uusd,customer_uusd,floor_uusd,rival_uusd",
	.card = true,
	.opts = options,
	.run = run,
};
