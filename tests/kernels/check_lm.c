/* check_lm.c - compares the operations of a language model with their definitions in
 * kernels/lm/ref.h. Results in bf16 are widened by embed, whose own case is exact, so that
 * bounds can be in f32.
 * long because it has a case for every operation of ops.h, and all share one frame. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "kernels/lm/ref.h"
#include "tests/kernels/kcheck.h"

#define U 0x1p-24

/* Whether it is a GPU: in the emulation's hands as a plug-in, as when scripts/on-gpu is tested,
 * what fills a chip would take minutes. */
static bool on_chip(const struct kcheck *k)
{
	return strcmp(k->column, "cuda") == 0 && strcmp(k->dev.model, "emulation") != 0;
}

/* The memory of one case: the host's copies, freed when the case ends. */
struct bench {
	struct kcheck *k;
	enum lm_dtype dtype;
	void *held[32];
	int used;
	uint64_t seed;
	struct kcase c;
};

/* Some inputs are aligned to 16 bytes, where kernels may load several numbers at once, and some
 * are not. */
static bool beside;

static void *hold(struct bench *b, uint64_t bytes)
{
	void *p = calloc(1, bytes + 64);

	if (!p || b->used == (int)(sizeof b->held / sizeof *b->held))
		abort();
	b->held[b->used++] = p;
	return p;
}

/* Makes n numbers between -size and size as f32 or bf16. Returns the host's copy, with the
 * device's in *there. */
static void *numbers(struct bench *b, enum lm_dtype dtype, uint64_t n, double size,
	const void **there)
{
	int32_t *bits = hold(b, n * 4);
	void *p = hold(b, n * 4);

	kcheck_random(bits, n * 4, b->seed++);
	for (uint64_t i = 0; i < n; i++)
		lm_set(dtype, p, i, size * bits[i] * 0x1p-31);
	*there = kcheck_put(b->k, p, n * lm_dtype_bytes(dtype),
		!beside                       ? 16 :
			dtype == LM_DTYPE_F32 ? 4 :
						2);
	return p;
}

static void *buffer(struct bench *b, uint64_t bytes)
{
	void *zeros = hold(b, bytes);

	return kcheck_put(b->k, zeros, bytes, 0);
}

static uint32_t *ids(struct bench *b, uint64_t n, uint32_t below, const void **there)
{
	uint32_t *p = hold(b, n * 4);

	kcheck_random(p, n * 4, b->seed++);
	for (uint64_t i = 0; i < n; i++)
		p[i] %= below;
	*there = kcheck_put(b->k, p, n * 4, 4);
	return p;
}

/* the rows 0 .. n - 1, for widening */
static const uint32_t *count_up(struct bench *b, uint64_t n)
{
	uint32_t *p = hold(b, n * 4);

	for (uint64_t i = 0; i < n; i++)
		p[i] = (uint32_t)i;
	return kcheck_put(b->k, p, n * 4, 0);
}

/* The arguments of a run besides the operation's own struct. */
struct run {
	const void *op;
	const void *start; /* initial f32 contents of out, or NULL */
	uint64_t start_bytes;
	void *raw; /* bf16 results to widen, or NULL */
	uint64_t rows, dim;
	const uint32_t *up;
};

static int begin(struct dev *d, void *out, const struct run *r)
{
	return r->start ? d->ops->copy(d, out, r->start, r->start_bytes) : 0;
}

static int widen(struct dev *d, void *out, const struct run *r)
{
	struct lm_embed e = { .dtype = LM_DTYPE_BF16,
		.x = out,
		.w = r->raw,
		.token = r->up,
		.rows = r->rows,
		.dim = r->dim,
		.vocab = r->rows };

	return r->raw ? d->ops->lm->embed(d, &e) : 0;
}

/* Runs the operation of struct lm_NAME with its output `field` in place, and widens the result. */
#define RUN(name, field)                                                       \
	static int run_##name(struct dev *d, void *out, const void *arguments) \
	{                                                                      \
		const struct run *r = arguments;                               \
		struct lm_##name x = *(const struct lm_##name *)r->op;         \
                                                                               \
		x.field = r->raw ? r->raw : out;                               \
		if (begin(d, x.field, r) < 0 || d->ops->lm->name(d, &x) < 0)   \
			return -1;                                             \
		return widen(d, out, r);                                       \
	}

RUN(gemm, c)
RUN(embed, x)
RUN(embed_back, dw)
RUN(rotate, x)
RUN(swiglu, y)
RUN(bias_back, db)

static void start_bench(struct bench *b, struct kcheck *k, enum lm_dtype dtype)
{
	*b = (struct bench){ .k = k, .dtype = dtype, .seed = 77 };
}

/* Compares `want` (n numbers, as the operation gives them) with the run. bound NULL: exact. In
 * bf16 the reference's and our result may be rounded differently. */
static void finish(struct bench *b, kcheck_run_fn run, struct run *r, const float *want,
	float *bound, uint64_t n)
{
	if (r->raw)
		for (uint64_t i = 0; i < r->rows * r->dim; i++)
			bound[i] += (float)(fabs((double)want[i]) * 0x1p-7 + 0x1p-126);
	b->c.run = run;
	b->c.arguments = r;
	b->c.want = want;
	b->c.bound = bound;
	b->c.out_bytes = n * 4;
	kcheck_case(b->k, &b->c);
	while (b->used)
		free(b->held[--b->used]);
}

/* Returns the result's numbers as f32. */
static float *widened(struct bench *b, enum lm_dtype dtype, const void *p, uint64_t n)
{
	float *f = hold(b, n * 4);

	for (uint64_t i = 0; i < n; i++)
		f[i] = (float)lm_at(dtype, p, i);
	return f;
}

static void raw_result(struct bench *b, struct run *r, uint64_t rows, uint64_t dim)
{
	if (b->dtype == LM_DTYPE_F32)
		return;
	r->raw = buffer(b, rows * dim * 2);
	r->up = count_up(b, rows);
	r->rows = rows;
	r->dim = dim;
}

static const char *name(enum lm_dtype dtype)
{
	return dtype == LM_DTYPE_F32 ? "f32" : "bf16";
}

/* --- products ------------------------------------------------------------------------------ */

static void gemm(struct kcheck *k, enum lm_dtype dtype, enum lm_dtype out,
	enum lm_gemm_form form, uint64_t m, uint64_t n, uint64_t kk, bool more,
	bool aligned)
{
	struct bench b;
	struct run r = { 0 };
	struct lm_gemm g = { .form = form,
		.dtype = dtype,
		.out = out,
		.m = m,
		.n = n,
		.k = kk };
	struct lm_gemm h;
	float *want, *bound;
	void *c;

	start_bench(&b, k, out);
	g.lda = (form == LM_XTX ? m : kk) + (more ? 3 : 0);
	g.ldb = (form == LM_XWT ? kk : n) + (more ? 5 : 0);
	g.ldc = n;
	if (aligned) { /* rows of 16 bytes, as tensor cores load them */
		g.lda = (g.lda + 7) / 8 * 8;
		g.ldb = (g.ldb + 7) / 8 * 8;
	}
	h = g;
	h.a = numbers(&b, dtype, g.lda * (form == LM_XTX ? kk : m) + 1, 1, &g.a);
	h.b = numbers(&b, dtype, g.ldb * (form == LM_XWT ? n : kk) + 1, 1, &g.b);
	if (more) {
		const void *there;

		h.scale = g.scale = n % 2 ? -1.5f : 0;
		h.bias = numbers(&b, LM_DTYPE_F32, n, 2, &there);
		g.bias = there;
		h.from = numbers(&b, LM_DTYPE_F32, m * n, 3, &there);
		g.from = there;
	}
	c = hold(&b, m * n * 4);
	bound = hold(&b, m * n * 4);
	h.c = c;
	lm_gemm_ref(&h, 0, m);
	want = widened(&b, out, c, m * n);
	for (uint64_t i = 0; i < m; i++)
		for (uint64_t j = 0; j < n; j++) {
			double s = more ? fabs((double)h.from[i * n + j]) +
					fabs((double)h.bias[j]) :
					  0;

			for (uint64_t t = 0; t < kk; t++)
				s += fabs((double)lm_gemm_scale(&g)) *
					fabs(lm_at(dtype, h.a,
						     form == LM_XTX ? t * g.lda + i :
								      i * g.lda + t) *
						lm_at(dtype, h.b,
							form == LM_XWT ? j * g.ldb + t :
									 t * g.ldb + j));
			bound[i * n + j] = (float)((double)(kk + 5) * 4 * U * s +
				(double)kk * 0x1p-124);
		}
	raw_result(&b, &r, m, n);
	r.op = &g;
	snprintf(b.c.label, sizeof b.c.label,
		"gemm %s to %s form %d, %llu x %llu x %llu%s%s", name(dtype), name(out),
		(int)form, (unsigned long long)m, (unsigned long long)n,
		(unsigned long long)kk, more ? ", bias, from" : "",
		aligned ? ", aligned" : "");
	finish(&b, run_gemm, &r, want, bound, m * n);
}

static void gemms(struct kcheck *k)
{
	static const uint64_t shapes[][3] = { { 1, 1, 1 }, { 3, 17, 5 }, { 16, 16, 32 },
		{ 32, 32, 64 }, { 33, 47, 96 }, { 70, 100, 33 }, { 129, 65, 160 },
		{ 5, 31, 0 } };

	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
		for (int form = 0; form < 3; form++)
			for (int dtype = 0; dtype < 2; dtype++) {
				const uint64_t *s = shapes[i];
				enum lm_gemm_form f = (enum lm_gemm_form)form;

				gemm(k, (enum lm_dtype)dtype, LM_DTYPE_F32, f, s[0], s[1],
					s[2], false, dtype && i % 2);
				gemm(k, (enum lm_dtype)dtype, (enum lm_dtype)dtype, f,
					s[0], s[1], s[2], true, dtype && i % 2 == 0);
			}
	/* deep enough to be split into parts, with and without what is added afterwards */
	for (int form = 0; form < 3; form++) {
		gemm(k, LM_DTYPE_BF16, LM_DTYPE_BF16, (enum lm_gemm_form)form, 21, 34,
			2100, form != 1, true);
		gemm(k, LM_DTYPE_BF16, LM_DTYPE_F32, (enum lm_gemm_form)form, 70, 66,
			1060, form == 1, true);
	}
	/* enough rows and columns for the large tiles, with edges */
	for (int form = 0; form < 3; form++)
		gemm(k, LM_DTYPE_BF16, form ? LM_DTYPE_F32 : LM_DTYPE_BF16,
			(enum lm_gemm_form)form, 130, 66, 2064, form == 1, true);
	if (k->slow)
		return;
	/* k larger than what is summed at once; more columns than a chunk would be slow here */
	gemm(k, LM_DTYPE_BF16, LM_DTYPE_F32, LM_XTX, 37, 40, 8200, true, false);
	gemm(k, LM_DTYPE_F32, LM_DTYPE_F32, LM_XW, 8, 40, 4100, false, false);
	gemm(k, LM_DTYPE_BF16, LM_DTYPE_BF16, LM_XWT, 8, 700, 8192, false, false);
}

/* --- rows ---------------------------------------------------------------------------------- */

static void embed(struct kcheck *k, enum lm_dtype dtype, uint64_t rows, uint64_t dim)
{
	struct bench b;
	struct run r = { 0 };
	struct lm_embed e = { .dtype = dtype, .rows = rows, .dim = dim, .vocab = 29 }, h;
	struct lm_embed_back g = { .rows = rows, .dim = dim, .vocab = 29 }, gh;
	const void *there;
	float *want, *bound;

	start_bench(&b, k, LM_DTYPE_F32);
	h = e;
	h.w = numbers(&b, dtype, 29 * dim, 1, &e.w);
	h.token = ids(&b, rows, 29, &there);
	e.token = there;
	want = hold(&b, rows * dim * 4);
	h.x = want;
	lm_embed_ref(&h, 0, rows);
	r.op = &e;
	snprintf(b.c.label, sizeof b.c.label, "embed %s %llu x %llu", name(dtype),
		(unsigned long long)rows, (unsigned long long)dim);
	finish(&b, run_embed, &r, want, NULL, rows * dim);

	start_bench(&b, k, LM_DTYPE_F32);
	gh = g;
	gh.dx = numbers(&b, LM_DTYPE_F32, rows * dim, 1, &there);
	g.dx = there;
	gh.token = ids(&b, rows, 29, &there);
	g.token = there;
	want = numbers(&b, LM_DTYPE_F32, 29 * dim, 1, &r.start);
	r.start_bytes = 29 * dim * 4;
	bound = hold(&b, 29 * dim * 4);
	for (uint64_t i = 0; i < 29 * dim; i++) {
		double repeats = 2;

		for (uint64_t j = 0; i % dim == 0 && j < rows; j++)
			repeats += gh.token[j] == i / dim;
		bound[i] = i % dim ? bound[i - 1] : (float)(2 * U * repeats * repeats);
	}
	gh.dw = want;
	lm_embed_back_ref(&gh, 0, dim);
	r.op = &g;
	snprintf(b.c.label, sizeof b.c.label, "embed_back %llu x %llu",
		(unsigned long long)rows, (unsigned long long)dim);
	finish(&b, run_embed_back, &r, want, bound, 29 * dim);
}

/* Output: y, then rms, then x. */
static int run_embed_norm(struct dev *d, void *out, const void *arguments)
{
	const struct run *r = arguments;
	struct lm_embed e = *(const struct lm_embed *)r->op;

	e.y = r->raw ? r->raw : out;
	e.rms = (float *)out + e.rows * e.dim;
	e.x = e.rms + e.rows;
	return d->ops->lm->embed(d, &e) < 0 ? -1 : widen(d, out, r);
}

/* A table's rows and their norm: those of embed, exact, and of norm, within its bound. */
static void embed_norm(struct kcheck *k, enum lm_dtype dtype, uint64_t rows, uint64_t dim)
{
	uint64_t n = rows * dim;
	struct bench b;
	struct run r = { 0 };
	struct lm_embed e = { .dtype = dtype,
		.rows = rows,
		.dim = dim,
		.vocab = 29,
		.eps = 1e-5f },
			h;
	struct lm_norm y;
	const void *there;
	float *want, *bound;

	start_bench(&b, k, dtype);
	h = e;
	h.w = numbers(&b, dtype, 29 * dim, 1, &e.w);
	h.norm = numbers(&b, LM_DTYPE_F32, dim, 1, &there);
	e.norm = there;
	h.token = ids(&b, rows, 29, &there);
	e.token = there;
	want = hold(&b, (2 * n + rows) * 4);
	bound = hold(&b, (2 * n + rows) * 4);
	h.y = hold(&b, n * 4);
	h.rms = want + n;
	h.x = want + n + rows;
	y = lm_embed_norm(&h);
	lm_embed_ref(&h, 0, rows);
	lm_norm_ref(&y, 0, rows);
	memcpy(want, widened(&b, dtype, h.y, n), n * 4);
	for (uint64_t i = 0; i < n + rows; i++)
		bound[i] = (float)(2 * (double)(dim + 8) * U * fabs((double)want[i]) +
			1e-30);
	raw_result(&b, &r, rows, dim);
	r.op = &e;
	snprintf(b.c.label, sizeof b.c.label, "embed %s %llu x %llu, and its norm",
		name(dtype), (unsigned long long)rows, (unsigned long long)dim);
	finish(&b, run_embed_norm, &r, want, bound, 2 * n + rows);
}

/* Output: y, then rms. */
static int run_norm(struct dev *d, void *out, const void *arguments)
{
	const struct run *r = arguments;
	struct lm_norm n = *(const struct lm_norm *)r->op;

	n.y = r->raw ? r->raw : out;
	n.rms = (float *)out + n.rows * n.dim;
	return d->ops->lm->norm(d, &n) < 0 ? -1 : widen(d, out, r);
}

static void norm(struct kcheck *k, enum lm_dtype dtype, uint64_t rows, uint64_t dim,
	bool add)
{
	struct bench b;
	struct run r = { 0 };
	struct lm_norm n = { .dtype = dtype, .rows = rows, .dim = dim, .eps = 1e-5f }, h;
	const void *there;
	float *want, *bound;
	void *y;

	start_bench(&b, k, dtype);
	h = n;
	h.x = numbers(&b, LM_DTYPE_F32, rows * dim, 3, &there);
	n.x = there;
	h.w = numbers(&b, LM_DTYPE_F32, dim, 1, &there);
	n.w = there;
	if (add) {
		h.from = numbers(&b, LM_DTYPE_F32, rows * dim, 2, &there);
		n.from = there;
	}
	h.rms = hold(&b, rows * 4);
	h.y = y = hold(&b, rows * dim * 4);
	bound = hold(&b, rows * (dim + 1) * 4);
	lm_norm_ref(&h, 0, rows);
	want = hold(&b, rows * (dim + 1) * 4);
	memcpy(want, widened(&b, dtype, y, rows * dim), rows * dim * 4);
	memcpy(want + rows * dim, h.rms, rows * 4);
	for (uint64_t i = 0; i < rows * (dim + 1); i++)
		bound[i] = (float)(2 * (double)(dim + 8) * U *
				(fabs((double)want[i]) + (add ? 2 : 0)) +
			1e-30);
	raw_result(&b, &r, rows, dim);
	r.op = &n;
	snprintf(b.c.label, sizeof b.c.label, "norm %s %llu x %llu%s", name(dtype),
		(unsigned long long)rows, (unsigned long long)dim, add ? " + from" : "");
	finish(&b, run_norm, &r, want, bound, rows * (dim + 1));
}

/* `count` bf16 numbers as f32 */
static int widen_copy(struct dev *d, float *out, const uint16_t *copy, uint64_t count,
	const uint32_t *up)
{
	struct lm_embed e = { .dtype = LM_DTYPE_BF16,
		.x = out,
		.w = copy,
		.token = up,
		.rows = 1,
		.dim = count,
		.vocab = 1 };

	return d->ops->lm->embed(d, &e);
}

/* The `count` numbers of `from` also follow the first n as bf16: sets their expected values,
 * and their bounds with the rounding added. */
static void expect_copy(float *want, float *bound, uint64_t n, const float *from,
	const float *from_bound, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		want[n + i] = bf16_to_f32(bf16_from_f32(from[i]));
		bound[n + i] = (float)(from_bound[i] + fabs((double)from[i]) * 0x1p-7 +
			0x1p-126);
	}
}

/* What a gradient of a norm is made of besides dy and x. */
struct norm_back {
	struct lm_norm_back op;
	const void *copy, *rest; /* of the gradient before */
	const void *zeros;       /* dy of the last call, that adds the halves */
	float *spare;            /* dw of all calls but the first */
};

/* Output: dx, then dw, then the copy of dx. */
static int run_norm_back(struct dev *d, void *out, const void *arguments)
{
	const struct run *r = arguments;
	const struct norm_back *b = r->op;
	struct lm_norm_back n = b->op;
	uint64_t bytes = n.rows * n.dim * 2;

	n.dx = out;
	n.dw = n.dx + n.rows * n.dim;
	if (begin(d, out, r) < 0)
		return -1;
	if (n.halves) {
		/* leaves the halves for the next */
		n.whole = true;
		if (d->ops->copy(d, n.copy, b->copy, bytes) < 0 ||
			d->ops->copy(d, n.rest, b->rest, bytes) < 0 ||
			d->ops->lm->norm_back(d, &n) < 0)
			return -1;
		n.whole = false;
		n.dx = NULL;
		n.dw = b->spare;
	}
	if (d->ops->lm->norm_back(d, &n) < 0)
		return -1;
	if (n.halves) {
		n.whole = true;
		n.dx = out;
		n.dy = b->zeros;
		if (d->ops->lm->norm_back(d, &n) < 0)
			return -1;
	}
	n.dw = (float *)out + n.rows * n.dim;
	return widen_copy(d, n.dw + n.dim, n.copy, n.rows * n.dim, r->up);
}

/* Sets the gradient before the norm's in two halves, whose sum becomes `from`. */
static void make_halves(struct bench *b, struct norm_back *s, float *from, uint64_t n)
{
	uint16_t *copy = hold(b, n * 2), *rest = hold(b, n * 2);

	for (uint64_t i = 0; i < n; i++) {
		copy[i] = bf16_from_f32(from[i]);
		rest[i] = bf16_from_f32(from[i] - bf16_to_f32(copy[i]));
		from[i] = bf16_to_f32(copy[i]) + bf16_to_f32(rest[i]);
	}
	s->op.halves = true;
	s->op.rest = buffer(b, n * 2);
	s->copy = kcheck_put(b->k, copy, n * 2, 0);
	s->rest = kcheck_put(b->k, rest, n * 2, 0);
	s->zeros = buffer(b, n * 4);
	s->spare = buffer(b, s->op.dim * 4);
}

/* Sets the norm's output; some of its weights are 0, or so small that nothing is divided by
 * them. */
static void make_output(struct bench *b, struct norm_back *s,
	const struct lm_norm_back *h, float *w)
{
	uint64_t n = h->rows * h->dim;
	uint16_t *y = hold(b, n * 2);

	for (uint64_t j = 3; j < h->dim; j += 41)
		w[j] = j % 2 ? 0 : 0x1p-120f;
	for (uint64_t i = 0; i < n; i++)
		y[i] = bf16_from_f32(h->x[i] * h->rms[i / h->dim] * w[i % h->dim]);
	s->op.w = kcheck_put(b->k, w, h->dim * 4, beside ? 4 : 16);
	s->op.y = kcheck_put(b->k, y, n * 2, beside ? 2 : 16);
}

static void norm_back(struct kcheck *k, enum lm_dtype dtype, uint64_t rows, uint64_t dim,
	bool fresh, bool halves)
{
	uint64_t n = rows * dim;
	struct norm_back s = { 0 };
	struct bench b;
	struct run r = { 0 };
	struct lm_norm_back x = { .dtype = dtype,
		.rows = rows,
		.dim = dim,
		.fresh = fresh },
			    h;
	const void *there;
	float *want, *bound, *rms, *w, *from;

	start_bench(&b, k, LM_DTYPE_F32);
	h = x;
	h.dy = numbers(&b, dtype, n, 1, &x.dy);
	h.x = numbers(&b, LM_DTYPE_F32, n, 2, &there);
	x.x = there;
	h.w = w = numbers(&b, LM_DTYPE_F32, dim, 1, &there);
	x.w = there;
	rms = numbers(&b, LM_DTYPE_F32, rows, 1, &there);
	h.rms = rms;
	x.rms = there;
	h.from = from = numbers(&b, LM_DTYPE_F32, n, 1, &there);
	x.from = there;
	x.copy = buffer(&b, n * 2);
	s.op = x;
	if (halves) {
		make_halves(&b, &s, from, n);
		make_output(&b, &s, &h, w);
	}
	want = numbers(&b, LM_DTYPE_F32, 2 * n + dim, 1, &r.start);
	r.start_bytes = (n + dim) * 4;
	r.up = count_up(&b, 1);
	h.dx = want;
	h.dw = want + n;
	lm_norm_back_rows_ref(&h, 0, rows);
	lm_norm_back_columns_ref(&h, 0, dim);
	bound = hold(&b, (2 * n + dim) * 4);
	for (uint64_t i = 0; i < rows; i++) {
		double dot = 0;

		for (uint64_t j = 0; j < dim; j++)
			dot += fabs(lm_at(dtype, h.dy, i * dim + j) * h.w[j] *
				h.x[i * dim + j]);
		dot *= (double)rms[i] * rms[i] / (double)dim;
		for (uint64_t j = 0; j < dim; j++)
			bound[i * dim + j] = (float)(4 * (double)(dim + 8) * U *
					(fabs((double)h.from[i * dim + j]) +
						fabs((double)rms[i]) *
							(fabs(lm_at(dtype, h.dy,
								      i * dim + j) *
								 h.w[j]) +
								fabs(h.x[i * dim + j] *
									dot)) +
						1e-30) +
				(halves ? fabs((double)want[i * dim + j]) * 0x1p-17 +
							fabs(rms[i] * h.x[i * dim + j] *
								dot) *
								0x1p-7 :
					  0));
	}
	for (uint64_t j = 0; j < dim; j++) {
		double sum = 2;

		for (uint64_t i = 0; i < rows; i++)
			sum += fabs(lm_at(dtype, h.dy, i * dim + j) * h.x[i * dim + j] *
				rms[i]);
		bound[n + j] = (float)((2 * (double)(rows + 8) * U +
					       (halves ? 0x1p-7 : 0)) *
			sum);
	}
	expect_copy(want, bound, n + dim, want, bound, n);
	r.op = &s;
	snprintf(b.c.label, sizeof b.c.label, "norm_back %s %llu x %llu%s%s", name(dtype),
		(unsigned long long)rows, (unsigned long long)dim, fresh ? ", fresh" : "",
		halves ? ", halves" : "");
	finish(&b, run_norm_back, &r, want, bound, 2 * n + dim);
}

static void rotate(struct kcheck *k, enum lm_dtype dtype, uint64_t head_dim,
	uint64_t stride, bool interleaved, bool inverse)
{
	uint64_t rows = 7, heads = 3, positions = 4, first = 2;
	uint64_t ld = heads * (stride ? stride : head_dim);
	struct bench b;
	struct run r = { 0 };
	struct lm_rotate x = { .dtype = dtype,
		.rows = rows,
		.ld = ld,
		.heads = heads,
		.head_dim = head_dim,
		.stride = stride,
		.positions = positions,
		.first = first,
		.interleaved = interleaved,
		.inverse = inverse };
	struct lm_rotate h;
	const void *there;
	float *want, *bound;
	void *y;

	start_bench(&b, k, dtype);
	h = x;
	h.table = numbers(&b, LM_DTYPE_F32, (first + positions) * head_dim, 1, &there);
	x.table = there;
	y = numbers(&b, dtype, rows * ld, 1, &r.start);
	bound = hold(&b, rows * ld * 4);
	for (uint64_t i = 0; i < rows * ld; i++)
		bound[i] = (float)(4 * U * 2 + (dtype == LM_DTYPE_BF16 ? 0x1p-8 : 0));
	h.x = y;
	lm_rotate_ref(&h, 0, rows);
	want = widened(&b, dtype, y, rows * ld);
	r.start_bytes = rows * ld * lm_dtype_bytes(dtype);
	raw_result(&b, &r, rows, ld);
	r.op = &x;
	snprintf(b.c.label, sizeof b.c.label, "rotate %s head_dim %llu of %llu%s%s",
		name(dtype), (unsigned long long)head_dim, (unsigned long long)stride,
		interleaved ? ", interleaved" : "", inverse ? ", inverse" : "");
	finish(&b, run_rotate, &r, want, bound, rows * ld);
}

/* Output: dx, then y. */
static int run_swiglu_back(struct dev *d, void *out, const void *arguments)
{
	const struct run *r = arguments;
	struct lm_swiglu_back s = *(const struct lm_swiglu_back *)r->op;
	float *y = (float *)out + 2 * s.rows * s.hidden;

	s.dx = r->raw ? r->raw : out;
	if (!r->raw)
		s.y = y;
	if (d->ops->lm->swiglu_back(d, &s) < 0 || widen(d, out, r) < 0)
		return -1;
	return r->raw ? widen_copy(d, y, s.y, s.rows * s.hidden, r->up) : 0;
}

/* Output: dx, in place of x, which start holds; then y, if asked for. */
static int run_swiglu_product(struct dev *d, void *out, const void *arguments)
{
	const struct run *r = arguments;
	struct lm_swiglu_back s = *(const struct lm_swiglu_back *)r->op;
	float *y = (float *)out + 2 * s.rows * s.hidden;

	s.dx = r->raw ? r->raw : out;
	s.x = s.dx;
	if (!r->raw && s.y)
		s.y = y;
	if (begin(d, s.dx, r) < 0 || d->ops->lm->swiglu_back(d, &s) < 0 ||
		widen(d, out, r) < 0)
		return -1;
	return r->raw && s.y ? widen_copy(d, y, s.y, s.rows * s.hidden, r->up) : 0;
}

/* The gradient where dy is a product. */
static void swiglu_product(struct kcheck *k, enum lm_dtype dtype, uint64_t rows,
	uint64_t hidden, uint64_t dim, bool forward)
{
	struct bench b;
	struct run r = { 0 };
	struct lm_swiglu_back x = { .dtype = dtype,
		.rows = rows,
		.hidden = hidden,
		.dim = dim },
			      h;
	uint64_t n = rows * hidden, all = forward ? 3 * n : 2 * n;
	float *want, *bound;
	struct lm_gemm g;
	void *dy;

	start_bench(&b, k, dtype);
	h = x;
	h.x = numbers(&b, dtype, 2 * n, 20, &r.start);
	r.start_bytes = 2 * n * lm_dtype_bytes(dtype);
	h.dout = numbers(&b, dtype, rows * dim, 1, &x.dout);
	h.w = numbers(&b, dtype, dim * hidden, 1, &x.w);
	x.product = buffer(&b, n * 4);
	x.dy = x.product;
	x.y = forward ? buffer(&b, n * 4) : NULL;
	h.product = dy = hold(&b, n * 4);
	h.dy = dy;
	h.dx = hold(&b, 2 * n * 4);
	h.y = forward ? hold(&b, n * 4) : NULL;
	g = lm_swiglu_product(&h);
	lm_gemm_ref(&g, 0, rows);
	lm_swiglu_back_ref(&h, 0, rows);
	want = hold(&b, all * 4);
	bound = hold(&b, all * 4);
	for (uint64_t i = 0; i < all; i++) {
		want[i] = (float)(i < 2 * n ? lm_at(dtype, h.dx, i) :
					      lm_at(dtype, h.y, i - 2 * n));
		bound[i] = (float)(16 * U * fabs((double)want[i]) + 0x1p-120 +
			(dtype == LM_DTYPE_BF16 ? fabs((double)want[i]) * 0x1p-7 : 0));
	}
	for (uint64_t r0 = 0; r0 < rows; r0++)
		for (uint64_t i = 0; i < hidden; i++) {
			uint64_t at = r0 * 2 * hidden + i, bt = at + hidden;
			double gate = lm_at(dtype, h.x, at), up = lm_at(dtype, h.x, bt);
			double s = 1 / (1 + exp(-gate)),
			       is = fabs(lm_at(dtype, dy, r0 * hidden + i));
			double terms = 0, off;

			for (uint64_t t = 0; t < dim; t++)
				terms += fabs(lm_at(dtype, h.dout, r0 * dim + t) *
					lm_at(dtype, h.w, t * hidden + i));
			/* dy: its sum, and of both sides its rounding; then the formula */
			off = (double)(dim + 4) * 4 * U * terms + (double)dim * 0x1p-126 +
				(dtype == LM_DTYPE_BF16 ? is * 0x1p-7 : 0) + 32 * U * is;
			bound[at] = (float)(off * fabs(up) * s *
					(1 + fabs(gate) * (1 - s)) +
				0x1p-120);
			bound[bt] = (float)(off * fabs(gate) * s + 0x1p-120);
		}
	raw_result(&b, &r, rows, 2 * hidden);
	r.op = &x;
	snprintf(b.c.label, sizeof b.c.label,
		"swiglu_back %s %llu x %llu of a product, %llu%s", name(dtype),
		(unsigned long long)rows, (unsigned long long)hidden,
		(unsigned long long)dim, forward ? ", forward" : "");
	finish(&b, run_swiglu_product, &r, want, bound, all);
}

/* Output: x, a product, then y. The product is made again without y, as for a backward pass. */
static int run_swiglu_inputs(struct dev *d, void *out, const void *arguments)
{
	const struct run *r = arguments;
	struct lm_swiglu s = *(const struct lm_swiglu *)r->op;
	uint64_t n = s.rows * s.hidden;

	s.product = r->raw ? r->raw : out;
	s.x = s.product;
	if (!r->raw)
		s.y = (float *)out + 2 * n;
	if (d->ops->lm->swiglu(d, &s) < 0 ||
		(r->raw && widen_copy(d, (float *)out + 2 * n, s.y, n, r->up) < 0))
		return -1;
	s.y = NULL;
	if (d->ops->fill(d, s.product, 0x7fc07fc0, 2 * n * lm_dtype_bytes(s.dtype) / 4) <
			0 ||
		d->ops->lm->swiglu(d, &s) < 0)
		return -1;
	return widen(d, out, r);
}

/* SwiGLU of a product: what is off in g and u comes to y by its derivatives, |u| s (1 + |g| (1 -
 * s)) and |g| s, at the ends of what they may be. */
static void swiglu_inputs(struct kcheck *k, enum lm_dtype dtype, uint64_t rows,
	uint64_t hidden, uint64_t dim)
{
	struct bench b;
	struct run r = { 0 };
	struct lm_swiglu s = { .dtype = dtype,
		.rows = rows,
		.hidden = hidden,
		.dim = dim },
			 h;
	uint64_t n = rows * hidden;
	float *want, *bound;
	struct lm_gemm g;

	start_bench(&b, k, dtype);
	h = s;
	h.in = numbers(&b, dtype, rows * dim, 1, &s.in);
	h.w = numbers(&b, dtype, 2 * hidden * dim, 1, &s.w);
	s.y = buffer(&b, n * 4);
	h.product = hold(&b, 2 * n * 4);
	h.x = h.product;
	h.y = hold(&b, n * 4);
	g = lm_swiglu_inputs(&h);
	lm_gemm_ref(&g, 0, rows);
	lm_swiglu_ref(&h, 0, rows);
	want = hold(&b, 3 * n * 4);
	bound = hold(&b, 3 * n * 4);
	for (uint64_t i = 0; i < 3 * n; i++)
		want[i] = (float)(i < 2 * n ? lm_at(dtype, h.x, i) :
					      lm_at(dtype, h.y, i - 2 * n));
	for (uint64_t i = 0; i < 2 * n; i++) {
		double terms = 0;

		for (uint64_t t = 0; t < dim; t++)
			terms += fabs(lm_at(dtype, h.in, i / (2 * hidden) * dim + t) *
				lm_at(dtype, h.w, i % (2 * hidden) * dim + t));
		bound[i] = (float)((double)(dim + 4) * 4 * U * terms +
			(dtype == LM_DTYPE_BF16 ? fabs((double)want[i]) * 0x1p-7 : 0) +
			0x1p-120);
	}
	for (uint64_t i = 0; i < n; i++) {
		uint64_t at = i / hidden * 2 * hidden + i % hidden, bt = at + hidden;
		double gate = want[at], up = fabs((double)want[bt]) + bound[bt];
		double most = gate + bound[at], sig = 1 / (1 + exp(-most));

		gate = fabs(gate) + bound[at];
		bound[2 * n + i] = (float)(bound[at] * up * sig * (1 + gate) +
			bound[bt] * gate * sig + 32 * U * fabs((double)want[2 * n + i]) +
			(dtype == LM_DTYPE_BF16 ? fabs((double)want[2 * n + i]) * 0x1p-7 :
						  0) +
			0x1p-120);
	}
	raw_result(&b, &r, rows, 2 * hidden);
	r.op = &s;
	snprintf(b.c.label, sizeof b.c.label, "swiglu %s %llu x %llu of a product, %llu",
		name(dtype), (unsigned long long)rows, (unsigned long long)hidden,
		(unsigned long long)dim);
	finish(&b, run_swiglu_inputs, &r, want, bound, 3 * n);
}

static void gelu(struct kcheck *k, enum lm_dtype dtype, uint64_t rows, uint64_t hidden)
{
	struct bench b;
	struct run r = { 0 };
	struct lm_swiglu s = { .dtype = dtype,
		.rows = rows,
		.hidden = hidden,
		.gelu = true },
			 h;
	uint64_t n = rows * hidden;
	float *want, *bound;
	void *y;

	start_bench(&b, k, dtype);
	h = s;
	h.x = numbers(&b, dtype, 2 * n, 6, &s.x);
	h.y = y = hold(&b, n * 4);
	bound = hold(&b, n * 4);
	lm_swiglu_ref(&h, 0, rows);
	want = widened(&b, dtype, y, n);
	for (uint64_t r0 = 0; r0 < rows; r0++)
		for (uint64_t i = 0; i < hidden; i++) {
			double g = fabs(lm_at(dtype, h.x, r0 * 2 * hidden + i));
			double u = fabs(lm_at(dtype, h.x, (r0 * 2 + 1) * hidden + i));

			bound[r0 * hidden + i] = (float)(64 * U * (1 + g) * g * u +
				1e-30);
		}
	raw_result(&b, &r, rows, hidden);
	r.op = &s;
	snprintf(b.c.label, sizeof b.c.label, "gelu %s %llu x %llu", name(dtype),
		(unsigned long long)rows, (unsigned long long)hidden);
	finish(&b, run_swiglu, &r, want, bound, n);
}

static int run_softcap(struct dev *d, void *out, const void *arguments)
{
	const struct lm_softcap *s = arguments;
	struct lm_softcap x = { .x = out, .n = s->n, .cap = s->cap };

	if (d->ops->copy(d, out, s->x, s->n * 4) < 0)
		return -1;
	return d->ops->lm->softcap(d, &x);
}

static void softcap(struct kcheck *k, uint64_t n)
{
	struct bench b;
	struct lm_softcap x = { .n = n, .cap = 30 }, h = x;
	const void *there;
	float *bound;

	start_bench(&b, k, LM_DTYPE_F32);
	h.x = numbers(&b, LM_DTYPE_F32, n, 100, &there);
	x.x = (float *)(uintptr_t)there;
	bound = hold(&b, n * 4);
	for (uint64_t i = 0; i < n; i++)
		bound[i] = (float)(16 * U * 30);
	lm_softcap_ref(&h, 0, n);
	snprintf(b.c.label, sizeof b.c.label, "softcap %llu", (unsigned long long)n);
	b.c.run = run_softcap;
	b.c.arguments = &x;
	b.c.want = h.x;
	b.c.bound = bound;
	b.c.out_bytes = n * 4;
	kcheck_case(k, &b.c);
	while (b.used)
		free(b.held[--b.used]);
}

static void swiglu(struct kcheck *k, enum lm_dtype dtype, uint64_t rows, uint64_t hidden)
{
	struct bench b;
	struct run r = { 0 };
	struct lm_swiglu s = { .dtype = dtype, .rows = rows, .hidden = hidden }, h;
	struct lm_swiglu_back x = { .dtype = dtype, .rows = rows, .hidden = hidden }, xh;
	uint64_t n = rows * hidden;
	float *want, *bound;
	void *y;

	start_bench(&b, k, dtype);
	h = s;
	h.x = numbers(&b, dtype, 2 * n, 20, &s.x);
	h.y = y = hold(&b, n * 4);
	bound = hold(&b, n * 4);
	lm_swiglu_ref(&h, 0, rows);
	want = widened(&b, dtype, y, n);
	for (uint64_t i = 0; i < n; i++)
		bound[i] = (float)(16 * U * fabs((double)want[i]) + 0x1p-120);
	raw_result(&b, &r, rows, hidden);
	r.op = &s;
	snprintf(b.c.label, sizeof b.c.label, "swiglu %s %llu x %llu", name(dtype),
		(unsigned long long)rows, (unsigned long long)hidden);
	finish(&b, run_swiglu, &r, want, bound, n);

	start_bench(&b, k, dtype);
	r = (struct run){ .op = &x };
	xh = x;
	xh.x = numbers(&b, dtype, 2 * n, 8, &x.x);
	xh.dy = numbers(&b, dtype, n, 1, &x.dy);
	x.y = buffer(&b, n * 4);
	xh.dx = hold(&b, 2 * n * 4);
	xh.y = hold(&b, n * 4);
	bound = hold(&b, 3 * n * 4);
	lm_swiglu_back_ref(&xh, 0, rows);
	want = hold(&b, 3 * n * 4);
	memcpy(want, widened(&b, dtype, xh.dx, 2 * n), 2 * n * 4);
	memcpy(want + 2 * n, widened(&b, dtype, xh.y, n), n * 4);
	for (uint64_t i = 2 * n; i < 3 * n; i++)
		bound[i] = (float)(16 * U * fabs((double)want[i]) + 0x1p-120 +
			(dtype == LM_DTYPE_BF16 ? fabs((double)want[i]) * 0x1p-7 : 0));
	for (uint64_t i = 0; i < 2 * n; i++)
		bound[i] = (float)(32 * U *
			64); /* |dy u (s + g s)| and |dy g s| <= 8 x 8 */
	raw_result(&b, &r, rows, 2 * hidden);
	snprintf(b.c.label, sizeof b.c.label, "swiglu_back %s %llu x %llu", name(dtype),
		(unsigned long long)rows, (unsigned long long)hidden);
	finish(&b, run_swiglu_back, &r, want, bound, 3 * n);
}

static void bias_back(struct kcheck *k, enum lm_dtype dtype, uint64_t rows, uint64_t n)
{
	struct bench b;
	struct run r = { 0 };
	struct lm_bias_back x = { .dtype = dtype, .rows = rows, .n = n, .ld = n + 2 }, h;
	float *want, *bound;

	start_bench(&b, k, LM_DTYPE_F32);
	h = x;
	h.dy = numbers(&b, dtype, rows * x.ld, 1, &x.dy);
	want = numbers(&b, LM_DTYPE_F32, n, 1, &r.start);
	r.start_bytes = n * 4;
	h.db = want;
	lm_bias_back_ref(&h, 0, n);
	bound = hold(&b, n * 4);
	for (uint64_t i = 0; i < n; i++)
		bound[i] = (float)(2 * (double)(rows + 2) * U * (double)(rows + 1));
	r.op = &x;
	snprintf(b.c.label, sizeof b.c.label, "bias_back %s %llu x %llu", name(dtype),
		(unsigned long long)rows, (unsigned long long)n);
	finish(&b, run_bias_back, &r, want, bound, n);
}

static int run_narrow(struct dev *d, void *out, const void *arguments)
{
	struct lm_narrow n = *(const struct lm_narrow *)arguments;

	n.to = out;
	return d->ops->lm->narrow(d, &n);
}

static void narrow(struct kcheck *k, uint64_t n)
{
	struct bench b;
	struct lm_narrow x = { .n = n }, h = x;
	const void *there;
	uint16_t *want;

	start_bench(&b, k, LM_DTYPE_BF16);
	h.from = numbers(&b, LM_DTYPE_F32, n, 5, &there);
	x.from = there;
	h.to = want = hold(&b, n * 2);
	lm_narrow_ref(&h, 0, n);
	snprintf(b.c.label, sizeof b.c.label, "narrow %llu", (unsigned long long)n);
	b.c.run = run_narrow;
	b.c.arguments = &x;
	b.c.want = want;
	b.c.out_bytes = n * 2;
	kcheck_case(k, &b.c);
	while (b.used)
		free(b.held[--b.used]);
}

/* --- attention ----------------------------------------------------------------------------- */

struct heads {
	uint64_t batch, heads, kv_heads, head_dim, positions, past, window;
};

static void shape_attention(struct lm_attend *a, const struct heads *s,
	enum lm_dtype dtype)
{
	*a = (struct lm_attend){ .dtype = dtype,
		.batch = s->batch,
		.heads = s->heads,
		.kv_heads = s->kv_heads,
		.head_dim = s->head_dim,
		.positions = s->positions,
		.keys = s->positions + s->past,
		.window = s->window,
		.ldq = s->heads * s->head_dim + 8,
		.ldk = s->kv_heads * s->head_dim,
		.ldo = s->heads * s->head_dim,
		.scale = (float)(1 / sqrt((double)s->head_dim)) };
}

/* The bound of out in kernels/lm/ops.h, for numbers up to 1: |scale q k| sums to head_dim scale. */
static double attention_bound(const struct lm_attend *a)
{
	double s = (double)a->head_dim * (double)a->scale;

	return (double)(a->head_dim + 8) * 16 * U * (1 + s) + (double)a->keys * 4 * U +
		(a->dtype == LM_DTYPE_BF16 ? 0x1p-8 : 0);
}

enum rotation { NOT_ROTATED, HALVES, PAIRS };

static const char *rotation_name(enum rotation r)
{
	return r == PAIRS ? ", pairs rotated" : r == HALVES ? ", halves rotated" : "";
}

/* Output: out, then lse, then where queries are rotated these, widened. */
static int run_attend(struct dev *d, void *out, const void *arguments)
{
	const struct run *r = arguments;
	struct lm_attend a = *(const struct lm_attend *)r->op;

	float *turned;

	a.out = r->raw ? r->raw : out;
	a.lse = (float *)out + a.batch * a.positions * a.ldo;
	turned = a.lse + a.batch * a.positions * a.heads;
	if (a.table) {
		a.turned = r->raw ? a.turned : turned;
		a.q = a.turned;
		if (begin(d, a.turned, r) < 0)
			return -1;
	}
	if (d->ops->lm->attend(d, &a) < 0 || widen(d, out, r) < 0)
		return -1;
	return r->raw && a.table ?
		widen_copy(d, turned, a.turned, r->start_bytes / 2, r->up) :
		0;
}

/* A table of quarter turns, with which a rotation is exact. */
static float *quarters(struct bench *b, uint64_t positions, uint64_t head_dim,
	const void **there)
{
	uint64_t n = positions * head_dim;
	float *p = hold(b, n * 4);

	for (uint64_t i = 0; i < n; i += 2) {
		unsigned turn = (unsigned)(i / head_dim * 7 + i * 11 / 2) % 5 % 4;

		p[i] = turn % 2 ? 0 : 1 - (float)turn;
		p[i + 1] = turn % 2 ? 2 - (float)turn : 0;
	}
	*there = kcheck_put(b->k, p, n * 4, beside ? 4 : 16);
	return p;
}

static void attend(struct kcheck *k, enum lm_dtype dtype, const struct heads *s,
	enum rotation rotation)
{
	uint64_t asked = rotation == NOT_ROTATED ?
		0 :
		s->batch * s->positions * (s->heads * s->head_dim + 8);
	struct bench b;
	struct run r = { 0 };
	struct lm_attend a, h;
	uint64_t n = s->batch * s->positions * s->heads * s->head_dim;
	uint64_t queries = s->batch * s->heads * s->positions;
	float *want, *bound;
	void *out, *q;

	start_bench(&b, k, dtype);
	shape_attention(&a, s, dtype);
	h = a;
	h.q = q = numbers(&b, dtype, s->batch * s->positions * a.ldq, 1, &a.q);
	h.k = numbers(&b, dtype, s->batch * a.keys * a.ldk, 1, &a.k);
	h.v = numbers(&b, dtype, s->batch * a.keys * a.ldk, 1, &a.v);
	h.lse = hold(&b, queries * 4);
	h.out = out = hold(&b, n * 4);
	if (rotation != NOT_ROTATED) {
		struct lm_rotate turn;
		const void *table;

		h.interleaved = a.interleaved = rotation == PAIRS;
		h.table = quarters(&b, a.keys, s->head_dim, &table);
		a.table = table;
		r.start = a.q;
		r.start_bytes = asked * lm_dtype_bytes(dtype);
		a.turned = buffer(&b, r.start_bytes);
		h.turned = q;
		turn = lm_attend_rotation(&h);
		lm_rotate_ref(&turn, 0, turn.rows);
	}
	lm_attend_ref(&h, 0, queries);
	want = hold(&b, (n + queries + asked) * 4);
	memcpy(want, widened(&b, dtype, out, n), n * 4);
	memcpy(want + n, h.lse, queries * 4);
	memcpy(want + n + queries, widened(&b, dtype, h.q, asked), asked * 4);
	bound = hold(&b, (n + queries + asked) * 4);
	for (uint64_t i = 0; i < n; i++)
		bound[i] = (float)attention_bound(&a);
	h.dtype = LM_DTYPE_F32; /* lse is never rounded to bf16 */
	for (uint64_t i = n; i < n + queries; i++)
		bound[i] = (float)attention_bound(&h);
	for (uint64_t i = n + queries; i < n + queries + asked; i++)
		bound[i] = 2 * (float)U;
	raw_result(&b, &r, s->batch * s->positions, a.ldo);
	r.op = &a;
	snprintf(b.c.label, sizeof b.c.label,
		"attend %s %llu heads on %llu of %llu, %llu + %llu, window %llu%s",
		name(dtype), (unsigned long long)s->heads,
		(unsigned long long)s->kv_heads, (unsigned long long)s->head_dim,
		(unsigned long long)s->past, (unsigned long long)s->positions,
		(unsigned long long)s->window, rotation_name(rotation));
	finish(&b, run_attend, &r, want, bound, n + queries + asked);
}

/* Output: dq, dk and dv as rows of one matrix, as the trainer stores them, widened. */
static int run_attend_back(struct dev *d, void *out, const void *arguments)
{
	const struct run *r = arguments;
	struct lm_attend_back x = *(const struct lm_attend_back *)r->op;
	const struct lm_attend *a = &x.forward;
	uint64_t each = lm_dtype_bytes(a->dtype);

	x.dq = r->raw ? r->raw : out;
	x.dk = (char *)x.dq + a->heads * a->head_dim * each;
	x.dv = (char *)x.dk + a->kv_heads * a->head_dim * each;
	return d->ops->lm->attend_back(d, &x) < 0 ? -1 : widen(d, out, r);
}

static void attend_back(struct kcheck *k, enum lm_dtype dtype, const struct heads *s,
	enum rotation rotation)
{
	struct bench b;
	struct run r = { 0 };
	struct lm_attend_back x = { 0 }, h;
	struct lm_attend *a = &x.forward;
	uint64_t rows = s->batch * s->positions, queries = rows * s->heads, wide, n;
	uint64_t each = lm_dtype_bytes(dtype), to_k, to_v;
	float *want, *bound, *lse;
	const char *host;
	const void *there;
	void *out, *dqkv;

	start_bench(&b, k, dtype);
	shape_attention(a, s, dtype);
	wide = (s->heads + 2 * s->kv_heads) * s->head_dim;
	n = rows * wide;
	to_k = s->heads * s->head_dim * each;
	to_v = to_k + s->kv_heads * s->head_dim * each;
	a->ldq = a->ldk = wide;
	h = x;
	host = numbers(&b, dtype, n, 1, &there);
	a->q = there;
	a->k = (const char *)there + to_k;
	a->v = (const char *)there + to_v;
	h.forward = *a;
	h.forward.q = host;
	h.forward.k = host + to_k;
	h.forward.v = host + to_v;
	h.forward.out = out = hold(&b, rows * a->ldo * 4);
	h.forward.lse = lse = hold(&b, queries * 4);
	lm_attend_ref(&h.forward, 0, queries);
	a->out = kcheck_put(k, out, rows * a->ldo * each, 0);
	a->lse = kcheck_put(k, lse, queries * 4, 0);
	h.dout = numbers(&b, dtype, rows * a->ldo, 1, &x.dout);
	dqkv = hold(&b, n * 4);
	h.dq = dqkv;
	h.dk = (char *)dqkv + to_k;
	h.dv = (char *)dqkv + to_v;
	lm_attend_back_q_ref(&h, 0, queries);
	lm_attend_back_kv_ref(&h, 0, rows * s->kv_heads);
	if (rotation != NOT_ROTATED) {
		const void *table;
		struct lm_rotate back[2];
		unsigned count;

		h.interleaved = x.interleaved = rotation == PAIRS;
		h.table = numbers(&b, LM_DTYPE_F32, s->positions * s->head_dim, 1,
			&table);
		x.table = table;
		count = lm_attend_rotations(&h, back);
		for (unsigned i = 0; i < count; i++)
			lm_rotate_ref(&back[i], 0, rows);
	}
	want = widened(&b, dtype, dqkv, n);
	bound = hold(&b, n * 4);
	/* p <= 1 in each term, |dp - d| <= 2 head_dim. For dq the p sum to 1; for dk and dv
	 * there are up to `queries of a group` such terms, whose p fall as 1 / keys: the bound
	 * counts 8 of them. */
	for (uint64_t i = 0; i < n; i++)
		/* a rotation adds two, each times a number up to 1, and rounds once more */
		bound[i] = (float)((attention_bound(a) +
					   (dtype == LM_DTYPE_BF16 ? 0x1p-8 : 0)) *
			(4 + 0.5 * (double)(s->heads / s->kv_heads)) *
			(rotation != NOT_ROTATED ? 2 : 1));
	raw_result(&b, &r, rows, wide);
	r.op = &x;
	snprintf(b.c.label, sizeof b.c.label,
		"attend_back %s %llu heads on %llu of %llu, %llu, window %llu%s",
		name(dtype), (unsigned long long)s->heads,
		(unsigned long long)s->kv_heads, (unsigned long long)s->head_dim,
		(unsigned long long)s->positions, (unsigned long long)s->window,
		rotation_name(rotation));
	finish(&b, run_attend_back, &r, want, bound, n);
}

static void attention(struct kcheck *k)
{
	static const struct heads shapes[] = { { 1, 1, 1, 8, 1, 0, 0 },
		{ 2, 3, 3, 16, 9, 0, 0 }, { 1, 4, 2, 64, 45, 0, 0 },
		{ 1, 2, 1, 32, 70, 0, 13 }, { 1, 3, 1, 40, 33, 0, 1 },
		{ 1, 2, 1, 128, 70, 0, 0 }, { 2, 1, 1, 64, 66, 0, 20 },
		{ 1, 2, 2, 32, 300, 0, 0 }, { 1, 1, 1, 16, 600, 0, 270 } };
	static const struct heads past[] = { { 2, 2, 1, 32, 3, 40, 0 },
		{ 1, 2, 2, 64, 1, 299, 0 }, { 1, 2, 1, 16, 5, 290, 20 },
		{ 3, 4, 2, 20, 1, 77, 30 }, { 2, 2, 1, 8, 1, 5, 0 },
		{ 1, 4, 2, 8, 1, 130, 0 }, { 1, 2, 1, 12, 1, 70, 0 },
		{ 1, 2, 1, 4, 1, 2, 0 }, { 1, 2, 1, 40, 1, 6, 0 },
		{ 1, 2, 2, 128, 65, 70, 90 } };

	/* several tiles of 64 and 128 that see each other wholly, with groups and windows between
	 * their edges; and a batch that the emulation divides */
	static const struct heads tiles[] = { { 1, 2, 1, 64, 330, 0, 0 },
		{ 1, 2, 1, 64, 290, 0, 150 }, { 1, 1, 1, 128, 200, 0, 110 },
		{ 6, 4, 2, 64, 70, 0, 0 } };

	for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++) {
		attend(k, LM_DTYPE_BF16, &tiles[i], (enum rotation)((i + 1) % 3));
		attend_back(k, LM_DTYPE_BF16, &tiles[i], (enum rotation)(i % 3));
	}
	for (int dtype = 0; dtype < 2; dtype++) {
		for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
			if (k->slow && shapes[i].positions > 100)
				continue;
			attend(k, (enum lm_dtype)dtype, &shapes[i],
				(enum rotation)((i + 1) % 3));
			attend_back(k, (enum lm_dtype)dtype, &shapes[i],
				(enum rotation)(i % 3));
		}
		for (size_t i = 0; i < sizeof past / sizeof *past; i++)
			attend(k, (enum lm_dtype)dtype, &past[i], (enum rotation)(i % 3));
	}
}

/* --- output and optimiser ------------------------------------------------------------------ */

/* Output: loss, then dw, then dh widened. */
static int run_head(struct dev *d, void *out, const void *arguments)
{
	const struct run *r = arguments;
	struct lm_head h = *(const struct lm_head *)r->op;
	float *f = out, *dh = f + h.rows + h.vocab * h.dim;

	h.loss = f;
	h.dw = h.dw ? f + h.rows : NULL;
	h.dh = r->raw ? r->raw : (void *)dh;
	if (begin(d, out, r) < 0 || d->ops->lm->head(d, &h) < 0)
		return -1;
	return widen(d, dh, r);
}

/* The S of lm_head: the largest sum |h w|. */
static float largest_sum(const struct lm_head *h)
{
	double largest = 0;

	for (uint64_t r = 0; r < h->rows; r++)
		for (uint64_t v = 0; v < h->vocab; v++) {
			double sum = 0;

			for (uint64_t i = 0; i < h->dim; i++)
				sum += fabs(lm_at(h->dtype, h->h, r * h->dim + i) *
					lm_at(h->dtype, h->w, v * h->dim + i));
			largest = fmax(largest, sum);
		}
	return (float)largest;
}

static void head(struct kcheck *k, enum lm_dtype dtype, uint64_t rows, uint64_t dim,
	uint32_t vocab, bool fresh, bool learns)
{
	uint64_t n = rows + vocab * dim + rows * dim, bytes = 0;
	/* dl is rounded: 2^-8, and the sum over a row is at most 1 */
	double rough = dtype == LM_DTYPE_BF16 ? 0x1p-7 : 1e-5;
	struct bench b;
	struct run r = { 0 };
	struct lm_head x = { .dtype = dtype,
		.rows = rows,
		.dim = dim,
		.vocab = vocab,
		.scale = 0.25f,
		.fresh = fresh };
	struct lm_head h;
	const void *there;
	uint32_t *target;
	float *want, *bound, largest;
	void *dh;

	start_bench(&b, k, LM_DTYPE_F32);
	h = x;
	h.h = numbers(&b, dtype, rows * dim, 1, &x.h);
	h.w = numbers(&b, dtype, vocab * dim, 1, &x.w);
	target = ids(&b, rows, vocab, &there);
	if (rows > 2)
		target[1] = LM_NO_TARGET;
	h.target = target;
	x.target = kcheck_put(k, target, rows * 4, 0);
	want = numbers(&b, LM_DTYPE_F32, n, 1, &r.start);
	r.start_bytes = n * 4;
	h.loss = want;
	h.dw = learns ? want + rows : NULL;
	x.dw = learns ? want : NULL; /* only whether it is NULL matters here */
	h.dh = dh = hold(&b, rows * dim * 4);
	h.scratch = hold(&b, LM_HEAD_SCRATCH_REF(dim, vocab));
	lm_head_ref(&h);
	memcpy(want + rows + vocab * dim, widened(&b, dtype, dh, rows * dim),
		rows * dim * 4);
	bound = hold(&b, n * 4);
	largest = dtype == LM_DTYPE_BF16 ? largest_sum(&h) : 0;
	for (uint64_t i = 0; i < n; i++)
		bound[i] = i < rows ?
			(float)(1e-5 * sqrt((double)dim) + 1e-5 + 0x1p-8 * largest) :
			(float)(rough * 0.25 + 1e-6);
	x.dh = &x;
	if (k->dev.ops->lm->head_scratch(&k->dev, &x, &bytes) < 0)
		abort();
	x.scratch = buffer(&b, bytes);
	b.dtype = dtype;
	raw_result(&b, &r, rows, dim);
	r.op = &x;
	snprintf(b.c.label, sizeof b.c.label, "head %s %llu x %llu, vocab %u%s%s",
		name(dtype), (unsigned long long)rows, (unsigned long long)dim, vocab,
		fresh ? ", fresh" : "", learns ? "" : ", frozen");
	b.c.run = run_head;
	b.c.arguments = &r;
	b.c.want = want;
	b.c.bound = bound;
	b.c.out_bytes = n * 4;
	kcheck_case(k, &b.c);
	while (b.used)
		free(b.held[--b.used]);
}

/* Output: p, m, v one after the other, then the copy of p. */
static int run_adamw(struct dev *d, void *out, const void *arguments)
{
	const struct run *r = arguments;
	struct lm_adamw a = *(const struct lm_adamw *)r->op;

	a.p = out;
	a.m = a.p + a.n;
	a.v = a.m + a.n;
	if (begin(d, out, r) < 0 || d->ops->lm->adamw(d, &a) < 0)
		return -1;
	return widen_copy(d, a.v + a.n, a.copy, a.n, r->up);
}

static void adamw(struct kcheck *k, uint64_t n, float norm, bool spares)
{
	uint64_t blocks = (n + LM_SPARED - 1) / LM_SPARED;
	struct lm_rates rates = { .norm = norm,
		.scale = 0.5f,
		.lr = 1e-2f,
		.correct1 = 1.5f,
		.correct2 = 3 };
	struct lm_adamw x = { .n = n,
		.beta1 = 0.9f,
		.beta2 = 0.95f,
		.eps = 1e-8f,
		.decay = 0.1f };
	struct bench b;
	struct run r = { 0 };
	struct lm_adamw h;
	const void *there;
	float *want, *bound, *start;

	start_bench(&b, k, LM_DTYPE_F32);
	h = x;
	h.g = numbers(&b, LM_DTYPE_F32, n, 1, &there);
	x.g = there;
	h.rates = &rates;
	x.rates = kcheck_put(k, &rates, sizeof rates, 0);
	x.copy = buffer(&b, n * 2);
	if (spares) {
		uint8_t *spared = hold(&b, blocks);

		for (uint64_t i = 0; i < blocks; i++)
			spared[i] = i % 5 > 1;
		h.spared = spared;
		x.spared = kcheck_put(k, spared, blocks, 0);
	}
	h.copy = hold(&b, n * 2);
	r.up = count_up(&b, 1);
	want = numbers(&b, LM_DTYPE_F32, 4 * n, 1, &there);
	for (uint64_t i = 2 * n; i < 3 * n; i++)
		want[i] = fabsf(want[i]);
	start = hold(&b, 3 * n * 4);
	memcpy(start, want, 3 * n * 4);
	r.start = kcheck_put(k, start, 3 * n * 4, 0);
	r.start_bytes = 3 * n * 4;
	h.p = want;
	h.m = want + n;
	h.v = want + 2 * n;
	lm_adamw_ref(&h, 0, n);
	bound = hold(&b, 4 * n * 4);
	for (uint64_t i = 0; i < n; i++) {
		double root = sqrt(3 * (double)h.v[i]) + 1e-8;

		bound[i] = (float)(16 * U *
			(fabs((double)start[i]) +
				1e-2 * 1.5 * fabs((double)h.m[i]) / root +
				1e-2 * 1.5 / root));
		bound[n + i] = (float)(16 * U);
		bound[2 * n + i] = (float)(16 * U);
		want[3 * n + i] = bf16_to_f32(h.copy[i]);
		bound[3 * n + i] = bound[i] + fabsf(want[3 * n + i]) * 0x1p-7f;
	}
	r.op = &x;
	snprintf(b.c.label, sizeof b.c.label, "adamw %llu%s%s", (unsigned long long)n,
		spares ? ", some spared" : "", isfinite(norm) ? "" : ", norm not finite");
	finish(&b, run_adamw, &r, want, bound, 4 * n);
}

/* Output: norm and scale. */
static int run_clip(struct dev *d, void *out, const void *arguments)
{
	const struct run *r = arguments;
	const struct lm_squares *s = r->op;
	struct lm_clip c = { .rates = r->raw,
		.part = s->part,
		.parts = (s->n + LM_SQUARES_BLOCK - 1) / LM_SQUARES_BLOCK };

	if (begin(d, r->raw, r) < 0 || d->ops->lm->squares(d, s) < 0 ||
		d->ops->lm->clip(d, &c) < 0)
		return -1;
	return d->ops->copy(d, out, r->raw, 8);
}

static void clip(struct kcheck *k, uint64_t n, float limit)
{
	struct lm_rates rates = { .unit = 2, .clip = limit };
	uint64_t parts = (n + LM_SQUARES_BLOCK - 1) / LM_SQUARES_BLOCK;
	struct lm_squares x = { .n = n }, h = x;
	struct bench b;
	struct run r = { 0 };
	struct lm_clip c;
	const void *there;
	float want[2], bound[2];

	start_bench(&b, k, LM_DTYPE_F32);
	h.g = numbers(&b, LM_DTYPE_F32, n, 1, &there);
	x.g = there;
	h.part = hold(&b, parts * 8);
	x.part = buffer(&b, parts * 8);
	r.start = kcheck_put(k, &rates, sizeof rates, 0);
	r.start_bytes = sizeof rates;
	r.raw = buffer(&b, sizeof rates);
	lm_squares_ref(&h, 0, parts);
	c = (struct lm_clip){ .rates = &rates, .part = h.part, .parts = parts };
	lm_clip_ref(&c);
	want[0] = rates.norm;
	want[1] = rates.scale;
	bound[0] = want[0] * 0x1p-20f + 1e-30f;
	bound[1] = want[1] * 0x1p-20f + 1e-30f;
	r.op = &x;
	snprintf(b.c.label, sizeof b.c.label, "squares and clip %llu to %g",
		(unsigned long long)n, (double)limit);
	b.c.run = run_clip;
	b.c.arguments = &r;
	b.c.want = want;
	b.c.bound = bound;
	b.c.out_bytes = 8;
	kcheck_case(k, &b.c);
	while (b.used)
		free(b.held[--b.used]);
}

static void rows(struct kcheck *k, enum lm_dtype dtype)
{
	static const uint64_t dims[] = { 1, 8, 16, 31, 64, 100 };

	for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
		embed(k, dtype, 5, dims[i]);
		embed_norm(k, dtype, 9, dims[i]);
		norm(k, dtype, 3, dims[i], false);
		if (dtype == LM_DTYPE_F32)
			norm(k, dtype, 5, dims[i], true);
		norm_back(k, dtype, 9, dims[i], i & 1, i & 2);
		swiglu(k, dtype, 3, dims[i]);
		gelu(k, dtype, 3, dims[i]);
		bias_back(k, dtype, 4, dims[i]);
		rotate(k, dtype, 2 * dims[i], 0, false, i & 1);
		rotate(k, dtype, 2 * dims[i], 3 * dims[i] + i, false, i & 1);
		rotate(k, dtype, 2 * dims[i], 0, true, i & 1);
	}
	embed(k, dtype, 700, 96);
	if (dtype == LM_DTYPE_F32)
		embed(k, dtype, 4500, 6); /* more than the emulation sorts at once */
	norm(k, dtype, 600, 48, false);
	norm_back(k, dtype, 600, 200, true, false);
	/* rows that one warp, two, four and eight share, and one too wide for them */
	norm_back(k, dtype, 70, 768, false, dtype == LM_DTYPE_BF16);
	norm_back(k, dtype, 66, 1040, true, dtype == LM_DTYPE_F32);
	norm_back(k, dtype, 70, 1544, false, dtype == LM_DTYPE_BF16);
	norm_back(k, dtype, 3, 6144, true, dtype == LM_DTYPE_BF16);
	norm_back(k, dtype, 2, 6152, false, true);
	swiglu(k, dtype, 300, 96);
	/* one tile, some of them, more depth than there are stages; and what no tile takes */
	swiglu_product(k, dtype, 128, 128, 32, true);
	swiglu_product(k, dtype, 256, 384, 160, false);
	swiglu_product(k, dtype, 128, 264, 72, true);
	swiglu_product(k, dtype, 3, 20, 5, false);
	/* with few tiles a GPU multiplies by itself first */
	if (on_chip(k))
		swiglu_product(k, dtype, 1536, 1152, 96, true);
	bias_back(k, dtype, 200, 300);
	head(k, dtype, 1, 8, 3, true, true);
	head(k, dtype, 5, 24, 50, false, true);
	head(k, dtype, 5, 24, 50, true, false);
	head(k, dtype, 40, 64, 512, true, true);
	head(k, dtype, 70, 32, 1001, false, true);
}

void check_lm(struct kcheck *k)
{
	if (k->dev.ops->lm->prepare(&k->dev, NULL) < 0) {
		fprintf(stderr, "kcheck: SKIP %s: lm: %s\n", k->column, k->dev.error);
		if (k->dev.code != EX_UNAVAILABLE)
			k->failures++;
		return;
	}
	if (k->bench)
		return; /* tests/bench/train.c times them within a step */
	gemms(k);
	for (int i = 0; i < 2; i++) {
		beside = i != 0;
		rows(k, LM_DTYPE_F32);
		rows(k, LM_DTYPE_BF16);
		softcap(k, 1);
		softcap(k, 5001);
		narrow(k, 1);
		narrow(k, 5001);
		attention(k);
	}
	adamw(k, 1, 1, false);
	adamw(k, 5003, 1, false);
	adamw(k, 4096, 1, true); /* all four arrays aligned to 16 bytes */
	adamw(k, 9001, 1, true);
	adamw(k, 100, INFINITY, false);
	clip(k, 3, 0);
	clip(k, 3 * LM_SQUARES_BLOCK + 17, 1);
}

/* Tasks of 128 queries against tiles of 128 keys, of which blocks make one or several: a last task
 * and a last tile that are not full, sequences whose keys follow each other in a tile, windows that
 * end and begin inside of one, queries after keys of the past, and all rotations. */
static void attention_wide(struct kcheck *k)
{
	static const struct heads small[] = { { 2, 4, 2, 64, 45, 0, 0 },
		{ 3, 2, 1, 64, 129, 0, 0 }, { 2, 2, 2, 64, 257, 0, 140 },
		{ 4, 2, 1, 64, 70, 130, 0 }, { 2, 2, 1, 128, 200, 0, 0 },
		{ 3, 3, 3, 128, 67, 190, 90 }, { 1, 2, 1, 64, 500, 13, 0 } };
	/* with several of each length for every block of a chip */
	static const struct heads large[] = { { 23, 12, 4, 64, 500, 0, 0 },
		{ 19, 8, 2, 128, 390, 70, 300 } };
	bool chip = on_chip(k);

	for (size_t i = 0; i < sizeof small / sizeof *small; i++)
		attend(k, LM_DTYPE_BF16, &small[i], (enum rotation)(i % 3));
	for (size_t i = 0; i < sizeof large / sizeof *large && chip; i++)
		attend(k, LM_DTYPE_BF16, &large[i], (enum rotation)(i + 1));
}

/* Tasks of 128 queries or keys against tiles of 64 of the other side, of which each half of a task
 * sees its own: none, where its rows are not there; of windows the first and the last not; of
 * several heads of queries, one after the other, between which tiles are passed. */
static void attention_back_wide(struct kcheck *k)
{
	static const struct heads small[] = { { 5, 2, 2, 64, 129, 0, 0 },
		{ 2, 2, 2, 64, 257, 0, 140 }, { 5, 4, 2, 64, 70, 0, 0 },
		{ 2, 3, 3, 64, 200, 0, 40 }, { 4, 4, 2, 64, 45, 0, 0 },
		{ 4, 2, 2, 128, 160, 0, 0 }, { 2, 4, 2, 128, 170, 0, 1 },
		{ 2, 2, 2, 128, 330, 0, 150 } };
	/* with several for every block of a chip, and few enough for a reference of one thread */
	static const struct heads large[] = { { 17, 8, 4, 64, 390, 0, 0 },
		{ 17, 4, 4, 128, 400, 0, 300 } };
	bool chip = on_chip(k);

	for (size_t i = 0; i < sizeof small / sizeof *small; i++)
		attend_back(k, LM_DTYPE_BF16, &small[i], (enum rotation)(i % 3));
	for (size_t i = 0; i < sizeof large / sizeof *large && chip; i++)
		attend_back(k, LM_DTYPE_BF16, &large[i], (enum rotation)(i + 1));
}

/* Where a GPU has wgmma and no cuBLASLt, which takes no C whose rows are not of 16 bytes. */
void check_wgmma(struct kcheck *k)
{
	if (k->bench || k->dev.ops->lm->prepare(&k->dev, NULL) < 0)
		return; /* check_lm says why */
	/* two tiles of wgmma both ways, whose edges are inside, more steps than stages, and a last
	 * step that is not full; and split into parts */
	gemm(k, LM_DTYPE_BF16, LM_DTYPE_BF16, LM_XWT, 130, 264, 200, false, true);
	/* a chip has at least 100 tiles, and blocks that make two of them */
	if (on_chip(k)) {
		gemm(k, LM_DTYPE_BF16, LM_DTYPE_BF16, LM_XWT, 1930, 2602, 200, false,
			true);
		gemm(k, LM_DTYPE_BF16, LM_DTYPE_BF16, LM_XW, 1930, 2602, 200, true, true);
		gemm(k, LM_DTYPE_BF16, LM_DTYPE_F32, LM_XTX, 1290, 2602, 520, true, true);
	}
	gemm(k, LM_DTYPE_BF16, LM_DTYPE_BF16, LM_XW, 131, 261, 88, true, true);
	gemm(k, LM_DTYPE_BF16, LM_DTYPE_F32, LM_XTX, 129, 259, 2056, true, true);
	/* tiles that are stored while the next are multiplied: a block has one, or several; with as
	 * few steps as there may be, and a last one that is not full */
	swiglu_inputs(k, LM_DTYPE_BF16, 128, 128, 456);
	swiglu_inputs(k, LM_DTYPE_BF16, 384, 512, 456);
	if (on_chip(k))
		swiglu_inputs(k, LM_DTYPE_BF16, 1664, 1536, 776);
	swiglu_inputs(k, LM_DTYPE_BF16, 40, 33, 24);
	swiglu_inputs(k, LM_DTYPE_F32, 5, 7, 9);
	attention_wide(k);
	attention_back_wide(k);
}
