/* parts.h - the state that the parts of engine.h share, and what they call of each other. */
#ifndef RNP_COMMON_LM_ENGINE_PARTS_H
#define RNP_COMMON_LM_ENGINE_PARTS_H

#include "common/lm/engine/engine.h"
#include "common/lm/infer/choose.h"

/* steps without proposals after all proposals were wrong a few times */
#define PAUSE_MIN       4
#define PAUSE_DOUBLINGS 6

struct lm_engine {
	const struct lm_weights *w;
	struct lm_cache *cache;
	struct lm_forward *forward;
	struct lm_prefix *prefix;
	struct lm_draft *draft; /* NULL: none */
	uint32_t draft_misses; /* consecutive attempts for any text that were all wrong */
	struct lm_draft_text *drafts; /* [streams] */
	struct lm_answer **drafting;  /* [streams] */
	struct lm_engine_limits limits;
	uint32_t *ends, ends_count;
	lm_event_fn event;
	void *arg;

	struct lm_answer *waiting, **waiting_end; /* by age */
	struct lm_answer **running;               /* [streams], by age */
	uint32_t running_count;
	uint64_t next_serial, turn; /* turn: the group that was served last */
	uint32_t budget, budget_beside;
	/* attention to this many keys takes as long as the products of a row */
	uint64_t keys_per_row;
	/* of each 1024 layers, those with a window, and how many keys it has */
	uint32_t local_per_1024, local_window;
	uint32_t reach; /* keys that any layer attends to at most; 0: all there are */
	uint64_t logits_cost; /* of a row's logits, in keys */
	uint64_t load;        /* of this step, in keys */
	bool full;            /* prompts had more rows than the budget */
	bool beside;          /* answers get their next tokens in this step */

	struct lm_row *rows;   /* rows of this step */
	struct lm_answer **of; /* the answer of each row */
	uint32_t row_count, rows_max;
	struct lm_chooser chooser;
	struct lm_choice choices[LM_LOGITS_MAX]; /* for rows whose logits are there */
	struct lm_choice *chosen[LM_LOGITS_MAX]; /* for each of those rows, or NULL */
	struct lm_engine_counts counts;
};

/* --- engine.c -------------------------------------------------------------------------------- */

/* Returns what a row at a position costs, in keys of attention. */
uint64_t engine_cost_of(const struct lm_engine *e, uint32_t position);

/* --- admit.c: who waits, enters and leaves, and their pages --------------------------- */

/* Removes an answer from those in progress, with its pages. */
void engine_leave(struct lm_engine *e, struct lm_answer *a);

/* Whether the row of a prompt at a position reports the prompt's next token. */
bool engine_tells(const struct lm_answer *a, uint32_t position);

/* Reports a token; -1: the end. */
void engine_emit(struct lm_engine *e, struct lm_answer *a, int64_t token,
	const struct lm_logprobs *logprobs);

/* Reports the end of an answer, which then belongs to the caller again. */
void engine_finished(struct lm_engine *e, struct lm_answer *a, enum lm_finish how);

/* Marks an answer as failed, for the cause that err_set() told. */
void engine_fail(struct lm_answer *a);

/* Fails an answer for which memory ran out: what it has becomes free for the others. The second
 * does so where memory ran out just now. */
void engine_fail_short(struct lm_answer *a);
void engine_fail_if_short(struct lm_answer *a);

/* Memory ran out while nothing was done for a certain answer. If it still lacks, the newest
 * fails. */
void engine_relieve(struct lm_engine *e);

/* Removes the answers that failed before the step has computed anything. */
void engine_drop_failed(struct lm_engine *e);

/* Removes the answers that were cancelled, those that wait included. */
void engine_drop_cancelled(struct lm_engine *e);

/* Computes the hash of the next page of a text. Returns false if the page is not full, or
 * contains the last token, whose logits are needed. */
bool engine_next_hash(struct lm_answer *a, struct lm_prefix_hash *out);

/* Adopts the pages that the prefix index already has. */
void engine_adopt(struct lm_engine *e, struct lm_answer *a);

/* Counts the tokens that were adopted beyond `before` as cached. */
void engine_count_cached(struct lm_engine *e, struct lm_answer *a, uint32_t before);

/* Adds the pages that a step has filled to the prefix index. */
void engine_keep(struct lm_engine *e, struct lm_answer *a);

/* Releases the pages that no row to come attends to, of models whose layers all have a window. The
 * prefix index keeps them as long as there is room. */
void engine_forget(struct lm_engine *e, struct lm_answer *a);

/* Reserves pages for `tokens` more tokens, evicting cached pages if necessary. */
bool engine_grow(struct lm_engine *e, struct lm_answer *a, uint32_t tokens);

/* Takes as many of those that wait as there is room for, in turn of their groups. */
void engine_admit(struct lm_engine *e);

/* Preempts the newest answer, which releases its pages and waits; returns false if that is
 * `but` and it is alone. */
bool engine_preempt(struct lm_engine *e, const struct lm_answer *but);

/* --- rows.c: who has which rows ------------------------------------------------------- */

/* Adapts the number of tokens to propose next to how many of these were right. A draft model that
 * was wrong for others makes a new text wait, too. */
void engine_learn(struct lm_engine *e, struct lm_answer *a);

/* Decides which rows the step computes: next tokens first, then as much of the prompts as the
 * budget has. */
void engine_plan(struct lm_engine *e);

/* --- logits.c: what follows from logits ----------------------------------------------- */

/* What lm_forward_scores calls for the rows whose logits are wanted; arg: the engine. */
int engine_on_scores(void *arg, const uint32_t *rows, uint32_t n, const float *logits);

/* After a step: indexes the pages that were filled, and removes the answers that are finished. */
void engine_settle(struct lm_engine *e);

#endif
