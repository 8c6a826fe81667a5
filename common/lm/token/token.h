/* token.h - tokenizers: text to token ids and back, for the vocabularies that come with models.
 * Uses PCRE2 (opened on first use) and the readers of tokenizer.json, GGUF and llama2.c files.
 *
 * Byte-level BPE (GPT-2 and its family, with the pre-tokenizer patterns of llama.cpp's
 * tokenizer.ggml.pre) and SentencePiece-style BPE with byte fall-back (Llama 2, Phi-3,
 * llama2.c). All input is untrusted. */
#ifndef RNP_COMMON_LM_TOKEN_TOKEN_H
#define RNP_COMMON_LM_TOKEN_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"

#define LM_TOKEN_TEXT_MAX     (UINT64_C(1) << 31) /* largest text to encode, in bytes */
#define LM_TOKEN_TEMPLATE_MAX ((size_t)64 << 10)  /* largest chat template, in bytes */

struct lm_token; /* a tokenizer; threads may share it */
struct gguf;

/* Opens the tokenizer at path: tokenizer.json, a directory with one, a GGUF file, or a llama2.c
 * tok*.bin (vocab: the largest number of pieces, for a model with more rows has padding there;
 * 0: any number). tokenizer_config.json beside tokenizer.json, if there is one, supplies the
 * special tokens and the chat template. Returns 0 and *out, which the caller closes, or -1 with
 * err_set(): 66, 65 malformed, 69 PCRE2 is missing, 65 with the name of a pre-tokenizer that we
 * do not know. */
int lm_token_open(struct lm_token **out, const char *path, uint32_t vocab);
void lm_token_close(struct lm_token *t); /* NULL is allowed */

/* Do the same from memory, for tests: a tokenizer.json (config: a tokenizer_config.json or
 * NULL), or a llama2.c tok*.bin. */
int lm_token_read_json(struct lm_token **out, const char *text, size_t bytes,
	const char *config, size_t config_bytes, const char *where);
int lm_token_read_bin(struct lm_token **out, const void *data, size_t bytes,
	uint32_t vocab, const char *where);

/* Reads the tokenizer in an open GGUF file; the file may be closed afterwards. */
int lm_token_read_gguf(struct lm_token **out, const struct gguf *g);

uint32_t lm_token_count(const struct lm_token *t);
int64_t lm_token_bos(const struct lm_token *t); /* -1: none */
int64_t lm_token_eos(const struct lm_token *t);
/* Whether the model expects BOS before a prompt. */
bool lm_token_adds_bos(const struct lm_token *t);
/* Returns the token that stands behind a whole text where the model was taught so (embedding models
 * are), or -1. It may be another than the token that ends an answer. */
int64_t lm_token_last(const struct lm_token *t);
const char *lm_token_chat_template(const struct lm_token *t); /* NULL: none */
/* The template for conversations with tools ("tool_use"), where a model has two; else NULL. */
const char *lm_token_tool_template(const struct lm_token *t);

/* Whether this token ends the model's answer: eos, or one that is known for it by its name
 * ("<|im_end|>", "<|eot_id|>" ...). */
bool lm_token_ends(const struct lm_token *t, uint32_t id);

/* The tokens around a gap that a code model fills (Bavarian et al., arXiv 2207.14255): the text
 * before the gap comes after prefix, the text behind it after suffix, what the model puts there
 * after middle. */
struct lm_token_fill {
	uint32_t prefix, suffix, middle;
};

/* Returns whether the model has them: its file names them, or special tokens have their usual
 * names. lm_token_ends then also knows what ends such a text. */
bool lm_token_fill(const struct lm_token *t, struct lm_token_fill *out);

/* Returns the id of the token with this name as spelled in the file, or -1. */
int64_t lm_token_find(const struct lm_token *t, const char *name, size_t bytes);

/* Appends the ids of text as uint32_t to ids. Bytes that are not UTF-8 are encoded as bytes.
 * special: names of special tokens in the text become those tokens; else they are plain text
 * (tokens that the file calls user-defined are always recognised). No BOS is added. A byte for
 * which a vocabulary has neither a token nor "unknown" is dropped, as in llama.cpp and Hugging
 * Face. Returns 0, or -1 with err_set(EX_DATAERR): too long, or an untrusted pattern takes too
 * long. ids may then hold a part. */
int lm_token_encode(const struct lm_token *t, struct buf *ids, const char *text,
	size_t bytes, bool special);

/* Does the same for a text of which only some bytes may be part of a special token's name: those
 * whose byte in may, of the same length, is not 0. */
int lm_token_encode_marked(const struct lm_token *t, struct buf *ids, const char *text,
	size_t bytes, const char *may);

/* Does the same for a piece of a text, whose other pieces end where lm_token_cut says: together
 * they have the ids of the whole. begins: it is the first. */
int lm_token_encode_piece(const struct lm_token *t, struct buf *ids, const char *text,
	size_t bytes, bool special, bool begins);

/* Whether texts may be cut at all: no name of a token goes over the places of lm_token_cut. */
bool lm_token_cuts(const struct lm_token *t);

/* Returns the first place at or behind `want` where no token goes over, or bytes. */
size_t lm_token_cut(const struct lm_token *t, const char *text, size_t bytes,
	size_t want);

/* Does the same for a stranger's text, whose cost is bounded: it stops as soon as ids has certainly
 * more than `most` in all, and a word of more than LM_TOKEN_WORD_MAX bytes is refused. may: as
 * above, or NULL for all bytes where special is set. Returns 0, 1: there are more, or -1. */
int lm_token_encode_most(const struct lm_token *t, struct buf *ids, const char *text,
	size_t bytes, bool special, const char *may, size_t most);
#define LM_TOKEN_WORD_MAX ((size_t)1 << 18)

/* Appends the bytes of one token to out. first: it begins the text (SentencePiece drops its
 * leading blank). Special tokens produce their name when special is set, else nothing. Returns
 * 0, or -1 with err_set(EX_DATAERR): no such id. */
int lm_token_piece(const struct lm_token *t, struct buf *out, uint32_t id, bool first,
	bool special);

/* Decodes a stream of tokens into text that never ends within a UTF-8 character. */
struct lm_detoken {
	const struct lm_token *token;
	char held[4]; /* bytes of an incomplete character */
	unsigned held_bytes;
	bool started;
};
void lm_detoken_init(struct lm_detoken *d, const struct lm_token *t);
/* Appends the complete characters so far; bytes that cannot become UTF-8 come out as U+FFFD.
 * Returns 0, or -1: no such id. */
int lm_detoken_push(struct lm_detoken *d, struct buf *out, uint32_t id);
void lm_detoken_end(struct lm_detoken *d,
	struct buf *out); /* an incomplete character becomes U+FFFD */

/* --- for those who write a tokenizer into another file ---------------------------------- */

enum lm_token_type { /* GGUF's numbers */
	LM_TOKEN_NORMAL = 1,
	LM_TOKEN_UNKNOWN = 2,
	LM_TOKEN_CONTROL = 3,
	LM_TOKEN_USER_DEFINED = 4,
	LM_TOKEN_UNUSED = 5,
	LM_TOKEN_BYTE = 6
};

/* The contents of the tokenizer.ggml.* keys of a GGUF file. Texts are borrowed until the
 * tokenizer is closed. */
struct lm_token_about {
	const char *model; /* "gpt2" or "llama" */
	/* "": llama.cpp has no name for it, so a GGUF file cannot hold it */
	const char *pre;
	/* merges 0: scores decide the merges; a "llama" with merges has no scores */
	uint32_t count, merges;
	int64_t bos, eos, unknown, pad; /* -1: none */
	bool adds_bos, adds_eos, adds_space_prefix;
	const char *chat_template, *tool_template; /* NULL: none */
};
void lm_token_describe(const struct lm_token *t, struct lm_token_about *about);

/* Return the text of id < count as tokenizer.ggml.tokens spells it, its score and its type. */
const char *lm_token_text(const struct lm_token *t, uint32_t id, size_t *bytes);
float lm_token_score(const struct lm_token *t, uint32_t id);
enum lm_token_type lm_token_type(const struct lm_token *t, uint32_t id);

/* Appends merge i < merges as tokenizer.ggml.merges spells it: "a b". */
void lm_token_merge(const struct lm_token *t, uint32_t i, struct buf *out);

/* Appends a tokenizer.json that gives the same ids, here and in Hugging Face's tokenizers.
 * Returns 0, or -1 with err_set(EX_DATAERR): the format cannot express it. */
int lm_token_write_json(const struct lm_token *t, struct buf *out);

/* Appends a tokenizer_config.json to go with it: special tokens and chat template. */
void lm_token_write_config(const struct lm_token *t, struct buf *out);

/* Computes 32 bytes that two tokenizers share if and only if each id stands for the same text
 * in both, whatever their format: token shards record with it how they were made. Rows of
 * padding ("[PAD123]") do not count. */
void lm_token_fingerprint(const struct lm_token *t, unsigned char out[32]);

#endif
