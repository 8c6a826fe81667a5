/* merge.c - a word to ids: its symbols are merged until no merge is left. Long words are
 * merged with a heap and a linked list, in n log n. */
#include "common/lm/token/encoder.h"

#include <string.h>

#include "common/base/mem.h"

#define SHORT_SYMBOLS 40 /* up to this many a linear search is faster than a heap */

void encoder_put(struct encoder *e, uint32_t id)
{
	struct buf *ids = e->ids;

	if (ids->cap - ids->len <= sizeof id)
		buf_reserve(ids, sizeof id);
	memcpy(ids->data + ids->len, &id, sizeof id);
	ids->len += sizeof id;
	e->last_unknown = false;
}

static void put_unknown(struct encoder *e)
{
	if (e->t->unknown >= 0 && (!e->last_unknown || e->t->each_unknown))
		encoder_put(e, (uint32_t)e->t->unknown);
	e->last_unknown = true;
}

/* Appends bytes that no token contains: one token each, or "unknown", or nothing. */
static void put_bytes(struct encoder *e, const char *s, size_t n)
{
	const struct lm_token *t = e->t;
	bool all = true;

	for (size_t i = 0; i < n; i++)
		all &= t->byte_id[(unsigned char)s[i]] < t->count;
	if (!all && t->how != TOKEN_BYTES) {
		put_unknown(e);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		uint32_t id = t->byte_id[(unsigned char)s[i]];

		if (id < t->count)
			encoder_put(e, id);
		else
			put_unknown(e);
	}
}

static void put_symbol(struct encoder *e, const char *word, const struct symbol *s)
{
	if (s->id < e->t->count)
		encoder_put(e, s->id);
	else
		put_bytes(e, word + s->at, s->bytes);
}

/* --- merging ----------------------------------------------------------------------------- */

static bool mergeable(const struct lm_token *t, uint32_t id)
{
	uint8_t type = t->pieces[id].type;

	return type != LM_TOKEN_CONTROL && type != LM_TOKEN_UNKNOWN &&
		type != LM_TOKEN_BYTE;
}

/* Computes the result of merging two neighbours. */
static bool bigram_of(const struct encoder *e, const char *word, uint32_t left,
	uint32_t right, struct bigram *out)
{
	const struct lm_token *t = e->t;
	const struct symbol *a = &e->symbols[left], *b = &e->symbols[right];

	out->left = left;
	out->right = right;
	out->bytes = a->bytes + b->bytes;
	if (t->how == TOKEN_SCORES) {
		out->id = token_find(t, word + a->at, out->bytes);
		if (out->id == TOKEN_NONE || !mergeable(t, out->id))
			return false;
		out->score = t->pieces[out->id].score;
	} else {
		const struct token_merge *m = a->id == TOKEN_NONE || b->id == TOKEN_NONE ?
			NULL :
			token_pair(t, a->id, b->id);

		if (!m)
			return false;
		out->id = m->id;
		out->rank = m->rank;
	}
	return true;
}

/* Whether a merge comes before another. */
static bool sooner(const struct encoder *e, const struct bigram *a,
	const struct bigram *b)
{
	if (e->t->how == TOKEN_SCORES) {
		if (a->score != b->score)
			return a->score > b->score;
	} else if (a->rank != b->rank) {
		return a->rank < b->rank;
	}
	return a->left < b->left;
}

static void heap_push(struct encoder *e, const char *word, uint32_t left, uint32_t right)
{
	struct bigram new;
	size_t i;

	if (left == TOKEN_NONE || right == TOKEN_NONE ||
		!bigram_of(e, word, left, right, &new))
		return;
	e->heap = xgrow(e->heap, &e->heap_cap, e->heap_len + 1, sizeof *e->heap);
	for (i = e->heap_len++; i && sooner(e, &new, &e->heap[(i - 1) / 2]);
		i = (i - 1) / 2)
		e->heap[i] = e->heap[(i - 1) / 2];
	e->heap[i] = new;
}

static struct bigram heap_pop(struct encoder *e)
{
	struct bigram top = e->heap[0], last = e->heap[--e->heap_len];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < e->heap_len) {
		if (child + 1 < e->heap_len &&
			sooner(e, &e->heap[child + 1], &e->heap[child]))
			child++;
		if (!sooner(e, &e->heap[child], &last))
			break;
		e->heap[i] = e->heap[child];
		i = child;
	}
	e->heap[i] = last;
	return top;
}

static void merge_long(struct encoder *e, const char *word, size_t n)
{
	struct symbol *s = e->symbols;

	e->heap_len = 0;
	for (uint32_t i = 0; i + 1 < n; i++)
		heap_push(e, word, i, i + 1);
	while (e->heap_len) {
		struct bigram m = heap_pop(e);

		if (!s[m.left].bytes || !s[m.right].bytes || s[m.left].after != m.right ||
			s[m.left].bytes + s[m.right].bytes != m.bytes)
			continue; /* stale: one of the two was merged since */
		s[m.left].bytes = m.bytes;
		s[m.left].id = m.id;
		s[m.left].after = s[m.right].after;
		s[m.right].bytes = 0;
		if (s[m.left].after != TOKEN_NONE)
			s[s[m.left].after].before = m.left;
		heap_push(e, word, s[m.left].before, m.left);
		heap_push(e, word, m.left, s[m.left].after);
	}
}

/* Does the same for few symbols in an array without gaps: n squared, but small. */
static size_t merge_short(struct encoder *e, const char *word, size_t n)
{
	struct symbol *s = e->symbols;
	struct bigram pairs[SHORT_SYMBOLS];
	bool can[SHORT_SYMBOLS];

	for (uint32_t i = 0; i + 1 < n; i++)
		can[i] = bigram_of(e, word, i, i + 1, &pairs[i]);
	for (;;) {
		size_t best = n;

		for (size_t i = 0; i + 1 < n; i++)
			if (can[i] && (best == n || sooner(e, &pairs[i], &pairs[best])))
				best = i;
		if (best == n)
			return n;
		s[best].bytes = pairs[best].bytes;
		s[best].id = pairs[best].id;
		n--;
		memmove(s + best + 1, s + best + 2, (n - best - 1) * sizeof *s);
		for (size_t i = best + 1; i + 1 < n; i++) {
			can[i] = can[i + 1];
			pairs[i] = pairs[i + 1];
			pairs[i].left = (uint32_t)i;
		}
		if (best)
			can[best - 1] = bigram_of(e, word, (uint32_t)best - 1,
				(uint32_t)best, &pairs[best - 1]);
		if (best + 1 < n)
			can[best] = bigram_of(e, word, (uint32_t)best, (uint32_t)best + 1,
				&pairs[best]);
	}
}

static size_t char_bytes(const char *s, size_t n)
{
	unsigned char lead = (unsigned char)*s;
	size_t want = lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;

	return want > 1 && pre_utf8_prefix(s, want < n ? want : n) < want ? 1 : want;
}

/* Splits a word into symbols: bytes, or characters. For SentencePiece a character without a
 * token is a symbol all the same; where merges are by id it becomes the tokens of its bytes. */
static size_t symbols_of(struct encoder *e, const char *word, size_t n)
{
	const struct lm_token *t = e->t;
	size_t count = 0;

	if (n > e->symbols_cap)
		e->symbols = xgrow(e->symbols, &e->symbols_cap, n, sizeof *e->symbols);
	for (size_t i = 0; i < n; count++) {
		size_t len = t->how == TOKEN_BYTES ? 1 : char_bytes(word + i, n - i);
		uint32_t id = t->how == TOKEN_BYTES ? t->byte_id[(unsigned char)word[i]] :
						      token_find(t, word + i, len);

		if (t->how != TOKEN_BYTES && id != TOKEN_NONE &&
			(id >= t->count || !mergeable(t, id)))
			id = TOKEN_NONE;
		e->symbols[count] = (struct symbol){ (uint32_t)i, (uint32_t)len, id,
			(uint32_t)count - 1, (uint32_t)count + 1 };
		i += len;
	}
	e->symbols[0].before = TOKEN_NONE;
	e->symbols[count - 1].after = TOKEN_NONE;
	return count;
}

/* Finds Gemma's runs of line breaks, which are tokens that no merge produces. */
static bool is_line_breaks_of_gemma(const struct lm_token *t, const char *word, size_t n)
{
	if (word[0] != '\n' || strcmp(t->pre.name, "gemma4") != 0)
		return false;
	while (n && word[n - 1] == '\n')
		n--;
	return n == 0;
}

void encoder_merge(struct encoder *e, const char *word, size_t bytes)
{
	size_t n;

	if (e->t->ignore_merges || is_line_breaks_of_gemma(e->t, word, bytes)) {
		uint32_t id = e->t->how == TOKEN_BYTES ?
			token_find_word(e->t, word, bytes) :
			token_find(e->t, word, bytes);

		if (id < e->t->count && mergeable(e->t, id)) {
			encoder_put(e, id);
			return;
		}
	}
	n = symbols_of(e, word, bytes);
	if (n <= SHORT_SYMBOLS) {
		n = merge_short(e, word, n);
		for (size_t i = 0; i < n; i++)
			put_symbol(e, word, &e->symbols[i]);
		return;
	}
	merge_long(e, word, n);
	for (uint32_t i = 0; i != TOKEN_NONE; i = e->symbols[i].after)
		put_symbol(e, word, &e->symbols[i]);
}
