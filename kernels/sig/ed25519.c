/* ed25519.c - chooses how signatures are verified; the reference is libsodium, one by one. */
#include "kernels/sig/ed25519.h"

#include <pthread.h>
#include <sodium.h>

#include "kernels/dev/cpu.h"

void ed25519_verify_ref(struct ed25519 *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		s[i].good = crypto_sign_verify_detached(s[i].signature, s[i].message,
				    ED25519_MESSAGE, s[i].public_key) == 0;
}

static bool eight_lanes;

static void choose(void)
{
	enum cpu_level level;

	(void)cpu_level_chosen(&level);
	eight_lanes = cpu_features(level).ifma;
}

void ed25519_verify(struct ed25519 *s, size_t n)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, choose);
#ifdef __x86_64__
	if (eight_lanes && n > 1) { /* one alone takes less time with libsodium */
		ed25519_verify_ifma(s, n);
		return;
	}
#endif
	ed25519_verify_ref(s, n);
}
