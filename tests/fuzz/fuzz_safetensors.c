/* fuzz_safetensors.c - fuzz target: a safetensors file, an index of shards (input that begins
 * with a brace) or a llama2.c model from strangers.
 *
 * It checks that a refused file gives exit code 65 and a message; that accepted tensors cover
 * the data, one after the other; and that no shard's name leads out of its directory. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/lm/model/llama2c.h"
#include "common/lm/model/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool promise)
{
	if (!promise)
		abort();
}

static int taken(int rc)
{
	if (rc < 0) {
		must(err_get()->code == EX_DATAERR && err_get()->text[0]);
		err_clear();
	}
	return rc;
}

static void check_index(const char *text, size_t size)
{
	json_t *files, *map, *file;
	size_t i;

	if (taken(safetensors_index(&files, &map, text, size, "fuzz")) < 0) {
		must(!files && !map);
		return;
	}
	json_array_foreach(files, i, file) {
		const char *name = json_string_value(file);

		must(name && *name && !strchr(name, '/') && name[0] != '.');
	}
	must(json_array_size(files) > 0 && json_object_size(map) > 0);
	json_decref(files);
	json_decref(map);
}

static void check_file(const uint8_t *data, size_t size)
{
	struct safetensors *s = NULL;
	const uint8_t *at = NULL;

	if (taken(safetensors_read(&s, data, size, "fuzz")) < 0) {
		must(!s);
		return;
	}
	for (uint64_t i = 0; i < safetensors_count(s); i++) {
		const struct lm_tensor *t = safetensors_at(s, i);

		must(t->data == (at ? at : t->data) && t->dims <= LM_DIMS_MAX);
		at = (const uint8_t *)t->data + t->bytes;
		must((const uint8_t *)t->data >= data + 8 && at <= data + size);
		must(safetensors_find(s, t->name) == t);
	}
	must(!at || at == data + size);
	must(safetensors_bytes(s) == size);
	safetensors_close(s);
}

static void check_llama2c(const uint8_t *data, size_t size)
{
	struct llama2c *l = NULL;
	const struct lm_config *c;

	if (taken(llama2c_read(&l, data, size, "fuzz")) < 0)
		return;
	c = llama2c_config(l);
	for (uint32_t i = 0; i < lm_layout_count(c); i++) {
		const struct lm_tensor *t = llama2c_tensor(l, i);
		const uint8_t *at = t->data;

		must(at >= data + 28 && t->bytes <= (uint64_t)(data + size - at));
	}
	llama2c_close(l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size && data[0] == '{')
		check_index((const char *)data, size);
	else
		check_file(data, size);
	check_llama2c(data, size);
	return 0;
}
