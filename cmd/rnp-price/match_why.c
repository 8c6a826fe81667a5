/* match_why.c - why a job waits, in a sentence. */
#include <stdio.h>

#include "cmd/rnp-price/match_parts.h"

/* --- why not ------------------------------------------------------------------------------- */

struct census {
	size_t model, memory, place, compliance, spot, reputation;
	size_t price, large, free;
	int64_t cheapest; /* per hour, of the nodes that are large enough */
	int max;          /* GPUs of one node */
};

static void count_node(struct census *c, const struct match_job *j,
	const struct match_node *n)
{
	int64_t price = match_price_of(n->uusd, j->gpus, j->milli);

	c->reputation++;
	c->max = n->gpus > c->max ? n->gpus : c->max;
	if (n->gpus * j->nodes_max < j->gpus)
		return;
	c->large++;
	c->cheapest = price < c->cheapest ? price : c->cheapest;
	c->price += price <= j->limit_uusd;
}

static struct census take_census(const struct match *m, const struct match_job *j)
{
	struct census c = { .cheapest = MATCH_NO_LIMIT };

	for (size_t i = 0; i < m->n; i++) {
		const struct match_node *n = &m->nodes[i];

		if (!match_wants_model(j, n->model))
			continue;
		c.model++;
		if (n->memory_bytes < j->memory_bytes)
			continue;
		c.memory++;
		if (!match_wants_place(j, n->country, n->region))
			continue;
		c.place++;
		if ((n->compliance & j->compliance) != j->compliance)
			continue;
		c.compliance++;
		if (n->spot && !j->spot)
			continue;
		c.spot++;
		if (!j->reputation_ppm || n->reputation_ppm >= j->reputation_ppm)
			count_node(&c, j, n);
	}
	return c;
}

void match_why(const struct match *m, const struct match_job *j, char *out, size_t size)
{
	struct census c = take_census(m, j);

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

void match_free_gpus(const struct match *m, double *free_gpus, double *all)
{
	*free_gpus = *all = 0;
	for (size_t i = 0; i < m->n; i++) {
		*all += m->nodes[i].gpus;
		for (int g = 0; g < m->nodes[i].gpus; g++)
			*free_gpus += (double)m->nodes[i].left[g] / MATCH_MILLI;
	}
}
