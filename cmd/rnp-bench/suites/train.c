/* train.c - measures training steps over the presets, and the machine's roofs beside
 * them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-bench/suites/gpu.h"
#include "cmd/rnp-bench/suites/lm.h"
#include "common/base/err.h"
#include "common/json/json.h"
#include "common/lm/train/train.h"
#include "common/base/mem.h"
#include "common/base/rng.h"

#define RATE 1e-4f

/* Lower bound of the bytes that a step moves for each parameter: the master and both moments
 * read and written, its gradient written and read, its bf16 copy written and read forward and
 * backward. */
#define STEP_BYTES 38

/* Sequences and tokens each, in the order of the presets. */
static const struct shape {
	uint32_t batch, length;
} shapes[SUITE_LM_PRESETS] = { { 16, 256 }, { 8, 256 }, { 4, 256 }, { 2, 256 },
	{ 1, 256 }, { 1, 256 } },
  quick_shapes[SUITE_LM_QUICK_PRESETS] = { { 4, 128 }, { 1, 128 } };

static struct {
	struct lm_train *t;
	uint32_t *tokens, *targets;
	uint64_t count; /* tokens of a step */
	double loss_max;
	struct lm_step last;
} r;

static void close_model(void)
{
	lm_train_close(r.t);
	free(r.tokens);
	free(r.targets);
	memset(&r, 0, sizeof r);
}

static int step(double *work)
{
	*work = (double)r.count;
	return lm_train_step(r.t, r.tokens, r.targets, RATE, &r.last);
}

/* Random targets cost log(vocab), and less as they are learned: a higher loss, or NaN, comes
 * from wrong sums. */
static int check(void)
{
	if (!(r.last.loss > 0 && r.last.loss < r.loss_max && r.last.norm > 0 &&
		    isfinite(r.last.norm) && r.last.targets == r.count))
		return dev_wrong(suite_lm_dev(), "a step of training is wrong");
	return 0;
}

static int open_model(struct suite_lm *l, const struct lm_train_options *o)
{
	struct rng rng;

	r.count = (uint64_t)o->batch * o->positions;
	r.loss_max = 1.1 * log(o->config.vocab) + 0.5;
	r.tokens = xcalloc(r.count, sizeof *r.tokens);
	r.targets = xcalloc(r.count, sizeof *r.targets);
	rng_seed(&rng, 1, 0);
	for (uint64_t i = 0; i < r.count; i++) {
		r.tokens[i] = (uint32_t)rng_below(&rng, o->config.vocab);
		r.targets[i] = (uint32_t)rng_below(&rng, o->config.vocab);
	}
	if (lm_train_open(&r.t, &l->d, o) < 0)
		return -1;
	return lm_train_init(r.t, 1);
}

/* Describes the work in the params of the figures. */
static void describe(struct suite_lm_test *test, const struct lm_train_options *o,
	const struct lm_train_plan *plan)
{
	const struct lm_config *c = &o->config;

	test->flop = lm_config_train_flop(c, o->positions);
	test->bytes = STEP_BYTES * (double)lm_config_params(c) /
		((double)o->batch * o->positions);
	test->params = json_object();
	json_set_i64(test->params, "parameters", (int64_t)lm_config_params(c));
	json_set_i64(test->params, "batch", o->batch);
	json_set_i64(test->params, "length", o->positions);
	json_set_text(test->params, "type", "bf16");
	json_set_i64(test->params, "plan_bytes", (int64_t)plan->total);
}

static int open_preset(struct suite_lm *l, struct suite_lm_model *m, int i)
{
	const struct shape *shape = l->settings.quick ? &quick_shapes[i] : &shapes[i];
	struct lm_train_options o;
	struct lm_train_plan plan;
	struct lm_config c;

	lm_config_preset(&c, lm_preset_names[i], 0);
	lm_train_defaults(&o, &c);
	o.batch = shape->batch;
	o.positions = shape->length;
	if (lm_train_plan(&plan, &l->d, &o) < 0)
		return -1;
	if (!m->ntests) {
		m->tests[m->ntests++].test = &l->kind->suite->tests[SUITE_LM_ROOFS + i];
		describe(&m->tests[0], &o, &plan);
	}
	return suite_lm_fits(l, plan.total) ? open_model(l, &o) : 1;
}

static int count_presets(const struct settings *s)
{
	return s->quick ? SUITE_LM_QUICK_PRESETS : SUITE_LM_PRESETS;
}

#define MADE_BYTES 18 /* of a parameter: master, moments, gradient, copy */

static void weigh(const struct settings *s, int i, struct suite_lm_work *out)
{
	const struct shape *shape = s->quick ? &quick_shapes[i] : &shapes[i];
	struct lm_config c;

	lm_config_preset(&c, lm_preset_names[i], 0);
	out->flop = lm_config_train_flop(&c, shape->length) * shape->batch *
		shape->length;
	out->bytes = MADE_BYTES * (double)lm_config_params(&c);
	out->tests = 1;
}

static const struct suite_lm_kind kind = { &suite_train, PRODUCT_BF16, count_presets,
	open_preset, close_model, weigh };

static struct suite_lm workload = { .kind = &kind };
static const struct suite_workload functions = SUITE_LM_WORKLOAD(&workload);

#define ROW(preset)                                               \
	{                                                         \
		.name = "step_" preset, .unit = "tokens/s",       \
		.summary = "steps of training the preset " preset \
			   ", random tokens, bf16",               \
		.step = step, .check = check                      \
	}

static const struct test tests[] = {
	{ .name = "matmul_bf16",
		.unit = "FLOP/s",
		.summary = "the roof: a matrix product, measured between the steps",
		.step = suite_lm_step_matrix,
		.check = suite_lm_check_matrix },
	{ .name = "read",
		.unit = "B/s",
		.summary = "the roof: reading memory, measured between the steps",
		.step = suite_lm_step_memory,
		.check = suite_lm_check_memory },
	ROW("nano"),
	ROW("mini"),
	ROW("small"),
	ROW("medium"),
	ROW("1b"),
	ROW("7b"),
	{ 0 },
};

const struct suite suite_train = { "train", tests, suite_cpu_model, NULL, NULL,
	&functions };
