/* update.c - the step over containers is the formulas' on whole arrays; workers that
 * take the update have the coordinator's published bit for bit; nothing depends on threads;
 * containers from strangers that are not what they should be are refused. */
#include "common/lm/rounds/update.h"

#include <math.h>
#include <stdlib.h>
#include <sysexits.h>

#ifdef _OPENMP
#include <omp.h>
#endif

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/hw/device.h"
#include "tests/unit/test.h"

enum { N = 3 * 65536 + 1234, K = 5 };
static struct dev cpu;
static float deltas[K][N];
static const uint64_t tokens[K] = { 4, 1, 3, 2, 10 };

static void fill(float *x, uint64_t seed, double scale)
{
	struct rng rng;

	rng_seed(&rng, seed, 0);
	for (int i = 0; i < N; i++)
		x[i] = (float)(scale * (rng_f64(&rng) - 0.5));
}

static struct grad method(const char *name, uint64_t n)
{
	struct grad g;

	CHECK(grad_parse(&g, name, 0) == 0);
	g.elements = n;
	return g;
}

static void encode(struct buf *out, const float *x, uint64_t n, const char *name)
{
	struct grad g = method(name, n);

	CHECK(grad_encode(&cpu, &g, x, NULL, out, NULL) == 0);
}

static int to_buf(void *ctx, const void *data, size_t len)
{
	buf_add(ctx, data, len);
	return 0;
}

struct stream {
	const struct buf *b;
	size_t at;
};

static int from_buf(void *ctx, void *data, size_t len)
{
	struct stream *s = ctx;

	if (grad_read_buf((void *)(uintptr_t)s->b, s->at, data, len) < 0)
		return -1;
	s->at += len;
	return 0;
}

static const struct update_range whole[] = { { 0, N } };

/* A coordinator of its own memory. */
struct side {
	float theta[N], published[N], v[N], buffer[N], last[N];
	struct outer_dn dn;
	struct buf update;
	struct update_result result;
};

static struct side *side_new(void)
{
	struct side *s = xcalloc(1, sizeof *s);

	fill(s->theta, 77, 1);
	memcpy(s->published, s->theta, sizeof s->published);
	s->dn = (struct outer_dn){ .rate = 0.7, .beta = 0.9 };
	return s;
}

static void side_free(struct side *s)
{
	buf_release(&s->update);
	update_result_release(&s->result);
	free(s);
}

static int make(struct side *s, struct update_options *o, struct buf *containers,
	size_t k, const struct update_range *ranges, size_t nranges)
{
	struct update_arrays a = { s->theta, s->published, s->v, s->buffer,
		o->aggregate.kind == AGGREGATE_CCLIP ? s->last : NULL, ranges, nranges };
	struct update_delta list[K];

	for (size_t i = 0; i < k; i++)
		list[i] = (struct update_delta){ grad_read_buf, &containers[i],
			containers[i].len, tokens[i] };
	buf_reset(&s->update);
	update_result_release(&s->result);
	return update_make(&cpu, o, &s->dn, &a, list, k, to_buf, &s->update, &s->result);
}

static void containers_of(struct buf *out, const char *name)
{
	for (int k = 0; k < K; k++) {
		out[k] = (struct buf)BUF_INIT;
		encode(&out[k], deltas[k], N, name);
	}
}

static void release(struct buf *containers)
{
	for (int k = 0; k < K; k++)
		buf_release(&containers[k]);
}

static struct update_options options(enum update_rule rule, const char *aggregate,
	const char *down)
{
	struct update_options o = { .rule = rule, .nesterov = { 0.7, 0.9 }, .live = 3 };

	CHECK(aggregate_parse(&o.aggregate, aggregate) == 0);
	o.down = method(down, GRAD_UNKNOWN);
	return o;
}

/* Two rounds of each rule beside the formulas on whole arrays; what is lossless in and out. */
static void rules(void)
{
	static double d[N];
	static float theta[N], v[N], buffer[N];
	struct buf containers[K];

	containers_of(containers, "lossless");
	for (enum update_rule rule = UPDATE_NESTEROV; rule <= UPDATE_MEAN; rule++) {
		struct update_options o = options(rule, "mean", "lossless");
		struct outer_dn dn = { .rate = 0.7, .beta = 0.9 };
		struct side *s = side_new();
		double w[K];

		memcpy(theta, s->theta, sizeof theta);
		memset(v, 0, sizeof v);
		memset(buffer, 0, sizeof buffer);
		CHECK(outer_weights(w, tokens, K) == 0);
		for (int round = 0; round < 2; round++) {
			CHECK(make(s, &o, containers, K, whole, 1) == 0);
			outer_mean_begin(d, N);
			for (int k = 0; k < K; k++)
				outer_mean_add(d, deltas[k], w[k], N);
			if (rule == UPDATE_NESTEROV)
				outer_nesterov(theta, v, d, N, &o.nesterov);
			else if (rule != UPDATE_DN)
				outer_mean(theta, d, N);
			for (int k = 0; k < K && rule == UPDATE_DN; k++) {
				struct outer_dn_step step = outer_dn_arrive(&dn, 3);

				outer_dn(theta, v, buffer, deltas[k], N, &step);
			}
			CHECK(memcmp(theta, s->theta, sizeof theta) == 0);
			CHECK(memcmp(v, s->v, sizeof v) == 0);
		}
		CHECK(s->result.elements == N && s->result.bytes == s->update.len);
		CHECK(fabs(s->result.weight[4] - 0.5) < 1e-15);
		CHECK(s->result.norm[0] > 1 && s->result.cosine_ppm[4] > 700000);
		side_free(s);
	}
	release(containers);
}

/* Every method of the update: a receiver ends with published; nothing is lost for good. */
static void updates(void)
{
	static const char *const methods[] = { "none", "lossless", "q4", "q8", "ecq:0.5",
		"ecq:0.3:chunk", "e3m0", "topk", "bf16" };
	static float worker[N], zeros[N];
	struct buf containers[K], nothing[K];

	containers_of(containers, "q4");
	memcpy(zeros, deltas[0], sizeof zeros);
	memset(deltas[0], 0, sizeof deltas[0]);
	nothing[0] = (struct buf)BUF_INIT;
	encode(&nothing[0], deltas[0], N, "q4");
	memcpy(deltas[0], zeros, sizeof zeros);
	for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
		struct update_options o = options(UPDATE_NESTEROV, "clip", methods[m]);
		struct side *s = side_new();
		double left = 0, before = 0;

		o.nesterov.momentum = 0;
		memcpy(worker, s->published, sizeof worker);
		for (int round = 0; round < 12; round++) {
			struct stream from = { &s->update, 0 };

			CHECK(make(s, &o, round ? nothing : containers, round ? 1 : K,
				      whole, 1) == 0);
			CHECK(update_take(&cpu, methods[m], worker, whole, 1, from_buf,
				      &from) == 0);
			CHECK(from.at == s->update.len);
			CHECK(memcmp(worker, s->published, sizeof worker) == 0);
			left = 0;
			for (int i = 0; i < N; i++)
				left += pow((double)s->theta[i] - (double)s->published[i],
					2);
			if (!round)
				before = left;
		}
		/* with nothing new, what was left out comes later (topk sends a 64th) */
		CHECK(left <= 0.7 * before || before < 1e-9);
		side_free(s);
	}
	release(containers);
	buf_release(&nothing[0]);
}

/* All bits the same on any number of threads. */
static void threads(void)
{
	static const char *const aggregates[] = { "mean", "clip", "trimmed:0.25", "cclip",
		"krum:1" };
	struct buf containers[K];

	containers_of(containers, "ecq:0.5");
	for (size_t r = 0; r < sizeof aggregates / sizeof *aggregates; r++) {
		struct update_options o = options(UPDATE_NESTEROV, aggregates[r], "q4");
		struct side *one = side_new(), *more = side_new();

		o.copies = true;
		for (int round = 0; round < 2; round++) {
#ifdef _OPENMP
			omp_set_num_threads(1);
#endif
			CHECK(make(one, &o, containers, K, whole, 1) == 0);
#ifdef _OPENMP
			omp_set_num_threads(4);
#endif
			CHECK(make(more, &o, containers, K, whole, 1) == 0);
		}
		CHECK(memcmp(one->theta, more->theta, sizeof one->theta) == 0);
		CHECK(memcmp(one->published, more->published, sizeof one->published) ==
			0);
		CHECK(memcmp(one->last, more->last, sizeof one->last) == 0);
		CHECK(memcmp(one->result.hash, more->result.hash, 32) == 0);
		CHECK(memcmp(one->result.norm, more->result.norm, K * sizeof(double)) ==
			0);
		side_free(one);
		side_free(more);
	}
	release(containers);
}

/* A copy is found, also through different methods. */
static void copies(void)
{
	struct update_options o = options(UPDATE_MEAN, "mean", "q4");
	struct buf containers[K];
	struct side *s = side_new();

	o.copies = true;
	containers_of(containers, "q8");
	buf_reset(&containers[3]);
	encode(&containers[3], deltas[1], N, "bf16");
	CHECK(make(s, &o, containers, K, whole, 1) == 0);
	for (int i = 0; i < K; i++)
		CHECK(s->result.copied[i] == (i == 1 || i == 3));
	release(containers);
	side_free(s);
}

/* Fragments: the ranges are all, apart; only they are touched; with one the bits of the whole. */
static void fragments(void)
{
	static const struct update_range parts[] = { { 100, 70000 }, { 90000, 3 },
		{ 100000, N - 100000 - 50 } };
	struct update_options o = options(UPDATE_NESTEROV, "mean", "q4");
	uint64_t n = update_elements(parts, 3);
	struct side *s = side_new(), *all = side_new();
	struct buf containers[K];
	float *x = xmalloc(n * sizeof *x);

	for (int k = 0; k < K; k++) {
		struct update_walk w = { .ranges = parts, .n = 3 };
		uint64_t at, some, done = 0;

		while ((some = update_walk_step(&w, 1000, &at))) {
			memcpy(x + done, deltas[k] + at, some * sizeof *x);
			done += some;
		}
		CHECK(done == n);
		containers[k] = (struct buf)BUF_INIT;
		encode(&containers[k], x, n, "lossless");
	}
	CHECK(make(s, &o, containers, K, parts, 3) == 0);
	release(containers);
	containers_of(containers, "lossless");
	CHECK(make(all, &o, containers, K, whole, 1) == 0);
	for (uint64_t i = 0; i < N; i++) {
		bool in = (i >= 100 && i < 70100) || (i >= 90000 && i < 90003) ||
			(i >= 100000 && i < N - 50);

		if (in)
			CHECK(s->theta[i] == all->theta[i] && s->v[i] == all->v[i]);
		else
			CHECK(s->published[i] == s->theta[i] && s->v[i] == 0);
	}
	release(containers);
	side_free(s);
	side_free(all);
	free(x);
}

/* Layers are dealt out, what is outside of them goes with the last. */
static void layout(void)
{
	struct lm_config c;
	uint64_t all = 0;

	CHECK(lm_config_preset(&c, "nano", 512) == 0);
	for (uint32_t p = 0; p < 3; p++) {
		struct update_range *ranges;
		size_t n = update_fragment(&c, p, 3, &ranges);

		for (size_t i = 1; i < n; i++)
			CHECK(ranges[i].first >
				ranges[i - 1].first + ranges[i - 1].count);
		all += update_elements(ranges, n);
		free(ranges);
	}
	CHECK_I64((int64_t)lm_config_params(&c), (int64_t)all);
}

static int checked(const struct buf *b, uint64_t n)
{
	struct stream from = { b, 0 };
	double norm;

	return update_check(&cpu, NULL, n, from_buf, &from, &norm, NULL);
}

static void strangers(void)
{
	struct update_options o = options(UPDATE_MEAN, "mean", "q4");
	struct stream from;
	struct buf b = BUF_INIT, containers[K];
	struct side *s = side_new();
	double norm, want = 0;

	encode(&b, deltas[0], N, "lossless");
	from = (struct stream){ &b, 0 };
	CHECK(update_check(&cpu, "lossless", N, from_buf, &from, &norm, NULL) == 0);
	for (int i = 0; i < N; i++)
		want += (double)deltas[0][i] * (double)deltas[0][i];
	CHECK(fabs(norm - sqrt(want)) < 1e-9 * norm);
	from = (struct stream){ &b, 0 };
	CHECK_FAILS(EX_DATAERR,
		update_check(&cpu, "q4", N, from_buf, &from, &norm, NULL));
	CHECK_FAILS(EX_DATAERR, checked(&b, N - 1));
	CHECK_FAILS(EX_DATAERR, checked(&b, N + 1));
	b.len -= 5;
	CHECK_FAILS(EX_DATAERR, checked(&b, N));
	b.len += 5;
	b.data[b.len / 2] ^= 1;
	CHECK_FAILS(EX_DATAERR, checked(&b, N));
	deltas[0][N / 2] = NAN;
	buf_reset(&b);
	encode(&b, deltas[0], N, "lossless");
	CHECK_FAILS(EX_DATAERR, checked(&b, N));
	deltas[0][N / 2] = 0;
	/* damage that comes after the check on arrival is found, too, and names the delta */
	containers_of(containers, "q4");
	containers[2].data[containers[2].len / 2] ^= 4;
	CHECK_FAILS(EX_DATAERR, make(s, &o, containers, K, whole, 1));
	containers[2].len -= 1;
	CHECK_FAILS(EX_DATAERR, make(s, &o, containers, K, whole, 1));
	containers[2].len = 3;
	CHECK_FAILS(EX_DATAERR, make(s, &o, containers, K, whole, 1));
	buf_reset(&b);
	buf_add(&b, s->theta, sizeof s->theta);
	CHECK(make(s, &o, containers, 0, whole, 1) == 0); /* all were refused */
	CHECK(memcmp(b.data, s->theta, sizeof s->theta) == 0 && s->update.len > 0);
	release(containers);
	buf_release(&b);
	side_free(s);
}

int main(void)
{
	CHECK(device_open(&cpu, "cpu") == 0);
	for (int k = 0; k < K; k++) {
		fill(deltas[k], (uint64_t)k, 0.1);
		for (int i = 0; i < N; i++)
			deltas[k][i] += (float)(0.02 * sin(i));
	}
	rules();
	updates();
	threads();
	copies();
	fragments();
	layout();
	strangers();
	dev_close(&cpu);
	TEST_END();
}
