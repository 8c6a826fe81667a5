/* engine.h - continuous batching: one model generates answers to many prompts at once. Uses
 * forward.h, prefix.h, sample.h.
 *
 * A step computes the next token of every answer whose prompt is complete, then pieces of
 * prompts up to a budget of rows. Keys and values lie in pages of one pool; answers with the
 * same beginning share pages. An answer is admitted when its prompt and LM_ENGINE_MARGIN tokens
 * fit; when pages run out, the newest answer releases its own and is computed again later. None
 * of this changes a text: a row's bits depend only on its own tokens (forward.h), a draw only
 * on seed and position (sample.h). An engine is used by one thread; service.h provides it. */
#ifndef RNP_COMMON_LM_ENGINE_ENGINE_H
#define RNP_COMMON_LM_ENGINE_ENGINE_H

#include <stdatomic.h>

#include "common/lm/engine/draft.h"
#include "common/lm/engine/prefix.h"
#include "common/lm/infer/forward.h"
#include "common/lm/infer/sample.h"

#define LM_ENGINE_MARGIN   64 /* free tokens after a prompt that admission requires */
#define LM_PROPOSED_MAX    8  /* draft tokens of a request in a step */
#define LM_ENGINE_STEP_MAX 4096

struct lm_engine;

enum lm_finish {
	LM_UNFINISHED,
	LM_FINISH_STOP,      /* it ended with a stop token */
	LM_FINISH_LENGTH,    /* it reached tokens_max, or the last position */
	LM_FINISH_CANCELLED, /* cancel was set */
	LM_FINISH_ERROR      /* see answer.error */
};

/* Where proposals of tokens come from. */
enum lm_source {
	LM_LOOKUP, /* the text itself, or a prediction */
	LM_DRAFT,  /* a draft model */
	LM_SOURCES
};

/* How many tokens to propose: what paid off lately. */
struct lm_pace {
	uint32_t propose_max;
	uint32_t pause;  /* steps until the next attempt */
	uint32_t misses; /* consecutive attempts that were all wrong */
};

/* One answer: its prompt, how to go on, and what became of it. The caller fills in the first part
 * and submits it; until the event that reports its end it touches nothing but cancel. Initialise
 * with zeros. */
struct lm_answer {
	/* malloc'ed: the prompt; the engine appends. The caller frees it */
	uint32_t *tokens;
	size_t tokens_capacity;
	uint32_t prompt;     /* tokens of the prompt, at least 1 */
	uint32_t tokens_max; /* of the answer; 0: the prompt alone is computed */
	struct lm_sampling sampling;
	struct lm_mask mask;
	bool logprobs;
	uint32_t top_logprobs; /* with logprobs: number of alternatives reported */
	/* Reports the tokens of the prompt behind the first one, too, with their logprobs, before
	 * the answer: all its rows are computed, whatever is in the cache. */
	bool prompt_logprobs;
	uint64_t group; /* the client: groups take turns */
	uint64_t space; /* answers of the same space may share pages */
	uint32_t adapter;
	/* A likely text of the answer, for speculation; may be NULL. Borrowed. */
	const uint32_t *prediction;
	uint32_t prediction_count;
	uint32_t speculate; /* tokens to propose in a step at most; 0: none */
	/* If not NULL, no token is drawn: the [dim] activations of the prompt's last row, or
	 * with `mean` the mean of all its rows, are written there; tokens_max is 0. */
	float *embedding;
	bool mean;
	void *user; /* for the caller */

	/* any thread may set it: the answer ends before the next step */
	_Atomic bool cancel;

	/* Results, valid after its last event. */
	enum lm_finish finish;
	uint32_t generated;
	uint32_t cached;                /* tokens of the prompt found in the cache */
	uint32_t proposed, accepted;    /* draft tokens */
	uint32_t preempted;             /* how often */
	int64_t submitted_ns, first_ns; /* monotonic; 0: not yet */
	/* the same; any thread may read it at any time: clients leave before the end */
	_Atomic int64_t admitted_ns;
	struct err *error; /* with LM_FINISH_ERROR; the caller frees it */

	/* Private to the engine. */
	struct lm_answer *next;
	struct lm_sequence sequence;
	struct lm_draft_read draft_read;
	struct lm_history history;
	uint32_t length; /* number of tokens so far: prompt and answer */
	uint32_t hashed; /* pages of the sequence that hash covers */
	uint32_t told;   /* with prompt_logprobs: rows whose next token was reported */
	struct lm_prefix_hash hash;
	uint32_t step_rows;     /* rows in this step */
	uint32_t step_proposed; /* of them, rows of proposed tokens */
	uint32_t step_accepted; /* of those, tokens that were drawn, too */
	bool rejected;          /* a proposal differed from the token drawn */
	/* excluded from the rest of this step: another one computes the page that it needs */
	bool deferred;
	float *hidden; /* with mean: [dim] of one row */
	uint64_t serial;
	struct lm_pace pace[LM_SOURCES];
	enum lm_source source; /* of this step's proposals */
};

/* A new token of an answer, or its end. */
struct lm_event {
	struct lm_answer *answer;
	int64_t token;  /* of the answer, or -1: it has ended, see answer.finish */
	bool of_prompt; /* the token is the prompt's (prompt_logprobs) */
	/* NULL: not requested. Valid during the call */
	const struct lm_logprobs *logprobs;
};

typedef void (*lm_event_fn)(void *arg, const struct lm_event *e);

struct lm_engine_limits {
	uint32_t pages;   /* of the cache */
	uint32_t streams; /* answers in progress */
	uint32_t rows;    /* rows of prompts in a step */
	uint32_t context; /* positions of a text */
	uint32_t logits;  /* rows whose logits are computed together (forward.h) */
	enum lm_cache_type cache;
	bool check; /* for tests: the pool is checked after each step, bug() if unsound */
};

struct lm_engine_counts {
	uint64_t steps, rows, generated, prompt, cached, preempted, proposed, accepted;
	uint64_t draft_rows;        /* of the draft model */
	uint32_t running, waiting;  /* number of answers now */
	uint32_t pages, pages_used; /* now */
	uint32_t pages_reusable;    /* held only by the prefix index */
	/* steps in a row in which the device failed, other than for memory, and when the last one
	 * ended, monotonic */
	uint32_t failing;
	int64_t failed_ns;
};

/* Computes the bytes that an engine uses besides the weights. */
void lm_engine_bytes(const struct lm_config *c, const struct lm_engine_limits *limits,
	uint64_t *cache, uint64_t *tables, uint64_t *work);

/* Opens an engine. w is borrowed until close. ends: ids that end a text. Only lm_engine_step
 * calls event. Returns 0 and *out to be closed, or -1 with err_set(). */
int lm_engine_open(struct lm_engine **out, const struct lm_weights *w,
	const struct lm_engine_limits *limits, const uint32_t *ends, uint32_t ends_count,
	lm_event_fn event, void *arg);

/* Lets a model of the same vocabulary propose tokens where the text itself suggests none. w is
 * borrowed until close. Call it before the first answer. Returns 0, or -1 with err_set(). */
int lm_engine_draft(struct lm_engine *e, const struct lm_weights *w);

/* Computes the bytes that lm_engine_draft takes besides the weights. */
uint64_t lm_engine_draft_bytes(const struct lm_config *draft,
	const struct lm_engine_limits *limits);
void lm_engine_close(
	struct lm_engine *e); /* NULL is fine; unfinished answers get no event */

/* Checks whether an answer can be computed at all: returns 0, or -1 with err_set(EX_DATAERR) if
 * its prompt is longer than the context, does not fit into the whole cache, leaves no position for
 * a token where one is to be generated, or has an id that is not in the vocabulary. Any thread may
 * call it. */
int lm_engine_accepts(const struct lm_engine *e, const uint32_t *tokens, uint32_t n,
	bool generates);

/* Appends an answer that lm_engine_accepts accepted to the waiting ones. */
void lm_engine_submit(struct lm_engine *e, struct lm_answer *a);

/* Sets what the rows of a step may cost together, in rows at the beginning of a text. A row further
 * on costs more, since it attends to more keys; there are limits.rows of them at most, whatever
 * they cost. beside: the same for steps in which answers get their next tokens, beside the
 * prompts. */
void lm_engine_set_budget(struct lm_engine *e, uint32_t rows, uint32_t beside);

/* Returns what the last step cost, in the same unit. *full: prompts had more rows than the
 * budget allowed. *beside: answers got their next tokens. */
uint32_t lm_engine_load(const struct lm_engine *e, bool *full, bool *beside);

/* Computes a step. Returns how many rows it had; 0: there is nothing to do. Failures concern
 * single answers and are reported by their events; where the program has a reserve (mem.h), so is
 * memory that runs out: the answer that asked for it fails alone. */
uint32_t lm_engine_step(struct lm_engine *e);

bool lm_engine_idle(const struct lm_engine *e);

/* For an idle engine: as lm_cache_touch. */
bool lm_engine_touch(struct lm_engine *e, uint32_t pages);
void lm_engine_count(const struct lm_engine *e, struct lm_engine_counts *out);

#endif
