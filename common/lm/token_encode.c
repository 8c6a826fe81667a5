/* Text to ids.
 *
 * A text is cut three times: at the names of special tokens, then by the pre-tokenizer, then into symbols that are merged. Words come
 * again and again, so that what one gave is kept: with the cache most words cost a hash and a comparison. Long words are merged with a
 * heap and a linked list, in n log n. */
#include <stdlib.h>
#include <string.h>

#include "common/err.h"
#include "common/lm/token_inside.h"
#include "common/mem.h"

#define CACHE_SLOTS      (1u << 16)
#define CACHE_POOL_BYTES ((size_t)6 << 20)
#define CACHE_WORD_MAX   64 /* longer words seldom come again */
#define SHORT_SYMBOLS    40 /* up to here looking through all pairs is quicker than a heap */
#define PART_BYTES       ((size_t)1 << 20)

struct cache_slot {
	uint64_t hash;
	uint32_t at; /* in pool: the ids, then the word */
	uint8_t bytes, ids, used;
};

struct symbol {
	uint32_t at, bytes, id; /* bytes 0: merged into the one before it */
	uint32_t before, after; /* TOKEN_NONE: none */
};

/* A merge that could be done; what it was when it was noted says whether it still can. */
struct bigram {
	union {
		uint32_t rank;
		float score;
	};
	uint32_t left, right, bytes, id;
};

struct encoder {
	struct encoder *next; /* among the idle ones */
	const struct lm_token *t;
	struct pre_run run;
	struct buf *ids; /* where they go now */
	struct cache_slot *slots;
	uint32_t used;
	char *pool;
	size_t pool_len;
	struct symbol *symbols;
	size_t symbols_cap;
	struct bigram *heap;
	size_t heap_len, heap_cap;
	struct buf text;   /* of a section, as it is spelled */
	bool last_unknown; /* unknown characters in a row are one token */
};

static struct encoder *encoder_take(const struct lm_token *shared)
{
	struct lm_token *t = (struct lm_token *)
		shared; /* the idle ones are its own matter */
	struct encoder *e;

	pthread_mutex_lock(&t->lock);
	e = t->idle;
	if (e)
		t->idle = e->next;
	pthread_mutex_unlock(&t->lock);
	if (e)
		return e;
	e = xcalloc(1, sizeof *e);
	e->t = t;
	if (t->pre.count && pre_run_init(&e->run) < 0) {
		free(e);
		return NULL;
	}
	e->slots = xcalloc(CACHE_SLOTS, sizeof *e->slots);
	e->pool = xmalloc(CACHE_POOL_BYTES);
	return e;
}

static void encoder_give(struct encoder *e)
{
	struct lm_token *t = (struct lm_token *)e->t;

	if (e->symbols_cap > 1u << 16) { /* of an uncommonly long word */
		free(e->symbols);
		free(e->heap);
		e->symbols = NULL;
		e->heap = NULL;
		e->symbols_cap = e->heap_cap = 0;
	}
	pthread_mutex_lock(&t->lock);
	e->next = t->idle;
	t->idle = e;
	pthread_mutex_unlock(&t->lock);
}

void encoder_free(struct encoder *e)
{
	while (e) {
		struct encoder *next = e->next;

		pre_run_release(&e->run);
		free(e->slots);
		free(e->pool);
		free(e->symbols);
		free(e->heap);
		buf_release(&e->text);
		free(e);
		e = next;
	}
}

/* --- what comes out ---------------------------------------------------------------------- */

static void put(struct encoder *e, uint32_t id)
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
	if (e->t->unknown >= 0 && !e->last_unknown)
		put(e, (uint32_t)e->t->unknown);
	e->last_unknown = true;
}

/* Bytes that no token holds together: one token each, or "unknown", or nothing. */
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
			put(e, id);
		else
			put_unknown(e);
	}
}

static void put_symbol(struct encoder *e, const char *word, const struct symbol *s)
{
	if (s->id < e->t->count)
		put(e, s->id);
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

/* What merging two neighbours would give. */
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

/* Which of two is to be done first. */
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
			continue; /* one of the two was merged meanwhile */
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

/* The same for few symbols, kept without gaps: n squared, but small. */
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

/* A word as symbols: bytes, or characters. A character without a token of its own is one to SentencePiece all the same; where
 * merges are by id it is the tokens of its bytes. */
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

/* Gemma's runs of line breaks are tokens that no merge makes. */
static bool is_line_breaks_of_gemma(const struct lm_token *t, const char *word, size_t n)
{
	if (word[0] != '\n' || strcmp(t->pre.name, "gemma4") != 0)
		return false;
	while (n && word[n - 1] == '\n')
		n--;
	return n == 0;
}

static void merge_word(struct encoder *e, const char *word, size_t bytes)
{
	size_t n;

	if (e->t->ignore_merges || is_line_breaks_of_gemma(e->t, word, bytes)) {
		uint32_t id = e->t->how == TOKEN_BYTES ?
			token_find_word(e->t, word, bytes) :
			token_find(e->t, word, bytes);

		if (id < e->t->count && mergeable(e->t, id)) {
			put(e, id);
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

/* --- words ------------------------------------------------------------------------------- */

static uint64_t word_hash(const char *s, size_t n)
{
	uint64_t h = n * UINT64_C(0x9e3779b97f4a7c15), v;

	for (; n > 8; s += 8, n -= 8) {
		memcpy(&v, s, 8);
		h = (h ^ v) * UINT64_C(0xff51afd7ed558ccd);
		h ^= h >> 32;
	}
	v = 0;
	memcpy(&v, s, n);
	h = (h ^ v) * UINT64_C(0xc4ceb9fe1a85ec53);
	return h ^ h >> 32;
}

static void cache_put(struct encoder *e, struct cache_slot *slot, uint64_t hash,
	const char *word, size_t bytes, size_t from)
{
	size_t ids_bytes = e->ids->len - from;

	if (ids_bytes / sizeof(uint32_t) > UINT8_MAX)
		return;
	if (CACHE_POOL_BYTES - e->pool_len < ids_bytes + bytes) {
		memset(e->slots, 0, CACHE_SLOTS * sizeof *e->slots);
		e->pool_len = 0;
	}
	*slot = (struct cache_slot){ hash, (uint32_t)e->pool_len, (uint8_t)bytes,
		(uint8_t)(ids_bytes / sizeof(uint32_t)), 1 };
	memcpy(e->pool + e->pool_len, e->ids->data + from, ids_bytes);
	memcpy(e->pool + e->pool_len + ids_bytes, word, bytes);
	e->pool_len += (ids_bytes + bytes + 3) & ~(size_t)3;
	if (e->pool_len > CACHE_POOL_BYTES)
		e->pool_len = CACHE_POOL_BYTES;
}

static int word(void *ctx, const char *s, size_t n)
{
	struct encoder *e = ctx;
	size_t from = e->ids->len;
	struct cache_slot *slot;
	uint64_t hash;

	/* what an unknown character gives depends on the one before it */
	if (n > CACHE_WORD_MAX || e->last_unknown) {
		merge_word(e, s, n);
		return 0;
	}
	hash = word_hash(s, n);
	slot = &e->slots[hash & (CACHE_SLOTS - 1)];
	if (slot->used && slot->hash == hash && slot->bytes == n) {
		size_t ids_bytes = slot->ids * sizeof(uint32_t);

		if (memcmp(e->pool + slot->at + ids_bytes, s, n) == 0) {
			memcpy(buf_reserve(e->ids, ids_bytes), e->pool + slot->at,
				ids_bytes);
			e->ids->len += ids_bytes;
			return 0;
		}
	}
	merge_word(e, s, n);
	if (!e->last_unknown)
		cache_put(e, slot, hash, s, n, from);
	return 0;
}

/* Where pieces are long (SentencePiece has no pre-tokenizer), cut them where no merge can reach across. */
static int piece(void *ctx, const char *s, size_t n)
{
	struct encoder *e = ctx;
	const struct lm_token *t = e->t;
	size_t begin = 0;
	bool other = false;

	if (t->how == TOKEN_BYTES || t->ignore_merges ||
		(!t->line_ends && !t->blank_begins))
		return word(ctx, s, n);
	for (size_t i = 0; i < n;) {
		bool blank = n - i >= TOKEN_BLANK_BYTES &&
			memcmp(s + i, TOKEN_BLANK, TOKEN_BLANK_BYTES) == 0;
		bool cut = (t->blank_begins && blank && other) ||
			(t->line_ends && i && (s[i - 1] == '\n' || s[i] == '\n'));

		if (cut && i > begin) {
			word(e, s + begin, i - begin);
			begin = i;
			other = false;
		}
		other |= !blank;
		i += blank ? TOKEN_BLANK_BYTES : 1;
	}
	return begin < n ? word(e, s + begin, n - begin) : 0;
}

/* --- sections between special tokens ------------------------------------------------------ */

/* Text without special tokens. first: nothing stands before it but special tokens. */
static int section(struct encoder *e, const char *s, size_t n, bool first)
{
	const struct lm_token *t = e->t;
	bool prefix = t->prefix == TOKEN_PREFIX_EACH ||
		(t->prefix == TOKEN_PREFIX_FIRST && first);

	if (!n)
		return 0;
	if (t->prefix_unless_there && s[0] == ' ')
		prefix = false;
	if (!prefix && !t->blanks)
		return pre_split(&t->pre, &e->run, s, n, piece, e);
	buf_reset(&e->text);
	if (prefix)
		buf_adds(&e->text, t->blanks ? TOKEN_BLANK : " ");
	for (size_t i = 0; i < n;) {
		const char *blank = t->blanks ? memchr(s + i, ' ', n - i) : NULL;
		size_t end = blank ? (size_t)(blank - s) : n;

		buf_add(&e->text, s + i, end - i);
		if (blank)
			buf_add(&e->text, TOKEN_BLANK, TOKEN_BLANK_BYTES);
		i = end + (blank != NULL);
	}
	return pre_split(&t->pre, &e->run, e->text.data, e->text.len, piece, e);
}

static bool is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

/* The longest name of the tree that begins here: its id and length, or TOKEN_NONE. */
static uint32_t name_at(const struct token_tree *tree, const char *s, size_t n,
	size_t *len)
{
	uint32_t at = 0, found = TOKEN_NONE;

	for (size_t i = 0; i < n; i++) {
		uint32_t next = tree->nodes[at].child;

		while (next && tree->nodes[next].byte != (uint8_t)s[i])
			next = tree->nodes[next].brother;
		if (!next)
			break;
		at = next;
		if (tree->nodes[at].id != TOKEN_NONE) {
			found = tree->nodes[at].id;
			*len = i + 1;
		}
	}
	return found;
}

/* first: the text begins here, so that a blank may have to be put before it. */
static int encode(struct encoder *e, const char *s, size_t n, bool special, bool first)
{
	const struct token_tree *tree = special ? &e->t->all : &e->t->always;
	size_t begin = 0, i = 0, len = 0;
	bool after_special = first;

	e->last_unknown = false;
	while (tree->count && i < n) {
		const struct token_piece *p;
		uint32_t id;
		size_t end;

		if (!tree->starts[(unsigned char)s[i]] ||
			(id = name_at(tree, s + i, n - i, &len)) == TOKEN_NONE) {
			i++;
			continue;
		}
		p = &e->t->pieces[id];
		end = i;
		while (p->lstrip && end > begin && is_space(s[end - 1]))
			end--;
		if (end > begin &&
			section(e, s + begin, end - begin,
				e->t->prefix == TOKEN_PREFIX_FIRST ? begin == 0 && first :
								     after_special) < 0)
			return -1;
		put(e, id);
		i += len;
		while (p->rstrip && i < n && is_space(s[i]))
			i++;
		begin = i;
		after_special = true;
	}
	return section(e, s + begin, n - begin,
		e->t->prefix == TOKEN_PREFIX_FIRST ? begin == 0 && first : after_special);
}

static int encode_part(const struct lm_token *t, struct buf *ids, const char *text,
	size_t bytes, bool special, bool first)
{
	struct encoder *e = encoder_take(t);
	int rc;

	if (!e)
		return -1;
	e->ids = ids;
	buf_reserve(ids, bytes); /* four bytes a token, about as many of text */
	rc = encode(e, text, bytes, special, first);
	encoder_give(e);
	return rc;
}

static int check_length(size_t bytes)
{
	if (bytes > LM_TOKEN_TEXT_MAX)
		return err_set(EX_DATAERR, "a text of %zu bytes is longer than %llu",
			bytes, (unsigned long long)LM_TOKEN_TEXT_MAX);
	return 0;
}

int lm_token_encode(const struct lm_token *t, struct buf *ids, const char *text,
	size_t bytes, bool special)
{
	if (check_length(bytes) < 0)
		return -1;
	return encode_part(t, ids, text, bytes, special, true);
}

/* --- long texts on several cores ----------------------------------------------------------- */

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

size_t token_cut(const struct lm_token *t, const char *text, size_t bytes, size_t want)
{
	if (t->how == TOKEN_BYTES ? !t->pre.lines_apart : !t->line_ends || t->pre.count)
		return bytes;
	for (size_t i = want < 2 ? 2 : want; i < bytes; i++) {
		const char *line = memchr(text + i - 1, '\n', bytes - i);

		if (!line)
			break;
		i = (size_t)(line - text) + 1;
		if (i < bytes && i >= 2 && is_letter(text[i]) && is_letter(text[i - 2]))
			return i;
	}
	return bytes;
}

/* Does no name to look for hold a line break that is followed by a letter? */
static bool names_stay_in_lines(const struct lm_token *t)
{
	for (uint32_t id = 0; id < t->count; id++) {
		const struct token_piece *p = &t->pieces[id];
		const char *s = t->pool.data + p->at;

		if (p->type == LM_TOKEN_NORMAL || p->type == LM_TOKEN_BYTE)
			continue;
		for (size_t i = 0; i + 1 < p->bytes; i++)
			if (s[i] == '\n' && is_letter(s[i + 1]))
				return false;
	}
	return true;
}

struct part {
	size_t begin, end;
	struct buf ids;
};

int lm_token_encode_long(const struct lm_token *t, struct buf *ids, const char *text,
	size_t bytes, bool special)
{
	struct part *parts = NULL;
	size_t n = 0, cap = 0, total = 0;
	struct err first = { 0 };

	if (bytes <= 2 * PART_BYTES || !names_stay_in_lines(t))
		return lm_token_encode(t, ids, text, bytes, special);
	if (check_length(bytes) < 0)
		return -1;
	for (size_t at = 0; at < bytes; n++) {
		parts = xgrow(parts, &cap, n + 1, sizeof *parts);
		parts[n] = (struct part){ at, token_cut(t, text, bytes, at + PART_BYTES),
			BUF_INIT };
		at = parts[n].end;
	}
#pragma omp parallel for schedule(dynamic)
	for (size_t i = 0; i < n; i++)
		if (encode_part(t, &parts[i].ids, text + parts[i].begin,
			    parts[i].end - parts[i].begin, special, i == 0) < 0) {
#pragma omp critical
			if (!first.code)
				err_save(&first);
		}
	for (size_t i = 0; i < n; i++)
		total += parts[i].ids.len;
	buf_reserve(ids, total);
	for (size_t i = 0; i < n; i++) {
		buf_add(ids, parts[i].ids.data, parts[i].ids.len);
		buf_release(&parts[i].ids);
	}
	free(parts);
	return first.code ? err_restore(&first) : 0;
}
