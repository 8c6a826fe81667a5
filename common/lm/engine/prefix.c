/* prefix.c - a hash table with chains, and a list in order of use; both link page numbers, as a
 * page has at most one entry. */
#include "common/lm/engine/prefix.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"

#define NONE UINT32_MAX

struct entry {
	struct lm_prefix_hash hash;
	uint32_t chain;        /* the next in its slot */
	uint32_t newer, older; /* in the list by use */
	bool kept;
};

struct lm_prefix {
	struct lm_cache *cache;
	struct entry *pages; /* [size of the cache] */
	uint32_t *slots;     /* [mask + 1]: the first page, or NONE */
	uint32_t mask;
	uint32_t newest, oldest;
};

/* --- hashes --------------------------------------------------------------------------------- */

void lm_prefix_root(struct lm_prefix_hash *out, uint64_t space, uint32_t adapter)
{
	uint64_t in[2] = { space, adapter };

	crypto_generichash(out->bytes, sizeof out->bytes, (const unsigned char *)in,
		sizeof in, NULL, 0);
}

void lm_prefix_next(struct lm_prefix_hash *out, const struct lm_prefix_hash *parent,
	const uint32_t *tokens)
{
	unsigned char in[LM_PREFIX_BYTES + LM_PAGE * sizeof *tokens];

	memcpy(in, parent->bytes, LM_PREFIX_BYTES);
	memcpy(in + LM_PREFIX_BYTES, tokens, LM_PAGE * sizeof *tokens);
	crypto_generichash(out->bytes, sizeof out->bytes, in, sizeof in, NULL, 0);
}

bool lm_prefix_equal(const struct lm_prefix_hash *a, const struct lm_prefix_hash *b)
{
	return memcmp(a->bytes, b->bytes, LM_PREFIX_BYTES) == 0;
}

static uint32_t *slot_of(const struct lm_prefix *x, const struct lm_prefix_hash *h)
{
	uint32_t first;

	memcpy(&first, h->bytes, sizeof first);
	return &x->slots[first & x->mask];
}

/* --- the list by use ------------------------------------------------------------------------ */

static void unlink_use(struct lm_prefix *x, uint32_t page)
{
	struct entry *e = &x->pages[page];

	if (e->newer == NONE)
		x->newest = e->older;
	else
		x->pages[e->newer].older = e->older;
	if (e->older == NONE)
		x->oldest = e->newer;
	else
		x->pages[e->older].newer = e->newer;
}

static void link_newest(struct lm_prefix *x, uint32_t page)
{
	struct entry *e = &x->pages[page];

	e->newer = NONE;
	e->older = x->newest;
	if (x->newest == NONE)
		x->oldest = page;
	else
		x->pages[x->newest].newer = page;
	x->newest = page;
}

void lm_prefix_touch(struct lm_prefix *x, uint32_t page)
{
	if (!x->pages[page].kept)
		return;
	unlink_use(x, page);
	link_newest(x, page);
}

/* --- the table ------------------------------------------------------------------------------ */

struct lm_prefix *lm_prefix_open(struct lm_cache *c)
{
	struct lm_prefix *x = xcalloc(1, sizeof *x);
	uint32_t size = lm_cache_size(c), slots = 16;

	while (slots < size && slots < UINT32_C(1) << 30)
		slots *= 2;
	x->cache = c;
	x->pages = xcalloc((size_t)size + 1, sizeof *x->pages);
	x->slots = xmalloc(slots * sizeof *x->slots);
	x->mask = slots - 1;
	for (uint32_t i = 0; i < slots; i++)
		x->slots[i] = NONE;
	x->newest = x->oldest = NONE;
	return x;
}

void lm_prefix_close(struct lm_prefix *x)
{
	if (!x)
		return;
	for (uint32_t page = x->oldest; page != NONE; page = x->pages[page].newer)
		lm_cache_drop(x->cache, page);
	free(x->pages);
	free(x->slots);
	free(x);
}

/* Returns the page of a hash, or NONE. */
static uint32_t page_of(const struct lm_prefix *x, const struct lm_prefix_hash *h)
{
	uint32_t p = *slot_of(x, h);

	while (p != NONE && !lm_prefix_equal(&x->pages[p].hash, h))
		p = x->pages[p].chain;
	return p;
}

bool lm_prefix_has(const struct lm_prefix *x, const struct lm_prefix_hash *h)
{
	return page_of(x, h) != NONE;
}

int64_t lm_prefix_find(struct lm_prefix *x, const struct lm_prefix_hash *h)
{
	uint32_t p = page_of(x, h);

	if (p == NONE)
		return -1;
	lm_prefix_touch(x, p);
	return p;
}

void lm_prefix_add(struct lm_prefix *x, const struct lm_prefix_hash *h, uint32_t page)
{
	struct entry *e = &x->pages[page];
	uint32_t *slot = slot_of(x, h);

	if (e->kept || lm_prefix_find(x, h) >= 0)
		return;
	lm_cache_hold(x->cache, page);
	*e = (struct entry){ .hash = *h, .chain = *slot, .kept = true };
	*slot = page;
	link_newest(x, page);
}

static void give_up(struct lm_prefix *x, uint32_t page)
{
	struct entry *e = &x->pages[page];
	uint32_t *at = slot_of(x, &e->hash);

	while (*at != page)
		at = &x->pages[*at].chain;
	*at = e->chain;
	unlink_use(x, page);
	e->kept = false;
	lm_cache_drop(x->cache, page);
}

bool lm_prefix_make_room(struct lm_prefix *x, uint32_t wanted)
{
	uint32_t page = x->oldest;

	while (lm_cache_free_pages(x->cache) < wanted && page != NONE) {
		uint32_t newer = x->pages[page].newer;

		if (lm_cache_users(x->cache, page) == 1)
			give_up(x, page);
		page = newer;
	}
	return lm_cache_free_pages(x->cache) >= wanted;
}

uint32_t lm_prefix_free_pages(const struct lm_prefix *x)
{
	uint32_t n = lm_cache_free_pages(x->cache);

	for (uint32_t page = x->oldest; page != NONE; page = x->pages[page].newer)
		n += lm_cache_users(x->cache, page) == 1;
	return n;
}

uint32_t *lm_prefix_pages(const struct lm_prefix *x, uint32_t *n)
{
	uint32_t *list = xcalloc((size_t)lm_cache_size(x->cache) + 1, sizeof *list);

	*n = 0;
	for (uint32_t page = x->oldest; page != NONE; page = x->pages[page].newer)
		list[(*n)++] = page;
	return list;
}
