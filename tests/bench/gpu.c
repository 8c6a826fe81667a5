/* gpu.c - figures of a GPU on shapes of its size, beside the copy and the matrix product of the
 * same minute: what tests/bench/predict predicts, of training and of serving.
 *
 * usage: gpu DEVICE train SHAPE BATCH LENGTH STEPS [graph|none]
 *        gpu DEVICE decode SHAPE TYPE STREAMS CONTEXT STEPS
 *        gpu DEVICE prefill SHAPE TYPE TOKENS ROWS TIMES
 * SHAPE: a preset of rnp-train init, 8b (Llama 3.1's) or 13b (Llama 2's). Weights and tokens are
 * random. Prints one record: the medians of the steps' times, what they moved and computed, and
 * parts of the two rates in ppm. decode: a step is one token of each stream; only weights (but the
 * rows of the embedding that are not used) and keys and values count as bytes. prefill: a time is a
 * whole prompt, ROWS at once. uses: cmd/rnp-bench */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-bench/suites/matrices.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/hw/device.h"
#include "common/json/json.h"
#include "common/lm/infer/choose.h"
#include "common/lm/infer/forward.h"
#include "common/lm/train/train.h"
#include "common/record/bench.h"

#define WARM       3 /* the first steps load kernels, and the second is captured */
#define STEPS_MAX  1000
#define ROOF_BYTES (UINT64_C(2) << 30)
#define ROOF_N     8192
#define ROOF_SMALL (UINT64_C(1) << 24) /* these two on a CPU and in the emulation */
#define ROOF_FEW   64
#define ROOF_TIMES 20
#define SEED_ROWS  32
#define STREAMS    256

static struct dev dev = DEV_INIT;

static void must(int rc)
{
	if (rc == 0)
		return;
	if (!*err_get()->text)
		device_failed(&dev);
	fprintf(stderr, "gpu: %s\n", err_get()->text);
	exit(err_get()->code ? err_get()->code : 70);
}

static _Noreturn void usage(const char *why)
{
	fprintf(stderr, "gpu: %s; see tests/bench/gpu.c\n", why);
	exit(64);
}

static void shape_of(struct lm_config *c, const char *name)
{
	static const struct {
		const char *name;
		uint32_t vocab, dim, hidden, layers, heads, kv_heads;
	} more[] = {
		{ "8b", 128256, 4096, 14336, 32, 32, 8 },
		{ "13b", 32000, 5120, 13824, 40, 40, 40 },
	};

	for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
		if (strcmp(more[i].name, name) != 0)
			continue;
		must(lm_config_preset(c, "7b", more[i].vocab));
		c->dim = more[i].dim;
		c->hidden = more[i].hidden;
		c->layers = more[i].layers;
		c->heads = more[i].heads;
		c->kv_heads = more[i].kv_heads;
		c->head_dim = c->dim / c->heads;
		return;
	}
	must(lm_config_preset(c, name, 0));
}

/* --- the two rates ---------------------------------------------------------------------------- */

static bool is_small(void)
{
	return dev.is_host || dev.memory_bytes < 4 * ROOF_BYTES;
}

/* Bytes a second of a copy, read and written. */
static double copy_rate(void)
{
	uint64_t bytes = is_small() ? ROOF_SMALL : ROOF_BYTES;
	void *a, *b;
	int64_t ns = 0;

	must(dev.ops->alloc(&dev, &a, bytes));
	must(dev.ops->alloc(&dev, &b, bytes));
	must(dev.ops->fill(&dev, a, 0x3f803e80, bytes / 4));
	must(dev.ops->copy(&dev, b, a, bytes));
	must(dev.ops->timer_start(&dev));
	for (int i = 0; i < ROOF_TIMES; i++)
		must(dev.ops->copy(&dev, b, a, bytes));
	must(dev.ops->timer_stop(&dev, &ns));
	dev.ops->free(&dev, a);
	dev.ops->free(&dev, b);
	return 2e9 * ROOF_TIMES * (double)bytes / (double)ns;
}

/* Operations a second of a product in bf16. */
static double matrix_rate(void)
{
	struct matrices m = { 0 };
	int64_t ns = 0;
	double work;

	must(matrices_open(&m, &dev, PRODUCT_BF16, is_small() ? ROOF_FEW : ROOF_N));
	must(matrices_step(&m, 1));
	work = matrices_work(&m) * ROOF_TIMES;
	must(dev.ops->timer_start(&dev));
	must(matrices_step(&m, ROOF_TIMES));
	must(dev.ops->timer_stop(&dev, &ns));
	matrices_close(&m);
	return 1e9 * work / (double)ns;
}

/* --- a record --------------------------------------------------------------------------------- */

struct figure {
	char test[96];
	double ns[STEPS_MAX]; /* of the steps */
	size_t n;
	double tokens, bytes, flop; /* of a step */
	uint64_t memory_bytes;      /* that it takes on the device */
	const char *shape, *type;
};

static void report(const struct figure *f, double copy, double matrix)
{
	struct stats s;
	json_t *record, *params;
	double rate;

	stats_of(f->ns, f->n, &s);
	rate = 1e9 / s.median;
	record = bench_record("gpu", f->test, dev.model[0] ? dev.model : "cpu", "ns", &s);
	params = bench_params(record);
	json_set_text(params, "shape", f->shape);
	json_set_text(params, "type", f->type);
	json_set_i64(params, "tokens_per_s", llround(f->tokens * rate));
	json_set_i64(params, "bytes_per_s", llround(f->bytes * rate));
	json_set_i64(params, "flop_per_s", llround(f->flop * rate));
	json_set_i64(params, "copy_bytes_per_s", llround(copy));
	json_set_i64(params, "matrix_flop_per_s", llround(matrix));
	json_set_i64(params, "memory_ppm", llround(1e6 * f->bytes * rate / copy));
	json_set_i64(params, "matrix_ppm", llround(1e6 * f->flop * rate / matrix));
	json_set_i64(params, "memory_bytes", (int64_t)f->memory_bytes);
	json_dumpf(record, stdout, JSON_COMPACT);
	putchar('\n');
	fflush(stdout);
	json_decref(record);
}

static uint64_t free_bytes(void)
{
	uint64_t bytes = 0;

	if (dev.ops->mem_free && !dev.is_host)
		must(dev.ops->mem_free(&dev, &bytes));
	return bytes;
}

/* --- training --------------------------------------------------------------------------------- */

static void train(struct figure *f, uint32_t batch, uint32_t length, size_t steps,
	bool graph)
{
	struct lm_train_options o;
	struct lm_train_plan plan;
	struct lm_config c;
	struct lm_train *t;
	struct lm_step step;
	struct rng rng;
	uint32_t *tokens, *targets;
	size_t n = (size_t)batch * length;

	shape_of(&c, f->shape);
	if (c.context < length)
		c.context = length;
	lm_train_defaults(&o, &c);
	o.batch = batch;
	o.positions = length;
	o.no_graph = !graph;
	must(lm_train_plan(&plan, &dev, &o));
	tokens = xcalloc(n, sizeof *tokens);
	targets = xcalloc(n, sizeof *targets);
	rng_seed(&rng, 1, 0);
	for (size_t i = 0; i < n; i++) {
		tokens[i] = (uint32_t)rng_below(&rng, c.vocab);
		targets[i] = (uint32_t)rng_below(&rng, c.vocab);
	}
	must(lm_train_open(&t, &dev, &o));
	must(lm_train_init(t, 1));
	for (size_t i = 0; i < WARM + steps; i++) {
		int64_t from = clock_mono_ns();

		must(lm_train_step(t, tokens, targets, 1e-4f, &step));
		if (i >= WARM)
			f->ns[f->n++] = (double)(clock_mono_ns() - from);
	}
	if (graph && !lm_train_captured(t))
		fprintf(stderr, "gpu: no graph: %s\n", lm_train_why(t));
	f->tokens = (double)n;
	f->flop = lm_config_train_flop(&c, length) * (double)n;
	f->memory_bytes = plan.total;
	snprintf(f->test, sizeof f->test, "train_%s_%ux%u%s", f->shape, batch, length,
		graph ? "" : "_no_graph");
	lm_train_close(t);
	free(tokens);
	free(targets);
}

/* --- serving ---------------------------------------------------------------------------------- */

static struct {
	struct lm_config c;
	struct model_file *file;
	struct lm_weights *w;
	struct lm_cache *cache;
	struct lm_forward *forward;
	double weight_bytes; /* that a token reads */
	uint32_t next[STREAMS];
	struct lm_chooser chooser;
} m;

static void open_model(const struct figure *f, uint32_t pages,
	const struct lm_forward_limits *limits)
{
	enum lm_type type = LM_BF16;
	bool found = false;

	for (int i = 0; i < LM_TYPES && !found; i++) {
		type = (enum lm_type)i;
		found = strcmp(lm_type_name(type), f->type) == 0;
	}
	if (!found)
		usage("no such type");
	shape_of(&m.c, f->shape);
	if (m.c.context < limits->context)
		m.c.context = limits->context;
	must(model_file_make(&m.file, NULL, &m.c, type, 1));
	must(lm_weights_open(&m.w, &dev, m.file));
	lm_weights_pack(m.w);
	must(lm_cache_open(&m.cache, m.w, pages, LM_CACHE_F16));
	must(lm_forward_open(&m.forward, m.w, m.cache, limits));
	for (uint32_t i = m.c.tied ? 0 : 1; i < lm_layout_count(&m.c); i++)
		m.weight_bytes += (double)model_file_tensor(m.file, i)->bytes;
}

static void close_model(void)
{
	lm_chooser_release(&m.chooser);
	lm_forward_close(m.forward);
	lm_cache_close(m.cache);
	lm_weights_close(m.w);
	model_file_close(m.file);
}

/* The most likely tokens, as a server without a temperature chooses them. */
static int choose(void *arg, const uint32_t *rows, uint32_t n, const float *logits)
{
	static const struct lm_sampling greedy = { .top_p = 1, .repetition_penalty = 1 };
	struct lm_choice all[LM_LOGITS_MAX];

	(void)arg;
	for (uint32_t i = 0; i < n; i++)
		all[i] = (struct lm_choice){ .logits = logits + (size_t)i * m.c.vocab,
			.sampling = &greedy };
	lm_choose(&m.chooser, all, n, m.c.vocab);
	for (uint32_t i = 0; i < n; i++) {
		if (!isfinite(all[i].logits[all[i].token]))
			return err_set(EX_DATAERR, "a logit is no number");
		m.next[rows[i] % STREAMS] = all[i].token;
	}
	return 0;
}

/* Of a token at this position, without training's way back. */
static double forward_flop(double position)
{
	return lm_config_train_flop(&m.c, (uint32_t)(2 * position)) / 3;
}

static void decode(struct figure *f, uint32_t streams, uint32_t context, size_t steps)
{
	const struct lm_forward_limits limits = { .rows = streams > SEED_ROWS ? streams :
										SEED_ROWS,
		.sequences = streams + 1,
		.context = context + (uint32_t)steps + WARM,
		.logits = LM_LOGITS_MAX };
	struct lm_sequence seed = { 0 }, all[STREAMS] = { 0 };
	struct lm_row rows[STREAMS];
	uint64_t before = free_bytes();
	double length = context + WARM + (double)steps / 2, token;

	if (streams > STREAMS)
		usage("too many streams");
	open_model(f,
		streams * lm_cache_pages(limits.context) + lm_cache_pages(SEED_ROWS),
		&limits);
	must(lm_sequence_grow(&seed, m.cache, SEED_ROWS));
	for (uint32_t i = 0; i < SEED_ROWS; i++)
		rows[i] = (struct lm_row){ .sequence = &seed,
			.token = 5 + 7 * i,
			.position = i };
	must(lm_forward_scores(m.forward, rows, SEED_ROWS, choose, NULL));
	for (uint32_t i = 0; i < streams; i++) {
		must(lm_sequence_repeat(&all[i], &seed, m.cache, context));
		m.next[i] = 5 + i;
	}
	for (size_t k = 0; k < WARM + steps; k++) {
		int64_t from = clock_mono_ns();

		for (uint32_t i = 0; i < streams; i++) {
			must(lm_sequence_grow(&all[i], m.cache, 1));
			rows[i] = (struct lm_row){ .sequence = &all[i],
				.token = m.next[i],
				.position = all[i].length,
				.logits = true };
		}
		must(lm_forward_scores(m.forward, rows, streams, choose, NULL));
		if (k >= WARM)
			f->ns[f->n++] = (double)(clock_mono_ns() - from);
	}
	f->memory_bytes = before - free_bytes();
	token = (double)lm_cache_page_bytes(&m.c, LM_CACHE_F16) / LM_PAGE;
	f->tokens = streams;
	f->bytes = m.weight_bytes + streams * token * length;
	f->flop = streams * forward_flop(length);
	snprintf(f->test, sizeof f->test, "decode_%s_%s_b%u_c%u", f->shape, f->type,
		streams, context);
	for (uint32_t i = 0; i < streams; i++)
		lm_sequence_release(&all[i], m.cache);
	lm_sequence_release(&seed, m.cache);
	close_model();
}

static void prefill(struct figure *f, uint32_t tokens, uint32_t at_once, size_t times)
{
	const struct lm_forward_limits limits = { .rows = at_once,
		.sequences = 1,
		.context = tokens };
	struct lm_row *rows = xcalloc(at_once, sizeof *rows);
	uint64_t before = free_bytes();

	open_model(f, lm_cache_pages(tokens), &limits);
	for (size_t k = 0; k < WARM + times; k++) {
		struct lm_sequence s = { 0 };
		int64_t from = clock_mono_ns();

		must(lm_sequence_grow(&s, m.cache, tokens));
		for (uint32_t at = 0; at < tokens; at += at_once) {
			uint32_t n = tokens - at < at_once ? tokens - at : at_once;

			for (uint32_t i = 0; i < n; i++)
				rows[i] = (struct lm_row){ .sequence = &s,
					.token = 5 + (at + i) * 7 % (m.c.vocab - 5),
					.position = at + i,
					.logits = at + i == tokens - 1 };
			must(lm_forward_scores(m.forward, rows, n, choose, NULL));
		}
		if (k >= WARM)
			f->ns[f->n++] = (double)(clock_mono_ns() - from);
		lm_sequence_release(&s, m.cache);
	}
	f->memory_bytes = before - free_bytes();
	f->tokens = tokens;
	f->bytes = m.weight_bytes * ceil((double)tokens / at_once);
	/* the output of the last token alone */
	f->flop = tokens * (forward_flop(tokens / 2.0) - 2.0 * m.c.vocab * m.c.dim);
	snprintf(f->test, sizeof f->test, "prefill_%s_%s_%u_by_%u", f->shape, f->type,
		tokens, at_once);
	free(rows);
	close_model();
}

static uint32_t number(const char *text, uint32_t most)
{
	char *end;
	unsigned long v = strtoul(text, &end, 10);

	if (*end || !v || v > most)
		usage("a number is wrong");
	return (uint32_t)v;
}

int main(int argc, char **argv)
{
	struct figure f = { 0 };
	double copy, matrix;
	bool trains = argc > 2 && strcmp(argv[2], "train") == 0;

	if (argc == 1) {
		fprintf(stderr, "gpu: scripts/on-gpu runs it with its arguments\n");
		return 0;
	}
	if (argc < 7 + !trains)
		usage("arguments are missing");
	f.shape = argv[3];
	f.type = trains ? "bf16" : argv[4];
	must(device_open(&dev, argv[1]));
	copy = copy_rate();
	matrix = matrix_rate();
	if (trains)
		train(&f, number(argv[4], 1 << 16), number(argv[5], 1 << 20),
			number(argv[6], STEPS_MAX),
			argc < 8 || strcmp(argv[7], "none") != 0);
	else if (strcmp(argv[2], "decode") == 0)
		decode(&f, number(argv[5], STREAMS), number(argv[6], 1 << 20),
			number(argv[7], STEPS_MAX));
	else if (strcmp(argv[2], "prefill") == 0)
		prefill(&f, number(argv[5], 1 << 20), number(argv[6], 1 << 16),
			number(argv[7], STEPS_MAX));
	else
		usage("what is to be measured?");
	report(&f, copy, matrix);
	dev_close(&dev);
	return 0;
}
