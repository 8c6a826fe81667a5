/* engine.c - a seed's text is the same alone, among others, after a cache hit, preempted, and
 * however prompts are cut; ten thousand random requests with cancels lose no page and mix up no
 * tokens; a window releases what lies after it; groups take turns; rows far into a text count for
 * more; name spaces share nothing; queues refuse what is too much; memory that runs out fails one
 * answer alone.
 *
 * long because every case runs on the same small models and requests. */
#include "common/lm/engine/engine.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/lm/engine/guess.h"
#include "common/lm/engine/service.h"
#include "common/lm/infer/stream.h"
#include "tests/unit/test.h"

enum { VOCAB = 96, CONTEXT = 256, TEXTS = 40, END = 7, TOP = 3 };

static struct dev dev = DEV_INIT;
static struct model_file *model;
static struct lm_weights *weights;

/* A prompt with its settings, and the text that follows when it is computed alone. */
struct text {
	uint32_t prompt[CONTEXT], n, max;
	uint64_t seed;
	double temperature;
	uint32_t want[CONTEXT], made;
	enum lm_finish finish;
	/* of the prompt's tokens behind the first */
	struct lm_logprobs logprobs[CONTEXT];
};

static struct text texts[TEXTS];
static uint32_t speculate; /* of all that are asked for */

/* a number of about one, the same in every run */
static float number(uint64_t i)
{
	return (float)((i * 2654435761u + 12345) % 2000003) / 1000001.5f - 1;
}

/* A llama2.c model whose logits differ much from text to text. */
static void write_model(const char *path)
{
	enum { DIM = 32, HIDDEN = 52, LAYERS = 2, HEADS = 4, KV_HEADS = 2 };
	int32_t header[7] = { DIM, HIDDEN, LAYERS, HEADS, KV_HEADS, VOCAB, CONTEXT };
	uint64_t kv = KV_HEADS * (DIM / HEADS), at = 0;
	uint64_t counts[] = { VOCAB * DIM, LAYERS * DIM, LAYERS * DIM * DIM,
		LAYERS * kv * DIM, LAYERS * kv * DIM, LAYERS * DIM * DIM, LAYERS * DIM,
		LAYERS * HIDDEN * DIM, LAYERS * HIDDEN * DIM, LAYERS * HIDDEN * DIM, DIM,
		CONTEXT * (DIM / HEADS) };
	FILE *f = fopen(path, "wb");

	CHECK(f && fwrite(header, sizeof header, 1, f) == 1);
	for (unsigned k = 0; k < sizeof counts / sizeof *counts; k++)
		for (uint64_t i = 0; i < counts[k]; i++) {
			bool is_norm = k == 1 || k == 6 || k == 10;
			float x = is_norm ? 1 + number(at) / 4 : number(at) / 3;

			at++;
			CHECK(fwrite(&x, sizeof x, 1, f) == 1);
		}
	CHECK(fclose(f) == 0);
}

/* device: NULL is the CPU */
static void open_model(const char *device)
{
	char path[] = "/tmp/rnp-engine-XXXXXX";
	int fd = mkstemp(path);

	CHECK(fd >= 0 && close(fd) == 0);
	write_model(path);
	CHECK(model_file_open(&model, path) == 0);
	unlink(path);
	if (dev_open(&dev, device ? device : "cpu") < 0) {
		fprintf(stderr, "%s\n", dev.error);
		exit(1);
	}
	CHECK(lm_weights_open(&weights, &dev, model) == 0);
}

/* By another way than the engine's: token by token, with logits of a stream of its own. */
static void compute_alone(struct text *t)
{
	struct lm_stream *s = NULL;
	struct lm_sampler sampler;
	float logits[VOCAB];

	lm_sampler_init(&sampler, t->seed);
	sampler.how.temperature = t->temperature;
	sampler.position = t->n;
	CHECK(lm_stream_open(&s, weights, CONTEXT, LM_CACHE_F16) == 0);
	for (uint32_t i = 0; i < t->n; i++) {
		CHECK(lm_stream_feed(s, t->prompt + i, 1, logits) == 0);
		if (i + 1 < t->n)
			lm_logprobs(&t->logprobs[i], logits, VOCAB, t->prompt[i + 1],
				TOP);
	}
	t->finish = LM_FINISH_LENGTH;
	while (t->made < t->max && t->n + t->made < CONTEXT) {
		uint32_t id = lm_sample(&sampler, logits, VOCAB);

		if (id == END) {
			t->finish = LM_FINISH_STOP;
			break;
		}
		t->want[t->made++] = id;
		if (t->n + t->made < CONTEXT)
			CHECK(lm_stream_feed(s, &id, 1, logits) == 0);
	}
	lm_stream_close(s);
	lm_sampler_release(&sampler);
}

/* Texts that begin alike in groups, so that pages are shared. */
static void make_texts(void)
{
	struct rng r;

	rng_seed(&r, 1, 0);
	memset(texts, 0, sizeof texts);
	for (int i = 0; i < TEXTS; i++) {
		struct text *t = &texts[i];
		struct rng begin;

		rng_seed(&begin, 100 + (uint64_t)(i % 5), 0);
		t->n = 1 + (uint32_t)rng_below(&r, i % 4 ? 70 : 150);
		for (uint32_t k = 0; k < t->n; k++)
			t->prompt[k] = (uint32_t)rng_below(k < 40 ? &begin : &r, VOCAB);
		t->max = 1 + (uint32_t)rng_below(&r, 40);
		t->seed = rng_u64(&r) >> 12;
		t->temperature = i % 3 ? 1.2 : 0;
		compute_alone(t);
	}
}

/* --- an engine driven by hand ------------------------------------------------------------- */

struct asked {
	struct lm_answer a;
	const struct text *t;
	uint32_t heard, wrong, told;
	bool done;
};

static void hear(void *arg, const struct lm_event *e)
{
	struct asked *q = e->answer->user;

	(void)arg;
	CHECK(!q->done);
	if (e->token < 0) {
		q->done = true;
		return;
	}
	if (e->of_prompt) {
		/* before the answer, in order, and bit by bit what another way gives */
		q->wrong += q->heard || q->told + 1 >= q->t->n ||
			q->t->prompt[q->told + 1] != (uint32_t)e->token ||
			memcmp(e->logprobs, &q->t->logprobs[q->told],
				sizeof *e->logprobs) != 0;
		q->told++;
		return;
	}
	q->wrong += q->heard >= q->t->made || q->t->want[q->heard] != (uint32_t)e->token;
	q->heard++;
}

static void ask(struct asked *q, const struct text *t)
{
	*q = (struct asked){ .t = t };
	q->a.tokens = xmalloc(t->n * sizeof *q->a.tokens);
	q->a.tokens_capacity = t->n;
	memcpy(q->a.tokens, t->prompt, t->n * sizeof *q->a.tokens);
	q->a.prompt = t->n;
	q->a.tokens_max = t->max;
	lm_sampling_defaults(&q->a.sampling, t->seed);
	q->a.sampling.temperature = t->temperature;
	q->a.user = q;
	q->a.speculate = speculate;
}

/* The client received the whole text, or if it cancelled a beginning of it. */
static void check_answer(struct asked *q)
{
	CHECK(q->done);
	CHECK_I64(0, q->wrong);
	if (q->a.finish != LM_FINISH_CANCELLED) {
		CHECK_I64(q->t->made, q->heard);
		CHECK_I64(q->t->finish, q->a.finish);
	}
	free(q->a.tokens);
	q->a.tokens = NULL;
}

static struct lm_engine *open_engine(uint32_t pages, uint32_t streams, uint32_t rows)
{
	struct lm_engine_limits limits = { .pages = pages,
		.streams = streams,
		.rows = rows,
		.context = CONTEXT,
		.check = true };
	uint32_t end = END;
	struct lm_engine *e = NULL;

	CHECK(lm_engine_open(&e, weights, &limits, &end, 1, hear, NULL) == 0);
	return e;
}

static struct lm_engine_counts counts_of(const struct lm_engine *e)
{
	struct lm_engine_counts c;

	lm_engine_count(e, &c);
	return c;
}

static void run_all(struct lm_engine *e)
{
	int steps = 0;

	while (!lm_engine_idle(e) && steps++ < 100000)
		lm_engine_step(e);
	CHECK(lm_engine_idle(e));
}

/* All texts at once, twice: the second time most prompts are there already. */
static void among_others(uint32_t pages, uint32_t streams, uint32_t rows, bool preempts)
{
	struct lm_engine *e = open_engine(pages, streams, rows);
	static struct asked all[TEXTS];
	uint32_t cached = 0;

	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < TEXTS; i++) {
			ask(&all[i], &texts[i]);
			all[i].a.group = (uint64_t)i % 3;
			CHECK(lm_engine_accepts(e, all[i].a.tokens, all[i].a.prompt,
				      true) == 0);
			lm_engine_submit(e, &all[i].a);
		}
		run_all(e);
		for (int i = 0; i < TEXTS; i++) {
			check_answer(&all[i]);
			cached += all[i].a.cached;
			CHECK(all[i].a.cached < texts[i].n);
		}
	}
	CHECK(cached > 0);
	CHECK(preempts == (counts_of(e).preempted > 0));
	CHECK_I64(0, counts_of(e).running);
	lm_engine_close(e);
}

/* A hit leaves at most a page and a token to be computed. */
static void cache_hit(void)
{
	struct lm_engine *e = open_engine(64, 4, 64);
	struct asked q;
	uint64_t rows;

	for (int i = 0; i < 3; i++) {
		ask(&q, &texts[0]);
		q.a.space = i < 2 ? 1 : 2;
		rows = counts_of(e).rows;
		lm_engine_submit(e, &q.a);
		run_all(e);
		check_answer(&q);
		CHECK_I64(i == 1 ? (texts[0].n - 1) / LM_PAGE * LM_PAGE : 0, q.a.cached);
		CHECK_I64(texts[0].n + texts[0].made - q.a.cached -
				(texts[0].finish == LM_FINISH_LENGTH),
			(int64_t)(counts_of(e).rows - rows));
	}
	lm_engine_close(e);
}

/* The logprobs of prompts, told once each, whatever is in the cache, however they are cut,
 * preempted or not, beside others; also of prompts that nothing follows. */
static void prompt_logprobs(uint32_t pages, uint32_t streams, uint32_t rows)
{
	struct lm_engine *e = open_engine(pages, streams, rows);
	static struct asked all[TEXTS];
	static struct text alone[TEXTS];
	uint64_t cached = 0;

	memcpy(alone, texts, sizeof alone);
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < TEXTS; i++) {
			if (round && i % 5 == 2) {
				alone[i].max = alone[i].made = 0;
				alone[i].finish = LM_FINISH_LENGTH;
			}
			ask(&all[i], &alone[i]);
			all[i].a.prompt_logprobs = i % 4 != 3;
			all[i].a.top_logprobs = TOP;
			lm_engine_submit(e, &all[i].a);
		}
		run_all(e);
		for (int i = 0; i < TEXTS; i++) {
			check_answer(&all[i]);
			CHECK_I64(i % 4 != 3 ? texts[i].n - 1 : 0, all[i].told);
			CHECK(i % 4 == 3 || !all[i].a.cached);
			cached += all[i].a.cached;
		}
	}
	CHECK(cached > 0);
	CHECK((streams > 2) == (counts_of(e).preempted > 0));
	lm_engine_close(e);
}

/* Equal prompts at the same time are computed once. */
static void at_once(void)
{
	struct lm_engine *e = open_engine(128, 8, 48);
	struct asked q[8];

	for (int i = 0; i < 8; i++) {
		ask(&q[i], &texts[4]);
		lm_engine_submit(e, &q[i].a);
	}
	run_all(e);
	for (int i = 0; i < 8; i++)
		check_answer(&q[i]);
	CHECK((int64_t)counts_of(e).prompt <= texts[4].n + 7 * LM_PAGE);
	lm_engine_close(e);
}

/* One group's many prompts do not hold another's one. */
static void turns(void)
{
	struct lm_engine *e = open_engine(256, 4, 32);
	struct asked many[12], one;
	uint32_t before = 0;

	for (int i = 0; i < 12; i++) {
		ask(&many[i], &texts[4 * (i % 8)]);
		many[i].a.group = 9;
		lm_engine_submit(e, &many[i].a);
	}
	lm_engine_step(e);
	ask(&one, &texts[1]);
	one.a.group = 10;
	lm_engine_submit(e, &one.a);
	while (!one.heard && !one.done)
		lm_engine_step(e);
	for (int i = 0; i < 12; i++)
		before += many[i].done;
	CHECK(before <= 5);
	run_all(e);
	for (int i = 0; i < 12; i++)
		check_answer(&many[i]);
	check_answer(&one);
	lm_engine_close(e);
}

/* Rows far into a text attend to more keys: a step has fewer of them, never none, and does not
 * cost more than the budget. */
static void later_rows(void)
{
	struct lm_engine *e = open_engine(256, 4, 48);
	uint32_t first = 0, last = 0, steps = 0, read = 0;
	struct lm_engine_counts counts;
	struct asked q = { .t = &texts[0] };
	bool full = false, beside = true;

	q.a.tokens = xmalloc(240 * sizeof *q.a.tokens);
	q.a.tokens_capacity = 240;
	for (uint32_t i = 0; i < 240; i++)
		q.a.tokens[i] = (i * i + 3 * i) % VOCAB;
	q.a.prompt = 240;
	q.a.tokens_max = 1;
	lm_sampling_defaults(&q.a.sampling, 1);
	q.a.user = &q;
	lm_engine_submit(e, &q.a);
	for (; !lm_engine_idle(e); steps++) {
		uint32_t rows = lm_engine_step(e);

		CHECK(rows >= 1 &&
			(rows <= 8 || lm_engine_load(e, &full, &beside) <= 48));
		first = steps ? first : rows;
		last = read + rows < 240 ? rows : last;
		read += rows;
		CHECK(lm_engine_load(e, &full, &beside) > 0 && full == (read < 240));
	}
	CHECK(read == 240 && last >= 8 && 2 * last <= first && steps > 240 / first + 1);
	lm_engine_count(e, &counts);
	CHECK(counts.prompt == 240);
	lm_engine_close(e);
	free(q.a.tokens);
}

/* Where an answer waits for its next token, prompts get the smaller budget. */
static void beside_answers(void)
{
	struct lm_engine *e = open_engine(256, 4, 48);
	struct asked waits, q = { .t = &texts[0] };
	bool full = false, beside = false;
	int i = 0;

	while (texts[i].made < 10)
		i++;
	ask(&waits, &texts[i]);
	lm_engine_submit(e, &waits.a);
	while (!waits.heard)
		lm_engine_step(e);
	q.a.tokens = xcalloc(200, sizeof *q.a.tokens);
	q.a.tokens_capacity = q.a.prompt = 200;
	q.a.tokens_max = 1;
	lm_sampling_defaults(&q.a.sampling, 1);
	q.a.user = &q;
	lm_engine_submit(e, &q.a);
	lm_engine_set_budget(e, 48, 24);
	lm_engine_step(e);
	CHECK(lm_engine_load(e, &full, &beside) <= 24 && full && beside);
	atomic_store(&waits.a.cancel, true);
	lm_engine_step(e);
	CHECK(lm_engine_load(e, &full, &beside) > 24 && full && !beside);
	atomic_store(&q.a.cancel, true);
	run_all(e);
	lm_engine_close(e);
	free(waits.a.tokens);
	free(q.a.tokens);
}

/* Random requests come and go; a pool that is small for them is checked after each step. */
static void random_requests(void)
{
	enum { SLOTS = 24 };
	const char *many = getenv("RNP_ENGINE_REQUESTS"); /* tests/soak/chat */
	int requests = many ? atoi(many) : 10000;
	struct lm_engine *e = open_engine(16, 8, 48);
	static struct asked slots[SLOTS];
	struct rng r;
	int begun = 0, ended = 0, cancelled = 0;

	rng_seed(&r, 77, 0);
	while (ended < requests) {
		for (int i = 0; i < SLOTS; i++) {
			struct asked *q = &slots[i];

			if (q->t && q->done) {
				cancelled += q->a.finish == LM_FINISH_CANCELLED;
				check_answer(q);
				q->t = NULL;
				ended++;
			}
			if (!q->t && begun < requests && rng_below(&r, 4)) {
				ask(q, &texts[rng_below(&r, TEXTS)]);
				q->a.group = rng_below(&r, 3);
				q->a.space = rng_below(&r, 2);
				lm_engine_submit(e, &q->a);
				begun++;
			}
			if (q->t && !rng_below(&r, 12))
				atomic_store(&q->a.cancel, true);
		}
		lm_engine_step(e);
	}
	CHECK(cancelled > requests / 10 && cancelled < requests);
	CHECK(counts_of(e).preempted > 0);
	CHECK(lm_engine_idle(e));
	lm_engine_close(e);
}

/* Proposals, right or wrong, change the number of steps alone. */
static void speculation(void)
{
	struct lm_engine *e = open_engine(200, 4, 64);
	struct text loop = { .n = 64, .max = 120, .seed = 1 };
	uint32_t wrong[60];
	struct asked q;
	uint64_t steps;

	for (uint32_t i = 0; i < 60; i++)
		wrong[i] = i;
	for (uint32_t i = 0; i < loop.n; i++)
		loop.prompt[i] = 10 + i % 4;
	compute_alone(&loop);
	for (int i = 0; i < TEXTS; i++)
		for (int kind = 0; kind < 2; kind++) {
			ask(&q, &texts[i]);
			q.a.speculate = LM_PROPOSED_MAX;
			q.a.prediction = kind ? wrong : texts[i].want;
			q.a.prediction_count = kind ? 60 : texts[i].made;
			steps = counts_of(e).steps;
			lm_engine_submit(e, &q.a);
			run_all(e);
			check_answer(&q);
			CHECK(kind || q.a.accepted + 1 >= texts[i].made / 2);
			if (!kind && texts[i].made > 30)
				CHECK(counts_of(e).steps - steps < texts[i].made * 2 / 3);
		}
	ask(&q, &loop);
	q.a.speculate = LM_PROPOSED_MAX;
	lm_engine_submit(e, &q.a);
	run_all(e);
	check_answer(&q);
	lm_engine_close(e);
}

/* The same for proposals of a draft model: of one that is always right, the model itself, and of
 * one that hardly ever is; alone, and with so few pages that answers are preempted. */
static void drafts(void)
{
	struct model_file *other = NULL;
	struct lm_weights *wrong = NULL;
	static struct asked q[TEXTS];

	CHECK(model_file_make(&other, NULL, model_file_config(model), LM_F32, 5) == 0);
	CHECK(lm_weights_open(&wrong, &dev, other) == 0);
	for (int kind = 0; kind < 4; kind++) {
		bool right = kind % 2 == 0, crowded = kind >= 2;
		struct lm_engine *e = open_engine(crowded ? 24 : 200, crowded ? 8 : 1,
			24);
		struct lm_engine_counts c;

		CHECK(lm_engine_draft(e, right ? weights : wrong) == 0);
		for (int i = 0; i < TEXTS; i++) {
			ask(&q[i], &texts[i]);
			q[i].a.speculate = LM_PROPOSED_MAX;
			lm_engine_submit(e, &q[i].a);
		}
		run_all(e);
		for (int i = 0; i < TEXTS; i++)
			check_answer(&q[i]);
		c = counts_of(e);
		CHECK(c.proposed > 0 && (c.preempted > 0) == crowded);
		if (right && !crowded) {
			CHECK(c.accepted * 10 >= c.proposed * 8);
			CHECK(c.steps < c.generated);
		}
		if (!right) /* but what look-up proposed */
			CHECK(c.accepted * 2 < c.proposed);
		lm_engine_close(e);
	}
	lm_weights_close(wrong);
	model_file_close(other);
}

/* A draft model reads the beginning that texts have in common once, but not for another space. */
static void shared_drafts(void)
{
	struct lm_engine *e = open_engine(200, 4, 64);
	static struct text text = { .n = 64, .max = 12, .seed = 4 };
	uint64_t rows[3], before;
	struct asked q;

	for (uint32_t i = 0; i < text.n; i++)
		text.prompt[i] = (i * i * 7 + 3 * i) % 50 + 1;
	compute_alone(&text);
	CHECK(lm_engine_draft(e, weights) == 0);
	for (int i = 0; i < 3; i++) {
		ask(&q, &text);
		q.a.speculate = LM_PROPOSED_MAX;
		q.a.space = i == 2;
		before = counts_of(e).draft_rows;
		lm_engine_submit(e, &q.a);
		run_all(e);
		check_answer(&q);
		rows[i] = counts_of(e).draft_rows - before;
	}
	CHECK(rows[0] > 64);
	CHECK(rows[1] + 3 * LM_PAGE <= rows[0]);
	CHECK(rows[2] == rows[0]);
	lm_engine_close(e);
}

/* The beginning of a text is evicted for another one, but its last window is there: what goes on
 * with the text computes only what is new. */
static void next_turn(const struct text *before)
{
	struct lm_engine *e = open_engine(17, 2, 32);
	static struct text text;
	uint32_t made = before->made - 10;
	struct asked q;

	ask(&q, before);
	lm_engine_submit(e, &q.a);
	run_all(e);
	check_answer(&q);
	ask(&q, &texts[8]);
	lm_engine_submit(e, &q.a);
	run_all(e);
	CHECK(texts[8].n + texts[8].made > 2 * LM_PAGE);
	check_answer(&q);

	text = *before;
	memcpy(text.prompt + text.n, before->want, made * sizeof *text.prompt);
	text.n += made;
	text.max = 10;
	text.made = 0;
	compute_alone(&text);
	CHECK(memcmp(text.want, before->want + made, 10 * sizeof *text.want) == 0);
	for (int kind = 0; kind < 3; kind++) {
		ask(&q, &text);
		q.a.space = kind == 2;
		q.a.prompt_logprobs = kind == 1;
		q.a.top_logprobs = TOP;
		lm_engine_submit(e, &q.a);
		run_all(e);
		check_answer(&q);
		CHECK_I64(kind ? 0 : (text.n - 1) / LM_PAGE * LM_PAGE, q.a.cached);
		CHECK_I64(kind == 1 ? text.n - 1 : 0, q.told);
	}
	lm_engine_close(e);
}

/* Where all layers have a window, texts share pages as others do, and a text releases those that no
 * layer attends to any more: one alone goes on in a cache that is too small for all of it. */
static void windows(void)
{
	enum { WINDOW = 40, PAGES = 8 };
	struct lm_config c = *model_file_config(model);
	struct lm_weights *full = weights;
	struct model_file *other = NULL;
	static struct text text = { .n = 100, .max = 150, .temperature = 1.2 };
	struct lm_engine *e;
	struct asked q;

	c.window = WINDOW;
	CHECK(model_file_make(&other, NULL, &c, LM_F32, 5) == 0);
	CHECK(lm_weights_open(&weights, &dev, other) == 0);
	make_texts();
	among_others(400, 16, 23, false);
	among_others(24, 8, 64, true);
	random_requests();
	cache_hit();
	prompt_logprobs(24, 8, 64);
	for (uint32_t i = 0; i < text.n; i++)
		text.prompt[i] = (i * i + 3 * i) % VOCAB;
	while (text.made < text.max) { /* a seed whose text does not stop early */
		text.made = 0;
		text.seed++;
		compute_alone(&text);
	}
	e = open_engine(PAGES, 2, 32);
	for (int i = 0; i < 2; i++) {
		ask(&q, &text);
		lm_engine_submit(e, &q.a);
		run_all(e);
		check_answer(&q);
	}
	CHECK(text.n + text.made > PAGES * LM_PAGE);
	lm_engine_close(e);
	next_turn(&text);
	lm_weights_close(weights);
	model_file_close(other);
	weights = full;
	make_texts();
}

/* Look-up finds the continuation of the last tokens, the latest occurrence first. */
static void guesses(void)
{
	static const uint32_t text[] = { 1, 2, 3, 4, 5, 1, 2, 3, 6, 7, 1, 2, 3 };
	static const uint32_t predicted[] = { 1, 2, 3, 8, 9 };
	uint32_t out[8];

	CHECK_I64(2, lm_guess(out, 2, text, 13, 13, NULL, 0));
	CHECK(out[0] == 6 && out[1] == 7);
	CHECK_I64(8, lm_guess(out, 8, text, 13, 13, NULL, 0));
	CHECK(out[4] == 3 && out[5] == 6);
	CHECK_I64(0, lm_guess(out, 8, text, 12, 12, NULL, 0));
	CHECK_I64(0, lm_guess(out, 8, text, 5, 5, NULL, 0));
	CHECK_I64(0, lm_guess(out, 8, text, 3, 3, NULL, 0));
	CHECK_I64(5, lm_guess(out, 8, text, 13, 13, predicted, 5));
	CHECK(out[0] == 1);
	CHECK_I64(2, lm_guess(out, 8, text, 13, 10, predicted, 5));
	CHECK(out[0] == 8 && out[1] == 9);
	CHECK_I64(1, lm_guess(out, 1, text, 13, 11, predicted, 5));
	CHECK_I64(8, out[0]);
}

/* A text that outgrows the whole cache ends there. */
static void whole_cache(void)
{
	struct lm_engine *e = open_engine(2, 2, 32);
	struct text t = { .n = 20, .max = 100, .seed = 3, .temperature = 1.2 };
	struct asked q;

	for (uint32_t i = 0; i < t.n; i++)
		t.prompt[i] = i;
	compute_alone(&t);
	ask(&q, &t);
	lm_engine_submit(e, &q.a);
	run_all(e);
	CHECK(q.done);
	CHECK_I64(0, q.wrong);
	CHECK(q.a.finish == LM_FINISH_STOP ||
		(q.a.finish == LM_FINISH_LENGTH && q.heard == 2 * LM_PAGE - t.n + 1));
	free(q.a.tokens);
	t.n = 2 * LM_PAGE;
	CHECK_FAILS(EX_DATAERR, lm_engine_accepts(e, t.prompt, t.n, true));
	/* where nothing is generated it may fill all of it */
	CHECK(lm_engine_accepts(e, t.prompt, t.n, false) == 0);
	CHECK_FAILS(EX_DATAERR, lm_engine_accepts(e, t.prompt, t.n + 1, false));
	t.max = 0;
	ask(&q, &t);
	q.a.speculate = LM_PROPOSED_MAX;
	lm_engine_submit(e, &q.a);
	run_all(e);
	CHECK(q.done && q.a.finish == LM_FINISH_LENGTH && q.heard == 0);
	free(q.a.tokens);
	t.prompt[0] = VOCAB;
	CHECK_FAILS(EX_DATAERR, lm_engine_accepts(e, t.prompt, 1, true));
	lm_engine_close(e);
}

/* --- with a thread of its own ------------------------------------------------------------- */

/* Takes events until n answers have ended. */
static void take_all(struct lm_events *box, struct lm_event_batch *news, uint32_t n)
{
	uint32_t done = 0;

	for (int tries = 0; done < n && tries < 10000; tries++) {
		lm_events_take(box, news, 1000);
		for (size_t i = 0; i < news->count; i++) {
			struct lm_event e = { .answer = news->events[i].answer,
				.token = news->events[i].token };

			hear(NULL, &e);
			done += e.token < 0;
		}
	}
	CHECK_I64(n, done);
}

/* Who has heard that answers ended finds their streams free: as many may be asked for at once. */
static void free_at_once(void)
{
	enum { STREAMS = 4 };
	struct lm_events *box = lm_events_new();
	uint32_t end = END;
	struct lm_service_config config = { .limits = { .pages = 64,
						    .streams = STREAMS,
						    .rows = 32,
						    .context = CONTEXT },
		.ends = &end,
		.ends_count = 1,
		.outbox = box };
	struct lm_service *s = NULL;
	struct lm_event_batch news = { 0 };
	static struct asked all[STREAMS];
	struct lm_answer *list[STREAMS];
	bool taken = true;

	CHECK(lm_service_open(&s, weights, &config) == 0);
	for (int round = 0; round < 300 && taken; round++) {
		for (int i = 0; i < STREAMS; i++) {
			ask(&all[i], &texts[i]);
			all[i].a.tokens_max = 1;
			list[i] = &all[i].a;
		}
		taken = lm_service_submit(s, list, STREAMS) == 0;
		CHECK(taken);
		take_all(box, &news, taken ? STREAMS : 0);
		for (int i = 0; i < STREAMS; i++)
			free(all[i].a.tokens);
	}
	lm_service_close(s);
	lm_event_batch_release(&news);
	lm_events_free(box);
}

static void service(void)
{
	struct lm_events *box = lm_events_new();
	uint32_t end = END;
	struct lm_service_config config = { .limits = { .pages = 64,
						    .streams = 4,
						    .rows = 32,
						    .context = CONTEXT,
						    .check = true },
		.queue = 20,
		.step_ns = 1000000,
		.pages_ahead = 16,
		.ends = &end,
		.ends_count = 1,
		.outbox = box };
	struct lm_service *s = NULL;
	struct lm_service_counts counts;
	struct lm_event_batch news = { 0 };
	static struct asked all[TEXTS];
	struct lm_answer *list[TEXTS];

	CHECK(lm_service_open(&s, weights, &config) == 0);
	for (int i = 0; i < TEXTS; i++) {
		ask(&all[i], &texts[i]);
		list[i] = &all[i].a;
	}
	CHECK_FAILS(EX_TEMPFAIL, lm_service_submit(s, list, 30));
	CHECK(lm_service_submit(s, list, 20) == 0);
	take_all(box, &news, 20);
	for (int i = 0; i < 20; i++)
		check_answer(&all[i]);
	for (int i = 20; i < TEXTS; i++)
		free(all[i].a.tokens);
	lm_service_count(s, &counts);
	CHECK(counts.engine.steps > 0 && counts.step_ns > 0);
	lm_service_close(s);
	lm_event_batch_release(&news);
	lm_events_free(box);
}

/* --- memory runs out ---------------------------------------------------------------------- */

/* A sanitizer allocates by other means, and ends where there is nothing. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define EXHAUSTS false
#else
#define EXHAUSTS true
#endif

struct block {
	struct block *next;
};

static void take_blocks(struct block **all, size_t bytes)
{
	struct block *b;

	while ((b = malloc(bytes))) {
		b->next = *all;
		*all = b;
	}
}

/* Lets no allocation succeed any more, whatever its size: the process may not grow, and all that
 * malloc has is taken. */
static struct block *exhaust(struct rlimit *before)
{
	long pages = 0;
	struct block *all = NULL;
	FILE *f = fopen("/proc/self/statm", "r");
	struct rlimit now;

	CHECK(f && fscanf(f, "%ld", &pages) == 1);
	fclose(f);
	CHECK(getrlimit(RLIMIT_AS, before) == 0);
	now = *before;
	now.rlim_cur = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
	CHECK(setrlimit(RLIMIT_AS, &now) == 0);
	for (size_t bytes = 1 << 20; bytes > 2048; bytes /= 2)
		take_blocks(&all, bytes);
	for (size_t bytes = 2048; bytes >= sizeof *all; bytes -= 8)
		take_blocks(&all, bytes);
	return all;
}

static void recover(struct block *all, const struct rlimit *before)
{
	CHECK(setrlimit(RLIMIT_AS, before) == 0);
	while (all) {
		struct block *next = all->next;

		free(all);
		all = next;
	}
}

/* Memory runs out in a step: one answer fails at most, the others are what they would be. Where
 * history is set, the last answer keeps one, which is allocated when it is admitted, and is the one
 * that fails. Returns how many failed. */
static int run_out(int step, bool history)
{
	/* admission comes first in a step, so that the last answer asks first */
	struct lm_engine *e = open_engine(400, 16, 64);
	static struct asked all[16];
	struct rlimit limit;
	struct block *taken;
	int failed = 0;

	for (int i = 0; i < 15; i++) {
		ask(&all[i], &texts[i]);
		lm_engine_submit(e, &all[i].a);
	}
	for (int i = 0; i < step; i++)
		lm_engine_step(e);
	ask(&all[15], &texts[15]);
	all[15].a.sampling.frequency_penalty = history;
	taken = exhaust(&limit);
	lm_engine_submit(e, &all[15].a);
	run_all(e);
	recover(taken, &limit);
	for (int i = 0; i < 16; i++) {
		if (all[i].a.finish == LM_FINISH_ERROR) {
			failed++;
			CHECK(all[i].done && !all[i].wrong && all[i].a.error);
			CHECK_I64(EX_OSERR, all[i].a.error->code);
			CHECK_TEXT("out of memory", all[i].a.error->text);
			free(all[i].a.error);
			free(all[i].a.tokens);
		} else if (i < 15 || !history) {
			check_answer(&all[i]);
		} else {
			free(all[i].a.tokens);
		}
	}
	CHECK(failed <= 1);
	CHECK(!history || all[15].a.finish == LM_FINISH_ERROR);
	lm_engine_close(e);
	CHECK(!mem_is_short());
	return failed;
}

static void memory_runs_out(void)
{
	int failed = 0;

	if (!EXHAUSTS)
		return;
	mem_reserve(4 << 20);
	for (int step = 0; step < 40; step += 3)
		failed += run_out(step, false);
	CHECK(failed > 5);
	CHECK_I64(1, run_out(8, true));
	mem_reserve(0);
}

static void close_model(void)
{
	lm_weights_close(weights);
	model_file_close(model);
	dev_close(&dev);
}

int main(void)
{
	/* tests/soak/chat: random requests alone, on this device */
	const char *device = getenv("RNP_ENGINE_DEVICE");

	open_model(device);
	make_texts();
	if (device) {
		random_requests();
		close_model();
		TEST_END();
	}
	among_others(400, 16, 256, false);
	among_others(400, 16, 16, false);
	among_others(400, 40, 23, false);
	among_others(24, 8, 64, true);
	cache_hit();
	prompt_logprobs(400, 2, 256);
	prompt_logprobs(400, 2, 16);
	prompt_logprobs(24, 8, 64);
	at_once();
	turns();
	later_rows();
	beside_answers();
	random_requests();
	guesses();
	speculation();
	drafts();
	shared_drafts();
	speculate = LM_PROPOSED_MAX;
	among_others(400, 4, 64, false);
	among_others(24, 8, 64, true);
	random_requests();
	speculate = 0;
	whole_cache();
	windows();
	service();
	free_at_once();
	memory_runs_out();
	close_model();
	TEST_END();
}
