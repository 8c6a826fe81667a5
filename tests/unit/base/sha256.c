/* sha256.c - SHA-256: FIPS 180-4's vectors, and every length around a block against libsodium,
 * one at a time and several. */
#include "common/base/sha256.h"

#include <sodium.h>
#include <string.h>

#include "tests/unit/test.h"

static void check(const char *text, const char *hex)
{
	unsigned char is[32];
	char is_hex[65];

	sha256(is, text, strlen(text));
	sodium_bin2hex(is_hex, sizeof is_hex, is, sizeof is);
	CHECK(strcmp(hex, is_hex) == 0);
}

/* Messages that end at different times, in every number up to a few: each lane takes another when
 * it has finished one, before and after the other. */
static void check_each(const unsigned char *data)
{
	static const size_t lengths[] = { 0, 55, 56, 63, 64, 65, 119, 120, 128, 1000, 3,
		700, 64, 1, 5000, 0 };
	enum { MOST = sizeof lengths / sizeof *lengths };
	unsigned char is[MOST][32], want[32];
	struct sha256_message m[MOST];

	for (size_t first = 0; first < MOST; first++)
		for (size_t n = 0; n <= MOST - first; n++) {
			memset(is, 0, sizeof is);
			for (size_t i = 0; i < n; i++)
				m[i] = (struct sha256_message){ data + 13 * i,
					lengths[first + i], is[i] };
			sha256_each(m, n);
			for (size_t i = 0; i < MOST; i++) {
				memset(want, 0, sizeof want);
				if (i < n)
					crypto_hash_sha256(want, m[i].data, m[i].len);
				CHECK(memcmp(is[i], want, sizeof want) == 0);
			}
		}
}

/* A message in pieces of every length around a block, each at any place of a block. */
static void check_pieces(const unsigned char *data, size_t len)
{
	unsigned char is[32], want[32];

	crypto_hash_sha256(want, data, len);
	for (size_t first = 0; first < 130; first++)
		for (size_t piece = 1; piece < 200; piece += 13) {
			struct sha256_state s;
			size_t at = first;

			sha256_init(&s);
			sha256_update(&s, data, first);
			for (; at + piece <= len; at += piece)
				sha256_update(&s, data + at, piece);
			sha256_update(&s, data + at, len - at);
			sha256_final(&s, is);
			CHECK(memcmp(is, want, sizeof is) == 0);
		}
}

int main(void)
{
	static unsigned char data[70001];
	unsigned char is[32], want[32];

	CHECK(sodium_init() >= 0);
	check("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	check("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	for (size_t i = 0; i < sizeof data; i++)
		data[i] = (unsigned char)(i * 2654435761u >> 13);
	for (size_t len = 0; len <= sizeof data; len += len < 300 ? 1 : 6971) {
		/* at an odd address, too */
		sha256(is, data + (len & 1), len - (len & 1));
		crypto_hash_sha256(want, data + (len & 1), len - (len & 1));
		CHECK(memcmp(is, want, sizeof is) == 0);
	}
	check_each(data);
	check_pieces(data, 3001);
	TEST_END();
}
