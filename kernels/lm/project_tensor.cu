/* project_tensor.cu - products of many rows with quantised weights, on int8 tensor cores: a tile of
 * 64 rows by 64 outputs, four blocks of 32 along k at a time. The weights of a tile are decoded
 * once, into shared memory. An MMA makes the exact sum of a block; it is scaled and added in the
 * order of the blocks by fmaf(): the same bits as those of few rows (project_rows.cu), and the
 * reference's. Contraction (-fmad) changes nothing. */
#include "kernels/lm/project_quantized.cuh"

#define THREADS 128
#define ROWS    64
#define OUTPUTS 64
#define STEP    4 /* blocks of 32 at a time */
/* bytes of a row of x in shared memory: four blocks, and 16 against conflicts between banks */
#define X_STRIDE    208
#define CODE_STRIDE 144 /* the same of the codes of an output */
/* 1.5 2^23: as bits of an f32 it can be added to like an integer */
#define MAGIC       0x4b400000
#define MAGIC_FLOAT 12582912.0f

#if CUDA_TENSOR
/* 16-byte chunks that four blocks, or a super block, touch, and the word after them. */
template <int TYPE> struct raw_room {
	enum {
		BYTES = block_bytes<TYPE>::BLOCK * (block_bytes<TYPE>::SUPER ? 1 : STEP),
		CHUNKS = (BYTES + 15 + 15) / 16 + 1
	};
};

/* Starts the copies of four blocks of 64 rows of x, with zeros for rows that do not exist. */
__device__ static void stage_x(unsigned char *to, const struct lm_project *p, uint64_t r0,
	uint64_t b0, uint64_t blocks)
{
	enum { CHUNKS = STEP * sizeof(struct lm_block8) / 16 };

	UNROLL_1
	for (unsigned i = threadIdx.x; i < ROWS * CHUNKS; i += THREADS) {
		unsigned row = i / CHUNKS, c = i % CHUNKS;
		bool there = r0 + row < p->rows && b0 + c / 3 < blocks;
		const unsigned char *from = (const unsigned char *)(const void *)&p
						    ->x8[(r0 + row) * blocks + b0] +
			c * 16;

		tensor_copy(to + row * X_STRIDE + c * 16, from, there ? 16 : 0);
	}
}

/* sum += what a block adds. bf: the codes of outputs of two tiles of 8, as operand B. */
template <int TYPE>
__device__ __forceinline__ void add_block(float (&sum)[4], const unsigned (&a)[4],
	unsigned b0, unsigned b1, const float2 (&x)[2], const float4 &w,
	const int2 (&parts)[2])
{
	int whole[4] = { MAGIC, MAGIC, MAGIC, MAGIC }, upper[4] = { 0, 0, 0, 0 };
	float scale[2] = { w.x, w.z }, min[2] = { w.y, w.w };

	if (block_bytes<TYPE>::PARTS) {
		UNROLL
		for (int e = 0; e < 4; e++)
			whole[e] = 0;
		tensor_mma_i8(whole, a, b0, 0);
		tensor_mma_i8(upper, a, 0, b1);
	} else {
		tensor_mma_i8(whole, a, b0, b1);
	}
	UNROLL
	for (int e = 0; e < 4; e++) {
		float exact;

		if (block_bytes<TYPE>::PARTS)
			exact = (float)(parts[e % 2].x * whole[e] +
				parts[e % 2].y * upper[e]);
		else
			exact = half_float_of_bits((uint32_t)whole[e]) - MAGIC_FLOAT;
		sum[e] = fmaf(scale[e % 2] * x[e / 2].x, exact, sum[e]);
		if (block_bytes<TYPE>::HAS_MIN)
			sum[e] = fmaf(min[e % 2], x[e / 2].y, sum[e]);
	}
}

__device__ __forceinline__ void store(const struct lm_project &p, uint64_t r, uint64_t j,
	float sum)
{
	uint64_t at = r * p.ldy + j;

	if (r >= p.rows || j >= p.n)
		return;
	if (p.bias)
		sum += p.bias[j];
	if (p.from)
		sum += p.from[at];
	p.y[at] = sum;
}
#endif

template <int TYPE>
__global__ void __launch_bounds__(THREADS, 3)
	project_tensor_kernel(struct lm_project p, bool aligned)
{
#if CUDA_TENSOR
	typedef block_bytes<TYPE> size;
	enum { CHUNKS = raw_room<TYPE>::CHUNKS };
	SHARED(uint4, x_shared, ROWS * X_STRIDE / 16);
	SHARED(uint4, raw, OUTPUTS * CHUNKS);
	SHARED(uint4, codes_shared, OUTPUTS * CODE_STRIDE / 16);
	SHARED(float4, scales_shared, STEP * OUTPUTS / 2); /* scale and minimum */
	SHARED(int2, parts, STEP * OUTPUTS);               /* of types that have two */
	unsigned char *x = (unsigned char *)(void *)x_shared;
	unsigned char *codes_at = (unsigned char *)(void *)codes_shared;
	float2 *scales = (float2 *)(void *)scales_shared;
	unsigned lane = threadIdx.x % 32, output = threadIdx.x / 2,
		 part = threadIdx.x % 2;
	unsigned row = threadIdx.x / 64 * 32, column = threadIdx.x / 32 % 2 * 32;
	uint64_t blocks = p.k / LM_WEIGHT_BLOCK;
	uint64_t bytes = lm_weight_row_bytes((enum lm_weight)TYPE, p.k);
	uint64_t down = (p.rows + ROWS - 1) / ROWS,
		 all = (p.n + OUTPUTS - 1) / OUTPUTS * down;
	const unsigned char *w = (const unsigned char *)p.w, *end = w + p.n * bytes;

	for (uint64_t task = blockIdx.x; task < all; task += gridDim.x) {
		uint64_t r0 = task % down * ROWS, j0 = task / down * OUTPUTS;
		/* outputs that do not exist are made of the last one's weights */
		uint64_t j = j0 + output < p.n ? j0 + output : p.n - 1;
		float sum[2][4][4] = {};

		for (uint64_t b0 = 0; b0 < blocks; b0 += STEP) {
			unsigned count = (unsigned)(blocks - b0 < STEP ? blocks - b0 :
									 STEP);
			const unsigned char *from = w + j * bytes +
				(size::SUPER ? b0 / 8 : b0) * size::BLOCK;
			unsigned head = (unsigned)((uintptr_t)from & 15);

			__syncthreads(); /* until the previous step is used */
			stage_bytes(raw + output * CHUNKS, from,
				size::SUPER ? size::BLOCK : count * size::BLOCK, end,
				part, 2, aligned);
			stage_x(x, &p, r0, b0, blocks);
			tensor_commit();
			tensor_wait<0>();
			__syncthreads();
			UNROLL_1
			for (unsigned b = part; b < count; b += 2) {
				uint4 *to = (uint4 *)(void *)(codes_at +
					output * CODE_STRIDE + b * 32);
				struct codes c;

				read_codes<TYPE>(&c, raw + output * CHUNKS,
					head + (size::SUPER ? 0 : b * size::BLOCK),
					(unsigned)(b0 % 8) + b);
				to[0] = make_uint4(c.word[0], c.word[1], c.word[2],
					c.word[3]);
				to[1] = make_uint4(c.word[4], c.word[5], c.word[6],
					c.word[7]);
				scales[b * OUTPUTS + output] = make_float2(c.scale,
					c.min);
				if (size::PARTS)
					parts[b * OUTPUTS + output] = make_int2(c.part[0],
						c.part[1]);
			}
			__syncthreads();
			UNROLL_1 /* registers for one block at a time */
				for (unsigned b = 0; b < count; b++)
			{
				unsigned a[2][4], right[2][4];
				float2 scale_x[2][2];

				UNROLL
				for (unsigned i = 0; i < 2; i++) {
					tensor_matrices<false>(a[i],
						x +
							(row + 16 * i + lane % 16) *
								X_STRIDE +
							b * 48 + lane / 16 * 16);
					tensor_matrices<false>(right[i],
						codes_at +
							(column + 16 * i + lane / 16 * 8 +
								lane % 8) *
								CODE_STRIDE +
							b * 32 + lane / 8 % 2 * 16);
					for (unsigned h = 0; h < 2; h++)
						scale_x[i][h] = *(
							const float2 *)(const void *)(x +
							(row + 16 * i + 8 * h +
								lane / 4) *
								X_STRIDE +
							b * 48 + 32);
				}
				UNROLL
				for (unsigned n = 0; n < 4; n++) {
					unsigned at = b * OUTPUTS + column + 8 * n +
						lane % 4 * 2;
					float4 scale_w = *(
						const float4 *)(const void *)(scales +
						at);
					int2 both[2] = {};

					if (size::PARTS) {
						both[0] = parts[at];
						both[1] = parts[at + 1];
					}
					UNROLL
					for (unsigned i = 0; i < 2; i++)
						add_block<TYPE>(sum[i][n], a[i],
							right[n / 2][n % 2 * 2],
							right[n / 2][n % 2 * 2 + 1],
							scale_x[i], scale_w, both);
				}
			}
		}
		UNROLL
		for (unsigned i = 0; i < 2; i++)
			UNROLL
		for (unsigned n = 0; n < 4; n++)
			for (unsigned e = 0; e < 4; e++)
				store(p, r0 + row + 16 * i + lane / 4 + e / 2 * 8,
					j0 + column + 8 * n + lane % 4 * 2 + e % 2,
					sum[i][n][e]);
	}
#else
	(void)p, (void)aligned;
#endif
}

template <int TYPE> static int launch(struct dev *d, const struct lm_project *p)
{
	auto kernel = project_tensor_kernel<TYPE>;
	uint64_t tiles = (p->n + OUTPUTS - 1) / OUTPUTS * ((p->rows + ROWS - 1) / ROWS);

	LAUNCH(kernel, cuda_grid(d, tiles, 1), THREADS, cuda_of(d)->stream, *p,
		((uintptr_t)p->w & 15) == 0);
	CUDA_TRY(cudaGetLastError());
	return 0;
}

int cuda_lm_project_tensor(struct dev *d, const struct lm_project *p)
{
	if (!cuda_tensor(d))
		return 1;
	switch (p->type) {
	case LM_WEIGHT_Q8_0:
		return launch<LM_WEIGHT_Q8_0>(d, p);
	case LM_WEIGHT_Q4_0:
		return launch<LM_WEIGHT_Q4_0>(d, p);
	case LM_WEIGHT_Q4_1:
		return launch<LM_WEIGHT_Q4_1>(d, p);
	case LM_WEIGHT_Q5_0:
		return launch<LM_WEIGHT_Q5_0>(d, p);
	case LM_WEIGHT_Q5_1:
		return launch<LM_WEIGHT_Q5_1>(d, p);
	case LM_WEIGHT_Q4_K:
		return launch<LM_WEIGHT_Q4_K>(d, p);
	case LM_WEIGHT_Q5_K:
		return launch<LM_WEIGHT_Q5_K>(d, p);
	default:
		return launch<LM_WEIGHT_Q6_K>(d, p);
	}
}
