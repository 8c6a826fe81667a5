/* rivals.c - groups comparable offers by host and removes the hosts that are too cheap to be
 * believed. The header states the rule; tests/unit/rnp-price/quote/quote.c compares it with a plain
 * implementation. */
#include "cmd/rnp-price/offers/rivals.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/mem.h"

#define BREAK_EVEN_HOURS (180 * 24) /* RNP-004: the list price is earned in 180 days */
#define BREAK_EVEN_PART  8

static bool same_model(const struct rivals_question *q, const struct offer *o)
{
	if (q->known)
		return o->known &&
			(o->gpu ? o->gpu == q->known :
				  strcmp(q->known->name, o->model) == 0);
	return !o->known && strcasecmp(q->gpu_model, o->model) == 0;
}

/* Whether it is the same chip, but the market or the node does not state which variant. */
static bool same_chip(const struct rivals_question *q, const struct offer *o)
{
	const struct gpu_model *m = NULL;

	if (q->known && o->known)
		m = o->gpu ? o->gpu : gpu_find(o->model, 0);
	return m && strcmp(m->family, q->known->family) == 0 &&
		(m->unspecific || q->known->unspecific);
}

enum rival_kind rivals_kind(const struct rivals_question *q, const struct offer *o)
{
	if (!same_model(q, o))
		return same_chip(q, o) ? RIVAL_UNSPECIFIC : RIVAL_OTHER_MODEL;
	if (o->spot)
		return RIVAL_SPOT;
	if (o->gpu_share_ppm)
		return RIVAL_SHARE;
	if (o->uusd_per_gpu_hour > RIVALS_GPU_HOUR_MAX)
		return RIVAL_ABSURD;
	if (o->own)
		/* before the other checks: an own offer that is rented is not undercut either */
		return RIVAL_OWN;
	if (o->rentable == 0 || (o->rentable < 0 && o->rented == 1))
		return RIVAL_NOT_RENTABLE;
	if (o->reliability_ppm >= 0 && o->reliability_ppm < q->reliability_ppm)
		return RIVAL_UNRELIABLE;
	return RIVAL_COMPARABLE;
}

const char *rivals_host(const struct offer *o)
{
	return o->host ? o->host : o->machine ? o->machine : o->id;
}

/* --- hosts -------------------------------------------------------------------------------- */

struct group {
	const struct offer **offers;
	size_t n, cap;
};

static void group_add(struct group *g, const struct offer *o)
{
	g->offers = xgrow(g->offers, &g->cap, g->n + 1, sizeof *g->offers);
	g->offers[g->n++] = o;
}

static int by_price(const void *a, const void *b)
{
	const struct offer *x = *(const struct offer *const *)a;
	const struct offer *y = *(const struct offer *const *)b;

	if (x->uusd_per_gpu_hour != y->uusd_per_gpu_hour)
		return x->uusd_per_gpu_hour < y->uusd_per_gpu_hour ? -1 : 1;
	return strcmp(x->id, y->id);
}

/* Returns 0 for offers of one host: a host name identifies it only within its market. */
static int host_order(const struct offer *x, const struct offer *y)
{
	/* the offers of one feed share the text */
	int order = x->market == y->market ? 0 : strcmp(x->market, y->market);

	return order ? order : strcmp(rivals_host(x), rivals_host(y));
}

static int by_host(const void *a, const void *b)
{
	const struct offer *x = *(const struct offer *const *)a;
	const struct offer *y = *(const struct offer *const *)b;
	int order = host_order(x, y);

	return order ? order : by_price(a, b);
}

/* Keeps the cheapest offer of each host, cheapest host first. */
static void keep_hosts(struct group *g)
{
	size_t n = 0;

	if (!g->n)
		return;
	qsort(g->offers, g->n, sizeof *g->offers, by_host);
	for (size_t i = 0; i < g->n; i++)
		if (!n || host_order(g->offers[n - 1], g->offers[i]) != 0)
			g->offers[n++] = g->offers[i];
	g->n = n;
	qsort(g->offers, n, sizeof *g->offers, by_price);
}

/* Returns four times the first quartile of n >= 4 ascending prices (linear between the
 * neighbours). */
static int64_t quartile4(const struct offer *const *hosts, size_t n)
{
	size_t i = (n - 1) / 4, r = (n - 1) % 4;
	int64_t low = hosts[i]->uusd_per_gpu_hour,
		high = r ? hosts[i + 1]->uusd_per_gpu_hour : low;

	return low * (int64_t)(4 - r) + high * (int64_t)r;
}

static int64_t model_low(const struct rivals_question *q)
{
	if (q->low_uusd >= 0)
		return q->low_uusd;
	if (q->known && q->known->msrp_uusd)
		return q->known->msrp_uusd / BREAK_EVEN_HOURS / BREAK_EVEN_PART * 2;
	return RIVALS_NONE;
}

/* Returns eight times the price below which the cheapest of n hosts is not believed: half the
 * quartile, or half the low end. RIVALS_NONE: there is nothing to compare with. */
static int64_t limit8(const struct offer *const *hosts, size_t n, int64_t low)
{
	if (n >= RIVALS_FEW_HOSTS)
		return quartile4(hosts, n);
	return low >= 0 ? 4 * low : RIVALS_NONE;
}

/* Removes the cheapest host while it is below the limit of the remaining ones. One at a time,
 * so that the others are treated as if it had never been there. */
static void doubt(struct rivals *r, const struct rivals_question *q, struct group *g)
{
	size_t from = 0;
	int64_t low = model_low(q);

	r->limit_uusd = RIVALS_NONE;
	r->nall = g->n;
	for (; from < g->n; from++) {
		int64_t limit = limit8(g->offers + from, g->n - from, low);

		if (g->offers[from]->uusd_per_gpu_hour * 8 >= limit)
			break;
		r->limit_uusd = limit / 8;
		r->limit_by_quartile = g->n - from >= RIVALS_FEW_HOSTS;
	}
	if (from)
		r->doubtful_uusd = g->offers[0]->uusd_per_gpu_hour;
	r->ndoubtful = from;
	if (from)
		memmove(g->offers, g->offers + from, (g->n - from) * sizeof *g->offers);
	g->n -= from;
}

static void cheaper(const struct offer **best, const struct offer *o)
{
	if (!*best || o->uusd_per_gpu_hour < (*best)->uusd_per_gpu_hour)
		*best = o;
}

/* Rivals are those with as many GPUs; if none of these is believed, those with half to twice as
 * many, whose price per GPU is the next best evidence. */
void rivals_find(struct rivals *r, const struct rivals_question *q)
{
	struct group same = { 0 }, near = { 0 };
	size_t nsame, nnear;

	memset(r, 0, sizeof *r);
	for (size_t i = 0; i < q->offers->n; i++) {
		const struct offer *o = &q->offers->items[i];
		enum rival_kind k = rivals_kind(q, o);
		bool any = q->gpu_count == RIVALS_ANY_COUNT;
		bool is_near = any ||
			(o->gpu_count <= 2 * q->gpu_count &&
				q->gpu_count <= 2 * o->gpu_count);

		if (k == RIVAL_OWN && is_near)
			cheaper(&r->own, o);
		if (k == RIVAL_COMPARABLE && !is_near)
			k = RIVAL_OTHER_COUNT;
		if (k == RIVAL_COMPARABLE && q->seen && !q->seen[i])
			k = RIVAL_UNSEEN;
		if (k == RIVAL_COMPARABLE && q->follows && q->follows[i])
			k = RIVAL_FOLLOWER;
		if (k == RIVAL_COMPARABLE)
			group_add(any || o->gpu_count == q->gpu_count ? &same : &near, o);
		else
			r->counts[k]++;
	}
	nsame = same.n;
	nnear = near.n;
	keep_hosts(&same);
	doubt(r, q, &same);
	r->same_count = same.n > 0;
	if (!same.n) {
		struct rivals of_same = *r;

		keep_hosts(&near);
		doubt(r, q, &near);
		if (!r->ndoubtful) {
			r->ndoubtful = of_same.ndoubtful;
			r->nall = of_same.nall;
			r->doubtful_uusd = of_same.doubtful_uusd;
			r->limit_uusd = of_same.limit_uusd;
			r->limit_by_quartile = of_same.limit_by_quartile;
		}
	}
	r->hosts = same.n ? same.offers : near.offers;
	r->nhosts = same.n ? same.n : near.n;
	r->counts[RIVAL_COMPARABLE] = (long)(same.n || !nnear ? nsame : nnear);
	r->counts[RIVAL_OTHER_COUNT] += (long)(same.n ? nnear : nnear ? nsame : 0);
	free(same.n ? near.offers : same.offers);
}

void rivals_release(struct rivals *r)
{
	free(r->hosts);
	r->hosts = NULL;
	r->nhosts = 0;
}
