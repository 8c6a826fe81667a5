/* int8.h - what the matmul test of proof of compute does to int8 matrices between two products.
 *
 * balance  x[i] = 0 where it is -128, so that random bytes have the mean 0
 * mix      out[i][j] = int8(((uint32(c[i][j]) ^ row_salt[i] ^ column_salt[j]) * 0x9E3779B1) >> 24),
 *          rows x n: each bit of c matters, and the mix of a sum is not the sum of mixes
 *
 * All are dense and row-major; mix's output does not overlap its inputs. Addresses are a
 * multiple of the element. Exact: every version gives the same bytes. */
#ifndef RNP_KERNELS_POC_INT8_H
#define RNP_KERNELS_POC_INT8_H

#include <stdint.h>

#include "kernels/dev/hd.h"

#define INT8_MULTIPLIER 0x9e3779b1u

struct int8_mix {
	const int32_t *c;
	const uint32_t *row_salt, *column_salt;
	uint64_t rows, n;
};

HD int8_t int8_mixed(int32_t c, uint32_t row_salt, uint32_t column_salt)
{
	return (int8_t)((((uint32_t)c ^ row_salt ^ column_salt) * INT8_MULTIPLIER) >> 24);
}

KERNELS_BEGIN

typedef void (*int8_balance_fn)(int8_t *x, uint64_t count);
typedef void (*int8_mix_fn)(int8_t *out, const struct int8_mix *m);

void int8_balance_ref(int8_t *x, uint64_t count);
void int8_mix_ref(int8_t *out, const struct int8_mix *m);

void int8_mix_avx512(int8_t *out, const struct int8_mix *m);

KERNELS_END

#endif
