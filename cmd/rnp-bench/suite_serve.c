/* suite_serve - answering one stream: prompts read and tokens said, over the presets and the types of their weights. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-bench/gpu.h"
#include "cmd/rnp-bench/suite_lm.h"
#include "common/err.h"
#include "common/json.h"
#include "common/lm/infer.h"
#include "common/mem.h"
#include "common/rng.h"

#define PROMPT       64  /* tokens before those that are said */
#define SAID_MAX     64  /* then the stream goes back to its prompt */
#define PREFILL_MAX  256 /* tokens of a prompt that is timed */
#define PREFILL_FEW  64  /* with --quick, and of large models: one piece */
#define FEW_FROM     3   /* the first of these: medium */
#define PRESET_TESTS (TYPES * 2)

/* As in the table of tests. */
static const enum lm_type types[] = { LM_F32, LM_BF16, LM_Q8_0, LM_Q4_0 };
#define TYPES ((int)(sizeof types / sizeof *types))

static struct {
	struct lm_source *source;
	struct lm_infer *model;
	struct lm_stream *prefill, *decode;
	uint32_t prompt[PREFILL_MAX], tokens; /* of a prompt that is timed */
	uint32_t vocab, next;                 /* what is said next */
	float *logits;
} r;

static void close_model(void)
{
	lm_stream_close(r.prefill);
	lm_stream_close(r.decode);
	lm_infer_close(r.model);
	lm_source_close(r.source);
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
	lm_stream_cut(r.prefill, 0);
	return lm_stream_feed(r.prefill, r.prompt, r.tokens, r.logits);
}

static int step_decode(double *work)
{
	*work = 1;
	if (lm_stream_length(r.decode) == lm_stream_context(r.decode))
		lm_stream_cut(r.decode, PROMPT);
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
	if (lm_source_make(&r.source, NULL, c, type, 1) < 0 ||
		lm_infer_open(&r.model, &l->d, r.source) < 0 ||
		lm_stream_open(&r.prefill, r.model, r.tokens) < 0 ||
		lm_stream_open(&r.decode, r.model, PROMPT + SAID_MAX) < 0 ||
		lm_stream_feed(r.decode, r.prompt, PROMPT, r.logits) < 0)
		return -1;
	r.next = most_likely();
	return 0;
}

/* Bytes of the matrices that a token goes through: of a table of embeddings that is not the output too it reads one row. */
static double weight_bytes(const struct lm_source *s)
{
	const struct lm_config *c = lm_source_config(s);
	double bytes = 0;

	for (uint32_t i = c->tied ? 0 : 1; i < lm_layout_count(c); i++)
		bytes += (double)lm_source_tensor(s, i)->bytes;
	return bytes;
}

/* Forward is a third of what training counts. Of a prompt only the last token needs the output, and a piece of it reads the
 * weights once. */
static void count_prefill(struct suite_lm_token *t, const struct lm_config *c,
	double weights, uint32_t tokens)
{
	double output = 2.0 * c->vocab * c->dim;
	double pieces = ceil((double)tokens / LM_INFER_ROWS);

	t->flop = lm_config_train_flop(c, tokens) / 3 - output * (tokens - 1) / tokens;
	t->bytes = weights * pieces / tokens;
}

/* Attention over the prompt and half of what is said. */
static void count_decode(struct suite_lm_token *t, const struct lm_config *c,
	double weights)
{
	t->flop = lm_config_train_flop(c, 2 * PROMPT + SAID_MAX) / 3;
	t->bytes = weights;
}

static int emit(struct suite_lm *l, const struct suite_lm_model *model,
	const struct suite_lm_token *t, const struct lm_config *c, enum lm_type type,
	double weights, uint32_t tokens)
{
	json_t *params = json_object();

	json_set_i64(params, "parameters", (int64_t)lm_config_params(c));
	json_set_text(params, "type", lm_type_name(type));
	json_set_i64(params, "weight_bytes", llround(weights));
	json_set_i64(params, "prompt", tokens);
	return suite_lm_emit(l, model, t, params);
}

/* One model: its prompts and what it says. */
static int measure_model(struct suite_lm *l, int preset, int type)
{
	const struct test *row =
		&l->suite->tests[SUITE_LM_ROOFS + preset * PRESET_TESTS + type * 2];
	struct suite_lm_model models[2] = { { row, MEASUREMENT_INIT },
		{ row + 1, MEASUREMENT_INIT } };
	struct suite_lm_token prefill = { 0 }, decode = { 0 };
	uint32_t tokens = l->settings.quick || preset >= FEW_FROM ? PREFILL_FEW :
								    PREFILL_MAX;
	double weights = 0;
	uint64_t bytes;
	struct lm_config c;
	int rc;

	lm_config_preset(&c, lm_preset_names[preset], 0);
	if (lm_source_make(NULL, &bytes, &c, types[type], 1) < 0)
		return -1;
	if (!suite_lm_fits(l, bytes + bytes / 8)) {
		suite_lm_leave_out(l, row->name + strlen("prefill_"));
		return 0;
	}
	r.tokens = tokens;
	rc = open_model(l, &c, types[type]);
	if (rc == 0) {
		weights = weight_bytes(r.source);
		rc = suite_lm_alternate(l, models, 2, &prefill);
	}
	decode = prefill;
	count_prefill(&prefill, &c, weights, tokens);
	count_decode(&decode, &c, weights);
	close_model();
	if (rc == 0)
		rc = emit(l, &models[0], &prefill, &c, types[type], weights, tokens);
	if (rc == 0)
		rc = emit(l, &models[1], &decode, &c, types[type], weights, PROMPT);
	measurement_release(&models[0].m);
	measurement_release(&models[1].m);
	return rc;
}

/* f32 and q8_0 are what --quick has time for. */
static int run(const struct settings *s, suite_emit emit_record, void *ctx)
{
	int n = s->quick ? SUITE_LM_QUICK_PRESETS : SUITE_LM_PRESETS;
	struct suite_lm l;
	int rc = suite_lm_open(&l, &suite_serve, s, emit_record, ctx, PRODUCT_F32);

	for (int i = 0; i < n; i++)
		for (int k = 0; rc == 0 && k < TYPES; k++)
			if (!s->quick || types[k] == LM_F32 || types[k] == LM_Q8_0)
				rc = measure_model(&l, i, k);
	if (rc == 0)
		rc = suite_lm_emit_roofs(&l);
	suite_lm_close(&l);
	return rc;
}

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

const struct suite suite_serve = { "serve", tests, suite_cpu_model, NULL, NULL, run };
