/* huff_parts.h - the parts of a CPU's encoder and decoder that have fast versions; huff.c
 * builds chunks from them. */
#ifndef RNP_KERNELS_GRAD_HUFF_PARTS_H
#define RNP_KERNELS_GRAD_HUFF_PARTS_H

#include "kernels/grad/huff_plan.h"

struct huff_parts {
	/* counts[v] of v = symbol >> shift, shift = 0 .. HUFF_SPLIT_MAX */
	void (*count)(uint32_t counts[256], const unsigned char *in, uint64_t n,
		unsigned shift);
	/* counts within the sample of huff_plan.h */
	void (*sample)(uint32_t counts[256], const unsigned char *in, uint32_t n);
	/* Returns the OR of all symbols, or of some of them if that already is HUFF_ANY_ENOUGH
	 * or more. */
	unsigned (*any)(const unsigned char *in, uint32_t n);
	/* Collects the symbols other than z (less than half of the n), and the number of z
	 * before each; *close: how many have none before them. Returns how many there are. Both
	 * arrays have space for HUFF_CHUNK_MAX / 2 + 64. */
	uint32_t (*gaps)(uint32_t *gaps, unsigned char *others, uint32_t *close,
		const unsigned char *in, uint32_t n, unsigned z);
	/* Packs place[symbol] of n symbols in `width` = 1, 2 or 4 bits each, the first one
	 * lowest. */
	void (*pack)(unsigned char *out, const unsigned char *in, uint32_t n,
		const unsigned char place[256], unsigned width);
	/* Extract the low `width` = 1 .. HUFF_SPLIT_MAX bits of n symbols, huff_lows_bytes() of
	 * them; and insert them below symbols again. */
	void (*put_lows)(unsigned char *out, const unsigned char *in, uint32_t n,
		unsigned width);
	void (*add_lows)(unsigned char *symbols, const unsigned char *in, uint32_t n,
		unsigned width);
	/* Writes the streams of a plane; end[s]: where stream s ends. May write 8 bytes beyond
	 * the last one. */
	void (*put_streams)(unsigned char *out, uint32_t *end, const struct huff_plane *p,
		const unsigned char *in, uint32_t n);
	/* Decodes the streams; out gets the symbols without their low bits. from[s]: where
	 * stream s begins, from[S]: where the last one ends. length: of a complete code.
	 * Returns 0 or -1. */
	int (*get_streams)(struct huff_work *w, unsigned char *out, uint32_t n,
		unsigned streams_log, const unsigned char *length, unsigned symbols,
		const unsigned char *in, const uint32_t *from);
};

KERNELS_BEGIN

void huff_count_ref(uint32_t counts[256], const unsigned char *in, uint64_t n,
	unsigned shift);
void huff_sample_ref(uint32_t counts[256], const unsigned char *in, uint32_t n);
unsigned huff_any_ref(const unsigned char *in, uint32_t n);
uint32_t huff_gaps_ref(uint32_t *gaps, unsigned char *others, uint32_t *close,
	const unsigned char *in, uint32_t n, unsigned z);
void huff_pack_ref(unsigned char *out, const unsigned char *in, uint32_t n,
	const unsigned char place[256], unsigned width);
void huff_put_lows_ref(unsigned char *out, const unsigned char *in, uint32_t n,
	unsigned width);
void huff_add_lows_ref(unsigned char *symbols, const unsigned char *in, uint32_t n,
	unsigned width);
void huff_put_streams_ref(unsigned char *out, uint32_t *end, const struct huff_plane *p,
	const unsigned char *in, uint32_t n);
int huff_get_streams_ref(struct huff_work *w, unsigned char *out, uint32_t n,
	unsigned streams_log, const unsigned char *length, unsigned symbols,
	const unsigned char *in, const uint32_t *from);
uint32_t huff_encode(const struct huff_parts *parts, struct huff_work *w,
	unsigned char *out, const unsigned char *in, uint32_t n);
int huff_decode(const struct huff_parts *parts, struct huff_work *w, unsigned char *out,
	uint32_t n, const unsigned char *in, uint64_t bytes);

extern const struct huff_kernels huff_kernels_ref;
/* Returns the parts of a level that this CPU has, or NULL. */
const struct huff_kernels *huff_kernels_x86(enum cpu_level level);

KERNELS_END

#endif
