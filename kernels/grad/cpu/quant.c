/* quant.c - the operations of quant.h on the CPU: the team shares chunks and stretches of
 * elements. */
#include "kernels/grad/cpu/cpu.h"

#include <stdlib.h>

#include "kernels/dev/dev_cpu.h"

#define GRAIN 65536 /* elements */

void quant_cpu_choose(struct quant_cpu *out, enum cpu_level level)
{
	*out = (struct quant_cpu){ quant_encode_ref, quant_decode_ref, quant_spread_ref };
	(void)level; /* only of x86 are there several */
#ifdef __x86_64__
	if (level >= CPU_AVX2)
		*out = (struct quant_cpu){ quant_encode_avx2, quant_decode_avx2,
			quant_spread_tables };
	if (level >= CPU_AVX512)
		*out = (struct quant_cpu){ quant_encode_avx512, quant_decode_avx512,
			quant_spread_tables };
#endif
}

CPU_OPEN(quant)

struct work {
	const struct quant_job *j;
	const struct quant_cpu *k;
};

/* Arguments of the function that processes a chunk. */
struct piece {
	char *elements;
	unsigned char *planes[QUANT_PLANES_MAX];
	uint32_t n;
	const struct quant_step *step;
};

static struct piece piece_of(const struct quant_job *j, uint64_t c)
{
	uint64_t chunk = quant_chunk(j->q.method), at = c * chunk;
	struct quant_layout l;
	struct piece p = {
		.elements = (char *)j->elements + at * (j->q.bf16 ? 2 : 4),
		.n = (uint32_t)(j->n - at < chunk ? j->n - at : chunk),
		.step = j->steps ? j->steps + c : NULL,
	};

	quant_layout(&l, &j->q, p.n);
	for (int i = 0; i < l.planes; i++)
		p.planes[i] = quant_plane_at(&l, j->planes,
			quant_chunks(j->q.method, j->n), c, i);
	return p;
}

static void encode_part(void *work, uint64_t from, uint64_t to)
{
	const struct work *w = work;

	for (uint64_t c = from; c < to; c++) {
		struct piece p = piece_of(w->j, c);

		w->j->used[c] = w->k->encode(p.planes, p.elements, p.n, &w->j->q, p.step,
			w->j->first + c * quant_chunk(w->j->q.method));
	}
}

static void decode_part(void *work, uint64_t from, uint64_t to)
{
	const struct work *w = work;

	for (uint64_t c = from; c < to; c++) {
		struct piece p = piece_of(w->j, c);

		if (!w->k->decode(p.elements, (const unsigned char *const *)p.planes,
			    w->j->used[c], p.n, &w->j->q, p.step))
			__atomic_store_n(w->j->bad, 1, __ATOMIC_RELAXED);
	}
}

static int chunks(struct dev *d, const struct quant_job *j, team_part_fn part)
{
	struct work w = { j, cpu_of(d)->quant };

	return cpu_in_parts(d, quant_chunks(j->q.method, j->n), 1, part, &w);
}

static int cpu_encode(struct dev *d, const struct quant_job *j)
{
	return chunks(d, j, encode_part);
}

static int cpu_decode(struct dev *d, const struct quant_job *j)
{
	return chunks(d, j, decode_part);
}

struct stretch {
	const struct quant_cpu *k;
	uint32_t *bins;
	float *y;
	const float *x, *e;
	float b;
	uint64_t n, chunk;
	uint16_t *half;
	const uint16_t *half_in;
};

#define SUMMED 2048 /* elements, which stay in the first cache */

/* Counts n elements from `at` on, or what error feedback makes of them. */
static void spread_some(const struct stretch *s, uint32_t *bins, uint64_t at, uint64_t n)
{
	float sum[SUMMED];

	if (!s->e) {
		s->k->spread(bins, s->x + at, n);
		return;
	}
	for (uint64_t end = at + n; at < end; at += SUMMED) {
		uint64_t part = end - at < SUMMED ? end - at : SUMMED;

#pragma omp simd
		for (uint64_t i = 0; i < part; i++)
			sum[i] = quant_carried(s->e[at + i], s->x[at + i], s->b);
		s->k->spread(bins, sum, part);
	}
}

/* each thread has its own bins */
static void spread_part(void *work, uint64_t from, uint64_t to)
{
	const struct stretch *s = work;
	uint32_t bins[QUANT_BINS] = { 0 };

	spread_some(s, bins, from, to - from);
	for (int i = 0; i < QUANT_BINS; i++)
		if (bins[i])
			__atomic_fetch_add(&s->bins[i], bins[i], __ATOMIC_RELAXED);
}

static void spread_chunks(void *work, uint64_t from, uint64_t to)
{
	const struct stretch *s = work;

	for (uint64_t c = from; c < to; c++) {
		uint64_t at = c * s->chunk;

		spread_some(s, s->bins + c * QUANT_BINS, at,
			s->n - at < s->chunk ? s->n - at : s->chunk);
	}
}

static int cpu_spread(struct dev *d, uint32_t *bins, const float *x, const float *e,
	float b, uint64_t n, uint64_t chunk)
{
	struct stretch s = { .k = cpu_of(d)->quant,
		.bins = bins,
		.x = x,
		.e = e,
		.b = b,
		.n = n,
		.chunk = chunk };

	if (chunk >= n)
		return cpu_in_parts(d, n, GRAIN, spread_part, &s);
	return cpu_in_parts(d, (n + chunk - 1) / chunk, 1, spread_chunks, &s);
}

/* An operation on each element i of a range, by the team. */
#define EACH(name, statement)                                                       \
	static void name(void *work, uint64_t from, uint64_t to)                    \
	{                                                                           \
		const struct stretch *s = work;                                     \
                                                                                    \
		_Pragma("omp simd") for (uint64_t i = from; i < to; i++) statement; \
	}

EACH(carry_part, s->y[i] = quant_carried(s->y[i], s->x[i], s->b))
EACH(remain_part, s->y[i] = quant_remaining(s->y[i], s->x[i]))
EACH(widen_part, s->y[i] = bf16_to_f32(s->half_in[i]))
EACH(narrow_part, s->half[i] = bf16_from_f32(s->x[i]))

static int over(struct dev *d, uint64_t n, team_part_fn part, struct stretch s)
{
	return cpu_in_parts(d, n, GRAIN, part, &s);
}

static int cpu_carry(struct dev *d, float *e, const float *x, float b, uint64_t n)
{
	return over(d, n, carry_part, (struct stretch){ .y = e, .x = x, .b = b });
}

static int cpu_remain(struct dev *d, float *e, const float *sent, uint64_t n)
{
	return over(d, n, remain_part, (struct stretch){ .y = e, .x = sent });
}

static int cpu_widen(struct dev *d, float *out, const uint16_t *bf16, uint64_t n)
{
	return over(d, n, widen_part, (struct stretch){ .y = out, .half_in = bf16 });
}

static int cpu_narrow(struct dev *d, uint16_t *bf16, const float *in, uint64_t n)
{
	return over(d, n, narrow_part, (struct stretch){ .half = bf16, .x = in });
}

struct feed {
	struct work encode, decode;
	struct stretch carry, remain;
};

/* Whole chunks, so that a chunk's values are in the cache from the sum to the residual. */
static void feed_part(void *work, uint64_t from, uint64_t to)
{
	struct feed *f = work;
	const struct quant_job *j = f->encode.j;
	uint64_t chunk = quant_chunk(j->q.method);

	for (uint64_t c = from; c < to; c++) {
		uint64_t at = c * chunk, end = j->n - at < chunk ? j->n : at + chunk;

		carry_part(&f->carry, at, end);
		encode_part(&f->encode, c, c + 1);
		decode_part(&f->decode, c, c + 1);
		remain_part(&f->remain, at, end);
	}
}

static int cpu_feed(struct dev *d, const struct quant_job *j, float *sent, const float *x,
	float b)
{
	const struct quant_cpu *k = cpu_of(d)->quant;
	struct quant_job sends = *j;
	struct feed f = { { j, k }, { &sends, k }, { .y = j->elements, .x = x, .b = b },
		{ .y = j->elements, .x = sent } };

	sends.elements = sent;
	return cpu_in_parts(d, quant_chunks(j->q.method, j->n), 1, feed_part, &f);
}

CPU_TABLE(quant, QUANT_OPS);
