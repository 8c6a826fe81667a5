/* figure.h - what this machine reaches at one thing, measured long enough, and kept for all
 * programs: what a share of it, a time left or a cost is computed from.
 *
 * A figure is kept as an rnp.bench record in measured.jsonl, which lies in $CACHE_DIRECTORY (of a
 * service), $XDG_CACHE_HOME/rnp or $HOME/.cache/rnp; without such a place every process measures
 * for itself. Uses io, json, clock, stats, bench. */
#ifndef RNP_COMMON_HW_FIGURE_H
#define RNP_COMMON_HW_FIGURE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/stats.h"
#include "kernels/dev/dev.h"

struct figure {
	/* What is measured, and on what: the key. Texts are borrowed. */
	const char *suite, *test, *unit;
	char device[256], kernel[64];
	int threads;
	/* The rate of the best batch: what else a machine does can only make a batch slower. 0: not
	 * measured. */
	double best;
	struct stats batches; /* median and interval of all */
};

/* Sets the key: a test on a device. */
void figure_init(struct figure *f, const struct dev *d, const char *suite,
	const char *test, const char *unit);

/* Reads the kept figure of f's key. Returns false if there is none that is younger than 30 days. */
bool figure_kept(struct figure *f);

/* Does a piece of work, some milliseconds or more, and gives its rate in f's unit. Returns 0, or -1
 * with err_set(). */
typedef int (*figure_batch_fn)(void *ctx, double *rate);

/* Measures: batches of a tenth of time_ms warm up and do not count; then at least 6 and as many
 * as it takes to know the median within 2%, for at most time_ms. A better figure that f or the
 * place has already stays. Returns 0, or -1 as the batch: f->best is as before. */
int figure_measure(struct figure *f, figure_batch_fn batch, void *ctx, int64_t time_ms);

/* Keeps n >= 1 rates that a program has measured in batches of its own, with care. */
void figure_offer(struct figure *f, const double *rates, size_t n);

/* Appends the path of a file of this name in the place, which is made. Returns 0, or -1 with
 * err_set(): there is none. */
int figure_place(struct buf *out, const char *name);

#endif
