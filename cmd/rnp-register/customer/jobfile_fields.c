/* jobfile_fields.c - which fields there are, and reading a value of one type. */
#include "cmd/rnp-register/customer/jobfile_parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/amount.h"
#include "common/base/err.h"
#include "common/base/num.h"
#include "common/base/suggest.h"
#include "common/json/json.h"

const struct job_field job_top_fields[] = {
	{ "name", JOB_WORKS, NULL },
	{ "run", JOB_WORKS, NULL },
	{ "setup", JOB_WORKS, NULL },
	{ "num_nodes", JOB_WORKS, NULL },
	{ "workdir", JOB_WORKS, NULL },
	{ "envs", JOB_WORKS, NULL },
	{ "secrets", JOB_WORKS, NULL },
	{ "file_mounts", JOB_WORKS, NULL },
	{ "resources", JOB_WORKS, NULL },
	{ "places", JOB_WORKS, NULL },
	{ "artifacts", JOB_WORKS, NULL },
	{ "deadline", JOB_WORKS, NULL },
	{ "budget", JOB_WORKS, NULL },
	{ "on_node_failure", JOB_WORKS, NULL },
	{ "parameters", JOB_WORKS, NULL },
	{ "service", JOB_REFUSED,
		"there are no replicas here; 'run' may be one server, reached by ssh -L" },
	{ "config", JOB_REFUSED, "settings of SkyPilot itself mean nothing here" },
	{ "pool", JOB_REFUSED, "there are no pools here; write resources and num_nodes" },
	{ "execution", JOB_REFUSED, "one file is one job; launch each by itself" },
	{ "volumes", JOB_REFUSED,
		"no volume outlives a job; write artifacts for what is to be kept" },
	{ "inputs", JOB_REFUSED, "write file_mounts" },
	{ "outputs", JOB_REFUSED, "write artifacts" },
	{ NULL, JOB_WORKS, NULL },
};

#define NO_CLOUD "nodes belong to no cloud; write places for countries, or nothing"

const struct job_field job_resource_fields[] = {
	{ "accelerators", JOB_WORKS, NULL },
	{ "gpus", JOB_WORKS, NULL },
	{ "cpus", JOB_WORKS, NULL },
	{ "memory", JOB_WORKS, NULL },
	{ "disk_size", JOB_WORKS, NULL },
	{ "image_id", JOB_WORKS, NULL },
	{ "ports", JOB_WORKS, NULL },
	{ "use_spot", JOB_WORKS, NULL },
	{ "any_of", JOB_WORKS, NULL },
	{ "ordered", JOB_WORKS, NULL },
	{ "autostop", JOB_WORKS, NULL },
	{ "job_recovery", JOB_WORKS, NULL },
	{ "spot_recovery", JOB_WORKS, NULL },
	{ "labels", JOB_WORKS, NULL },
	{ "max_hourly_cost", JOB_WORKS, NULL },
	{ "disk_tier", JOB_NOTHING, "a node's disk is what it is" },
	{ "network_tier", JOB_NOTHING, "a node's line is what it is" },
	{ "infra", JOB_REFUSED, NO_CLOUD },
	{ "cloud", JOB_REFUSED, NO_CLOUD },
	{ "region", JOB_REFUSED, NO_CLOUD },
	{ "zone", JOB_REFUSED, NO_CLOUD },
	{ "instance_type", JOB_REFUSED, "write accelerators, cpus and memory" },
	{ "accelerator_args", JOB_REFUSED, "those are of TPUs; write accelerators" },
	{ "volumes", JOB_REFUSED,
		"write disk_size, and artifacts for what is to be kept" },
	{ NULL, JOB_WORKS, NULL },
};

/* --- messages ----------------------------------------------------------------------------- */

static int fail_at(const struct job_reader *r, int line, int column, const char *fmt,
	va_list args)
{
	char text[700];

	vsnprintf(text, sizeof text, fmt, args);
	if (!line)
		return err_set(EX_DATAERR, "%s: %s", r->where, text);
	return err_set(EX_DATAERR, "%s:%d:%d: %s", r->where, line, column, text);
}

int job_fail(const struct job_reader *r, const struct yaml *at, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	fail_at(r, at ? at->line : 0, at ? at->column : 0, fmt, args);
	va_end(args);
	return -1;
}

int job_fail_field(const struct job_reader *r, const struct yaml *at, const char *fmt,
	...)
{
	va_list args;

	va_start(args, fmt);
	fail_at(r, at->key_line ? at->key_line : at->line,
		at->key_line ? at->key_column : at->column, fmt, args);
	va_end(args);
	return -1;
}

void job_warn(struct job_reader *r, const struct yaml *at, const char *fmt, ...)
{
	char text[700], place[32] = "";
	json_t *line;
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	if (at && at->line)
		snprintf(place, sizeof place, "line %d: ", at->line);
	line = json_sprintf("%s%s", place, text);
	json_push(r->warnings, line ? line : json_string("a text that is not UTF-8"));
}

/* --- fields ------------------------------------------------------------------------------- */

bool job_drops(const struct job_reader *r, const char *name)
{
	for (int i = 0; i < r->options->ndrop; i++)
		if (strcmp(r->options->drop[i], name) == 0)
			return true;
	return false;
}

void job_note_dropped(struct job_reader *r, const char *name)
{
	json_t *list = json_object_get(r->task, "dropped");

	for (size_t i = 0; i < json_array_size(list); i++)
		if (strcmp(json_string_value(json_array_get(list, i)), name) == 0)
			return;
	json_push_text(list, name);
}

static const struct job_field *find_field(const struct job_field *fields,
	const char *name)
{
	while (fields->name && strcmp(fields->name, name) != 0)
		fields++;
	return fields->name ? fields : NULL;
}

static int refuse_unknown(const struct job_reader *r, const struct yaml *v,
	const char *of, const struct job_field *fields)
{
	struct suggest s = { .wanted = v->key };
	char text[100];
	const char *inside = *of ? "" : "resources.";

	for (const struct job_field *f = fields; f->name; f++)
		suggest_offer(&s, f->name, strlen(f->name));
	/* a field at the wrong depth, as after a slip of the indentation */
	if (find_field(*of ? job_top_fields : job_resource_fields, v->key) &&
		(!*of || strcmp(of, "resources") == 0))
		return job_fail_field(r, v, "'%.80s' belongs %s: write it as %s%.80s",
			v->key, *of ? "beside resources, not in it" : "into resources",
			inside, v->key);
	return job_fail_field(r, v,
		"%s%s%.80s is no field of a job file, and --drop %.80s leaves it out%s",
		of, *of ? "." : "", v->key, v->key, suggest_text(&s, text, sizeof text));
}

/* Whether a field stays: 1, goes: 0, or is refused: -1. */
static int judge_field(struct job_reader *r, const struct yaml *v, const char *of,
	const struct job_field *fields)
{
	const struct job_field *f = find_field(fields, v->key);

	if (job_drops(r, v->key)) {
		job_note_dropped(r, v->key);
		return 0;
	}
	if (!f)
		return refuse_unknown(r, v, of, fields);
	if (v->type == YAML_NULL && f->how != JOB_WORKS)
		return 0;
	if (f->how == JOB_REFUSED)
		return job_fail_field(r, v, "%s%s%s: %s; --drop %s leaves it out", of,
			*of ? "." : "", f->name, f->instead, f->name);
	if (f->how == JOB_NOTHING) {
		job_warn(r, v, "%s means nothing here: %s", f->name, f->instead);
		return 0;
	}
	return 1;
}

int job_check_fields(struct job_reader *r, struct yaml *map, const char *of,
	const struct job_field *fields)
{
	struct yaml **at = &map->first;

	while (*at) {
		int stays = judge_field(r, *at, of, fields);

		if (stays < 0)
			return -1;
		if (stays)
			at = &(*at)->next;
		else
			*at = (*at)->next;
	}
	return 0;
}

/* --- values ------------------------------------------------------------------------------- */

static const char *name_of(const struct yaml *v)
{
	return v->key ? v->key : "this item";
}

int job_is(const struct job_reader *r, const struct yaml *v, enum yaml_type type,
	const char *as)
{
	return v->type == type ? 0 : job_fail(r, v, "%.80s has to be %s", name_of(v), as);
}

int job_text(const struct job_reader *r, const struct yaml *v, const char **out)
{
	if (v->doubt)
		return job_fail(r, v, "'%.60s' is %s: put it in quotes", v->text,
			v->doubt);
	if (v->type == YAML_LIST || v->type == YAML_MAP)
		return job_fail(r, v, "%.80s has to be a text", name_of(v));
	if (v->type != YAML_TEXT)
		return job_fail(r, v,
			"%.80s has to be a text, and '%.60s' is %s: put it in quotes",
			name_of(v), v->text,
			v->type == YAML_NULL         ? "nothing" :
				v->type == YAML_BOOL ? "true or false" :
						       "a number");
	*out = v->text;
	return 0;
}

int job_word(const struct job_reader *r, const struct yaml *v, const char **out)
{
	if (!v->doubt && (v->type == YAML_INT || v->type == YAML_REAL)) {
		*out = v->text;
		return 0;
	}
	return job_text(r, v, out);
}

int job_whole(const struct job_reader *r, const struct yaml *v, int64_t min, int64_t max,
	int64_t *out)
{
	if (v->doubt)
		return job_fail(r, v, "'%.60s' is %s: write a decimal number", v->text,
			v->doubt);
	if (v->type != YAML_INT || v->whole < min || v->whole > max)
		return job_fail(r, v, "%.80s has to be a whole number from %lld to %lld",
			name_of(v), (long long)min, (long long)max);
	*out = v->whole;
	return 0;
}

int job_bool(const struct job_reader *r, const struct yaml *v, bool *out)
{
	if (v->type != YAML_BOOL)
		return job_fail(r, v, "%.80s has to be true or false%s", name_of(v),
			v->type == YAML_TEXT ? ", written so and without quotes" : "");
	*out = v->yes;
	return 0;
}

int job_uusd(const struct job_reader *r, const struct yaml *v, int64_t *uusd)
{
	const char *text;
	char place[300];

	if (job_word(r, v, &text) < 0)
		return -1;
	snprintf(place, sizeof place, "%.200s:%d:%d: %.40s", r->where, v->line, v->column,
		name_of(v));
	if (amount_read(text, place, &amount_usd, "", NULL, uusd) < 0)
		return -1;
	if (*uusd <= 0)
		return job_fail(r, v, "%.80s has to be more than nothing", name_of(v));
	return 0;
}
