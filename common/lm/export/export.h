/* export.h - writes a model for other programs: a GGUF file, or a directory with config.json
 * and model.safetensors. Uses gguf.h, safetensors.h, model_file.h.
 *
 * GGUF files are as llama.cpp's converter writes them: norms and biases in f32, q and k of a
 * llama permuted for adjacent rotary pairs, rows that are not whole blocks of a quantised type
 * in f16. Directories are as Hugging Face's: not permuted. Data is copied in pieces from a
 * model file to the output; the whole model is never in memory. */
#ifndef RNP_COMMON_LM_EXPORT_EXPORT_H
#define RNP_COMMON_LM_EXPORT_EXPORT_H

#include "common/lm/model/gguf.h"
#include "common/lm/model/layout.h"
#include "common/lm/model/model_file.h"
#include "common/lm/token/token.h"

/* every tensor in the type that it has (where the format has that) */
#define LM_TYPE_UNCHANGED LM_TYPES

/* Reads elements from..from + count of tensor i of the layout, as f32. Returns 0, or -1 with
 * err_set(). */
typedef int (
	*lm_read_fn)(void *ctx, uint32_t i, uint64_t from, uint64_t count, float *to);

struct lm_export {
	/* rope.interleaved: how the source's rows of q and k are laid out */
	struct lm_config config;
	/* source of the parameters; NULL: `read` provides them */
	const struct model_file *model_file;
	lm_read_fn read;
	void *ctx;
	const char *name; /* the model's display name; NULL: none */
	/* NULL: none, but from one GGUF file to another the tokenizer.* keys are copied
	 * unchanged */
	const struct lm_token *token;
};

/* Fills e to export a model file unchanged, without a tokenizer. */
void lm_export_model_file(struct lm_export *e, const struct model_file *s);

/* Writes the file at path. type: LM_F32, LM_F16, LM_BF16, LM_Q8_0, LM_Q4_0 or LM_TYPE_UNCHANGED.
 * Returns 0, or -1 with err_set(): 65 a tokenizer that does not fit or a rope scaling that GGUF
 * cannot represent, 73, 74, 77, and the errors of read; an old file then remains untouched. */
int lm_export_gguf(const char *path, const struct lm_export *e, enum lm_type type);

/* Writes config.json, model.safetensors (in shards beyond SAFETENSORS_SHARD_BYTES), tokenizer.json
 * and tokenizer_config.json into dir, which it creates. type: LM_F32, LM_F16, LM_BF16 or
 * LM_TYPE_UNCHANGED (quantised tensors become f32, which holds them exactly). Weights are written
 * first, the config last, so that a partial export is not taken for a model. Returns 0, or -1 with
 * err_set(): 73 as for lm_export_place, and as above. */
int lm_export_directory(const char *dir, const struct lm_export *e, enum lm_type type);

/* Checks that a model with this tokenizer, or NULL, may be written into dir.
 * lm_export_directory calls it; callers that train first call it before. Returns 0, or -1 with
 * err_set(EX_CANTCREAT): the model has no tokenizer, and dir has another's tokenizer.json,
 * perhaps the only copy. */
int lm_export_place(const char *dir, const struct lm_token *token);

#endif
