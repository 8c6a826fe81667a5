/* check_philox.c - compares every version of philox with its reference: exact or bounded cases,
 * edges, repeatability. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/kernels/kcheck.h"

struct arguments {
	uint64_t bytes;
	struct philox p;
};

static int run(struct dev *d, void *out, const void *arguments)
{
	const struct arguments *a = arguments;

	return d->ops->philox(d, out, a->bytes, &a->p);
}

static void one(struct kcheck *k, uint64_t bytes, uint64_t block, unsigned offset)
{
	struct arguments a = { bytes,
		{ .seed = 0x0123456789abcdef, .stream = 9, .block = block } };
	unsigned char *want = malloc(bytes);
	struct kcase c = { .run = run,
		.arguments = &a,
		.want = want,
		.out_bytes = bytes,
		.offset = offset,
		.work = (double)bytes,
		.unit = "B" };

	philox_fill_ref(want, bytes, &a.p);
	snprintf(c.label, sizeof c.label, "%llu bytes from block %llx, offset %u",
		(unsigned long long)bytes, (unsigned long long)block, offset);
	kcheck_case(k, &c);
	free(want);
}

void check_philox(struct kcheck *k)
{
	static const uint64_t sizes[] = { 1, 15, 16, 17, 127, 128, 255, 256, 257, 4096,
		100003 };

	if (k->bench) {
		one(k, UINT64_C(64) << 20, 0, 0);
		return;
	}
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		for (unsigned offset = 0; offset < 18; offset += 17) {
			one(k, sizes[i], 0, offset);
			one(k, sizes[i], 0xfffffff9, offset); /* the low word overflows */
			one(k, sizes[i], UINT64_MAX - 2,
				offset); /* and the whole number does */
		}
}
