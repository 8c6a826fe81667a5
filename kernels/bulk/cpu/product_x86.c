/* product_x86.c - products without oneDNN: product_tile.inc, compiled for each type and
 * instruction set. */
#include "kernels/bulk/product.h"

#ifdef __x86_64__
#include <immintrin.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define AVX2   __attribute__((target("avx2,fma,f16c")))
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")))
#define AVX512VNNI \
	__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma")))
#define AVX512BF16 \
	__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")))

#define K_BLOCK 1024
#define N_BLOCK 64

/* --- loads that widen, and sums across a vector ------------------------------------------- */

AVX2 INLINE __m256 bf16_8(const uint16_t *p)
{
	__m256i x = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));

	return _mm256_castsi256_ps(_mm256_slli_epi32(x, 16));
}

AVX2 INLINE __m256 f16_8(const uint16_t *p)
{
	return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}

/* E4M3 bits moved into the fields of binary16 represent its value x 2^-8, subnormals too */
AVX2 INLINE __m256 f8_8(const uint8_t *p)
{
	__m128i x = _mm_cvtepu8_epi16(_mm_loadl_epi64((const __m128i *)p));
	__m128i sign = _mm_slli_epi16(_mm_and_si128(x, _mm_set1_epi16(0x80)), 8);
	__m128i rest = _mm_slli_epi16(_mm_and_si128(x, _mm_set1_epi16(0x7f)), 7);

	return _mm256_mul_ps(_mm256_cvtph_ps(_mm_or_si128(sign, rest)),
		_mm256_set1_ps(256));
}

AVX2 INLINE float total_f32_8(__m256 v)
{
	__m128 x = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));

	x = _mm_add_ps(x, _mm_movehl_ps(x, x));
	return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}

AVX2 INLINE int32_t total_i32_8(__m256i v)
{
	__m128i x = _mm_add_epi32(_mm256_castsi256_si128(v),
		_mm256_extracti128_si256(v, 1));

	x = _mm_add_epi32(x, _mm_shuffle_epi32(x, 0x4e));
	return _mm_cvtsi128_si32(_mm_add_epi32(x, _mm_shuffle_epi32(x, 0xb1)));
}

AVX512 INLINE __m512 bf16_16(const uint16_t *p)
{
	__m512i x = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));

	return _mm512_castsi512_ps(_mm512_slli_epi32(x, 16));
}

AVX512 INLINE __m512 f16_16(const uint16_t *p)
{
	return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}

AVX512 INLINE __m512 f8_16(const uint8_t *p)
{
	__m256i x = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)p));
	__m256i sign = _mm256_slli_epi16(_mm256_and_si256(x, _mm256_set1_epi16(0x80)), 8);
	__m256i rest = _mm256_slli_epi16(_mm256_and_si256(x, _mm256_set1_epi16(0x7f)), 7);

	return _mm512_mul_ps(_mm512_cvtph_ps(_mm256_or_si256(sign, rest)),
		_mm512_set1_ps(256));
}

/* --- AVX2 --------------------------------------------------------------------------------- */

#define NAME              product_f32_avx2
#define TARGET            AVX2
#define ELEMENT           float
#define RESULT            float
#define STEP              8
#define VECTOR            __m256
#define SUM               __m256
#define LOAD(p)           _mm256_loadu_ps(p)
#define ZERO              _mm256_setzero_ps()
#define ADD_UP(sum, a, b) (sum = _mm256_fmadd_ps(a, b, sum))
#define TOTAL(sum)        total_f32_8(sum)
#include "kernels/bulk/cpu/product_tile.inc"

#define NAME              product_bf16_avx2
#define TARGET            AVX2
#define ELEMENT           uint16_t
#define RESULT            float
#define STEP              8
#define VECTOR            __m256
#define SUM               __m256
#define LOAD(p)           bf16_8(p)
#define ZERO              _mm256_setzero_ps()
#define ADD_UP(sum, a, b) (sum = _mm256_fmadd_ps(a, b, sum))
#define TOTAL(sum)        total_f32_8(sum)
#include "kernels/bulk/cpu/product_tile.inc"

#define NAME              product_f16_avx2
#define TARGET            AVX2
#define ELEMENT           uint16_t
#define RESULT            float
#define STEP              8
#define VECTOR            __m256
#define SUM               __m256
#define LOAD(p)           f16_8(p)
#define ZERO              _mm256_setzero_ps()
#define ADD_UP(sum, a, b) (sum = _mm256_fmadd_ps(a, b, sum))
#define TOTAL(sum)        total_f32_8(sum)
#include "kernels/bulk/cpu/product_tile.inc"

#define NAME              product_f8_avx2
#define TARGET            AVX2
#define ELEMENT           uint8_t
#define RESULT            float
#define STEP              8
#define VECTOR            __m256
#define SUM               __m256
#define LOAD(p)           f8_8(p)
#define ZERO              _mm256_setzero_ps()
#define ADD_UP(sum, a, b) (sum = _mm256_fmadd_ps(a, b, sum))
#define TOTAL(sum)        total_f32_8(sum)
#include "kernels/bulk/cpu/product_tile.inc"

/* 16-bit products in pairs: vpmaddubsw would saturate */
#define NAME              product_i8_avx2
#define TARGET            AVX2
#define ELEMENT           int8_t
#define RESULT            int32_t
#define STEP              16
#define VECTOR            __m256i
#define SUM               __m256i
#define LOAD(p)           _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(p)))
#define ZERO              _mm256_setzero_si256()
#define ADD_UP(sum, a, b) (sum = _mm256_add_epi32(sum, _mm256_madd_epi16(a, b)))
#define TOTAL(sum)        total_i32_8(sum)
#include "kernels/bulk/cpu/product_tile.inc"

/* --- AVX-512 ------------------------------------------------------------------------------ */

#define NAME              product_f32_avx512
#define TARGET            AVX512
#define ELEMENT           float
#define RESULT            float
#define STEP              16
#define VECTOR            __m512
#define SUM               __m512
#define LOAD(p)           _mm512_loadu_ps(p)
#define ZERO              _mm512_setzero_ps()
#define ADD_UP(sum, a, b) (sum = _mm512_fmadd_ps(a, b, sum))
#define TOTAL(sum)        _mm512_reduce_add_ps(sum)
#include "kernels/bulk/cpu/product_tile.inc"

#define NAME              product_bf16_avx512
#define TARGET            AVX512
#define ELEMENT           uint16_t
#define RESULT            float
#define STEP              16
#define VECTOR            __m512
#define SUM               __m512
#define LOAD(p)           bf16_16(p)
#define ZERO              _mm512_setzero_ps()
#define ADD_UP(sum, a, b) (sum = _mm512_fmadd_ps(a, b, sum))
#define TOTAL(sum)        _mm512_reduce_add_ps(sum)
#include "kernels/bulk/cpu/product_tile.inc"

#define NAME              product_bf16_avx512bf16
#define TARGET            AVX512BF16
#define ELEMENT           uint16_t
#define RESULT            float
#define STEP              32
#define VECTOR            __m512i
#define SUM               __m512
#define LOAD(p)           _mm512_loadu_si512(p)
#define ZERO              _mm512_setzero_ps()
#define ADD_UP(sum, a, b) (sum = _mm512_dpbf16_ps(sum, (__m512bh)(a), (__m512bh)(b)))
#define TOTAL(sum)        _mm512_reduce_add_ps(sum)
#include "kernels/bulk/cpu/product_tile.inc"

#define NAME              product_f16_avx512
#define TARGET            AVX512
#define ELEMENT           uint16_t
#define RESULT            float
#define STEP              16
#define VECTOR            __m512
#define SUM               __m512
#define LOAD(p)           f16_16(p)
#define ZERO              _mm512_setzero_ps()
#define ADD_UP(sum, a, b) (sum = _mm512_fmadd_ps(a, b, sum))
#define TOTAL(sum)        _mm512_reduce_add_ps(sum)
#include "kernels/bulk/cpu/product_tile.inc"

#define NAME              product_f8_avx512
#define TARGET            AVX512
#define ELEMENT           uint8_t
#define RESULT            float
#define STEP              16
#define VECTOR            __m512
#define SUM               __m512
#define LOAD(p)           f8_16(p)
#define ZERO              _mm512_setzero_ps()
#define ADD_UP(sum, a, b) (sum = _mm512_fmadd_ps(a, b, sum))
#define TOTAL(sum)        _mm512_reduce_add_ps(sum)
#include "kernels/bulk/cpu/product_tile.inc"

#define NAME              product_i8_avx512
#define TARGET            AVX512
#define ELEMENT           int8_t
#define RESULT            int32_t
#define STEP              32
#define VECTOR            __m512i
#define SUM               __m512i
#define LOAD(p)           _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)(p)))
#define ZERO              _mm512_setzero_si512()
#define ADD_UP(sum, a, b) (sum = _mm512_add_epi32(sum, _mm512_madd_epi16(a, b)))
#define TOTAL(sum)        _mm512_reduce_add_epi32(sum)
#include "kernels/bulk/cpu/product_tile.inc"

/* vpdpbusd takes one side as unsigned: (a + 128) b, less 128 times the sum of b. It adds modulo
 * 2^32 (vpdpbusds would saturate), so that the difference is exact. */
#define NAME    product_i8_avx512vnni
#define TARGET  AVX512VNNI
#define ELEMENT int8_t
#define RESULT  int32_t
#define STEP    64
#define VECTOR  __m512i
#define SUM     __m512i
#define LOAD(p) _mm512_loadu_si512(p)
#define ZERO    _mm512_setzero_si512()
#define ADD_UP(sum, a, b) \
	(sum = _mm512_dpbusd_epi32(sum, _mm512_xor_si512(a, _mm512_set1_epi8(-128)), b))
#define CORRECT(sum, b) (sum = _mm512_dpbusd_epi32(sum, _mm512_set1_epi8(-128), b))
#define TOTAL(sum)      _mm512_reduce_add_epi32(sum)
#include "kernels/bulk/cpu/product_tile.inc"
#endif
