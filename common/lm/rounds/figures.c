/* figures.c - what is counted of a round, and changes nothing. */
#include "common/lm/rounds/round.h"

size_t round_live(const struct round *r)
{
	size_t n = 0;

	for (size_t i = 0; i < r->nmembers; i++) {
		const struct round_member *m = &r->members[i];

		n += m->here && (m->asks || m->works || m->done);
	}
	return n;
}

bool round_absent(const struct round *r, uint64_t member)
{
	const struct round_member *m = r->members + member;

	return member < r->nmembers && !r->policy.asynchronous && !m->done &&
		m->work.steps && m->work.turn == r->number;
}

uint64_t round_fresh(const struct round *r)
{
	return r->next;
}

uint64_t round_returned(const struct round *r)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < r->nfree; i++)
		sum += r->free[i].count;
	return sum;
}
