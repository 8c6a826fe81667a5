/* tensor_x86.c - the conversions of tensor.c with AVX2. */
#include "common/lm/model/tensor_x86.h"

#ifdef __x86_64__
#include <immintrin.h>
#include <string.h>

#include "kernels/dev/cpu.h"
#include "kernels/dev/half.h"

#define FAST __attribute__((target("avx2,f16c")))

FAST static uint64_t f16_to(float *to, const unsigned char *from, uint64_t count)
{
	uint64_t i = 0;

	for (; i + 8 <= count; i += 8)
		_mm256_storeu_ps(to + i,
			_mm256_cvtph_ps(
				_mm_loadu_si128((const __m128i *)(from + 2 * i))));
	return i;
}

FAST static uint64_t bf16_to(float *to, const unsigned char *from, uint64_t count)
{
	uint64_t i = 0;

	for (; i + 8 <= count; i += 8) {
		__m256i wide = _mm256_cvtepu16_epi32(
			_mm_loadu_si128((const __m128i *)(from + 2 * i)));

		_mm256_storeu_si256((__m256i *)(to + i), _mm256_slli_epi32(wide, 16));
	}
	return i;
}

FAST static uint64_t q8_0_to(float *to, const unsigned char *from, uint64_t count)
{
	for (uint64_t i = 0; i < count; i += LM_QUANT_BLOCK, from += LM_Q8_0_BYTES) {
		uint16_t h;
		__m256 scale;

		memcpy(&h, from, sizeof h);
		scale = _mm256_set1_ps(f16_to_f32(h));
		for (int k = 0; k < LM_QUANT_BLOCK; k += 8) {
			__m128i codes = _mm_loadl_epi64((const __m128i *)(from + 2 + k));
			__m256 x = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(codes));

			_mm256_storeu_ps(to + i + k, _mm256_mul_ps(x, scale));
		}
	}
	return count;
}

FAST static uint64_t q4_0_to(float *to, const unsigned char *from, uint64_t count)
{
	const __m128i low = _mm_set1_epi8(15), eight = _mm_set1_epi8(8);

	for (uint64_t i = 0; i < count; i += LM_QUANT_BLOCK, from += LM_Q4_0_BYTES) {
		__m128i bytes = _mm_loadu_si128((const __m128i *)(from + 2)), half[2];
		uint16_t h;
		__m256 scale;

		memcpy(&h, from, sizeof h);
		scale = _mm256_set1_ps(f16_to_f32(h));
		half[0] = _mm_sub_epi8(_mm_and_si128(bytes, low), eight);
		half[1] = _mm_sub_epi8(_mm_and_si128(_mm_srli_epi16(bytes, 4), low),
			eight);
		for (int k = 0; k < 4; k++) {
			__m128i codes = k & 1 ? _mm_srli_si128(half[k / 2], 8) :
						half[k / 2];
			__m256 x = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(codes));

			_mm256_storeu_ps(to + i + 8 * k, _mm256_mul_ps(x, scale));
		}
	}
	return count;
}

FAST static uint64_t f16_from(unsigned char *to, const float *from, uint64_t count)
{
	uint64_t i = 0;

	for (; i + 8 <= count; i += 8)
		_mm_storeu_si128((__m128i *)(to + 2 * i),
			_mm256_cvtps_ph(_mm256_loadu_ps(from + i),
				_MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
	return i;
}

/* bf16_from_f32 of kernels/dev/half.h, eight at a time */
FAST static __m256i bf16_of(__m256i bits)
{
	__m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
	__m256i rounded = _mm256_add_epi32(bits,
		_mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
	__m256i nan = _mm256_cmpgt_epi32(_mm256_and_si256(bits,
						 _mm256_set1_epi32(0x7fffffff)),
		_mm256_set1_epi32(0x7f800000));
	__m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));

	return _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, nan), 16);
}

FAST static uint64_t bf16_from(unsigned char *to, const float *from, uint64_t count)
{
	uint64_t i = 0;

	for (; i + 16 <= count; i += 16) {
		__m256i a = bf16_of(_mm256_loadu_si256((const __m256i *)(from + i)));
		__m256i b = bf16_of(_mm256_loadu_si256((const __m256i *)(from + i + 8)));

		/* packing works within 128-bit lanes: restore the order of the quarters */
		_mm256_storeu_si256((__m256i *)(to + 2 * i),
			_mm256_permute4x64_epi64(_mm256_packus_epi32(a, b), 0xd8));
	}
	return i;
}

uint64_t lm_to_f32_fast(float *to, const void *from, enum lm_type type, uint64_t count)
{
	if (!cpu_chose(CPU_AVX2))
		return 0;
	switch (type) {
	case LM_F16:
		return f16_to(to, from, count);
	case LM_BF16:
		return bf16_to(to, from, count);
	case LM_Q8_0:
		return q8_0_to(to, from, count);
	case LM_Q4_0:
		return q4_0_to(to, from, count);
	default:
		return 0;
	}
}

uint64_t lm_from_f32_fast(void *to, const float *from, enum lm_type type, uint64_t count)
{
	if (!cpu_chose(CPU_AVX2))
		return 0;
	switch (type) {
	case LM_F16:
		return f16_from(to, from, count);
	case LM_BF16:
		return bf16_from(to, from, count);
	default:
		return 0;
	}
}
#else
uint64_t lm_to_f32_fast(float *to, const void *from, enum lm_type type, uint64_t count)
{
	(void)to, (void)from, (void)type, (void)count;
	return 0;
}

uint64_t lm_from_f32_fast(void *to, const float *from, enum lm_type type, uint64_t count)
{
	(void)to, (void)from, (void)type, (void)count;
	return 0;
}
#endif
