/* ops.h - the operations of a language model of the Llama family, forward and backward: the
 * table `lm` of a device.
 *
 * Reached as d->ops->lm. The rules of dev.h hold: pointers belong to the device unless they are
 * said to be host pointers, operations run in the order of the calls, each returns 0, or -1
 * with code and message in d. All matrices are row-major; strides (ld...) are in elements. Only
 * prepare allocates. Results do not depend on the number of threads: the same inputs give the
 * same bits on the same device with the same kernels.
 *
 * Numbers: activations and the working copies of weights have the operation's dtype: f32 or
 * bf16 (round to nearest even). Sums are f32 or better. Each struct states its error bound
 * against the exact value of its formula for the numbers as stored, with u = 2^-24; a result
 * stored as bf16 has a further relative error of 2^-8. Infinities and NaN as inputs give
 * unspecified numbers, never a crash.
 *
 * The reference (NAME.c) computes in f64 in index order and rounds once. */
#ifndef RNP_KERNELS_LM_OPS_H
#define RNP_KERNELS_LM_OPS_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/dev/ops.h"
#include "kernels/lm/project.h"

enum lm_dtype { LM_DTYPE_F32, LM_DTYPE_BF16 };

HD uint64_t lm_dtype_bytes(enum lm_dtype dtype)
{
	return dtype == LM_DTYPE_F32 ? 4 : 2;
}

/* --- products ------------------------------------------------------------------------------ */

/* C[i][j] = from[i][j] + bias[j] + scale sum over t < k of A(i,t) B(t,j); C is m x n.
 *
 * form    A stored    B stored    used for
 * XWT     m x k       n x k       forward: activations times a weight [outputs, inputs]
 * XW      m x k       k x n       gradient of the inputs: dX = dY W
 * XTX     k x m       k x n       gradient of a weight: dW = dY^T X
 *
 * A and B have type `dtype`, C has type `out`; from (f32, stride ldc) and bias (f32, n) may be
 * NULL; from may be c when out is f32. C overlaps nothing else. m, n, k may be 0. A scale of 0
 * means 1. Error: (k + 5) 4 u S with S = |from| + |bias| + |scale| sum |A B| (the factor as in
 * product.h), + (1 + |scale|) k 2^-126. */
enum lm_gemm_form { LM_XWT, LM_XW, LM_XTX };

struct lm_gemm {
	enum lm_gemm_form form;
	enum lm_dtype dtype, out;
	void *c;
	const void *a, *b;
	const float *from, *bias;
	uint64_t m, n, k, lda, ldb, ldc;
	float scale;
};

HD float lm_gemm_scale(const struct lm_gemm *g)
{
	return g->scale == 0 ? 1 : g->scale;
}

/* --- rows ---------------------------------------------------------------------------------- */

/* x[r] = w[token[r]] as f32: rows of the embedding table. w is [vocab, dim] of `dtype`; tokens
 * are below vocab (the caller has checked). Exact. y (not NULL; of `dtype`): also receives RMSNorm
 * of x with weights `norm`, and rms the rows' r, as struct lm_norm says below. */
struct lm_embed {
	enum lm_dtype dtype;
	float *x;
	const void *w;
	const uint32_t *token;
	uint64_t rows, dim, vocab;
	void *y;
	float *rms;
	const float *norm;
	float eps;
};

/* dw[token[r]] += dx[r] in the order of r; dw f32 [vocab, dim]. Error 2 u (repeats) sum |.|. */
struct lm_embed_back {
	float *dw;
	const float *dx;
	const uint32_t *token;
	uint64_t rows, dim, vocab;
};

/* RMSNorm (Zhang, Sennrich 2019): r = 1 / sqrt(mean of x^2 + eps); y = x r w. x f32 [rows,
 * dim], w f32 [dim], y of `dtype`; rms[row] = r, or NULL. Error 2 (dim + 8) u |y|: the square
 * root halves the error of the mean. from (f32, [rows, dim]; NULL for 0) is added, with another
 * u |from + y| of error; it needs y in f32. y may be x or from. */
struct lm_norm {
	enum lm_dtype dtype;
	void *y;
	float *rms;
	const float *x, *w, *from;
	uint64_t rows, dim;
	float eps;
};

/* The norm of what is embedded. */
HD struct lm_norm lm_embed_norm(const struct lm_embed *e)
{
	struct lm_norm n = { e->dtype, e->y, e->rms, e->x, e->norm, NULL, e->rows, e->dim,
		e->eps };

	return n;
}

/* Gradient of RMSNorm: dx[i] = from[i] + r (dy[i] w[i] - x[i] r^2 / dim sum_j dy[j] w[j] x[j]),
 * and dw[i] += sum over rows dy[i] x[i] r. dx f32; copy receives the same as bf16, or NULL;
 * from f32 (may be dx), or NULL for 0. dy is of `dtype`. dw is added to unless `fresh`. Error 4
 * (dim + 8) u times the sum of the magnitudes of the terms; dw: 2 (rows + 8) u sum |.|.
 *
 * With rest (not NULL; copy too) the gradient is kept in two halves: rest receives dx - copy as
 * bf16, with an error of 2^-17 |dx|, and dx may be NULL. halves: these two as they are before
 * take the place of from. whole: they are only read, and dx alone is stored.
 *
 * y, or NULL: the norm's output as bf16, which may be read in place of x; then 2^-7 of the
 * magnitudes of the terms with x are added to the errors. */
struct lm_norm_back {
	enum lm_dtype dtype;
	float *dx, *dw;
	uint16_t *copy, *rest;
	const void *dy;
	const float *x, *w, *rms, *from;
	const uint16_t *y;
	uint64_t rows, dim;
	bool fresh, halves, whole;
};

/* Rotary positions (Su et al. 2021), in place on `heads` adjacent heads that begin at x in each
 * row. Row r has position first + r mod positions, or position[r] if that is not NULL; table is
 * f32 [first + positions][head_dim / 2][2]: cosine and sine. Pair i of a head is (i, i +
 * head_dim / 2), or (2i, 2i + 1) when interleaved: (a, b) -> (a c - b s, a s + b c); inverse
 * rotates back (the gradient). Heads that are rotated in part are `stride` apart (0: head_dim).
 * Error 4 u (|a| + |b|). */
struct lm_rotate {
	enum lm_dtype dtype;
	void *x;
	const float *table;
	const uint32_t *position; /* [rows], or NULL */
	uint64_t rows, ld, heads, head_dim, stride, positions, first;
	bool interleaved, inverse;
};

HD uint64_t lm_rotate_stride(const struct lm_rotate *r)
{
	return r->stride ? r->stride : r->head_dim;
}

HD uint64_t lm_rotate_position(const struct lm_rotate *r, uint64_t row)
{
	return r->position ? r->position[row] : r->first + row % r->positions;
}

/* SwiGLU (Shazeer 2020): y = g / (1 + exp(-g)) u with g and u the two halves of a row of x
 * [rows, 2 hidden]; or with GELU in its place, as tanh approximates it (Hendrycks, Gimpel 2016):
 * y = g / (1 + exp(-1.5957691216 (g + 0.044715 g^3))) u. Error 16 u |y| + 2^-126; of GELU 64 u
 * (1 + |g|) |g u|.
 *
 * With in (not NULL) x is a product that is computed first, in [rows, dim] w [2 hidden, dim]
 * transposed, and `product` is x: memory that it is written to. y is made of x as it is stored.
 * With y NULL the product alone is made, of the same bits. */
struct lm_swiglu {
	enum lm_dtype dtype;
	void *y; /* [rows, hidden] */
	const void *x;
	uint64_t rows, hidden;
	bool gelu;
	uint64_t dim;
	const void *in, *w;
	void *product;
};

/* The product that x is where there is an in. */
HD struct lm_gemm lm_swiglu_inputs(const struct lm_swiglu *s)
{
	struct lm_gemm g = { LM_XWT, s->dtype, s->dtype, s->product, s->in, s->w, NULL,
		NULL, s->rows, 2 * s->hidden, s->dim, s->dim, s->dim, 2 * s->hidden, 0 };

	return g;
}

#define LM_GELU_1 1.5957691216057308f /* 2 sqrt(2 / pi) */
#define LM_GELU_3 0.044715f

/* Gradient of SwiGLU, with s = 1 / (1 + exp(-g)): dg = dy u s (1 + g (1 - s)), du = dy g s, as
 * rows of dx [rows, 2 hidden]; dx may be x. y receives the forward result again, unless NULL.
 * Error 32 u of the magnitudes of the terms.
 *
 * With dout (not NULL) dy is a product that is computed first, dout [rows, dim] w [dim, hidden],
 * and `product` is dy: memory that the caller lets be written, and that may be left as it was. The
 * product's error, as of lm_gemm, comes to dy's, and where dy is bf16 2^-8 of it. */
struct lm_swiglu_back {
	enum lm_dtype dtype;
	void *dx, *y;
	const void *x, *dy;
	uint64_t rows, hidden, dim;
	const void *dout, *w;
	void *product;
};

/* The product that dy is where there is a dout. */
HD struct lm_gemm lm_swiglu_product(const struct lm_swiglu_back *s)
{
	struct lm_gemm g = { LM_XW, s->dtype, s->dtype, s->product, s->dout, s->w, NULL,
		NULL, s->rows, s->hidden, s->dim, s->dim, s->hidden, s->hidden, 0 };

	return g;
}

/* Gradient of a bias: db[j] += sum over rows of dy[i][j]. db is f32, dy of `dtype` with stride
 * ld. fresh: = instead of +=. Error 2 (rows + 2) u sum |dy|. */
struct lm_bias_back {
	enum lm_dtype dtype;
	float *db;
	const void *dy;
	uint64_t rows, n, ld;
	bool fresh;
};

/* x[i] = cap tanh(x[i] / cap), in place. Error 16 u cap. */
struct lm_softcap {
	float *x;
	uint64_t n;
	float cap;
};

/* to[i] = from[i] rounded to bf16. */
struct lm_narrow {
	uint16_t *to;
	const float *from;
	uint64_t n;
};

/* --- attention ----------------------------------------------------------------------------- */

/* Causal attention with grouped queries and an optional sliding window, in tiles with the
 * online softmax of FlashAttention (Dao et al. 2022): no matrix of positions x keys is stored.
 *
 * Sequence b has keys 0 .. keys - 1 and queries at positions keys - positions .. keys - 1; a
 * query at p sees the keys max(0, p - window + 1) .. p (window 0: from 0). Row b positions + i
 * of q and out, and row b keys + j of k and v, have strides ldq, ldo, ldk; head h begins at
 * column h head_dim and uses head h / (heads / kv_heads) of k and v.
 *
 * s_j = scale q . k_j ;  p_j = exp(s_j - lse) ;  lse = log sum exp(s_j) ;  out = sum p_j v_j
 *
 * With a table (not NULL) queries are rotated before, as lm_rotate does, and stored at `turned`,
 * which is q: memory that the caller lets be written.
 *
 * lse is f32 [batch, heads, positions], or NULL if no gradient follows. Tiles may round p to
 * `dtype` before the second product. Error of out, with S = the largest sum over t of |scale
 * q_t k_t|, V = the largest |v|: F32: V ((head_dim + 8) 16 u (1 + S) + keys 4 u); BF16: that
 * and V 2^-8 (p rounded). Of lse: (head_dim + 8) 16 u (1 + S) + keys 4 u. */
struct lm_attend {
	enum lm_dtype dtype;
	void *out;
	float *lse;
	const void *q, *k, *v;
	uint64_t batch, heads, kv_heads, head_dim, positions, keys, window;
	uint64_t ldq, ldk, ldo;
	float scale;
	void *turned;
	const float *table;
	bool interleaved;
};

/* The rotation of the queries, which comes first where there is a table. */
HD struct lm_rotate lm_attend_rotation(const struct lm_attend *a)
{
	struct lm_rotate r = { a->dtype, a->turned, a->table, NULL,
		a->batch * a->positions, a->ldq, a->heads, a->head_dim, 0, a->positions,
		a->keys - a->positions, a->interleaved, false };

	return r;
}

/* Gradient of attention; positions must equal keys. With d_i = sum dout_i out_i:
 *   ds_ij = p_ij (dout_i . v_j - d_i) ;  dv_j = sum_i p_ij dout_i ;
 *   dq_i = scale sum_j ds_ij k_j ;  dk_j = scale sum_i ds_ij q_i
 * dq, dk, dv have the strides of q, k, v; they are overwritten and overlap nothing. Tiles may round
 * p and ds to `dtype`: 2^-8 of the magnitudes of the terms for BF16.
 *
 * With a table (not NULL) dq and dk are then rotated back, as lm_rotate does with `inverse`: row i
 * of a sequence has position i. Tiles may do it before they round to `dtype`. */
struct lm_attend_back {
	struct lm_attend forward; /* out and lse are read; q is rotated, and table NULL */
	const void *dout;         /* stride ldo */
	void *dq, *dk, *dv;
	const float *table;
	bool interleaved;
};

/* The rotations of dq and dk that follow: sets one or two operations, and returns how many. */
HD unsigned lm_attend_rotations(const struct lm_attend_back *a, struct lm_rotate r[2])
{
	const struct lm_attend *f = &a->forward;
	uint64_t q_bytes = f->heads * f->head_dim * lm_dtype_bytes(f->dtype);
	bool adjacent = (char *)a->dq + q_bytes == (char *)a->dk && f->ldq == f->ldk;
	struct lm_rotate q = { f->dtype, a->dq, a->table, NULL, f->batch * f->positions,
		f->ldq, f->heads + (adjacent ? f->kv_heads : 0), f->head_dim, 0,
		f->positions, 0, a->interleaved, true };

	if (!a->table)
		return 0;
	r[0] = r[1] = q;
	r[1].x = a->dk;
	r[1].ld = f->ldk;
	r[1].heads = f->kv_heads;
	return adjacent ? 1 : 2;
}

/* --- a cache in blocks --------------------------------------------------------------------- */

/* Keys and values of many sequences in a pool of blocks of LM_PAGE tokens each (PagedAttention:
 * Kwon et al. 2023), so that sequences of any length share one memory, and equal beginnings
 * share blocks. A sequence has a list of its blocks: its token j is row list[j / LM_PAGE]
 * LM_PAGE + j mod LM_PAGE of the pool. */
#define LM_PAGE 16

/* How the numbers of a row of `width` are kept: f16; f32; or in blocks of 32, an f16 scale and 32
 * int8, where heads must be multiples of 32 wide. f16 is a sequence's default: 0. */
enum lm_cache_type { LM_CACHE_F16, LM_CACHE_F32, LM_CACHE_Q8_0, LM_CACHE_TYPES };

/* Bytes of the first n numbers of a row. */
HD uint64_t lm_cache_bytes(enum lm_cache_type type, uint64_t n)
{
	return type == LM_CACHE_Q8_0 ? n / 32 * 34 : type == LM_CACHE_F16 ? 2 * n : 4 * n;
}

/* Number i of a row. */
HD float lm_cache_at(enum lm_cache_type type, const void *row, uint64_t i)
{
	const unsigned char *p = (const unsigned char *)row + lm_cache_bytes(type, i);
	const unsigned char *block = (const unsigned char *)row + i / 32 * 34;
	uint16_t half;
	float whole;

	if (type == LM_CACHE_F32) {
		memcpy(&whole, p, 4);
		return whole;
	}
	memcpy(&half, type == LM_CACHE_F16 ? p : block, 2);
	return type == LM_CACHE_F16 ? f16_to_f32(half) :
				      f16_to_f32(half) * (float)(int8_t)block[2 + i % 32];
}

/* Writes numbers 32 g and on of a row, up to 32 of its width: f16 rounds to nearest even; a block's
 * scale is its largest magnitude / 127, its numbers x times 1 / scale, rounded to nearest even,
 * before the scale becomes f16. */
HD void lm_cache_put_32(enum lm_cache_type type, void *row, const float *x, uint64_t g,
	uint64_t width)
{
	uint64_t from = 32 * g, to = from + 32 < width ? from + 32 : width;
	unsigned char *p = (unsigned char *)row + lm_cache_bytes(type, from);
	float max = 0, scale, inverse;
	uint16_t half;

	if (type == LM_CACHE_F32) {
		memcpy(p, x + from, 4 * (to - from));
		return;
	}
	for (uint64_t i = from; type == LM_CACHE_F16 && i < to; i++) {
		half = f16_from_f32(x[i]);
		memcpy(p + 2 * (i - from), &half, 2);
	}
	if (type == LM_CACHE_F16)
		return;
	for (uint64_t i = from; i < to; i++)
		max = fabsf(x[i]) > max ? fabsf(x[i]) : max;
	scale = max < 0x1p-100f ? 0 : max / 127;
	inverse = scale > 0 ? 1 / scale : 0;
	half = f16_from_f32(scale);
	memcpy(p, &half, 2);
	for (uint64_t i = from; i < to; i++)
		p[2 + i - from] = (unsigned char)(int8_t)rintf(
			fminf(fmaxf(x[i] * inverse, -127), 127));
}

/* Where the row of token `slot` lies in a layer's part of the pool, in bytes; by_head: that of the
 * head that begins with number `column`, whose rows of a block lie together, so that a CPU, which
 * attends to one head after the other, reads memory in order: what lies between is brought into its
 * caches, too. stride: bytes from a block to the next; 0: they lie side by side. */
HD uint64_t lm_cache_place(enum lm_cache_type type, uint64_t slot, uint64_t width,
	uint64_t by_head, uint64_t stride, uint64_t column)
{
	uint64_t in = slot % LM_PAGE;
	uint64_t block = slot / LM_PAGE *
		(stride ? stride : LM_PAGE * lm_cache_bytes(type, width));

	return by_head ? block + LM_PAGE * lm_cache_bytes(type, column) +
			in * lm_cache_bytes(type, by_head) :
			 block + in * lm_cache_bytes(type, width);
}

/* Rows r of k and v become rows slot[r] of keys and values. Slots differ. All versions give the
 * same bits. */
struct lm_paged_put {
	enum lm_cache_type type;
	void *keys, *values;  /* the part of the pool of one layer: rows of `width` */
	const float *k, *v;   /* [rows, width] */
	const uint32_t *slot; /* [rows] */
	uint64_t rows, width;
	/* not 0, CPU only: a block is [width / by_head][LM_PAGE] rows of so many numbers */
	uint64_t by_head;
	/* CPU only: bytes from a block to the next; 0: they lie side by side */
	uint64_t stride;
};

/* The rotations of q and of k, then k and v into the cache, as the operations of these names make
 * them, to the bit. k.x is put.k. */
struct lm_rotate_put {
	struct lm_rotate q, k;
	struct lm_paged_put put;
};

/* Causal attention of rows that may each belong to another sequence. Row r is the token at
 * position[r] of a sequence whose list of blocks begins at blocks[table[r]]; it sees the keys
 * max(0, position[r] - window + 1) .. position[r] (window 0: from 0). Heads, strides and formula
 * are those of lm_attend; numbers are f32, keys and values of `type` as they are. The terms of each
 * sum and their order depend only on the row's position and the window: not on other rows, nor on
 * where blocks lie. A softcap above 0 replaces each score s by softcap tanh(s / softcap). Keys and
 * values are finite. Error as lm_attend with F32, keys being position[r] + 1. GPUs may compute with
 * f16: q, times a power of two of its own row and head, the weights p, and the numbers of a cache
 * of Q8_0 are rounded to it, which adds V 2^-10 (1 + S), with Q8_0 V 2^-9 (1 + S); a cache of F32
 * is computed in f32. */
struct lm_paged_attend {
	enum lm_cache_type type;
	float *out;
	const float *q;
	const void *keys, *values;
	const uint32_t *position, *table; /* [rows] */
	const uint32_t *blocks;
	uint64_t rows, heads, kv_heads, head_dim, window;
	uint64_t ldq, ldk, ldo;
	/* upper bound: every position[r] is less; decides how the work is divided */
	uint64_t keys_max;
	/* no two rows are of one sequence: decides how the work is divided, too */
	bool apart;
	float scale, softcap;
	bool by_head; /* CPU only: blocks are as those of lm_paged_put with by_head = head_dim */
	uint64_t stride; /* as lm_paged_put's */
};

/* --- output -------------------------------------------------------------------------------- */

/* The output projection and the cross-entropy after it, together: the logits l = h w^T of
 * [rows, vocab] are never all in memory.
 *
 *   loss[r] = log sum exp(l) - l[target] ;  dl = scale (softmax(l) - 1 at target)
 *   dh = dl w ;  dw (+)= dl^T h
 *
 * A target of LM_NO_TARGET has loss 0 and no gradient. h is [rows, dim], w [vocab, dim], dh as
 * h, all of `dtype`; loss and dw are f32. dh may be NULL (evaluation: dw is not touched
 * either), and dw alone (the output does not learn). fresh: dw = instead of +=. scratch:
 * lm->head_scratch bytes; its size decides how many rows are computed at once. Error of loss:
 * (dim + 8) 16 u (1 + S) + vocab 2^-32, S the largest sum |h w|; dl is rounded to `dtype`. For
 * BF16 with dh all logits but the target's may be rounded to bf16 before the softmax: a further
 * 2^-8 S. */
#define LM_NO_TARGET UINT32_MAX

struct lm_head {
	enum lm_dtype dtype;
	float *loss;
	void *dh;
	float *dw;
	const void *h, *w;
	const uint32_t *target;
	uint64_t rows, dim, vocab;
	float scale;
	bool fresh;
	void *scratch;
};

/* --- optimiser ----------------------------------------------------------------------------- */

/* Rates of an optimiser step, in device memory: clip writes norm and scale, the training loop
 * the rest. */
struct lm_rates {
	float norm;  /* of all gradients, times `unit` */
	float scale; /* factor of each gradient: unit, reduced by clipping */
	float lr;
	float correct1, correct2; /* 1 / (1 - beta^step) */
	float unit;               /* e.g. 1 / number of targets */
	float clip;               /* largest norm allowed; 0: no clipping */
};

/* Sums of squares are formed over blocks of this many numbers, so that their order is fixed. */
#define LM_SQUARES_BLOCK 16384

/* part[b] = sum of g[i]^2 in block b, f64. n counts all numbers; there are (n + block - 1) /
 * block parts. Relative error 2^-20. */
struct lm_squares {
	double *part;
	const float *g;
	uint64_t n;
};

/* norm = unit sqrt(sum of part in order); scale = unit, or unit clip / norm where norm > clip >
 * 0. */
struct lm_clip {
	struct lm_rates *rates;
	const double *part;
	uint64_t parts;
};

/* AdamW (Loshchilov, Hutter 2019), in PyTorch's order: g = scale g; p -= lr decay p; m += (1 -
 * beta1)(g - m); v = beta2 v + (1 - beta2) g^2; p -= lr correct1 m / (sqrt(correct2 v) + eps).
 * copy receives p as bf16, or is NULL. If rates->norm is not finite, nothing changes. spared: for
 * each LM_SPARED elements, the last may be fewer, whether their decay is 0; NULL: that of none is.
 * Error 16 u of the magnitudes of the terms. */
#define LM_SPARED 64

struct lm_adamw {
	float *p, *m, *v;
	const float *g;
	uint16_t *copy;
	const uint8_t *spared; /* [n / LM_SPARED, rounded up] */
	const struct lm_rates *rates;
	uint64_t n;
	float beta1, beta2, eps, decay;
};

/* --- the table ----------------------------------------------------------------------------- */

/* prepare allocates what the operations need besides their arguments. It is called before the first
 * of them; calling it again is fine. bytes receives the memory that this takes, or is NULL.
 * Operations in LM_OPS_PREPARED require it. project_group and rotate_put return 1 where a device
 * makes what they are of one by one, and then have started nothing. */
#define LM_OPS_FREE(OP, t)                                                               \
	OP(t, prepare, (struct dev * d, uint64_t * bytes), (d, bytes))                   \
	OP(t, project, (struct dev * d, const struct lm_project *p), (d, p))             \
	OP(t, project_group, (struct dev * d, const struct lm_project_group *p), (d, p)) \
	OP(t, quantize, (struct dev * d, const struct lm_quantize *q), (d, q))           \
	OP(t, head_scratch, (struct dev * d, const struct lm_head *h, uint64_t *bytes),  \
		(d, h, bytes))

#define LM_OPS_PREPARED(OP, t)                                                       \
	OP(t, gemm, (struct dev * d, const struct lm_gemm *x), (d, x))               \
	OP(t, embed, (struct dev * d, const struct lm_embed *x), (d, x))             \
	OP(t, embed_back, (struct dev * d, const struct lm_embed_back *x), (d, x))   \
	OP(t, norm, (struct dev * d, const struct lm_norm *x), (d, x))               \
	OP(t, norm_back, (struct dev * d, const struct lm_norm_back *x), (d, x))     \
	OP(t, rotate, (struct dev * d, const struct lm_rotate *x), (d, x))           \
	OP(t, swiglu, (struct dev * d, const struct lm_swiglu *x), (d, x))           \
	OP(t, swiglu_back, (struct dev * d, const struct lm_swiglu_back *x), (d, x)) \
	OP(t, bias_back, (struct dev * d, const struct lm_bias_back *x), (d, x))     \
	OP(t, softcap, (struct dev * d, const struct lm_softcap *x), (d, x))         \
	OP(t, narrow, (struct dev * d, const struct lm_narrow *x), (d, x))           \
	OP(t, attend, (struct dev * d, const struct lm_attend *x), (d, x))           \
	OP(t, attend_back, (struct dev * d, const struct lm_attend_back *x), (d, x)) \
	OP(t, head, (struct dev * d, const struct lm_head *x), (d, x))               \
	OP(t, squares, (struct dev * d, const struct lm_squares *x), (d, x))         \
	OP(t, clip, (struct dev * d, const struct lm_clip *x), (d, x))               \
	OP(t, adamw, (struct dev * d, const struct lm_adamw *x), (d, x))             \
	OP(t, paged_put, (struct dev * d, const struct lm_paged_put *x), (d, x))     \
	OP(t, rotate_put, (struct dev * d, const struct lm_rotate_put *x), (d, x))   \
	OP(t, paged_attend, (struct dev * d, const struct lm_paged_attend *x), (d, x))

#define LM_OPS(OP, t)      \
	LM_OPS_FREE(OP, t) \
	LM_OPS_PREPARED(OP, t)

struct lm_ops {
	LM_OPS(DEV_SLOT, lm)
};

KERNELS_BEGIN

/* Returns for how many outputs a device takes weights from lm_pack; 0: it takes them only as they
 * lie in the file. */
uint32_t lm_pack_outputs(struct dev *d, enum lm_weight type);

KERNELS_END

#endif
