/* estimate_core.c - what a node would earn in a day on one market: see estimate_core.h. */
#include "cmd/rnp-price/estimate_core.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/mem.h"

#define DAY_HOURS      24
#define Z_FOUR_FIFTH   1.2815515594600038 /* standard deviations on each side */
#define QUARTILE_Z     1.3489795003921634 /* between the quartiles of a normal distribution */
#define OCCUPANCY_LOW  0.01
#define OCCUPANCY_HIGH 0.99

/* linear between the neighbours, as in rivals.c */
static double quantile(const struct offer *const *hosts, size_t n, double p)
{
	double at = p * (double)(n - 1);
	size_t i = (size_t)at;
	double low = (double)hosts[i]->uusd_per_gpu_hour;

	if (i + 1 >= n)
		return low;
	return low + (at - (double)i) * ((double)hosts[i + 1]->uusd_per_gpu_hour - low);
}

/* --- who is rented ------------------------------------------------------------------------ */

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

/* --- money -------------------------------------------------------------------------------- */

struct day {
	double load_uusd, idle_uusd, hardware_uusd; /* if it works all day; if it waits */
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

bool estimate_market(struct estimate *e, const struct rivals_question *q,
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
