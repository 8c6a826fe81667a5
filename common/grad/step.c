/* step.c - ecq's step: the widest step that keeps the target error, and of several dead zones
 * the one with the fewest bits. All is estimated from counts by magnitude, 32 bins per octave,
 * which every device counts alike. */
#include <math.h>
#include <stdlib.h>

#include "common/grad/grad.h"
#include "common/base/mem.h"

#define SMALL_LEVELS 64
#define STEP_MAX     8e37 /* centroids are f32 too */

/* The bins that have elements, which are assumed to be uniform over each bin. */
struct bin {
	double n, low, width;
};

struct bins {
	int n;
	double count, energy, max;
	struct bin bin[QUANT_BINS];
};

/* The estimated effect of a step. */
struct outcome {
	double error; /* sum of squares */
	double bits;
	struct quant_step step;
};

static double square_of(double centre, double width)
{
	return centre * centre + width * width / 12;
}

static void gather(struct bins *b, const uint64_t counts[QUANT_BINS])
{
	b->n = 0;
	b->count = b->energy = b->max = 0;
	for (uint32_t i = 0; i < 0x7f800000u >> 18; i++) {
		double low = (double)half_float_of_bits(i << 18), high = low * 1.03125;
		struct bin *one = &b->bin[b->n];

		if (!counts[i])
			continue;
		if (i + 1 < 0x7f800000u >> 18)
			high = (double)half_float_of_bits((i + 1) << 18);
		one->n = (double)counts[i];
		one->low = low;
		one->width = i ? high - low :
				 0; /* almost all elements of the lowest bin are 0 */
		b->count += one->n;
		b->energy += one->n * square_of(low + one->width / 2, one->width);
		b->max = high;
		b->n++;
	}
}

static double share_bits(double part, double all)
{
	return part > 0 ? part * log2(all / part) : 0;
}

/* Levels from 1 on: sums of the remainders beside m step, for this level or all above it. */
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

/* All counts for a step. */
struct tally {
	struct group one, above;
	double zero_error, level[SMALL_LEVELS], wide_bits;
};

/* Adds n elements around `centre` that become level m. */
static void tally_level(struct tally *t, double n, double centre, double width, double m,
	double step)
{
	double rest = centre - m * step, square = square_of(rest, width);

	if (m < 1)
		t->zero_error += n * square;
	else
		group_add(m < 2 ? &t->one : &t->above, n, rest, square);
	if (m < SMALL_LEVELS)
		t->level[(int)m] += n;
}

/* Adds a bin, in pieces of one level each. */
static void tally_bin(struct tally *t, const struct bin *v, double step, double rounding)
{
	double at = v->low, end = v->low + v->width;

	do {
		double m = floor(at / step + rounding), edge = (m + 1 - rounding) * step;

		if (edge <= at) {
			m++;
			edge += step;
		}
		edge = edge < end ? edge : end;
		tally_level(t, v->width > 0 ? v->n * (edge - at) / v->width : v->n,
			(at + edge) / 2, edge - at, m, step);
		at = edge;
	} while (at < end);
}

static int rising(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Returns the bits that a Huffman code takes for n symbols of these weights, which are
 * overwritten: the sum of all merged pairs. */
static double huffman_bits(double *weight, int n)
{
	double bits = 0;

	qsort(weight, (size_t)n, sizeof *weight, rising);
	for (int from = 0; from + 1 < n; from++) {
		double pair = weight[from] + weight[from + 1];
		int i = from + 1;

		bits += pair;
		for (; i + 1 < n && weight[i + 1] < pair; i++)
			weight[i] = weight[i + 1];
		weight[i] = pair;
	}
	return bits;
}

/* Returns the bits of all symbols. Mostly zero levels are coded by runs, near their entropy,
 * and many levels come close to it as well; a few levels of similar frequency take the bits of
 * a Huffman code, which may be 6% more. */
static double bits_of(const struct tally *t, double count)
{
	double weight[2 * SMALL_LEVELS], bits = t->wide_bits + count - t->level[0];
	int n = 0;

	for (int m = 0; m < SMALL_LEVELS; m++) {
		bits += share_bits(t->level[m], count);
		for (int sign = 0; sign < (m ? 2 : 1) && t->level[m] > 0; sign++)
			weight[n++] = t->level[m] / (m ? 2 : 1);
	}
	if (t->wide_bits > 0 || t->level[0] > count / 2)
		return bits;
	return huffman_bits(weight, n);
}

static void try(struct outcome *o, const struct bins *b, double step, double rounding,
	bool want_bits)
{
	struct tally t = { .zero_error = 0 };

	for (int i = 0; i < b->n; i++) {
		const struct bin *v = &b->bin[i];
		double rest = (0.5 - rounding) * step;

		if (v->low < step * SMALL_LEVELS / 2) {
			tally_bin(&t, v, step, rounding);
			continue;
		}
		/* uniform over the interval of a level */
		group_add(&t.above, v->n, rest, step * step / 12 + rest * rest);
		if (want_bits)
			t.wide_bits += share_bits(v->n, b->count) +
				v->n * log2(v->width / step > 1 ? v->width / step : 1);
	}
	o->error = t.zero_error + group_error(&t.one) + group_error(&t.above);
	o->bits = want_bits ? bits_of(&t, b->count) : 0;
	o->step = (struct quant_step){ .step = (float)step,
		.inverse = (float)(1 / step),
		.rounding = (float)rounding,
		.first = (float)(step + (t.one.n > 0 ? t.one.rest / t.one.n : 0)),
		.shift = (float)(t.above.n > 0 ? -t.above.rest / t.above.n : 0) };
}

/* Returns the widest step with at most that error, by bisection on a logarithmic scale. */
static void widest(struct outcome *o, const struct bins *b, double error, double rounding,
	int rounds)
{
	double low = 0.5 * sqrt(error / b->count), high = fmin(4 * b->max, STEP_MAX);

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
		if (!thorough && i != 2) /* 0.4 is good for every distribution */
			continue;
		widest(&o, b, error * error * b->energy, roundings[i],
			thorough ? 26 : 18);
		if (o.bits < best.bits)
			best = o;
	}
	if (b->energy > 0 && best.step.step >= QUANT_TINY)
		*out = best.step;
	free(b);
}
