/* ed25519_ifma.c - verifies Ed25519 signatures, one in each of eight lanes of AVX-512. */
#include "kernels/sig/ed25519.h"

#ifdef __x86_64__
#include <pthread.h>
#include <sodium.h>
#include <string.h>

#include "kernels/sig/field_ifma.h"
#include "kernels/sig/lanes_x86.h"

/* Points are those of -x^2 + y^2 = 1 + d x^2 y^2 in extended coordinates (Hisil, Wong, Carter,
 * Dawson, "Twisted Edwards Curves Revisited", 2008): x = X/Z, y = Y/Z, T = XY/Z. Its formulas
 * have no exceptions on this curve, so that points with torsion are added like all others. */
struct point {
	struct fe x, y, z, t;
};

/* A point that is to be added often. In a table of multiples of B, whose z is 1, z2 is absent. */
struct addend {
	struct fe sum, diff, t2d, z2; /* y + x, y - x, 2 d t, 2 z */
};

/* Digits of a scalar in base 2^bits are from -2^(bits - 1) to 2^(bits - 1). */
#define KEY_BITS    5
#define KEY_DIGITS  51 /* 255 bits */
#define KEY_ROWS    (1 + (1 << (KEY_BITS - 1)))
#define BASE_BITS   10 /* a digit at every second one of the key */
#define BASE_DIGITS 26
#define BASE_ROWS   (1 + (1 << (BASE_BITS - 1)))

/* Words of a table's row, padded to whole vectors. */
#define KEY_WORDS  24
#define BASE_WORDS 16

/* clang-format off */
static const uint64_t curve_d[5] = { 0x34dca135978a3, 0x1a8283b156ebd, 0x5e7a26001c029, 0x739c663a03cbb, 0x52036cee2b6ff };
static const uint64_t curve_2d[5] = { 0x69b9426b2f159, 0x35050762add7a, 0x3cf44c0038052, 0x6738cc7407977, 0x2406d9dc56dff };
static const uint64_t root_of_minus_1[5] = { 0x61b274a0ea0b0, 0xd5a5fc8f189d, 0x7ef5e9cbd0c60, 0x78595a6804c9e, 0x2b8324804fc1d };
static const uint64_t base_x[5] = { 0x62d608f25d51a, 0x412a4b4f6592a, 0x75b7171a4b31d, 0x1ff60527118fe, 0x216936d3cd6e5 };
static const uint64_t base_y[5] = { 0x6666666666658, 0x4cccccccccccc, 0x1999999999999, 0x3333333333333, 0x6666666666666 };
/* clang-format on */

/* 0 .. 512 times B as sum, diff, t2d, the same for all lanes. */
static uint64_t base_table[BASE_ROWS][BASE_WORDS] __attribute__((aligned(64)));

/* --- points ------------------------------------------------------------------------------ */

IFMA_INLINE struct point identity(void)
{
	return (struct point){ fe_small(0), fe_small(1), fe_small(1), fe_small(0) };
}

/* The last step of every formula: E F, G H, F G and, if asked for, E H. */
IFMA_INLINE void complete(struct point *p, struct fe e, struct fe f, struct fe g,
	struct fe h, bool with_t)
{
	p->x = fe_mul(e, f);
	p->y = fe_mul(g, h);
	p->z = fe_mul(f, g);
	if (with_t)
		p->t = fe_mul(e, h);
}

/* Doubles p. Its T is not read, and is computed only if an addition follows. */
IFMA_INLINE void double_once(struct point *p, bool with_t)
{
	struct wide xx = fe_square_wide(p->x), yy = fe_square_wide(p->y);
	struct wide zz = fe_square_wide(p->z), xy = fe_mul_wide(p->x, p->y);
	struct wide g = wide_sub(yy, xx, SHIFT_WIDE);

	complete(p, fe_carry(wide_add(xy, xy)),
		fe_carry(wide_sub(wide_add(zz, zz), g, SHIFT_DIFF)), fe_carry(g),
		fe_carry(wide_add(yy, xx)), with_t);
}

IFMA static void double_times(struct point *p, int n)
{
	while (--n > 0)
		double_once(p, false);
	double_once(p, true);
}

/* The second half of an addition, from the products a to d of the paper. In the lanes of
 * `negative` the addend's sum and diff have changed places, and t2d has the other sign: c is
 * then subtracted where it is added. */
IFMA_INLINE void add_products(struct point *p, struct wide a, struct wide b,
	struct wide c, struct wide d, __mmask8 negative, bool with_t)
{
	struct fe less = fe_carry(wide_sub(d, c, SHIFT_WIDE));
	struct fe more = fe_carry(wide_add(d, c));

	complete(p, fe_carry(wide_sub(b, a, SHIFT_WIDE)), fe_blend(negative, less, more),
		fe_blend(negative, more, less), fe_carry(wide_add(b, a)), with_t);
}

/* Adds q, or -q in the lanes of `negative`, to p. */
IFMA_INLINE void add(struct point *p, const struct addend *q, __mmask8 negative,
	bool with_t)
{
	struct wide a = fe_mul_wide(fe_sub(p->y, p->x),
		fe_blend(negative, q->diff, q->sum));
	struct wide b = fe_mul_wide(fe_add(p->y, p->x),
		fe_blend(negative, q->sum, q->diff));

	add_products(p, a, b, fe_mul_wide(p->t, q->t2d), fe_mul_wide(p->z, q->z2),
		negative, with_t);
}

/* The same for an addend whose z is 1. */
IFMA_INLINE void add_base(struct point *p, const struct addend *q, __mmask8 negative,
	bool with_t)
{
	struct wide a = fe_mul_wide(fe_sub(p->y, p->x),
		fe_blend(negative, q->diff, q->sum));
	struct wide b = fe_mul_wide(fe_add(p->y, p->x),
		fe_blend(negative, q->sum, q->diff));

	add_products(p, a, b, fe_mul_wide(p->t, q->t2d),
		wide_add(wide_of(p->z), wide_of(p->z)), negative, with_t);
}

IFMA_INLINE struct addend addend_of(const struct point *p)
{
	struct addend a;

	a.sum = fe_add(p->y, p->x);
	a.diff = fe_sub(p->y, p->x);
	a.t2d = fe_mul(p->t, fe_set(curve_2d));
	a.z2 = fe_add(p->z, p->z);
	return a;
}

/* --- tables ------------------------------------------------------------------------------ */

/* Writes the limbs of numbers as one row a lane, words apart; the rest of the last vector is 0. */
IFMA_INLINE void store_rows(uint64_t *rows, size_t apart, const struct fe *numbers, int n)
{
	for (int at = 0; at < 5 * n; at += 8) {
		__m512i m[8];

		for (int i = 0; i < 8; i++)
			m[i] = at + i < 5 * n ? numbers[(at + i) / 5].v[(at + i) % 5] :
						_mm512_setzero_si512();
		lanes_transpose(m);
		for (size_t lane = 0; lane < FE_LANES; lane++)
			_mm512_store_si512(rows + lane * apart + at, m[lane]);
	}
}

/* Reads n numbers, each lane from its own row. */
IFMA_INLINE void load_rows(struct fe *numbers, int n, const uint64_t *const rows[8])
{
#pragma GCC unroll 3
	for (int at = 0; at < 5 * n; at += 8) {
		__m512i m[8];

#pragma GCC unroll 8
		for (int i = 0; i < 8; i++)
			m[i] = _mm512_load_si512(rows[i] + at);
		lanes_transpose(m);
#pragma GCC unroll 8
		for (int i = 0; i < 8; i++)
			if (at + i < 5 * n)
				numbers[(at + i) / 5].v[(at + i) % 5] = m[i];
	}
}

/* The multiples 0 .. 16 of each lane's key. */
struct key_table {
	uint64_t row[FE_LANES][KEY_ROWS][KEY_WORDS] __attribute__((aligned(64)));
};

IFMA static void store_key(struct key_table *t, int multiple, const struct addend *a)
{
	store_rows(t->row[0][multiple], (size_t)KEY_ROWS * KEY_WORDS, &a->sum, 4);
}

IFMA static void fill_key_table(struct key_table *t, const struct point *key)
{
	struct point none = identity(), p[KEY_ROWS];
	struct addend one = addend_of(key), a = addend_of(&none);

	store_key(t, 0, &a);
	store_key(t, 1, &one);
	p[1] = *key;
	for (int i = 2; i < KEY_ROWS; i++) {
		if (i % 2 == 0) {
			p[i] = p[i / 2];
			double_once(&p[i], true);
		} else {
			p[i] = p[i - 1];
			add(&p[i], &one, 0, true);
		}
		a = addend_of(&p[i]);
		store_key(t, i, &a);
	}
}

/* Computes base_table: lane i goes through the multiples i + 1, i + 9, and so on. */
IFMA static void fill_base_table(void)
{
	struct point b = identity(), p = identity();
	struct addend a;
	struct fe three[3];

	b.x = fe_set(base_x);
	b.y = fe_set(base_y);
	b.t = fe_mul(b.x, b.y);
	a = addend_of(&b);
	for (int i = 0; i < FE_LANES; i++) {
		struct point sum = p;
		__mmask8 lanes = (__mmask8)(0xff << i);

		add(&sum, &a, 0, true);
		p.x = fe_blend(lanes, p.x, sum.x);
		p.y = fe_blend(lanes, p.y, sum.y);
		p.z = fe_blend(lanes, p.z, sum.z);
		p.t = fe_blend(lanes, p.t, sum.t);
	}
	double_times(&b, 3); /* 8 B */
	a = addend_of(&b);
	base_table[0][0] = base_table[0][5] = 1;
	for (int i = 1; i < BASE_ROWS; i += FE_LANES) {
		struct fe inverse = fe_invert(p.z);
		struct point flat = { fe_mul(p.x, inverse), fe_mul(p.y, inverse),
			fe_small(1), p.t };

		three[0] = fe_freeze(fe_add(flat.y, flat.x));
		three[1] = fe_freeze(fe_sub(flat.y, flat.x));
		three[2] = fe_freeze(fe_mul(fe_mul(flat.x, flat.y), fe_set(curve_2d)));
		store_rows(base_table[i], BASE_WORDS, three, 3);
		add(&p, &a, 0, true);
	}
}

/* --- scalars ----------------------------------------------------------------------------- */

/* Writes a scalar below 2^253 as n signed digits of so many bits. */
static void digits_of(int16_t *digits, int n, int bits, const unsigned char scalar[32])
{
	int carry = 0;

	for (int i = 0; i < n; i++) {
		int at = i * bits, digit = carry;

		for (int b = 0, byte = at / 8; b < 3 && byte + b < 32; b++)
			digit += (int)(((uint32_t)scalar[byte + b] << 8 * b >> at % 8) &
				((1u << bits) - 1));
		carry = digit >= 1 << (bits - 1);
		digits[i] = (int16_t)(digit - (carry << bits));
	}
}

/* The digits of eight signatures: of h for the key, of S for B. */
struct digits {
	int16_t key[FE_LANES][KEY_DIGITS], base[FE_LANES][BASE_DIGITS];
};

IFMA_INLINE void add_key_digit(struct point *p, const struct key_table *t,
	const struct digits *d, int at, bool with_t)
{
	const uint64_t *rows[FE_LANES];
	struct fe four[4];
	unsigned negative = 0;

	for (int i = 0; i < FE_LANES; i++) {
		int digit = d->key[i][at];

		negative |= (unsigned)(digit < 0) << i;
		rows[i] = t->row[i][digit < 0 ? -digit : digit];
	}
	load_rows(four, 4, rows);
	add(p, &(struct addend){ four[0], four[1], four[2], four[3] }, (__mmask8)negative,
		with_t);
}

IFMA_INLINE void add_base_digit(struct point *p, const struct digits *d, int at,
	bool with_t)
{
	const uint64_t *rows[FE_LANES];
	struct fe three[3];
	unsigned negative = 0;

	for (int i = 0; i < FE_LANES; i++) {
		int digit = d->base[i][at];

		negative |= (unsigned)(digit < 0) << i;
		rows[i] = base_table[digit < 0 ? -digit : digit];
	}
	load_rows(three, 3, rows);
	add_base(p,
		&(struct addend){ .sum = three[0], .diff = three[1], .t2d = three[2] },
		(__mmask8)negative, with_t);
}

/* Returns h key + S B, without T. */
IFMA static void sum_of_multiples(struct point *p, const struct point *key,
	const struct digits *d)
{
	struct key_table table;

	fill_key_table(&table, key);
	*p = identity();
	for (int i = KEY_DIGITS - 1; i >= 0; i--) {
		double_times(p, KEY_BITS);
		if (i % 2) {
			add_key_digit(p, &table, d, i, false);
		} else {
			add_key_digit(p, &table, d, i, true);
			add_base_digit(p, d, i / 2, false);
		}
	}
}

/* --- eight signatures -------------------------------------------------------------------- */

/* What remains of eight signatures when only an inversion is missing. */
struct eight {
	struct fe x, y, z;  /* S B - h A */
	struct fe r;        /* the y of R as it is written */
	__mmask8 good, odd; /* not refused so far; R says that its x is odd */
};

/* Reads 255 bits a lane, and the 256th as a bit of the result. */
IFMA static __mmask8 load_encoded(struct fe *out, const unsigned char *const in[8])
{
	uint64_t word[4][FE_LANES] __attribute__((aligned(64)));
	const __m512i mask = _mm512_set1_epi64(FE_MASK);
	__m512i w[4];

	for (int i = 0; i < FE_LANES; i++)
		for (int j = 0; j < 4; j++)
			memcpy(&word[j][i], in[i] + 8 * j, 8);
	for (int j = 0; j < 4; j++)
		w[j] = _mm512_load_si512(word[j]);
	out->v[0] = _mm512_and_si512(w[0], mask);
	for (int i = 1; i < 4;
		i++) /* limb i begins at bit 51 i, which is in word i - 1 */
		out->v[i] = _mm512_and_si512(
			_mm512_or_si512(_mm512_srli_epi64(w[i - 1],
						(unsigned)(FE_BITS * i - 64 * (i - 1))),
				_mm512_slli_epi64(w[i],
					(unsigned)(64 * i - FE_BITS * i))),
			mask);
	out->v[4] = _mm512_and_si512(_mm512_srli_epi64(w[3], 12), mask);
	return _mm512_movepi64_mask(w[3]);
}

/* Returns the lanes in which a, the number below p, is odd. */
IFMA_INLINE __mmask8 is_odd(struct fe a)
{
	return _mm512_test_epi64_mask(fe_freeze(a).v[0], _mm512_set1_epi64(1));
}

/* Finds -A from its encoding (RFC 8032, 5.1.3). Returns the lanes in which there is such a point;
 * the others get the identity, so that no z becomes 0 there. */
IFMA static __mmask8 load_negated(struct point *p, const unsigned char *const in[8])
{
	struct fe one = fe_small(1), y, yy, u, v, v3, x, vxx;
	__mmask8 odd = load_encoded(&y, in), right, turned, there;

	yy = fe_square(y);
	u = fe_sub(yy, one);
	v = fe_add(fe_mul(yy, fe_set(curve_d)), one);
	v3 = fe_mul(fe_square(v), v);
	x = fe_mul(u, fe_mul(fe_square(v3), v)); /* u v^7 */
	x = fe_mul(fe_mul(fe_pow_p58(x), v3), u);
	vxx = fe_mul(fe_square(x), v);
	right = fe_is_zero(fe_sub(vxx, u));
	turned = fe_is_zero(fe_add(vxx, u));
	there = right | turned;
	x = fe_blend(right, fe_mul(x, fe_set(root_of_minus_1)), x);
	x = fe_blend((__mmask8) ~(is_odd(x) ^ odd), x, fe_sub(fe_small(0), x));
	p->x = fe_blend(there, fe_small(0), x);
	p->y = fe_blend(there, one, y);
	p->z = one;
	p->t = fe_mul(p->x, p->y);
	return there;
}

/* The y of all points whose order divides 8, written below p or not; the sign bit is ignored, as
 * libsodium does. */
static bool small_order(const unsigned char point[32])
{
	/* clang-format off */
	static const unsigned char eighth[2][32] = {
		{ 0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef, 0x98, 0xf0,
		  0xd5, 0xdf, 0xac, 0x05, 0xd3, 0xc6, 0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53, 0xfc, 0x05 },
		{ 0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10, 0x67, 0x0f,
		  0x2a, 0x20, 0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac, 0x03, 0x7a },
	};
	/* clang-format on */
	unsigned char y[32], middle = point[1];

	memcpy(y, point, sizeof y);
	y[31] &= 0x7f;
	for (int i = 2; i < 31; i++)
		if (y[i] != middle)
			return memcmp(y, eighth[0], 32) == 0 ||
				memcmp(y, eighth[1], 32) == 0;
	/* 0 and 1; p - 1, p and p + 1, which are 2^255 - 20 to 2^255 - 18 */
	return (middle == 0 && y[31] == 0 && y[0] <= 1) ||
		(middle == 0xff && y[31] == 0x7f && y[0] >= 0xec && y[0] <= 0xee);
}

/* Whether y is below p. */
static bool canonical_y(const unsigned char point[32])
{
	if (point[0] < 0xed || (point[31] & 0x7f) != 0x7f)
		return true;
	for (int i = 1; i < 31; i++)
		if (point[i] != 0xff)
			return true;
	return false;
}

/* Whether S is below L, the order of B. */
static bool canonical_scalar(const unsigned char scalar[32])
{
	static const unsigned char order[32] = { 0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12,
		0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, [31] = 0x10 };

	for (int i = 31; i >= 0; i--)
		if (scalar[i] != order[i])
			return scalar[i] < order[i];
	return false;
}

/* Sets the digits of a signature's lane. Returns whether its bytes are allowed. */
static bool digits_of_signature(struct digits *d, int lane, const struct ed25519 *s,
	const unsigned char hash[64])
{
	static const unsigned char zero[32];
	const unsigned char *scalar = s->signature + 32;
	unsigned char h[32];
	bool below = canonical_scalar(scalar);

	crypto_core_ed25519_scalar_reduce(h, hash);
	digits_of(d->key[lane], KEY_DIGITS, KEY_BITS, h);
	digits_of(d->base[lane], BASE_DIGITS, BASE_BITS, below ? scalar : zero);
	return below && !small_order(s->signature) && !small_order(s->public_key) &&
		canonical_y(s->public_key);
}

/* Computes S B - h A of n signatures, 1 to 8; the lanes behind them repeat the first one. */
IFMA static void begin_eight(struct eight *e, const struct ed25519 *s, size_t n)
{
	unsigned char text[FE_LANES][128], hash[FE_LANES][64];
	const unsigned char *keys[FE_LANES], *points[FE_LANES];
	struct point key, sum;
	struct digits d;

	for (size_t i = 0; i < FE_LANES; i++) {
		const struct ed25519 *one = s + (i < n ? i : 0);

		keys[i] = one->public_key;
		points[i] = one->signature;
		memcpy(text[i], one->signature, 32);
		memcpy(text[i] + 32, one->public_key, 32);
		memcpy(text[i] + 64, one->message, ED25519_MESSAGE);
	}
	sha512_eight(hash, (const unsigned char(*)[128])text);
	e->good = load_negated(&key, keys);
	e->odd = load_encoded(&e->r, points);
	for (int i = 0; i < FE_LANES; i++)
		if (!digits_of_signature(&d, i, s + ((size_t)i < n ? i : 0), hash[i]))
			e->good &= (__mmask8) ~(1u << i);
	sum_of_multiples(&sum, &key, &d);
	e->x = sum.x;
	e->y = sum.y;
	e->z = sum.z;
}

/* Compares with R, given 1 / z. */
IFMA static void finish_eight(const struct eight *e, struct fe inverse, struct ed25519 *s,
	size_t n)
{
	struct fe y = fe_freeze(fe_mul(e->y, inverse));
	__mmask8 good = e->good & (__mmask8) ~(is_odd(fe_mul(e->x, inverse)) ^ e->odd);

	for (int i = 0; i < 5; i++)
		good &= _mm512_cmpeq_epi64_mask(y.v[i], e->r.v[i]);
	for (size_t i = 0; i < n; i++)
		s[i].good = good >> i & 1;
}

/* Inverts all z at once (Montgomery): the product of all, lane by lane, is inverted, and each one
 * is that times the product of the others. No z is 0, so no lane touches another's verdict. */
IFMA static void verify_batch(struct ed25519 *s, size_t n)
{
	struct eight e[ED25519_BATCH / FE_LANES];
	struct fe before[ED25519_BATCH / FE_LANES], product = fe_small(1);
	size_t groups = (n + FE_LANES - 1) / FE_LANES;

	for (size_t i = 0; i < groups; i++) {
		size_t at = i * FE_LANES;

		begin_eight(&e[i], s + at, n - at < FE_LANES ? n - at : FE_LANES);
		before[i] = product;
		product = fe_mul(product, e[i].z);
	}
	product = fe_invert(product);
	for (size_t i = groups; i-- > 0;) {
		size_t at = i * FE_LANES;

		finish_eight(&e[i], fe_mul(product, before[i]), s + at,
			n - at < FE_LANES ? n - at : FE_LANES);
		product = fe_mul(product, e[i].z);
	}
}

void ed25519_verify_ifma(struct ed25519 *s, size_t n)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	size_t now;

	pthread_once(&once, fill_base_table);
	for (; n; s += now, n -= now) {
		now = n < ED25519_BATCH ? n : ED25519_BATCH;
		verify_batch(s, now);
	}
}
#endif
