/* half.h - numbers of 16 and 8 bits as f32 and back: bf16, f16 (IEEE binary16), f8 (OCP E4M3).
 *
 * Conversion to f32 is exact. Conversion from f32 rounds to nearest, ties to even; values too
 * large become infinity (f8, which has none: NaN), subnormal results are kept. A NaN stays one. */
#ifndef RNP_KERNELS_DEV_HALF_H
#define RNP_KERNELS_DEV_HALF_H

#include <stdint.h>
#include <string.h>

#include "kernels/dev/hd.h"

HD float half_float_of_bits(uint32_t bits)
{
	float f;

	memcpy(&f, &bits, sizeof f);
	return f;
}

HD uint32_t half_bits_of_float(float f)
{
	uint32_t bits;

	memcpy(&bits, &f, sizeof bits);
	return bits;
}

HD float bf16_to_f32(uint16_t h)
{
	return half_float_of_bits((uint32_t)h << 16);
}

HD uint16_t bf16_from_f32(float f)
{
	uint32_t bits = half_bits_of_float(f);

	if ((bits & 0x7fffffff) > 0x7f800000)
		return (uint16_t)(bits >> 16 | 0x40);
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Expands a number of `exponent` and `fraction` bits without its sign; the caller handles
 * infinity and NaN. */
HD float half_expand(uint32_t h, int exponent, int fraction)
{
	uint32_t bias = (1u << (exponent - 1)) - 1, e = h >> fraction;
	uint32_t f = h & ((1u << fraction) - 1);

	if (e) /* 127 is f32's bias */
		return half_float_of_bits((e + 127 - bias) << 23 | f << (23 - fraction));
	/* f times the smallest positive number, 2^(1 - bias - fraction) */
	return (float)f * half_float_of_bits((127 + 1 - bias - (uint32_t)fraction) << 23);
}

/* Rounds to the format, the reverse of half_expand; bits is |x|, not NaN. The result may exceed
 * the largest number of the format. */
HD uint32_t half_shrink(uint32_t bits, int exponent, int fraction)
{
	int bias = (1 << (exponent - 1)) - 1;
	int e = (int)(bits >> 23) - 127 + bias; /* biased exponent in the format */
	int drop = 23 - fraction + (e < 1 ? 1 - e : 0);
	uint32_t f = (bits & 0x7fffff) | 0x800000, mantissa, rest, half;

	if (drop > 25 || !(bits >> 23))
		return 0; /* below half of the smallest; f32's subnormals are far below */
	mantissa = f >> drop;
	rest = f & ((1u << drop) - 1);
	half = 1u << (drop - 1);
	mantissa += rest > half || (rest == half && (mantissa & 1));
	/* a carry into the exponent is intended; the leading 1 adds one to it */
	return e < 1 ? mantissa : ((uint32_t)(e - 1) << fraction) + mantissa;
}

HD float f16_to_f32(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = h & 0x7fff;

	if (rest >= 0x7c00)
		return half_float_of_bits(sign | 0x7f800000 | (rest & 0x3ff) << 13);
	return half_float_of_bits(sign | half_bits_of_float(half_expand(rest, 5, 10)));
}

/* Rounds |x|, given as its bits, to a format with infinity and NaN, without a sign. */
HD uint32_t half_narrow(uint32_t bits, int exponent, int fraction)
{
	uint32_t infinity = ((1u << exponent) - 1) << fraction, h;

	if (bits > 0x7f800000)
		return infinity | 1u << (fraction - 1);
	h = bits == 0x7f800000 ? infinity : half_shrink(bits, exponent, fraction);
	return h < infinity ? h : infinity;
}

HD uint16_t f16_from_f32(float f)
{
	uint32_t bits = half_bits_of_float(f);

	return (uint16_t)((bits >> 16 & 0x8000) | half_narrow(bits & 0x7fffffff, 5, 10));
}

HD float f8_to_f32(uint8_t h)
{
	uint32_t sign = (uint32_t)(h & 0x80) << 24, rest = h & 0x7f;

	if (rest == 0x7f)
		return half_float_of_bits(sign | 0x7fc00000);
	return half_float_of_bits(sign | half_bits_of_float(half_expand(rest, 4, 3)));
}

HD uint8_t f8_from_f32(float f)
{
	uint32_t bits = half_bits_of_float(f), sign = bits >> 24 & 0x80, h;

	bits &= 0x7fffffff;
	h = bits >= 0x7f800000 ? 0x7f : half_shrink(bits, 4, 3);
	return (uint8_t)(sign | (h < 0x7f ? h : 0x7f));
}

#endif
