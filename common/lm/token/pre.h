/* pre.h - pre-tokenizers: they split text into the words within which byte pairs are
 * merged. For common/lm/token*.c. Uses PCRE2, opened with dlopen when the first pattern is
 * compiled.
 *
 * A pre-tokenizer is a list of steps; each splits the pieces of the step before it, every piece
 * on its own. Patterns are written as in Hugging Face and llama.cpp; \s means
 * [\t-\r\x{85}\p{Z}], which differs from PCRE2's. */
#ifndef RNP_COMMON_LM_TOKEN_PRE_H
#define RNP_COMMON_LM_TOKEN_PRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"

#define PRE_STEPS_MAX         16
#define PRE_PATTERN_BYTES_MAX ((size_t)16 << 10)

/* How a pattern's matches are treated; text between matches is a piece of its own except with
 * INVERTED. */
enum pre_keep {
	PRE_ISOLATED,
	PRE_REMOVED,
	PRE_WITH_PREVIOUS,
	PRE_WITH_NEXT,
	PRE_MATCHES_ONLY, /* Hugging Face: Removed and inverted */
};

/* How a step splits: by its pattern, or by hand where a pattern would take quadratic time on
 * long runs of digits. */
enum pre_how {
	PRE_PATTERN,
	/* runs of ASCII digits: before every multiple of three from their end (superbpe) */
	PRE_TRIPLES,
	/* runs of \p{N}: after every multiple of three from their end (afmoe, tiny_aya) */
	PRE_TRIPLES_ENDS,
};

/* Hand-written ASCII scanners for the patterns of nearly every model; anything else is matched
 * by the pattern. */
enum pre_ascii { PRE_ASCII_NONE, PRE_ASCII_GPT2, PRE_ASCII_LLAMA };

struct pre_step {
	char *pattern; /* as written, for a tokenizer.json */
	enum pre_how how;
	enum pre_keep keep;
	enum pre_ascii ascii;
	unsigned digits; /* PRE_ASCII_LLAMA: at most this many per piece; 0: any number */
	void *code;      /* pcre2_code */
};

struct pre {
	char name[48]; /* as in tokenizer.ggml.pre; "": none of them */
	unsigned count;
	struct pre_step steps[PRE_STEPS_MAX];
	/* A piece never contains both a line break and the ASCII letter that follows it, so a
	 * long text can be split there and each part processed on its own. */
	bool lines_apart;
};

/* Properties that a llama.cpp name implies besides the patterns. */
struct pre_habits {
	bool ignore_merges; /* a word that is a token is not merged */
	bool adds_bos;
	bool no_bytes; /* merges work on characters; blanks are U+2581 */
};

/* Makes the pre-tokenizer of this name. Returns 0, or -1 with err_set(): 65 no such name, 69 no
 * PCRE2. */
int pre_by_name(struct pre *p, const char *name, struct pre_habits *habits);

/* Appends a step. where: for errors. Returns 0, or -1 with err_set(): 65 pattern malformed or too
 * many steps, 69. */
int pre_add(struct pre *p, const char *pattern, size_t bytes, enum pre_keep keep,
	const char *where);

/* Sets p->name from its steps, when llama.cpp has a name for them. */
void pre_find_name(struct pre *p, bool ignore_merges);

void pre_release(struct pre *p);

/* Returns every name, one per call: i from 0; NULL at the end. */
const char *pre_name_at(size_t i);

/* The state that one thread needs to run patterns. */
struct pre_run {
	void *match, *context, *stack;
	/* budget that patterns may still spend on this text beyond the first steps of each
	 * match */
	int64_t steps;
};
int pre_run_init(struct pre_run *r);
void pre_run_release(struct pre_run *r);

/* Receives the pieces, in order; they lie in the caller's text. Returns 0, or -1 to stop. */
typedef int (*pre_fn)(void *ctx, const char *piece, size_t bytes);

/* Splits text. Bytes that are not UTF-8 become pieces of their own. Returns 0, or -1: what fn
 * returned, or err_set(EX_DATAERR): the patterns need more steps than a text of this length is
 * granted. */
int pre_split(const struct pre *p, struct pre_run *r, const char *text, size_t bytes,
	pre_fn fn, void *ctx);

/* Returns how many bytes at the front of text are UTF-8. */
size_t pre_utf8_prefix(const char *text, size_t bytes);

#endif
