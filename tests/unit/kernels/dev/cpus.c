/* cpus.c - the CPUs of a container with a quota, by both versions of control groups. */
#include "kernels/dev/cpus.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/dev/team.h"
#include "tests/unit/test.h"

#define MASK 64

/* A large host, whose CPUs a container sees all. Our calls find this function. */
int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
	(void)pid;
	memset(set, 0, size);
	for (size_t i = 0; i < MASK; i++)
		CPU_SET_S(i, size, set);
	return 0;
}

static char root[] = "/tmp/rnp-cpus-XXXXXX";

static void put(const char *path, const char *text)
{
	char full[300];
	FILE *f;

	snprintf(full, sizeof full, "%s%s", root, path);
	for (char *at = full + strlen(root) + 1; (at = strchr(at, '/')); at++) {
		*at = '\0';
		mkdir(full, 0700);
		*at = '/';
	}
	f = fopen(full, "w");
	CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

int main(void)
{
	char command[100];

	CHECK(mkdtemp(root) && setenv("RNP_SYSROOT", root, 1) == 0);
	CHECK(cpus_quota_milli() == 0);
	CHECK(cpus_usable() == MASK);
	/* version 2: the smallest on the way up, and "max" is none */
	put("/proc/self/cgroup", "0::/a/b\n");
	put("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
	CHECK(cpus_quota_milli() == 0 && cpus_usable() == MASK);
	put("/sys/fs/cgroup/a/cpu.max", "140000 100000\n");
	CHECK(cpus_quota_milli() == 1400 && cpus_usable() == 1);
	put("/sys/fs/cgroup/a/cpu.max", "350000 100000\n");
	CHECK(cpus_quota_milli() == 3500 && cpus_usable() == 4 && team_cpus() == 4);
	put("/sys/fs/cgroup/a/b/cpu.max", "50000 100000\n");
	CHECK(cpus_quota_milli() == 500 && cpus_usable() == 1);
	put("/sys/fs/cgroup/a/b/cpu.max", "900000 1000\n");
	put("/sys/fs/cgroup/a/cpu.max", "max 100000\n");
	CHECK(cpus_quota_milli() == 900000 && cpus_usable() == MASK);
	/* a container whose own group is the root of what it sees */
	put("/proc/self/cgroup", "0::/not/there\n");
	put("/sys/fs/cgroup/cpu.max", "100000 100000\n");
	CHECK(cpus_quota_milli() == 1000 && cpus_usable() == 1);
	/* version 1; what is malformed is none */
	put("/proc/self/cgroup", "9:memory:/x\n2:cpu,cpuacct:/docker/1\n");
	put("/sys/fs/cgroup/cpu/docker/1/cpu.cfs_quota_us", "-1\n");
	put("/sys/fs/cgroup/cpu/docker/1/cpu.cfs_period_us", "100000\n");
	put("/sys/fs/cgroup/cpu.max", "max\n");
	CHECK(cpus_quota_milli() == 0);
	put("/sys/fs/cgroup/cpu/docker/1/cpu.cfs_quota_us", "100000\n");
	CHECK(cpus_quota_milli() == 1000 && cpus_usable() == 1);
	put("/proc/self/cgroup", "nothing\n:\n");
	CHECK(cpus_quota_milli() == 0);
	snprintf(command, sizeof command, "rm -r %s", root);
	CHECK(system(command) == 0);
	TEST_END();
}
