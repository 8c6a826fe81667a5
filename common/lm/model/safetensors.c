/* safetensors.c - reads the header of a file, and the shards of a model.
 *
 * long because the header is read entry by entry, with a limit for each. */
#include "common/lm/model/safetensors.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/json/json.h"
#include "common/base/map.h"
#include "common/base/mem.h"
#include "common/base/utf8.h"

#define INDEX_BYTES_MAX ((size_t)16 << 20) /* the largest known index has 9 MB */

struct safetensors {
	char *where;
	struct lm_map *maps;
	uint32_t maps_count;
	struct lm_tensor *tensors;
	size_t count, cap;
	uint64_t bytes;
	const struct lm_tensor **by_name;
	json_t *metadata;
};

/* The format's types, with the bits of an element. */
static const struct {
	const char *name;
	uint32_t bits;
	enum lm_type type;
} types[] = {
	{ "F32", 32, LM_F32 },
	{ "F16", 16, LM_F16 },
	{ "BF16", 16, LM_BF16 },
	{ "F64", 64, LM_F64 },
	{ "I8", 8, LM_I8 },
	{ "I16", 16, LM_I16 },
	{ "I32", 32, LM_I32 },
	{ "I64", 64, LM_I64 },
	{ "U8", 8, LM_U8 },
	{ "BOOL", 8, LM_BOOL },
	{ "U16", 16, LM_OTHER },
	{ "U32", 32, LM_OTHER },
	{ "U64", 64, LM_OTHER },
	{ "C64", 64, LM_OTHER },
	{ "F8_E4M3", 8, LM_OTHER },
	{ "F8_E5M2", 8, LM_OTHER },
	{ "F8_E8M0", 8, LM_OTHER },
	{ "F6_E2M3", 6, LM_OTHER },
	{ "F6_E3M2", 6, LM_OTHER },
	{ "F4", 4, LM_OTHER },
};

/* A file that is being read. */
struct file {
	const char *where;
	const unsigned char *data; /* follows the header */
	uint64_t bytes;
};

/* --- the header --------------------------------------------------------------------------- */

static bool is_name(const char *text)
{
	for (const unsigned char *p = (const unsigned char *)text; *p; p++)
		if (*p < ' ' || *p == 0x7f)
			return false;
	return *text && strlen(text) < LM_NAME_BYTES_MAX;
}

static int set_type(struct lm_tensor *t, uint32_t *bits, const struct file *f,
	const json_t *entry)
{
	const char *name = json_string_value(json_object_get(entry, "dtype"));

	for (size_t i = 0; name && i < sizeof types / sizeof *types; i++) {
		if (strcmp(types[i].name, name))
			continue;
		t->type = types[i].type;
		snprintf(t->type_name, sizeof t->type_name, "%s", name);
		*bits = types[i].bits;
		return 0;
	}
	return err_set(EX_DATAERR, "%s: tensor '%s' has no dtype of safetensors: '%.20s'",
		f->where, t->name, name ? name : "");
}

static int set_shape(struct lm_tensor *t, const struct file *f, const json_t *entry)
{
	const json_t *shape = json_object_get(entry, "shape");

	if (!json_is_array(shape) || json_array_size(shape) > LM_DIMS_MAX)
		return err_set(EX_DATAERR,
			"%s: tensor '%s' has no shape of at most %d dimensions", f->where,
			t->name, LM_DIMS_MAX);
	t->dims = (uint32_t)json_array_size(shape);
	t->count = 1;
	for (uint32_t i = 0; i < t->dims; i++) {
		const json_t *d = json_array_get(shape, i);

		if (!json_is_integer(d) || json_integer_value(d) < 0)
			return err_set(EX_DATAERR,
				"%s: tensor '%s' has a dimension that is no size",
				f->where, t->name);
		t->shape[i] = (uint64_t)json_integer_value(d);
		/* an overflow counts even if a later dimension is 0 */
		if (__builtin_mul_overflow(t->count, t->shape[i], &t->count) ||
			t->count > INT64_MAX)
			return err_set(EX_DATAERR, "%s: tensor '%s' is too large",
				f->where, t->name);
	}
	return 0;
}

/* Checks that a tensor lies within the data and has the size that its type and shape require. */
static int set_place(struct lm_tensor *t, uint32_t bits, const struct file *f,
	const json_t *entry)
{
	const json_t *offsets = json_object_get(entry, "data_offsets");
	uint64_t place[2], all;

	if (!json_is_array(offsets) || json_array_size(offsets) != 2)
		return err_set(EX_DATAERR, "%s: tensor '%s' has no two data_offsets",
			f->where, t->name);
	for (size_t i = 0; i < 2; i++) {
		const json_t *v = json_array_get(offsets, i);

		if (!json_is_integer(v) || json_integer_value(v) < 0 ||
			(uint64_t)json_integer_value(v) > f->bytes)
			return err_set(EX_DATAERR,
				"%s: tensor '%s' lies outside the data of %" PRIu64
				" bytes",
				f->where, t->name, f->bytes);
		place[i] = (uint64_t)json_integer_value(v);
	}
	if (place[1] < place[0])
		return err_set(EX_DATAERR, "%s: tensor '%s' ends before it begins",
			f->where, t->name);
	if (__builtin_mul_overflow(t->count, bits, &all) || all % 8 ||
		all / 8 != place[1] - place[0])
		return err_set(EX_DATAERR,
			"%s: tensor '%s' has %" PRIu64
			" bytes, which its %s and shape do not",
			f->where, t->name, place[1] - place[0], t->type_name);
	t->bytes = all / 8;
	t->data = f->data + place[0];
	return 0;
}

static int read_tensor(struct lm_tensor *t, const struct file *f, const char *name,
	const json_t *entry)
{
	uint32_t bits = 0;

	if (!is_name(name))
		return err_set(EX_DATAERR,
			"%s: a tensor's name is empty, longer than %d bytes or not printable",
			f->where, LM_NAME_BYTES_MAX - 1);
	*t = (struct lm_tensor){ 0 };
	memcpy(t->name, name, strlen(name));
	if (!json_is_object(entry))
		return err_set(EX_DATAERR, "%s: tensor '%s' is not an object", f->where,
			name);
	if (set_type(t, &bits, f, entry) < 0 || set_shape(t, f, entry) < 0)
		return -1;
	return set_place(t, bits, f, entry);
}

static int check_metadata(const struct file *f, json_t *metadata)
{
	const char *key;
	json_t *v;

	if (!json_is_object(metadata))
		return err_set(EX_DATAERR, "%s: __metadata__ is not an object", f->where);
	json_object_foreach(metadata, key, v)
		if (!json_is_string(v))
			return err_set(EX_DATAERR,
				"%s: __metadata__ '%.40s' is not a text", f->where, key);
	return 0;
}

static int compare_places(const void *a, const void *b)
{
	const struct lm_tensor *t = a, *u = b;

	if (t->data != u->data)
		return t->data < u->data ? -1 : 1;
	return (t->bytes > u->bytes) - (t->bytes < u->bytes);
}

/* Checks that the tensors cover the data without gaps, from the first byte to the last. */
static int check_cover(const struct file *f, const struct lm_tensor *tensors, size_t n)
{
	const unsigned char *at = f->data;

	for (size_t i = 0; i < n; i++) {
		const unsigned char *start = tensors[i].data;

		if (start != at)
			return err_set(EX_DATAERR, "%s: tensor '%s' %s the one before",
				f->where, tensors[i].name,
				start < at ? "overlaps" : "leaves a gap behind");
		at += tensors[i].bytes;
	}
	if (at != f->data + f->bytes)
		return err_set(EX_DATAERR,
			"%s: %" PRIu64 " bytes behind the last tensor belong to none",
			f->where, (uint64_t)(f->data + f->bytes - at));
	return 0;
}

/* Reads the header's JSON one entry at a time: as one document, a million entries would take
 * twenty times their size in memory. */
struct entries {
	const struct file *f;
	const char *at, *end;
	struct buf text; /* {"name":value} of the current entry */
	bool begun;
};

static int malformed(const struct entries *e)
{
	return err_set(EX_DATAERR, "%s: the header is not JSON", e->f->where);
}

static void skip_blanks(struct entries *e)
{
	while (e->at < e->end && strchr(" \t\r\n", *e->at) && *e->at)
		e->at++;
}

/* Returns the end of the string that begins at p, or NULL when it is unterminated. */
static const char *text_end(const char *p, const char *end)
{
	for (p++; p < end && *p != '"'; p++)
		if (*p == '\\')
			p++;
	return p < end ? p + 1 : NULL;
}

/* Returns the end of the value that begins at p, judging by brackets and strings only: the JSON
 * reader checks the rest. */
static const char *value_end(const char *p, const char *end)
{
	size_t depth = 0;

	while (p && p < end) {
		if (!depth && (*p == ',' || *p == '}'))
			return p;
		if (*p == '"') {
			p = text_end(p, end);
			continue;
		}
		if (*p == '{' || *p == '[')
			depth++;
		else if (depth && (*p == '}' || *p == ']'))
			depth--;
		p++;
	}
	return NULL;
}

/* Reads the next entry; *entry is an object with that entry alone, which the caller
 * json_decref's, or NULL at the end. Returns 0, or -1 with err_set(). */
static int next_entry(struct entries *e, json_t **entry)
{
	const char *from, *p;

	*entry = NULL;
	skip_blanks(e);
	if (e->at < e->end && *e->at == '}') {
		e->at++;
		skip_blanks(e);
		return e->at == e->end ? 0 : malformed(e);
	}
	if (e->begun && (e->at == e->end || *e->at++ != ','))
		return malformed(e);
	e->begun = true;
	skip_blanks(e);
	from = e->at;
	p = from < e->end && *from == '"' ? text_end(from, e->end) : NULL;
	e->at = value_end(p, e->end);
	if (!e->at)
		return malformed(e);
	buf_reset(&e->text);
	buf_addc(&e->text, '{');
	buf_add(&e->text, from, (size_t)(e->at - from));
	buf_addc(&e->text, '}');
	/* the format's own reader refuses a size that is spelled 2.0 */
	*entry = json_parse_spelled(e->text.data, e->text.len, JSON_DEPTH_MAX,
		e->f->where);
	return *entry ? 0 : -1;
}

static int add_entry(struct safetensors *s, const struct file *f, json_t *entry,
	bool *metadata)
{
	const char *name = json_object_iter_key(json_object_iter(entry));
	json_t *v = json_object_iter_value(json_object_iter(entry));

	if (json_object_size(entry) != 1)
		return err_set(EX_DATAERR, "%s: the header is not JSON", f->where);
	if (strcmp(name, "__metadata__") == 0) {
		if (*metadata)
			return err_set(EX_DATAERR, "%s: duplicate __metadata__",
				f->where);
		*metadata = true;
		if (check_metadata(f, v) < 0)
			return -1;
		if (!s->metadata)
			s->metadata = json_incref(v);
		return 0;
	}
	if (s->count == SAFETENSORS_TENSORS_MAX)
		return err_set(EX_DATAERR, "%s: more than %d tensors", f->where,
			SAFETENSORS_TENSORS_MAX);
	s->tensors = xgrow(s->tensors, &s->cap, s->count + 1, sizeof *s->tensors);
	if (read_tensor(&s->tensors[s->count], f, name, v) < 0)
		return -1;
	s->count++;
	return 0;
}

/* Appends the tensors of one file. */
static int add_header(struct safetensors *s, const struct file *f, const char *text,
	uint64_t bytes)
{
	struct entries e = { .f = f, .at = text + 1, .end = text + bytes };
	size_t first = s->count;
	bool metadata = false;
	json_t *entry;
	int rc;

	while ((rc = next_entry(&e, &entry)) == 0 && entry) {
		rc = add_entry(s, f, entry, &metadata);
		json_decref(entry);
		if (rc < 0)
			break;
	}
	buf_release(&e.text);
	if (rc < 0)
		return -1;
	if (s->count == first)
		return check_cover(f, NULL, 0);
	qsort(s->tensors + first, s->count - first, sizeof *s->tensors, compare_places);
	return check_cover(f, s->tensors + first, s->count - first);
}

static int add_file(struct safetensors *s, const unsigned char *data, uint64_t bytes,
	const char *where)
{
	struct file f = { where, data, bytes };
	uint64_t n;

	if (bytes < 8)
		return err_set(EX_DATAERR,
			"%s: %" PRIu64 " bytes are no safetensors file", where, bytes);
	memcpy(&n, data, sizeof n);
	if (n > SAFETENSORS_HEADER_MAX)
		return err_set(EX_DATAERR,
			"%s: a header of %" PRIu64 " bytes, not at most %" PRIu64
			": no safetensors file?",
			where, n, SAFETENSORS_HEADER_MAX);
	if (n > bytes - 8)
		return err_set(EX_DATAERR,
			"%s: ends too early: a header of %" PRIu64
			" bytes in a file of %" PRIu64,
			where, n, bytes);
	if (n < 2 || data[8] != '{')
		return err_set(EX_DATAERR, "%s: the header does not begin with {", where);
	f.data = data + 8 + n;
	f.bytes = bytes - 8 - n;
	s->bytes += bytes;
	return add_header(s, &f, (const char *)data + 8, n);
}

/* --- names -------------------------------------------------------------------------------- */

static int compare_names(const void *a, const void *b)
{
	const struct lm_tensor *t = *(const struct lm_tensor *const *)a;
	const struct lm_tensor *u = *(const struct lm_tensor *const *)b;

	return strcmp(t->name, u->name);
}

static int sort_names(struct safetensors *s)
{
	s->by_name = xcalloc(s->count, sizeof *s->by_name);
	for (size_t i = 0; i < s->count; i++)
		s->by_name[i] = &s->tensors[i];
	qsort(s->by_name, s->count, sizeof *s->by_name, compare_names);
	for (size_t i = 1; i < s->count; i++)
		if (strcmp(s->by_name[i - 1]->name, s->by_name[i]->name) == 0)
			return err_set(EX_DATAERR,
				s->maps_count > 1 ? "%s: tensor '%s' is in two shards" :
						    "%s: duplicate tensor '%s'",
				s->where, s->by_name[i]->name);
	return 0;
}

const struct lm_tensor *safetensors_find(const struct safetensors *s, const char *name)
{
	size_t low = 0, high = s->count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		int order = strcmp(name, s->by_name[mid]->name);

		if (order == 0)
			return s->by_name[mid];
		if (order < 0)
			high = mid;
		else
			low = mid + 1;
	}
	return NULL;
}

/* --- shards ------------------------------------------------------------------------------- */

/* Whether a name is the plain name of a safetensors file, which leads neither out of the
 * directory nor to the index itself. */
static bool is_shard_name(const char *name)
{
	size_t n = strlen(name);

	return n > 12 && n < 256 && name[0] != '.' && !strchr(name, '/') &&
		is_name(name) && strcmp(name + n - 12, ".safetensors") == 0;
}

int safetensors_index(json_t **files, json_t **map, const char *text, size_t bytes,
	const char *where)
{
	json_t *index = json_parse_object(text, bytes, where), *names = NULL, *v,
	       *weights;
	const char *tensor;
	int rc = -1;

	*files = *map = NULL;
	if (!index)
		return -1;
	if (json_get_object(index, where, "weight_map", &weights) < 0)
		goto out;
	names = json_object(); /* used as a set */
	*files = json_array();
	json_object_foreach(weights, tensor, v) {
		const char *file = json_string_value(v);

		if (!file || !is_shard_name(file)) {
			err_set(EX_DATAERR,
				"%s: the shard '%.60s' of '%.60s' is no plain name of a safetensors file",
				where, file ? file : "", tensor);
			goto out;
		}
		if (json_object_get(names, file))
			continue;
		json_set_bool(names, file, true);
		json_push_text(*files, file);
	}
	if (!json_array_size(*files) ||
		json_array_size(*files) > SAFETENSORS_SHARDS_MAX) {
		err_set(EX_DATAERR, "%s: names %zu shards, not 1 to %d", where,
			json_array_size(*files), SAFETENSORS_SHARDS_MAX);
		goto out;
	}
	*map = json_incref(weights);
	rc = 0;
out:
	if (rc < 0) {
		json_decref(*files);
		*files = NULL;
	}
	json_decref(names);
	json_decref(index);
	return rc;
}

static int map_file(struct safetensors *s, const char *path)
{
	struct lm_map *m;

	s->maps = xrealloc(s->maps, (s->maps_count + 1) * sizeof *s->maps);
	m = &s->maps[s->maps_count];
	if (lm_map_open(m, path) < 0)
		return -1;
	s->maps_count++;
	return add_file(s, m->data, m->bytes, path);
}

/* Checks that each tensor of the index exists, in the shard that the index names. */
static int check_map(const struct safetensors *s, json_t *map, const json_t *files,
	const size_t *ends, const char *where)
{
	const char *name;
	json_t *v;

	json_object_foreach(map, name, v) {
		const struct lm_tensor *t = safetensors_find(s, name);
		size_t i = t ? (size_t)(t - s->tensors) : 0, shard = 0;

		while (t && i >= ends[shard])
			shard++;
		if (!t ||
			strcmp(json_string_value(json_array_get(files, shard)),
				json_string_value(v)))
			return err_set(EX_DATAERR, "%s: tensor '%.80s' is not in '%s'",
				where, name, json_string_value(v));
	}
	return 0;
}

static int open_shards(struct safetensors *s, const char *dir, const char *index)
{
	struct buf text = BUF_INIT, path = BUF_INIT;
	json_t *files = NULL, *map = NULL, *file;
	size_t *ends = NULL, i;
	int rc = -1;

	if (io_read(&text, index, INDEX_BYTES_MAX) < 0 ||
		safetensors_index(&files, &map, text.data ? text.data : "", text.len,
			index) < 0)
		goto out;
	ends = xcalloc(json_array_size(files), sizeof *ends);
	json_array_foreach(files, i, file) {
		buf_reset(&path);
		buf_addf(&path, "%s/%s", dir, json_string_value(file));
		if (map_file(s, path.data) < 0)
			goto out;
		ends[i] = s->count;
	}
	if (sort_names(s) < 0)
		goto out;
	rc = check_map(s, map, files, ends, index);
out:
	json_decref(files);
	json_decref(map);
	free(ends);
	buf_release(&text);
	buf_release(&path);
	return rc;
}

/* --- opening ------------------------------------------------------------------------------ */

static struct safetensors *new_of(const char *where)
{
	struct safetensors *s = xcalloc(1, sizeof *s);

	s->where = xstrdup(where);
	return s;
}

static int finish(struct safetensors **out, struct safetensors *s, int rc)
{
	if (rc < 0) {
		safetensors_close(s);
		s = NULL;
	}
	*out = s;
	return rc;
}

int safetensors_read(struct safetensors **out, const void *data, uint64_t bytes,
	const char *where)
{
	struct safetensors *s = new_of(where);
	int rc = add_file(s, data, bytes, where);

	return finish(out, s, rc < 0 ? rc : sort_names(s));
}

int safetensors_open(struct safetensors **out, const char *path)
{
	struct safetensors *s = new_of(path);
	int rc = map_file(s, path);

	return finish(out, s, rc < 0 ? rc : sort_names(s));
}

int safetensors_open_model(struct safetensors **out, const char *dir)
{
	struct buf file = BUF_INIT, index = BUF_INIT;
	int rc;

	buf_addf(&file, "%s/model.safetensors", dir);
	buf_addf(&index, "%s/model.safetensors.index.json", dir);
	if (access(file.data, F_OK) == 0 || access(index.data, F_OK) < 0) {
		rc = safetensors_open(out, file.data);
	} else {
		struct safetensors *s = new_of(dir);

		rc = finish(out, s, open_shards(s, dir, index.data));
	}
	buf_release(&file);
	buf_release(&index);
	return rc;
}

void safetensors_close(struct safetensors *s)
{
	if (!s)
		return;
	for (uint32_t i = 0; i < s->maps_count; i++)
		lm_map_close(&s->maps[i]);
	free(s->maps);
	free(s->tensors);
	free(s->by_name);
	json_decref(s->metadata);
	free(s->where);
	free(s);
}

uint64_t safetensors_count(const struct safetensors *s)
{
	return s->count;
}

const struct lm_tensor *safetensors_at(const struct safetensors *s, uint64_t i)
{
	return &s->tensors[i];
}

uint64_t safetensors_bytes(const struct safetensors *s)
{
	return s->bytes;
}

uint32_t safetensors_shards(const struct safetensors *s)
{
	return s->maps_count;
}

const json_t *safetensors_metadata(const struct safetensors *s)
{
	return s->metadata;
}
