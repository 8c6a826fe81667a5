/* engine.c - the scheduler: opens and closes it, and takes its steps. */
#include "common/lm/engine/engine.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/lm/engine/parts.h"
#include "common/lm/engine/guess.h"

/* One multiply-add of attention takes as long as this many of a matrix product: its operands come
 * from the cache of keys, and it is f32. Measured on Zen 5 with 8-bit weights; service.c corrects
 * the budget where it differs. */
#define ATTENTION_COST 6

/* --- open and close ------------------------------------------------------------------------- */

static uint32_t rows_of(const struct lm_engine_limits *l)
{
	return l->rows + l->streams * (1 + LM_PROPOSED_MAX);
}

static struct lm_forward_limits forward_limits(const struct lm_engine_limits *l)
{
	return (struct lm_forward_limits){ .rows = rows_of(l),
		.sequences = l->streams,
		.context = l->context,
		.logits = l->logits };
}

void lm_engine_bytes(const struct lm_config *c, const struct lm_engine_limits *limits,
	uint64_t *cache, uint64_t *tables, uint64_t *work)
{
	struct lm_forward_limits l = forward_limits(limits);

	*cache = lm_cache_page_bytes(c, limits->cache) * limits->pages;
	lm_forward_bytes(c, &l, tables, work);
}

static void measure_attention(struct lm_engine *e)
{
	const struct lm_config *c = lm_weights_config(e->w);
	uint64_t q = (uint64_t)c->heads * c->head_dim;
	uint64_t kv = (uint64_t)c->kv_heads * c->head_dim;
	uint64_t row = 2 * c->dim * (q + kv) + 3 * (uint64_t)c->dim * c->hidden;
	uint32_t local = 0;

	e->keys_per_row = row / (2 * q * ATTENTION_COST) + 1;
	e->logits_cost = (uint64_t)c->vocab * c->dim / c->layers /
		(2 * q * ATTENTION_COST);
	for (uint32_t i = 0; i < c->layers; i++) {
		uint32_t window = lm_config_window(c, i);

		local += window > 0;
		if (window > e->local_window)
			e->local_window = window;
	}
	e->local_per_1024 = (uint32_t)((uint64_t)local * 1024 / c->layers);
	e->reach = local == c->layers ? e->local_window : 0;
}

uint64_t engine_cost_of(const struct lm_engine *e, uint32_t position)
{
	uint64_t near = position < e->local_window ? position : e->local_window;

	return e->keys_per_row +
		(near * e->local_per_1024 +
			(uint64_t)position * (1024 - e->local_per_1024)) /
		1024;
}

static struct lm_draft_limits draft_limits(const struct lm_config *c,
	const struct lm_engine_limits *l)
{
	return (struct lm_draft_limits){ .pages = l->pages,
		.texts = l->streams,
		.rows = l->rows,
		.context = l->context < c->context ? l->context : c->context,
		.logits = l->logits,
		.cache = l->cache };
}

uint64_t lm_engine_draft_bytes(const struct lm_config *draft,
	const struct lm_engine_limits *limits)
{
	struct lm_draft_limits l = draft_limits(draft, limits);

	return lm_draft_bytes(draft, &l);
}

int lm_engine_draft(struct lm_engine *e, const struct lm_weights *w)
{
	struct lm_draft_limits l = draft_limits(lm_weights_config(w), &e->limits);

	e->drafts = xcalloc(l.texts, sizeof *e->drafts);
	e->drafting = xcalloc(l.texts, sizeof *e->drafting);
	return lm_draft_open(&e->draft, w, &l);
}

int lm_engine_open(struct lm_engine **out, const struct lm_weights *w,
	const struct lm_engine_limits *limits, const uint32_t *ends, uint32_t ends_count,
	lm_event_fn event, void *arg)
{
	struct lm_forward_limits l = forward_limits(limits);
	struct lm_engine *e = xcalloc(1, sizeof *e);

	*out = NULL;
	e->w = w;
	e->limits = *limits;
	e->budget = e->budget_beside = limits->rows;
	measure_attention(e);
	e->waiting_end = &e->waiting;
	e->event = event;
	e->arg = arg;
	e->ends = xcalloc((size_t)ends_count + 1, sizeof *e->ends);
	memcpy(e->ends, ends, ends_count * sizeof *ends);
	e->ends_count = ends_count;
	e->running = xcalloc((size_t)limits->streams + 1, sizeof *e->running);
	e->rows_max = l.rows;
	e->rows = xcalloc(l.rows, sizeof *e->rows);
	e->of = xcalloc(l.rows, sizeof *e->of);
	if (lm_cache_open(&e->cache, w, limits->pages, limits->cache) < 0 ||
		lm_forward_open(&e->forward, w, e->cache, &l) < 0) {
		lm_engine_close(e);
		return -1;
	}
	e->prefix = lm_prefix_open(e->cache);
	*out = e;
	return 0;
}

void lm_engine_close(struct lm_engine *e)
{
	if (!e)
		return;
	for (uint32_t i = 0; i < e->running_count; i++) {
		lm_sequence_release(&e->running[i]->sequence, e->cache);
		if (e->draft)
			lm_draft_forget(e->draft, &e->running[i]->draft_read);
		lm_history_release(&e->running[i]->history);
	}
	for (struct lm_answer *a = e->waiting; a; a = a->next)
		lm_history_release(&a->history);
	lm_draft_close(e->draft);
	free(e->drafts);
	free(e->drafting);
	lm_prefix_close(e->prefix);
	lm_forward_close(e->forward);
	lm_cache_close(e->cache);
	lm_chooser_release(&e->chooser);
	free(e->ends);
	free(e->running);
	free(e->rows);
	free(e->of);
	free(e);
}

int lm_engine_accepts(const struct lm_engine *e, const uint32_t *tokens, uint32_t n,
	bool generates)
{
	uint32_t vocab = lm_weights_config(e->w)->vocab;

	if (n + generates > e->limits.context)
		return err_set(EX_DATAERR, "the prompt has %u tokens, the context %u", n,
			e->limits.context);
	if (lm_cache_pages(n + generates) > e->limits.pages)
		return err_set(EX_DATAERR, "the prompt has %u tokens, the whole cache %u",
			n, e->limits.pages * LM_PAGE);
	for (uint32_t i = 0; i < n; i++)
		if (tokens[i] >= vocab)
			return err_set(EX_DATAERR,
				"token %u is not in a vocabulary of %u", tokens[i],
				vocab);
	return 0;
}

void lm_engine_set_budget(struct lm_engine *e, uint32_t rows, uint32_t beside)
{
	e->budget = rows;
	e->budget_beside = beside;
}

uint32_t lm_engine_load(const struct lm_engine *e, bool *full, bool *beside)
{
	uint64_t rows = e->load / e->keys_per_row;

	*full = e->full;
	*beside = e->beside;
	return rows < UINT32_MAX ? (uint32_t)rows : UINT32_MAX;
}

/* --- a step ---------------------------------------------------------------------------------- */

static void count_step(struct lm_engine *e)
{
	e->counts.steps++;
	e->counts.rows += e->row_count;
	for (uint32_t i = 0; i < e->row_count; i++)
		e->counts.prompt += e->rows[i].position < e->of[i]->prompt;
}

static bool draft_sound(const struct lm_engine *e)
{
	const struct lm_draft_read **texts = xcalloc((size_t)e->running_count + 1,
		sizeof *texts);
	bool sound;

	for (uint32_t i = 0; i < e->running_count; i++)
		texts[i] = &e->running[i]->draft_read;
	sound = lm_draft_sound(e->draft, texts, e->running_count);
	free(texts);
	return sound;
}

/* Checks the pool: each page is free, or used as often as its reference count says. */
static void check(const struct lm_engine *e)
{
	const struct lm_sequence **all = xcalloc((size_t)e->running_count + 1,
		sizeof *all);
	struct lm_sequence kept = { 0 };

	for (uint32_t i = 0; i < e->running_count; i++)
		all[i] = &e->running[i]->sequence;
	kept.pages = lm_prefix_pages(e->prefix, &kept.n);
	all[e->running_count] = &kept;
	if (!lm_cache_sound(e->cache, all, e->running_count + 1))
		bug("the pages of the cache do not add up");
	if (e->draft && !draft_sound(e))
		bug("the pages of the draft's cache do not add up");
	free(kept.pages);
	free(all);
}

/* Counts failures of the device in a row. One without memory for so many rows computes others. */
static void count_failure(struct lm_engine *e, bool failed)
{
	if (!failed) {
		e->counts.failing = 0;
	} else if (err_get()->code != EX_OSERR) {
		e->counts.failing++;
		e->counts.failed_ns = clock_mono_ns();
	}
}

/* The pass failed. Where the device had no memory to begin it, one answer less may be enough: the
 * newest fails, and the others' rows are computed in the next step. */
static void fail_step(struct lm_engine *e)
{
	bool begun = e->rows[0].sequence->length > e->rows[0].position, enough = false;

	for (uint32_t i = e->running_count; i-- > 0 && !enough;)
		if (e->running[i]->step_rows) {
			engine_fail(e->running[i]);
			enough = err_get()->code == EX_OSERR && !begun;
		}
}

uint32_t lm_engine_step(struct lm_engine *e)
{
	engine_relieve(e);
	engine_drop_cancelled(e);
	engine_drop_failed(e);
	engine_admit(e);
	engine_drop_failed(e);
	engine_plan(e);
	if (e->row_count) {
		bool failed;

		count_step(e);
		failed = lm_forward_scores(e->forward, e->rows, e->row_count,
				 engine_on_scores, e) < 0;
		count_failure(e, failed);
		if (failed)
			fail_step(e);
		engine_settle(e);
	}
	if (e->limits.check)
		check(e);
	return e->row_count;
}

bool lm_engine_idle(const struct lm_engine *e)
{
	return !e->running_count && !e->waiting;
}

bool lm_engine_touch(struct lm_engine *e, uint32_t pages)
{
	return lm_cache_touch(e->cache, pages);
}

void lm_engine_count(const struct lm_engine *e, struct lm_engine_counts *out)
{
	*out = e->counts;
	out->draft_rows = e->draft ? lm_draft_rows(e->draft) : 0;
	out->running = e->running_count;
	out->pages = e->limits.pages;
	out->pages_used = e->limits.pages - lm_cache_free_pages(e->cache);
	out->pages_reusable = lm_prefix_free_pages(e->prefix) -
		lm_cache_free_pages(e->cache);
}
