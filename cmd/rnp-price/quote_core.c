#include "cmd/rnp-price/quote_core.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cmd/rnp-price/cost.h"
#include "common/json/json.h"
#include "common/base/money.h"

#define GPU_HOUR_MAX \
	INT64_C(10000000000) /* ten thousand dollars: a slip of the market's */
#define GFLOPS_MAX 10000000

static void say(json_t *why, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void say(json_t *why, const char *fmt, ...)
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

/* why an offer is no rival; RIVAL and OWN are comparable */
enum kind {
	RIVAL,
	OWN,
	OTHER_MODEL,
	UNSPECIFIC,
	SPOT,
	SHARE,
	NOT_RENTABLE,
	UNRELIABLE,
	ABSURD,
	OTHER_COUNT,
	KINDS
};

static const char *const kind_texts[KINDS] = { "comparable", "our own",
	"of other GPU models", "of the same chip, but the form is not said", "spot",
	"parts of a GPU", "not rentable", "not reliable enough",
	"dearer than ten thousand dollars a GPU", "with another number of GPUs" };

static bool same_model(const struct quote_input *in, const struct offer *o)
{
	if (in->known)
		return o->known && strcmp(in->known->name, o->model) == 0;
	return !o->known && strcasecmp(in->gpu_model, o->model) == 0;
}

/* the same chip, of which the market or the node does not say which form it is */
static bool same_chip(const struct quote_input *in, const struct offer *o)
{
	const struct gpu_model *m = in->known && o->known ? gpu_find(o->model, 0) : NULL;

	return m && strcmp(m->family, in->known->family) == 0 &&
		(m->unspecific || in->known->unspecific);
}

static enum kind kind_of(const struct quote_input *in, const struct offer *o,
	const struct quote_rules *rules)
{
	if (!same_model(in, o))
		return same_chip(in, o) ? UNSPECIFIC : OTHER_MODEL;
	if (o->spot)
		return SPOT;
	if (o->gpu_share_ppm)
		return SHARE;
	if (o->uusd_per_gpu_hour > GPU_HOUR_MAX)
		return ABSURD;
	if (o->own)
		return OWN; /* before the rest: ours is not undercut either while it is rented */
	if (o->rentable == 0 || (o->rentable < 0 && o->rented == 1))
		return NOT_RENTABLE;
	if (o->reliability_ppm >= 0 && o->reliability_ppm < rules->reliability_ppm)
		return UNRELIABLE;
	return RIVAL;
}

/* what the offers amount to */
struct market {
	long counts[KINDS];
	const struct offer *rival; /* the cheapest comparable one */
	const struct offer *own;   /* the cheapest own one of that kind */
	bool same_count;           /* rivals with exactly as many GPUs were found */
};

static void cheaper(const struct offer **best, const struct offer *o)
{
	if (!*best || o->uusd_per_gpu_hour < (*best)->uusd_per_gpu_hour)
		*best = o;
}

/* Rivals are those with as many GPUs; where there is none, those with half to twice as many,
 * whose price per GPU is the next best thing to know. */
static void survey(struct market *m, const struct quote_input *in,
	const struct quote_rules *rules)
{
	const struct offer *same = NULL, *near = NULL;
	long nsame = 0, nnear = 0;

	memset(m, 0, sizeof *m);
	for (size_t i = 0; i < in->offers->n; i++) {
		const struct offer *o = &in->offers->items[i];
		enum kind k = kind_of(in, o, rules);
		bool is_near = o->gpu_count <= 2 * in->gpu_count &&
			in->gpu_count <= 2 * o->gpu_count;

		if (k == OWN && is_near)
			cheaper(&m->own, o);
		if (k != RIVAL) {
			m->counts[k]++;
		} else if (o->gpu_count == in->gpu_count) {
			nsame++;
			cheaper(&same, o);
		} else if (is_near) {
			nnear++;
			cheaper(&near, o);
		} else {
			m->counts[OTHER_COUNT]++;
		}
	}
	m->same_count = nsame;
	m->rival = nsame ? same : near;
	m->counts[RIVAL] = nsame ? nsame : nnear;
	m->counts[OTHER_COUNT] += nsame ? nnear : 0;
}

static void say_market(json_t *why, const struct quote_input *in, const struct market *m,
	const struct quote_rules *rules)
{
	say(why, "offers: %zu read, %ld comparable: %lld %s to rent, %s", in->offers->n,
		m->counts[RIVAL], (long long)in->gpu_count,
		in->gpu_count == 1 ? "GPU" : "GPUs", in->gpu_model);
	for (int k = OWN; k < KINDS; k++) {
		if (m->counts[k] && k == UNRELIABLE)
			say(why, "left out: %ld below a reliability of %lld ppm",
				m->counts[k], (long long)rules->reliability_ppm);
		else if (m->counts[k])
			say(why, "left out: %ld %s", m->counts[k], kind_texts[k]);
	}
}

/* --- a chip that no market lists ---------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* Median price of one reference chip on demand (lower middle); 0: the market has none. */
static int64_t reference_rate(const struct quote_input *in, const struct gpu_model *ref)
{
	int64_t *prices = xmalloc((in->offers->n + 1) * sizeof *prices), rate = 0;
	size_t n = 0;

	for (size_t i = 0; i < in->offers->n; i++) {
		const struct offer *o = &in->offers->items[i];

		if (o->known && strcmp(o->model, ref->name) == 0 && !o->spot && !o->own &&
			!o->gpu_share_ppm && o->rentable != 0 &&
			o->uusd_per_gpu_hour <= GPU_HOUR_MAX)
			prices[n++] = o->uusd_per_gpu_hour;
	}
	qsort(prices, n, sizeof *prices, by_value);
	if (n)
		rate = prices[(n - 1) / 2];
	free(prices);
	return rate;
}

/* RNP-021: priced as its TFLOPS stand to those of the reference chip; rounded half up. */
static int64_t model_price(const struct quote_input *in, const struct quote_rules *rules,
	json_t *why)
{
	const struct gpu_model *ref = rules->reference ? gpu_find(rules->reference, 0) :
							 NULL;
	int64_t rate, per_gpu;

	if (!ref || !ref->f32_gflops || !in->f32_gflops || in->f32_gflops > GFLOPS_MAX)
		return QUOTE_NONE;
	rate = reference_rate(in, ref);
	if (!rate)
		return QUOTE_NONE;
	per_gpu = muldiv_half_up(rate, in->f32_gflops, ref->f32_gflops);
	say(why,
		"model: %lld of the %lld GFLOP/s of the %s, whose median is %s $/h a GPU: %s $/h",
		(long long)in->f32_gflops, (long long)ref->f32_gflops, ref->name,
		cost_usd(rate), cost_usd(per_gpu * in->gpu_count));
	return per_gpu * in->gpu_count;
}

/* --- the price ---------------------------------------------------------------------------- */

/* what the customer should pay to have us just under the rival */
static int64_t just_under(int64_t rival_uusd, int64_t undercut_ppm)
{
	int64_t target = muldiv_floor(rival_uusd, MONEY_PPM - undercut_ppm, MONEY_PPM);

	return target == rival_uusd && target > 0 ? target - 1 : target;
}

static int64_t against_rival(struct quote *q, const struct quote_input *in,
	const struct quote_rules *rules, const struct market *m)
{
	const struct offer *rival = m->rival;
	int64_t target, ask;

	q->rival_uusd = rival->uusd_per_gpu_hour * in->gpu_count;
	say(q->why, "rival: %s %s, %s $/h a GPU%s, %s $/h for %lld", rival->market,
		rival->id, cost_usd(rival->uusd_per_gpu_hour),
		m->same_count ? "" : " (none has as many GPUs: by half to twice as many)",
		cost_usd(q->rival_uusd), (long long)in->gpu_count);
	target = just_under(q->rival_uusd, rules->undercut_ppm);
	ask = quote_ask(target, rules->fee_ppm);
	say(q->why,
		"just under: %lld ppm less is %s $/h for the customer, an ask of %s $/h",
		(long long)rules->undercut_ppm, cost_usd(target), cost_usd(ask));
	if (m->own && m->own->uusd_per_gpu_hour * in->gpu_count > target)
		say(q->why,
			"own: %s %s at %s $/h a GPU is dearer than the rival: price it again too",
			m->own->market, m->own->id, cost_usd(m->own->uusd_per_gpu_hour));
	return ask;
}

/* No rival: the model's price, an own offer's that must not be undercut, or the floor. */
static int64_t without_rival(struct quote *q, const struct quote_input *in,
	const struct quote_rules *rules, const struct market *m)
{
	int64_t customer = 0;

	if (in->offers->n == 0)
		say(q->why, "no rival: no offers were read");
	else
		say(q->why, "no rival: none of %zu offers is comparable", in->offers->n);
	if (in->offers->n == 0 && in->last_ask_uusd >= 0) {
		say(q->why,
			"the last price, %s $/h, stands: a market that says nothing is no "
			"reason to change it",
			cost_usd(in->last_ask_uusd));
		return in->last_ask_uusd;
	}
	if (q->model_uusd >= 0)
		customer = q->model_uusd;
	if (m->own && m->own->uusd_per_gpu_hour * in->gpu_count > customer) {
		customer = m->own->uusd_per_gpu_hour * in->gpu_count;
		say(q->why, "own: %s %s at %s $/h a GPU is not undercut", m->own->market,
			m->own->id, cost_usd(m->own->uusd_per_gpu_hour));
		/* rounded up: a millionth below would be under it */
		return muldiv_ceil(customer, MONEY_PPM - rules->fee_ppm, MONEY_PPM);
	}
	return quote_ask(customer, rules->fee_ppm);
}

/* Small changes are not worth a new price, as long as the last one still keeps the rules: not
 * under the floor, under the rival, and for the customer not under own_uusd. */
static int64_t damp(struct quote *q, const struct quote_input *in,
	const struct quote_rules *rules, int64_t own_uusd, int64_t ask)
{
	int64_t last = in->last_ask_uusd, change = ask > last ? ask - last : last - ask;

	if (last < 0 || change == 0 || last < in->floor_uusd)
		return ask;
	if (q->rival_uusd >= 0 && quote_customer(last, rules->fee_ppm) >= q->rival_uusd)
		return ask;
	if (quote_customer(last, rules->fee_ppm) < own_uusd)
		return ask;
	if ((__int128)change * MONEY_PPM >= (__int128)last * rules->hysteresis_ppm)
		return ask;
	say(q->why,
		"hysteresis: %s to %s $/h is a change of less than %lld ppm: the last price "
		"stays",
		cost_usd(last), cost_usd(ask), (long long)rules->hysteresis_ppm);
	return last;
}

void quote_price(struct quote *q, const struct quote_input *in,
	const struct quote_rules *rules)
{
	struct market m = { 0 };
	int64_t ask, own_uusd = 0;

	q->floor_uusd = in->floor_uusd;
	q->rival_uusd = q->model_uusd = QUOTE_NONE;
	q->why = json_array();
	if (!in->gpu_model) {
		say(q->why, "no rival: %s", in->no_gpu);
		ask = 0;
	} else {
		survey(&m, in, rules);
		say_market(q->why, in, &m, rules);
		q->model_uusd = model_price(in, rules, q->why);
		ask = m.rival ? against_rival(q, in, rules, &m) :
				without_rival(q, in, rules, &m);
	}
	if (ask < in->floor_uusd) {
		if (ask)
			say(q->why, "floor: %s $/h is under the floor of %s $/h",
				cost_usd(ask), cost_usd(in->floor_uusd));
		else
			say(q->why, "floor: the price is the floor of %s $/h",
				cost_usd(in->floor_uusd));
		ask = in->floor_uusd;
	}
	if (m.own && !m.rival)
		own_uusd = m.own->uusd_per_gpu_hour * in->gpu_count;
	q->ask_uusd = damp(q, in, rules, own_uusd, ask);
	q->customer_uusd = quote_customer(q->ask_uusd, rules->fee_ppm);
	say(q->why,
		"ask: %s $/h; the customer pays %s $/h, %lld ppm of it the network's fee",
		cost_usd(q->ask_uusd), cost_usd(q->customer_uusd),
		(long long)rules->fee_ppm);
}
