/* update_take.c - the ranges of fragments, and reading containers that others made. */
#include "common/lm/rounds/update.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

void update_publish(float *published, struct update_walk *w, const float *u, uint64_t n)
{
	uint64_t at, some;

	for (uint64_t done = 0; done < n; done += some) {
		some = update_walk_step(w, n - done, &at);
		outer_publish(published + at, u + done, some);
	}
}

/* --- containers that others made -------------------------------------------------------------- */

int update_header(const struct grad *g, const char *method, uint64_t elements)
{
	char is[64];

	grad_name(is, g);
	if (method && strcmp(is, method) != 0)
		return err_set(EX_DATAERR, "a container of method %s, not %s", is,
			method);
	if (g->elements != elements || g->bf16)
		return err_set(EX_DATAERR, "a container of %llu %s, not %llu f32",
			(unsigned long long)g->elements, g->bf16 ? "bf16" : "f32",
			(unsigned long long)elements);
	return 0;
}

typedef int (*take_fn)(void *arg, const float *x, uint64_t n);

/* Gives all values of a container to take, in order. Returns 0, or -1 with err_set(). */
static int decode_all(struct dev *dev, const char *method, uint64_t elements,
	grad_read_fn read, void *ctx, take_fn take, void *arg)
{
	struct grad_decoder *d = grad_decoder_new(dev, read, ctx);
	uint64_t have = 0, n = 1;
	float *values;
	int rc = d ? update_header(grad_decoder_info(d), method, elements) : -1;

	if (rc < 0) {
		grad_decoder_free(d);
		return -1;
	}
	values = xmalloc(grad_batch(grad_decoder_info(d)) * sizeof *values);
	while (rc == 0 && n) {
		rc = grad_decoder_next_host(d, values, &n);
		if (rc == 0 && n > elements - have)
			rc = err_set(EX_DATAERR, "something follows the container");
		if (rc == 0 && n)
			rc = take(arg, values, n);
		have += n;
	}
	if (rc == 0 && have < elements)
		rc = err_set(EX_DATAERR, "the container ends early");
	free(values);
	grad_decoder_free(d);
	return rc;
}

struct publishing {
	float *published;
	struct update_walk walk;
};

static int publish(void *arg, const float *x, uint64_t n)
{
	struct publishing *p = arg;

	update_publish(p->published, &p->walk, x, n);
	return 0;
}

int update_take(struct dev *dev, const char *method, float *published,
	const struct update_range *ranges, size_t nranges, grad_read_fn read, void *ctx)
{
	struct publishing p = { published, { .ranges = ranges, .n = nranges } };

	return decode_all(dev, method, update_elements(ranges, nranges), read, ctx,
		publish, &p);
}

struct checking {
	double squares;
	struct sketch *sketch;
};

/* Adds up the squares of what was decoded. */
static int add_squares(void *arg, const float *x, uint64_t n)
{
	struct checking *c = arg;

	for (uint64_t i = 0; i < n; i++)
		c->squares += (double)x[i] * (double)x[i];
	if (c->sketch)
		sketch_add(c->sketch, x, n);
	return isfinite(c->squares) ?
		0 :
		err_set(EX_DATAERR, "a value of the container is not finite");
}

int update_check(struct dev *dev, const char *method, uint64_t elements,
	grad_read_fn read, void *ctx, double *norm, struct sketch *sketch)
{
	struct checking c = { .sketch = sketch };
	int rc = decode_all(dev, method, elements, read, ctx, add_squares, &c);

	*norm = sqrt(c.squares);
	return rc;
}
