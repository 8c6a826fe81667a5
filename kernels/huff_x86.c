#include "kernels/huff_parts.h"

#ifdef __x86_64__
static const struct huff_parts parts_avx2 = {
	.count = huff_count_ref,
	.plan = huff_plan_ref,
	.put_lows = huff_put_lows_ref,
	.add_lows = huff_add_lows_ref,
	.put_streams = huff_put_streams_ref,
	.get_streams = huff_get_streams_ref,
};

static uint32_t encode_avx2(struct huff_work *w, unsigned char *out,
	const unsigned char *in, uint32_t n)
{
	return huff_encode(&parts_avx2, w, out, in, n);
}

static int decode_avx2(struct huff_work *w, unsigned char *out, uint32_t n,
	const unsigned char *in, uint64_t bytes)
{
	return huff_decode(&parts_avx2, w, out, n, in, bytes);
}

const struct huff_kernels huff_kernels_avx2 = {
	.count = huff_count_ref,
	.encode = encode_avx2,
	.decode = decode_avx2,
};

const struct huff_kernels huff_kernels_avx512 = {
	.count = huff_count_ref,
	.encode = encode_avx2,
	.decode = decode_avx2,
};
#endif
