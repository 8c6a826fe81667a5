/* blake2b.c - reference of BLAKE2b, one message after the other. */
#include "kernels/crypto/blake2b.h"

#include <string.h>

#define ADD(a, b)    ((a) + (b))
#define XOR(a, b)    ((a) ^ (b))
#define ROTATE(a, n) ((a) >> (n) | (a) << (64 - (n)))
#include "kernels/crypto/blake2b_rounds.inc"

/* clang-format off */
const uint64_t blake2b_start[8] = {
	0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
	0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179,
};
/* clang-format on */

static void blocks_ref(uint64_t h[8][BLAKE2B_LANES],
	const unsigned char *const at[BLAKE2B_LANES], const uint64_t count[BLAKE2B_LANES],
	uint64_t blocks, unsigned active, unsigned last)
{
	(void)active; /* one lane */
	for (uint64_t b = 0; b < blocks; b++) {
		uint64_t v[16], m[16] = { 0 };

		for (unsigned i = 0; i < BLAKE2B_BLOCK; i++)
			m[i / 8] |= (uint64_t)at[0][b * BLAKE2B_BLOCK + i] << i % 8 * 8;
		for (unsigned i = 0; i < 8; i++) {
			v[i] = h[i][0];
			v[8 + i] = blake2b_start[i];
		}
		v[12] ^= count[0] + b * BLAKE2B_BLOCK;
		v[14] ^= last & 1 ? UINT64_MAX : 0;
		ROUNDS(ROUND)
		for (unsigned i = 0; i < 8; i++)
			h[i][0] ^= v[i] ^ v[8 + i];
	}
}

/* The messages that are being hashed, one in each lane. */
struct lanes {
	uint64_t h[8][BLAKE2B_LANES];
	const unsigned char *at[BLAKE2B_LANES];
	uint64_t left[BLAKE2B_LANES], count[BLAKE2B_LANES];
	unsigned char last[BLAKE2B_LANES]
			  [BLAKE2B_BLOCK]; /* the last block, padded with zeros */
	unsigned active;
};

/* Hashes one block of each active lane: the last one if no more remains. */
static void one_block(struct lanes *l, unsigned lanes, blake2b_blocks_fn run)
{
	unsigned last = 0;

	for (unsigned i = 0; i < lanes; i++) {
		if (!(l->active >> i & 1)) {
			/* Input of an idle lane is ignored but must be readable. The message
			 * that many_blocks set there may have less than a block left. */
			l->at[i] = l->last[i];
			continue;
		}
		if (l->left[i] > BLAKE2B_BLOCK) {
			l->count[i] += BLAKE2B_BLOCK;
			continue;
		}
		memset(l->last[i], 0, BLAKE2B_BLOCK);
		if (l->left[i])
			memcpy(l->last[i], l->at[i], l->left[i]);
		l->at[i] = l->last[i];
		l->count[i] += l->left[i];
		last |= 1u << i;
	}
	run(l->h, l->at, l->count, 1, l->active, last);
	for (unsigned i = 0; i < lanes; i++) {
		l->at[i] += BLAKE2B_BLOCK;
		l->left[i] -= last >> i & 1 ? l->left[i] : BLAKE2B_BLOCK;
	}
	l->active &= ~last;
}

/* Hashes as many blocks as every active lane has before its last. */
static void many_blocks(struct lanes *l, unsigned lanes, blake2b_blocks_fn run)
{
	const unsigned char *any = NULL;
	uint64_t blocks = UINT64_MAX;

	for (unsigned i = 0; i < lanes; i++)
		if (l->active >> i & 1) {
			uint64_t mine = l->left[i] ? (l->left[i] - 1) / BLAKE2B_BLOCK : 0;

			blocks = mine < blocks ? mine : blocks;
			any = l->at[i];
		}
	for (unsigned i = 0; i < lanes; i++) {
		if (!(l->active >> i & 1))
			l->at[i] = any; /* input of an idle lane is ignored */
		l->count[i] += BLAKE2B_BLOCK;
	}
	if (blocks)
		run(l->h, l->at, l->count, blocks, l->active, 0);
	for (unsigned i = 0; i < lanes; i++) {
		l->at[i] += blocks * BLAKE2B_BLOCK;
		l->left[i] -= blocks * BLAKE2B_BLOCK;
		l->count[i] += blocks * BLAKE2B_BLOCK - BLAKE2B_BLOCK;
	}
}

static void hash_lanes(struct blake2b_message *m, unsigned count, unsigned lanes,
	const unsigned char *key, unsigned key_bytes, unsigned out_bytes,
	blake2b_blocks_fn run)
{
	struct lanes l;
	unsigned char first[BLAKE2B_LANES][BLAKE2B_BLOCK] = { { 0 } };

	memset(&l, 0, sizeof l);
	for (unsigned i = 0; i < lanes; i++) {
		if (key_bytes && i < count)
			memcpy(first[i], m[i].key ? m[i].key : key, key_bytes);
		for (unsigned w = 0; w < 8; w++)
			l.h[w][i] = blake2b_start[w];
		l.h[0][i] ^= 0x01010000 ^ key_bytes << 8 ^ out_bytes;
		l.at[i] = first[i];
		/* a key is hashed as a block before the message */
		if (i < count && (m[i].bytes || !key_bytes))
			l.active |= 1u << i;
	}
	if (key_bytes) {
		unsigned empty = ((1u << count) - 1) & ~l.active;

		for (unsigned i = 0; i < lanes; i++)
			l.count[i] = BLAKE2B_BLOCK;
		run(l.h, l.at, l.count, 1, l.active | empty, empty);
	}
	for (unsigned i = 0; i < count; i++) {
		l.at[i] = m[i].bytes ? m[i].in : first[i];
		l.left[i] = m[i].bytes;
	}
	while (l.active) {
		many_blocks(&l, lanes, run);
		one_block(&l, lanes, run);
	}
	for (unsigned i = 0; i < count; i++)
		for (unsigned b = 0; b < out_bytes; b++)
			m[i].out[b] = (unsigned char)(l.h[b / 8][i] >> b % 8 * 8);
}

void blake2b(enum cpu_level level, struct blake2b_message *m, uint64_t count,
	const unsigned char *key, unsigned key_bytes, unsigned out_bytes)
{
	blake2b_blocks_fn run = NULL;
	unsigned lanes = 1;

#ifdef __x86_64__
	run = blake2b_x86(level, &lanes);
#endif
	(void)level;
	if (!run) {
		run = blocks_ref;
		lanes = 1;
	}
	for (uint64_t i = 0; i < count; i += lanes)
		hash_lanes(m + i, count - i < lanes ? (unsigned)(count - i) : lanes,
			lanes, key, key_bytes, out_bytes, run);
}
