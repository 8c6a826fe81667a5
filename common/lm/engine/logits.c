/* logits.c - what follows from logits: the next token of an answer, its end, its embedding. */
#include "common/lm/engine/parts.h"

#include <math.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/lm/engine/guess.h"

/* --- what follows from logits ------------------------------------------------------------- */

static bool ends_text(const struct lm_engine *e, uint32_t token)
{
	for (uint32_t i = 0; i < e->ends_count; i++)
		if (e->ends[i] == token)
			return true;
	return false;
}

/* Appends a token to the text and reports it. */
static void append(struct lm_engine *e, struct lm_answer *a, const struct lm_choice *c)
{
	a->tokens = xgrow(a->tokens, &a->tokens_capacity,
		(size_t)a->length + 1 + LM_PROPOSED_MAX, sizeof *a->tokens);
	a->tokens[a->length++] = c->token;
	if (!a->generated++)
		a->first_ns = clock_mono_ns();
	e->counts.generated++;
	if (a->history.generated)
		lm_history_add(&a->history, c->token);
	engine_emit(e, a, c->token, a->logprobs ? &c->logprobs : NULL);
	if (a->generated == a->tokens_max || a->length == e->limits.context)
		a->finish = LM_FINISH_LENGTH;
}

/* Reports the token of the prompt behind a position. */
static void tell_prompt(struct lm_engine *e, struct lm_answer *a, uint32_t position,
	const struct lm_choice *c)
{
	struct lm_event event = { .answer = a,
		.token = c->token,
		.of_prompt = true,
		.logprobs = &c->logprobs };

	if (isnan(c->logprobs.token)) {
		err_set(EX_DATAERR, "what the model computes is not finite");
		engine_fail(a);
		return;
	}
	a->told = position + 1;
	e->event(e->arg, &event);
}

/* Adds a row, whose logits are at `score`, to the embedding, and completes it with the last row. */
static void embed(struct lm_engine *e, struct lm_answer *a, uint32_t position,
	uint32_t score)
{
	uint32_t dim = lm_weights_config(e->w)->dim;
	float *row = a->mean ? a->hidden : a->embedding;

	if (a->mean && !row)
		row = a->hidden = xcalloc(dim, sizeof *row);
	if (lm_forward_hidden(e->forward, score, row) < 0) {
		engine_fail(a);
		return;
	}
	for (uint32_t i = 0; i < dim && a->mean; i++)
		a->embedding[i] = (position ? a->embedding[i] : 0) +
			row[i] / (float)a->prompt;
	if (position + 1 == a->length)
		a->finish = LM_FINISH_STOP;
}

/* The next token of the answer is drawn from the row. */
static void draw(struct lm_engine *e, struct lm_answer *a, uint32_t position,
	const struct lm_choice *c)
{
	bool guessed = position + 1 < a->sequence.length;
	uint32_t proposal = guessed ? a->tokens[a->length] : 0;

	if (!isfinite(c->logits[c->token])) {
		err_set(EX_DATAERR, "what the model computes is not finite");
		engine_fail(a);
		return;
	}
	if (a->mask.accept)
		a->mask.accept(a->mask.ctx, c->token);
	if (ends_text(e, c->token))
		a->finish = LM_FINISH_STOP;
	else
		append(e, a, c);
	engine_fail_if_short(a);
	a->rejected = guessed && proposal != c->token;
	a->step_accepted += guessed && !a->rejected;
}

static bool is_of_prompt(const struct lm_answer *a, uint32_t position)
{
	return position + 1 < a->prompt;
}

/* Whether a token, or the logprobs of one, follow from the row at a position. */
static bool wants_choice(const struct lm_answer *a, uint32_t position)
{
	return a->finish == LM_UNFINISHED && !a->rejected && !a->embedding &&
		(is_of_prompt(a, position) || a->tokens_max);
}

static struct lm_choice choice_of(const struct lm_answer *a, uint32_t position,
	const float *logits)
{
	struct lm_choice c = { .logits = logits,
		.wants_logprobs = a->logprobs,
		.top = a->top_logprobs,
		.position = (uint64_t)position + 1 };

	if (is_of_prompt(a, position)) {
		c.wants_logprobs = true;
		c.token = a->tokens[position + 1];
		return c;
	}
	c.sampling = &a->sampling;
	c.history = a->history.generated ? &a->history : NULL;
	c.mask = &a->mask;
	return c;
}

/* Does what follows from a row, and from the choice that was made for it, if any. */
static void conclude(struct lm_engine *e, uint32_t row, uint32_t score,
	const struct lm_choice *c)
{
	struct lm_answer *a = e->of[row];
	uint32_t position = e->rows[row].position;

	if (a->finish != LM_UNFINISHED || a->rejected)
		return;
	if (a->embedding)
		embed(e, a, position, score);
	else if (is_of_prompt(a, position))
		tell_prompt(e, a, position, c);
	else if (!a->tokens_max)
		a->finish = LM_FINISH_LENGTH;
	else
		draw(e, a, position, c);
	engine_fail_if_short(a);
	if (c && c->ran_out)
		engine_fail_short(a);
}

/* Takes from the rows that are left the next token of each answer, and what comes before it of its
 * prompt. A token that follows another of the same answer is drawn when that one is known, as
 * penalties and masks want. Sets the bits of the rows, and where the choice for each is, or NULL;
 * returns how many are to be made. */
static uint32_t next_choices(struct lm_engine *e, const uint32_t *rows, uint32_t n,
	const float *logits, uint64_t left, uint64_t *now)
{
	uint32_t vocab = lm_weights_config(e->w)->vocab, count = 0;
	const struct lm_answer *drawn = NULL;

	*now = 0;
	for (uint32_t i = 0; i < n; i++) {
		const struct lm_answer *a = e->of[rows[i]];
		uint32_t position = e->rows[rows[i]].position;

		if (!(left >> i & 1) || a == drawn)
			continue;
		*now |= UINT64_C(1) << i;
		e->chosen[i] = NULL;
		if (!wants_choice(a, position))
			continue;
		if (!is_of_prompt(a, position))
			drawn = a;
		e->chosen[i] = &e->choices[count++];
		*e->chosen[i] = choice_of(a, position, logits + (uint64_t)i * vocab);
	}
	return count;
}

_Static_assert(LM_LOGITS_MAX <= 64, "rows are bits");

int engine_on_scores(void *arg, const uint32_t *rows, uint32_t n, const float *logits)
{
	struct lm_engine *e = arg;
	uint64_t left = n < 64 ? (UINT64_C(1) << n) - 1 : UINT64_MAX, now;

	for (; left; left &= ~now) {
		uint32_t count = next_choices(e, rows, n, logits, left, &now);

		lm_choose(&e->chooser, e->choices, count, lm_weights_config(e->w)->vocab);
		for (uint32_t i = 0; i < n; i++)
			if (now >> i & 1)
				conclude(e, rows[i], i, e->chosen[i]);
	}
	return 0;
}

void engine_settle(struct lm_engine *e)
{
	for (uint32_t i = 0; i < e->running_count;) {
		struct lm_answer *a = e->running[i];

		if (a->step_proposed && a->sequence.length >= a->length)
			lm_sequence_truncate(&a->sequence, e->cache, a->length - 1);
		engine_learn(e, a);
		if (a->step_rows)
			engine_keep(e, a);
		if (a->finish == LM_UNFINISHED) {
			engine_forget(e, a);
			i++;
			continue;
		}
		engine_leave(e, a);
		engine_finished(e, a, a->finish);
	}
}
