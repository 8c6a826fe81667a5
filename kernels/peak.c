#include "kernels/peak.h"

#include <stddef.h>

#ifdef __x86_64__
/* In assembler: left alone, the compiler moves some of the sums to memory and back. The sums do not depend on each other,
 * and there are more of them than an instruction has cycles times units. Zeros, so that nothing overflows. */
#define SUMS_512  "8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31"
#define SUMS_256  "2,3,4,5,6,7,8,9,10,11,12,13,14,15"
#define COUNT_512 24
#define COUNT_256 14

#define LOOP(steps, registers, clear, zero, sum, instruction)                            \
	__asm__ volatile("vpxor %%xmm0, %%xmm0, %%xmm0\n"                                \
			 ".irp r," registers "\n" clear " %%" zero ", %%" sum "\\r\n"    \
			 ".endr\n"                                                       \
			 "1: .irp r," registers "\n" instruction " %%" zero ", %%" zero  \
			 ", %%" sum "\\r\n.endr\n"                                       \
			 "dec %0\n jnz 1b\n"                                             \
			 : "+r"(steps)                                                   \
			 :                                                               \
			 : "cc", "xmm0", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", \
			 "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14",    \
			 "xmm15" UPPER)

#define DEFINE(name, features, registers, clear, zero, sum, instruction)       \
	__attribute__((target(features))) static void name(uint64_t steps)     \
	{                                                                      \
		if (steps)                                                     \
			LOOP(steps, registers, clear, zero, sum, instruction); \
	}

#define UPPER
DEFINE(f32_avx2, "avx2,fma", SUMS_256, "vmovdqa", "ymm0", "ymm", "vfmadd231ps")
#undef UPPER
#define UPPER                                                                     \
	, "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", \
		"xmm24", "xmm25", "xmm26", "xmm27", "xmm28", "xmm29", "xmm30", "xmm31"
DEFINE(f32_avx512, "avx512f", SUMS_512, "vmovdqa64", "zmm0", "zmm", "vfmadd231ps")
DEFINE(bf16_avx512, "avx512f", SUMS_512, "vmovdqa64", "zmm0", "zmm", "vdpbf16ps")
DEFINE(i8_avx512, "avx512f", SUMS_512, "vmovdqa64", "zmm0", "zmm", "vpdpbusd")

const struct peak *peak_of(enum product_type type, enum cpu_level level)
{
	static const struct peak avx2_f32 = { "vfmadd231ps ymm", f32_avx2,
		2 * 8 * COUNT_256 };
	static const struct peak f32 = { "vfmadd231ps zmm", f32_avx512,
		2 * 16 * COUNT_512 };
	static const struct peak bf16 = { "vdpbf16ps zmm", bf16_avx512,
		2 * 32 * COUNT_512 };
	static const struct peak i8 = { "vpdpbusd zmm", i8_avx512, 2 * 64 * COUNT_512 };
	struct cpu_features has = cpu_features(level);

	if (type == PRODUCT_F32)
		return level == CPU_AVX512 ? &f32 : level == CPU_AVX2 ? &avx2_f32 : NULL;
	if (type == PRODUCT_BF16)
		return has.bf16 ? &bf16 : NULL;
	return type == PRODUCT_I8 && has.vnni ? &i8 : NULL;
}
#else
const struct peak *peak_of(enum product_type type, enum cpu_level level)
{
	(void)type, (void)level;
	return NULL;
}
#endif
