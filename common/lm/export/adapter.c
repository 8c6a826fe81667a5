/* adapter.c - PEFT's two files, and the digest of a base. */
#include "common/lm/export/adapter.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/io.h"
#include "common/base/mem.h"
#include "common/json/json.h"
#include "common/lm/model/safetensors.h"

#define PIECE_ELEMENTS ((uint64_t)1 << 18) /* elements at a time, at least a row */

/* --- the base ------------------------------------------------------------------------------ */

/* Adds the rows of a tensor, as many at a time as fit, one by one where their order differs. */
static void digest_tensor(crypto_generichash_state *h, const struct lm_config *c,
	const struct lm_place *p, const struct lm_tensor *t, float *values)
{
	uint64_t columns = p->shape[1], rows = PIECE_ELEMENTS / columns;
	uint64_t row_bytes = t->bytes / p->shape[0];
	bool moved = lm_layout_from_hf(c, p->part, 1) != 1;

	rows = moved || !rows ? 1 : rows;
	for (uint64_t r = 0; r < p->shape[0]; r += rows) {
		uint64_t n = p->shape[0] - r < rows ? p->shape[0] - r : rows;
		uint64_t from = moved ? lm_layout_from_hf(c, p->part, r) : r;

		lm_to_f32(values, (const unsigned char *)t->data + from * row_bytes,
			t->type, n * columns);
		crypto_generichash_update(h, (const unsigned char *)values,
			n * columns * sizeof *values);
	}
}

void lm_base_digest(char out[LM_BASE_BYTES], const struct model_file *f)
{
	unsigned char digest[LM_BASE_BYTES / 2];
	const struct lm_config *c = model_file_config(f);
	crypto_generichash_state h;
	uint64_t most = PIECE_ELEMENTS;
	struct lm_place p;
	float *values;

	for (uint32_t i = 0; i < lm_layout_count(c); i++) {
		lm_layout_at(c, i, &p);
		most = p.shape[1] > most ? p.shape[1] : most;
	}
	values = xmalloc(most * sizeof *values);
	crypto_generichash_init(&h, NULL, 0, sizeof digest);
	for (uint32_t i = 0; i < lm_layout_count(c); i++) {
		lm_layout_at(c, i, &p);
		digest_tensor(&h, c, &p, model_file_tensor(f, i), values);
	}
	crypto_generichash_final(&h, digest, sizeof digest);
	sodium_bin2hex(out, LM_BASE_BYTES, digest, sizeof digest);
	free(values);
}

/* --- the config ---------------------------------------------------------------------------- */

/* Whether all layers have the same matrices adapted. */
static bool is_even(const struct lm_adapter_export *e)
{
	for (uint32_t l = 1; l < e->config.layers; l++)
		if (lm_lora_targets(&e->lora, l) != lm_lora_targets(&e->lora, 0))
			return false;
	return true;
}

/* The names of the matrices: their last words if all layers are alike, else whole. */
static json_t *targets(const struct lm_adapter_export *e)
{
	uint32_t layers = is_even(e) ? 1 : e->config.layers;
	json_t *list = json_array();

	for (uint32_t l = 0; l < layers; l++)
		for (unsigned bits = lm_lora_targets(&e->lora, l); bits;
			bits &= bits - 1) {
			char name[LM_NAME_BYTES_MAX];
			const char *text = name;

			lm_lora_name(name, &e->config,
				(enum lm_adapted)__builtin_ctz(bits), l);
			if (layers == 1)
				text = strrchr(name, '.') + 1;
			json_array_append_new(list, json_string(text));
		}
	return list;
}

static json_t *config_of(const struct lm_adapter_export *e)
{
	json_t *o = json_object();

	json_set_text(o, "peft_type", "LORA");
	json_set_text(o, "task_type", "CAUSAL_LM");
	if (e->base_name)
		json_set_text(o, "base_model_name_or_path", e->base_name);
	json_set_text(o, "rnp_base", e->base);
	json_set_i64(o, "r", e->lora.rank);
	if (e->lora.alpha == (double)(int64_t)e->lora.alpha)
		json_set_i64(o, "lora_alpha", (int64_t)e->lora.alpha);
	else
		json_set_f64(o, "lora_alpha", e->lora.alpha);
	json_set_bool(o, "use_rslora", e->lora.rslora);
	json_set_i64(o, "lora_dropout", 0);
	json_set_text(o, "bias", "none");
	json_set(o, "target_modules", targets(e));
	json_set_bool(o, "inference_mode", true);
	return o;
}

/* --- files --------------------------------------------------------------------------------- */

/* Writes the rows of a factor in Hugging Face's order. */
static int fill(void *ctx, uint64_t i, struct io_part *out)
{
	const struct lm_adapter_export *e = ctx;
	struct lm_learned t;
	float *values;
	int rc;

	lm_learned_at(&e->config, &e->lora, (uint32_t)i, &t);
	values = xmalloc(t.place.count * sizeof *values);
	rc = e->read(e->ctx, (uint32_t)i, values);
	for (uint64_t r = 0; rc == 0 && r < t.place.shape[0]; r++) {
		uint64_t from = t.factor == LM_FACTOR_A ?
			r :
			lm_layout_from_hf(&e->config, t.place.part, r);

		rc = io_part_write(out, values + from * t.place.shape[1],
			t.place.shape[1] * sizeof *values);
	}
	free(values);
	return rc;
}

static int write_tensors(const char *dir, const struct lm_adapter_export *e)
{
	uint32_t n = lm_learned_count(&e->config, &e->lora);
	struct lm_tensor *tensors = xcalloc(n, sizeof *tensors);
	json_t *metadata = json_object();
	struct buf path = BUF_INIT;
	int rc;

	json_set_text(metadata, "format", "pt");
	for (uint32_t i = 0; i < n; i++) {
		struct lm_learned t;

		lm_learned_at(&e->config, &e->lora, i, &t);
		lm_learned_name(tensors[i].name, &t);
		tensors[i].type = LM_F32;
		tensors[i].dims = 2;
		memcpy(tensors[i].shape, t.place.shape, sizeof t.place.shape);
		tensors[i].count = t.place.count;
	}
	buf_addf(&path, "%s/adapter_model.safetensors", dir);
	rc = safetensors_write(buf_text(&path), tensors, n, metadata, fill, (void *)e);
	buf_release(&path);
	json_decref(metadata);
	free(tensors);
	return rc;
}

int lm_export_adapter(const char *dir, const struct lm_adapter_export *e)
{
	struct buf path = BUF_INIT, text = BUF_INIT;
	json_t *config;
	int rc = io_make_dirs(dir, 0777);

	if (rc == 0)
		rc = write_tensors(dir, e);
	if (rc == 0) {
		config = config_of(e);
		json_write(&text, config);
		buf_adds(&text, "\n");
		json_decref(config);
		buf_addf(&path, "%s/adapter_config.json", dir);
		rc = io_replace(buf_text(&path), buf_text(&text), text.len, 0644);
	}
	buf_release(&path);
	buf_release(&text);
	return rc;
}
