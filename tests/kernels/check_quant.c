/* check_quant.c - compares every version of quant with its reference: exact or bounded cases,
 * edges, repeatability. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/kcheck.h"

static const struct config {
	const char *name;
	struct quant q;
} configs[] = {
	{ "none", { .method = QUANT_NONE } },
	{ "none bf16", { .method = QUANT_NONE, .bf16 = true } },
	{ "lossless", { .method = QUANT_LOSSLESS } },
	{ "lossless bf16", { .method = QUANT_LOSSLESS, .bf16 = true } },
	{ "f16", { .method = QUANT_F16 } },
	{ "bf16", { .method = QUANT_BF16 } },
	{ "fp8e4", { .method = QUANT_FP8E4 } },
	{ "fp8e5", { .method = QUANT_FP8E5 } },
	{ "q8", { .method = QUANT_Q8, .block = 256 } },
	{ "q8 block 16", { .method = QUANT_Q8, .block = 16 } },
	{ "q8 by chance",
		{ .method = QUANT_Q8, .block = 256, .stochastic = true, .seed = 7 } },
	{ "q8 sigma", { .method = QUANT_Q8, .sigma = true } },
	{ "q4", { .method = QUANT_Q4, .block = 64 } },
	{ "q4 sigma by chance",
		{ .method = QUANT_Q4, .sigma = true, .stochastic = true, .seed = 8 } },
	{ "ecq", { .method = QUANT_ECQ } },
	{ "e3m0", { .method = QUANT_E3M0, .block = 256 } },
	{ "e3m0 block 4096", { .method = QUANT_E3M0, .block = 4096 } },
	{ "qsgd 4", { .method = QUANT_QSGD, .block = 256, .levels = 4, .seed = 9 } },
	{ "qsgd 65535 block 512",
		{ .method = QUANT_QSGD, .block = 512, .levels = 65535, .seed = 1 } },
	{ "topk", { .method = QUANT_TOPK, .block = 4096 } },
	{ "topk block 256", { .method = QUANT_TOPK, .block = 256 } },
};

enum data {
	GAUSS,
	ANY_BITS,
	ZEROS,
	ONE_VALUE,
	HUGE_RANGE,
	TIES,
	NEAR_MAX,
	NEAR_64,
	DATA
};
static const char *const data_names[DATA] = { "gauss", "any bits", "zeros", "one value",
	"huge range", "ties", "near the largest float", "levels near 64" };

static float value_of(enum data kind, const uint32_t *w, uint64_t i)
{
	float g = 0;

	for (int k = 0; k < 4; k++) /* approximately normal */
		g += (float)(int32_t)(w[i] * (k * 2u + 3) ^ w[i] >> (k + 3)) * 0x1p-31f;
	switch (kind) {
	case ANY_BITS: /* with more infinities and NaN than by chance */
		return half_float_of_bits(w[i] % 50 ? w[i] : w[i] | 0x7f800000);
	case ZEROS:
		return half_float_of_bits(w[i] & 0x80000000);
	case ONE_VALUE:
		return -0.37f;
	case HUGE_RANGE:
		return g * half_float_of_bits((w[i] >> 7) % 254 << 23);
	case TIES:
		return (float)(w[i] % 3) - 1;
	/* near the largest float: in some blocks all numbers, in others also smaller ones; in
	 * places of one sign */
	case NEAR_MAX:
		return half_float_of_bits(
			(0x7f7fffff - (w[i] >> 6) % (i / 512 % 2 ? 0x100 : 0x2000000)) |
			(i / 128 % 2 ? w[i] & 0x80000000 : 0));
	/* of ecq, whose levels have bits beside them from 64 on: the largest of eight is from 61 to
	 * 66 */
	case NEAR_64:
		return (float)(i % 8 == (w[i / 8 * 8] >> 8 & 7) ? 61 + (w[i] >> 4) % 6 :
								  (w[i] >> 4) % 61) *
			(w[i] >> 31 ? -0.5f : 0.5f);
	default:
		return g;
	}
}

/* The memory of a case; all of it on the host and, as d_, on the device. */
struct arguments {
	struct quant_job job;
	uint64_t plane_bytes, chunks;
	/* what the planes hold before: ones where an encoder writes bits beside symbols, else
	 * zeros */
	const unsigned char *before;
	/* of error feedback: what is added, what is added to, memory, and where the sum is in the
	 * output */
	const float *fresh, *rest;
	float *sent;
	uint64_t rest_at;
};

#define CARRY 0.95f

/* Output: planes, then the lengths of the variable plane. */
static int run_encode(struct dev *d, void *out, const void *arguments)
{
	const struct arguments *a = arguments;
	struct quant_job j = a->job;

	if (d->ops->copy(d, out, a->before, a->plane_bytes + a->chunks * 4) < 0)
		return -1;
	j.planes = out;
	j.used = (uint32_t *)(void *)((char *)out + a->plane_bytes);
	return d->ops->quant->encode(d, &j);
}

/* Output: planes, lengths, and what was not sent. */
static int run_feed(struct dev *d, void *out, const void *arguments)
{
	const struct arguments *a = arguments;
	struct quant_job j = a->job;

	if (d->ops->fill(d, out, 0, a->rest_at / 4) < 0 ||
		d->ops->copy(d, (char *)out + a->rest_at, a->rest, j.n * 4) < 0)
		return -1;
	j.planes = out;
	j.used = (uint32_t *)(void *)((char *)out + a->plane_bytes);
	j.elements = (char *)out + a->rest_at;
	return d->ops->quant->feed(d, &j, a->sent, a->fresh, CARRY);
}

/* Output: the elements, then whether the planes were bad. */
static int run_decode(struct dev *d, void *out, const void *arguments)
{
	const struct arguments *a = arguments;
	struct quant_job j = a->job;
	uint64_t bytes = (j.n * (j.q.bf16 ? 2 : 4) + 3) & ~UINT64_C(3);

	if (d->ops->fill(d, out, 0, bytes / 4 + 1) < 0)
		return -1;
	j.elements = out;
	j.bad = (uint32_t *)(void *)((char *)out + bytes);
	return d->ops->quant->decode(d, &j);
}

static void *zeroed(uint64_t bytes)
{
	void *p = calloc(1, bytes + 64);

	if (!p)
		exit(71);
	return p;
}

/* Runs the reference, chunk by chunk: planes followed by their lengths, or elements. Returns
 * whether all were good. */
static bool reference(const struct arguments *a, unsigned char *planes, char *elements,
	const struct quant_step *steps, bool decode)
{
	const struct quant *q = &a->job.q;
	uint32_t chunk = quant_chunk(q->method);
	uint32_t *used = (uint32_t *)(void *)(planes + a->plane_bytes);
	bool good = true;

	for (uint64_t c = 0; c < a->chunks; c++) {
		uint64_t at = c * chunk, left = a->job.n - at;
		uint32_t n = (uint32_t)(left < chunk ? left : chunk);
		unsigned char *p[QUANT_PLANES_MAX];
		char *e = elements + at * (q->bf16 ? 2 : 4);
		struct quant_layout l;

		quant_layout(&l, q, n);
		for (int i = 0; i < l.planes; i++)
			p[i] = quant_plane_at(&l, planes, a->chunks, c, i);
		if (decode)
			good = quant_decode_ref(e, (const unsigned char *const *)p,
				       used[c], n, q, &steps[c]) &&
				good;
		else
			used[c] = quant_encode_ref(p, e, n, q, &steps[c],
				a->job.first + at);
	}
	return good;
}

static bool all_finite(const char *elements, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		float y;

		memcpy(&y, elements + 4 * i, 4);
		if (!quant_finite(y))
			return false;
	}
	return true;
}

/* Error feedback, which sends what was left of others besides x. */
static void fed(struct kcheck *k, const struct config *config, enum data kind,
	const struct arguments *like, const float *x, const struct quant_step *steps,
	unsigned offset)
{
	struct arguments a = *like;
	struct kcase c = { .arguments = &a, .run = run_feed, .unit = "B" };
	uint64_t n = a.job.n;
	float *rest = zeroed(n * 4), *sent = zeroed(n * 4), *sum;
	uint32_t *words = zeroed(n * 4);
	char *want;

	kcheck_random(words, n * 4, n + kind + 1);
	for (uint64_t i = 0; i < n; i++)
		rest[i] = value_of(kind, words, i);
	/* the sum lies as x does: at a multiple of 16 or not */
	a.rest_at = a.plane_bytes + (a.chunks * 4 + 15) / 16 * 16 + offset;
	want = zeroed(a.rest_at + n * 4);
	sum = (float *)(void *)(want + a.rest_at);
	for (uint64_t i = 0; i < n; i++)
		sum[i] = quant_carried(rest[i], x[i], CARRY);
	reference(&a, (unsigned char *)want, (char *)sum, steps, false);
	reference(&a, (unsigned char *)want, (char *)sent, steps, true);
	for (uint64_t i = 0; i < n; i++)
		sum[i] = quant_remaining(sum[i], sent[i]);

	a.fresh = kcheck_put(k, x, n * 4, offset);
	a.rest = kcheck_put(k, rest, n * 4, 0);
	a.sent = kcheck_put(k, sent, n * 4, offset);
	a.job.steps = kcheck_put(k, steps, a.chunks * sizeof *steps, 0);
	c.want = want;
	c.out_bytes = a.rest_at + n * 4;
	c.work = (double)n * 4;
	snprintf(c.label, sizeof c.label, "feed %s, %s, %llu", config->name,
		data_names[kind], (unsigned long long)n);
	kcheck_case(k, &c);
	free(rest), free(sent), free(words), free(want);
}

static void one(struct kcheck *k, const struct config *config, enum data kind, uint64_t n,
	unsigned offset)
{
	const struct quant *q = &config->q;
	uint64_t element = q->bf16 ? 2 : 4, bytes = n * element;
	uint64_t rounded = (bytes + 3) & ~UINT64_C(3);
	struct arguments a = { .job = { .q = *q, .n = n },
		.chunks = quant_chunks(q->method, n) };
	struct kcase c = { .arguments = &a };
	struct quant_step *steps = zeroed((a.chunks + 1) * sizeof *steps);
	struct quant_layout l;
	uint32_t *words = zeroed(n * 4), bad;
	float *x = zeroed(n * 4);
	unsigned char *planes, *dirty;
	char *back = zeroed(rounded + 4);

	a.job.first = 3 * (uint64_t)quant_chunk(q->method);
	quant_layout(&l, q, 0);
	a.plane_bytes = l.chunk_bytes * a.chunks;
	planes = zeroed(a.plane_bytes + a.chunks * 4);
	kcheck_random(words, n * 4, n + kind);
	for (uint64_t i = 0; i < n; i++)
		x[i] = value_of(kind, words, i);
	for (uint64_t i = 0; i < a.chunks; i++)
		steps[i] = i % 2 ?
			(struct quant_step){ 0.0001f, 10000, 0.5f, 0.0001f, 0 } :
			(struct quant_step){ 0.5f, 2, 0.4f, 0.51f, 0.01f };
	if (kind == NEAR_MAX) /* level 4 is too large then */
		for (uint64_t i = 0; i < a.chunks; i++)
			steps[i] = (struct quant_step){ 0x1p126f, 0x1p-126f, 0.5f,
				0x1p126f, -0x1p123f };
	reference(&a, planes, q->bf16 ? (char *)words : (char *)x, steps, false);

	a.job.elements = kcheck_put(k, q->bf16 ? (void *)words : x, bytes, offset);
	a.job.steps = kcheck_put(k, steps, a.chunks * sizeof *steps, 0);
	dirty = zeroed(a.plane_bytes + a.chunks * 4);
	for (uint64_t i = 0; i < a.chunks && l.plane[1].variable; i++)
		memset(quant_plane_at(&l, dirty, a.chunks, i, 1), 255,
			((uint32_t *)(void *)(planes + a.plane_bytes))[i]);
	a.before = kcheck_put(k, dirty, a.plane_bytes + a.chunks * 4, 0);
	free(dirty);
	c.run = run_encode;
	c.want = planes;
	c.out_bytes = a.plane_bytes + a.chunks * 4;
	c.work = (double)bytes;
	c.unit = "B";
	snprintf(c.label, sizeof c.label, "encode %s, %s, %llu", config->name,
		data_names[kind], (unsigned long long)n);
	kcheck_case(k, &c);

	/* behind the last chunk's symbols is what was there before: symbols with bits beside
	 * them */
	if ((q->method == QUANT_ECQ || q->method == QUANT_QSGD) &&
		n % quant_chunk(q->method))
		memset(quant_plane_at(&l, planes, a.chunks, a.chunks - 1, 0) +
				n % quant_chunk(q->method),
			70, quant_chunk(q->method) - n % quant_chunk(q->method));
	a.job.planes = kcheck_put(k, planes, a.plane_bytes, 0);
	a.job.used = kcheck_put(k, planes + a.plane_bytes, a.chunks * 4, 0);
	a.job.steps = kcheck_put(k, steps, a.chunks * sizeof *steps, 0);
	bad = !reference(&a, planes, back, steps, true);
	memcpy(back + rounded, &bad, 4);
	if (bad) { /* data that we encoded ourselves */
		fprintf(stderr, "%s: the reference cannot read itself\n", c.label);
		k->failures++;
	}
	if (kind == NEAR_MAX && q->method >= QUANT_Q8 && !all_finite(back, n)) {
		fprintf(stderr, "%s: something finite becomes infinite\n", c.label);
		k->failures++;
	}
	c.run = run_decode;
	c.want = back;
	c.out_bytes = rounded + 4;
	c.offset = offset;
	memcpy(c.label, "decode", 6);
	kcheck_case(k, &c);
	if (!q->bf16)
		fed(k, config, kind, &a, x, steps, offset);
	free(steps), free(words), free(x), free(planes), free(back);
}

/* Planes that no encoder wrote: the bad flag must be set, and nothing may be written or read
 * beyond them. */
static int run_malformed(struct dev *d, void *out, const void *arguments)
{
	struct quant_job j = ((const struct arguments *)arguments)->job;

	if (d->ops->fill(d, out, 0, 1) < 0)
		return -1;
	j.bad = out;
	return d->ops->quant->decode(d, &j);
}

/* Of as many equal symbols, `used` bytes beside them, of which the last is `end`. */
static void malformed(struct kcheck *k, const struct quant *q, unsigned char symbol,
	uint32_t used, unsigned char end)
{
	const uint32_t n = 1001, want = 1;
	struct arguments a = { .job = { .q = *q, .n = n } };
	struct kcase c = { .arguments = &a, .run = run_malformed, .want = &want };
	struct quant_step step = { 0 };
	struct quant_layout l;
	unsigned char *planes;
	float *x = zeroed(n * 4);

	quant_layout(&l, q, 0);
	planes = zeroed(l.chunk_bytes);
	memset(planes, symbol, n);
	if (used)
		quant_plane_at(&l, planes, 1, 0, 1)[used - 1] = end;
	a.job.planes = kcheck_put(k, planes, l.chunk_bytes, 0);
	a.job.used = kcheck_put(k, &used, 4, 0);
	a.job.steps = kcheck_put(k, &step, sizeof step, 0);
	a.job.elements = kcheck_put(k, x, n * 4, 0);
	c.out_bytes = 4;
	snprintf(c.label, sizeof c.label,
		"malformed, method %d, symbols %u, %u beside, %u", (int)q->method, symbol,
		used, end);
	kcheck_case(k, &c);
	free(planes), free(x);
}

static void elementwise(struct kcheck *k, enum data kind, uint64_t n);

void check_quant(struct kcheck *k)
{
	static const uint64_t lengths[] = { 1, 17, 255, 257, 1000, 4096, 4161,
		65536 + 300 };
	size_t count = sizeof lengths / sizeof *lengths;

	for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
		if (k->bench) {
			one(k, &configs[i], GAUSS, 4 << 20, 0);
			continue;
		}
		for (size_t m = 0; m < count; m++)
			if (!k->slow || lengths[m] < 300 || (i % 4 == 2 && m == 6))
				one(k, &configs[i], (enum data)(m % 2), lengths[m],
					(unsigned)(m % 3) * 4);
		for (int kind = ZEROS; kind < NEAR_64; kind++)
			one(k, &configs[i], (enum data)kind, k->slow ? 600 : 4500, 0);
	}
	/* more than a tile, and than a chunk, of methods that a GPU codes by tiles and by blocks */
	for (size_t i = 12; k->slow && i <= 18; i += 2)
		one(k, &configs[i], ANY_BITS, i == 14 ? 65536 + 300 : 4500,
			i % 4 ? 0 : 4);
	elementwise(k, GAUSS, k->bench ? 4 << 20 : 3000);
	if (k->bench)
		return;
	one(k, &configs[14], NEAR_64, k->slow ? 3000 : 4500, 0);
	elementwise(k, ANY_BITS, 1001);
	elementwise(k, HUGE_RANGE, k->slow ? 66000 : 140000);
	if (!k->slow)
		one(k, &configs[19], GAUSS, QUANT_CHUNK_TOPK + 5000, 0);
	malformed(k, &configs[14].q, 70, 499,
		0); /* 1001 of 5 bits take 626 bytes, of the last 5 bits */
	malformed(k, &configs[14].q, 70, 627, 0);
	malformed(k, &configs[14].q, 70, 626, 0x20);
	malformed(k, &configs[14].q, 0, 1, 0);
	malformed(k, &configs[17].q, QUANT_WHOLE, 3999, 0);
	malformed(k, &configs[19].q, 255, 0, 0);
	malformed(k, &configs[19].q, 4, 0, 0);
}

/* --- operations on elements and statistics ------------------------------------------------ */

struct pair {
	const float *x, *y;
	const uint16_t *half;
	uint64_t n, chunk;
};

static int run_carry(struct dev *d, void *out, const void *arguments)
{
	const struct pair *p = arguments;

	if (d->ops->copy(d, out, p->y, p->n * 4) < 0)
		return -1;
	return d->ops->quant->carry(d, out, p->x, 0.95f, p->n);
}

static int run_remain(struct dev *d, void *out, const void *arguments)
{
	const struct pair *p = arguments;

	if (d->ops->copy(d, out, p->y, p->n * 4) < 0)
		return -1;
	return d->ops->quant->remain(d, out, p->x, p->n);
}

static int run_widen(struct dev *d, void *out, const void *arguments)
{
	const struct pair *p = arguments;

	return d->ops->quant->widen(d, out, p->half, p->n);
}

static int run_narrow(struct dev *d, void *out, const void *arguments)
{
	const struct pair *p = arguments;

	return d->ops->quant->narrow(d, out, p->x, p->n);
}

static int run_spread(struct dev *d, void *out, const void *arguments)
{
	const struct pair *p = arguments;

	if (d->ops->fill(d, out, 5, (p->n + p->chunk - 1) / p->chunk * QUANT_BINS) < 0)
		return -1;
	return d->ops->quant->spread(d, out, p->x, p->y, CARRY, p->n, p->chunk);
}

/* Replaces NaN: a sum of two NaN may be either of them, and results are compared bit by bit. */
static void tame(float *x, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		if (x[i] != x[i])
			x[i] = INFINITY;
}

static void elementwise(struct kcheck *k, enum data kind, uint64_t n)
{
	uint64_t chunks = (n + QUANT_CHUNK - 1) / QUANT_CHUNK;
	struct pair p = { .n = n };
	struct kcase c = { .arguments = &p, .work = (double)n * 4, .unit = "B" };
	uint32_t *words = zeroed(n * 8), *bins = zeroed(chunks * QUANT_BINS * 4);
	float *x = zeroed(n * 4), *y = zeroed(n * 4), *want = zeroed(n * 4);
	uint16_t *half = zeroed(n * 2);

	kcheck_random(words, n * 8, n);
	for (uint64_t i = 0; i < n; i++) {
		x[i] = value_of(kind, words, i);
		y[i] = value_of(kind, words, i + n);
	}
	tame(x, n), tame(y, n);
	for (uint64_t i = 0; i < n; i++)
		want[i] = quant_remaining(y[i], x[i]);
	p.x = kcheck_put(k, x, n * 4, 4), p.y = kcheck_put(k, y, n * 4, 8);
	c.want = want, c.out_bytes = n * 4, c.offset = 12, c.run = run_remain;
	snprintf(c.label, sizeof c.label, "remain, %s", data_names[kind]);
	kcheck_case(k, &c);

	for (uint64_t i = 0; i < n; i++)
		want[i] = bf16_to_f32(((uint16_t *)words)[i]);
	p.half = kcheck_put(k, words, n * 2, 2);
	c.run = run_widen;
	snprintf(c.label, sizeof c.label, "widen");
	kcheck_case(k, &c);

	for (uint64_t i = 0; i < n; i++)
		half[i] = bf16_from_f32(x[i]);
	p.x = kcheck_put(k, x, n * 4, 4);
	c.run = run_narrow, c.want = half, c.out_bytes = n * 2, c.offset = 2;
	snprintf(c.label, sizeof c.label, "narrow, %s", data_names[kind]);
	kcheck_case(k, &c);

	c.run = run_spread, c.want = bins, c.offset = 0;
	/* of x, of sums with y that lie as x does, and of others */
	for (unsigned way = 0; way < 3; way++)
		for (p.chunk = QUANT_CHUNK;; p.chunk = n) {
			uint64_t groups = (n + p.chunk - 1) / p.chunk;

			for (uint64_t i = 0; i < n; i++)
				want[i] = way ? quant_carried(y[i], x[i], CARRY) : x[i];
			for (uint64_t i = 0; i < groups * QUANT_BINS; i++)
				bins[i] = 5; /* the operation adds to them */
			for (uint64_t g = 0; g < groups; g++)
				quant_spread_ref(bins + g * QUANT_BINS,
					want + g * p.chunk,
					n - g * p.chunk < p.chunk ? n - g * p.chunk :
								    p.chunk);
			p.x = kcheck_put(k, x, n * 4, way < 2 ? 0 : 4);
			p.y = way ? kcheck_put(k, y, n * 4, 0) : NULL;
			c.out_bytes = groups * QUANT_BINS * 4;
			snprintf(c.label, sizeof c.label, "spread, %s, chunk %llu, %u",
				data_names[kind], (unsigned long long)p.chunk, way);
			kcheck_case(k, &c);
			if (p.chunk == n || n < QUANT_CHUNK)
				break;
		}

	for (uint64_t i = 0; i < n; i++) {
		x[i] = value_of(kind, words, i); /* NaN too */
		y[i] = value_of(kind, words, i + n);
		want[i] = quant_carried(y[i], x[i], 0.95f);
	}
	p.x = kcheck_put(k, x, n * 4, 4), p.y = kcheck_put(k, y, n * 4, 8);
	c.want = want, c.out_bytes = n * 4, c.offset = 12, c.run = run_carry;
	snprintf(c.label, sizeof c.label, "carry, %s", data_names[kind]);
	kcheck_case(k, &c);
	free(words), free(bins), free(x), free(y), free(want), free(half);
}
