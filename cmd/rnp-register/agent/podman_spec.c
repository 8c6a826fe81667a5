/* podman_spec.c - a container's wishes in podman's words. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/rnp-register/agent/podman_parts.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/json/json.h"

#define CPU_PERIOD_US 100000
#define OPTIONS_MAX   4096

/* What a user of its own namespace needs to install packages and to change users; with none, root
 * cannot even write below /. */
static const char *const capabilities[] = { "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID",
	"KILL", "SETUID", "SETGID", "SETPCAP" };

static json_t *texts(const char *const *list)
{
	json_t *array = json_array();

	for (; list && *list; list++)
		json_push_text(array, *list);
	return array;
}

/* "NAME=VALUE" pairs as an object. Returns NULL with err_set. */
static json_t *pairs(const char *const *list, const char *what)
{
	json_t *object = json_object();

	for (int n = 0; list && *list; list++, n++) {
		const char *equals = strchr(*list, '=');
		char *name;

		if (!equals || equals == *list || n >= OPTIONS_MAX) {
			json_decref(object);
			err_set(EX_DATAERR, "%s '%.100s' is not NAME=VALUE", what, *list);
			return NULL;
		}
		name = xstrndup(*list, (size_t)(equals - *list));
		json_set_text(object, name, equals + 1);
		free(name);
	}
	return object;
}

static json_t *id_map(const struct engine_spec *s)
{
	json_t *map = json_object(), *list = json_array();

	json_set_i64(map, "container_id", 0);
	json_set_i64(map, "host_id", s->first_id);
	json_set_i64(map, "size", s->ids);
	json_push(list, map);
	return list;
}

/* `userns: auto` is taken in silence as no mapping at all: every map is written out. */
static void set_users(json_t *o, const struct engine_spec *s)
{
	json_t *ids = json_object(), *mode = json_object();

	json_set_text(mode, "nsmode", "private");
	json_set(o, "userns", mode);
	json_set_bool(ids, "HostUIDMapping", false);
	json_set_bool(ids, "HostGIDMapping", false);
	json_set(ids, "UIDMap", id_map(s));
	json_set(ids, "GIDMap", id_map(s));
	json_set(o, "idmappings", ids);
}

static json_t *object_of(const char *key, int64_t v)
{
	json_t *o = json_object();

	json_set_i64(o, key, v);
	return o;
}

/* The defaults of nofile and nproc exceed what the machine's own limits allow where
 * CAP_SYS_RESOURCE is missing, so both are set. */
static void set_limits(json_t *o, const struct engine_spec *s)
{
	json_t *limits = json_object(), *memory = object_of("limit", s->memory_bytes);
	json_t *cpu = object_of("quota", s->cpu_millis * (CPU_PERIOD_US / 1000)),
	       *r = json_array();
	const struct {
		const char *type;
		int64_t max;
	} each[] = { { "nofile", s->files }, { "nproc", s->pids },
		/* with 1 the kernel hands no memory to what collects crashes on the machine,
		 * whatever its core_pattern says; 0 would not do */
		{ "core", 1 } };

	json_set_i64(memory, "swap", s->memory_bytes); /* in all: no swap */
	json_set_i64(cpu, "period", CPU_PERIOD_US);
	json_set(limits, "memory", memory);
	json_set(limits, "cpu", cpu);
	json_set(limits, "pids", object_of("limit", s->pids));
	json_set(o, "resource_limits", limits);
	for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
		json_t *one = json_object();

		json_set_text(one, "type", each[i].type);
		json_set_i64(one, "soft", each[i].max);
		json_set_i64(one, "hard", each[i].max);
		json_push(r, one);
	}
	json_set(o, "r_limits", r);
	if (s->shm_bytes)
		json_set_i64(o, "shm_size", s->shm_bytes);
}

static void set_rights(json_t *o)
{
	json_t *add = json_array(), *drop = json_array();

	for (size_t i = 0; i < sizeof capabilities / sizeof *capabilities; i++)
		json_push_text(add, capabilities[i]);
	json_push_text(drop, "ALL");
	json_set(o, "cap_add", add);
	json_set(o, "cap_drop", drop);
	json_set_bool(o, "no_new_privileges", true);
	json_set_bool(o, "privileged", false);
}

/* Of its own cgroup and no other it sees names and figures. Those of version 1 are mounted
 * whole in a namespace of users, whatever is said: there they are hidden. */
static void set_cgroup(json_t *o)
{
	static const char *const all[] = { "/sys/fs/cgroup", NULL };
	json_t *mode = json_object();

	if (access("/sys/fs/cgroup/cgroup.controllers", F_OK) < 0)
		json_set(o, "mask", texts(all));

	json_set_text(mode, "nsmode", "private");
	json_set(o, "cgroupns", mode);
}

static void set_network(json_t *o, const struct engine_spec *s)
{
	json_t *mode = json_object();

	/* "host" is podman's own, which is that of the lease (podman.h) */
	json_set_text(mode, "nsmode", s->netns ? "host" : "none");
	json_set(o, "netns", mode);
	if (s->netns && s->dns)
		json_set(o, "dns_server", texts(s->dns));
}

static void set_mounts(json_t *o, const struct engine_spec *s)
{
	json_t *list = json_array();

	for (size_t i = 0; i < s->nmounts; i++) {
		json_t *m = json_object(), *options = json_array();

		json_set_text(m, "type", "bind");
		json_set_text(m, "source", s->mounts[i].from);
		json_set_text(m, "destination", s->mounts[i].to);
		json_push_text(options, s->mounts[i].read_only ? "ro" : "rw");
		json_push_text(options, "nosuid");
		json_push_text(options, "nodev");
		json_push_text(options, "rbind");
		json_set(m, "options", options);
		json_push(list, m);
	}
	json_set(o, "mounts", list);
}

static void set_devices(json_t *o, const struct engine_spec *s)
{
	json_t *list = json_array();

	for (const char *const *d = s->devices; d && *d; d++) {
		json_t *one = json_object();

		json_set_text(one, "path", *d);
		json_push(list, one);
	}
	json_set(o, "devices", list);
}

/* The first program is ours to say: an image's own entry point would run before it. And podman
 * runs nothing of the image beside it, such as a check of its health. */
static void set_command(json_t *o, const struct engine_spec *s)
{
	static const char *const none[] = { "NONE", NULL };
	json_t *health = json_object(), *entry = json_array();

	json_set(health, "Test", texts(none));
	json_set(o, "healthconfig", health);
	if (s->command && s->command[0]) {
		json_push_text(entry, s->command[0]);
		json_set(o, "command", texts(s->command + 1));
	}
	if (json_array_size(entry))
		json_set(o, "entrypoint", entry);
	else
		json_decref(entry);
}

static int check_spec(const struct engine_spec *s)
{
	if (!s->ids || !s->first_id)
		return err_set(EX_DATAERR, "a container without users of its own");
	if (s->memory_bytes <= 0 || s->cpu_millis <= 0 || s->pids <= 0 || s->files <= 0)
		return err_set(EX_DATAERR, "a container without limits");
	for (size_t i = 0; i < s->nmounts; i++)
		if (s->mounts[i].from[0] != '/' || s->mounts[i].to[0] != '/')
			return err_set(EX_DATAERR, "'%.100s' is not an absolute path",
				s->mounts[i].to);
	return 0;
}

json_t *podman_spec(const struct engine_spec *s)
{
	json_t *o, *env = pairs(s->env, "variable"), *labels = pairs(s->labels, "label"),
		   *log;

	if (!env || !labels || check_spec(s) < 0) {
		json_decref(env);
		json_decref(labels);
		return NULL;
	}
	o = json_object();
	json_set_text(o, "name", s->name);
	json_set_text(o, "image", s->image);
	set_command(o, s);
	json_set(o, "env", env);
	json_set(o, "labels", labels);
	set_users(o, s);
	set_limits(o, s);
	set_rights(o);
	set_cgroup(o);
	set_network(o, s);
	set_mounts(o, s);
	set_devices(o, s);
	json_set_text(o, "hostname", s->hostname);
	json_set_text(o, "work_dir", s->work_dir);
	json_set_text(o, "restart_policy", "no");
	/* else podman mounts and sets more for an image whose program is called init */
	json_set_text(o, "systemd", "false");
	log = json_object();
	json_set_text(log, "driver", "k8s-file");
	json_set_i64(log, "size", s->log_bytes_max);
	json_set(o, "log_configuration", log);
	return o;
}
