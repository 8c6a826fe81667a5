/* ed25519.c - chooses how signatures are verified; the reference is libsodium, one by one. */
#include "kernels/crypto/ed25519.h"

#include <pthread.h>
#include <sodium.h>

#include "kernels/dev/cpu.h"

void ed25519_verify_ref(struct ed25519 *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		s[i].good = crypto_sign_verify_detached(s[i].signature, s[i].message,
				    ED25519_MESSAGE, s[i].public_key) == 0;
}

#ifdef __x86_64__
/* Whether this libsodium leaves the cofactor out, as 1.0.18 does and the lanes do: key and
 * signature are those of a liar whose equation holds only times 8. With one that accepts them,
 * which record counts would depend on how many are verified together. */
static bool cofactor_left_out(void)
{
	/* clang-format off */
	static const unsigned char key[ED25519_KEY] = {
		0xa5, 0x5d, 0x50, 0x74, 0x0b, 0xc0, 0x69, 0x47, 0x8a, 0x05, 0x1d, 0xf1, 0x5f, 0xe2, 0x73, 0x5a,
		0x63, 0x1d, 0xaa, 0xc9, 0x36, 0x23, 0x4e, 0x7b, 0xd8, 0x5b, 0xf7, 0xa9, 0x73, 0x90, 0x42, 0xc3,
	};
	static const unsigned char signature[ED25519_SIGNATURE] = {
		0x8a, 0xcd, 0x52, 0xdc, 0x8a, 0x97, 0xd7, 0xc9, 0xbd, 0xed, 0xb9, 0x7d, 0x46, 0x63, 0x8f, 0xc5,
		0xd5, 0xb9, 0x4e, 0xe9, 0x46, 0x38, 0x80, 0xc0, 0xb3, 0xf2, 0x6a, 0xf9, 0xf9, 0x80, 0x12, 0x66,
		0x6a, 0x81, 0xbf, 0x01, 0x67, 0xfc, 0x0e, 0xff, 0x76, 0x09, 0xb8, 0x2e, 0x43, 0x53, 0x34, 0xfa,
		0x4a, 0x0c, 0xa1, 0x4c, 0xd7, 0x64, 0x03, 0x30, 0x68, 0xd7, 0x4c, 0xf5, 0x43, 0xd2, 0x94, 0x06,
	};
	/* clang-format on */
	static const unsigned char message[ED25519_MESSAGE];

	return crypto_sign_verify_detached(signature, message, sizeof message, key) != 0;
}

static bool eight_lanes;

static void look(void)
{
	enum cpu_level level;

	(void)cpu_level_chosen(&level);
	eight_lanes = cpu_features(level).ifma && cofactor_left_out();
}

static bool has_eight_lanes(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, look);
	return eight_lanes;
}
#endif

void ed25519_verify(struct ed25519 *s, size_t n)
{
#ifdef __x86_64__
	/* one alone without a table takes less time with libsodium */
	if (n && (n > 1 || s->table) && has_eight_lanes()) {
		ed25519_verify_ifma(s, n);
		return;
	}
#endif
	ed25519_verify_ref(s, n);
}

struct ed25519_table *ed25519_table_new(const unsigned char key[ED25519_KEY])
{
#ifdef __x86_64__
	if (has_eight_lanes())
		return ed25519_table_ifma(key);
#endif
	(void)key;
	return NULL;
}
