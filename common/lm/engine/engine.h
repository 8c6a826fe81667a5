/* engine.h - answers to many prompts at once by one model: who computes what in a step. Uses
 * forward.h, prefix.h, sample.h.
 *
 * A step takes the next token of every answer that has its prompt behind it, then pieces of
 * prompts up to a budget of rows. Keys and values lie in pages of one pool, which answers that
 * begin alike share; an answer is admitted when its prompt and LM_ENGINE_MARGIN tokens fit, and
 * when pages run out the newest gives its own back and is computed again later. None of this
 * changes a text: a row's bits follow from its own tokens (forward.h), a draw from seed and
 * position (sample.h). One thread uses an engine; service.h gives it one. */
#ifndef RNP_COMMON_LM_ENGINE_ENGINE_H
#define RNP_COMMON_LM_ENGINE_ENGINE_H

#include <stdatomic.h>

#include "common/lm/engine/prefix.h"
#include "common/lm/infer/forward.h"
#include "common/lm/infer/sample.h"

#define LM_ENGINE_MARGIN   64 /* tokens that fit behind a prompt when it is admitted */
#define LM_PROPOSED_MAX    8  /* tokens that are guessed ahead for an answer in a step */
#define LM_ENGINE_STEP_MAX 4096

struct lm_engine;

enum lm_finish {
	LM_UNFINISHED,
	LM_FINISH_STOP,      /* a token that ends the text */
	LM_FINISH_LENGTH,    /* tokens_max, or no further position */
	LM_FINISH_CANCELLED, /* as was asked for */
	LM_FINISH_ERROR      /* answer.error */
};

/* One answer. Who asks fills in the first part, gives it to the engine and leaves it alone, but for
 * cancel, until the event that says how it finished. Begin with zeros. */
struct lm_answer {
	uint32_t *
		tokens; /* malloc'ed: the prompt; the engine appends. Freed by who asked */
	size_t tokens_room;
	uint32_t prompt;     /* tokens of the prompt, at least 1 */
	uint32_t tokens_max; /* of the answer, at least 1 */
	struct lm_sampling sampling;
	struct lm_mask mask;
	bool logprobs;
	uint32_t top_logprobs; /* with logprobs: how many others are told */
	uint64_t group;        /* who asks: groups take turns */
	uint64_t space;        /* who may share pages with it */
	uint32_t adapter;
	/* What the answer may well be, for speculation; may be NULL. Borrowed. */
	const uint32_t *prediction;
	uint32_t prediction_count;
	bool speculate;
	/* Not NULL: no token is drawn, but [dim] activations of the prompt's last row, or with
	 * `mean` the mean of all its rows, are written there; tokens_max is 1. */
	float *embedding;
	bool mean;
	void *user; /* the asker's own */

	_Atomic bool
		cancel; /* any thread may set it: the answer takes no part in the next step */

	/* What became of it; to be read after its events. */
	enum lm_finish finish;
	uint32_t generated;
	uint32_t cached;             /* tokens of the prompt that were there already */
	uint32_t proposed, accepted; /* tokens of speculation */
	uint32_t preempted;          /* times */
	int64_t submitted_ns, admitted_ns, first_ns; /* monotonic; 0: not yet */
	struct err *error; /* with LM_FINISH_ERROR; freed by who asked */

	/* The engine's own. */
	struct lm_answer *next;
	struct lm_sequence sequence;
	struct lm_said said;
	uint32_t known;  /* tokens that are there: prompt and answer */
	uint32_t hashed; /* pages of the sequence that hash stands for */
	struct lm_prefix_hash hash;
	uint32_t take, guesses,
		hits;  /* rows of this step; of them proposals; that were right */
	bool wrong;    /* a proposal was not what was drawn */
	float *hidden; /* with mean: [dim] of one row */
	uint64_t serial;
	/* tokens to propose; steps until it is tried again; how often in a row all were wrong */
	uint32_t speculation, pause, misses;
};

/* What happened to an answer. */
struct lm_event {
	struct lm_answer *answer;
	int64_t token; /* of the answer, or -1: it finished, answer.finish says how */
	const struct lm_logprobs
		*logprobs; /* NULL: not asked for. Valid during the call */
};

typedef void (*lm_event_fn)(void *arg, const struct lm_event *e);

struct lm_engine_limits {
	uint32_t pages;   /* of the cache */
	uint32_t streams; /* answers in progress */
	uint32_t rows;    /* of prompts in a step */
	uint32_t context; /* positions of a text */
	enum lm_cache_type cache;
	bool check; /* for tests: the pool is checked after each step, bug() if unsound */
};

struct lm_engine_counts {
	uint64_t steps, rows, generated, prompt, cached, preempted, proposed, accepted;
	uint32_t running, waiting; /* answers, now */
	uint32_t pages, pages_used,
		pages_kept; /* now; kept: only for who may ask again */
};

/* Bytes that an engine takes beside the weights. */
void lm_engine_bytes(const struct lm_config *c, const struct lm_engine_limits *limits,
	uint64_t *cache, uint64_t *tables, uint64_t *work);

/* w is borrowed until close. ends: ids that end a text. Events come from lm_engine_step alone.
 * Returns 0 and *out to be closed, or -1 with err_set(). */
int lm_engine_open(struct lm_engine **out, const struct lm_weights *w,
	const struct lm_engine_limits *limits, const uint32_t *ends, uint32_t ends_count,
	lm_event_fn event, void *arg);
void lm_engine_close(
	struct lm_engine *e); /* NULL is fine; answers that are left get no event */

/* Whether an answer can ever be computed: returns 0, or -1 with err_set(EX_DATAERR) if its prompt
 * leaves no position for a token or does not fit into the whole cache, or has an id that is not in
 * the vocabulary. From any thread. */
int lm_engine_accepts(const struct lm_engine *e, const uint32_t *tokens, uint32_t n);

/* Takes an answer that was accepted, behind those that wait. */
void lm_engine_submit(struct lm_engine *e, struct lm_answer *a);

/* Rows of prompts in a step from now on, at most limits.rows. */
void lm_engine_set_budget(struct lm_engine *e, uint32_t rows);

/* Computes a step. Returns how many rows it had; 0: nothing is to be done. What fails is an answer:
 * its event says so. */
uint32_t lm_engine_step(struct lm_engine *e);

bool lm_engine_idle(const struct lm_engine *e);
void lm_engine_count(const struct lm_engine *e, struct lm_engine_counts *out);

#endif
