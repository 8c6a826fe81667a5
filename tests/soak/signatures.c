/* signatures.c - random Ed25519 signatures with and without faults, verified eight at a time and by
 * libsodium: signatures SECONDS [SEED].
 *
 * Every verdict must be libsodium's. Faults: bits turned over; S plus multiples of L; keys and R of
 * small order, written as below p or not, on the curve or not; keys and R with torsion whose
 * signatures hold by the equation with the cofactor; all of it random. A part of the keys has a
 * table. Prints how many were verified
 * and how many were good; exit 1 at the first difference, with the case in hexadecimal. */
#include <sodium.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/rng.h"
#include "kernels/crypto/ed25519.h"

#define POOL      512
#define BATCH_MAX 150
#define KNOWN     64 /* of the pool have a table */

struct sample {
	unsigned char signature[64], key[32], message[64];
};

static const unsigned char order[32] = { 0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58,
	0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, [31] = 0x10 };

static struct rng rng;

static uint64_t next(void)
{
	return rng_u64(&rng);
}

static void scalar(unsigned char out[32])
{
	unsigned char wide[64];

	rng_bytes(&rng, wide, sizeof wide);
	crypto_core_ed25519_scalar_reduce(out, wide);
}

/* The points whose order divides 8: the multiples of one of order 8. */
static unsigned char torsion[8][32];

static struct ed25519_table *tables[KNOWN];

static void find_torsion(void)
{
	unsigned char y[32];

	sodium_hex2bin(y, 32,
		"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a", 64,
		NULL, NULL, NULL);
	memcpy(torsion[1], y, 32);
	for (int i = 2; i < 9; i++)
		if (crypto_core_ed25519_add(torsion[i % 8], torsion[i - 1], y) != 0)
			abort();
}

/* S = r + h a for the key a B + T and R = r B + U. */
static void make(struct sample *s, const unsigned char *t, const unsigned char *u)
{
	unsigned char a[32], r[32], hash[64], h[32];

	scalar(a);
	scalar(r);
	rng_bytes(&rng, s->message, sizeof s->message);
	if (crypto_scalarmult_ed25519_base_noclamp(s->key, a) != 0 ||
		crypto_scalarmult_ed25519_base_noclamp(s->signature, r) != 0)
		abort();
	crypto_core_ed25519_add(s->key, s->key, t);
	crypto_core_ed25519_add(s->signature, s->signature, u);
	crypto_hash_sha512_state sha;
	crypto_hash_sha512_init(&sha);
	crypto_hash_sha512_update(&sha, s->signature, 32);
	crypto_hash_sha512_update(&sha, s->key, 32);
	crypto_hash_sha512_update(&sha, s->message, 64);
	crypto_hash_sha512_final(&sha, hash);
	crypto_core_ed25519_scalar_reduce(h, hash);
	crypto_core_ed25519_scalar_mul(h, h, a);
	crypto_core_ed25519_scalar_add(s->signature + 32, r, h);
}

/* Makes a sample of the pool, and its table if it is to have one. */
static void make_at(struct sample *pool, size_t at, const unsigned char *t,
	const unsigned char *u)
{
	make(&pool[at], t, u);
	if (at < KNOWN) {
		free(tables[at]);
		tables[at] = ed25519_table_new(pool[at].key);
	}
}

/* Returns the table of a copy of pool[at], whose key may have been changed. */
static const struct ed25519_table *table_of(const struct sample *pool, size_t at,
	const struct sample *copy)
{
	return at < KNOWN && memcmp(copy->key, pool[at].key, sizeof copy->key) == 0 ?
		tables[at] :
		NULL;
}

static void add_order(unsigned char s[32], unsigned times)
{
	unsigned carry = 0;

	for (int i = 0; i < 32; i++) {
		carry += s[i] + times * order[i];
		s[i] = (unsigned char)carry;
		carry >>= 8;
	}
}

static void odd_point(unsigned char out[32])
{
	switch (next() % 3) {
	case 0: /* near p */
		memset(out, 0xff, 32);
		out[0] = (unsigned char)(0xe8 + next() % 24);
		out[31] = 0x7f;
		break;
	case 1: /* near 0 */
		memset(out, 0, 32);
		out[0] = (unsigned char)(next() % 24);
		break;
	default:
		memcpy(out, torsion[next() % 8], 32);
		break;
	}
	out[31] ^= (unsigned char)(next() % 2 << 7);
}

static void spoil(struct sample *s)
{
	switch (next() % 10) {
	case 0:
		s->signature[next() % 64] ^= (unsigned char)(1u << next() % 8);
		break;
	case 1:
		s->key[next() % 32] ^= (unsigned char)(1u << next() % 8);
		break;
	case 2:
		s->message[next() % 64] ^= (unsigned char)(1u << next() % 8);
		break;
	case 3:
		add_order(s->signature + 32, (unsigned)(1 + next() % 15));
		break;
	case 4:
		odd_point(s->key);
		break;
	case 5:
		odd_point(s->signature);
		break;
	case 6:
		rng_bytes(&rng, s->signature, sizeof s->signature);
		break;
	case 7:
		rng_bytes(&rng, s->key, sizeof s->key);
		break;
	default: /* as it is */
		break;
	}
}

static int differs(const struct sample *s, bool good)
{
	char hex[2 * sizeof *s + 1];

	sodium_bin2hex(hex, sizeof hex, (const unsigned char *)s, sizeof *s);
	printf("differs: eight lanes say %d: %s\n", good, hex);
	return 1;
}

int main(int argc, char **argv)
{
	static struct sample pool[POOL], batch[BATCH_MAX];
	struct ed25519 s[BATCH_MAX];
	int64_t until_ns = clock_mono_ns();
	uint64_t verified = 0, good = 0, seed;

	if (argc < 2 || sodium_init() < 0)
		return 64;
	until_ns += strtoll(argv[1], NULL, 10) * INT64_C(1000000000);
	seed = argc > 2 ? strtoull(argv[2], NULL, 10) : (uint64_t)clock_now_ms();
	printf("seed %llu\n", (unsigned long long)seed);
	rng_seed(&rng, seed, 0);
	find_torsion();
	for (size_t i = 0; i < POOL; i++)
		make_at(pool, i, torsion[i % 2 ? next() % 8 : 0],
			torsion[i % 2 ? next() % 8 : 0]);
	while (clock_mono_ns() < until_ns) {
		size_t n = 1 + next() % BATCH_MAX;

		make_at(pool, next() % POOL, torsion[next() % 8], torsion[next() % 8]);
		make_at(pool, next() % POOL, torsion[0], torsion[0]);
		for (size_t i = 0; i < n; i++) {
			/* half of them are of keys that have a table */
			size_t at = next() % (next() % 2 ? POOL : KNOWN);

			batch[i] = pool[at];
			spoil(&batch[i]);
			s[i] = (struct ed25519){ batch[i].signature, batch[i].key,
				batch[i].message, table_of(pool, at, &batch[i]),
				next() % 2 };
		}
		ed25519_verify(s, n);
		for (size_t i = 0; i < n; i++) {
			bool want = crypto_sign_verify_detached(batch[i].signature,
					    batch[i].message, 64, batch[i].key) == 0;

			if (s[i].good != want)
				return differs(&batch[i], s[i].good);
			good += want;
		}
		verified += n;
	}
	for (int i = 0; i < KNOWN; i++)
		free(tables[i]);
	printf("%llu verified, %llu of them good\n", (unsigned long long)verified,
		(unsigned long long)good);
	return 0;
}
