/* huff.h - the entropy coder of the gradient compressor: bytes to fewer bytes and back, in
 * chunks.
 *
 * A chunk is 1 .. HUFF_CHUNK_MAX symbols of a byte each, coded by itself with a table of its
 * own, because gradients are not stationary. HUFF_CHUNK is what suits caches and GPUs; below
 * about 0.1 bits a symbol the 30 bytes of tables weigh, and HUFF_CHUNK_MAX is better. How many
 * symbols and how many coded bytes a chunk has the container knows; here they are arguments.
 * Every version writes the same bytes. Multi-byte numbers are little-endian.
 *
 *     chunk = 0 symbols                                    RAW   as they are
 *           | 1 symbol                                     ONE   all are this one
 *           | 2 plane                                      CODE  Huffman
 *           | 3 z s+32*a L:3 T:3 R:3 symbols(2^a - 1) lows chunk(T) chunk(L)     RUNS  of the symbol z
 *           | 4 A-1 symbols(A) chunk                       PACK  small alphabets
 *     plane = k+16*log2(S)+128*wide lengths lows streams(S) sizes
 *
 * CODE: the low k bits of each symbol are stored as they are (of 64 symbols each: a mask of 64
 * bits for bit 0, one for bit 1 ...; of a last part a mask of as many bytes as it needs) and
 * the rest, symbol >> k, is Huffman-coded. Where a distribution is smooth over 2^k neighbours
 * this costs less than 0.2%, and halves the work: more symbols come out of each look-up. The
 * symbols are cut into S streams of huff_segment() each. Their sizes in bytes, all but the last
 * one's, stand at the end: where wide is 0, m:2 and S-1 bytes that are to be added to m, else 2
 * bytes each. A stream is a number, written little-endian: from bit 0 on the codes of its
 * symbols, then a 1. A decoder starts at that 1, takes codes from the top down and gets the
 * symbols last to first; it ends at bit 0 exactly. Codes are canonical (by length, then symbol,
 * lowest first) of 1 to 12 bits, optimal under that limit. The lengths are bits, least first:
 * `0` as the last one that was not 0 (at first 6), `100` one more, `101` one less, `110` g: g
 * times 0, `111` and 4 bits: that length; g is 1 .. as floor(log2 g) times 0, then 1, then the
 * rest of g, top bit first. RUNS: T tokens, one for each symbol that is not z. Its low 8 - a
 * bits: how many z stand before that, over 2^s (the low s bits of how many are in `lows`, laid
 * out as above); its high a bits: the place of the symbol among the 2^a - 1 `symbols`, or 2^a -
 * 1: it is the next one of the L in the second chunk, which is not there where L is 0. 255 is
 * floor(255 / 2^a) * 2^s of z and no other symbol (its low bits are 0). a is 0 .. 3. R: bytes
 * of the first of the two chunks. Both are RAW, ONE or CODE. PACK: places in the alphabet, 8 in
 * a byte (A <= 2), 4 (<= 4) or 2 (<= 16), first lowest; RAW, ONE or CODE.
 *
 * Why this way. A decoder spends on a look-up: shift, load, shift, store, two to advance: 6
 * instructions, and 14 for each refill of 64 bits. One stream waits 7 cycles for each look-up,
 * so at least 8 streams must overlap to be bound by instructions; 32 streams serve a warp of a
 * GPU. At 4.2 bits a symbol (6-sigma int8 less its low 3) a look-up of 12 bits gives 2.4
 * symbols, so about 4 instructions a symbol; byte by byte it were 7. An encoder does table
 * look-ups by vpermb and merges eight codes in vector lanes, so that the serial part is 9
 * instructions for 8 symbols; the histogram (3 a symbol) then weighs most. Codes: Larmore and
 * Hirschberg, A fast algorithm for optimal length-limited Huffman codes, 1990. */
#ifndef RNP_KERNELS_GRAD_HUFF_H
#define RNP_KERNELS_GRAD_HUFF_H

#include <stdint.h>

#include "kernels/dev/cpu.h"
#include "kernels/dev/hd.h"

#define HUFF_CHUNK       65536
#define HUFF_CHUNK_MAX   262144
#define HUFF_LENGTH_MAX  12
#define HUFF_STREAMS_MAX 32
#define HUFF_SLACK       64 /* what a coded chunk may need beyond its symbols */

enum huff_mode { HUFF_RAW, HUFF_ONE, HUFF_CODE, HUFF_RUNS, HUFF_PACK };

/* How many chunks n symbols are. */
HD uint64_t huff_chunks(uint64_t n, uint32_t chunk)
{
	return n / chunk + (n % chunk != 0);
}

/* Room that the coded form of n symbols needs while it is written; the coded form itself is at
 * most n + 1 bytes for each chunk. */
HD uint64_t huff_bound(uint64_t n, uint32_t chunk)
{
	return n + huff_chunks(n, chunk) * HUFF_SLACK;
}

/* What one encoder or decoder needs while it works on a chunk: contents do not matter, one for
 * each thread. */
struct huff_work {
	uint64_t table[4096 + 8] __attribute__((aligned(64)));
	uint32_t counts[256];
	unsigned char runs[HUFF_CHUNK_MAX / 2 + 8192]; /* tokens */
	unsigned char rest[HUFF_CHUNK_MAX / 2 + 8192]; /* symbols that they do not name */
	unsigned char packed[HUFF_CHUNK_MAX / 2 + 64];
	uint32_t lows[HUFF_CHUNK_MAX / 2 + 8192]; /* of runs */
	uint32_t gaps[HUFF_CHUNK_MAX / 2 + 64];   /* z before what is no z */
	unsigned char others[HUFF_CHUNK_MAX / 2 + 64];
};

KERNELS_BEGIN

/* One level of kernels for one thread. */
struct huff_kernels {
	/* counts[v] is how many of n bytes are v; n < 2^32 */
	void (*count)(uint32_t counts[256], const unsigned char *in, uint64_t n);
	/* Code n = 0 .. HUFF_CHUNK_MAX symbols as one chunk; out has room for n + HUFF_SLACK.
	 * Returns its bytes, at most n + 1; none for n = 0. */
	uint32_t (*encode)(struct huff_work *w, unsigned char *out,
		const unsigned char *in, uint32_t n);
	/* Get the n = 0 .. HUFF_CHUNK_MAX symbols back that `bytes` bytes at in are a chunk of.
	 * Nothing beyond out[n - 1] is written nor beyond in[bytes - 1] read, whatever they
	 * are. Returns 0, or -1: they are no such chunk; out then holds anything. */
	int (*decode)(struct huff_work *w, unsigned char *out, uint32_t n,
		const unsigned char *in, uint64_t bytes);
};

/* The kernels of a level, which this CPU must have. */
const struct huff_kernels *huff_kernels(enum cpu_level level);

KERNELS_END

#endif
