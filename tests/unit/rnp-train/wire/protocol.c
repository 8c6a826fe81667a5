/* protocol.c - tests the protocol: written messages read back, and oversized ones are refused;
 * containers as files; arrays in files. */
/* uses: cmd/rnp-train */
#include "cmd/rnp-train/wire/protocol.h"

#include <math.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "cmd/rnp-train/wire/container.h"
#include "cmd/rnp-train/coordinator/db.h"
#include "cmd/rnp-train/wire/flatfile.h"
#include "common/base/io.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/hw/device.h"
#include "common/json/json.h"
#include "common/record/signature.h"
#include "tests/unit/test.h"

static struct key key = KEY_INIT;
static char dir[] = "/tmp/rnp-protocol-XXXXXX";

static struct training a_run(void)
{
	struct training t = { .tokens = 100000,
		.seed = 7,
		.batch = 4,
		.inner_steps = 50,
		.fragments = 1,
		.rounds = 20,
		.quorum = 2,
		.warmup = 100,
		.length = 64,
		.lr_ppb = 400000,
		.lr_min_ppm = 100000,
		.beta1_ppm = 900000,
		.beta2_ppm = 950000,
		.decay_ppm = 100000,
		.clip_ppm = 1000000,
		.outer = UPDATE_NESTEROV,
		.aggregate = { .kind = AGGREGATE_TRIMMED, .trim = 0.25 },
		.late_count = true,
		.outer_rate_ppm = 700000,
		.outer_momentum_ppm = 900000,
		.method = "q4",
		.method_down = "ecq:0.3",
		.piece_bytes = PROTOCOL_PIECE_BYTES };

	CHECK(lm_config_preset(&t.config, "nano", 300) == 0);
	t.parameters = lm_config_params(&t.config);
	memcpy(t.node, key.address, sizeof t.node);
	memset(t.digest, 'a', 64);
	memset(t.tokenizer, 'b', 64);
	return t;
}

/* Signs the record of t, changed by name and value where there is a name, and reads it. */
static int read_run(struct training *out, const struct training *t, const char *name,
	json_t *takes_value)
{
	json_t *shards = json_array(), *record;
	int rc;

	json_push_text(shards, t->digest);
	record = training_write(t, shards, 1000);
	if (name)
		json_set(record, name, takes_value);
	CHECK(signature_add(record, &key, 1000) == 0);
	rc = training_read(out, record, "run");
	json_decref(record);
	json_decref(shards);
	return rc;
}

/* Pieces are whole powers of two within bounds, and there are no more than twice the many
 * wanted. */
static void check_pieces(void)
{
	CHECK_I64(64 << 10, (int64_t)protocol_piece_bytes(1));
	CHECK_I64(64 << 10, (int64_t)protocol_piece_bytes((64 << 20) - 1));
	CHECK_I64(128 << 10, (int64_t)protocol_piece_bytes(100000000));
	CHECK_I64(4 << 20, (int64_t)protocol_piece_bytes(UINT64_C(1) << 40));
	CHECK_I64(96, (int64_t)protocol_pieces(50000000, 512 << 10));
}

static void runs(void)
{
	struct training t = a_run(), r, other;
	struct lm_schedule s;

	CHECK(read_run(&r, &t, NULL, NULL) == 0);
	CHECK_I64((int64_t)t.parameters, (int64_t)r.parameters);
	CHECK(r.seed == 7 && r.batch == 4 && r.inner_steps == 50 && r.length == 64);
	CHECK(r.outer == UPDATE_NESTEROV && r.aggregate.kind == AGGREGATE_TRIMMED &&
		r.aggregate.trim == 0.25 && r.late_count && !r.f32);
	CHECK_TEXT("ecq:0.3", r.method_down);
	CHECK(strlen(r.name) == 64);
	s = training_schedule(&r);
	CHECK(s.lr == 4e-4 && s.steps == 1000 && s.warmup == 100);
	/* the first steps come in shorter rounds, and the cosine ends with the last */
	t.warm = 40;
	CHECK(read_run(&r, &t, NULL, NULL) == 0 && r.warm == 40);
	{
		const uint64_t steps[] = { 5, 5, 10, 20, 50, 50 };
		uint64_t done = 0;

		for (uint64_t i = 0; i < 6; i++) {
			CHECK_I64((int64_t)steps[i],
				(int64_t)training_round_steps(&r, i));
			CHECK_I64((int64_t)done, (int64_t)training_steps_before(&r, i));
			done += steps[i];
		}
	}
	CHECK_I64(5 + 5 + 10 + 20 + 16 * 50, (int64_t)training_schedule(&r).steps);
	CHECK_FAILS(EX_DATAERR, read_run(&r, &t, "warm", json_integer(2000000)));
	t.warm = 0;
	CHECK(read_run(&r, &t, NULL, NULL) == 0);
	/* fragments: a round is the exchange of one of them, and is due where H of p / P are
	 * done */
	t.late_count = false;
	t.fragments = 3;
	t.overlap = 4;
	CHECK(read_run(&r, &t, NULL, NULL) == 0 && training_streams(&r));
	CHECK_I64(60, (int64_t)training_rounds(&r));
	CHECK_I64(1000, (int64_t)training_schedule(&r).steps);
	{
		uint64_t all = 0, done = 0;

		for (uint64_t i = 0; i < 7; i++) {
			struct update_range *ranges;
			uint64_t n;

			CHECK_I64((int64_t)done, (int64_t)training_steps_before(&r, i));
			done += training_round_steps(&r, i);
			CHECK(outer_fragment_due((uint32_t)((i + 1) % 3), 3, 50, done));
			training_ranges(&r, i, &ranges, &n);
			all += i < 3 ? n : 0;
			free(ranges);
		}
		CHECK_I64((int64_t)r.parameters, (int64_t)all);
	}
	CHECK_FAILS(EX_DATAERR, read_run(&r, &t, "fragments", json_integer(6)));
	CHECK_FAILS(EX_DATAERR, read_run(&r, &t, "overlap", json_integer(16)));
	CHECK_FAILS(EX_DATAERR, read_run(&r, &t, "warm", json_integer(1)));
	CHECK_FAILS(EX_DATAERR, read_run(&r, &t, "outer", json_string("dn")));
	t.fragments = 1;
	t.overlap = 0;
	CHECK(read_run(&r, &t, NULL, NULL) == 0 && !training_streams(&r));
	/* another run has another name */
	t.seed = 8;
	CHECK(read_run(&other, &t, NULL, NULL) == 0 && strcmp(other.name, r.name) != 0);

	CHECK_FAILS(EX_DATAERR, read_run(&r, &t, "parameters", json_integer(5)));
	CHECK_FAILS(EX_DATAERR, read_run(&r, &t, "method", json_string("q5")));
	CHECK_FAILS(EX_DATAERR, read_run(&r, &t, "aggregate", json_string("median")));
	CHECK_FAILS(EX_DATAERR, read_run(&r, &t, "config", json_string("{}")));
	CHECK_FAILS(EX_DATAERR, read_run(&r, &t, "length", json_integer(1 << 23)));
	/* 2^20 sequences of 10^6 steps are more than anybody will do in a turn */
	t.batch = 1 << 20;
	t.inner_steps = 1000000;
	CHECK_FAILS(EX_DATAERR, read_run(&r, &t, NULL, NULL));
	/* the context must be the model's */
	t = a_run();
	t.length = t.config.context + 1;
	CHECK_FAILS(EX_DATAERR, read_run(&r, &t, NULL, NULL));
}

static int read_assignment(const struct assignment *a, const struct training *t)
{
	struct assignment r;
	json_t *record = assignment_write(a, t, 1000);
	int rc;

	CHECK(signature_add(record, &key, 1000) == 0);
	rc = assignment_read(&r, record, t, key.address, "assignment");
	if (rc == 0)
		CHECK(r.first == a->first && r.steps == a->steps &&
			r.deadline_s == a->deadline_s && strcmp(r.base, a->base) == 0);
	json_decref(record);
	return rc;
}

static void assignments(void)
{
	struct training made = a_run(), t;
	struct assignment a = { .turn = 3,
		.round = 2,
		.first = 400,
		.sequences = 200,
		.step = 50,
		.steps = 50,
		.deadline_s = -1 };

	CHECK(read_run(&t, &made, NULL, NULL) == 0);
	memcpy(a.member, key.address, sizeof a.member);
	memset(a.base, 'c', 64);
	strcpy(a.method, "q4");
	CHECK(read_assignment(&a, &t) == 0);
	a.deadline_s = 12;
	CHECK(read_assignment(&a, &t) == 0);
	a.sequences = 199;
	CHECK_FAILS(EX_DATAERR, read_assignment(&a, &t));
	a.sequences = 51 * 4;
	a.steps = 51; /* more than the run's */
	CHECK_FAILS(EX_DATAERR, read_assignment(&a, &t));
	a.sequences = 200;
	a.steps = 50;
	strcpy(a.method, "none");
	CHECK_FAILS(EX_DATAERR, read_assignment(&a, &t));
	strcpy(a.method, "q4");
	memset(a.member, 0, sizeof a.member);
	strcpy(a.member, "11111111111111111111111111111111");
	CHECK_FAILS(EX_DATAERR, read_assignment(&a, &t));
}

/* Rounds of a group for the turns of the run above, counted one after the other. */
static void check_rounds_below(void)
{
	struct training above = { .rounds = 6, .inner_steps = 40, .batch = 4 };
	struct training group = { .quorum = 2, .inner_steps = 10, .batch = 4 };

	CHECK_I64(12, (int64_t)training_rounds_below(&above, &group));
	group.quorum = 3; /* 160 sequences are a round of 120, and one more */
	CHECK_I64(12, (int64_t)training_rounds_below(&above, &group));
	above.warm = 16; /* turns of 4, 8 and 32 steps */
	group.quorum = 2;
	CHECK_I64(1 + 1 + 2 + 2 + 2 + 2, (int64_t)training_rounds_below(&above, &group));
	above.warm = 0;
	group.quorum = 1; /* 40 steps are rounds of 1 1 1 1 1 2 2 2 4 8, 10 and 7 */
	group.warm = 20;
	CHECK_I64(12 + 5 * 4, (int64_t)training_rounds_below(&above, &group));
	above.rounds = UINT64_C(1) << 40;
	CHECK(training_rounds_below(&above, &group) > UINT64_C(1) << 40);
	/* as many as a hostile run above may have: 2^80 do not become few */
	above.inner_steps = UINT64_C(1) << 20;
	above.batch = UINT64_C(1) << 20;
	group = (struct training){ .quorum = 1, .inner_steps = 1, .batch = 1 };
	CHECK_I64(INT64_MAX, (int64_t)training_rounds_below(&above, &group));
	above.rounds = 0;
	CHECK_I64(0, (int64_t)training_rounds_below(&above, &group));
}

static void numbers(void)
{
	uint32_t ids[] = { 0, 1, 299, 65535 }, back[4];
	struct buf packed = BUF_INIT;
	int64_t v;

	CHECK(protocol_units(&v, 4e-4, 1e9, 1, "lr") == 0 && v == 400000);
	CHECK_FAILS(EX_USAGE, protocol_units(&v, 1e-10, 1e9, 1, "lr"));
	CHECK_FAILS(EX_USAGE, protocol_units(&v, NAN, 1e9, 1, "lr"));
	CHECK_FAILS(EX_USAGE, protocol_units(&v, -1, 1e9, 1, "lr"));
	CHECK(protocol_pieces(10, 4) == 3);
	CHECK(protocol_pieces(8, 4) == 2);
	protocol_pack(&packed, ids, 4, 65536);
	CHECK_I64(8, (int64_t)packed.len);
	CHECK(protocol_unpack(back, packed.data, 4, 65536) &&
		memcmp(ids, back, sizeof ids) == 0);
	CHECK(!protocol_unpack(back, packed.data, 4, 300));
	buf_reset(&packed);
	protocol_pack(&packed, ids, 4, 65537);
	CHECK_I64(16, (int64_t)packed.len);
	CHECK(protocol_unpack(back, packed.data, 4, 65537) &&
		memcmp(ids, back, sizeof ids) == 0);
	buf_release(&packed);
	CHECK(!protocol_is_hash("abc") && !protocol_is_hash(""));
}

/* No container is larger than what a coordinator allows for its method, whatever the values. */
static void sizes(struct dev *d)
{
	static const char *const methods[] = { "none", "lossless", "q8", "q4", "q4:sigma",
		"ecq:0.1", "ecq:0.000001", "e3m0", "qsgd:4", "topk", "f16", "bf16",
		"fp8e4" };
	enum { N = 70001 };
	float *x = xmalloc(N * sizeof *x), *back = xmalloc(N * sizeof *back);
	struct buf path = BUF_INIT;
	struct rng rng = { 0 };

	rng_seed(&rng, 5, 0);
	buf_addf(&path, "%s/c", dir);
	for (size_t m = 0; m < sizeof methods / sizeof *methods; m++)
		for (int kind = 0; kind < 3; kind++) {
			struct container c = CONTAINER_INIT;
			struct container_facts facts;
			double norm = 0, want = 0;

			for (int i = 0; i < N; i++)
				x[i] = kind == 0 ?
					0 :
					kind == 1 ?
					(float)(rng_f64(&rng) - 0.5) :
					(float)ldexp(rng_f64(&rng) - 0.5,
						(int)(rng_f64(&rng) * 16) - 12);
			CHECK(container_write(d, methods[m], x, NULL, N, path.data,
				      &facts) == 0);
			CHECK(facts.bytes <= container_bytes_max(methods[m], N));
			CHECK(container_check(d, path.data, NULL, N, &norm, NULL) == 0);
			CHECK(container_open(&c, d, path.data, NULL, N) == 0);
			CHECK(container_read(&c, back, N / 2) == 0);
			CHECK(container_read(&c, back + N / 2, N - N / 2) == 0);
			for (int i = 0; i < N; i++)
				want += (double)back[i] * back[i];
			CHECK(fabs(sqrt(want) - norm) <= 1e-9 * norm);
			container_close(&c);
		}
	CHECK(container_bytes_max("q5", N) == 0);
	buf_release(&path);
	free(x);
	free(back);
}

/* Where the values of a filled container come from: two arrays, whose difference it is. */
struct pair {
	struct dev *d;
	const float *began, *ended;
	float *there[2]; /* on the device */
};

static int fill(void *arg, uint64_t from, uint64_t n, float *out)
{
	struct pair *p = arg;
	struct dev *d = p->d;

	if (d->ops->put(d, p->there[0], p->began + from, n * 4) < 0 ||
		d->ops->put(d, p->there[1], p->ended + from, n * 4) < 0 ||
		d->ops->outer->delta(d, out, p->there[0], p->there[1], n) < 0)
		return err_set(d->code, "%s", d->error);
	return 0;
}

static void read_whole(struct buf *to, const char *path)
{
	buf_reset(to);
	CHECK(io_read(to, path, 1 << 30) == 0);
}

/* A delta that is computed and coded on a device is the one of the host, byte for byte, and so is
 * what it leaves behind. */
static void filled(struct dev *cpu, struct dev *d)
{
	static const char *const methods[] = { "none", "lossless", "q8", "q4", "ecq:0.3",
		"e3m0", "topk" };
	enum { N = 200001 };
	float *x = xmalloc(5 * N * sizeof *x), *began = x, *ended = x + N;
	float *delta = x + 2 * N, *rest = x + 3 * N, *other = x + 4 * N;
	struct pair p = { .d = d, .began = began, .ended = ended };
	struct buf path = BUF_INIT, want = BUF_INIT, got = BUF_INIT;
	struct rng rng = { 0 };

	rng_seed(&rng, 6, 0);
	buf_addf(&path, "%s/c", dir);
	for (int i = 0; i < N; i++) {
		began[i] = (float)(rng_f64(&rng) - 0.5);
		ended[i] = began[i] +
			(float)(1e-3 * (rng_f64(&rng) - 0.5) * rng_f64(&rng));
		delta[i] = began[i] - ended[i];
	}
	for (int i = 0; i < 2; i++)
		CHECK(d->ops->alloc(d, (void **)&p.there[i], N * sizeof *x) == 0);
	for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
		bool feedback = m > 1;
		struct container_facts facts[2];

		for (int i = 0; i < N; i++)
			rest[i] = other[i] = began[i] * 1e-3f;
		CHECK(container_write(cpu, methods[m], delta, feedback ? rest : NULL, N,
			      path.data, &facts[0]) == 0);
		read_whole(&want, path.data);
		CHECK(container_write_filled(d, methods[m], fill, &p,
			      feedback ? other : NULL, N, path.data, false,
			      &facts[1]) == 0);
		read_whole(&got, path.data);
		CHECK(want.len == got.len && memcmp(want.data, got.data, got.len) == 0);
		CHECK(memcmp(rest, other, N * sizeof *rest) == 0);
		CHECK(memcmp(&facts[0], &facts[1], sizeof facts[0]) == 0);
	}
	for (int i = 0; i < 2; i++)
		d->ops->free(d, p.there[i]);
	unlink(path.data);
	buf_release(&path);
	buf_release(&want);
	buf_release(&got);
	free(x);
}

/* The CUDA kernels, compiled for the CPU (tests/kernels/cuda_emu.h). */
static int open_emulation(struct dev *d)
{
	const char *build = getenv("RNP_BUILD");
	char path[4096];

	snprintf(path, sizeof path, "%s/emu/librnp_cuda.so", build ? build : "build");
	if (access(path, F_OK) < 0)
		return dev_fail(d, EX_UNAVAILABLE,
			"emulation: '%s' is not there: make kcheck", path);
	setenv("RNP_CUDA_PLUGIN", path, 1);
	return dev_open(d, "cuda:0");
}

/* Flips a byte of a file, or cuts it there. */
static void spoil(const char *path, size_t at, bool cut)
{
	struct buf text = BUF_INIT;

	CHECK(io_read(&text, path, 1 << 30) == 0);
	if (cut)
		text.len = at;
	else
		text.data[at] ^= 1;
	CHECK(io_replace(path, text.data, text.len, 0666) == 0);
	buf_release(&text);
}

static void refusals(struct dev *d)
{
	enum { N = 100000 };
	float *x = xcalloc(N, sizeof *x);
	struct buf path = BUF_INIT;
	double norm;

	buf_addf(&path, "%s/c", dir);
	for (int i = 0; i < N; i++)
		x[i] = (float)i;
	CHECK(container_write(d, "none", x, NULL, N, path.data, NULL) == 0);
	CHECK(container_check(d, path.data, "none", N, &norm, NULL) == 0);
	CHECK_FAILS(EX_DATAERR, container_check(d, path.data, "q4", N, &norm, NULL));
	CHECK_FAILS(EX_DATAERR,
		container_check(d, path.data, "none", N - 1, &norm, NULL));
	CHECK_FAILS(EX_DATAERR,
		container_check(d, path.data, "none", N + 1, &norm, NULL));
	spoil(path.data, 5000, false);
	CHECK_FAILS(EX_DATAERR, container_check(d, path.data, "none", N, &norm, NULL));
	spoil(path.data, 5000, false);
	CHECK(container_check(d, path.data, "none", N, &norm, NULL) == 0);
	spoil(path.data, 300000, true);
	CHECK_FAILS(EX_DATAERR, container_check(d, path.data, "none", N, &norm, NULL));
	x[77] = NAN;
	CHECK(container_write(d, "none", x, NULL, N, path.data, NULL) == 0);
	CHECK_FAILS(EX_DATAERR, container_check(d, path.data, "none", N, &norm, NULL));
	x[77] = INFINITY;
	CHECK(container_write(d, "none", x, NULL, N, path.data, NULL) == 0);
	CHECK_FAILS(EX_DATAERR, container_check(d, path.data, "none", N, &norm, NULL));
	unlink(path.data);
	buf_release(&path);
	free(x);
}

static int keep_b(void *ctx, const char *name)
{
	(void)ctx;
	return strcmp(name, "b") == 0;
}

static void arrays(void)
{
	struct flatfile a = FLATFILE_INIT, b = FLATFILE_INIT;
	unsigned char one[32], two[32];

	CHECK(flatfile_make(&a, dir, "a", 1000) == 0);
	a.x[999] = 3;
	CHECK_FAILS(EX_NOINPUT, flatfile_open(&b, dir, "a", 1000));
	flatfile_close(&b);
	CHECK(flatfile_keep(&a) == 0);
	flatfile_hash(a.x, 1000, one);
	flatfile_close(&a);
	CHECK(flatfile_open(&a, dir, "a", 1000) == 0 && a.x[999] == 3 && a.x[0] == 0);
	flatfile_hash(a.x, 1000, two);
	CHECK(memcmp(one, two, 32) == 0);
	flatfile_close(&a);
	CHECK_FAILS(EX_DATAERR, flatfile_open(&a, dir, "a", 999));
	flatfile_close(&a);
	/* what was not kept is gone; more than the disk has is an error, not a signal */
	CHECK(flatfile_make(&a, dir, "b", 10) == 0);
	flatfile_close(&a);
	CHECK_FAILS(EX_NOINPUT, flatfile_open(&a, dir, "b", 10));
	flatfile_close(&a);
	CHECK_FAILS(EX_IOERR, flatfile_make(&a, dir, "huge", UINT64_C(1) << 55));
	flatfile_close(&a);
	/* of several pieces, the last of them shorter */
	CHECK(flatfile_make(&a, dir, "a", 200001) == 0);
	memset(one, 0, sizeof one);
	for (uint64_t i = 0; i < a.n; i += 25000)
		CHECK(memcmp(a.x + i, one, sizeof *a.x) == 0);
	a.x[200000] = 1;
	CHECK(flatfile_keep(&a) == 0);
	flatfile_close(&a);
	CHECK(flatfile_open(&a, dir, "a", 200001) == 0 && a.x[200000] == 1);
	flatfile_close(&a);
	CHECK(flatfile_make(&b, dir, "b", 10) == 0 && flatfile_keep(&b) == 0);
	flatfile_close(&b);
	flatfile_sweep(dir, keep_b, NULL);
	CHECK(flatfile_open(&b, dir, "b", 10) == 0);
	flatfile_close(&b);
	CHECK_FAILS(EX_NOINPUT, flatfile_open(&a, dir, "a", 200001));
	flatfile_close(&a);
	flatfile_sweep(dir, keep_b, NULL);
}

/* Seconds that a worker says count up to the time that its turn lasted. */
static void busy(void)
{
	struct turn t = { .assigned_ms = 1000, .delivered_ms = 3500, .seconds = 2 };

	CHECK_I64(2000, turn_busy_ms(&t));
	t.seconds = 3;
	CHECK_I64(2500, turn_busy_ms(&t));
	t.seconds = INT64_MAX;
	CHECK_I64(2500, turn_busy_ms(&t));
	t.delivered_ms = 500;
	CHECK_I64(0, turn_busy_ms(&t));
}

/* How far AdamW moves a parameter in so many steps whose gradients are 1, behind many that were
 * 0. */
static double moved(double b1, double b2, double lr, int steps)
{
	double m = 0, v = 0, sum = 0;

	for (int i = 1; i <= 2000 + steps; i++) {
		double g = i > 2000;

		m = b1 * m + (1 - b1) * g;
		v = b2 * v + (1 - b2) * g * g;
		if (v > 0)
			sum += lr * (m / (1 - pow(b1, i))) / sqrt(v / (1 - pow(b2, i)));
	}
	return sum;
}

static void norms(void)
{
	struct training t = a_run();

	CHECK(fabs(training_norm_max(&t, 10000) /
			      (100 * 4e-4 * 50 * 100 * 0.1 /
				      sqrt(0.05 * (1 - 0.81 / 0.95))) -
		      1) < 1e-12);
	for (int i = 0; i < 3; i++) {
		static const int64_t b1[] = { 900000, 900000, 0 };
		static const int64_t b2[] = { 950000, 999000, 999900 };
		double far;

		t.beta1_ppm = b1[i];
		t.beta2_ppm = b2[i];
		far = moved((double)b1[i] / 1e6, (double)b2[i] / 1e6, 4e-4, 50);
		CHECK(far <= training_norm_max(&t, 1) / 100);
		CHECK(far > training_norm_max(&t, 1) / 1000); /* it is not just large */
	}
}

int main(void)
{
	struct dev d = DEV_INIT, emulated = DEV_INIT;
	char path[100];

	if (sodium_init() < 0 || !mkdtemp(dir) || key_generate(&key) < 0 ||
		device_open(&d, "cpu") < 0)
		return 1;
	runs();
	check_pieces();
	check_rounds_below();
	busy();
	assignments();
	numbers();
	norms();
	sizes(&d);
	filled(&d, &d);
	if (open_emulation(&emulated) == 0)
		filled(&d, &emulated);
	else
		fprintf(stderr, "SKIP %s\n", emulated.error);
	dev_close(&emulated);
	refusals(&d);
	arrays();
	dev_close(&d);
	key_release(&key);
	snprintf(path, sizeof path, "%s/b", dir);
	unlink(path);
	rmdir(dir);
	TEST_END();
}
