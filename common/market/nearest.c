/* nearest.c - which wish, relaxed, would be met: see index.h. */
#include <stdlib.h>
#include <string.h>

#include "common/market/parts.h"
#include "common/base/mem.h"
#include "common/record/pool.h"

#define MODELS_TRIED 3 /* those with the most nodes */
#define NODES_TRIED  64

/* --- amounts --------------------------------------------------------------------------------- */

/* A wish that is an amount: where a job has it, and what a node has of it. */
struct amount {
	enum match_reason reason;
	const char *wish;
	size_t at;    /* of an int64_t in the job */
	bool at_most; /* else at least */
};

static const struct amount amounts[] = {
	{ MATCH_LACKS_GPU_MEMORY, "gpu_memory_bytes",
		offsetof(struct match_job, gpu_memory_bytes), false },
	{ MATCH_LACKS_PING, "ping_us", offsetof(struct match_job, ping_us), true },
	{ MATCH_LACKS_CPU_CORES, "cpu_cores", offsetof(struct match_job, cpu_cores),
		false },
	{ MATCH_LACKS_MEMORY, "memory_bytes", offsetof(struct match_job, memory_bytes),
		false },
	{ MATCH_LACKS_DISK, "disk_bytes", offsetof(struct match_job, disk_bytes), false },
	{ MATCH_LACKS_REPUTATION, "reputation_ppm",
		offsetof(struct match_job, reputation_ppm), false },
};

static int64_t *of_job(struct match_job *j, const struct amount *a)
{
	return (int64_t *)((char *)j + a->at);
}

static int64_t of_node(const struct match_index *ix, const struct amount *a, size_t node,
	int let)
{
	const struct match_facts *f = &ix->facts[node];
	const struct group *g = &ix->groups[f->group];
	int units = match_group_units(g);

	switch (a->reason) {
	case MATCH_LACKS_GPU_MEMORY:
		return g->gpu_memory_bytes;
	case MATCH_LACKS_PING:
		return f->ping_us;
	case MATCH_LACKS_CPU_CORES:
		return (int64_t)f->cpu_cores * let / units;
	case MATCH_LACKS_MEMORY:
		return (int64_t)((__int128)f->memory_bytes * let / units);
	case MATCH_LACKS_DISK:
		return (int64_t)((__int128)f->disk_bytes * let / units);
	default:
		return f->reputation_ppm;
	}
}

#define AMOUNTS (sizeof amounts / sizeof *amounts)

struct search {
	const struct match_index *ix;
	const struct match_job *wish;
	struct chooser chooser;
	struct match_nearest best;
	int64_t most[AMOUNTS]; /* that a node has, of what is to be at least so much */
};

/* One pass over all, which spares many of those that look for a place. */
static void find_most(struct search *s)
{
	struct match_job wish = *s->wish;

	for (size_t a = 0; a < AMOUNTS; a++) {
		if (amounts[a].at_most || !*of_job(&wish, &amounts[a]))
			continue;
		for (size_t i = 0; i < s->ix->n; i++) {
			const struct match_facts *f = &s->ix->facts[i];
			int units = match_group_units(&s->ix->groups[f->group]);
			int64_t v = f->all_uusd < 0 ?
				0 :
				of_node(s->ix, &amounts[a], i, units);

			s->most[a] = v > s->most[a] ? v : s->most[a];
		}
	}
}

/* Whether no node has enough of something, whatever else a job asks for. */
static bool is_too_much(const struct search *s, const struct match_job *j)
{
	struct match_job copy = *j;

	for (size_t a = 0; a < AMOUNTS; a++)
		if (!amounts[a].at_most && *of_job(&copy, &amounts[a]) > s->most[a])
			return true;
	return false;
}

/* --- does it fit ------------------------------------------------------------------------------ */

/* Whether a job would have a place; its price becomes *uusd. */
static bool is_possible(struct search *s, const struct match_job *j, int64_t *uusd)
{
	const struct choice *c;

	if (is_too_much(s, j))
		return false;
	chooser_begin(&s->chooser, s->ix, j);
	c = chooser_next(&s->chooser);
	if (c && uusd)
		*uusd = c->uusd;
	return c != NULL;
}

/* Notes a wish that makes the job possible, as j, which was just tried, has it, if more nodes fit
 * than with those before. */
static void note(struct search *s, const struct match_job *j, struct match_nearest found)
{
	struct census census;

	match_census(s->ix, j, NULL, &s->chooser, &census);
	found.any = true;
	found.nodes = census.fit;
	if (!s->best.any || found.nodes > s->best.nodes)
		s->best = found;
}

/* --- wishes that are left out ----------------------------------------------------------------- */

static void try_without(struct search *s, enum match_reason r, const char *wish,
	const struct match_job *j)
{
	if (is_possible(s, j, NULL))
		note(s, j,
			(struct match_nearest){ .reason = r, .wish = wish, .value = -1 });
}

static void leave_out(struct search *s, enum match_reason r)
{
	struct match_job j = *s->wish;

	if (r == MATCH_LACKS_PLACE) {
		j.nplaces = j.nshares = 0;
		try_without(s, r, s->wish->nshares ? "places" : "regions", &j);
	} else if (r == MATCH_LACKS_COMPLIANCE) {
		j.compliance = 0;
		try_without(s, r, "compliance", &j);
	} else if (r == MATCH_LACKS_HOST_TYPE) {
		j.host_type = MATCH_HOST_UNKNOWN;
		try_without(s, r, "host_type", &j);
	} else if (r == MATCH_IS_EXCLUDED) {
		j.nexclude = 0;
		try_without(s, r, "exclude", &j);
	} else if (r == MATCH_LACKS_FIRMNESS) {
		j.spot = true;
		if (is_possible(s, &j, NULL))
			note(s, &j,
				(struct match_nearest){ .reason = r,
					.wish = "spot",
					.value = 1 });
	}
}

/* Numbers of which the nearest comes first: a heap. */
struct values {
	int64_t *at;
	size_t n, cap;
	int sign; /* 1: the least is the nearest, -1: the most */
};

static void sink(struct values *v, size_t i)
{
	int64_t x = v->at[i];

	for (size_t c; (c = 2 * i + 1) < v->n; i = c) {
		if (c + 1 < v->n && v->sign * v->at[c + 1] < v->sign * v->at[c])
			c++;
		if (v->sign * v->at[c] >= v->sign * x)
			break;
		v->at[i] = v->at[c];
	}
	v->at[i] = x;
}

static int64_t take_nearest(struct values *v)
{
	int64_t x = v->at[0];

	v->at[0] = v->at[--v->n];
	if (v->n)
		sink(v, 0);
	return x;
}

/* What those have of an amount that fit a job which does not ask for it. */
static void list_values(const struct search *s, const struct match_job *j,
	const struct amount *a, int gpus, struct values *out)
{
	*out = (struct values){ .sign = a->at_most ? 1 : -1 };
	for (size_t i = 0; i < s->ix->n; i++) {
		const struct match_facts *f = &s->ix->facts[i];
		const struct group *g = &s->ix->groups[f->group];
		int let;
		int64_t v;

		if (f->all_uusd < 0 || !match_group_fits(j, g))
			continue;
		let = match_let(g, gpus);
		v = of_node(s->ix, a, i, let);
		if (v <= 0 || f->free < let || let > match_group_units(g) ||
			!match_node_fits(s->ix, j, i, gpus))
			continue; /* 0: not known */
		out->at = xgrow(out->at, &out->cap, out->n + 1, sizeof *out->at);
		out->at[out->n++] = v;
	}
	for (size_t i = out->n / 2; i--;)
		sink(out, i);
}

/* Finds the least relaxation of an amount with which the job is possible. It takes at least as many
 * nodes as the job has, so that this is mostly the first that is tried; each next step is as large
 * as all before, and what was too much is then halved. */
static void relax_amount(struct search *s, const struct amount *a)
{
	struct match_job j = *s->wish;
	int64_t *amount = of_job(&j, a), *tried;
	struct values values;
	size_t low = 0, high = 0, n, want;

	*amount = 0;
	if (!is_possible(s, &j, NULL))
		return;
	want = (size_t)s->chooser.parts;
	list_values(s, &j, a, j.gpus / s->chooser.parts, &values);
	n = values.n;
	tried = xmalloc((n + 1) * sizeof *tried);
	for (; high < n; want = 2 * high) {
		low = high;
		while (high < n && high < want)
			tried[high++] = take_nearest(&values);
		*amount = tried[high - 1];
		if (is_possible(s, &j, NULL))
			break;
		if (high == n)
			low = n; /* only those of which it is not known */
	}
	for (high = high ? high - 1 : 0; low < high;) {
		size_t mid = low + (high - low) / 2;

		*amount = tried[mid];
		if (is_possible(s, &j, NULL))
			high = mid;
		else
			low = mid + 1;
	}
	*amount = low < n ? tried[low] : 0;
	is_possible(s, &j, NULL);
	note(s, &j,
		(struct match_nearest){ .reason = a->reason,
			.wish = a->wish,
			.value = *amount ? *amount : -1 });
	free(tried);
	free(values.at);
}

static void relax_tier(struct search *s)
{
	struct match_job j = *s->wish;
	const struct pool_tier *unknown = pool_tier_find("unknown");

	while (--j.tier >= 0)
		/* "none" is no wish: it is left out */
		if (j.tier != 1 && is_possible(s, &j, NULL)) {
			note(s, &j,
				(struct match_nearest){ .reason = MATCH_LACKS_TIER,
					.wish = "tier",
					.value = -1,
					.text = j.tier > 1 ? (unknown - j.tier)->name :
							     NULL });
			return;
		}
}

static void relax_price(struct search *s)
{
	struct match_job j = *s->wish;

	j.limit_uusd = MATCH_NO_LIMIT;
	if (!is_possible(s, &j, &j.limit_uusd))
		return;
	is_possible(s, &j, NULL);
	note(s, &j,
		(struct match_nearest){ .reason = MATCH_IS_DEAR,
			.wish = "max_uusd_per_hour",
			.value = j.limit_uusd });
}

/* --- other GPUs, and fewer of them ----------------------------------------------------------- */

static size_t count_of_model(const struct search *s, const struct match_job *j,
	const struct model *m)
{
	size_t n = 0;

	for (size_t i = 0; i < m->n; i++) {
		const struct group *g = &s->ix->groups[m->groups[i]];

		n += match_group_fits(j, g) ? g->members : 0;
	}
	return n;
}

/* Tries the models of which there are most nodes, that the job does not name. */
static void relax_model(struct search *s)
{
	struct match_job any = *s->wish;
	const struct model *tried[MODELS_TRIED] = { NULL };
	size_t nodes[MODELS_TRIED] = { 0 };

	any.nmodels = any.named = 0;
	for (size_t i = 0; i < s->ix->nmodels; i++) {
		const struct model *m = &s->ix->models[i];
		size_t n = match_wants_model(s->wish, m->name) ?
			0 :
			count_of_model(s, &any, m);

		for (int k = 0; k < MODELS_TRIED && n; k++)
			if (n > nodes[k] ||
				(n == nodes[k] && strcmp(m->name, tried[k]->name) < 0)) {
				const struct model *down = tried[k];
				size_t fewer = nodes[k];

				tried[k] = m;
				nodes[k] = n;
				m = down;
				n = fewer;
			}
	}
	for (int k = 0; k < MODELS_TRIED && tried[k]; k++) {
		any.models[0] = tried[k]->name;
		any.nmodels = any.named = 1;
		if (is_possible(s, &any, NULL))
			note(s, &any,
				(struct match_nearest){ .reason = MATCH_LACKS_MODEL,
					.wish = "gpu_model",
					.value = -1,
					.text = tried[k]->name });
	}
}

/* The numbers of GPUs that nodes have, a bit for each from 1 on. */
static uint64_t sizes_of(const struct search *s)
{
	uint64_t sizes = 0;

	for (size_t i = 0; i < s->ix->ngroups; i++) {
		const struct group *g = &s->ix->groups[i];

		if (g->gpus && match_group_fits(s->wish, g))
			sizes |= (uint64_t)1 << (g->gpus - 1);
	}
	return sizes;
}

/* More nodes for as many GPUs where the job does not say how many, else fewer GPUs. */
static void relax_size(struct search *s)
{
	struct match_job j = *s->wish;
	int nodes = j.nodes_min > 1 ? j.nodes_min : 1;
	uint64_t sizes = sizes_of(s);

	/* on fewer nodes it was not possible: only so many are tried */
	for (int n = 1 + (j.nodes_max > 0 ? j.nodes_max : 0);
		!s->wish->nodes_min && n <= NODES_TRIED; n++) {
		j.nodes_min = j.nodes_max = n;
		if (j.gpus % n || !is_possible(s, &j, NULL))
			continue;
		note(s, &j,
			(struct match_nearest){ .reason = MATCH_LACKS_GPUS,
				.wish = "nodes_max",
				.value = n });
		return;
	}
	j = *s->wish;
	for (int each = MATCH_GPUS_MAX; each > 0; each--) {
		j.gpus = each * nodes;
		if (each < s->wish->gpus / nodes && sizes >> (each - 1) & 1 &&
			is_possible(s, &j, NULL)) {
			note(s, &j,
				(struct match_nearest){ .reason = MATCH_LACKS_GPUS,
					.wish = "gpu_count",
					.value = j.gpus });
			return;
		}
	}
}

/* Fewer nodes, with as many GPUs on each. */
static void relax_nodes(struct search *s)
{
	struct match_job j = *s->wish;
	int each = j.gpus / j.nodes_max, low = 0, high = j.nodes_max - 1;

	while (low < high) {
		int mid = high - (high - low) / 2;

		j.nodes_min = j.nodes_max = mid;
		j.gpus = each * mid;
		if (is_possible(s, &j, NULL))
			low = mid;
		else
			high = mid - 1;
	}
	j.nodes_min = j.nodes_max = low;
	j.gpus = each * low;
	if (low && is_possible(s, &j, NULL))
		note(s, &j,
			(struct match_nearest){ .reason = MATCH_REASONS,
				.wish = "nodes",
				.value = low });
}

void match_find_nearest(const struct match_index *ix, const struct match_job *wish,
	const struct census *census, struct match_nearest *out)
{
	struct search s = { .ix = ix, .wish = wish };
	const size_t *lack = census->left_out;

	find_most(&s);
	/* a wish that keeps nobody out cannot help, but for shares, of which too few may be left */
	if (lack[MATCH_LACKS_MODEL] && wish->nmodels)
		relax_model(&s);
	for (int r = 0; r < MATCH_REASONS; r++)
		if (lack[r] || (r == MATCH_LACKS_PLACE && wish->nshares))
			leave_out(&s, (enum match_reason)r);
	for (size_t i = 0; i < AMOUNTS; i++)
		if (lack[amounts[i].reason])
			relax_amount(&s, &amounts[i]);
	if (lack[MATCH_LACKS_TIER])
		relax_tier(&s);
	if (lack[MATCH_LACKS_GPUS] && wish->gpus > 1)
		relax_size(&s);
	if (lack[MATCH_IS_DEAR])
		relax_price(&s);
	if (!s.best.any && wish->nodes_min > 1)
		relax_nodes(&s);
	chooser_release(&s.chooser);
	*out = s.best;
}
