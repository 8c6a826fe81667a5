/* model_file.h - a model on disk, whatever its format: its config, its tensors in the order of
 * layout.h, and the path of its tokenizer. Uses the readers of safetensors, GGUF and llama2.c
 * files.
 *
 * Files are mapped and nothing is copied: opening 1 GB that is in the page cache takes
 * milliseconds. Files must be replaced whole (rename), never rewritten in place: truncating a
 * mapped file ends the process with SIGBUS. */
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

/* Opens a directory (config.json, model.safetensors or its sharded index), a GGUF file or a
 * llama2.c .bin. All tensors that the config requires are present with the right shapes and a
 * type that lm_to_f32 supports. Returns 0 and *out, which the caller closes, or -1 with
 * err_set(): 66 cannot be opened, 65 malformed. */
int model_file_open(struct model_file **out, const char *path);
void model_file_close(struct model_file *s); /* NULL is allowed */

/* Makes a model without a file, in memory that s owns, to measure computations whose time does
 * not depend on the numbers. Matrices are of type (F32, F16, BF16, Q8_0 or Q4_0) and uniform
 * with deviation 0.02, one random block repeated; norms are 1, biases 0, as f32. The result
 * depends on the arguments alone. bytes receives the size, or is NULL; with out NULL nothing is
 * made. Returns 0, or -1 with err_set(): 65 the config, 64 another type, or rows that are not
 * whole blocks of it, 71 out of memory. */
int model_file_make(struct model_file **out, uint64_t *bytes, const struct lm_config *c,
	enum lm_type type, uint64_t seed);

/* Replaces the matrices that are larger in their own type by copies in memory of another type, Q8_0
 * or Q4_0; those whose rows are not whole blocks of it stay. The numbers are those of a file that
 * lm_export_gguf writes. Tensors borrowed before are no longer valid. Uses the team of threads.
 * Returns 0, or -1 with err_set(): 71 out of memory; s is then to be closed. */
int model_file_quantise(struct model_file *s, enum lm_type type);

/* Bytes of memory that copies take; 0 for a model that is used in its file. */
uint64_t model_file_memory(const struct model_file *s);

/* Whether data of a tensor lies in such memory, which nobody else maps and which may be written. */
bool model_file_owns(const struct model_file *s, const void *data);

enum lm_format model_file_format(const struct model_file *s);
const struct lm_config *model_file_config(const struct model_file *s);

/* Returns tensor i of lm_layout_count(); a tied model has no LM_OUTPUT and uses the embedding.
 * Borrowed until close. */
const struct lm_tensor *model_file_tensor(const struct model_file *s, uint32_t i);

/* Returns the path where lm_token_open finds the model's tokenizer: "DIR/tokenizer.json" or the
 * GGUF file itself; NULL: there is none (a llama2.c .bin never has one: --tokenizer). */
const char *model_file_tokenizer(const struct model_file *s);

/* Returns the GGUF file, for its other metadata, or NULL for another format. Borrowed until
 * close. */
const struct gguf *model_file_gguf(const struct model_file *s);

#endif
