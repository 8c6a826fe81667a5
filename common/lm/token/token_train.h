/* token_train.h - a byte-level BPE tokenizer made from text (Sennrich and others, arXiv 1508.07909,
 * on bytes as in GPT-2). Uses token.h, OpenMP.
 *
 * Deterministic: the pair that is met most often is merged first; of pairs met equally often the
 * one whose left and then right id is smaller. The number of threads and the order of texts change
 * nothing. Memory: about 100 bytes for each different word, plus the ids of its bytes. */
#ifndef RNP_COMMON_LM_TOKEN_TOKEN_TRAIN_H
#define RNP_COMMON_LM_TOKEN_TOKEN_TRAIN_H

#include "common/lm/token/token.h"

#define LM_TRAIN_VOCAB_MIN 256
#define LM_TRAIN_END       "<|endoftext|>"

struct lm_trainer;

/* pre: "gpt-2" or "llama-bpe" (or any other name of a byte-level pre-tokenizer). Returns 0 and *out
 * to be freed, or -1 with err_set(): 65, 69. */
int lm_trainer_new(struct lm_trainer **out, const char *pre);
void lm_trainer_free(struct lm_trainer *r); /* NULL is fine */

/* Counts the words of a text, on all cores; the text is not kept. Returns 0, or -1 with
 * err_set(EX_DATAERR). */
int lm_trainer_add(struct lm_trainer *r, const char *text, size_t bytes);

/* Learn a vocabulary of `vocab` tokens (256 to 2^20): the bytes, then what merges give, and as the
 * last one LM_TRAIN_END, where vocab is more than 256. A short text may not give that many: the
 * tokenizer is then smaller. progress is called with the number of tokens now and then, NULL: not
 * at all. Returns 0 and *out to be closed, or -1 with err_set(EX_DATAERR). */
int lm_trainer_learn(struct lm_trainer *r, uint32_t vocab, struct lm_token **out,
	void (*progress)(void *ctx, uint32_t tokens), void *ctx);

/* What was counted so far. */
uint64_t lm_trainer_words(const struct lm_trainer *r);

#endif
