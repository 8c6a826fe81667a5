/* seccomp.c - which calls of the kernel a container may make. */
#include "cmd/rnp-register/agent/seccomp.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/err.h"
#include "common/base/io.h"
#include "common/json/json.h"

#define PROFILE_BYTES_MAX (1 << 20)
/* CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET */
#define NEW_SPACES    0x7e020000
#define NETLINK_AUDIT 9

/* as podman looks for it: an administrator's own comes first */
static const char *const places[] = { "/etc/containers/seccomp.json",
	"/usr/share/containers/seccomp.json" };

/* What nobody may do. */
static const char *const refused[] = { "unshare", "setns", "mount", "umount", "umount2",
	"mount_setattr", "move_mount", "open_tree", "fsopen", "fsconfig", "fsmount",
	"fspick", "pivot_root", "keyctl", "add_key", "request_key", "bpf",
	"perf_event_open", "userfaultfd", "name_to_handle_at", "open_by_handle_at",
	"fanotify_init" };

/* What rules below say anew, or is as if the kernel did not have it, so that programs do without.
 * socketcall is how 32-bit programs of long ago make sockets of any family. */
static const char *const taken[] = { "clone", "clone3", "socket", "socketcall",
	"io_uring_setup", "io_uring_enter", "io_uring_register" };

static bool has(const char *const *all, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(all[i], name) == 0)
			return true;
	return false;
}

static bool is_taken(const char *name)
{
	return has(refused, sizeof refused / sizeof *refused, name) ||
		has(taken, sizeof taken / sizeof *taken, name);
}

/* A rule for one call. errno_name NULL: it is allowed. */
static json_t *rule(const char *name, const char *errno_name, int number)
{
	json_t *o = json_object(), *names = json_array();

	json_array_append_new(names, json_string(name));
	json_object_set_new(o, "names", names);
	json_object_set_new(o, "action",
		json_string(errno_name ? "SCMP_ACT_ERRNO" : "SCMP_ACT_ALLOW"));
	json_object_set_new(o, "args", json_array());
	if (errno_name) {
		json_object_set_new(o, "errno", json_string(errno_name));
		json_object_set_new(o, "errnoRet", json_integer(number));
	}
	return o;
}

/* Adds a condition on argument `index`. */
static void when(json_t *rule, int index, const char *op, int64_t value,
	int64_t value_two)
{
	json_t *o = json_object();

	json_object_set_new(o, "index", json_integer(index));
	json_object_set_new(o, "value", json_integer(value));
	json_object_set_new(o, "valueTwo", json_integer(value_two));
	json_object_set_new(o, "op", json_string(op));
	json_array_append_new(json_object_get(rule, "args"), o);
}

/* The profile's rule without the names above; NULL: nothing is left. */
static json_t *without(const json_t *old)
{
	json_t *o = json_deep_copy(old), *names = json_object_get(o, "names");

	for (size_t i = json_array_size(names); i-- > 0;) {
		const char *name = json_string_value(json_array_get(names, i));

		if (!name || is_taken(name))
			json_array_remove(names, i);
	}
	if (json_array_size(names))
		return o;
	json_decref(o);
	return NULL;
}

/* Threads and processes, but no namespaces. clone3 has its flags where no filter sees them,
 * and libc asks for clone where it is not there. */
static void add_clone(json_t *rules)
{
	json_t *clone = rule("clone", NULL, 0);

	when(clone, 0, "SCMP_CMP_MASKED_EQ", NEW_SPACES, 0);
	json_array_append_new(rules, clone);
	json_array_append_new(rules, rule("clone3", "ENOSYS", ENOSYS));
}

static void add_sockets(json_t *rules)
{
	static const int families[] = { AF_UNIX, AF_INET, AF_INET6 };
	json_t *netlink = rule("socket", NULL, 0);

	for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
		json_t *one = rule("socket", NULL, 0);

		when(one, 0, "SCMP_CMP_EQ", families[i], 0);
		json_array_append_new(rules, one);
	}
	when(netlink, 0, "SCMP_CMP_EQ", AF_NETLINK, 0);
	when(netlink, 2, "SCMP_CMP_NE", NETLINK_AUDIT, 0);
	json_array_append_new(rules, netlink);
}

json_t *seccomp_narrow(const json_t *profile)
{
	const json_t *old = json_object_get(profile, "syscalls"), *one;
	const char *action = json_string_value(json_object_get(profile, "defaultAction"));
	json_t *out, *rules;
	size_t i;

	if (!action || strcmp(action, "SCMP_ACT_ERRNO") != 0 || !json_is_array(old)) {
		err_set(EX_DATAERR,
			"the profile of seccomp does not refuse what it does not name");
		return NULL;
	}
	rules = json_array();
	json_array_foreach(old, i, one) {
		json_t *rest = without(one);

		if (rest)
			json_array_append_new(rules, rest);
	}
	for (i = 0; i < sizeof refused / sizeof *refused; i++)
		json_array_append_new(rules, rule(refused[i], "EPERM", EPERM));
	add_clone(rules);
	add_sockets(rules);
	out = json_copy((json_t *)profile);
	json_object_set_new(out, "syscalls", rules);
	return out;
}

/* Reads the first that is there. */
static json_t *read_profile(void)
{
	struct buf text = BUF_INIT;
	json_t *profile = NULL;
	size_t i = 0, n = sizeof places / sizeof *places;

	while (i < n && access(places[i], R_OK) < 0)
		i++;
	if (i == n)
		err_set(EX_UNAVAILABLE,
			"there is no '%s': install the package golang-github-containers-common",
			places[n - 1]);
	else if (io_read(&text, places[i], PROFILE_BYTES_MAX) == 0)
		profile = json_parse_object(buf_text(&text), text.len, places[i]);
	buf_release(&text);
	return profile;
}

int seccomp_write(const char *path)
{
	json_t *profile = read_profile(),
	       *narrow = profile ? seccomp_narrow(profile) : NULL;
	struct buf text = BUF_INIT;
	int rc = -1;

	if (narrow) {
		json_write(&text, narrow);
		rc = io_replace(path, text.data, text.len, 0600);
	}
	json_decref(profile);
	json_decref(narrow);
	buf_release(&text);
	return rc;
}
