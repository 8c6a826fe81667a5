/* inspect.c - rnp-serve inspect: prints metadata and tensors of a model file, after checking it
 * against its format. */
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/rnp-serve/commands.h"
#include "common/base/err.h"
#include "common/json/json.h"
#include "common/lm/model/gguf_llama.h"
#include "common/lm/model/model_file.h"
#include "common/lm/model/safetensors.h"
#include "common/base/mem.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"

/* items of an array that are printed; of longer arrays, only the number */
#define ITEMS_SHOWN 16
#define TEXT_SHOWN  65536

/* --- values ------------------------------------------------------------------------------- */

/* Returns a text of any bytes as JSON: NUL, which our JSON never contains, and invalid UTF-8
 * become U+FFFD. */
static json_t *text_value(const void *data, uint64_t bytes)
{
	char *text = xstrndup(data, (size_t)bytes);
	json_t *holder = json_object(), *v;

	for (uint64_t i = 0; i < bytes; i++)
		if (!text[i])
			text[i] = '\xff';
	json_set_text(holder, "text", text);
	v = json_incref(json_object_get(holder, "text"));
	json_decref(holder);
	free(text);
	return v;
}

static json_t *whole_value(int64_t n, bool is_unsigned)
{
	char text[24];

	if (is_unsigned ? (uint64_t)n <= JSON_SAFE_INTEGER_MAX :
			  n <= JSON_SAFE_INTEGER_MAX && n >= -JSON_SAFE_INTEGER_MAX)
		return json_integer(n);
	if (is_unsigned)
		snprintf(text, sizeof text, "%" PRIu64, (uint64_t)n);
	else
		snprintf(text, sizeof text, "%" PRId64, n);
	return json_string(text);
}

/* Returns the shortest decimal that reads back as the same f32: 1e-05, not
 * 9.999999747378752e-06. NULL: JSON cannot represent it. */
static json_t *real_value(double x, bool single)
{
	char text[40];

	if (!isfinite(x))
		return NULL;
	for (int digits = 1; single && digits <= 9; digits++) {
		snprintf(text, sizeof text, "%.*g", digits, x);
		if (strtof(text, NULL) == (float)x)
			return json_real(strtod(text, NULL));
	}
	return json_real(x);
}

static json_t *item_value(const struct gguf_value *v, uint64_t i)
{
	if (v->item == GGUF_BOOL)
		return json_boolean(gguf_item_i64(v, i));
	if (v->item == GGUF_F32 || v->item == GGUF_F64)
		return real_value(gguf_item_f64(v, i), v->item == GGUF_F32);
	return whole_value(gguf_item_i64(v, i), v->item == GGUF_U64);
}

/* Returns the items of a short array; NULL: it is long, an array of arrays, or has values that
 * JSON cannot represent. */
static json_t *array_value(const struct gguf_value *v)
{
	json_t *items = json_array();
	const unsigned char *at = v->data;

	if (v->count > ITEMS_SHOWN || v->item == GGUF_ARRAY || v->bytes > TEXT_SHOWN)
		goto none;
	for (uint64_t i = 0; i < v->count; i++) {
		uint64_t bytes;
		const char *text = v->item == GGUF_TEXT ? gguf_next_text(&at, &bytes) :
							  NULL;
		json_t *item = text ? text_value(text, bytes) : item_value(v, i);

		if (!item)
			goto none;
		json_push(items, item);
	}
	return items;
none:
	json_decref(items);
	return NULL;
}

/* Converts a single number as an array of one item. */
static json_t *number_value(const struct gguf_value *v)
{
	struct gguf_value one = *v;

	one.item = v->kind;
	return item_value(&one, 0);
}

static void set_unknown(json_t *record, const char *why)
{
	json_t *unknown = json_object();

	json_set_text(unknown, "value", why);
	json_set(record, "unknown", unknown);
}

static json_t *metadata_record(const struct gguf_value *v)
{
	json_t *record = json_record("rnp.metadata"), *value;

	json_set(record, "name", text_value(v->key, v->key_bytes));
	json_set_text(record, "type", gguf_kind_name(v->kind));
	if (v->kind == GGUF_ARRAY) {
		json_set_text(record, "items", gguf_kind_name(v->item));
		json_set_i64(record, "count", (int64_t)v->count);
		value = array_value(v);
	} else if (v->kind == GGUF_TEXT) {
		value = v->bytes <= TEXT_SHOWN ? text_value(v->data, v->bytes) : NULL;
	} else {
		value = number_value(v);
	}
	json_set_i64(record, "bytes", (int64_t)v->bytes);
	if (value)
		json_set(record, "value", value);
	else
		set_unknown(record,
			v->kind == GGUF_ARRAY ? "a long array, or not of finite numbers" :
				v->kind == GGUF_TEXT ? "a long text" :
						       "not a finite number");
	return record;
}

/* --- records ------------------------------------------------------------------------------ */

static int put(json_t *takes_record)
{
	int rc = out_record(takes_record);

	json_decref(takes_record);
	return rc;
}

static json_t *tensor_record(const struct lm_tensor *t)
{
	json_t *record = json_record("rnp.tensor"), *shape = json_array();

	json_set_text(record, "name", t->name);
	json_set_text(record, "type", t->type_name);
	for (uint32_t d = 0; d < t->dims; d++)
		json_push(shape, whole_value((int64_t)t->shape[d], true));
	json_set(record, "shape", shape);
	json_set_i64(record, "bytes", (int64_t)t->bytes);
	return record;
}

/* Adds the reason why a valid file cannot be run, if there is one. */
static void set_unusable(json_t *record, const char *path)
{
	struct model_file *model = NULL;
	size_t n = strlen(path);
	const char *why;

	if (model_file_open(&model, path) < 0) {
		why = err_get()->text;
		/* the record has the path already, as its name */
		if (strncmp(why, path, n) == 0 && strncmp(why + n, ": ", 2) == 0)
			why += n + 2;
		json_set_text(record, "unusable", why);
		err_clear();
	}
	model_file_close(model);
}

/* Checks those numbers and tokenizer keys of a Llama that are present. Other architectures have
 * their own rules. */
static int check_llama(const struct gguf *g)
{
	struct lm_config c;

	if (!gguf_is_architecture(g, "llama"))
		return 0;
	for (uint64_t i = 0; i < gguf_values(g); i++) {
		const struct gguf_value *v = gguf_value_at(g, i);
		struct gguf_value one = *v;

		one.item = v->kind;
		if ((v->kind == GGUF_F32 || v->kind == GGUF_F64) &&
			!isfinite(gguf_item_f64(&one, 0)))
			return err_set(EX_DATAERR, "%s: key '%.*s' is not finite",
				gguf_where(g), (int)v->key_bytes, v->key);
	}
	if (gguf_llama_is_complete(g) && gguf_llama_config(&c, g) < 0)
		return -1;
	return gguf_check_tokenizer(g);
}

static int show_gguf(const char *path)
{
	json_t *record = json_record("rnp.model");
	struct gguf *g = NULL;
	const struct gguf_value *v;
	uint64_t parameters = 0;
	int rc = gguf_open(&g, path);

	if (rc == 0)
		rc = check_llama(g);
	if (rc < 0)
		goto out;
	v = gguf_find(g, "general.architecture");
	for (uint64_t i = 0; i < gguf_tensors(g); i++)
		parameters += gguf_tensor_at(g, i)->count;
	json_set_text(record, "name", path);
	json_set_text(record, "format", "gguf");
	json_set_i64(record, "version", gguf_version(g));
	if (v && v->kind == GGUF_TEXT)
		json_set(record, "architecture", text_value(v->data, v->bytes));
	json_set_i64(record, "alignment", gguf_alignment(g));
	json_set_i64(record, "metadata", (int64_t)gguf_values(g));
	json_set_i64(record, "tensors", (int64_t)gguf_tensors(g));
	json_set_i64(record, "parameters", (int64_t)parameters);
	json_set_i64(record, "bytes", (int64_t)gguf_bytes(g));
	set_unusable(record, path);
	rc = out_record(record);
	for (uint64_t i = 0; rc == 0 && i < gguf_values(g); i++)
		rc = put(metadata_record(gguf_value_at(g, i)));
	for (uint64_t i = 0; rc == 0 && i < gguf_tensors(g); i++)
		rc = put(tensor_record(gguf_tensor_at(g, i)));
out:
	json_decref(record);
	gguf_close(g);
	return rc;
}

static int show_metadata(const json_t *metadata)
{
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)metadata, key, v) {
		json_t *record = json_record("rnp.metadata");

		json_set_text(record, "name", key);
		json_set_text(record, "type", "text");
		json_set_i64(record, "bytes", (int64_t)json_string_length(v));
		if (json_string_length(v) <= TEXT_SHOWN)
			json_set(record, "value", json_incref(v));
		else
			set_unknown(record, "a long text");
		if (put(record) < 0)
			return -1;
	}
	return 0;
}

static int show_safetensors(const char *path, bool directory)
{
	json_t *record = json_record("rnp.model");
	struct safetensors *s = NULL;
	uint64_t parameters = 0;
	int rc = directory ? safetensors_open_model(&s, path) :
			     safetensors_open(&s, path);

	if (rc < 0)
		goto out;
	for (uint64_t i = 0; i < safetensors_count(s); i++)
		parameters += safetensors_at(s, i)->count;
	json_set_text(record, "name", path);
	json_set_text(record, "format", "safetensors");
	json_set_i64(record, "shards", safetensors_shards(s));
	json_set_i64(record, "metadata",
		(int64_t)json_object_size(safetensors_metadata(s)));
	json_set_i64(record, "tensors", (int64_t)safetensors_count(s));
	json_set_i64(record, "parameters", (int64_t)parameters);
	json_set_i64(record, "bytes", (int64_t)safetensors_bytes(s));
	if (directory)
		set_unusable(record, path);
	rc = out_record(record);
	if (rc == 0 && safetensors_metadata(s))
		rc = show_metadata(safetensors_metadata(s));
	for (uint64_t i = 0; rc == 0 && i < safetensors_count(s); i++)
		rc = put(tensor_record(safetensors_at(s, i)));
out:
	json_decref(record);
	safetensors_close(s);
	return rc;
}

/* Detects the format by the first bytes, or by the name if the file is too short. */
static bool looks_like_gguf(const char *path)
{
	size_t n = strlen(path);
	char magic[4];
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t got = fd < 0 ? -1 : read(fd, magic, sizeof magic);

	if (fd >= 0)
		close(fd);
	return (got == sizeof magic && gguf_is(magic, sizeof magic)) ||
		(n > 5 && strcmp(path + n - 5, ".gguf") == 0);
}

static int run(int nargs, char **args)
{
	struct stat st;
	bool directory = stat(args[0], &st) == 0 && S_ISDIR(st.st_mode);
	int rc;

	(void)nargs;
	if (!directory && looks_like_gguf(args[0]))
		rc = show_gguf(args[0]);
	else
		rc = show_safetensors(args[0], directory);
	return rc < 0 ? err_report() : EX_OK;
}

const struct command command_inspect = {
	.name = "inspect",
	.arguments = "F",
	.args_min = 1,
	.args_max = 1,
	.summary = "Metadata and tensors of a GGUF or safetensors file.",
	.details =
		"F may also be a directory with model.safetensors or its shards. Writes one rnp.model\n"
		"record, one rnp.metadata record a key and one rnp.tensor record a tensor. A file that\n"
		"breaks a rule of its format is refused (65) before anything is written; of one that\n"
		"is sound and cannot be run here, the first record says why.",
	.columns = "name,type,shape,bytes,value",
	.run = run,
};
