/* product.h - matrix products C = A B^T: every element is the dot product of a row of A and one
 * of B.
 *
 * Formula: C[i][j] = sum over t < k of A[i][t] * B[j][t]. Shapes: A is m x k, B is n x k, C is
 * m x n, all row-major with row strides lda, ldb >= k and ldc >= n in elements; any of m, n, k
 * may be 0 (k = 0 gives zeros). Addresses are a multiple of the element. Memory between the
 * rows of C is not touched. C overlaps neither A nor B.
 *
 * type    A, B     C    accumulator  error of C[i][j] against the exact sum
 * F32     f32      f32  f32          (k + 2) 2^-23 S
 * BF16    bf16     f32  f32          (k + 2) 2^-22 S + k 2^-126 (the CPU instruction flushes
 *         subnormals)
 * F16     f16      f32  f32          (k + 2) 2^-22 S
 * F8      E4M3     f32  f32          (k + 2) 2^-12 S (Hopper's f8 units add with 13 bits of
 *         fraction)
 * I8      int8     i32  int32        none; k <= 2^17, so that no sum overflows int32
 *
 * S = sum |A[i][t] B[j][t]|. Any order of addition with rounding at each step stays within (k -
 * 1) u S / (1 - k u) with u = 2^-24 (Higham, Accuracy and Stability of Numerical Algorithms,
 * 4.2); the factor of 2 or 4 above is for units that truncate. NaN or infinity in row i of A or
 * j of B leaves C[i][j] unspecified. The reference adds in the order of t in f64 and rounds
 * once. */
#ifndef RNP_KERNELS_BULK_PRODUCT_H
#define RNP_KERNELS_BULK_PRODUCT_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/dev/hd.h"

#define PRODUCT_I8_K_MAX (1 << 17)

enum product_type {
	PRODUCT_F32,
	PRODUCT_BF16,
	PRODUCT_F16,
	PRODUCT_F8,
	PRODUCT_I8,
	PRODUCT_TYPES
};

struct product {
	enum product_type type;
	void *c;
	const void *a, *b;
	uint64_t m, n, k, lda, ldb, ldc;
};

/* Returns the size of an element of A and B, in bytes; those of C have 4. */
HD uint64_t product_element_bytes(enum product_type type)
{
	if (type == PRODUCT_F32)
		return 4;
	return type == PRODUCT_BF16 || type == PRODUCT_F16 ? 2 : 1;
}

/* Returns the bound of the table, as a multiple of S, for one C[i][j]. */
HD double product_bound(enum product_type type, uint64_t k)
{
	double n = (double)k + 2;

	switch (type) {
	case PRODUCT_F32:
		return n * 0x1p-23;
	case PRODUCT_BF16:
	case PRODUCT_F16:
		return n * 0x1p-22;
	case PRODUCT_F8:
		return n * 0x1p-12;
	default:
		return 0;
	}
}

KERNELS_BEGIN

extern const char *const product_type_names[PRODUCT_TYPES]; /* "f32" ... */

/* one thread */
typedef void (*product_fn)(const struct product *p);

void product_ref(const struct product *p); /* all types */
void product_f32_avx2(const struct product *p);
void product_bf16_avx2(const struct product *p);
void product_f16_avx2(const struct product *p);
void product_f8_avx2(const struct product *p);
void product_i8_avx2(const struct product *p);
void product_f32_avx512(const struct product *p);
void product_bf16_avx512(const struct product *p);     /* widens to f32 */
void product_bf16_avx512bf16(const struct product *p); /* vdpbf16ps */
void product_f16_avx512(const struct product *p);
void product_f8_avx512(const struct product *p);
void product_i8_avx512(const struct product *p);
void product_i8_avx512vnni(const struct product *p); /* vpdpbusd */

/* Multiplies with tiles (AMX) for bf16 and int8, on the process's team of threads; requires
 * cpu_features' amx and cpu_amx_permitted. Returns 0, or -1 if it does not support this product
 * (other types, too little work) or there is no memory. */
int product_amx(const struct product *p);

/* Whether tiles are faster than oneDNN for this product. */
bool product_amx_large(const struct product *p);

/* Multiplies with oneDNN, on the process's team of threads; the library is opened on first use.
 * Returns 0, or -1 if it is missing or does not support this product; C may then have been
 * written to. */
int product_dnnl(const struct product *p);
bool product_dnnl_there(void);

KERNELS_END

#endif
