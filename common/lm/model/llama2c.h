/* llama2c.h - the .bin files of llama2.c (github.com/karpathy/llama2.c, version 0): a Llama
 * model in f32. Read only.
 *
 * The file has seven int32 (width, hidden width, layers, heads, key and value heads,
 * vocabulary, context; a negative vocabulary means that the output is a matrix of its own),
 * then the matrices, each kind for all layers together, and before the output two tables of
 * rotary frequencies that are no longer used. The file does not contain the following, so they
 * are fixed: base 10000, epsilon 1e-5, adjacent pairs, and the ids 1 and 2 that its tokenizers
 * have for begin and end. */
#ifndef RNP_COMMON_LM_MODEL_LLAMA2C_H
#define RNP_COMMON_LM_MODEL_LLAMA2C_H

#include "common/lm/model/layout.h"

struct llama2c;

/* Opens the file at path, or reads one from memory (borrowed until close; where names it in
 * errors). Its size must be the one that the header implies. Returns 0 and *out, which the
 * caller closes, or -1 with err_set(): 66 cannot be opened, 65 malformed. */
int llama2c_open(struct llama2c **out, const char *path);
int llama2c_read(struct llama2c **out, const void *data, uint64_t bytes,
	const char *where);
void llama2c_close(struct llama2c *l); /* NULL is allowed */

const struct lm_config *llama2c_config(const struct llama2c *l);

/* Returns tensor i of lm_layout_count(), under its Hugging Face name. */
const struct lm_tensor *llama2c_tensor(const struct llama2c *l, uint32_t i);

#endif
