/* cache.c - the pool of pages with their reference counts, and the page lists of sequences. */
#include "common/lm/infer/cache.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/hw/device.h"
#include "common/lm/infer/parts.h"

struct lm_cache {
	const struct lm_weights *w;
	/* [layers][2][pages][LM_PAGE] rows of kv_dim numbers of the type: keys, then values. On a
	 * CPU [pages][layers][2][LM_PAGE], and of each layer the rows of one head after the other:
	 * the system finds memory where it is first written, huge page by huge page, and would have
	 * to find one for every layer as soon as the first of their tokens comes, while other
	 * streams wait. */
	char *pool;
	enum lm_cache_type type;
	uint32_t pages;
	uint32_t *users; /* [pages]: number of sequences that use the page */
	uint32_t *free;  /* [n_free]: a stack; the last entry is taken next */
	uint32_t n_free;
	uint32_t taken; /* pages from here on were never used */
	/* bytes of the pool before which memory is there, or pages are taken */
	uint64_t touched;
};

/* what lm_cache_touch touches at once: a huge page */
#define TOUCH_BYTES (UINT64_C(2) << 20)
#define TOUCH_STEP  4096         /* no page of memory is smaller */
#define LINE        UINT64_C(64) /* bytes that a CPU's caches keep together */

uint32_t lm_cache_pages(uint32_t tokens)
{
	return tokens / LM_PAGE + (tokens % LM_PAGE ? 1 : 0);
}

static const char *const type_names[LM_CACHE_TYPES] = {
	[LM_CACHE_F16] = "f16",
	[LM_CACHE_F32] = "f32",
	[LM_CACHE_Q8_0] = "q8_0",
};

int lm_cache_type_find(enum lm_cache_type *out, const char *name)
{
	for (int i = 0; i < LM_CACHE_TYPES; i++)
		if (strcmp(type_names[i], name) == 0) {
			*out = (enum lm_cache_type)i;
			return 0;
		}
	return err_set(EX_USAGE, "a cache is of f16, f32 or q8_0, not '%.40s'", name);
}

/* The bounds in config.h keep the product below 2^63. */
uint64_t lm_cache_page_bytes(const struct lm_config *c, enum lm_cache_type type)
{
	return 2 * LM_PAGE * lm_cache_bytes(type, lm_kv_dim(c)) * c->layers;
}

/* Returns the bytes that the keys, or the values, of a page take in one layer. */
static uint64_t page_bytes(const struct lm_cache *c)
{
	return LM_PAGE * lm_cache_bytes(c->type, lm_kv_dim(&c->w->config));
}

enum lm_cache_type lm_cache_type(const struct lm_cache *c)
{
	return c->type;
}

/* Returns the bytes from the keys of a layer in a page to its values. */
static uint64_t part_bytes(const struct lm_cache *c)
{
	return c->w->d->is_host ? page_bytes(c) : c->pages * page_bytes(c);
}

void *lm_cache_keys(struct lm_cache *c, uint32_t layer)
{
	return c->pool + 2 * (uint64_t)layer * part_bytes(c);
}

void *lm_cache_values(struct lm_cache *c, uint32_t layer)
{
	return (char *)lm_cache_keys(c, layer) + part_bytes(c);
}

/* On a CPU an odd number of cache lines: with a large power of two the same head of all pages would
 * lie in the same few sets of its caches. Attention of 4 rows to 7,680 keys in 12 heads of 64 takes
 * a sixth less time on Zen 4 with the line more. */
uint64_t lm_cache_stride(const struct lm_cache *c)
{
	uint64_t page = lm_cache_page_bytes(&c->w->config, c->type);

	return c->w->d->is_host ? ((page + LINE - 1) / LINE | 1) * LINE : page_bytes(c);
}

int lm_cache_open(struct lm_cache **out, const struct lm_weights *w, uint32_t pages,
	enum lm_cache_type type)
{
	struct lm_cache *c;
	uint64_t bytes;
	void *pool;

	*out = NULL;
	if (type == LM_CACHE_Q8_0 && w->config.head_dim % 32)
		return err_set(EX_USAGE,
			"a cache of q8_0 needs heads of a multiple of 32 numbers, not %u",
			w->config.head_dim);
	if (__builtin_mul_overflow(lm_cache_page_bytes(&w->config, type), (uint64_t)pages,
		    &bytes) ||
		bytes > (uint64_t)INT64_MAX / 2)
		return err_set(EX_DATAERR,
			"a cache of %u tokens of this model is beyond 64 bits",
			pages * LM_PAGE);
	c = xcalloc(1, sizeof *c);
	c->w = w;
	c->pages = pages;
	c->type = type;
	c->users = xcalloc(pages + 1, sizeof *c->users);
	c->free = xcalloc(pages + 1, sizeof *c->free);
	while (c->n_free < pages) {
		c->free[c->n_free] = pages - 1 - c->n_free;
		c->n_free++;
	}
	if (w->d->is_host)
		bytes = pages * lm_cache_stride(c);
	if (w->d->ops->alloc(w->d, &pool, bytes) < 0) {
		lm_cache_close(c);
		return device_failed(w->d);
	}
	c->pool = pool;
	*out = c;
	return 0;
}

void lm_cache_close(struct lm_cache *c)
{
	if (!c)
		return;
	c->w->d->ops->free(c->w->d, c->pool);
	free(c->users);
	free(c->free);
	free(c);
}

uint32_t lm_cache_free_pages(const struct lm_cache *c)
{
	return c->n_free;
}

/* --- pages -------------------------------------------------------------------------------- */

/* Takes a page off the free list, which must not be empty. */
static uint32_t take(struct lm_cache *c)
{
	uint32_t page = c->free[--c->n_free];

	c->users[page] = 1;
	if (page >= c->taken)
		c->taken = page + 1;
	return page;
}

static void give_back(struct lm_cache *c, uint32_t page)
{
	if (--c->users[page] == 0)
		c->free[c->n_free++] = page;
}

static int copy_page(struct lm_cache *c, uint32_t to, uint32_t from)
{
	struct dev *d = c->w->d;
	uint64_t n = page_bytes(c), stride = lm_cache_stride(c);

	for (uint32_t l = 0; l < c->w->config.layers; l++) {
		char *keys = lm_cache_keys(c, l), *values = lm_cache_values(c, l);

		if (d->ops->copy(d, keys + to * stride, keys + from * stride, n) < 0 ||
			d->ops->copy(d, values + to * stride, values + from * stride, n) <
				0)
			return device_failed(d);
	}
	return 0;
}

bool lm_cache_touch(struct lm_cache *c, uint32_t pages)
{
	uint64_t wanted = pages < c->pages - c->taken ? c->taken + pages : c->pages;
	uint64_t n = lm_cache_stride(c), end;

	if (!c->w->d->is_host)
		return false;
	/* what was taken meanwhile may have been written */
	if (c->touched < c->taken * n)
		c->touched = c->taken * n;
	if (c->touched >= wanted * n)
		return false;
	end = wanted * n - c->touched < TOUCH_BYTES ? wanted * n :
						      c->touched + TOUCH_BYTES;
	for (; c->touched < end; c->touched += TOUCH_STEP)
		c->pool[c->touched] = 0;
	c->touched = end;
	return true;
}

/* --- sequences ---------------------------------------------------------------------------- */

void lm_sequence_release(struct lm_sequence *s, struct lm_cache *c)
{
	while (s->n > s->begin)
		give_back(c, s->pages[--s->n]);
	free(s->pages);
	*s = (struct lm_sequence){ 0 };
}

/* Whether the page that will hold the next token is shared with another sequence. */
static bool is_shared(const struct lm_sequence *s, const struct lm_cache *c)
{
	uint32_t next = s->length / LM_PAGE;

	return next < s->n && c->users[s->pages[next]] > 1;
}

/* Replaces the page that will hold the next token by a private copy (copy on write). */
static int unshare(struct lm_sequence *s, struct lm_cache *c)
{
	uint32_t next = s->length / LM_PAGE, page = take(c);

	if (copy_page(c, page, s->pages[next]) < 0) {
		give_back(c, page);
		return -1;
	}
	give_back(c, s->pages[next]);
	s->pages[next] = page;
	return 0;
}

int lm_sequence_grow(struct lm_sequence *s, struct lm_cache *c, uint32_t tokens)
{
	uint32_t pages, more;
	bool shared = tokens && is_shared(s, c);

	if (tokens > LM_CONTEXT_MAX - s->length)
		return err_set(EX_USAGE, "a context has at most %u tokens",
			LM_CONTEXT_MAX);
	pages = lm_cache_pages(s->length + tokens);
	more = pages > s->n ? pages - s->n : 0;
	if (more + shared > c->n_free)
		return err_set(EX_TEMPFAIL,
			"the cache has %u free pages of %u tokens, %u are needed",
			c->n_free, LM_PAGE, more + shared);
	if (shared && unshare(s, c) < 0)
		return -1;
	s->pages = xgrow(s->pages, &s->pages_cap, (size_t)s->n + more + 1,
		sizeof *s->pages);
	while (s->n < pages)
		s->pages[s->n++] = take(c);
	return 0;
}

void lm_sequence_truncate(struct lm_sequence *s, struct lm_cache *c, uint32_t length)
{
	if (length < s->length)
		s->length = length;
	if (s->begin && lm_cache_pages(s->length) <= s->begin)
		bug("a text is cut where its pages are forgotten");
	while (s->n > lm_cache_pages(s->length))
		give_back(c, s->pages[--s->n]);
}

void lm_sequence_forget(struct lm_sequence *s, struct lm_cache *c, uint32_t first)
{
	uint32_t end = first / LM_PAGE;

	for (; s->begin < end && s->begin < s->n; s->begin++)
		give_back(c, s->pages[s->begin]);
}

int lm_sequence_repeat(struct lm_sequence *to, const struct lm_sequence *from,
	struct lm_cache *c, uint32_t length)
{
	uint32_t full = from->length / LM_PAGE;

	if (to->n || !full || from->begin)
		bug("a repetition of what is not there");
	if (lm_sequence_grow(to, c, length) < 0)
		return -1;
	for (uint32_t i = 0; i < to->n; i++)
		if (copy_page(c, to->pages[i], from->pages[i % full]) < 0)
			return -1;
	to->length = length;
	return 0;
}

void lm_sequence_fork(struct lm_sequence *to, const struct lm_sequence *from,
	struct lm_cache *c, uint32_t length)
{
	uint32_t pages = lm_cache_pages(length);

	if (to->n || length > from->length || from->begin)
		bug("a fork of what is not there");
	to->pages = xgrow(to->pages, &to->pages_cap, (size_t)pages + 1,
		sizeof *to->pages);
	while (to->n < pages) {
		uint32_t page = from->pages[to->n];

		c->users[page]++;
		to->pages[to->n++] = page;
	}
	to->length = length;
}

/* --- pages on their own -------------------------------------------------------------------- */

uint32_t lm_cache_size(const struct lm_cache *c)
{
	return c->pages;
}

void lm_cache_hold(struct lm_cache *c, uint32_t page)
{
	c->users[page]++;
}

void lm_cache_drop(struct lm_cache *c, uint32_t page)
{
	give_back(c, page);
}

uint32_t lm_cache_users(const struct lm_cache *c, uint32_t page)
{
	return c->users[page];
}

void lm_sequence_adopt(struct lm_sequence *s, struct lm_cache *c, uint32_t page)
{
	uint32_t next = s->length / LM_PAGE;

	if (s->length % LM_PAGE)
		bug("a page is adopted in the middle of one");
	lm_cache_hold(c, page);
	if (next < s->n) {
		give_back(c, s->pages[next]);
	} else {
		s->pages = xgrow(s->pages, &s->pages_cap, (size_t)s->n + 1,
			sizeof *s->pages);
		s->n++;
	}
	s->pages[next] = page;
	s->length += LM_PAGE;
}

void lm_sequence_skip(struct lm_sequence *s, uint32_t pages)
{
	if (s->n || s->length)
		bug("what is not empty cannot begin with other pages");
	s->pages = xgrow(s->pages, &s->pages_cap, (size_t)pages + 1, sizeof *s->pages);
	memset(s->pages, 0, pages * sizeof *s->pages); /* no page, but a valid number */
	s->n = s->begin = pages;
	s->length = pages * LM_PAGE;
}

bool lm_cache_sound(const struct lm_cache *c, const struct lm_sequence *const *all,
	size_t n)
{
	uint32_t *users = xcalloc(c->pages + 1, sizeof *users);
	size_t *last = xcalloc(c->pages + 1, sizeof *last); /* sequence + 1 */
	bool sound = true;

	for (size_t i = 0; i < n; i++) {
		sound = sound && all[i]->length <= (uint64_t)all[i]->n * LM_PAGE;
		for (uint32_t k = all[i]->begin; sound && k < all[i]->n; k++) {
			uint32_t page = all[i]->pages[k];

			sound = page < c->pages && last[page] != i + 1;
			if (sound) {
				last[page] = i + 1;
				users[page]++;
			}
		}
	}
	for (uint32_t k = 0; sound && k < c->n_free; k++) {
		uint32_t page = c->free[k];

		sound = page < c->pages && !users[page] && !last[page];
		last[page] = n + 1; /* a page that is free twice fails the check above */
	}
	for (uint32_t page = 0; sound && page < c->pages; page++)
		sound = users[page] == c->users[page] && last[page] != 0;
	free(users);
	free(last);
	return sound;
}
