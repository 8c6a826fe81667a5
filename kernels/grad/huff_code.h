/* huff_code.h - the codes of huff.h, one text for CPU and GPU: optimal length-limited code
 * lengths from counts, codes from lengths, and the lengths as bits and back. */
#ifndef RNP_KERNELS_GRAD_HUFF_CODE_H
#define RNP_KERNELS_GRAD_HUFF_CODE_H

#include <stdint.h>

#include "kernels/grad/huff.h"

#define HUFF_ALPHABET 256u

/* Returns the number of bits that are 1. */
HD unsigned huff_ones(uint32_t v)
{
	v -= v >> 1 & 0x55555555;
	v = (v & 0x33333333) + (v >> 2 & 0x33333333);
	v = (v + (v >> 4)) & 0x0f0f0f0f;
	return v * 0x01010101u >> 24;
}

/* --- lengths ------------------------------------------------------------------------------- */

/* Scratch memory of the construction, about 7 KiB. The merged arrays have a guard at both ends. */
struct huff_tree {
	uint32_t key[HUFF_ALPHABET];      /* count - 1 << 8 | symbol, ascending */
	uint32_t leaf[HUFF_ALPHABET + 2]; /* [i + 1]: the weight of key i */
	uint32_t pair[HUFF_ALPHABET +
		2]; /* [i + 1]: the sum of items 2i and 2i + 1 of a list */
	uint32_t list[2 * HUFF_ALPHABET];
	uint16_t parent[2 * HUFF_ALPHABET];
	uint32_t is_pair[HUFF_LENGTH_MAX][2 * HUFF_ALPHABET / 32];
};

#define HUFF_DIGIT 6 /* bits of a radix-sort digit: three digits hold count - 1 */

/* Sorts the used symbols by count, then symbol. Returns how many there are. */
HD unsigned huff_sort(struct huff_tree *t, const uint32_t *counts, unsigned symbols)
{
	uint32_t *from = t->list, *to = t->key, *at = t->leaf;
	unsigned used = 0;

	for (unsigned i = 0; i < symbols; i++) {
		from[used] = (counts[i] - 1) << 8 | i;
		used += counts[i] != 0;
	}
	for (unsigned shift = 8; shift < 8 + 3 * HUFF_DIGIT; shift += HUFF_DIGIT) {
		uint32_t *swap = from, sum = 0;

		for (unsigned i = 0; i < 1u << HUFF_DIGIT; i++)
			at[i] = 0;
		for (unsigned i = 0; i < used; i++)
			at[from[i] >> shift & ((1u << HUFF_DIGIT) - 1)]++;
		for (unsigned i = 0; i < 1u << HUFF_DIGIT; i++) {
			uint32_t count = at[i];

			at[i] = sum;
			sum += count;
		}
		for (unsigned i = 0; i < used; i++)
			to[at[from[i] >> shift & ((1u << HUFF_DIGIT) - 1)]++] = from[i];
		from = to;
		to = swap;
	}
	t->leaf[0] = 0;
	for (unsigned i = 0; i < used; i++)
		t->leaf[i + 1] = (t->key[i] >> 8) + 1;
	t->leaf[used + 1] = UINT32_MAX;
	return used;
}

/* Builds Huffman's code with two queues, leaves first among equals. Returns the longest length. */
HD unsigned huff_free_lengths(struct huff_tree *t, unsigned used, unsigned char *length)
{
	uint32_t *sum = t->list;
	const uint32_t *weight = t->leaf + 1;
	unsigned leaf = 0, pair = 0, longest = 0;
	unsigned char *depth = (unsigned char *)t->pair; /* of pairs */

	for (unsigned made = 0; made + 1 < used; made++) {
		uint32_t total = 0;

		sum[made] = UINT32_MAX;
		for (int side = 0; side < 2; side++) {
			uint32_t a = weight[leaf], b = sum[pair];
			unsigned is_pair = b < a;

			total += is_pair ? b : a;
			t->parent[is_pair ? used + pair : leaf] = (uint16_t)made;
			pair += is_pair;
			leaf += !is_pair;
		}
		sum[made] = total;
	}
	for (unsigned i = used - 1; i-- > 0;)
		depth[i] = i + 2 == used ?
			0 :
			(unsigned char)(depth[t->parent[used + i]] + 1);
	for (unsigned i = 0; i < used; i++) {
		unsigned d = depth[t->parent[i]] + 1u;

		length[t->key[i] & 255] = (unsigned char)d;
		longest = d > longest ? d : longest;
	}
	return longest;
}

/* Merges leaves and pairs into t->list, leaves first among equals. Works from both ends at
 * once: each item waits for the choice before it, so that two chains run in parallel. */
HD void huff_merge(struct huff_tree *t, unsigned used, unsigned pairs, uint32_t *is_pair)
{
	const uint32_t *leaf = t->leaf + 1, *pair = t->pair + 1;
	const uint32_t *last_leaf = t->leaf + used, *last_pair = t->pair + pairs;
	unsigned low = 0, high = used + pairs;
	uint32_t flags = 0;

	t->pair[0] = 0;
	t->pair[pairs + 1] = UINT32_MAX;
#define HUFF_MERGE_UP(i, flags)                       \
	do {                                          \
		uint32_t chosen_ = *pair < *leaf;     \
		t->list[i] = chosen_ ? *pair : *leaf; \
		(flags) |= chosen_ << (i) % 32;       \
		pair += chosen_;                      \
		leaf += !chosen_;                     \
	} while (0)
#define HUFF_MERGE_DOWN(i, flags)                               \
	do {                                                    \
		uint32_t chosen_ = *last_pair >= *last_leaf;    \
		t->list[i] = chosen_ ? *last_pair : *last_leaf; \
		(flags) |= chosen_ << (i) % 32;                 \
		last_pair -= chosen_;                           \
		last_leaf -= !chosen_;                          \
	} while (0)
	while (high % 32) {
		high--;
		HUFF_MERGE_DOWN(high, flags);
	}
	is_pair[high / 32] = flags;
	for (; high - low >= 64; low += 32, high -= 32) {
		uint32_t flags_low = 0, flags_high = 0;

		for (unsigned i = 0; i < 32; i++) {
			HUFF_MERGE_UP(low + i, flags_low);
			HUFF_MERGE_DOWN(high - 1 - i, flags_high);
		}
		is_pair[low / 32] = flags_low;
		is_pair[high / 32 - 1] = flags_high;
	}
	flags = 0;
	for (; low < high; low++) {
		HUFF_MERGE_UP(low, flags);
		is_pair[low / 32] = flags;
	}
#undef HUFF_MERGE_UP
#undef HUFF_MERGE_DOWN
}

/* Package-merge: makes HUFF_LENGTH_MAX lists, each of leaves and the pairs of the list before. */
HD void huff_limited_lengths(struct huff_tree *t, unsigned used, unsigned char *length)
{
	unsigned pairs = 0, take = 2 * used - 2;

	for (unsigned i = 0; i < used; i++)
		length[t->key[i] & 255] = 0;
	for (unsigned level = 0; level < HUFF_LENGTH_MAX; level++) {
		huff_merge(t, used, pairs, t->is_pair[level]);
		pairs = (used + pairs) / 2;
		for (unsigned i = 0; i < pairs; i++)
			t->pair[i + 1] = t->list[2 * i] + t->list[2 * i + 1];
	}
	for (unsigned level = HUFF_LENGTH_MAX; level-- > 0;) {
		unsigned left = take, leaves;

		pairs = 0;
		for (unsigned i = 0; left; i++) {
			uint32_t flags = t->is_pair[level][i];
			unsigned part = left < 32 ? left : 32;

			if (part < 32)
				flags &= (1u << part) - 1;
			pairs += huff_ones(flags);
			left -= part;
		}
		leaves = take - pairs;
		for (unsigned i = 0; i < leaves; i++)
			length[t->key[i] & 255]++;
		take = 2 * pairs;
	}
}

/* Computes optimal lengths of at most HUFF_LENGTH_MAX for counts with at least 2 used symbols. */
HD void huff_lengths(struct huff_tree *t, unsigned used, unsigned char *length)
{
	if (huff_free_lengths(t, used, length) > HUFF_LENGTH_MAX)
		huff_limited_lengths(t, used, length);
}

/* --- codes --------------------------------------------------------------------------------- */

/* entry[v] = code | length << 12, 0 for unused symbols. */
HD void huff_codes(uint16_t *entry, const unsigned char *length, unsigned symbols)
{
	uint32_t next[HUFF_LENGTH_MAX + 2] = { 0 };

	for (unsigned i = 0; i < symbols; i++)
		next[length[i] + 1]++;
	next[1] = 0;
	for (unsigned l = 1; l <= HUFF_LENGTH_MAX; l++)
		next[l + 1] = (next[l] + next[l + 1]) << 1;
	/* next[l]: next code of length l */
	for (unsigned i = 0; i < symbols; i++)
		entry[i] = length[i] ?
			(uint16_t)(next[length[i]]++ | (uint32_t)length[i] << 12) :
			0;
}

/* --- the coded lengths ---------------------------------------------------------------------- */

struct huff_bits {
	unsigned char *at;
	uint32_t bytes;
	uint64_t held;
	unsigned count;
};

HD void huff_put(struct huff_bits *b, uint32_t v, unsigned count)
{
	b->held |= (uint64_t)v << b->count;
	b->count += count;
	HD_FEW
	for (; b->count >= 8; b->count -= 8) {
		b->at[b->bytes++] = (unsigned char)b->held;
		b->held >>= 8;
	}
}

/* Writes lengths as bits. Returns the number of bytes written at out, at most 256. */
HD uint32_t huff_put_lengths(unsigned char *out, const unsigned char *length,
	unsigned symbols)
{
	struct huff_bits b = { out, 0, 0, 0 };
	unsigned last = 6;

	for (unsigned i = 0, run; i < symbols; i += run) {
		unsigned l = length[i], bits;
		uint32_t v;

		run = 1;
		if (!l) {
			unsigned top = 0;

			HD_FEW
			while (i + run < symbols && !length[i + run])
				run++;
			HD_FEW
			while (run >> (top + 1))
				top++;
			v = 3 | 8u << top; /* 110, least significant bit first; then Elias' gamma */
			HD_FEW
			for (unsigned j = 0; j < top; j++)
				v |= (run >> (top - 1 - j) & 1) << (4 + top + j);
			bits = 4 + 2 * top;
		} else {
			v = l == last         ? 0 :
				l == last + 1 ? 1 :
				l + 1 == last ? 5 :
						7 | l << 3;
			bits = l == last ? 1 : v < 7 ? 3 : 7;
			last = l;
		}
		huff_put(&b, v, bits);
	}
	if (b.count)
		huff_put(&b, 0, 8 - b.count);
	return b.bytes;
}

struct huff_reader {
	const unsigned char *at;
	uint64_t bits,
		used; /* number of bits, and bits read so far; zeros follow the end */
};

HD unsigned huff_get(struct huff_reader *r, unsigned count)
{
	unsigned v = 0;

	for (unsigned i = 0; i < count; i++, r->used++)
		if (r->used < r->bits)
			v |= (unsigned)(r->at[r->used / 8] >> r->used % 8 & 1) << i;
	return v;
}

/* Reads lengths from `bytes` bytes at in. Returns the bytes they took, or 0: they are
 * malformed, or not a complete code. */
HD uint32_t huff_get_lengths(unsigned char *length, unsigned symbols,
	const unsigned char *in, uint64_t bytes)
{
	struct huff_reader r = { in, bytes * 8, 0 };
	unsigned last = 6;
	uint32_t kraft = 0;

	for (unsigned i = 0; i < symbols;) {
		if (!huff_get(&r, 1)) {
			/* same as the last one */
		} else if (!huff_get(&r, 1)) {
			last += huff_get(&r, 1) ? -1u : 1u;
		} else if (huff_get(&r, 1)) {
			last = huff_get(&r, 4);
		} else {
			unsigned top = 0, run = 1;

			while (top < 9 && !huff_get(&r, 1))
				top++;
			for (unsigned j = 0; j < top; j++)
				run = run << 1 | huff_get(&r, 1);
			if (run > symbols - i)
				return 0;
			while (run--)
				length[i++] = 0;
			continue;
		}
		if (last < 1 || last > HUFF_LENGTH_MAX)
			return 0;
		length[i++] = (unsigned char)last;
		kraft += 1u << (HUFF_LENGTH_MAX - last);
	}
	if (kraft != 1u << HUFF_LENGTH_MAX || r.used > r.bits)
		return 0;
	return (uint32_t)((r.used + 7) / 8);
}

#endif
