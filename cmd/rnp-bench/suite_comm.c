/* suite_comm - messages there and back and sums of two ranks, over sizes and backends.
 *
 * All backends are measured in turn, size by size and round after round, so that the noise of a
 * minute is the same for all; mpi has processes of its own (suite_comm_mpi.c), whose waiting burns a
 * core, and is measured after the others. Each round gives a line of its own, from which the
 * interval of latency and bandwidth comes. */
#include "cmd/rnp-bench/suite_comm.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/rnp-bench/fit.h"
#include "common/bench.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/json.h"
#include "common/mem.h"
#include "common/prog.h"
#include "common/stats.h"

#define ROUNDS_MAX      25
#define ROUNDS_WANTED   6 /* for an interval of 95% */
#define BUDGET_TESTS    6 /* times what one test may take */
#define SAMPLE_NS       2000000
#define SAMPLE_QUICK_NS 500000
#define REPS_MAX        1000
#define COMM_QUICK_MAX  ((size_t)16 << 20)
#define LONGEST_NS      INT64_C(2000000000) /* of one message; larger ones are left out */

static const char *const op_names[COMM_OPS] = { "pingpong", "allreduce" };

/* --- measuring ----------------------------------------------------------------------------- */

/* One operation of one backend at one size. */
struct point {
	double ns[ROUNDS_MAX];
	uint32_t reps; /* 0: too long to be measured */
};

struct course {
	const struct settings *settings;
	suite_emit emit;
	void *ctx;
	const char *device;
	size_t bytes[COMM_SIZES_MAX];
	double sizes[COMM_SIZES_MAX];
	int nsizes, rounds;
	struct point points[COMM_BACKENDS][COMM_OPS][COMM_SIZES_MAX];
	struct figure curves[COMM_OPS][COMM_BACKENDS * COMM_SIZES_MAX];
};

static double per_op(enum comm_op op, int64_t ns, uint32_t reps)
{
	/* one way, as everybody tells the latency of a ping-pong */
	return (double)ns / reps / (op == COMM_PINGPONG ? 2 : 1);
}

/* The sum is right, and how many repetitions make a sample. */
static int warm_up(struct course *c, struct backend *b, int k)
{
	int64_t want_ns = c->settings->quick ? SAMPLE_QUICK_NS : SAMPLE_NS;
	bool too_long[COMM_OPS] = { false };

	for (int i = 0; i < c->nsizes && c->bytes[i] <= b->bytes_max; i++) {
		if (!too_long[COMM_ALLREDUCE] && b->check(b, c->bytes[i]) < 0)
			return -1;
		for (int op = 0; op < COMM_OPS; op++) {
			int64_t ns, reps;

			if (too_long[op])
				continue;
			if (b->work(b, (enum comm_op)op, c->bytes[i], 1, &ns) < 0)
				return -1;
			/* the next size takes up to four times as long */
			too_long[op] = ns > LONGEST_NS / 4;
			reps = want_ns / (ns > 0 ? ns : 1) + 1;
			c->points[k][op][i].reps = (uint32_t)(reps < REPS_MAX ? reps :
										REPS_MAX);
		}
	}
	return 0;
}

static int measure_point(struct course *c, int k, int op, int i)
{
	struct point *p = &c->points[k][op][i];
	int64_t ns;

	if (!comm_backends[k].opened || !p->reps)
		return 0;
	if (comm_backends[k].work(&comm_backends[k], (enum comm_op)op, c->bytes[i],
		    p->reps, &ns) < 0)
		return err_add("%s, %zu bytes", comm_backends[k].name, c->bytes[i]);
	p->ns[c->rounds] = per_op((enum comm_op)op, ns > 0 ? ns : 1, p->reps);
	return 0;
}

static int measure_round(struct course *c)
{
	for (int i = 0; i < c->nsizes; i++)
		for (int op = 0; op < COMM_OPS; op++)
			for (size_t k = 0; k < COMM_BACKENDS; k++)
				if (measure_point(c, (int)k, op, i) < 0)
					return -1;
	c->rounds++;
	return 0;
}

static int measure_rounds(struct course *c)
{
	int64_t budget_ns = c->settings->time_ms * 1000000 * BUDGET_TESTS;
	int64_t from = clock_mono_ns(), spent = 0;

	for (size_t k = 0; k < COMM_BACKENDS; k++)
		if (comm_backends[k].opened && warm_up(c, &comm_backends[k], (int)k) < 0)
			return err_add("%s", comm_backends[k].name);
	do {
		if (measure_round(c) < 0)
			return -1;
		spent = clock_mono_ns() - from;
	} while (c->rounds < ROUNDS_MAX &&
		(spent < budget_ns ||
			(c->rounds < ROUNDS_WANTED && spent < budget_ns / 2 * 3)));
	return 0;
}

/* --- records ------------------------------------------------------------------------------- */

static int emit(struct course *c, const struct backend *b, const char *test,
	const char *unit, const struct stats *s, size_t bytes, double worst)
{
	json_t *record = bench_record("comm", test, c->device, unit, s);
	json_t *params = bench_params(record);

	json_set_text(params, "backend", b->name);
	if (bytes)
		json_set_i64(params, "bytes", (int64_t)bytes);
	json_set_i64(params, "ranks", b->orders.ops ? b->orders.size : 2);
	json_set_bool(params, "local", b->local);
	if (worst >= 0)
		json_set_i64(params, "worst_ppm", llround(worst * 1e6));
	return c->emit(c->ctx, record);
}

static int emit_points(struct course *c, int k, int op)
{
	for (int i = 0; i < c->nsizes; i++) {
		struct point *p = &c->points[k][op][i];
		struct stats s;

		if (!p->reps)
			continue;
		stats_of(p->ns, (size_t)c->rounds, &s);
		c->curves[op][k * c->nsizes + i] = (struct figure){ llround(s.median),
			(int64_t)s.low, (int64_t)ceil(s.high) };
		if (emit(c, &comm_backends[k], op_names[op], "ns", &s, c->bytes[i], -1) <
			0)
			return -1;
	}
	return 0;
}

/* A line through each round. */
static int emit_fit(struct course *c, int k, int op)
{
	double latency[ROUNDS_MAX], bandwidth[ROUNDS_MAX], ns[COMM_SIZES_MAX], worst = 0;
	struct stats s;
	char name[40];
	size_t n = 0;

	for (int r = 0; r < c->rounds; r++) {
		struct fit f;
		size_t sizes = 0;

		for (int i = 0; i < c->nsizes && c->points[k][op][i].reps; i++)
			ns[sizes++] = c->points[k][op][i].ns[r];
		if (!fit_line(c->sizes, ns, sizes, &f))
			continue;
		latency[n] = f.latency_ns;
		bandwidth[n] = 1e9 / f.per_byte_ns;
		worst = fmax(worst, f.worst);
		n++;
	}
	if (!n)
		return 0;
	stats_of(latency, n, &s);
	snprintf(name, sizeof name, "%s_latency", op_names[op]);
	if (emit(c, &comm_backends[k], name, "ns", &s, 0, worst) < 0)
		return -1;
	stats_of(bandwidth, n, &s);
	snprintf(name, sizeof name, "%s_bandwidth", op_names[op]);
	return emit(c, &comm_backends[k], name, "B/s", &s, 0, worst);
}

static int emit_crossings(struct course *c, int op)
{
	struct crossing crossings[COMM_SIZES_MAX];
	size_t n = fit_crossings(c->curves[op], COMM_BACKENDS, c->sizes,
		(size_t)c->nsizes, crossings);
	char name[40];

	snprintf(name, sizeof name, "%s_crossover", op_names[op]);
	for (size_t i = 0; i < n; i++) {
		const struct crossing *x = &crossings[i];
		struct stats s = { x->bytes, x->low, x->high, (size_t)c->rounds,
			STATS_COVERAGE_PPM };
		json_t *record = bench_record("comm", name, c->device, "B", &s);
		json_t *params = bench_params(record);

		json_set_text(params, "backend", comm_backends[x->winner].name);
		if (x->loser >= 0)
			json_set_text(params, "over", comm_backends[x->loser].name);
		json_set_bool(params, "local", !c->settings->peer);
		if (c->emit(c->ctx, record) < 0)
			return -1;
	}
	return 0;
}

/* A record of the mpi job: passed on, and its points kept for the crossovers. */
static int take_mpi(void *ctx, json_t *record)
{
	struct course *c = ctx;
	const char *test = json_string_value(json_object_get(record, "test"));
	json_t *params = bench_params(record);
	int64_t bytes = json_integer_value(json_object_get(params, "bytes"));

	for (int op = 0; op < COMM_OPS; op++)
		for (int i = 0; i < c->nsizes; i++)
			if (strcmp(test, op_names[op]) == 0 &&
				bytes == (int64_t)c->bytes[i])
				c->curves[op][COMM_MPI * c->nsizes + i] = (struct figure){
					json_integer_value(
						json_object_get(record, "median")),
					json_integer_value(
						json_object_get(record, "low")),
					json_integer_value(
						json_object_get(record, "high"))
				};
	if (!c->rounds)
		c->rounds = (int)json_integer_value(json_object_get(record, "samples"));
	json_set_bool(params, "local", true);
	return c->emit(c->ctx, record);
}

/* --- the course ---------------------------------------------------------------------------- */

static bool named(const struct settings *s, const char *name)
{
	for (int i = 0; s->backends && i < s->backends->n; i++)
		if (strcmp(s->backends->items[i], name) == 0)
			return true;
	return false;
}

/* Asked for by name, or one of those that are tried when none is. */
static bool wanted(const struct settings *s, int k)
{
	if (s->backends && s->backends->n)
		return named(s, comm_backends[k].name);
	return comm_mpi_started() ? k == COMM_MPI : !(s->peer && k == COMM_MPI);
}

static int check_names(const struct settings *s)
{
	for (int i = 0; s->backends && i < s->backends->n; i++) {
		bool known = false;

		for (size_t k = 0; k < COMM_BACKENDS; k++)
			known = known ||
				strcmp(s->backends->items[i], comm_backends[k].name) == 0;
		if (!known)
			return err_set(EX_USAGE,
				"--backend: '%.40s' is not http, tcp, mpi or nccl",
				s->backends->items[i]);
	}
	return 0;
}

/* What nobody asked for by name and is not here is left out. */
static int passed_over(const struct settings *s, const char *name)
{
	if (named(s, name) || err_get()->code != EX_UNAVAILABLE)
		return -1;
	prog_detail("comm: %s is left out: %s", name, err_get()->text);
	err_clear();
	return 0;
}

static int open_backends(struct course *c, struct peer *peer)
{
	for (size_t k = 0; k < COMM_BACKENDS; k++) {
		struct backend *b = &comm_backends[k];

		b->peer = peer;
		b->bytes_max = k == COMM_MPI ? PEER_BYTES_MAX : peer->bytes_max;
		b->local = k != COMM_MPI && !c->settings->peer;
		b->opened = false;
		if (!wanted(c->settings, (int)k) ||
			(k == COMM_MPI && !comm_mpi_started()))
			continue;
		b->opened = b->open(b) == 0;
		if (!b->opened && passed_over(c->settings, b->name) < 0)
			return -1;
	}
	return 0;
}

static void close_backends(void)
{
	for (size_t k = 0; k < COMM_BACKENDS; k++)
		if (comm_backends[k].opened) {
			comm_backends[k].close(&comm_backends[k]);
			comm_backends[k].opened = false;
		}
}

static int measure_backends(struct course *c, struct peer *peer)
{
	int rc = open_backends(c, peer);
	bool any = false;

	for (size_t k = 0; k < COMM_BACKENDS; k++)
		any = any || comm_backends[k].opened;
	if (rc == 0 && any)
		rc = measure_rounds(c);
	for (size_t k = 0; k < COMM_BACKENDS; k++)
		for (int op = 0; rc == 0 && comm_backends[k].opened && op < COMM_OPS;
			op++) {
			rc = emit_points(c, (int)k, op);
			if (rc == 0)
				rc = emit_fit(c, (int)k, op);
		}
	close_backends();
	return rc;
}

/* http, tcp and nccl need somebody on the other side: the peer that was named, or a child. */
static int with_peer(struct course *c)
{
	struct peer peer = PEER_INIT;
	struct peer_child child = { 0 };
	char url[NET_HOST_MAX];
	const char *at = c->settings->peer;
	int rc = 0;

	if (!at) {
		rc = peer_child_start(&child, url);
		at = url;
	}
	if (rc == 0)
		rc = peer_open(&peer, at);
	if (rc == 0)
		rc = measure_backends(c, &peer);
	peer_close(&peer);
	peer_child_stop(&child);
	return rc;
}

/* We are a rank of an MPI job: the first measures, the others help. */
static int within_mpi(struct course *c)
{
	struct peer nobody = { .bytes_max = PEER_BYTES_MAX };
	struct comm all = COMM_INIT;
	const char *rank = getenv("OMPI_COMM_WORLD_RANK");
	int rc;

	if (!rank)
		rank = getenv("PMI_RANK");
	if (!rank)
		rank = getenv("PMIX_RANK");
	if (!rank || strcmp(rank, "0") == 0)
		return measure_backends(c, &nobody);
	rc = comm_mpi_open(&all);
	if (rc == 0)
		rc = peer_follow(&all, &all);
	comm_close(&all);
	return rc;
}

static void choose_sizes(struct course *c)
{
	size_t step = c->settings->quick ? 4 : 2;
	size_t max = c->settings->quick ? COMM_QUICK_MAX : PEER_BYTES_MAX;

	for (size_t n = COMM_BYTES_MIN; n <= max; n *= step) {
		c->bytes[c->nsizes] = n;
		c->sizes[c->nsizes++] = (double)n;
	}
}

static int run_course(struct course *c)
{
	const struct settings *s = c->settings;
	int rc = 0;

	if (comm_mpi_started() && wanted(s, COMM_MPI))
		return within_mpi(c);
	if (wanted(s, COMM_HTTP) || wanted(s, COMM_TCP) || wanted(s, COMM_NCCL))
		rc = with_peer(c);
	if (rc == 0 && wanted(s, COMM_MPI)) {
		rc = suite_comm_mpi(s, take_mpi, c);
		if (rc < 0)
			rc = passed_over(s, "mpi");
	}
	for (int op = 0; rc == 0 && op < COMM_OPS; op++)
		rc = emit_crossings(c, op);
	return rc;
}

static int run(const struct settings *s, suite_emit emit_record, void *ctx)
{
	struct course *c = xcalloc(1, sizeof *c);
	int rc;

	c->settings = s;
	c->emit = emit_record;
	c->ctx = ctx;
	c->device = s->peer ? s->peer : suite_cpu_model();
	if (!*c->device)
		c->device = "this machine";
	choose_sizes(c);
	rc = check_names(s);
	if (rc == 0)
		rc = run_course(c);
	free(c);
	return rc;
}

static const struct test tests[] = {
	{ .name = "pingpong",
		.unit = "ns",
		.summary = "a message of 1 KiB to 64 MiB there and back, one way of it" },
	{ .name = "pingpong_latency",
		.unit = "ns",
		.summary = "of the line through these times" },
	{ .name = "pingpong_bandwidth", .unit = "B/s", .summary = "the same" },
	{ .name = "pingpong_crossover",
		.unit = "B",
		.summary = "from this size on a backend wins" },
	{ .name = "allreduce",
		.unit = "ns",
		.summary = "the sum of two vectors of f32 of 1 KiB to 64 MiB" },
	{ .name = "allreduce_latency",
		.unit = "ns",
		.summary = "of the line through these times" },
	{ .name = "allreduce_bandwidth", .unit = "B/s", .summary = "the same" },
	{ .name = "allreduce_crossover",
		.unit = "B",
		.summary = "from this size on a backend wins" },
	{ 0 },
};

const struct suite suite_comm = { "comm", tests, suite_cpu_model, NULL, NULL, run };
