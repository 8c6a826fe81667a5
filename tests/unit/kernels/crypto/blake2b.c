/* blake2b.c - every level hashes as libsodium does, whatever the lengths of the
 * messages beside each other. */
#include "kernels/crypto/blake2b.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/test.h"

#define MESSAGES 21
#define LONGEST  1500

static unsigned char text[LONGEST + MESSAGES], key[BLAKE2B_MAX];

static void check(unsigned key_bytes, unsigned out_bytes, unsigned round)
{
	struct blake2b_message m[MESSAGES];
	unsigned char want[BLAKE2B_MAX];

	for (int level = 0; level <= (int)cpu_level_best(); level++) {
		for (unsigned i = 0; i < MESSAGES; i++) {
			/* in turns: much alike, all kinds, at the edges of blocks */
			uint64_t bytes = round % 3 == 0 ?
				700 + i :
				round % 3 == 1 ?
				(i * 7919u + round) % LONGEST :
				(i + round) % 5 * 128 + i % 3 - (i % 5 > 0);

			bytes = bytes > LONGEST ? 0 : bytes;
			/* memory of exactly that size */
			m[i].in = malloc(bytes ? bytes : 1);
			memcpy((unsigned char *)(uintptr_t)m[i].in, text + i, bytes);
			m[i].bytes = bytes;
			m[i].key = i % 3 == 1 ? text + i : NULL;
			memset(m[i].out, 0xee, sizeof m[i].out);
		}
		blake2b((enum cpu_level)level, m, MESSAGES - round % 9, key, key_bytes,
			out_bytes);
		for (unsigned i = 0; i < MESSAGES - round % 9; i++) {
			crypto_generichash(want, out_bytes, m[i].in, m[i].bytes,
				!key_bytes       ? NULL :
					m[i].key ? m[i].key :
						   key,
				key_bytes);
			CHECK(memcmp(m[i].out, want, out_bytes) == 0);
		}
		for (unsigned i = 0; i < MESSAGES; i++)
			free((unsigned char *)(uintptr_t)m[i].in);
	}
}

int main(void)
{
	/* RFC 7693, appendix A */
	static const unsigned char abc[] = { 0xba, 0x80, 0xa5, 0x3f, 0x98, 0x1c, 0x4d,
		0x0d };
	struct blake2b_message m = { .in = (const unsigned char *)"abc", .bytes = 3 };

	if (sodium_init() < 0)
		return 1;
	for (unsigned i = 0; i < sizeof text; i++)
		text[i] = (unsigned char)(i * i >> 3);
	for (unsigned i = 0; i < sizeof key; i++)
		key[i] = (unsigned char)(200 - i);
	for (unsigned round = 0; round < 60; round++) {
		check(16, 16, round);
		check(0, 32, round);
		check(64, 64, round);
	}
	for (int level = 0; level <= (int)cpu_level_best(); level++) {
		blake2b((enum cpu_level)level, &m, 1, NULL, 0, 64);
		CHECK(memcmp(m.out, abc, sizeof abc) == 0);
		blake2b((enum cpu_level)level, &m, 0, NULL, 0, 64);
	}
	TEST_END();
}
