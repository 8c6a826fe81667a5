/* jobfile_envs.c - variables: those of the file, those of the command line, and where $NAME stands
 * for one of them. */
#include "cmd/rnp-register/customer/jobfile_parts.h"

#include <string.h>

#include <sodium.h>

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/json/json.h"

#define NAME_FIRST "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
#define NAME_REST  NAME_FIRST "0123456789"

static bool is_name(const char *name)
{
	return *name && strchr(NAME_FIRST, *name) && !name[strspn(name, NAME_REST)];
}

/* Names that the node sets. */
static bool is_the_nodes(const char *name)
{
	static const char *const names[] = { "SKYPILOT_NODE_RANK", "SKYPILOT_NODE_IPS",
		"SKYPILOT_NUM_NODES", "SKYPILOT_NUM_GPUS_PER_NODE", "SKYPILOT_TASK_ID",
		"SKYPILOT_SETUP_NODE_RANK", "SKYPILOT_SETUP_NODE_IPS",
		"SKYPILOT_SETUP_NUM_GPUS_PER_NODE", "SKYPILOT_CLUSTER_INFO" };

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return strncmp(name, "RNP_", 4) == 0;
}

static int check_name(const struct job_reader *r, const struct yaml *at, const char *name)
{
	if (!is_name(name))
		return job_fail_field(r, at,
			"'%.80s' is no name of a variable: letters, digits and '_', no digit first",
			name);
	if (is_the_nodes(name))
		return job_fail_field(r, at,
			"%.80s is set by the node: take another name", name);
	return 0;
}

/* Whether Python writes a float as it is spelled here: "0.5", "12.0"; not ".5", "1.10",
 * "1.0e-5". */
static bool is_python_float(const char *text)
{
	const char *p = text + (*text == '-'), *point = strchr(p, '.');
	size_t len = strlen(p), zeros = strspn(p, "0.");

	return point && point > p && point[1] && !strpbrk(p, "eE+") && len <= 16 &&
		(p[0] != '0' || p + 1 == point) &&
		(p[len - 1] != '0' || point + 2 == p + len) &&
		(zeros <= 5 || zeros == len);
}

/* The text of a value, where PyYAML and its str() make the same of it. */
static int env_text(const struct job_reader *r, const struct yaml *v, const char **out)
{
	const char *text = v->text;

	if (v->type == YAML_INT && *text != '+' && strcmp(text, "-0") != 0) {
		*out = text;
		return 0;
	}
	if (v->type == YAML_REAL && is_python_float(text)) {
		*out = text;
		return 0;
	}
	if (v->type == YAML_INT || v->type == YAML_REAL)
		return job_fail(r, v,
			"'%.60s' is a number, which others spell differently: put it in quotes",
			text);
	return job_text(r, v, out);
}

static const struct job_given *given(const struct job_given *list, int n,
	const char *name)
{
	/* the last one counts, as with any option */
	for (int i = n - 1; i >= 0; i--)
		if (strcmp(list[i].name, name) == 0)
			return &list[i];
	return NULL;
}

static void set_env(struct job_reader *r, const char *name, const char *value)
{
	json_set_text(r->envs, name, value);
}

static bool has_secret(const struct job_reader *r, const char *name)
{
	for (size_t i = 0; i < r->job->nsecrets; i++)
		if (strcmp(r->job->secrets[i].name, name) == 0)
			return true;
	return false;
}

static void set_secret(struct job_reader *r, const char *name, const char *value)
{
	struct jobfile *j = r->job;

	j->secrets = xrealloc(j->secrets, (j->nsecrets + 1) * sizeof *j->secrets);
	j->secrets[j->nsecrets++] = (struct job_secret){ xstrdup(name), xstrdup(value) };
}

/* One variable of the file; v NULL: it has only a name. */
static int take_variable(struct job_reader *r, const struct yaml *at, const char *name,
	const struct yaml *v, bool secret)
{
	const struct job_options *o = r->options;
	const struct job_given *g = secret ? given(o->secrets, o->nsecrets, name) :
					     given(o->envs, o->nenvs, name);
	const char *value;

	if (check_name(r, at, name) < 0)
		return -1;
	if (json_object_get(r->envs, name) || has_secret(r, name))
		return job_fail_field(r, at, "%.80s is among envs, too: leave one out",
			name);
	if (g)
		value = g->value;
	else if (!v || (v->type == YAML_NULL && !v->doubt))
		return job_fail_field(r, at,
			"%.80s has no value: give it by --%s %.80s=VALUE, or --%s %.80s where the environment has it",
			name, secret ? "secret" : "env", name, secret ? "secret" : "env",
			name);
	else if (env_text(r, v, &value) < 0)
		return -1;
	if (secret)
		set_secret(r, name, value);
	else
		set_env(r, name, value);
	return 0;
}

static int take_variables(struct job_reader *r, const char *field, bool secret)
{
	const struct yaml *map = yaml_get(r->root, field);

	if (!map || map->type == YAML_NULL)
		return 0;
	/* a list of secrets has their names alone */
	if (secret && map->type == YAML_LIST) {
		for (const struct yaml *v = map->first; v; v = v->next) {
			const char *name;

			if (job_text(r, v, &name) < 0 ||
				take_variable(r, v, name, NULL, true) < 0)
				return -1;
		}
		return 0;
	}
	if (job_is(r, map, YAML_MAP, "variables, each on a line as NAME: value") < 0)
		return -1;
	for (const struct yaml *v = map->first; v; v = v->next)
		if (take_variable(r, v, v->key, v, secret) < 0)
			return -1;
	return 0;
}

/* Variables that the command line gives and the file does not have. */
static int take_given(struct job_reader *r, const struct job_given *list, int n,
	bool secret)
{
	for (int i = 0; i < n; i++) {
		const char *name = list[i].name;

		if (secret ? has_secret(r, name) : json_object_get(r->envs, name) != NULL)
			continue;
		if (!is_name(name) || is_the_nodes(name) ||
			(secret ? json_object_get(r->envs, name) != NULL :
				  has_secret(r, name)))
			return err_set(EX_USAGE,
				"--%s %.80s: no name that a variable can have here",
				secret ? "secret" : "env", name);
		if (secret)
			set_secret(r, name, given(list, n, name)->value);
		else
			set_env(r, name, given(list, n, name)->value);
	}
	return 0;
}

int job_read_envs(struct job_reader *r)
{
	const struct job_options *o = r->options;

	if (take_variables(r, "envs", false) < 0 ||
		take_variables(r, "secrets", true) < 0 ||
		take_given(r, o->envs, o->nenvs, false) < 0 ||
		take_given(r, o->secrets, o->nsecrets, true) < 0)
		return -1;
	for (size_t i = 0; i < r->job->nsecrets; i++)
		json_push_text(json_object_get(r->task, "secrets"),
			r->job->secrets[i].name);
	return 0;
}

/* --- $NAME -------------------------------------------------------------------------------- */

/* Appends the value of the variable that begins at p, behind its '$', and returns what stands
 * behind it; NULL: error. */
static const char *fill_one(const struct job_reader *r, const struct yaml *at,
	const char *p, struct buf *out)
{
	bool braces = *p == '{';
	size_t len = strspn(p + braces, NAME_REST);
	char name[200];
	const char *value;

	if (!strchr(NAME_FIRST, p[braces]) || !p[braces] || len >= sizeof name) {
		buf_addc(out, '$');
		return p;
	}
	memcpy(name, p + braces, len);
	name[len] = '\0';
	if (has_secret(r, name)) {
		job_fail(r, at,
			"$%.80s is a secret, and others can read this: make it one of envs",
			name);
		return NULL;
	}
	value = json_string_value(json_object_get(r->envs, name));
	if (!value) {
		job_fail(r, at,
			"$%.80s is not among envs: add it there, or give --env %.80s=VALUE",
			name, name);
		return NULL;
	}
	buf_adds(out, value);
	p += braces + len;
	return p + (braces && *p == '}');
}

static int fill_text(struct job_reader *r, const struct yaml *at, const char **text)
{
	struct buf out = BUF_INIT;
	const char *p = *text;

	if (!strchr(p, '$'))
		return 0;
	while (p && *p) {
		size_t plain = strcspn(p, "$");

		buf_add(&out, p, plain);
		p += plain;
		if (*p)
			p = fill_one(r, at, p + 1, &out);
		if (out.len > YAML_BYTES_MAX) {
			job_fail(r, at, "is longer than 1 MiB with its variables");
			p = NULL;
		}
	}
	if (p)
		*text = arena_strdup(&r->arena, buf_text(&out));
	buf_release(&out);
	return p ? 0 : -1;
}

int job_fill(struct job_reader *r, struct yaml *v)
{
	if (v->text && v->type == YAML_TEXT && fill_text(r, v, &v->text) < 0)
		return -1;
	for (struct yaml *item = v->first; item; item = item->next) {
		if (item->key && fill_text(r, item, &item->key) < 0)
			return -1;
		for (const struct yaml *other = v->first; item->key && other != item;
			other = other->next)
			if (strcmp(other->key, item->key) == 0)
				return job_fail_field(r, item,
					"'%.80s' is there already, on line %d", item->key,
					other->key_line);
		if (job_fill(r, item) < 0)
			return -1;
	}
	return 0;
}
