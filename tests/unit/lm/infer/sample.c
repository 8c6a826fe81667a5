/* sample.c - tokens come with the shares that the formulas give, evaluated here in
 * another way; seeds repeat; what is not finite is never taken. */
#include "common/lm/infer/sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"
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
	s.how.temperature = temperature;
	s.how.top_k = k;
	s.how.top_p = p;
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
	s.how.temperature = 0;
	CHECK_I64(2, lm_sample(&s, logits, VOCAB)); /* of equal ones the lowest */
	CHECK_I64(3, lm_sample(&s, odd, 5));
	CHECK(lm_sample(&s, none, 3) < 3);
	/* NaN is never taken at any temperature; infinity is all there is */
	s.how.temperature = 1.5;
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

/* Each position has a draw of its own: neither what was drawn before nor the order matters. */
static void positions(void)
{
	struct lm_sampling how;
	struct lm_scratch w = { 0 };
	uint32_t forward[100], differ = 0;

	lm_sampling_defaults(&how, 9);
	for (uint32_t p = 0; p < 100; p++)
		forward[p] = lm_draw(&w, &how, NULL, NULL, logits, VOCAB, p);
	for (uint32_t p = 100; p-- > 0;)
		CHECK_I64(forward[p], lm_draw(&w, &how, NULL, NULL, logits, VOCAB, p));
	how.choice = 1;
	for (uint32_t p = 0; p < 100; p++)
		differ += forward[p] != lm_draw(&w, &how, NULL, NULL, logits, VOCAB, p);
	CHECK(differ > 30);
	lm_scratch_release(&w);
}

static uint32_t greedy(const struct lm_sampling *how, const struct lm_history *history,
	const uint64_t *allowed)
{
	struct lm_scratch w = { 0 };
	uint32_t id = lm_draw(&w, how, history, allowed, logits, VOCAB, 0);

	lm_scratch_release(&w);
	return id;
}

static void adjustments(void)
{
	struct lm_bias bias[] = { { 2, -5 }, { 7, 10 }, { VOCAB + 7, 100 } };
	struct lm_sampling how;
	struct lm_history history;
	uint64_t only = UINT64_C(1) << 6 | UINT64_C(1) << 11;

	lm_sampling_defaults(&how, 1);
	how.temperature = 0;
	CHECK_I64(2, greedy(&how, NULL, NULL));
	CHECK_I64(6, greedy(&how, NULL, &only));
	how.bias = bias;
	how.bias_count = 1;
	CHECK_I64(3, greedy(&how, NULL, NULL));
	how.bias_count = 3;
	CHECK_I64(7, greedy(&how, NULL, NULL));
	CHECK_I64(6, greedy(&how, NULL, &only)); /* a bias does not lift a mask */
	how.bias_count = 0;

	lm_history_init(&history, VOCAB);
	lm_history_add(&history, 2);
	CHECK_I64(2, greedy(&how, &history, NULL)); /* nothing is penalised */
	how.presence_penalty = 0.05;                /* 1.95: below 3, above 10 */
	CHECK_I64(3, greedy(&how, &history, NULL));
	lm_history_add(&history, 3);
	CHECK_I64(2, greedy(&how, &history, NULL));
	how.presence_penalty = 0;
	how.frequency_penalty = 0.06; /* 3 once: 1.94; 2 twice: 1.88 */
	lm_history_add(&history, 2);
	CHECK_I64(3, greedy(&how, &history, NULL));
	how.frequency_penalty = 0;
	how.repetition_penalty = 2; /* 2 and 3 are 1 then */
	CHECK_I64(10, greedy(&how, &history, NULL));
	lm_history_prompt(&history, 10); /* 0.95 */
	CHECK_I64(5, greedy(&how, &history, NULL));
	lm_history_release(&history);
}

/* min_p leaves out what has less than that part of the most likely. */
static void least_share(void)
{
	struct lm_sampling how;
	struct lm_scratch w = { 0 };

	lm_sampling_defaults(&how, 3);
	how.min_p = exp(-0.5); /* 1.5 and more: 2, 3, 10 */
	for (uint32_t p = 0; p < 2000; p++) {
		uint32_t id = lm_draw(&w, &how, NULL, NULL, logits, VOCAB, p);

		CHECK(id == 2 || id == 3 || id == 10);
	}
	lm_scratch_release(&w);
}

static void model_logprobs(void)
{
	static const uint32_t order[] = { 2, 3, 10, 5, 8, 7 };
	struct lm_logprobs got;
	double sum = 0;

	for (int i = 0; i < VOCAB; i++)
		sum += exp((double)logits[i]);
	lm_logprobs(&got, logits, VOCAB, 6, 6);
	CHECK_I64(6, got.n);
	CHECK(fabs(got.token - (logits[6] - log(sum))) < 1e-6);
	for (uint32_t i = 0; i < got.n; i++) {
		CHECK_I64(order[i], got.top[i]);
		CHECK(fabs(got.top_logprob[i] - (logits[order[i]] - log(sum))) < 1e-6);
	}
	lm_logprobs(&got, logits, VOCAB, 0, LM_TOP_LOGPROBS_MAX);
	CHECK_I64(VOCAB, got.n);
}

/* A large vocabulary is cut where sorting all of it would cut it. */
static void large(void)
{
	enum { MANY = 5000 };
	float *x = malloc(MANY * sizeof *x);
	struct lm_sampling how;
	struct lm_scratch w = { 0 };

	for (uint32_t i = 0; i < MANY; i++)
		x[i] = (float)((i * 2654435761u) % 5003) /
			500; /* all differ, below 10.01 */
	lm_sampling_defaults(&how, 4);
	how.top_k = 17;
	for (uint32_t p = 0; p < 500; p++) {
		uint32_t id = lm_draw(&w, &how, NULL, NULL, x, MANY, p), above = 0;

		for (uint32_t i = 0; i < MANY; i++)
			above += x[i] > x[id];
		CHECK(above < 17);
	}
	how.temperature = 0.00001; /* nothing but the first is within reach */
	CHECK_I64(lm_draw(&w, &how, NULL, NULL, x, MANY, 1),
		lm_draw(&w, &how, NULL, NULL, x, MANY, 2));
	free(x);
	lm_scratch_release(&w);
}

static int descending(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return x < y ? 1 : x > y ? -1 : 0;
}

/* Returns the smallest logit that the limits leave, by their definition. */
static float least_kept(const float *x, uint32_t count, const struct lm_sampling *s)
{
	float *sorted = malloc(count * sizeof *sorted), least;
	uint32_t n = s->top_k && s->top_k < count ? s->top_k : count, end = 0;
	double sum = 0, seen = 0;

	memcpy(sorted, x, count * sizeof *sorted);
	qsort(sorted, count, sizeof *sorted, descending);
	for (uint32_t i = 0; i < n; i++)
		sum += exp((sorted[i] - (double)sorted[0]) / s->temperature);
	while (end < n && seen < s->top_p * sum)
		seen += exp((sorted[end++] - (double)sorted[0]) / s->temperature);
	while (end > 1 &&
		exp((sorted[end - 1] - (double)sorted[0]) / s->temperature) < s->min_p)
		end--;
	least = sorted[end - 1];
	free(sorted);
	return least;
}

/* Draws by definition, in the order of ids, where nothing is cut. */
static uint32_t walk(const float *x, uint32_t count, const struct lm_sampling *s,
	uint64_t position)
{
	float max = -INFINITY;
	double sum = 0, at;
	struct rng rng;
	uint32_t i;

	for (i = 0; i < count; i++)
		max = fmaxf(max, x[i]);
	for (i = 0; i < count; i++)
		sum += exp(((double)x[i] - max) / s->temperature);
	rng_seed(&rng, s->seed, s->choice);
	rng_seek(&rng, position);
	at = rng_f64(&rng) * sum;
	for (i = 0; i + 1 < count; i++) {
		at -= exp(((double)x[i] - max) / s->temperature);
		if (at < 0)
			break;
	}
	return i;
}

/* Sharp and flat vocabularies of every size beside whole blocks: what is drawn is what the
 * definition draws, or keeps; and what it keeps last does come. */
static void limits(void)
{
	enum { MANY = 3000 };
	static const struct lm_sampling how[] = {
		{ .temperature = 1, .top_p = 1 },
		{ .temperature = 0.6, .top_p = 0.5 },
		{ .temperature = 1.5, .top_p = 0.97 },
		{ .temperature = 1, .top_p = 1, .top_k = 3 },
		{ .temperature = 0.8, .top_p = 0.9, .top_k = 40 },
		{ .temperature = 1, .top_p = 1, .top_k = 700 },
		{ .temperature = 1, .top_p = 1, .min_p = 0.3 },
		{ .temperature = 2, .top_p = 0.8, .min_p = 0.05 },
		{ .temperature = 1, .top_p = 0.999999, .min_p = 0.5, .top_k = 9 },
	};
	float *x = malloc(MANY * sizeof *x);
	struct lm_scratch w = { 0 };
	struct rng rng;

	rng_seed(&rng, 21, 0);
	for (uint32_t count = 1; count < MANY; count = 2 * count + 1 + count % 3)
		for (double spread = 0.1; spread < 200; spread *= 8) {
			for (uint32_t i = 0; i < count; i++)
				x[i] = (float)(spread * rng_f64(&rng));
			for (size_t h = 0; h < sizeof how / sizeof *how; h++) {
				const struct lm_sampling *s = &how[h];
				float least = least_kept(x, count, s), seen = INFINITY;
				bool all = !s->top_k && s->top_p >= 1 && s->min_p <= 0;

				for (uint64_t p = 0; p < 100; p++) {
					uint32_t id = lm_draw(&w, s, NULL, NULL, x, count,
						p);

					CHECK(x[id] >= least);
					seen = fminf(seen, x[id]);
					if (all)
						CHECK_I64(walk(x, count, s, p), id);
				}
				if (s->top_k == 3 && spread < 1)
					CHECK(seen == least);
			}
		}
	free(x);
	lm_scratch_release(&w);
}

int main(void)
{
	limits();
	positions();
	adjustments();
	least_share();
	model_logprobs();
	large();
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
