/* pcre.h - runs patterns of pre-tokenizers with PCRE2, which is opened on first use. For
 * common/lm/token/pre.c only. */
#ifndef RNP_COMMON_LM_TOKEN_PCRE_H
#define RNP_COMMON_LM_TOKEN_PCRE_H

#include <stddef.h>

#include "common/lm/token/pre.h"

/* Compiles a pattern in Oniguruma's dialect; the caller frees it with pcre_free. Returns NULL
 * with err_set(): 65 it is too long, or means something else to PCRE2; 69 PCRE2 is missing. */
void *pcre_compile(const char *pattern, size_t bytes, const char *where);
void pcre_free(void *code);

/* Begins a text of that many bytes, which set the step budget for all its matches together. */
void pcre_begin(struct pre_run *r, size_t bytes);

/* Finds the next match in s[0..n), which is UTF-8, at or after from. Returns 1; 0: none; or -1
 * with err_set(EX_DATAERR): this match, or all matches of the text, take too long, or it lies
 * outside the text. */
int pcre_match(const void *code, struct pre_run *r, const char *s, size_t n, size_t from,
	size_t *begin, size_t *end);

#endif
