/* jobfile_gpus.c - `accelerators`: names of GPUs as people write them, into wishes. */
#include "cmd/rnp-register/customer/jobfile_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/num.h"
#include "common/base/err.h"
#include "common/base/suggest.h"
#include "common/json/json.h"
#include "common/record/gpu.h"

#define MODELS_MAX 8    /* of one wish */
#define GPUS_MAX   4096 /* of one wish */
#define GIB        ((int64_t)1 << 30)

/* One name with its count: what a file asks for. */
struct asked {
	const struct gpu_model *model; /* NULL: any with this memory */
	int64_t count, memory_bytes;
};

/* --- names -------------------------------------------------------------------------------- */

static int refuse_model(const struct job_reader *r, const struct yaml *at,
	const char *name)
{
	struct suggest s = { .wanted = name };
	const struct gpu_model *rows;
	char text[100];
	size_t n;

	if (strncasecmp(name, "tpu", 3) == 0)
		return job_fail(r, at,
			"'%.60s' is a TPU, and there are none here: name a GPU", name);
	rows = gpu_table(&n);
	for (size_t i = 0; i < n; i++)
		suggest_offer(&s, rows[i].name, strlen(rows[i].name));
	return job_fail(r, at,
		"'%.60s' is no GPU that is known here, and 24GB asks for any with so much memory%s",
		name, suggest_text(&s, text, sizeof text));
}

/* "24GB", "24GB+": that much memory, of any GPU. */
static bool is_memory(const char *name, int64_t *bytes)
{
	size_t digits = strspn(name, "0123456789");
	const char *unit = name + digits;

	if (!digits || digits > 4)
		return false;
	if (strcasecmp(unit, "GB") != 0 && strcasecmp(unit, "GB+") != 0 &&
		strcasecmp(unit, "GiB") != 0 && strcasecmp(unit, "GiB+") != 0)
		return false;
	*bytes = 0;
	for (size_t i = 0; i < digits; i++)
		*bytes = *bytes * 10 + (name[i] - '0');
	/* cards are sold in GiB, and drivers report up to a tenth less */
	*bytes = *bytes * GIB / 10 * 9;
	return *bytes > 0;
}

/* Reads how many: NULL: one. */
static int read_count(const struct job_reader *r, const struct yaml *at, const char *text,
	int64_t *count)
{
	char *end;

	*count = 1;
	if (!text)
		return 0;
	if (strchr(text, '.') && strspn(text, "0123456789.") == strlen(text))
		return job_fail(r, at,
			"'%.60s': a part of a GPU is not to be had: write a whole number",
			text);
	*count = strtoll(text, &end, 10);
	if (!*text || *end || *text == '+' || *count < 1 || *count > GPUS_MAX)
		return job_fail(r, at, "'%.60s' is no number of GPUs from 1 to %d", text,
			GPUS_MAX);
	return 0;
}

/* Names that SkyPilot has for a GPU and its maker has not. */
static const struct {
	const char *name, *ours;
} theirs[] = {
	{ "MI300", "MI300X" },
};

/* "A100", "A100:8", "24GB:2", "any:2"; count: what stands beside it, or NULL. Returns 1 and
 * *out; 0: the name is not known, with an error pending; -1. */
static int read_asked(struct job_reader *r, const struct yaml *at, const char *text,
	const char *count, struct asked *out)
{
	const char *colon = strrchr(text, ':');
	char name[100];

	*out = (struct asked){ 0 };
	if (colon && count)
		return job_fail(r, at, "'%.60s' says twice how many", text);
	if (read_count(r, at, colon ? colon + 1 : count, &out->count) < 0)
		return -1;
	snprintf(name, sizeof name, "%.*s",
		colon ? (int)(colon - text) : (int)strlen(text), text);
	if (strcmp(name, "any") == 0 || is_memory(name, &out->memory_bytes))
		return 1;
	out->model = gpu_find(name, 0);
	for (size_t i = 0; !out->model && i < sizeof theirs / sizeof *theirs; i++)
		if (strcasecmp(name, theirs[i].name) == 0) {
			out->model = gpu_find(theirs[i].ours, 0);
			job_warn(r, at, "'%.60s' is taken for %s", name, theirs[i].ours);
		}
	if (out->model)
		return 1;
	refuse_model(r, at, name);
	return strncasecmp(name, "tpu", 3) == 0 ? -1 : 0;
}

/* --- wishes ------------------------------------------------------------------------------- */

/* Whether a word of an unspecific name is a size, "80GB", and the row's. */
static bool is_size_of(const char *word, const struct gpu_model *row)
{
	char *end;
	long long gib = strtoll(word, &end, 10);

	return end > word && strncmp(end, "GB", 2) == 0 && row->memory_bytes == gib * GIB;
}

/* Whether a row of the table is a variant of an unspecific one: it has all that its name says. */
static bool is_variant(const struct gpu_model *of, const struct gpu_model *row)
{
	const char *p = of->name;

	if (row->unspecific || strcmp(of->family, row->family) != 0)
		return false;
	while (*p) {
		size_t len = strcspn(p, " ");
		const char *q = row->name;

		while (*q && !(strcspn(q, " ") == len && strncmp(p, q, len) == 0))
			q += strcspn(q, " "), q += *q == ' ';
		if (!*q && !is_size_of(p, row))
			return false;
		p += len, p += *p == ' ';
	}
	return true;
}

/* The names that a wish for a model has: those of all variants, where the name leaves them open. */
static void add_names(json_t *names, const struct gpu_model *m)
{
	const struct gpu_model *rows;
	size_t n;

	json_push_text(names, m->name);
	rows = gpu_table(&n);
	for (size_t i = 0; m->unspecific && i < n; i++)
		if (is_variant(m, &rows[i]))
			json_push_text(names, rows[i].name);
}

static bool holds(const json_t *list, const json_t *name)
{
	for (size_t i = 0; i < json_array_size(list); i++)
		if (json_equal(json_array_get(list, i), name))
			return true;
	return false;
}

/* The last wish of the list that is for so many GPUs by name, and has room for one more. */
static json_t *room_in(const json_t *wishes, size_t from, int64_t count)
{
	for (size_t i = from; i < json_array_size(wishes); i++) {
		json_t *w = json_array_get(wishes, i),
		       *models = json_object_get(w, "gpu_models");

		if (models && json_array_size(models) < MODELS_MAX &&
			json_integer_value(json_object_get(w, "gpu_count")) == count)
			return w;
	}
	return NULL;
}

static json_t *new_wish(const json_t *wish, int64_t count, json_t *wishes)
{
	json_t *w = json_deep_copy(wish);

	json_set_i64(w, "gpu_count", count);
	json_push(wishes, w);
	return w;
}

/* Adds what is asked for to the wishes from `from` on: any of them. */
static int add_asked(struct job_reader *r, const struct yaml *at, const struct asked *a,
	const json_t *wish, json_t *wishes, size_t from)
{
	int64_t count = a->count * r->nodes;
	json_t *names, *name;
	size_t i;

	if (count > GPUS_MAX)
		return job_fail(r, at, "%lld GPUs on each of %lld nodes are more than %d",
			(long long)a->count, (long long)r->nodes, GPUS_MAX);
	if (!a->model) {
		json_t *w = new_wish(wish, count, wishes);

		if (a->memory_bytes)
			json_set_i64(w, "gpu_memory_bytes", a->memory_bytes);
		return 0;
	}
	names = json_array();
	add_names(names, a->model);
	json_array_foreach(names, i, name) {
		json_t *w = room_in(wishes, from, count);

		if (!w) {
			w = new_wish(wish, count, wishes);
			json_set(w, "gpu_models", json_array());
		}
		if (!holds(json_object_get(w, "gpu_models"), name))
			json_push(json_object_get(w, "gpu_models"), json_incref(name));
	}
	json_decref(names);
	return 0;
}

/* One entry of a set or a list: a name that is not known is left out, and said, where others are
 * there. */
static int add_entry(struct job_reader *r, const struct yaml *at, const char *text,
	const char *count, const json_t *wish, json_t *wishes, size_t from)
{
	struct asked a;
	int known = read_asked(r, at, text, count, &a);

	if (known < 0)
		return -1;
	if (!known) {
		job_warn(r, at, "'%.60s' is no GPU that is known here, and is left out",
			text);
		return 0;
	}
	return add_asked(r, at, &a, wish, wishes, from);
}

static int add_set(struct job_reader *r, const struct yaml *set, const json_t *wish,
	json_t *wishes)
{
	size_t from = json_array_size(wishes);

	for (const struct yaml *v = set->first; v; v = v->next) {
		const char *count = NULL;

		if (v->type != YAML_NULL && job_word(r, v, &count) < 0)
			return -1;
		if (add_entry(r, v, v->key, count, wish, wishes, from) < 0)
			return -1;
	}
	return 0;
}

static int add_list(struct job_reader *r, const struct yaml *list, const json_t *wish,
	json_t *wishes)
{
	for (const struct yaml *v = list->first; v; v = v->next) {
		const char *text;

		if (job_text(r, v, &text) < 0 ||
			add_entry(r, v, text, NULL, wish, wishes,
				json_array_size(wishes)) < 0)
			return -1;
	}
	return 0;
}

int job_read_gpus(struct job_reader *r, const struct yaml *v, const json_t *wish,
	json_t *wishes, bool *ordered)
{
	size_t before = json_array_size(wishes);
	const char *text;
	struct asked a;

	if (!v || v->type == YAML_NULL) {
		new_wish(wish, 0, wishes);
		return 0;
	}
	if (v->type == YAML_LIST || v->type == YAML_MAP) {
		*ordered |= v->type == YAML_LIST && yaml_count(v) > 1;
		if ((v->type == YAML_LIST ? add_list : add_set)(r, v, wish, wishes) < 0)
			return -1;
		/* the last name that is not known is the pending error */
		if (json_array_size(wishes) == before)
			return v->first ? -1 : job_fail(r, v, "accelerators is empty");
		return 0;
	}
	if (job_text(r, v, &text) < 0 || read_asked(r, v, text, NULL, &a) <= 0)
		return -1;
	return add_asked(r, v, &a, wish, wishes, before);
}
