/* sample.c - measures what a row of logits costs to choose from: processor time of one thread, for
 * each sampler alone and for the mixtures that people use, over a vocabulary of 128,256.
 *
 * model: normal, with some tokens far above, as those of a language model mostly are; normal:
 * nothing stands out, top_p keeps a seventh; flat: top_p keeps nearly all. Argument: turns (21).
 * Prints records of nanoseconds a row. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/json/json.h"
#include "common/lm/infer/sample.h"
#include "common/record/bench.h"

enum { VOCAB = 128256, SAID = 2000, OUTSTANDING = 30, TURNS_MAX = 1000 };

enum shape { MODEL, NORMAL, FLAT, SHAPES };

static const char *const shape_names[SHAPES] = { "model", "normal", "flat" };

struct sampler {
	const char *name;
	struct lm_sampling how;
	bool masks, logprobs;
};

static const struct sampler samplers[] = {
	{ .name = "greedy", .how = { .top_p = 1, .repetition_penalty = 1 } },
	{ .name = "greedy, mask",
		.how = { .top_p = 1, .repetition_penalty = 1 },
		.masks = true },
	{ .name = "greedy, penalties",
		.how = { .top_p = 1,
			.repetition_penalty = 1.1,
			.frequency_penalty = 0.2 } },
	{ .name = "temperature",
		.how = { .temperature = 0.8, .top_p = 1, .repetition_penalty = 1 } },
	{ .name = "top_p",
		.how = { .temperature = 0.8, .top_p = 0.95, .repetition_penalty = 1 } },
	{ .name = "top_k",
		.how = { .temperature = 0.8,
			.top_p = 1,
			.top_k = 40,
			.repetition_penalty = 1 } },
	{ .name = "top_k, top_p",
		.how = { .temperature = 0.8,
			.top_p = 0.95,
			.top_k = 40,
			.repetition_penalty = 1 } },
	{ .name = "min_p",
		.how = { .temperature = 0.8,
			.top_p = 1,
			.min_p = 0.05,
			.repetition_penalty = 1 } },
	{ .name = "top_p, min_p, penalties",
		.how = { .temperature = 0.8,
			.top_p = 0.95,
			.min_p = 0.05,
			.frequency_penalty = 0.2,
			.repetition_penalty = 1.1 } },
	{ .name = "logprobs", .logprobs = true },
};

enum { SAMPLERS = sizeof samplers / sizeof *samplers };

static float logits[SHAPES][VOCAB];
static uint64_t allowed[VOCAB / 64 + 1];
static struct lm_history history;

static double normal(struct rng *r)
{
	return sqrt(-2 * log(1 - rng_f64(r))) * cos(2 * M_PI * rng_f64(r));
}

static void make_logits(void)
{
	struct rng r;

	rng_seed(&r, 4, 0);
	for (int i = 0; i < VOCAB; i++) {
		logits[MODEL][i] = logits[NORMAL][i] = (float)(2.7 * normal(&r));
		logits[FLAT][i] = (float)(0.01 * normal(&r));
	}
	for (int i = 0; i < OUTSTANDING; i++)
		logits[MODEL][rng_below(&r, VOCAB)] = (float)(14 + 6 * rng_f64(&r));
	for (int i = 0; i < VOCAB / 64 + 1;
		i++) /* a tenth of all tokens, most of it in runs */
		allowed[i] = rng_below(&r, 12) ? rng_u64(&r) & rng_u64(&r) & 0xff :
						 UINT64_MAX;
	lm_history_init(&history, VOCAB);
	for (int i = 0; i < SAID; i++)
		lm_history_add(&history, (uint32_t)rng_below(&r, VOCAB));
}

static double worked_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

/* Chooses one token; returns a number that depends on it. */
static uint32_t choose(struct lm_scratch *w, const struct sampler *s, const float *x,
	uint64_t position)
{
	struct lm_logprobs p;

	if (!s->logprobs)
		return lm_draw(w, &s->how, &history, s->masks ? allowed : NULL, x, VOCAB,
			position);
	lm_logprobs(&p, x, VOCAB, (uint32_t)position, LM_TOP_LOGPROBS_MAX);
	return p.top[0];
}

static void print(const struct sampler *s, enum shape shape, const double *ns, int turns,
	uint32_t sum)
{
	struct stats stats;
	json_t *record;

	stats_of(ns, (size_t)turns, &stats);
	record = bench_record("serve", s->name, "cpu", "ns", &stats);
	json_set_text(bench_params(record), "logits", shape_names[shape]);
	json_dumpf(record, stdout, JSON_COMPACT);
	putchar('\n');
	json_decref(record);
	fprintf(stderr, "sample: %-26s %-6s %7.1f us a row (%u)\n", s->name,
		shape_names[shape], stats.median / 1e3, sum);
}

int main(int argc, char **argv)
{
	static double ns[SHAPES][SAMPLERS][TURNS_MAX];
	uint32_t sums[SHAPES][SAMPLERS] = { 0 };
	int turns = argc > 1 ? atoi(argv[1]) : 21;
	struct lm_scratch w = { 0 };

	if (turns < 1 || turns > TURNS_MAX) {
		fprintf(stderr, "usage: sample [turns]\n");
		return 64;
	}
	make_logits();
	for (int turn = 0; turn < turns; turn++)
		for (int i = 0; i < SHAPES * SAMPLERS; i++) {
			enum shape shape = (enum shape)(i / SAMPLERS);
			int s = i % SAMPLERS;
			double from;

			choose(&w, &samplers[s], logits[shape], 0); /* into the cache */
			from = worked_ns();
			for (uint64_t p = 0; p < 4; p++)
				sums[shape][s] += choose(&w, &samplers[s], logits[shape],
					4 * (uint64_t)turn + p);
			ns[shape][s][turn] = (worked_ns() - from) / 4;
		}
	for (int i = 0; i < SHAPES * SAMPLERS; i++)
		print(&samplers[i % SAMPLERS], (enum shape)(i / SAMPLERS),
			ns[i / SAMPLERS][i % SAMPLERS], turns,
			sums[i / SAMPLERS][i % SAMPLERS]);
	lm_history_release(&history);
	lm_scratch_release(&w);
	return 0;
}
