/* huff.h - the entropy coder of the gradient compressor: bytes to fewer bytes and back, in
 * chunks.
 *
 * A chunk is 1 .. HUFF_CHUNK_MAX symbols of one byte each, coded with its own table, because
 * gradients are not stationary. HUFF_CHUNK suits caches and GPUs; below about 0.1 bits a symbol
 * the 30 bytes of tables matter, and HUFF_CHUNK_MAX is better. The container stores how many
 * symbols and how many coded bytes a chunk has; here both are arguments. Every version writes
 * the same bytes. Multi-byte numbers are little-endian.
 *
 *     chunk = 0 symbols                                    RAW   as they are
 *           | 1 symbol                                     ONE   all are this one
 *           | 2 plane                                      CODE  Huffman
 *           | 3 z s+32*a L:3 T:3 R:3 symbols(2^a - 1) lows chunk(T) chunk(L)     RUNS  of the
 *           symbol z
 *           | 4 A-1 symbols(A) chunk                       PACK  small alphabets
 *     plane = k+16*log2(S)+128*wide lengths lows streams(S) sizes
 *
 * CODE: the low k bits of each symbol are stored uncoded (for each 64 symbols: a mask of 64
 * bits for bit 0, one for bit 1 ...; for fewer symbols at the end, masks of as many bytes as
 * needed) and the rest, symbol >> k, is Huffman-coded. Where a distribution is smooth over 2^k
 * neighbours this costs less than 0.2%, and halves the work: each look-up yields more symbols.
 * The symbols are divided into S streams of huff_segment() each. The sizes of all streams but
 * the last, in bytes, are at the end: if wide is 0, as m:2 and S-1 bytes that are added to m,
 * else as 2 bytes each. A stream is a number, written little-endian: the codes of its symbols
 * from bit 0 on, then a 1. A decoder starts at that 1, takes codes from the top down and gets
 * the symbols last to first; it must end exactly at bit 0. Codes are canonical (by length, then
 * symbol, lowest first) of 1 to 12 bits, optimal under that limit. The lengths are bits, least
 * significant first: `0` the same as the last nonzero one (initially 6), `100` one more, `101`
 * one less, `110` g: g times 0, `111` and 4 bits: that length; g is written as floor(log2 g)
 * zeros, then 1, then the remaining bits of g, top bit first. RUNS: T tokens, one for each
 * symbol that is not z. The low 8 - a bits of a token: the number of z before that symbol, over
 * 2^s (the low s bits of that number are in `lows`, laid out as above). Its high a bits: the
 * index of the symbol among the 2^a - 1 `symbols`, or 2^a - 1: it is the next one of the L in
 * the second chunk, which is absent if L is 0. Token 255 is floor(255 / 2^a) * 2^s of z and no
 * other symbol (its low bits are 0). a is 0 .. 3. R: bytes of the first of the two chunks. Both
 * are RAW, ONE or CODE. PACK: indices into the alphabet, 8 in a byte (A <= 2), 4 (<= 4) or 2
 * (<= 16), first lowest; RAW, ONE or CODE.
 *
 * Why this design. A decoder needs for each look-up: shift, load, shift, store, two to advance:
 * 6 instructions, and 14 for each refill of 64 bits. One stream waits 7 cycles for each
 * look-up, so at least 8 streams must overlap to be limited by instructions; 32 streams serve a
 * warp of a GPU. At 4.2 bits a symbol (6-sigma int8 less its low 3) a look-up of 12 bits gives
 * 2.4 symbols, so about 4 instructions a symbol; byte by byte it would be 7. An encoder does
 * table look-ups by vpermb and merges eight codes in vector lanes, so that the serial part is 9
 * instructions for 8 symbols; then the histogram (3 a symbol) dominates. Codes: Larmore and
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
#define HUFF_SLACK       64 /* how much a coded chunk may exceed its symbols */

enum huff_mode { HUFF_RAW, HUFF_ONE, HUFF_CODE, HUFF_RUNS, HUFF_PACK };

/* Returns the number of chunks of n symbols. */
HD uint64_t huff_chunks(uint64_t n, uint32_t chunk)
{
	return n / chunk + (n % chunk != 0);
}

/* Returns the memory needed while n symbols are encoded; the result itself is at most n + 1
 * bytes for each chunk. */
HD uint64_t huff_bound(uint64_t n, uint32_t chunk)
{
	return n + huff_chunks(n, chunk) * HUFF_SLACK;
}

/* Scratch memory of one encoder or decoder, one for each thread; its initial contents do not
 * matter. */
struct huff_work {
	uint64_t table[4096 + 8] __attribute__((aligned(64)));
	uint32_t counts[256];
	unsigned char runs[HUFF_CHUNK_MAX / 2 + 8192]; /* tokens */
	unsigned char rest[HUFF_CHUNK_MAX / 2 + 8192]; /* symbols that no token names */
	unsigned char packed[HUFF_CHUNK_MAX / 2 + 64];
	uint32_t lows[HUFF_CHUNK_MAX / 2 + 8192]; /* low bits of runs */
	/* number of z before each symbol that is not z */
	uint32_t gaps[HUFF_CHUNK_MAX / 2 + 64];
	unsigned char others[HUFF_CHUNK_MAX / 2 + 64];
};

KERNELS_BEGIN

/* The kernels of one level, for one thread. */
struct huff_kernels {
	/* counts[v] is how many of n bytes are v; n < 2^32 */
	void (*count)(uint32_t counts[256], const unsigned char *in, uint64_t n);
	/* Encodes n = 0 .. HUFF_CHUNK_MAX symbols as one chunk; out has n + HUFF_SLACK bytes.
	 * Returns its size, at most n + 1; 0 for n = 0. */
	uint32_t (*encode)(struct huff_work *w, unsigned char *out,
		const unsigned char *in, uint32_t n);
	/* Decodes the n = 0 .. HUFF_CHUNK_MAX symbols of the chunk in `bytes` bytes at in.
	 * Whatever these are, nothing beyond out[n - 1] is written nor beyond in[bytes - 1]
	 * read. Returns 0, or -1: they are not such a chunk; the contents of out are then
	 * undefined. */
	int (*decode)(struct huff_work *w, unsigned char *out, uint32_t n,
		const unsigned char *in, uint64_t bytes);
};

/* Returns the kernels of a level, which this CPU must have. */
const struct huff_kernels *huff_kernels(enum cpu_level level);

KERNELS_END

#endif
