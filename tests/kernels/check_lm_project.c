/* check_lm_project.c - compares every version of the linear layers with its reference: exact or
 * bounded cases, edges, repeatability; long because layers one by one, in groups and together share
 * how weights and inputs are made. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/dev/half.h"
#include "kernels/lm/cpu/x86.h"
#include "tests/kernels/kcheck.h"

static const char *const names[LM_WEIGHTS] = { "f32", "f16", "bf16", "q8_0", "q4_0",
	"q4_1", "q5_0", "q5_1", "q4_k", "q5_k", "q6_k" };

static int run(struct dev *d, void *out, const void *arguments)
{
	struct lm_project p = *(const struct lm_project *)arguments;

	p.y = out;
	return d->ops->lm->project(d, &p);
}

/* Random weights with finite scales and numbers of similar size. */
static void make_weights(unsigned char *w, enum lm_weight type, uint64_t n, uint64_t k)
{
	uint64_t bytes = lm_weight_row_bytes(type, k) * n;
	uint64_t block = lm_weight_block_bytes(type);

	kcheck_random(w, bytes, k + n);
	if (type == LM_WEIGHT_F32 || type == LM_WEIGHT_F16 || type == LM_WEIGHT_BF16) {
		uint64_t each = block / 32;

		/* sign and fraction random, exponent near that of 1 */
		for (uint64_t i = each - 1; i < bytes; i += each)
			w[i] = (unsigned char)((w[i] & 0x81) | 0x3c);
		return;
	}
	for (uint64_t i = 0; i < bytes; i += block) {
		unsigned char *scale = w + i + (type == LM_WEIGHT_Q6_K ? 208 : 0);

		scale[1] = 0x2c; /* about 0.06 */
		if (lm_weight_has_min(type))
			w[i + 3] = (unsigned char)(0xac ^
				(w[i + 3] & 0x80)); /* either sign */
	}
}

/* The sum of the magnitudes of the terms of an output of quantised weights. */
static double magnitude(const struct lm_project *p, uint64_t r, uint64_t j)
{
	const unsigned char *row = p->w;
	uint64_t blocks = p->k / LM_WEIGHT_BLOCK;
	double sum = 0;

	row += j * lm_weight_row_bytes(p->type, p->k);
	for (uint64_t b = 0; b < blocks; b++) {
		const struct lm_block8 *x = &p->x8[r * blocks + b];
		struct lm_weight_32 w;
		int32_t codes = 0;

		lm_weight_read_32(&w, p->type, row, b);
		for (int i = 0; i < LM_WEIGHT_BLOCK; i++)
			codes += w.part[i / 16] * (w.code[i] - w.offset) * x->q[i];
		sum += fabs((double)w.scale * x->scale * codes) +
			fabs((double)w.min * x->sum);
	}
	return sum;
}

static double terms(const struct lm_project *p, uint64_t r, uint64_t j)
{
	const unsigned char *row = p->w;
	double sum = (p->from ? fabs((double)p->from[r * p->ldy + j]) : 0) +
		(p->bias ? fabs((double)p->bias[j]) : 0);

	if (lm_weight_is_quantized(p->type))
		return sum + magnitude(p, r, j);
	row += j * lm_weight_row_bytes(p->type, p->k);
	for (uint64_t t = 0; t < p->k; t++)
		sum += fabs((double)p->x[r * p->ldx + t] * lm_weight_at(p->type, row, t));
	return sum;
}

/* Puts the inputs of `host` into the device's memory, for one case: kcheck_case frees them. */
static void put_inputs(struct kcheck *k, struct lm_project *p,
	const struct lm_project *host, unsigned offset)
{
	*p = *host;
	p->x = kcheck_put(k, host->x, p->rows * p->ldx * 4, offset % 8);
	p->x8 = lm_weight_is_quantized(p->type) ?
		kcheck_put(k, host->x8,
			p->rows * (p->k / LM_WEIGHT_BLOCK) * sizeof *host->x8, 0) :
		NULL;
	p->w = kcheck_put(k, host->w, lm_weight_row_bytes(p->type, p->k) * p->n,
		offset % 8 / 2);
	if (host->from)
		p->from = kcheck_put(k, host->from, p->rows * p->ldy * 4, 0);
	if (host->bias)
		p->bias = kcheck_put(k, host->bias, p->n * 4, 0);
}

#if defined __x86_64__ && defined __linux__
static int run_tiles(struct dev *d, void *out, const void *arguments)
{
	struct lm_project p = *(const struct lm_project *)arguments;

	p.y = out;
	lm_project_quantized_amx_emulated(&p, 0, p.n);
	if (!lm_amx_emulated_released())
		return dev_fail(d, 70, "tiles are not released");
	return 0;
}

/* The same on int8 tiles, which are emulated: the kernel's own source, see amx_emu.c. In the column
 * whose kernels it shares everything else with. */
static void check_tiles(struct kcheck *k, struct kcase *c, struct lm_project *p,
	const struct lm_project *host, unsigned offset)
{
	char label[sizeof c->label];

	if (strcmp(k->column, "avx512") != 0 || k->bench ||
		!cpu_features(CPU_AVX512).vnni || !lm_weight_is_quantized(host->type))
		return;
	memcpy(label, c->label, sizeof label);
	c->run = run_tiles;
	snprintf(c->label, sizeof c->label, "%.*s, tiles", (int)sizeof label - 20, label);
	put_inputs(k, p, host, offset);
	kcheck_case(k, c);
	c->run = run;
	memcpy(c->label, label, sizeof label);
}
#else
#define check_tiles(k, c, p, host, offset) ((void)0)
#endif

/* The same of weights that were packed, where the device takes such. */
static void check_packed(struct kcheck *k, struct kcase *c, struct lm_project *p,
	const struct lm_project *host, unsigned offset)
{
	uint32_t outputs = lm_pack_outputs(&k->dev, host->type);
	struct lm_project other = *host;
	unsigned char *packed;

	if (!outputs)
		return;
	packed = malloc(lm_weight_row_bytes(host->type, host->k) * host->n + 1);
	lm_pack(packed, host->w, host->type, host->n, host->k, outputs);
	other.w = packed;
	other.packed = true;
	put_inputs(k, p, &other, offset);
	strncat(c->label, ", packed", sizeof c->label - strlen(c->label) - 1);
	kcheck_case(k, c);
	check_tiles(k, c, p, &other, offset);
	free(packed);
}

/* Whether the emulation is that of a GPU without tensor cores. */
static bool without_tensor(void)
{
	const char *text = getenv("CUDA_EMU_TENSOR");

	return text && strcmp(text, "0") == 0;
}

static bool has_emulated_tensor(const struct kcheck *k)
{
	return strcmp(k->column, "emu") == 0 && !without_tensor();
}

/* Whether a GPU takes x as bf16, as project.h says. */
static bool rounds(struct kcheck *k, enum lm_weight type, uint64_t cols, unsigned offset)
{
	return !k->dev.is_host && !without_tensor() && type == LM_WEIGHT_BF16 &&
		cols >= 32 && cols % 8 == 0 && offset % 8 == 0;
}

static void one(struct kcheck *k, enum lm_weight type, uint64_t rows, uint64_t n,
	uint64_t cols, bool more, unsigned offset)
{
	/* both with addresses that are aligned and such that are not */
	uint64_t ldx = cols + (offset % 8 ? 3 : 4), ldy = n;
	uint64_t row_bytes = lm_weight_row_bytes(type, cols);
	unsigned char *w = malloc(row_bytes * n + 1);
	float *x = malloc((rows * ldx + 1) * 4), *want = malloc((rows * ldy + 1) * 4);
	float *from = malloc((rows * ldy + 1) * 4), *bias = malloc((n + 1) * 4);
	float *taken = malloc((rows * ldx + 1) * 4); /* what is multiplied */
	float *bound = malloc((rows * ldy + 1) * 4);
	bool quantized = lm_weight_is_quantized(type);
	uint64_t x8_bytes = rows * (cols / LM_WEIGHT_BLOCK) * sizeof(struct lm_block8);
	struct lm_block8 *x8 = malloc(x8_bytes + 1);
	struct lm_project host = { .type = type,
		.rows = rows,
		.n = n,
		.k = cols,
		.ldx = ldx,
		.ldy = ldy,
		.x = taken,
		.x8 = x8,
		.w = w,
		.from = more ? from : NULL,
		.bias = more ? bias : NULL,
		.y = want };
	struct lm_project p;
	/* every version gives the reference's bits */
	bool exact = quantized;
	struct kcase c = { .run = run,
		.arguments = &p,
		.want = want,
		.bound = exact ? NULL : bound };

	make_weights(w, type, n, cols);
	for (uint64_t i = 0; i < rows * ldx; i++)
		x[i] = (float)((int)(i * 2654435761u % 2001) - 1000) / 500;
	for (uint64_t i = 0; i < rows * ldx; i++)
		taken[i] = rounds(k, type, cols, offset) ?
			bf16_to_f32(bf16_from_f32(x[i])) :
			x[i];
	for (uint64_t i = 0; i < rows * ldy; i++)
		from[i] = (float)i / 7;
	for (uint64_t i = 0; i < n; i++)
		bias[i] = 1 - (float)i;
	for (uint64_t i = 0; i < rows * ldy; i++)
		want[i] = bound[i] = 0;
	if (quantized)
		lm_quantize_ref(&(struct lm_quantize){ x8, x, rows, cols, ldx }, 0,
			rows * (cols / LM_WEIGHT_BLOCK));
	lm_project_ref(&host, 0, n);
	for (uint64_t r = 0; r < rows && !exact; r++)
		for (uint64_t j = 0; j < n; j++)
			bound[r * ldy + j] = (float)((double)(cols + 4) * 0x1p-22 *
				terms(&host, r, j));
	c.out_bytes = rows * n * 4;
	c.offset = offset;
	c.work = 2 * (double)rows * (double)n * (double)cols;
	c.unit = "op";
	host.x = x;
	put_inputs(k, &p, &host, offset);
	snprintf(c.label, sizeof c.label, "project %s %llux%llux%llu%s", names[type],
		(unsigned long long)rows, (unsigned long long)n, (unsigned long long)cols,
		more ? " + from + bias" : "");
	kcheck_case(k, &c);
	check_tiles(k, &c, &p, &host, offset);
	check_packed(k, &c, &p, &host, offset);
	free(w), free(x), free(x8), free(want), free(from), free(bias), free(bound),
		free(taken);
}

/* A product whose rows are also made alone, or in groups: the operation is the product of all
 * rows, and after it that of `each` at a time into the second half of the output. */
struct in_groups {
	struct lm_project all;
	uint64_t each;
};

static int run_groups(struct dev *d, void *out, const void *arguments)
{
	const struct in_groups *g = arguments;
	struct lm_project p = g->all;
	int rc;

	p.y = out;
	if (d->ops->lm->project(d, &p) < 0)
		return -1;
	for (uint64_t r = 0; r < g->all.rows; r += g->each) {
		p.rows = g->all.rows - r < g->each ? g->all.rows - r : g->each;
		p.x = g->all.x + r * p.ldx;
		p.y = (float *)out + (g->all.rows + r) * p.ldy;
		rc = d->ops->lm->project(d, &p);
		if (rc < 0)
			return -1;
	}
	return 0;
}

/* The bits of a row do not depend on how many rows are multiplied at once: what the device says of
 * all is wanted of the groups, too. */
static void groups(struct kcheck *k, enum lm_weight type, uint64_t rows, uint64_t each,
	uint64_t n, uint64_t cols)
{
	uint64_t row_bytes = lm_weight_row_bytes(type, cols), out = rows * n;
	unsigned char *w = malloc(row_bytes * n);
	float *x = malloc(rows * cols * 4), *want = calloc(2 * out, 4);
	struct in_groups g = { .all = { .type = type,
				       .rows = rows,
				       .n = n,
				       .k = cols,
				       .ldx = cols,
				       .ldy = n },
		.each = each };
	struct kcase c = { .run = run_groups, .arguments = &g, .want = want };
	void *place;

	make_weights(w, type, n, cols);
	for (uint64_t i = 0; i < rows * cols; i++)
		x[i] = sinf((float)i) * 3;
	g.all.x = kcheck_put(k, x, rows * cols * 4, 0);
	g.all.w = kcheck_put(k, w, row_bytes * n, 0);
	place = kcheck_put(k, want, 2 * out * 4, 0);
	if (run_groups(&k->dev, place, &g) == 0 &&
		k->dev.ops->get(&k->dev, want, place, out * 4) == 0)
		for (uint64_t i = 0; i < out; i++)
			want[out + i] = want[i];
	c.out_bytes = 2 * out * 4;
	snprintf(c.label, sizeof c.label,
		"project %s %llux%llux%llu, and %llu rows at a time", names[type],
		(unsigned long long)rows, (unsigned long long)n, (unsigned long long)cols,
		(unsigned long long)each);
	kcheck_case(k, &c);
	free(w), free(x), free(want);
}

/* Layers of one norm, made one by one into the first half of the output, and together into the
 * second. */
struct in_one {
	struct lm_project_group group;
	float *normed, *gates; /* memory for one by one */
	struct lm_block8 *x8;
	bool must; /* the device makes them together */
};

/* Where output i of the group goes in a half of the output. */
static float *place_of(const struct in_one *g, void *half, uint32_t i)
{
	float *to = half;

	for (uint32_t n = 0; n < i; n++)
		to += g->group.p[n].rows * g->group.p[n].n;
	return to;
}

static int one_by_one(struct dev *d, void *out, const struct in_one *g)
{
	const struct lm_project *p = g->group.p;
	struct lm_norm n = { .dtype = LM_DTYPE_F32,
		.y = g->normed,
		.x = p->x,
		.w = g->group.norm,
		.rows = p->rows,
		.dim = p->k,
		.eps = g->group.eps };
	struct lm_swiglu s = { .dtype = LM_DTYPE_F32,
		.y = out,
		.x = g->gates,
		.rows = p->rows,
		.hidden = p->n,
		.gelu = g->group.gelu };

	struct lm_quantize q = { .to = g->x8,
		.x = g->normed,
		.rows = p->rows,
		.k = p->k,
		.ldx = p->k };

	if (d->ops->lm->norm(d, &n) < 0 ||
		(lm_weight_is_quantized(p->type) && d->ops->lm->quantize(d, &q) < 0))
		return -1;
	for (uint32_t i = 0; i < g->group.n; i++) {
		struct lm_project one = p[i];

		one.x = g->normed;
		one.x8 = g->x8;
		one.y = g->group.gated ? g->gates + i * p->n : place_of(g, out, i);
		one.ldy = g->group.gated ? 2 * p->n : one.n;
		if (d->ops->lm->project(d, &one) < 0)
			return -1;
	}
	return g->group.gated ? d->ops->lm->swiglu(d, &s) : 0;
}

static int run_together(struct dev *d, void *out, const void *arguments)
{
	struct in_one g = *(const struct in_one *)arguments;
	uint32_t results = g.group.gated ? 1 : g.group.n;
	float *half = place_of(&g, out, results);
	int rc;

	for (uint32_t i = 0; i < g.group.n; i++) {
		g.group.p[i].y = place_of(&g, half, i);
		g.group.p[i].ldy = g.group.p[i].n;
	}
	g.group.gated = g.group.gated ? half : NULL;
	if (one_by_one(d, out, &g) < 0)
		return -1;
	rc = d->ops->lm->project_group(d, &g.group);
	if (rc == 1 && g.must)
		return dev_fail(d, 70, "made one by one");
	return rc == 1 ? one_by_one(d, half, &g) : rc;
}

/* What is made together has the bits of what is made one by one. gates: g and u of SwiGLU or GeGLU;
 * else outputs like those of q, k and v. */
static void together(struct kcheck *k, enum lm_weight type, uint64_t rows, uint64_t n,
	uint64_t cols, bool gates, bool gelu, bool bias)
{
	/* room for its blocks, too */
	float values[1], *x = calloc(rows * cols, 8), *w = malloc(cols * 4),
			 *offsets = malloc(n * 4);
	struct in_one g = { .group = { .n = gates ? 2 : 3,
				    .eps = 1e-5f,
				    .gated = gates ? values : NULL,
				    .gelu = gelu },
		/* of more rows only where wgmma is used */
		.must = has_emulated_tensor(k) &&
			(rows <= 8 || (!*k->dev.note && !getenv("CUDA_EMU_MAP_MOST"))) };
	uint64_t count = 0;
	struct kcase c = { .run = run_together, .arguments = &g };
	float *want;

	for (uint64_t i = 0; i < rows * cols; i++)
		x[i] = sinf((float)i) * 3;
	for (uint64_t i = 0; i < cols; i++)
		w[i] = 1 + cosf((float)i) / 2;
	for (uint64_t i = 0; i < n; i++)
		offsets[i] = sinf((float)i * 5);
	g.group.norm = kcheck_put(k, w, cols * 4, 0);
	for (uint32_t i = 0; i < g.group.n; i++) {
		struct lm_project *p = &g.group.p[i];
		uint64_t bytes;

		/* not all of the same size, nor of 16 outputs */
		*p = (struct lm_project){ .type = type,
			.rows = rows,
			/* not all of whole groups */
			.n = gates || i == 0 ? n : (n + 1) / 2,
			.k = cols,
			.ldx = cols };
		bytes = p->n * lm_weight_row_bytes(type, cols);
		unsigned char *weights = malloc(bytes);

		make_weights(weights, p->type, p->n, cols);
		p->x = i ? g.group.p->x : kcheck_put(k, x, rows * cols * 4, 0);
		p->w = kcheck_put(k, weights, bytes, 0);
		p->bias = bias ? kcheck_put(k, offsets, p->n * 4, 0) : NULL;
		free(weights);
		count += gates && i ? 0 : rows * p->n;
	}
	want = calloc(2 * count + 2 * rows * n, 4);
	g.normed = kcheck_put(k, x, rows * cols * 4, 0);
	g.gates = kcheck_put(k, want, 2 * rows * n * 4, 0);
	g.x8 = kcheck_put(k, x, rows * (cols / LM_WEIGHT_BLOCK) * sizeof *g.x8, 0);
	float *place = kcheck_put(k, want, 2 * count * 4, 0);

	if (one_by_one(&k->dev, place, &g) == 0 &&
		k->dev.ops->get(&k->dev, want, place, count * 4) == 0)
		memcpy(want + count, want, count * 4);
	c.want = want;
	c.out_bytes = 2 * count * 4;
	snprintf(c.label, sizeof c.label, "project %s %llux%llux%llu together%s%s",
		names[type], (unsigned long long)rows, (unsigned long long)n,
		(unsigned long long)cols, gates ? gelu ? ", GeGLU" : ", SwiGLU" : "",
		bias ? " + bias" : "");
	kcheck_case(k, &c);
	free(x), free(w), free(offsets), free(want);
}

/* Layers of the same input on a CPU: their outputs, or SwiGLU of two with what quantises it. */
struct shared {
	struct lm_project p[LM_GROUP];
	uint32_t n;
	bool gates, gelu;
	/* floats of a half of the output: all of them, or gated ones and their blocks */
	uint64_t outputs;
	float *gu; /* [rows][2 n] */
};

static int shared_one_by_one(struct dev *d, const struct shared *g, float *y)
{
	uint64_t rows = g->p->rows, n = g->p->n;
	struct lm_swiglu s = { .dtype = LM_DTYPE_F32,
		.y = y,
		.x = g->gu,
		.rows = rows,
		.hidden = n,
		.gelu = g->gelu };
	struct lm_quantize q = { .to = (struct lm_block8 *)(void *)(y + rows * n),
		.x = y,
		.rows = rows,
		.k = n,
		.ldx = n };

	for (uint32_t i = 0; i < g->n; i++) {
		struct lm_project p = g->p[i];

		p.y = g->gates ? g->gu + i * n : y;
		p.ldy = g->gates ? 2 * n : p.n;
		y += g->gates ? 0 : rows * p.n;
		if (d->ops->lm->project(d, &p) < 0)
			return -1;
	}
	return g->gates ?
		d->ops->lm->swiglu(d, &s) < 0 ? -1 : d->ops->lm->quantize(d, &q) :
		0;
}

static int run_shared(struct dev *d, void *out, const void *arguments)
{
	const struct shared *g = arguments;
	uint64_t rows = g->p->rows, n = g->p->n;
	float *y = out;
	struct lm_project_group group = { .n = g->n, .gelu = g->gelu };

	if (shared_one_by_one(d, g, y) < 0)
		return -1;
	y += g->outputs;
	group.gated = g->gates ? y : NULL;
	group.gated8 = g->gates ? (struct lm_block8 *)(void *)(y + rows * n) : NULL;
	for (uint32_t i = 0; i < g->n; i++) {
		group.p[i] = g->p[i];
		group.p[i].y = g->gates ? g->gu + i * n : y;
		group.p[i].ldy = g->gates ? 2 * n : group.p[i].n;
		y += g->gates ? 0 : rows * group.p[i].n;
	}
	return d->ops->lm->project_group(d, &group) ? dev_fail(d, 70, "made one by one") :
						      0;
}

static void shared(struct kcheck *k, enum lm_weight type, uint64_t rows, uint64_t n,
	uint64_t cols, bool gates)
{
	uint64_t x8 = rows * (cols / LM_WEIGHT_BLOCK);
	float *x = calloc(rows * cols, 4), *want;
	struct lm_block8 *blocks = calloc(x8, sizeof *blocks);
	struct lm_quantize q = { .to = blocks,
		.x = x,
		.rows = rows,
		.k = cols,
		.ldx = cols };
	struct shared g = { .n = gates ? 2 : 3, .gates = gates, .gelu = rows % 2 };
	struct kcase c = { .run = run_shared, .arguments = &g };
	unsigned char *weights[LM_GROUP];

	for (uint64_t i = 0; i < rows * cols; i++)
		x[i] = sinf((float)i) * 3;
	lm_quantize_ref(&q, 0, x8);
	for (uint32_t i = 0; i < g.n; i++) {
		struct lm_project *p = &g.p[i];
		uint64_t bytes;

		*p = (struct lm_project){ .type = type,
			.x = x,
			.x8 = blocks,
			.rows = rows,
			/* not all of whole groups */
			.n = gates || i == 0 ? n : n / 2 + i,
			.k = cols,
			.ldx = cols };
		bytes = p->n * lm_weight_row_bytes(type, cols);
		weights[i] = malloc(bytes);
		make_weights(weights[i], type, p->n, cols);
		p->w = weights[i];
		g.outputs += gates ? 0 : rows * p->n;
	}
	if (gates)
		g.outputs = rows * n + rows * n / LM_WEIGHT_BLOCK * sizeof *blocks / 4;
	g.gu = calloc(2 * rows * n, 4);
	want = calloc(2 * g.outputs, 4);
	if (shared_one_by_one(&k->dev, &g, want) == 0)
		memcpy(want + g.outputs, want, g.outputs * 4);
	c.want = want;
	c.out_bytes = 2 * g.outputs * 4;
	snprintf(c.label, sizeof c.label, "project %s %llux%llux%llu of one input%s",
		names[type], (unsigned long long)rows, (unsigned long long)n,
		(unsigned long long)cols, gates ? ", gates" : "");
	kcheck_case(k, &c);
	for (uint32_t i = 0; i < g.n; i++)
		free(weights[i]);
	free(x), free(blocks), free(g.gu), free(want);
}

/* A product whose input the device quantises itself: the bits of the one whose input is
 * quantised. */
static int run_floats(struct dev *d, void *out, const void *arguments)
{
	struct lm_project_group g = { .p = { *(const struct lm_project *)arguments },
		.n = 1 };
	int rc;

	g.p[0].y = out;
	rc = d->ops->lm->project_group(d, &g);
	return rc == 1 ? dev_fail(d, 70, "does not quantise") : rc;
}

static void floats(struct kcheck *k, enum lm_weight type, uint64_t rows, uint64_t n,
	uint64_t cols)
{
	uint64_t bytes = lm_weight_row_bytes(type, cols) * n;
	float *x = malloc(rows * cols * 4), *want = calloc(rows * n, 4);
	struct lm_block8 *x8 = malloc(rows * cols / LM_WEIGHT_BLOCK * sizeof *x8);
	struct lm_quantize q = { x8, x, rows, cols, cols };
	unsigned char *w = malloc(bytes);
	struct lm_project p = { .type = type,
		.y = want,
		.x8 = x8,
		.w = w,
		.rows = rows,
		.n = n,
		.k = cols,
		.ldx = cols,
		.ldy = n };
	struct kcase c = { .run = run_floats,
		.arguments = &p,
		.want = want,
		.out_bytes = rows * n * 4 };

	make_weights(w, type, n, cols);
	for (uint64_t i = 0; i < rows * cols; i++)
		x[i] = sinf((float)i) * 3;
	lm_quantize_ref(&q, 0, rows * cols / LM_WEIGHT_BLOCK);
	lm_project_ref(&p, 0, n);
	p.x = kcheck_put(k, x, rows * cols * 4, 0);
	p.w = kcheck_put(k, w, bytes, 0);
	p.x8 = NULL;
	snprintf(c.label, sizeof c.label, "project %s %llux%llux%llu of f32", names[type],
		(unsigned long long)rows, (unsigned long long)n,
		(unsigned long long)cols);
	kcheck_case(k, &c);
	free(x), free(want), free(x8), free(w);
}

static int run_quantize(struct dev *d, void *out, const void *arguments)
{
	struct lm_quantize q = *(const struct lm_quantize *)arguments;

	q.to = out;
	return d->ops->lm->quantize(d, &q);
}

/* Numbers of all sizes, ties, a block of zeros, a block of numbers that are practically zero,
 * and NaN and infinities. */
static void quantize(struct kcheck *k, uint64_t rows, uint64_t cols)
{
	uint64_t ldx = cols + 5, n = rows * (cols / LM_WEIGHT_BLOCK);
	float *x = malloc(rows * ldx * 4);
	struct lm_block8 *want = malloc(n * sizeof *want);
	struct lm_quantize q = { .to = want,
		.x = x,
		.rows = rows,
		.k = cols,
		.ldx = ldx };
	struct kcase c = { .run = run_quantize,
		.arguments = &q,
		.want = want,
		.out_bytes = n * sizeof *want };

	for (uint64_t i = 0; i < rows * ldx; i++)
		x[i] = ldexpf((float)((int)(i * 2654435761u % 2001) - 1000),
			(int)(i / 40 % 60) - 30);
	for (uint64_t i = 0; i < 32 && rows > 1; i++) {
		x[i] = 0;
		x[32 + i] = i % 2 ? 0x1p-101f : -0x1p-140f;
		x[ldx + i] = (float)i - 16 + (i < 31 ? 0.5f : 112); /* scale 1 */
	}
	x[(rows - 1) * ldx + cols - 1] = NAN;
	x[(rows - 1) * ldx + cols - 3] = -INFINITY;
	lm_quantize_ref(&q, 0, n);
	q.x = kcheck_put(k, x, rows * ldx * 4, 4);
	snprintf(c.label, sizeof c.label, "quantize %llux%llu", (unsigned long long)rows,
		(unsigned long long)cols);
	kcheck_case(k, &c);
	free(x), free(want);
}

void check_lm_project(struct kcheck *k)
{
	static const uint64_t sizes[][3] = { { 1, 1, 32 }, { 1, 9, 64 }, { 3, 5, 96 },
		{ 4, 8, 64 }, { 6, 7, 160 } };
	/* one output more than lanes, rows for every tile size, more blocks than a chunk of panels,
	 * more rows than are summed at once; the last two: two groups of outputs side by side and
	 * one, rows of which the last is computed twice */
	static const uint64_t quantized[][3] = { { 1, 1, 256 }, { 1, 33, 512 },
		{ 2, 17, 256 }, { 3, 16, 512 }, { 11, 15, 1280 }, { 13, 3, 2304 },
		{ 70, 67, 256 }, { 259, 2, 256 }, { 29, 18, 1280 }, { 19, 49, 768 },
		{ 7, 33, 512 } };

	/* a GPU's: rows up to eight and more of them, tiles of both sizes and their edges, more
	 * outputs than warps, rows of weights that begin anywhere, fewer and more steps than a ring
	 * has, and rows for which shared memory has no room at once */
	static const uint64_t aligned[][3] = { { 1, 1, 256 }, { 1, 130, 2304 },
		{ 2, 200, 512 }, { 7, 19, 768 }, { 8, 9, 5376 }, { 9, 33, 512 },
		{ 32, 65, 1280 }, { 33, 66, 768 }, { 130, 67, 512 }, { 1, 35, 32 },
		{ 3, 17, 2080 }, { 8, 12, 224 }, { 12, 37, 1312 }, { 65, 9, 288 } };

	/* not the emulation by its own name, nor as a plug-in */
	const bool on_chip = strcmp(k->column, "cuda") == 0 &&
		strcmp(k->dev.model, "emulation") != 0;

	(void)k->dev.ops->lm->prepare(&k->dev, NULL); /* the emulated GPU needs none */
	quantize(k, 1, 32);
	quantize(k, 3, 160);
	quantize(k, 2, 1056);
	quantize(k, 2, 128);
	together(k, LM_WEIGHT_BF16, 1, 17, 64, false, false, false);
	together(k, LM_WEIGHT_BF16, 8, 40, 552, false, false, true);
	together(k, LM_WEIGHT_BF16, 1, 49, 4360, true, false, false);
	together(k, LM_WEIGHT_BF16, 3, 16, 96, true, false, true);
	together(k, LM_WEIGHT_BF16, 5, 33, 136, true, true, false);
	together(k, LM_WEIGHT_BF16, 9, 70, 72, false, false, true);
	together(k, LM_WEIGHT_BF16, 50, 40, 136, true, false, true);
	together(k, LM_WEIGHT_BF16, 50, 144, 64, true, true, false);
	together(k, LM_WEIGHT_BF16, 131, 129, 40, false, false, false);
	together(k, LM_WEIGHT_BF16, 70, 33, 96, true, false, false);
	/* more steps than stages, of each shape of tiles */
	together(k, LM_WEIGHT_BF16, 20, 40, 1160, true, false, false);
	together(k, LM_WEIGHT_BF16, 60, 70, 840, true, false, false);
	together(k, LM_WEIGHT_BF16, 260, 70, 456, true, false, true);
	groups(k, LM_WEIGHT_BF16, 300, 120, 140, 456);
	groups(k, LM_WEIGHT_BF16, 60, 13, 130, 840);
	/* tiles that a chip takes where there is one for each multiprocessor, of which no GPU with
	 * wgmma has more than 132; the emulation takes them above */
	if (on_chip && strcmp(k->dev.isa, "sm_90") == 0) {
		enum { MANY = 132 * 128 + 40 };

		groups(k, LM_WEIGHT_BF16, 64, 9, MANY, 840);
		groups(k, LM_WEIGHT_BF16, 260, 70, MANY, 72);
		groups(k, LM_WEIGHT_BF16, 260, 8, 600, 4104);
		together(k, LM_WEIGHT_BF16, 64, MANY / 2, 840, true, false, true);
		together(k, LM_WEIGHT_BF16, 64, MANY, 136, false, false, false);
		together(k, LM_WEIGHT_BF16, 260, MANY / 2, 200, true, true, true);
		together(k, LM_WEIGHT_BF16, 260, MANY, 72, false, false, false);
	}
	for (int type = LM_WEIGHT_Q8_0; type < LM_WEIGHTS; type++) {
		uint64_t less = lm_weight_is_super((enum lm_weight)type) ? 0 : 96;

		together(k, (enum lm_weight)type, 1, 33, 512 - less, false, false, false);
		together(k, (enum lm_weight)type, 8, 49, 256 + less, true, type % 2,
			true);
		together(k, (enum lm_weight)type, 5, 130, 2304, false, false, true);
		/* on a chip before 8.0 it returns 1 */
		if (has_emulated_tensor(k)) {
			floats(k, (enum lm_weight)type, 1, 43, 768 - less);
			floats(k, (enum lm_weight)type, 8, 17, 2304);
		}
	}
	for (int type = 0; k->dev.is_host && type < LM_WEIGHTS; type++) {
		shared(k, (enum lm_weight)type, 1, 50, 256, false);
		shared(k, (enum lm_weight)type, 8, 33, 256, false);
		shared(k, (enum lm_weight)type, 1, 576, 256, true);
		shared(k, (enum lm_weight)type, 3, 96, 512, true);
	}
	for (int type = 0; type < LM_WEIGHTS; type++) {
		for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
			if (!lm_weight_is_super((enum lm_weight)type))
				one(k, (enum lm_weight)type, sizes[i][0], sizes[i][1],
					sizes[i][2], i % 2, 4 * i);
		for (unsigned i = 0; i < sizeof quantized / sizeof *quantized; i++)
			if (lm_weight_is_quantized((enum lm_weight)type) &&
				!(k->slow && (i == 5 || i == 7 || i > 8)))
				one(k, (enum lm_weight)type, quantized[i][0],
					quantized[i][1], quantized[i][2], i % 2, 4 * i);
		for (unsigned i = 0; i < sizeof aligned / sizeof *aligned; i++)
			if (lm_weight_is_quantized((enum lm_weight)type) &&
				!(lm_weight_is_super((enum lm_weight)type) &&
					aligned[i][2] % 256))
				one(k, (enum lm_weight)type, aligned[i][0], aligned[i][1],
					aligned[i][2], i % 2, 0);
		/* tiles that a chip takes where multiprocessors are no more than they */
		if (on_chip &&
			(type == LM_WEIGHT_Q8_0 || type == LM_WEIGHT_Q4_0 ||
				type == LM_WEIGHT_Q4_K || type == LM_WEIGHT_Q6_K))
			one(k, (enum lm_weight)type, 34, 132 * 64 + 9, 768, true, 0);
		if (type <= LM_WEIGHT_BF16) {
			/* more than a chunk of k, and edges of every kind of tile */
			one(k, (enum lm_weight)type, 9, 21, 552, true, 0);
			one(k, (enum lm_weight)type, 37, 18, 40, false, 0);
			one(k, (enum lm_weight)type, 130, 35, 552, true, 0);
			one(k, (enum lm_weight)type, 50, 200, 72, true, 0);
			one(k, (enum lm_weight)type, 300, 150, 40, false, 0);
			if (!k->slow || type == LM_WEIGHT_BF16) {
				groups(k, (enum lm_weight)type, 130, 45, 9, 552);
				groups(k, (enum lm_weight)type, 18, 1, 17, 1064);
				groups(k, (enum lm_weight)type, 12, 5, 3, 4360);
				groups(k, (enum lm_weight)type, 300, 16, 140, 104);
				groups(k, (enum lm_weight)type, 60, 13, 130, 200);
			}
			one(k, (enum lm_weight)type, 1, 6, 43, true, 0);
			one(k, (enum lm_weight)type, 5, 6, 31, false, 4);
		}
		if (k->bench && !k->slow) {
			one(k, (enum lm_weight)type, 1, 2048, 2048, false, 0);
			one(k, (enum lm_weight)type, 64, 2048, 2048, false, 0);
			one(k, (enum lm_weight)type, 256, 2048, 2048, false, 0);
		}
	}
}
