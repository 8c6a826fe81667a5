/* fits.c - what a job asks of a node, and whether a node has it: see parts.h. */
#include <math.h>
#include <stdlib.h>

#include "common/market/parts.h"

#define SPEED_STEPS 1024.0
#define ALL_PPM     1000000

const char *const match_reason_names[MATCH_REASONS] = { "model", "gpu_memory", "place",
	"compliance", "spot", "host_type", "tier", "ping", "cpu_cores", "memory", "disk",
	"excluded", "reputation", "gpus", "price", "busy" };

static bool is_in(const char *const *names, int n, const char *name)
{
	for (int i = 0; i < n; i++)
		if (names[i] == name)
			return true;
	return false;
}

bool match_wants_model(const struct match_job *j, const char *model)
{
	if (!model || !j->gpus)
		return !model && !j->gpus;
	return !j->nmodels || is_in(j->models, j->nmodels, model);
}

bool match_wants_place(const struct match_job *j, const char *country, const char *region)
{
	return !j->nplaces || (country && is_in(j->places, j->nplaces, country)) ||
		(region && is_in(j->places, j->nplaces, region));
}

unsigned match_share_mask(const struct match_index *ix, const struct match_job *j,
	size_t node)
{
	const struct match_area *a;
	unsigned mask = 0;

	if (!j->nshares)
		return 0;
	a = &ix->areas[ix->facts[node].area];
	for (int i = 0; i < j->nshares; i++) {
		const struct match_place *p = &j->shares[i];

		if ((!p->country || p->country == a->country) &&
			(!p->region || p->region == a->region))
			mask |= 1u << i;
	}
	return mask;
}

static bool is_there(const struct match_index *ix, const struct match_job *j, size_t node)
{
	const struct match_area *a = &ix->areas[ix->facts[node].area];

	return (!j->nplaces || match_wants_place(j, a->country, a->region)) &&
		(!j->nshares || match_share_mask(ix, j, node));
}

void match_share_out(const struct match_job *j, int parts, int out[MATCH_PLACES_MAX])
{
	int64_t rest[MATCH_PLACES_MAX];
	int left = parts;

	for (int i = 0; i < j->nshares; i++) {
		out[i] = (int)(parts * j->shares[i].share_ppm / ALL_PPM);
		rest[i] = parts * j->shares[i].share_ppm % ALL_PPM;
		left -= out[i];
	}
	for (; left > 0; left--) {
		int most = 0;

		for (int i = 1; i < j->nshares; i++)
			if (rest[i] > rest[most])
				most = i;
		out[most]++;
		rest[most] = -1;
	}
}

enum match_reason match_group_lacks(const struct match_job *j, const struct group *g)
{
	if (!match_wants_model(j, g->model))
		return MATCH_LACKS_MODEL;
	if (g->gpu_memory_bytes < j->gpu_memory_bytes)
		return MATCH_LACKS_GPU_MEMORY;
	if (j->milli < MATCH_MILLI && g->part_gpus > 1)
		return MATCH_LACKS_GPUS;
	return MATCH_REASONS;
}

bool match_asks_nodes(const struct match_job *j)
{
	return j->host_type || j->tier || j->ping_us || j->cpu_cores || j->memory_bytes ||
		j->disk_bytes || j->nexclude || j->reputation_ppm;
}

bool match_asks_each(const struct match_index *ix, const struct match_job *j)
{
	return j->nplaces || j->nshares || j->compliance || (ix->nspot && !j->spot) ||
		match_asks_nodes(j);
}

static int by_pointer(const void *a, const void *b)
{
	uintptr_t x = (uintptr_t) * (const char *const *)a,
		  y = (uintptr_t) * (const char *const *)b;

	return x < y ? -1 : x > y;
}

void match_sort_ids(const char **ids, size_t n)
{
	if (n)
		qsort(ids, n, sizeof *ids, by_pointer);
}

/* A part of a node has its share of what the node has. */
static bool has_share(int64_t of_node, int let, int units, int64_t wanted)
{
	return (__int128)of_node * let / units >= wanted;
}

enum match_reason match_node_lacks(const struct match_index *ix,
	const struct match_job *j, size_t node, int let)
{
	const struct match_facts *f = &ix->facts[node];
	int units;

	if ((j->nplaces || j->nshares) && !is_there(ix, j, node))
		return MATCH_LACKS_PLACE;
	if (j->compliance & ~(uint32_t)(f->compliance & ~FACT_SPOT))
		return MATCH_LACKS_COMPLIANCE;
	if (f->compliance & FACT_SPOT && !j->spot)
		return MATCH_LACKS_FIRMNESS;
	if (!match_asks_nodes(j))
		return MATCH_REASONS;
	if (j->host_type && f->host_type != j->host_type)
		return MATCH_LACKS_HOST_TYPE;
	if (f->tier < j->tier)
		return MATCH_LACKS_TIER;
	if (j->ping_us && (!f->ping_us || f->ping_us > j->ping_us))
		return MATCH_LACKS_PING;
	units = match_group_units(&ix->groups[f->group]);
	if (!has_share(f->cpu_cores, let, units, j->cpu_cores))
		return MATCH_LACKS_CPU_CORES;
	if (!has_share(f->memory_bytes, let, units, j->memory_bytes))
		return MATCH_LACKS_MEMORY;
	if (!has_share(f->disk_bytes, let, units, j->disk_bytes))
		return MATCH_LACKS_DISK;
	if (j->nexclude &&
		bsearch(&ix->nodes[node].id, j->exclude, j->nexclude, sizeof *j->exclude,
			by_pointer))
		return MATCH_IS_EXCLUDED;
	if (j->reputation_ppm && f->reputation_ppm < j->reputation_ppm)
		return MATCH_LACKS_REPUTATION;
	return MATCH_REASONS;
}

int match_let(const struct group *g, int gpus)
{
	int let = (gpus + g->part_gpus - 1) / g->part_gpus * g->part_gpus;

	if (!g->gpus)
		return 1;
	return let > g->gpus && gpus <= g->gpus ? g->gpus : let;
}

int64_t match_price_of_all(const struct match_node *n)
{
	int64_t all;

	if (n->all_uusd)
		return n->all_uusd;
	return __builtin_mul_overflow(n->uusd, n->gpus ? n->gpus : 1, &all) ?
		MATCH_NO_LIMIT :
		all;
}

int64_t match_price_of(const struct match_index *ix, size_t node, int gpus, int milli)
{
	const struct match_facts *f = &ix->facts[node];
	int64_t units = match_group_units(&ix->groups[f->group]) * MATCH_MILLI;
	__int128 part;

	if (gpus * milli == units)
		return f->all_uusd;
	part = ((__int128)f->all_uusd * gpus * milli + units - 1) / units;
	return part > MATCH_NO_LIMIT ? MATCH_NO_LIMIT : (int64_t)part;
}

bool match_is_dear(const struct match_index *ix, const struct match_job *j, size_t node,
	int gpus)
{
	const struct group *g = &ix->groups[ix->facts[node].group];
	int64_t limit = j->limit_uusd;

	if (limit == MATCH_NO_LIMIT)
		return false;
	if (ix->algorithm == MATCH_ROTATION && gpus)
		limit /= j->gpus / gpus;
	return match_price_of(ix, node, match_let(g, gpus), j->milli) > limit;
}

bool match_node_fits(const struct match_index *ix, const struct match_job *j, size_t node,
	int gpus)
{
	const struct group *g = &ix->groups[ix->facts[node].group];

	return match_node_lacks(ix, j, node, match_let(g, gpus)) == MATCH_REASONS &&
		!match_is_dear(ix, j, node, gpus);
}

double match_work_of(const struct match_index *ix, const struct match_job *j,
	const char *model)
{
	if (ix->algorithm != MATCH_GAVEL)
		return 1;
	for (int i = 0; i < j->nmodels; i++)
		if (j->models[i] == model && j->throughput[i] > 0)
			return j->throughput[i];
	return 1;
}

double match_cost_of(const struct match_index *ix, const struct match_job *j, size_t node,
	double score, int let)
{
	const struct group *g = &ix->groups[ix->facts[node].group];

	if (ix->algorithm == MATCH_ROTATION)
		return score * let;
	/* what is paid, which is a whole number: equal prices are equal costs */
	if (let < match_group_units(g))
		score = ceil(score * let / match_group_units(g));
	return score / match_work_of(ix, j, g->model);
}

double match_speed(const struct match_index *ix, const struct match_job *j,
	const char *model)
{
	double work = 0, gpus = 0;

	if (ix->algorithm != MATCH_GAVEL || !j->nmodels)
		return 1;
	for (size_t i = 0; i < ix->ngroups; i++) {
		const struct group *g = &ix->groups[i];
		double n = (double)g->members * g->gpus;

		if (!match_wants_model(j, g->model))
			continue;
		work += n * match_work_of(ix, j, g->model);
		gpus += n;
	}
	if (!(work > 0))
		return 1;
	return fmax(1, round(match_work_of(ix, j, model) * gpus / work * SPEED_STEPS)) /
		SPEED_STEPS;
}
