/* train.c - benchmark of training steps: tokens per second, floating point operations per
 * second (6 per parameter, plus attention) as a share of the rate of the device's matrix
 * product in the same run; peak memory against the plan. Prints records to standard output.
 *
 * usage: train [--quick | --ops] [--f32] [--device D] [shape ...] The shapes, of 11 to 124
 * million parameters, have llm.c's layers, width, vocabulary, batch and, within 5%, number of
 * parameters (its two matrices of a GPT-2's hidden layer, 4 wide, against our three). --quick:
 * one turn and only tokens per second, for scripts that alternate. --ops: where the processor
 * time of a step goes, a line for each operation and shape: microseconds per step, their share,
 * and Gop/s of products and attention. Figures `of a core` are by processor time, so that other
 * processes disturb them less. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/lm/train/train.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/base/stats.h"
#include "kernels/bulk/ops.h"

#define ROUNDS 7

static const struct shape {
	const char *name;
	uint32_t layers, dim, heads, hidden, vocab, batch, positions;
	double peer_params; /* llm.c's */
} shapes[] = {
	{ "10.8M", 6, 384, 6, 1024, 256, 4, 256, 10.8e6 },
	{ "30M", 6, 384, 6, 1024, 50257, 4, 128, 30.0e6 },
	{ "124M", 12, 768, 12, 2048, 50257, 4, 64, 124.4e6 },
};

static struct dev dev;
static enum lm_dtype dtype = LM_DTYPE_BF16;
static bool quick, ops;

static struct lm_config config_of(const struct shape *s)
{
	struct lm_config c;

	if (lm_config_preset(&c, "nano", s->vocab) < 0)
		exit(err_get()->code);
	c.layers = s->layers;
	c.dim = s->dim;
	c.heads = c.kv_heads = s->heads;
	c.head_dim = s->dim / s->heads;
	c.hidden = s->hidden;
	c.context = s->positions;
	c.tied = true;
	return c;
}

static void must(int rc)
{
	if (rc == 0)
		return;
	fprintf(stderr, "train: %s\n", err_get()->text);
	exit(err_get()->code);
}

static void record(const struct shape *s, const char *test, const char *unit,
	const struct stats *v, const char *more)
{
	char at[CLOCK_TEXT_MAX];

	clock_format(at, clock_now_ms());
	printf("{\"kind\":\"rnp.bench\",\"v\":1,\"at\":\"%s\",\"suite\":\"train\",\"test\":\"%s\","
	       "\"unit\":\"%s\",\"median\":%.6g,\"low\":%.6g,\"high\":%.6g,\"samples\":%zu,"
	       "\"params\":{\"shape\":\"%s\",\"batch\":%u,\"positions\":%u,\"as\":\"%s\","
	       "\"device\":\"%s\",\"isa\":\"%s\"%s}}\n",
		at, test, unit, v->median, v->low, v->high, v->n, s->name, s->batch,
		s->positions, dtype == LM_DTYPE_F32 ? "f32" : "bf16", dev.name, dev.isa,
		more);
	fflush(stdout);
}

static int64_t worked_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* The rate of the device's matrix product for cubes of 2048, operations per second; *worked:
 * the same by processor time of all threads together. */
static double matrix_rate(double *worked)
{
	enum { N = 2048, TIMES = 4 };
	static void *a, *b, *c;
	struct product p = { .type = dtype == LM_DTYPE_F32 ? PRODUCT_F32 : PRODUCT_BF16,
		.m = N,
		.n = N,
		.k = N,
		.lda = N,
		.ldb = N,
		.ldc = N };
	int64_t ns = 0, from;
	int rc = 0;

	if (!a) {
		rc |= dev.ops->alloc(&dev, &a, N * N * 4);
		rc |= dev.ops->alloc(&dev, &b, N * N * 4);
		rc |= dev.ops->alloc(&dev, &c, N * N * 4);
		rc |= dev.ops->fill(&dev, a, 0x3f803e80, N * N);
		rc |= dev.ops->fill(&dev, b, 0x3e803f80, N * N);
	}
	p.a = a, p.b = b, p.c = c;
	rc |= dev.ops->bulk->product(&dev, &p);
	from = worked_ns();
	rc |= dev.ops->timer_start(&dev);
	for (int i = 0; i < TIMES; i++)
		rc |= dev.ops->bulk->product(&dev, &p);
	rc |= dev.ops->timer_stop(&dev, &ns);
	*worked = 2.0 * N * N * N * TIMES / (double)(worked_ns() - from) * 1e9;
	if (rc) {
		fprintf(stderr, "train: %s\n", dev.error);
		exit(dev.code);
	}
	return 2.0 * N * N * N * TIMES / (double)ns * 1e9;
}

static void batch(uint32_t *tokens, uint32_t *targets, uint64_t n, uint32_t vocab)
{
	struct rng r;

	rng_seed(&r, 1, 1);
	for (uint64_t i = 0; i < n; i++)
		tokens[i] = (uint32_t)rng_below(&r, vocab);
	for (uint64_t i = 0; i < n; i++)
		targets[i] = tokens[(i + 1) % n];
}

/* Seconds per step, averaged over about a second and at least three steps; *worked: the same by
 * processor time of all threads together. */
static double time_steps(struct lm_train *t, const uint32_t *tokens,
	const uint32_t *targets, double *worked)
{
	int64_t from = clock_mono_ns(), work_from = worked_ns(), now;
	struct lm_step step;
	int steps = 0;

	do {
		must(lm_train_step(t, tokens, targets, 1e-4f, &step));
		steps++;
		now = clock_mono_ns();
	} while (steps < 3 || now - from < 1000000000);
	*worked = (double)(worked_ns() - work_from) / steps / 1e9;
	return (double)(now - from) / steps / 1e9;
}

/* --- operations, one by one --------------------------------------------------------------- */

/* The device's table with a timer around every operation. */
#define LINES_MAX 256

static const struct lm_ops *inner;
static struct line {
	char name[64];
	double flop;
	int64_t ns;
} lines[LINES_MAX];
static int lines_used;

static void count_op(const char *name, double flop, int64_t ns)
{
	int i = 0;

	while (i < lines_used && strcmp(lines[i].name, name) != 0)
		i++;
	if (i == LINES_MAX)
		return;
	if (i == lines_used) {
		lines[i] = (struct line){ 0 };
		snprintf(lines[i].name, sizeof lines[i].name, "%s", name);
		lines_used++;
	}
	lines[i].flop += flop;
	lines[i].ns += ns;
}

static double attend_flop(const struct lm_attend *a)
{
	return 2.0 * (double)(a->batch * a->heads * a->head_dim) * (double)a->positions *
		(double)a->positions;
}

#define WATCH(op, flop, format, ...)                                    \
	static int watched_##op(struct dev *d, const struct lm_##op *x) \
	{                                                               \
		int64_t from = worked_ns();                             \
		int rc = inner->op(d, x);                               \
		char name[64];                                          \
                                                                        \
		snprintf(name, sizeof name, #op format, __VA_ARGS__);   \
		count_op(name, flop, worked_ns() - from);               \
		return rc;                                              \
	}

#define U(x) ((unsigned long long)(x))
static const char *const forms[] = { "XWT", "XW", "XTX" };

WATCH(gemm, 2.0 * (double)x->m * (double)x->n * (double)x->k, " %s %llu x %llu x %llu",
	forms[x->form], U(x->m), U(x->n), U(x->k))
WATCH(embed, 0, "%s", "")
WATCH(embed_back, 0, "%s", "")
WATCH(norm, 0, "%s", "")
WATCH(norm_back, 0, "%s", "")
WATCH(rotate, 0, "%s", "")
WATCH(swiglu, 0, "%s", "")
WATCH(swiglu_back, x->dout ? 2.0 * (double)x->rows *(double)x->hidden *(double)x->dim : 0,
	"%s", "")
WATCH(narrow, 0, "%s", "")
WATCH(attend, attend_flop(x), "%s", "")
WATCH(attend_back, 2.5 * attend_flop(&x->forward), "%s", "")
WATCH(head, 6.0 * (double)x->rows * (double)x->dim * (double)x->vocab, "%s", "")
WATCH(squares, 0, "%s", "")
WATCH(adamw, 0, "%s", "")

static int by_time(const void *a, const void *b)
{
	const struct line *x = a, *y = b;

	return (x->ns < y->ns) - (x->ns > y->ns);
}

static void watch_steps(struct lm_train *t, const uint32_t *tokens,
	const uint32_t *targets, const char *shape)
{
	enum { STEPS = 20 };
	int64_t from, all;
	struct lm_step step;

	lines_used = 0;
	from = worked_ns();
	for (int i = 0; i < STEPS; i++)
		must(lm_train_step(t, tokens, targets, 1e-4f, &step));
	all = worked_ns() - from;
	qsort(lines, (size_t)lines_used, sizeof *lines, by_time);
	printf("%s: %.0f us a step of processor time\n", shape,
		(double)all / STEPS / 1e3);
	for (int i = 0; i < lines_used; i++) {
		struct line *l = &lines[i];

		printf("%10.0f us %5.1f %%", (double)l->ns / STEPS / 1e3,
			100 * (double)l->ns / (double)all);
		if (l->flop > 0)
			printf(" %7.0f Gop/s", l->flop / (double)l->ns);
		else
			printf("%15s", "");
		printf("  %s\n", l->name);
	}
}

static void watch(struct dev *d)
{
	static struct lm_ops lm;
	static struct dev_ops all;

	inner = d->ops->lm;
	lm = *inner;
	lm.gemm = watched_gemm, lm.embed = watched_embed;
	lm.embed_back = watched_embed_back, lm.norm = watched_norm;
	lm.norm_back = watched_norm_back, lm.rotate = watched_rotate;
	lm.swiglu = watched_swiglu, lm.swiglu_back = watched_swiglu_back;
	lm.narrow = watched_narrow, lm.attend = watched_attend;
	lm.attend_back = watched_attend_back, lm.head = watched_head;
	lm.squares = watched_squares, lm.adamw = watched_adamw;
	all = *d->ops;
	all.lm = &lm;
	d->ops = &all;
}

static void measure(const struct shape *s)
{
	struct lm_config c = config_of(s);
	double rows = (double)s->batch * s->positions;
	double flop = lm_config_train_flop(&c, s->positions) * rows;
	double tokens_s[ROUNDS], rate[ROUNDS], matrix[ROUNDS], worked_s[ROUNDS], worked;
	double core_rate[ROUNDS], core_matrix[ROUNDS];
	int rounds = quick ? 1 : ROUNDS;
	uint32_t *tokens = xcalloc((size_t)rows, 4), *targets = xcalloc((size_t)rows, 4);
	struct lm_train_options o;
	struct lm_train_plan plan;
	struct lm_train *t;
	struct rusage before, after;
	struct stats v;
	char more[256];

	lm_train_defaults(&o, &c);
	o.batch = s->batch;
	o.positions = s->positions;
	o.dtype = dtype;
	must(lm_train_plan(&plan, &dev, &o));
	getrusage(RUSAGE_SELF, &before);
	must(lm_train_open(&t, &dev, &o));
	must(lm_train_init(t, 1));
	batch(tokens, targets, (uint64_t)rows, s->vocab);
	time_steps(t, tokens, targets, &worked);
	getrusage(RUSAGE_SELF, &after);
	if (ops) {
		watch_steps(t, tokens, targets, s->name);
		rounds = 0;
	}
	for (int i = 0; i < rounds; i++) {
		tokens_s[i] = rows / time_steps(t, tokens, targets, &worked);
		worked_s[i] = rows / worked;
		rate[i] = flop * tokens_s[i] / rows;
		matrix[i] = quick ? 1 : matrix_rate(&core_matrix[i]);
		core_rate[i] = flop * worked_s[i] / rows;
	}
	lm_train_close(t);
	free(tokens), free(targets);
	if (ops)
		return;
	snprintf(more, sizeof more,
		",\"parameters\":%llu,\"peer_parameters\":%.0f,\"peak_bytes\":%ld",
		(unsigned long long)lm_config_params(&c), s->peer_params,
		after.ru_maxrss * 1024);
	stats_of(tokens_s, (size_t)rounds, &v);
	record(s, "speed", "token/s", &v, more);
	stats_of(worked_s, (size_t)rounds, &v);
	record(s, "speed of a core", "token/s", &v, "");
	if (quick)
		return;
	stats_of(rate, ROUNDS, &v);
	record(s, "rate", "op/s", &v, "");
	stats_of_ratio(rate, matrix, ROUNDS, &v);
	snprintf(more, sizeof more, ",\"matrix_rate\":%.6g", matrix[ROUNDS / 2]);
	record(s, "share of the matrix rate", "1", &v, more);
	stats_of_ratio(core_rate, core_matrix, ROUNDS, &v);
	snprintf(more, sizeof more, ",\"matrix_rate\":%.6g", core_matrix[ROUNDS / 2]);
	record(s, "share of the matrix rate of a core", "1", &v, more);
	snprintf(more, sizeof more, ",\"plan_bytes\":%llu,\"before_bytes\":%ld",
		(unsigned long long)plan.total, before.ru_maxrss * 1024);
	v = (struct stats){ .n = 1 };
	v.median = v.low = v.high = (double)after.ru_maxrss * 1024;
	record(s, "peak memory", "B", &v, more);
}

int main(int argc, char **argv)
{
	const char *device = "cpu";
	bool any = false;
	int i = 1;

	for (; i < argc && argv[i][0] == '-'; i++)
		if (strcmp(argv[i], "--quick") == 0)
			quick = true;
		else if (strcmp(argv[i], "--ops") == 0)
			ops = true;
		else if (strcmp(argv[i], "--f32") == 0)
			dtype = LM_DTYPE_F32;
		else if (strcmp(argv[i], "--device") == 0 && i + 1 < argc)
			device = argv[++i];
		else
			return 64;
	if (dev_open(&dev, device) < 0) {
		fprintf(stderr, "train: %s\n", dev.error);
		return dev.code;
	}
	if (ops)
		watch(&dev);
	for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
		bool wanted = i >= argc;

		for (int n = i; n < argc; n++)
			wanted = wanted || strcmp(argv[n], shapes[k].name) == 0;
		if (wanted)
			measure(&shapes[k]);
		any = any || wanted;
	}
	dev_close(&dev);
	return any ? 0 : 64;
}
