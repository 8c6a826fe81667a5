/* stream.h - a single sequence with its own cache and forward pass: for `ask`, measurements and
 * tests. Uses forward.h. */
#ifndef RNP_COMMON_LM_INFER_STREAM_H
#define RNP_COMMON_LM_INFER_STREAM_H

#include "common/lm/infer/forward.h"

struct lm_stream;

/* Tokens that pass through the layers together; longer inputs are fed in pieces of this size. */
#define LM_STREAM_ROWS 64

/* Memory that a stream takes, in bytes, computed from the config and the types of the tensors. */
struct lm_stream_plan {
	uint64_t weights; /* size in the file: mapped on the CPU, copied to a GPU */
	uint64_t tables;  /* norms and biases as f32, rotary positions */
	uint64_t cache;   /* keys and values of one stream of `context` tokens */
	uint64_t work;    /* activations of one stream */
	uint64_t total;
};

/* Computes the memory of a stream; allocates nothing. context: tokens, 0 for the model's.
 * Returns 0, or -1 with err_set(EX_DATAERR): beyond 64 bits. */
int lm_stream_plan(struct lm_stream_plan *plan, const struct model_file *s,
	uint32_t context, enum lm_cache_type type);

/* Opens an empty stream of at most context tokens (0: the model's). w is borrowed until close.
 * Returns 0 and *out to be closed, or -1 with err_set(): 71 no memory, 64 a context beyond
 * LM_CONTEXT_MAX. */
int lm_stream_open(struct lm_stream **out, const struct lm_weights *w, uint32_t context,
	enum lm_cache_type type);
void lm_stream_close(struct lm_stream *s); /* NULL is fine */

/* Return the number of tokens fed so far, and the most there can be. */
uint32_t lm_stream_length(const struct lm_stream *s);
uint32_t lm_stream_context(const struct lm_stream *s);
/* Forgets all tokens from `length` on. */
void lm_stream_truncate(struct lm_stream *s, uint32_t length);

/* Lets an adapter of the weights, by its number, work on all tokens that are fed from now on; 0:
 * none. */
void lm_stream_adapt(struct lm_stream *s, uint32_t adapter);

/* Feeds n more tokens. logits: receives vocab numbers in host memory, the prediction after the
 * last token, or NULL. Returns 0, or -1 with err_set(): 65 an id outside the vocabulary or the
 * context is full, nothing fed; the device's error. */
int lm_stream_feed(struct lm_stream *s, const uint32_t *ids, uint32_t n, float *logits);

/* For tests, which hold the loss against that of training: feeds n more tokens and adds to
 * *loss_sum the loss of each but the first, -log p(token | all before), in nats; *counted grows by
 * their number. Errors as feed. */
int lm_stream_score(struct lm_stream *s, const uint32_t *ids, uint32_t n,
	double *loss_sum, uint64_t *counted);

#endif
