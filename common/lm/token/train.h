/* train.h - trains a byte-level BPE tokenizer on text (Sennrich and others, arXiv
 * 1508.07909, on bytes as in GPT-2). Uses token.h, OpenMP.
 *
 * Deterministic: the most frequent pair is merged first; of equally frequent pairs the one with
 * the smaller left and then right id. The number of threads and the order of texts change
 * nothing. Memory: about 100 bytes for each different word, plus the ids of its bytes. */
#ifndef RNP_COMMON_LM_TOKEN_TRAIN_H
#define RNP_COMMON_LM_TOKEN_TRAIN_H

#include "common/lm/token/token.h"

#define LM_TRAIN_VOCAB_MIN 256
#define LM_TRAIN_END       "<|endoftext|>"

struct lm_trainer;

/* pre: "gpt-2" or "llama-bpe" (or any other name of a byte-level pre-tokenizer). Returns 0 and
 * *out, which the caller frees, or -1 with err_set(): 65, 69. */
int lm_trainer_new(struct lm_trainer **out, const char *pre);
void lm_trainer_free(struct lm_trainer *r); /* NULL is allowed */

/* Counts the words of a text, or of a piece of one that ends where lm_trainer_cut says; it does not
 * keep it. All threads of a team may add pieces at once. Returns 0, or -1 with
 * err_set(EX_DATAERR). */
int lm_trainer_add(struct lm_trainer *r, const char *text, size_t bytes);

/* Returns the first place at or behind `want` where no word goes over, or bytes. */
size_t lm_trainer_cut(const struct lm_trainer *r, const char *text, size_t bytes,
	size_t want);

/* Learns a vocabulary of `vocab` tokens (256 to 2^20): the bytes, then the results of merges,
 * and last LM_TRAIN_END, if vocab is more than 256. A short text may not yield that many: the
 * tokenizer is then smaller. progress is called with the number of tokens now and then, or is
 * NULL. Returns 0 and *out, which the caller closes, or -1 with err_set(EX_DATAERR). */
int lm_trainer_learn(struct lm_trainer *r, uint32_t vocab, struct lm_token **out,
	void (*progress)(void *ctx, uint32_t tokens), void *ctx);

/* Return the counts so far. */
uint64_t lm_trainer_words(const struct lm_trainer *r);

#endif
