/* jobfile_fedml.c - a file for `fedml launch`, turned into ours. */
#include "cmd/rnp-register/customer/jobfile_parts.h"

#include <string.h>
#include <strings.h>

#include "common/base/buf.h"
#include "common/json/json.h"

const struct job_field job_fedml_fields[] = {
	{ "workspace", JOB_WORKS, NULL },
	{ "bootstrap", JOB_WORKS, NULL },
	{ "job", JOB_WORKS, NULL },
	{ "entry_point", JOB_WORKS, NULL },
	{ "job_name", JOB_WORKS, NULL },
	{ "job_type", JOB_WORKS, NULL },
	{ "computing", JOB_WORKS, NULL },
	{ "docker", JOB_WORKS, NULL },
	{ "data_args", JOB_WORKS, NULL },
	{ "model_args", JOB_WORKS, NULL },
	{ "training_params", JOB_WORKS, NULL },
	{ "fedml_data_args", JOB_WORKS, NULL },
	{ "fedml_model_args", JOB_WORKS, NULL },
	{ "fedml_training_params", JOB_WORKS, NULL },
	{ "job_subtype", JOB_NOTHING, "a job is its commands" },
	{ "framework_type", JOB_NOTHING, "a job is its commands" },
	{ "task_type", JOB_NOTHING, "a job is its commands" },
	{ "job_args", JOB_REFUSED,
		"there is no platform that has the job; write it here" },
	{ "server_job", JOB_REFUSED,
		"a job has no second program; start it in job on rank 0" },
	{ NULL, JOB_WORKS, NULL },
};

static const struct job_field fedml_computing[] = {
	{ "minimum_num_gpus", JOB_WORKS, NULL },
	{ "maximum_cost_per_hour", JOB_WORKS, NULL },
	{ "resource_type", JOB_WORKS, NULL },
	{ "device_type", JOB_WORKS, NULL },
	{ "allow_cross_cloud_resources", JOB_NOTHING, "nodes belong to no cloud" },
	{ NULL, JOB_WORKS, NULL },
};

static const struct job_field fedml_docker[] = {
	{ "image", JOB_WORKS, NULL },
	{ "ports", JOB_WORKS, NULL },
	{ "registry", JOB_REFUSED, "write it into image, as docker.io/name" },
	{ "username", JOB_REFUSED, "images have to be public" },
	{ "password", JOB_REFUSED, "images have to be public" },
	{ NULL, JOB_WORKS, NULL },
};

static const struct job_field fedml_commands[] = {
	{ "run_on_posix", JOB_WORKS, NULL },
	{ "run_on_windows", JOB_NOTHING, "nodes run Linux" },
	{ NULL, JOB_WORKS, NULL },
};

/* job, bootstrap: a text, or one for each system. */
static int put_commands(struct job_reader *r, struct yaml *out, const char *to,
	struct yaml *v)
{
	struct yaml *text = v;

	if (!v || v->type == YAML_NULL)
		return 0;
	if (v->type == YAML_MAP) {
		if (job_check_fields(r, v, v->key, fedml_commands) < 0)
			return -1;
		text = yaml_get(v, "run_on_posix");
		if (!text)
			return job_fail(r, v,
				"%.80s has no run_on_posix, and nodes run Linux", v->key);
	}
	job_put(out, to, text);
	return 0;
}

/* Arguments as variables of the same names. */
static int put_arguments(struct job_reader *r, struct yaml *out, struct yaml *args)
{
	struct yaml *envs = yaml_get(out, "envs"), *v, *next;

	if (args->type == YAML_NULL)
		return 0;
	if (job_is(r, args, YAML_MAP, "arguments, each as name: value") < 0)
		return -1;
	if (!envs) {
		envs = job_new(r, args, YAML_MAP, NULL);
		job_put(out, "envs", envs);
	}
	job_warn(r, args, "%.80s become variables of the same names", args->key);
	for (v = args->first; v; v = next) {
		next = v->next;
		if (v->type == YAML_LIST || v->type == YAML_MAP)
			return job_fail(r, v,
				"%.80s cannot be a variable: it is more than a text",
				v->key);
		if (yaml_get(envs, v->key))
			return job_fail_field(r, v,
				"%.80s is there already: rename one of them", v->key);
		if (v->type == YAML_BOOL)
			v->type = YAML_TEXT;
		job_put(envs, v->key, v);
	}
	return 0;
}

/* "$3000" an hour, and per GPU: for all GPUs of the node. */
static int put_cost(struct job_reader *r, struct yaml *out, const struct yaml *v,
	int64_t gpus)
{
	struct buf text = BUF_INIT;
	int64_t uusd;

	if (job_uusd(r, v, &uusd) < 0)
		return -1;
	if (uusd > JSON_SAFE_INTEGER_MAX / (gpus ? gpus : 1))
		return job_fail(r, v, "%.80s is beyond all money", v->key);
	uusd *= gpus ? gpus : 1;
	buf_addf(&text, "%lld.%06lld", (long long)(uusd / 1000000),
		(long long)(uusd % 1000000));
	job_put(job_resources_of(r, out), "max_hourly_cost", job_new_text(r, v, &text));
	buf_release(&text);
	return 0;
}

static int put_computing(struct job_reader *r, struct yaml *out, struct yaml *v)
{
	struct yaml *count = NULL, *type = NULL, *cost = NULL, *device = NULL;
	const char *name = "any", *kind = "GPU";
	struct buf text = BUF_INIT;
	int64_t n = 0;

	if (v->type == YAML_NULL)
		return 0;
	if (job_is(r, v, YAML_MAP, "fields, as minimum_num_gpus: 1") < 0 ||
		job_check_fields(r, v, "computing", fedml_computing) < 0)
		return -1;
	count = yaml_get(v, "minimum_num_gpus");
	type = yaml_get(v, "resource_type");
	cost = yaml_get(v, "maximum_cost_per_hour");
	device = yaml_get(v, "device_type");
	if (device && device->type != YAML_NULL && job_text(r, device, &kind) < 0)
		return -1;
	if (type && type->type != YAML_NULL && job_text(r, type, &name) < 0)
		return -1;
	n = type && strcasecmp(kind, "CPU") != 0;
	if (count && count->type != YAML_NULL && job_whole(r, count, 0, 4096, &n) < 0)
		return -1;
	if (n && strcasecmp(kind, "CPU") != 0) {
		buf_addf(&text, "%s:%lld", *name ? name : "any", (long long)n);
		job_put(job_resources_of(r, out), "accelerators",
			job_new_text(r, type && *name ? type : count, &text));
		buf_release(&text);
	}
	return cost && cost->type != YAML_NULL ? put_cost(r, out, cost, n) : 0;
}

static int put_docker(struct job_reader *r, struct yaml *out, struct yaml *v)
{
	struct yaml *image, *ports;

	if (v->type == YAML_NULL)
		return 0;
	if (job_is(r, v, YAML_MAP, "fields, as image: NAME") < 0 ||
		job_check_fields(r, v, "docker", fedml_docker) < 0)
		return -1;
	image = yaml_get(v, "image");
	ports = yaml_get(v, "ports");
	if (image && image->type != YAML_NULL && job_put_image(r, out, image) < 0)
		return -1;
	if (ports)
		job_put(job_resources_of(r, out), "ports", ports);
	return 0;
}

static int check_type(const struct job_reader *r, const struct yaml *v)
{
	const char *type;

	if (!v || v->type == YAML_NULL)
		return 0;
	if (job_text(r, v, &type) < 0)
		return -1;
	return strcmp(type, "train") == 0 || strcmp(type, "launch") == 0 ?
		0 :
		job_fail(r, v, "job_type '%.40s' is not to be had here: only train is",
			type);
}

int job_put_fedml(struct job_reader *r, struct yaml *out, struct yaml *v)
{
	if (strcmp(v->key, "workspace") == 0 || strcmp(v->key, "job_name") == 0)
		job_put(out, *v->key == 'w' ? "workdir" : "name", v);
	else if (strcmp(v->key, "bootstrap") == 0)
		return put_commands(r, out, "setup", v);
	else if (strcmp(v->key, "job") == 0 || strcmp(v->key, "entry_point") == 0)
		return yaml_get(out, "run") ?
			job_fail_field(r, v,
				"job and entry_point are one field: leave one out") :
			put_commands(r, out, "run", v);
	else if (strcmp(v->key, "computing") == 0)
		return put_computing(r, out, v);
	else if (strcmp(v->key, "docker") == 0)
		return put_docker(r, out, v);
	else if (strcmp(v->key, "job_type") == 0)
		return check_type(r, v);
	else
		return put_arguments(r, out, v);
	return 0;
}
