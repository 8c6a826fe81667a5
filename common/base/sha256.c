/* sha256.c - which of the two ways this CPU takes. */
#include "common/base/sha256.h"

#include <pthread.h>
#include <sodium.h>
#include <stdbool.h>

#include "kernels/dev/cpu.h"
#include "kernels/crypto/sha256_rows.h"

#ifdef __x86_64__
static bool cpu_has_sha;

static void look_for_sha(void)
{
	enum cpu_level level;

	(void)cpu_level_chosen(&level);
	cpu_has_sha = cpu_features(level).sha;
}

static bool has_sha(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, look_for_sha);
	return cpu_has_sha;
}
#endif

void sha256(unsigned char out[32], const void *data, size_t len)
{
#ifdef __x86_64__
	const struct sha256_rows row = { .rows = data,
		.row_bytes = len,
		.stride_bytes = len,
		.count = 1 };

	if (has_sha()) {
		sha256_rows_shani(out, &row);
		return;
	}
#endif
	crypto_hash_sha256(out, data, len);
}

void sha256_each(const struct sha256_message *m, size_t n)
{
#ifdef __x86_64__
	if (has_sha()) {
		sha256_each_shani(m, n);
		return;
	}
#endif
	for (size_t i = 0; i < n; i++)
		crypto_hash_sha256(m[i].digest, m[i].data, m[i].len);
}
