/* why.c - why a job waits, in a sentence. */
#include <stdio.h>
#include <stdlib.h>

#include "common/market/parts.h"
#include "common/base/mem.h"

/* --- why not ------------------------------------------------------------------------------- */

struct census {
	size_t model, memory, place, compliance, spot, reputation;
	size_t price, large;
	int64_t cheapest; /* per hour, of the nodes that are large enough */
	int max;          /* GPUs of one node */
};

static int by_group_and_price(const void *a, const void *b)
{
	const struct priced *x = a, *y = b;

	if (x->group != y->group)
		return x->group < y->group ? -1 : 1;
	if (x->uusd != y->uusd)
		return x->uusd < y->uusd ? -1 : 1;
	return x->node < y->node ? -1 : x->node > y->node;
}

/* Sorts the nodes of each group by price, so that not all of them are counted for every job. */
static void sort_by_price(struct match *m)
{
	size_t first = 0;

	if (m->by_price)
		return;
	m->by_price = xmalloc((m->n + 1) * sizeof *m->by_price);
	for (size_t i = 0; i < m->n; i++)
		m->by_price[i] = (struct priced){ m->nodes[i].group, m->nodes[i].uusd,
			i };
	qsort(m->by_price, m->n, sizeof *m->by_price, by_group_and_price);
	for (size_t i = 0; i < m->ngroups; i++) {
		m->groups[i].first = first;
		first += m->groups[i].members;
	}
}

static int64_t price_for(const struct match_job *j, const struct priced *p)
{
	return match_price_of(p->uusd, j->gpus, j->milli);
}

/* How many of n nodes, sorted by price, are within the job's limit. */
static size_t count_within(const struct match_job *j, const struct priced *p, size_t n)
{
	size_t low = 0;

	while (low < n) {
		size_t mid = low + (n - low) / 2;

		if (price_for(j, &p[mid]) <= j->limit_uusd)
			low = mid + 1;
		else
			n = mid;
	}
	return low;
}

/* Counts n nodes of a group, sorted by price, that have all but perhaps the size and the price. */
static void count_nodes(struct census *c, const struct match_job *j,
	const struct group *g, const struct priced *p, size_t n)
{
	if (!n)
		return;
	c->reputation += n;
	c->max = g->gpus > c->max ? g->gpus : c->max;
	if ((int64_t)g->gpus * j->nodes_max < j->gpus)
		return;
	c->large += n;
	c->price += count_within(j, p, n);
	if (price_for(j, p) < c->cheapest)
		c->cheapest = price_for(j, p);
}

static struct census take_census(const struct match *m, const struct match_job *j)
{
	struct census c = { .cheapest = MATCH_NO_LIMIT };

	for (size_t i = 0; i < m->ngroups; i++) {
		const struct group *g = &m->groups[i];
		const struct priced *p = m->by_price + g->first;

		if (!match_wants_model(j, g->model))
			continue;
		c.model += g->members;
		if (g->memory_bytes < j->memory_bytes)
			continue;
		c.memory += g->members;
		if (!match_wants_place(j, g->country, g->region))
			continue;
		c.place += g->members;
		if ((g->compliance & j->compliance) != j->compliance)
			continue;
		c.compliance += g->members;
		if (g->spot && !j->spot)
			continue;
		c.spot += g->members;
		if (!j->reputation_ppm)
			count_nodes(&c, j, g, p, g->members);
		for (size_t k = 0; k < g->members && j->reputation_ppm; k++)
			if (m->nodes[p[k].node].reputation_ppm >= j->reputation_ppm)
				count_nodes(&c, j, g, &p[k], 1);
	}
	return c;
}

bool match_could_fit(struct match *m, const struct match_job *j)
{
	sort_by_price(m);
	return take_census(m, j).price > 0;
}

void match_why(struct match *m, const struct match_job *j, char *out, size_t size)
{
	struct census c;

	sort_by_price(m);
	c = take_census(m, j);
	if (!c.model)
		snprintf(out, size, "no node has such a GPU");
	else if (!c.memory)
		snprintf(out, size, "none of %zu nodes has so much memory on a GPU",
			c.model);
	else if (!c.place)
		snprintf(out, size, "none of %zu nodes is there", c.memory);
	else if (!c.compliance)
		snprintf(out, size, "none of %zu nodes complies with all that is asked",
			c.place);
	else if (!c.spot)
		snprintf(out, size,
			"all %zu nodes are spot offers, which the job refuses",
			c.compliance);
	else if (!c.reputation)
		snprintf(out, size, "none of %zu nodes has the reputation", c.spot);
	else if (!c.large)
		snprintf(out, size,
			"the largest of %zu nodes has %d GPUs, the job wants %d",
			c.reputation, c.max, j->gpus);
	else if (!c.price)
		snprintf(out, size,
			"the cheapest of %zu nodes asks %lld.%06lld $/h, above the limit",
			c.large, (long long)(c.cheapest / 1000000),
			(long long)(c.cheapest % 1000000));
	else
		snprintf(out, size, "all %zu nodes that fit are busy", c.price);
}
