/* prefill.c - how much of the processor's rate of int8 multiply-adds a prompt of 512 tokens reaches
 * as a whole, on a model in the shape of the preset small with random weights of q8_0 and q4_0, on
 * one thread and on all: by the clock, against multiply-adds in registers alone, on the same
 * threads, right before and right after. So a machine that is shared weighs on both. Operations are
 * those of the products with weights, of all rows; attention, norms and sampling take time and
 * count nothing. Argument: rounds (9). Prints records of the rate as a part of the peak, in ppm;
 * exit 1 when a median is under half. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/hw/device.h"
#include "common/json/json.h"
#include "common/lm/infer/forward.h"
#include "common/lm/model/config.h"
#include "common/record/bench.h"
#include "kernels/bulk/peak.h"
#include "kernels/dev/team.h"

enum { PROMPT = 512, CHUNK = 256, VOCAB = 400, ROUNDS_MAX = 100 };

#define PEAK_CYCLES 60000000

static const struct one {
	enum lm_type type;
	const char *name;
} types[] = { { LM_Q8_0, "q8_0" }, { LM_Q4_0, "q4_0" } };

static struct dev dev = DEV_INIT;
static const struct peak *peak;

static void must(int rc)
{
	if (rc == 0)
		return;
	fprintf(stderr, "prefill: %s\n", err_get()->text);
	exit(err_get()->code);
}

/* --- the two rates, operations a second ----------------------------------------------------- */

static void run_peak(void *work, uint64_t from, uint64_t to)
{
	(void)work;
	for (; from < to; from++)
		peak->run(PEAK_CYCLES / peak->cycles);
}

static double peak_rate(void)
{
	uint64_t threads = (uint64_t)team_size();
	const struct team_op all = { .part = run_peak, .n = threads };
	int64_t begun = clock_mono_ns();

	team_run(&all, 1);
	return 1e9 * (double)(threads * (PEAK_CYCLES / peak->cycles) * peak->operations) /
		(double)(clock_mono_ns() - begun);
}

static int ignore(void *arg, uint32_t row, const float *logits)
{
	(void)arg, (void)row, (void)logits;
	return 0;
}

static double prefill_rate(struct lm_forward *f, struct lm_cache *cache,
	const struct lm_config *c)
{
	uint64_t layer = 2 * (uint64_t)c->dim * (c->heads + c->kv_heads) * c->head_dim +
		3 * (uint64_t)c->dim * c->hidden;
	struct lm_sequence s = { 0 };
	struct lm_row rows[CHUNK];
	int64_t begun = clock_mono_ns(), ended;

	must(lm_sequence_grow(&s, cache, PROMPT));
	for (uint32_t at = 0; at < PROMPT; at += CHUNK) {
		for (uint32_t i = 0; i < CHUNK; i++)
			rows[i] = (struct lm_row){ .sequence = &s,
				.token = 5 + (at + i) * 7 % (VOCAB - 5),
				.position = at + i,
				.logits = at + i == PROMPT - 1 };
		must(lm_forward_rows(f, rows, CHUNK, ignore, NULL));
	}
	ended = clock_mono_ns();
	lm_sequence_release(&s, cache);
	return 1e9 * (double)(2 * layer * c->layers * PROMPT) / (double)(ended - begun);
}

/* --- a type on a number of threads ---------------------------------------------------------- */

static bool report(const struct one *t, double *parts, size_t rounds, double tokens)
{
	struct stats s;
	json_t *record, *params;

	stats_of(parts, rounds, &s);
	record = bench_record("serve", "prefill, part of the peak", "cpu", "ppm", &s);
	params = bench_params(record);
	json_set_text(params, "type", t->name);
	json_set_text(params, "kernel", peak->instruction);
	json_set_i64(params, "threads", team_size());
	json_set_i64(params, "tokens_per_s", (int64_t)tokens);
	json_dumpf(record, stdout, JSON_COMPACT);
	putchar('\n');
	json_decref(record);
	return s.median >= 5e5;
}

static bool measure(const struct one *t, size_t rounds)
{
	const struct lm_forward_limits limits = { .rows = CHUNK,
		.sequences = 1,
		.context = PROMPT };
	struct lm_config c;
	struct model_file *m = NULL;
	struct lm_weights *w;
	struct lm_cache *cache;
	struct lm_forward *f;
	double parts[ROUNDS_MAX], most = 0;
	bool good;

	must(lm_config_preset(&c, "small", VOCAB));
	must(model_file_make(&m, NULL, &c, t->type, 1));
	must(lm_weights_open(&w, &dev, m));
	lm_weights_pack(w);
	must(lm_cache_open(&cache, w, PROMPT, LM_CACHE_F16));
	must(lm_forward_open(&f, w, cache, &limits));
	(void)prefill_rate(f, cache, &c); /* pages and caches */
	for (size_t i = 0; i < rounds; i++) {
		double before = peak_rate(), rate = prefill_rate(f, cache, &c);

		parts[i] = 2e6 * rate / (before + peak_rate());
		most = rate > most ? rate : most;
	}
	good = report(t, parts, rounds,
		most * PROMPT /
			(2.0 * PROMPT * c.layers *
				(2.0 * c.dim * (c.heads + c.kv_heads) * c.head_dim +
					3.0 * c.dim * c.hidden)));
	lm_forward_close(f);
	lm_cache_close(cache);
	lm_weights_close(w);
	model_file_close(m);
	return good;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 9, all = team_size();
	bool good = true;
	enum cpu_level level;

	if (rounds < 1 || rounds > ROUNDS_MAX) {
		fprintf(stderr, "usage: prefill [rounds]\n");
		return 64;
	}
	cpu_level_chosen(&level);
	peak = peak_of(PRODUCT_I8, level);
	if (!peak) {
		fprintf(stderr,
			"prefill: no instruction multiplies and adds int8 here\n");
		return 69;
	}
	for (int threads = 1; threads <= all; threads = threads < all ? all : all + 1) {
		team_resize(threads);
		must(dev_open(&dev, "cpu"));
		for (size_t i = 0; i < sizeof types / sizeof *types; i++)
			good = measure(&types[i], (size_t)rounds) && good;
		dev_close(&dev);
	}
	return good ? 0 : 1;
}
