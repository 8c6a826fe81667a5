/* choose.c - which nodes are best for a job: see parts.h. */
#include <stdlib.h>
#include <string.h>

#include "common/market/parts.h"
#include "common/base/mem.h"

/* The first whole free GPUs. */
static void whole_gpus(const struct match_node *n, int gpus, struct match_part *p)
{
	p->gpus = 0;
	for (int i = 0; i < n->gpus && p->gpus < gpus; i++)
		if (n->left[i] == MATCH_MILLI)
			p->gpu[p->gpus++] = (int8_t)i;
	p->milli = MATCH_MILLI;
}

static struct match_part *add_part(struct choice *c)
{
	c->parts = xgrow(c->parts, &c->cap, (size_t)c->nparts + 1, sizeof *c->parts);
	return &c->parts[c->nparts++];
}

void choice_append(struct choice *c, const struct choice *other)
{
	for (int i = 0; i < other->nparts; i++)
		*add_part(c) = other->parts[i];
}

void choice_release(struct choice *c)
{
	free(c->parts);
	memset(c, 0, sizeof *c);
}

/* --- shares of places ------------------------------------------------------------------------ */

/* How many nodes the shares of a set take, and how many have come that fit no others. Nodes can be
 * given to their shares as long as no set has more than it takes (Hall). Those sets of nodes are
 * a matroid, so that the cheapest nodes one after the other, without those that do not go with
 * the ones before, cost the least together. */
struct shares {
	int n;
	int takes[1u << MATCH_PLACES_MAX], come[1u << MATCH_PLACES_MAX];
};

static void shares_init(struct shares *s, const struct match_job *j, int parts)
{
	int each[MATCH_PLACES_MAX];

	s->n = j->nshares && j->shares->share_ppm ? j->nshares : 0;
	if (!s->n)
		return;
	match_share_out(j, parts, each);
	for (unsigned set = 0; set < 1u << s->n; set++) {
		s->takes[set] = s->come[set] = 0;
		for (int i = 0; i < s->n; i++)
			s->takes[set] += set >> i & 1 ? each[i] : 0;
	}
}

/* Counts a node that fits these; false: it does not go with the others, and none like it will. */
static bool shares_take(struct shares *s, unsigned mask)
{
	unsigned all = (1u << s->n) - 1;

	if (!s->n)
		return true;
	for (unsigned set = mask;; set = (set + 1) | mask) {
		if (s->come[set] == s->takes[set])
			return false;
		if (set == all)
			break;
	}
	for (unsigned set = mask;; set = (set + 1) | mask) {
		s->come[set]++;
		if (set == all)
			return true;
	}
}

/* --- whole GPUs ------------------------------------------------------------------------------- */

int64_t choice_add(struct choice *best, const struct match_index *ix,
	const struct walk_entry *e, int gpus)
{
	const struct match_node *n = &ix->nodes[e->node];
	int let = match_let(&ix->groups[n->group], gpus);
	int64_t price = match_price_of(ix, e->node, let, MATCH_MILLI);
	struct match_part *p = add_part(best);

	p->node = e->node;
	whole_gpus(n, let, p);
	best->score += e->cost;
	best->uusd = price > MATCH_NO_LIMIT - best->uusd ? MATCH_NO_LIMIT :
							   best->uusd + price;
	return price;
}

/* Finds the best nodes of a lane, if there are enough within the limit. */
static void find_best(struct chooser *c, struct lane *l, int parts)
{
	const struct match_job *j = c->job;
	struct choice *best = &l->best;
	const struct walk_entry *e;
	struct shares shares;
	int64_t dearest = 0;

	l->known = true;
	best->nparts = 0;
	best->score = 0;
	best->uusd = 0;
	shares_init(&shares, j, parts);
	while (best->nparts < parts && (e = walk_next(&l->walk, c->used))) {
		int64_t price;

		if (!shares_take(&shares, e->mask)) {
			walk_close(&l->walk, e->mask);
			continue;
		}
		price = choice_add(best, c->ix, e, l->walk.gpus);
		dearest = price > dearest ? price : dearest;
	}
	if (!c->found && best->uusd > j->limit_uusd)
		l->room_uusd = -1;
	else if (!c->found && best->nparts == parts && j->limit_uusd != MATCH_NO_LIMIT)
		l->room_uusd = j->limit_uusd - (best->uusd - dearest);
	if (best->nparts < parts || best->uusd > j->limit_uusd)
		best->nparts = 0;
}

static struct lane *new_lane(struct chooser *c, int parts, size_t model_no)
{
	struct lane *l;

	if (c->nlanes == c->lanes_cap) {
		size_t had = c->lanes_cap;

		c->lanes = xgrow(c->lanes, &c->lanes_cap, c->nlanes + 1,
			sizeof *c->lanes);
		memset(c->lanes + had, 0, (c->lanes_cap - had) * sizeof *c->lanes);
	}
	l = &c->lanes[c->nlanes++];
	l->model_no = model_no;
	l->known = false;
	l->room_uusd = c->job->limit_uusd;
	walk_begin(&l->walk, c->ix, c->job, c->job->gpus / parts);
	return l;
}

/* One lane for each model: all nodes of a job have the same. */
static void open_lanes(struct chooser *c, int parts)
{
	c->nlanes = 0;
	if (parts == 1)
		new_lane(c, 1, 0);
	for (size_t i = 0; i < c->ix->nmodels; i++) {
		const struct model *m = &c->ix->models[i];

		/* of a model of which there are too few nothing is to be had */
		if (match_wants_model(c->job, m->name) && m->members >= (size_t)parts)
			walk_add(parts == 1 ? &c->lanes->walk :
					      &new_lane(c, parts, i)->walk,
				m);
	}
}

/* The lower score; of equal ones the one whose first node goes before. */
static bool is_better(const struct match_index *ix, const struct choice *a,
	const struct choice *b)
{
	if (a->score != b->score)
		return a->score < b->score;
	return match_goes_before(ix, a->parts[0].node, b->parts[0].node);
}

/* Whether a lane cannot have what is as good, by the least that a node of it costs. With a limit
 * all are looked at, because it is said which nodes are above it. */
static bool is_hopeless(const struct chooser *c, const struct lane *l, int parts,
	const struct choice *best)
{
	const struct walk_heap *h = &l->walk.heap;

	return !l->known && best && c->job->limit_uusd == MATCH_NO_LIMIT && h->n &&
		h->at->cost * parts * (1 - 1e-12) > best->score;
}

static const struct choice *best_of_lanes(struct chooser *c, int parts)
{
	struct choice *best = NULL;

	for (size_t i = 0; i < c->nlanes; i++) {
		struct lane *l = &c->lanes[i];

		if (is_hopeless(c, l, parts, best))
			continue;
		if (!l->known)
			find_best(c, l, parts);
		if (l->best.nparts && (!best || is_better(c->ix, &l->best, best)))
			best = &l->best;
	}
	return best;
}

/* Nodes of a choice are not taken again; its lane looks for others. */
static void leave_out(struct chooser *c, const struct choice *choice)
{
	struct lane *l = c->lanes;

	if (!c->used) {
		c->used = xcalloc(c->ix->n / 64 + 1, sizeof *c->used);
	}
	for (int i = 0; i < choice->nparts; i++)
		c->used[choice->parts[i].node / 64] |= (uint64_t)1
			<< choice->parts[i].node % 64;
	while (&l->best != choice)
		l++;
	l->known = false;
	walk_again(&l->walk);
}

void chooser_begin(struct chooser *c, const struct match_index *ix,
	const struct match_job *j)
{
	c->ix = ix;
	c->job = j;
	c->parts = 0;
	c->found = 0;
	c->last = NULL;
	c->nlanes = 0;
	free(c->used);
	c->used = NULL;
}

const struct choice *chooser_next(struct chooser *c)
{
	const struct match_job *j = c->job;

	if (c->last) {
		leave_out(c, c->last);
		c->last = best_of_lanes(c, c->parts);
	}
	for (int parts = j->nodes_min > 1 ? j->nodes_min : 1;
		!c->found && parts <= j->nodes_max; parts++) {
		if (j->gpus % parts || (j->gpus && parts > j->gpus) ||
			j->gpus / parts > MATCH_GPUS_MAX)
			continue;
		open_lanes(c, parts);
		c->parts = parts;
		c->last = best_of_lanes(c, parts);
		if (c->last)
			break;
	}
	c->found += c->last != NULL;
	return c->last;
}

int64_t chooser_room(const struct chooser *c, size_t model_no)
{
	size_t low = 0, n = c->nlanes;

	if (n && c->parts == 1)
		return c->lanes->room_uusd;
	while (low < n) {
		size_t mid = low + (n - low) / 2;

		if (c->lanes[mid].model_no == model_no)
			return c->lanes[mid].room_uusd;
		if (c->lanes[mid].model_no < model_no)
			low = mid + 1;
		else
			n = mid;
	}
	return c->job->limit_uusd;
}

void chooser_release(struct chooser *c)
{
	for (size_t i = 0; i < c->lanes_cap; i++) {
		walk_release(&c->lanes[i].walk);
		choice_release(&c->lanes[i].best);
	}
	free(c->lanes);
	free(c->used);
	memset(c, 0, sizeof *c);
}

/* --- a part of a GPU -------------------------------------------------------------------------- */

static void set_choice(struct choice *best, const struct match_part *p, double score,
	int64_t uusd)
{
	best->nparts = 0;
	*add_part(best) = *p;
	best->score = score;
	best->uusd = uusd;
}

/* Tries the fullest GPU of a node that the part fits in. */
static void try_part(const struct match_index *ix, const struct match_job *j, size_t node,
	bool shared, struct choice *best)
{
	const struct match_node *n = &ix->nodes[node];
	double score = match_cost_of(ix, j, node, match_score_of(ix, n), 1);
	int gpu = -1;

	for (int k = 0; k < n->gpus; k++)
		if (n->left[k] >= j->milli && (gpu < 0 || n->left[k] < n->left[gpu]))
			gpu = k;
	if (gpu < 0 || !match_node_fits(ix, j, node, 1) || score > best->score ||
		(score == best->score &&
			(!best->nparts || !shared || node > best->parts[0].node)))
		return;
	set_choice(best,
		&(struct match_part){ .node = node,
			.gpus = 1,
			.milli = j->milli,
			.gpu = { (int8_t)gpu } },
		score, match_price_of(ix, node, 1, j->milli));
}

/* The fullest GPU that it fits in, of the nodes where one is shared already; a whole one only where
 * that costs less. */
static bool choose_part(const struct match_index *ix, struct chooser *c,
	const struct match_job *j, struct choice *best)
{
	const struct walk_entry *e;

	best->nparts = 0;
	best->score = MATCH_HEAP_NONE;
	for (size_t i = 0; i < ix->ngroups; i++) {
		const struct group *g = &ix->groups[i];

		for (size_t k = 0; k < g->npartial && match_group_fits(j, g); k++)
			try_part(ix, j, g->partial[k], true, best);
	}
	chooser_begin(c, ix, j);
	open_lanes(c, 1);
	e = walk_next(&c->lanes->walk, NULL);
	if (e)
		try_part(ix, j, e->node, false, best);
	return best->nparts > 0;
}

/* --- the least fragmentation ---------------------------------------------------------------- */

static void to_place(const struct match_node *n, struct place_node *out)
{
	*out = (struct place_node){ .ngpus = n->gpus };
	for (int i = 0; i < n->gpus; i++)
		out->left[i] = n->left[i];
}

/* Tries the job on one node: by how much fragmentation grows, then by price. */
static void try_node(const struct match_index *ix, const struct match_job *j, size_t node,
	struct choice *best)
{
	const struct match_node *n = &ix->nodes[node];
	struct match_part p = { .node = node };
	struct place_node place;
	double before;

	if (!match_node_fits(ix, j, node, j->gpus))
		return;
	to_place(n, &place);
	before = place_fragments(ix->classes, &place);
	for (int k = 0; k < (j->milli < MATCH_MILLI ? n->gpus : 1); k++) {
		int64_t uusd = match_price_of(ix, node, j->gpus, j->milli);
		double growth;

		if (j->milli < MATCH_MILLI && n->left[k] < j->milli)
			continue;
		if (j->milli < MATCH_MILLI)
			p = (struct match_part){ .node = node,
				.gpus = 1,
				.milli = j->milli,
				.gpu = { (int8_t)k } };
		else
			whole_gpus(n, j->gpus, &p);
		to_place(n, &place);
		for (int i = 0; i < p.gpus; i++)
			place.left[p.gpu[i]] -= p.milli;
		growth = place_fragments(ix->classes, &place) - before;
		if (growth > best->score ||
			(growth == best->score && best->nparts && uusd >= best->uusd))
			continue;
		set_choice(best, &p, growth, uusd);
	}
}

/* Nodes of a level without a shared GPU are in the same state, so that the cheapest of them that
 * fits stands for all. */
static void try_level(const struct match_index *ix, struct walk *w,
	const struct match_job *j, size_t group, int level, struct choice *best)
{
	const struct walk_entry *e;

	walk_begin(w, ix, j, j->gpus);
	walk_add_level(w, group, level);
	e = walk_next(w, NULL);
	if (e)
		try_node(ix, j, e->node, best);
}

static bool choose_fgd(const struct match_index *ix, struct chooser *c,
	const struct match_job *j, struct choice *best)
{
	chooser_begin(c, ix, j);
	new_lane(c, 1, 0);
	best->nparts = 0;
	best->score = MATCH_HEAP_NONE;
	for (size_t i = 0; i < ix->ngroups; i++) {
		const struct group *g = &ix->groups[i];

		if (!match_group_fits(j, g) || match_let(g, j->gpus) != j->gpus)
			continue;
		for (int k = 0; k < g->nlevels; k++)
			if (g->levels[k].free >= j->gpus)
				try_level(ix, &c->lanes->walk, j, i, k, best);
		for (size_t k = 0; k < g->npartial; k++)
			if (j->milli < MATCH_MILLI ||
				ix->nodes[g->partial[k]].free_gpus >= j->gpus)
				try_node(ix, j, g->partial[k], best);
	}
	return best->nparts > 0;
}

bool match_choose(const struct match_index *ix, struct chooser *c,
	const struct match_job *j, struct choice *best)
{
	struct choice *found, other;

	if (ix->algorithm == MATCH_FGD)
		return choose_fgd(ix, c, j, best);
	if (j->milli < MATCH_MILLI)
		return choose_part(ix, c, j, best);
	chooser_begin(c, ix, j);
	found = (struct choice *)(uintptr_t)chooser_next(c);
	if (!found) {
		best->nparts = 0;
		return false;
	}
	other = *best;
	*best = *found;
	*found = other;
	return true;
}

void match_classify(struct match_index *ix, const struct match_job *jobs, size_t n)
{
	struct place_pod *pods = xcalloc(n + 1, sizeof *pods);
	size_t npods = 0;

	ix->classes = xcalloc(1, sizeof *ix->classes);
	for (size_t i = 0; i < n; i++)
		if (!jobs[i].elsewhere)
			pods[npods++] = (struct place_pod){ .gpus = jobs[i].gpus,
				.milli = jobs[i].milli };
	place_classify(ix->classes, pods, npods);
	free(pods);
}
