/* speed.c - the speed that the turns of a round are measured by, of what members say. */
#include "common/lm/rounds/speed.h"

#include <stdlib.h>

#include "common/base/mem.h"

static int ascending(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* The speed that all others are held against. Members say it of themselves, so no one makes
 * everybody else's turns shorter than a member so many times as fast as the median does: of two, as
 * the slower. */
#define FASTEST_OF_MEDIAN UINT64_C(16)

void round_find_fastest(struct round *r)
{
	uint64_t *speeds = xcalloc(r->nmembers + 1, sizeof *speeds);
	size_t n = 0;

	for (size_t i = 0; i < r->nmembers; i++)
		if (r->members[i].here && r->members[i].speed)
			speeds[n++] = r->members[i].speed;
	qsort(speeds, n, sizeof *speeds, ascending);
	r->fastest = n ? speeds[n - 1] : 0;
	r->fastest_max = 0;
	if (n &&
		__builtin_mul_overflow(speeds[(n - 1) / 2], FASTEST_OF_MEDIAN,
			&r->fastest_max))
		r->fastest_max = UINT64_MAX;
	if (r->fastest > r->fastest_max)
		r->fastest = r->fastest_max;
	free(speeds);
}

void round_hear_speed(struct round *r, uint64_t speed)
{
	if (!r->policy.dylu || speed <= r->fastest)
		return;
	if (r->fastest_max)
		r->fastest = speed < r->fastest_max ? speed : r->fastest_max;
	else
		round_find_fastest(r);
}
