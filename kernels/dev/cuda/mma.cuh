/* mma.cuh - matrix products on tensor cores by kernels of ours, for nodes without cuBLASLt. */
#ifndef RNP_KERNELS_DEV_MMA_CUH
#define RNP_KERNELS_DEV_MMA_CUH

#include "kernels/dev/cuda/lt.cuh"

/* What is added to a product besides its `from`, which these kernels take in f32 whatever C's
 * type; both may be NULL. room: memory for partial sums of products that are deep and small, or
 * NULL. */
struct mma_extra {
	const float *from, *bias;
	float *room;
	uint64_t room_floats;
};

/* C = A B^T + from + bias, as struct lt_product says, whose own `from` is not looked at; bf16
 * and f16 with f32 sums, int8 with int32 sums. The order of a sum follows from m, n and k alone.
 * Returns 0; 1: the GPU has no such tensor cores, or addresses or strides are no multiples of 16
 * bytes, and nothing was started; -1: an error. */
int cuda_mma_multiply(struct dev *d, const struct lt_product *p,
	const struct mma_extra *extra);

struct multiply;
/* The same for a GPU with wgmma, of bf16 (kernels/dev/cuda/product_sm90a.cu): m has the product,
 * its from and bias. Returns 0; 1: it is too small or the driver has no maps of tensors, nothing
 * was started;
 * -1: an error. */
int cuda_wgmma_multiply(struct dev *d, const struct multiply *m,
	const struct mma_extra *extra);

#endif
