/* checkpoint.c - the contents of a checkpoint file, its metadata, and the checks when it is
 * read. */
#include "common/lm/train/checkpoint.h"

#include <inttypes.h>
#include <math.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json/canon.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/json/json.h"
#include "common/lm/model/safetensors.h"
#include "common/base/mem.h"
#include "common/base/num.h"

#define FORMAT "rnp-checkpoint-1"
/* steps of AdamW; absent: those of the schedule */
#define OPTIMISER_STEPS "optimiser_steps"

static const struct {
	enum lm_state what;
	const char *prefix;
} states[] = {
	{ LM_STATE_PARAMETER, "" },
	{ LM_STATE_M, "adamw.m." },
	{ LM_STATE_V, "adamw.v." },
};
#define STATES (sizeof states / sizeof *states)

/* Tensor i of a checkpoint: first all parameters, then all of m, then all of v. */
static void describe(struct lm_tensor *out, const struct lm_train *t, uint64_t i)
{
	uint32_t n = lm_train_tensors(t);
	const char *prefix = states[i / n].prefix;
	char name[LM_NAME_BYTES_MAX];
	struct lm_learned p;

	lm_train_tensor(t, (uint32_t)(i % n), &p);
	lm_learned_name(name, &p);
	memset(out, 0, sizeof *out);
	snprintf(out->name, sizeof out->name, "%s%.150s", prefix, name);
	out->type = LM_F32;
	out->dims = p.place.dims;
	memcpy(out->shape, p.place.shape, sizeof p.place.shape);
	out->count = p.place.count;
}

/* --- the numbers ---------------------------------------------------------------------------- */

static void set_number(json_t *o, const char *key, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof text, "%" PRIu64, value);
	json_set_text(o, key, text);
}

/* The properties of a model that decide its results but do not show in the shapes of its
 * tensors. */
#define MODEL_PREFIX "model."
static const char *const model_names[] = { "num_attention_heads", "num_key_value_heads",
	"head_dim", "sliding_window", "rms_norm_eps", "rope_theta", "rope_type",
	"rope_interleaved", "rope_factor", "rope_original_context",
	"rope_low_freq_factor", "rope_high_freq_factor" };
#define MODEL_NUMBERS (sizeof model_names / sizeof *model_names)

static void model_numbers(double out[MODEL_NUMBERS], const struct lm_config *c)
{
	const struct lm_rope *r = &c->rope;
	bool llama3 = r->kind == LM_ROPE_LLAMA3;
	const double all[MODEL_NUMBERS] = { c->heads, c->kv_heads, c->head_dim, c->window,
		c->rms_eps, r->base, r->kind, r->interleaved,
		r->kind == LM_ROPE_PLAIN ? 1 : r->factor,
		llama3 || r->kind == LM_ROPE_NTK ? r->original_context : 0,
		llama3 ? r->low_freq_factor : 0, llama3 ? r->high_freq_factor : 0 };

	memcpy(out, all, sizeof all);
}

static void set_model(json_t *o, const struct lm_config *c)
{
	struct buf key = BUF_INIT, text = BUF_INIT;
	double numbers[MODEL_NUMBERS];

	model_numbers(numbers, c);
	for (size_t i = 0; i < MODEL_NUMBERS; i++) {
		buf_reset(&key);
		buf_reset(&text);
		buf_addf(&key, MODEL_PREFIX "%s", model_names[i]);
		canon_number(&text, numbers[i]);
		json_set_text(o, key.data, text.data);
	}
	buf_release(&key);
	buf_release(&text);
}

/* Checkpoints older than these entries lack them. A model that came from another file format
 * holds its numbers as f32. */
static int check_model(const json_t *o, const struct lm_config *c, const char *path)
{
	struct buf key = BUF_INIT;
	double numbers[MODEL_NUMBERS], was;
	int rc = 0;

	model_numbers(numbers, c);
	for (size_t i = 0; rc == 0 && i < MODEL_NUMBERS; i++) {
		const char *text;

		buf_reset(&key);
		buf_addf(&key, MODEL_PREFIX "%s", model_names[i]);
		text = json_string_value(json_object_get(o, key.data));
		if (!text)
			continue;
		if (num_f64(text, key.data, &was) < 0)
			rc = err_add("%s", path);
		else if ((float)was != (float)numbers[i])
			rc = err_set(EX_DATAERR,
				"%s: a checkpoint of another model: its %s is %.9g, not %.9g",
				path, model_names[i], was, numbers[i]);
	}
	buf_release(&key);
	return rc;
}

static json_t *numbers(const struct lm_progress *at, const struct lm_config *c)
{
	char hex[2 * sizeof at->data + 1];
	json_t *o = json_object();

	set_model(o, c);
	json_set_text(o, "format", FORMAT);
	set_number(o, "steps", at->steps);
	set_number(o, "sequences", at->sequences);
	set_number(o, "tokens", at->tokens);
	set_number(o, "seed", at->seed);
	set_number(o, "length", at->length);
	sodium_bin2hex(hex, sizeof hex, at->data, sizeof at->data);
	json_set_text(o, "data", hex);
	return o;
}

static int get_number(const json_t *o, const char *key, const char *path, uint64_t *out)
{
	const char *text = json_string_value(json_object_get(o, key));

	if (!text)
		return err_set(EX_DATAERR, "%s: the metadata has no '%s'", path, key);
	return num_u64(text, key, out) < 0 ? err_add("%s", path) : 0;
}

static int read_numbers(const struct safetensors *s, const char *path,
	struct lm_progress *at)
{
	const json_t *o = safetensors_metadata(s);
	const char *format = json_string_value(json_object_get(o, "format"));
	const char *data = json_string_value(json_object_get(o, "data"));
	uint64_t length;
	size_t bytes;

	if (!format || strcmp(format, FORMAT) != 0)
		return err_set(EX_DATAERR, "%s: no checkpoint of ours", path);
	if (get_number(o, "steps", path, &at->steps) < 0 ||
		get_number(o, "sequences", path, &at->sequences) < 0 ||
		get_number(o, "tokens", path, &at->tokens) < 0 ||
		get_number(o, "seed", path, &at->seed) < 0 ||
		get_number(o, "length", path, &length) < 0)
		return -1;
	if (length < 1 || length > LM_CONTEXT_MAX)
		return err_set(EX_DATAERR, "%s: sequences of %" PRIu64 " tokens", path,
			length);
	at->length = (uint32_t)length;
	if (!data ||
		sodium_hex2bin(at->data, sizeof at->data, data, strlen(data), NULL,
			&bytes, NULL) < 0 ||
		bytes != sizeof at->data)
		return err_set(EX_DATAERR, "%s: the metadata has no digest of the data",
			path);
	return 0;
}

/* --- files ----------------------------------------------------------------------------------- */

static int fill(void *ctx, uint64_t i, struct io_part *out)
{
	struct lm_train *t = ctx;
	uint32_t n = lm_train_tensors(t);
	struct lm_learned p;
	float *values;
	int rc;

	lm_train_tensor(t, (uint32_t)(i % n), &p);
	values = xmalloc(p.place.count * sizeof *values);
	rc = lm_train_get(t, states[i / n].what, (uint32_t)(i % n), values);
	if (rc == 0)
		rc = io_part_write(out, values, p.place.count * sizeof *values);
	free(values);
	return rc;
}

int lm_checkpoint_save(const char *path, struct lm_train *t, const struct lm_progress *at,
	const json_t *more)
{
	const struct lm_config *c = lm_train_config(t);
	uint64_t n = STATES * (uint64_t)lm_train_tensors(t);
	struct lm_tensor *tensors = xcalloc(n, sizeof *tensors);
	json_t *metadata = numbers(at, c);
	int rc;

	if (lm_train_steps(t) != at->steps)
		set_number(metadata, OPTIMISER_STEPS, lm_train_steps(t));

	for (uint64_t i = 0; i < n; i++)
		describe(&tensors[i], t, i);
	if (more)
		json_object_update_missing(metadata, (json_t *)more);
	rc = safetensors_write(path, tensors, n, metadata, fill, t);
	json_decref(metadata);
	free(tensors);
	return rc;
}

/* Training from such numbers would fail at its first step, or worse later. AdamW takes the
 * square root of v. */
static int check_values(const float *values, uint64_t n, enum lm_state what,
	const char *path, const char *name)
{
	float min = what == LM_STATE_V ? 0 : -INFINITY;

	for (uint64_t i = 0; i < n; i++)
		if (!isfinite(values[i]) || values[i] < min)
			return err_set(EX_DATAERR,
				"%s: tensor '%s' has a value that is %s", path, name,
				isfinite(values[i]) ? "negative" : "not finite");
	return 0;
}

static int load_tensor(const struct safetensors *s, const char *path, struct lm_train *t,
	uint64_t i)
{
	uint32_t n = lm_train_tensors(t);
	const struct lm_tensor *found;
	struct lm_tensor want;
	float *values;
	int rc;

	describe(&want, t, i);
	found = safetensors_find(s, want.name);
	if (!found || found->type != LM_F32 || found->dims != want.dims ||
		memcmp(found->shape, want.shape, want.dims * sizeof *want.shape) != 0)
		return err_set(EX_DATAERR,
			"%s: tensor '%s' is %s: a checkpoint of another model", path,
			want.name, found ? "of another shape" : "missing");
	/* data in a file need not be aligned */
	values = xmalloc(want.count * sizeof *values);
	memcpy(values, found->data, want.count * sizeof *values);
	rc = check_values(values, want.count, states[i / n].what, path, want.name);
	if (rc == 0)
		rc = lm_train_put(t, states[i / n].what, (uint32_t)(i % n), values);
	free(values);
	return rc;
}

/* Reads the number of steps that AdamW has made. */
static int read_optimiser_steps(const struct safetensors *s, const char *path,
	uint64_t *steps)
{
	const json_t *o = safetensors_metadata(s);

	if (!json_object_get(o, OPTIMISER_STEPS))
		return 0;
	return get_number(o, OPTIMISER_STEPS, path, steps);
}

int lm_checkpoint_load(const char *path, struct lm_train *t, struct lm_progress *at)
{
	struct safetensors *s;
	uint64_t optimiser_steps = 0;
	uint64_t n = STATES * (uint64_t)lm_train_tensors(t);
	int rc = safetensors_open(&s, path);

	if (rc == 0)
		rc = read_numbers(s, path, at);
	if (rc == 0 && safetensors_count(s) != n)
		rc = err_set(EX_DATAERR,
			"%s: %" PRIu64 " tensors instead of %" PRIu64
			": a checkpoint of another model",
			path, safetensors_count(s), n);
	if (rc == 0)
		rc = check_model(safetensors_metadata(s), lm_train_config(t), path);
	if (rc == 0) {
		optimiser_steps = at->steps;
		rc = read_optimiser_steps(s, path, &optimiser_steps);
	}
	for (uint64_t i = 0; rc == 0 && i < n; i++)
		rc = load_tensor(s, path, t, i);
	if (rc == 0)
		lm_train_set_steps(t, optimiser_steps);
	safetensors_close(s);
	return rc;
}

int lm_train_load(struct lm_train *t, const struct model_file *s)
{
	uint32_t n = lm_layout_count(model_file_config(s));
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < n; i++) {
		const struct lm_tensor *from = model_file_tensor(s, i);
		float *values = xmalloc(from->count * sizeof *values);

		lm_to_f32(values, from->data, from->type, from->count);
		rc = lm_train_frozen(t) ? lm_train_put_base(t, i, values) :
					  lm_train_put(t, LM_STATE_PARAMETER, i, values);
		free(values);
	}
	return rc;
}

int lm_checkpoint_peek(const char *path, struct lm_progress *at, json_t **texts)
{
	struct safetensors *s;
	int rc = safetensors_open(&s, path);

	if (rc == 0)
		rc = read_numbers(s, path, at);
	*texts = rc == 0 ? json_copy((json_t *)safetensors_metadata(s)) : NULL;
	safetensors_close(s);
	return rc;
}
