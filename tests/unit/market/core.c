/* core.c - matching: random clusters against plain versions of the same rules. */
#include "common/market/core.h"

#include <math.h>
#include <string.h>

#include "common/base/rng.h"
#include "tests/unit/test.h"

#define NODES 12
#define JOBS  40
#define HOUR  INT64_C(3600000)

static const char *const models[] = { "RTX 4090", "H100 SXM" };
static const char *const places[] = { "US", "DE", "FR" };
static const char *const owners[] = { "alice", "bob", NULL };

static struct match_node nodes[NODES];
static struct match_job jobs[JOBS];

static void draw_nodes(struct rng *r, int gpus_max)
{
	for (int i = 0; i < NODES; i++)
		nodes[i] = (struct match_node){ .id = "n",
			.model = models[rng_below(r, 2)],
			.country = places[rng_below(r, 3)],
			.gpu_memory_bytes = (int64_t)(1 + rng_below(r, 2)) << 34,
			.uusd = (int64_t)(100000 + rng_below(r, 20) * 10000),
			.reputation_ppm = (int64_t)rng_below(r, 1000001),
			.uptime_ppm = 1000000,
			.compliance = (uint32_t)rng_below(r, 4),
			.spot = rng_below(r, 4) == 0,
			.gpus = 1 << rng_below(r, gpus_max == 16 ? 5 : 4) };
}

static void draw_jobs(struct rng *r)
{
	int64_t at = 0;

	for (int i = 0; i < JOBS; i++) {
		struct match_job *j = &jobs[i];

		at += rng_below(r, 3) ? 0 : (int64_t)rng_below(r, 3) * HOUR;
		*j = (struct match_job){ .id = "j",
			.owner = owners[rng_below(r, 3)],
			.at_ms = at,
			.length_ms = (int64_t)(1 + rng_below(r, 5)) * HOUR,
			.limit_uusd = MATCH_NO_LIMIT,
			.gpus = 1 << rng_below(r, 4),
			.milli = MATCH_MILLI,
			.nodes_max = 1 + (int)rng_below(r, 2),
			.spot = rng_below(r, 2),
			.render = rng_below(r, 3) == 0,
			.share_ppm = 1000000 };
		if (rng_below(r, 2))
			j->limit_uusd = (int64_t)(100000 + rng_below(r, 20) * 10000) *
				j->gpus;
		if (rng_below(r, 2))
			j->models[j->nmodels++] = models[rng_below(r, 2)];
		if (rng_below(r, 3) == 0)
			j->places[j->nplaces++] = places[rng_below(r, 3)];
		if (rng_below(r, 3) == 0)
			j->reputation_ppm = (int64_t)rng_below(r, 1000001);
		if (rng_below(r, 4) == 0)
			j->compliance = (uint32_t)rng_below(r, 4);
		if (rng_below(r, 5) == 0) {
			j->gpus = 1;
			j->milli = 100 * (1 + (int)rng_below(r, 9));
			j->nodes_max = 1;
		}
	}
}

/* --- a plain version of what may be ------------------------------------------------------- */

static bool may_run(const struct match_job *j, const struct match_node *n)
{
	return (!j->nmodels || j->models[0] == n->model) &&
		(!j->nplaces || j->places[0] == n->country) &&
		n->reputation_ppm >= j->reputation_ppm &&
		(n->compliance & j->compliance) == j->compliance &&
		(j->spot || !n->spot) && n->gpu_memory_bytes >= j->gpu_memory_bytes;
}

struct played {
	struct started {
		struct match_result r;
		struct match_part parts[MATCH_PARTS_MAX];
	} at[JOBS];
	int n, waiting;
};

/* How much of GPU g of a node is taken at a time by matches that started before the k-th. */
static int taken(const struct played *p, int k, size_t node, int g, int64_t at_ms)
{
	int sum = 0;

	for (int i = 0; i < k; i++)
		for (int a = 0; a < p->at[i].r.nparts; a++)
			for (int x = 0; x < p->at[i].parts[a].gpus; x++)
				if (p->at[i].parts[a].node == node &&
					p->at[i].parts[a].gpu[x] == g &&
					p->at[i].r.end_ms > at_ms)
					sum += p->at[i].parts[a].milli;
	return sum;
}

/* The least price per hour at which the job could start on one node; MATCH_NO_LIMIT: nowhere. */
static int64_t least_price(const struct played *p, int k, const struct match_job *j,
	int64_t at_ms)
{
	int64_t min = MATCH_NO_LIMIT;

	for (size_t i = 0; i < NODES; i++) {
		int fit = 0;
		int64_t price = (nodes[i].uusd * j->gpus * j->milli + 999) / 1000;

		for (int g = 0; g < nodes[i].gpus; g++)
			fit += MATCH_MILLI - taken(p, k, i, g, at_ms) >= j->milli;
		if (fit >= j->gpus && may_run(j, &nodes[i]) && price <= j->limit_uusd &&
			price < min)
			min = price;
	}
	return min;
}

static int record(void *ctx, const struct match_result *r)
{
	struct played *p = ctx;
	struct started *s = &p->at[p->n];

	if (!r->nparts) {
		p->waiting++;
		return 0;
	}
	s->r = *r;
	memcpy(s->parts, r->parts, (size_t)r->nparts * sizeof *r->parts);
	p->n++;
	return 0;
}

/* Every match may be, at the price that its nodes ask, and no GPU is given twice. */
static void check_matches(const struct played *p)
{
	for (int k = 0; k < p->n; k++) {
		const struct started *s = &p->at[k];
		const struct match_job *j = &jobs[s->r.job];
		int gpus = 0;
		int64_t price = 0;

		CHECK(s->r.start_ms >= j->at_ms);
		CHECK(s->r.nparts <= j->nodes_max);
		for (int a = 0; a < s->r.nparts; a++) {
			const struct match_part *part = &s->parts[a];

			CHECK(may_run(j, &nodes[part->node]));
			CHECK_I64(j->milli, part->milli);
			CHECK_I64(j->gpus / s->r.nparts, part->gpus);
			gpus += part->gpus;
			price += (nodes[part->node].uusd * part->gpus * part->milli +
					 999) /
				1000;
			for (int x = 0; x < part->gpus; x++)
				CHECK(taken(p, k, part->node, part->gpu[x],
					      s->r.start_ms) +
						part->milli <=
					MATCH_MILLI);
		}
		CHECK_I64(j->gpus, gpus);
		CHECK_I64(price, s->r.uusd_per_hour);
		CHECK(price <= j->limit_uusd);
	}
}

/* The plain version: on one node, cheapest takes the least price that there was. */
static void check_cheapest(const struct played *p)
{
	for (int k = 0; k < p->n; k++)
		if (p->at[k].r.nparts == 1)
			CHECK_I64(least_price(p, k, &jobs[p->at[k].r.job],
					  p->at[k].r.start_ms),
				p->at[k].r.uusd_per_hour);
}

/* Nobody waits although he fits: at the end of each instant. */
static void check_idle(const struct played *p)
{
	bool started[JOBS] = { false };

	for (int k = 0; k < p->n; k++)
		started[p->at[k].r.job] = true;
	for (int k = 0; k < p->n; k++) {
		int64_t now = p->at[k].r.start_ms;

		if (k + 1 < p->n && p->at[k + 1].r.start_ms == now)
			continue;
		for (int i = 0; i < JOBS; i++)
			if (!started[i] && jobs[i].at_ms <= now)
				CHECK_I64(MATCH_NO_LIMIT,
					least_price(p, k + 1, &jobs[i], now));
	}
}

/* No GPU is taken twice, or given back twice. */
static void check_gpus(void)
{
	for (int i = 0; i < NODES; i++)
		for (int g = 0; g < nodes[i].gpus; g++)
			CHECK(nodes[i].left[g] >= 0 && nodes[i].left[g] <= MATCH_MILLI);
}

static void play(enum match_algorithm a, struct played *p)
{
	struct match *m = match_open(a, nodes, NODES);

	memset(p, 0, sizeof *p);
	CHECK(match_run(m, jobs, JOBS, INT64_MAX - 1, record, p) == 0);
	CHECK_I64(JOBS, p->n + p->waiting);
	check_gpus();
	match_close(m);
}

static void check_clusters(void)
{
	static struct played p, again;
	struct rng r;

	rng_seed(&r, 7, 0);
	for (int t = 0; t < 60; t++) {
		enum match_algorithm a = (enum match_algorithm)(t % MATCH_ALGORITHMS);

		draw_nodes(&r, a == MATCH_FGD ? 8 : 16);
		draw_jobs(&r);
		play(a, &p);
		check_matches(&p);
		check_idle(&p);
		if (a == MATCH_CHEAPEST || a == MATCH_LAS)
			check_cheapest(&p);
		play(a, &again);
		CHECK(again.n == p.n &&
			memcmp(&again.at[0].r.job, &p.at[0].r.job, 8) == 0);
	}
}

static bool occupy(struct match *m, const char *owner, struct match_part *parts,
	int nparts, int64_t end_ms)
{
	return match_occupy(m, owner,
		&(struct match_result){ .job = MATCH_NO_JOB,
			.end_ms = end_ms,
			.nparts = nparts,
			.parts = parts });
}

/* A log that is played at once matches as its calls did one by one, each given those before. */
static void check_replay(void)
{
	static struct played whole, step, all;
	struct rng r;

	rng_seed(&r, 8, 0);
	for (int t = 0; t < 20; t++) {
		draw_nodes(&r, 16);
		draw_jobs(&r);
		for (int i = 0; i < JOBS; i++)
			jobs[i].limit_uusd =
				MATCH_NO_LIMIT; /* nobody waits for another day */
		struct match *m = match_open(MATCH_LAS, nodes, NODES);

		memset(&whole, 0, sizeof whole);
		match_run(m, jobs, JOBS, jobs[JOBS - 1].at_ms, record, &whole);
		match_close(m);
		if (whole.waiting)
			continue; /* waits: the steps would have to take them along */
		memset(&all, 0, sizeof all);
		for (int i = 0; i < JOBS; i++) {
			/* shares are of the whole log; without history only arrival decides */
			jobs[i].owner = "one";
		}
		m = match_open(MATCH_LAS, nodes, NODES);
		memset(&whole, 0, sizeof whole);
		match_run(m, jobs, JOBS, jobs[JOBS - 1].at_ms, record, &whole);
		match_close(m);
		for (int i = 0; i < JOBS; i++) {
			m = match_open(MATCH_LAS, nodes, NODES);
			for (int k = 0; k < all.n; k++)
				if (all.at[k].r.end_ms > jobs[i].at_ms)
					CHECK(occupy(m, "one", all.at[k].parts,
						all.at[k].r.nparts, all.at[k].r.end_ms));
			memset(&step, 0, sizeof step);
			match_run(m, &jobs[i], 1, jobs[i].at_ms, record, &step);
			match_close(m);
			CHECK_I64(1, step.n);
			step.at[0].r.job = (size_t)i;
			all.at[all.n++] = step.at[0];
		}
		CHECK_I64(whole.n, all.n);
	}
}

static void check_occupied(void)
{
	struct match_part part = { .node = 0, .gpus = 1, .milli = 600, .gpu = { 0 } };
	struct match_node one = { .id = "n", .model = models[0], .uusd = 5, .gpus = 1 };
	struct match *m = match_open(MATCH_CHEAPEST, &one, 1);

	CHECK(occupy(m, NULL, &part, 1, 10));
	CHECK(!occupy(m, NULL, &part, 1, 10)); /* 400 are left */
	part.milli = 400;
	CHECK(occupy(m, NULL, &part, 1, 10));
	part.gpu[0] = 1;
	CHECK(!occupy(m, NULL, &part, 1, 10)); /* there is no such GPU */
	match_close(m);
}

/* --- stopping others -------------------------------------------------------------------------- */

/* What each job has left, as its starts and stops tell it. */
struct ledger {
	enum match_algorithm a;
	int64_t left_ms[JOBS];
	struct ran {
		bool now;
		int64_t start_ms, end_ms;
		double rate; /* of its work there */
	} ran[JOBS];
	int stops, waiting;
	int64_t at_ms; /* of the last event */
};

static double rate_on(enum match_algorithm a, const struct match_job *j,
	const struct match_part *part)
{
	for (int i = 0; i < j->nmodels && a == MATCH_GAVEL; i++)
		if (j->models[i] == nodes[part->node].model)
			return j->throughput[i] / j->throughput[0];
	return 1;
}

static void check_stop(struct ledger *l, const struct match_result *r)
{
	const struct match_job *low = &jobs[r->job], *high = r->stopped_for;
	struct ran *ran = &l->ran[r->job];
	int64_t kept = l->left_ms[r->job] - r->left_ms, time = r->end_ms - r->start_ms;

	l->stops++;
	CHECK(ran->now && low->spot);
	CHECK_I64(ran->start_ms, r->start_ms);
	CHECK(r->end_ms > r->start_ms && r->end_ms < ran->end_ms);
	/* not for one that comes after it, nor for its own owner's sake */
	CHECK(2 * high->render + !high->spot > 2 * low->render + !low->spot ||
		(high->render == low->render && high->spot == low->spot &&
			high->owner != low->owner &&
			(l->a == MATCH_LAS || l->a == MATCH_GAVEL)));
	/* it keeps its work up to the last checkpoint */
	if (low->checkpoint_ms)
		time = time / low->checkpoint_ms * low->checkpoint_ms;
	CHECK(r->left_ms > 0);
	CHECK(fabs((double)kept - (low->checkpoint_ms ? (double)time * ran->rate : 0)) <=
		2 + ran->rate);
	ran->now = false;
	l->left_ms[r->job] = r->left_ms;
}

static int enter(void *ctx, const struct match_result *r)
{
	struct ledger *l = ctx;
	struct ran *ran = &l->ran[r->job];
	double rate;

	if (!r->nparts) {
		CHECK(!ran->now);
		l->waiting++;
		return 0;
	}
	CHECK((r->stopped_for ? r->end_ms : r->start_ms) >= l->at_ms);
	l->at_ms = r->stopped_for ? r->end_ms : r->start_ms;
	if (r->stopped_for) {
		check_stop(l, r);
		return 0;
	}
	CHECK(!ran->now);
	rate = rate_on(l->a, &jobs[r->job], r->parts);
	CHECK(fabs((double)(r->end_ms - r->start_ms) * rate -
		      (double)l->left_ms[r->job]) <= 1 + rate);
	*ran = (struct ran){ true, r->start_ms, r->end_ms, rate };
	return 0;
}

/* With every algorithm all work is done once, whoever stops whom, and only where it may be. */
static void check_preempt(void)
{
	static struct ledger l;
	int stops[MATCH_ALGORITHMS] = { 0 };
	struct rng r;

	rng_seed(&r, 10, 0);
	for (int t = 0; t < 50; t++) {
		enum match_algorithm a = (enum match_algorithm)(t % MATCH_ALGORITHMS);
		struct match *m;

		draw_nodes(&r, a == MATCH_FGD ? 8 : 16);
		draw_jobs(&r);
		l = (struct ledger){ .a = a };
		for (int i = 0; i < JOBS; i++) {
			struct match_job *j = &jobs[i];
			int first = (int)rng_below(&r, 2);

			j->checkpoint_ms = (int64_t)rng_below(&r, 4) * 700000;
			j->share_ppm = (int64_t)(1 + rng_below(&r, 3)) * 500000;
			j->length_ms += (int64_t)rng_below(&r, 1000);
			j->nmodels = 2;
			for (int k = 0; k < 2; k++) {
				j->models[k] = models[k ^ first];
				j->throughput[k] = 0.3 + rng_f64(&r);
			}
			l.left_ms[i] = j->length_ms;
		}
		m = match_open(a, nodes, NODES);
		match_preempt(m);
		CHECK(match_run(m, jobs, JOBS, INT64_MAX - 1, enter, &l) == 0);
		check_gpus();
		match_close(m);
		stops[a] += l.stops;
		CHECK(l.waiting < JOBS);
	}
	for (int a = 0; a < MATCH_ALGORITHMS; a++)
		CHECK(stops[a] > 0);
}

int main(void)
{
	check_clusters();
	check_replay();
	check_occupied();
	check_preempt();
	return test_failures != 0;
}
