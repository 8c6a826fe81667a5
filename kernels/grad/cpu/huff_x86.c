/* huff_x86.c - the entropy coder for x86: chooses the parts that this CPU can run. */
#include "kernels/grad/cpu/huff_x86.h"

#ifdef __x86_64__
static void count_bytes(uint32_t counts[256], const unsigned char *in, uint64_t n)
{
	huff_count_bmi2(counts, in, n, 0);
}

#define LEVEL(name, ...)                                                              \
	static const struct huff_parts parts_##name = { __VA_ARGS__ };                \
	static uint32_t encode_##name(struct huff_work *w, unsigned char *out,        \
		const unsigned char *in, uint32_t n)                                  \
	{                                                                             \
		return huff_encode(&parts_##name, w, out, in, n);                     \
	}                                                                             \
	static int decode_##name(struct huff_work *w, unsigned char *out, uint32_t n, \
		const unsigned char *in, uint64_t bytes)                              \
	{                                                                             \
		return huff_decode(&parts_##name, w, out, n, in, bytes);              \
	}                                                                             \
	static const struct huff_kernels kernels_##name = {                           \
		.count = count_bytes,                                                 \
		.encode = encode_##name,                                              \
		.decode = decode_##name,                                              \
	}

LEVEL(bmi2, .count = huff_count_bmi2, .sample = huff_sample_bmi2, .any = huff_any_ref,
	.gaps = huff_gaps_bmi2, .pack = huff_pack_ref, .put_lows = huff_put_lows_bmi2,
	.add_lows = huff_add_lows_bmi2, .put_streams = huff_put_streams_bmi2,
	.get_streams = huff_get_streams_bmi2);
LEVEL(avx512, .count = huff_count_bmi2, .sample = huff_sample_bmi2,
	.any = huff_any_avx512, .gaps = huff_gaps_bmi2, .pack = huff_pack_ref,
	.put_lows = huff_put_lows_avx512, .add_lows = huff_add_lows_avx512,
	.put_streams = huff_put_streams_bmi2, .get_streams = huff_get_streams_avx512);
LEVEL(vbmi, .count = huff_count_vbmi, .sample = huff_sample_vbmi, .any = huff_any_avx512,
	.gaps = huff_gaps_vbmi, .pack = huff_pack_vbmi, .put_lows = huff_put_lows_avx512,
	.add_lows = huff_add_lows_avx512, .put_streams = huff_put_streams_vbmi,
	.get_streams = huff_get_streams_avx512);

const struct huff_kernels *huff_kernels_x86(enum cpu_level level)
{
	__builtin_cpu_init();
	if (!__builtin_cpu_supports("bmi2"))
		return NULL;
	if (level >= CPU_AVX512)
		return __builtin_cpu_supports("avx512vbmi") &&
				__builtin_cpu_supports("avx512vbmi2") &&
				__builtin_cpu_supports("avx512vpopcntdq") ?
			&kernels_vbmi :
			&kernels_avx512;
	return &kernels_bmi2;
}
#endif
