/* loop.c - batches, steps and losses of a training loop, on top of train.h. */
#include "common/lm/train/loop.h"

#include <inttypes.h>
#include <math.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/lm/train/flat.h"

static uint64_t positions_of(const struct lm_loop *l)
{
	return l->o.train.positions;
}

int lm_loop_open(struct lm_loop *l, struct dev *d, const struct lm_loop_options *o)
{
	uint64_t pass, count;

	*l = (struct lm_loop){ .o = *o, .size = 1 };
	if (o->ranks) {
		l->rank = ddp_rank(o->ranks);
		l->size = ddp_size(o->ranks);
		l->o.train.grad_ready = ddp_grad_ready;
		l->o.train.grad_sync = ddp_grad_sync;
		l->o.train.arg = o->ranks;
	}
	pass = (uint64_t)o->train.batch * (uint64_t)l->size;
	if (!pass || !o->batch || o->batch % pass)
		return err_set(EX_USAGE,
			"a batch of %" PRIu64
			" cannot be shared by %d ranks in passes of %" PRIu32,
			o->batch, l->size, o->train.batch);
	if (lm_train_open(&l->train, d, &l->o.train) < 0)
		return -1;
	count = o->train.batch * positions_of(l);
	l->inputs = xmalloc(count * sizeof *l->inputs);
	l->targets = xmalloc(count * sizeof *l->targets);
	l->window = xmalloc((positions_of(l) + 1) * sizeof *l->window);
	if (!o->ranks)
		return 0;
	return ddp_bind(o->ranks, d, lm_train_flat(l->train, LM_STATE_GRADIENT));
}

void lm_loop_close(struct lm_loop *l)
{
	lm_train_close(l->train);
	free(l->ranges);
	free(l->inputs);
	free(l->targets);
	free(l->window);
	*l = (struct lm_loop)LM_LOOP_INIT;
}

/* --- ranges ------------------------------------------------------------------------------- */

void lm_loop_give(struct lm_loop *l, struct lm_range range)
{
	if (!range.count)
		return;
	l->ranges = xgrow(l->ranges, &l->ranges_cap, l->nranges + 1, sizeof *l->ranges);
	l->ranges[l->nranges++] = range;
}

void lm_loop_take_back(struct lm_loop *l)
{
	l->nranges = 0;
}

uint64_t lm_loop_left(const struct lm_loop *l)
{
	uint64_t left = 0;

	for (size_t i = 0; i < l->nranges; i++)
		if (__builtin_add_overflow(left, l->ranges[i].count, &left))
			return UINT64_MAX;
	return left;
}

uint64_t lm_loop_next(const struct lm_loop *l)
{
	return l->nranges ? l->ranges[0].first : 0;
}

/* Returns the number of the i-th remaining sequence, which must exist. */
static uint64_t sequence_at(const struct lm_loop *l, uint64_t i)
{
	size_t r = 0;

	while (i >= l->ranges[r].count)
		i -= l->ranges[r++].count;
	return l->ranges[r].first + i;
}

/* Removes the next n sequences from the ranges. */
static void advance(struct lm_loop *l, uint64_t n)
{
	size_t done = 0;

	while (done < l->nranges && n >= l->ranges[done].count)
		n -= l->ranges[done++].count;
	if (done < l->nranges) {
		l->ranges[done].first += n;
		l->ranges[done].count -= n;
	}
	l->nranges -= done;
	memmove(l->ranges, l->ranges + done, l->nranges * sizeof *l->ranges);
}

/* --- steps -------------------------------------------------------------------------------- */

/* Copies sequence n into row r of the pass. */
static int put_sequence(struct lm_loop *l, lm_sequence_fn sequence, void *arg, uint64_t n,
	uint64_t r)
{
	uint64_t length = positions_of(l), bytes = length * sizeof *l->inputs;

	if (sequence(arg, n, l->window) < 0)
		return -1;
	memcpy(l->inputs + r * length, l->window, bytes);
	memcpy(l->targets + r * length, l->window + 1, bytes);
	return 0;
}

double lm_loop_rate(const struct lm_loop *l)
{
	return lm_schedule_rate(&l->o.schedule, l->step, lm_train_steps(l->train));
}

static int add_gradients(struct lm_loop *l)
{
	uint64_t rows = l->o.train.batch, next = (uint64_t)l->rank;
	uint64_t passes = l->o.batch / rows / (uint64_t)l->size;

	for (uint64_t pass = 0; pass < passes; pass++) {
		for (uint64_t r = 0; r < rows; r++, next += (uint64_t)l->size)
			if (put_sequence(l, l->o.sequence, l->o.arg, sequence_at(l, next),
				    r) < 0)
				return -1;
		if (lm_train_add(l->train, l->inputs, l->targets, pass + 1 == passes) < 0)
			return -1;
	}
	return 0;
}

int lm_loop_step(struct lm_loop *l, struct lm_step *out)
{
	*out = (struct lm_step){ 0 };
	if (lm_loop_left(l) < l->o.batch)
		return err_set(EX_DATAERR,
			"%" PRIu64 " sequences are left, a step takes %" PRIu64,
			lm_loop_left(l), l->o.batch);
	if (add_gradients(l) < 0) {
		lm_train_zero_grad(l->train);
		return -1;
	}
	if (lm_train_apply(l->train, (float)lm_loop_rate(l), out) < 0)
		return -1;
	advance(l, l->o.batch);
	l->step++;
	l->tokens += out->targets;
	return 0;
}

unsigned lm_loop_stop_flags(const struct lm_loop *l)
{
	if (l->o.ranks)
		return ddp_stop_flags(l->o.ranks);
	return l->o.stop_flags ? l->o.stop_flags() : 0;
}

int lm_loop_eval(struct lm_loop *l, lm_sequence_fn sequence, void *arg, uint64_t windows,
	double *loss)
{
	uint64_t length = positions_of(l), rows = l->o.train.batch, counted = 0;
	double sum = 0;

	for (uint64_t w = 0; w < windows; w += rows) {
		double part;
		uint64_t n;

		for (uint64_t r = 0; r < rows; r++) {
			bool there = w + r < windows;

			/* if the last pass is not full, it repeats a window without counting it */
			if (put_sequence(l, sequence, arg, there ? w + r : w, r) < 0)
				return -1;
			for (uint64_t i = 0; i < length && !there; i++)
				l->targets[r * length + i] = LM_NO_TARGET;
		}
		if (lm_train_eval(l->train, l->inputs, l->targets, &part, &n) < 0)
			return -1;
		sum += part;
		counted += n;
	}
	*loss = sum / (double)counted;
	if (!isfinite(*loss))
		return err_set(EX_DATAERR,
			"step %" PRIu64 ": the loss on the validation text is not finite",
			l->step);
	return 0;
}

/* --- ranks -------------------------------------------------------------------------------- */

/* Hashes everything that has to be the same on all ranks. */
static int hash_state(struct lm_loop *l, const void *more, size_t bytes,
	unsigned char out[32])
{
	uint64_t numbers[] = { l->step, lm_train_steps(l->train), lm_loop_next(l),
		lm_loop_left(l), l->o.batch, l->o.train.batch };
	crypto_generichash_state h;
	unsigned char part[32];

	crypto_generichash_init(&h, NULL, 0, 32);
	for (enum lm_state w = LM_STATE_PARAMETER; w <= LM_STATE_V; w++) {
		if (lm_flat_hash(l->train, w, part) < 0)
			return -1;
		crypto_generichash_update(&h, part, sizeof part);
	}
	crypto_generichash_update(&h, (const unsigned char *)numbers, sizeof numbers);
	crypto_generichash_update(&h, more, bytes);
	crypto_generichash_final(&h, out, 32);
	return 0;
}

int lm_loop_agree(struct lm_loop *l, const void *more, size_t bytes)
{
	uint64_t mine[4], *all;
	int rc;

	if (!l->o.ranks)
		return 0;
	if (hash_state(l, more, bytes, (unsigned char *)mine) < 0)
		return -1;
	all = xcalloc((size_t)l->size, sizeof mine);
	rc = ddp_allgather(l->o.ranks, mine, 4, all);
	for (int r = 1; rc == 0 && r < l->size; r++)
		if (memcmp(all, all + 4 * (size_t)r, sizeof mine) != 0)
			rc = err_set(EX_DATAERR,
				"rank %d has another model, text or place in it than rank 0",
				r);
	free(all);
	return rc;
}
