/* sample.c - draws tokens. One pass finds the largest logit of each block of 64. Blocks whose
 * largest is too small for top_k, top_p or min_p are not read again; what is left are candidates,
 * which sample_cut.c cuts. Without any of these limits there are no candidates at all, only sums of
 * blocks. A block that bias, penalties or a mask change is copied, the others stay where they
 * are. */
#include "common/lm/infer/sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/lm/infer/sample_cut.h"
#include "common/lm/infer/sample_scan.h"

/* tokens less likely than e^-REACH of the most likely are never drawn */
#define REACH 32.0

#define WORD(id) ((id) / 64)
#define BIT(id)  (UINT64_C(1) << (id) % 64)

void lm_sampling_defaults(struct lm_sampling *s, uint64_t seed)
{
	*s = (struct lm_sampling){ .temperature = 1,
		.top_p = 1,
		.repetition_penalty = 1,
		.seed = seed };
}

bool lm_sampling_penalises(const struct lm_sampling *s)
{
	return s->frequency_penalty != 0 || s->presence_penalty != 0 ||
		s->repetition_penalty != 1;
}

/* --- what was said ------------------------------------------------------------------------- */

void lm_history_init(struct lm_history *h, uint32_t vocab)
{
	h->generated = xcalloc(vocab, sizeof *h->generated);
	h->seen = xcalloc(WORD(vocab) + 1, sizeof *h->seen);
}

void lm_history_release(struct lm_history *h)
{
	free(h->generated);
	free(h->seen);
	*h = (struct lm_history){ 0 };
}

void lm_history_prompt(struct lm_history *h, uint32_t token)
{
	h->seen[WORD(token)] |= BIT(token);
}

void lm_history_add(struct lm_history *h, uint32_t token)
{
	h->generated[token]++;
	h->seen[WORD(token)] |= BIT(token);
}

/* --- logits --------------------------------------------------------------------------------- */

void lm_scratch_release(struct lm_scratch *w)
{
	free(w->logits);
	free(w->kept);
	free(w->ids);
	free(w->block);
	free(w->max);
	free(w->sums);
	*w = (struct lm_scratch){ 0 };
}

static uint32_t blocks_of(uint32_t count)
{
	return (count + SCAN_BLOCK - 1) / SCAN_BLOCK;
}

/* Returns how many logits block b has. */
static uint32_t block_size(uint32_t b, uint32_t count)
{
	uint32_t left = count - b * SCAN_BLOCK;

	return left < SCAN_BLOCK ? left : SCAN_BLOCK;
}

static void reserve(struct lm_scratch *w, uint32_t count)
{
	/* scan_keep() writes a block behind the last that it keeps */
	uint32_t blocks = blocks_of(count), cap = (blocks + 1) * SCAN_BLOCK;

	if (w->cap >= count)
		return;
	w->logits = xrealloc(w->logits, cap * sizeof *w->logits);
	w->kept = xrealloc(w->kept, cap * sizeof *w->kept);
	w->ids = xrealloc(w->ids, cap * sizeof *w->ids);
	w->block = xrealloc(w->block, blocks * sizeof *w->block);
	w->max = xrealloc(w->max, blocks * sizeof *w->max);
	w->sums = xrealloc(w->sums, blocks * sizeof *w->sums);
	w->cap = count;
}

/* Stands for a block of which no token is allowed. */
static const float none[SCAN_BLOCK] = { [0 ... SCAN_BLOCK - 1] = -INFINITY };

/* Returns block b to be changed: a copy, made before the first change. */
static float *to_change(struct lm_scratch *w, uint32_t b, uint32_t count)
{
	float *copy = w->logits + b * SCAN_BLOCK;

	if (w->block[b] != copy)
		memcpy(copy, w->block[b], block_size(b, count) * sizeof *copy);
	w->block[b] = copy;
	return copy;
}

static void penalise(float *x, const struct lm_sampling *s, uint32_t times)
{
	*x = (float)(*x > 0 ? *x / s->repetition_penalty : *x * s->repetition_penalty);
	if (times)
		*x = (float)(*x - times * s->frequency_penalty - s->presence_penalty);
}

static void penalise_block(struct lm_scratch *w, uint32_t b, uint32_t count,
	const struct lm_sampling *s, const struct lm_history *history)
{
	float *x = to_change(w, b, count);

	for (uint64_t seen = history->seen[b]; seen; seen &= seen - 1) {
		uint32_t i = (uint32_t)__builtin_ctzll(seen);

		penalise(x + i, s, history->generated[b * SCAN_BLOCK + i]);
	}
}

static void exclude(struct lm_scratch *w, uint32_t b, uint32_t count, uint64_t allowed)
{
	const float *x = w->block[b];

	if (allowed == UINT64_MAX)
		return;
	w->block[b] = allowed ? w->logits + b * SCAN_BLOCK : none;
	if (allowed)
		scan_exclude(w->logits + b * SCAN_BLOCK, x, block_size(b, count),
			allowed);
}

/* Sets the blocks: the model's own logits, but for those that bias, penalties or mask change. */
static void adjust(struct lm_scratch *w, const struct lm_sampling *s,
	const struct lm_history *history, const uint64_t *allowed, const float *logits,
	uint32_t count)
{
	bool penalises = history && lm_sampling_penalises(s);

	for (uint32_t b = 0; b < blocks_of(count); b++)
		w->block[b] = logits + b * SCAN_BLOCK;
	for (uint32_t b = 0; penalises && b < blocks_of(count); b++)
		if (history->seen[b])
			penalise_block(w, b, count, s, history);
	for (uint32_t i = 0; i < s->bias_count; i++) {
		uint32_t token = s->bias[i].token;

		if (token < count)
			to_change(w, token / SCAN_BLOCK,
				count)[token % SCAN_BLOCK] += s->bias[i].bias;
	}
	for (uint32_t b = 0; allowed && b < blocks_of(count); b++)
		exclude(w, b, count, allowed[b]);
}

static float logit_of(const struct lm_scratch *w, uint32_t id)
{
	return w->block[id / SCAN_BLOCK][id % SCAN_BLOCK];
}

/* Returns the most likely token, of equal ones the lowest; notes the largest logit of each
 * block. */
static uint32_t most_likely(struct lm_scratch *w, uint32_t count)
{
	uint32_t best = 0, i = 0, size;

	for (uint32_t b = 0; b < blocks_of(count); b++) {
		w->max[b] = w->block[b] == none ?
			-INFINITY :
			scan_max(w->block[b], block_size(b, count));
		if (w->max[b] > w->max[best])
			best = b;
	}
	size = block_size(best, count);
	while (i + 1 < size && w->block[best][i] != w->max[best])
		i++;
	return best * SCAN_BLOCK + i;
}

/* --- selection ------------------------------------------------------------------------------ */

/* Adds up the shares of all tokens from how->min on, block by block. */
static double add_up(struct lm_scratch *w, uint32_t count, const struct scan *how)
{
	double share[SCAN_BLOCK], sum = 0;

	for (uint32_t b = 0; b < blocks_of(count); b++) {
		w->sums[b] = w->max[b] >= how->min ?
			scan_shares(share, w->block[b], block_size(b, count), how) :
			0;
		sum += w->sums[b];
	}
	return sum;
}

/* Draws one of the tokens from how->min on, or of the candidates: finds its block by the sums of
 * the blocks, then it. Returns its place, or `best` if there are none. */
static uint32_t walk(struct lm_scratch *w, uint32_t count, const struct scan *how,
	double part, uint32_t best)
{
	double at = part * add_up(w, count, how), share[SCAN_BLOCK];
	uint32_t b = 0, size, place = best;

	for (; b + 1 < blocks_of(count) && at >= w->sums[b]; b++)
		at -= w->sums[b];
	size = block_size(b, count);
	scan_shares(share, w->block[b], size, how);
	for (uint32_t i = 0; i < size && at >= 0; i++) {
		at -= share[i];
		if (share[i] > 0)
			place = b * SCAN_BLOCK + i;
	}
	return place;
}

/* Makes all tokens from how->min on candidates, in the order of their ids; returns how many. */
static uint32_t collect(struct lm_scratch *w, uint32_t count, const struct scan *how)
{
	uint32_t n = 0;

	for (uint32_t b = 0; b < blocks_of(count); b++)
		if (w->max[b] >= how->min)
			n += scan_keep(w->kept + n, w->ids + n, w->block[b],
				block_size(b, count), b * SCAN_BLOCK, how->min);
	return n;
}

/* Makes the blocks those of the n candidates; returns the sum of their shares. */
static double weigh(struct lm_scratch *w, uint32_t n, const struct scan *how)
{
	for (uint32_t b = 0; b < blocks_of(n); b++) {
		w->block[b] = w->kept + b * SCAN_BLOCK;
		w->max[b] = (float)how->max;
	}
	return add_up(w, n, how);
}

static uint32_t cut_min_p(struct lm_scratch *w, uint32_t n, const struct scan *how,
	double min_p)
{
	double share[SCAN_BLOCK];
	uint32_t left = 0;

	for (uint32_t b = 0; b < blocks_of(n); b++) {
		uint32_t first = b * SCAN_BLOCK, size = block_size(b, n);

		scan_shares(share, w->kept + first, size, how);
		for (uint32_t i = 0; i < size; i++) {
			w->kept[left] = w->kept[first + i];
			w->ids[left] = w->ids[first + i];
			left += share[i] >= min_p;
		}
	}
	return left;
}

/* --- the draw ------------------------------------------------------------------------------- */

/* Leaves out the tokens that are less likely than e^-units of the most likely, and a little less,
 * so that rounding decides nothing. */
static void narrow(struct scan *how, double units)
{
	scan_raise(how, how->max - (units + 1. / 64) * how->temperature);
}

/* Makes the largest logits of the blocks candidates; returns how many. They stand for tokens of
 * which there are more: what a cut of them leaves out, the same cut of all tokens does. */
static uint32_t collect_max(struct lm_scratch *w, uint32_t count, const struct scan *how)
{
	uint32_t blocks = blocks_of(count), n = 0;

	for (uint32_t b = 0; b < blocks; b += SCAN_BLOCK)
		n += scan_keep(w->kept + n, w->ids + n, w->max + b,
			block_size(b / SCAN_BLOCK, blocks), b, how->min);
	return n;
}

static void narrow_to_top_k(struct lm_scratch *w, uint32_t count, uint32_t k,
	struct scan *how)
{
	uint32_t n = collect_max(w, count, how);

	if (n > k)
		scan_raise(how, cut_at(w->kept, w->kept, n, how, k, true).logit);
}

/* all: the sum of all shares. */
static void narrow_to_top_p(struct lm_scratch *w, uint32_t count, double top_p,
	double all, struct scan *how)
{
	double needed = top_p * all * (1 + 1e-9), sum = 0, share[SCAN_BLOCK];
	uint32_t n;

	/* the tokens below this share less than 1 - top_p of all */
	narrow(how, log(count / ((1 - top_p) * all)));
	n = collect_max(w, count, how);
	for (uint32_t b = 0; b < blocks_of(n); b++)
		sum += scan_shares(share, w->kept + b * SCAN_BLOCK, block_size(b, n),
			how);
	if (sum >= needed)
		scan_raise(how, cut_at(w->kept, w->kept, n, how, needed, false).logit);
}

/* Narrows to what top_k, top_p and min_p may leave; returns the sum of all shares if top_p comes
 * first. */
static double narrow_to_limits(struct lm_scratch *w, const struct lm_sampling *s,
	uint32_t count, struct scan *how)
{
	double all = 0;

	if (s->top_k) {
		narrow_to_top_k(w, count, s->top_k, how);
		return 0;
	}
	if (s->top_p < 1) {
		all = add_up(w, count, how);
		narrow_to_top_p(w, count, s->top_p, all, how);
	}
	if (s->min_p > 0)
		narrow(how, -log(s->min_p));
	return all;
}

/* Draws one of the tokens that top_k, top_p and min_p leave. Those that are surely cut are never
 * candidates. */
static uint32_t draw_of_some(struct lm_scratch *w, const struct lm_sampling *s,
	uint32_t count, uint32_t best, struct scan *how, double part)
{
	double all = narrow_to_limits(w, s, count, how);
	uint32_t n = collect(w, count, how);

	/* the logits are not read again, and leave their room */
	if (s->top_k && n > s->top_k)
		n = cut_apply(cut_at(w->logits, w->kept, n, how, s->top_k, true), w->kept,
			w->ids, n);
	if (s->top_k && s->top_p < 1)
		all = weigh(w, n, how);
	if (s->top_p < 1 && n)
		n = cut_apply(cut_at(w->logits, w->kept, n, how, s->top_p * all, false),
			w->kept, w->ids, n);
	if (s->min_p > 0)
		n = cut_min_p(w, n, how, s->min_p);
	if (!n)
		return best;
	weigh(w, n, how);
	return w->ids[walk(w, n, how, part, 0)];
}

uint32_t lm_draw(struct lm_scratch *w, const struct lm_sampling *s,
	const struct lm_history *history, const uint64_t *allowed, const float *logits,
	uint32_t count, uint64_t position)
{
	struct scan how;
	struct rng rng;
	uint32_t best;

	reserve(w, count);
	adjust(w, s, history, allowed, logits, count);
	best = most_likely(w, count);
	if (s->temperature <= 0 || !isfinite(logit_of(w, best)))
		return best;
	scan_init(&how, logit_of(w, best), s->temperature, REACH);
	rng_seed(&rng, s->seed, s->choice);
	rng_seek(&rng, position);
	if (!s->top_k && s->top_p >= 1 && s->min_p <= 0)
		return walk(w, count, &how, rng_f64(&rng), best);
	return draw_of_some(w, s, count, best, &how, rng_f64(&rng));
}

/* --- what the model said --------------------------------------------------------------------- */

static bool before(const float *x, uint32_t a, uint32_t b)
{
	return x[a] > x[b] || (x[a] == x[b] && a < b);
}

static void insert(struct lm_logprobs *out, const float *x, uint32_t id, uint32_t n)
{
	uint32_t at = out->n < n ? out->n++ : n - 1;

	for (; at && before(x, id, out->top[at - 1]); at--)
		out->top[at] = out->top[at - 1];
	out->top[at] = id;
}

/* Inserts those of a block that belong to the n most likely. */
static void insert_block(struct lm_logprobs *out, const float *x, uint32_t first,
	uint32_t size, uint32_t n)
{
	for (uint32_t i = first; i < first + size; i++)
		if (!isnan(x[i]) && (out->n < n || before(x, i, out->top[out->n - 1])))
			insert(out, x, i, n);
}

void lm_logprobs(struct lm_logprobs *out, const float *logits, uint32_t count,
	uint32_t token, uint32_t n)
{
	double share[SCAN_BLOCK], sum = 0, all;
	float most = -INFINITY;
	struct scan how;

	*out = (struct lm_logprobs){ 0 };
	for (uint32_t b = 0; b < blocks_of(count); b++) {
		const float *x = logits + b * SCAN_BLOCK;
		uint32_t size = block_size(b, count);
		float max = scan_max(x, size);

		if (max > most)
			most = max;
		if (n && (out->n < n || max > logits[out->top[out->n - 1]]))
			insert_block(out, logits, b * SCAN_BLOCK, size, n);
	}
	scan_init(&how, most, 1, SCAN_EXPONENT_MAX);
	for (uint32_t b = 0; b < blocks_of(count); b++)
		sum += scan_shares(share, logits + b * SCAN_BLOCK, block_size(b, count),
			&how);
	all = log(sum) + how.max;
	out->token = (float)(logits[token] - all);
	for (uint32_t i = 0; i < out->n; i++)
		out->top_logprob[i] = (float)(logits[out->top[i]] - all);
}

/* --- one text ------------------------------------------------------------------------------- */

void lm_sampler_init(struct lm_sampler *s, uint64_t seed)
{
	*s = (struct lm_sampler){ 0 };
	lm_sampling_defaults(&s->how, seed);
}

void lm_sampler_release(struct lm_sampler *s)
{
	lm_scratch_release(&s->scratch);
	lm_history_release(&s->history);
}

uint32_t lm_sample(struct lm_sampler *s, const float *logits, uint32_t count)
{
	bool counts = s->history.seen != NULL;
	uint32_t id = lm_draw(&s->scratch, &s->how, counts ? &s->history : NULL, NULL,
		logits, count, s->position++);

	if (counts)
		lm_history_add(&s->history, id);
	return id;
}
