/* worked.c - see worked.h. */
#include "cmd/rnp-reward/evidence/worked.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"

/* By start, and then by all else: what several receipts of one start add up to must not depend
 * on the order in which they came. */
static int by_start(const void *a, const void *b)
{
	const struct worked_receipt *x = a, *y = b;

	if (x->wall.from_ms != y->wall.from_ms)
		return x->wall.from_ms < y->wall.from_ms ? -1 : 1;
	if (x->wall.to_ms != y->wall.to_ms)
		return x->wall.to_ms < y->wall.to_ms ? -1 : 1;
	if (x->gpu_ms != y->gpu_ms)
		return x->gpu_ms < y->gpu_ms ? -1 : 1;
	if (x->named != y->named)
		return x->named < y->named ? -1 : 1;
	return memcmp(x->of, y->of, sizeof x->of);
}

int64_t worked_union_ms(const struct span *spans, size_t n, int64_t from_ms,
	int64_t to_ms)
{
	int64_t sum = 0, end = from_ms;

	for (size_t i = 0; i < n; i++) {
		int64_t start = spans[i].from_ms > end ? spans[i].from_ms : end;
		int64_t stop = spans[i].to_ms < to_ms ? spans[i].to_ms : to_ms;

		if (stop <= start)
			continue;
		sum += stop - start;
		end = stop;
	}
	return sum;
}

/* Returns the first group that a receipt is of; ngroups: none that is paid. */
static int first_group(const struct worked_receipt *r, int ngroups)
{
	int g = 0;

	if (!r->named || !ngroups)
		return 0;
	while (g < ngroups && !r->of[g])
		g++;
	return g;
}

/* Returns the time that receipts of the groups up to `last` cover, each for at most the GPU time
 * that it states. */
static int64_t wall_ms(const struct worked_receipt *receipts, size_t n, int ngroups,
	int last, struct span *spans)
{
	size_t used = 0;

	for (size_t i = 0; i < n; i++) {
		const struct worked_receipt *r = &receipts[i];
		struct span *s = &spans[used];

		if (first_group(r, ngroups) > last)
			continue;
		*s = r->wall;
		if (r->gpu_ms >= 0 && r->gpu_ms < s->to_ms - s->from_ms)
			s->to_ms = s->from_ms + r->gpu_ms;
		used++;
	}
	return worked_union_ms(spans, used, INT64_MIN, INT64_MAX);
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* Receipts that overlap, in milliseconds. */
struct cluster {
	int64_t start, end;
	int64_t named
		[WORKED_GROUPS_MAX]; /* GPU time of each group, by receipts that say which */
	int64_t rest;                /* of others */
};

/* Adds a receipt, which begins before the cluster ends. */
static void add(struct cluster *c, const struct worked_receipt *r, const int64_t *gpus,
	int ngroups)
{
	int64_t wall = r->wall.to_ms - r->wall.from_ms, all = 0, extent;

	c->end = r->wall.to_ms > c->end ? r->wall.to_ms : c->end;
	extent = c->end - c->start;
	for (int g = 0; g < ngroups; g++) {
		if (r->named)
			c->named[g] += least(r->gpu_ms * r->of[g] / r->named,
				wall * r->of[g]);
		c->named[g] = least(c->named[g], extent * gpus[g]);
		all += gpus[g];
	}
	if (!r->named)
		c->rest += least(r->gpu_ms, wall * all);
	all *= extent;
	for (int g = 0; g < ngroups; g++)
		all -= c->named[g];
	c->rest = least(c->rest, all);
}

static void close_cluster(struct cluster *c, const int64_t *gpus, int ngroups,
	struct worked *out)
{
	for (int g = 0; g < ngroups; g++) {
		int64_t room = (c->end - c->start) * gpus[g] - c->named[g];
		int64_t more = least(room, c->rest);

		out[g].gpu_ms += c->named[g] + more;
		c->rest -= more;
	}
}

void worked_sum(struct worked_receipt *receipts, size_t n, const int64_t *gpus,
	int ngroups, struct worked *out)
{
	struct span *spans = xcalloc(n, sizeof *spans);
	struct cluster c = { 0 };
	int64_t before = 0, upto;

	qsort(receipts, n, sizeof *receipts, by_start);
	for (int g = 0; g < (ngroups ? ngroups : 1); g++) {
		upto = wall_ms(receipts, n, ngroups, g, spans);
		out[g] = (struct worked){ .wall_ms = upto - before };
		before = upto;
	}
	for (size_t i = 0; i < n; i++) {
		if (receipts[i].gpu_ms < 0)
			continue;
		if (receipts[i].wall.from_ms >= c.end) {
			close_cluster(&c, gpus, ngroups, out);
			c = (struct cluster){ .start = receipts[i].wall.from_ms,
				.end = receipts[i].wall.from_ms };
		}
		add(&c, &receipts[i], gpus, ngroups);
	}
	close_cluster(&c, gpus, ngroups, out);
	free(spans);
}
