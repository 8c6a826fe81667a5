/* cpus.c - see cpus.h. */
#include "kernels/dev/cpus.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CPUS_MAX  65536
#define PATH_SIZE 4096

static int in_mask(void)
{
	for (int n = 1024; n <= CPUS_MAX; n *= 4) {
		cpu_set_t *set = CPU_ALLOC(n);
		size_t bytes = CPU_ALLOC_SIZE(n);
		int count = 0;

		if (set && sched_getaffinity(0, bytes, set) == 0)
			count = CPU_COUNT_S(bytes, set);
		CPU_FREE(set);
		if (count)
			return count;
	}
	return 1;
}

/* --- quota -------------------------------------------------------------------------------- */

static FILE *open_below(const char *root, const char *rest)
{
	const char *before = getenv("RNP_SYSROOT");
	char path[PATH_SIZE];

	if ((size_t)snprintf(path, sizeof path, "%s%s%s", before ? before : "", root,
		    rest) >= sizeof path)
		return NULL;
	return fopen(path, "re");
}

/* Reads up to two numbers of a file below a group; "max" is none. Returns how many. */
static int read_numbers(const char *group, const char *file, long long *a, long long *b)
{
	FILE *f = open_below(group, file);
	int n = f ? fscanf(f, "%lld %lld", a, b) : 0;

	if (f)
		fclose(f);
	return n;
}

static int64_t less(int64_t milli, long long quota, long long period)
{
	int64_t now = quota > 0 && quota < 1LL << 40 && period > 0 ?
		quota * 1000 / period :
		0;

	return now > 0 && (!milli || now < milli) ? now : milli;
}

/* Takes the smallest quota of a group and of those that it is in. */
static int64_t of_group(int64_t milli, const char *mount, char *group)
{
	for (;;) {
		char path[PATH_SIZE], *last;
		long long quota = 0, period = 0, none;

		snprintf(path, sizeof path, "%s%.2000s", mount, group);
		if (read_numbers(path, "/cpu.max", &quota, &period) == 2)
			milli = less(milli, quota, period);
		else if (read_numbers(path, "/cpu.cfs_quota_us", &quota, &none) == 1 &&
			read_numbers(path, "/cpu.cfs_period_us", &period, &none) == 1)
			milli = less(milli, quota, period);
		if (!*group)
			return milli;
		last = strrchr(group, '/');
		*(last ? last : group) = '\0';
	}
}

int64_t cpus_quota_milli(void)
{
	FILE *f = open_below("/proc/self/cgroup", "");
	char line[PATH_SIZE];
	int64_t milli = 0;

	while (f && fgets(line, sizeof line, f)) {
		char *names = strchr(line, ':'),
		     *group = names ? strchr(names + 1, ':') : NULL;

		if (!group)
			continue;
		*group++ = '\0';
		names++;
		group[strcspn(group, "\n")] = '\0';
		if (!*names)
			milli = of_group(milli, "/sys/fs/cgroup", group);
		else if (strcmp(names, "cpu") == 0 || strncmp(names, "cpu,", 4) == 0)
			milli = of_group(milli, "/sys/fs/cgroup/cpu", group);
	}
	if (f)
		fclose(f);
	return milli;
}

int cpus_usable(void)
{
	int cpus = in_mask();
	int64_t milli = cpus_quota_milli(), quota = (milli + 500) / 1000;

	if (milli && quota < cpus)
		cpus = quota > 1 ? (int)quota : 1;
	return cpus;
}
