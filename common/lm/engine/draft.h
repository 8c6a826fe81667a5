/* draft.h - a small model that proposes what a large one may say next, for speculative decoding
 * (Leviathan et al., arXiv 2211.17192). Uses forward.h, sample.h.
 *
 * It draws with the settings and the random numbers that the large model will draw with: where
 * the two distributions agree, so do the tokens, at every temperature. It has a cache of its own,
 * with a sequence for each text; texts of the same space that begin alike share its pages, so
 * that it reads what they have in common once. What it reads and proposes changes no text, only
 * the time. */
#ifndef RNP_COMMON_LM_ENGINE_DRAFT_H
#define RNP_COMMON_LM_ENGINE_DRAFT_H

#include "common/lm/engine/prefix.h"
#include "common/lm/infer/forward.h"
#include "common/lm/infer/sample.h"

struct lm_draft;

struct lm_draft_limits {
	uint32_t pages; /* of its cache */
	uint32_t texts; /* at the same time */
	uint32_t rows;  /* of text that it reads in a step */
	uint32_t context;
	uint32_t logits; /* rows whose logits are computed together (forward.h) */
	enum lm_cache_type cache;
};

/* What it has read of a text. Zero-initialise it; forget releases it. */
struct lm_draft_read {
	struct lm_sequence sequence; /* of the draft's cache */
	struct lm_prefix_hash hash;  /* of the pages that are in the index */
	uint32_t hashed;
};

/* A text that proposals are wanted for. */
struct lm_draft_text {
	struct lm_draft_read *read;
	uint64_t space;         /* of its pages (prefix.h) */
	const uint32_t *tokens; /* length of them */
	uint32_t length;
	const struct lm_sampling *sampling;
	uint32_t wanted; /* proposals */
	uint32_t *out;   /* [wanted] */
	uint32_t count; /* result: of proposals; 0 while it has not read the whole text */

	uint32_t step_rows; /* private: of the pass */
};

/* Computes the bytes that a draft model takes besides its weights. */
uint64_t lm_draft_bytes(const struct lm_config *c, const struct lm_draft_limits *limits);

/* Opens a draft model. w is borrowed until close. Returns 0 and *out to be closed, or -1 with
 * err_set(). */
int lm_draft_open(struct lm_draft **out, const struct lm_weights *w,
	const struct lm_draft_limits *limits);
void lm_draft_close(
	struct lm_draft *d); /* NULL is fine; sequences are then only memory */

/* Reads on in n texts, and proposes tokens for those that it has read to their end: a pass for
 * each proposal, for all texts together. A text for which pages or positions do not suffice gets
 * none. Returns 0, or -1 with err_set(): the device's error, and no text has proposals. */
int lm_draft_propose(struct lm_draft *d, struct lm_draft_text *texts, uint32_t n);

/* Forgets a text; its full pages stay in the index. */
void lm_draft_forget(struct lm_draft *d, struct lm_draft_read *r);

uint64_t lm_draft_rows(const struct lm_draft *d); /* computed since it was opened */

/* For tests: whether each page is free, or used as often as its reference count says, if only
 * these n texts use them. */
bool lm_draft_sound(const struct lm_draft *d, const struct lm_draft_read *const *texts,
	uint32_t n);

#endif
