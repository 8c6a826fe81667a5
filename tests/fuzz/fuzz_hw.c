/* fuzz_hw.c - fuzz target: parsers of the kernel's texts about a machine.
 *
 * The first byte selects the parser of the rest; for control groups a NUL separates the two
 * texts. It checks that texts fit and contain no control characters, that counts and limits are
 * in range, and that a group's path never leaves its mount. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/hw/hw.h"
#include "common/base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool promise)
{
	if (!promise)
		abort();
}

static void check_cpuinfo(const char *text)
{
	struct hw_cpu cpu = { 0 };

	hw_parse_cpuinfo(text, &cpu);
	must(strlen(cpu.model) < sizeof cpu.model);
	for (const char *c = cpu.model; *c; c++)
		must((unsigned char)*c >= ' ' && *c != 0x7f);
	must(cpu.nisa >= 0 && cpu.nisa <= HW_ISA_MAX);
}

static void check_numbers(const char *text)
{
	int first;
	int n = hw_parse_cpulist(text, &first);

	must(n >= -1 && n <= 1 << 20);
	must(n <= 0 || first >= 0);
	must(hw_parse_limit(text) >= -1);
	must(hw_parse_cpu_max(text) >= -1);
	must(hw_parse_field(text, "MemTotal:") >= -1);
}

static void check_group(const char *cgroup, const char *mountinfo)
{
	static const char *const controllers[] = { "", "cpu", "memory" };
	struct buf mount = BUF_INIT, group = BUF_INIT;

	for (int i = 0; i < 3; i++) {
		bool found = hw_parse_cgroup(cgroup, mountinfo, controllers[i], &mount,
			&group);

		must(!strstr(buf_text(&group), "/.."));
		must(found || group.len == 0);
		must(strlen(buf_text(&mount)) == mount.len);
		must(strlen(buf_text(&group)) == group.len);
	}
	buf_release(&mount);
	buf_release(&group);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text;

	if (!size)
		return 0;
	text = xstrndup((const char *)data + 1, size - 1);
	switch (data[0] % 3) {
	case 0:
		check_cpuinfo(text);
		break;
	case 1:
		check_numbers(text);
		break;
	default: {
		size_t len = strlen(text);
		const char *rest = len + 1 < size ? (const char *)data + 2 + len : NULL;
		char *mountinfo = rest ?
			xstrndup(rest, (size_t)((const char *)data + size - rest)) :
			xstrdup("");

		check_group(text, mountinfo);
		free(mountinfo);
	}
	}
	free(text);
	return 0;
}
