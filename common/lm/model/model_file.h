/* model_file.h - a model as it lies on disk, whatever the format: its config, its tensors in the
 * order of layout.h, and where its tokenizer is. Uses the readers of safetensors, GGUF and llama2.c
 * files.
 *
 * Files are mapped, nothing is copied: opening 1 GB that is in the page cache takes milliseconds.
 * They are replaced whole (rename), never rewritten in place: somebody who shortens a mapped file
 * ends us with SIGBUS. */
#ifndef RNP_COMMON_LM_MODEL_MODEL_FILE_H
#define RNP_COMMON_LM_MODEL_MODEL_FILE_H

#include "common/lm/model/gguf.h"
#include "common/lm/model/layout.h"

struct model_file;

enum lm_format {
	LM_FORMAT_SAFETENSORS,
	LM_FORMAT_GGUF,
	LM_FORMAT_LLAMA2C,
	LM_FORMAT_MADE /* no file: model_file_make */
};

/* Opens a directory (config.json, model.safetensors or its sharded index), a GGUF file or a llama2.c
 * .bin. All tensors that the config asks for are there with the right shapes and a type of which
 * lm_to_f32 knows. Returns 0 and *out to be closed, or -1 with err_set(): 66 cannot be opened, 65
 * malformed. */
int model_file_open(struct model_file **out, const char *path);
void model_file_close(struct model_file *s); /* NULL is fine */

/* A model without a file, in memory that s owns: what measures a computation whose time does not
 * depend on the numbers. Matrices are of type (F32, F16, BF16, Q8_0 or Q4_0) and uniform with
 * deviation 0.02, one random block over and over; norms are 1, biases 0, as f32. A function of the
 * arguments alone. bytes: what it takes, or NULL; out may be NULL: nothing is made. Returns 0, or
 * -1 with err_set(): 65 the config, 64 a type that is not one of these or in whose blocks the rows
 * do not end, 71 no memory. */
int model_file_make(struct model_file **out, uint64_t *bytes, const struct lm_config *c,
	enum lm_type type, uint64_t seed);

enum lm_format model_file_format(const struct model_file *s);
const struct lm_config *model_file_config(const struct model_file *s);

/* Tensor i of lm_layout_count(); when tied, LM_OUTPUT is not there and the embedding serves.
 * Borrowed until close. */
const struct lm_tensor *model_file_tensor(const struct model_file *s, uint32_t i);

/* Where lm_token_open finds the tokenizer that came with the model: "DIR/tokenizer.json", the GGUF
 * file itself, or NULL: there is none (a llama2.c .bin never has one: --tokenizer). */
const char *model_file_tokenizer(const struct model_file *s);

/* The file, where the format is GGUF, for what else it says; else NULL. Borrowed until close. */
const struct gguf *model_file_gguf(const struct model_file *s);

#endif
