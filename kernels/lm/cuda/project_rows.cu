/* project_rows.cu - products of a few rows with quantised weights: bound by the memory that the
 * weights come from. A warp has an output and reads its weights in order, 32 blocks at a time,
 * 16 bytes a lane, the next while these are used; then each lane has a block. What a block adds
 * is left in shared memory, where one thread for each row and output adds it in the order of the
 * blocks: the reference's bits, however many rows there are. Multiply-adds are fmaf(), as in the
 * reference: contraction (-fmad) changes nothing. */
#include "kernels/lm/cuda/project_quantized.cuh"

#define WARPS   8
#define THREADS (32 * WARPS)
#define PAD     (WARPS + 1) /* so that the lanes of a warp write to different banks */

/* 16-byte chunks that 32 blocks of a row touch, and the word after them. */
template <int TYPE> struct raw_room {
	enum {
		BYTES = block_bytes<TYPE>::BLOCK * (block_bytes<TYPE>::SUPER ? 4 : 32),
		CHUNKS = (BYTES + 15 + 15) / 16 + 1
	};
};

/* What a block of 32 adds: fma(factor, whole, sum), then fma(min, x, sum) where the type has a
 * minimum. */
template <int HAS_MIN> struct term {
	float factor, whole;
};
template <> struct term<1> {
	float factor, whole, min, x;
};

__device__ __forceinline__ float add_term(const term<0> &t, float sum)
{
	return fmaf(t.factor, t.whole, sum);
}

__device__ __forceinline__ float add_term(const term<1> &t, float sum)
{
	return fmaf(t.min, t.x, fmaf(t.factor, t.whole, sum));
}

__device__ __forceinline__ void set_min(term<0> *, float, float)
{
}

__device__ __forceinline__ void set_min(term<1> *t, float min, float x)
{
	t->min = min;
	t->x = x;
}

/* sum + four products of int8; GPUs before sm_61 have no instruction for it. */
__device__ __forceinline__ int dot_four(unsigned a, unsigned b, int sum)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 610
	for (int i = 0; i < 32; i += 8)
		sum += (int8_t)(a >> i) * (int8_t)(b >> i);
	return sum;
#else
	return __dp4a((int)a, (int)b, sum);
#endif
}

/* The sum of codes times activations, which is exact. */
template <int TYPE>
__device__ __forceinline__ int dot(const struct codes *c, const uint4 &low,
	const uint4 &high)
{
	unsigned x[8] = { low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w };
	int half[2] = { 0, 0 };

	UNROLL
	for (int i = 0; i < 8; i++)
		half[i / 4] = dot_four(c->word[i], x[i], half[i / 4]);
	return block_bytes<TYPE>::PARTS ? c->part[0] * half[0] + c->part[1] * half[1] :
					  half[0] + half[1];
}

/* R: rows of x that share a decoded block. */
template <int TYPE, int R>
__global__ void __launch_bounds__(THREADS, 4)
	project_rows_kernel(struct lm_project p, bool aligned)
{
	typedef block_bytes<TYPE> size;
	enum { CHUNKS = raw_room<TYPE>::CHUNKS };
	typedef term<size::HAS_MIN> addend;
	SHARED(uint4, raw_shared, WARPS * 2 * CHUNKS);
	SHARED(addend, terms, 2 * R * 32 * PAD);
	unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	uint4 *raw = raw_shared + warp * 2 * CHUNKS;
	uint64_t blocks = p.k / LM_WEIGHT_BLOCK,
		 bytes = lm_weight_row_bytes((enum lm_weight)TYPE, p.k);
	uint64_t groups = (p.rows + R - 1) / R, all = (p.n + WARPS - 1) / WARPS * groups;
	const unsigned char *w = (const unsigned char *)p.w, *end = w + p.n * bytes;
	unsigned steps = (unsigned)((blocks + 31) / 32);

	for (uint64_t task = blockIdx.x; task < all; task += gridDim.x) {
		uint64_t first = task / groups * WARPS, r0 = task % groups * R;
		int rows = p.rows - r0 < R ? (int)(p.rows - r0) : R;
		/* a warp without an output of its own reads the last one's weights */
		uint64_t j = first + warp < p.n ? first + warp : p.n - 1;
		const unsigned char *from = w + j * bytes;
		float sum = 0;

		__syncthreads(); /* until the previous terms are added */
		stage_bytes(raw, from,
			(unsigned)(bytes < raw_room<TYPE>::BYTES ? bytes :
								   raw_room<TYPE>::BYTES),
			end, lane, 32, aligned);
		tensor_commit();
		for (unsigned s = 0; s < steps; s++) {
			addend *now = terms + s % 2 * R * 32 * PAD;
			uint64_t at = (uint64_t)s * raw_room<TYPE>::BYTES,
				 next = at + raw_room<TYPE>::BYTES;
			unsigned b = 32 * s + lane;

			if (next < bytes)
				stage_bytes(raw + (s + 1) % 2 * CHUNKS, from + next,
					(unsigned)(bytes - next < raw_room<TYPE>::BYTES ?
							bytes - next :
							raw_room<TYPE>::BYTES),
					end, lane, 32, aligned);
			tensor_commit();
			tensor_wait<1>();
			__syncwarp();
			if (b < blocks) {
				unsigned head = (unsigned)((uintptr_t)(from + at) & 15);
				struct codes c;

				read_codes<TYPE>(&c, raw + s % 2 * CHUNKS,
					head +
						(size::SUPER ? lane / 8 : lane) *
							size::BLOCK,
					lane % 8);
				UNROLL
				for (int r = 0; r < R; r++) {
					const uint4 *x =
						(const uint4 *)(const void *)&p
							.x8[(r0 + (unsigned)r) * blocks +
								b];
					addend t;
					uint4 rest;

					if (R > 1 && r >= rows)
						break;
					rest = __ldg(x + 2);
					t.factor = c.scale * half_float_of_bits(rest.x);
					t.whole = (float)dot<TYPE>(&c, __ldg(x),
						__ldg(x + 1));
					set_min(&t, c.min, half_float_of_bits(rest.y));
					now[((unsigned)r * 32 + lane) * PAD + warp] = t;
				}
			}
			__syncthreads();
			/* one thread for each row and output; meanwhile the others go on */
			if (warp < (unsigned)rows && lane < WARPS) {
				unsigned count = (unsigned)(blocks - 32 * s < 32 ?
						blocks - 32 * s :
						32);

				for (unsigned i = 0; i < count; i++)
					sum = add_term(now[(warp * 32 + i) * PAD + lane],
						sum);
			}
		}
		if (warp < (unsigned)rows && lane < WARPS && first + lane < p.n) {
			uint64_t y = (r0 + warp) * p.ldy + first + lane;

			if (p.bias)
				sum += p.bias[first + lane];
			if (p.from)
				sum += p.from[y];
			p.y[y] = sum;
		}
	}
}

template <int TYPE> static int launch(struct dev *d, const struct lm_project *p)
{
	auto one_kernel = project_rows_kernel<TYPE, 1>;
	/* what shared memory has room for */
	enum { FEW = block_bytes<TYPE>::HAS_MIN ? 2 : 4 };
	auto few_kernel = project_rows_kernel<TYPE, FEW>;
	uint64_t groups = p->rows == 1 ? 1 : (p->rows + FEW - 1) / FEW;
	unsigned grid = cuda_grid(d, (p->n + WARPS - 1) / WARPS * groups, 1);
	bool aligned = ((uintptr_t)p->w & 15) == 0;
	cudaStream_t stream = cuda_of(d)->stream;

	if (p->rows == 1)
		LAUNCH(one_kernel, grid, THREADS, stream, *p, aligned);
	else
		LAUNCH(few_kernel, grid, THREADS, stream, *p, aligned);
	CUDA_TRY(cudaGetLastError());
	return 0;
}

int cuda_lm_project_quantized(struct dev *d, const struct lm_project *p)
{
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
