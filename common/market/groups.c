/* groups.c - nodes for sale in groups of those that are alike, in heaps: see parts.h. */
#include <stdlib.h>
#include <string.h>

#include "common/market/parts.h"
#include "common/base/err.h"
#include "common/base/mem.h"

#define SHARED 1e17 /* above every price */

/* --- places ------------------------------------------------------------------------------- */

int match_gpu_at(const struct match_node *n, int place)
{
	uint64_t before;

	if (!n->places)
		return place;
	if (place < 0 || place >= 64 || !(n->places >> place & 1))
		return -1;
	before = n->places & (((uint64_t)1 << place) - 1);
	return __builtin_popcountll(before);
}

int match_place_of(const struct match_node *n, int i)
{
	for (int place = 0; n->places && place < 64; place++)
		if (n->places >> place & 1 && match_gpu_at(n, place) == i)
			return place;
	return n->places ? -1 : i;
}

/* --- areas --------------------------------------------------------------------------------- */

static bool is_area(const void *areas, uint32_t i, const void *node)
{
	const struct match_area *a = &((const struct match_area *)areas)[i];
	const struct match_node *n = node;

	return a->country == n->country && a->region == n->region;
}

static uint32_t hash_of_area(const struct match_node *n)
{
	uint64_t h = (uint64_t)(uintptr_t)n->country;

	h = (h ^ h >> 29) * 0x9e3779b97f4a7c15u + (uint64_t)(uintptr_t)n->region;
	return (uint32_t)((h ^ h >> 31) * 0x9e3779b97f4a7c15u >> 32);
}

/* The number of the area of a node, which is one more there. */
static size_t join_area(struct match_index *ix, const struct match_node *n)
{
	uint32_t hash = hash_of_area(n);
	uint64_t *slot;
	size_t i;

	hash_index_reserve(&ix->area_index);
	slot = hash_index_slot(&ix->area_index, hash, is_area, ix->areas, n);
	if (!*slot) {
		i = ix->nfree_areas ? ix->free_areas[--ix->nfree_areas] : ix->nareas++;
		ix->areas = xgrow(ix->areas, &ix->areas_cap, ix->nareas,
			sizeof *ix->areas);
		ix->areas[i] = (struct match_area){ n->country, n->region, 0 };
		hash_index_set(&ix->area_index, slot, hash, i);
	}
	i = (uint32_t)*slot - 1;
	ix->areas[i].nodes++;
	return i;
}

static void leave_area(struct match_index *ix, const struct match_node *n, size_t i)
{
	if (--ix->areas[i].nodes)
		return;
	hash_index_remove(&ix->area_index,
		hash_index_slot(&ix->area_index, hash_of_area(n), is_area, ix->areas, n));
	ix->free_areas = xgrow(ix->free_areas, &ix->free_areas_cap, ix->nfree_areas + 1,
		sizeof *ix->free_areas);
	ix->free_areas[ix->nfree_areas++] = i;
}

/* --- groups ------------------------------------------------------------------------------- */

static bool has_part(const struct match_node *n)
{
	for (int i = 0; i < n->gpus; i++)
		if (n->left[i] > 0 && n->left[i] < MATCH_MILLI)
			return true;
	return false;
}

double match_score_of(const struct match_index *ix, const struct match_node *n)
{
	if (ix->algorithm == MATCH_FGD && has_part(n))
		return (double)match_price_of_all(n) + SHARED;
	if (ix->algorithm == MATCH_ROTATION)
		return (double)n->worked_ms * 1e6 /
			(double)(n->uptime_ppm > 0 ? n->uptime_ppm : 1);
	return (double)match_price_of_all(n);
}

bool match_goes_before(const struct match_index *ix, size_t a, size_t b)
{
	return ix->grows ? strcmp(ix->nodes[a].id, ix->nodes[b].id) < 0 : a < b;
}

static int part_gpus(const struct match_node *n)
{
	return n->part_gpus > 1 ? n->part_gpus : 1;
}

static bool is_alike(const void *groups, uint32_t i, const void *node)
{
	const struct group *g = &((const struct group *)groups)[i];
	const struct match_node *n = node;

	return g->model == n->model && g->gpu_memory_bytes == n->gpu_memory_bytes &&
		g->gpus == n->gpus && g->part_gpus == part_gpus(n);
}

static uint32_t hash_of_group(const struct match_node *n)
{
	uint64_t h = (uint64_t)(uintptr_t)n->model;

	h = (h ^ h >> 32) * 0x9e3779b97f4a7c15u + (uint64_t)n->gpu_memory_bytes;
	h = (h ^ h >> 30) * 0x9e3779b97f4a7c15u + (uint64_t)n->gpus * 128 +
		(uint64_t)part_gpus(n);
	return (uint32_t)((h ^ h >> 31) * 0x9e3779b97f4a7c15u >> 32);
}

static void list_partial(struct group *g, size_t node, bool wanted)
{
	for (size_t i = 0; i < g->npartial; i++)
		if (g->partial[i] == node) {
			if (!wanted)
				g->partial[i] = g->partial[--g->npartial];
			return;
		}
	if (!wanted)
		return;
	g->partial = xgrow(g->partial, &g->partial_cap, g->npartial + 1,
		sizeof *g->partial);
	g->partial[g->npartial++] = node;
}

static struct match_heap *level_of(struct group *g, int free_gpus)
{
	for (int i = 0; i < g->nlevels; i++)
		if (g->levels[i].free == free_gpus)
			return &g->levels[i].heap;
	g->levels = xrealloc(g->levels, (size_t)(g->nlevels + 1) * sizeof *g->levels);
	g->levels[g->nlevels] = (struct match_level){ .free = free_gpus };
	return &g->levels[g->nlevels++].heap;
}

void match_enter(struct match_index *ix, size_t node)
{
	struct match_node *n = &ix->nodes[node];
	struct match_facts *f = &ix->facts[node];

	f->all_uusd = match_price_of_all(n);
	f->free = (uint8_t)n->free_gpus;
	f->group = (uint32_t)n->group;
	match_heap_push(ix, level_of(&ix->groups[n->group], n->free_gpus),
		match_score_of(ix, n), node);
}

void match_withdraw(struct match_index *ix, size_t node)
{
	struct match_node *n = &ix->nodes[node];

	match_heap_remove(ix, level_of(&ix->groups[n->group], n->free_gpus), n->heap_at);
}

static bool is_model(const void *models, uint32_t i, const void *name)
{
	return ((const struct model *)models)[i].name == name;
}

static uint32_t hash_of_model(const char *name)
{
	uint64_t h = (uint64_t)(uintptr_t)name * 0x9e3779b97f4a7c15u;

	return (uint32_t)((h ^ h >> 29) * 0x9e3779b97f4a7c15u >> 32);
}

/* Puts a group on the list of its model. */
static void list_group(struct match_index *ix, size_t group)
{
	struct group *g = &ix->groups[group];
	uint32_t hash = hash_of_model(g->model);
	struct model *m;
	uint64_t *slot;

	hash_index_reserve(&ix->model_index);
	slot = hash_index_slot(&ix->model_index, hash, is_model, ix->models, g->model);
	if (!*slot) {
		ix->models = xgrow(ix->models, &ix->models_cap, ix->nmodels + 1,
			sizeof *ix->models);
		ix->models[ix->nmodels] = (struct model){ .name = g->model };
		hash_index_set(&ix->model_index, slot, hash, ix->nmodels++);
	}
	g->model_no = (uint32_t)*slot - 1;
	m = &ix->models[g->model_no];
	m->groups = xgrow(m->groups, &m->cap, m->n + 1, sizeof *m->groups);
	g->model_at = m->n;
	m->groups[m->n++] = group;
}

/* A model without groups goes, too: names come from outside. */
static void drop_model(struct match_index *ix, size_t no)
{
	const char *name = ix->models[no].name;
	struct model *m = &ix->models[no];

	hash_index_remove(&ix->model_index,
		hash_index_slot(&ix->model_index, hash_of_model(name), is_model,
			ix->models, name));
	free(m->groups);
	if (no == --ix->nmodels)
		return;
	/* the last one takes its place */
	name = ix->models[ix->nmodels].name;
	hash_index_set(&ix->model_index,
		hash_index_slot(&ix->model_index, hash_of_model(name), is_model,
			ix->models, name),
		hash_of_model(name), no);
	*m = ix->models[ix->nmodels];
	for (size_t i = 0; i < m->n; i++)
		ix->groups[m->groups[i]].model_no = no;
}

static void unlist_group(struct match_index *ix, size_t group)
{
	struct group *g = &ix->groups[group];
	struct model *m = &ix->models[g->model_no];

	m->groups[g->model_at] = m->groups[--m->n];
	ix->groups[m->groups[g->model_at]].model_at = g->model_at;
	if (!m->n)
		drop_model(ix, g->model_no);
}

static size_t new_group(struct match_index *ix, const struct match_node *n)
{
	size_t i = ix->nfree_groups ? ix->free_groups[--ix->nfree_groups] : ix->ngroups++;

	ix->groups = xgrow(ix->groups, &ix->groups_cap, ix->ngroups, sizeof *ix->groups);
	ix->groups[i] = (struct group){ .model = n->model,
		.gpu_memory_bytes = n->gpu_memory_bytes,
		.gpus = n->gpus,
		.part_gpus = part_gpus(n) };
	list_group(ix, i);
	return i;
}

void match_join_group(struct match_index *ix, size_t node)
{
	struct match_node *n = &ix->nodes[node];
	uint32_t hash = hash_of_group(n);
	uint64_t *slot;

	hash_index_reserve(&ix->group_index);
	slot = hash_index_slot(&ix->group_index, hash, is_alike, ix->groups, n);
	if (!*slot)
		hash_index_set(&ix->group_index, slot, hash, new_group(ix, n));
	n->group = (uint32_t)*slot - 1;
	ix->groups[n->group].members++;
	ix->models[ix->groups[n->group].model_no].members++;
}

static void release_group(struct group *g)
{
	for (int i = 0; i < g->nlevels; i++)
		free(g->levels[i].heap.at);
	free(g->levels);
	free(g->partial);
}

void match_leave_group(struct match_index *ix, size_t node)
{
	struct match_node *n = &ix->nodes[node];
	struct group *g = &ix->groups[n->group];

	leave_area(ix, n, ix->facts[node].area);
	ix->facts[node].all_uusd = -1;
	ix->nspot -= n->spot;
	ix->models[g->model_no].members--;
	if (--g->members)
		return;
	hash_index_remove(&ix->group_index,
		hash_index_slot(&ix->group_index, hash_of_group(n), is_alike, ix->groups,
			n));
	unlist_group(ix, n->group);
	release_group(g);
	memset(g, 0, sizeof *g);
	ix->free_groups = xgrow(ix->free_groups, &ix->free_groups_cap,
		ix->nfree_groups + 1, sizeof *ix->free_groups);
	ix->free_groups[ix->nfree_groups++] = n->group;
}

static uint32_t at_most(int64_t v, uint32_t max)
{
	return v < 0 ? 0 : v > max ? max : (uint32_t)v;
}

void match_note_facts(struct match_index *ix, size_t node)
{
	const struct match_node *n = &ix->nodes[node];

	ix->facts = xgrow(ix->facts, &ix->facts_cap, node + 1, sizeof *ix->facts);
	ix->facts[node] = (struct match_facts){ .memory_bytes = n->memory_bytes,
		.disk_bytes = n->disk_bytes,
		.cpu_cores = (int32_t)at_most(n->cpu_cores, INT32_MAX),
		.reputation_ppm = n->reputation_ppm < 0 ?
			-1 :
			(int32_t)at_most(n->reputation_ppm, INT32_MAX),
		.ping_us = at_most(n->ping_us, UINT32_MAX),
		.area = (uint32_t)join_area(ix, n),
		.tier = (uint8_t)n->tier,
		.host_type = (uint8_t)n->host_type,
		.compliance = (uint8_t)((n->compliance & ~(uint32_t)FACT_SPOT) |
			(n->spot ? FACT_SPOT : 0)) };
	ix->nspot += n->spot;
}

void match_index_fill(struct match_index *ix, enum match_algorithm a,
	struct match_node *nodes, size_t n)
{
	*ix = (struct match_index){ .algorithm = a, .nodes = nodes, .n = n };
	for (size_t i = 0; i < n; i++) {
		nodes[i].free_gpus = nodes[i].gpus ? nodes[i].gpus : 1;
		for (int g = 0; g < nodes[i].free_gpus; g++)
			nodes[i].left[g] = MATCH_MILLI;
		match_note_facts(ix, i);
		match_join_group(ix, i);
		match_enter(ix, i);
	}
}

void match_groups_release(struct match_index *ix)
{
	for (size_t i = 0; i < ix->ngroups; i++)
		release_group(&ix->groups[i]);
	for (size_t i = 0; i < ix->nmodels; i++)
		free(ix->models[i].groups);
	free(ix->groups);
	free(ix->models);
	free(ix->facts);
	free(ix->areas);
	free(ix->free_areas);
	hash_index_release(&ix->area_index);
	free(ix->classes);
	hash_index_release(&ix->group_index);
	hash_index_release(&ix->model_index);
}

/* --- taking and giving back ----------------------------------------------------------------- */

void match_change(struct match_index *ix, const struct match_part *p, int sign)
{
	struct match_node *n = &ix->nodes[p->node];
	int units = n->gpus ? n->gpus : 1;

	match_withdraw(ix, p->node);
	for (int i = 0; i < p->gpus; i++)
		n->left[p->gpu[i]] = (int16_t)(n->left[p->gpu[i]] - sign * p->milli);
	if (!n->gpus)
		n->left[0] = (int16_t)(n->left[0] - sign * MATCH_MILLI);
	n->free_gpus = 0;
	for (int i = 0; i < units; i++)
		n->free_gpus += n->left[i] == MATCH_MILLI;
	match_enter(ix, p->node);
	list_partial(&ix->groups[n->group], p->node, has_part(n));
}
