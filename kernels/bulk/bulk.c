/* bulk.c - reference of bulk.h: plain loops that define what every version computes. */
#include "kernels/bulk/bulk.h"

void bulk_triad_ref(double *a, const double *b, const double *c, double s, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		a[i] = b[i] + s * c[i];
}

uint64_t bulk_random_ref(const struct bulk_random *r)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < r->count; i++)
		sum += r->table[bulk_place(r->seed, r->from + i, r->words)];
	return sum;
}
