/* adapter.c - reads PEFT's adapters, and puts their matrices on the device. */
#include "common/lm/infer/adapter.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/mem.h"
#include "common/hw/device.h"
#include "common/json/json.h"
#include "common/lm/model/layout.h"
#include "common/lm/model/safetensors.h"

#define CONFIG_BYTES_MAX ((size_t)1 << 20)
#define PREFIX           "base_model.model."

struct lm_adapter {
	struct dev *d;
	struct lm_delta *deltas; /* [layers][LM_ADAPTED] */
	void **owned;            /* device memory */
	size_t owned_count, owned_cap;
	uint32_t rank;
	uint64_t bytes;
};

/* An adapter while it is read. */
struct reading {
	const struct lm_config *c;
	const char *where;
	int64_t rank;
	float scale;
};

/* --- the config --------------------------------------------------------------------------- */

/* Whether a field says anything but "no". */
static bool is_set(const json_t *config, const char *key)
{
	const json_t *v = json_object_get(config, key);

	switch (v ? json_typeof(v) : JSON_NULL) {
	case JSON_NULL:
	case JSON_FALSE:
		return false;
	case JSON_ARRAY:
		return json_array_size(v) > 0;
	case JSON_OBJECT:
		return json_object_size(v) > 0;
	case JSON_STRING:
		return strcmp(json_string_value(v), "none") != 0;
	default:
		return true;
	}
}

static int read_config(struct reading *r, const json_t *config)
{
	static const char *const unsupported[] = { "use_dora", "bias", "lora_bias",
		"fan_in_fan_out", "rank_pattern", "alpha_pattern", "modules_to_save",
		"trainable_token_indices", "layer_replication", "use_qalora",
		"eva_config", "alora_invocation_tokens", "arrow_config",
		"target_parameters" };
	const char *type = NULL;
	double alpha = 0;

	if (json_get_text(config, r->where, "peft_type", &type) < 0)
		return -1;
	if (strcmp(type, "LORA") != 0)
		return err_set(EX_DATAERR, "%s: peft_type is '%.40s', not LORA", r->where,
			type);
	for (size_t i = 0; i < sizeof unsupported / sizeof *unsupported; i++)
		if (is_set(config, unsupported[i]))
			return err_set(EX_DATAERR, "%s: '%s' is not supported", r->where,
				unsupported[i]);
	if (json_get_i64(config, r->where, "r", 1, LM_LORA_RANK_MAX, &r->rank) < 0 ||
		json_get_f64(config, r->where, "lora_alpha", &alpha) < 0)
		return -1;
	r->scale = (float)(alpha /
		(is_set(config, "use_rslora") ? sqrt((double)r->rank) : (double)r->rank));
	if (!isfinite(r->scale))
		return err_set(EX_DATAERR, "%s: lora_alpha: not a usable number",
			r->where);
	return 0;
}

/* --- tensors ------------------------------------------------------------------------------ */

/* Where the rows of a matrix of the file belong: a fused one is several of ours. */
struct part {
	enum lm_adapted which;
	uint64_t rows;
};

static uint32_t parts_of(const struct lm_config *c, enum lm_part part, struct part out[3])
{
	uint64_t q = (uint64_t)c->heads * c->head_dim,
		 kv = (uint64_t)c->kv_heads * c->head_dim;

	switch (part) {
	case LM_Q:
		out[0] = (struct part){ LM_ADAPTED_Q, q };
		return 1;
	case LM_K:
		out[0] = (struct part){ LM_ADAPTED_K, kv };
		return 1;
	case LM_V:
		out[0] = (struct part){ LM_ADAPTED_V, kv };
		return 1;
	case LM_QKV:
		out[0] = (struct part){ LM_ADAPTED_Q, q };
		out[1] = (struct part){ LM_ADAPTED_K, kv };
		out[2] = (struct part){ LM_ADAPTED_V, kv };
		return 3;
	case LM_O:
		out[0] = (struct part){ LM_ADAPTED_O, c->dim };
		return 1;
	case LM_GATE:
		out[0] = (struct part){ LM_ADAPTED_GATE, c->hidden };
		return 1;
	case LM_UP:
		out[0] = (struct part){ LM_ADAPTED_UP, c->hidden };
		return 1;
	case LM_GATE_UP:
		out[0] = (struct part){ LM_ADAPTED_GATE, c->hidden };
		out[1] = (struct part){ LM_ADAPTED_UP, c->hidden };
		return 2;
	case LM_DOWN:
		out[0] = (struct part){ LM_ADAPTED_DOWN, c->dim };
		return 1;
	default:
		return 0;
	}
}

/* Finds A or B of a place: PEFT calls it like the place's matrix, between a prefix and the role.
 * Returns NULL if there is none. */
static const struct lm_tensor *find(const struct safetensors *file,
	const struct lm_place *place, const char *role)
{
	char hf[LM_NAME_BYTES_MAX], *end;
	struct buf name = BUF_INIT;
	const struct lm_tensor *t;

	lm_layout_hf_name(hf, place);
	end = strstr(hf, ".weight");
	if (end)
		*end = '\0';
	buf_addf(&name, PREFIX "%s.%s.weight", hf, role);
	t = safetensors_find(file, buf_text(&name));
	buf_release(&name);
	return t;
}

static int check(const struct reading *r, const struct lm_tensor *t, uint64_t rows,
	uint64_t columns)
{
	if (t->dims != 2 || t->shape[0] != rows || t->shape[1] != columns)
		return err_set(EX_DATAERR,
			"%s: tensor '%s' is not [%" PRIu64 ", %" PRIu64 "]", r->where,
			t->name, rows, columns);
	if (t->type != LM_F32 && t->type != LM_F16 && t->type != LM_BF16)
		return err_set(EX_DATAERR, "%s: tensor '%s' is of type %s", r->where,
			t->name, t->type_name);
	return 0;
}

static const float *keep(struct lm_adapter *a, const float *values, uint64_t count)
{
	const struct dev_ops *ops = a->d->ops;
	void *p = NULL;

	if (ops->alloc(a->d, &p, count * sizeof *values) < 0)
		return NULL;
	a->owned = xgrow(a->owned, &a->owned_cap, a->owned_count + 1, sizeof *a->owned);
	a->owned[a->owned_count++] = p;
	a->bytes += count * sizeof *values;
	return ops->put(a->d, p, values, count * sizeof *values) < 0 ? NULL : p;
}

static int read_values(const struct reading *r, const struct lm_tensor *t, float *values)
{
	lm_to_f32(values, t->data, t->type, t->count);
	for (uint64_t i = 0; i < t->count; i++)
		if (!isfinite(values[i]))
			return err_set(EX_DATAERR,
				"%s: tensor '%s' has a number that is not finite",
				r->where, t->name);
	return 0;
}

/* Loads one B, scaled: its rows for each of our matrices, in our order. */
static int take_outputs(struct lm_adapter *a, const struct reading *r,
	const struct lm_place *place, const float *values, const float *inputs)
{
	struct lm_delta *layer = a->deltas + (uint64_t)place->layer * LM_ADAPTED;
	uint64_t rank = (uint64_t)r->rank;
	struct part parts[3];
	uint32_t n = parts_of(r->c, place->part, parts);
	float *rows = xmalloc(place->shape[0] * rank * sizeof *rows);
	int rc = 0;

	for (uint32_t i = 0; i < n && rc == 0; values += parts[i++].rows * rank) {
		struct lm_delta *to = &layer[parts[i].which];

		for (uint64_t row = 0; row < parts[i].rows; row++) {
			uint64_t ours = lm_layout_from_hf(r->c,
				lm_lora_part(parts[i].which), row);

			for (uint64_t k = 0; k < rank; k++)
				rows[ours * rank + k] = r->scale * values[row * rank + k];
		}
		*to = (struct lm_delta){ .a = inputs,
			.b = keep(a, rows, parts[i].rows * rank),
			.rank = (uint32_t)rank };
		if (!to->b)
			rc = device_failed(a->d);
	}
	free(rows);
	return rc;
}

/* Loads the pair of one matrix. Returns how many tensors it has in the file, 0 or 2, or -1. */
static int take_place(struct lm_adapter *a, const struct reading *r,
	const struct safetensors *file, const struct lm_place *place)
{
	const struct lm_tensor *in = find(file, place, "lora_A");
	const struct lm_tensor *out = find(file, place, "lora_B");
	uint64_t rank = (uint64_t)r->rank;
	const float *inputs = NULL;
	float *values;
	int rc = -1;

	if (!in && !out)
		return 0;
	if (!in || !out)
		return err_set(EX_DATAERR, "%s: tensor '%s' has no partner", r->where,
			(in ? in : out)->name);
	if (check(r, in, rank, place->shape[1]) < 0 ||
		check(r, out, place->shape[0], rank) < 0)
		return -1;
	values = xmalloc(
		(in->count > out->count ? in->count : out->count) * sizeof *values);
	if (read_values(r, in, values) == 0) {
		inputs = keep(a, values, in->count);
		if (!inputs)
			rc = device_failed(a->d);
		else if (read_values(r, out, values) == 0)
			rc = take_outputs(a, r, place, values, inputs);
	}
	free(values);
	return rc < 0 ? -1 : 2;
}

/* Names a tensor that belongs to none of the model's matrices. */
static int refuse_others(const struct reading *r, const struct safetensors *file)
{
	for (uint64_t i = 0; i < safetensors_count(file); i++) {
		const struct lm_tensor *t = safetensors_at(file, i);
		bool known = false;

		for (uint32_t k = 0; k < lm_layout_count(r->c) && !known; k++) {
			struct lm_place place;
			struct part parts[3];

			lm_layout_at(r->c, k, &place);
			known = parts_of(r->c, place.part, parts) &&
				(find(file, &place, "lora_A") == t ||
					find(file, &place, "lora_B") == t);
		}
		if (!known)
			return err_set(EX_DATAERR,
				"%s: tensor '%s' belongs to no matrix of this model that can be "
				"adapted",
				r->where, t->name);
	}
	return 0;
}

static int take(struct lm_adapter *a, const struct reading *r,
	const struct safetensors *file)
{
	uint64_t used = 0;

	for (uint32_t i = 0; i < lm_layout_count(r->c); i++) {
		struct lm_place place;
		struct part parts[3];
		int n;

		lm_layout_at(r->c, i, &place);
		n = parts_of(r->c, place.part, parts) ? take_place(a, r, file, &place) :
							0;
		if (n < 0)
			return -1;
		used += (uint64_t)n;
	}
	if (used != safetensors_count(file))
		return refuse_others(r, file);
	if (!used)
		return err_set(EX_DATAERR, "%s: it adapts nothing", r->where);
	a->rank = (uint32_t)r->rank;
	return 0;
}

/* --- open and close ----------------------------------------------------------------------- */

static int make(struct lm_adapter **out, struct dev *d, const struct lm_config *c,
	const json_t *config, const struct safetensors *file, const char *where)
{
	struct reading r = { .c = c, .where = where };
	struct lm_adapter *a;

	if (read_config(&r, config) < 0)
		return -1;
	a = xcalloc(1, sizeof *a);
	a->d = d;
	a->deltas = xcalloc((size_t)c->layers * LM_ADAPTED, sizeof *a->deltas);
	if (take(a, &r, file) < 0) {
		lm_adapter_close(a);
		return -1;
	}
	*out = a;
	return 0;
}

int lm_adapter_read(struct lm_adapter **out, struct dev *d, const struct lm_config *c,
	const char *config, size_t config_bytes, const void *tensors,
	uint64_t tensors_bytes, const char *where)
{
	json_t *json = json_parse_object(config, config_bytes, where);
	struct safetensors *file = NULL;
	int rc = -1;

	*out = NULL;
	if (json && safetensors_read(&file, tensors, tensors_bytes, where) == 0)
		rc = make(out, d, c, json, file, where);
	safetensors_close(file);
	json_decref(json);
	return rc;
}

int lm_adapter_open(struct lm_adapter **out, struct dev *d, const struct lm_config *c,
	const char *dir)
{
	struct buf config = BUF_INIT, tensors = BUF_INIT, text = BUF_INIT;
	struct safetensors *file = NULL;
	json_t *json = NULL;
	int rc = -1;

	*out = NULL;
	buf_addf(&config, "%s/adapter_config.json", dir);
	buf_addf(&tensors, "%s/adapter_model.safetensors", dir);
	if (io_read(&text, buf_text(&config), CONFIG_BYTES_MAX) < 0)
		goto out;
	json = json_parse_object(buf_text(&text), text.len, buf_text(&config));
	if (json && safetensors_open(&file, buf_text(&tensors)) == 0)
		rc = make(out, d, c, json, file, dir);
out:
	safetensors_close(file);
	json_decref(json);
	buf_release(&config);
	buf_release(&tensors);
	buf_release(&text);
	return rc;
}

void lm_adapter_close(struct lm_adapter *a)
{
	if (!a)
		return;
	while (a->owned_count)
		a->d->ops->free(a->d, a->owned[--a->owned_count]);
	free(a->owned);
	free(a->deltas);
	free(a);
}

const struct lm_delta *lm_adapter_at(const struct lm_adapter *a, uint32_t layer,
	enum lm_adapted which)
{
	return &a->deltas[(uint64_t)layer * LM_ADAPTED + which];
}

uint32_t lm_adapter_rank(const struct lm_adapter *a)
{
	return a->rank;
}

uint64_t lm_adapter_bytes(const struct lm_adapter *a)
{
	return a->bytes;
}
