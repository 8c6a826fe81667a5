/* sha256_each_x86.c - two lanes of the SHA extensions, each of which takes the next message when it
 * has finished one; and one message that comes in pieces. */
#include "kernels/crypto/sha256_each.h"

#ifdef __x86_64__
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "kernels/crypto/sha256_x86.h"

struct lane {
	struct sha256_halves state;
	const unsigned char *at; /* of `blocks` blocks: in the message, or in tail */
	size_t blocks, tails;    /* tails: those of tail, as long as they are not begun */
	unsigned char *digest;
	unsigned char tail[128]; /* the last bytes and the padding */
};

/* Goes on with the tail. Returns false if there is none: the message is finished. */
static bool go_on(struct lane *l)
{
	l->at = l->tail;
	l->blocks = l->tails;
	l->tails = 0;
	return l->blocks > 0;
}

SHANI static void begin(struct lane *l, const struct sha256_message *m)
{
	const unsigned char *data = m->data;
	size_t rest = m->len % 64;
	uint64_t bits = __builtin_bswap64((uint64_t)m->len * 8);

	l->state = sha256_start_shani();
	l->at = data;
	l->blocks = m->len / 64;
	l->tails = rest < 56 ? 1 : 2;
	l->digest = m->digest;
	memset(l->tail, 0, l->tails * 64);
	if (rest)
		memcpy(l->tail, data + l->blocks * 64, rest);
	l->tail[rest] = 0x80;
	memcpy(l->tail + l->tails * 64 - 8, &bits, sizeof bits);
	if (!l->blocks)
		(void)go_on(l);
}

/* Hashes as many blocks as all n lanes have, n a constant. */
SHANI INLINE void advance(struct lane *const *l, int n)
{
	size_t blocks = l[0]->blocks;
	struct sha256_halves s[2];
	const unsigned char *from[2];

	if (n == 2 && l[1]->blocks < blocks)
		blocks = l[1]->blocks;
	for (int i = 0; i < n; i++)
		s[i] = l[i]->state;
	for (size_t b = 0; b < blocks; b++) {
		for (int i = 0; i < n; i++)
			from[i] = l[i]->at + 64 * b;
		sha256_compress_shani(s, from, n);
	}
	for (int i = 0; i < n; i++) {
		l[i]->state = s[i];
		l[i]->at += 64 * blocks;
		l[i]->blocks -= blocks;
	}
}

SHANI void sha256_each_shani(const struct sha256_message *m, size_t n)
{
	struct lane lanes[2], *live[2] = { &lanes[0], &lanes[1] };
	int nlive = n < 2 ? (int)n : 2;
	size_t begun = (size_t)nlive;

	for (int i = 0; i < nlive; i++)
		begin(live[i], &m[i]);
	while (nlive) {
		if (nlive == 2)
			advance(live, 2);
		else
			advance(live, 1);
		for (int i = nlive - 1; i >= 0; i--) {
			if (live[i]->blocks || go_on(live[i]))
				continue;
			sha256_digest_shani(live[i]->digest, &live[i]->state);
			if (begun < n)
				begin(live[i], &m[begun++]);
			else
				live[i] = live[--nlive];
		}
	}
}

SHANI void sha256_blocks_shani(uint32_t state[8], const void *data, size_t n)
{
	const unsigned char *from = data;
	uint32_t *h = state, abef[4], cdgh[4];
	struct sha256_halves s = { _mm_setr_epi32((int)h[5], (int)h[4], (int)h[1],
					   (int)h[0]),
		_mm_setr_epi32((int)h[7], (int)h[6], (int)h[3], (int)h[2]) };

	for (; n; n--, from += 64)
		sha256_compress_shani(&s, &from, 1);
	_mm_storeu_si128((__m128i *)abef, s.abef);
	_mm_storeu_si128((__m128i *)cdgh, s.cdgh);
	h[0] = abef[3], h[1] = abef[2], h[4] = abef[1], h[5] = abef[0];
	h[2] = cdgh[3], h[3] = cdgh[2], h[6] = cdgh[1], h[7] = cdgh[0];
}
#endif
