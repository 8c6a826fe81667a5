/* engine.c - the scheduler: in each step, which requests finish, which are admitted, which rows
 * each computes, and how their logits are used.
 * long because the parts of a step share one state */
#include "common/lm/engine/engine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/lm/engine/guess.h"

/* proposed rows of all answers in a step: more cost more time than they save */
#define SPECULATED_ROWS 16
/* steps without proposals after all proposals were wrong a few times */
#define PAUSE_MIN       4
#define PAUSE_DOUBLINGS 6

/* rows of a prompt that a group computes before the next group's turn */
#define QUANTUM 64
/* rows of prompts that every step computes, however many answers there are */
#define PROMPT_ROWS_MIN 8
/* One multiply-add of attention takes as long as this many of a matrix product: its operands come
 * from the cache of keys, and it is f32. Measured on Zen 5 with 8-bit weights; service.c corrects
 * the budget where it differs. */
#define ATTENTION_COST 6

struct lm_engine {
	const struct lm_weights *w;
	struct lm_cache *cache;
	struct lm_forward *forward;
	struct lm_prefix *prefix;
	struct lm_draft *draft; /* NULL: none */
	uint32_t draft_misses; /* consecutive attempts for any text that were all wrong */
	struct lm_draft_text *drafts; /* [streams] */
	struct lm_request **drafting; /* [streams] */
	struct lm_engine_limits limits;
	uint32_t *ends, ends_count;
	lm_event_fn event;
	void *arg;

	struct lm_request *waiting, **waiting_end; /* by age */
	struct lm_request **running;               /* [streams], by age */
	uint32_t running_count;
	uint64_t next_serial, turn; /* turn: the group that was served last */
	uint32_t budget, budget_beside;
	/* attention to this many keys takes as long as the products of a row */
	uint64_t keys_per_row;
	/* of each 1024 layers, those with a window, and how many keys it has */
	uint32_t local_per_1024, local_window;
	uint32_t reach; /* keys that any layer attends to at most; 0: all there are */
	uint64_t load;  /* of this step, in keys */
	bool full;      /* prompts had more rows than the budget */
	bool beside;    /* answers get their next tokens in this step */

	struct lm_row *rows;    /* rows of this step */
	struct lm_request **of; /* the answer of each row */
	uint32_t row_count, rows_max;
	struct lm_scratch scratch;
	struct lm_engine_counts counts;
};

/* --- open and close ------------------------------------------------------------------------- */

static uint32_t rows_of(const struct lm_engine_limits *l)
{
	return l->rows + l->streams * (1 + LM_PROPOSED_MAX);
}

static struct lm_forward_limits forward_limits(const struct lm_engine_limits *l)
{
	return (struct lm_forward_limits){ .rows = rows_of(l),
		.sequences = l->streams,
		.context = l->context };
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
	for (uint32_t i = 0; i < c->layers; i++) {
		uint32_t window = lm_config_window(c, i);

		local += window > 0;
		if (window > e->local_window)
			e->local_window = window;
	}
	e->local_per_1024 = (uint32_t)((uint64_t)local * 1024 / c->layers);
	e->reach = local == c->layers ? e->local_window : 0;
}

/* Returns what a row at a position costs, in keys of attention. */
static uint64_t cost_of(const struct lm_engine *e, uint32_t position)
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
	for (struct lm_request *a = e->waiting; a; a = a->next)
		lm_history_release(&a->history);
	lm_draft_close(e->draft);
	free(e->drafts);
	free(e->drafting);
	lm_prefix_close(e->prefix);
	lm_forward_close(e->forward);
	lm_cache_close(e->cache);
	lm_scratch_release(&e->scratch);
	free(e->ends);
	free(e->running);
	free(e->rows);
	free(e->of);
	free(e);
}

int lm_engine_accepts(const struct lm_engine *e, const uint32_t *tokens, uint32_t n)
{
	uint32_t vocab = lm_weights_config(e->w)->vocab;

	if (n >= e->limits.context)
		return err_set(EX_DATAERR, "the prompt has %u tokens, the context %u", n,
			e->limits.context);
	if (lm_cache_pages(n + 1) > e->limits.pages)
		return err_set(EX_DATAERR, "the prompt has %u tokens, the whole cache %u",
			n, e->limits.pages * LM_PAGE);
	for (uint32_t i = 0; i < n; i++)
		if (tokens[i] >= vocab)
			return err_set(EX_DATAERR,
				"token %u is not in a vocabulary of %u", tokens[i],
				vocab);
	return 0;
}

static uint32_t limited(const struct lm_engine *e, uint32_t rows)
{
	return rows > e->limits.rows ? e->limits.rows : rows;
}

void lm_engine_set_budget(struct lm_engine *e, uint32_t rows, uint32_t beside)
{
	e->budget = limited(e, rows);
	e->budget_beside = limited(e, beside);
}

uint32_t lm_engine_load(const struct lm_engine *e, bool *full, bool *beside)
{
	uint64_t rows = e->load / e->keys_per_row;

	*full = e->full;
	*beside = e->beside;
	return rows < UINT32_MAX ? (uint32_t)rows : UINT32_MAX;
}

/* --- those that wait ------------------------------------------------------------------------ */

void lm_engine_submit(struct lm_engine *e, struct lm_request *a)
{
	a->length = a->prompt;
	a->serial = e->next_serial++;
	a->next = NULL;
	*e->waiting_end = a;
	e->waiting_end = &a->next;
	e->counts.waiting++;
}

static void take_waiting(struct lm_engine *e, struct lm_request **at)
{
	struct lm_request *a = *at;

	*at = a->next;
	if (!a->next)
		e->waiting_end = at;
	a->next = NULL;
	e->counts.waiting--;
}

/* Puts a preempted answer back into the queue, at the place of its age. */
static void wait_again(struct lm_engine *e, struct lm_request *a)
{
	struct lm_request **at = &e->waiting;

	while (*at && (*at)->serial < a->serial)
		at = &(*at)->next;
	a->next = *at;
	*at = a;
	if (!a->next)
		e->waiting_end = &a->next;
	e->counts.waiting++;
}

/* --- those in progress ---------------------------------------------------------------------- */

/* Releases the pages. Those that the prefix index keeps become its most recently used, the
 * first page of the text last. */
static void release_pages(struct lm_engine *e, struct lm_request *a)
{
	for (uint32_t i = a->sequence.n; i-- > a->sequence.begin;)
		lm_prefix_touch(e->prefix, a->sequence.pages[i]);
	lm_sequence_release(&a->sequence, e->cache);
	a->hashed = 0;
}

static void leave(struct lm_engine *e, struct lm_request *a)
{
	uint32_t i = 0;

	while (e->running[i] != a)
		i++;
	e->running_count--;
	memmove(e->running + i, e->running + i + 1,
		(e->running_count - i) * sizeof *e->running);
	release_pages(e, a);
	if (e->draft)
		lm_draft_forget(e->draft, &a->draft_read);
}

static void emit(struct lm_engine *e, struct lm_request *a, int64_t token,
	const struct lm_logprobs *logprobs)
{
	struct lm_event event = { a, token, logprobs };

	e->event(e->arg, &event);
}

/* Reports the end of an answer, which then belongs to the caller again. */
static void finished(struct lm_engine *e, struct lm_request *a, enum lm_finish how)
{
	a->finish = how;
	lm_history_release(&a->history);
	free(a->hidden);
	a->hidden = NULL;
	emit(e, a, -1, NULL);
}

static void fail(struct lm_request *a)
{
	a->finish = LM_FINISH_ERROR;
	if (!a->error) {
		a->error = xcalloc(1, sizeof *a->error);
		err_save(a->error);
	}
}

/* Fails an answer for which memory ran out just now: what it has becomes free for the others. */
static void fail_if_short(struct lm_request *a)
{
	if (!mem_ran_out() || a->finish != LM_UNFINISHED)
		return;
	err_set(EX_OSERR, "out of memory");
	fail(a);
	(void)mem_ran_out(); /* for the error itself */
}

/* Memory ran out while nothing was done for a certain answer. If it still lacks, the newest fails. */
static void relieve(struct lm_engine *e)
{
	if (!mem_ran_out() || !mem_is_short() || !e->running_count)
		return;
	err_set(EX_OSERR, "out of memory");
	fail(e->running[e->running_count - 1]);
	(void)mem_ran_out();
}

/* Removes the answers that failed before the step has computed anything. */
static void drop_failed(struct lm_engine *e)
{
	for (uint32_t i = 0; i < e->running_count;) {
		struct lm_request *a = e->running[i];

		if (a->finish == LM_UNFINISHED) {
			i++;
			continue;
		}
		leave(e, a);
		finished(e, a, a->finish);
	}
}

static void drop_cancelled(struct lm_engine *e)
{
	struct lm_request **at = &e->waiting, *a;

	for (uint32_t i = 0; i < e->running_count;) {
		a = e->running[i];
		if (atomic_load(&a->cancel)) {
			leave(e, a);
			finished(e, a, LM_FINISH_CANCELLED);
		} else {
			i++;
		}
	}
	while ((a = *at))
		if (atomic_load(&a->cancel)) {
			take_waiting(e, at);
			finished(e, a, LM_FINISH_CANCELLED);
		} else {
			at = &a->next;
		}
}

/* --- pages ----------------------------------------------------------------------------------- */

/* Returns the number of pages that n more tokens need beyond those the sequence has. */
static uint32_t pages_missing(const struct lm_sequence *s, uint32_t tokens)
{
	uint32_t pages = lm_cache_pages(s->length + tokens);

	return pages > s->n ? pages - s->n : 0;
}

/* Computes the hash of the next page of a text. Returns false if the page is not full, or
 * contains the last token, whose logits are needed. */
static bool next_hash(struct lm_request *a, struct lm_prefix_hash *out)
{
	uint32_t length = a->sequence.length;

	if (a->embedding && a->mean)
		return false; /* every row has to be computed */
	if (length % LM_PAGE || length + LM_PAGE >= a->length)
		return false;
	if (!length) {
		lm_prefix_root(&a->hash, a->space, a->adapter);
		a->hashed = 0;
	}
	lm_prefix_next(out, &a->hash, a->tokens + length);
	return true;
}

/* Returns the first page that rows from `length` tokens on attend to. */
static uint32_t first_page(const struct lm_engine *e, uint32_t length)
{
	return e->reach && length >= e->reach ? (length + 1 - e->reach) / LM_PAGE : 0;
}

/* For models whose layers all have a window: finds the longest beginning of a text of whose last
 * window the index has all pages, whatever has become of those before it, and skips the latter. The
 * sequence is empty. */
static void skip_to_window(struct lm_engine *e, struct lm_request *a)
{
	uint32_t pages = (a->length - 1) / LM_PAGE, run = 0, best = 0, first;
	struct lm_prefix_hash hash, at_first;

	lm_prefix_root(&hash, a->space, a->adapter);
	for (uint32_t i = 0; i < pages; i++) {
		lm_prefix_next(&hash, &hash, a->tokens + (size_t)i * LM_PAGE);
		run = lm_prefix_has(e->prefix, &hash) ? run + 1 : 0;
		if (run && run >= i + 1 - first_page(e, (i + 1) * LM_PAGE))
			best = i + 1;
	}
	first = first_page(e, best * LM_PAGE);
	if (!first)
		return;
	lm_prefix_root(&at_first, a->space, a->adapter);
	for (uint32_t i = 0; i < first; i++)
		lm_prefix_next(&at_first, &at_first, a->tokens + (size_t)i * LM_PAGE);
	lm_sequence_skip(&a->sequence, first);
	a->hash = at_first;
	a->hashed = first;
}

/* Adopts the pages that the prefix index already has. */
static void adopt(struct lm_engine *e, struct lm_request *a)
{
	struct lm_prefix_hash hash;
	int64_t page;

	if (e->reach && !a->sequence.length && !(a->embedding && a->mean))
		skip_to_window(e, a);
	while (next_hash(a, &hash)) {
		page = lm_prefix_find(e->prefix, &hash);
		if (page < 0)
			return;
		lm_sequence_adopt(&a->sequence, e->cache, (uint32_t)page);
		a->hash = hash;
		a->hashed++;
	}
}

/* Counts the tokens that were adopted beyond `before` as cached. */
static void count_cached(struct lm_engine *e, struct lm_request *a, uint32_t before)
{
	uint32_t tokens = a->sequence.length - before;

	e->counts.cached += tokens;
	if (!a->preempted)
		a->cached += tokens;
}

/* Adds the pages that a step has filled to the prefix index. */
static void keep(struct lm_engine *e, struct lm_request *a)
{
	const struct lm_sequence *s = &a->sequence;

	while ((uint64_t)(a->hashed + 1) * LM_PAGE <= s->length) {
		if (!a->hashed)
			lm_prefix_root(&a->hash, a->space, a->adapter);
		lm_prefix_next(&a->hash, &a->hash, a->tokens + a->hashed * LM_PAGE);
		lm_prefix_add(e->prefix, &a->hash, s->pages[a->hashed]);
		a->hashed++;
	}
}

/* Releases the pages that no row to come attends to, of models whose layers all have a window. The
 * prefix index keeps them as long as there is room. */
static void forget(struct lm_engine *e, struct lm_request *a)
{
	lm_sequence_forget(&a->sequence, e->cache,
		first_page(e, a->sequence.length) * LM_PAGE);
}

/* --- admission ------------------------------------------------------------------------------- */

static uint32_t running_of(const struct lm_engine *e, uint64_t group)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < e->running_count; i++)
		n += e->running[i]->group == group;
	return n;
}

/* Returns the answer to admit next: the oldest of the group with the fewest in progress. */
static struct lm_request **next_waiting(struct lm_engine *e)
{
	struct lm_request **best = NULL;
	uint32_t fewest = UINT32_MAX;

	for (struct lm_request **at = &e->waiting; *at && fewest; at = &(*at)->next) {
		uint32_t n = running_of(e, (*at)->group);

		if (n < fewest) {
			fewest = n;
			best = at;
		}
	}
	return best;
}

static bool fits(struct lm_engine *e, struct lm_request *a)
{
	uint32_t margin = LM_ENGINE_MARGIN, needed;

	if (margin > a->prompt + a->tokens_max - a->length)
		margin = a->prompt + a->tokens_max - a->length;
	needed = pages_missing(&a->sequence, a->length + margin - a->sequence.length);
	if (needed <= lm_cache_free_pages(e->cache))
		return true;
	/* an answer alone may use the whole cache, and ends when the cache is full */
	return needed <= lm_prefix_free_pages(e->prefix) ||
		(!e->running_count &&
			pages_missing(&a->sequence, a->length + 1 - a->sequence.length) <=
				lm_prefix_free_pages(e->prefix));
}

static void enter(struct lm_engine *e, struct lm_request *a)
{
	uint32_t i = e->running_count++;

	for (; i && e->running[i - 1]->serial > a->serial; i--)
		e->running[i] = e->running[i - 1];
	e->running[i] = a;
	a->pace[LM_LOOKUP] = (struct lm_pace){ .propose_max = 2 };
	a->pace[LM_DRAFT] = (struct lm_pace){ .propose_max = 2,
		.pause = e->draft_misses ? PAUSE_MIN << e->draft_misses : 0,
		.misses = e->draft_misses };
	if (!a->admitted_ns)
		a->admitted_ns = clock_mono_ns();
	if (lm_sampling_penalises(&a->sampling) && !a->history.generated) {
		lm_history_init(&a->history, lm_weights_config(e->w)->vocab);
		for (uint32_t k = 0; k < a->prompt; k++)
			lm_history_prompt(&a->history, a->tokens[k]);
	}
	fail_if_short(a);
}

/* Reserves pages for `tokens` more tokens, evicting cached pages if necessary. */
static bool grow(struct lm_engine *e, struct lm_request *a, uint32_t tokens)
{
	return lm_prefix_make_room(e->prefix, pages_missing(&a->sequence, tokens)) &&
		lm_sequence_grow(&a->sequence, e->cache, tokens) == 0;
}

/* Whether an answer could be admitted; if so, its pages are reserved. */
static bool prepare(struct lm_engine *e, struct lm_request *a)
{
	adopt(e, a);
	if (fits(e, a) && grow(e, a, a->length - a->sequence.length))
		return true;
	err_clear();
	release_pages(e, a);
	return false;
}

static void admit(struct lm_engine *e)
{
	struct lm_request **at, *a;

	while (e->running_count < e->limits.streams && (at = next_waiting(e))) {
		a = *at;
		if (prepare(e, a)) {
			count_cached(e, a, 0);
			take_waiting(e, at);
			enter(e, a);
		} else if (e->running_count) {
			return;
		} else {
			/* it filled the whole cache alone before */
			take_waiting(e, at);
			finished(e, a, LM_FINISH_LENGTH);
		}
	}
}

/* Preempts the newest answer, which releases its pages and waits; returns false if that is
 * `but` and it is alone. */
static bool preempt(struct lm_engine *e, const struct lm_request *but)
{
	struct lm_request *a = e->running[e->running_count - 1];

	if (e->running_count == 1 && a == but)
		return false;
	leave(e, a);
	a->step_rows = 0;
	a->preempted++;
	e->counts.preempted++;
	wait_again(e, a);
	return true;
}

/* --- who has which rows ---------------------------------------------------------------------- */

/* Reserves pages for n rows of an answer, preempting newer answers if necessary. Returns false
 * if the answer itself was preempted or has ended. */
static bool make_room(struct lm_engine *e, struct lm_request *a, uint32_t n)
{
	while (!grow(e, a, n)) {
		err_clear();
		if (!preempt(e, a)) {
			leave(e, a);
			finished(e, a, LM_FINISH_LENGTH);
			return false;
		}
		if (!a->sequence.n)
			return false; /* it was itself the newest, and preempted */
	}
	return true;
}

static bool is_prompt(const struct lm_request *a)
{
	return a->length - a->sequence.length > 1;
}

/* Returns how many tokens may be proposed from a source: as many as paid off lately. */
static uint32_t guesses_max(struct lm_engine *e, struct lm_request *a,
	enum lm_source from)
{
	struct lm_pace *p = &a->pace[from];
	uint32_t max = p->propose_max < a->speculate ? p->propose_max : a->speculate;
	uint32_t left = a->tokens_max - a->generated - 1;
	uint32_t room = e->limits.context - a->length;

	if (max > SPECULATED_ROWS / e->running_count)
		max = SPECULATED_ROWS / e->running_count;
	if (max > left)
		max = left;
	if (max >= room)
		max = room - 1;
	if (!max || !p->pause)
		return max;
	p->pause--;
	return 0;
}

/* Takes n proposals, which stand after the text, if pages are free. */
static void take_guesses(struct lm_engine *e, struct lm_request *a, uint32_t n)
{
	if (n && !grow(e, a, 1 + n)) {
		err_clear();
		return;
	}
	a->step_proposed = n;
	a->step_rows += n;
}

/* Proposes tokens from the text itself, else asks the draft model for them, if there is one. */
static void guess(struct lm_engine *e, struct lm_request *a, uint32_t *drafting)
{
	uint32_t max, n = 0;

	if (!a->speculate)
		return;
	a->tokens = xgrow(a->tokens, &a->tokens_capacity,
		(size_t)a->length + 1 + LM_PROPOSED_MAX, sizeof *a->tokens);
	a->source = LM_LOOKUP;
	max = guesses_max(e, a, LM_LOOKUP);
	if (max)
		n = lm_guess(a->tokens + a->length, max, a->tokens, a->length, a->prompt,
			a->prediction, a->prediction_count);
	take_guesses(e, a, n);
	max = !n && e->draft ? guesses_max(e, a, LM_DRAFT) : 0;
	if (!max)
		return;
	a->source = LM_DRAFT;
	e->drafts[*drafting] = (struct lm_draft_text){ .read = &a->draft_read,
		.space = a->space,
		.tokens = a->tokens,
		.length = a->length,
		.sampling = &a->sampling,
		.wanted = max,
		.out = a->tokens + a->length };
	e->drafting[(*drafting)++] = a;
}

/* Lets the draft model propose for n answers together. Without it they go on as well. */
static void draft(struct lm_engine *e, uint32_t n)
{
	if (lm_draft_propose(e->draft, e->drafts, n) < 0)
		err_clear();
	for (uint32_t i = 0; i < n; i++)
		if (e->drafts[i].count)
			take_guesses(e, e->drafting[i], e->drafts[i].count);
}

/* Adapts the number of tokens to propose next to how many of these were right. A draft model that
 * was wrong for others makes a new text wait, too. */
static void learn(struct lm_engine *e, struct lm_request *a)
{
	struct lm_pace *p = &a->pace[a->source];

	if (!a->step_proposed)
		return;
	a->proposed += a->step_proposed;
	a->accepted += a->step_accepted;
	e->counts.proposed += a->step_proposed;
	e->counts.accepted += a->step_accepted;
	if (a->source == LM_DRAFT)
		e->draft_misses = a->step_accepted        ? 0 :
			e->draft_misses < PAUSE_DOUBLINGS ? e->draft_misses + 1 :
							    PAUSE_DOUBLINGS;
	if (!a->step_accepted) {
		p->misses += p->misses < PAUSE_DOUBLINGS;
		p->pause = PAUSE_MIN << p->misses;
		p->propose_max = 1;
		return;
	}
	p->misses = 0;
	p->propose_max = a->step_accepted == a->step_proposed ? 2 * p->propose_max :
								a->step_accepted + 1;
	if (p->propose_max > LM_PROPOSED_MAX)
		p->propose_max = LM_PROPOSED_MAX;
}

/* Adds the rows of answers whose prompts are complete. */
static void plan_next_tokens(struct lm_engine *e)
{
	uint32_t drafting = 0;

	for (uint32_t i = 0; i < e->running_count;) {
		struct lm_request *a = e->running[i];

		a->step_rows = a->step_proposed = a->step_accepted = 0;
		a->rejected = false;
		if (is_prompt(a)) {
			i++;
			continue;
		}
		if (!make_room(e, a, 1))
			continue; /* i is now another answer, or the end */
		a->step_rows = 1;
		guess(e, a, &drafting);
		fail_if_short(a);
		i++;
	}
	if (drafting)
		draft(e, drafting);
	drop_failed(e);
}

/* Whether an older answer computes the same page in this step; if so, this one waits for it. */
static bool is_computed(struct lm_engine *e, uint32_t i,
	const struct lm_prefix_hash *hash)
{
	for (uint32_t k = 0; k < i; k++) {
		struct lm_prefix_hash other;
		struct lm_request *b = e->running[k];

		if (is_prompt(b) &&
			b->sequence.length == e->running[i]->sequence.length &&
			next_hash(b, &other) && lm_prefix_equal(&other, hash))
			return true;
	}
	return false;
}

/* Returns the oldest prompt that can take rows in the group after `group`, or NULL. Groups are
 * ordered by number. */
static struct lm_request *next_prompt(struct lm_engine *e, uint64_t group)
{
	struct lm_request *best = NULL;

	for (uint32_t i = 0; i < e->running_count; i++) {
		struct lm_request *a = e->running[i];

		if (!is_prompt(a) || a->deferred ||
			a->step_rows == a->length - a->sequence.length)
			continue;
		/* wraps around: takes the smallest distance after group, group itself last */
		if (!best || a->group - group - 1 < best->group - group - 1)
			best = a;
	}
	return best;
}

/* Returns how many rows of a prompt its next turn computes, and what they cost. least: fewer are
 * not worth a turn. */
static uint32_t rows_of_turn(const struct lm_engine *e, const struct lm_request *a,
	uint64_t left, uint32_t least, uint64_t *cost)
{
	uint32_t from = a->sequence.length + a->step_rows;
	uint32_t most = a->length - from < QUANTUM ? a->length - from : QUANTUM, rows;
	uint64_t affordable = left / cost_of(e, from);

	/* what they cost on average is what the one in the middle costs */
	rows = affordable < most ? (uint32_t)affordable : most;
	affordable = left / cost_of(e, from + rows / 2);
	rows = affordable < rows ? (uint32_t)affordable : rows;
	if (rows < least)
		rows = least < most ? least : most;
	*cost = rows * cost_of(e, from + rows / 2);
	return rows;
}

/* Shares the budget among prompts: the oldest of each group, groups in turn. room: rows that the
 * step can still hold. left: what they may cost. */
static void plan_prompts(struct lm_engine *e, uint32_t room, uint64_t left)
{
	struct lm_prefix_hash hash;
	struct lm_request *a;
	uint32_t before, least = PROMPT_ROWS_MIN;

	for (uint32_t i = 0; i < e->running_count; i++) {
		a = e->running[i];
		if (!is_prompt(a))
			continue;
		before = a->sequence.length;
		adopt(e, a);
		count_cached(e, a, before);
		fail_if_short(a);
		a->deferred = a->finish != LM_UNFINISHED ||
			(next_hash(a, &hash) && is_computed(e, i, &hash));
	}
	e->full = false;
	while ((a = next_prompt(e, e->turn))) {
		uint64_t cost = 0;
		uint32_t more = rows_of_turn(e, a, left, least, &cost);

		if (more > room)
			more = room;
		if (!more) {
			e->full = true;
			break;
		}
		a->step_rows += more;
		room -= more;
		left -= cost < left ? cost : left;
		least = 0;
		e->load += cost;
		e->turn = a->group;
	}
	for (uint32_t i = 0; i < e->running_count; i++)
		e->running[i]->deferred = false;
}

static void plan(struct lm_engine *e)
{
	uint64_t budget, min = LM_PAGE * e->keys_per_row;
	uint32_t room = e->limits.rows > PROMPT_ROWS_MIN ? e->limits.rows :
							   PROMPT_ROWS_MIN;

	plan_next_tokens(e);
	e->load = 0;
	for (uint32_t i = 0; i < e->running_count; i++) {
		const struct lm_request *a = e->running[i];

		e->load += a->step_rows * cost_of(e, a->length);
	}
	e->beside = e->load > 0;
	budget = (e->beside ? e->budget_beside : e->budget) * e->keys_per_row;
	/* prompts advance in every step, however many answers there are */
	plan_prompts(e, room, budget > e->load + min ? budget - e->load : min);
	e->row_count = 0;
	for (uint32_t i = 0; i < e->running_count; i++) {
		struct lm_request *a = e->running[i];

		for (uint32_t k = 0; k < a->step_rows; k++) {
			uint32_t position = a->sequence.length + k, row = e->row_count++;

			e->rows[row] = (struct lm_row){ .sequence = &a->sequence,
				.token = a->tokens[position],
				.position = position,
				.adapter = a->adapter,
				.logits = position + 1 >= a->length ||
					(a->embedding && a->mean) };
			e->of[row] = a;
		}
	}
}

/* --- what follows from logits ------------------------------------------------------------------ */

static bool ends_text(const struct lm_engine *e, uint32_t token)
{
	for (uint32_t i = 0; i < e->ends_count; i++)
		if (e->ends[i] == token)
			return true;
	return false;
}

/* Appends a token to the text and reports it. */
static void append(struct lm_engine *e, struct lm_request *a, uint32_t token,
	const float *logits)
{
	struct lm_logprobs logprobs;

	a->tokens = xgrow(a->tokens, &a->tokens_capacity,
		(size_t)a->length + 1 + LM_PROPOSED_MAX, sizeof *a->tokens);
	a->tokens[a->length++] = token;
	if (!a->generated++)
		a->first_ns = clock_mono_ns();
	e->counts.generated++;
	if (a->history.generated)
		lm_history_add(&a->history, token);
	if (a->logprobs)
		lm_logprobs(&logprobs, logits, lm_weights_config(e->w)->vocab, token,
			a->top_logprobs);
	emit(e, a, token, a->logprobs ? &logprobs : NULL);
	if (a->generated == a->tokens_max || a->length == e->limits.context)
		a->finish = LM_FINISH_LENGTH;
}

/* Adds a row to the embedding, and completes it with the last row. */
static void embed(struct lm_engine *e, struct lm_request *a, uint32_t position)
{
	uint32_t dim = lm_weights_config(e->w)->dim;
	float *row = a->mean ? a->hidden : a->embedding;

	if (a->mean && !row)
		row = a->hidden = xcalloc(dim, sizeof *row);
	if (lm_forward_hidden(e->forward, row) < 0) {
		fail(a);
		return;
	}
	for (uint32_t i = 0; i < dim && a->mean; i++)
		a->embedding[i] = (position ? a->embedding[i] : 0) +
			row[i] / (float)a->prompt;
	if (position + 1 == a->length)
		a->finish = LM_FINISH_STOP;
}

static int on_logits(void *arg, uint32_t row, const float *logits)
{
	struct lm_engine *e = arg;
	struct lm_request *a = e->of[row];
	uint32_t vocab = lm_weights_config(e->w)->vocab, token;
	const uint64_t *allowed;
	bool guessed = e->rows[row].position + 1 < a->sequence.length;
	uint32_t proposal = guessed ? a->tokens[a->length] : 0;

	if (a->finish != LM_UNFINISHED || a->rejected)
		return 0;
	if (a->embedding) {
		embed(e, a, e->rows[row].position);
		fail_if_short(a);
		return 0;
	}
	allowed = a->mask.allowed ? a->mask.allowed(a->mask.ctx) : NULL;
	token = lm_draw(&e->scratch, &a->sampling,
		a->history.generated ? &a->history : NULL, allowed, logits, vocab,
		(uint64_t)e->rows[row].position + 1);
	if (!isfinite(logits[token])) {
		err_set(EX_DATAERR, "what the model computes is not finite");
		fail(a);
		return 0;
	}
	if (a->mask.accept)
		a->mask.accept(a->mask.ctx, token);
	if (ends_text(e, token))
		a->finish = LM_FINISH_STOP;
	else
		append(e, a, token, logits);
	fail_if_short(a);
	a->rejected = guessed && proposal != token;
	a->step_accepted += guessed && !a->rejected;
	return 0;
}

/* After a step: indexes the pages that were filled, and removes the answers that are finished. */
static void settle(struct lm_engine *e)
{
	for (uint32_t i = 0; i < e->running_count;) {
		struct lm_request *a = e->running[i];

		if (a->step_proposed && a->sequence.length >= a->length)
			lm_sequence_truncate(&a->sequence, e->cache, a->length - 1);
		learn(e, a);
		if (a->step_rows)
			keep(e, a);
		if (a->finish == LM_UNFINISHED) {
			forget(e, a);
			i++;
			continue;
		}
		leave(e, a);
		finished(e, a, a->finish);
	}
}

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

/* The pass failed. Where the device had no memory to begin it, one answer less may be enough: the
 * newest fails, and the others' rows are computed in the next step. */
static void fail_step(struct lm_engine *e)
{
	bool begun = e->rows[0].sequence->length > e->rows[0].position, enough = false;

	for (uint32_t i = e->running_count; i-- > 0 && !enough;)
		if (e->running[i]->step_rows) {
			fail(e->running[i]);
			enough = err_get()->code == EX_OSERR && !begun;
		}
}

uint32_t lm_engine_step(struct lm_engine *e)
{
	relieve(e);
	drop_cancelled(e);
	drop_failed(e);
	admit(e);
	drop_failed(e);
	plan(e);
	if (e->row_count) {
		count_step(e);
		if (lm_forward_rows(e->forward, e->rows, e->row_count, on_logits, e) < 0)
			fail_step(e);
		settle(e);
	}
	if (e->limits.check)
		check(e);
	return e->row_count;
}

bool lm_engine_idle(const struct lm_engine *e)
{
	return !e->running_count && !e->waiting;
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
