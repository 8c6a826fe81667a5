/* ecq's step: the widest, and of several dead zones the one with the fewest bits, that keeps the error wanted. All is
 * estimated from counts by magnitude, 32 bins in each octave, which every device counts alike. */
#include <math.h>
#include <stdlib.h>

#include "common/grad/grad.h"
#include "common/mem.h"

#define SMALL_LEVELS 64
#define STEP_MAX     8e37 /* centroids are f32 too */

/* The bins that have elements. */
struct bin {
	double n, centre, square, width; /* square: mean square of what is in it */
};

struct bins {
	int n;
	double count, energy, most;
	struct bin bin[QUANT_BINS];
};

/* What a step would do. */
struct outcome {
	double error; /* sum of squares */
	double bits;
	struct quant_step step;
};

static void gather(struct bins *b, const uint64_t counts[QUANT_BINS])
{
	b->n = 0;
	b->count = b->energy = b->most = 0;
	for (uint32_t i = 0; i < QUANT_BINS; i++) {
		double low = (double)half_float_of_bits(i << 18), high;
		struct bin *one = &b->bin[b->n];

		if (!counts[i] || i >= 0x7f800000u >> 18)
			continue;
		high = i + 1 < 0x7f800000u >> 18 ?
			(double)half_float_of_bits((i + 1) << 18) :
			low * 1.03125;
		one->n = (double)counts[i];
		one->width = high - low;
		one->centre = i ? (low + high) / 2 : 0; /* almost all of these are 0 */
		one->square = one->centre * one->centre +
			(i ? one->width * one->width / 12 : 0);
		b->count += one->n;
		b->energy += one->n * one->square;
		b->most = high;
		b->n++;
	}
}

static double share_bits(double part, double all)
{
	return part > 0 ? part * log2(all / part) : 0;
}

/* Levels from 1 on: sums of what remains beside m step, for the one level or all above it. */
struct group {
	double n, rest, square;
};

static void group_add(struct group *g, double n, double rest, double square)
{
	g->n += n;
	g->rest += n * rest;
	g->square += n * square;
}

static double group_error(const struct group *g)
{
	return g->n > 0 ? g->square - g->rest * g->rest / g->n : 0;
}

static void try(struct outcome *o, const struct bins *b, double step, double rounding,
	bool want_bits)
{
	struct group one = { 0 }, above = { 0 };
	double level[SMALL_LEVELS] = { 0 }, wide_bits = 0, zero_error = 0, shift;

	for (int i = 0; i < b->n; i++) {
		const struct bin *v = &b->bin[i];
		double m = floor(v->centre / step + rounding);
		double rest = v->centre - m * step;
		double square = rest * rest + v->width * v->width / 12;

		if (m < 1) {
			zero_error += v->n * v->square;
		} else if (m < 2) {
			group_add(&one, v->n, rest, square);
		} else if (v->width < step / 4) {
			group_add(&above, v->n, rest, square);
		} else { /* all over the interval of a level */
			rest = (0.5 - rounding) * step;
			group_add(&above, v->n, rest, step * step / 12 + rest * rest);
		}
		if (m < SMALL_LEVELS)
			level[(int)m] += v->n;
		else if (want_bits)
			wide_bits += share_bits(v->n, b->count) +
				v->n * (log2(v->width / step > 1 ? v->width / step : 1));
	}
	o->error = zero_error + group_error(&one) + group_error(&above);
	o->bits = wide_bits;
	for (int m = 0; want_bits && m < SMALL_LEVELS; m++)
		o->bits += share_bits(level[m], b->count);
	o->bits += b->count - level[0]; /* signs */
	shift = above.n > 0 ? -above.rest / above.n : 0;
	o->step = (struct quant_step){ .step = (float)step,
		.inverse = (float)(1 / step),
		.rounding = (float)rounding,
		.first = (float)(step + (one.n > 0 ? one.rest / one.n : 0)),
		.shift = (float)shift };
}

/* The widest step with at most that error, by halving the interval on a logarithmic scale. */
static void widest(struct outcome *o, const struct bins *b, double error, double rounding,
	int rounds)
{
	double low = 0.5 * sqrt(error / b->count), high = fmin(4 * b->most, STEP_MAX);

	for (int i = 0; i < rounds; i++) {
		double middle = sqrt(low * high);

		try(o, b, middle, rounding, false);
		if (o->error > error)
			high = middle;
		else
			low = middle;
	}
	try(o, b, low, rounding, true);
}

void grad_step(struct quant_step *out, const uint64_t counts[QUANT_BINS], double error,
	bool thorough)
{
	static const double roundings[] = { 0.5, 0.45, 0.4, 0.35, 0.3, 0.25, 0.2, 0.15 };
	struct outcome best = { .bits = INFINITY }, o;
	struct bins *b = xmalloc(sizeof *b);
	int count = sizeof roundings / sizeof *roundings;

	*out = (struct quant_step){ 0 };
	gather(b, counts);
	for (int i = 0; b->energy > 0 && i < count; i++) {
		if (!thorough && i != 2) /* 0.4 is good everywhere */
			continue;
		widest(&o, b, error * error * b->energy, roundings[i],
			thorough ? 40 : 18);
		if (o.bits < best.bits)
			best = o;
	}
	if (b->energy > 0 && best.step.step >= QUANT_TINY)
		*out = best.step;
	free(b);
}
