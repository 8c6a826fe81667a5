/* jobfile.c - from a file to the record of what would run. */
#include "cmd/rnp-register/customer/jobfile.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-register/customer/jobfile_parts.h"
#include "common/base/buf.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/num.h"
#include "common/base/sha256.h"
#include "common/base/suggest.h"
#include "common/json/json.h"

#define NODES_MAX 64
#define NAME_MAX_ 200

static const struct yaml *top(const struct job_reader *r, const char *name)
{
	const struct yaml *v = yaml_get(r->root, name);

	return v && v->type != YAML_NULL ? v : NULL;
}

/* --- name, texts, numbers ----------------------------------------------------------------- */

/* "train" of "jobs/train.yaml" */
static void name_of_file(struct buf *out, const char *where)
{
	const char *slash = strrchr(where, '/'), *base = slash ? slash + 1 : where, *dot;

	dot = strrchr(base, '.');
	buf_add(out, base, dot && dot > base ? (size_t)(dot - base) : strlen(base));
	if (out->len > NAME_MAX_)
		out->data[out->len = NAME_MAX_] = '\0';
	if (!out->len || strcmp(out->data, "-") == 0 ||
		strcmp(base, "standard input") == 0) {
		buf_reset(out);
		buf_adds(out, "job");
	}
}

static int read_name(struct job_reader *r)
{
	const struct yaml *v = top(r, "name");
	struct buf name = BUF_INIT;
	const char *text;

	if (v) {
		if (job_text(r, v, &text) < 0)
			return -1;
		if (!*text || strlen(text) > NAME_MAX_ || strpbrk(text, "\n\r\t"))
			return job_fail(r, v,
				"name has to be one line of 1 to 200 characters");
		buf_adds(&name, text);
	} else {
		name_of_file(&name, r->where);
	}
	json_set_text(r->task, "name", buf_text(&name));
	buf_release(&name);
	return 0;
}

/* setup and run: the text, and its hash. */
static int read_script(struct job_reader *r, const char *field, const char *hash_field)
{
	const struct yaml *v = top(r, field);
	unsigned char digest[SHA256_BYTES];
	struct buf hex = BUF_INIT;
	const char *text;

	if (!v)
		return 0;
	if (job_text(r, v, &text) < 0)
		return -1;
	sha256(digest, text, strlen(text));
	buf_add_hex(&hex, digest, sizeof digest);
	json_set_text(r->task, field, text);
	json_set_text(r->task, hash_field, hex.data);
	buf_release(&hex);
	return 0;
}

static int read_workdir(struct job_reader *r)
{
	struct yaml *v = yaml_get(r->root, "workdir");
	const char *text;

	if (!v || v->type == YAML_NULL)
		return 0;
	if (v->type == YAML_MAP)
		return job_fail(r, v,
			"workdir is a path here: git clone in setup, and name no repository; --drop workdir leaves it out");
	if (job_fill(r, v) < 0 || job_text(r, v, &text) < 0)
		return -1;
	if (!*text || strstr(text, "://"))
		return job_fail(r, v, "workdir has to be the path of a folder");
	json_set_text(r->task, "workdir", text);
	return 0;
}

static int read_deadline(struct job_reader *r)
{
	const struct yaml *v = top(r, "deadline");
	int64_t ms;

	if (!v)
		return 0;
	if (v->type == YAML_LIST || v->type == YAML_MAP)
		return job_is(r, v, YAML_TEXT, "a time, as 2026-12-24T18:00:00Z, or 8h");
	/* PyYAML makes a date of the first form; the field is ours, and its text is what counts */
	if (clock_parse(v->text, "deadline", &ms) == 0) {
		json_set_time(r->task, "deadline", ms);
		return 0;
	}
	if (v->type != YAML_TEXT || v->doubt ||
		num_duration_ms(v->text, "deadline", &ms) < 0 || ms < 60000)
		return job_fail(r, v,
			"deadline has to be a time, as 2026-12-24T18:00:00Z, or a minute and more from booking on, as 8h");
	json_set_i64(r->task, "deadline_s", ms / 1000);
	return 0;
}

static int read_choice(struct job_reader *r, const char *field, const char *choices)
{
	const struct yaml *v = top(r, field);
	const char *text;
	size_t len;

	if (!v)
		return 0;
	if (job_text(r, v, &text) < 0)
		return -1;
	len = strlen(text);
	for (const char *p = choices; *p; p += strcspn(p, "|"), p += *p == '|')
		if (strcspn(p, "|") == len && strncmp(p, text, len) == 0) {
			json_set_text(r->task, field, text);
			return 0;
		}
	return job_fail(r, v, "%s is one of %s, not '%.40s'", field, choices, text);
}

static int read_limits(struct job_reader *r)
{
	const struct yaml *nodes = top(r, "num_nodes"), *budget = top(r, "budget");
	int64_t uusd;

	r->nodes = 1;
	if (nodes && job_whole(r, nodes, 1, NODES_MAX, &r->nodes) < 0)
		return -1;
	json_set_i64(r->task, "nodes", r->nodes);
	if (budget) {
		if (job_uusd(r, budget, &uusd) < 0)
			return -1;
		if (uusd > JSON_SAFE_INTEGER_MAX)
			return job_fail(r, budget, "budget is beyond all money");
		json_set_i64(r->task, "budget_uusd", uusd);
	}
	return read_deadline(r) < 0 ||
			read_choice(r, "on_node_failure", "restart|continue|end") < 0 ?
		-1 :
		0;
}

/* --- files -------------------------------------------------------------------------------- */

/* Whether a path in the container has a part "..". */
static bool leads_up(const char *path)
{
	for (const char *p = path; *p; p += strcspn(p, "/"), p += *p == '/')
		if (strcspn(p, "/") == 2 && strncmp(p, "..", 2) == 0)
			return true;
	return false;
}

/* Whether a line of file_mounts stays: 1, is a store that is dropped: 0, or one that is not: -1. */
static int judge_store(struct job_reader *r, const struct yaml *v)
{
	if (v->type != YAML_MAP && !(v->text && strstr(v->text, "://")))
		return 1;
	if (job_drops(r, "stores")) {
		job_note_dropped(r, "stores");
		return 0;
	}
	return job_fail_field(r, v,
		"file_mounts %.80s is an object store: copy from it in setup; --drop stores leaves all of them out",
		v->key);
}

static int read_mount(struct job_reader *r, const struct yaml *v, json_t *mounts)
{
	const char *from;
	json_t *mount;

	if (job_text(r, v, &from) < 0)
		return -1;
	if (!*from || !*v->key || leads_up(v->key) || strcmp(v->key, "/") == 0)
		return job_fail_field(r, v,
			"file_mounts has a path in the container, without '..', and the path of a file or folder here");
	mount = json_object();
	json_set_text(mount, "to", v->key);
	json_set_text(mount, "from", from);
	json_push(mounts, mount);
	return 0;
}

int job_read_mounts(struct job_reader *r)
{
	struct yaml *map = yaml_get(r->root, "file_mounts");
	json_t *mounts = json_object_get(r->task, "mounts");

	if (!map || map->type == YAML_NULL)
		return 0;
	if (job_is(r, map, YAML_MAP, "lines of 'path in the container: path here'") < 0)
		return -1;
	/* a store is judged as it stands: its bucket may be a variable that nobody gives */
	for (struct yaml **at = &map->first; *at;) {
		int stays = judge_store(r, *at);

		if (stays < 0)
			return -1;
		if (stays)
			at = &(*at)->next;
		else
			*at = (*at)->next;
	}
	if (job_fill(r, map) < 0)
		return -1;
	for (const struct yaml *v = map->first; v; v = v->next)
		if (judge_store(r, v) < 0 || read_mount(r, v, mounts) < 0)
			return -1;
	return 0;
}

static const struct job_field artifact_fields[] = {
	{ "paths", JOB_WORKS, NULL },
	{ "every", JOB_WORKS, NULL },
	{ "max", JOB_WORKS, NULL },
	{ NULL, JOB_WORKS, NULL },
};

static int read_paths(struct job_reader *r, const struct yaml *map, json_t *paths)
{
	const struct yaml *list = yaml_get(map, "paths");
	const char *text;

	if (!list || list->type != YAML_LIST || !list->first)
		return job_fail(r, list ? list : map,
			"artifacts.paths has to be a list of paths in the container, as [checkpoints]");
	for (const struct yaml *v = list->first; v; v = v->next) {
		if (job_text(r, v, &text) < 0)
			return -1;
		if (!*text || leads_up(text) || strcmp(text, "/") == 0)
			return job_fail(r, v,
				"'%.80s' is no path of an artifact: it may have no '..'",
				text);
		json_push_text(paths, text);
	}
	return 0;
}

int job_read_artifacts(struct job_reader *r)
{
	struct yaml *map = yaml_get(r->root, "artifacts");
	json_t *artifacts, *paths;
	const struct yaml *every, *max;
	const char *text;
	int64_t n;

	if (!map || map->type == YAML_NULL)
		return 0;
	if (job_is(r, map, YAML_MAP, "paths and every") < 0 ||
		job_check_fields(r, map, "artifacts", artifact_fields) < 0)
		return -1;
	artifacts = json_object();
	paths = json_array();
	json_set(artifacts, "paths", paths);
	json_set(r->task, "artifacts", artifacts);
	if (read_paths(r, map, paths) < 0)
		return -1;
	every = yaml_get(map, "every");
	if (every && every->type != YAML_NULL) {
		if (job_text(r, every, &text) < 0)
			return -1;
		if (num_duration_ms(text, "every", &n) < 0 || n < 10000)
			return job_fail(r, every,
				"artifacts.every has to be ten seconds or more, as 10m");
		json_set_i64(artifacts, "every_s", n / 1000);
	}
	max = yaml_get(map, "max");
	if (max && max->type != YAML_NULL) {
		if (job_text(r, max, &text) < 0)
			return -1;
		if (num_size(text, "max", &n) < 0 || n < 1 || n > JSON_SAFE_INTEGER_MAX)
			return job_fail(r, max,
				"artifacts.max has to be a size, as 20GB");
		json_set_i64(artifacts, "bytes_max", n);
	}
	return 0;
}

/* --- places, parameters ------------------------------------------------------------------- */

static const struct job_field place_fields[] = {
	{ "country", JOB_WORKS, NULL },
	{ "region", JOB_WORKS, NULL },
	{ "share_ppm", JOB_WORKS, NULL },
	{ NULL, JOB_WORKS, NULL },
};

static int read_country(const struct job_reader *r, const struct yaml *v, json_t *place)
{
	const char *text;

	if (job_text(r, v, &text) < 0)
		return -1;
	if (strlen(text) != 2 || text[0] < 'A' || text[0] > 'Z' || text[1] < 'A' ||
		text[1] > 'Z')
		return job_fail(r, v,
			"'%.40s' is no country: two capital letters, as DE or US", text);
	json_set_text(place, "country", text);
	return 0;
}

static int read_place(struct job_reader *r, struct yaml *v, json_t *places)
{
	json_t *place = json_object();
	const struct yaml *f;
	const char *text;
	int64_t share;

	json_push(places, place);
	if (v->type != YAML_MAP)
		return read_country(r, v, place);
	if (job_check_fields(r, v, "places", place_fields) < 0)
		return -1;
	if (!v->first)
		return job_fail(r, v, "a place has a country or a region");
	if ((f = yaml_get(v, "country")) && read_country(r, f, place) < 0)
		return -1;
	if ((f = yaml_get(v, "region"))) {
		if (job_text(r, f, &text) < 0)
			return -1;
		if (!*text || strlen(text) > 200)
			return job_fail(r, f,
				"a region has a name of 1 to 200 characters");
		json_set_text(place, "region", text);
	}
	if ((f = yaml_get(v, "share_ppm"))) {
		if (job_whole(r, f, 1, 1000000, &share) < 0)
			return -1;
		json_set_i64(place, "share_ppm", share);
	}
	return 0;
}

int job_read_places(struct job_reader *r, json_t *wish)
{
	const struct yaml *list = top(r, "places");
	json_t *places;

	if (!list)
		return 0;
	if (job_is(r, list, YAML_LIST, "a list of countries, as [DE, AT], or of places") <
		0)
		return -1;
	if (!list->first || yaml_count(list) > 8)
		return job_fail(r, list, "places has 1 to 8 of them");
	places = json_array();
	json_set(wish, "places", places);
	for (struct yaml *v = list->first; v; v = v->next)
		if (read_place(r, v, places) < 0)
			return -1;
	return 0;
}

/* Any value as JSON; what readers do not agree on is refused. */
static json_t *value_json(const struct job_reader *r, const struct yaml *v)
{
	json_t *out;

	if (v->doubt) {
		job_fail(r, v, "'%.60s' is %s: put it in quotes", v->text, v->doubt);
		return NULL;
	}
	if (v->type == YAML_MAP || v->type == YAML_LIST) {
		out = v->type == YAML_MAP ? json_object() : json_array();
		for (const struct yaml *item = v->first; item; item = item->next) {
			json_t *one = value_json(r, item);

			if (!one) {
				json_decref(out);
				return NULL;
			}
			if (v->type == YAML_MAP)
				json_set(out, item->key, one);
			else
				json_push(out, one);
		}
		return out;
	}
	switch (v->type) {
	case YAML_NULL:
		return json_null();
	case YAML_BOOL:
		return json_boolean(v->yes);
	case YAML_INT:
		return json_integer(v->whole);
	case YAML_REAL:
		return json_real(strtod(v->text, NULL));
	default:
		return json_string(v->text);
	}
}

static int read_parameters(struct job_reader *r)
{
	const struct yaml *v = top(r, "parameters");
	json_t *out;

	if (!v)
		return 0;
	if (job_is(r, v, YAML_MAP, "a JSON Schema, whose properties are the parameters") <
		0)
		return -1;
	out = value_json(r, v);
	if (!out)
		return -1;
	json_set(r->task, "parameters", out);
	return 0;
}

/* --- the whole ---------------------------------------------------------------------------- */

static bool has_field(const struct yaml *v, const char *name)
{
	for (const struct yaml *item = v->first; item; item = item->next)
		if ((item->key && strcmp(item->key, name) == 0) || has_field(item, name))
			return true;
	return false;
}

/* What the command line drops has to be a field that is known, or one that the file has. */
static int check_drops(const struct job_reader *r)
{
	for (int i = 0; i < r->options->ndrop; i++) {
		const char *name = r->options->drop[i];
		struct suggest s = { .wanted = name };
		char text[100];
		bool known = strcmp(name, "stores") == 0 || has_field(r->root, name);

		suggest_offer(&s, "stores", 6);
		for (const struct job_field *f = job_top_fields; f->name; f++) {
			known |= strcmp(f->name, name) == 0;
			suggest_offer(&s, f->name, strlen(f->name));
		}
		for (const struct job_field *f = job_resource_fields; f->name; f++) {
			known |= strcmp(f->name, name) == 0;
			suggest_offer(&s, f->name, strlen(f->name));
		}
		if (!known)
			return err_set(EX_USAGE, "--drop %.80s: no field of a job file%s",
				name, suggest_text(&s, text, sizeof text));
	}
	return 0;
}

static int read_all(struct job_reader *r)
{
	if (check_drops(r) < 0 || job_convert(r) < 0 ||
		job_check_fields(r, r->root, "", job_top_fields) < 0 ||
		read_name(r) < 0 || job_read_envs(r) < 0 || read_limits(r) < 0 ||
		job_read_resources(r) < 0 || read_workdir(r) < 0 ||
		job_read_mounts(r) < 0 || read_script(r, "setup", "setup_sha256") < 0 ||
		read_script(r, "run", "run_sha256") < 0 || job_read_artifacts(r) < 0)
		return -1;
	if (!top(r, "run"))
		job_warn(r, NULL,
			"there is no run: the nodes wait for logins until they are released");
	return read_parameters(r);
}

static void begin_task(struct job_reader *r)
{
	static const char *const lists[] = { "wishes", "mounts", "secrets", "ports",
		"dropped", "warnings" };

	r->task = json_record("rnp.task");
	json_set_text(r->task, "file", r->where);
	json_set_text(r->task, "format", "skypilot");
	json_set_text(r->task, "name", "");
	for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
		json_set(r->task, lists[i], json_array());
	r->warnings = json_object_get(r->task, "warnings");
	r->envs = json_object();
	json_set(r->task, "envs", r->envs);
}

int jobfile_read(struct jobfile *job, const char *text, size_t len, const char *where,
	const struct job_options *options)
{
	struct job_reader r = { .where = where, .options = options, .job = job };
	int rc = -1;

	*job = (struct jobfile)JOBFILE_INIT;
	begin_task(&r);
	r.root = yaml_read(&r.arena, text, len, where);
	if (r.root)
		rc = read_all(&r);
	arena_release(&r.arena);
	job->task = r.task;
	if (rc < 0)
		jobfile_release(job);
	return rc;
}

void jobfile_release(struct jobfile *job)
{
	for (size_t i = 0; i < job->nsecrets; i++) {
		sodium_memzero(job->secrets[i].value, strlen(job->secrets[i].value));
		free(job->secrets[i].name);
		free(job->secrets[i].value);
	}
	free(job->secrets);
	json_decref(job->task);
	*job = (struct jobfile)JOBFILE_INIT;
}
