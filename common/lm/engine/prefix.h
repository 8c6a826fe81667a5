/* prefix.h - an index of full pages by the text that they end: who begins like somebody before needs
 * not compute it again. Uses cache.h, libsodium (BLAKE2b).
 *
 * A page is known by a hash over the page before it, its LM_PAGE tokens, the adapter and the name
 * space, so that equal hashes mean equal texts from the first token on (a collision of 128 bits
 * would have to be found on purpose). The index holds its pages; the least recently used, which
 * nobody else has, leave first. */
#ifndef RNP_COMMON_LM_ENGINE_PREFIX_H
#define RNP_COMMON_LM_ENGINE_PREFIX_H

#include "common/lm/infer/cache.h"

#define LM_PREFIX_BYTES 16

struct lm_prefix_hash {
	unsigned char bytes[LM_PREFIX_BYTES];
};

/* The hash that stands before the first page of a text. space: who may share; adapter: of the
 * weights. */
void lm_prefix_root(struct lm_prefix_hash *out, uint64_t space, uint32_t adapter);

/* The hash of a page: LM_PAGE tokens behind what parent stands for. out may be parent. */
void lm_prefix_next(struct lm_prefix_hash *out, const struct lm_prefix_hash *parent,
	const uint32_t *tokens);

bool lm_prefix_equal(const struct lm_prefix_hash *a, const struct lm_prefix_hash *b);

struct lm_prefix;

/* An empty index of the pages of c, which is borrowed until close. */
struct lm_prefix *lm_prefix_open(struct lm_cache *c);
void lm_prefix_close(struct lm_prefix *x); /* NULL is fine; gives its pages back */

/* The page of a hash, or -1. It is then the most recently used. */
int64_t lm_prefix_find(struct lm_prefix *x, const struct lm_prefix_hash *h);

/* Keeps a page that is full, unless one of the same text is there already. */
void lm_prefix_add(struct lm_prefix *x, const struct lm_prefix_hash *h, uint32_t page);

/* Makes a page, if it is kept, the most recently used. Of a text that ends touch the last page
 * first: what begins it stays the longest. */
void lm_prefix_touch(struct lm_prefix *x, uint32_t page);

/* Gives up pages that nobody else has until `wanted` pages of the cache are free. Returns whether
 * they are. */
bool lm_prefix_make_room(struct lm_prefix *x, uint32_t wanted);

/* Pages that are free or could be. */
uint32_t lm_prefix_room(const struct lm_prefix *x);

/* The pages that are kept, as a sequence for lm_cache_sound; release with free(). */
uint32_t *lm_prefix_pages(const struct lm_prefix *x, uint32_t *n);

#endif
