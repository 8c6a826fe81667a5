/* weights.h - a model's weights on a device: loaded once and shared by all sequences. Uses
 * model_file.h and the tables of kernels/dev/dev.h and kernels/lm/ops.h.
 *
 * On the CPU, matrices are used in place in the mapped file, in the file's types; a GPU gets a
 * copy of them. Norms and biases become f32. */
#ifndef RNP_COMMON_LM_INFER_WEIGHTS_H
#define RNP_COMMON_LM_INFER_WEIGHTS_H

#include "common/lm/model/model_file.h"
#include "kernels/dev/dev.h"

struct lm_weights;

/* Loads the weights. s and d are borrowed until close. Returns 0 and *out to be closed, or -1
 * with err_set(): 71 no memory, 69 the device has no kernels for them. */
int lm_weights_open(struct lm_weights **out, struct dev *d, const struct model_file *s);
void lm_weights_close(struct lm_weights *w); /* NULL is fine */

/* Brings quantised matrices into the order in which the CPU's vectors take them; no bit of a
 * product changes. Those of a GGUF file are copied in a thread of its own; passes use each as soon
 * as it is there, and its pages of the file are given back, so that weights take their size once.
 * Those in memory of the model's own (model_file_make, model_file_quantise) are packed where they
 * lie before it returns: the model file then serves nobody else. Does nothing where that has no
 * use: on a GPU, without vectors, or where memory is out. Call it once, before the first pass. */
void lm_weights_pack(struct lm_weights *w);
bool lm_weights_packing(const struct lm_weights *w); /* whether it still goes on */

const struct lm_config *lm_weights_config(const struct lm_weights *w);

/* Adds an adapter (adapter.h) from a directory; rows of a pass choose it by its number, from 1 on
 * in the order of the calls. No forward pass may be open. Returns 0, or -1 with err_set(), and the
 * weights are as before. */
int lm_weights_adapt(struct lm_weights *w, const char *dir);
uint64_t lm_weights_adapter_bytes(const struct lm_weights *w); /* of all adapters */

#endif
