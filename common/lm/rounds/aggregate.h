/* aggregate.h - one delta d from the deltas of a round, by a rule that holds against members who
 * send nonsense. Pure: values in, values out, chunk by chunk. Uses outer.h.
 *
 * A rule needs norms or distances over whole deltas before it can say what a chunk of d is. So a
 * caller goes through the deltas several times, always in the same order of members:
 *
 *     aggregate_begin(&a, ...);
 *     while (aggregate_looks(&a)) {
 *             for each chunk: aggregate_look(&a, x, last, n);
 *             aggregate_look_end(&a);
 *     }
 *     for each chunk: aggregate_chunk(&a, d, x, last, n);
 *     aggregate_end(&a);
 *
 * A chunk is a multiple of AGGREGATE_BLOCK elements, but the last. Sums are f64 in blocks of
 * this size, added in order: results depend neither on chunks nor on threads. */
#ifndef RNP_COMMON_LM_ROUNDS_AGGREGATE_H
#define RNP_COMMON_LM_ROUNDS_AGGREGATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AGGREGATE_BLOCK  4096
#define AGGREGATE_CCLIPS 3 /* centred clipping moves its centre so many times */

enum aggregate_kind {
	AGGREGATE_MEAN, /* d = sum w_i delta_i */
	AGGREGATE_CLIP, /* delta_i min(1, M / norm_i), M the median norm; then mean */
	AGGREGATE_TRIMMED, /* per coordinate without the f k largest and smallest; then mean */
	/* centred clipping, Karimireddy et al. (arXiv 2012.10333): c = last round's d; three
	 * times c <- c + mean((delta_i - c) min(1, M / dist_i)), M the median distance */
	AGGREGATE_CCLIP,
	/* multi-Krum, Blanchard et al. (NIPS 2017): mean of the k - f deltas with the least sum
	 * of distances to their k - f - 2 nearest; k >= 2 f + 3 */
	AGGREGATE_KRUM,
};

struct aggregate_rule {
	enum aggregate_kind kind;
	double trim;   /* f of trimmed, 0 <= f < 0.5: f k is rounded down */
	uint32_t evil; /* f of krum */
};

/* Parses "mean", "clip", "trimmed:0.25" ("trimmed" alone is that), "cclip", "krum:2"; writes the
 * same. Returns 0, or -1 with err_set(EX_USAGE). */
int aggregate_parse(struct aggregate_rule *r, const char *text);
void aggregate_name(char out[32], const struct aggregate_rule *r);

/* The least number of deltas that the rule works on. */
size_t aggregate_least(const struct aggregate_rule *r);

struct aggregate {
	struct aggregate_rule rule;
	size_t k;
	double *w;    /* [k] weights; krum: of the chosen alone. sum 1 */
	double *norm; /* [k] L2 norms of the deltas; after the end */
	double *dot;  /* [k] <delta_i, d>; after the end */
	double d_norm;

	/* private */
	int look; /* the pass that is open or next */
	double *scale; /* [AGGREGATE_CCLIPS][k]: what a delta, or its distance, is clipped by */
	double *sums; /* [pairs] of the pass */
	size_t pairs;
	double *parts; /* [blocks][pairs] of a chunk */
	size_t parts_cap;
	float *sorted; /* trimmed: [threads][k] */
};

#define AGGREGATE_INIT    \
	{                 \
		.w = NULL \
	}

/* tokens[k]: weights are proportional to them. Returns 0, or -1 with err_set(EX_DATAERR): no
 * deltas, no tokens, fewer deltas than the rule needs. aggregate_release either way. */
int aggregate_begin(struct aggregate *a, const struct aggregate_rule *rule,
	const uint64_t *tokens, size_t k);
void aggregate_release(struct aggregate *a);

/* Whether another pass over all chunks is needed before d. */
bool aggregate_looks(const struct aggregate *a);

/* x[k]: chunks of n elements, in the order of tokens. last: this chunk of the last round's d, NULL:
 * zeros; only cclip reads it. */
void aggregate_look(struct aggregate *a, const float *const *x, const float *last,
	uint64_t n);
void aggregate_look_end(struct aggregate *a);

/* Writes the chunk of d, and takes up norms and products. */
void aggregate_chunk(struct aggregate *a, double *d, const float *const *x,
	const float *last, uint64_t n);
/* norm, dot and d_norm are complete. */
void aggregate_end(struct aggregate *a);

/* The cosine of delta i to d, in ppm (-1000000 .. 1000000); 0 where one of them is 0. */
int64_t aggregate_cosine_ppm(const struct aggregate *a, size_t i);

#endif
