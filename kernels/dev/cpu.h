/* cpu.h - which instruction sets this CPU and its operating system support. libc only.
 *
 * A level is a column of kernels: `ref` is plain C, `avx2` needs AVX2, FMA and F16C, `avx512`
 * needs AVX-512 F, BW, DQ and VL. Within a level a kernel may use the further features below if
 * they are present. RNP_ISA=ref|avx2|avx512 lowers the level (never raises it);
 * RNP_ISA_WITHOUT=sha,vnni,bf16,ifma,amx disables some of them. */
#ifndef RNP_KERNELS_DEV_CPU_H
#define RNP_KERNELS_DEV_CPU_H

#include <stdbool.h>

#include "kernels/dev/hd.h"

enum cpu_level { CPU_REF, CPU_AVX2, CPU_AVX512, CPU_LEVELS };

struct cpu_features {
	bool sha, vnni, bf16, ifma;
	/* tiles, their bf16 and int8; the system may still refuse them: cpu_amx_permitted */
	bool amx;
};

KERNELS_BEGIN

extern const char *const cpu_level_names[CPU_LEVELS];

/* Returns the highest level this machine can run. */
enum cpu_level cpu_level_best(void);

/* Chooses the level to use: the best, or that of RNP_ISA. Returns 0, or -1: RNP_ISA names no
 * level, or one that this CPU lacks; *level is then the best. */
int cpu_level_chosen(enum cpu_level *level);

/* Whether the level that was chosen when this was first called is at least this one. The answer is
 * kept, for short loops: CPUID is slow in virtual machines. */
bool cpu_chose(enum cpu_level level);

/* Returns the CPU's features beyond a level; none below AVX2, vnni, bf16 and ifma only at
 * AVX-512. */
struct cpu_features cpu_features(enum cpu_level level);

/* Whether this process may use tiles: the system allocates memory for their registers only on
 * request (Linux 5.16). The request is made once; any thread; only if cpu_features has amx. */
bool cpu_amx_permitted(void);

KERNELS_END

#endif
