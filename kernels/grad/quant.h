/* quant.h - floats as small symbols and side information, and back: level 1 of the gradient
 * compressor.
 *
 * A sequence of floats is divided into chunks of 65536 (topk: 1048576), each coded alone into
 * planes: arrays of bytes with one kind of content each, so that an entropy coder sees one
 * distribution at a time. quant_layout() lists them. Every version writes the same bytes: each
 * result is a formula of single-rounded IEEE operations given here, sums have a stated order,
 * and nothing is contracted to a fused multiply-add.
 *
 * A block is `block` adjacent elements of a chunk; the last one may be shorter. absmax is over
 * the finite elements of the block; a scale below 2^-100 counts as 0 and makes the block zero.
 * How an element x is coded:
 *
 *   none      unchanged. lossless: exponent byte | sign and upper 7 bits of the mantissa | for f32
 *             the 16 bits below
 *   f16, bf16, fp8e4, fp8e5   half.h: nearest even, too large is infinite (fp8e4 has none: NaN), a
 *                             NaN stays one
 *   q8, q4    s = bf16(absmax / L), L = 127 or 7; level = nearest even of x (1/s) within -L .. L; y
 *             = level s.
 *             stochastic: s rounded up, level = floor(t) + (u < t - floor(t)), u = the upper 24
 *             bits of the Philox word
 *             of the element's index / 2^24, so that the mean of y is x. If L s would not be
 *             finite, s is the next bf16
 *             below, and levels beyond L become L: absmax is then within 2^-8 of the largest float.
 *   sigma     (q8, q4) s = 6 sigma / L, level of x - mean, y = mean + level s; mean and sigma of
 *             the chunk's finite elements.
 *             s is limited so that |mean| + L s stays below the largest float.
 *   e3m0      s = bf16(absmax), r = |x| / s: 0 below 2^-7, else the nearest of s 2^-6 .. s 2^0 by r
 *             (half way: the larger)
 *   qsgd:s    S = L2 norm of the block in bf16, rounded up; m = stochastic(|x| (s/S)) at most s; y
 *             = m (S/s).
 *             Alistarh et al., QSGD (arXiv 1610.02132)
 *   ecq       m = floor(|x| inverse + rounding); y = first for m = 1, m step - shift beyond. A
 *             uniform quantiser
 *             with a dead zone and two centroids; Sullivan, Efficient scalar quantization (1996).
 *             An x of 2^127 or more
 *             whose y would not be finite is stored whole.
 *   topk      per block of b (256 .. 4096) the b/64 of largest |x|, among equals the first; two
 *             magnitudes, the means of
 *             those below and not below the mean, in bf16. SparseLoCo (arXiv 2603.08163)
 *
 * Not finite: q8, q4, e3m0 (with and without sigma) have a symbol that means NaN, for NaN and
 * infinity alike; qsgd and ecq store such elements whole; a block of topk that contains one
 * decodes its kept elements as NaN. Neighbours are not affected. Finite elements stay finite,
 * except for what the ranges of f16 to fp8e5 cannot hold. The sign of a zero is lost where a
 * level is 0.
 *
 * Error: nearest rounding is within s/2 (1 + 2^-20); bf16 scales change s by 2^-9 at most. libc
 * only. */
#ifndef RNP_KERNELS_GRAD_QUANT_H
#define RNP_KERNELS_GRAD_QUANT_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "kernels/dev/half.h"
#include "kernels/dev/hd.h"
#include "kernels/dev/philox.h"

enum quant_method { /* stored in containers: never renumber */
	QUANT_NONE,
	QUANT_LOSSLESS,
	QUANT_F16,
	QUANT_BF16,
	QUANT_FP8E4,
	QUANT_FP8E5,
	QUANT_Q8,
	QUANT_Q4,
	QUANT_ECQ,
	QUANT_E3M0,
	QUANT_QSGD,
	QUANT_TOPK,
	QUANT_METHODS
};

#define QUANT_CHUNK      65536u
#define QUANT_CHUNK_TOPK 1048576u
#define QUANT_PLANES_MAX 8
#define QUANT_TOPK_SHARE 64         /* one of this many elements is kept */
#define QUANT_LEVELS_MAX 65535u     /* largest `levels` of qsgd */
#define QUANT_TINY       0x1p-100f  /* scales below this are 0 */
#define QUANT_BINS       8192       /* of quant_bin */
#define QUANT_STREAM     0x71756e74 /* Philox stream of stochastic rounding */

struct quant {
	enum quant_method method;
	bool bf16;       /* for none and lossless: the elements are bf16, not f32 */
	bool sigma;      /* for q8 and q4 */
	bool stochastic; /* for q8 and q4 */
	/* for q8, q4, e3m0, qsgd: a power of two, 16 .. 65536; topk: 256 .. 4096 */
	uint32_t block;
	uint32_t levels; /* for qsgd: 1 .. QUANT_LEVELS_MAX */
	uint64_t seed;   /* for stochastic rounding and qsgd */
};

/* How ecq rounds. If all are 0, every finite element becomes 0. */
struct quant_step {
	float step, inverse; /* finite, not negative */
	float rounding;      /* 0 .. 0.5 */
	float first, shift;
};

/* One array of bytes in each chunk. */
struct quant_plane {
	uint32_t stride; /* bytes in a whole chunk, rounded up to 64 unless it is 65536 */
	uint64_t before; /* sum of the strides of earlier planes */
	uint32_t bytes;  /* in this chunk; for the variable plane, an upper bound */
	bool coded;      /* worth entropy coding */
	bool variable;   /* its length is known only after encoding, see quant_job */
};

struct quant_layout {
	uint64_t chunk_bytes; /* sum of all strides */
	int planes;
	struct quant_plane plane[QUANT_PLANES_MAX];
};

/* Returns the address of plane p of chunk c, of `chunks` chunks in memory that begins at
 * `base`. Planes of one kind follow one another, so that whole planes of one byte per element
 * form one long row of symbols. */
HD unsigned char *quant_plane_at(const struct quant_layout *l, unsigned char *base,
	uint64_t chunks, uint64_t c, int p)
{
	return base + l->plane[p].before * chunks + c * l->plane[p].stride;
}

/* Adjacent chunks of a sequence; pointers belong to the device. */
struct quant_job {
	struct quant q;
	uint64_t first; /* index of the first element: a multiple of the chunk size */
	uint64_t n;     /* elements */
	/* f32 (bf16: with q.bf16): read by encode, written by decode; aligned to an element */
	void *elements;
	/* chunk_bytes for each chunk, aligned to 64; see quant_plane_at */
	unsigned char *planes;
	uint32_t *used;                 /* for each chunk: length of the variable plane */
	const struct quant_step *steps; /* for ecq: one for each chunk */
	uint32_t *
		/* decode: becomes 1 if planes are malformed; the output is then unspecified */
		bad;
};

/* --- what all versions compute ------------------------------------------------------------- */

/* Operations that no compiler may fuse. */
#ifdef __CUDA_ARCH__
#define QUANT_MUL(a, b)  __fmul_rn(a, b)
#define QUANT_ADD(a, b)  __fadd_rn(a, b)
#define QUANT_DADD(a, b) __dadd_rn(a, b)
#define QUANT_DMUL(a, b) __dmul_rn(a, b)
#else
#define QUANT_MUL(a, b)  ((a) * (b))
#define QUANT_ADD(a, b)  ((a) + (b))
#define QUANT_DADD(a, b) ((a) + (b))
#define QUANT_DMUL(a, b) ((a) * (b))
#endif

HD uint32_t quant_chunk(enum quant_method m)
{
	return m == QUANT_TOPK ? QUANT_CHUNK_TOPK : QUANT_CHUNK;
}

HD uint64_t quant_chunks(enum quant_method m, uint64_t n)
{
	return n / quant_chunk(m) + (n % quant_chunk(m) != 0);
}

/* Returns the element's bits without the sign, which order as the magnitudes do; 0x7f800000 and
 * above is not finite. */
HD uint32_t quant_magnitude(float x)
{
	return half_bits_of_float(x) & 0x7fffffff;
}

HD bool quant_finite(float x)
{
	return quant_magnitude(x) < 0x7f800000;
}

/* Rounds x >= 0 to a bf16 that is finite and not near the subnormals: to nearest, or upwards. */
HD uint16_t quant_scale(float x, bool up)
{
	uint32_t bits = half_bits_of_float(x);

	if (!(x >= QUANT_TINY))
		return 0;
	bits = up ? (bits + 0xffff) >> 16 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
	return (uint16_t)(bits < 0x7f80 ? bits : 0x7f7f);
}

/* L of q8 and q4; L + 1 is the symbol that means NaN. */
HD int quant_level_max(enum quant_method m)
{
	return m == QUANT_Q8 ? 127 : 7;
}

#define QUANT_Q8_NAN   0x80
#define QUANT_Q4_NAN   8
#define QUANT_E3M0_NAN 8

/* Returns the scale of a block of q8 or q4 with this absmax: the next one down if L times it
 * would not be finite. */
HD uint16_t quant_level_scale(float absmax, enum quant_method m, bool up)
{
	float max = (float)quant_level_max(m);
	uint16_t scale = quant_scale(absmax / max, up);

	return (uint16_t)(scale - !quant_finite(QUANT_MUL(max, bf16_to_f32(scale))));
}

/* 1 / scale, or 0 if scale is 0. */
HD float quant_inverse(float scale)
{
	return scale > 0 ? 1.0f / scale : 0;
}

/* Returns y with its sign flipped if negative is 1, also for a NaN. */
HD float quant_signed(float y, uint32_t negative)
{
	return half_float_of_bits(half_bits_of_float(y) ^ negative << 31);
}

/* Returns the nearest integer, half to even, for |t| <= 2^22. */
HD int32_t quant_nearest(float t)
{
	return (int32_t)half_bits_of_float(QUANT_ADD(t, 12582912.0f)) - 0x4b400000;
}

/* Returns floor(t) or the integer above, at random; |t| <= 2^22. */
HD int32_t quant_chance(float t, uint32_t word)
{
	int32_t floor = (int32_t)t - (t < (float)(int32_t)t);

	return floor + ((float)(word >> 8) * 0x1p-24f < t - (float)floor);
}

HD float quant_clamp(float t, float max)
{
	t = t < max ? t : max;
	return t > -max ? t : -max;
}

/* Returns Philox's word of element i. */
HD uint32_t quant_word(uint64_t seed, uint64_t i)
{
	struct philox p;
	uint32_t words[4];

	p.seed = seed;
	p.stream = QUANT_STREAM;
	p.block = 0;
	philox_block(words, &p, i / 4);
	return words[i % 4];
}

/* Returns the symbol of a level: its low 8 or 4 bits. */
HD uint8_t quant_symbol(int32_t level, enum quant_method m)
{
	return (uint8_t)(level & (m == QUANT_Q8 ? 0xff : 0x0f));
}

/* Returns the level of a symbol. q4 ignores the upper bits. */
HD int32_t quant_level(uint8_t symbol, enum quant_method m)
{
	return m == QUANT_Q8 ? (int8_t)symbol : (int8_t)(symbol << 4) >> 4;
}

/* Returns the value of a symbol of q8 or q4. */
HD float quant_value(uint8_t symbol, enum quant_method m, float scale, float shift)
{
	int32_t level = quant_level(symbol, m);

	if (level < -quant_level_max(m))
		return half_float_of_bits(0x7fc00000);
	return QUANT_ADD(QUANT_MUL((float)level, scale), shift);
}

HD uint8_t quant_e3m0_symbol(float x, float inverse)
{
	uint32_t sign = half_bits_of_float(x) >> 31, r;
	int32_t m;

	if (!quant_finite(x))
		return QUANT_E3M0_NAN;
	r = quant_magnitude(QUANT_MUL(x, inverse));
	if (r < (127u - 7) << 23)
		return 0;
	m = (int32_t)((r + 0x400000) >> 23) - 127 + 7;
	m = m < 1 ? 1 : m > 7 ? 7 : m;
	return (uint8_t)((uint32_t)m | sign << 3);
}

HD float quant_e3m0_value(uint8_t symbol, float scale)
{
	uint32_t m = symbol & 7, sign = (uint32_t)(symbol & 8) << 28;

	if (!m)
		return half_float_of_bits(sign ? 0x7fc00000 : 0);
	return QUANT_MUL(half_float_of_bits((127 - 7 + m) << 23 | sign), scale);
}

/* Levels of any size, as a symbol of 8 bits that includes the level's sign: m itself below 64;
 * above, 64 + 4 (e - 6) + f with e the exponent of m (6 .. 21) and f the two bits after its
 * leading one, and the other e - 2 bits go beside it. Neighbouring elements have similar
 * symbols, which the entropy coder uses. QUANT_WHOLE has the 32 bits of x beside it. */
#define QUANT_WHOLE     128
#define QUANT_WHOLE_MIN 4194304.0f /* 2^22: levels from here on are stored whole */

HD int quant_log2(uint32_t m) /* m > 0 */
{
#ifdef __CUDA_ARCH__
	return 31 - __clz((int)m);
#else
	return 31 - __builtin_clz(m);
#endif
}

HD uint8_t quant_wide_symbol(uint32_t m, uint32_t negative)
{
	uint32_t code = m;

	if (m >= 64) {
		int e = quant_log2(m);

		code = 64 + (uint32_t)(e - 6) * 4 + (m >> (e - 2) & 3);
	}
	return (uint8_t)(negative ? 0 - code : code);
}

/* Returns the code of a symbol that is not QUANT_WHOLE: 0 .. 127. */
HD uint32_t quant_wide_code(uint8_t symbol)
{
	return symbol < 128 ? symbol : 256u - symbol;
}

/* Returns the number of bits beside a symbol. */
HD int quant_wide_bits(uint8_t symbol)
{
	uint32_t code = quant_wide_code(symbol);

	if (code < 64)
		return 0;
	return symbol == QUANT_WHOLE ? 32 : (int)(code - 64) / 4 + 4;
}

/* Returns m of a symbol that is not QUANT_WHOLE, given the bits beside it. */
HD uint32_t quant_wide_level(uint8_t symbol, uint32_t beside)
{
	uint32_t code = quant_wide_code(symbol);

	if (code < 64)
		return code;
	return (4 | (code & 3)) << ((code - 64) / 4 + 4) | beside;
}

/* ecq: returns the magnitude of level m. */
HD float quant_ecq_level(uint32_t m, const struct quant_step *s)
{
	if (m < 2)
		return m ? s->first : 0;
	return QUANT_ADD(QUANT_MUL((float)m, s->step), -s->shift);
}

#define QUANT_ECQ_LARGE 0x1p127f /* from here on y may not be finite */

/* ecq: returns the symbol of x, and its level's bits in *m. */
HD uint8_t quant_ecq_symbol(float x, const struct quant_step *s, uint32_t *m)
{
	float t = QUANT_MUL(half_float_of_bits(quant_magnitude(x)), s->inverse);

	if (t < QUANT_WHOLE_MIN) { /* false for NaN */
		*m = (uint32_t)QUANT_ADD(t, s->rounding);
		if (*m < 1u << 22 &&
			(quant_magnitude(x) < half_bits_of_float(QUANT_ECQ_LARGE) ||
				quant_finite(quant_ecq_level(*m, s))))
			return quant_wide_symbol(*m, half_bits_of_float(x) >> 31);
	}
	*m = half_bits_of_float(x);
	return QUANT_WHOLE;
}

/* qsgd: the same; max = levels, inverse = levels / norm. */
HD uint8_t quant_qsgd_symbol(float x, float inverse, float max, uint32_t word,
	uint32_t *m)
{
	float t = QUANT_MUL(half_float_of_bits(quant_magnitude(x)), inverse);

	if (!quant_finite(x)) {
		*m = half_bits_of_float(x);
		return QUANT_WHOLE;
	}
	*m = (uint32_t)quant_chance(t < max ? t : max, word);
	return quant_wide_symbol(*m, half_bits_of_float(x) >> 31);
}

/* Returns the bits beside a symbol, from the level or the element's bits m. */
HD uint32_t quant_wide_beside(uint8_t symbol, uint32_t m)
{
	int bits = quant_wide_bits(symbol);

	return bits == 32 ? m : m & ((1u << bits) - 1);
}

HD float quant_ecq_value(uint8_t symbol, uint32_t beside, const struct quant_step *s)
{
	if (symbol == QUANT_WHOLE)
		return half_float_of_bits(beside);
	return quant_signed(quant_ecq_level(quant_wide_level(symbol, beside), s),
		symbol >> 7);
}

/* unit: norm / levels */
HD float quant_qsgd_value(uint8_t symbol, uint32_t beside, float unit)
{
	float y;

	if (symbol == QUANT_WHOLE)
		return half_float_of_bits(beside);
	y = QUANT_MUL((float)quant_wide_level(symbol, beside), unit);
	return quant_signed(y, symbol >> 7);
}

/* Returns which of QUANT_BINS a finite element's magnitude falls into: 32 in each octave. */
HD uint32_t quant_bin(uint32_t magnitude)
{
	return magnitude >> 18;
}

/* e = b e + x, both rounded; x if one of them is not finite, because the NaN that a sum gives
 * differs between CPUs and GPUs, and methods that store elements whole would expose it. (Done
 * on bits: a choice between values would compile to a branch, which prevents vectorisation.) */
HD float quant_carried(float e, float x, float b)
{
	uint32_t sum = half_bits_of_float(QUANT_ADD(QUANT_MUL(b, e), x));
	uint32_t keep = 0 - ((uint32_t)quant_finite(e) & (uint32_t)quant_finite(x));

	return half_float_of_bits((sum & keep) | (half_bits_of_float(x) & ~keep));
}

HD float quant_remaining(float e, float sent)
{
	float rest = QUANT_ADD(e, -sent);

	return quant_finite(rest) ? rest : 0;
}

/* Rounds to f8 with 5 bits of exponent (OCP E5M2): the upper half of an f16. */
HD uint8_t quant_fp8e5_from_f32(float f)
{
	uint32_t bits = half_bits_of_float(f);

	return (uint8_t)((bits >> 24 & 0x80) | half_narrow(bits & 0x7fffffff, 5, 2));
}

HD float quant_fp8e5_to_f32(uint8_t h)
{
	return f16_to_f32((uint16_t)(h << 8));
}

/* Sums over a run of at most 256 elements, in this order: lane i % 16 adds its elements in
 * order, starting from 0; then lanes i and i + 8, i + 4, i + 2, i + 1. In double, so squares
 * are exact. Elements that are not finite are skipped. */
#define QUANT_RUN   256
#define QUANT_LANES 16

struct quant_sums {
	double sum, squares;
	uint32_t count; /* of finite elements */
};

/* sigma: computes mean and step from the sums of a chunk, which are those of its runs in order. */
HD float quant_sigma_step(const struct quant_sums *s, int max, float *mean)
{
	double m, v;
	float step, step_max;

	*mean = 0;
	if (!s->count)
		return 0;
	m = s->sum / (double)s->count;
	v = QUANT_DADD(s->squares / (double)s->count, -QUANT_DMUL(m, m));
	*mean = (float)m;
	step = (float)(QUANT_DMUL(6.0, sqrt(v > 0 ? v : 0)) / max);
	step_max = QUANT_ADD(0x1.fffffp127f,
			   -half_float_of_bits(quant_magnitude(*mean))) /
		(float)max;
	step = step < step_max ? step : step_max; /* keeps the last level finite */
	return step >= QUANT_TINY ? step : 0;
}

/* topk: sums 64 numbers: i and i + 32, then 16 and so on. v is overwritten. */
HD double quant_sum_64(double v[QUANT_TOPK_SHARE])
{
	for (int half = QUANT_TOPK_SHARE / 2; half; half /= 2)
		for (int i = 0; i < half; i++)
			v[i] = QUANT_DADD(v[i], v[i + half]);
	return v[0];
}

/* topk: computes the two magnitudes of k kept elements; bit i of *large: the i-th has the
 * second. */
HD void quant_two_means(uint16_t means[2], uint64_t *large, const float *kept, uint32_t k)
{
	double v[QUANT_TOPK_SHARE];
	float mean;

	for (uint32_t i = 0; i < QUANT_TOPK_SHARE; i++)
		v[i] = i < k ? (double)kept[i] : 0;
	mean = (float)(quant_sum_64(v) / k);
	*large = 0;
	for (uint32_t i = 0; i < k; i++)
		*large |= (uint64_t)(kept[i] >= mean) << i;
	for (uint32_t side = 0; side < 2; side++) {
		uint32_t count = 0;

		for (uint32_t i = 0; i < QUANT_TOPK_SHARE; i++) {
			bool here = i < k && (*large >> i & 1) == side;

			v[i] = here ? (double)kept[i] : 0;
			count += here;
		}
		means[side] = count ?
			quant_scale((float)(quant_sum_64(v) / count), false) :
			0;
	}
}

KERNELS_BEGIN

/* Computes the planes of a chunk of n elements. Pure. */
void quant_layout(struct quant_layout *out, const struct quant *q, uint32_t n);

/* Whether a struct quant is valid, see there. */
bool quant_valid(const struct quant *q);

/* Encodes one chunk, on one thread: n elements from index `first` of the sequence into planes
 * at p[0] .. . step: ecq's, else unused. Returns the length of the variable plane. */
typedef uint32_t (*quant_encode_fn)(unsigned char *const p[], const void *in, uint32_t n,
	const struct quant *q, const struct quant_step *step, uint64_t first);
/* Decodes one chunk. used: length of the variable plane. Returns whether the planes are
 * well-formed. */
typedef bool (*quant_decode_fn)(void *out, const unsigned char *const p[], uint32_t used,
	uint32_t n, const struct quant *q, const struct quant_step *step);
typedef void (*quant_spread_fn)(uint32_t *bins, const float *x, uint64_t n);

uint32_t quant_encode_ref(unsigned char *const p[], const void *in, uint32_t n,
	const struct quant *q, const struct quant_step *step, uint64_t first);
uint32_t quant_encode_avx2(unsigned char *const p[], const void *in, uint32_t n,
	const struct quant *q, const struct quant_step *step, uint64_t first);
uint32_t quant_encode_avx512(unsigned char *const p[], const void *in, uint32_t n,
	const struct quant *q, const struct quant_step *step, uint64_t first);
bool quant_decode_ref(void *out, const unsigned char *const p[], uint32_t used,
	uint32_t n, const struct quant *q, const struct quant_step *step);
bool quant_decode_avx2(void *out, const unsigned char *const p[], uint32_t used,
	uint32_t n, const struct quant *q, const struct quant_step *step);
bool quant_decode_avx512(void *out, const unsigned char *const p[], uint32_t used,
	uint32_t n, const struct quant *q, const struct quant_step *step);
void quant_spread_ref(uint32_t *bins, const float *x, uint64_t n);
void quant_spread_tables(uint32_t *bins, const float *x, uint64_t n);

/* Random words of a chunk's elements are the bytes that philox.h gives from block first / 4 on. */
struct philox quant_philox(const struct quant *q, uint64_t first);

/* Combines a sum of up to 256 in the stated order, also for the fast versions. */
void quant_sums_add(struct quant_sums *total, const float *x, uint32_t n);

KERNELS_END

#endif
