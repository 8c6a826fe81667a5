/* admit.c - which requests wait, enter and leave, and the pages of the cache that they have. */
#include "common/lm/engine/parts.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/lm/engine/guess.h"

/* --- those that wait ------------------------------------------------------------------------ */

void lm_engine_submit(struct lm_engine *e, struct lm_answer *a)
{
	a->length = a->prompt;
	a->serial = e->next_serial++;
	a->next = NULL;
	*e->waiting_end = a;
	e->waiting_end = &a->next;
	e->counts.waiting++;
}

static void take_waiting(struct lm_engine *e, struct lm_answer **at)
{
	struct lm_answer *a = *at;

	*at = a->next;
	if (!a->next)
		e->waiting_end = at;
	a->next = NULL;
	e->counts.waiting--;
}

/* Puts a preempted answer back into the queue, at the place of its age. */
static void wait_again(struct lm_engine *e, struct lm_answer *a)
{
	struct lm_answer **at = &e->waiting;

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
static void release_pages(struct lm_engine *e, struct lm_answer *a)
{
	for (uint32_t i = a->sequence.n; i-- > a->sequence.begin;)
		lm_prefix_touch(e->prefix, a->sequence.pages[i]);
	lm_sequence_release(&a->sequence, e->cache);
	a->hashed = 0;
}

void engine_leave(struct lm_engine *e, struct lm_answer *a)
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

void engine_emit(struct lm_engine *e, struct lm_answer *a, int64_t token,
	const struct lm_logprobs *logprobs)
{
	struct lm_event event = { .answer = a, .token = token, .logprobs = logprobs };

	e->event(e->arg, &event);
}

bool engine_tells(const struct lm_answer *a, uint32_t position)
{
	return a->prompt_logprobs && position + 1 < a->prompt && position >= a->told;
}

/* Whether all that prompt_logprobs asks for was reported, up to a length of the text. */
static bool engine_told(const struct lm_answer *a, uint32_t length)
{
	return !a->prompt_logprobs || a->told >= length || a->told + 1 >= a->prompt;
}

void engine_finished(struct lm_engine *e, struct lm_answer *a, enum lm_finish how)
{
	a->finish = how;
	lm_history_release(&a->history);
	free(a->hidden);
	a->hidden = NULL;
	engine_emit(e, a, -1, NULL);
}

void engine_fail(struct lm_answer *a)
{
	a->finish = LM_FINISH_ERROR;
	if (!a->error) {
		a->error = xcalloc(1, sizeof *a->error);
		err_save(a->error);
	}
}

void engine_fail_short(struct lm_answer *a)
{
	if (a->finish != LM_UNFINISHED)
		return;
	err_set(EX_OSERR, "out of memory");
	engine_fail(a);
	(void)mem_ran_out(); /* for the error itself */
}

void engine_fail_if_short(struct lm_answer *a)
{
	if (mem_ran_out())
		engine_fail_short(a);
}

void engine_relieve(struct lm_engine *e)
{
	if (!mem_ran_out() || !mem_is_short() || !e->running_count)
		return;
	err_set(EX_OSERR, "out of memory");
	engine_fail(e->running[e->running_count - 1]);
	(void)mem_ran_out();
}

void engine_drop_failed(struct lm_engine *e)
{
	for (uint32_t i = 0; i < e->running_count;) {
		struct lm_answer *a = e->running[i];

		if (a->finish == LM_UNFINISHED) {
			i++;
			continue;
		}
		engine_leave(e, a);
		engine_finished(e, a, a->finish);
	}
}

void engine_drop_cancelled(struct lm_engine *e)
{
	struct lm_answer **at = &e->waiting, *a;

	for (uint32_t i = 0; i < e->running_count;) {
		a = e->running[i];
		if (atomic_load(&a->cancel)) {
			engine_leave(e, a);
			engine_finished(e, a, LM_FINISH_CANCELLED);
		} else {
			i++;
		}
	}
	while ((a = *at))
		if (atomic_load(&a->cancel)) {
			take_waiting(e, at);
			engine_finished(e, a, LM_FINISH_CANCELLED);
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

bool engine_next_hash(struct lm_answer *a, struct lm_prefix_hash *out)
{
	uint32_t length = a->sequence.length;

	if (a->embedding && a->mean)
		return false; /* every row has to be computed */
	if (length % LM_PAGE || length + LM_PAGE >= a->length ||
		!engine_told(a, length + LM_PAGE))
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
static void skip_to_window(struct lm_engine *e, struct lm_answer *a)
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

void engine_adopt(struct lm_engine *e, struct lm_answer *a)
{
	struct lm_prefix_hash hash;
	int64_t page;

	if (e->reach && !a->sequence.length && !(a->embedding && a->mean) &&
		engine_told(a, a->prompt))
		skip_to_window(e, a);
	while (engine_next_hash(a, &hash)) {
		page = lm_prefix_find(e->prefix, &hash);
		if (page < 0)
			return;
		lm_sequence_adopt(&a->sequence, e->cache, (uint32_t)page);
		a->hash = hash;
		a->hashed++;
	}
}

void engine_count_cached(struct lm_engine *e, struct lm_answer *a, uint32_t before)
{
	uint32_t tokens = a->sequence.length - before;

	e->counts.cached += tokens;
	if (!a->preempted)
		a->cached += tokens;
}

void engine_keep(struct lm_engine *e, struct lm_answer *a)
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

void engine_forget(struct lm_engine *e, struct lm_answer *a)
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
static struct lm_answer **next_waiting(struct lm_engine *e)
{
	struct lm_answer **best = NULL;
	uint32_t fewest = UINT32_MAX;

	for (struct lm_answer **at = &e->waiting; *at && fewest; at = &(*at)->next) {
		uint32_t n = running_of(e, (*at)->group);

		if (n < fewest) {
			fewest = n;
			best = at;
		}
	}
	return best;
}

static bool fits(struct lm_engine *e, struct lm_answer *a)
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
			pages_missing(&a->sequence,
				a->length + (a->tokens_max > 0) - a->sequence.length) <=
				lm_prefix_free_pages(e->prefix));
}

static void enter(struct lm_engine *e, struct lm_answer *a)
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
	engine_fail_if_short(a);
}

bool engine_grow(struct lm_engine *e, struct lm_answer *a, uint32_t tokens)
{
	return lm_prefix_make_room(e->prefix, pages_missing(&a->sequence, tokens)) &&
		lm_sequence_grow(&a->sequence, e->cache, tokens) == 0;
}

/* Whether an answer could be admitted; if so, its pages are reserved. */
static bool prepare(struct lm_engine *e, struct lm_answer *a)
{
	engine_adopt(e, a);
	if (fits(e, a) && engine_grow(e, a, a->length - a->sequence.length))
		return true;
	err_clear();
	release_pages(e, a);
	return false;
}

void engine_admit(struct lm_engine *e)
{
	struct lm_answer **at, *a;

	while (e->running_count < e->limits.streams && (at = next_waiting(e))) {
		a = *at;
		if (prepare(e, a)) {
			engine_count_cached(e, a, 0);
			take_waiting(e, at);
			enter(e, a);
		} else if (e->running_count) {
			return;
		} else {
			/* it filled the whole cache alone before */
			take_waiting(e, at);
			engine_finished(e, a, LM_FINISH_LENGTH);
		}
	}
}

bool engine_preempt(struct lm_engine *e, const struct lm_answer *but)
{
	struct lm_answer *a = e->running[e->running_count - 1];

	if (e->running_count == 1 && a == but)
		return false;
	engine_leave(e, a);
	a->step_rows = 0;
	a->preempted++;
	e->counts.preempted++;
	wait_again(e, a);
	return true;
}
