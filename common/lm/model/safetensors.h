/* safetensors.h - reading and writing of safetensors files: a single one, or the shards of a
 * model. Uses tensor.h, map.h, json.
 *
 * The format is that of github.com/huggingface/safetensors: a length, a JSON header, the data.
 * It is checked strictly: tensors cover the data without gap or overlap, and every size is
 * checked. Files are mapped and nothing is copied. */
#ifndef RNP_COMMON_LM_MODEL_SAFETENSORS_H
#define RNP_COMMON_LM_MODEL_SAFETENSORS_H

#include <jansson.h>

#include "common/lm/model/tensor.h"

/* bytes, as the format's own readers have it */
#define SAFETENSORS_HEADER_MAX UINT64_C(100000000)
/* of a model; those of today have up to 92,000 */
#define SAFETENSORS_TENSORS_MAX (1 << 18)
#define SAFETENSORS_SHARDS_MAX  4096
#define SAFETENSORS_SHARD_BYTES (UINT64_C(5) << 30) /* the usual limit */

struct safetensors;

/* Open one file; or the model in a directory: model.safetensors, else the shards that
 * model.safetensors.index.json names, which must be plain file names in that directory; or read
 * one file from memory (borrowed until close; where names it in errors). Return 0 and *out,
 * which the caller closes, or -1 with err_set(): 66 cannot be opened, 65 malformed. */
int safetensors_open(struct safetensors **out, const char *path);
int safetensors_open_model(struct safetensors **out, const char *dir);
int safetensors_read(struct safetensors **out, const void *data, uint64_t bytes,
	const char *where);
void safetensors_close(struct safetensors *s); /* NULL is allowed */

/* Return all tensors, in the order of their data, shard by shard. */
uint64_t safetensors_count(const struct safetensors *s);
const struct lm_tensor *safetensors_at(const struct safetensors *s, uint64_t i);
const struct lm_tensor *safetensors_find(const struct safetensors *s,
	const char *name); /* NULL: not found */

uint64_t safetensors_bytes(const struct safetensors *s); /* total size of all files */
uint32_t safetensors_shards(const struct safetensors *s);

/* Returns the __metadata__ of the first file, an object of strings, or NULL. Borrowed. */
const json_t *safetensors_metadata(const struct safetensors *s);

/* Checks the text of model.safetensors.index.json: *files receives the names of the shards,
 * sorted and unique, and *map the object from tensors to files; the caller json_decref's both.
 * Returns 0, or -1 with err_set(EX_DATAERR). */
int safetensors_index(json_t **files, json_t **map, const char *text, size_t bytes,
	const char *where);

/* Write a file at path, or a model into dir (one file, or shards of at most shard_bytes each
 * and their index, which is written last). Of each tensor, name, type, dims, shape and count
 * are used; bytes and data are ignored. metadata: strings, or NULL. Tensors of larger elements
 * come first, so that all are aligned; fill is called with their number in `tensors`. Return 0,
 * or -1 with err_set(): 65 a type that safetensors does not have, 73, 74, 77; an old file then
 * remains untouched. */
int safetensors_write(const char *path, const struct lm_tensor *tensors, uint64_t n,
	const json_t *metadata, lm_fill_fn fill, void *ctx);
int safetensors_write_model(const char *dir, const struct lm_tensor *tensors, uint64_t n,
	const json_t *metadata, uint64_t shard_bytes, lm_fill_fn fill, void *ctx);

#endif
