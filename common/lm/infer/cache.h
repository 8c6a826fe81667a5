/* cache.h - keys and values of many sequences in one pool of pages of LM_PAGE tokens
 * (kernels/lm/ops.h), and each sequence's list of pages. Uses weights.h.
 *
 * A page is free, or belongs to one sequence, or to several with the same beginning. A shared page
 * is never written: a sequence that continues within one gets its own copy first. Numbers are f16,
 * f32, or int8 in blocks with a scale. Only one thread at a time may use a cache and its
 * sequences. */
#ifndef RNP_COMMON_LM_INFER_CACHE_H
#define RNP_COMMON_LM_INFER_CACHE_H

#include <stdbool.h>

#include "common/lm/infer/weights.h"
#include "kernels/lm/ops.h"

struct lm_cache;

/* Returns the number of pages that `tokens` tokens of one sequence take. */
uint32_t lm_cache_pages(uint32_t tokens);

/* Returns the size of a page of a model, in bytes. */
uint64_t lm_cache_page_bytes(const struct lm_config *c, enum lm_cache_type type);

/* Finds the type of a name: "f16", "f32" or "q8_0". Returns 0 and *out, or -1 with
 * err_set(EX_USAGE). */
int lm_cache_type_find(enum lm_cache_type *out, const char *name);

/* Opens a pool of `pages` pages, all free. w is borrowed until close. Returns 0 and *out to be
 * closed, or -1 with err_set(): 71 no memory, 65 beyond 64 bits. */
int lm_cache_open(struct lm_cache **out, const struct lm_weights *w, uint32_t pages,
	enum lm_cache_type type);
void lm_cache_close(
	struct lm_cache *c); /* NULL is fine; afterwards its sequences are only memory */

uint32_t lm_cache_free_pages(const struct lm_cache *c);

/* Memory that was never used has to be found and cleared, which takes a tenth of a prompt's time. A
 * call does so for some of the next `pages` pages that no sequence had yet (a few milliseconds),
 * where a CPU computes. Returns false when there is nothing left to do. Without it a step finds the
 * memory of what it writes: the parts of a page lie together there, so that no step has to find
 * much more than that. */
bool lm_cache_touch(struct lm_cache *c, uint32_t pages);

/* The part of the cache that one conversation uses. Zero-initialise it; release returns its
 * pages. */
struct lm_sequence {
	uint32_t length; /* tokens whose keys and values are stored */
	uint32_t *pages; /* token j is in page pages[j / LM_PAGE] */
	uint32_t n;      /* pages */
	uint32_t begin; /* the first page that is still held; the others were forgotten */
	size_t pages_cap;
};

void lm_sequence_release(struct lm_sequence *s, struct lm_cache *c);

/* Reserves pages for `tokens` tokens beyond length and copies the page they begin in if it is
 * shared. Returns 0, or -1 with err_set(): 75 too few free pages, and the sequence is as
 * before; the device's error. */
int lm_sequence_grow(struct lm_sequence *s, struct lm_cache *c, uint32_t tokens);

/* Forgets all tokens from `length` on, and releases the pages that only they used. */
void lm_sequence_truncate(struct lm_sequence *s, struct lm_cache *c, uint32_t length);

/* Releases the pages that hold only tokens before `first`: those that no layer attends to any more.
 * The sequence must not be truncated to where they are. */
void lm_sequence_forget(struct lm_sequence *s, struct lm_cache *c, uint32_t first);

/* For measurements: makes `to`, which must be empty, `length` tokens long. Its pages are its own,
 * and copies of the full pages of `from`, of which there must be one, over and over. Returns 0, or
 * -1 with err_set() as lm_sequence_grow. */
int lm_sequence_repeat(struct lm_sequence *to, const struct lm_sequence *from,
	struct lm_cache *c, uint32_t length);

/* For tests of pages that two sequences share, also in the middle of one: makes `to`, which must be
 * empty, begin with the first `length` tokens of `from` (at most its length). Both share the pages;
 * nothing is copied. */
void lm_sequence_fork(struct lm_sequence *to, const struct lm_sequence *from,
	struct lm_cache *c, uint32_t length);

/* --- pages on their own, for an index of what was computed before ---------------------------- */

uint32_t lm_cache_size(const struct lm_cache *c); /* pages, free or not */

/* Hold and release a page on behalf of something that is not a sequence. The page must not be
 * free. */
void lm_cache_hold(struct lm_cache *c, uint32_t page);
void lm_cache_drop(struct lm_cache *c, uint32_t page);
/* Returns how many sequences and other holders have the page. */
uint32_t lm_cache_users(const struct lm_cache *c, uint32_t page);

/* Appends a page that others already have to s, whose length must be whole pages: the page's
 * LM_PAGE tokens are the next of s. It replaces a page that s may have grown for them. */
void lm_sequence_adopt(struct lm_sequence *s, struct lm_cache *c, uint32_t page);

/* Makes s, which must be empty, begin with `pages` pages that are forgotten: nothing to come
 * attends to them. */
void lm_sequence_skip(struct lm_sequence *s, uint32_t pages);

/* For tests: whether every page is either free or in as many of the n sequences as its
 * reference count says, and no list contains a page twice. */
bool lm_cache_sound(const struct lm_cache *c, const struct lm_sequence *const *all,
	size_t n);

#endif
