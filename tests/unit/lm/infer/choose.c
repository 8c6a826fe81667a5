/* choose.c - rows that are chosen together get what each gets alone, on any number of threads;
 * masks of several rows are asked for side by side. */
#include "common/lm/infer/choose.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/rng.h"
#include "kernels/dev/team.h"
#include "tests/unit/test.h"

enum { ROWS = 64, COUNT = 5000, WORDS = COUNT / 64 + 1, THREADS = 4 };

static float logits[ROWS][COUNT];
static struct lm_sampling how[ROWS];
static struct lm_history history;
static uint64_t even[WORDS];

static const uint64_t *allow_even(void *ctx)
{
	(void)ctx;
	return even;
}

static const struct lm_mask mask = { .allowed = allow_even };

static void make_rows(void)
{
	struct rng r;

	rng_seed(&r, 5, 0);
	memset(even, 0x55, sizeof even);
	lm_history_init(&history, COUNT);
	for (uint32_t i = 0; i < ROWS; i++) {
		lm_history_prompt(&history, i);
		lm_sampling_defaults(&how[i], i);
		how[i].temperature = i % 3 * 0.6;
		how[i].top_p = i % 4 == 1 ? 0.8 : 1;
		how[i].top_k = i % 5 == 1 ? 40 : 0;
		how[i].repetition_penalty = i % 7 ? 1 : 1.5;
		for (uint32_t k = 0; k < COUNT; k++)
			logits[i][k] = (float)(12 * rng_f64(&r) - 6);
	}
}

static struct lm_choice choice_at(uint32_t i)
{
	return (struct lm_choice){ .logits = logits[i],
		.sampling = i % 16 == 3 ? NULL : &how[i],
		.history = &history,
		.mask = i % 6 == 2 ? &mask : NULL,
		.position = 3 * i,
		.token = i,
		.wants_logprobs = i % 2,
		.top = i % 8 };
}

static void check_alone(const struct lm_choice *c, uint32_t i, struct lm_scratch *w)
{
	struct lm_choice want = choice_at(i);
	struct lm_logprobs logprobs;

	if (want.sampling)
		want.token = lm_draw(w, want.sampling, want.history,
			want.mask ? even : NULL, want.logits, COUNT, want.position);
	CHECK_I64(want.token, c->token);
	CHECK(!c->ran_out);
	if (!want.wants_logprobs)
		return;
	lm_logprobs(&logprobs, want.logits, COUNT, want.token, want.top);
	CHECK_I64(logprobs.n, c->logprobs.n);
	CHECK(memcmp(&logprobs.token, &c->logprobs.token, sizeof logprobs.token) == 0);
	CHECK(memcmp(logprobs.top, c->logprobs.top, sizeof logprobs.top) == 0);
}

static void together(uint32_t n)
{
	struct lm_chooser chooser = { 0 };
	struct lm_choice all[ROWS];
	struct lm_scratch w = { 0 };

	for (uint32_t i = 0; i < n; i++)
		all[i] = choice_at(i);
	lm_choose(&chooser, all, n, COUNT);
	for (uint32_t i = 0; i < n; i++)
		check_alone(&all[i], i, &w);
	lm_chooser_release(&chooser);
	lm_scratch_release(&w);
}

/* Of logits that are no numbers nothing is said. */
static void not_finite(void)
{
	struct lm_chooser chooser = { 0 };
	float bad[3] = { NAN, NAN, NAN };
	struct lm_choice c = { .logits = bad,
		.sampling = &how[1],
		.wants_logprobs = true };

	lm_choose(&chooser, &c, 1, 3);
	CHECK(c.token < 3 && c.logprobs.n == 0);
	lm_choose(&chooser, &c, 0, 3);
	lm_chooser_release(&chooser);
}

/* Waits for another mask to be asked for, at most ten seconds. */
static const uint64_t *meet(void *ctx)
{
	const struct timespec pause = { 0, 1000000 };
	_Atomic int *there = ctx;

	atomic_fetch_add(there, 1);
	for (int i = 0; i < 10000 && atomic_load(there) < 2; i++)
		nanosleep(&pause, NULL);
	return even;
}

static void masks_meet(void)
{
	struct lm_chooser chooser = { 0 };
	_Atomic int there = 0;
	struct lm_mask both = { .allowed = meet, .ctx = &there };
	struct lm_choice all[2];
	struct timespec from, to;

	for (int i = 0; i < 2; i++)
		all[i] = (struct lm_choice){ .logits = logits[i],
			.sampling = &how[i],
			.mask = &both };
	clock_gettime(CLOCK_MONOTONIC, &from);
	lm_choose(&chooser, all, 2, COUNT);
	clock_gettime(CLOCK_MONOTONIC, &to);
	CHECK_I64(2, atomic_load(&there));
	CHECK(to.tv_sec - from.tv_sec < 9);
	CHECK(all[0].token % 2 == 0 && all[1].token % 2 == 0);
	lm_chooser_release(&chooser);
}

int main(void)
{
	make_rows();
	for (int threads = 1; threads <= THREADS; threads++) {
		team_resize(threads);
		together(1);
		together(7);
		together(ROWS);
	}
	not_finite();
	masks_meet();
	team_resize(0);
	lm_history_release(&history);
	TEST_END();
}
