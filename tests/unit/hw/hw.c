/* hw.c - what the parsers of /proc and cgroup texts make of good and of odd input. */
#include "common/hw/hw.h"
#include "common/hw/power.h"

#include "tests/unit/test.h"

static void check_cpulists(void)
{
	static const char *const bad[] = { "a", "1-", "3-1", "1,", ",", "-1", "0-9999999",
		"1 2", "99999999999999999999", "0-1048575,0-1048575" };
	int first;

	CHECK_I64(0, hw_parse_cpulist("", &first));
	CHECK_I64(1, hw_parse_cpulist("7", &first));
	CHECK_I64(7, first);
	CHECK_I64(6, hw_parse_cpulist("2-5,8,10", &first));
	CHECK_I64(2, first);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK_I64(-1, hw_parse_cpulist(bad[i], NULL));
}

static void check_limits(void)
{
	CHECK_I64(0, hw_parse_limit("max"));
	CHECK_I64(0, hw_parse_limit("9223372036854771712"));
	CHECK_I64(4096, hw_parse_limit("4096"));
	CHECK_I64(-1, hw_parse_limit("4096 "));
	CHECK_I64(-1, hw_parse_limit(""));
	CHECK_I64(1500, hw_parse_cpu_max("150000 100000"));
	CHECK_I64(1, hw_parse_cpu_max("1 100000"));
	CHECK_I64(0, hw_parse_cpu_max("max 100000"));
	CHECK_I64(-1, hw_parse_cpu_max("150000"));
	CHECK_I64(-1, hw_parse_cpu_max("150000 0"));
	CHECK_I64(-1, hw_parse_cpu_max("x 100000"));
}

static void check_fields(void)
{
	CHECK_I64(77, hw_parse_field("MemFree: 1 kB\nMemTotal:   77 kB\n", "MemTotal:"));
	CHECK_I64(5, hw_parse_field("nr_throttled 5", "nr_throttled"));
	CHECK_I64(-1, hw_parse_field("", "nr_throttled"));
	CHECK_I64(-1, hw_parse_field("x nr_throttled 5\n", "nr_throttled"));
	CHECK_I64(-1, hw_parse_field("nr_throttled\n5\n", "nr_throttled"));
	CHECK_I64(-1, hw_parse_field("nr_throttled -5\n", "nr_throttled"));
}

static void check_cpuinfo(void)
{
	struct hw_cpu cpu = { 0 };

	hw_parse_cpuinfo("model name : \"A\" \x01 CPU  \nflags: avx512f avx2x fma\n",
		&cpu);
	CHECK_TEXT("A\"  CPU", cpu.model);
	CHECK_I64(2, cpu.nisa);
	CHECK_TEXT("fma", cpu.isa[0]);
	CHECK_TEXT("avx512f", cpu.isa[1]);
	memset(&cpu, 0, sizeof cpu);
	hw_parse_cpuinfo("model name\nflags\n:\n\n", &cpu);
	CHECK_TEXT("", cpu.model);
	CHECK_I64(0, cpu.nisa);
}

static void check_group(const char *cgroup, const char *mountinfo, const char *controller,
	const char *mount, const char *group)
{
	struct buf m = BUF_INIT, g = BUF_INIT;

	CHECK(hw_parse_cgroup(cgroup, mountinfo, controller, &m, &g) == (mount != NULL));
	if (mount) {
		CHECK_TEXT(mount, buf_text(&m));
		CHECK_TEXT(group, buf_text(&g));
	}
	buf_release(&m);
	buf_release(&g);
}

static void check_cgroups(void)
{
	static const char v2[] = "35 24 0:30 / /cg rw shared:9 - cgroup2 cgroup2 rw\n";
	static const char inner[] = "35 24 0:30 /docker/a /cg rw - cgroup2 cgroup rw";
	static const char v1[] = "1 2 0:3 / /a\\040b rw - cgroup cgroup rw,cpu,cpuacct\n";

	check_group("0::/x/y\n", v2, "", "/cg", "/x/y");
	check_group("0::/docker/a/z\n", inner, "", "/cg", "/z");
	check_group("0::/\n", inner, "", "/cg", ""); /* a namespace of its own */
	check_group("0::/../other\n", v2, "", "/cg", "");
	check_group("3:cpu,cpuacct:/j\n", v1, "cpu", "/a b", "/j");
	check_group("3:cpu,cpuacct:/j\n", v1, "cp", NULL, NULL);
	check_group("3:cpu,cpuacct:/j\n", v1, "", NULL, NULL);
	check_group("3:cpu\n", v1, "cpu", NULL, NULL);
	check_group("", "1 2 3 4 5\n- - - - - - -\n\n", "", NULL, NULL);
}

static void check_counters(void)
{
	CHECK_I64(5, power_since(10, 15, 100));
	CHECK_I64(0, power_since(10, 10, 100));
	CHECK_I64(7, power_since(98, 5, 100));  /* began anew */
	CHECK_I64(0, power_since(98, 5, 0));    /* it never should */
	CHECK_I64(0, power_since(200, 5, 100)); /* beyond its own range */
	CHECK_I64(INT64_MAX, power_since(0, INT64_MAX, INT64_MAX));
}

int main(void)
{
	check_counters();
	check_cpulists();
	check_limits();
	check_fields();
	check_cpuinfo();
	check_cgroups();
	TEST_END();
}
