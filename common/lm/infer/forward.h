/* forward.h - one pass of a model over rows: tokens of any sequences, at any positions.
 * Generation, batching, prompts fed in pieces and speculative decoding are built on it. Uses
 * weights.h, cache.h.
 *
 * The bits of a row depend only on the tokens of its sequence up to its position: not on the
 * other rows of the pass, their number or order, on how a prompt was split, or on which pages
 * hold it. Activations are f32. A pass allocates nothing. */
#ifndef RNP_COMMON_LM_INFER_FORWARD_H
#define RNP_COMMON_LM_INFER_FORWARD_H

#include <stdbool.h>

#include "common/lm/infer/cache.h"

struct lm_forward;

struct lm_forward_limits {
	uint32_t rows;      /* in a pass */
	uint32_t sequences; /* distinct ones in a pass */
	uint32_t context;   /* positions of a sequence */
	/* rows whose logits are computed and copied to the host together, at most LM_LOGITS_MAX; 0:
	 * LM_LOGITS */
	uint32_t logits;
};

/* The weights of the output are read once for so many rows. On a CPU more are no faster, and take
 * memory. */
enum { LM_LOGITS = 8, LM_LOGITS_MAX = 64 };

/* One token of a pass. */
struct lm_row {
	struct lm_sequence *sequence; /* must have grown to hold the position */
	uint32_t token, position;
	uint32_t adapter; /* of the weights (lm_weights_adapt); 0: none */
	bool logits;      /* whether the logits of the next token are wanted */
};

/* Receives the logits of one row: vocab numbers in host memory, valid during the call. Called
 * in the order of the rows. Returns 0, or -1 with err_set(), which ends the calls. */
typedef int (*lm_logits_fn)(void *arg, uint32_t row, const float *logits);

/* The same for the n rows that were computed together: their numbers, ascending, and [n][vocab]. */
typedef int (
	*lm_scores_fn)(void *arg, const uint32_t *rows, uint32_t n, const float *logits);

/* Computes the bytes that a forward pass takes besides weights and cache: *tables for rotary
 * positions, *work for activations and host memory. */
void lm_forward_bytes(const struct lm_config *c, const struct lm_forward_limits *limits,
	uint64_t *tables, uint64_t *work);

/* Opens a forward pass. w and c, which must belong to w, are borrowed until close. Returns 0
 * and *out to be closed, or -1 with err_set(): 71 no memory, 64 a context beyond
 * LM_CONTEXT_MAX. */
int lm_forward_open(struct lm_forward **out, const struct lm_weights *w,
	struct lm_cache *c, const struct lm_forward_limits *limits);
void lm_forward_close(struct lm_forward *f); /* NULL is fine */

/* Runs n rows, at least one, through the layers, writes their keys and values into the cache
 * and calls logits (may be NULL if no row wants any) for the rows that want them. Rows of one
 * sequence are adjacent; their positions are its length, its length + 1 and so on, and its
 * length then covers them. Returns 0, or -1 with err_set(): 65 an id outside the vocabulary or
 * a position beyond the context, nothing written; the device's error; the error of logits. */
int lm_forward_rows(struct lm_forward *f, const struct lm_row *rows, uint32_t n,
	lm_logits_fn logits, void *arg);

/* The same, with the logits of several rows at once. */
int lm_forward_scores(struct lm_forward *f, const struct lm_row *rows, uint32_t n,
	lm_scores_fn scores, void *arg);

/* From inside the scores callback: writes the activations of the i-th of its rows before the output
 * projection, normed, to out[dim]. Returns 0, or -1 with err_set(): the device's error. */
int lm_forward_hidden(struct lm_forward *f, uint32_t i, float *out);

#endif
