/* estimate.c - rnp-price estimate: what a node would earn in a day, market by market. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-price/commands.h"
#include "cmd/rnp-price/cost/priced_node.h"
#include "cmd/rnp-price/cost/render.h"
#include "cmd/rnp-price/offers/rivals.h"
#include "common/base/amount.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/money.h"
#include "common/cli/human.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/json/json.h"
#include "common/record/policy.h"

#define MARKETS_MAX 256

#define ESTIMATE_HOSTS_MIN   3   /* fewer say nothing of the spread */
#define ESTIMATE_SPREAD      0.3 /* of the logarithm of the price, where few hosts say it */
#define ESTIMATE_OCCUPANCY   0.5  /* where the market does not say */
#define ESTIMATE_UNCERTAINTY 0.25 /* of that, its standard deviation */
#define DAY_HOURS            24
#define Z_FOUR_FIFTH         1.2815515594600038 /* standard deviations on each side */
#define QUARTILE_Z           1.3489795003921634 /* between the quartiles of a normal distribution */
#define OCCUPANCY_LOW        0.01
#define OCCUPANCY_HIGH       0.99

static const char *node_path, *gpu_model, *costs_path, *render_text, *policy_name;
static struct opt_list fees;
static int64_t reliability_ppm = 900000;

static const struct opt options[] = {
	OPT_PRICED_NODE(&node_path),
	OPT_PRICED_MODEL(&gpu_model),
	OPT_COSTS(&costs_path),
	OPT(TEXT, "render", &render_text, "P",
		"price of a RENDER in dollars, or a file with an rnp.price record"),
	OPT(LIST, "fee", &fees, "MARKET=PPM",
		"what a market keeps of the price (default: fee_ppm of the costs; rnp: the policy's)"),
	OPT(TEXT, "policy", &policy_name, "P", "the network's fee (default rnp-021)",
		.words = POLICY_NAMES),
	OPT_MIN_RELIABILITY(&reliability_ppm),
	{ .kind = OPT_END },
};

/* --- one market -----------------------------------------------------------------------------
 *
 * Price: the quartiles of what the believed hosts of the market ask for such GPUs. Occupancy: the
 * part of the market's hosts with such GPUs that are rented, with Jeffreys' prior; where the market
 * does not say who is rented, it is assumed. The interval holds four fifths: the spread of prices
 * and the uncertainty of occupancy are taken as independent, in logarithms. */

struct estimate_range {
	double low, mid, high;
};

struct estimate {
	size_t hosts;      /* that are believed */
	long rented, told; /* hosts that are rented, of those of which the market says */
	struct estimate_range uusd_per_hour; /* of the whole node, what customers pay */
	struct estimate_range occupancy;     /* 0 to 1 */
	struct estimate_range day_uusd;      /* what is left after the fee and power */
	double power_uusd;                   /* a day, at the middle */
	double hardware_uusd;                /* a day's depreciation, not taken off */
};

/* Interpolates between the neighbours, as offers/rivals.c does. */
static double quantile(const struct offer *const *hosts, size_t n, double p)
{
	double at = p * (double)(n - 1);
	size_t i = (size_t)at;
	double low = (double)hosts[i]->uusd_per_gpu_hour;

	if (i + 1 >= n)
		return low;
	return low + (at - (double)i) * ((double)hosts[i + 1]->uusd_per_gpu_hour - low);
}

static int by_host(const void *a, const void *b)
{
	const struct offer *x = *(const struct offer *const *)a;
	const struct offer *y = *(const struct offer *const *)b;
	int order = strcmp(rivals_host(x), rivals_host(y));

	return order ? order : y->rented - x->rented;
}

/* Counts hosts with such GPUs, each once; one with a rented offer is rented. */
static void count_rented(struct estimate *e, const struct rivals_question *q)
{
	const struct offer **such = xmalloc((q->offers->n + 1) * sizeof *such);
	size_t n = 0;

	for (size_t i = 0; i < q->offers->n; i++) {
		const struct offer *o = &q->offers->items[i];
		enum rival_kind kind = rivals_kind(q, o);

		if (o->rented >= 0 &&
			(kind == RIVAL_COMPARABLE || kind == RIVAL_NOT_RENTABLE))
			such[n++] = o;
	}
	qsort(such, n, sizeof *such, by_host);
	for (size_t i = 0; i < n; i++)
		if (!i || strcmp(rivals_host(such[i - 1]), rivals_host(such[i])) != 0) {
			e->told++;
			e->rented += such[i]->rented == 1;
		}
	free(such);
}

/* The mean of the posterior, and its standard deviation. */
static double occupancy(const struct estimate *e, double *sd)
{
	double a = (double)e->rented + 0.5, b = (double)(e->told - e->rented) + 0.5;

	if (!e->told) {
		*sd = ESTIMATE_UNCERTAINTY;
		return ESTIMATE_OCCUPANCY;
	}
	*sd = sqrt(a * b / ((a + b) * (a + b) * (a + b + 1)));
	return a / (a + b);
}

static double within(double x, double low, double high)
{
	return x < low ? low : x > high ? high : x;
}

/* What a day costs: if the node works all day, if it waits, and in any case. */
struct day {
	double load_uusd, idle_uusd, hardware_uusd;
};

/* The sums over the next 24 hours of the tariff. */
static bool costs_of_day(struct day *d, const struct costs *c)
{
	struct cost_floor f;

	*d = (struct day){ 0 };
	for (int h = 0; h < DAY_HOURS; h++) {
		if (cost_floor(c, h, &f) < 0) {
			err_clear();
			return false;
		}
		d->load_uusd += (double)(f.energy_uusd + f.network_uusd);
		d->idle_uusd += (double)f.idle_uusd;
		d->hardware_uusd += (double)f.depreciation_uusd;
	}
	return true;
}

/* What is left of a day. */
static double left(const struct day *d, double uusd_per_hour, double busy,
	int64_t fee_ppm)
{
	double income = uusd_per_hour * DAY_HOURS * busy * (1 - (double)fee_ppm / 1e6);

	return income - d->load_uusd * busy - d->idle_uusd * (1 - busy);
}

/* Estimates a market, whose offers q has and nobody else's. fee_ppm: the part of the customer's
 * price that the market keeps. Returns false where no host is believed. */
static bool estimate_market(struct estimate *e, const struct rivals_question *q,
	const struct costs *c, int64_t fee_ppm)
{
	struct rivals r;
	struct day day;
	double sd, spread = ESTIMATE_SPREAD, mid, gpus = (double)q->gpu_count, both;

	memset(e, 0, sizeof *e);
	rivals_find(&r, q);
	e->hosts = r.nhosts;
	if (!r.nhosts || !costs_of_day(&day, c)) {
		rivals_release(&r);
		return false;
	}
	mid = quantile(r.hosts, r.nhosts, 0.5);
	if (r.nhosts >= ESTIMATE_HOSTS_MIN)
		spread = log(quantile(r.hosts, r.nhosts, 0.75) /
				 quantile(r.hosts, r.nhosts, 0.25)) /
			QUARTILE_Z;
	rivals_release(&r);
	count_rented(e, q);
	e->occupancy.mid = occupancy(e, &sd);
	e->occupancy.low = within(e->occupancy.mid - Z_FOUR_FIFTH * sd, OCCUPANCY_LOW, 1);
	e->occupancy.high = within(e->occupancy.mid + Z_FOUR_FIFTH * sd, 0,
		OCCUPANCY_HIGH);
	e->uusd_per_hour = (struct estimate_range){ mid * gpus *
			exp(-Z_FOUR_FIFTH * spread),
		mid * gpus, mid * gpus * exp(Z_FOUR_FIFTH * spread) };
	/* both move what comes in; the part of each in the distance is its part of the variance */
	both = sqrt(spread * spread + sd * sd / (e->occupancy.mid * e->occupancy.mid));
	spread = both > 0 ? Z_FOUR_FIFTH * spread * spread / both : 0;
	sd = both > 0 ? Z_FOUR_FIFTH * sd * sd / e->occupancy.mid / both : 0;
	e->day_uusd.mid = left(&day, mid * gpus, e->occupancy.mid, fee_ppm);
	e->day_uusd.low = left(&day, mid * gpus * exp(-spread),
		within(e->occupancy.mid - sd, OCCUPANCY_LOW, 1), fee_ppm);
	e->day_uusd.high = left(&day, mid * gpus * exp(spread),
		within(e->occupancy.mid + sd, 0, OCCUPANCY_HIGH), fee_ppm);
	e->power_uusd = day.load_uusd * e->occupancy.mid +
		day.idle_uusd * (1 - e->occupancy.mid);
	e->hardware_uusd = day.hardware_uusd;
	return true;
}

/* --- the command ------------------------------------------------------------------------------ */

struct estimate_command {
	struct priced_node node;
	int64_t render_uusd, network_fee_ppm, now_ms;
	struct costs costs;
	struct offer_list offers;
};

/* --- what is read ------------------------------------------------------------------------- */

static int read_node(struct estimate_command *s)
{
	if (priced_node_read(&s->node, node_path, gpu_model) < 0)
		return -1;
	if (s->node.others.len)
		prog_warn("%s: not in this estimate: %s (--gpu-model)", node_path,
			buf_text(&s->node.others));
	return s->node.gpus ?
		0 :
		err_set(EX_DATAERR, "%s: the node has no GPU that markets list",
			node_path);
}

static int read_network_fee(struct estimate_command *s)
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

/* Reads millionths, or a text such as "5%". */
static int read_fee(const char *text, int64_t *ppm)
{
	if (amount_read(text, "--fee", &amount_ppm, "ppm", NULL, ppm) < 0)
		return -1;
	if (*ppm < 0 || *ppm >= MONEY_PPM)
		return err_set(EX_USAGE, "--fee: '%.40s' is not from 0 to 99.9999%%",
			text);
	return amount_doubt(*ppm, "--fee", &amount_ppm);
}

/* Sets the fee of a market. Returns 0, or -1: 64 a malformed --fee. */
static int fee_of(const struct estimate_command *s, const char *market, int64_t *ppm)
{
	*ppm = strcmp(market, "rnp") == 0 ? s->network_fee_ppm : s->costs.fee_ppm;
	for (int i = 0; i < fees.n; i++) {
		const char *equals = strrchr(fees.items[i], '=');

		if (!equals)
			return err_set(EX_USAGE, "--fee: '%.60s' is not MARKET=PPM",
				fees.items[i]);
		if (strlen(market) == (size_t)(equals - fees.items[i]) &&
			strncmp(market, fees.items[i], strlen(market)) == 0)
			return read_fee(equals + 1, ppm);
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

static json_t *to_json(const struct estimate_command *s, const char *market,
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
static int estimate_one(const struct estimate_command *s,
	const struct offer *const *first, size_t n, struct answer *a)
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

static int write_all(const struct estimate_command *s, struct answer *answers, size_t n)
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

static int estimate_all(const struct estimate_command *s)
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

static int estimate(struct estimate_command *s, int n, char **args)
{
	human_set_token("RENDER");
	if (render_text && render_price(render_text, &s->render_uusd) < 0)
		return -1;
	if (read_node(s) < 0 || cost_load(&s->costs, costs_path, s->now_ms) < 0 ||
		read_network_fee(s) < 0)
		return -1;
	return offer_list_read(&s->offers, args, n) < 0 ? -1 : estimate_all(s);
}

static int run(int n, char **args)
{
	struct estimate_command s = { .now_ms = clock_now_ms() };
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
