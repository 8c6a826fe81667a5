/* comm.c - measures ping-pongs and sums of two ranks, over sizes and backends.
 *
 * All backends are measured in turn, size by size and round after round, so that they share the
 * noise of a minute. mpi has processes of its own (comm_mpi.c), which burn a core while
 * they wait, and is measured after the others. That is one segment; the next one follows much
 * later in the run with new connections and processes, because their placement makes more of a
 * difference than a round. So the median of a segment's rounds is one sample, and each segment
 * has one line through its sizes, from which latency and bandwidth follow. */
#include "cmd/rnp-bench/suites/comm.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/rnp-bench/suites/line_fit.h"
#include "common/record/bench.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/json/json.h"
#include "common/base/mem.h"
#include "common/cli/prog.h"
#include "common/base/stats.h"

#define ROUNDS_MAX      25 /* of a segment */
#define BUDGET_TESTS    6 /* the course takes the time of so many tests, over all segments */
#define BUDGET_QUICK    2
#define SAMPLE_NS       2000000
#define SAMPLE_QUICK_NS 500000
#define REPS_MAX        1000
#define COMM_QUICK_MAX  ((size_t)16 << 20)
#define LONGEST_NS      INT64_C(2000000000) /* sizes whose messages take longer are skipped */

static const char *const op_names[COMM_OPS] = { "pingpong", "allreduce" };

/* --- measuring ----------------------------------------------------------------------------- */

/* One operation of one backend at one size. */
struct point {
	double ns[SUITE_SEGMENTS]; /* a sample each; 0: none */
	double rounds[ROUNDS_MAX]; /* of this segment */
	uint32_t reps;             /* 0: too long to be measured */
};

/* State that outlives the connections of a segment. */
struct side {
	int segments, ranks;
	bool local, out; /* out: not available */
	struct point points[COMM_OPS][COMM_SIZES_MAX];
};

static struct workload {
	const struct settings *settings;
	const char *device;
	size_t bytes[COMM_SIZES_MAX];
	double sizes[COMM_SIZES_MAX];
	int nsizes, rounds;
	struct side sides[COMM_BACKENDS];
	struct figure curves[COMM_OPS][COMM_BACKENDS * COMM_SIZES_MAX];
} * workload;

static double per_op(enum comm_op op, int64_t ns, uint32_t reps)
{
	/* one way, as the latency of a ping-pong is usually stated */
	return (double)ns / reps / (op == COMM_PINGPONG ? 2 : 1);
}

/* First time: checks the sum, and determines how many repetitions make a sample. */
static int try_out(struct workload *c, struct backend *b, struct side *side)
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
			side->points[op][i].reps = (uint32_t)(reps < REPS_MAX ? reps :
										REPS_MAX);
		}
	}
	return 0;
}

/* Opens new connections, whose buffers have not been touched. */
static int warm_up(struct workload *c, struct backend *b, struct side *side)
{
	int64_t ns;

	if (!side->segments)
		return try_out(c, b, side);
	for (int op = 0; op < COMM_OPS; op++)
		for (int i = 0; i < c->nsizes && side->points[op][i].reps; i++)
			if (b->work(b, (enum comm_op)op, c->bytes[i], 1, &ns) < 0)
				return -1;
	return 0;
}

static int measure_point(struct workload *c, int k, int op, int i)
{
	struct point *p = &c->sides[k].points[op][i];
	int64_t ns;

	if (!comm_backends[k].opened || !p->reps)
		return 0;
	if (comm_backends[k].work(&comm_backends[k], (enum comm_op)op, c->bytes[i],
		    p->reps, &ns) < 0)
		return err_add("%s, %zu bytes", comm_backends[k].name, c->bytes[i]);
	p->rounds[c->rounds] = per_op((enum comm_op)op, ns > 0 ? ns : 1, p->reps);
	return 0;
}

static int measure_round(struct workload *c)
{
	for (int i = 0; i < c->nsizes; i++)
		for (int op = 0; op < COMM_OPS; op++)
			for (size_t k = 0; k < COMM_BACKENDS; k++)
				if (measure_point(c, (int)k, op, i) < 0)
					return -1;
	c->rounds++;
	return 0;
}

/* Takes a sample of each point. */
static void keep_rounds(struct workload *c, struct side *side)
{
	for (int op = 0; op < COMM_OPS; op++)
		for (int i = 0; i < c->nsizes; i++) {
			struct point *p = &side->points[op][i];
			struct stats s;

			if (!p->reps)
				continue;
			stats_of(p->rounds, (size_t)c->rounds, &s);
			p->ns[side->segments] = s.median;
		}
	side->segments++;
}

/* Measures everything that is open, for a segment's time. */
static int measure_rounds(struct workload *c)
{
	int tests = c->settings->quick ? BUDGET_QUICK : BUDGET_TESTS;
	int64_t budget_ns = c->settings->time_ms * 1000000 * tests / SUITE_SEGMENTS;
	int64_t from = clock_mono_ns();

	c->rounds = 0;
	do {
		if (measure_round(c) < 0)
			return -1;
	} while (c->rounds < ROUNDS_MAX && clock_mono_ns() - from < budget_ns);
	for (size_t k = 0; k < COMM_BACKENDS; k++)
		if (comm_backends[k].opened)
			keep_rounds(c, &c->sides[k]);
	return 0;
}

/* --- records ------------------------------------------------------------------------------- */

/* Function that receives the records. */
struct teller {
	const struct workload *c;
	suite_emit emit;
	void *ctx;
};

static const char *this_machine(void)
{
	const char *model = suite_cpu_model();

	return *model ? model : "this machine";
}

static int emit(const struct teller *to, int k, const char *test, const char *unit,
	const struct stats *s, size_t bytes, double worst)
{
	const struct side *side = &to->c->sides[k];
	/* mpi is on this machine, whatever peer was named */
	const char *device = k == COMM_MPI ? this_machine() : to->c->device;
	json_t *record = bench_record("comm", test, device, unit, s);
	json_t *params = bench_params(record);

	json_set_text(params, "backend", comm_backends[k].name);
	if (bytes)
		json_set_i64(params, "bytes", (int64_t)bytes);
	json_set_i64(params, "ranks", side->ranks);
	json_set_bool(params, "local", side->local);
	if (worst >= 0)
		json_set_i64(params, "worst_ppm", llround(worst * 1e6));
	return to->emit(to->ctx, record);
}

static int emit_points(const struct teller *to, struct figure *curve, int k, int op)
{
	const struct workload *c = to->c;

	for (int i = 0; i < c->nsizes; i++) {
		const struct point *p = &c->sides[k].points[op][i];
		double ns[SUITE_SEGMENTS];
		struct stats s;
		size_t n = 0;

		for (int r = 0; r < c->sides[k].segments; r++)
			if (p->ns[r] > 0)
				ns[n++] = p->ns[r];
		if (!n)
			continue;
		stats_of(ns, n, &s);
		curve[k * c->nsizes + i] = (struct figure){ llround(s.median),
			(int64_t)s.low, (int64_t)ceil(s.high) };
		if (emit(to, k, op_names[op], "ns", &s, c->bytes[i], -1) < 0)
			return -1;
	}
	return 0;
}

/* Fits the line through a segment's times. Returns false when there is none. */
static bool fit_segment(const struct workload *c, int k, int op, int segment,
	struct fit *f)
{
	double ns[COMM_SIZES_MAX], sizes[COMM_SIZES_MAX];
	size_t n = 0;

	for (int i = 0; i < c->nsizes; i++) {
		double t = c->sides[k].points[op][i].ns[segment];

		if (t > 0) {
			sizes[n] = c->sizes[i];
			ns[n++] = t;
		}
	}
	return fit_line(sizes, ns, n, f);
}

static int emit_fit(const struct teller *to, int k, int op)
{
	double latency[SUITE_SEGMENTS], bandwidth[SUITE_SEGMENTS], worst = 0;
	struct stats s;
	char name[40];
	size_t n = 0;

	for (int r = 0; r < to->c->sides[k].segments; r++) {
		struct fit f;

		if (!fit_segment(to->c, k, op, r, &f))
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
	if (emit(to, k, name, "ns", &s, 0, worst) < 0)
		return -1;
	stats_of(bandwidth, n, &s);
	snprintf(name, sizeof name, "%s_bandwidth", op_names[op]);
	return emit(to, k, name, "B/s", &s, 0, worst);
}

static int emit_crossings(const struct teller *to, int op)
{
	const struct workload *c = to->c;
	struct crossing crossings[COMM_SIZES_MAX];
	size_t n = fit_crossings(c->curves[op], COMM_BACKENDS, c->sizes,
		(size_t)c->nsizes, crossings);
	char name[40];

	snprintf(name, sizeof name, "%s_crossover", op_names[op]);
	for (size_t i = 0; i < n; i++) {
		const struct crossing *x = &crossings[i];
		struct stats s = { .median = x->bytes, .low = x->low, .high = x->high };
		json_t *record, *params;

		s.n = (size_t)c->sides[x->winner].segments;
		stats_rank(s.n, &s.coverage_ppm);
		record = bench_record("comm", name, c->device, "B", &s);
		params = bench_params(record);
		json_set_text(params, "backend", comm_backends[x->winner].name);
		if (x->loser >= 0)
			json_set_text(params, "over", comm_backends[x->loser].name);
		json_set_bool(params, "local", !c->settings->peer);
		if (to->emit(to->ctx, record) < 0)
			return -1;
	}
	return 0;
}

static int tell(void *state, suite_emit emit_record, void *ctx)
{
	static const int order[COMM_BACKENDS] = { COMM_HTTP, COMM_TCP, COMM_NCCL,
		COMM_MPI };
	const struct teller to = { workload, emit_record, ctx };
	bool measured = false;

	(void)state;
	if (!workload)
		return 0;
	for (size_t k = 0; k < COMM_BACKENDS; k++)
		measured = measured || workload->sides[k].segments;
	for (size_t k = 0; k < COMM_BACKENDS; k++)
		for (int op = 0; op < COMM_OPS; op++)
			if (emit_points(&to, workload->curves[op], order[k], op) < 0 ||
				emit_fit(&to, order[k], op) < 0)
				return -1;
	/* the job measures one backend, and only its first rank prints */
	for (int op = 0; op < COMM_OPS && measured && !comm_mpi_started(); op++)
		if (emit_crossings(&to, op) < 0)
			return -1;
	return 0;
}

/* Reads a record of the mpi job: its median is a sample of this segment. */
static int take_mpi(void *ctx, json_t *record)
{
	struct workload *c = ctx;
	struct side *side = &c->sides[COMM_MPI];
	const char *test = json_string_value(json_object_get(record, "test"));
	json_t *params = bench_params(record);
	int64_t bytes = json_integer_value(json_object_get(params, "bytes"));

	for (int op = 0; op < COMM_OPS; op++)
		for (int i = 0; i < c->nsizes; i++)
			if (strcmp(test, op_names[op]) == 0 &&
				bytes == (int64_t)c->bytes[i])
				side->points[op][i].ns[side->segments] =
					json_number_value(
						json_object_get(record, "median"));
	side->ranks = (int)json_integer_value(json_object_get(params, "ranks"));
	side->local = true;
	json_decref(record);
	return 0;
}

/* --- the course ---------------------------------------------------------------------------- */

static bool named(const struct settings *s, const char *name)
{
	for (int i = 0; s->backends && i < s->backends->n; i++)
		if (strcmp(s->backends->items[i], name) == 0)
			return true;
	return false;
}

/* Whether the backend was named, or is one of those that are tried if none is. */
static bool wanted(const struct settings *s, int k)
{
	if (workload->sides[k].out)
		return false;
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

/* Skips, from then on, a backend that nobody named and that is not available. */
static int passed_over(const struct settings *s, int k)
{
	const char *name = comm_backends[k].name;

	workload->sides[k].out = true;
	if (named(s, name) || err_get()->code != EX_UNAVAILABLE)
		return -1;
	prog_detail("comm: %s is left out: %s", name, err_get()->text);
	err_clear();
	return 0;
}

static int open_backends(struct workload *c, struct peer *peer)
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
		if (!b->opened && passed_over(c->settings, (int)k) < 0)
			return -1;
		c->sides[k].local = b->local;
		c->sides[k].ranks = b->orders.ops ? b->orders.size : 2;
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

/* Runs n segments while the connections are open. */
static int measure_backends(struct workload *c, struct peer *peer, int n)
{
	int rc = open_backends(c, peer);
	bool any = false;

	for (size_t k = 0; rc == 0 && k < COMM_BACKENDS; k++) {
		struct backend *b = &comm_backends[k];

		any = any || b->opened;
		if (b->opened && warm_up(c, b, &c->sides[k]) < 0)
			rc = err_add("%s", b->name);
	}
	for (int i = 0; rc == 0 && any && i < n; i++)
		rc = measure_rounds(c);
	close_backends();
	return rc;
}

/* http, tcp and nccl need a process on the other side: the named peer, or a child. */
static int with_peer(struct workload *c)
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
		rc = measure_backends(c, &peer, 1);
	peer_close(&peer);
	peer_child_stop(&child);
	return rc;
}

/* This process is a rank of an MPI job: the first rank measures, the others help. A job starts
 * and ends once, so all segments run in the first one. */
static int within_mpi(struct workload *c)
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
		return measure_backends(c, &nobody, SUITE_SEGMENTS);
	rc = comm_mpi_open(&all);
	if (rc == 0)
		rc = peer_follow(&all, &all);
	comm_close(&all);
	return rc;
}

static void choose_sizes(struct workload *c)
{
	size_t step = c->settings->quick ? 4 : 2;
	size_t max = c->settings->quick ? COMM_QUICK_MAX : PEER_BYTES_MAX;

	for (size_t n = COMM_BYTES_MIN; n <= max; n *= step) {
		c->bytes[c->nsizes] = n;
		c->sizes[c->nsizes++] = (double)n;
	}
}

static int run_segment(struct workload *c)
{
	const struct settings *s = c->settings;
	int rc = 0;

	if (wanted(s, COMM_HTTP) || wanted(s, COMM_TCP) || wanted(s, COMM_NCCL))
		rc = with_peer(c);
	if (rc == 0 && wanted(s, COMM_MPI)) {
		rc = suite_comm_mpi(s, take_mpi, c);
		if (rc == 0)
			c->sides[COMM_MPI].segments++;
		else
			rc = passed_over(s, COMM_MPI);
	}
	return rc;
}

static int segment(void *state, const struct settings *s)
{
	bool first = !workload;

	(void)state;
	if (first) {
		workload = xcalloc(1, sizeof *workload);
		workload->settings = s;
		workload->device = s->peer ? s->peer : this_machine();
		choose_sizes(workload);
		if (check_names(s) < 0)
			return -1;
	}
	if (comm_mpi_started() && wanted(s, COMM_MPI))
		return first ? within_mpi(workload) : 0;
	return run_segment(workload);
}

static void release(void *state)
{
	(void)state;
	free(workload);
	workload = NULL;
}

static const struct suite_workload functions = { segment, NULL, tell, release, NULL };

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

const struct suite suite_comm = { "comm", tests, suite_cpu_model, NULL, NULL,
	&functions };
