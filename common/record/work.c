/* work.c - proof of work for joining a registry: one SHA-256 a try. */
#include "common/record/work.h"
#include "common/base/sha256.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PREFIX "rnp-join-1:"

static int zero_bits(const unsigned char hash[SHA256_BYTES])
{
	int bits = 0;

	for (int i = 0; i < (int)SHA256_BYTES; i++) {
		if (hash[i])
			return bits + __builtin_clz(hash[i]) - 24;
		bits += 8;
	}
	return bits;
}

/* Hashes all but the number, which is the same for all tries. */
static void begin(struct sha256_state *s, const char *token, const char *address)
{
	sha256_init(s);
	sha256_update(s, PREFIX, sizeof PREFIX - 1);
	sha256_update(s, token, strlen(token));
	sha256_update(s, ":", 1);
	sha256_update(s, address, strlen(address));
	sha256_update(s, ":", 1);
}

static bool is_work(const struct sha256_state *begun, uint64_t number, int bits)
{
	unsigned char hash[SHA256_BYTES];
	struct sha256_state s = *begun;
	char text[24];
	int len = snprintf(text, sizeof text, "%" PRIu64, number);

	sha256_update(&s, text, (unsigned long long)len);
	sha256_final(&s, hash);
	return zero_bits(hash) >= bits;
}

bool work_check(const char *token, const char *address, uint64_t number, int bits)
{
	struct sha256_state s;

	begin(&s, token, address);
	return is_work(&s, number, bits);
}

bool work_solve(const char *token, const char *address, int bits, uint64_t from,
	uint64_t tries, uint64_t *number)
{
	struct sha256_state s;

	begin(&s, token, address);
	for (uint64_t i = 0; i < tries; i++)
		if (is_work(&s, from + i, bits)) {
			*number = from + i;
			return true;
		}
	return false;
}
