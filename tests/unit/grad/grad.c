/* grad.c - containers of every method come back as the quantiser says, on every length, and
 * nothing else is read. */
#include "common/grad/grad.h"

#include <math.h>
#include <stdlib.h>
#include <sysexits.h>

#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "tests/unit/test.h"

static const char *const names[] = { "none", "lossless", "f16", "bf16", "fp8e4", "fp8e5",
	"q8", "q8:sigma", "q8:stochastic", "q4", "q4:sigma:stochastic", "ecq:0.1",
	"ecq:0.001", "ecq:0.5:chunk", "e3m0", "qsgd:4", "qsgd:1000", "topk" };

#define NAMES (sizeof names / sizeof *names)

static struct dev dev;

/* A bell, with now and then what is not finite or very small or large. */
static void fill(float *x, uint64_t n, uint64_t seed, bool wild)
{
	struct rng r;

	rng_seed(&r, seed, 5);
	for (uint64_t i = 0; i < n; i++) {
		uint32_t w = rng_u32(&r);
		float f = 0;

		for (int k = 0; k < 4; k++)
			f += (float)(w >> 8 * k & 255) / 128 - 1;
		x[i] = f;
		if (wild && w % 97 == 0)
			x[i] = half_float_of_bits(rng_u32(&r) | (w & 0x7f800000));
	}
}

static struct grad parsed(const char *name, uint32_t block)
{
	struct grad g;

	CHECK_I64(0, grad_parse(&g, name, block));
	return g;
}

/* The expected result of decoding: the reference's quantiser without any container. */
static void expected(float *out, const struct grad *g, const float *x, uint64_t n)
{
	uint32_t chunk = quant_chunk(g->q.method);
	unsigned char *planes, *p[QUANT_PLANES_MAX];
	struct quant_layout l;

	quant_layout(&l, &g->q, chunk);
	planes = xcalloc(1, l.chunk_bytes);
	for (int i = 0; i < l.planes; i++)
		p[i] = quant_plane_at(&l, planes, 1, 0, i);
	for (uint64_t at = 0; at < n; at += chunk) {
		uint32_t m = (uint32_t)(n - at < chunk ? n - at : chunk), used;
		struct quant_step step = g->step;

		if (g->each) {
			uint64_t *wide = xcalloc(QUANT_BINS, sizeof *wide);
			uint32_t *bins = xcalloc(QUANT_BINS, sizeof *bins);

			quant_spread_ref(bins, x + at, m);
			for (int i = 0; i < QUANT_BINS; i++)
				wide[i] = bins[i];
			grad_step(&step, wide, g->error, false);
			free(wide), free(bins);
		}
		used = quant_encode_ref(p, x + at, m, &g->q, &step, at);
		CHECK(quant_decode_ref(out + at, (const unsigned char *const *)p, used, m,
			&g->q, &step));
	}
	free(planes);
}

/* n elements at an odd place, there and back */
static void round_trip(const char *name, uint64_t n, bool wild)
{
	struct grad g = parsed(name, 0), seen;
	float *x = xmalloc(n * 4 + 64), *want = xmalloc(n * 4 + 4), *got;
	struct buf c = BUF_INIT;

	x += n % 7;
	got = xmalloc(n * 4 + 64);
	fill(x, n, n + 3, wild);
	g.elements = n;
	g.q.seed = n;
	CHECK_I64(0, grad_encode(&dev, &g, x, NULL, &c, NULL));
	memset(got, 0x5a, n * 4 + 64);
	CHECK_I64(0, grad_decode(&dev, &seen, c.data, c.len, got + n % 5, n, false));
	CHECK(seen.q.method == g.q.method && seen.elements == n && seen.q.seed == n);
	if (g.q.method == QUANT_ECQ)
		g.step = seen.step;
	expected(want, &g, x, n);
	if (memcmp(want, got + n % 5, n * 4) != 0) {
		fprintf(stderr, "%s, %llu elements: differs\n", name,
			(unsigned long long)n);
		CHECK(false);
	}
	for (int i = 0; i < 4; i++) /* nothing after it was touched */
		CHECK(((unsigned char *)(got + n % 5 + n))[i] == 0x5a);
	if (g.q.method == QUANT_NONE || g.q.method == QUANT_LOSSLESS)
		CHECK(memcmp(x, want, n * 4) == 0);
	buf_release(&c);
	free(x - n % 7), free(want), free(got);
}

/* Under sanitizers, which take several times as long, each method takes a sixteenth of the longer
 * lengths. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STRIDE 16
#else
#define STRIDE 1
#endif

/* All lengths to 5000, of every method. */
static void check_round_trips(void)
{
	for (size_t i = 0; i < NAMES; i++) {
		for (uint64_t n = 0; n <= 5000; n++)
			if (n < 300 || n % STRIDE == i % STRIDE)
				round_trip(names[i], n, n % 2 == i / 4 % 2);
		round_trip(names[i], 65536, false);
		round_trip(names[i], 3 * 65536 + 11, true);
	}
	round_trip("topk", 1048576 + 70000, true);
}

/* All 2^16 patterns of bf16, in and out, for what is lossless. */
static void check_bf16(void)
{
	static const char *const which[] = { "none", "lossless" };
	uint16_t *x = xmalloc(65536 * 2), *y = xmalloc(65536 * 2);

	for (uint32_t i = 0; i < 65536; i++)
		x[i] = (uint16_t)(i * 40503);
	for (int i = 0; i < 2; i++) {
		struct grad g = parsed(which[i], 0);
		struct buf c = BUF_INIT;

		g.bf16 = true;
		g.elements = 65536;
		CHECK_I64(0, grad_encode(&dev, &g, x, NULL, &c, NULL));
		memset(y, 0, 65536 * 2);
		CHECK_I64(0, grad_decode(&dev, NULL, c.data, c.len, y, 65536, true));
		CHECK(memcmp(x, y, 65536 * 2) == 0);
		CHECK_I64(-1, grad_decode(&dev, NULL, c.data, c.len, y, 65536, false));
		buf_release(&c);
	}
	/* a lossy method works on f32 between */
	struct grad g = parsed("bf16", 0);
	struct buf c = BUF_INIT;

	g.bf16 = true;
	g.elements = 65536;
	for (uint32_t i = 0; i < 65536; i++)
		x[i] = (uint16_t)i;
	CHECK_I64(0, grad_encode(&dev, &g, x, NULL, &c, NULL));
	CHECK_I64(0, grad_decode(&dev, NULL, c.data, c.len, y, 65536, true));
	for (uint32_t i = 0; i < 65536; i++)
		CHECK(y[i] == bf16_from_f32(bf16_to_f32(x[i])));
	buf_release(&c);
	free(x), free(y);
}

/* The error that the encoder tells is that of what the decoder writes, where this is bf16 too. */
static void check_bf16_error(void)
{
	enum { N = 5000 };
	struct grad g = parsed("q8", 0);
	struct grad_stats s;
	struct buf c = BUF_INIT;
	float *f = xmalloc(N * 4);
	uint16_t *x = xmalloc(N * 2), *y = xmalloc(N * 2);
	double error = 0;

	fill(f, N, 2, false);
	for (int i = 0; i < N; i++)
		x[i] = bf16_from_f32(f[i]);
	g.bf16 = true;
	g.elements = N;
	CHECK_I64(0, grad_encode(&dev, &g, x, NULL, &c, &s));
	CHECK_I64(0, grad_decode(&dev, NULL, c.data, c.len, y, N, true));
	for (int i = 0; i < N; i++) {
		double d = (double)bf16_to_f32(x[i]) - (double)bf16_to_f32(y[i]);

		error += d * d;
	}
	CHECK(error > 0 && fabs(s.error / error - 1) < 1e-9);
	buf_release(&c);
	free(f), free(x), free(y);
}

/* The error that was asked for, and the bits that it may cost on a bell. */
static void check_ecq(void)
{
	static const struct {
		const char *name;
		double error, bits;
	} cases[] = { { "ecq:0.01", 0.01, 7.0 }, { "ecq:0.1", 0.1, 3.7 },
		{ "ecq:0.3", 0.3, 2.1 }, { "ecq:0.7", 0.7, 0.75 } };
	uint64_t n = 20 * 65536;
	float *x = xmalloc(n * 4);
	struct rng r;

	rng_seed(&r, 1, 1);
	for (uint64_t i = 0; i < n; i += 2) {
		double radius = sqrt(-2 * log(1 - rng_f64(&r))),
		       turn = 2 * M_PI * rng_f64(&r);

		x[i] = (float)(radius * cos(turn));
		x[i + 1] = (float)(radius * sin(turn));
	}
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct grad g = parsed(cases[i].name, 0);
		struct grad_stats s;
		struct buf c = BUF_INIT;
		double error, bits;

		g.elements = n;
		CHECK_I64(0, grad_encode(&dev, &g, x, NULL, &c, &s));
		error = sqrt(s.error / s.energy);
		bits = 8 * (double)c.len / (double)n;
		CHECK_I64((int64_t)c.len, (int64_t)s.output_bytes);
		CHECK(error <= cases[i].error * 1.01 && error > cases[i].error * 0.97);
		CHECK(bits <= cases[i].bits);
		if (bits > cases[i].bits || error > cases[i].error * 1.01)
			fprintf(stderr, "%s: error %g, %g bits\n", cases[i].name, error,
				bits);
		buf_release(&c);
	}
	free(x);
}

/* The error is that of what is quantised, whatever error feedback makes of the elements. */
static void check_ecq_feedback(void)
{
	enum { N = 70000 };
	static const char *const which[] = { "ecq:0.1", "ecq:0.1:chunk" };
	float *x = xmalloc(N * 4), *e = xmalloc(N * 4);

	for (int m = 0; m < 2; m++) {
		struct grad g = parsed(which[m], 0);
		struct grad_stats s;
		struct buf c = BUF_INIT;

		g.elements = N;
		fill(x, N, 8, false);
		fill(e, N, 9, false);
		for (int i = 0; i < N; i++)
			e[i] *= 50;
		CHECK_I64(0, grad_encode(&dev, &g, x, e, &c, &s));
		CHECK(s.error > 0.0094 * s.energy && s.error < 0.0103 * s.energy);
		buf_release(&c);
	}
	free(x), free(e);
}

/* Error feedback: values that were not sent are sent later, and the sum of arrivals stays
 * within one step of the sum of inputs. */
static void check_feedback(void)
{
	static const char *const which[] = { "q4", "ecq:0.3", "e3m0", "topk" };
	enum { N = 5000, ROUNDS = 30 };

	for (int m = 0; m < 4; m++) {
		float *x = xmalloc(N * 4), *e = xcalloc(N, 4), *y = xmalloc(N * 4);
		double *given = xcalloc(N, 8), *arrived = xcalloc(N, 8);

		for (int t = 0; t < ROUNDS; t++) {
			struct grad g = parsed(which[m], 0);
			struct buf c = BUF_INIT;

			g.carry = 1;
			g.elements = N;
			fill(x, N, (uint64_t)t, false);
			CHECK_I64(0, grad_encode(&dev, &g, x, e, &c, NULL));
			CHECK_I64(0, grad_decode(&dev, &g, c.data, c.len, y, N, false));
			CHECK(g.feedback && g.carry == 1);
			for (int i = 0; i < N; i++)
				given[i] += (double)x[i], arrived[i] += (double)y[i];
			buf_release(&c);
		}
		for (int i = 0; i < N; i++)
			CHECK(fabs(given[i] - arrived[i] - (double)e[i]) < 1e-3);
		free(x), free(e), free(y), free(given), free(arrived);
	}
}

/* Every byte changed, every length cut: one sentence, 65, and no memory taken from it. */
static void check_damage(void)
{
	for (size_t i = 0; i < NAMES; i++) {
		struct grad g = parsed(names[i], 0);
		uint64_t n = 300;
		float x[300], y[300];
		struct buf c = BUF_INIT;

		fill(x, n, 1, true);
		g.elements = n;
		CHECK_I64(0, grad_encode(&dev, &g, x, NULL, &c, NULL));
		for (size_t at = 0; at < c.len; at++) {
			c.data[at] ^= 0x10;
			CHECK_I64(-1,
				grad_decode(&dev, NULL, c.data, c.len, y, n, false));
			CHECK_I64(EX_DATAERR, err_get()->code);
			c.data[at] ^= 0x10;
			CHECK_I64(-1, grad_decode(&dev, NULL, c.data, at, y, n, false));
			CHECK_I64(EX_DATAERR, err_get()->code);
		}
		CHECK_I64(-1, grad_decode(&dev, NULL, c.data, c.len, y, n - 1, false));
		CHECK_I64(0, grad_decode(&dev, NULL, c.data, c.len, y, n, false));
		buf_addc(&c, 0);
		CHECK_I64(-1, grad_decode(&dev, NULL, c.data, c.len, y, n, false));
		buf_release(&c);
	}
}

/* More than a batch, whose last chunk is whole or not: all comes back, and damage after the
 * first batch is found. */
static void check_batches(void)
{
	struct grad g = parsed("fp8e4", 0);
	uint64_t batch = grad_batch(&g), max = batch + 65536 + 5;
	const uint64_t lengths[] = { batch - 5, batch, batch + 5, max };
	float *x = xcalloc(max, 4), *y = xmalloc(max * 4);
	struct buf c = BUF_INIT;

	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		g.elements = lengths[i];
		buf_reset(&c);
		memset(y, 0x5a, max * 4);
		CHECK_I64(0, grad_encode(&dev, &g, x, NULL, &c, NULL));
		CHECK_I64(0,
			grad_decode(&dev, NULL, c.data, c.len, y, g.elements, false));
		CHECK(memcmp(x, y, g.elements * 4) == 0);
	}
	/* the last two chunks and the index */
	for (size_t at = c.len - 260; at < c.len; at += 3) {
		c.data[at] ^= 0x10;
		CHECK_I64(-1, grad_decode(&dev, NULL, c.data, c.len, y, max, false));
		CHECK_I64(EX_DATAERR, err_get()->code);
		c.data[at] ^= 0x10;
		CHECK_I64(-1, grad_decode(&dev, NULL, c.data, at, y, max, false));
		CHECK_I64(EX_DATAERR, err_get()->code);
	}
	buf_release(&c);
	free(x), free(y);
}

static void check_names(void)
{
	static const char *const bad[] = { "", "q", "q8:", "q8:x", "q8:sigma:sigma",
		"ecq", "ecq:0", "ecq:1", "ecq:x", "ecq:0.1:each", "qsgd", "qsgd:0",
		"qsgd:70000", "topk:3", "none:sigma", "Q8" };
	struct grad g;
	char name[64];

	for (size_t i = 0; i < NAMES; i++) {
		CHECK_I64(0, grad_parse(&g, names[i], 0));
		grad_name(name, &g);
		CHECK_TEXT(names[i], name);
	}
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		CHECK_I64(-1, grad_parse(&g, bad[i], 0));
		CHECK_I64(EX_USAGE, err_get()->code);
	}
	CHECK_I64(-1, grad_parse(&g, "q8", 100));
	CHECK_I64(-1, grad_parse(&g, "q8", 8));
	CHECK_I64(-1, grad_parse(&g, "q8:sigma", 256));
	CHECK_I64(-1, grad_parse(&g, "topk", 128));
	CHECK_I64(0, grad_parse(&g, "topk", 512));
	CHECK_I64(512, g.q.block);
	err_clear();
}

int main(void)
{
	if (dev_open_cpu(&dev, cpu_level_best()) < 0)
		return 1;
	check_names();
	check_bf16();
	check_bf16_error();
	check_ecq();
	check_ecq_feedback();
	check_feedback();
	check_damage();
	check_batches();
	check_round_trips();
	dev_close(&dev);
	TEST_END();
}
