/* infer.h - a language model answering: its weights as they lie in the file, and streams of tokens with a cache of keys and values.
 * Uses source.h and the tables of kernels/dev/dev.h and kernels/lm/ops.h.
 *
 * On the CPU weights are used where the file is mapped, in its types; a GPU gets a copy of them. Everything else is f32. The same model,
 * device and feeding in the same pieces give the same bits. A model may have many streams; one thread uses a device at a time. */
#ifndef RNP_COMMON_LM_INFER_INFER_H
#define RNP_COMMON_LM_INFER_INFER_H

#include "common/lm/model/model_file.h"
#include "kernels/lm/ops.h"

struct lm_infer;  /* a model on a device */
struct lm_stream; /* what it has read and said so far */

/* Tokens that pass through the layers together; more are fed in pieces of this. */
#define LM_INFER_ROWS 64

/* Bytes that answering takes, from the config and the types of the tensors. */
struct lm_infer_plan {
	uint64_t weights; /* as in the file: mapped on the CPU, copied to a GPU */
	uint64_t tables;  /* norms and biases as f32, rotary positions */
	uint64_t cache;   /* keys and values of one stream of `context` tokens */
	uint64_t work;    /* of one stream */
	uint64_t total;
};

/* Nothing is allocated. context: tokens, 0 is the model's. Returns 0, or -1 with err_set(EX_DATAERR): beyond 64 bits. */
int lm_infer_plan(struct lm_infer_plan *plan, const struct model_file *s,
	uint32_t context);

/* s and d are borrowed until close. Returns 0 and *out to be closed, or -1 with err_set(): 71 no memory, 69 the device has no kernels
 * for it. */
int lm_infer_open(struct lm_infer **out, struct dev *d, const struct model_file *s);
void lm_infer_close(struct lm_infer *m); /* NULL is fine */
const struct lm_config *lm_infer_config(const struct lm_infer *m);

/* A stream of at most context tokens (0: the model's), empty. m is borrowed until close. Returns 0 and *out to be closed, or -1 with
 * err_set(): 71 no memory, 64 a context beyond LM_CONTEXT_MAX. */
int lm_stream_open(struct lm_stream **out, struct lm_infer *m, uint32_t context);
void lm_stream_close(struct lm_stream *s); /* NULL is fine */

/* Tokens read so far, and how many there can be. */
uint32_t lm_stream_length(const struct lm_stream *s);
uint32_t lm_stream_context(const struct lm_stream *s);
/* Forget all tokens from `length` on. */
void lm_stream_truncate(struct lm_stream *s, uint32_t length);

/* Read n more tokens. logits: vocab numbers on the host, of what follows the last of them, or NULL. Returns 0, or -1 with err_set(): 65
 * an id that is not in the vocabulary or the context is full, nothing read; the device's error. */
int lm_stream_feed(struct lm_stream *s, const uint32_t *ids, uint32_t n, float *logits);

/* Read n more tokens and add to *loss_sum what each but the first cost, -log p(token | all before), in nats; *counted grows by how many
 * those were. Errors as feed. */
int lm_stream_score(struct lm_stream *s, const uint32_t *ids, uint32_t n,
	double *loss_sum, uint64_t *counted);

#endif
