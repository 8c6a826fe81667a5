/* token.h - tokenizers: text to token ids and back, for the vocabularies that models bring with them.
 * Uses PCRE2 (opened on first use) and the readers of tokenizer.json, GGUF and llama2.c files.
 *
 * Byte-level BPE (GPT-2 and its family, with the pre-tokenizer patterns of llama.cpp's tokenizer.ggml.pre) and
 * SentencePiece-style BPE with byte fall-back (Llama 2, Phi-3, llama2.c). Everything comes from strangers. */
#ifndef RNP_COMMON_LM_TOKEN_H
#define RNP_COMMON_LM_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"

#define LM_TOKEN_TEXT_MAX (UINT64_C(1) << 31) /* bytes of one text to encode */

struct lm_token; /* a tokenizer: read-only once open, so threads may share it */

/* path: tokenizer.json, a directory with one, a GGUF file, or a llama2.c tok*.bin (vocab: its number of pieces when the file
 * does not say; 0: all that are there). Returns 0 and *out to be closed, or -1 with err_set(): 66, 65 malformed, 69
 * PCRE2 is not there, 65 with the name of a pre-tokenizer that we do not know. */
int lm_token_open(struct lm_token **out, const char *path, uint32_t vocab);
void lm_token_close(struct lm_token *t); /* NULL is fine */

uint32_t lm_token_count(const struct lm_token *t);
int64_t lm_token_bos(const struct lm_token *t); /* -1: none */
int64_t lm_token_eos(const struct lm_token *t);
bool lm_token_adds_bos(
	const struct lm_token *t); /* what the model's makers put before a prompt */
const char *lm_token_chat_template(const struct lm_token *t); /* NULL: none */

/* Append the ids of text (UTF-8; broken bytes are taken as they come) as uint32_t to ids. special: names of special tokens in the
 * text become those tokens; else they are plain text. No BOS is added. Returns 0, or -1 with err_set(EX_DATAERR): too long. */
int lm_token_encode(const struct lm_token *t, struct buf *ids, const char *text,
	size_t bytes, bool special);

/* Append the bytes of one token to out. first: of the text (SentencePiece drops its leading blank). Special tokens give their
 * name when special is set, else nothing. Returns 0, or -1 with err_set(EX_DATAERR): no such id. */
int lm_token_piece(const struct lm_token *t, struct buf *out, uint32_t id, bool first,
	bool special);

/* A stream of tokens as text that never ends within a UTF-8 character. */
struct lm_detoken {
	const struct lm_token *token;
	char held[4]; /* bytes of a character that is not whole yet */
	unsigned held_bytes;
	bool started;
};
void lm_detoken_init(struct lm_detoken *d, const struct lm_token *t);
/* Append what is whole so far; what can never become UTF-8 comes out as U+FFFD. */
int lm_detoken_push(struct lm_detoken *d, struct buf *out, uint32_t id);
void lm_detoken_end(struct lm_detoken *d,
	struct buf *out); /* a character cut short: U+FFFD */

#endif
