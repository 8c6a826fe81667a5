/* project_ask.cu - asks a GPU what wgmma makes of layers with bf16 weights, before they are served:
 * each shape of tiles (project_sm90a.cu) multiplies the same numbers, and so does mma.sync
 * (project_bf16.cu). All with the same bits: few rows are made by one and many by the other. Shapes
 * with the same bits and mma.sync with others, as another order of additions has: wgmma makes all
 * rows, so that a row's bits are still its own. What does not begin, or is no such sum, is not
 * used, and the device says so.
 *
 * The first is what others found of an H100 (Khattak and Mikaitis 2025, Accurate Models of NVIDIA
 * Tensor Cores): sixteen products and the sum so far are cut off at 2^-25 of the largest and added
 * exactly, by either instruction and in any order. NVIDIA promises it nowhere. */
#include "kernels/lm/cuda/project_bf16.cuh"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

/* Two layers with an edge in each direction, and, on a chip, more steps than any shape has
 * stages. */
#ifdef CUDA_EMU
enum { ROWS = 9, OUTPUTS = 24, DEPTH = 72, SHAPES = 1 };
#else
enum { ROWS = 264, OUTPUTS = 136, DEPTH = 1160, SHAPES = WIDE_SHAPES };
#endif
/* of the scratch memory, in floats: what is rounded lies at its beginning */
#define PART ((uint64_t)1 << 18)
enum { FEW_FROM = 9 }; /* rows up to eight are made by project_bf16.cu, better */

/* Outputs of both layers side by side, and what SwiGLU makes of them. */
struct sums {
	float plain[ROWS * 2 * OUTPUTS], gated[ROWS * OUTPUTS];
};
static_assert(ROWS * DEPTH <= 2 * PART && OUTPUTS * DEPTH * 2 <= 2 * PART &&
		sizeof(struct sums) <= PART * 4 &&
		(5 + SHAPES) * PART <= LM_SCRATCH_FLOATS,
	"parts of the scratch memory");

struct asked {
	uint16_t w[2 * OUTPUTS * DEPTH];
	float x[ROWS * DEPTH];
	struct sums few, wide[SHAPES];
};

/* Numbers of either sign, from 2^-8 to 2^8: sums that lose what is small, and cancel. */
static void make_numbers(struct asked *a)
{
	uint64_t state = 0x9e3779b97f4a7c15;

	for (unsigned i = 0; i < (2 * OUTPUTS + ROWS) * DEPTH; i++) {
		uint32_t bits;

		state ^= state << 13, state ^= state >> 7, state ^= state << 17;
		bits = (uint32_t)(state >> 32 & 0x807f) | (119 + state % 17) << 7;
		if (i < 2 * OUTPUTS * DEPTH)
			a->w[i] = (uint16_t)bits;
		else
			a->x[i - 2 * OUTPUTS * DEPTH] = bf16_to_f32((uint16_t)bits);
	}
}

/* Where sums lie: those of few rows, then those of the shapes. */
static struct sums *place_of(struct dev *d, unsigned which)
{
	return (struct sums *)(void *)(cuda_of(d)->lm_scratch + (4 + which) * PART);
}

/* The two layers, whose outputs go to `to`. */
static struct lm_project_group layers_to(struct dev *d, struct sums *to)
{
	float *at = cuda_of(d)->lm_scratch;
	struct lm_project_group g = {};

	g.n = 2;
	for (unsigned i = 0; i < 2; i++) {
		struct lm_project *p = &g.p[i];

		p->type = LM_WEIGHT_BF16;
		p->rows = ROWS, p->n = OUTPUTS, p->k = p->ldx = DEPTH;
		p->x = at + 2 * PART;
		p->w = (const uint16_t *)(const void *)(at + PART) + i * OUTPUTS * DEPTH;
		p->y = to->plain + i * OUTPUTS, p->ldy = 2 * OUTPUTS;
	}
	return g;
}

static int start_few(struct dev *d)
{
	struct sums *to = place_of(d, 0);
	struct lm_project_group g = layers_to(d, to);
	struct lm_swiglu s = {};

	s.dtype = LM_DTYPE_F32;
	s.x = to->plain, s.y = to->gated;
	s.rows = ROWS, s.hidden = OUTPUTS;
	if (cuda_lm_project_bf16_few(d, &g.p[0]) || cuda_lm_project_bf16_few(d, &g.p[1]))
		return -1;
	return cuda_lm_swiglu(d, &s);
}

static int start_shape(struct dev *d, unsigned shape)
{
	struct sums *to = place_of(d, 1 + shape);
	struct lm_project_group g = layers_to(d, to);
	int rc = cuda_lm_project_wide_group(d, &g, shape);

	g.gated = to->gated;
	if (rc == 0)
		rc = cuda_lm_project_wide_group(d, &g, shape);
	return rc > 0 ? dev_fail(d, EX_SOFTWARE, "%s: not a product for wgmma", d->name) :
			rc;
}

/* Has all multiply, and waits for them. */
static int ask(struct dev *d, struct asked *a)
{
	cudaStream_t stream = cuda_of(d)->stream;
	float *at = cuda_of(d)->lm_scratch;

	CUDA_TRY(cudaMemcpyAsync(at + PART, a->w, sizeof a->w, cudaMemcpyHostToDevice,
		stream));
	CUDA_TRY(cudaMemcpyAsync(at + 2 * PART, a->x, sizeof a->x, cudaMemcpyHostToDevice,
		stream));
	if (start_few(d) < 0)
		return -1;
	for (unsigned i = 0; i < SHAPES; i++)
		if (start_shape(d, i) < 0)
			return -1;
	for (unsigned i = 0; i <= SHAPES; i++)
		CUDA_TRY(cudaMemcpyAsync(i ? &a->wide[i - 1] : &a->few, place_of(d, i),
			sizeof(struct sums), cudaMemcpyDeviceToHost, stream));
	CUDA_TRY(cudaStreamSynchronize(stream));
	return 0;
}

/* Whether sums are those of few rows but for how they are rounded. */
static bool is_near(const struct asked *a, const struct sums *s)
{
	for (unsigned i = 0; i < ROWS * 2 * OUTPUTS; i++) {
		const float *x = a->x + i / (2 * OUTPUTS) * DEPTH;
		const uint16_t *w = a->w + i % (2 * OUTPUTS) * DEPTH;
		double all = 0;

		if (s->plain[i] == a->few.plain[i])
			continue;
		for (unsigned k = 0; k < DEPTH; k++)
			all += fabs((double)x[k] * bf16_to_f32(w[k]));
		/* an error of 2^-22 of each sum so far */
		if (!(fabs((double)s->plain[i] - a->few.plain[i]) <=
			    all * 0x1p-22 * (DEPTH / 8)))
			return false;
	}
	return true;
}

/* Whether SwiGLU is that of the kernel of its own, which the compiler may have fused other
 * operations of. Where sums are other ones it is not asked: what differs little there may differ
 * much here. */
static bool is_gated(const struct asked *a, const struct sums *s)
{
	for (unsigned i = 0; i < ROWS * OUTPUTS; i++)
		if (!(fabsf(s->gated[i] - a->few.gated[i]) <=
			    fabsf(a->few.gated[i]) * 0x1p-18f + 0x1p-100f))
			return false;
	return true;
}

/* Sets from which rows on wgmma is used; returns why it is not, or NULL. */
static const char *judge(const struct asked *a, unsigned *from)
{
	bool same = memcmp(a->wide[0].plain, a->few.plain, sizeof a->few.plain) == 0;

	for (unsigned i = 0; i < SHAPES; i++) {
		if (!is_near(a, &a->wide[i]) || (same && !is_gated(a, &a->wide[i])))
			return "its wgmma computes something else";
		if (memcmp(a->wide[i].plain, a->wide[0].plain, sizeof a->few.plain))
			return "its tensor cores add in two ways";
	}
	*from = same ? FEW_FROM : 1;
	return NULL;
}

int cuda_lm_find_wide(struct dev *d)
{
	struct cuda *c = cuda_of(d);
	const char *why;
	struct asked *a;

	c->lm_wide_from = 0;
	if (!c->wgmma)
		return 0;
	/* of this call: each GPU has a thread that may ask */
	a = (struct asked *)malloc(sizeof *a);
	if (!a)
		return dev_fail(d, EX_OSERR, "%s: out of memory", d->name);
	make_numbers(a);
	if (ask(d, a) == 0) {
		why = judge(a, &c->lm_wide_from);
	} else if (cudaStreamSynchronize(c->stream) == cudaSuccess) {
		why = d->error; /* of what did not begin: the device goes on without it */
	} else {
		free(a);
		return -1;
	}
	if (why)
		snprintf(d->note, sizeof d->note,
			"%s: some matrix products are slower than they could be: %.160s",
			d->name, why);
	free(a);
	return 0;
}
