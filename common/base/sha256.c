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

/* libsodium counts bits, and keeps what is no whole block yet. */
void sha256_update(struct sha256_state *s, const void *data, size_t len)
{
	const unsigned char *p = data;

#ifdef __x86_64__
	if (has_sha()) {
		size_t begun = s->sodium.count / 8 % 64, head = begun ? 64 - begun : 0;
		size_t blocks;

		head = head < len ? head : len;
		crypto_hash_sha256_update(&s->sodium, p, head);
		p += head, len -= head;
		blocks = len / 64;
		sha256_blocks_shani(s->sodium.state, p, blocks);
		s->sodium.count += 512 * (uint64_t)blocks;
		p += 64 * blocks, len -= 64 * blocks;
	}
#endif
	crypto_hash_sha256_update(&s->sodium, p, len);
}
