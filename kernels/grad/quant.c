/* quant.c - reference of the quantisers: floats to symbols and side information, and back. */
#include "kernels/grad/quant.h"

#include "kernels/grad/quant_parts.h"

/* --- layout -------------------------------------------------------------------------------- */

/* Adds a plane of `full` bytes in a whole chunk and `bytes` in this one. */
static void add_plane(struct quant_layout *l, uint32_t full, uint32_t bytes, bool coded)
{
	uint32_t stride = (full + 63) & ~UINT32_C(63);

	l->plane[l->planes++] = (struct quant_plane){ .stride = stride,
		.before = l->chunk_bytes,
		.bytes = bytes,
		.coded = coded };
	l->chunk_bytes += stride;
}

static void add_scales(struct quant_layout *l, uint32_t full, uint32_t count)
{
	add_plane(l, full, count, true);
	add_plane(l, full, count, false);
}

static void add_beside(struct quant_layout *l, uint32_t full, uint32_t n)
{
	add_plane(l, full * 4, n * 4, false);
	l->plane[l->planes - 1].variable = true;
}

static uint32_t kept_of(uint32_t n, uint32_t block)
{
	uint32_t rest = n % block;

	return n / block * (block / QUANT_TOPK_SHARE) +
		(rest + QUANT_TOPK_SHARE - 1) / QUANT_TOPK_SHARE;
}

static void topk_planes(struct quant_layout *l, uint32_t full, uint32_t n, uint32_t block)
{
	uint32_t max = full / QUANT_TOPK_SHARE, kept = kept_of(n, block);
	uint32_t blocks = (n + block - 1) / block;

	add_plane(l, max, kept, true);                /* gaps / 16 */
	add_plane(l, max / 2, (kept + 1) / 2, false); /* gaps % 16, the first one low */
	add_plane(l, max / 4, (kept + 3) / 4, false); /* negative | large << 1 */
	add_scales(l, full / block * 2, blocks * 2);  /* small and large magnitude */
}

void quant_layout(struct quant_layout *out, const struct quant *q, uint32_t n)
{
	uint32_t full = quant_chunk(q->method);
	uint32_t blocks = q->block ? (n + q->block - 1) / q->block : 0;

	*out = (struct quant_layout){ 0 };
	switch (q->method) {
	case QUANT_NONE:
		add_plane(out, full * 4, n * (q->bf16 ? 2 : 4), false);
		break;
	case QUANT_LOSSLESS:
		add_plane(out, full, n, true);
		add_plane(out, full, n, false);
		if (!q->bf16)
			add_plane(out, full * 2, n * 2, false);
		break;
	case QUANT_F16:
	case QUANT_BF16:
		add_plane(out, full, n, true);
		add_plane(out, full, n, false);
		break;
	case QUANT_FP8E4:
	case QUANT_FP8E5:
		add_plane(out, full, n, true);
		break;
	case QUANT_ECQ:
		add_plane(out, full, n, true);
		add_beside(out, full, n);
		break;
	case QUANT_QSGD:
		add_plane(out, full, n, true);
		add_beside(out, full, n);
		add_scales(out, full / q->block, blocks);
		break;
	case QUANT_TOPK:
		topk_planes(out, full, n, q->block);
		break;
	default:
		add_plane(out, full, n, true);
		if (q->sigma)
			add_plane(out, 8, 8, false); /* mean, step */
		else
			add_scales(out, full / q->block, blocks);
	}
}

bool quant_valid(const struct quant *q)
{
	bool power = q->block && !(q->block & (q->block - 1));
	bool q84 = q->method == QUANT_Q8 || q->method == QUANT_Q4;

	if ((unsigned)q->method >= QUANT_METHODS || ((q->sigma || q->stochastic) && !q84))
		return false;
	if (q->bf16 && q->method != QUANT_NONE && q->method != QUANT_LOSSLESS)
		return false;
	if (q->method == QUANT_TOPK)
		return power && q->block >= 256 && q->block <= 4096;
	if (q->method == QUANT_QSGD && (!q->levels || q->levels > QUANT_LEVELS_MAX))
		return false;
	if ((q84 && !q->sigma) || q->method == QUANT_E3M0 || q->method == QUANT_QSGD)
		return power && q->block >= 16 && q->block <= QUANT_CHUNK;
	return true;
}

struct philox quant_philox(const struct quant *q, uint64_t first)
{
	return (struct philox){ .seed = q->seed,
		.stream = QUANT_STREAM,
		.block = first / 4 };
}

/* --- sums ---------------------------------------------------------------------------------- */

static void run_sums(struct quant_sums *total, const float *x, uint32_t n)
{
	double sum[QUANT_LANES] = { 0 }, squares[QUANT_LANES] = { 0 };

	for (uint32_t i = 0; i < n; i++) {
		double v = quant_finite(x[i]) ? (double)x[i] : 0;

		sum[i % QUANT_LANES] += v;
		squares[i % QUANT_LANES] += v * v;
		total->count += quant_finite(x[i]);
	}
	for (int half = QUANT_LANES / 2; half; half /= 2)
		for (int i = 0; i < half; i++) {
			sum[i] += sum[i + half];
			squares[i] += squares[i + half];
		}
	total->sum += sum[0];
	total->squares += squares[0];
}

void quant_sums_add(struct quant_sums *total, const float *x, uint32_t n)
{
	for (uint32_t at = 0; at < n; at += QUANT_RUN)
		run_sums(total, x + at, n - at < QUANT_RUN ? n - at : QUANT_RUN);
}

void quant_spread_ref(uint32_t *bins, const float *x, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		if (quant_finite(x[i]))
			bins[quant_bin(quant_magnitude(x[i]))]++;
}

/* --- what stands beside symbols ------------------------------------------------------------- */

/* Reads the next n bits; the caller has checked that they exist. */
static uint32_t bits_get(struct quant_bits *b, int n)
{
	uint64_t v;

	for (; b->count < n; b->count += 8)
		b->held |= (uint64_t)*b->at++ << b->count;
	v = b->held & ((UINT64_C(1) << n) - 1);
	b->held >>= n;
	b->count -= n;
	return (uint32_t)v;
}

/* Whether the side information of these symbols takes exactly `used` bytes and is padded with
 * zero bits. */
static bool beside_fits(const unsigned char *symbols, uint32_t n,
	const unsigned char *beside, uint32_t used)
{
	uint64_t bits = 0;

	for (uint32_t i = 0; i < n; i++)
		bits += (uint64_t)quant_wide_bits(symbols[i]);
	return used == (bits + 7) / 8 &&
		(bits % 8 == 0 || !(beside[used - 1] >> bits % 8));
}

/* --- encode -------------------------------------------------------------------------------- */

static void lossless(unsigned char *const p[], const void *in, uint32_t n, bool bf16)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t bits;
		uint16_t upper;

		if (bf16) {
			memcpy(&upper, (const char *)in + 2 * (size_t)i, 2);
		} else {
			memcpy(&bits, (const char *)in + 4 * (size_t)i, 4);
			upper = (uint16_t)(bits >> 16);
			p[2][2 * i] = (unsigned char)bits;
			p[2][2 * i + 1] = (unsigned char)(bits >> 8);
		}
		p[0][i] = (unsigned char)(upper >> 7);
		p[1][i] = (unsigned char)((upper >> 8 & 0x80) | (upper & 0x7f));
	}
}

static void put_scale(unsigned char *upper, unsigned char *lower, uint32_t i,
	uint16_t scale)
{
	upper[i] = (unsigned char)(scale >> 8);
	lower[i] = (unsigned char)scale;
}

static float get_scale(const unsigned char *upper, const unsigned char *lower, uint32_t i)
{
	return bf16_to_f32((uint16_t)(upper[i] << 8 | lower[i]));
}

static float absmax_of(const float *x, uint32_t n)
{
	float max = 0;

	for (uint32_t i = 0; i < n; i++)
		if (quant_finite(x[i]) && fabsf(x[i]) > max)
			max = fabsf(x[i]);
	return max;
}

/* n elements from index `first` on; shift is subtracted first */
static void levels(unsigned char *out, const float *x, uint32_t n, const struct quant *q,
	float inverse, float shift, uint64_t first)
{
	int max = quant_level_max(q->method);

	for (uint32_t i = 0; i < n; i++) {
		float t = quant_clamp((x[i] - shift) * inverse, (float)max);
		int32_t level;

		if (!quant_finite(x[i])) {
			out[i] = q->method == QUANT_Q8 ? QUANT_Q8_NAN : QUANT_Q4_NAN;
			continue;
		}
		level = q->stochastic ? quant_chance(t, quant_word(q->seed, first + i)) :
					quant_nearest(t);
		out[i] = quant_symbol(level, q->method);
	}
}

static void absmax_blocks(unsigned char *const p[], const float *x, uint32_t n,
	const struct quant *q, uint64_t first)
{
	for (uint32_t at = 0, b = 0; at < n; at += q->block, b++) {
		uint32_t m = n - at < q->block ? n - at : q->block;
		float max = absmax_of(x + at, m);
		uint16_t scale;

		if (q->method == QUANT_E3M0) {
			scale = quant_scale(max, false);
			for (uint32_t i = 0; i < m; i++)
				p[0][at + i] = quant_e3m0_symbol(x[at + i],
					quant_inverse(bf16_to_f32(scale)));
		} else {
			scale = quant_level_scale(max, q->method, q->stochastic);
			levels(p[0] + at, x + at, m, q, quant_inverse(bf16_to_f32(scale)),
				0, first + at);
		}
		put_scale(p[1], p[2], b, scale);
	}
}

static void sigma(unsigned char *const p[], const float *x, uint32_t n,
	const struct quant *q, uint64_t first)
{
	struct quant_sums s = { 0 };
	float mean[2];

	quant_sums_add(&s, x, n);
	mean[1] = quant_sigma_step(&s, quant_level_max(q->method), &mean[0]);
	levels(p[0], x, n, q, quant_inverse(mean[1]), mean[0], first);
	memcpy(p[1], mean, sizeof mean);
}

static uint32_t ecq(unsigned char *const p[], const float *x, uint32_t n,
	const struct quant_step *step)
{
	struct quant_bits beside = { .at = p[1] };

	for (uint32_t i = 0; i < n; i++) {
		uint32_t m;

		p[0][i] = quant_ecq_symbol(x[i], step, &m);
		if (quant_wide_bits(p[0][i]))
			quant_bits_put(&beside, quant_wide_beside(p[0][i], m),
				quant_wide_bits(p[0][i]));
	}
	return quant_bits_end(&beside, p[1]);
}

static uint32_t qsgd(unsigned char *const p[], const float *x, uint32_t n,
	const struct quant *q, uint64_t first)
{
	struct quant_bits beside = { .at = p[1] };

	for (uint32_t at = 0, b = 0; at < n; at += q->block, b++) {
		uint32_t end = n - at < q->block ? n : at + q->block;
		struct quant_sums s = { 0 };
		uint16_t scale;
		float norm;

		quant_sums_add(&s, x + at, end - at);
		scale = quant_scale((float)sqrt(s.squares), true);
		put_scale(p[2], p[3], b, scale);
		norm = bf16_to_f32(scale);
		for (uint32_t i = at; i < end; i++) {
			float inverse = norm > 0 ? (float)q->levels / norm : 0;
			uint32_t m;

			p[0][i] = quant_qsgd_symbol(x[i], inverse, (float)q->levels,
				quant_word(q->seed, first + i), &m);
			if (quant_wide_bits(p[0][i]))
				quant_bits_put(&beside, quant_wide_beside(p[0][i], m),
					quant_wide_bits(p[0][i]));
		}
	}
	return quant_bits_end(&beside, p[1]);
}

/* --- the largest of a block ------------------------------------------------------------------- */

/* Returns the largest magnitude that at least k of the n reach. */
static uint32_t threshold_of(const float *x, uint32_t n, uint32_t k)
{
	uint32_t threshold = 0;

	for (uint32_t bit = 1u << 30; bit; bit >>= 1) {
		uint32_t count = 0;

		for (uint32_t i = 0; i < n; i++)
			count += quant_magnitude(x[i]) >= (threshold | bit);
		if (count >= k)
			threshold |= bit;
	}
	return threshold;
}

/* Encodes one block of n elements, the g-th of its chunk; its kept elements are stored from
 * `at` on. */
static void topk_block(unsigned char *const p[], const float *x, uint32_t n, uint32_t g,
	uint32_t at, quant_threshold_fn threshold_fn)
{
	uint32_t k = (n + QUANT_TOPK_SHARE - 1) / QUANT_TOPK_SHARE, found = 0, next = 0;
	uint32_t threshold = threshold_fn(x, n, k), equal = k;
	float kept[QUANT_TOPK_SHARE];
	bool negative[QUANT_TOPK_SHARE], finite = true;
	uint16_t means[2] = { 0x7fc0, 0x7fc0 };
	uint64_t large = 0;

	for (uint32_t i = 0; i < n; i++)
		equal -= quant_magnitude(x[i]) > threshold;
	for (uint32_t i = 0; i < n && found < k; i++) {
		uint32_t m = quant_magnitude(x[i]), gap = i - next, to = at + found;

		if (m < threshold || (m == threshold && !equal))
			continue;
		equal -= m == threshold;
		p[0][to] = (unsigned char)(gap >> 4);
		p[1][to / 2] = (unsigned char)(to % 2 ? p[1][to / 2] | (gap & 15) << 4 :
							gap & 15);
		kept[found] = half_float_of_bits(m);
		negative[found] = half_bits_of_float(x[i]) >> 31;
		finite = finite && quant_finite(x[i]);
		next = i + 1;
		found++;
	}
	if (finite)
		quant_two_means(means, &large, kept, k);
	for (uint32_t i = 0; i < k; i++) {
		unsigned char *byte = &p[2][(at + i) / 4];
		int place = (int)((at + i) % 4) * 2;

		*byte = (unsigned char)((place ? *byte : 0) |
			(negative[i] | (large >> i & 1) << 1) << place);
	}
	put_scale(p[3], p[4], 2 * g, means[0]);
	put_scale(p[3], p[4], 2 * g + 1, means[1]);
}

void quant_topk(unsigned char *const p[], const float *x, uint32_t n, uint32_t block,
	quant_threshold_fn threshold)
{
	for (uint32_t at = 0, g = 0; at < n; at += block, g++)
		topk_block(p, x + at, n - at < block ? n - at : block, g,
			at / QUANT_TOPK_SHARE, threshold);
}

uint32_t quant_encode_ref(unsigned char *const p[], const void *in, uint32_t n,
	const struct quant *q, const struct quant_step *step, uint64_t first)
{
	const float *x = in;

	switch (q->method) {
	case QUANT_NONE:
		memcpy(p[0], in, (size_t)n * (q->bf16 ? 2 : 4));
		break;
	case QUANT_LOSSLESS:
		lossless(p, in, n, q->bf16);
		break;
	case QUANT_F16:
	case QUANT_BF16:
		for (uint32_t i = 0; i < n; i++) {
			uint16_t h = q->method == QUANT_F16 ? f16_from_f32(x[i]) :
							      bf16_from_f32(x[i]);

			p[0][i] = (unsigned char)(h >> 8);
			p[1][i] = (unsigned char)h;
		}
		break;
	case QUANT_FP8E4:
		for (uint32_t i = 0; i < n; i++)
			p[0][i] = f8_from_f32(x[i]);
		break;
	case QUANT_FP8E5:
		for (uint32_t i = 0; i < n; i++)
			p[0][i] = quant_fp8e5_from_f32(x[i]);
		break;
	case QUANT_ECQ:
		return ecq(p, x, n, step);
	case QUANT_QSGD:
		return qsgd(p, x, n, q, first);
	case QUANT_TOPK:
		quant_topk(p, x, n, q->block, threshold_of);
		break;
	default:
		if (q->sigma)
			sigma(p, x, n, q, first);
		else
			absmax_blocks(p, x, n, q, first);
	}
	return 0;
}

/* --- decode -------------------------------------------------------------------------------- */

static void lossless_back(void *out, const unsigned char *const p[], uint32_t n,
	bool bf16)
{
	for (uint32_t i = 0; i < n; i++) {
		uint16_t upper = (uint16_t)((p[1][i] & 0x80) << 8 | p[0][i] << 7 |
			(p[1][i] & 0x7f));
		uint32_t bits;

		if (bf16) {
			memcpy((char *)out + 2 * (size_t)i, &upper, 2);
			continue;
		}
		bits = (uint32_t)upper << 16 | (uint32_t)p[2][2 * i + 1] << 8 |
			p[2][2 * i];
		memcpy((char *)out + 4 * (size_t)i, &bits, 4);
	}
}

static void blocks_back(float *out, const unsigned char *const p[], uint32_t n,
	const struct quant *q)
{
	for (uint32_t i = 0; i < n; i++) {
		float scale = get_scale(p[1], p[2], i / q->block);

		out[i] = q->method == QUANT_E3M0 ?
			quant_e3m0_value(p[0][i], scale) :
			quant_value(p[0][i], q->method, scale, 0);
	}
}

static bool ecq_back(float *out, const unsigned char *const p[], uint32_t used,
	uint32_t n, const struct quant_step *step)
{
	struct quant_bits beside = { .at = (unsigned char *)(uintptr_t)p[1] };

	if (!beside_fits(p[0], n, p[1], used))
		return false;
	for (uint32_t i = 0; i < n; i++) {
		int bits = quant_wide_bits(p[0][i]);

		out[i] = quant_ecq_value(p[0][i], bits ? bits_get(&beside, bits) : 0,
			step);
	}
	return true;
}

static bool qsgd_back(float *out, const unsigned char *const p[], uint32_t used,
	uint32_t n, const struct quant *q)
{
	struct quant_bits beside = { .at = (unsigned char *)(uintptr_t)p[1] };

	if (!beside_fits(p[0], n, p[1], used))
		return false;
	for (uint32_t i = 0; i < n; i++) {
		int bits = quant_wide_bits(p[0][i]);
		float unit = get_scale(p[2], p[3], i / q->block) / (float)q->levels;

		out[i] = quant_qsgd_value(p[0][i], bits ? bits_get(&beside, bits) : 0,
			unit);
	}
	return true;
}

static bool topk_back(float *out, const unsigned char *const p[], uint32_t n,
	uint32_t block)
{
	memset(out, 0, (size_t)n * sizeof *out);
	for (uint32_t start = 0, g = 0; start < n; start += block, g++) {
		uint32_t m = n - start < block ? n - start : block, at = 0;
		uint32_t from = start / QUANT_TOPK_SHARE;
		uint32_t to = from + (m + QUANT_TOPK_SHARE - 1) / QUANT_TOPK_SHARE;
		float means[2] = { get_scale(p[3], p[4], 2 * g),
			get_scale(p[3], p[4], 2 * g + 1) };

		for (uint32_t i = from; i < to; i++, at++) {
			unsigned value = p[2][i / 4] >> i % 4 * 2;
			float y = means[value >> 1 & 1];

			at += (uint32_t)p[0][i] << 4 | (p[1][i / 2] >> i % 2 * 4 & 15);
			if (at >= m)
				return false;
			out[start + at] = quant_signed(y, value & 1);
		}
	}
	return true;
}

bool quant_decode_ref(void *out, const unsigned char *const p[], uint32_t used,
	uint32_t n, const struct quant *q, const struct quant_step *step)
{
	float *y = out;
	float mean[2];

	switch (q->method) {
	case QUANT_NONE:
		memcpy(out, p[0], (size_t)n * (q->bf16 ? 2 : 4));
		break;
	case QUANT_LOSSLESS:
		lossless_back(out, p, n, q->bf16);
		break;
	case QUANT_F16:
		for (uint32_t i = 0; i < n; i++)
			y[i] = f16_to_f32((uint16_t)(p[0][i] << 8 | p[1][i]));
		break;
	case QUANT_BF16:
		for (uint32_t i = 0; i < n; i++)
			y[i] = bf16_to_f32((uint16_t)(p[0][i] << 8 | p[1][i]));
		break;
	case QUANT_FP8E4:
		for (uint32_t i = 0; i < n; i++)
			y[i] = f8_to_f32(p[0][i]);
		break;
	case QUANT_FP8E5:
		for (uint32_t i = 0; i < n; i++)
			y[i] = quant_fp8e5_to_f32(p[0][i]);
		break;
	case QUANT_ECQ:
		return ecq_back(y, p, used, n, step);
	case QUANT_QSGD:
		return qsgd_back(y, p, used, n, q);
	case QUANT_TOPK:
		return topk_back(y, p, n, q->block);
	default:
		if (!q->sigma) {
			blocks_back(y, p, n, q);
			break;
		}
		memcpy(mean, p[1], sizeof mean);
		for (uint32_t i = 0; i < n; i++)
			y[i] = quant_value(p[0][i], q->method, mean[1], mean[0]);
	}
	return true;
}
