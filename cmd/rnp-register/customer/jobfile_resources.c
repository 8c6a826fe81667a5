/* jobfile_resources.c - `resources`: one wish, or several where it names alternatives. */
#include "cmd/rnp-register/customer/jobfile_parts.h"

#include <string.h>
#include <strings.h>

#include "common/base/err.h"
#include "common/base/num.h"
#include "common/json/json.h"

#define GB           INT64_C(1000000000)
#define WISHES_MAX   64
#define CORES_MAX    4096
#define MEMORY_MAX_B (INT64_C(1000000) * GB)

/* resources, and one of its alternatives, whose fields come first; or NULL. */
struct source {
	const struct yaml *base, *own;
};

static const struct yaml *field_of(const struct source *s, const char *name)
{
	const struct yaml *v = yaml_get(s->own, name);

	if (!v)
		v = yaml_get(s->base, name);
	return v && v->type != YAML_NULL ? v : NULL;
}

/* --- sizes -------------------------------------------------------------------------------- */

/* "8", "8+": at least so many; SkyPilot's exact number cannot be had, nor need be. */
static int read_cores(struct job_reader *r, const struct yaml *v, json_t *wish)
{
	const char *text;
	int64_t n = 0;
	size_t digits;

	if (job_word(r, v, &text) < 0)
		return -1;
	digits = strspn(text, "0123456789");
	for (size_t i = 0; i < digits && n <= CORES_MAX; i++)
		n = n * 10 + (text[i] - '0');
	if (!digits || (text[digits] && strcmp(text + digits, "+") != 0) || n < 1 ||
		n > CORES_MAX)
		return job_fail(r, v,
			"cpus has to be a whole number, as 8 or 8+, not '%.40s'", text);
	json_set_i64(wish, "cpu_cores", n);
	return 0;
}

/* "32", "32+", "32GB+", "1TB": bytes, at least; GB without a unit, as SkyPilot has it. */
static int read_size(struct job_reader *r, const struct yaml *v, const char *to,
	json_t *wish)
{
	const char *text;
	char amount[64];
	size_t len;
	int64_t bytes = 0;
	int bad;

	if (job_word(r, v, &text) < 0)
		return -1;
	len = strlen(text);
	if (len && text[len - 1] == '+')
		len--;
	bad = !len || len > 40;
	if (!bad) {
		memcpy(amount, text, len);
		strcpy(amount + len, strspn(text, "0123456789.") == len ? "GB" : "");
		bad = num_size(amount, v->key, &bytes) < 0 || bytes < 1 ||
			bytes > MEMORY_MAX_B;
	}
	if (bad)
		return job_fail(r, v,
			"%s has to be a size, as 32, 32+ or 512GB, not '%.40s'", v->key,
			text);
	json_set_i64(wish, to, bytes);
	return 0;
}

/* SkyPilot's limit is of one node; a wish's is of all. */
static int read_cost(struct job_reader *r, const struct yaml *v, json_t *wish)
{
	int64_t uusd;

	if (job_uusd(r, v, &uusd) < 0)
		return -1;
	if (uusd > JSON_SAFE_INTEGER_MAX / r->nodes)
		return job_fail(r, v, "max_hourly_cost is beyond all money");
	json_set_i64(wish, "max_uusd_per_hour", uusd * r->nodes);
	return 0;
}

static int read_image(struct job_reader *r, const struct yaml *v, json_t *wish)
{
	const char *text = NULL;

	if (v->type != YAML_MAP && job_text(r, v, &text) < 0)
		return -1;
	if (!text || strncmp(text, "docker:", 7) != 0 || !text[7])
		return job_fail(r, v,
			"image_id %s%.80s%s is an image of a cloud: write docker:NAME; --drop image_id leaves it out",
			text ? "'" : "", text ? text : "by region", text ? "'" : "");
	if (strpbrk(text + 7, " \t\n") || strlen(text) > 500)
		return job_fail(r, v, "'%.80s' is no name of an image", text + 7);
	json_set_text(wish, "image", text + 7);
	return 0;
}

/* --- what belongs to the job, not to a node ------------------------------------------------ */

/* 8080, "8000-8010" */
static int read_port(struct job_reader *r, const struct yaml *v, json_t *ports)
{
	const char *text, *dash;
	int64_t from = 0, to = 0;
	char first[16];
	int bad;

	if (job_word(r, v, &text) < 0)
		return -1;
	dash = strchr(text, '-');
	bad = dash - text >= (ptrdiff_t)sizeof first;
	if (!bad && dash) {
		memcpy(first, text, (size_t)(dash - text));
		first[dash - text] = '\0';
		bad = num_i64(first, "port", 1, 65535, &from) < 0 ||
			num_i64(dash + 1, "port", from, 65535, &to) < 0;
	} else if (!bad) {
		bad = num_i64(text, "port", 1, 65535, &from) < 0;
	}
	if (bad)
		return job_fail(r, v,
			"'%.40s' is no port from 1 to 65535, and no range as 8000-8010",
			text);
	json_push_text(ports, text);
	return 0;
}

static int read_ports(struct job_reader *r, const struct yaml *v)
{
	json_t *ports = json_object_get(r->task, "ports");

	if (v->type != YAML_LIST)
		return read_port(r, v, ports);
	for (const struct yaml *item = v->first; item; item = item->next)
		if (read_port(r, item, ports) < 0)
			return -1;
	return 0;
}

/* "10m", "2h", 10 (minutes) */
static int read_idle(struct job_reader *r, const struct yaml *v, int64_t *seconds)
{
	static const char units[] = "mhdw";
	static const int64_t minutes[] = { 1, 60, 1440, 10080 };
	const char *text, *unit;
	int64_t n = 0, times = 1;
	size_t digits;

	if (job_word(r, v, &text) < 0)
		return -1;
	digits = strspn(text, "0123456789");
	unit = digits && digits < 7 && text[digits] && !text[digits + 1] ?
		strchr(units, text[digits]) :
		NULL;
	if (!digits || digits > 6 || (text[digits] && !unit))
		return job_fail(r, v,
			"'%.40s' is no time to be idle: write minutes, or 10m, 2h, 1d",
			text);
	for (size_t i = 0; i < digits; i++)
		n = n * 10 + (text[i] - '0');
	if (unit)
		times = minutes[unit - units];
	*seconds = n * times * 60;
	return 0;
}

static const struct job_field autostop_fields[] = {
	{ "idle_minutes", JOB_WORKS, NULL },
	{ "down", JOB_WORKS, NULL },
	{ "wait_for", JOB_NOTHING, "sessions and work both count as not idle" },
	{ "hook", JOB_REFUSED, "write what it does at the end of run" },
	{ "hook_timeout", JOB_NOTHING, "there are no hooks" },
	{ NULL, JOB_WORKS, NULL },
};

static int read_autostop(struct job_reader *r, struct yaml *v)
{
	const struct yaml *idle = v, *down = NULL;
	int64_t seconds = 300;
	bool yes = false;
	json_t *stop;

	if (v->type == YAML_MAP) {
		if (job_check_fields(r, v, "autostop", autostop_fields) < 0)
			return -1;
		idle = yaml_get(v, "idle_minutes");
		down = yaml_get(v, "down");
	}
	if (v->type == YAML_BOOL && !v->yes)
		return 0;
	if (idle && idle->type != YAML_BOOL && idle->type != YAML_NULL &&
		read_idle(r, idle, &seconds) < 0)
		return -1;
	if (down && down->type != YAML_NULL && job_bool(r, down, &yes) < 0)
		return -1;
	stop = json_object();
	json_set_i64(stop, "idle_s", seconds);
	json_set_bool(stop, "down", yes);
	json_set(r->task, "autostop", stop);
	return 0;
}

static const struct job_field recovery_fields[] = {
	{ "strategy", JOB_NOTHING, "a replacement is the next best node" },
	{ "max_restarts_on_errors", JOB_WORKS, NULL },
	{ "recover_on_exit_codes", JOB_WORKS, NULL },
	{ NULL, JOB_WORKS, NULL },
};

static int read_codes(struct job_reader *r, const struct yaml *v, json_t *recovery)
{
	json_t *codes = json_array();
	const struct yaml *one = v->type == YAML_LIST ? v->first : v;
	int64_t code;

	json_set(recovery, "exit_codes", codes);
	for (; one; one = v->type == YAML_LIST ? one->next : NULL) {
		if (job_whole(r, one, 0, 255, &code) < 0)
			return -1;
		json_push(codes, json_integer(code));
	}
	return 0;
}

static int read_recovery(struct job_reader *r, struct yaml *v)
{
	json_t *recovery;
	const struct yaml *f;
	int64_t restarts;

	if (v->type != YAML_MAP) {
		const char *text;

		if (job_text(r, v, &text) < 0)
			return -1;
		job_warn(r, v,
			"%s '%.40s' means nothing here: a replacement is the next best node",
			v->key, text);
		return 0;
	}
	if (job_check_fields(r, v, v->key, recovery_fields) < 0)
		return -1;
	recovery = json_object();
	json_set(r->task, "recovery", recovery);
	f = yaml_get(v, "max_restarts_on_errors");
	if (f && f->type != YAML_NULL) {
		if (job_whole(r, f, 0, 1000, &restarts) < 0)
			return -1;
		json_set_i64(recovery, "max_restarts_on_errors", restarts);
	}
	f = yaml_get(v, "recover_on_exit_codes");
	return f && f->type != YAML_NULL ? read_codes(r, f, recovery) : 0;
}

static int read_labels(struct job_reader *r, const struct yaml *v)
{
	json_t *labels = json_object();

	json_set(r->task, "labels", labels);
	if (job_is(r, v, YAML_MAP, "labels, each as name: text") < 0)
		return -1;
	for (const struct yaml *one = v->first; one; one = one->next) {
		const char *text;

		if (job_text(r, one, &text) < 0)
			return -1;
		json_set_text(labels, one->key, text);
	}
	return 0;
}

/* --- wishes ------------------------------------------------------------------------------- */

static int read_node(struct job_reader *r, const struct source *s, json_t *wish)
{
	const struct yaml *v;
	bool spot = false;

	if ((v = field_of(s, "cpus")) && read_cores(r, v, wish) < 0)
		return -1;
	if ((v = field_of(s, "memory")) && read_size(r, v, "memory_bytes", wish) < 0)
		return -1;
	if ((v = field_of(s, "disk_size")) && read_size(r, v, "disk_bytes", wish) < 0)
		return -1;
	if ((v = field_of(s, "max_hourly_cost")) && read_cost(r, v, wish) < 0)
		return -1;
	if ((v = field_of(s, "image_id")) && read_image(r, v, wish) < 0)
		return -1;
	if ((v = field_of(s, "use_spot")) && job_bool(r, v, &spot) < 0)
		return -1;
	if (spot)
		json_set_bool(wish, "spot", true);
	return 0;
}

/* What is asked for besides the resources. */
static int begin_wish(struct job_reader *r, json_t *wish)
{
	json_set_text(wish, "job", json_string_value(json_object_get(r->task, "name")));
	json_set_i64(wish, "nodes", r->nodes);
	return job_read_places(r, wish);
}

/* The wishes of one alternative, or of resources alone. Those that are there already are left out:
 * alternatives may differ in nothing but what was dropped. */
static int add_wishes(struct job_reader *r, const struct source *s, json_t *wishes,
	bool *ordered)
{
	json_t *wish = json_record("rnp.job"), *mine = json_array(), *w;
	const struct yaml *gpus = field_of(s, "accelerators");
	bool list = false;
	size_t i, k;
	int rc = -1;

	if (gpus && field_of(s, "gpus")) {
		job_fail_field(r, field_of(s, "gpus"),
			"gpus and accelerators are one field: leave one out");
		goto out;
	}
	gpus = gpus ? gpus : field_of(s, "gpus");
	if (begin_wish(r, wish) < 0 || read_node(r, s, wish) < 0 ||
		job_read_gpus(r, gpus, wish, mine, &list) < 0)
		goto out;
	if (s->own && list && !*ordered) {
		job_fail(r, gpus,
			"a list is tried in its order, and any_of in none: write ordered");
		goto out;
	}
	*ordered |= list;
	json_array_foreach(mine, i, w) {
		bool there = false;

		for (k = 0; k < json_array_size(wishes); k++)
			there |= json_equal(json_array_get(wishes, k), w);
		if (!there)
			json_push(wishes, json_incref(w));
	}
	rc = 0;
	if (json_array_size(wishes) > WISHES_MAX)
		rc = job_fail(r, s->base, "more than %d alternatives", WISHES_MAX);
out:
	json_decref(wish);
	json_decref(mine);
	return rc;
}

static int read_alternatives(struct job_reader *r, const struct yaml *base,
	const struct yaml *list, json_t *wishes, bool *ordered)
{
	for (const struct yaml *own = list->first; own; own = own->next) {
		struct source s = { base, own };

		if (add_wishes(r, &s, wishes, ordered) < 0)
			return -1;
	}
	return 0;
}

/* Fields that a job has once stand beside its alternatives. */
static int check_alternative(const struct job_reader *r, const struct yaml *own,
	const char *list)
{
	static const char *const once[] = { "any_of", "ordered", "ports", "autostop",
		"job_recovery", "spot_recovery", "labels" };

	for (const struct yaml *v = own->first; v; v = v->next)
		for (size_t i = 0; i < sizeof once / sizeof *once; i++)
			if (strcmp(v->key, once[i]) == 0)
				return job_fail_field(r, v,
					"%s is of the whole job: write it beside %s, not in it",
					v->key, list);
	return 0;
}

static int check_alternatives(struct job_reader *r, const struct yaml *list)
{
	if (!list || list->type == YAML_NULL)
		return 0;
	if (job_is(r, list, YAML_LIST, "a list of alternatives, each of them fields") < 0)
		return -1;
	if (!list->first)
		return job_fail(r, list, "%s is empty", list->key);
	for (struct yaml *own = list->first; own; own = own->next) {
		if (own->type != YAML_MAP)
			return job_fail(r, own,
				"an alternative is fields, as 'accelerators: A100:8'");
		if (job_check_fields(r, own, list->key, job_resource_fields) < 0 ||
			check_alternative(r, own, list->key) < 0)
			return -1;
	}
	return 0;
}

/* All names of fields, before a variable is filled in: what is dropped may have one without a
 * value. */
static int check_resources(struct job_reader *r, struct yaml *base)
{
	if (job_is(r, base, YAML_MAP, "fields, as 'accelerators: A100:8'") < 0 ||
		job_check_fields(r, base, "resources", job_resource_fields) < 0)
		return -1;
	return check_alternatives(r, yaml_get(base, "any_of")) < 0 ||
			check_alternatives(r, yaml_get(base, "ordered")) < 0 ?
		-1 :
		0;
}

/* The fields of which a job has one, whatever its alternatives. */
static int read_common(struct job_reader *r, const struct yaml *resources)
{
	static const struct {
		const char *name;
		int (*read)(struct job_reader *r, struct yaml *v);
	} readers[] = {
		{ "autostop", read_autostop },
		{ "job_recovery", read_recovery },
		{ "spot_recovery", read_recovery },
	};
	const struct yaml *v;

	for (size_t i = 0; i < sizeof readers / sizeof *readers; i++) {
		struct yaml *f = yaml_get(resources, readers[i].name);

		if (f && f->type != YAML_NULL && readers[i].read(r, f) < 0)
			return -1;
	}
	v = yaml_get(resources, "ports");
	if (v && v->type != YAML_NULL && read_ports(r, v) < 0)
		return -1;
	v = yaml_get(resources, "labels");
	return v && v->type != YAML_NULL ? read_labels(r, v) : 0;
}

int job_read_resources(struct job_reader *r)
{
	struct yaml *base = yaml_get(r->root, "resources");
	const struct yaml *any, *ordered_list;
	json_t *wishes = json_object_get(r->task, "wishes");
	struct source alone = { NULL, NULL };
	bool ordered = false;
	int rc;

	if (base && base->type == YAML_NULL)
		base = NULL;
	alone.base = base;
	if (base) {
		if (check_resources(r, base) < 0 || job_fill(r, base) < 0 ||
			read_common(r, base) < 0)
			return -1;
	}
	any = field_of(&alone, "any_of");
	ordered_list = field_of(&alone, "ordered");
	if (any && ordered_list)
		return job_fail_field(r, ordered_list,
			"any_of and ordered exclude one another: leave one out");
	ordered = ordered_list != NULL;
	if (any || ordered_list)
		rc = read_alternatives(r, base, any ? any : ordered_list, wishes,
			&ordered);
	else
		rc = add_wishes(r, &alone, wishes, &ordered);
	json_set_text(r->task, "choose", ordered ? "first" : "cheapest");
	return rc;
}
