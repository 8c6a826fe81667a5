/* safetensors.h - safetensors files, one or the shards of a model: read and written. Uses tensor.h,
 * map.h, json.
 *
 * The format is that of github.com/huggingface/safetensors: a length, a JSON header, the data. Held
 * to it strictly: tensors cover the data without gap or overlap, every size checked. Files are
 * mapped, nothing is copied. */
#ifndef RNP_COMMON_LM_MODEL_SAFETENSORS_H
#define RNP_COMMON_LM_MODEL_SAFETENSORS_H

#include <jansson.h>

#include "common/lm/model/tensor.h"

#define SAFETENSORS_HEADER_MAX \
	UINT64_C(100000000) /* bytes, as the format's own readers have it */
#define SAFETENSORS_TENSORS_MAX \
	(1 << 18) /* of a model; those of today have up to 92,000 */
#define SAFETENSORS_SHARDS_MAX  4096
#define SAFETENSORS_SHARD_BYTES (UINT64_C(5) << 30) /* what others make, and we */

struct safetensors;

/* Opens one file; or the model in a directory: model.safetensors, else the shards that
 * model.safetensors.index.json names, which are plain names of files in that directory. Or read one
 * file from memory (borrowed until close; where names it in errors). Returns 0 and *out to be
 * closed, or -1 with err_set(): 66 cannot be opened, 65 malformed. */
int safetensors_open(struct safetensors **out, const char *path);
int safetensors_open_model(struct safetensors **out, const char *dir);
int safetensors_read(struct safetensors **out, const void *data, uint64_t bytes,
	const char *where);
void safetensors_close(struct safetensors *s); /* NULL is fine */

/* All tensors, in the order of their data, shard by shard. */
uint64_t safetensors_count(const struct safetensors *s);
const struct lm_tensor *safetensors_at(const struct safetensors *s, uint64_t i);
const struct lm_tensor *safetensors_find(const struct safetensors *s,
	const char *name); /* NULL: none */

uint64_t safetensors_bytes(const struct safetensors *s); /* of all files */
uint32_t safetensors_shards(const struct safetensors *s);

/* The object of texts that the first file has as __metadata__, or NULL. Borrowed. */
const json_t *safetensors_metadata(const struct safetensors *s);

/* Checks the text of model.safetensors.index.json: *files gets the names of the shards, in order,
 * each once, and *map the object from tensors to files; both to be json_decref'ed. Returns 0, or -1
 * with err_set(EX_DATAERR). */
int safetensors_index(json_t **files, json_t **map, const char *text, size_t bytes,
	const char *where);

/* Writes a file at path, or a model into dir (one file, or shards of at most shard_bytes each and
 * their index, which comes last). Of each tensor name, type, dims, shape and count count; bytes and
 * data do not. metadata: texts, or NULL. Tensors of larger elements come first, so that all are
 * aligned; fill is asked for them by their number in `tensors`. Returns 0, or -1 with err_set(): 65
 * a type that safetensors has not got, 73, 74, 77; an old file is then untouched. */
int safetensors_write(const char *path, const struct lm_tensor *tensors, uint64_t n,
	const json_t *metadata, lm_fill_fn fill, void *ctx);
int safetensors_write_model(const char *dir, const struct lm_tensor *tensors, uint64_t n,
	const json_t *metadata, uint64_t shard_bytes, lm_fill_fn fill, void *ctx);

#endif
