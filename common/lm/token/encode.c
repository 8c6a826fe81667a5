/* token_encode.c - text to ids.
 *
 * A text is split three times: at the names of special tokens, then by the pre-tokenizer, then
 * into symbols that are merged. Words recur often, so their ids are cached: most words then
 * cost a hash and a comparison. */
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/lm/token/token_encoder.h"
#include "common/base/mem.h"

#define CACHE_SLOTS      (1u << 16)
#define CACHE_POOL_BYTES ((size_t)6 << 20)
#define CACHE_WORD_MAX   64 /* longer words rarely recur */
#define PART_BYTES       ((size_t)1 << 20)

static struct encoder *encoder_take(const struct lm_token *shared)
{
	struct lm_token *t = (struct lm_token *)
		shared; /* not const: its list of idle encoders changes */
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

	if (e->symbols_cap > 1u << 16) { /* grown by an unusually long word */
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
		buf_release(&e->spelled);
		buf_release(&e->word);
		free(e);
		e = next;
	}
}

/* --- words ------------------------------------------------------------------------------- */

/* Appends text with U+2581 for blanks. */
static void add_blanks(struct buf *out, const char *s, size_t n)
{
	for (size_t i = 0; i < n;) {
		const char *blank = memchr(s + i, ' ', n - i);
		size_t end = blank ? (size_t)(blank - s) : n;

		buf_add(out, s + i, end - i);
		if (blank)
			buf_add(out, TOKEN_BLANK, TOKEN_BLANK_BYTES);
		i = end + (blank != NULL);
	}
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

/* Appends the ids of word s. blanks: it is raw text, whose blanks still have to become U+2581;
 * else it is spelled already. */
static void word(struct encoder *e, const char *s, size_t n, bool blanks)
{
	size_t from = e->ids->len;
	/* the ids of an unknown character depend on the one before it */
	bool keep = n <= CACHE_WORD_MAX && !e->last_unknown;
	struct cache_slot *slot = NULL;
	uint64_t hash = 0;

	if (keep) {
		hash = token_hash(s, n);
		slot = &e->slots[hash & (CACHE_SLOTS - 2)]; /* two-way set */
		for (unsigned i = 0; i < 2; i++) {
			size_t ids_bytes = slot[i].ids * sizeof(uint32_t);

			if (slot[i].used && slot[i].hash == hash && slot[i].bytes == n &&
				memcmp(e->pool + slot[i].at + ids_bytes, s, n) == 0) {
				memcpy(buf_reserve(e->ids, ids_bytes),
					e->pool + slot[i].at, ids_bytes);
				e->ids->len += ids_bytes;
				return;
			}
		}
	}
	if (blanks) {
		buf_reset(&e->word);
		add_blanks(&e->word, s, n);
		encoder_merge(e, e->word.data, e->word.len);
	} else {
		encoder_merge(e, s, n);
	}
	if (keep && !e->last_unknown) {
		slot[1] = slot[0];
		cache_put(e, slot, hash, s, n, from);
	}
}

/* Splits where no token, and so no merge, can cross: without a pre-tokenizer pieces are long,
 * while short words fit the cache. blanks: as for word(). */
static void words(struct encoder *e, const char *s, size_t n, bool blanks)
{
	const struct lm_token *t = e->t;
	size_t begin = 0, i = 0;
	unsigned before = 0, now;

	while (i < n) {
		size_t at = i;

		now = (unsigned char)s[i++];
		if (now == 0xe2 && n - at >= TOKEN_BLANK_BYTES &&
			memcmp(s + at, TOKEN_BLANK, TOKEN_BLANK_BYTES) == 0) {
			now = ' ';
			i = at + TOKEN_BLANK_BYTES;
		}
		if (at > begin && !token_joins(t, before, now)) {
			word(e, s + begin, at - begin, blanks);
			begin = at;
		}
		before = now;
	}
	if (begin < n)
		word(e, s + begin, n - begin, blanks);
}

static int piece(void *ctx, const char *s, size_t n)
{
	struct encoder *e = ctx;

	if (e->t->how == TOKEN_BYTES || e->t->ignore_merges)
		word(e, s, n, false);
	else
		words(e, s, n, false);
	return 0;
}

/* --- sections between special tokens ------------------------------------------------------ */

/* Encodes text without special tokens. first: only special tokens precede it. */
static int section(struct encoder *e, const char *s, size_t n, bool first)
{
	const struct lm_token *t = e->t;
	bool prefix = t->prefix == TOKEN_PREFIX_EACH ||
		(t->prefix == TOKEN_PREFIX_FIRST && first);

	if (!n)
		return 0;
	if (t->prefix_unless_there && s[0] == ' ')
		prefix = false;
	if (prefix) {
		buf_reset(&e->text);
		buf_addc(&e->text, ' ');
		buf_add(&e->text, s, n);
		s = e->text.data;
		n = e->text.len;
	}
	if (!t->blanks)
		return pre_split(&t->pre, &e->run, s, n, piece, e);
	/* SentencePiece: words are split and looked up unspelled; only new ones are spelled */
	if (!t->pre.count && t->how != TOKEN_BYTES && !t->ignore_merges &&
		pre_utf8_prefix(s, n) == n) {
		words(e, s, n, true);
		return 0;
	}
	buf_reset(&e->spelled);
	add_blanks(&e->spelled, s, n);
	return pre_split(&t->pre, &e->run, e->spelled.data, e->spelled.len, piece, e);
}

static bool is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Finds the longest name of the tree that begins here: its id and length, or TOKEN_NONE. */
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

/* Finds the name that begins at s[i]: its id and length, or TOKEN_NONE. may: NULL, or which bytes
 * may be part of a special token's name; names of user-defined tokens count everywhere. */
static uint32_t name_here(const struct token_tree *tree, const struct token_tree *always,
	const char *s, size_t i, size_t n, const char *may, size_t *len)
{
	size_t allowed = i, special_len = 0;
	uint32_t special, other;

	if (!may)
		return name_at(tree, s + i, n - i, len);
	while (allowed < n && allowed - i < TOKEN_SPECIAL_MAX && may[allowed])
		allowed++;
	special = name_at(tree, s + i, allowed - i, &special_len);
	*len = 0;
	other = always->count ? name_at(always, s + i, n - i, len) : TOKEN_NONE;
	if (special == TOKEN_NONE || (other != TOKEN_NONE && *len >= special_len))
		return other;
	*len = special_len;
	return special;
}

/* Encodes s. first: the text begins here, so that a blank may have to be prepended. may: as
 * name_here. */
static int encode(struct encoder *e, const char *s, size_t n, bool special, bool first,
	const char *may)
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
			(id = name_here(tree, &e->t->always, s, i, n, may, &len)) ==
				TOKEN_NONE) {
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
		encoder_put(e, id);
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
	size_t bytes, bool special, bool first, const char *may)
{
	struct encoder *e = encoder_take(t);
	int rc;

	if (!e)
		return -1;
	e->ids = ids;
	buf_reserve(ids, bytes); /* an id takes four bytes, about as many as its text */
	rc = encode(e, text, bytes, special, first, may);
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
	return encode_part(t, ids, text, bytes, special, true, NULL);
}

int lm_token_encode_marked(const struct lm_token *t, struct buf *ids, const char *text,
	size_t bytes, const char *may)
{
	if (check_length(bytes) < 0)
		return -1;
	return encode_part(t, ids, text, bytes, true, true, may);
}

/* --- long texts on several cores ----------------------------------------------------------- */

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

size_t token_truncate(const struct lm_token *t, const char *text, size_t bytes,
	size_t want)
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

/* Whether no name to look for contains a line break followed by a letter. */
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
		parts[n] = (struct part){ at,
			token_truncate(t, text, bytes, at + PART_BYTES), BUF_INIT };
		at = parts[n].end;
	}
#pragma omp parallel for schedule(dynamic)
	for (size_t i = 0; i < n; i++)
		if (encode_part(t, &parts[i].ids, text + parts[i].begin,
			    parts[i].end - parts[i].begin, special, i == 0, NULL) < 0) {
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
