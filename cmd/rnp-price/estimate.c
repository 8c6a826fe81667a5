/* estimate.c - rnp-price estimate: what a node would earn in a day, market by market. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-price/commands.h"
#include "cmd/rnp-price/estimate_core.h"
#include "cmd/rnp-price/priced_node.h"
#include "cmd/rnp-price/render.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/num.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/json/json.h"
#include "common/record/policy.h"

#define MARKETS_MAX 256

static const char *node_path, *costs_path, *render_text, *policy_name;
static struct opt_list fees;
static int64_t reliability_ppm = 900000;

static const struct opt options[] = {
	OPT_PRICED_NODE(&node_path),
	OPT_COSTS(&costs_path),
	{ .name = "render",
		.kind = OPT_TEXT,
		.to = &render_text,
		.metavar = "P",
		.help = "price of a RENDER in dollars, or a file with an rnp.price record" },
	{ .name = "fee",
		.kind = OPT_LIST,
		.to = &fees,
		.metavar = "MARKET=PPM",
		.help = "what a market keeps of the price (default: fee_ppm of the costs; rnp: the policy's)" },
	{ .name = "policy",
		.kind = OPT_TEXT,
		.to = &policy_name,
		.metavar = "P",
		.help = "the network's fee (default rnp-021)" },
	OPT_MIN_RELIABILITY(&reliability_ppm),
	{ .kind = OPT_END },
};

struct session {
	struct priced_node node;
	int64_t render_uusd, network_fee_ppm, now_ms;
	struct costs costs;
	struct offer_list offers;
};

/* --- what is read ------------------------------------------------------------------------- */

/* The GPUs must be of one kind, as for a quote. */
static int read_node(struct session *s)
{
	if (priced_node_read(&s->node, node_path) < 0)
		return -1;
	if (!s->node.gpus)
		return err_set(EX_DATAERR, "%s: the node has no GPU that markets list",
			node_path);
	return s->node.model ?
		0 :
		err_set(EX_DATAERR, "%s: the GPUs are of different models", node_path);
}

static int read_network_fee(struct session *s)
{
	struct policy p = POLICY_INIT;
	const json_t *fee = NULL;
	int rc = policy_load(&p, policy_name ? policy_name : "rnp-021");

	if (rc == 0) {
		fee = json_object_get(json_object_get(p.doc, "prices"), "fee_ppm");
		s->network_fee_ppm = json_integer_value(fee);
		if (!fee || s->network_fee_ppm < 0 || s->network_fee_ppm > 999999)
			rc = err_set(EX_DATAERR, "policy '%s' has no prices.fee_ppm",
				p.name);
	}
	policy_release(&p);
	return rc;
}

/* Sets the fee of a market. Returns 0, or -1: 64 a malformed --fee. */
static int fee_of(const struct session *s, const char *market, int64_t *ppm)
{
	*ppm = strcmp(market, "rnp") == 0 ? s->network_fee_ppm : s->costs.fee_ppm;
	for (int i = 0; i < fees.n; i++) {
		const char *equals = strrchr(fees.items[i], '=');

		if (!equals)
			return err_set(EX_USAGE, "--fee: '%.60s' is not MARKET=PPM",
				fees.items[i]);
		if (strlen(market) == (size_t)(equals - fees.items[i]) &&
			strncmp(market, fees.items[i], strlen(market)) == 0)
			return num_i64(equals + 1, "--fee", 0, 999999, ppm);
	}
	return 0;
}

/* --- what is written ---------------------------------------------------------------------- */

static int64_t whole(double v)
{
	return llround(v < -9e15 ? -9e15 : v > 9e15 ? 9e15 : v);
}

static json_t *range(const struct estimate_range *r, double unit)
{
	json_t *o = json_object();

	json_set_i64(o, "low", whole(r->low * unit));
	json_set_i64(o, "mid", whole(r->mid * unit));
	json_set_i64(o, "high", whole(r->high * unit));
	return o;
}

static json_t *render_range(const struct estimate_range *r, int64_t price_uusd)
{
	json_t *o = json_object();

	json_set_i64(o, "low", render_base_units(whole(r->low), price_uusd));
	json_set_i64(o, "mid", render_base_units(whole(r->mid), price_uusd));
	json_set_i64(o, "high", render_base_units(whole(r->high), price_uusd));
	return o;
}

static json_t *to_json(const struct session *s, const char *market,
	const struct estimate *e, int64_t fee_ppm)
{
	json_t *r = json_record("rnp.estimate"), *busy = range(&e->occupancy, 1e6);

	json_set_text(r, "node", s->node.address);
	json_set_time(r, "at", s->now_ms);
	json_set_text(r, "market", market);
	json_set_text(r, "gpu_model", s->node.model);
	json_set_i64(r, "gpu_count", s->node.gpus);
	json_set_i64(r, "hosts", (int64_t)e->hosts);
	json_set(r, "uusd_per_hour", range(&e->uusd_per_hour, 1));
	json_set_bool(busy, "known", e->told > 0);
	json_set(r, "occupancy_ppm", busy);
	json_set_i64(r, "fee_ppm", fee_ppm);
	json_set(r, "day_uusd", range(&e->day_uusd, 1));
	if (s->render_uusd)
		json_set(r, "day_base_units", render_range(&e->day_uusd, s->render_uusd));
	json_set_i64(r, "power_day_uusd", whole(e->power_uusd));
	json_set_i64(r, "hardware_day_uusd", whole(e->hardware_uusd));
	return r;
}

/* --- markets ------------------------------------------------------------------------------ */

struct answer {
	const char *market;
	struct estimate e;
	int64_t fee_ppm;
};

static int best_first(const void *a, const void *b)
{
	const struct answer *x = a, *y = b;

	if (x->e.day_uusd.mid != y->e.day_uusd.mid)
		return x->e.day_uusd.mid > y->e.day_uusd.mid ? -1 : 1;
	return strcmp(x->market, y->market);
}

static int by_market(const void *a, const void *b)
{
	const struct offer *x = *(const struct offer *const *)a;
	const struct offer *y = *(const struct offer *const *)b;

	return strcmp(x->market, y->market);
}

/* Estimates the market whose n offers begin at first. Returns 1, 0: it has no such GPUs, -1. */
static int estimate_one(const struct session *s, const struct offer *const *first,
	size_t n, struct answer *a)
{
	struct offer_list l = { .items = xmalloc(n * sizeof *l.items), .n = n };
	struct rivals_question q = { .gpu_model = s->node.model,
		.known = s->node.known,
		.gpu_count = s->node.gpus,
		.reliability_ppm = reliability_ppm,
		.low_uusd = RIVALS_NONE,
		.offers = &l };
	int rc;

	for (size_t i = 0; i < n; i++)
		l.items[i] = *first[i]; /* the texts stay where they are */
	a->market = first[0]->market;
	rc = fee_of(s, a->market, &a->fee_ppm);
	if (rc == 0)
		rc = estimate_market(&a->e, &q, &s->costs, a->fee_ppm);
	free(l.items);
	return rc;
}

static int write_all(const struct session *s, struct answer *answers, size_t n)
{
	int rc = 0;

	qsort(answers, n, sizeof *answers, best_first);
	for (size_t i = 0; i < n && rc == 0; i++) {
		json_t *r = to_json(s, answers[i].market, &answers[i].e,
			answers[i].fee_ppm);

		rc = out_record(r);
		json_decref(r);
	}
	if (rc == 0 && !n)
		return err_set(EX_TEMPFAIL, "no market among %zu offers lists such GPUs",
			s->offers.n);
	return rc;
}

static int estimate_all(const struct session *s)
{
	const struct offer **sorted = xmalloc((s->offers.n + 1) * sizeof *sorted);
	struct answer *answers = xcalloc(MARKETS_MAX, sizeof *answers);
	size_t found = 0;
	int rc = 0;

	for (size_t i = 0; i < s->offers.n; i++)
		sorted[i] = &s->offers.items[i];
	qsort(sorted, s->offers.n, sizeof *sorted, by_market);
	for (size_t i = 0, n; i < s->offers.n && rc >= 0 && found < MARKETS_MAX; i += n) {
		for (n = 1; i + n < s->offers.n &&
			by_market(&sorted[i], &sorted[i + n]) == 0;)
			n++;
		rc = estimate_one(s, sorted + i, n, &answers[found]);
		found += rc > 0;
	}
	if (rc >= 0)
		rc = write_all(s, answers, found);
	free(answers);
	free(sorted);
	return rc;
}

static int estimate(struct session *s, int n, char **args)
{
	if (render_text && render_price(render_text, &s->render_uusd) < 0)
		return -1;
	if (read_node(s) < 0 || priced_node_costs(&s->costs, costs_path, s->now_ms) < 0 ||
		read_network_fee(s) < 0)
		return -1;
	return offer_list_read(&s->offers, args, n) < 0 ? -1 : estimate_all(s);
}

static int run(int n, char **args)
{
	struct session s = { .now_ms = clock_now_ms() };
	int rc = estimate(&s, n, args);

	offer_list_release(&s.offers);
	opt_list_release(&fees);
	priced_node_release(&s.node);
	return rc < 0 ? err_report() : 0;
}

const struct command command_estimate = {
	.name = "estimate",
	.arguments = "[file ...]",
	.args_max = -1,
	.summary = "What a node would earn in a day, market by market.",
	.details =
		"Reads rnp.offer records, writes one rnp.estimate record for each market that lists such\n"
		"GPUs, best first: what a day leaves after the market's fee and power, with the range\n"
		"that holds four fifths.",
	.columns =
		"market,hosts,uusd_per_hour.mid=price an hour,occupancy_ppm.mid=let,"
		"day_uusd.mid=a day leaves,day_uusd.low=at least,day_uusd.high=at most,"
		"day_base_units.mid=in RENDER",
	.opts = options,
	.run = run,
};
