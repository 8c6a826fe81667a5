/* seccomp.c - the profile of calls that containers may make. */
/* uses: cmd/rnp-register */
#include "cmd/rnp-register/agent/seccomp.h"

#include <string.h>

#include "common/json/json.h"
#include "tests/unit/test.h"

static json_t *narrow(const char *text)
{
	json_t *profile = json_parse_object(text, strlen(text), "profile"),
	       *out = profile ? seccomp_narrow(profile) : NULL;

	json_decref(profile);
	return out;
}

/* How many rules there are for a call with that action. */
static int rules(const json_t *profile, const char *name, const char *action)
{
	const json_t *one, *call;
	size_t i, k;
	int n = 0;

	json_array_foreach(json_object_get(profile, "syscalls"), i, one)
		if (strcmp(json_string_value(json_object_get(one, "action")), action) ==
			0)
			json_array_foreach(json_object_get(one, "names"), k, call)
				n += strcmp(json_string_value(call), name) == 0;
	return n;
}

int main(void)
{
	json_t *p = narrow(
		"{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"defaultErrnoRet\":38,\"archMap\":[1],\"syscalls\":["
		"{\"names\":[\"read\",\"clone\",\"unshare\",\"socket\",\"clone3\"],\"action\":\"SCMP_ACT_ALLOW\"},"
		"{\"names\":[\"mount\"],\"action\":\"SCMP_ACT_ALLOW\",\"includes\":{\"caps\":[\"CAP_SYS_ADMIN\"]}},"
		"{\"names\":[\"chroot\"],\"action\":\"SCMP_ACT_ERRNO\",\"errnoRet\":1}]}");

	CHECK(p != NULL);
	CHECK_I64(1, rules(p, "read", "SCMP_ACT_ALLOW"));
	CHECK_I64(0, rules(p, "unshare", "SCMP_ACT_ALLOW"));
	CHECK_I64(1, rules(p, "unshare", "SCMP_ACT_ERRNO"));
	CHECK_I64(0, rules(p, "mount", "SCMP_ACT_ALLOW"));
	CHECK_I64(1, rules(p, "chroot", "SCMP_ACT_ERRNO"));
	CHECK_I64(1, rules(p, "clone", "SCMP_ACT_ALLOW")); /* with a condition */
	CHECK_I64(0, rules(p, "clone3", "SCMP_ACT_ALLOW"));
	CHECK_I64(4, rules(p, "socket", "SCMP_ACT_ALLOW"));
	CHECK_I64(38, json_integer_value(json_object_get(p, "defaultErrnoRet")));
	CHECK(json_array_size(json_object_get(p, "archMap")) == 1);
	json_decref(p);
	/* one that lets through what it does not name would not be narrowed by taking names away */
	CHECK(narrow("{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":[]}") == NULL);
	CHECK(narrow("{\"syscalls\":[]}") == NULL);
	CHECK(narrow("{\"defaultAction\":\"SCMP_ACT_ERRNO\"}") == NULL);
	/* what is no rule is none afterwards */
	p = narrow(
		"{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"syscalls\":[1,{\"names\":[2]},{}]}");
	CHECK(p != NULL);
	CHECK_I64(1, rules(p, "bpf", "SCMP_ACT_ERRNO"));
	json_decref(p);
	TEST_END();
}
