/* token_pcre.h - patterns of pre-tokenizers by PCRE2, which is opened on first use. For
 * common/lm/token/token_pre.c only. */
#ifndef RNP_COMMON_LM_TOKEN_TOKEN_PCRE_H
#define RNP_COMMON_LM_TOKEN_TOKEN_PCRE_H

#include <stddef.h>

#include "common/lm/token/token_pre.h"

/* A pattern in Oniguruma's dialect, to be freed with pcre_free. NULL with err_set(): 65 it is too
 * long, or means something else to PCRE2; 69 PCRE2 is not there. */
void *pcre_compile(const char *pattern, size_t bytes, const char *where);
void pcre_free(void *code);

/* Begins a text of so many bytes: the steps that all its matches may take together follow from
 * them. */
void pcre_begin(struct pre_run *r, size_t bytes);

/* Finds the next match in s[0..n), which is UTF-8, at or after from. Returns 1; 0: none; or -1 with
 * err_set(EX_DATAERR): it, or all matches of the text, take too long, or it matches outside. */
int pcre_match(const void *code, struct pre_run *r, const char *s, size_t n, size_t from,
	size_t *begin, size_t *end);

#endif
