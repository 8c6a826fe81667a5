/* export.h - a model written for others: a GGUF file, or a directory with config.json and
 * model.safetensors. Uses gguf.h, safetensors.h, model_file.h.
 *
 * GGUF as llama.cpp's converter makes it: norms and biases in f32, q and k of a llama permuted for
 * rotary pairs side by side, rows that are not whole blocks of a quantised type in f16. Directories
 * as Hugging Face's: not permuted. Data goes in pieces from a model file to file; the whole model
 * is never in memory. */
#ifndef RNP_COMMON_LM_EXPORT_EXPORT_H
#define RNP_COMMON_LM_EXPORT_EXPORT_H

#include "common/lm/model/gguf.h"
#include "common/lm/model/layout.h"
#include "common/lm/model/model_file.h"
#include "common/lm/token/token.h"

#define LM_TYPE_KEPT \
	LM_TYPES /* every tensor in the type that it has (where the format has that) */

/* Elements from..from + count of tensor i of the layout, as f32. Returns 0, or -1 with
 * err_set(). */
typedef int (
	*lm_read_fn)(void *ctx, uint32_t i, uint64_t from, uint64_t count, float *to);

struct lm_export {
	struct lm_config
		config; /* rope.interleaved: how the rows of q and k lie in what is read */
	const struct model_file *
		model_file; /* where the parameters are; or NULL, then they come from read */
	lm_read_fn read;
	void *ctx;
	const char *name; /* of the model, for people; NULL: none */
	/* NULL: none, but a model file that is a GGUF file gives its tokenizer.* keys to another
	 * one as they are */
	const struct lm_token *token;
};

/* Fills e for a model file as it is, without a tokenizer. */
void lm_export_model_file(struct lm_export *e, const struct model_file *s);

/* Writes the file at path. type: LM_F32, LM_F16, LM_BF16, LM_Q8_0, LM_Q4_0 or LM_TYPE_KEPT. Returns
 * 0, or -1 with err_set(): 65 a tokenizer that does not fit or a rope scaling that GGUF has no
 * place for, 73, 74, 77 and what read says; an old file is then untouched. */
int lm_export_gguf(const char *path, const struct lm_export *e, enum lm_type type);

/* Writes config.json, model.safetensors (in shards beyond SAFETENSORS_SHARD_BYTES), tokenizer.json
 * and tokenizer_config.json into dir, which is made. type: LM_F32, LM_F16, LM_BF16 or LM_TYPE_KEPT
 * (quantised tensors become f32, which holds them exactly). Weights come first, the config last:
 * what is half written is not taken for a model. Returns 0, or -1 with err_set(): 73 as
 * lm_export_place says, and as above. */
int lm_export_directory(const char *dir, const struct lm_export *e, enum lm_type type);

/* May a model with this tokenizer, or NULL, go into dir? lm_export_directory asks; somebody who
 * trains first asks before. Returns 0, or -1 with err_set(EX_CANTCREAT): it has none, and another's
 * tokenizer.json is there, perhaps the only copy. */
int lm_export_place(const char *dir, const struct lm_token *token);

#endif
