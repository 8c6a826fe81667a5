/* quote.c - rnp-price quote: sets the price of a node, below its rivals but not below its
 * floor. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-price/commands.h"
#include "cmd/rnp-price/quote/fit.h"
#include "cmd/rnp-price/quote/leases.h"
#include "cmd/rnp-price/cost/priced_node.h"
#include "cmd/rnp-price/quote/record.h"
#include "cmd/rnp-price/quote/state.h"
#include "cmd/rnp-price/cost/render.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/json/json.h"
#include "common/cli/human.h"
#include "common/cli/out.h"
#include "common/record/policy.h"
#include "common/cli/prog.h"
#include "common/cli/records.h"
#include "common/json/schema.h"

#define FEE_PPM_MAX 500000
#define UNSIGNED    "unsigned" /* key of a node without an address in the state */
#define EACH        "each"     /* --gpu-model: all of them, one after the other */

static const char *node_path, *gpu_model, *bench_path, *costs_path, *state_path,
	*policy_name;
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
	OPT(TEXT, "gpu-model", &gpu_model, "M",
		"of a node with several GPU models, price this one, or each (default: the most powerful)"),
	OPT_COSTS(&costs_path),
	OPT(TEXT, "bench", &bench_path, "F",
		"rnp.bench records: the speed of a GPU that is not in our table"),
	OPT(TEXT, "fit", &fit_path, "F",
		"an rnp.fit record: the price where there is no rival, and what a rival has to be believed against"),
	OPT(TEXT, "market", &fit_market, "M",
		"with --fit: the market whose level counts (default: their mean)"),
	OPT(TEXT, "state", &state_path, "DB",
		"keep the last price here, and change it only for a reason"),
	OPT(TEXT, "leases", &leases_path, "F",
		"with --state: rnp.lease records of the node, to learn from its customers"),
	OPT_IN(I64, "units", &units, "N", 1, 1024,
		"with --leases: how many may run at a time (default 1)"),
	OPT(TEXT, "policy", &policy_name, "P",
		"network fee and reference chip (default rnp-021)",
		.words = POLICY_NAMES),
	OPT(TEXT, "surcharges", &surcharges, "P",
		"policy whose surcharges compare links (default rnp-004; none: links are alike)"),
	OPT_IN(PPM, "peak", &peak_ppm, "PPM", 0, 10000000,
		"ask so much more in the hours of the node's label peak_hours"),
	OPT_IN(PPM, "undercut", &rules.undercut_ppm, "PPM", 0, 500000,
		"how far under the lowest rival (default 10000: 1%)"),
	OPT_IN(PPM, "hysteresis", &rules.hysteresis_ppm, "PPM", 0, 1000000,
		"with --state: make no smaller change (default 20000: 2%)"),
	OPT_MIN_RELIABILITY(&rules.reliability_ppm),
	OPT_IN(I64, "hours", &hours, "N", 1, 87600, "add what a job of N hours comes to"),
	OPT(TEXT, "render", &render_text, "P",
		"add amounts in RENDER: its price in dollars, or a file with an rnp.price record"),
	OPT_SWITCH("split", &split,
		"add what the GPUs would ask in equal parts, and which split earns most"),
	OPT_SWITCH("floor-if-empty", &floor_if_empty,
		"without any evidence of a price ask the floor (default: exit 75)"),
	OPT_WATCH,
	{ .kind = OPT_END },
};

struct quote_command {
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
	char key[200]; /* of its prices in the state */
};

/* --- what is read ------------------------------------------------------------------------- */

static int read_node(struct quote_command *s)
{
	const struct priced_node *n = &s->node;

	if (priced_node_read(&s->node, node_path, gpu_model) < 0)
		return -1;
	s->in.gpu_count = n->gpus;
	s->in.gpu_model = n->model;
	s->in.known = n->known;
	s->in.no_gpu = n->no_gpu;
	s->in.others = buf_text(&n->others);
	if (n->model && n->known)
		s->in.f32_gflops = n->known->f32_gflops;
	else if (n->model)
		prog_warn("%s: gpus: '%.100s' is not in our table", node_path, n->model);
	return 0;
}

/* Takes the measured f32 speed of the GPU, for a chip whose data sheet is unknown. */
static int use_bench(void *session, const struct record *record)
{
	struct quote_command *s = session;
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

static int read_policy(struct quote_command *s)
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

static int64_t link_of(const struct priced_node *n, const char *key)
{
	const json_t *v = json_object_get(json_object_get(n->record, "network"), key);

	return json_is_integer(v) ? (int64_t)json_integer_value(v) : WORTH_UNKNOWN;
}

static int read_surcharges(struct quote_command *s)
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
	worth_init(&s->worth, tiers, link_of(&s->node, "down_bps"),
		link_of(&s->node, "up_bps"));
	policy_release(&p);
	s->worth.country = priced_node_label(&s->node, "country");
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

static int read_peak(struct quote_command *s)
{
	const char *span = priced_node_label(&s->node, "peak_hours");

	if (!peak_ppm)
		return 0;
	if (!span)
		return err_set(EX_DATAERR,
			"%s: --peak, and the node has no label peak_hours", node_path);
	if (is_peak(span, (int)(s->now_ms / 3600000 % 24)))
		s->in.peak_ppm = peak_ppm;
	return 0;
}

static int read_costs(struct quote_command *s)
{
	if (cost_load(&s->costs, costs_path, s->now_ms) < 0)
		return -1;
	return cost_floor(&s->costs, 0, &s->floor);
}

/* The price of a GPU like the node's according to the fit, if enough is known of it. */
static int ask_fit(struct quote_command *s)
{
	struct fit_question q = { .model = s->in.known,
		.memory_bytes = s->node.memory_bytes,
		.gpu_count = s->in.gpu_count,
		.market = fit_market,
		.country = priced_node_label(&s->node, "country") };

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

static int write_quote(const struct quote_command *s)
{
	struct quote_record x = { .node = &s->node,
		.costs = &s->costs,
		.floor = &s->floor,
		.in = &s->in,
		.rules = &rules,
		.fitted = &s->fitted,
		.quote = &s->quote,
		.now_ms = s->now_ms,
		.changed_ms = s->state.changed_ms,
		.hours = hours,
		.render_uusd = s->render_uusd,
		.split = split };
	json_t *r = quote_record(&x);
	int rc = r ? out_record(r) : -1;

	json_decref(r);
	return rc;
}

/* Without evidence of a price the last one stays, and the exit code says that nothing is new. */
static int write_blind(const struct quote_command *s)
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

/* What earlier snapshots tell of the hosts. */
static int read_history(struct quote_command *s, struct rivals_question *market)
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

/* Each group of a node's GPUs has a price of its own; the most powerful one's is the node's. */
static void name_state(struct quote_command *s)
{
	bool own = gpu_model && s->node.model && !s->node.first;

	snprintf(s->key, sizeof s->key, "%s%s%.100s",
		s->node.address ? s->node.address : UNSIGNED, own ? " " : "",
		own ? s->node.model : "");
}

/* Computes the price and writes the record; with a state, reads it before and updates it after. */
static int price(struct quote_command *s)
{
	struct rivals_question market = { .gpu_model = s->in.gpu_model,
		.known = s->in.known,
		.gpu_count = s->in.gpu_count,
		.reliability_ppm = rules.reliability_ppm,
		.low_uusd = s->in.low_uusd,
		.offers = &s->offers };

	if (state_path) {
		name_state(s);
		if (quote_state_open(&s->state, state_path, s->key, s->now_ms) < 0)
			return -1;
		s->in.last_ask_uusd = s->state.last_ask_uusd;
		s->in.changes_today = (int)s->state.changes_today;
		s->in.held_hours = s->state.changed_ms < 0 ?
			1e6 :
			(double)(s->now_ms - s->state.changed_ms) / 3600000;
		if (s->in.gpu_model && read_history(s, &market) < 0)
			return -1;
	}
	if (leases_path && s->in.gpu_model &&
		quote_learn(&s->state, &s->in, &s->leases, units, &market,
			rules.fee_ppm) < 0)
		return -1;
	quote_price(&s->quote, &s->in, &rules);
	if (s->quote.basis == QUOTE_BLIND && !floor_if_empty)
		return write_blind(s);
	if (!s->quote.ask_uusd)
		prog_warn("the ask is 0 USD: see floor_uusd, and the costs in %s",
			costs_path);
	if (state_path && quote_state_save(&s->state, &market, &s->quote) < 0)
		return -1;
	return write_quote(s);
}

/* Prices the GPUs of gpu_model, with the offers that are read. */
static int quote(struct quote_command *s)
{
	human_set_token("RENDER");
	if (render_text && render_price(render_text, &s->render_uusd) < 0)
		return -1;
	if (read_node(s) < 0 || read_costs(s) < 0 || read_policy(s) < 0 ||
		read_surcharges(s) < 0 || read_peak(s) < 0)
		return -1;
	if (bench_path &&
		records_each((char **)&bench_path, 1, JSON_RECORD_BYTES_MAX, use_bench,
			s) < 0)
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

/* Only one of the inputs can be standard input. */
static int check_stdin(int n, char **args)
{
	int times = n == 0;

	for (int i = 0; i < n; i++)
		times += strcmp(args[i], "-") == 0;
	times += strcmp(node_path, "-") == 0;
	if (gpu_model && strcmp(gpu_model, EACH) == 0 && strcmp(node_path, "-") == 0)
		return err_set(EX_USAGE,
			"--gpu-model each reads the node again: --node names a file");
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

/* Prices one group of the node's GPUs. */
static int quote_group(const struct offer_list *offers, int64_t now_ms)
{
	struct quote_command s = { .policy = POLICY_INIT,
		.state = QUOTE_STATE_INIT,
		.fit = FIT_INIT,
		.offers = *offers,
		.now_ms = now_ms };
	int rc = quote(&s);

	quote_release(&s.quote);
	quote_state_close(&s.state);
	free(s.seen);
	free(s.follows);
	fit_release(&s.fit);
	leases_release(&s.leases);
	policy_release(&s.policy);
	priced_node_release(&s.node);
	return rc;
}

/* Prices each group, the most powerful one first; a node without GPUs once. Where one has no price
 * yet the others are written, and the first error stays. */
static int quote_each(const struct offer_list *offers, int64_t now_ms)
{
	struct priced_node node = PRICED_NODE_INIT;
	struct gpu_group groups[GPUS_MAX];
	struct err first = { 0 };
	int rc, n;

	gpu_model = NULL;
	if (priced_node_read(&node, node_path, NULL) < 0) {
		priced_node_release(&node);
		return -1;
	}
	n = gpus_group(node.record, groups);
	rc = n ? 0 : quote_group(offers, now_ms);
	for (int i = 0; i < n; i++) {
		gpu_model = groups[i].model;
		if (quote_group(offers, now_ms) == 0)
			continue;
		if (rc == 0)
			err_save(&first);
		rc = -1;
	}
	if (n && rc < 0)
		err_restore(&first);
	gpu_model = EACH;
	priced_node_release(&node);
	return rc;
}

static int run(int n, char **args)
{
	struct offer_list offers = { 0 };
	int64_t now_ms = clock_now_ms();
	int rc = check_stdin(n, args);

	if (rc == 0)
		rc = offer_list_read(&offers, args, n);
	if (rc == 0)
		rc = gpu_model && strcmp(gpu_model, EACH) == 0 ?
			quote_each(&offers, now_ms) :
			quote_group(&offers, now_ms);
	offer_list_release(&offers);
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
