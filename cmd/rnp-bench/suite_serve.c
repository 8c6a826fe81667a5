/* suite_serve.c - measures one stream of inference: prompt and generated tokens, over the
 * presets and the types of their weights. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-bench/gpu.h"
#include "cmd/rnp-bench/suite_lm.h"
#include "common/base/err.h"
#include "common/json/json.h"
#include "common/lm/infer/stream.h"
#include "common/base/mem.h"
#include "common/base/rng.h"

#define PROMPT          64 /* tokens before the generated ones */
#define ANSWER_TEXT_MAX 64 /* after this many tokens the stream goes back to its prompt */
#define PREFILL_MAX     256 /* tokens of a prompt that is timed */
#define PREFILL_FEW     64  /* with --quick, and of large models: one piece */
#define FEW_FROM        3   /* the first of these: medium */
#define PRESET_TESTS    (TYPES * 2)

/* In the order of the table of tests. */
static const enum lm_type types[] = { LM_F32, LM_BF16, LM_Q8_0, LM_Q4_0 };
#define TYPES ((int)(sizeof types / sizeof *types))

static struct {
	struct model_file *model_file;
	struct lm_weights *weights;
	struct lm_stream *prefill, *decode;
	uint32_t prompt[PREFILL_MAX],
		tokens;       /* tokens: length of the prompt that is timed */
	uint32_t vocab, next; /* next: the token that is fed next */
	float *logits;
} r;

static void close_model(void)
{
	lm_stream_close(r.prefill);
	lm_stream_close(r.decode);
	lm_weights_close(r.weights);
	model_file_close(r.model_file);
	free(r.logits);
	memset(&r, 0, sizeof r);
}

static uint32_t most_likely(void)
{
	uint32_t best = 0;

	for (uint32_t i = 1; i < r.vocab; i++)
		if (r.logits[i] > r.logits[best])
			best = i;
	return best;
}

static int step_prefill(double *work)
{
	*work = r.tokens;
	lm_stream_truncate(r.prefill, 0);
	return lm_stream_feed(r.prefill, r.prompt, r.tokens, r.logits);
}

static int step_decode(double *work)
{
	*work = 1;
	if (lm_stream_length(r.decode) == lm_stream_context(r.decode))
		lm_stream_truncate(r.decode, PROMPT);
	if (lm_stream_feed(r.decode, &r.next, 1, r.logits) < 0)
		return -1;
	r.next = most_likely();
	return 0;
}

/* The logits of the last step are numbers, and not all the same. */
static int check(void)
{
	bool differ = false;

	for (uint32_t i = 0; i < r.vocab; i++) {
		if (!isfinite(r.logits[i]))
			return dev_wrong(suite_lm_dev(), "a logit is no number");
		differ = differ || r.logits[i] != r.logits[0];
	}
	return differ ? 0 : dev_wrong(suite_lm_dev(), "all logits are the same");
}

static int open_model(struct suite_lm *l, const struct lm_config *c, enum lm_type type)
{
	struct rng rng;

	r.vocab = c->vocab;
	r.logits = xcalloc(c->vocab, sizeof *r.logits);
	rng_seed(&rng, 1, 0);
	for (uint32_t i = 0; i < PREFILL_MAX; i++)
		r.prompt[i] = (uint32_t)rng_below(&rng, c->vocab);
	if (model_file_make(&r.model_file, NULL, c, type, 1) < 0 ||
		lm_weights_open(&r.weights, &l->d, r.model_file) < 0 ||
		lm_stream_open(&r.prefill, r.weights, r.tokens, LM_CACHE_F16) < 0 ||
		lm_stream_open(&r.decode, r.weights, PROMPT + ANSWER_TEXT_MAX,
			LM_CACHE_F16) < 0 ||
		lm_stream_feed(r.decode, r.prompt, PROMPT, r.logits) < 0)
		return -1;
	r.next = most_likely();
	return 0;
}

/* Returns the bytes of the matrices that a token uses: one row of an embedding table that is
 * not also the output. */
static double weight_bytes(const struct model_file *s)
{
	const struct lm_config *c = model_file_config(s);
	double bytes = 0;

	for (uint32_t i = c->tied ? 0 : 1; i < lm_layout_count(c); i++)
		bytes += (double)model_file_tensor(s, i)->bytes;
	return bytes;
}

/* The forward pass is a third of what training counts. Only the last token of a prompt needs
 * the output, and a piece of a prompt reads the weights once. */
static void count_prefill(struct suite_lm_test *t, const struct lm_config *c,
	double weights, uint32_t tokens)
{
	double output = 2.0 * c->vocab * c->dim;
	double pieces = ceil((double)tokens / LM_STREAM_ROWS);

	t->flop = lm_config_train_flop(c, tokens) / 3 - output * (tokens - 1) / tokens;
	t->bytes = weights * pieces / tokens;
}

/* Attention over the prompt and half of the generated tokens. */
static void count_decode(struct suite_lm_test *t, const struct lm_config *c,
	double weights)
{
	t->flop = lm_config_train_flop(c, 2 * PROMPT + ANSWER_TEXT_MAX) / 3;
	t->bytes = weights;
}

/* Describes the open model in the params of its figures. */
static void describe(struct suite_lm_model *m, const struct lm_config *c,
	enum lm_type type)
{
	const uint32_t prompts[] = { r.tokens, PROMPT };
	double weights = weight_bytes(r.model_file);

	count_prefill(&m->tests[0], c, weights, r.tokens);
	count_decode(&m->tests[1], c, weights);
	for (size_t i = 0; i < m->ntests; i++) {
		json_t *params = m->tests[i].params = json_object();

		json_set_i64(params, "parameters", (int64_t)lm_config_params(c));
		json_set_text(params, "type", lm_type_name(type));
		json_set_i64(params, "weight_bytes", llround(weights));
		json_set_i64(params, "prompt", prompts[i]);
	}
}

/* --quick has time for f32 and q8_0. */
static const int quick_types[] = { 0, 2 };
#define QUICK_TYPES ((int)(sizeof quick_types / sizeof *quick_types))

static int count_models(const struct settings *s)
{
	return s->quick ? SUITE_LM_QUICK_PRESETS * QUICK_TYPES : SUITE_LM_PRESETS * TYPES;
}

/* Measures one model: its prompts and its generation. */
static int open_one(struct suite_lm *l, struct suite_lm_model *m, int i)
{
	int per = l->settings.quick ? QUICK_TYPES : TYPES, preset = i / per;
	int type = l->settings.quick ? quick_types[i % per] : i % per;
	const struct test *row =
		&l->kind->suite->tests[SUITE_LM_ROOFS + preset * PRESET_TESTS + type * 2];
	uint64_t bytes;
	struct lm_config c;

	lm_config_preset(&c, lm_preset_names[preset], 0);
	if (model_file_make(NULL, &bytes, &c, types[type], 1) < 0)
		return -1;
	m->ntests = 2;
	m->tests[0].test = row;
	m->tests[1].test = row + 1;
	if (!suite_lm_fits(l, bytes + bytes / 8))
		return 1;
	r.tokens = l->settings.quick || preset >= FEW_FROM ? PREFILL_FEW : PREFILL_MAX;
	if (open_model(l, &c, types[type]) < 0)
		return -1;
	if (!m->tests[0].params)
		describe(m, &c, types[type]);
	return 0;
}

static const struct suite_lm_kind kind = { &suite_serve, PRODUCT_F32, count_models,
	open_one, close_model };

static struct suite_lm workload = { .kind = &kind };
static const struct suite_workload functions = SUITE_LM_WORKLOAD(&workload);

#define ROW(what, preset, type, text)                                             \
	{                                                                         \
		.name = #what "_" preset "_" type, .unit = "tokens/s",            \
		.summary = text " by the preset " preset " with weights in " type \
				", one stream",                                   \
		.step = step_##what, .check = check                               \
	}
#define BOTH(preset, type)                                \
	ROW(prefill, preset, type, "prompt tokens read"), \
		ROW(decode, preset, type, "tokens said")
#define PRESET(preset)                                                   \
	BOTH(preset, "f32"), BOTH(preset, "bf16"), BOTH(preset, "q8_0"), \
		BOTH(preset, "q4_0")

static const struct test tests[] = {
	{ .name = "matmul_f32",
		.unit = "FLOP/s",
		.summary = "the roof: a matrix product, measured between the models",
		.step = suite_lm_step_matrix,
		.check = suite_lm_check_matrix },
	{ .name = "read",
		.unit = "B/s",
		.summary = "the roof: reading memory, measured between the models",
		.step = suite_lm_step_memory,
		.check = suite_lm_check_memory },
	PRESET("nano"),
	PRESET("mini"),
	PRESET("small"),
	PRESET("medium"),
	PRESET("1b"),
	PRESET("7b"),
	{ 0 },
};

const struct suite suite_serve = { "serve", tests, suite_cpu_model, NULL, NULL,
	&functions };
