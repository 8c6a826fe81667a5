/* jobfile_dstack.c - a task of dstack, turned into ours. */
#include "cmd/rnp-register/customer/jobfile_parts.h"

#include <string.h>
#include <strings.h>

#include "common/base/buf.h"

const struct job_field job_dstack_fields[] = {
	{ "type", JOB_WORKS, NULL },
	{ "name", JOB_WORKS, NULL },
	{ "image", JOB_WORKS, NULL },
	{ "env", JOB_WORKS, NULL },
	{ "commands", JOB_WORKS, NULL },
	{ "nodes", JOB_WORKS, NULL },
	{ "ports", JOB_WORKS, NULL },
	{ "resources", JOB_WORKS, NULL },
	{ "spot_policy", JOB_WORKS, NULL },
	{ "max_price", JOB_WORKS, NULL },
	{ "python", JOB_NOTHING, "Python is what the image has" },
	{ "nvcc", JOB_NOTHING, "nvcc is what the image has" },
	{ "startup_order", JOB_NOTHING, "run begins on all nodes at once" },
	{ "stop_criteria", JOB_NOTHING, "the job ends when all nodes have" },
	{ "volumes", JOB_REFUSED, "no volume outlives a job" },
	{ "working_dir", JOB_REFUSED, "begin commands with cd" },
	{ "repos", JOB_REFUSED, "begin commands with git clone" },
	{ "files", JOB_REFUSED, "write workdir or file_mounts, as rnp-job(5) has them" },
	{ "regions", JOB_REFUSED, "nodes belong to no cloud" },
	{ "backends", JOB_REFUSED, "nodes belong to no cloud" },
	{ "instance_types", JOB_REFUSED, "write resources" },
	{ "privileged", JOB_REFUSED, "no container is" },
	{ NULL, JOB_WORKS, NULL },
};

static const struct job_field dstack_resources[] = {
	{ "gpu", JOB_WORKS, NULL },
	{ "cpu", JOB_WORKS, NULL },
	{ "memory", JOB_WORKS, NULL },
	{ "disk", JOB_WORKS, NULL },
	{ "shm_size", JOB_NOTHING, "shared memory is a part of memory" },
	{ NULL, JOB_WORKS, NULL },
};

static const struct job_field dstack_gpu[] = {
	{ "name", JOB_WORKS, NULL },
	{ "count", JOB_WORKS, NULL },
	{ "memory", JOB_WORKS, NULL },
	{ "vendor", JOB_NOTHING, "a GPU's name says it" },
	{ NULL, JOB_WORKS, NULL },
};

/* What stands for dstack's own variables; $SKYPILOT_NODE_IPS has an address a line, that of rank 0
 * first. */
static const char dstack_variables[] =
	"export DSTACK_NODE_RANK=$SKYPILOT_NODE_RANK DSTACK_NODES_NUM=$SKYPILOT_NUM_NODES \\\n"
	"	DSTACK_GPUS_PER_NODE=$SKYPILOT_NUM_GPUS_PER_NODE \\\n"
	"	DSTACK_GPUS_NUM=$((SKYPILOT_NUM_NODES * SKYPILOT_NUM_GPUS_PER_NODE)) \\\n"
	"	DSTACK_MASTER_NODE_IP=\"${SKYPILOT_NODE_IPS%%$'\\n'*}\" \\\n"
	"	DSTACK_NODES_IPS=\"$SKYPILOT_NODE_IPS\"\n"
	"set -e\n";

/* Commands one after the other, and none after one that fails. */
static int put_script(struct job_reader *r, struct yaml *out, const struct yaml *list)
{
	struct buf text = BUF_INIT;
	int rc = job_is(r, list, YAML_LIST, "a list of commands");

	buf_adds(&text, dstack_variables);
	for (const struct yaml *v = list->first; v && rc == 0; v = v->next) {
		const char *command;

		rc = job_text(r, v, &command);
		if (rc == 0)
			buf_addf(&text, "%s\n", command);
	}
	if (rc == 0)
		job_put(out, "run", job_new_text(r, list, &text));
	buf_release(&text);
	return rc;
}

/* "NAME=value", or "NAME" for one that has to be given. */
static int put_env_list(struct job_reader *r, struct yaml *envs, const struct yaml *list)
{
	for (const struct yaml *v = list->first; v; v = v->next) {
		const char *text, *sign;
		struct yaml *one;
		char *name;

		if (job_text(r, v, &text) < 0)
			return -1;
		sign = strchr(text, '=');
		name = arena_strdup(&r->arena, text);
		if (sign)
			name[sign - text] = '\0';
		if (yaml_get(envs, name))
			return job_fail(r, v, "%.80s is there already", name);
		one = job_new(r, v, sign ? YAML_TEXT : YAML_NULL, sign ? sign + 1 : "");
		job_put(envs, name, one);
	}
	return 0;
}

static int put_env(struct job_reader *r, struct yaml *out, struct yaml *v)
{
	struct yaml *envs = v;

	if (v->type == YAML_LIST) {
		envs = job_new(r, v, YAML_MAP, NULL);
		if (put_env_list(r, envs, v) < 0)
			return -1;
	}
	job_put(out, "envs", envs);
	return 0;
}

/* "8000", "8080:80": here one number, reached by ssh -L from any other. */
static int put_ports(struct job_reader *r, struct yaml *out, const struct yaml *list)
{
	struct yaml *ports = job_new(r, list, YAML_LIST, NULL), **end = &ports->first;

	if (job_is(r, list, YAML_LIST, "a list of ports") < 0)
		return -1;
	for (const struct yaml *v = list->first; v; v = v->next) {
		const char *text, *colon;

		/* 22:22 is of base 60 to YAML 1.1, and a text to dstack */
		if (v->type == YAML_TEXT)
			text = v->text;
		else if (job_word(r, v, &text) < 0)
			return -1;
		colon = strrchr(text, ':');
		*end = job_new(r, v, YAML_TEXT, colon ? colon + 1 : text);
		end = &(*end)->next;
	}
	job_put(job_resources_of(r, out), "ports", ports);
	return 0;
}

/* "16", "16..", "16..32": the least, with "+". */
static int put_least(struct job_reader *r, struct yaml *out, const char *to,
	const struct yaml *v)
{
	struct buf text = BUF_INIT;
	const char *range, *end;

	if (job_word(r, v, &range) < 0)
		return -1;
	end = strstr(range, "..");
	buf_add(&text, range, end ? (size_t)(end - range) : strlen(range));
	buf_adds(&text, "+");
	if (!end || end != range)
		job_put(job_resources_of(r, out), to, job_new_text(r, v, &text));
	buf_release(&text);
	return 0;
}

/* One part of "A100,H100:80GB:8": names, memory, a number, or a maker. */
struct dstack_gpu_parts {
	char names[200], memory[32], count[32];
	bool range; /* of memory */
};

static int take_part(const struct job_reader *r, const struct yaml *at, const char *part,
	size_t len, struct dstack_gpu_parts *p)
{
	size_t digits = strspn(part, "0123456789");
	char *to = p->names;
	size_t room = sizeof p->names;
	const char *dots;

	if (strncasecmp(part, "tpu", 3) == 0 ||
		(len == 6 && strncasecmp(part, "google", 6) == 0))
		return job_fail(r, at, "TPUs are not to be had here: name a GPU");
	if ((len == 6 && strncasecmp(part, "nvidia", 6) == 0) ||
		(len == 3 && strncasecmp(part, "amd", 3) == 0))
		return 0;
	if (digits >= len || (digits && strncmp(part + digits, "..", 2) == 0)) {
		to = p->count;
		room = sizeof p->count;
	} else if (digits && strncasecmp(part + digits, "GB", 2) == 0) {
		to = p->memory;
		room = sizeof p->memory;
	}
	dots = to == p->names ? NULL : strstr(part, "..");
	if (dots && dots < part + len) {
		len = (size_t)(dots - part);
		p->range |= to == p->memory;
	}
	if (*to || len >= room || !len)
		return job_fail(r, at,
			"gpu is not understood: write it as H100:8, 24GB or H100:80GB:8");
	memcpy(to, part, len);
	to[len] = '\0';
	return 0;
}

/* The parts as a set of "NAME-80GB:8", or "24GB:2", or "any:2". */
static void put_parts(struct job_reader *r, struct yaml *out, const struct yaml *at,
	const struct dstack_gpu_parts *p)
{
	struct yaml *set = job_new(r, at, YAML_MAP, NULL);
	const char *name = *p->names ? p->names : *p->memory ? p->memory : "any";

	if (*p->names && p->range)
		job_warn(r, at,
			"a range of memory means nothing here beside a GPU's name");
	while (*name) {
		size_t len = strcspn(name, ",");
		struct buf text = BUF_INIT;

		buf_add(&text, name, len);
		if (*p->names && *p->memory && !p->range)
			buf_addf(&text, "-%s", p->memory);
		buf_addf(&text, ":%s", *p->count ? p->count : "1");
		if (len && !yaml_get(set, buf_text(&text)))
			job_put(set, arena_strdup(&r->arena, buf_text(&text)),
				job_new(r, at, YAML_NULL, ""));
		buf_release(&text);
		name += len + (name[len] == ',');
	}
	job_put(job_resources_of(r, out), "accelerators", set);
}

static int put_gpu(struct job_reader *r, struct yaml *out, struct yaml *v)
{
	struct dstack_gpu_parts parts = { "", "", "", false };
	const char *text;
	struct buf joined = BUF_INIT;
	int rc = 0;

	if (v->type == YAML_MAP) {
		static const char *const fields[] = { "name", "memory", "count" };

		rc = job_check_fields(r, v, "resources.gpu", dstack_gpu);
		for (int i = 0; i < 3 && rc == 0; i++) {
			const struct yaml *f = yaml_get(v, fields[i]);

			if (!f || f->type == YAML_NULL)
				continue;
			if (f->type == YAML_LIST) {
				for (f = f->first; f && rc == 0; f = f->next) {
					rc = job_word(r, f, &text);
					if (rc == 0)
						buf_addf(&joined, "%s%s", text,
							f->next ? "," : ":");
				}
			} else {
				rc = job_word(r, f, &text);
				if (rc == 0)
					buf_addf(&joined, "%s:", text);
			}
		}
	} else {
		/* 1:30 is of base 60 to YAML 1.1; a gpu's parts are never that */
		rc = v->type == YAML_TEXT && !v->doubt ? (text = v->text, 0) :
							 job_word(r, v, &text);
		if (rc == 0)
			buf_adds(&joined, text);
	}
	for (const char *p = buf_text(&joined); *p && rc == 0;) {
		size_t len = strcspn(p, ":");

		rc = len ? take_part(r, v, p, len, &parts) : 0;
		p += len + (p[len] == ':');
	}
	buf_release(&joined);
	if (rc == 0)
		put_parts(r, out, v, &parts);
	return rc;
}

static int put_dstack_resources(struct job_reader *r, struct yaml *out, struct yaml *map)
{
	struct yaml *v;

	if (map->type == YAML_NULL)
		return 0;
	if (job_is(r, map, YAML_MAP, "fields, as gpu: 24GB") < 0 ||
		job_check_fields(r, map, "resources", dstack_resources) < 0)
		return -1;
	if ((v = yaml_get(map, "gpu")) && v->type != YAML_NULL && put_gpu(r, out, v) < 0)
		return -1;
	if ((v = yaml_get(map, "cpu")) && put_least(r, out, "cpus", v) < 0)
		return -1;
	if ((v = yaml_get(map, "memory")) && put_least(r, out, "memory", v) < 0)
		return -1;
	if ((v = yaml_get(map, "disk")) && put_least(r, out, "disk_size", v) < 0)
		return -1;
	return 0;
}

static int put_spot(struct job_reader *r, struct yaml *out, const struct yaml *v)
{
	const char *text;
	struct yaml *spot;

	if (job_text(r, v, &text) < 0)
		return -1;
	if (strcmp(text, "spot") != 0 && strcmp(text, "on-demand") != 0 &&
		strcmp(text, "auto") != 0)
		return job_fail(r, v,
			"spot_policy is spot, on-demand or auto, not '%.40s'", text);
	spot = job_new(r, v, YAML_BOOL, NULL);
	spot->yes = strcmp(text, "spot") == 0;
	job_put(job_resources_of(r, out), "use_spot", spot);
	return 0;
}

int job_put_dstack(struct job_reader *r, struct yaml *out, struct yaml *v)
{
	if (strcmp(v->key, "name") == 0 || strcmp(v->key, "nodes") == 0)
		job_put(out, v->key[1] == 'a' ? "name" : "num_nodes", v);
	else if (strcmp(v->key, "image") == 0)
		return job_put_image(r, out, v);
	else if (strcmp(v->key, "env") == 0)
		return put_env(r, out, v);
	else if (strcmp(v->key, "commands") == 0)
		return put_script(r, out, v);
	else if (strcmp(v->key, "ports") == 0)
		return put_ports(r, out, v);
	else if (strcmp(v->key, "resources") == 0)
		return put_dstack_resources(r, out, v);
	else if (strcmp(v->key, "spot_policy") == 0)
		return put_spot(r, out, v);
	else if (strcmp(v->key, "max_price") == 0)
		job_put(job_resources_of(r, out), "max_hourly_cost", v);
	return 0;
}
