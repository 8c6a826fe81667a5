/* speculation.c - measures what proposed tokens cost and save: answers of the engine with and
 * without speculation, in turns, in processor time of one thread. The model is made in memory:
 * preset small, q8_0, a vocabulary of 512.
 *
 * repeats: the most likely token each time, which such a model says over and over. misleads: drawn
 * among four tokens, so that look-up always finds what then mostly does not follow; a wrong
 * prediction besides. random: drawn among all. Argument: turns (5). Prints records of the ratio of
 * tokens per second, in ppm; exit 1 when a median is under 1.5 for repeats, or 0.97 for the
 * others. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/hw/device.h"
#include "common/json/json.h"
#include "common/lm/engine/engine.h"
#include "common/record/bench.h"
#include "kernels/dev/team.h"

enum { PROMPT = 128, ANSWER = 96, VOCAB = 512, FEW = 4, TURNS_MAX = 100 };

enum kind { REPEATS, MISLEADS, RANDOM, KINDS };

static const char *const names[KINDS] = { "repeats", "misleads", "random" };
static const double least[KINDS] = { 1.5, 0.97, 0.97 };

static struct dev dev = DEV_INIT;
static struct lm_weights *weights;
static int64_t first_ns; /* processor time at the first token */

static void must(int rc)
{
	if (rc == 0)
		return;
	fprintf(stderr, "speculation: %s\n", err_get()->text);
	exit(1);
}

static int64_t worked_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void hear(void *arg, const struct lm_event *e)
{
	(void)arg;
	if (e->answer->generated == 1)
		first_ns = worked_ns();
}

/* Returns the tokens per second after the first, and how many were proposed and accepted. */
static double answer(enum kind kind, bool speculate, uint64_t seed, uint32_t counts[2])
{
	struct lm_engine_limits limits = { .pages = 64,
		.streams = 1,
		.rows = 64,
		.context = PROMPT + ANSWER };
	uint32_t prediction[PROMPT];
	struct lm_answer a = { .prompt = PROMPT,
		.tokens_max = ANSWER,
		.speculate = speculate ? LM_PROPOSED_MAX : 0,
		.prediction = kind == MISLEADS ? prediction : NULL,
		.prediction_count = kind == MISLEADS ? PROMPT : 0 };
	struct lm_engine *e = NULL;
	struct rng rng;
	double rate;

	rng_seed(&rng, seed, 0);
	a.tokens = xcalloc(PROMPT, sizeof *a.tokens);
	a.tokens_capacity = PROMPT;
	for (uint32_t i = 0; i < PROMPT; i++) {
		a.tokens[i] = (uint32_t)rng_below(&rng, VOCAB);
		prediction[i] = (uint32_t)rng_below(&rng, VOCAB);
	}
	lm_sampling_defaults(&a.sampling, seed);
	a.sampling.temperature = kind == REPEATS ? 0 : 1;
	a.sampling.top_k = kind == MISLEADS ? FEW : 0;
	must(lm_engine_open(&e, weights, &limits, NULL, 0, hear, NULL));
	lm_engine_submit(e, &a);
	while (!lm_engine_idle(e))
		lm_engine_step(e);
	rate = 1e9 * (a.generated - 1) / (double)(worked_ns() - first_ns);
	if (a.generated != ANSWER) {
		fprintf(stderr, "speculation: an answer of %u tokens\n", a.generated);
		exit(1);
	}
	counts[0] += a.proposed;
	counts[1] += a.accepted;
	lm_engine_close(e);
	free(a.tokens);
	return rate;
}

static bool measure(enum kind kind, int turns)
{
	uint32_t counts[2] = { 0 };
	double ratios[TURNS_MAX];
	struct stats s;
	json_t *record;

	for (int i = 0; i < turns; i++) {
		bool first = i % 2;
		double one = answer(kind, first, 10 + (uint64_t)i, counts);
		double other = answer(kind, !first, 10 + (uint64_t)i, counts);

		ratios[i] = 1e6 * (first ? one / other : other / one);
	}
	stats_of(ratios, (size_t)turns, &s);
	record = bench_record("serve", "speculation", "cpu", "ppm", &s);
	json_set_text(bench_params(record), "text", names[kind]);
	json_set_i64(bench_params(record), "proposed", counts[0]);
	json_set_i64(bench_params(record), "accepted", counts[1]);
	json_dumpf(record, stdout, JSON_COMPACT);
	putchar('\n');
	json_decref(record);
	fprintf(stderr, "speculation: %s: %.2f times the tokens per second\n",
		names[kind], s.median / 1e6);
	return s.median >= 1e6 * least[kind];
}

int main(int argc, char **argv)
{
	int turns = argc > 1 ? atoi(argv[1]) : 5;
	struct model_file *model = NULL;
	struct lm_config c;
	bool good = true;

	if (turns < 1 || turns > TURNS_MAX) {
		fprintf(stderr, "usage: speculation [turns]\n");
		return 64;
	}
	team_resize(1);
	must(dev_open(&dev, "cpu"));
	must(lm_config_preset(&c, "small", VOCAB));
	must(model_file_make(&model, NULL, &c, LM_Q8_0, 1));
	must(lm_weights_open(&weights, &dev, model));
	for (enum kind k = 0; k < KINDS; k++)
		good = measure(k, turns) && good;
	lm_weights_close(weights);
	model_file_close(model);
	dev_close(&dev);
	return good ? 0 : 1;
}
