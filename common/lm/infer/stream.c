/* stream.c - a single sequence, fed in pieces. */
#include "common/lm/infer/stream.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/mem.h"

struct lm_stream {
	const struct lm_weights *w;
	struct lm_cache *cache;
	struct lm_forward *forward;
	struct lm_sequence sequence;
	uint32_t context, adapter;
};

static struct lm_forward_limits limits_of(uint32_t context)
{
	return (struct lm_forward_limits){ .rows = LM_STREAM_ROWS,
		.sequences = 1,
		.context = context };
}

int lm_stream_plan(struct lm_stream_plan *plan, const struct model_file *s,
	uint32_t context, enum lm_cache_type type)
{
	const struct lm_config *c = model_file_config(s);
	struct lm_forward_limits limits = limits_of(context ? context : c->context);
	uint64_t rope;

	memset(plan, 0, sizeof *plan);
	if (__builtin_mul_overflow(lm_cache_page_bytes(c, type),
		    (uint64_t)lm_cache_pages(limits.context), &plan->cache) ||
		plan->cache > (uint64_t)INT64_MAX / 2)
		return err_set(EX_DATAERR,
			"a cache of %u tokens of this model is beyond 64 bits",
			limits.context);
	for (uint32_t i = 0; i < lm_layout_count(c); i++) {
		const struct lm_tensor *t = model_file_tensor(s, i);

		if (t->dims == 1)
			plan->tables += 4 * t->count;
		else
			plan->weights += t->bytes;
	}
	lm_forward_bytes(c, &limits, &rope, &plan->work);
	plan->tables += rope;
	plan->total = plan->weights + plan->tables + plan->cache + plan->work;
	return 0;
}

int lm_stream_open(struct lm_stream **out, const struct lm_weights *w, uint32_t context,
	enum lm_cache_type type)
{
	struct lm_forward_limits limits;
	struct lm_stream *s;

	*out = NULL;
	if (context > LM_CONTEXT_MAX)
		return err_set(EX_USAGE, "a context has at most %u tokens",
			LM_CONTEXT_MAX);
	s = xcalloc(1, sizeof *s);
	s->w = w;
	s->context = context ? context : lm_weights_config(w)->context;
	limits = limits_of(s->context);
	if (lm_cache_open(&s->cache, w, lm_cache_pages(s->context), type) < 0 ||
		lm_forward_open(&s->forward, w, s->cache, &limits) < 0) {
		lm_stream_close(s);
		return -1;
	}
	*out = s;
	return 0;
}

void lm_stream_close(struct lm_stream *s)
{
	if (!s)
		return;
	lm_forward_close(s->forward);
	if (s->cache)
		lm_sequence_release(&s->sequence, s->cache);
	lm_cache_close(s->cache);
	free(s);
}

uint32_t lm_stream_length(const struct lm_stream *s)
{
	return s->sequence.length;
}

uint32_t lm_stream_context(const struct lm_stream *s)
{
	return s->context;
}

void lm_stream_truncate(struct lm_stream *s, uint32_t length)
{
	lm_sequence_truncate(&s->sequence, s->cache, length);
}

void lm_stream_adapt(struct lm_stream *s, uint32_t adapter)
{
	s->adapter = adapter;
}

/* Checks all n tokens before the first is fed, so that a bad one changes nothing. */
static int check(const struct lm_stream *s, const uint32_t *ids, uint32_t n)
{
	uint32_t vocab = lm_weights_config(s->w)->vocab;

	if (n > s->context - s->sequence.length)
		return err_set(EX_DATAERR, "the context of %u tokens is full",
			s->context);
	for (uint32_t i = 0; i < n; i++)
		if (ids[i] >= vocab)
			return err_set(EX_DATAERR,
				"token %u is not in a vocabulary of %u", ids[i], vocab);
	return 0;
}

/* Feeds at most LM_STREAM_ROWS tokens; logits are wanted for the last `wanted` rows. */
static int pass(struct lm_stream *s, const uint32_t *ids, uint32_t n, uint32_t wanted,
	lm_logits_fn logits, void *arg)
{
	struct lm_row rows[LM_STREAM_ROWS];

	if (lm_sequence_grow(&s->sequence, s->cache, n) < 0)
		return -1;
	for (uint32_t i = 0; i < n; i++)
		rows[i] = (struct lm_row){ .sequence = &s->sequence,
			.token = ids[i],
			.position = s->sequence.length + i,
			.adapter = s->adapter,
			.logits = i + wanted >= n };
	return lm_forward_rows(s->forward, rows, n, logits, arg);
}

struct copy {
	float *to;
	uint32_t vocab;
};

static int copy_logits(void *arg, uint32_t row, const float *logits)
{
	struct copy *c = arg;

	(void)row;
	memcpy(c->to, logits, c->vocab * sizeof *logits);
	return 0;
}

int lm_stream_feed(struct lm_stream *s, const uint32_t *ids, uint32_t n, float *logits)
{
	struct copy c = { logits, lm_weights_config(s->w)->vocab };
	uint32_t rows;

	if (check(s, ids, n) < 0)
		return -1;
	for (; n; n -= rows, ids += rows) {
		rows = n < LM_STREAM_ROWS ? n : LM_STREAM_ROWS;
		if (pass(s, ids, rows, logits && rows == n ? 1 : 0, copy_logits, &c) < 0)
			return -1;
	}
	return 0;
}

/* Returns -log of the probability that softmax gives to `id`. */
static double cost(const float *logits, uint32_t vocab, uint32_t id)
{
	double sum = 0, largest = logits[0];

	for (uint32_t i = 1; i < vocab; i++)
		if (logits[i] > largest)
			largest = logits[i];
	for (uint32_t i = 0; i < vocab; i++)
		sum += exp(logits[i] - largest);
	return log(sum) - (logits[id] - largest);
}

struct score {
	const uint32_t *next; /* the token that follows each row */
	uint32_t vocab, rows; /* rows: those that a token follows */
	double *loss_sum;
};

static int add_cost(void *arg, uint32_t row, const float *logits)
{
	struct score *s = arg;

	if (row < s->rows)
		*s->loss_sum += cost(logits, s->vocab, s->next[row]);
	return 0;
}

int lm_stream_score(struct lm_stream *s, const uint32_t *ids, uint32_t n,
	double *loss_sum, uint64_t *counted)
{
	uint32_t rows;

	if (check(s, ids, n) < 0)
		return -1;
	for (; n; n -= rows, ids += rows) {
		struct score score = { .next = ids + 1,
			.vocab = lm_weights_config(s->w)->vocab,
			.loss_sum = loss_sum };

		rows = n < LM_STREAM_ROWS ? n : LM_STREAM_ROWS;
		/* the last token of a piece predicts the first of the next */
		score.rows = rows == n ? rows - 1 : rows;
		if (pass(s, ids, rows, rows, add_cost, &score) < 0)
			return -1;
		*counted += score.rows;
	}
	return 0;
}
