/* sellers.c - which sellers are believed, and which follow our own price: see sellers.h. */
#include "cmd/rnp-price/quote/sellers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define RATIO_LOW   0.90 /* of who copies to ours */
#define RATIO_HIGH  1.02
#define RATIO_ERROR 0.002
#define BELIEVED    0.25 /* of the usual lowest price, of who is new */
#define USUAL_KEEP  0.98

static int by_price(const void *a, const void *b)
{
	const struct demand_seller *x = a, *y = b;

	return (x->price > y->price) - (x->price < y->price);
}

/* The same of n sellers in the order of their prices. */
static double quartile(const struct demand_seller *sellers, size_t n)
{
	double all = 0, sum = 0;
	size_t i = 0;

	for (size_t k = 0; k < n; k++)
		all += sellers[k].count;
	while (i + 1 < n && (sum += sellers[i].count) * 4 < all)
		i++;
	return sellers[i].price;
}

double sellers_quartile(const struct demand_market *m)
{
	struct demand_market sorted = *m;

	qsort(sorted.sellers, sorted.n, sizeof *sorted.sellers, by_price);
	return quartile(sorted.sellers, sorted.n);
}

void sellers_believe(struct demand_market *m, const bool *stood, double *usual)
{
	double lowest = 0, limit = *usual * BELIEVED;
	size_t n = 0;

	for (size_t i = 0; i < m->n; i++) {
		if (!stood[i] && m->sellers[i].price < limit)
			continue;
		m->sellers[n++] = m->sellers[i];
		if (n == 1 || m->sellers[i].price < lowest)
			lowest = m->sellers[i].price;
	}
	m->n = n;
	if (!n)
		return;
	m->lowest = lowest;
	*usual = *usual > 0 ? *usual * pow(lowest / *usual, 1 - USUAL_KEEP) : lowest;
}

/* --- who follows ------------------------------------------------------------------------------ */

/* Returns which ask is nearest to price / ratio. */
static double nearest(double price, double ratio, const double *asks, size_t n)
{
	double best = asks[0];

	for (size_t i = 1; i < n; i++)
		if (fabs(log(price / ratio / asks[i])) < fabs(log(price / ratio / best)))
			best = asks[i];
	return best;
}

static bool is_alike(double x, double y)
{
	return fabs(x / y - 1) <= RATIO_ERROR;
}

/* His price has changed. */
static void changed(struct follower *f, double price, const double *asks, size_t n)
{
	double ask = nearest(price, 1, asks, n), ratio = price / ask;

	if (f->copies) {
		double same = nearest(price, f->ratio, asks, n);

		if (is_alike(price / same, f->ratio) && !is_alike(same, f->ask)) {
			f->copies += f->copies < FOLLOWER_COPIES_MAX;
			f->ask = same;
			return;
		}
	}
	if (!(ratio >= RATIO_LOW && ratio <= RATIO_HIGH)) {
		f->copies = 0;
		return;
	}
	f->ask = ask;
	if (f->copies > 1) {
		f->copies--;
		return;
	}
	f->copies = 1;
	f->ratio = ratio;
}

bool follower_sees(struct follower *f, double price, const double *asks, size_t n)
{
	if (!n || !(price > 0))
		return f->copies >= FOLLOWER_COPIES;
	if (f->price > 0 && price != f->price)
		changed(f, price, asks, n);
	else if (f->copies && !is_alike(nearest(f->ask, 1, asks, n), f->ask))
		f->copies = 0; /* we went elsewhere, and he stayed */
	f->price = price;
	return f->copies >= FOLLOWER_COPIES;
}
