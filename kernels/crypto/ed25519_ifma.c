/* ed25519_ifma.c - verifies Ed25519 signatures, one in each of eight lanes of AVX-512. */
#include "kernels/crypto/ed25519.h"

#ifdef __x86_64__
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/crypto/comb_ifma.h"

/* A key without a table: digits of its scalar are of 5 bits. */
#define KEY_BITS   5
#define KEY_DIGITS 51 /* 255 bits */
#define KEY_ROWS   (1 + (1 << (KEY_BITS - 1)))
#define KEY_WORDS  24 /* of a row, padded to whole vectors */

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

/* The digits of eight signatures: of h for the key, of which only one is used, and of S for B. */
struct digits {
	int16_t key[KEY_DIGITS][FE_LANES];
	struct comb_digits known, base;
};

/* Sets p to h key, by doublings. */
IFMA static void multiply_key(struct point *p, const struct point *key,
	const struct digits *d)
{
	const uint64_t *first[FE_LANES], *rows[FE_LANES];
	struct key_table table;
	__mmask8 negative;
	struct fe four[4];

	fill_key_table(&table, key);
	for (int i = 0; i < FE_LANES; i++)
		first[i] = table.row[i][0];
	*p = identity();
	for (int i = KEY_DIGITS - 1; i >= 0; i--) {
		double_times(p, KEY_BITS);
		negative = find_rows(rows, first, KEY_WORDS, d->key[i]);
		load_rows(four, 4, rows);
		add(p, &(struct addend){ four[0], four[1], four[2], four[3] }, negative,
			i == 0);
	}
}

/* --- eight signatures -------------------------------------------------------------------- */

/* What remains of eight signatures when only an inversion is missing. */
struct eight {
	struct fe x, y, z;  /* S B - h A */
	struct fe r;        /* the y of R as it is written */
	__mmask8 good, odd; /* not refused so far; R says that its x is odd */
};

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

/* Whether the bytes of a key are allowed. */
static bool good_key(const unsigned char key[32])
{
	return !small_order(key) && canonical_y(key);
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
	const unsigned char hash[64], bool known)
{
	static const unsigned char zero[32];
	const unsigned char *scalar = s->signature + 32;
	unsigned char h[32];
	bool below = canonical_scalar(scalar);

	crypto_core_ed25519_scalar_reduce(h, hash);
	if (known)
		comb_digits_of(&d->known, lane, h);
	else
		digits_of(&d->key[0][lane], FE_LANES, KEY_DIGITS, KEY_BITS, h);
	comb_digits_of(&d->base, lane, below ? scalar : zero);
	return below && !small_order(s->signature) && (known || good_key(s->public_key));
}

/* SHA-512 of R, A and the message, of each lane's signature. */
IFMA static void hash_eight(unsigned char hash[FE_LANES][64],
	const struct ed25519 *const s[FE_LANES])
{
	unsigned char text[FE_LANES][128];

	for (int i = 0; i < FE_LANES; i++) {
		memcpy(text[i], s[i]->signature, 32);
		memcpy(text[i] + 32, s[i]->public_key, 32);
		memcpy(text[i] + 64, s[i]->message, ED25519_MESSAGE);
	}
	sha512_eight(hash, (const unsigned char(*)[128])text);
}

/* Sets p to h (-A) of keys that have no table, or not all. Returns the lanes whose key is a
 * point. */
IFMA static __mmask8 multiply_keys(struct point *p,
	const struct ed25519 *const s[FE_LANES], const struct digits *d)
{
	const unsigned char *keys[FE_LANES];
	struct point key;
	__mmask8 there;

	for (int i = 0; i < FE_LANES; i++)
		keys[i] = s[i]->public_key;
	there = load_negated(&key, keys);
	multiply_key(p, &key, d);
	return there;
}

/* Computes S B - h A of n signatures, 1 to 8; the lanes after them repeat the first one. */
IFMA static void begin_eight(struct eight *e, struct ed25519 *const *some, size_t n)
{
	const struct ed25519_table *base[FE_LANES], *tables[FE_LANES];
	const struct ed25519 *s[FE_LANES];
	const unsigned char *points[FE_LANES];
	unsigned char hash[FE_LANES][64];
	struct point sum = identity();
	struct digits d;
	bool known = true;

	for (size_t i = 0; i < FE_LANES; i++) {
		s[i] = some[i < n ? i : 0];
		points[i] = s[i]->signature;
		tables[i] = s[i]->table;
		base[i] = comb_base();
		known = known && tables[i];
	}
	hash_eight(hash, s);
	e->odd = load_encoded(&e->r, points);
	e->good = 0;
	for (int i = 0; i < FE_LANES; i++)
		e->good |= (__mmask8)((unsigned)digits_of_signature(&d, i, s[i], hash[i],
					      known)
			<< i);
	if (known)
		comb_add(&sum, tables, &d.known);
	else
		e->good &= multiply_keys(&sum, s, &d);
	comb_add(&sum, base, &d.base);
	e->x = sum.x;
	e->y = sum.y;
	e->z = sum.z;
}

/* Compares with R, given 1 / z. */
IFMA static void finish_eight(const struct eight *e, struct fe inverse,
	struct ed25519 *const *s, size_t n)
{
	struct fe y = fe_freeze(fe_mul(e->y, inverse));
	__mmask8 good = e->good & (__mmask8) ~(is_odd(fe_mul(e->x, inverse)) ^ e->odd);

	for (int i = 0; i < 5; i++)
		good &= _mm512_cmpeq_epi64_mask(y.v[i], e->r.v[i]);
	for (size_t i = 0; i < n; i++)
		s[i]->good = good >> i & 1;
}

/* Inverts all z at once (Montgomery): the product of all, lane by lane, is inverted, and each one
 * is that times the product of the others. No z is 0, so no lane touches another's verdict. */
IFMA static void verify_batch(struct ed25519 *const *s, size_t n)
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

/* Adds a signature to a batch, which is verified when it is full. */
static void collect(struct ed25519 **batch, size_t *n, struct ed25519 *s)
{
	batch[(*n)++] = s;
	if (*n == ED25519_BATCH) {
		verify_batch(batch, *n);
		*n = 0;
	}
}

/* Those of keys with a table come first, so that eight of them meet. The rest of them fills the
 * lanes of the first eight others. */
void ed25519_verify_ifma(struct ed25519 *s, size_t n)
{
	struct ed25519 *batch[ED25519_BATCH];
	size_t held = 0;

	for (size_t i = 0; i < n; i++)
		if (s[i].table)
			collect(batch, &held, &s[i]);
	for (size_t i = 0; i < n; i++)
		if (!s[i].table)
			collect(batch, &held, &s[i]);
	if (held)
		verify_batch(batch, held);
}

IFMA struct ed25519_table *ed25519_table_ifma(const unsigned char key[ED25519_KEY])
{
	const unsigned char *keys[FE_LANES] = { key, key, key, key, key, key, key, key };
	struct ed25519_table *t;
	struct point p;

	if (!good_key(key) || !load_negated(&p, keys))
		return NULL;
	t = aligned_alloc(64, sizeof *t);
	if (!t)
		return NULL;
	memset(t, 0, sizeof *t);
	comb_fill(t, &p);
	return t;
}
#endif
