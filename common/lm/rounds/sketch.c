/* sketch.c - blocks of SKETCH_N elements, each with signs and a turn of its own, so that what
 * repeats with the width of a matrix meets other elements in each block. */
#include "common/lm/rounds/sketch.h"

#include <math.h>
#include <string.h>

#define LANE 16 /* elements that stay together: a loop over them is a vector's */

void sketch_begin(struct sketch *s, uint64_t seed)
{
	memset(s->sums, 0, sizeof s->sums);
	rng_seed(&s->rng, seed, 0);
	s->at = 0;
}

/* The part of a block from element `at` on, whose count elements are within one lane. */
static void add_lane(struct sketch *s, const float *x, uint64_t at, uint64_t count)
{
	double *to = s->sums + (at ^ s->turned);
	uint32_t signs = s->signs[at / 32] >> (at % 32);

	for (uint64_t i = 0; i < count; i++)
		to[i] += signs >> i & 1 ? -x[i] : x[i];
}

void sketch_add(struct sketch *s, const float *x, uint64_t n)
{
	while (n) {
		uint64_t at = s->at % SKETCH_N, count = LANE - at % LANE;

		if (!at) {
			for (int i = 0; i < SKETCH_N / 32; i++)
				s->signs[i] = rng_u32(&s->rng);
			s->turned = rng_u32(&s->rng) % (SKETCH_N / LANE) * LANE;
		}
		count = count < n ? count : n;
		add_lane(s, x, at, count);
		s->at += count;
		x += count;
		n -= count;
	}
}

void sketch_end(const struct sketch *s, float out[SKETCH_N])
{
	double squares = 0;

	for (int i = 0; i < SKETCH_N; i++)
		squares += s->sums[i] * s->sums[i];
	for (int i = 0; i < SKETCH_N; i++)
		out[i] = squares > 0 ? (float)(s->sums[i] / sqrt(squares)) : 0;
}

int64_t sketch_cosine_ppm(const float *a, const float *b)
{
	double sum = 0;

	for (int i = 0; i < SKETCH_N; i++)
		sum += (double)a[i] * (double)b[i];
	return llround(1e6 * fmax(-1, fmin(1, sum)));
}
