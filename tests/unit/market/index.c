/* index.c - what is for sale and comes and goes: random changes and wishes against a list of all
 * nodes that is searched as plainly as can be. long because the plain version is one of all. */
#include "common/market/index.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/rng.h"
#include "tests/unit/test.h"

#define NODES  40 /* ids */
#define SHARES 3
#define NONE   INT64_MAX
#define GIB    (INT64_C(1) << 30)

static const char *const models[] = { "RTX 4090", "H100 SXM", "L40S" };
static const char *const countries[] = { "US", "DE", "SI", NULL };
static const char *const regions[] = { "California", "Bayern", NULL };

/* The plain version: all that was put. */
static struct plain {
	bool there;
	char id[16];
	struct match_node n; /* leased: its state */
} plain[NODES];

static uint64_t all_places(const struct match_node *n)
{
	return n->gpus ? n->places : 1;
}

/* --- random changes ------------------------------------------------------------------------ */

static struct match_node draw_node(struct rng *r, const char *id)
{
	int gpus = rng_below(r, 6) ? 1 << rng_below(r, 4) : 0;
	uint64_t places = 0;

	while (__builtin_popcountll(places) < gpus)
		places |= (uint64_t)1 << rng_below(r, gpus * 2);
	return (struct match_node){ .id = id,
		.model = gpus ? models[rng_below(r, 3)] : NULL,
		.country = countries[rng_below(r, 4)],
		.region = regions[rng_below(r, 3)],
		.gpu_memory_bytes = gpus ? (int64_t)(1 + rng_below(r, 2)) * 24 * GIB : 0,
		.memory_bytes = (int64_t)rng_below(r, 4) * 64 * GIB,
		.disk_bytes = (int64_t)rng_below(r, 4) * 500 * GIB,
		.cpu_cores = (int64_t)rng_below(r, 4) * 16,
		.ping_us = (int64_t)rng_below(r, 4) * 10000,
		.uusd = (int64_t)(1 + rng_below(r, 30)) * 10001,
		.reputation_ppm = (int64_t)rng_below(r, 3) * 500000 - 1,
		.compliance = (uint32_t)rng_below(r, 4),
		.tier = (int)rng_below(r, 7),
		.host_type = (enum match_host)rng_below(r, MATCH_HOSTS),
		.spot = rng_below(r, 5) == 0,
		.gpus = gpus,
		.part_gpus = gpus ? (int)rng_below(r, (uint64_t)gpus + 1) : 0,
		.places = places };
}

static uint64_t draw_bits(struct rng *r, uint64_t of)
{
	return of & (uint64_t)rng_below(r, UINT64_MAX) &
		(uint64_t)rng_below(r, UINT64_MAX);
}

static void change(struct match_index *ix, struct rng *r)
{
	struct plain *p = &plain[rng_below(r, NODES)];
	uint64_t leased = p->n.leased, bits;

	switch (rng_below(r, 6)) {
	case 0:
	case 1:
		p->n = draw_node(r, p->id);
		p->n.leased = p->there ? leased : 0;
		p->there = true;
		CHECK(match_index_put(ix, &p->n) == 0);
		break;
	case 2:
		if (rng_below(r, 3) == 0) {
			CHECK(match_index_remove(ix, p->id) == p->there);
			p->there = false;
		}
		break;
	case 3:
		p->n.uusd = 0;
		p->n.all_uusd = (int64_t)(1 + rng_below(r, 100)) * 10001;
		CHECK(match_index_price(ix, p->id, p->n.all_uusd) == p->there);
		break;
	case 4:
		bits = draw_bits(r, all_places(&p->n));
		CHECK(match_index_lease(ix, p->id, bits) ==
			(p->there && bits && !(bits & p->n.leased)));
		if (p->there && !(bits & p->n.leased))
			p->n.leased |= bits;
		break;
	default:
		bits = draw_bits(r, leased);
		CHECK(match_index_release(ix, p->id, bits) == (p->there && bits));
		if (p->there)
			p->n.leased &= ~bits;
	}
}

/* --- random wishes -------------------------------------------------------------------------- */

static const char *excluded[3];

static struct match_job draw_wish(struct rng *r, const struct match_index *ix)
{
	int nodes = 1 + (int)rng_below(r, 3);
	struct match_job j = { .limit_uusd = MATCH_NO_LIMIT,
		.milli = MATCH_MILLI,
		.gpus = (int)rng_below(r, 5) * nodes,
		.nodes_min = nodes,
		.nodes_max = nodes,
		.spot = rng_below(r, 2) };

	for (int i = 0; i < 3 && j.gpus && rng_below(r, 2); i++)
		j.models[j.nmodels++] = match_index_text(ix, models[i]) ?
			match_index_text(ix, models[i]) :
			models[i];
	if (rng_below(r, 3) == 0)
		j.limit_uusd = (int64_t)(1 + rng_below(r, 100)) * 10001;
	if (rng_below(r, 4) == 0)
		j.gpu_memory_bytes = j.gpus ? 30 * GIB : 0;
	if (rng_below(r, 4) == 0)
		j.memory_bytes = (int64_t)rng_below(r, 130) * GIB;
	if (rng_below(r, 4) == 0)
		j.disk_bytes = (int64_t)rng_below(r, 900) * GIB;
	if (rng_below(r, 4) == 0)
		j.cpu_cores = (int64_t)rng_below(r, 33);
	if (rng_below(r, 6) == 0)
		j.ping_us = 15000;
	if (rng_below(r, 6) == 0)
		j.tier = (int)rng_below(r, 7);
	if (rng_below(r, 6) == 0)
		j.host_type = (enum match_host)rng_below(r, MATCH_HOSTS);
	if (rng_below(r, 6) == 0)
		j.reputation_ppm = 400000;
	if (rng_below(r, 6) == 0)
		j.compliance = (uint32_t)rng_below(r, 4);
	if (rng_below(r, 6) == 0)
		j.places[j.nplaces++] = match_index_text(ix, "us") ?
			match_index_text(ix, "us") :
			"none";
	if (rng_below(r, 6) == 0) {
		for (size_t i = 0; i < 3; i++)
			excluded[i] = match_index_id(ix, plain[rng_below(r, NODES)].id);
		for (size_t i = 0; i < 3; i++)
			excluded[i] = excluded[i] ? excluded[i] : "none";
		match_sort_ids(excluded, 3);
		j.exclude = excluded;
		j.nexclude = 3;
	}
	return j;
}

/* Shares of places that may have nodes in common. */
static void draw_shares(struct rng *r, const struct match_index *ix, struct match_job *j)
{
	int64_t left = 1000000;

	if (rng_below(r, 2))
		return;
	for (int i = 0; i < SHARES; i++) {
		struct match_place *p = &j->shares[j->nshares++];
		const char *country = countries[rng_below(r, 4)],
			   *region = regions[rng_below(r, 3)];

		p->country = country ? match_index_text(ix, country) : NULL;
		p->region = region ? match_index_text(ix, region) : NULL;
		p->share_ppm = i + 1 < SHARES ?
			(int64_t)rng_below(r, (uint64_t)left + 1) :
			left;
		left -= p->share_ppm;
	}
}

/* --- the plain answer ------------------------------------------------------------------------ */

static bool same(const char *a, const char *b)
{
	return a && b && strcmp(a, b) == 0;
}

static bool is_in_share(const struct match_place *s, const struct match_node *n)
{
	return (!s->country || same(s->country, n->country)) &&
		(!s->region || same(s->region, n->region));
}

static int let_of(const struct match_job *j, const struct match_node *n)
{
	int wanted = j->gpus / j->nodes_max, let = wanted;

	if (!n->gpus)
		return 1;
	while (n->part_gpus > 1 && let % n->part_gpus)
		let++;
	return let > n->gpus && wanted <= n->gpus ? n->gpus : let;
}

static bool is_wanted_place(const struct match_job *j, const struct match_node *n)
{
	bool any = !j->nshares;

	for (int i = 0; i < j->nshares; i++)
		any = any || is_in_share(&j->shares[i], n);
	return any &&
		(!j->nplaces || same(j->places[0], n->country) ||
			same(j->places[0], n->region));
}

static bool is_wanted_model(const struct match_job *j, const struct match_node *n)
{
	bool any = !j->nmodels;

	for (int i = 0; i < j->nmodels; i++)
		any = any || same(j->models[i], n->model);
	return j->gpus ? n->gpus > 0 && any : n->gpus == 0;
}

/* The first of what a node lacks, its price and what is leased of it aside. */
static enum match_reason lacks(const struct match_job *j, const struct match_node *n)
{
	int64_t let = let_of(j, n), units = n->gpus ? n->gpus : 1;

	if (!is_wanted_model(j, n))
		return MATCH_LACKS_MODEL;
	if (n->gpu_memory_bytes < j->gpu_memory_bytes)
		return MATCH_LACKS_GPU_MEMORY;
	if (!is_wanted_place(j, n))
		return MATCH_LACKS_PLACE;
	if (j->compliance & ~n->compliance)
		return MATCH_LACKS_COMPLIANCE;
	if (n->spot && !j->spot)
		return MATCH_LACKS_FIRMNESS;
	if (j->host_type && j->host_type != n->host_type)
		return MATCH_LACKS_HOST_TYPE;
	if (n->tier < j->tier)
		return MATCH_LACKS_TIER;
	if (j->ping_us && (!n->ping_us || n->ping_us > j->ping_us))
		return MATCH_LACKS_PING;
	if (n->cpu_cores * let < j->cpu_cores * units)
		return MATCH_LACKS_CPU_CORES;
	if (n->memory_bytes * let < j->memory_bytes * units)
		return MATCH_LACKS_MEMORY;
	if (n->disk_bytes * let < j->disk_bytes * units)
		return MATCH_LACKS_DISK;
	for (size_t i = 0; i < j->nexclude; i++)
		if (same(j->exclude[i], n->id))
			return MATCH_IS_EXCLUDED;
	if (j->reputation_ppm > 0 && n->reputation_ppm < j->reputation_ppm)
		return MATCH_LACKS_REPUTATION;
	return let > units ? MATCH_LACKS_GPUS : MATCH_REASONS;
}

static bool is_busy(const struct match_job *j, const struct match_node *n)
{
	return __builtin_popcountll(all_places(n) & ~n->leased) < let_of(j, n);
}

static int64_t cost_of(const struct match_job *j, const struct match_node *n)
{
	int64_t units = n->gpus ? n->gpus : 1, let = let_of(j, n);

	return n->all_uusd ? (n->all_uusd * let + units - 1) / units : n->uusd * let;
}

/* The least that nodes of a model cost, over all ways to give each to a share or leave it: by how
 * many nodes each share has. dearest: of the cheapest ones, where there are no shares. */
static int64_t least_of_model(const struct match_job *j, const char *model,
	const bool used[NODES])
{
	int wants[SHARES] = { j->nodes_max, 0, 0 };
	int64_t best[4][4][4];

	if (j->nshares) {
		int64_t rest[SHARES];
		int left = j->nodes_max;

		for (int i = 0; i < SHARES; i++) {
			wants[i] = (int)(j->nodes_max * j->shares[i].share_ppm / 1000000);
			rest[i] = j->nodes_max * j->shares[i].share_ppm % 1000000;
			left -= wants[i];
		}
		for (; left; left--) {
			int most = rest[1] > rest[0] ? 1 : 0;

			most = rest[2] > rest[most] ? 2 : most;
			wants[most]++;
			rest[most] = -1;
		}
	}
	for (int i = 0; i < 64; i++)
		best[i / 16][i / 4 % 4][i % 4] = i ? NONE : 0;
	for (int k = 0; k < NODES; k++) {
		const struct match_node *n = &plain[k].n;

		if (!plain[k].there || used[k] || (model && !same(model, n->model)) ||
			lacks(j, n) < MATCH_REASONS || is_busy(j, n))
			continue;
		for (int i = 63; i; i--) {
			int at[SHARES] = { i / 16, i / 4 % 4, i % 4 };

			for (int s = 0; s < SHARES; s++) {
				int64_t *to = &best[at[0]][at[1]][at[2]], from;

				if (!at[s] ||
					(j->nshares ? !is_in_share(&j->shares[s], n) :
						      s > 0))
					continue;
				at[s]--;
				from = best[at[0]][at[1]][at[2]];
				at[s]++;
				if (from != NONE && from + cost_of(j, n) < *to)
					*to = from + cost_of(j, n);
			}
		}
	}
	return best[wants[0]][wants[1]][wants[2]];
}

static int64_t least(const struct match_job *j, const bool used[NODES])
{
	int64_t min = NONE;

	if (!j->gpus)
		return least_of_model(j, NULL, used);
	for (int i = 0; i < 3; i++) {
		int64_t cost = least_of_model(j, models[i], used);

		min = cost < min ? cost : min;
	}
	return min;
}

/* --- comparing ------------------------------------------------------------------------------- */

static int index_of(const char *id)
{
	return atoi(id + 1);
}

/* Whether nodes can be given to the shares: all ways are tried. */
static bool can_share(const struct match_job *j, const struct match_offer *o,
	const int at[4])
{
	struct match_job only = *j;
	bool used[NODES];

	for (int i = 0; i < NODES; i++)
		used[i] = true;
	for (size_t i = 0; i < o->nparts; i++)
		used[at[i]] = false;
	return least(&only, used) != NONE;
}

static void check_part(const struct match_index *ix, const struct match_job *j,
	const struct match_part *p)
{
	const struct match_node *n = match_index_at(ix, p->node);
	const struct plain *k = &plain[index_of(n->id)];
	uint64_t places = 0;

	CHECK(k->there && lacks(j, &k->n) == MATCH_REASONS);
	CHECK_I64(k->n.gpus ? let_of(j, &k->n) : 0, p->gpus);
	for (int i = 0; i < p->gpus; i++)
		places |= (uint64_t)1 << match_place_of(n, p->gpu[i]);
	CHECK_I64(p->gpus, __builtin_popcountll(places));
	CHECK(!(places & ~k->n.places) && !(places & k->n.leased));
	CHECK(match_free_places(n) == (all_places(&k->n) & ~k->n.leased));
}

static void check_offers(const struct match_index *ix, const struct match_job *j,
	const struct match_answer *a, size_t max)
{
	bool used[NODES] = { false };
	int64_t cost;

	for (size_t i = 0; i < a->noffers; i++) {
		const struct match_offer *o = &a->offers[i];
		int at[4];

		cost = least(j, used);
		CHECK_I64(cost, o->uusd_per_hour);
		CHECK(cost <= j->limit_uusd);
		CHECK_I64(j->nodes_max, (int64_t)o->nparts);
		for (size_t k = 0; k < o->nparts; k++) {
			at[k] = index_of(match_index_at(ix, o->parts[k].node)->id);
			check_part(ix, j, &o->parts[k]);
			CHECK(same(plain[at[0]].n.model, plain[at[k]].n.model) ||
				!j->gpus);
			CHECK(!used[at[k]]);
			used[at[k]] = true;
		}
		CHECK(can_share(j, o, at));
	}
	cost = least(j, used);
	CHECK(a->noffers == max || cost == NONE || cost > j->limit_uusd);
}

static void check_spares(const struct match_index *ix, const struct match_job *j,
	const struct match_answer *a, size_t max)
{
	bool first[NODES] = { false };
	const char *model;
	size_t could = 0;
	int64_t last = 0;

	if (!a->noffers) {
		CHECK_I64(0, (int64_t)a->nspares);
		return;
	}
	model = match_index_at(ix, a->offers->parts->node)->model;
	for (size_t i = 0; i < a->offers->nparts; i++)
		first[index_of(match_index_at(ix, a->offers->parts[i].node)->id)] = true;
	for (size_t i = 0; i < a->nspares; i++) {
		int k = index_of(match_index_at(ix, a->spares[i].node)->id);

		check_part(ix, j, &a->spares[i]);
		CHECK(!first[k] && (same(model, plain[k].n.model) || !model));
		CHECK(cost_of(j, &plain[k].n) >= last);
		last = cost_of(j, &plain[k].n);
		CHECK(last <= j->limit_uusd);
		first[k] = true;
	}
	for (int k = 0; k < NODES && j->limit_uusd == MATCH_NO_LIMIT; k++)
		could += plain[k].there && !first[k] &&
			(same(model, plain[k].n.model) || !model) &&
			lacks(j, &plain[k].n) == MATCH_REASONS &&
			!is_busy(j, &plain[k].n);
	CHECK(a->nspares == max || could == 0);
}

/* Each node is counted once, under the first that it lacks. Whether a price is too much depends on
 * the others; alone it is plain. */
static void check_left_out(const struct match_index *ix, const struct match_job *j,
	const struct match_answer *a)
{
	size_t left_out[MATCH_REASONS] = { 0 }, rest = 0, sum = a->fit;

	for (int k = 0; k < NODES; k++) {
		enum match_reason r;

		if (!plain[k].there)
			continue;
		r = lacks(j, &plain[k].n);
		if (r == MATCH_REASONS && j->nodes_max == 1 &&
			cost_of(j, &plain[k].n) > j->limit_uusd)
			r = MATCH_IS_DEAR;
		if (r == MATCH_REASONS && is_busy(j, &plain[k].n))
			r = MATCH_IS_BUSY;
		if (r < MATCH_REASONS)
			left_out[r]++;
		else
			rest++;
	}
	for (int r = 0; r < MATCH_REASONS; r++) {
		sum += a->left_out[r];
		if (r < MATCH_IS_DEAR)
			CHECK_I64((int64_t)left_out[r], (int64_t)a->left_out[r]);
	}
	CHECK_I64((int64_t)match_index_count(ix), (int64_t)sum);
	if (j->nodes_max > 1 && j->limit_uusd != MATCH_NO_LIMIT)
		return;
	CHECK_I64((int64_t)left_out[MATCH_IS_DEAR], (int64_t)a->left_out[MATCH_IS_DEAR]);
	CHECK_I64((int64_t)left_out[MATCH_IS_BUSY], (int64_t)a->left_out[MATCH_IS_BUSY]);
	CHECK_I64((int64_t)rest, (int64_t)a->fit);
}

/* Changes the wish as the nearest says, by `more` too little. Returns whether it is an amount. */
static bool relax(const struct match_nearest *n, struct match_job *j, int64_t more)
{
	static const struct {
		const char *wish;
		size_t at;
		bool at_most;
	} amounts[] = { { "gpu_memory_bytes",
				offsetof(struct match_job, gpu_memory_bytes), false },
		{ "memory_bytes", offsetof(struct match_job, memory_bytes), false },
		{ "disk_bytes", offsetof(struct match_job, disk_bytes), false },
		{ "cpu_cores", offsetof(struct match_job, cpu_cores), false },
		{ "reputation_ppm", offsetof(struct match_job, reputation_ppm), false },
		{ "ping_us", offsetof(struct match_job, ping_us), true },
		{ "max_uusd_per_hour", offsetof(struct match_job, limit_uusd), true } };

	for (size_t i = 0; i < sizeof amounts / sizeof *amounts; i++)
		if (same(n->wish, amounts[i].wish)) {
			int64_t *v = (int64_t *)((char *)j + amounts[i].at);

			*v = n->value < 0          ? 0 :
				amounts[i].at_most ? n->value - more :
						     n->value + more;
			return n->value >= 0;
		}
	if (same(n->wish, "gpu_model")) {
		j->models[0] = n->text;
		j->nmodels = 1;
	}
	if (same(n->wish, "places") || same(n->wish, "regions"))
		j->nplaces = j->nshares = 0;
	if (same(n->wish, "compliance"))
		j->compliance = 0;
	if (same(n->wish, "host_type"))
		j->host_type = MATCH_HOST_UNKNOWN;
	if (same(n->wish, "exclude"))
		j->nexclude = 0;
	if (same(n->wish, "spot"))
		j->spot = true;
	if (same(n->wish, "gpu_count"))
		j->gpus = (int)n->value;
	if (same(n->wish, "tier"))
		j->tier = !n->text              ? 0 :
			same(n->text, "low")    ? 2 :
			same(n->text, "med")    ? 3 :
			same(n->text, "med-ii") ? 4 :
			same(n->text, "high")   ? 5 :
						  6;
	if (same(n->wish, "nodes")) {
		j->gpus = j->gpus / j->nodes_max * (int)n->value;
		j->nodes_min = j->nodes_max = (int)n->value;
	}
	return false;
}

/* With the nearest wish there is an offer; with a little less of it there is none. Where there is
 * no nearest, no wish that is simply left out helps. Returns whether there was one. */
static bool check_nearest(const struct match_index *ix, const struct match_job *wish,
	const struct match_answer *a)
{
	static const char *const fields[] = { "compliance", "host_type", "exclude",
		"tier", "regions", "gpu_memory_bytes", "memory_bytes", "disk_bytes",
		"cpu_cores", "reputation_ppm", "ping_us", "spot" };
	struct match_job j = *wish;
	struct match_answer b;

	if (a->noffers || !a->nearest.any) {
		for (size_t i = 0; i < sizeof fields / sizeof *fields && !a->noffers;
			i++) {
			bool used[NODES] = { false };

			j = *wish;
			relax(&(struct match_nearest){ .wish = fields[i], .value = -1 },
				&j, 0);
			CHECK(least(&j, used) == NONE || least(&j, used) > j.limit_uusd);
		}
		return false;
	}
	relax(&a->nearest, &j, 0);
	match_index_ask(ix, &j, 1, 0, &b);
	CHECK_I64(1, (int64_t)b.noffers);
	CHECK_I64((int64_t)b.fit, (int64_t)a->nearest.nodes);
	match_answer_release(&b);
	j = *wish;
	if (!relax(&a->nearest, &j, 1))
		return true;
	match_index_ask(ix, &j, 1, 0, &b);
	CHECK_I64(0, (int64_t)b.noffers);
	match_answer_release(&b);
	return true;
}

/* The same nodes in another order give the same answer. */
static void check_order(const struct match_index *ix, const struct match_job *wish,
	const struct match_answer *a, struct rng *r)
{
	struct match_index *other = match_index_new();
	struct match_job j = *wish;
	struct match_answer b;
	int from = (int)rng_below(r, NODES);

	for (int i = 0; i < NODES; i++) {
		const struct plain *p = &plain[(from + 7 * i) % NODES];

		if (!p->there)
			continue;
		CHECK(match_index_put(other, &p->n) == 0);
		if (p->n.leased & all_places(&p->n))
			CHECK(match_index_lease(other, p->id,
				p->n.leased & all_places(&p->n)));
	}
	for (int i = 0; i < j.nmodels; i++)
		if (match_index_text(other, j.models[i]))
			j.models[i] = match_index_text(other, j.models[i]);
	for (int i = 0; i < j.nplaces; i++)
		if (match_index_text(other, j.places[i]))
			j.places[i] = match_index_text(other, j.places[i]);
	for (int i = 0; i < j.nshares; i++) {
		struct match_place *p = &j.shares[i];

		p->country = p->country ? match_index_text(other, p->country) : NULL;
		p->region = p->region ? match_index_text(other, p->region) : NULL;
	}
	j.nexclude = 0;
	match_index_ask(other, &j, 3, 4, &b);
	CHECK_I64((int64_t)a->noffers, (int64_t)b.noffers);
	for (size_t i = 0; i < a->noffers && i < b.noffers; i++)
		for (size_t k = 0; k < a->offers[i].nparts; k++)
			CHECK(same(match_index_at(ix, a->offers[i].parts[k].node)->id,
				match_index_at(other, b.offers[i].parts[k].node)->id));
	CHECK(memcmp(a->left_out, b.left_out, sizeof a->left_out) == 0);
	match_answer_release(&b);
	match_index_free(other);
}

static void check_random(void)
{
	struct match_index *ix = match_index_new();
	struct rng r;
	int offers = 0, none = 0, nearest = 0;

	rng_seed(&r, 11, 0);
	for (int i = 0; i < NODES; i++)
		snprintf(plain[i].id, sizeof plain[i].id, "n%d", i);
	for (int t = 0; t < 6000; t++) {
		struct match_answer a;
		struct match_job j;

		change(ix, &r);
		if (t < NODES)
			continue;
		j = draw_wish(&r, ix);
		draw_shares(&r, ix, &j);
		match_index_ask(ix, &j, 3, 4, &a);
		offers += a.noffers > 0;
		none += a.noffers == 0;
		check_offers(ix, &j, &a, 3);
		check_spares(ix, &j, &a, 4);
		check_left_out(ix, &j, &a);
		nearest += check_nearest(ix, &j, &a);
		if (t % 20 == 0 && !j.nexclude)
			check_order(ix, &j, &a, &r);
		match_answer_release(&a);
	}
	CHECK(offers > 1000 && none > 500 && nearest > 300);
	match_index_free(ix);
}

static void check_refused(void)
{
	struct match_index *ix = match_index_new();
	struct match_node n = { .id = "n", .model = "L40S", .gpus = 2, .places = 5 };

	CHECK(match_index_put(ix, &n) == 0);
	CHECK(!match_index_lease(ix, "n", 2)); /* no GPU is there */
	CHECK(match_index_lease(ix, "n", 4));
	CHECK(!match_index_lease(ix, "n", 5));
	CHECK(!match_index_release(ix, "n", 1));
	CHECK(!match_index_lease(ix, "m", 1));
	n.places = 1;
	CHECK(match_index_put(ix, &n) < 0);
	n.places = 0;
	n.gpus = MATCH_GPUS_MAX + 1;
	CHECK(match_index_put(ix, &n) < 0);
	n.gpus = 1;
	n.uusd = -1;
	CHECK(match_index_put(ix, &n) < 0);
	n.uusd = 0;
	n.id = "";
	CHECK(match_index_put(ix, &n) < 0);
	err_clear();
	/* what is leased stays so, though its GPU is no more for sale */
	n.id = "n";
	n.places = 1;
	CHECK(match_index_put(ix, &n) == 0);
	CHECK(match_free_places(match_index_find(ix, "n")) == 1);
	CHECK(match_index_release(ix, "n", 4));
	CHECK(match_index_remove(ix, "n") && !match_index_remove(ix, "n"));
	CHECK(!match_index_find(ix, "n") && !match_index_text(ix, "L40S"));
	match_index_free(ix);
}

int main(void)
{
	check_random();
	check_refused();
	return test_failures != 0;
}
