/* prefix.h - an index of full pages by the text that they end, so that a text with the same
 * beginning as an earlier one need not compute it again. Uses cache.h, libsodium (BLAKE2b).
 *
 * A page is identified by a hash of the previous page's hash, its LM_PAGE tokens, the adapter
 * and the name space, so that equal hashes mean equal texts from the first token on (a
 * collision of 128 bits does not occur by chance). The index holds a reference to its pages; of
 * those that nobody else uses, the least recently used are evicted first. */
#ifndef RNP_COMMON_LM_ENGINE_PREFIX_H
#define RNP_COMMON_LM_ENGINE_PREFIX_H

#include "common/lm/infer/cache.h"

#define LM_PREFIX_BYTES 16

struct lm_prefix_hash {
	unsigned char bytes[LM_PREFIX_BYTES];
};

/* Sets the hash that precedes the first page of a text. Only texts of the same space and the
 * same adapter (of the weights) share pages. */
void lm_prefix_root(struct lm_prefix_hash *out, uint64_t space, uint32_t adapter);

/* Computes the hash of a page: LM_PAGE tokens after the text of `parent`. out may be parent. */
void lm_prefix_next(struct lm_prefix_hash *out, const struct lm_prefix_hash *parent,
	const uint32_t *tokens);

bool lm_prefix_equal(const struct lm_prefix_hash *a, const struct lm_prefix_hash *b);

struct lm_prefix;

/* Opens an empty index of the pages of c, which is borrowed until close. */
struct lm_prefix *lm_prefix_open(struct lm_cache *c);
void lm_prefix_close(struct lm_prefix *x); /* NULL is fine; releases its pages */

/* Returns the page of a hash, which becomes the most recently used, or -1. */
int64_t lm_prefix_find(struct lm_prefix *x, const struct lm_prefix_hash *h);

/* Whether the index has the page of a hash; its use stays as it is. */
bool lm_prefix_has(const struct lm_prefix *x, const struct lm_prefix_hash *h);

/* Adds a full page, unless the index has one of the same text. */
void lm_prefix_add(struct lm_prefix *x, const struct lm_prefix_hash *h, uint32_t page);

/* Makes a page, if the index has it, the most recently used. When a text ends, touch its last
 * page first, so that its beginning is evicted last. */
void lm_prefix_touch(struct lm_prefix *x, uint32_t page);

/* Evicts pages that nobody else uses until `wanted` pages of the cache are free. Returns
 * whether they are. */
bool lm_prefix_make_room(struct lm_prefix *x, uint32_t wanted);

/* Returns the number of pages that are free or could be evicted. */
uint32_t lm_prefix_free_pages(const struct lm_prefix *x);

/* Returns the pages in the index, as a sequence for lm_cache_sound; release with free(). */
uint32_t *lm_prefix_pages(const struct lm_prefix *x, uint32_t *n);

#endif
