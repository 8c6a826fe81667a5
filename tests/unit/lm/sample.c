/* sample: tokens come with the shares that the formulas give, evaluated here in another way; seeds
 * repeat; what is not finite is never taken. */
#include "common/lm/infer/sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/test.h"

enum { VOCAB = 12, DRAWS = 40000 };

static const float logits[VOCAB] = { 0.5f, -1, 2, 2, 0, 1.25f, -3, 0.75f, 1, -0.5f, 1.9f,
	-8 };

/* Shares by the definition: sorted by logit, then id; the first k; the fewest that reach p of
 * those; each by its part. */
static void shares(double out[VOCAB], double temperature, uint32_t k, double p)
{
	uint32_t order[VOCAB];
	double sum = 0, kept = 0, seen = 0;
	uint32_t n = k ? k : VOCAB, end = 0;

	for (uint32_t i = 0; i < VOCAB; i++)
		order[i] = i;
	for (uint32_t i = 0; i < VOCAB; i++) /* insertion sort */
		for (uint32_t j = i; j > 0 && logits[order[j]] > logits[order[j - 1]];
			j--) {
			uint32_t swap = order[j];

			order[j] = order[j - 1];
			order[j - 1] = swap;
		}
	if (n > VOCAB)
		n = VOCAB;
	for (uint32_t i = 0; i < n; i++)
		sum += exp((double)logits[order[i]] / temperature);
	while (end < n && seen < p * sum)
		seen += exp((double)logits[order[end++]] / temperature);
	kept = seen;
	memset(out, 0, VOCAB * sizeof *out);
	for (uint32_t i = 0; i < end; i++)
		out[order[i]] = exp((double)logits[order[i]] / temperature) / kept;
}

/* Counts over many draws are within five standard deviations; what has no share never comes. */
static void distribution(double temperature, uint32_t k, double p)
{
	struct lm_sampler s;
	int counts[VOCAB] = { 0 };
	double want[VOCAB];

	lm_sampler_init(&s, 77);
	s.temperature = temperature;
	s.top_k = k;
	s.top_p = p;
	for (int i = 0; i < DRAWS; i++)
		counts[lm_sample(&s, logits, VOCAB)]++;
	shares(want, temperature, k, p);
	for (int i = 0; i < VOCAB; i++) {
		double mean = DRAWS * want[i], spread = sqrt(mean * (1 - want[i]));

		CHECK(want[i] > 0 || counts[i] == 0);
		CHECK(fabs(counts[i] - mean) <= 5 * spread + 1e-9);
	}
	lm_sampler_release(&s);
}

static void most_likely(void)
{
	float odd[5] = { NAN, 1, NAN, 3, 3 }, none[3] = { NAN, NAN, NAN };
	float top[4] = { 1, INFINITY, 2, NAN };
	struct lm_sampler s;

	lm_sampler_init(&s, 1);
	s.temperature = 0;
	CHECK_I64(2, lm_sample(&s, logits, VOCAB)); /* of equal ones the lowest */
	CHECK_I64(3, lm_sample(&s, odd, 5));
	CHECK(lm_sample(&s, none, 3) < 3);
	/* NaN is never taken at any temperature; infinity is all there is */
	s.temperature = 1.5;
	for (int i = 0; i < 200; i++) {
		uint32_t id = lm_sample(&s, odd, 5);

		CHECK(id == 1 || id == 3 || id == 4);
		CHECK_I64(1, lm_sample(&s, top, 4));
		CHECK_I64(0, lm_sample(&s, logits, 1));
	}
	lm_sampler_release(&s);
}

static void seeds(void)
{
	struct lm_sampler a, b, c;
	int differ = 0;

	lm_sampler_init(&a, 5);
	lm_sampler_init(&b, 5);
	lm_sampler_init(&c, 6);
	for (int i = 0; i < 300; i++) {
		uint32_t x = lm_sample(&a, logits, VOCAB);

		CHECK_I64(x, lm_sample(&b, logits, VOCAB));
		differ += x != lm_sample(&c, logits, VOCAB);
	}
	CHECK(differ > 100);
	lm_sampler_release(&a);
	lm_sampler_release(&b);
	lm_sampler_release(&c);
}

int main(void)
{
	distribution(1, 0, 1);
	distribution(0.7, 0, 1);
	distribution(1, 4, 1);
	distribution(1, 0, 0.6);
	distribution(2, 7, 0.8);
	distribution(1, 1, 1);
	distribution(1, 0, 1e-9); /* always one */
	distribution(1, 100, 0.95);
	most_likely();
	seeds();
	TEST_END();
}
