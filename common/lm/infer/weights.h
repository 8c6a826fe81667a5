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

/* Starts to copy quantised matrices, in a thread of its own, in the order in which the CPU's vectors
 * take them; passes use each as soon as it is there, and no bit of theirs changes. The pages of the
 * file from which a matrix was copied are given back, so that weights take their size once. Does
 * nothing where that has no use: on a GPU, without vectors, for weights that are not mapped, or
 * where memory is out. Call it once. */
void lm_weights_pack(struct lm_weights *w);
bool lm_weights_packing(const struct lm_weights *w); /* whether it still goes on */

const struct lm_config *lm_weights_config(const struct lm_weights *w);

/* Adds an adapter (adapter.h) from a directory; rows of a pass choose it by its number, from 1 on
 * in the order of the calls. No forward pass may be open. Returns 0, or -1 with err_set(), and the
 * weights are as before. */
int lm_weights_adapt(struct lm_weights *w, const char *dir);
uint64_t lm_weights_adapter_bytes(const struct lm_weights *w); /* of all adapters */

#endif
