/* no guard: it is included once for each instruction set.
 *
 * vec.h - vectors of f32 on one instruction set, for the fast kernels of a language model. The
 * differences between AVX2, AVX-512 and AVX-512 with BF16 are here; the kernels in rows.inc,
 * tile.inc and attend.inc are compiled once for each set.
 *
 * Before including, define VEC_AVX2, VEC_AVX512 or VEC_AVX512BF16; the names below then use
 * that set. */
#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "kernels/dev/half.h"
#include "kernels/lm/ops.h"

#define VEC_CAT_(a, b) a##_##b
#define VEC_CAT(a, b)  VEC_CAT_(a, b)
#define VEC(name)      VEC_CAT(name, VEC_SET)

#if defined VEC_AVX2
#define VEC_SET    avx2
#define VEC_TARGET __attribute__((target("avx2,fma,f16c")))
#define LANES      8
#define vec        __m256
#elif defined VEC_AVX512
#define VEC_SET avx512
#define VEC_TARGET \
	__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")))
#define LANES 16
#define vec   __m512
#else
#define VEC_SET avx512bf16
#define VEC_TARGET      \
	__attribute__(( \
		target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma,f16c")))
#define LANES 16
#define vec   __m512
#endif
#define VEC_INLINE VEC_TARGET static inline __attribute__((always_inline, unused))

#ifdef VEC_AVX2
#define v_all(x)        _mm256_set1_ps(x)
#define v_add(a, b)     _mm256_add_ps(a, b)
#define v_sub(a, b)     _mm256_sub_ps(a, b)
#define v_mul(a, b)     _mm256_mul_ps(a, b)
#define v_div(a, b)     _mm256_div_ps(a, b)
#define v_max(a, b)     _mm256_max_ps(a, b)
#define v_min(a, b)     _mm256_min_ps(a, b)
#define v_sqrt(a)       _mm256_sqrt_ps(a)
#define v_fma(a, b, c)  _mm256_fmadd_ps(a, b, c)
#define v_fnma(a, b, c) _mm256_fnmadd_ps(a, b, c)

VEC_INLINE vec VEC(load)(const float *p)
{
	return _mm256_loadu_ps(p);
}

/* Loads LANES numbers from p, zeros from `left` on; nothing is read there. */
VEC_INLINE vec VEC(load_some)(const float *p, uint64_t left)
{
	const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
	int n = left < LANES ? (int)left : LANES;

	return _mm256_maskload_ps(p, _mm256_cmpgt_epi32(_mm256_set1_epi32(n), lane));
}

VEC_INLINE void VEC(store)(float *p, vec x)
{
	_mm256_storeu_ps(p, x);
}

VEC_INLINE vec VEC(load_half)(const uint16_t *p)
{
	__m256i x = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));

	return _mm256_castsi256_ps(_mm256_slli_epi32(x, 16));
}

/* Rounds to nearest even; a NaN stays one. */
VEC_INLINE void VEC(store_half)(uint16_t *p, vec x)
{
	__m256i bits = _mm256_castps_si256(x);
	__m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
	__m256i up = _mm256_add_epi32(bits,
		_mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
	__m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));

	up = _mm256_blendv_epi8(up, _mm256_or_si256(bits, _mm256_set1_epi32(0x400000)),
		nan);
	up = _mm256_srli_epi32(up, 16);
	up = _mm256_permute4x64_epi64(_mm256_packus_epi32(up, up), 0x08);
	_mm_storeu_si128((__m128i *)p, _mm256_castsi256_si128(up));
}

VEC_INLINE float VEC(total)(vec v)
{
	__m128 x = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));

	x = _mm_add_ps(x, _mm_movehl_ps(x, x));
	return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}

VEC_INLINE float VEC(max_across)(vec v)
{
	__m128 x = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));

	x = _mm_max_ps(x, _mm_movehl_ps(x, x));
	return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
}

/* x 2^n for whole -126 <= n <= 127 */
VEC_INLINE vec VEC(scale)(vec x, vec n)
{
	__m256i e = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n),
					      _mm256_set1_epi32(127)),
		23);

	return _mm256_mul_ps(x, _mm256_castsi256_ps(e));
}

VEC_INLINE vec VEC(round)(vec x)
{
	return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
#else
#define v_all(x)        _mm512_set1_ps(x)
#define v_add(a, b)     _mm512_add_ps(a, b)
#define v_sub(a, b)     _mm512_sub_ps(a, b)
#define v_mul(a, b)     _mm512_mul_ps(a, b)
#define v_div(a, b)     _mm512_div_ps(a, b)
#define v_max(a, b)     _mm512_max_ps(a, b)
#define v_min(a, b)     _mm512_min_ps(a, b)
#define v_sqrt(a)       _mm512_sqrt_ps(a)
#define v_fma(a, b, c)  _mm512_fmadd_ps(a, b, c)
#define v_fnma(a, b, c) _mm512_fnmadd_ps(a, b, c)

VEC_INLINE vec VEC(load)(const float *p)
{
	return _mm512_loadu_ps(p);
}

VEC_INLINE vec VEC(load_some)(const float *p, uint64_t left)
{
	return _mm512_maskz_loadu_ps(left < LANES ? (__mmask16)((1u << left) - 1) :
						    (__mmask16)0xffff,
		p);
}

VEC_INLINE void VEC(store)(float *p, vec x)
{
	_mm512_storeu_ps(p, x);
}

VEC_INLINE vec VEC(load_half)(const uint16_t *p)
{
	__m512i x = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));

	return _mm512_castsi512_ps(_mm512_slli_epi32(x, 16));
}

/* Rounds to nearest even; a NaN stays one. (The instruction also turns subnormals into zero:
 * 2^-126.) */
VEC_INLINE void VEC(store_half)(uint16_t *p, vec x)
{
#ifdef VEC_AVX512
	__m512i bits = _mm512_castps_si512(x);
	__m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
	__m512i up = _mm512_add_epi32(bits,
		_mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));

	up = _mm512_mask_or_epi32(up, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), bits,
		_mm512_set1_epi32(0x400000));
	_mm256_storeu_si256((__m256i *)p,
		_mm512_cvtepi32_epi16(_mm512_srli_epi32(up, 16)));
#else
	_mm256_storeu_si256((__m256i *)p, (__m256i)_mm512_cvtneps_pbh(x));
#endif
}

VEC_INLINE float VEC(total)(vec v)
{
	return _mm512_reduce_add_ps(v);
}

VEC_INLINE float VEC(max_across)(vec v)
{
	return _mm512_reduce_max_ps(v);
}

VEC_INLINE vec VEC(scale)(vec x, vec n)
{
	return _mm512_scalef_ps(x, n);
}

VEC_INLINE vec VEC(round)(vec x)
{
	return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
#endif

/* Sums four vectors across their lanes at once: where rows are short, this is most of the work. */
VEC_INLINE __m128 VEC(total4)(const vec sum[4])
{
#ifdef VEC_AVX2
	__m256 a = sum[0], b = sum[1], c = sum[2], d = sum[3];
#else
	__m256 a = _mm256_add_ps(_mm512_castps512_ps256(sum[0]),
		_mm512_extractf32x8_ps(sum[0], 1));
	__m256 b = _mm256_add_ps(_mm512_castps512_ps256(sum[1]),
		_mm512_extractf32x8_ps(sum[1], 1));
	__m256 c = _mm256_add_ps(_mm512_castps512_ps256(sum[2]),
		_mm512_extractf32x8_ps(sum[2], 1));
	__m256 d = _mm256_add_ps(_mm512_castps512_ps256(sum[3]),
		_mm512_extractf32x8_ps(sum[3], 1));
#endif
	__m256 all = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));

	return _mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1));
}

/* e^x, relative error 3 u for -87.3 <= x <= 88; below, the result is that of -87.3, which is
 * 2^-126; above, that of 88. Cody, Waite 1980: x = n ln 2 + r with ln 2 in two parts, then a
 * polynomial of r fitted by Remez. */
VEC_INLINE vec VEC(exp)(vec x)
{
	vec n, r, p;

	x = v_min(v_max(x, v_all(-87.3f)), v_all(88));
	n = VEC(round)(v_mul(x, v_all(1.44269504f)));
	r = v_fnma(n, v_all(0.693359375f), x);
	r = v_fnma(n, v_all(-2.12194440e-4f), r);
	p = v_all(1.9875691500e-4f);
	p = v_fma(p, r, v_all(1.3981999507e-3f));
	p = v_fma(p, r, v_all(8.3334519073e-3f));
	p = v_fma(p, r, v_all(4.1665795894e-2f));
	p = v_fma(p, r, v_all(1.6666665459e-1f));
	p = v_fma(p, r, v_all(5.0000001201e-1f));
	p = v_fma(p, v_mul(r, r), v_add(r, v_all(1)));
	return VEC(scale)(p, n);
}

/* Load and store the next LANES numbers at index i of n; beyond n, zeros are loaded and nothing
 * is written. */
VEC_INLINE vec VEC(get)(enum lm_dtype dtype, const void *p, uint64_t i, uint64_t n)
{
	uint64_t left = n - i;

	if (dtype == LM_DTYPE_F32) {
		float lanes[LANES] = { 0 };

		if (left >= LANES)
			return VEC(load)((const float *)p + i);
		memcpy(lanes, (const float *)p + i, left * 4);
		return VEC(load)(lanes);
	} else {
		uint16_t lanes[LANES] = { 0 };

		if (left >= LANES)
			return VEC(load_half)((const uint16_t *)p + i);
		memcpy(lanes, (const uint16_t *)p + i, left * 2);
		return VEC(load_half)(lanes);
	}
}

VEC_INLINE void VEC(put)(enum lm_dtype dtype, void *p, uint64_t i, uint64_t n, vec x)
{
	uint64_t left = n - i;

	if (dtype == LM_DTYPE_F32) {
		float lanes[LANES];

		if (left >= LANES) {
			VEC(store)((float *)p + i, x);
			return;
		}
		VEC(store)(lanes, x);
		memcpy((float *)p + i, lanes, left * 4);
	} else {
		uint16_t lanes[LANES];

		if (left >= LANES) {
			VEC(store_half)((uint16_t *)p + i, x);
			return;
		}
		VEC(store_half)(lanes, x);
		memcpy((uint16_t *)p + i, lanes, left * 2);
	}
}

#define v_load       VEC(load)
#define v_store      VEC(store)
#define v_load_half  VEC(load_half)
#define v_store_half VEC(store_half)
#define v_load_some  VEC(load_some)
#define v_total      VEC(total)
#define v_total4     VEC(total4)
#define v_max_across VEC(max_across)
#define v_exp        VEC(exp)
#define v_get        VEC(get)
#define v_put        VEC(put)
#define v_zero       v_all(0)
