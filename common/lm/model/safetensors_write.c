/* safetensors_write.c - writes files and shards, with data in pieces. */
#include "common/lm/model/safetensors.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/err.h"
#include "common/base/io.h"
#include "common/json/json.h"
#include "common/base/mem.h"

/* of the first byte of the data: a cache line, and what vectors like */
#define DATA_ALIGNMENT 64

static const char *const names[LM_TYPES] = {
	[LM_F32] = "F32",
	[LM_F16] = "F16",
	[LM_BF16] = "BF16",
	[LM_F64] = "F64",
	[LM_I8] = "I8",
	[LM_I16] = "I16",
	[LM_I32] = "I32",
	[LM_I64] = "I64",
	[LM_U8] = "U8",
	[LM_BOOL] = "BOOL",
};

/* A tensor of a file: its number for fill, and its size. */
struct item {
	uint64_t i, bytes;
	uint32_t element_bytes;
};

static int plan(struct item *items, const struct lm_tensor *tensors, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		const struct lm_tensor *t = &tensors[i];

		items[i].i = i;
		items[i].element_bytes = lm_type_block_bytes(t->type);
		if (!names[t->type] ||
			lm_type_bytes(t->type, t->count, &items[i].bytes) < 0)
			return err_set(EX_DATAERR,
				"tensor '%s' of type %s cannot be in a safetensors file",
				t->name, lm_type_name(t->type));
	}
	return 0;
}

static int compare_items(const void *a, const void *b)
{
	const struct item *x = a, *y = b;

	if (x->element_bytes != y->element_bytes)
		return x->element_bytes > y->element_bytes ? -1 : 1;
	return (x->i > y->i) - (x->i < y->i);
}

static void add_entry(json_t *header, const struct lm_tensor *t, uint64_t begin,
	uint64_t end)
{
	json_t *entry = json_object(), *shape = json_array(), *place = json_array();

	for (uint32_t d = 0; d < t->dims; d++)
		json_push(shape, json_integer((json_int_t)t->shape[d]));
	json_push(place, json_integer((json_int_t)begin));
	json_push(place, json_integer((json_int_t)end));
	json_set_text(entry, "dtype", names[t->type]);
	json_set(entry, "shape", shape);
	json_set(entry, "data_offsets", place);
	json_set(header, t->name, entry);
}

/* Writes the length and the header, padded with blanks. */
static void add_header(struct buf *head, const struct lm_tensor *tensors,
	const struct item *items, uint64_t n, const json_t *metadata)
{
	json_t *header = json_object();
	uint64_t at = 0, bytes;

	if (metadata)
		json_set(header, "__metadata__", json_deep_copy(metadata));
	for (uint64_t k = 0; k < n; k++) {
		add_entry(header, &tensors[items[k].i], at, at + items[k].bytes);
		at += items[k].bytes;
	}
	buf_add(head, "\0\0\0\0\0\0\0\0", 8);
	json_write(head, header);
	while (head->len % DATA_ALIGNMENT)
		buf_addc(head, ' ');
	bytes = head->len - 8;
	memcpy(head->data, &bytes, sizeof bytes);
	json_decref(header);
}

/* Writes one file; items are in file order. */
static int write_file(const char *path, const struct lm_tensor *tensors,
	const struct item *items, uint64_t n, const json_t *metadata, lm_fill_fn fill,
	void *ctx)
{
	struct buf head = BUF_INIT;
	struct io_part out = { 0 };
	int rc = -1;

	add_header(&head, tensors, items, n, metadata);
	if (io_part_open(&out, path, 0644) < 0 ||
		io_part_write(&out, head.data, head.len) < 0)
		goto out;
	for (uint64_t k = 0; k < n; k++) {
		uint64_t before = out.written;

		if (fill(ctx, items[k].i, &out) < 0)
			goto out;
		if (out.written - before != items[k].bytes)
			bug("tensor '%s': %" PRIu64 " bytes, not %" PRIu64,
				tensors[items[k].i].name, out.written - before,
				items[k].bytes);
	}
	rc = io_part_close(&out);
out:
	io_part_drop(&out);
	buf_release(&head);
	return rc;
}

int safetensors_write(const char *path, const struct lm_tensor *tensors, uint64_t n,
	const json_t *metadata, lm_fill_fn fill, void *ctx)
{
	struct item *items = xcalloc((size_t)n, sizeof *items);
	int rc = plan(items, tensors, n);

	if (rc == 0) {
		qsort(items, (size_t)n, sizeof *items, compare_items);
		rc = write_file(path, tensors, items, n, metadata, fill, ctx);
	}
	free(items);
	return rc;
}

/* --- models ------------------------------------------------------------------------------- */

/* Returns how many items from `first` on fit in one shard: at least one. */
static uint64_t shard_items(const struct item *items, uint64_t first, uint64_t n,
	uint64_t shard_bytes, uint64_t *bytes)
{
	uint64_t k = first;

	*bytes = 0;
	while (k < n && (k == first || items[k].bytes <= shard_bytes - *bytes)) {
		*bytes += items[k++].bytes;
		if (*bytes >= shard_bytes)
			break;
	}
	return k - first;
}

static uint64_t count_shards(const struct item *items, uint64_t n, uint64_t shard_bytes)
{
	uint64_t shards = 0, bytes;

	for (uint64_t first = 0; first < n; shards++)
		first += shard_items(items, first, n, shard_bytes, &bytes);
	return shards;
}

static int remove_old(const char *path)
{
	if (unlink(path) < 0 && errno != ENOENT)
		return err_sys(EX_IOERR, "cannot remove '%s'", path);
	return 0;
}

static int write_index(const char *dir, json_t *map, uint64_t bytes)
{
	struct buf path = BUF_INIT, text = BUF_INIT;
	json_t *index = json_object(), *metadata = json_object();
	int rc;

	json_set_i64(metadata, "total_size", (int64_t)bytes);
	json_set(index, "metadata", metadata);
	json_set(index, "weight_map", json_incref(map));
	json_write(&text, index);
	buf_addc(&text, '\n');
	buf_addf(&path, "%s/model.safetensors.index.json", dir);
	rc = io_replace(path.data, text.data, text.len, 0644);
	json_decref(index);
	buf_release(&path);
	buf_release(&text);
	return rc;
}

/* Writes the shards and their index, then removes an older model.safetensors, which readers
 * would take first. */
static int write_shards(const char *dir, const struct lm_tensor *tensors,
	struct item *items, uint64_t n, uint64_t shards, const json_t *metadata,
	uint64_t shard_bytes, lm_fill_fn fill, void *ctx)
{
	json_t *map = json_object();
	struct buf path = BUF_INIT;
	uint64_t first = 0, all = 0;
	int rc = 0;

	for (uint64_t k = 1; rc == 0 && k <= shards; k++) {
		uint64_t bytes, take = shard_items(items, first, n, shard_bytes, &bytes);
		size_t name_at = strlen(dir) + 1;

		buf_reset(&path);
		buf_addf(&path, "%s/model-%05" PRIu64 "-of-%05" PRIu64 ".safetensors",
			dir, k, shards);
		for (uint64_t j = first; j < first + take; j++)
			json_set_text(map, tensors[items[j].i].name, path.data + name_at);
		qsort(items + first, (size_t)take, sizeof *items, compare_items);
		rc = write_file(path.data, tensors, items + first, take, metadata, fill,
			ctx);
		first += take;
		all += bytes;
	}
	if (rc == 0)
		rc = write_index(dir, map, all);
	buf_reset(&path);
	buf_addf(&path, "%s/model.safetensors", dir);
	if (rc == 0)
		rc = remove_old(path.data);
	json_decref(map);
	buf_release(&path);
	return rc;
}

int safetensors_write_model(const char *dir, const struct lm_tensor *tensors, uint64_t n,
	const json_t *metadata, uint64_t shard_bytes, lm_fill_fn fill, void *ctx)
{
	struct item *items = xcalloc((size_t)n, sizeof *items);
	struct buf path = BUF_INIT;
	uint64_t shards;
	int rc = plan(items, tensors, n);

	if (rc < 0)
		goto out;
	shards = count_shards(items, n, shard_bytes);
	if (shards > 1) {
		rc = write_shards(dir, tensors, items, n, shards, metadata, shard_bytes,
			fill, ctx);
		goto out;
	}
	buf_addf(&path, "%s/model.safetensors", dir);
	qsort(items, (size_t)n, sizeof *items, compare_items);
	rc = write_file(path.data, tensors, items, n, metadata, fill, ctx);
	buf_reset(&path);
	buf_addf(&path, "%s/model.safetensors.index.json", dir);
	if (rc == 0)
		rc = remove_old(path.data);
out:
	buf_release(&path);
	free(items);
	return rc;
}
