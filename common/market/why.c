/* why.c - why a job waits, in a sentence. */
#include <stdio.h>

#include "common/market/parts.h"

static void count(struct match *m, const struct match_job *j, struct census *c)
{
	if (!m->by_price)
		m->by_price = match_sort_by_price(&m->ix);
	match_census(&m->ix, j, m->by_price, NULL, c);
}

bool match_could_fit(struct match *m, const struct match_job *j)
{
	struct census c;

	count(m, j, &c);
	return c.fit + c.left_out[MATCH_IS_BUSY] > 0;
}

/* What is said where of n nodes all lack the same. */
static const char *const none_has[MATCH_REASONS] = {
	[MATCH_LACKS_GPU_MEMORY] = "none of %zu nodes has so much memory on a GPU",
	[MATCH_LACKS_PLACE] = "none of %zu nodes is there",
	[MATCH_LACKS_COMPLIANCE] = "none of %zu nodes complies with all that is asked",
	[MATCH_LACKS_FIRMNESS] = "all %zu nodes are spot offers, which the job refuses",
	[MATCH_LACKS_HOST_TYPE] = "none of %zu nodes is such a host",
	[MATCH_LACKS_TIER] = "none of %zu nodes has so fast a link",
	[MATCH_LACKS_PING] = "none of %zu nodes is so near",
	[MATCH_LACKS_CPU_CORES] = "none of %zu nodes has so many cores for its GPUs",
	[MATCH_LACKS_MEMORY] = "none of %zu nodes has so much memory for its GPUs",
	[MATCH_LACKS_DISK] = "none of %zu nodes has so much disk for its GPUs",
	[MATCH_IS_EXCLUDED] = "all %zu nodes are excluded",
	[MATCH_LACKS_REPUTATION] = "none of %zu nodes has the reputation",
};

/* The first wish that nobody meets who meets those before. Returns it, or MATCH_REASONS; *n becomes
 * how many meet those before. */
static enum match_reason first_unmet(const struct census *c, size_t *n)
{
	size_t left = c->fit;

	for (int i = 0; i < MATCH_REASONS; i++)
		left += c->left_out[i];
	for (int i = 0; i < MATCH_IS_BUSY; i++) {
		*n = left;
		left -= c->left_out[i];
		if (!left)
			return (enum match_reason)i;
	}
	*n = left;
	return MATCH_REASONS;
}

void match_why(struct match *m, const struct match_job *j, char *out, size_t size)
{
	struct census c;
	size_t n;
	enum match_reason unmet;

	count(m, j, &c);
	unmet = first_unmet(&c, &n);
	if (unmet == MATCH_LACKS_MODEL)
		snprintf(out, size, "%s",
			j->gpus ? "no node has such a GPU" :
				  "no node without a GPU is for sale");
	else if (unmet == MATCH_LACKS_GPUS)
		snprintf(out, size,
			"the largest of %zu nodes has %d GPUs, the job wants %d", n,
			c.max, j->gpus);
	else if (unmet == MATCH_IS_DEAR)
		snprintf(out, size,
			"the cheapest of %zu nodes asks %lld.%06lld $/h, above the limit",
			n, (long long)(c.cheapest_uusd / 1000000),
			(long long)(c.cheapest_uusd % 1000000));
	else if (unmet < MATCH_REASONS)
		snprintf(out, size, none_has[unmet], n);
	else if (n < (size_t)j->nodes_min)
		snprintf(out, size, "%zu node%s fit%s, the job wants %d", n,
			n == 1 ? "" : "s", n == 1 ? "s" : "", j->nodes_min);
	else
		snprintf(out, size, "all %zu nodes that fit are busy", n);
}
