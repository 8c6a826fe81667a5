/* update_take.c - the ranges of fragments, and reading containers that others made. */
#include "common/lm/train/update.h"

#include <math.h>
#include <stdlib.h>

#include "common/base/err.h"
#include "common/base/mem.h"

/* --- ranges --------------------------------------------------------------------------------- */

size_t update_fragment(const struct lm_config *c, uint32_t p, uint32_t fragments,
	struct update_range **ranges)
{
	uint32_t tensors = lm_layout_count(c);
	struct update_range *list = xcalloc(tensors + 1, sizeof *list);
	uint64_t at = 0;
	size_t n = 0;

	for (uint32_t i = 0; i < tensors; i++) {
		struct lm_place place;

		lm_layout_at(c, i, &place);
		if (outer_fragment(&place, fragments) == p) {
			if (!n || list[n - 1].first + list[n - 1].count != at)
				list[n++].first = at;
			list[n - 1].count += place.count;
		}
		at += place.count;
	}
	*ranges = list;
	return n;
}

uint64_t update_elements(const struct update_range *ranges, size_t n)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += ranges[i].count;
	return sum;
}

uint64_t update_walk_step(struct update_walk *w, uint64_t max, uint64_t *at)
{
	uint64_t n;

	while (w->i < w->n && w->done == w->ranges[w->i].count) {
		w->i++;
		w->done = 0;
	}
	if (w->i == w->n)
		return 0;
	*at = w->ranges[w->i].first + w->done;
	n = w->ranges[w->i].count - w->done;
	n = n < max ? n : max;
	w->done += n;
	return n;
}

void update_publish(float *pub, struct update_walk *w, const float *u, uint64_t n)
{
	uint64_t at, some;

	for (uint64_t done = 0; done < n; done += some) {
		some = update_walk_step(w, n - done, &at);
		outer_publish(pub + at, u + done, some);
	}
}

int update_take(struct dev *cpu, float *pub, const struct update_range *ranges,
	size_t nranges, grad_read_fn read, void *ctx)
{
	uint64_t want = update_elements(ranges, nranges), have = 0, n;
	struct grad_decoder *d = grad_decoder_new(cpu, read, ctx);
	struct update_walk w = { .ranges = ranges, .n = nranges };
	float *scratch = NULL;
	int rc = -1;

	if (!d)
		return -1;
	if (grad_decoder_info(d)->bf16) {
		err_set(EX_DATAERR, "the update is of bf16");
		goto out;
	}
	scratch = xmalloc(grad_batch(grad_decoder_info(d)) * sizeof *scratch);
	do {
		if (grad_decoder_next_host(d, scratch, &n) < 0)
			goto out;
		if (n > want - have) {
			err_set(EX_DATAERR, "the update has more than %llu elements",
				(unsigned long long)want);
			goto out;
		}
		update_publish(pub, &w, scratch, n);
		have += n;
	} while (n);
	rc = have == want ? 0 :
			    err_set(EX_DATAERR, "the update has %llu elements, not %llu",
				    (unsigned long long)have, (unsigned long long)want);
out:
	free(scratch);
	grad_decoder_free(d);
	return rc;
}

/* Adds up the squares of what was decoded. */
static int add_squares(const float *x, uint64_t n, double *sum)
{
	double part = 0;

	for (uint64_t i = 0; i < n; i++)
		part += (double)x[i] * (double)x[i];
	*sum += part;
	return isfinite(part) ?
		0 :
		err_set(EX_DATAERR, "it holds numbers that are not finite");
}

int update_check(struct dev *cpu, uint64_t elements, grad_read_fn read, void *ctx,
	double *norm)
{
	struct grad_decoder *d = grad_decoder_new(cpu, read, ctx);
	uint64_t have = 0, n;
	double sum = 0;
	float *scratch = NULL;
	int rc = -1;

	if (!d)
		return -1;
	if (grad_decoder_info(d)->bf16) {
		err_set(EX_DATAERR, "it is of bf16, not f32");
		goto out;
	}
	scratch = xmalloc(grad_batch(grad_decoder_info(d)) * sizeof *scratch);
	do {
		if (grad_decoder_next_host(d, scratch, &n) < 0 ||
			add_squares(scratch, n, &sum) < 0)
			goto out;
		have += n;
	} while (n && have <= elements);
	rc = have == elements ? 0 :
				err_set(EX_DATAERR, "it holds %s %llu elements",
					have > elements ? "more than" : "less than",
					(unsigned long long)elements);
	*norm = sqrt(sum);
out:
	free(scratch);
	grad_decoder_free(d);
	return rc;
}
