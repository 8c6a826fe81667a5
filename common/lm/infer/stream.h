/* stream.h - one sequence that is fed and answers, with a cache and a forward pass of its own: for
 * `ask`, measurements and tests. Uses forward.h. */
#ifndef RNP_COMMON_LM_INFER_STREAM_H
#define RNP_COMMON_LM_INFER_STREAM_H

#include "common/lm/infer/forward.h"

struct lm_stream;

/* Tokens that pass through the layers together; more are fed in pieces of this. */
#define LM_STREAM_ROWS 64

/* Bytes that answering takes, from the config and the types of the tensors. */
struct lm_stream_plan {
	uint64_t weights; /* as in the file: mapped on the CPU, copied to a GPU */
	uint64_t tables;  /* norms and biases as f32, rotary positions */
	uint64_t cache;   /* keys and values of one stream of `context` tokens */
	uint64_t work;    /* of one stream */
	uint64_t total;
};

/* Nothing is allocated. context: tokens, 0 is the model's. Returns 0, or -1 with
 * err_set(EX_DATAERR): beyond 64 bits. */
int lm_stream_plan(struct lm_stream_plan *plan, const struct model_file *s,
	uint32_t context);

/* A stream of at most context tokens (0: the model's), empty. w is borrowed until close. Returns 0
 * and *out to be closed, or -1 with err_set(): 71 no memory, 64 a context beyond LM_CONTEXT_MAX. */
int lm_stream_open(struct lm_stream **out, const struct lm_weights *w, uint32_t context);
void lm_stream_close(struct lm_stream *s); /* NULL is fine */

/* Tokens read so far, and how many there can be. */
uint32_t lm_stream_length(const struct lm_stream *s);
uint32_t lm_stream_context(const struct lm_stream *s);
/* Forgets all tokens from `length` on. */
void lm_stream_truncate(struct lm_stream *s, uint32_t length);

/* Reads n more tokens. logits: vocab numbers on the host, of what follows the last of them, or
 * NULL. Returns 0, or -1 with err_set(): 65 an id that is not in the vocabulary or the context
 * is full, nothing read; the device's error. */
int lm_stream_feed(struct lm_stream *s, const uint32_t *ids, uint32_t n, float *logits);

/* Reads n more tokens and add to *loss_sum what each but the first cost, -log p(token | all
 * before), in nats; *counted grows by how many those were. Errors as feed. */
int lm_stream_score(struct lm_stream *s, const uint32_t *ids, uint32_t n,
	double *loss_sum, uint64_t *counted);

#endif
