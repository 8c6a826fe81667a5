/* token.h - writes a tokenizer beside a model. For export.c only. Uses token.h, gguf.h. */
#ifndef RNP_COMMON_LM_EXPORT_TOKEN_H
#define RNP_COMMON_LM_EXPORT_TOKEN_H

#include "common/lm/model/gguf.h"
#include "common/lm/token/token.h"

/* Puts the tokenizer.* keys, with vocab tokens: ids that the tokenizer does not have become
 * "[PAD123]", as in llama.cpp's converter. NULL: puts the key that says that there is none.
 * Returns 0, or -1 with err_set(EX_DATAERR): more tokens than vocab, or a pre-tokenizer that
 * llama.cpp has no name for. */
int export_token_gguf(struct gguf_meta *m, const struct lm_token *t, uint32_t vocab);

/* Writes tokenizer.json and tokenizer_config.json into dir. Returns 0, or -1 with err_set(). */
int export_token_directory(const char *dir, const struct lm_token *t);

#endif
