/* census.c - how many nodes lack what a job asks for: see parts.h. */
#include <stdlib.h>

#include "common/market/parts.h"
#include "common/base/mem.h"

static int by_group_and_price(const void *a, const void *b)
{
	const struct priced *x = a, *y = b;

	if (x->group != y->group)
		return x->group < y->group ? -1 : 1;
	if (x->uusd != y->uusd)
		return x->uusd < y->uusd ? -1 : 1;
	return x->node < y->node ? -1 : x->node > y->node;
}

struct priced *match_sort_by_price(struct match_index *ix)
{
	struct priced *all = xmalloc((ix->n + 1) * sizeof *all);
	size_t first = 0;

	for (size_t i = 0; i < ix->n; i++)
		all[i] = (struct priced){ ix->nodes[i].group, ix->facts[i].all_uusd, i };
	if (ix->n)
		qsort(all, ix->n, sizeof *all, by_group_and_price);
	for (size_t i = 0; i < ix->ngroups; i++) {
		ix->groups[i].first = first;
		first += ix->groups[i].members;
	}
	return all;
}

/* What is counted: the nodes of a group. */
struct counting {
	const struct match_index *ix;
	const struct match_job *job;
	const struct group *group; /* NULL: its members are counted */
	int let, parts;
	int64_t room_uusd;
	struct census *out;
};

static int64_t price_of(const struct counting *c, size_t node)
{
	return match_price_of(c->ix, node, c->let * c->parts, c->job->milli);
}

/* How many of n nodes, sorted by price, are within the limit. */
static size_t count_within(const struct counting *c, const struct priced *p, size_t n)
{
	size_t low = 0;

	while (low < n) {
		size_t mid = low + (n - low) / 2;

		if (price_of(c, p[mid].node) <= c->room_uusd)
			low = mid + 1;
		else
			n = mid;
	}
	return low;
}

/* Counts all members at once, where none is asked for more than its group has. */
static void count_sorted(const struct counting *c, const struct priced *p)
{
	struct census *out = c->out;
	size_t n = c->group->members, within = count_within(c, p, n);

	out->cheapest_uusd = price_of(c, p->node) < out->cheapest_uusd ?
		price_of(c, p->node) :
		out->cheapest_uusd;
	out->left_out[MATCH_IS_DEAR] += n - within;
	out->fit += within;
}

static void count_node(const struct counting *c, size_t node)
{
	struct census *out = c->out;
	enum match_reason lacks = match_node_lacks(c->ix, c->job, node, c->let);
	int64_t price;

	if (lacks < MATCH_REASONS) {
		out->left_out[lacks]++;
		return;
	}
	if (c->group->gpus > out->max)
		out->max = c->group->gpus;
	if (c->let > match_group_units(c->group)) {
		out->left_out[MATCH_LACKS_GPUS]++;
		return;
	}
	price = price_of(c, node);
	out->cheapest_uusd = price < out->cheapest_uusd ? price : out->cheapest_uusd;
	if (price > c->room_uusd)
		out->left_out[MATCH_IS_DEAR]++;
	else if (c->ix->facts[node].free < c->let)
		out->left_out[MATCH_IS_BUSY]++;
	else
		out->fit++;
}

/* Counts the members of a group. Returns false where that takes a look at each. */
static bool count_at_once(const struct counting *c, const struct priced *sorted)
{
	const struct group *g = c->group;
	struct census *out = c->out;
	enum match_reason lacks = match_group_lacks(c->job, g);
	bool large = c->let <= match_group_units(g);

	if (lacks < MATCH_REASONS) {
		out->left_out[lacks] += g->members;
		return true;
	}
	if (match_asks_each(c->ix, c->job) || (!sorted && large))
		return false;
	out->max = g->gpus > out->max ? g->gpus : out->max;
	if (!large)
		out->left_out[MATCH_LACKS_GPUS] += g->members;
	else
		count_sorted(c, sorted + g->first);
	return true;
}

int match_parts_most(const struct match_job *j)
{
	int parts = j->nodes_max < 1 ? 1 : j->nodes_max;

	while (parts > 1 && j->gpus && (parts > j->gpus || j->gpus % parts))
		parts--;
	return parts;
}

/* What holds for all nodes of a group. */
static struct counting counting_of(const struct match_index *ix,
	const struct match_job *j, size_t group, const struct chooser *rooms, int parts)
{
	const struct group *g = &ix->groups[group];

	return (struct counting){ .ix = ix,
		.job = j,
		.group = g,
		.let = match_let(g, j->gpus / parts),
		.parts = rooms ? 1 : parts,
		.room_uusd = rooms ? chooser_room(rooms, g->model_no) : j->limit_uusd };
}

void match_census(const struct match_index *ix, const struct match_job *j,
	const struct priced *sorted, const struct chooser *rooms, struct census *out)
{
	int parts = rooms && rooms->parts ? rooms->parts : match_parts_most(j);
	struct counting *each = xcalloc(ix->ngroups + 1, sizeof *each);
	bool all = true;

	*out = (struct census){ .cheapest_uusd = rooms ? 0 : MATCH_NO_LIMIT };
	for (size_t i = 0; i < ix->ngroups; i++) {
		struct counting c;

		if (!ix->groups[i].members)
			continue;
		c = counting_of(ix, j, i, rooms, parts);
		c.out = out;
		if (count_at_once(&c, sorted))
			continue;
		each[i] = c;
		all = false;
	}
	for (size_t i = 0; i < ix->n && !all; i++)
		if (ix->facts[i].all_uusd >= 0 && each[ix->facts[i].group].group)
			count_node(&each[ix->facts[i].group], i);
	free(each);
}
