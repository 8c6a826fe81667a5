/* serve.c - measures inference: prompt and generated tokens of one stream, over the presets
 * and the types of their weights; and generated tokens of several streams in one step, over the
 * lengths of their texts. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-bench/suites/gpu.h"
#include "cmd/rnp-bench/suites/lm.h"
#include "common/base/err.h"
#include "common/json/json.h"
#include "common/lm/infer/choose.h"
#include "common/lm/infer/stream.h"
#include "common/base/mem.h"
#include "common/base/rng.h"

#define PROMPT          64 /* tokens before the generated ones */
#define ANSWER_TEXT_MAX 64 /* after this many tokens the stream goes back to its prompt */
#define PREFILL_MAX     256 /* tokens of a prompt that is timed */
#define PREFILL_FEW     64  /* with --quick, and of large models: one piece */
#define FEW_FROM        3   /* the first of these: medium */
/* A CPU takes most of an hour for the large models, and ten minutes for all others: it measures
 * them where a test has at least this time. */
#define LARGE_MS     10000
#define PRESET_TESTS (TYPES * 2)
#define BATCH_SEED   32 /* tokens whose keys and values are repeated as a text */

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
	struct lm_chooser chooser;
} r;

/* Streams in a step, and lengths of their texts, in the order of the table of tests. */
static const uint32_t batches[] = { 1, 4, 8, 16 };
static const uint32_t contexts[] = { 128, 512, 2048, 8192 };
#define BATCHES        ((int)(sizeof batches / sizeof *batches))
#define CONTEXTS       ((int)(sizeof contexts / sizeof *contexts))
#define STREAMS_MAX    16
#define CONTEXTS_QUICK 2
#define BATCH_TYPE     LM_Q8_0 /* of their weights */

static struct {
	struct lm_cache *cache;
	struct lm_forward *forward;
	struct lm_sequence streams[STREAMS_MAX];
	uint32_t next[STREAMS_MAX], context;
} b;

static void close_streams(void)
{
	for (int i = 0; b.cache && i < STREAMS_MAX; i++)
		lm_sequence_release(&b.streams[i], b.cache);
	lm_forward_close(b.forward);
	lm_cache_close(b.cache);
	memset(&b, 0, sizeof b);
}

static void close_model(void)
{
	close_streams();
	lm_stream_close(r.prefill);
	lm_stream_close(r.decode);
	lm_weights_close(r.weights);
	model_file_close(r.model_file);
	lm_chooser_release(&r.chooser);
	free(r.logits);
	memset(&r, 0, sizeof r);
}

/* Chooses the most likely token of each of n rows, as a server without a temperature does. */
static void choose_likeliest(struct lm_choice *all, uint32_t n, const float *logits)
{
	static const struct lm_sampling greedy = { .top_p = 1, .repetition_penalty = 1 };

	for (uint32_t i = 0; i < n; i++)
		all[i] = (struct lm_choice){ .logits = logits + (size_t)i * r.vocab,
			.sampling = &greedy };
	lm_choose(&r.chooser, all, n, r.vocab);
}

static uint32_t most_likely(void)
{
	struct lm_choice one;

	choose_likeliest(&one, 1, r.logits);
	return one.token;
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

static int choose(void *arg, const uint32_t *rows, uint32_t n, const float *logits)
{
	struct lm_choice all[LM_LOGITS_MAX];

	(void)arg;
	choose_likeliest(all, n, logits);
	for (uint32_t i = 0; i < n; i++)
		b.next[rows[i]] = all[i].token;
	if (rows[0] == 0)
		memcpy(r.logits, logits, r.vocab * sizeof *logits);
	return 0;
}

/* A token of each of n streams. A text that is full goes back by ANSWER_TEXT_MAX. */
static int step_batch(uint32_t n, double *work)
{
	struct lm_row rows[STREAMS_MAX];

	*work = n;
	for (uint32_t i = 0; i < n; i++) {
		struct lm_sequence *s = &b.streams[i];

		if (s->length == b.context)
			lm_sequence_truncate(s, b.cache, b.context - ANSWER_TEXT_MAX);
		if (lm_sequence_grow(s, b.cache, 1) < 0)
			return -1;
		rows[i] = (struct lm_row){ .sequence = s,
			.token = b.next[i],
			.position = s->length,
			.logits = true };
	}
	return lm_forward_scores(b.forward, rows, n, choose, NULL);
}

#define STEP_BATCH(n)                           \
	static int step_batch_##n(double *work) \
	{                                       \
		return step_batch(n, work);     \
	}

STEP_BATCH(1)
STEP_BATCH(4)
STEP_BATCH(8)
STEP_BATCH(16)

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

static int open_weights(struct suite_lm *l, const struct lm_config *c, enum lm_type type)
{
	struct rng rng;

	r.vocab = c->vocab;
	r.logits = xcalloc(c->vocab, sizeof *r.logits);
	rng_seed(&rng, 1, 0);
	for (uint32_t i = 0; i < PREFILL_MAX; i++)
		r.prompt[i] = (uint32_t)rng_below(&rng, c->vocab);
	if (model_file_make(&r.model_file, NULL, c, type, 1) < 0)
		return -1;
	if (lm_weights_open(&r.weights, &l->d, r.model_file) < 0)
		return -1;
	lm_weights_pack(r.weights); /* as the server does */
	return 0;
}

static int open_model(struct suite_lm *l, const struct lm_config *c, enum lm_type type)
{
	if (open_weights(l, c, type) < 0 ||
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

/* Pages of the streams together, and of the text that they repeat. */
static uint32_t pages_of_streams(uint32_t context)
{
	return STREAMS_MAX * lm_cache_pages(context) + lm_cache_pages(BATCH_SEED);
}

/* Reads the first tokens of a text, which the streams repeat. */
static int read_seed(struct lm_sequence *seed)
{
	struct lm_row rows[BATCH_SEED];

	if (lm_sequence_grow(seed, b.cache, BATCH_SEED) < 0)
		return -1;
	for (uint32_t i = 0; i < BATCH_SEED; i++)
		rows[i] = (struct lm_row){ .sequence = seed,
			.token = r.prompt[i],
			.position = i };
	return lm_forward_scores(b.forward, rows, BATCH_SEED, choose, NULL);
}

/* Opens the streams: each has keys and values of its own for its whole text. */
static int open_streams(uint32_t context)
{
	const struct lm_forward_limits limits = { .rows = BATCH_SEED,
		.sequences = STREAMS_MAX,
		.context = context };
	struct lm_sequence seed = { 0 };
	int rc;

	b.context = context;
	if (lm_cache_open(&b.cache, r.weights, pages_of_streams(context), LM_CACHE_F16) <
			0 ||
		lm_forward_open(&b.forward, r.weights, b.cache, &limits) < 0)
		return -1;
	rc = read_seed(&seed);
	for (uint32_t i = 0; rc == 0 && i < STREAMS_MAX; i++) {
		b.next[i] = r.prompt[i];
		rc = lm_sequence_repeat(&b.streams[i], &seed, b.cache,
			context - ANSWER_TEXT_MAX);
	}
	lm_sequence_release(&seed, b.cache);
	return rc;
}

/* The weights are read once for all streams, keys and values for each. */
static void describe_batches(struct suite_lm_model *m, const struct lm_config *c)
{
	double weights = weight_bytes(r.model_file);
	double token = (double)lm_cache_page_bytes(c, LM_CACHE_F16) / LM_PAGE;
	double length = b.context - ANSWER_TEXT_MAX / 2;

	for (size_t i = 0; i < m->ntests; i++) {
		json_t *params = m->tests[i].params = json_object();

		m->tests[i].flop = lm_config_train_flop(c, 2 * (uint32_t)length) / 3;
		m->tests[i].bytes = weights / batches[i] + token * length;
		json_set_i64(params, "parameters", (int64_t)lm_config_params(c));
		json_set_text(params, "type", lm_type_name(BATCH_TYPE));
		json_set_i64(params, "weight_bytes", llround(weights));
		json_set_i64(params, "cache_bytes", llround(token * b.context));
		json_set_i64(params, "batch", batches[i]);
		json_set_i64(params, "context", b.context);
	}
}

/* --quick has time for f32 and q8_0. */
static const int quick_types[] = { 0, 2 };
#define QUICK_TYPES ((int)(sizeof quick_types / sizeof *quick_types))

static int count_models(const struct settings *s)
{
	return s->quick ? SUITE_LM_QUICK_PRESETS * QUICK_TYPES + CONTEXTS_QUICK :
			  SUITE_LM_PRESETS * TYPES + CONTEXTS;
}

/* Opens several streams whose texts have the length contexts[i]. Rows of the table: those of
 * --quick, then the others. */
static int open_batches(struct suite_lm *l, struct suite_lm_model *m, int i)
{
	bool quick = l->settings.quick;
	const struct test *row =
		&l->kind->suite->tests[SUITE_LM_ROOFS + SUITE_LM_PRESETS * PRESET_TESTS +
			(quick ? i : CONTEXTS_QUICK + i) * BATCHES];
	uint64_t bytes, cache;
	struct lm_config c;

	lm_config_preset(&c, quick ? "nano" : "small", 0);
	if (c.context < contexts[i])
		c.context = contexts[i];
	m->ntests = BATCHES;
	for (int k = 0; k < BATCHES; k++)
		m->tests[k].test = row + k;
	if (model_file_make(NULL, &bytes, &c, BATCH_TYPE, 1) < 0)
		return -1;
	cache = pages_of_streams(contexts[i]) * lm_cache_page_bytes(&c, LM_CACHE_F16);
	if (!suite_lm_fits(l, bytes + bytes / 8 + cache))
		return 1;
	if (open_weights(l, &c, BATCH_TYPE) < 0 || open_streams(contexts[i]) < 0)
		return -1;
	if (!m->tests[0].params)
		describe_batches(m, &c);
	return 0;
}

/* Measures one model: its prompts and its generation. */
static int open_one(struct suite_lm *l, struct suite_lm_model *m, int i)
{
	int per = l->settings.quick ? QUICK_TYPES : TYPES, preset = i / per;
	int type = l->settings.quick ? quick_types[i % per] : i % per;
	const struct test *row =
		&l->kind->suite->tests[SUITE_LM_ROOFS + preset * PRESET_TESTS + type * 2];
	int presets = l->settings.quick ? SUITE_LM_QUICK_PRESETS : SUITE_LM_PRESETS;
	uint64_t bytes;
	struct lm_config c;

	if (preset >= presets)
		return open_batches(l, m, i - presets * per);
	lm_config_preset(&c, lm_preset_names[preset], 0);
	if (model_file_make(NULL, &bytes, &c, types[type], 1) < 0)
		return -1;
	m->ntests = 2;
	m->tests[0].test = row;
	m->tests[1].test = row + 1;
	if (preset >= FEW_FROM && l->d.is_host && l->time_ms < LARGE_MS) {
		err_set(EX_UNAVAILABLE, "a CPU takes long for it: with --time 10s");
		return 1;
	}
	if (!suite_lm_fits(l, bytes + bytes / 8))
		return 1;
	r.tokens = l->settings.quick || preset >= FEW_FROM ? PREFILL_FEW : PREFILL_MAX;
	if (open_model(l, &c, types[type]) < 0)
		return -1;
	if (!m->tests[0].params)
		describe(m, &c, types[type]);
	return 0;
}

/* Prompts are most of a model's work, and several streams are as many tokens at a time. */
static void weigh(const struct settings *s, int i, struct suite_lm_work *out)
{
	int per = s->quick ? QUICK_TYPES : TYPES, preset = i / per;
	bool streams = preset >= (s->quick ? SUITE_LM_QUICK_PRESETS : SUITE_LM_PRESETS);
	bool on_gpu = s->device && strncmp(s->device, "cuda", 4) == 0;
	struct lm_config c;
	uint64_t bytes;

	if (!streams && preset >= FEW_FROM && !on_gpu && s->time_ms < LARGE_MS)
		return;
	lm_config_preset(&c,
		!streams         ? lm_preset_names[preset] :
			s->quick ? "nano" :
				   "small",
		0);
	if (model_file_make(NULL, &bytes, &c,
		    streams          ? BATCH_TYPE :
			    s->quick ? types[quick_types[i % per]] :
				       types[i % per],
		    1) < 0) {
		err_clear();
		return;
	}
	out->flop = lm_config_train_flop(&c, PREFILL_MAX) / 3 *
		(streams ? STREAMS_MAX * BATCHES : PREFILL_MAX);
	out->bytes = (double)bytes;
	out->tests = streams ? BATCHES : 2;
}

static const struct suite_lm_kind kind = { &suite_serve, PRODUCT_F32, count_models,
	open_one, close_model, weigh };

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

#define BATCH(n, context, preset)                                                        \
	{                                                                                \
		.name = "decode_" preset "_q8_0_b" #n "_c" #context, .unit = "tokens/s", \
		.summary = "tokens said by the preset " preset " in q8_0, " #n           \
			   " streams of " #context " tokens in a step",                  \
		.step = step_batch_##n, .check = check                                   \
	}
#define CONTEXT(context, preset)                                                         \
	BATCH(1, context, preset), BATCH(4, context, preset), BATCH(8, context, preset), \
		BATCH(16, context, preset)

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
	/* of --quick, CONTEXTS_QUICK of them */
	CONTEXT(128, "nano"),
	CONTEXT(512, "nano"),
	CONTEXT(128, "small"),
	CONTEXT(512, "small"),
	CONTEXT(2048, "small"),
	CONTEXT(8192, "small"),
	{ 0 },
};

const struct suite suite_serve = { "serve", tests, suite_cpu_model, NULL, NULL,
	&functions };
