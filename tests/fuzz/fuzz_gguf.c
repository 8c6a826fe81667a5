/* fuzz_gguf.c - fuzz target: GGUF files from strangers.
 *
 * It checks that a refused file gives exit code 65 and a message; that an accepted one lies
 * within the file, every key and name is found again, and values are written again as the same
 * bytes; and that the checks of a Llama's metadata accept any input without a crash. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/lm/model/gguf.h"
#include "common/lm/model/gguf_llama.h"
#include "common/lm/model/layout.h"
#include "common/base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool promise)
{
	if (!promise)
		abort();
}

/* Returns 0, or a refusal with code and message. */
static int taken(int rc)
{
	if (rc < 0) {
		must(err_get()->code == EX_DATAERR && err_get()->text[0]);
		err_clear();
	}
	return rc;
}

static void within(const void *p, uint64_t bytes, const uint8_t *data, size_t size)
{
	const uint8_t *at = p;

	must(at >= data && at <= data + size && bytes <= (uint64_t)(data + size - at));
}

static uint64_t check_value(const struct gguf *g, const struct gguf_value *v)
{
	const unsigned char *at = v->data;
	uint64_t sum = 0, bytes;

	for (uint64_t i = 0; i < v->count && v->kind == GGUF_ARRAY; i++) {
		if (v->item == GGUF_TEXT) {
			gguf_next_text(&at, &bytes);
			sum += bytes;
		} else if (v->item == GGUF_F32 || v->item == GGUF_F64) {
			sum += gguf_item_f64(v, i) > 0;
		} else if (v->item != GGUF_ARRAY) {
			sum += (uint64_t)gguf_item_i64(v, i);
		}
	}
	must(v->item != GGUF_TEXT || v->kind != GGUF_ARRAY || at == v->data + v->bytes);
	must(!memchr(v->key, '\0', (size_t)v->key_bytes));
	char *key = xstrndup(v->key, (size_t)v->key_bytes);
	double x = 0;
	bool yes = false;
	const char *text = NULL;

	must(gguf_find(g, key) == v);
	(void)taken(gguf_get_u64(g, key, UINT64_MAX, &sum));
	(void)taken(gguf_get_f64(g, key, &x));
	(void)taken(gguf_get_bool(g, key, &yes));
	(void)taken(gguf_get_text(g, key, &text, &bytes));
	free(key);
	return sum + yes + (x > 0) + (text != NULL);
}

static void check_tensor(const struct gguf *g, const struct lm_tensor *t)
{
	must(gguf_find_tensor(g, t->name) == t);
	must(t->dims <= GGUF_DIMS_MAX && t->type_name[0]);
	if (lm_type_computes(t->type) && t->count <= 4096) {
		float *x = xmalloc((size_t)t->count * sizeof *x);

		lm_to_f32(x, t->data, t->type, t->count);
		free(x);
	}
}

static void check_model(const struct gguf *g)
{
	struct lm_config c;

	(void)gguf_llama_is_complete(g);
	if (taken(gguf_llama_config(&c, g)) == 0) {
		must(lm_config_check(&c, "fuzz") == 0);
		must(lm_config_params(&c) > 0);
		(void)taken(gguf_llama_rope(&c, g));
	}
	(void)taken(gguf_check_tokenizer(g));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gguf_meta meta = GGUF_META_INIT;
	struct gguf *g = NULL;

	if (taken(gguf_read(&g, data, size, "fuzz")) < 0) {
		must(!g);
		return 0;
	}
	for (uint64_t i = 0; i < gguf_values(g); i++) {
		const struct gguf_value *v = gguf_value_at(g, i);

		within(v->data, v->bytes, data, size);
		within(v->key, v->key_bytes, data, size);
		(void)check_value(g, v);
		gguf_put_value(&meta, v);
	}
	must(meta.count == gguf_values(g) && size >= 24 + meta.bytes.len);
	must(!meta.bytes.len || memcmp(data + 24, meta.bytes.data, meta.bytes.len) == 0);
	for (uint64_t i = 0; i < gguf_tensors(g); i++) {
		within(gguf_tensor_at(g, i)->data, gguf_tensor_at(g, i)->bytes, data,
			size);
		check_tensor(g, gguf_tensor_at(g, i));
	}
	check_model(g);
	gguf_meta_release(&meta);
	gguf_close(g);
	return 0;
}
