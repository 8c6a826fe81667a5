/* walk.c - nodes for a job, the best first, without a change of the heaps that they are in. */
#include <stdlib.h>
#include <string.h>

#include "common/market/parts.h"
#include "common/base/mem.h"

#define LEAF UINT32_MAX
/* nodes that do not fit, before all are looked at in a row, which is faster */
#define IN_VAIN 1024

static bool is_less(const struct walk *w, const struct walk_entry *a,
	const struct walk_entry *b)
{
	return a->cost != b->cost ? a->cost < b->cost :
				    match_goes_before(w->ix, a->node, b->node);
}

static void sift_down(const struct walk *w, struct walk_heap *h, size_t i)
{
	struct walk_entry e = h->at[i];

	for (size_t c; (c = 2 * i + 1) < h->n; i = c) {
		if (c + 1 < h->n && is_less(w, &h->at[c + 1], &h->at[c]))
			c++;
		if (!is_less(w, &h->at[c], &e))
			break;
		h->at[i] = h->at[c];
	}
	h->at[i] = e;
}

static void append(struct walk_heap *h, struct walk_entry e)
{
	h->at = xgrow(h->at, &h->cap, h->n + 1, sizeof *h->at);
	h->at[h->n++] = e;
}

static void push(struct walk *w, struct walk_entry e)
{
	struct walk_heap *h = &w->heap;
	size_t i;

	append(h, e);
	for (i = h->n - 1; i && is_less(w, &e, &h->at[(i - 1) / 2]); i = (i - 1) / 2)
		h->at[i] = h->at[(i - 1) / 2];
	h->at[i] = e;
}

static struct walk_entry pop(struct walk *w)
{
	struct walk_heap *h = &w->heap;
	struct walk_entry first = h->at[0];

	h->at[0] = h->at[--h->n];
	if (h->n)
		sift_down(w, h, 0);
	return first;
}

/* The entry of a place in the heap of a level. */
static struct walk_entry entry_of(const struct walk *w, size_t group, int level,
	size_t at)
{
	const struct group *g = &w->ix->groups[group];
	const struct match_heap_entry *e = &g->levels[level].heap.at[at];

	return (struct walk_entry){
		.cost = match_cost_of(w->ix, w->job, e->node, e->score,
			match_let(g, w->gpus)),
		.node = (uint32_t)e->node,
		.group = (uint32_t)group,
		.at = (uint32_t)at,
		.level = (uint8_t)level,
		.mask = (uint8_t)match_share_mask(w->ix, w->job, e->node),
	};
}

void walk_begin(struct walk *w, const struct match_index *ix, const struct match_job *j,
	int gpus)
{
	w->ix = ix;
	w->job = j;
	w->gpus = gpus;
	w->heap.n = w->kept.n = w->nlevels = w->members = w->in_vain = 0;
	w->last.node = LEAF;
	memset(w->closed, 0, sizeof w->closed);
}

void walk_add_level(struct walk *w, size_t group, int level)
{
	if (!w->ix->groups[group].levels[level].heap.n)
		return;
	push(w, entry_of(w, group, level, 0));
	w->levels = xgrow(w->levels, &w->levels_cap, w->nlevels + 1, sizeof *w->levels);
	w->levels[w->nlevels].group = (uint32_t)group;
	w->levels[w->nlevels++].level = level;
}

void walk_add(struct walk *w, const struct model *m)
{
	for (size_t i = 0; i < m->n; i++) {
		const struct group *g = &w->ix->groups[m->groups[i]];
		int let = match_let(g, w->gpus);

		if (let > match_group_units(g) || !match_group_fits(w->job, g))
			continue;
		for (int k = 0; k < g->nlevels; k++)
			if (g->levels[k].free >= let)
				walk_add_level(w, m->groups[i], k);
		w->members += g->members;
	}
}

/* Puts what is below an entry, and costs no less, in its place. */
static void push_below(struct walk *w, const struct walk_entry *e)
{
	size_t n = w->ix->groups[e->group].levels[e->level].heap.n;

	for (size_t c = 2 * (size_t)e->at + 1; c <= 2 * (size_t)e->at + 2 && c < n; c++)
		push(w, entry_of(w, e->group, e->level, c));
}

/* Takes in a node if it fits. */
static void scan_node(struct walk *w, size_t node, double score)
{
	const struct match_facts *f = &w->ix->facts[node];
	struct walk_entry e = { .node = (uint32_t)node, .group = f->group, .at = LEAF };

	if (!match_node_fits(w->ix, w->job, node, w->gpus))
		return;
	e.cost = match_cost_of(w->ix, w->job, node, score,
		match_let(&w->ix->groups[f->group], w->gpus));
	e.mask = (uint8_t)match_share_mask(w->ix, w->job, node);
	/* what was passed since walk_again is for the next time */
	append(w->closed[e.mask] || (w->last.node != LEAF && !is_less(w, &w->last, &e)) ?
			&w->kept :
			&w->heap,
		e);
}

static void scan_levels(struct walk *w)
{
	for (size_t i = 0; i < w->nlevels; i++) {
		const struct match_heap *h = &w->ix->groups[w->levels[i].group]
						      .levels[w->levels[i].level]
						      .heap;

		for (size_t k = 0; k < h->n; k++)
			scan_node(w, h->at[k].node, h->at[k].score);
	}
}

/* The same where most of all nodes are meant: one after the other, as they lie in memory. */
static void scan_all(struct walk *w)
{
	uint8_t *least = xcalloc(w->ix->ngroups,
		1); /* free GPUs; 0: a group that is not meant */

	for (size_t i = 0; i < w->nlevels; i++)
		least[w->levels[i].group] = (uint8_t)
			match_let(&w->ix->groups[w->levels[i].group], w->gpus);
	for (size_t i = 0; i < w->ix->n; i++) {
		const struct match_facts *f = &w->ix->facts[i];

		if (f->all_uusd >= 0 && least[f->group] && f->free >= least[f->group])
			scan_node(w, i, (double)f->all_uusd);
	}
	free(least);
}

/* Collects all that fit, where most do not. */
static void scan(struct walk *w)
{
	w->heap.n = w->kept.n = 0;
	if (w->ix->algorithm == MATCH_CHEAPEST && w->members > w->ix->n / 8)
		scan_all(w);
	else
		scan_levels(w);
	for (size_t i = w->heap.n / 2; i--;)
		sift_down(w, &w->heap, i);
}

/* Counts a node that was of no use. */
static void pass_over(struct walk *w)
{
	if (++w->in_vain == IN_VAIN)
		scan(w);
}

const struct walk_entry *walk_next(struct walk *w, const uint64_t *used)
{
	while (w->heap.n) {
		struct walk_entry e = pop(w);
		bool known = e.at == LEAF;

		w->last = e;
		/* below it they are dearer */
		if (!known && w->ix->algorithm != MATCH_ROTATION &&
			match_is_dear(w->ix, w->job, e.node, w->gpus))
			continue;
		if (!known)
			push_below(w, &e);
		if (used && used[e.node / 64] >> e.node % 64 & 1)
			continue;
		if (!known && !match_node_fits(w->ix, w->job, e.node, w->gpus)) {
			pass_over(w);
			continue;
		}
		e.at = LEAF;
		append(&w->kept, e);
		if (!w->closed[e.mask]) {
			w->last.at = LEAF;
			return &w->last;
		}
		pass_over(w);
	}
	return NULL;
}

void walk_close(struct walk *w, unsigned mask)
{
	struct walk_heap *h = &w->heap;
	size_t n = 0;

	w->closed[mask] = true;
	if (h->n < IN_VAIN)
		return;
	/* there are many, of which perhaps most are like it */
	for (size_t i = 0; i < h->n; i++)
		if (h->at[i].at == LEAF && h->at[i].mask == mask)
			append(&w->kept, h->at[i]);
		else
			h->at[n++] = h->at[i];
	h->n = n;
	for (size_t i = n / 2; i--;)
		sift_down(w, h, i);
}

void walk_again(struct walk *w)
{
	for (size_t i = 0; i < w->kept.n; i++)
		push(w, w->kept.at[i]);
	w->kept.n = 0;
	w->last.node = LEAF;
	memset(w->closed, 0, sizeof w->closed);
}

void walk_release(struct walk *w)
{
	free(w->heap.at);
	free(w->kept.at);
	free(w->levels);
	memset(w, 0, sizeof *w);
}
