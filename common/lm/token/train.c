/* train.c - learns byte-pair encodings from texts. */
#include "common/lm/token/train.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/threads.h"
#include "common/lm/token/inside.h"
#include "common/base/mem.h"

/* --- counting words ------------------------------------------------------------------------ */

struct counted {
	uint64_t hash, count;
	size_t at; /* in text */
	uint32_t bytes;
};

/* the words that one thread has counted */
struct word_map {
	struct counted *slots; /* bytes 0: free */
	size_t size, used;
	struct buf text;
};

struct lm_trainer {
	struct lm_token *base; /* holds the pre-tokenizer */
	struct word_map *maps;
	int threads;
};

static void map_grow(struct word_map *m)
{
	size_t size = m->size ? 2 * m->size : 1 << 14;
	struct counted *slots = xcalloc(size, sizeof *slots);

	for (size_t i = 0; i < m->size; i++)
		if (m->slots[i].bytes) {
			size_t j = m->slots[i].hash & (size - 1);

			while (slots[j].bytes)
				j = (j + 1) & (size - 1);
			slots[j] = m->slots[i];
		}
	free(m->slots);
	m->slots = slots;
	m->size = size;
}

static void map_count(struct word_map *m, const char *s, size_t n, uint64_t hash,
	uint64_t count)
{
	size_t i;

	if (2 * m->used >= m->size)
		map_grow(m);
	for (i = hash & (m->size - 1); m->slots[i].bytes; i = (i + 1) & (m->size - 1)) {
		struct counted *c = &m->slots[i];

		if (c->hash == hash && c->bytes == n &&
			memcmp(m->text.data + c->at, s, n) == 0) {
			c->count += count;
			return;
		}
	}
	m->slots[i] = (struct counted){ hash, count, m->text.len, (uint32_t)n };
	m->used++;
	buf_add(&m->text, s, n);
}

static int on_word(void *ctx, const char *s, size_t n)
{
	map_count(ctx, s, n, token_hash(s, n), 1);
	return 0;
}

int lm_trainer_new(struct lm_trainer **out, const char *pre)
{
	struct lm_trainer *r = xcalloc(1, sizeof *r);
	struct pre_habits habits;

	*out = NULL;
	r->base = token_new(TOKEN_BYTES);
	if (pre_by_name(&r->base->pre, pre, &habits) < 0) {
		lm_trainer_free(r);
		return -1;
	}
	r->base->ignore_merges = habits.ignore_merges;
	r->threads = threads_max();
	r->maps = xcalloc((size_t)r->threads, sizeof *r->maps);
	*out = r;
	return 0;
}

void lm_trainer_free(struct lm_trainer *r)
{
	if (!r)
		return;
	for (int i = 0; i < r->threads; i++) {
		free(r->maps[i].slots);
		buf_release(&r->maps[i].text);
	}
	free(r->maps);
	lm_token_close(r->base);
	free(r);
}

int lm_trainer_add(struct lm_trainer *r, const char *text, size_t bytes)
{
	struct pre_run run;
	int rc = pre_run_init(&run);

	if (rc == 0)
		rc = pre_split(&r->base->pre, &run, text, bytes, on_word,
			&r->maps[thread_number()]);
	pre_run_release(&run);
	return rc;
}

size_t lm_trainer_cut(const struct lm_trainer *r, const char *text, size_t bytes,
	size_t want)
{
	return lm_token_cut(r->base, text, bytes, want);
}

uint64_t lm_trainer_words(const struct lm_trainer *r)
{
	uint64_t n = 0;

	for (int i = 0; i < r->threads; i++)
		n += r->maps[i].used;
	return n;
}

/* --- merging pairs ------------------------------------------------------------------------- */

struct pair {
	uint32_t left, right;
	int64_t count;
	uint32_t *words; /* words that contain it, or did */
	size_t n, cap;
};

struct learned_word {
	size_t at; /* in symbols */
	uint32_t bytes, n;
	int64_t count;
};

struct candidate {
	int64_t count;
	uint32_t pair;
};

struct learner {
	struct learned_word *words;
	size_t word_count;
	uint32_t *symbols;
	struct pair *pairs;
	size_t pair_count, pairs_cap;
	uint32_t *table; /* pair by its two ids; UINT32_MAX: free */
	size_t table_size;
	struct candidate *heap;
	size_t heap_len, heap_cap;
	uint32_t *fresh; /* pairs that this merge created or added to */
	size_t fresh_len, fresh_cap;
};

static size_t pair_slot(const struct learner *l, uint32_t left, uint32_t right)
{
	uint64_t h = ((uint64_t)left << 32 | right) * UINT64_C(0x9e3779b97f4a7c15);
	size_t i = (h >> 24) & (l->table_size - 1);

	while (l->table[i] != UINT32_MAX &&
		(l->pairs[l->table[i]].left != left ||
			l->pairs[l->table[i]].right != right))
		i = (i + 1) & (l->table_size - 1);
	return i;
}

static void pair_table_grow(struct learner *l)
{
	l->table_size = l->table_size ? 2 * l->table_size : 1 << 16;
	free(l->table);
	l->table = xmalloc(l->table_size * sizeof *l->table);
	memset(l->table, 0xff, l->table_size * sizeof *l->table);
	for (size_t i = 0; i < l->pair_count; i++)
		l->table[pair_slot(l, l->pairs[i].left, l->pairs[i].right)] = (uint32_t)i;
}

static uint32_t pair_of(struct learner *l, uint32_t left, uint32_t right)
{
	size_t slot;

	if (2 * l->pair_count >= l->table_size)
		pair_table_grow(l);
	slot = pair_slot(l, left, right);
	if (l->table[slot] == UINT32_MAX) {
		l->pairs = xgrow(l->pairs, &l->pairs_cap, l->pair_count + 1,
			sizeof *l->pairs);
		l->pairs[l->pair_count] = (struct pair){ .left = left, .right = right };
		l->table[slot] = (uint32_t)l->pair_count++;
	}
	return l->table[slot];
}

static void pair_more(struct learner *l, uint32_t pair, uint32_t word)
{
	struct pair *p = &l->pairs[pair];

	p->count += l->words[word].count;
	/* words are visited in order, so a repeated one directly follows its first entry */
	if (p->n && p->words[p->n - 1] == word)
		return;
	p->words = xgrow(p->words, &p->cap, p->n + 1, sizeof *p->words);
	p->words[p->n++] = word;
}

static bool sooner(const struct learner *l, const struct candidate *a,
	const struct candidate *b)
{
	const struct pair *x = &l->pairs[a->pair], *y = &l->pairs[b->pair];

	if (a->count != b->count)
		return a->count > b->count;
	if (x->left != y->left)
		return x->left < y->left;
	return x->right < y->right;
}

static void heap_push(struct learner *l, uint32_t pair)
{
	struct candidate new = { l->pairs[pair].count, pair };
	size_t i;

	if (new.count < 1)
		return;
	l->heap = xgrow(l->heap, &l->heap_cap, l->heap_len + 1, sizeof *l->heap);
	for (i = l->heap_len++; i && sooner(l, &new, &l->heap[(i - 1) / 2]);
		i = (i - 1) / 2)
		l->heap[i] = l->heap[(i - 1) / 2];
	l->heap[i] = new;
}

static struct candidate heap_pop(struct learner *l)
{
	struct candidate top = l->heap[0], last = l->heap[--l->heap_len];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < l->heap_len) {
		if (child + 1 < l->heap_len &&
			sooner(l, &l->heap[child + 1], &l->heap[child]))
			child++;
		if (!sooner(l, &l->heap[child], &last))
			break;
		l->heap[i] = l->heap[child];
		i = child;
	}
	l->heap[i] = last;
	return top;
}

/* Returns the pair to be merged next, or UINT32_MAX. The heap's count of a pair may be stale
 * and too high: then the pair is pushed again. */
static uint32_t best_pair(struct learner *l)
{
	while (l->heap_len) {
		struct candidate c = heap_pop(l);

		if (l->pairs[c.pair].count == c.count)
			return c.pair;
		if (l->pairs[c.pair].count < c.count)
			heap_push(l, c.pair);
	}
	return UINT32_MAX;
}

static void fresh_pair(struct learner *l, uint32_t left, uint32_t right, uint32_t word)
{
	uint32_t pair = pair_of(l, left, right);

	pair_more(l, pair, word);
	l->fresh = xgrow(l->fresh, &l->fresh_cap, l->fresh_len + 1, sizeof *l->fresh);
	l->fresh[l->fresh_len++] = pair;
}

static void less(struct learner *l, uint32_t left, uint32_t right, uint32_t word)
{
	l->pairs[pair_of(l, left, right)].count -= l->words[word].count;
}

/* Replaces adjacent left and right by id in a word. */
static void merge_in(struct learner *l, uint32_t word, uint32_t left, uint32_t right,
	uint32_t id)
{
	struct learned_word *w = &l->words[word];
	uint32_t *s = l->symbols + w->at, n = 0;

	for (uint32_t i = 0; i < w->n; i++) {
		if (i + 1 == w->n || s[i] != left || s[i + 1] != right) {
			s[n++] = s[i];
			continue;
		}
		if (n) {
			less(l, s[n - 1], left, word);
			fresh_pair(l, s[n - 1], id, word);
		}
		if (i + 2 < w->n) {
			less(l, right, s[i + 2], word);
			fresh_pair(l, id, s[i + 2], word);
		}
		s[n++] = id;
		i++;
	}
	w->n = n;
}

static int by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static void merge_all(struct learner *l, uint32_t pair, uint32_t id)
{
	uint32_t left = l->pairs[pair].left, right = l->pairs[pair].right;
	uint32_t *words = l->pairs[pair].words;
	size_t n = l->pairs[pair].n;

	/* moved out first: merging may add pairs, and so reallocate them */
	l->pairs[pair].words = NULL;
	l->pairs[pair].n = l->pairs[pair].cap = 0;
	l->fresh_len = 0;
	for (size_t i = 0; i < n; i++)
		merge_in(l, words[i], left, right, id);
	l->pairs[pair].count = 0;
	free(words);
	if (l->fresh_len)
		qsort(l->fresh, l->fresh_len, sizeof *l->fresh, by_number);
	for (size_t i = 0; i < l->fresh_len; i++)
		if (i == 0 || l->fresh[i] != l->fresh[i - 1])
			heap_push(l, l->fresh[i]);
}

/* --- from words to a tokenizer --------------------------------------------------------------- */

/* Merges the threads' maps into one. */
static void join_maps(struct lm_trainer *r)
{
	struct word_map *to = &r->maps[0];

	for (int k = 1; k < r->threads; k++) {
		struct word_map *m = &r->maps[k];

		for (size_t i = 0; i < m->size; i++)
			if (m->slots[i].bytes)
				map_count(to, m->text.data + m->slots[i].at,
					m->slots[i].bytes, m->slots[i].hash,
					m->slots[i].count);
		free(m->slots);
		buf_release(&m->text);
		*m = (struct word_map){ 0 };
	}
}

static void learner_init(struct learner *l, const struct word_map *m,
	const uint32_t byte_id[256])
{
	size_t total = 0, k = 0;

	*l = (struct learner){ 0 };
	l->words = xcalloc(m->used, sizeof *l->words);
	l->symbols = xmalloc(m->text.len * sizeof *l->symbols);
	for (size_t i = 0; i < m->size; i++) {
		const struct counted *c = &m->slots[i];

		if (!c->bytes)
			continue;
		l->words[k] = (struct learned_word){ total, c->bytes, c->bytes,
			c->count > INT64_MAX / 2 ? INT64_MAX / 2 : (int64_t)c->count };
		for (uint32_t j = 0; j < c->bytes; j++)
			l->symbols[total++] =
				byte_id[(unsigned char)m->text.data[c->at + j]];
		k++;
	}
	l->word_count = k;
	for (size_t w = 0; w < k; w++)
		for (uint32_t j = 0; j + 1 < l->words[w].n; j++) {
			const uint32_t *s = l->symbols + l->words[w].at + j;

			pair_more(l, pair_of(l, s[0], s[1]), (uint32_t)w);
		}
	for (size_t i = 0; i < l->pair_count; i++)
		heap_push(l, (uint32_t)i);
}

static void learner_release(struct learner *l)
{
	for (size_t i = 0; i < l->pair_count; i++)
		free(l->pairs[i].words);
	free(l->pairs);
	free(l->words);
	free(l->symbols);
	free(l->table);
	free(l->heap);
	free(l->fresh);
}

/* Adds the 256 bytes in the order of their characters in GPT-2's alphabet, as GPT-2 and Hugging
 * Face number them. */
static int add_bytes(struct lm_token *t, uint32_t byte_id[256])
{
	static const struct {
		unsigned from, to;
	} ranges[] = { { 0x21, 0x7e }, { 0xa1, 0xac }, { 0xae, 0xff }, { 0x00, 0x20 },
		{ 0x7f, 0xa0 }, { 0xad, 0xad } };

	for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
		for (unsigned b = ranges[i].from; b <= ranges[i].to; b++) {
			char text[2];
			unsigned n = token_spell_byte((unsigned char)b, text);

			byte_id[b] = t->count;
			if (token_add(t, text, n, 0, LM_TOKEN_NORMAL, "training") < 0)
				return -1;
		}
	return token_index(t, "training");
}

/* Adds the spelling of a pair and sets its id. Two pairs with the same text are one token. */
static int add_pair(struct lm_token *t, const struct pair *p, uint32_t *id)
{
	const struct token_piece *a = &t->pieces[p->left], *b = &t->pieces[p->right];
	struct buf both = BUF_INIT;
	size_t cut = a->bytes;
	int rc = 0;

	buf_add(&both, t->pool.data + a->at, a->bytes);
	buf_add(&both, t->pool.data + b->at, b->bytes);
	*id = token_find(t, both.data, both.len);
	if (*id == TOKEN_NONE) {
		*id = t->count;
		rc = token_add(t, both.data, both.len, 0, LM_TOKEN_NORMAL, "training");
		if (rc == 0)
			token_index_add(t, *id);
	}
	if (rc == 0)
		rc = token_add_merge(t, both.data, cut, both.data + cut, both.len - cut,
			true, "training");
	buf_release(&both);
	return rc;
}

static int learn(struct learner *l, struct lm_token *t, uint32_t vocab,
	void (*progress)(void *ctx, uint32_t tokens), void *ctx)
{
	while (t->count < vocab && t->merge_count < TOKEN_MERGES_MAX) {
		uint32_t pair = best_pair(l), id;

		if (pair == UINT32_MAX)
			break;
		/* a text without blanks gives ever longer words: no token may be longer than
		 * readers accept */
		if (t->pieces[l->pairs[pair].left].bytes +
				t->pieces[l->pairs[pair].right].bytes >
			TOKEN_BYTES_MAX)
			continue;
		if (add_pair(t, &l->pairs[pair], &id) < 0)
			return -1;
		merge_all(l, pair, id);
		if (progress && t->count % 256 == 0)
			progress(ctx, t->count);
	}
	return 0;
}

int lm_trainer_learn(struct lm_trainer *r, uint32_t vocab, struct lm_token **out,
	void (*progress)(void *ctx, uint32_t tokens), void *ctx)
{
	struct lm_token *t = token_new(TOKEN_BYTES);
	struct pre_habits habits;
	uint32_t byte_id[256];
	struct learner l = { 0 };
	bool with_end = vocab > LM_TRAIN_VOCAB_MIN;
	int rc = -1;

	*out = NULL;
	if (vocab < LM_TRAIN_VOCAB_MIN || vocab > TOKEN_COUNT_MAX)
		bug("vocabulary of %u", vocab);
	if (pre_by_name(&t->pre, r->base->pre.name, &habits) < 0 ||
		add_bytes(t, byte_id) < 0)
		goto out;
	t->ignore_merges = habits.ignore_merges;
	join_maps(r);
	learner_init(&l, &r->maps[0], byte_id);
	if (learn(&l, t, vocab - with_end, progress, ctx) < 0)
		goto out;
	if (with_end) {
		t->bos = t->eos = t->count;
		if (token_add(t, LM_TRAIN_END, strlen(LM_TRAIN_END), 0, LM_TOKEN_CONTROL,
			    "training") < 0)
			goto out;
		token_index_add(t, (uint32_t)t->eos);
	}
	rc = token_finish(t, "training");
out:
	learner_release(&l);
	if (rc < 0)
		lm_token_close(t);
	else
		*out = t;
	return rc;
}
