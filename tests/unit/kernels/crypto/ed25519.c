/* ed25519.c - signatures verified eight at a time get libsodium's verdict, each its own; the field
 * under them is held against plain arithmetic.
 *
 * long because each way to be wrong stands in it, and an arithmetic of its own. */
#include "kernels/crypto/ed25519.h"

#include <sodium.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/dev/cpu.h"
#include "tests/unit/test.h"

#define CASES_MAX 12000

/* --- cases: signature, key, message ------------------------------------------------------ */

static void (*fast)(struct ed25519 *, size_t) = ed25519_verify_ref;
static unsigned char cases[CASES_MAX][160];
static int ncases, naccepted;

static uint64_t state = 1;

static uint64_t next(void)
{
	state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (state ^ state >> 29) * UINT64_C(0xbf58476d1ce4e5b9) >> 8;
}

static void fill(unsigned char *out, size_t n)
{
	for (size_t i = 0; i < n; i++)
		out[i] = (unsigned char)next();
}

static unsigned char *add_case(const unsigned char signature[64],
	const unsigned char key[32], const unsigned char message[64])
{
	unsigned char *c = cases[ncases++];

	CHECK(ncases <= CASES_MAX);
	memcpy(c, signature, 64);
	memcpy(c + 64, key, 32);
	memcpy(c + 96, message, 64);
	return c;
}

static unsigned char *add_copy(const unsigned char *c)
{
	return add_case(c, c + 64, c + 96);
}

static unsigned char *add_valid(void)
{
	unsigned char seed[32], key[32], secret[64], message[64], signature[64];

	fill(seed, sizeof seed);
	fill(message, sizeof message);
	crypto_sign_seed_keypair(key, secret, seed);
	crypto_sign_detached(signature, NULL, message, sizeof message, secret);
	return add_case(signature, key, message);
}

/* Returns a table for the key of the last of n signatures, shared with the one before if that has
 * the same key. */
static struct ed25519_table *table_of(const struct ed25519 *s, int n,
	const unsigned char *key)
{
	if (n > 1 && s[n - 2].table && memcmp(s[n - 2].public_key, key, 32) == 0)
		return (struct ed25519_table *)(uintptr_t)s[n - 2].table;
	/* one key of six: a table takes 0.6 ms, and 20 under a sanitizer */
	return n == 1 || next() % 6 == 0 ? ed25519_table_new(key) : NULL;
}

/* Verifies n cases from `first` on, each in memory of exactly its size; all but every
 * with_tables-th with a table of its key, none if it is 0. */
static void verify_some(void (*verify)(struct ed25519 *, size_t), int first, int n,
	int with_tables)
{
	struct ed25519 *s = calloc((size_t)n, sizeof *s);
	unsigned char *memory[3];

	for (int i = 0; i < n; i++) {
		const unsigned char *c = cases[first + i];
		const size_t size[] = { 64, 32, 64 };

		for (int j = 0; j < 3; j++) {
			memory[j] = malloc(size[j]);
			memcpy(memory[j], c + (j > 0) * 64 + (j > 1) * 32, size[j]);
		}
		s[i] = (struct ed25519){ memory[0], memory[1], memory[2], NULL, i % 2 };
		if (with_tables && (i + 1) % with_tables)
			s[i].table = table_of(s, i + 1, memory[1]);
	}
	verify(s, (size_t)n);
	for (int i = n; i-- > 0;) {
		const unsigned char *c = cases[first + i];
		bool want = crypto_sign_verify_detached(c, c + 96, 64, c + 64) == 0;

		if (s[i].good != want)
			fprintf(stderr, "case %d of %d, lane %d of %d: %d\n", first + i,
				ncases, i, n, s[i].good);
		CHECK(s[i].good == want);
		naccepted += want;
		if (!i || s[i].table != s[i - 1].table)
			free((struct ed25519_table *)(uintptr_t)s[i].table);
		free((unsigned char *)(uintptr_t)s[i].signature);
		free((unsigned char *)(uintptr_t)s[i].public_key);
		free((unsigned char *)(uintptr_t)s[i].message);
	}
	free(s);
}

/* Holds all cases against libsodium, in batches of all sizes, and forgets them. Returns how many
 * are good. */
static int verify_cases(void)
{
	int at = 0, accepted;

	naccepted = 0;
	for (int n = 1; at < ncases; n = n % 67 + 1) {
		int now = ncases - at < n ? ncases - at : n;

		verify_some(fast, at, now, 0);
		at += now;
	}
	accepted = naccepted;
	naccepted = 0;
	for (at = 0; at < ncases; at += 71)
		verify_some(fast, at, ncases - at < 71 ? ncases - at : 71, 2 + at % 20);
	CHECK(naccepted == accepted);
	for (int tables = 0; tables < 2; tables++) {
		verify_some(ed25519_verify, 0, 1, 2 * tables);
		verify_some(ed25519_verify, 0, ncases < 5 ? ncases : 5, 2 * tables);
		verify_some(ed25519_verify_ref, 0, ncases < 5 ? ncases : 5, 2 * tables);
	}
	ncases = 0;
	return accepted;
}

/* --- scalars and points ------------------------------------------------------------------ */

static const unsigned char order[32] = { 0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58,
	0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, [31] = 0x10 };

/* S + times * L; returns whether it fits. */
static bool add_order(unsigned char s[32], int times)
{
	unsigned carry = 0;

	for (int i = 0; i < 32; i++) {
		carry += s[i] + (unsigned)times * order[i];
		s[i] = (unsigned char)carry;
		carry >>= 8;
	}
	return carry == 0;
}

/* All encodings of the eight points of small order: y as it is and, for 0 and 1, plus p; with
 * either sign of x, of which two do not exist (x = 0 has no sign). */
static unsigned char torsion[14][32];

static void find_torsion(void)
{
	static const char *const ys[] = {
		"0000000000000000000000000000000000000000000000000000000000000000",
		"0100000000000000000000000000000000000000000000000000000000000000",
		"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
		"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
		"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	};

	for (int i = 0; i < 14; i++) {
		CHECK(sodium_hex2bin(torsion[i], 32, ys[i / 2], 64, NULL, NULL, NULL) ==
			0);
		torsion[i][31] |= (unsigned char)(i % 2 << 7);
	}
}

/* A scalar below L. */
static void scalar(unsigned char out[32])
{
	unsigned char wide[64];

	fill(wide, sizeof wide);
	crypto_core_ed25519_scalar_reduce(out, wide);
}

/* A signature by a liar, whose key is a B + T and whose R is r B + U, of S = r + h a: good by the
 * equation with the cofactor, and without it only if U = -h T. a may be 0. */
static void add_liar(const unsigned char t[32], const unsigned char u[32], bool zero)
{
	unsigned char a[32], r[32], key[32], message[64], signature[64], hash[64], h[32];
	crypto_hash_sha512_state sha;

	scalar(a);
	scalar(r);
	fill(message, sizeof message);
	if (zero) {
		memset(a, 0, sizeof a);
		memcpy(key, t, sizeof key);
	} else {
		CHECK(crypto_scalarmult_ed25519_base_noclamp(key, a) == 0);
		CHECK(crypto_core_ed25519_add(key, key, t) == 0);
	}
	CHECK(crypto_scalarmult_ed25519_base_noclamp(signature, r) == 0);
	CHECK(crypto_core_ed25519_add(signature, signature, u) == 0);
	crypto_hash_sha512_init(&sha);
	crypto_hash_sha512_update(&sha, signature, 32);
	crypto_hash_sha512_update(&sha, key, 32);
	crypto_hash_sha512_update(&sha, message, 64);
	crypto_hash_sha512_final(&sha, hash);
	crypto_core_ed25519_scalar_reduce(h, hash);
	crypto_core_ed25519_scalar_mul(h, h, a);
	crypto_core_ed25519_scalar_add(signature + 32, r, h);
	add_case(signature, key, message);
}

/* --- tests ------------------------------------------------------------------------------- */

/* RFC 8032, 7.1, the one whose message has 64 bytes: "TEST SHA(abc)". */
static void test_rfc(void)
{
	unsigned char seed[32], key[32], secret[64], message[64], signature[64];

	CHECK(sodium_hex2bin(seed, 32,
		      "833fe62409237b9d62ec77587520911e9a759cec1d19755b7da901b96dca3d42",
		      64, NULL, NULL, NULL) == 0);
	CHECK(sodium_hex2bin(signature, 64,
		      "dc2a4459e7369633a52b1bf277839a00201009a3efbf3ecb69bea2186c26b589"
		      "09351fc9ac90b3ecfdfbc7c66431e0303dca179c138ac17ad9bef1177331a704",
		      128, NULL, NULL, NULL) == 0);
	crypto_hash_sha512(message, (const unsigned char *)"abc", 3);
	crypto_sign_seed_keypair(key, secret, seed);
	add_case(signature, key, message);
	add_case(signature, key, message);
	CHECK(verify_cases() == 2);
}

static void test_valid(void)
{
	for (int i = 0; i < 300; i++)
		add_valid();
	CHECK(verify_cases() == 300);
}

static void test_flipped_bits(void)
{
	unsigned char base[160];

	memcpy(base, add_valid(), sizeof base);
	for (int bit = 0; bit < 160 * 8; bit++)
		add_copy(base)[bit / 8] ^= (unsigned char)(1u << bit % 8);
	CHECK(verify_cases() == 1);
}

static void test_scalars(void)
{
	for (int i = 0; i < 20; i++) {
		unsigned char base[160];
		unsigned char *c;

		memcpy(base, add_valid(), sizeof base);
		for (int times = 1; times < 16; times++)
			if (!add_order(add_copy(base) + 32, times))
				ncases--;
		for (int bit = 252; bit < 256; bit++)
			add_copy(base)[63] |= (unsigned char)(1u << (bit - 248));
		c = add_copy(base);
		memcpy(c + 32, order, 32); /* L, then L - 1, then all ones, then 0 */
		c = add_copy(c);
		c[32]--;
		memset(add_copy(base) + 32, 0xff, 32);
		memset(add_copy(base) + 32, 0, 32);
	}
	CHECK(verify_cases() == 20);
}

/* Points of small order as A and as R, also where the equation holds: S = 0 and R = -h A. */
static void test_small_order(void)
{
	unsigned char signature[64], message[64];

	for (int a = 0; a < 14; a++)
		for (int r = 0; r < 14; r++)
			for (int i = 0; i < 12; i++) {
				memset(signature, 0, sizeof signature);
				memcpy(signature, torsion[r], 32);
				if (i % 3 == 2)
					scalar(signature + 32);
				fill(message, sizeof message);
				add_case(signature, torsion[a], message);
			}
	CHECK(verify_cases() == 0);
	for (int i = 0; i < 14; i++) {
		memcpy(add_valid(), torsion[i], 32);
		memcpy(add_valid() + 64, torsion[i], 32);
	}
	/* R of small order under a good key: S = h a makes R the identity */
	for (int i = 0; i < 8; i++) {
		unsigned char a[32], key[32], hash[64], h[32];
		crypto_hash_sha512_state sha;

		scalar(a);
		fill(message, sizeof message);
		memcpy(signature, torsion[2], 32);
		CHECK(crypto_scalarmult_ed25519_base_noclamp(key, a) == 0);
		crypto_hash_sha512_init(&sha);
		crypto_hash_sha512_update(&sha, signature, 32);
		crypto_hash_sha512_update(&sha, key, 32);
		crypto_hash_sha512_update(&sha, message, 64);
		crypto_hash_sha512_final(&sha, hash);
		crypto_core_ed25519_scalar_reduce(h, hash);
		crypto_core_ed25519_scalar_mul(signature + 32, h, a);
		add_case(signature, key, message);
	}
	CHECK(verify_cases() == 0);
}

/* By the equation with the cofactor all would be good; without it a part of them is. */
static void test_liars(void)
{
	static const int points[] = { 2, 4, 0, 1, 6, 7, 8,
		9 }; /* each of the eight once */
	int accepted;

	for (int t = 0; t < 8; t++)
		for (int u = 0; u < 8; u++)
			for (int i = 0; i < 8; i++)
				add_liar(torsion[points[t]], torsion[points[u]], false);
	accepted = verify_cases();
	CHECK(accepted > 20 && accepted < 200);
	for (int t = 0; t < 8; t++)
		for (int u = 0; u < 8; u++)
			for (int i = 0; i < 8; i++)
				add_liar(torsion[points[t]], torsion[points[u]], true);
	CHECK(verify_cases() == 0);
}

static void test_keys(void)
{
	for (int i = 0; i < 200; i++) /* half of them are not on the curve */
		fill(add_valid() + 64, 32);
	for (int i = 0; i < 40; i++) { /* y from p - 1 to p + 18 */
		unsigned char *c = add_valid() + 64;

		memset(c, 0xff, 32);
		c[0] = (unsigned char)(0xec + i / 2);
		c[31] = (unsigned char)(0x7f | i % 2 << 7);
		c = add_valid();
		memcpy(c, cases[ncases - 2] + 64, 32); /* the same as R */
	}
	CHECK(verify_cases() == 0);
}

/* One bad signature beside good ones, and one good one beside bad ones, in every lane. */
static void test_lanes(void)
{
	unsigned char good[160];

	memcpy(good, add_valid(), sizeof good);
	ncases = 0;
	for (int n = 1; n <= 17; n++)
		for (int at = 0; at < n; at++)
			for (int odd = 0; odd < 2; odd++) {
				for (int i = 0; i < n; i++)
					add_copy(good)[i % 3 * 61] ^=
						(unsigned char)((i == at) == odd);
				naccepted = 0;
				verify_some(fast, 0, n, at % 3);
				CHECK(naccepted == (odd ? n - 1 : 1));
				/* a key that is no point, in the same place */
				memset(cases[at] + 64, 0x02, 32);
				verify_some(fast, 0, n, at % 3);
				ncases = 0;
			}
}

#ifdef __x86_64__
#include "kernels/crypto/field_ifma.h"

/* --- the field --------------------------------------------------------------------------- */

/* A number below 2^320 in bytes, and what it is modulo p, slowly. */
#define BYTES 80

static void reduce(unsigned char out[32], const unsigned char in[BYTES])
{
	unsigned v[BYTES] = { 0 };

	for (int i = 0; i < BYTES; i++)
		v[i] = in[i];
	for (int round = 0; round < 6; round++) {
		unsigned carry = 0, low[BYTES] = { 0 };

		/* 2^256 is 38 */
		for (int i = 0; i < 48; i++)
			low[i] = 38 * v[i + 32];
		for (int i = 0; i < BYTES; i++) {
			carry += (i < 32 ? v[i] : 0) + low[i];
			v[i] = carry & 0xff;
			carry >>= 8;
		}
	}
	for (int round = 0; round < 3; round++) { /* subtract p where it can be */
		int borrow = 0;
		unsigned less[32];

		for (int i = 0; i < 32; i++) {
			int p = i == 0 ? 0xed : i == 31 ? 0x7f : 0xff;
			int digit = (int)v[i] - p - borrow;

			borrow = digit < 0;
			less[i] = (unsigned)(digit + 256 * borrow);
		}
		for (int i = 0; i < 32 && !borrow; i++)
			v[i] = less[i];
	}
	for (int i = 0; i < 32; i++)
		out[i] = (unsigned char)v[i];
}

/* Adds limb * 2^(51 i) to bytes. */
static void add_limb(unsigned char out[BYTES], uint64_t limb, int i)
{
	unsigned __int128 shifted = (unsigned __int128)limb << 51 * i % 8;
	unsigned carry = 0;

	for (int at = 51 * i / 8; at < BYTES; at++) {
		carry += out[at] + (unsigned)(shifted & 0xff);
		out[at] = (unsigned char)carry;
		carry >>= 8;
		shifted >>= 8;
	}
}

static uint64_t in_a[5][8], in_b[5][8], result[8][5][8];

IFMA static void load_fe(struct fe *out, uint64_t in[5][8])
{
	for (int i = 0; i < 5; i++)
		out->v[i] = _mm512_loadu_si512(in[i]);
}

IFMA static void store(int at, const __m512i v[5])
{
	for (int i = 0; i < 5; i++)
		_mm512_storeu_si512(result[at][i], v[i]);
}

IFMA static void run_field(void)
{
	struct fe a, b, r;
	struct wide w;

	load_fe(&a, in_a);
	load_fe(&b, in_b);
	w = fe_mul_wide(a, b);
	store(0, w.v);
	w = fe_square_wide(a);
	store(1, w.v);
	r = fe_mul(a, b);
	store(2, r.v);
	r = fe_square(a);
	store(3, r.v);
	r = fe_add(a, b);
	store(4, r.v);
	r = fe_sub(a, b);
	store(5, r.v);
	r = fe_freeze(a);
	store(6, r.v);
	r = fe_mul(fe_invert(a), a);
	r = fe_freeze(r);
	store(7, r.v);
}

/* What the functions of run_field should give, as the number below p. */
static void want_field(unsigned char want[8][32], int lane)
{
	unsigned char product[BYTES] = { 0 }, square[BYTES] = { 0 }, sum[BYTES] = { 0 };
	unsigned char difference[BYTES] = { 0 }, a[BYTES] = { 0 };

	for (int i = 0; i < 5; i++) {
		add_limb(a, in_a[i][lane], i);
		add_limb(sum, in_a[i][lane], i);
		add_limb(sum, in_b[i][lane], i);
		add_limb(difference, in_a[i][lane], i);
		/* 4 p - b, limb by limb */
		add_limb(difference, (UINT64_C(1) << 53) - (i ? 4 : 76) - in_b[i][lane],
			i);
		for (int j = 0; j < 5; j++) {
			unsigned __int128 ab = (unsigned __int128)in_a[i][lane] *
				in_b[j][lane];
			unsigned __int128 aa = (unsigned __int128)in_a[i][lane] *
				in_a[j][lane];

			add_limb(product, (uint64_t)ab & FE_MASK, i + j);
			add_limb(product, (uint64_t)(ab >> FE_BITS), i + j + 1);
			add_limb(square, (uint64_t)aa & FE_MASK, i + j);
			add_limb(square, (uint64_t)(aa >> FE_BITS), i + j + 1);
		}
	}
	reduce(want[0], product);
	reduce(want[1], square);
	reduce(want[2], product);
	reduce(want[3], square);
	reduce(want[4], sum);
	reduce(want[5], difference);
	reduce(want[6], a);
	memset(want[7], 0, 32);
	want[7][0] = !sodium_is_zero(want[6], 32); /* a / a */
}

static void check_field(void)
{
	static const uint64_t most[8] = { UINT64_C(267) << 52, UINT64_C(267) << 52,
		(UINT64_C(1) << 51) + (19 << 12), (UINT64_C(1) << 51) + (19 << 12),
		(UINT64_C(1) << 51) + (19 << 12), (UINT64_C(1) << 51) + (19 << 12),
		UINT64_C(1) << 51, UINT64_C(1) << 51 };

	run_field();
	for (int lane = 0; lane < 8; lane++) {
		unsigned char want[8][32], got[32];

		want_field(want, lane);
		for (int f = 0; f < 8; f++) {
			unsigned char bytes[BYTES] = { 0 };

			for (int i = 0; i < 5; i++) {
				CHECK(result[f][i][lane] < most[f]);
				add_limb(bytes, result[f][i][lane], i);
			}
			reduce(got, bytes);
			if (memcmp(got, want[f], 32) != 0)
				fprintf(stderr, "function %d\n", f);
			CHECK(memcmp(got, want[f], 32) == 0);
			/* the last two are below p as they are */
			CHECK(f < 6 || memcmp(bytes, want[f], 32) == 0);
		}
	}
}

static void test_field(void)
{
	const uint64_t one = 1;
	const uint64_t limbs[] = { 0, 1, 18, 19, (one << 51) - 20, (one << 51) - 19,
		(one << 51) - 18, (one << 51) - 1, one << 51,
		(one << 51) + (19 << 12) - 1, (one << 52) - 38, (one << 52) - 19,
		(one << 52) - 2, (one << 52) - 1 };

	for (int round = 0; round < 150; round++) {
		for (int lane = 0; lane < 8; lane++) {
			uint64_t a = limbs[next() % 14], b = limbs[next() % 14];

			for (int i = 0; i < 5; i++) {
				/* mostly 2^51 - 1 above limb 0, as in p and its
				 * neighbours; or any of the extremes; or anything */
				in_a[i][lane] = round % 4 == 0 ? limbs[7] :
					round % 4 < 3          ? limbs[next() % 14] :
								 next() & ((one << 52) - 1);
				in_b[i][lane] = round % 4 < 3 ?
					limbs[next() % 14] :
					next() & ((one << 52) - 1);
			}
			if (round % 2 == 0) {
				in_a[0][lane] = a;
				in_b[0][lane] = b;
			}
			for (int i = 0; i < 5 && round == 1; i++)
				in_a[i][lane] = in_b[i][lane] = limbs[13];
		}
		check_field();
	}
}

static void test_sha512(void)
{
	unsigned char in[8][128], out[8][64], want[64];

	for (int round = 0; round < 20; round++) {
		fill(in[0], sizeof in);
		sha512_eight(out, (const unsigned char(*)[128])in);
		for (int i = 0; i < 8; i++) {
			crypto_hash_sha512(want, in[i], 128);
			CHECK(memcmp(out[i], want, 64) == 0);
		}
	}
}
#endif

int main(void)
{
	if (sodium_init() < 0)
		return 1;
	find_torsion();
#ifdef __x86_64__
	if (cpu_features(cpu_level_best()).ifma) {
		fast = ed25519_verify_ifma;
		test_field();
		test_sha512();
	}
#endif
	if (fast == ed25519_verify_ref)
		fprintf(stderr, "no IFMA here: libsodium is held against itself\n");
	test_rfc();
	test_valid();
	test_flipped_bits();
	test_scalars();
	test_small_order();
	test_liars();
	test_keys();
	test_lanes();
	TEST_END();
}
