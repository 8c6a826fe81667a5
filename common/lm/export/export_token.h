/* export_token.h - a tokenizer written beside a model. For export.c only. Uses token.h, gguf.h. */
#ifndef RNP_COMMON_LM_EXPORT_EXPORT_TOKEN_H
#define RNP_COMMON_LM_EXPORT_EXPORT_TOKEN_H

#include "common/lm/model/gguf.h"
#include "common/lm/token/token.h"

/* The tokenizer.* keys, with vocab tokens: what the tokenizer has not got becomes "[PAD123]", as
 * llama.cpp's converter does. NULL: the key that says that there is none. Returns 0, or -1 with
 * err_set(EX_DATAERR): more tokens than vocab, or cut into words in a way that llama.cpp has no
 * name for. */
int export_token_gguf(struct gguf_meta *m, const struct lm_token *t, uint32_t vocab);

/* tokenizer.json and tokenizer_config.json in dir. Returns 0, or -1 with err_set(). */
int export_token_directory(const char *dir, const struct lm_token *t);

#endif
