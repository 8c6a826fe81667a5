/* line_fit.c - fits lines to message times, and finds the sizes at which another backend becomes
 * the fastest. */
#include "cmd/rnp-bench/suites/line_fit.h"

#include <math.h>

bool fit_line(const double *bytes, const double *ns, size_t n, struct fit *out)
{
	double w = 0, wn = 0, wnn = 0, wt = 0, wnt = 0, determinant;

	for (size_t i = 0; i < n; i++) {
		double weight = 1 / (ns[i] * ns[i]);

		w += weight;
		wn += weight * bytes[i];
		wnn += weight * bytes[i] * bytes[i];
		wt += weight * ns[i];
		wnt += weight * bytes[i] * ns[i];
	}
	determinant = w * wnn - wn * wn;
	if (n < 2 || !(determinant > 0))
		return false;
	out->latency_ns = (wnn * wt - wn * wnt) / determinant;
	out->per_byte_ns = (w * wnt - wn * wt) / determinant;
	if (out->latency_ns < 0) {
		out->latency_ns = 0;
		out->per_byte_ns = wnt / wnn;
	}
	out->worst = 0;
	for (size_t i = 0; i < n; i++)
		out->worst = fmax(out->worst,
			fabs((out->latency_ns + bytes[i] * out->per_byte_ns - ns[i]) /
				ns[i]));
	return out->per_byte_ns > 0;
}

static const struct figure *at(const struct figure *curves, int k, size_t sizes, size_t i)
{
	return &curves[(size_t)k * sizes + i];
}

/* Returns the backend with the smallest median at size i, or -1. */
static int fastest(const struct figure *curves, int backends, size_t sizes, size_t i)
{
	int best = -1;

	for (int k = 0; k < backends; k++) {
		int64_t t = at(curves, k, sizes, i)->median;

		if (t && (best < 0 || t < at(curves, best, sizes, i)->median))
			best = k;
	}
	return best;
}

/* Finds where winner overtook loser, which was the fastest up to the size before i. */
static void locate(const struct figure *curves, const double *bytes, size_t sizes,
	size_t i, struct crossing *c)
{
	size_t k = i;
	double before, after;

	while (k > 0) {
		const struct figure *w = at(curves, c->winner, sizes, k - 1);
		const struct figure *l = at(curves, c->loser, sizes, k - 1);

		if (w->median && l->median && w->median >= l->median)
			break;
		k--;
	}
	c->high = bytes[i];
	c->low = k ? bytes[k - 1] : bytes[0];
	c->bytes = c->low;
	if (!k)
		return;
	before = log((double)at(curves, c->winner, sizes, k - 1)->median /
		(double)at(curves, c->loser, sizes, k - 1)->median);
	after = log((double)at(curves, c->winner, sizes, k)->median /
		(double)at(curves, c->loser, sizes, k)->median);
	if (isfinite(after) && before > after)
		c->bytes *= pow(bytes[k] / bytes[k - 1], before / (before - after));
}

size_t fit_crossings(const struct figure *curves, int backends, const double *bytes,
	size_t sizes, struct crossing *out)
{
	int winner = -1;
	size_t n = 0;

	for (size_t i = 0; i < sizes; i++) {
		int best = fastest(curves, backends, sizes, i);
		const struct figure *held = winner < 0 ? NULL :
							 at(curves, winner, sizes, i);

		if (best < 0 || best == winner)
			continue;
		if (!held) {
			out[n++] = (struct crossing){ best, -1, bytes[i], bytes[i],
				bytes[i] };
			winner = best;
		} else if (held->median && at(curves, best, sizes, i)->high < held->low) {
			out[n] = (struct crossing){ .winner = best, .loser = winner };
			locate(curves, bytes, sizes, i, &out[n]);
			n++;
			winner = best;
		}
	}
	return n;
}
