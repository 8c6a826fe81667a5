/* index.h - hash tables of indices into arrays: 8 bytes a slot, so that those of 10^6 nodes are
 * small. Pure. Uses mem.
 *
 * A slot has 32 bits of the key's hash beside the index, and only where they are equal is the array
 * looked at. Slots are in the order of these bits, as far as there is space (linear probing), so
 * that a table grows in one pass, by half. */
#ifndef RNP_COMMON_BASE_INDEX_H
#define RNP_COMMON_BASE_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hash_index {
	uint64_t *slots; /* the hash's bits << 32 | index + 1; 0: free */
	size_t cap, n;
};

/* Whether the element of that index has the key. */
typedef bool (*hash_index_same_fn)(const void *ctx, uint32_t index, const void *key);

/* Returns a number that nobody outside of this process knows, with which hashes of what strangers
 * choose begin: else they could choose such as meet. */
uint64_t hash_seed(void);

/* Makes space for one more. */
void hash_index_reserve(struct hash_index *ix);

/* Returns the slot of a key, or the free one that it would have; cap is not 0. */
static inline uint64_t *hash_index_slot(const struct hash_index *ix, uint32_t hash,
	hash_index_same_fn same, const void *ctx, const void *key)
{
	size_t at = (size_t)((unsigned __int128)hash * ix->cap >> 32);

	while (ix->slots[at] &&
		((uint32_t)(ix->slots[at] >> 32) != hash ||
			!same(ctx, (uint32_t)ix->slots[at] - 1, key)))
		at = at + 1 < ix->cap ? at + 1 : 0;
	return &ix->slots[at];
}

/* Fetches from memory where a key would be. */
static inline void hash_index_fetch(const struct hash_index *ix, uint32_t hash)
{
	if (ix->cap)
		__builtin_prefetch(
			&ix->slots[(size_t)((unsigned __int128)hash * ix->cap >> 32)]);
}

/* Returns the index of a key, or UINT32_MAX. */
static inline uint32_t hash_index_find(const struct hash_index *ix, uint32_t hash,
	hash_index_same_fn same, const void *ctx, const void *key)
{
	uint64_t slot = ix->cap ? *hash_index_slot(ix, hash, same, ctx, key) : 0;

	return slot ? (uint32_t)slot - 1 : UINT32_MAX;
}

/* Sets a slot, which hash_index_slot returned after hash_index_reserve. */
static inline void hash_index_set(struct hash_index *ix, uint64_t *slot, uint32_t hash,
	size_t index)
{
	ix->n += !*slot;
	*slot = (uint64_t)hash << 32 | ((uint32_t)index + 1);
}

/* Frees a slot that hash_index_slot returned and that has an index. Slots may move. */
void hash_index_remove(struct hash_index *ix, uint64_t *slot);

void hash_index_release(struct hash_index *ix);

#endif
