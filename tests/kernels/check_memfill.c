/* check_memfill.c - compares every version of memfill with its reference: exact or bounded
 * cases, edges, repeatability. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/kcheck.h"

#define PASSES 2

struct arguments {
	uint64_t lanes, per_slice;
};

/* all steps of two passes, starting from memory whose contents must not matter */
static void steps(struct memfill *m, const struct arguments *a, uint64_t step)
{
	m->lanes = a->lanes;
	m->per_slice = a->per_slice;
	m->step = step;
	m->key = (struct philox){ .seed = 77, .stream = step };
}

static int run(struct dev *d, void *out, const void *arguments)
{
	struct memfill m = { .blocks = out };

	for (uint64_t step = 0; step < PASSES * MEMFILL_SLICES; step++) {
		steps(&m, arguments, step);
		if (d->ops->poc->memfill(d, &m) < 0)
			return -1;
	}
	return 0;
}

static void one(struct kcheck *k, uint64_t lanes, uint64_t per_slice)
{
	struct arguments a = { lanes, per_slice };
	uint64_t bytes = lanes * MEMFILL_SLICES * per_slice * MEMFILL_BYTES;
	uint32_t *want = malloc(bytes);
	struct memfill m = { .blocks = want };
	struct kcase c = { .run = run,
		.arguments = &a,
		.want = k->bench ? NULL : want,
		.out_bytes = bytes,
		.work = PASSES * (double)bytes,
		.unit = "B" };

	for (uint64_t step = 0; !k->bench && step < PASSES * MEMFILL_SLICES; step++) {
		steps(&m, &a, step);
		memfill_ref(&m, 0, lanes);
	}
	snprintf(c.label, sizeof c.label, "%llu lanes of 4 x %llu, %d passes",
		(unsigned long long)lanes, (unsigned long long)per_slice, PASSES);
	kcheck_case(k, &c);
	free(want);
}

void check_memfill(struct kcheck *k)
{
	if (k->bench) {
		one(k, 1024, 64);
		return;
	}
	one(k, 1, 1);
	one(k, 3, 2);
	one(k, 9, 3);
	one(k, 21, 5);
}
