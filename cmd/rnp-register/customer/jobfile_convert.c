/* jobfile_convert.c - files of others, turned into ours: a new tree whose values keep their
 * places. */
#include "cmd/rnp-register/customer/jobfile_parts.h"

#include <string.h>

#include "common/base/buf.h"
#include "common/json/json.h"

struct yaml *job_new(struct job_reader *r, const struct yaml *at, enum yaml_type type,
	const char *text)
{
	struct yaml *v = arena_alloc(&r->arena, sizeof *v);

	v->type = type;
	v->line = at->line;
	v->column = at->column;
	v->key_line = at->key_line;
	v->key_column = at->key_column;
	v->text = text ? arena_strdup(&r->arena, text) : NULL;
	return v;
}

void job_put(struct yaml *map, const char *key, struct yaml *v)
{
	struct yaml **end = &map->first;

	while (*end)
		end = &(*end)->next;
	v->key = key;
	v->next = NULL;
	*end = v;
}

struct yaml *job_new_text(struct job_reader *r, const struct yaml *at,
	const struct buf *text)
{
	return job_new(r, at, YAML_TEXT, buf_text(text));
}

struct yaml *job_resources_of(struct job_reader *r, struct yaml *out)
{
	struct yaml *v = yaml_get(out, "resources");

	if (!v) {
		v = job_new(r, out, YAML_MAP, NULL);
		job_put(out, "resources", v);
	}
	return v;
}

int job_put_image(struct job_reader *r, struct yaml *out, const struct yaml *v)
{
	struct buf text = BUF_INIT;
	const char *name;

	if (job_text(r, v, &name) < 0)
		return -1;
	buf_addf(&text, "docker:%s", name);
	job_put(job_resources_of(r, out), "image_id", job_new_text(r, v, &text));
	buf_release(&text);
	return 0;
}

/* --- which of them ------------------------------------------------------------------------ */

static int convert(struct job_reader *r, const char *format,
	const struct job_field *fields,
	int (*put)(struct job_reader *r, struct yaml *out, struct yaml *v))
{
	struct yaml *out = job_new(r, r->root, YAML_MAP, NULL), *v, *next;

	json_set_text(r->task, "format", format);
	if (job_check_fields(r, r->root, "", fields) < 0)
		return -1;
	for (v = r->root->first; v; v = next) {
		next = v->next;
		if (put(r, out, v) < 0)
			return -1;
	}
	r->root = out;
	return 0;
}

int job_convert(struct job_reader *r)
{
	const struct yaml *type = yaml_get(r->root, "type");

	if (yaml_get(r->root, "run") || yaml_get(r->root, "setup"))
		return 0;
	if (yaml_get(r->root, "job") || yaml_get(r->root, "entry_point") ||
		yaml_get(r->root, "job_type"))
		return convert(r, "fedml", job_fedml_fields, job_put_fedml);
	if (!type || type->type != YAML_TEXT)
		return 0;
	if (strcmp(type->text, "task") != 0)
		return job_fail(r, type,
			"type '%.40s' of dstack is not to be had here: only task is",
			type->text);
	return convert(r, "dstack", job_dstack_fields, job_put_dstack);
}
