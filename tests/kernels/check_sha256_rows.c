/* check_sha256_rows.c - compares every version of sha256_rows with its reference: exact or
 * bounded cases, edges, repeatability. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/kcheck.h"

static int run(struct dev *d, void *out, const void *arguments)
{
	return d->ops->poc->sha256(d, out, arguments);
}

static void one(struct kcheck *k, struct sha256_rows in, unsigned offset)
{
	uint64_t bytes = in.count ? (in.count - 1) * in.stride_bytes + in.row_bytes : 0;
	unsigned char *rows = malloc(bytes ? bytes : 1),
		      *want = malloc(in.count * SHA256_BYTES + 1);
	struct sha256_rows there = in;
	struct kcase c = { .run = run,
		.arguments = &there,
		.want = want,
		.out_bytes = in.count * SHA256_BYTES,
		.offset = offset,
		.work = (double)in.row_bytes * (double)in.count,
		.unit = "B" };

	kcheck_random(rows, bytes, in.row_bytes);
	in.rows = rows;
	if (!k->bench)
		sha256_rows_ref(want, &in);
	else
		c.want = NULL;
	there.rows = kcheck_put(k, rows, bytes, offset);
	snprintf(c.label, sizeof c.label, "%llu rows of %llu, prefix %u, index %u",
		(unsigned long long)in.count, (unsigned long long)in.row_bytes,
		in.prefix_bytes, in.index_bytes);
	kcheck_case(k, &c);
	free(rows);
	free(want);
}

void check_sha256_rows(struct kcheck *k)
{
	static const uint64_t lengths[] = { 0, 1, 46, 47, 54, 55, 56, 63, 64, 65, 119,
		120, 183, 256, 1000 };
	static const uint64_t counts[] = { 1, 2, 5, 7, 16, 33 };
	struct sha256_rows in = { .first = 0xfffffffe };

	memcpy(in.prefix, "rnp: a prefix of thirty-two byte", SHA256_PREFIX_MAX);
	if (k->bench) {
		in.prefix_bytes = 1;
		in.row_bytes = in.stride_bytes = 64, in.count = 1 << 18;
		one(k, in, 0);
		in.index_bytes = 4;
		in.row_bytes = in.stride_bytes = 4096, in.count = 1 << 13;
		one(k, in, 0);
		return;
	}
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
		for (size_t n = 0; n < sizeof counts / sizeof *counts; n++) {
			in.row_bytes = lengths[i];
			in.stride_bytes = lengths[i] + n % 2 * 3;
			in.count = counts[n];
			in.index_bytes = (uint32_t)((i + n) % 3 * 4);
			in.prefix_bytes = n == 5 ? SHA256_PREFIX_MAX : (uint32_t)n;
			one(k, in, (unsigned)(i % 2));
		}
}
