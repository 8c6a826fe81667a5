/* cpu.c - asks CPUID and the operating system which instruction sets may be used. */
#include "kernels/dev/cpu.h"

#include <stdint.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

const char *const cpu_level_names[CPU_LEVELS] = { "ref", "avx2", "avx512" };

#ifdef __x86_64__
#include <cpuid.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Asked only once: in a virtual machine cpuid traps to the host and takes 27 us. */
static unsigned leaf7_ebx(void)
{
	static int64_t cached = -1;
	int64_t v = __atomic_load_n(&cached, __ATOMIC_RELAXED);
	unsigned a, b, c, d;

	if (v < 0) {
		v = __get_cpuid_count(7, 0, &a, &b, &c, &d) ? b : 0;
		__atomic_store_n(&cached, v, __ATOMIC_RELAXED);
	}
	return (unsigned)v;
}

enum cpu_level cpu_level_best(void)
{
	__builtin_cpu_init();
	if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
		return CPU_REF; /* F16C came before AVX2 in every CPU */
	if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
		__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
		return CPU_AVX512;
	return CPU_AVX2;
}

/* CPUID's AMX-TILE, AMX-BF16 and AMX-INT8 (no CPU has only one of the last two), and whether
 * the system saves their registers (XCR0, bits 17 and 18) */
static bool find_amx(void)
{
	unsigned a, b, c, d, low, high;

	if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d >> 22 & 0xd) != 0xd)
		return false;                                  /* bits 24, 22 and 25 */
	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c >> 27 & 1)) /* OSXSAVE */
		return false;
	__asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	return (low >> 17 & 3) == 3;
}

/* Asked only once, as leaf7_ebx. */
static bool has_amx(void)
{
	static int cached = -1;
	int v = __atomic_load_n(&cached, __ATOMIC_RELAXED);

	if (v < 0) {
		v = find_amx();
		__atomic_store_n(&cached, v, __ATOMIC_RELAXED);
	}
	return v;
}

/* Whether the comma-separated list RNP_ISA_WITHOUT does not name it. */
static bool enabled(const char *feature)
{
	const char *list = getenv("RNP_ISA_WITHOUT");
	size_t n = strlen(feature);

	while (list && *list) {
		if (strncmp(list, feature, n) == 0 && (!list[n] || list[n] == ','))
			return false;
		list = strchr(list, ',');
		list = list ? list + 1 : NULL;
	}
	return true;
}

struct cpu_features cpu_features(enum cpu_level level)
{
	struct cpu_features f = { 0 };

	__builtin_cpu_init();
	if (level >= CPU_AVX2)
		f.sha = (leaf7_ebx() >> 29 & 1) && enabled("sha");
	if (level >= CPU_AVX512) {
		f.vnni = __builtin_cpu_supports("avx512vnni") && enabled("vnni");
		f.bf16 = __builtin_cpu_supports("avx512bf16") && enabled("bf16");
		f.ifma = __builtin_cpu_supports("avx512ifma") && enabled("ifma");
		f.amx = f.bf16 && has_amx() && enabled("amx");
	}
	return f;
}

static bool amx_permitted;

static void ask_for_amx(void)
{
	enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };

	amx_permitted = syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM,
				XFEATURE_XTILEDATA) == 0;
}

bool cpu_amx_permitted(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, ask_for_amx);
	return amx_permitted;
}
#else
bool cpu_amx_permitted(void)
{
	return false;
}

enum cpu_level cpu_level_best(void)
{
	return CPU_REF;
}

struct cpu_features cpu_features(enum cpu_level level)
{
	(void)level;
	return (struct cpu_features){ 0 };
}
#endif

int cpu_level_chosen(enum cpu_level *level)
{
	const char *name = getenv("RNP_ISA");

	*level = cpu_level_best();
	if (!name || !*name)
		return 0;
	for (int i = 0; i <= (int)cpu_level_best(); i++)
		if (strcmp(name, cpu_level_names[i]) == 0) {
			*level = (enum cpu_level)i;
			return 0;
		}
	return -1;
}

bool cpu_chose(enum cpu_level level)
{
	static atomic_int known; /* 0: not asked yet, else the level + 1 */
	int k = atomic_load_explicit(&known, memory_order_relaxed);
	enum cpu_level chosen;

	if (k == 0) {
		(void)cpu_level_chosen(&chosen);
		k = (int)chosen + 1;
		atomic_store_explicit(&known, k, memory_order_relaxed);
	}
	return k > (int)level;
}
