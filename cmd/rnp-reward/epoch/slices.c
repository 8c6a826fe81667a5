/* slices.c - formats slices of records side by side, in two sets: one is written while the other
 * is formatted. */
#include "cmd/rnp-reward/epoch/slices.h"

#include "common/base/err.h"
#include "common/cli/out.h"

#define SLICES 16 /* of a set */

struct set {
	struct buf texts[SLICES];
};

static int write_set(struct set *set)
{
	int rc = 0;

	for (size_t s = 0; s < SLICES && rc == 0; s++)
		if (set->texts[s].len)
			rc = out_lines(NULL, set->texts[s].data, set->texts[s].len);
	for (size_t s = 0; s < SLICES; s++)
		buf_reset(&set->texts[s]);
	return rc;
}

int slices_write(size_t n, size_t rows, slice_fn fn, void *ctx)
{
	struct set sets[2] = { 0 };
	struct err error = { 0 };
	int rc = 0;

	/* one turn more than there are sets to format: it writes the last one */
	for (size_t turn = 0, start = 0; rc == 0; turn++, start += rows * SLICES) {
		struct set *next = &sets[turn & 1], *ready = &sets[~turn & 1];

#pragma omp parallel for schedule(dynamic, 1) if (n > rows)
		for (size_t i = 0; i <= SLICES; i++) {
			size_t from = start + (i - 1) * rows;

			if (i == 0 && write_set(ready) < 0) {
				err_save(&error);
				rc = -1;
			} else if (i && from < n) {
				fn(ctx, from, from + rows < n ? from + rows : n,
					&next->texts[i - 1]);
			}
		}
		if (start >= n)
			break;
	}
	for (size_t s = 0; s < SLICES; s++) {
		buf_release(&sets[0].texts[s]);
		buf_release(&sets[1].texts[s]);
	}
	return rc < 0 ? err_restore(&error) : 0;
}
