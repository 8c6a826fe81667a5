/* core.c - computes a price from costs, rivals and rules, and explains every step. */
#include "cmd/rnp-price/quote/core.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cmd/rnp-price/cost/cost.h"
#include "common/json/json.h"
#include "common/base/money.h"

#define GFLOPS_MAX 10000000

static void explain(json_t *why, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void explain(json_t *why, const char *fmt, ...)
{
	char line[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof line, fmt, ap);
	va_end(ap);
	json_push_text(why, line);
}

int64_t quote_customer(int64_t ask_uusd, int64_t fee_ppm)
{
	return muldiv_half_up(ask_uusd, MONEY_PPM, MONEY_PPM - fee_ppm);
}

int64_t quote_ask(int64_t customer_uusd, int64_t fee_ppm)
{
	return muldiv_floor(customer_uusd, MONEY_PPM - fee_ppm, MONEY_PPM);
}

void quote_release(struct quote *q)
{
	json_decref(q->why);
	q->why = NULL;
}

/* --- rivals ------------------------------------------------------------------------------- */

static const char *const kind_texts[RIVAL_KINDS] = { "comparable", "our own",
	"of other GPU models", "of the same chip, but the form is not said", "spot",
	"parts of a GPU", "not rentable", "not reliable enough",
	"dearer than ten thousand dollars a GPU", "with another number of GPUs",
	"of hosts that were in no earlier snapshot", "of hosts that copy our own price" };

static void explain_market(json_t *why, const struct quote_input *in,
	const struct rivals *r, const struct quote_rules *rules)
{
	explain(why, "offers: %zu read, %ld comparable: %lld %s to rent, %s",
		in->offers->n, r->counts[RIVAL_COMPARABLE], (long long)in->gpu_count,
		in->gpu_count == 1 ? "GPU" : "GPUs", in->gpu_model);
	for (int k = RIVAL_OWN; k < RIVAL_KINDS; k++) {
		if (r->counts[k] && k == RIVAL_UNRELIABLE)
			explain(why, "left out: %ld below a reliability of %s",
				r->counts[k], cost_percent(rules->reliability_ppm));
		else if (r->counts[k])
			explain(why, "left out: %ld %s", r->counts[k], kind_texts[k]);
	}
	if (r->ndoubtful)
		explain(why,
			"left out: %zu of %zu hosts below %s $/h a GPU, %s; the cheapest asks %s",
			r->ndoubtful, r->nall, cost_usd(r->limit_uusd),
			r->limit_by_quartile ? "half the first quartile of the hosts" :
					       "half of what the model costs at least",
			cost_usd(r->doubtful_uusd));
}

/* --- a chip that no market lists ---------------------------------------------------------- */

/* Returns the median price of one reference chip on demand (lower middle) over the believed
 * hosts, with any number of GPUs; 0: the market has none. */
static int64_t reference_rate(const struct quote_input *in,
	const struct quote_rules *rules, const struct gpu_model *ref)
{
	struct rivals_question question = { .gpu_model = ref->name,
		.known = ref,
		.gpu_count = RIVALS_ANY_COUNT,
		.reliability_ppm = rules->reliability_ppm,
		.low_uusd = RIVALS_NONE,
		.offers = in->offers };
	struct rivals r;
	int64_t rate = 0;

	rivals_find(&r, &question);
	if (r.nhosts) {
		const struct offer *middle = r.hosts[(r.nhosts - 1) / 2];

		rate = worth_of(in->worth, middle, middle->uusd_per_gpu_hour);
	}
	rivals_release(&r);
	return rate;
}

/* RNP-021: priced in proportion to its TFLOPS relative to the reference chip; rounded half up. */
static int64_t proportion(const struct quote_input *in, const struct quote_rules *rules,
	json_t *why)
{
	const struct gpu_model *ref = rules->reference ? gpu_find(rules->reference, 0) :
							 NULL;
	int64_t rate, per_gpu;

	if (!ref || !ref->f32_gflops || !in->f32_gflops || in->f32_gflops > GFLOPS_MAX)
		return QUOTE_NONE;
	rate = reference_rate(in, rules, ref);
	if (!rate)
		return QUOTE_NONE;
	per_gpu = muldiv_half_up(rate, in->f32_gflops, ref->f32_gflops);
	explain(why,
		"proportion (RNP-021): %lld of the %lld GFLOP/s of the %s, whose median is %s $/h a GPU: %s $/h",
		(long long)in->f32_gflops, (long long)ref->f32_gflops, ref->name,
		cost_usd(rate), cost_usd(per_gpu * in->gpu_count));
	return per_gpu * in->gpu_count;
}

/* --- the price ---------------------------------------------------------------------------- */

/* Returns what a rival's price is worth for the whole node. */
static int64_t worth_for(const struct quote_input *in, const struct offer *o)
{
	return worth_of(in->worth, o, o->uusd_per_gpu_hour * in->gpu_count);
}

/* Returns the rival to which a customer of this node would go: the cheapest for what it is. */
static const struct offer *best_rival(const struct quote_input *in,
	const struct rivals *r)
{
	const struct offer *best = r->hosts[0];

	for (size_t i = 1; i < r->nhosts; i++)
		if (worth_for(in, r->hosts[i]) < worth_for(in, best))
			best = r->hosts[i];
	return best;
}

static void explain_worth(struct quote *q, const struct quote_input *in,
	const struct offer *rival)
{
	const struct worth_tier *t = worth_tier(in->worth, rival->down_bps,
		rival->up_bps);

	explain(q->why,
		"worth: on a link and in a place like ours, that is %s $/h (our link: +%s; "
		"theirs: %s, +%s)",
		cost_usd(q->worth_uusd),
		cost_percent(in->worth->surcharge_ppm > 0 ? in->worth->surcharge_ppm : 0),
		t ? t->name : "no tier", cost_percent(t ? t->surcharge_ppm : 0));
}

/* Returns what the customer should pay so that this node is just below the rival. */
static int64_t just_under(int64_t rival_uusd, int64_t undercut_ppm)
{
	int64_t target = muldiv_floor(rival_uusd, MONEY_PPM - undercut_ppm, MONEY_PPM);

	return target == rival_uusd && target > 0 ? target - 1 : target;
}

static int64_t against_rival(struct quote *q, const struct quote_input *in,
	const struct quote_rules *rules, const struct rivals *r)
{
	const struct offer *rival = best_rival(in, r);
	int64_t target, ask;

	q->rival_uusd = rival->uusd_per_gpu_hour * in->gpu_count;
	q->worth_uusd = worth_for(in, rival);
	explain(q->why, "rival: %s %s, %s $/h a GPU%s, %s $/h for %lld", rival->market,
		rival->id, cost_usd(rival->uusd_per_gpu_hour),
		r->same_count ? "" : " (none has as many GPUs: by half to twice as many)",
		cost_usd(q->rival_uusd), (long long)in->gpu_count);
	if (q->worth_uusd != q->rival_uusd)
		explain_worth(q, in, rival);
	target = just_under(q->worth_uusd, rules->undercut_ppm);
	if (in->peak_ppm && !in->demand) {
		target = muldiv_half_up(target, MONEY_PPM + in->peak_ppm, MONEY_PPM);
		explain(q->why, "peak: at this hour %s more, %s $/h",
			cost_percent(in->peak_ppm), cost_usd(target));
	}
	ask = quote_ask(target, rules->fee_ppm);
	explain(q->why,
		"just under: %s less is %s $/h for the customer, an ask of %s $/h",
		cost_percent(rules->undercut_ppm), cost_usd(target), cost_usd(ask));
	if (r->own && r->own->uusd_per_gpu_hour * in->gpu_count > target)
		explain(q->why,
			"own: %s %s at %s $/h a GPU is dearer than the rival: price it again too",
			r->own->market, r->own->id, cost_usd(r->own->uusd_per_gpu_hour));
	return ask;
}

/* No rival: uses the fitted price, else the proportion, an own offer's price that must not be
 * undercut, the last price, or nothing. Where not one offer was read, all markets may be away: then
 * the last price goes before a fit, which is of another day. */
static int64_t without_rival(struct quote *q, const struct quote_input *in,
	const struct quote_rules *rules, const struct rivals *r)
{
	bool silent = in->offers->n == 0 && in->last_ask_uusd >= 0;
	int64_t customer = 0;

	if (in->offers->n == 0)
		explain(q->why, "no rival: no offers were read");
	else
		explain(q->why, "no rival: none of %zu offers is comparable",
			in->offers->n);
	if (in->mid_uusd >= 0 && !silent) {
		customer = in->mid_uusd * in->gpu_count;
		q->basis = QUOTE_MODEL;
	} else if (q->proportion_uusd >= 0) {
		customer = q->proportion_uusd;
		q->basis = QUOTE_MODEL;
	}
	if (r->own && r->own->uusd_per_gpu_hour * in->gpu_count > customer) {
		customer = r->own->uusd_per_gpu_hour * in->gpu_count;
		q->basis = QUOTE_OWN;
		explain(q->why, "own: %s %s at %s $/h a GPU is not undercut",
			r->own->market, r->own->id, cost_usd(r->own->uusd_per_gpu_hour));
		/* rounded up: a millionth less would be below it */
		return muldiv_ceil(customer, MONEY_PPM - rules->fee_ppm, MONEY_PPM);
	}
	if (q->basis == QUOTE_BLIND && in->last_ask_uusd >= 0) {
		explain(q->why,
			"the last price, %s $/h, stands: a market that says nothing is no "
			"reason to change it",
			cost_usd(in->last_ask_uusd));
		return in->last_ask_uusd;
	}
	return quote_ask(customer, rules->fee_ppm);
}

void quote_market(struct demand_market *m, const struct quote_input *in,
	const struct rivals *r)
{
	m->n = 0;
	m->followers = (double)in->followers;
	if (!r->nhosts)
		return;
	m->lowest = (double)worth_for(in, best_rival(in, r));
	for (size_t i = 0; i < r->nhosts && m->n < DEMAND_SELLERS_MAX; i++)
		m->sellers[m->n++] = (struct demand_seller){
			(double)worth_for(in, r->hosts[i]), 1, 0
		};
}

/* Asks what earns most under what was learned of customers, instead of just below the rival. */
static int64_t by_demand(struct quote *q, const struct quote_input *in,
	const struct quote_rules *rules, const struct rivals *r, int64_t under)
{
	struct demand_market market;
	struct demand_question question = { .market = &market,
		.idle = in->idle > 1 ? in->idle : 1,
		.units = in->units,
		.floor = (double)quote_customer(in->floor_uusd, rules->fee_ppm),
		.working = (double)in->working_uusd,
		.last = in->last_ask_uusd < 0 ?
			-1 :
			(double)quote_customer(in->last_ask_uusd, rules->fee_ppm) };
	struct demand_answer best, now;

	quote_market(&market, in, r);
	demand_value(in->demand, &question, (double)quote_customer(under, rules->fee_ppm),
		&now);
	q->occupancy_under = now.occupancy;
	demand_best(in->demand, &question, &best);
	explain(q->why,
		"customers: %ld intervals and %.0f leases seen, of %.1f h; %s $/h would be busy %.0f%% "
		"of the time, just under the rival %.0f%%",
		in->demand->observations, in->demand->leases - DEMAND_LEASES_PRIOR,
		demand_mean_lease(in->demand), cost_usd((int64_t)best.ask),
		best.occupancy * 100, now.occupancy * 100);
	if (!demand_change(&question, &demand_rules_default, in->held_hours,
		    in->changes_today, &best)) {
		demand_value(in->demand, &question, question.last, &now);
		q->held = true;
		q->occupancy = now.occupancy;
		explain(q->why,
			"hold: the last price stands: another would earn too little more for a change "
			"after %.1f h, the %d. of the day",
			in->held_hours, in->changes_today + 1);
		return in->last_ask_uusd;
	}
	q->occupancy = best.occupancy;
	return quote_ask((int64_t)best.ask, rules->fee_ppm);
}

/* Small changes are not worth a new price, as long as the last one still obeys the rules: not
 * below the floor, below the rival, and for the customer not below own_uusd. A day has so many
 * changes at most, whatever the rival does: whom we undercut may be one who undercuts us. */
static int64_t damp(struct quote *q, const struct quote_input *in,
	const struct quote_rules *rules, int64_t own_uusd, int64_t ask)
{
	int64_t last = in->last_ask_uusd, change = ask > last ? ask - last : last - ask;

	if (last < 0 || change == 0 || last < in->floor_uusd || q->occupancy >= 0)
		return ask; /* if customers were observed, that decided about the change too */
	if (in->changes_today >= demand_rules_default.changes_max) {
		explain(q->why,
			"hold: %d changes in 24 hours are enough: the last price stays",
			in->changes_today);
		return last;
	}
	if (q->rival_uusd >= 0 && quote_customer(last, rules->fee_ppm) >= q->worth_uusd &&
		!in->peak_ppm)
		return ask;
	if (quote_customer(last, rules->fee_ppm) < own_uusd)
		return ask;
	if ((__int128)change * MONEY_PPM >= (__int128)last * rules->hysteresis_ppm)
		return ask;
	explain(q->why,
		"hysteresis: %s to %s $/h is a change of less than %s: the last price "
		"stays",
		cost_usd(last), cost_usd(ask), cost_percent(rules->hysteresis_ppm));
	return last;
}

/* Computes the ask from everything that the market says, before the floor. */
static int64_t by_market(struct quote *q, const struct quote_input *in,
	const struct quote_rules *rules, int64_t *own_uusd)
{
	struct rivals_question question = { .gpu_model = in->gpu_model,
		.known = in->known,
		.gpu_count = in->gpu_count,
		.reliability_ppm = rules->reliability_ppm,
		.low_uusd = in->low_uusd,
		.offers = in->offers,
		.seen = in->seen,
		.follows = in->follows };
	struct rivals r;
	int64_t ask;

	rivals_find(&r, &question);
	explain_market(q->why, in, &r, rules);
	q->proportion_uusd = proportion(in, rules, q->why);
	if (in->mid_uusd >= 0)
		explain(q->why, "fit: %s $/h a GPU, between %s and %s",
			cost_usd(in->mid_uusd), cost_usd(in->low_uusd),
			cost_usd(in->high_uusd));
	if (r.nhosts) {
		q->basis = QUOTE_RIVAL;
		q->same_count = r.same_count;
		ask = against_rival(q, in, rules, &r);
		if (in->demand)
			ask = by_demand(q, in, rules, &r, ask);
	} else {
		ask = without_rival(q, in, rules, &r);
		if (r.own)
			*own_uusd = r.own->uusd_per_gpu_hour * in->gpu_count;
	}
	rivals_release(&r);
	return ask;
}

void quote_price(struct quote *q, const struct quote_input *in,
	const struct quote_rules *rules)
{
	int64_t ask = 0, own_uusd = 0;

	q->floor_uusd = in->floor_uusd;
	q->rival_uusd = q->worth_uusd = q->proportion_uusd = QUOTE_NONE;
	q->basis = QUOTE_BLIND;
	q->occupancy = q->occupancy_under = -1;
	q->held = q->same_count = false;
	q->why = json_array();
	if (in->others && *in->others)
		explain(q->why,
			"not priced: %.400s; markets list one model a machine, so that "
			"--gpu-model prices these",
			in->others);
	if (in->gpu_model) {
		ask = by_market(q, in, rules, &own_uusd);
	} else {
		explain(q->why, "no rival: %s", in->no_gpu);
		q->basis = QUOTE_NO_GPU;
	}
	if (ask < in->floor_uusd) {
		if (ask)
			explain(q->why, "floor: %s $/h is under the floor of %s $/h",
				cost_usd(ask), cost_usd(in->floor_uusd));
		else
			explain(q->why, "floor: the price is the floor of %s $/h",
				cost_usd(in->floor_uusd));
		ask = in->floor_uusd;
	}
	q->ask_uusd = damp(q, in, rules, own_uusd, ask);
	q->customer_uusd = quote_customer(q->ask_uusd, rules->fee_ppm);
	explain(q->why,
		"ask: %s $/h; the customer pays %s $/h, %s of it the network's fee",
		cost_usd(q->ask_uusd), cost_usd(q->customer_uusd),
		cost_percent(rules->fee_ppm));
}

/* --- in parts ----------------------------------------------------------------------------- */

size_t quote_splits(struct quote_split out[QUOTE_SPLITS_MAX],
	const struct quote_input *in, const struct quote_rules *rules, size_t *best)
{
	size_t n = 0;

	*best = 0;
	for (int64_t gpus = in->gpu_count; gpus >= 1 && n < QUOTE_SPLITS_MAX; gpus--) {
		struct quote_input part = *in;
		struct quote q;

		if (in->gpu_count % gpus)
			continue;
		part.gpu_count = gpus;
		part.floor_uusd = muldiv_ceil(in->floor_uusd, gpus, in->gpu_count);
		part.last_ask_uusd = QUOTE_NONE;
		part.demand = NULL;
		quote_price(&q, &part, rules);
		if (q.basis == QUOTE_RIVAL && q.same_count) {
			out[n] = (struct quote_split){ gpus, in->gpu_count / gpus,
				q.ask_uusd, q.customer_uusd, q.floor_uusd, q.rival_uusd,
				q.ask_uusd * (in->gpu_count / gpus) };
			if (out[n].total_uusd > out[*best].total_uusd)
				*best = n;
			n++;
		}
		quote_release(&q);
	}
	return n;
}
