/* aggregate.c - the rules of aggregate.h: what each pass sums, and what a chunk of d is made of. */
#include "common/lm/rounds/aggregate.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/num.h"
#include "common/base/threads.h"
#include "common/lm/rounds/aggregate_x86.h"
#include "common/lm/rounds/outer.h"

#define LANES 8 /* sums that run side by side in a block, so that they fit vectors */

/* --- names ---------------------------------------------------------------------------------- */

static const char *const names[] = { [AGGREGATE_MEAN] = "mean",
	[AGGREGATE_CLIP] = "clip",
	[AGGREGATE_TRIMMED] = "trimmed",
	[AGGREGATE_CCLIP] = "cclip",
	[AGGREGATE_KRUM] = "krum" };
#define KINDS (sizeof names / sizeof *names)

static int usage(const char *text)
{
	return err_set(EX_USAGE,
		"'%.40s' is no rule: mean, clip, trimmed:F (0 <= F < 0.5), cclip, krum:F (F >= 1)",
		text);
}

int aggregate_parse(struct aggregate_rule *r, const char *text)
{
	size_t len = strcspn(text, ":");
	const char *value = text[len] ? text + len + 1 : NULL;
	int64_t evil;

	*r = (struct aggregate_rule){ .trim = 0.25 };
	while (r->kind < KINDS &&
		(strlen(names[r->kind]) != len || memcmp(names[r->kind], text, len) != 0))
		r->kind++;
	if (r->kind == AGGREGATE_TRIMMED) {
		if (value && num_f64(value, "f", &r->trim) < 0)
			return usage(text);
		return r->trim >= 0 && r->trim < 0.5 ? 0 : usage(text);
	}
	if (r->kind == AGGREGATE_KRUM) {
		if (!value || num_i64(value, "f", 1, 1 << 20, &evil) < 0)
			return usage(text);
		r->evil = (uint32_t)evil;
		return 0;
	}
	return r->kind < KINDS && !value ? 0 : usage(text);
}

void aggregate_name(char out[32], const struct aggregate_rule *r)
{
	if (r->kind == AGGREGATE_TRIMMED)
		snprintf(out, 32, "%s:%.6g", names[r->kind], r->trim);
	else if (r->kind == AGGREGATE_KRUM)
		snprintf(out, 32, "%s:%" PRIu32, names[r->kind], r->evil);
	else
		snprintf(out, 32, "%s", names[r->kind]);
}

size_t aggregate_least(const struct aggregate_rule *r)
{
	return r->kind == AGGREGATE_KRUM ? 2 * (size_t)r->evil + 3 : 1;
}

/* --- sums over blocks ----------------------------------------------------------------------- */

/* sum (x - c) (y - e) over a block; c and e may be NULL: zeros. Lane j sums the elements j, j + 8
 * and so on. */
static double product(const float *x, const double *c, const float *y, const double *e,
	uint64_t n)
{
	double lane[LANES] = { 0 }, sum = 0;

	for (uint64_t i = 0; i < n; i++) {
		double a = (double)x[i] - (c ? c[i] : 0);
		double b = (double)y[i] - (e ? e[i] : 0);

		lane[i % LANES] += a * b;
	}
	for (int j = 0; j < LANES; j++)
		sum += lane[j];
	return sum;
}

/* The squared distance of two deltas in a block. */
static double distance(const float *x, const float *y, uint64_t n)
{
	double lane[LANES] = { 0 }, sum = 0;

	for (uint64_t i = 0; i < n; i++) {
		double a = (double)x[i] - (double)y[i];

		lane[i % LANES] += a * a;
	}
	for (int j = 0; j < LANES; j++)
		sum += lane[j];
	return sum;
}

/* The working memory of a block: its place in the chunk. */
struct block {
	const float *const *x;
	const float *last;
	uint64_t at, n;
};

/* The centre of centred clipping after a number of its moves: c <- c + sum w_i (delta_i - c)
 * s_i. */
static void centre(const struct aggregate *a, double *c, const struct block *b, int moves)
{
	for (uint64_t i = 0; i < b->n; i++)
		c[i] = b->last ? (double)b->last[b->at + i] : 0;
	for (int m = 0; m < moves; m++) {
		const double *scale = a->scale + (size_t)m * a->k;

		for (uint64_t i = 0; i < b->n; i++) {
			double move = 0;

			for (size_t j = 0; j < a->k; j++)
				move += a->w[j] * scale[j] *
					((double)b->x[j][b->at + i] - c[i]);
			c[i] += move;
		}
	}
}

/* The sums of a block in an open pass: norms, distances to the centre, or distances of pairs. */
static void look_block(const struct aggregate *a, const struct block *b, double *parts)
{
	double c[AGGREGATE_BLOCK];
	bool centred = a->rule.kind == AGGREGATE_CCLIP;

	if (a->rule.kind == AGGREGATE_KRUM) {
		for (size_t i = 0; i < a->k; i++)
			for (size_t j = 0; j < i; j++)
				*parts++ = distance(b->x[i] + b->at, b->x[j] + b->at,
					b->n);
		return;
	}
	if (centred)
		centre(a, c, b, a->look);
	for (size_t i = 0; i < a->k; i++)
		parts[i] = product(b->x[i] + b->at, centred ? c : NULL, b->x[i] + b->at,
			centred ? c : NULL, b->n);
}

/* Room for the parts of a chunk; every pass has the same pairs in all of its chunks. */
static void make_room(struct aggregate *a, uint64_t blocks)
{
	a->parts = xgrow(a->parts, &a->parts_cap, (size_t)blocks * a->pairs,
		sizeof *a->parts);
}

/* Adds the parts of a chunk's blocks, in order. */
static void add_parts(struct aggregate *a, uint64_t blocks)
{
	for (uint64_t b = 0; b < blocks; b++)
		for (size_t p = 0; p < a->pairs; p++)
			a->sums[p] += a->parts[b * a->pairs + p];
}

static void begin_sums(struct aggregate *a, size_t pairs)
{
	a->pairs = pairs;
	a->sums = xrealloc(a->sums, pairs * sizeof *a->sums);
	for (size_t i = 0; i < pairs; i++)
		a->sums[i] = 0;
}

/* --- passes --------------------------------------------------------------------------------- */

static int passes(enum aggregate_kind kind)
{
	switch (kind) {
	case AGGREGATE_CLIP:
	case AGGREGATE_KRUM:
		return 1;
	case AGGREGATE_CCLIP:
		return AGGREGATE_CCLIPS;
	default:
		return 0;
	}
}

bool aggregate_looks(const struct aggregate *a)
{
	return a->look < passes(a->rule.kind);
}

/* norms and products of all deltas with d, and d's own norm */
static size_t final_pairs(const struct aggregate *a)
{
	return 2 * a->k + 1;
}

static void begin_pass(struct aggregate *a)
{
	bool krum = a->rule.kind == AGGREGATE_KRUM;

	if (!aggregate_looks(a))
		begin_sums(a, final_pairs(a));
	else
		begin_sums(a, krum ? a->k * (a->k - 1) / 2 : a->k);
}

int aggregate_begin(struct aggregate *a, const struct aggregate_rule *rule,
	const uint64_t *tokens, size_t k)
{
	*a = (struct aggregate){ .rule = *rule, .k = k };
	if (k < aggregate_least(rule) && k)
		return err_set(EX_DATAERR, "krum:%" PRIu32 " needs %zu deltas, not %zu",
			rule->evil, aggregate_least(rule), k);
	a->w = xcalloc(k + 1, sizeof *a->w);
	a->norm = xcalloc(k + 1, sizeof *a->norm);
	a->dot = xcalloc(k + 1, sizeof *a->dot);
	a->scale = xcalloc((k + 1) * AGGREGATE_CCLIPS, sizeof *a->scale);
	if (outer_weights(a->w, tokens, k) < 0)
		return -1;
	a->sorted = xmalloc((size_t)threads_max() * k * sizeof *a->sorted);
	begin_pass(a);
	return 0;
}

void aggregate_release(struct aggregate *a)
{
	free(a->w);
	free(a->norm);
	free(a->dot);
	free(a->scale);
	free(a->sums);
	free(a->parts);
	free(a->sorted);
	*a = (struct aggregate)AGGREGATE_INIT;
}

static uint64_t blocks_of(uint64_t n)
{
	return (n + AGGREGATE_BLOCK - 1) / AGGREGATE_BLOCK;
}

static struct block block_at(const float *const *x, const float *last, uint64_t i,
	uint64_t n)
{
	uint64_t at = i * AGGREGATE_BLOCK;

	return (struct block){ .x = x,
		.last = last,
		.at = at,
		.n = n - at < AGGREGATE_BLOCK ? n - at : AGGREGATE_BLOCK };
}

void aggregate_look(struct aggregate *a, const float *const *x, const float *last,
	uint64_t n)
{
	uint64_t blocks = blocks_of(n);

	make_room(a, blocks);
#pragma omp parallel for schedule(static) if (blocks > 1)
	for (uint64_t i = 0; i < blocks; i++) {
		struct block b = block_at(x, last, i, n);

		look_block(a, &b, a->parts + i * a->pairs);
	}
	add_parts(a, blocks);
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(const double *values, size_t n)
{
	double *sorted = xmalloc(n * sizeof *sorted), m;

	memcpy(sorted, values, n * sizeof *sorted);
	qsort(sorted, n, sizeof *sorted, by_size);
	m = n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
	free(sorted);
	return m;
}

/* min(1, M / norm_i) from the sums of squares. */
static void clip_scales(const struct aggregate *a, double *scale)
{
	double m;

	for (size_t i = 0; i < a->k; i++)
		a->sums[i] = sqrt(a->sums[i]);
	m = median(a->sums, a->k);
	for (size_t i = 0; i < a->k; i++)
		scale[i] = a->sums[i] > m ? m / a->sums[i] : 1;
}

/* A member's sum of distances to its k - f - 2 nearest. */
struct krum {
	double score;
	size_t member;
};

static int by_score(const void *a, const void *b)
{
	const struct krum *x = a, *y = b;

	if (x->score != y->score)
		return x->score < y->score ? -1 : 1;
	return (x->member > y->member) - (x->member < y->member);
}

static double pair_distance(const struct aggregate *a, size_t i, size_t j)
{
	size_t high = i > j ? i : j, low = i > j ? j : i;

	return sqrt(a->sums[high * (high - 1) / 2 + low]);
}

/* Takes the weights of those that are not chosen. */
static void choose(struct aggregate *a)
{
	struct krum *all = xcalloc(a->k, sizeof *all);
	double *distances = xmalloc(a->k * sizeof *distances), sum = 0;
	size_t chosen = a->k - a->rule.evil;

	for (size_t i = 0; i < a->k; i++) {
		size_t n = 0;

		for (size_t j = 0; j < a->k; j++)
			if (j != i)
				distances[n++] = pair_distance(a, i, j);
		qsort(distances, n, sizeof *distances, by_size);
		all[i].member = i;
		for (size_t j = 0; j < chosen - 2; j++)
			all[i].score += distances[j];
	}
	qsort(all, a->k, sizeof *all, by_score);
	for (size_t i = chosen; i < a->k; i++)
		a->w[all[i].member] = 0;
	for (size_t i = 0; i < a->k; i++)
		sum += a->w[i];
	for (size_t i = 0; i < a->k; i++)
		a->w[i] = sum > 0 ? a->w[i] / sum : 0;
	free(distances);
	free(all);
}

void aggregate_look_end(struct aggregate *a)
{
	if (a->rule.kind == AGGREGATE_KRUM)
		choose(a);
	else
		clip_scales(a, a->scale + (size_t)a->look * a->k);
	a->look++;
	begin_pass(a);
}

/* --- d -------------------------------------------------------------------------------------- */

/* A coordinate's deltas between two order statistics: what trimming leaves. Of equal values at an
 * edge as many are left out as have to be, with the share of the weight of all of them. */
struct cut {
	float low, high;            /* the least and the greatest that are left */
	double low_part, high_part; /* how much of those equal to them is left */
};

static int by_value(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

static void sort_values(float *v, size_t k)
{
	if (k > 32) {
		qsort(v, k, sizeof *v, by_value);
		return;
	}
	for (size_t i = 1; i < k; i++) {
		float x = v[i];
		size_t j = i;

		for (; j && v[j - 1] > x; j--)
			v[j] = v[j - 1];
		v[j] = x;
	}
}

static size_t equal(const float *sorted, size_t from, size_t to, float x)
{
	size_t n = 0;

	for (size_t i = from; i < to; i++)
		n += sorted[i] == x;
	return n;
}

static struct cut cut_of(const float *sorted, size_t k, size_t trim)
{
	struct cut c = { .low = sorted[trim], .high = sorted[k - 1 - trim] };

	c.low_part = (double)equal(sorted, trim, k - trim, c.low) /
		(double)equal(sorted, 0, k, c.low);
	c.high_part = (double)equal(sorted, trim, k - trim, c.high) /
		(double)equal(sorted, 0, k, c.high);
	return c;
}

static double trimmed(const struct aggregate *a, const struct block *b, uint64_t i,
	float *sorted)
{
	size_t trim = (size_t)floor(a->rule.trim * (double)a->k);
	double sum = 0, weight = 0;
	struct cut c;

	for (size_t j = 0; j < a->k; j++)
		sorted[j] = b->x[j][b->at + i];
	sort_values(sorted, a->k);
	c = cut_of(sorted, a->k, trim);
	for (size_t j = 0; j < a->k; j++) {
		float x = b->x[j][b->at + i];
		double w = x < c.low || x > c.high ? 0 :
			x == c.low                 ? a->w[j] * c.low_part :
			x == c.high                ? a->w[j] * c.high_part :
						     a->w[j];

		sum += w * (double)x;
		weight += w;
	}
	return weight > 0 ? sum / weight : 0;
}

static void rule_block(const struct aggregate *a, double *d, const struct block *b)
{
	bool clip = a->rule.kind == AGGREGATE_CLIP;

	if (a->rule.kind == AGGREGATE_CCLIP) {
		centre(a, d, b, AGGREGATE_CCLIPS);
		return;
	}
	if (a->rule.kind == AGGREGATE_TRIMMED) {
		for (uint64_t i = 0; i < b->n; i++)
			d[i] = trimmed(a, b, i,
				a->sorted + (size_t)thread_number() * a->k);
		return;
	}
	outer_mean_begin(d, b->n);
	for (size_t j = 0; j < a->k; j++)
		if (a->w[j] > 0)
			outer_mean_add(d, b->x[j] + b->at,
				clip ? a->w[j] * a->scale[j] : a->w[j], b->n);
}

static double squares(const double *d, uint64_t n)
{
	double sum = 0;

	for (uint64_t i = 0; i < n; i++)
		sum += d[i] * d[i];
	return sum;
}

/* sum x x and sum x d over a block in one pass, as it reads what is summed for a delta. */
static void norm_and_dot(const float *x, const double *d, uint64_t n, double out[2])
{
	double norm[LANES] = { 0 }, dot[LANES] = { 0 };
	uint64_t whole = n / LANES * LANES;

	for (uint64_t i = aggregate_norm_and_dot_fast(x, d, n, norm, dot); i < whole;
		i += LANES)
		for (int j = 0; j < LANES; j++) {
			double v = (double)x[i + (uint64_t)j];

			norm[j] += v * v;
			dot[j] += v * d[i + (uint64_t)j];
		}
	for (uint64_t i = whole; i < n; i++) {
		norm[i % LANES] += (double)x[i] * (double)x[i];
		dot[i % LANES] += (double)x[i] * d[i];
	}
	out[0] = out[1] = 0;
	for (int j = 0; j < LANES; j++) {
		out[0] += norm[j];
		out[1] += dot[j];
	}
}

void aggregate_chunk(struct aggregate *a, double *d, const float *const *x,
	const float *last, uint64_t n)
{
	uint64_t blocks = blocks_of(n);

	make_room(a, blocks);
#pragma omp parallel for schedule(static) if (blocks > 1)
	for (uint64_t i = 0; i < blocks; i++) {
		struct block b = block_at(x, last, i, n);
		double *parts = a->parts + i * a->pairs;

		rule_block(a, d + b.at, &b);
		for (size_t j = 0; j < a->k; j++)
			norm_and_dot(x[j] + b.at, d + b.at, b.n, parts + 2 * j);
		parts[2 * a->k] = squares(d + b.at, b.n);
	}
	add_parts(a, blocks);
}

void aggregate_end(struct aggregate *a)
{
	for (size_t i = 0; i < a->k; i++) {
		a->norm[i] = sqrt(a->sums[2 * i]);
		a->dot[i] = a->sums[2 * i + 1];
	}
	a->d_norm = sqrt(a->sums[2 * a->k]);
}

int64_t aggregate_cosine_ppm(const struct aggregate *a, size_t i)
{
	double norms = a->norm[i] * a->d_norm;

	return norms > 0 ? llround(1e6 * fmax(-1, fmin(1, a->dot[i] / norms))) : 0;
}
