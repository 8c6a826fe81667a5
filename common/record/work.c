/* work.c - proof of work for joining a registry: one SHA-256 a try. */
#include "common/record/work.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#define PREFIX "rnp-join-1:"

static int zero_bits(const unsigned char hash[crypto_hash_sha256_BYTES])
{
	int bits = 0;

	for (int i = 0; i < (int)crypto_hash_sha256_BYTES; i++) {
		if (hash[i])
			return bits + __builtin_clz(hash[i]) - 24;
		bits += 8;
	}
	return bits;
}

/* Hashes all but the number, which is the same for all tries. */
static void begin(crypto_hash_sha256_state *s, const char *token, const char *address)
{
	crypto_hash_sha256_init(s);
	crypto_hash_sha256_update(s, (const unsigned char *)PREFIX, sizeof PREFIX - 1);
	crypto_hash_sha256_update(s, (const unsigned char *)token, strlen(token));
	crypto_hash_sha256_update(s, (const unsigned char *)":", 1);
	crypto_hash_sha256_update(s, (const unsigned char *)address, strlen(address));
	crypto_hash_sha256_update(s, (const unsigned char *)":", 1);
}

static bool is_work(const crypto_hash_sha256_state *begun, uint64_t number, int bits)
{
	unsigned char hash[crypto_hash_sha256_BYTES];
	crypto_hash_sha256_state s = *begun;
	char text[24];
	int len = snprintf(text, sizeof text, "%" PRIu64, number);

	crypto_hash_sha256_update(&s, (const unsigned char *)text,
		(unsigned long long)len);
	crypto_hash_sha256_final(&s, hash);
	return zero_bits(hash) >= bits;
}

bool work_check(const char *token, const char *address, uint64_t number, int bits)
{
	crypto_hash_sha256_state s;

	begin(&s, token, address);
	return is_work(&s, number, bits);
}

bool work_solve(const char *token, const char *address, int bits, uint64_t from,
	uint64_t tries, uint64_t *number)
{
	crypto_hash_sha256_state s;

	begin(&s, token, address);
	for (uint64_t i = 0; i < tries; i++)
		if (is_work(&s, from + i, bits)) {
			*number = from + i;
			return true;
		}
	return false;
}
