/* sample.h - draws the next token from a model's logits. Uses rng. Pure.
 *
 * The steps are, in order: bias and penalties change logits; a mask excludes tokens;
 * temperature; the top_k most likely; of these the fewest whose shares reach top_p (nucleus
 * sampling: Holtzman et al., arXiv 1904.09751); of these the ones with at least min_p times the
 * share of the most likely (Nguyen et al., arXiv 2407.01082). The token at position p of a text
 * is drawn with block p of the Philox sequence (seed, choice) and nothing else, so that a text
 * does not depend on the other texts in the batch, on interruptions, or on speculation: where a
 * walk over the shares of the tokens that are left, in the order of their ids, reaches that number.
 * Tokens that are less likely than e^-32 of the most likely are never drawn. */
#ifndef RNP_COMMON_LM_INFER_SAMPLE_H
#define RNP_COMMON_LM_INFER_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

#define LM_TOP_LOGPROBS_MAX 20

struct lm_bias {
	uint32_t token;
	float bias; /* added to its logit */
};

/* Parameters of sampling. */
struct lm_sampling {
	double temperature; /* 0: the most likely token, of equal ones the lowest id */
	double top_p;       /* 1: all */
	double min_p;       /* 0: all */
	uint32_t top_k;     /* 0: all */
	/* Subtracted from a token's logit: frequency for each time that it was generated,
	 * presence once if it was. */
	double frequency_penalty, presence_penalty;
	/* Divides positive logits and multiplies negative ones of tokens in prompt or answer (CTRL,
	 * arXiv 1909.05858); 1: none. */
	double repetition_penalty;
	const struct lm_bias *bias; /* borrowed */
	uint32_t bias_count;
	uint32_t choice; /* number of the answer, if a prompt has several */
	uint64_t seed;
};

/* The model's own distribution: temperature 1, no limits. */
void lm_sampling_defaults(struct lm_sampling *s, uint64_t seed);

/* Whether lm_draw needs the earlier tokens. */
bool lm_sampling_penalises(const struct lm_sampling *s);

/* Earlier tokens of a text, for the penalties. Initialise with zeros. */
struct lm_history {
	uint32_t *generated; /* [vocab]: how often it occurs in the answer */
	uint64_t *seen;      /* [vocab] bits: whether it occurs in prompt or answer */
};

void lm_history_init(struct lm_history *h, uint32_t vocab);
void lm_history_release(struct lm_history *h);
/* Counts a token, which must be below the vocabulary size. */
void lm_history_prompt(struct lm_history *h, uint32_t token);
void lm_history_add(struct lm_history *h, uint32_t token);

/* A mask of the tokens that may come next. allowed returns bits (token i is bit i % 64 of word i /
 * 64, the vocabulary rounded up to words), borrowed until the next call, or NULL for all tokens. It
 * allows at least one. accept is called with the token that was drawn. Threads of the team call
 * them, for one mask one at a time, for several at the same time (choose.h); they must return
 * within microseconds to a few milliseconds. */
struct lm_mask {
	const uint64_t *(*allowed)(void *ctx); /* NULL: no mask */
	void (*accept)(void *ctx, uint32_t token);
	void *ctx;
};

/* Working memory of a thread. Initialise with zeros; it grows to the vocabulary. */
struct lm_scratch {
	float *logits;       /* those that were changed */
	float *kept;         /* candidates, in the order of their ids, */
	uint32_t *ids;       /* and which they are */
	const float **block; /* each block of logits */
	float *max;          /* of each block of logits */
	double *sums;        /* of the shares of each block */
	uint32_t cap;
};

void lm_scratch_release(struct lm_scratch *w);

/* Draws one of count > 0 tokens for `position`. said and allowed may be NULL. Logits that are
 * NaN are never drawn, unless all are. */
uint32_t lm_draw(struct lm_scratch *w, const struct lm_sampling *s,
	const struct lm_history *history, const uint64_t *allowed, const float *logits,
	uint32_t count, uint64_t position);

/* Log probabilities of the model itself: log softmax of its logits, before any step of
 * sampling. */
struct lm_logprobs {
	float token; /* of the token that was drawn */
	uint32_t n;
	uint32_t top
		[LM_TOP_LOGPROBS_MAX]; /* the most likely, of equal ones the lowest id first */
	float top_logprob[LM_TOP_LOGPROBS_MAX];
};

/* Computes the log probabilities of a token and the n most likely, n at most
 * LM_TOP_LOGPROBS_MAX. */
void lm_logprobs(struct lm_logprobs *out, const float *logits, uint32_t count,
	uint32_t token, uint32_t n);

/* --- for one text at a time ---------------------------------------------------------------- */

struct lm_sampler {
	struct lm_sampling how;
	uint64_t position; /* of the next token to draw */
	/* zeros, unless the caller initialises it, as penalties want */
	struct lm_history history;
	struct lm_scratch scratch;
};

void lm_sampler_init(struct lm_sampler *s, uint64_t seed);
void lm_sampler_release(struct lm_sampler *s);

/* Draws the next token, advances the position and counts the token in the history. */
uint32_t lm_sample(struct lm_sampler *s, const float *logits, uint32_t count);

#endif
