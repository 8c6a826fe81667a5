/* loop.c - sequences are taken by their numbers, in any cut of ranges; the rate follows
 * the run's step and AdamW its own; parameters and AdamW's state go out and in as one flat
 * view; a checkpoint keeps all of it; refusals. */
#include "common/lm/train/loop.h"

#include <math.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "common/lm/train/checkpoint.h"
#include "common/lm/train/flat.h"
#include "tests/unit/test.h"

enum { VOCAB = 41, LENGTH = 9, BATCH = 4, PASS = 2 };

/* A text in which sequence n is known from n alone. */
struct text {
	uint64_t seen[64]; /* the numbers asked for, in order */
	size_t n;
	int64_t missing; /* this sequence cannot be had; -1: all can */
};

static int read_text(void *arg, uint64_t n, uint32_t *ids)
{
	struct text *t = arg;

	if (t->missing >= 0 && n == (uint64_t)t->missing)
		return err_set(EX_TEMPFAIL, "sequence %d is not here", (int)n);
	if (t->n < 64)
		t->seen[t->n++] = n;
	for (uint64_t i = 0; i <= LENGTH; i++)
		ids[i] = (uint32_t)((n * 7 + i * i + n * i) % VOCAB);
	return 0;
}

static struct lm_config small_config(void)
{
	struct lm_config c;

	CHECK(lm_config_preset(&c, "nano", VOCAB) == 0);
	c.dim = 32;
	c.hidden = 40;
	c.layers = 2;
	c.heads = c.kv_heads = 4;
	c.head_dim = 8;
	return c;
}

static struct dev dev = DEV_INIT;

static void open_loop(struct lm_loop *l, struct text *text, enum lm_dtype dtype)
{
	struct lm_config c = small_config();
	struct lm_loop_options o = { .batch = BATCH,
		.schedule = { .lr = 0.01, .lr_min = 0.1, .warmup = 3, .steps = 20 },
		.sequence = read_text,
		.arg = text };

	*text = (struct text){ .missing = -1 };
	lm_train_defaults(&o.train, &c);
	o.train.dtype = dtype;
	o.train.batch = PASS;
	o.train.positions = LENGTH;
	CHECK(lm_loop_open(l, &dev, &o) == 0);
	CHECK(lm_train_init(l->train, 3) == 0);
}

static void hash(struct lm_loop *l, unsigned char out[32])
{
	CHECK(lm_flat_hash(l->train, LM_STATE_PARAMETER, out) == 0);
}

static void steps(struct lm_loop *l, int n)
{
	struct lm_step step;

	for (int i = 0; i < n; i++)
		CHECK(lm_loop_step(l, &step) == 0);
}

static void give(struct lm_loop *l, uint64_t first, uint64_t count)
{
	lm_loop_give(l, (struct lm_range){ first, count });
}

static void ranges(void)
{
	unsigned char whole[32], cut[32], other[32];
	struct lm_loop a, b;
	struct text ta, tb;
	struct lm_step step;

	open_loop(&a, &ta, LM_DTYPE_F32);
	give(&a, 10, 8);
	CHECK_I64(8, (int64_t)lm_loop_left(&a));
	CHECK_I64(10, (int64_t)lm_loop_next(&a));
	steps(&a, 1);
	CHECK_I64(14, (int64_t)lm_loop_next(&a));
	steps(&a, 1);
	CHECK_I64(0, (int64_t)lm_loop_left(&a));
	CHECK_I64(2, (int64_t)a.step);
	CHECK_I64(2 * BATCH * LENGTH, (int64_t)a.tokens);
	for (uint64_t i = 0; i < 8; i++)
		CHECK_I64((int64_t)(10 + i), (int64_t)ta.seen[i]);
	/* nothing is left: a refusal, and nothing has moved */
	hash(&a, whole);
	CHECK_FAILS(EX_DATAERR, lm_loop_step(&a, &step));
	CHECK_I64(2, (int64_t)a.step);

	/* the same sequences from three ranges, one of them empty */
	open_loop(&b, &tb, LM_DTYPE_F32);
	give(&b, 10, 3);
	give(&b, 99, 0);
	give(&b, 13, 1);
	give(&b, 14, 4);
	steps(&b, 2);
	hash(&b, cut);
	CHECK(memcmp(whole, cut, sizeof whole) == 0);
	/* and other sequences are others */
	CHECK(lm_train_init(b.train, 3) == 0);
	b.step = 0;
	give(&b, 50, UINT64_MAX - 50);
	give(&b, 0, 100);
	CHECK(lm_loop_left(&b) == UINT64_MAX);
	steps(&b, 2);
	hash(&b, other);
	CHECK(memcmp(whole, other, sizeof whole) != 0);
	lm_loop_take_back(&b);
	CHECK_I64(0, (int64_t)lm_loop_left(&b));
	lm_loop_close(&a);
	lm_loop_close(&b);
}

/* A sequence that could not be had once is a step made later, not one made twice. */
static void tried_again(void)
{
	unsigned char want[32], got[32];
	struct lm_step step;
	struct lm_loop l;
	struct text text;

	open_loop(&l, &text, LM_DTYPE_F32);
	give(&l, 0, 4);
	steps(&l, 1);
	hash(&l, want);
	CHECK(lm_train_init(l.train, 3) == 0);
	l.step = 0;
	give(&l, 0, 4);
	text.missing = 3; /* of the second pass: the first has been added */
	CHECK_FAILS(EX_TEMPFAIL, lm_loop_step(&l, &step));
	CHECK_I64(4, (int64_t)lm_loop_left(&l));
	CHECK_I64(0, (int64_t)l.step);
	text.missing = -1;
	steps(&l, 1);
	hash(&l, got);
	CHECK(memcmp(want, got, sizeof want) == 0);
	lm_loop_close(&l);
}

/* The formulas, evaluated here. */
static void schedule(void)
{
	struct lm_schedule s = { .lr = 0.5, .lr_min = 0.2, .warmup = 4, .steps = 14 };

	for (uint64_t i = 0; i < 20; i++) {
		double want = i < 4 ? 0.5 * ((double)i + 1) / 4 :
			i >= 14     ? 0.1 :
				  0.1 + 0.4 * (1 + cos(M_PI * ((double)i - 4) / 10)) / 2;

		CHECK(fabs(lm_schedule_rate(&s, i, i) - want) < 1e-15);
	}
	s.steps = 0;
	CHECK(lm_schedule_rate(&s, 1000, 1000) == 0.5);
	/* an optimiser that is new at step 1000 warms up by itself */
	s.fresh_warmup = 5;
	for (uint64_t own = 0; own < 7; own++)
		CHECK(fabs(lm_schedule_rate(&s, 1000, own) -
			      0.5 * (own < 5 ? ((double)own + 1) / 5 : 1)) < 1e-15);
}

/* A joiner: the run's step is far on, AdamW's count is its own. */
static void two_counts(void)
{
	struct lm_loop l;
	struct text text;

	open_loop(&l, &text, LM_DTYPE_F32);
	give(&l, 0, 100);
	l.step = 12;
	CHECK(lm_loop_rate(&l) == lm_schedule_rate(&l.o.schedule, 12, 0));
	steps(&l, 2);
	CHECK_I64(14, (int64_t)l.step);
	CHECK_I64(2, (int64_t)lm_train_steps(l.train));
	lm_loop_close(&l);
}

/* Every element once, in the layout's order, over borders of tensors. */
static void flat(enum lm_dtype dtype)
{
	unsigned char name[32], want[32];
	struct lm_loop l;
	struct text text;
	float *all, *tensor, *got;
	uint64_t n, at = 0;

	open_loop(&l, &text, dtype);
	n = lm_flat_count(l.train);
	CHECK(n == lm_config_params(lm_train_config(l.train)));
	CHECK(n < lm_train_flat_count(l.train)); /* there is padding that it leaves out */
	all = xmalloc(n * sizeof *all);
	got = xmalloc(n * sizeof *got);
	tensor = xmalloc(n * sizeof *tensor);
	CHECK(lm_flat_get(l.train, LM_STATE_PARAMETER, 0, n, all) == 0);
	for (uint32_t i = 0; i < lm_layout_count(lm_train_config(l.train)); i++) {
		struct lm_place p;

		lm_layout_at(lm_train_config(l.train), i, &p);
		CHECK(lm_train_get(l.train, LM_STATE_PARAMETER, i, tensor) == 0);
		CHECK(memcmp(all + at, tensor, p.count * sizeof *tensor) == 0);
		at += p.count;
	}
	CHECK_I64((int64_t)n, (int64_t)at);
	CHECK(lm_flat_hash(l.train, LM_STATE_PARAMETER, name) == 0);
	crypto_generichash(want, sizeof want, (const unsigned char *)all, n * sizeof *all,
		NULL, 0);
	CHECK(memcmp(name, want, sizeof want) == 0);

	/* a range that begins and ends within tensors */
	for (uint64_t i = 0; i < n; i++)
		tensor[i] = (float)(i % 17) / 16;
	CHECK(lm_flat_add(l.train, LM_STATE_PARAMETER, 1000, 5000, tensor, -0.7f) == 0);
	CHECK(lm_flat_get(l.train, LM_STATE_PARAMETER, 0, n, got) == 0);
	for (uint64_t i = 0; i < n; i++) {
		bool in = i >= 1000 && i < 6000;
		float part = in ? -0.7f * tensor[i - 1000] : 0;

		CHECK(got[i] == all[i] + part);
	}
	CHECK(lm_flat_set(l.train, LM_STATE_M, 0, n, tensor) == 0);
	CHECK(lm_flat_get(l.train, LM_STATE_M, 7, n - 7, got) == 0);
	CHECK(memcmp(got, tensor + 7, (n - 7) * sizeof *got) == 0);

	/* parameters that are set are those that the passes use, bf16 copies too: the loss is back
	 * where it was */
	{
		double before, there, after;

		CHECK(lm_flat_set(l.train, LM_STATE_PARAMETER, 0, n, all) == 0);
		CHECK(lm_loop_eval(&l, read_text, &text, 3, &before) == 0);
		for (uint64_t i = 0; i < n; i++)
			tensor[i] = all[i] / 2;
		CHECK(lm_flat_set(l.train, LM_STATE_PARAMETER, 100, n - 100,
			      tensor + 100) == 0);
		CHECK(lm_loop_eval(&l, read_text, &text, 3, &there) == 0);
		CHECK(lm_flat_add(l.train, LM_STATE_PARAMETER, 100, n - 100, tensor + 100,
			      1) == 0);
		CHECK(lm_loop_eval(&l, read_text, &text, 3, &after) == 0);
		CHECK(there != before);
		CHECK(after == before);
	}
	free(all);
	free(got);
	free(tensor);
	lm_loop_close(&l);
}

/* Parameters copied out through the flat view and into another loop continue with the same
 * bits. */
static void moved(void)
{
	static const enum lm_state states[] = { LM_STATE_PARAMETER, LM_STATE_M,
		LM_STATE_V };
	unsigned char want[32], got[32];
	struct lm_loop a, b;
	struct text ta, tb;
	float *x;
	uint64_t n;

	open_loop(&a, &ta, LM_DTYPE_BF16);
	open_loop(&b, &tb, LM_DTYPE_BF16);
	give(&a, 0, 100);
	steps(&a, 2);
	n = lm_flat_count(a.train);
	x = xmalloc(n * sizeof *x);
	for (int i = 0; i < 3; i++) {
		CHECK(lm_flat_get(a.train, states[i], 0, n, x) == 0);
		CHECK(lm_flat_set(b.train, states[i], 0, n, x) == 0);
	}
	lm_train_set_steps(b.train, lm_train_steps(a.train));
	b.step = a.step;
	give(&b, lm_loop_next(&a), 100);
	steps(&a, 2);
	steps(&b, 2);
	hash(&a, want);
	hash(&b, got);
	CHECK(memcmp(want, got, sizeof want) == 0);
	free(x);
	lm_loop_close(&a);
	lm_loop_close(&b);
}

static bool same_progress(const struct lm_progress *a, const struct lm_progress *b)
{
	return a->steps == b->steps && a->sequences == b->sequences &&
		a->tokens == b->tokens && a->seed == b->seed && a->length == b->length &&
		memcmp(a->data, b->data, sizeof a->data) == 0;
}

/* A checkpoint keeps both counts. */
static void checkpoint(void)
{
	char dir[] = "/tmp/rnp-loop-XXXXXX", path[64];
	unsigned char want[32], got[32];
	struct lm_progress at = { .steps = 12,
		.sequences = 8,
		.seed = 3,
		.length = LENGTH },
			   back, peeked;
	json_t *more = json_pack("{s:s}", "option.lr", "0.01"), *texts;
	struct lm_loop a, b;
	struct text ta, tb;

	CHECK(mkdtemp(dir) != NULL);
	snprintf(path, sizeof path, "%s/c", dir);
	open_loop(&a, &ta, LM_DTYPE_F32);
	open_loop(&b, &tb, LM_DTYPE_F32);
	give(&a, 0, 100);
	a.step = 10;
	steps(&a, 2);
	at.tokens = a.tokens;
	memset(at.data, 0xab, sizeof at.data);
	CHECK(lm_checkpoint_save(path, a.train, &at, more) == 0);
	CHECK(lm_checkpoint_load(path, b.train, &back) == 0);
	CHECK(same_progress(&at, &back));
	CHECK_I64(2, (int64_t)lm_train_steps(b.train));
	for (enum lm_state w = LM_STATE_PARAMETER; w <= LM_STATE_V; w++) {
		CHECK(lm_flat_hash(a.train, w, want) == 0);
		CHECK(lm_flat_hash(b.train, w, got) == 0);
		CHECK(memcmp(want, got, sizeof want) == 0);
	}
	CHECK(lm_checkpoint_peek(path, &peeked, &texts) == 0);
	CHECK(same_progress(&at, &peeked));
	CHECK_TEXT("0.01", json_string_value(json_object_get(texts, "option.lr")));
	CHECK_TEXT("2", json_string_value(json_object_get(texts, "optimiser_steps")));
	json_decref(texts);
	/* where the counts are one, one is written */
	at.steps = 2;
	CHECK(lm_checkpoint_save(path, a.train, &at, NULL) == 0);
	CHECK(lm_checkpoint_peek(path, &peeked, &texts) == 0);
	CHECK(!json_object_get(texts, "optimiser_steps"));
	json_decref(texts);
	CHECK(lm_checkpoint_load(path, b.train, &back) == 0);
	CHECK_I64(2, (int64_t)lm_train_steps(b.train));

	/* no checkpoint, none of ours, cut short, a value that is not finite */
	CHECK(truncate(path, 100) == 0);
	CHECK_FAILS(EX_DATAERR, lm_checkpoint_load(path, b.train, &back));
	CHECK(unlink(path) == 0);
	CHECK_FAILS(EX_NOINPUT, lm_checkpoint_load(path, b.train, &back));
	{
		float bad = NAN;

		CHECK(lm_flat_set(a.train, LM_STATE_V, 5, 1, &bad) == 0);
		CHECK(lm_checkpoint_save(path, a.train, &at, NULL) == 0);
		CHECK_FAILS(EX_DATAERR, lm_checkpoint_load(path, b.train, &back));
		bad = -1;
		CHECK(lm_flat_set(a.train, LM_STATE_V, 5, 1, &bad) == 0);
		CHECK(lm_checkpoint_save(path, a.train, &at, NULL) == 0);
		CHECK_FAILS(EX_DATAERR, lm_checkpoint_load(path, b.train, &back));
	}
	unlink(path);
	CHECK(rmdir(dir) == 0);
	json_decref(more);
	lm_loop_close(&a);
	lm_loop_close(&b);
}

static void refusals(void)
{
	struct lm_config c = small_config();
	struct lm_loop_options o = { .batch = 5, .sequence = read_text };
	struct lm_loop l;

	lm_train_defaults(&o.train, &c);
	o.train.batch = 2;
	CHECK_FAILS(EX_USAGE, lm_loop_open(&l, &dev, &o));
	lm_loop_close(&l);
	o.batch = 0;
	CHECK_FAILS(EX_USAGE, lm_loop_open(&l, &dev, &o));
	lm_loop_close(&l);
}

int main(void)
{
	CHECK(sodium_init() >= 0);
	CHECK(dev_open(&dev, "cpu") == 0);
	ranges();
	tried_again();
	schedule();
	two_counts();
	flat(LM_DTYPE_F32);
	flat(LM_DTYPE_BF16);
	moved();
	checkpoint();
	refusals();
	dev_close(&dev);
	TEST_END();
}
