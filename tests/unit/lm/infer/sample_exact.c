/* sample_exact.c - each draw is the one that the definition gives, evaluated plainly: bias and
 * penalties token by token, a mask, all tokens sorted, their shares added up one by one, and a walk
 * over those that are left. Sharp and flat rows, ties, infinities, NaN, small and large
 * vocabularies; and the same tokens at every level of instructions: the program runs itself again
 * at the others. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"
#include "common/lm/infer/sample.h"
#include "kernels/dev/cpu.h"
#include "tests/unit/test.h"

enum { LARGE = 128256, MANY = 3000 };

/* Sums of different orders, and shares of another exp: closer than this, either is right. */
#define NEAR 1e-9

struct token {
	double share;
	float logit;
	uint32_t id;
};

static float logits[LARGE], changed[LARGE];
static struct token tokens[LARGE];
static uint64_t allowed[LARGE / 64 + 1];
static struct lm_history history;
static struct lm_bias bias[3];
static uint64_t hash = UINT64_C(0xcbf29ce484222325);
static uint64_t draws, unclear;

static int by_logit(const void *a, const void *b)
{
	const struct token *x = a, *y = b;

	if (x->logit != y->logit)
		return x->logit < y->logit ? 1 : -1;
	return x->id < y->id ? -1 : x->id > y->id;
}

static int by_id(const void *a, const void *b)
{
	const struct token *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

static void change(const struct lm_sampling *s, bool masks, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		uint32_t times = history.generated[i];
		double x = logits[i];

		if (history.seen[i / 64] >> i % 64 & 1)
			x = (float)(x > 0 ? x / s->repetition_penalty :
					    x * s->repetition_penalty);
		if (times)
			x -= times * s->frequency_penalty + s->presence_penalty;
		changed[i] = (float)x;
	}
	for (uint32_t i = 0; i < s->bias_count; i++)
		if (bias[i].token < count)
			changed[bias[i].token] += bias[i].bias;
	for (uint32_t i = 0; i < count; i++)
		if (masks && !(allowed[i / 64] >> i % 64 & 1))
			changed[i] = -INFINITY;
}

/* Sorts what can be drawn; returns how many there are. */
static uint32_t sort(const struct lm_sampling *s, uint32_t count)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < count; i++)
		if (changed[i] >= -FLT_MAX) /* not -infinity, not NaN */
			tokens[n++] = (struct token){ .logit = changed[i], .id = i };
	qsort(tokens, n, sizeof *tokens, by_logit);
	for (uint32_t i = 0; i < n; i++)
		tokens[i].share = exp(
			((double)tokens[i].logit - tokens[0].logit) / s->temperature);
	while (n && tokens[n - 1].logit < tokens[0].logit - 32 * s->temperature)
		n--;
	return n;
}

/* Applies top_k, top_p and min_p; *clear: whether no rounding decides. */
static uint32_t limit(const struct lm_sampling *s, uint32_t n, bool *clear)
{
	double sum = 0, taken = 0;
	uint32_t end = 0;

	if (s->top_k && s->top_k < n)
		n = s->top_k;
	for (uint32_t i = 0; i < n; i++)
		sum += tokens[i].share;
	while (s->top_p < 1 && end < n && (!end || taken < s->top_p * sum)) {
		taken += tokens[end++].share;
		if (fabs(taken - s->top_p * sum) < NEAR * sum)
			*clear = false;
	}
	if (s->top_p < 1)
		n = end;
	for (uint32_t i = 1; i < n; i++)
		if (fabs(tokens[i].share - s->min_p) < NEAR * s->min_p)
			*clear = false;
	while (n > 1 && tokens[n - 1].share < s->min_p)
		n--;
	return n;
}

static uint32_t walk(const struct lm_sampling *s, uint32_t n, uint64_t position,
	bool *clear)
{
	double sum = 0, at;
	struct rng rng;
	uint32_t i;

	qsort(tokens, n, sizeof *tokens, by_id);
	for (i = 0; i < n; i++)
		sum += tokens[i].share;
	rng_seed(&rng, s->seed, s->choice);
	rng_seek(&rng, position);
	at = rng_f64(&rng) * sum;
	for (i = 0; i + 1 < n; i++) {
		at -= tokens[i].share;
		if (fabs(at) < NEAR * sum)
			*clear = false;
		if (at < 0)
			break;
	}
	return tokens[i].id;
}

static void check(struct lm_scratch *w, const struct lm_sampling *s, bool masks,
	uint32_t count, uint64_t position, bool defined)
{
	uint32_t id = lm_draw(w, s, &history, masks ? allowed : NULL, logits, count,
		position);
	bool clear = true;
	uint32_t n;

	CHECK(id < count);
	hash = (hash ^ id) * UINT64_C(0x100000001b3);
	if (!defined)
		return;
	change(s, masks, count);
	n = sort(s, count);
	if (!n) /* nothing can be drawn */
		return;
	n = limit(s, n, &clear);
	if (clear && walk(s, n, position, &clear) != id && clear)
		CHECK_I64(-1, id);
	draws++;
	unclear += !clear;
}

/* --- rows --------------------------------------------------------------------------------- */

enum kind { SMOOTH, PEAKS, STEPS, EQUAL, ODD, KINDS };

static float logit(struct rng *r, enum kind kind, double spread)
{
	double x = spread *
		(rng_f64(r) + rng_f64(r) + rng_f64(r) + rng_f64(r) -
			2); /* as good as normal */

	switch (kind) {
	case PEAKS:
		return (float)(rng_below(r, 200) ? x : x + 12);
	case STEPS:
		return (float)(spread * (double)rng_below(r, 4));
	case EQUAL:
		return (float)spread;
	case ODD:
		switch (rng_below(r, 8)) {
		case 0:
			return NAN;
		case 1:
			return -INFINITY;
		case 2:
			return -FLT_MAX;
		default:
			return (float)x;
		}
	default:
		return (float)x;
	}
}

static void make_row(struct rng *r, enum kind kind, double spread, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		logits[i] = logit(r, kind, spread);
	for (uint32_t i = 0; i <= count / 64; i++)
		switch (rng_below(r, 3)) {
		case 0:
			allowed[i] = 0;
			break;
		case 1:
			allowed[i] = UINT64_MAX;
			break;
		default:
			allowed[i] = rng_u64(r);
		}
	memset(history.generated, 0, count * sizeof *history.generated);
	memset(history.seen, 0, (count / 64 + 1) * sizeof *history.seen);
	for (uint32_t i = 0; i < count / 8 + 1; i++) {
		uint32_t token = (uint32_t)rng_below(r, count);

		if (i % 3)
			lm_history_add(&history, token);
		else
			lm_history_prompt(&history, token);
	}
	for (uint32_t i = 0; i < 3; i++)
		bias[i] = (struct lm_bias){ (uint32_t)rng_below(r, count + 1),
			(float)(i * spread - spread) };
}

static struct lm_sampling random_sampling(struct rng *r)
{
	static const double temperatures[] = { 0.05, 0.6, 1, 1.7, 5 };
	static const double top_ps[] = { 1e-9, 0.3, 0.8, 0.95, 0.99999 };
	static const uint32_t top_ks[] = { 1, 2, 40, 64, 65, 700 };
	struct lm_sampling s;

	lm_sampling_defaults(&s, rng_u64(r));
	s.temperature = temperatures[rng_below(r, 5)];
	s.choice = (uint32_t)rng_below(r, 3);
	if (rng_below(r, 2))
		s.top_p = top_ps[rng_below(r, 5)];
	if (rng_below(r, 3) == 0)
		s.top_k = top_ks[rng_below(r, 6)];
	if (rng_below(r, 3) == 0)
		s.min_p = rng_f64(r) * rng_f64(r);
	if (rng_below(r, 3) == 0)
		s.repetition_penalty = 0.5 + rng_f64(r);
	if (rng_below(r, 3) == 0)
		s.frequency_penalty = rng_f64(r) - 0.5;
	if (rng_below(r, 4) == 0)
		s.presence_penalty = rng_f64(r);
	s.bias = bias;
	s.bias_count = rng_below(r, 3) ? 0 : 3;
	return s;
}

static void check_rows(struct lm_scratch *w, struct rng *r, uint32_t count, int rows,
	bool defined)
{
	static const double spreads[] = { 0, 0.001, 0.3, 2.7, 30 };

	for (int i = 0; i < rows; i++) {
		struct lm_sampling s = random_sampling(r);
		bool masks = rng_below(r, 3) == 0;

		make_row(r, (enum kind)(i % KINDS), spreads[i / KINDS % 5], count);
		check(w, &s, masks, count, rng_below(r, 1000), defined);
	}
}

/* Both top_p and the ties at its edge leave the fewest that reach it, the lowest ids of equal
 * ones. */
static void check_ties(struct lm_scratch *w)
{
	struct lm_sampling s;
	uint32_t highest = 0;

	lm_sampling_defaults(&s, 3);
	memset(logits, 0, sizeof logits);
	s.top_p = 0.78125; /* 100,200 of 128,256 */
	for (uint64_t p = 0; p < 2000; p++) {
		uint32_t id = lm_draw(w, &s, NULL, NULL, logits, LARGE, p);

		highest = id > highest ? id : highest;
	}
	CHECK(highest < 100200 && highest > 99000);
	s.top_p = 1;
	s.top_k = 100;
	highest = 0;
	for (uint64_t p = 0; p < 2000; p++) {
		uint32_t id = lm_draw(w, &s, NULL, NULL, logits, LARGE, p);

		highest = id > highest ? id : highest;
	}
	CHECK_I64(99, highest);
}

static void check_all(bool defined)
{
	struct lm_scratch w = { 0 };
	struct rng r;

	rng_seed(&r, 8, 0);
	for (uint32_t count = 1; count < MANY; count += 1 + count / 3)
		check_rows(&w, &r, count, 200, defined);
	check_rows(&w, &r, LARGE, 25, defined);
	if (defined)
		check_ties(&w);
	lm_scratch_release(&w);
}

static void check_level(const char *self, const char *level)
{
	char command[512];
	unsigned long long there = 0;
	FILE *f;

	snprintf(command, sizeof command, "RNP_ISA=%s '%s' hash", level, self);
	f = popen(command, "r");
	CHECK(f && fscanf(f, "%llx", &there) == 1);
	if (f)
		CHECK_I64(0, pclose(f));
	CHECK(there == hash);
}

int main(int argc, char **argv)
{
	enum cpu_level best;

	lm_history_init(&history, LARGE);
	check_all(argc == 1);
	if (argc > 1) {
		printf("%llx\n", (unsigned long long)hash);
	} else {
		CHECK(draws > 4000 && unclear < draws / 10);
		CHECK(cpu_level_chosen(&best) == 0);
		for (int level = CPU_REF; level < (int)best; level++)
			check_level(argv[0], cpu_level_names[level]);
	}
	lm_history_release(&history);
	TEST_END();
}
