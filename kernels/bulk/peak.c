/* peak.c - multiply-adds in registers on every instruction set, to measure the peak of a core. */
#include "kernels/bulk/peak.h"

#include <stddef.h>

#ifdef __x86_64__
/* Written in assembler, because the compiler would move some of the sums to memory and back.
 * The sums are independent, and there are more of them than the latency of an instruction times
 * the number of units. All factors are one, so that nothing overflows and each sum counts its
 * multiply-adds. */
#define SUMS_512  "8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31"
#define SUMS_256  "2,3,4,5,6,7,8,9,10,11,12,13,14,15"
#define COUNT_512 24
#define COUNT_256 14

#define ONE_F32  0x3f800000
#define ONE_BF16 0x3f803f80 /* two of them */
#define ONE_I8   0x01010101

/* Memory for each register of each loop; a sum that is never stored stays 0. */
union sums {
	float f32[6 * 256];
	int32_t i32[6 * 256];
};

static double total(const union sums *s, bool whole)
{
	double t = 0;

	for (size_t i = 0; i < sizeof s->f32 / sizeof *s->f32; i++)
		t += whole ? s->i32[i] : (double)s->f32[i];
	return t;
}

/* v: "ymm" or "zmm"; bytes: size of one */
#define LOOP(steps, one, sums, registers, move, v, bytes, instruction)                   \
	__asm__ volatile("vpbroadcastd %[o], %%" v "0\n"                                 \
			 "vpxor %%xmm1, %%xmm1, %%xmm1\n"                                \
			 ".irp r," registers "\n" move " %%" v "1, %%" v "\\r\n"         \
			 ".endr\n"                                                       \
			 "1: .irp r," registers "\n" instruction " %%" v "0, %%" v "0, " \
			 "%%" v "\\r\n.endr\n"                                           \
			 "dec %[n]\n jnz 1b\n"                                           \
			 ".irp r," registers "\n" move " %%" v "\\r, " bytes             \
			 "*\\r(%[s])\n.endr\n"                                           \
			 : [n] "+r"(steps)                                               \
			 : [o] "m"(one), [s] "r"(sums)                                   \
			 : "cc", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4",       \
			 "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",       \
			 "xmm12", "xmm13", "xmm14", "xmm15" UPPER)

#define DEFINE(name, features, ones, whole, registers, move, v, bytes, instruction)   \
	__attribute__((target(features))) static double name(uint64_t steps)          \
	{                                                                             \
		const uint32_t one = ones;                                            \
		union sums s = { { 0 } };                                             \
                                                                                      \
		if (steps)                                                            \
			LOOP(steps, one, &s, registers, move, v, bytes, instruction); \
		return total(&s, whole);                                              \
	}

#define UPPER
DEFINE(f32_avx2, "avx2,fma", ONE_F32, false, SUMS_256, "vmovdqu", "ymm", "32",
	"vfmadd231ps")
#undef UPPER
#define UPPER                                                                     \
	, "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", \
		"xmm24", "xmm25", "xmm26", "xmm27", "xmm28", "xmm29", "xmm30", "xmm31"
DEFINE(f32_avx512, "avx512f", ONE_F32, false, SUMS_512, "vmovdqu64", "zmm", "64",
	"vfmadd231ps")
DEFINE(bf16_avx512, "avx512f", ONE_BF16, false, SUMS_512, "vmovdqu64", "zmm", "64",
	"vdpbf16ps")
DEFINE(i8_avx512, "avx512f", ONE_I8, true, SUMS_512, "vmovdqu64", "zmm", "64", "vpdpbusd")

/* --- tiles -------------------------------------------------------------------------------- */

#define TILES 6 /* sums; an instruction takes 16 cycles and has its result after 52 */

struct tiles {
	uint8_t palette, start_row, reserved[14];
	uint16_t row_bytes[16];
	uint8_t rows[16];
} __attribute__((packed));

/* gcc has no names for tile registers and never uses them by itself */
#define DEFINE_TILES(name, ones, whole, instruction)                               \
	__attribute__((target("amx-tile,amx-bf16,amx-int8"))) static double name(  \
		uint64_t steps)                                                    \
	{                                                                          \
		struct tiles config = { .palette = 1 };                            \
		union sums s = { { 0 } };                                          \
		uint32_t one[256];                                                 \
                                                                                   \
		if (!steps)                                                        \
			return 0;                                                  \
		for (int i = 0; i < 8; i++) {                                      \
			config.row_bytes[i] = 64;                                  \
			config.rows[i] = 16;                                       \
		}                                                                  \
		for (int i = 0; i < 256; i++)                                      \
			one[i] = ones;                                             \
		__asm__ volatile("ldtilecfg %[c]\n"                                \
				 "tileloadd (%[o],%[w],1), %%tmm6\n"               \
				 "tileloadd (%[o],%[w],1), %%tmm7\n"               \
				 ".irp r,0,1,2,3,4,5\n tilezero %%tmm\\r\n.endr\n" \
				 "1: .irp r,0,1,2,3,4,5\n" instruction             \
				 " %%tmm7, %%tmm6, %%tmm\\r\n.endr\n"              \
				 "dec %[n]\n jnz 1b\n"                             \
				 ".irp r,0,1,2,3,4,5\n tilestored %%tmm\\r, "      \
				 "1024*\\r(%[s],%[w],1)\n.endr\n"                  \
				 "tilerelease\n"                                   \
				 : [n] "+r"(steps)                                 \
				 : [c] "m"(config), [o] "r"(one), [s] "r"(&s),     \
				 [w] "r"(INT64_C(64))                              \
				 : "cc", "memory");                                \
		return total(&s, whole);                                           \
	}

DEFINE_TILES(bf16_amx, ONE_BF16, false, "tdpbf16ps")
DEFINE_TILES(i8_amx, ONE_I8, true, "tdpbssd")

const struct peak *peak_of(enum product_type type, enum cpu_level level)
{
	static const struct peak avx2_f32 = { "vfmadd231ps ymm", f32_avx2,
		2 * 8 * COUNT_256, COUNT_256 / 2 };
	static const struct peak f32 = { "vfmadd231ps zmm", f32_avx512,
		2 * 16 * COUNT_512, COUNT_512 / 2 };
	static const struct peak bf16 = { "vdpbf16ps zmm", bf16_avx512,
		2 * 32 * COUNT_512, COUNT_512 };
	static const struct peak i8 = { "vpdpbusd zmm", i8_avx512, 2 * 64 * COUNT_512,
		COUNT_512 / 2 };
	/* 16 x 16 sums of 32 or 64 pairs per instruction */
	static const struct peak bf16_tiles = { "tdpbf16ps tmm", bf16_amx,
		2 * 256 * 32 * TILES, 16 * TILES };
	static const struct peak i8_tiles = { "tdpbssd tmm", i8_amx, 2 * 256 * 64 * TILES,
		16 * TILES };
	struct cpu_features has = cpu_features(level);
	bool tiles = has.amx && cpu_amx_permitted();

	if (type == PRODUCT_F32)
		return level == CPU_AVX512 ? &f32 : level == CPU_AVX2 ? &avx2_f32 : NULL;
	if (type == PRODUCT_BF16)
		return tiles ? &bf16_tiles : has.bf16 ? &bf16 : NULL;
	if (type == PRODUCT_I8)
		return tiles ? &i8_tiles : has.vnni ? &i8 : NULL;
	return NULL;
}
#else
const struct peak *peak_of(enum product_type type, enum cpu_level level)
{
	(void)type, (void)level;
	return NULL;
}
#endif
