/* choose.c - which nodes are best for a job: see parts.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/market/parts.h"
#include "common/base/mem.h"

#define SPEED_STEPS 1024.0

/* --- what fits a job -------------------------------------------------------------------------- */

static bool is_in(const char *const *names, int n, const char *name)
{
	for (int i = 0; i < n; i++)
		if (names[i] == name)
			return true;
	return false;
}

bool match_wants_model(const struct match_job *j, const char *model)
{
	return !j->nmodels || is_in(j->models, j->nmodels, model);
}

bool match_wants_place(const struct match_job *j, const char *country, const char *region)
{
	return !j->nplaces || (country && is_in(j->places, j->nplaces, country)) ||
		(region && is_in(j->places, j->nplaces, region));
}

bool match_group_fits(const struct match_job *j, const struct group *g)
{
	return match_wants_model(j, g->model) && g->memory_bytes >= j->memory_bytes &&
		(g->compliance & j->compliance) == j->compliance &&
		(j->spot || !g->spot) && match_wants_place(j, g->country, g->region);
}

/* The price of n GPUs, or of a part of one, rounded up; MATCH_NO_LIMIT: it does not fit an
 * amount. */
int64_t match_price_of(int64_t uusd, int gpus, int milli)
{
	int64_t all;

	if (__builtin_mul_overflow(uusd, (int64_t)gpus * milli, &all))
		return MATCH_NO_LIMIT;
	return all / MATCH_MILLI + (all % MATCH_MILLI != 0);
}

/* Whether the node may serve `gpus` of the job's GPUs. Of the cheapest nodes together their sum is
 * checked later; where others are chosen, each part has its share of the limit. */
static bool node_fits(const struct match *m, const struct match_job *j,
	const struct match_node *n, int gpus)
{
	int64_t limit = m->algorithm == MATCH_ROTATION &&
			j->limit_uusd != MATCH_NO_LIMIT ?
		j->limit_uusd / (j->gpus / gpus) :
		j->limit_uusd;

	return (!j->reputation_ppm || n->reputation_ppm >= j->reputation_ppm) &&
		match_price_of(n->uusd, gpus, j->milli) <= limit;
}

/* How much work a GPU-hour of this model does for the job, relative to others. */
double match_work_of(const struct match *m, const struct match_job *j, const char *model)
{
	if (m->algorithm != MATCH_GAVEL)
		return 1;
	for (int i = 0; i < j->nmodels; i++)
		if (j->models[i] == model && j->throughput[i] > 0)
			return j->throughput[i];
	return 1;
}

double match_speed(const struct match *m, const struct match_job *j, const char *model)
{
	double work = 0, gpus = 0;

	if (m->algorithm != MATCH_GAVEL || !j->nmodels)
		return 1;
	for (size_t i = 0; i < m->ngroups; i++) {
		const struct group *g = &m->groups[i];
		double n = (double)g->members * g->gpus;

		if (!match_wants_model(j, g->model))
			continue;
		work += n * match_work_of(m, j, g->model);
		gpus += n;
	}
	if (!(work > 0))
		return 1;
	return fmax(1, round(match_work_of(m, j, model) * gpus / work * SPEED_STEPS)) /
		SPEED_STEPS;
}

/* --- choosing ------------------------------------------------------------------------------- */

/* The first whole free GPUs. */
static void whole_gpus(const struct match_node *n, int gpus, struct match_part *p)
{
	p->gpus = 0;
	for (int i = 0; i < n->gpus && p->gpus < gpus; i++)
		if (n->left[i] == MATCH_MILLI)
			p->gpu[p->gpus++] = i;
	p->milli = MATCH_MILLI;
}

/* Collects from a group the best `wanted` nodes with `gpus` free ones that fit the job, by
 * taking nodes out of the heaps and putting them back. Returns how many there are. */
static int match_best_of_group(struct match *m, struct group *g,
	const struct match_job *j, int gpus, int wanted, size_t *out)
{
	size_t *seen = NULL, nseen = 0, cap = 0;
	int found = 0;

	while (found < wanted && g->best[gpus] < MATCH_HEAP_NONE) {
		int f = gpus;
		size_t node;

		for (int k = gpus + 1; k <= g->gpus; k++)
			if (g->heaps[k].n &&
				(!g->heaps[f].n ||
					match_heap_less(&g->heaps[k].at[0],
						&g->heaps[f].at[0])))
				f = k;
		node = g->heaps[f].at[0].node;
		if (node_fits(m, j, &m->nodes[node], gpus))
			out[found++] = node;
		else if (m->algorithm != MATCH_ROTATION && !j->reputation_ppm)
			break; /* the cheapest is too dear */
		if (found == wanted && !nseen)
			break;
		seen = xgrow(seen, &cap, nseen + 1, sizeof *seen);
		seen[nseen++] = node;
		match_withdraw(m, node);
	}
	for (size_t i = 0; i < nseen; i++)
		match_enter(m, seen[i]);
	free(seen);
	return found;
}

/* Tries the job on these nodes, of one model. Improves *best. */
static void try_nodes(struct match *m, const struct match_job *j, const size_t *nodes,
	int parts, struct choice *best)
{
	int gpus = j->gpus / parts;
	double score = 0;
	int64_t uusd = 0;

	for (int i = 0; i < parts; i++) {
		const struct match_node *n = &m->nodes[nodes[i]];
		int64_t price = match_price_of(n->uusd, gpus, MATCH_MILLI);

		score += match_score_of(m, n) * gpus / match_work_of(m, j, n->model);
		uusd = price > MATCH_NO_LIMIT - uusd ? MATCH_NO_LIMIT : uusd + price;
	}
	if (score >= best->score || uusd > j->limit_uusd)
		return;
	best->score = score;
	best->uusd = uusd;
	best->nparts = parts;
	for (int i = 0; i < parts; i++) {
		best->parts[i].node = nodes[i];
		whole_gpus(&m->nodes[nodes[i]], gpus, &best->parts[i]);
	}
}

static void try_group(struct match *m, struct group *g, const struct match_job *j,
	struct choice *best)
{
	size_t node;

	if (j->gpus <= MATCH_GPUS_MAX && g->best[j->gpus] < MATCH_HEAP_NONE &&
		g->best[j->gpus] * j->gpus / match_work_of(m, j, g->model) <
			best->score &&
		match_best_of_group(m, g, j, j->gpus, 1, &node) == 1)
		try_nodes(m, j, &node, 1, best);
}

/* Puts a node into the list of the best so far, which has n of at most `max`. Returns n. */
static int insert_node(const struct match *m, size_t *list, int n, int max, size_t node)
{
	int at = n;

	while (at &&
		match_score_of(m, &m->nodes[node]) <
			match_score_of(m, &m->nodes[list[at - 1]]))
		at--;
	if (at == max)
		return n;
	n += n < max;
	memmove(list + at + 1, list + at, (size_t)(n - at - 1) * sizeof *list);
	list[at] = node;
	return n;
}

/* Tries the job on `parts` nodes, with equal numbers of GPUs of the model of group `first`, which
 * is the first group of that model. */
static void try_gang(struct match *m, size_t first, const struct match_job *j, int parts,
	struct choice *best)
{
	const char *model = m->groups[first].model;
	int gpus = j->gpus / parts, n = 0;
	size_t list[MATCH_PARTS_MAX], found[MATCH_PARTS_MAX];

	for (size_t i = 0; i < first; i++)
		if (m->groups[i].model == model)
			return;
	for (size_t i = first; i < m->ngroups && gpus <= MATCH_GPUS_MAX; i++) {
		struct group *g = &m->groups[i];
		int k;

		if (g->model != model || !match_group_fits(j, g))
			continue;
		k = match_best_of_group(m, g, j, gpus, parts, found);
		for (int a = 0; a < k; a++)
			n = insert_node(m, list, n, parts, found[a]);
	}
	if (n == parts)
		try_nodes(m, j, list, parts, best);
}

/* One part. The others are left as they are: a choice has room for many. */
static void set_choice(struct choice *best, const struct match_part *p, double score,
	int64_t uusd)
{
	best->parts[0] = *p;
	best->nparts = 1;
	best->score = score;
	best->uusd = uusd;
}

/* Tries a part of one GPU: the fullest that it fits in, of the nodes where a GPU is shared
 * already; a whole one only where that costs less. */
static void try_part(struct match *m, size_t group, const struct match_job *j,
	struct choice *best)
{
	struct group *g = &m->groups[group];
	size_t node;

	for (size_t i = 0; i <= g->npartial; i++) {
		const struct match_node *n;
		int gpu = -1;
		double score;

		if (i < g->npartial)
			node = g->partial[i];
		else if (match_best_of_group(m, g, j, 1, 1, &node) < 1)
			return;
		n = &m->nodes[node];
		for (int k = 0; k < n->gpus; k++)
			if (n->left[k] >= j->milli &&
				(gpu < 0 || n->left[k] < n->left[gpu]))
				gpu = k;
		score = match_score_of(m, n) / match_work_of(m, j, g->model);
		if (gpu < 0 || !node_fits(m, j, n, 1) || score > best->score ||
			(score == best->score &&
				(!best->nparts || i == g->npartial ||
					node > best->parts[0].node)))
			continue;
		set_choice(best, &(struct match_part){ node, 1, j->milli, { gpu } },
			score, match_price_of(n->uusd, 1, j->milli));
	}
}

/* --- the least fragmentation ---------------------------------------------------------------- */

static void to_place(const struct match_node *n, struct place_node *out)
{
	*out = (struct place_node){ .ngpus = n->gpus };
	for (int i = 0; i < n->gpus; i++)
		out->left[i] = n->left[i];
}

/* Tries the job on one node: by how much fragmentation grows, then by price. */
static void try_node(struct match *m, const struct match_job *j, size_t node,
	struct choice *best)
{
	const struct match_node *n = &m->nodes[node];
	struct match_part p = { .node = node };
	struct place_node place;
	double before;

	if (!node_fits(m, j, n, j->gpus))
		return;
	to_place(n, &place);
	before = place_fragments(m->classes, &place);
	for (int k = 0; k < (j->milli < MATCH_MILLI ? n->gpus : 1); k++) {
		int64_t uusd = match_price_of(n->uusd, j->gpus, j->milli);
		double growth;

		if (j->milli < MATCH_MILLI && n->left[k] < j->milli)
			continue;
		if (j->milli < MATCH_MILLI)
			p = (struct match_part){ node, 1, j->milli, { k } };
		else
			whole_gpus(n, j->gpus, &p);
		to_place(n, &place);
		for (int i = 0; i < p.gpus; i++)
			place.left[p.gpu[i]] -= p.milli;
		growth = place_fragments(m->classes, &place) - before;
		if (growth > best->score ||
			(growth == best->score && best->nparts && uusd >= best->uusd))
			continue;
		set_choice(best, &p, growth, uusd);
	}
}

/* Nodes of a group with as many free GPUs and none shared are in the same state, so that the
 * cheapest of them stands for all. */
static bool choose_fgd(struct match *m, const struct match_job *j, struct choice *best)
{
	best->nparts = 0;
	best->score = MATCH_HEAP_NONE;
	for (size_t i = 0; i < m->ngroups; i++) {
		struct group *g = &m->groups[i];

		if (!match_group_fits(j, g))
			continue;
		for (int f = j->gpus; f <= g->gpus; f++)
			if (g->heaps[f].n)
				try_node(m, j, g->heaps[f].at[0].node, best);
		for (size_t k = 0; k < g->npartial; k++)
			if (j->milli < MATCH_MILLI ||
				m->nodes[g->partial[k]].free_gpus >= j->gpus)
				try_node(m, j, g->partial[k], best);
	}
	return best->nparts > 0;
}

/* Fewest nodes first; more are taken only where that is the only way or better by score. */
bool match_choose(struct match *m, const struct match_job *j, struct choice *best)
{
	if (m->algorithm == MATCH_FGD)
		return choose_fgd(m, j, best);
	best->nparts = 0;
	best->score = MATCH_HEAP_NONE;
	for (int parts = 1; parts <= j->nodes_max && parts <= j->gpus; parts++) {
		if (j->gpus % parts)
			continue;
		for (size_t g = 0; g < m->ngroups; g++) {
			if (parts > 1 && match_wants_model(j, m->groups[g].model))
				try_gang(m, g, j, parts, best);
			if (parts > 1 || !match_group_fits(j, &m->groups[g]))
				continue;
			if (j->milli < MATCH_MILLI)
				try_part(m, g, j, best);
			else
				try_group(m, &m->groups[g], j, best);
		}
		if (best->nparts)
			break;
	}
	return best->nparts > 0;
}

void match_classify(struct match *m, const struct match_job *jobs, size_t n)
{
	struct place_pod *pods = xcalloc(n + 1, sizeof *pods);
	size_t npods = 0;

	m->classes = xcalloc(1, sizeof *m->classes);
	for (size_t i = 0; i < n; i++)
		if (!jobs[i].elsewhere)
			pods[npods++] = (struct place_pod){ .gpus = jobs[i].gpus,
				.milli = jobs[i].milli };
	place_classify(m->classes, pods, npods);
	free(pods);
}
