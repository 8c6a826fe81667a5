/* rows.c - which rows each answer computes in a step: next tokens, guesses, parts of prompts. */
#include "common/lm/engine/parts.h"

#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/lm/engine/guess.h"

/* proposed rows of all answers in a step: more cost more time than they save */
#define SPECULATED_ROWS 16
/* rows of a prompt that a group computes before the next group's turn */
#define QUANTUM 64
/* rows of prompts that every step computes, however many answers there are */
#define PROMPT_ROWS_MIN 8
/* --- who has which rows ---------------------------------------------------------------------- */

/* Reserves pages for n rows of an answer, preempting newer answers if necessary. Returns false
 * if the answer itself was preempted or has ended. */
static bool make_room(struct lm_engine *e, struct lm_answer *a, uint32_t n)
{
	while (!engine_grow(e, a, n)) {
		err_clear();
		if (!engine_preempt(e, a)) {
			engine_leave(e, a);
			engine_finished(e, a, LM_FINISH_LENGTH);
			return false;
		}
		if (!a->sequence.n)
			return false; /* it was itself the newest, and preempted */
	}
	return true;
}

static bool is_prompt(const struct lm_answer *a)
{
	return a->length - a->sequence.length > 1;
}

/* Returns how many tokens may be proposed from a source: as many as paid off lately. */
static uint32_t guesses_max(struct lm_engine *e, struct lm_answer *a, enum lm_source from)
{
	struct lm_pace *p = &a->pace[from];
	uint32_t max = p->propose_max < a->speculate ? p->propose_max : a->speculate;
	uint32_t left = a->tokens_max ? a->tokens_max - a->generated - 1 : 0;
	uint32_t room = e->limits.context - a->length;

	if (max > SPECULATED_ROWS / e->running_count)
		max = SPECULATED_ROWS / e->running_count;
	if (max > left)
		max = left;
	if (max >= room)
		max = room ? room - 1 : 0; /* 0: a prompt that fills the context */
	if (!max || !p->pause)
		return max;
	p->pause--;
	return 0;
}

/* Takes n proposals, which stand after the text, if pages are free. */
static void take_guesses(struct lm_engine *e, struct lm_answer *a, uint32_t n)
{
	if (n && !engine_grow(e, a, 1 + n)) {
		err_clear();
		return;
	}
	a->step_proposed = n;
	a->step_rows += n;
}

/* Proposes tokens from the text itself, else asks the draft model for them, if there is one. */
static void guess(struct lm_engine *e, struct lm_answer *a, uint32_t *drafting)
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

void engine_learn(struct lm_engine *e, struct lm_answer *a)
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
		struct lm_answer *a = e->running[i];

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
		engine_fail_if_short(a);
		i++;
	}
	if (drafting)
		draft(e, drafting);
	engine_drop_failed(e);
}

/* Whether an older answer computes the same page in this step; if so, this one waits for it. */
static bool is_computed(struct lm_engine *e, uint32_t i,
	const struct lm_prefix_hash *hash)
{
	for (uint32_t k = 0; k < i; k++) {
		struct lm_prefix_hash other;
		struct lm_answer *b = e->running[k];

		if (is_prompt(b) &&
			b->sequence.length == e->running[i]->sequence.length &&
			engine_next_hash(b, &other) && lm_prefix_equal(&other, hash))
			return true;
	}
	return false;
}

/* Returns the oldest prompt that can take rows in the group after `group`, or NULL. Groups are
 * ordered by number. */
static struct lm_answer *next_prompt(struct lm_engine *e, uint64_t group)
{
	struct lm_answer *best = NULL;

	for (uint32_t i = 0; i < e->running_count; i++) {
		struct lm_answer *a = e->running[i];

		if (!is_prompt(a) || a->deferred ||
			a->step_rows == a->length - a->sequence.length)
			continue;
		/* wraps around: takes the smallest distance after group, group itself last */
		if (!best || a->group - group - 1 < best->group - group - 1)
			best = a;
	}
	return best;
}

/* Returns what a row of a prompt costs. */
static uint64_t prompt_cost(const struct lm_engine *e, const struct lm_answer *a,
	uint32_t position)
{
	return engine_cost_of(e, position) +
		(engine_tells(a, position) ? e->logits_cost : 0);
}

/* Returns how many rows of a prompt its next turn computes, and what they cost. least: fewer are
 * not worth a turn. */
static uint32_t rows_of_turn(const struct lm_engine *e, const struct lm_answer *a,
	uint64_t left, uint32_t least, uint64_t *cost)
{
	uint32_t from = a->sequence.length + a->step_rows;
	uint32_t most = a->length - from < QUANTUM ? a->length - from : QUANTUM, rows;
	uint64_t affordable = left / prompt_cost(e, a, from);

	/* what they cost on average is what the one in the middle costs */
	rows = affordable < most ? (uint32_t)affordable : most;
	affordable = left / prompt_cost(e, a, from + rows / 2);
	rows = affordable < rows ? (uint32_t)affordable : rows;
	if (rows < least)
		rows = least < most ? least : most;
	*cost = rows * prompt_cost(e, a, from + rows / 2);
	return rows;
}

/* Shares the budget among prompts: the oldest of each group, groups in turn. room: rows that the
 * step can still hold. left: what they may cost. */
static void plan_prompts(struct lm_engine *e, uint32_t room, uint64_t left)
{
	struct lm_prefix_hash hash;
	struct lm_answer *a;
	uint32_t before, least = PROMPT_ROWS_MIN;

	for (uint32_t i = 0; i < e->running_count; i++) {
		a = e->running[i];
		if (!is_prompt(a))
			continue;
		before = a->sequence.length;
		engine_adopt(e, a);
		engine_count_cached(e, a, before);
		engine_fail_if_short(a);
		a->deferred = a->finish != LM_UNFINISHED ||
			(engine_next_hash(a, &hash) && is_computed(e, i, &hash));
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

void engine_plan(struct lm_engine *e)
{
	uint64_t budget, min = LM_PAGE * e->keys_per_row;
	uint32_t room = e->limits.rows > PROMPT_ROWS_MIN ? e->limits.rows :
							   PROMPT_ROWS_MIN;

	plan_next_tokens(e);
	e->load = 0;
	for (uint32_t i = 0; i < e->running_count; i++) {
		const struct lm_answer *a = e->running[i];

		e->load += a->step_rows * engine_cost_of(e, a->length);
	}
	e->beside = e->load > 0;
	budget = (e->beside ? e->budget_beside : e->budget) * e->keys_per_row;
	/* prompts advance in every step, however many answers there are */
	plan_prompts(e, room, budget > e->load + min ? budget - e->load : min);
	e->row_count = 0;
	for (uint32_t i = 0; i < e->running_count; i++) {
		struct lm_answer *a = e->running[i];

		for (uint32_t k = 0; k < a->step_rows; k++) {
			uint32_t position = a->sequence.length + k, row = e->row_count++;

			e->rows[row] = (struct lm_row){ .sequence = &a->sequence,
				.token = a->tokens[position],
				.position = position,
				.adapter = a->adapter,
				.logits = position + 1 >= a->length ||
					(a->embedding && a->mean) ||
					engine_tells(a, position) };
			e->of[row] = a;
		}
	}
}
