/* engine_logits.c - what follows from logits: the next token of an answer, its end, its embedding. */
#include "common/lm/engine/engine_parts.h"

#include <math.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/lm/engine/guess.h"

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
	engine_emit(e, a, token, a->logprobs ? &logprobs : NULL);
	if (a->generated == a->tokens_max || a->length == e->limits.context)
		a->finish = LM_FINISH_LENGTH;
}

/* Reports the token of the prompt behind a position. */
static void tell_prompt(struct lm_engine *e, struct lm_request *a, uint32_t position,
	const float *logits)
{
	struct lm_logprobs logprobs;
	struct lm_event event = { .answer = a,
		.token = a->tokens[position + 1],
		.of_prompt = true,
		.logprobs = &logprobs };

	lm_logprobs(&logprobs, logits, lm_weights_config(e->w)->vocab,
		a->tokens[position + 1], a->top_logprobs);
	if (isnan(logprobs.token)) {
		err_set(EX_DATAERR, "what the model computes is not finite");
		engine_fail(a);
		return;
	}
	a->told = position + 1;
	e->event(e->arg, &event);
}

/* Adds a row to the embedding, and completes it with the last row. */
static void embed(struct lm_engine *e, struct lm_request *a, uint32_t position)
{
	uint32_t dim = lm_weights_config(e->w)->dim;
	float *row = a->mean ? a->hidden : a->embedding;

	if (a->mean && !row)
		row = a->hidden = xcalloc(dim, sizeof *row);
	if (lm_forward_hidden(e->forward, row) < 0) {
		engine_fail(a);
		return;
	}
	for (uint32_t i = 0; i < dim && a->mean; i++)
		a->embedding[i] = (position ? a->embedding[i] : 0) +
			row[i] / (float)a->prompt;
	if (position + 1 == a->length)
		a->finish = LM_FINISH_STOP;
}

int engine_on_logits(void *arg, uint32_t row, const float *logits)
{
	struct lm_engine *e = arg;
	struct lm_request *a = e->of[row];
	uint32_t vocab = lm_weights_config(e->w)->vocab, token, proposal;
	const uint64_t *allowed;
	bool guessed;

	if (a->finish != LM_UNFINISHED || a->rejected)
		return 0;
	if (a->embedding) {
		embed(e, a, e->rows[row].position);
		engine_fail_if_short(a);
		return 0;
	}
	if (e->rows[row].position + 1 < a->prompt) {
		tell_prompt(e, a, e->rows[row].position, logits);
		engine_fail_if_short(a);
		return 0;
	}
	if (!a->tokens_max) {
		a->finish = LM_FINISH_LENGTH;
		return 0;
	}
	guessed = e->rows[row].position + 1 < a->sequence.length;
	proposal = guessed ? a->tokens[a->length] : 0;
	allowed = a->mask.allowed ? a->mask.allowed(a->mask.ctx) : NULL;
	token = lm_draw(&e->scratch, &a->sampling,
		a->history.generated ? &a->history : NULL, allowed, logits, vocab,
		(uint64_t)e->rows[row].position + 1);
	if (!isfinite(logits[token])) {
		err_set(EX_DATAERR, "what the model computes is not finite");
		engine_fail(a);
		return 0;
	}
	if (a->mask.accept)
		a->mask.accept(a->mask.ctx, token);
	if (ends_text(e, token))
		a->finish = LM_FINISH_STOP;
	else
		append(e, a, token, logits);
	engine_fail_if_short(a);
	a->rejected = guessed && proposal != token;
	a->step_accepted += guessed && !a->rejected;
	return 0;
}

void engine_settle(struct lm_engine *e)
{
	for (uint32_t i = 0; i < e->running_count;) {
		struct lm_request *a = e->running[i];

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
