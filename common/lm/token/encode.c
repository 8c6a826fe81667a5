/* encode.c - text to ids.
 *
 * A text is split three times: at the names of special tokens, then by the pre-tokenizer, then
 * into symbols that are merged. Words recur often, so their ids are cached: most words then
 * cost a hash and a comparison. */
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/lm/token/encoder.h"
#include "common/base/mem.h"
#include "common/base/utf8.h"

#define CACHE_SLOTS      (1u << 16)
#define CACHE_POOL_BYTES ((size_t)6 << 20)
#define CACHE_WORD_MAX   64 /* longer words rarely recur */

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
	if ((t->pre.count || t->word.count) && pre_run_init(&e->run) < 0) {
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

/* Whether a word is not worth merging, as all of it comes to more ids than are wanted, or takes
 * more memory than a stranger may: symbols are 44 times its bytes. Where unknown characters in a
 * row may be one token, or none, nothing is known of their number. */
static bool stops_at(struct encoder *e, size_t n)
{
	const struct lm_token *t = e->t;
	size_t count = e->ids->len / sizeof(uint32_t);
	bool all_count = t->how == TOKEN_BYTES || !t->no_byte_fallback;

	if (e->most == SIZE_MAX)
		return false;
	if (count > e->most || (all_count && n / t->longest > e->most - count))
		e->stop = ENCODER_MORE;
	else if (n > LM_TOKEN_WORD_MAX)
		e->stop = ENCODER_WORD;
	return e->stop != ENCODER_ON;
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

	if (stops_at(e, n))
		return;
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

	while (i < n && e->stop == ENCODER_ON) {
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
	if (begin < n && e->stop == ENCODER_ON)
		word(e, s + begin, n - begin, blanks);
}

static int piece(void *ctx, const char *s, size_t n)
{
	struct encoder *e = ctx;

	if (e->t->how == TOKEN_BYTES || e->t->ignore_merges)
		word(e, s, n, false);
	else
		words(e, s, n, false);
	return e->stop == ENCODER_ON ? 0 : -1;
}

/* --- sections between special tokens ------------------------------------------------------ */

/* Encodes text without special tokens. prefix: a blank comes before it. */
static int section(struct encoder *e, const char *s, size_t n, bool prefix)
{
	const struct lm_token *t = e->t;

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
		return e->stop == ENCODER_ON ? 0 : -1;
	}
	buf_reset(&e->spelled);
	add_blanks(&e->spelled, s, n);
	return pre_split(&t->pre, &e->run, e->spelled.data, e->spelled.len, piece, e);
}

/* Returns the bytes of the character that ends before s[end], or begins at s[at]; bytes that are no
 * UTF-8 are characters of one byte. */
static size_t char_before(const char *s, size_t end)
{
	size_t n = 1;

	while (n < 4 && n < end && ((unsigned char)s[end - n] & 0xc0) == 0x80)
		n++;
	return utf8_valid(s + end - n, n) ? n : 1;
}

static size_t char_at(const char *s, size_t at, size_t end)
{
	unsigned char c = (unsigned char)s[at];
	size_t n = c < 0xc0 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;

	return n <= end - at && utf8_valid(s + at, n) ? n : 1;
}

/* Whether these bytes are a character with the property White_Space. */
static bool is_space(const char *s, size_t n)
{
	static const char *const others[] = { "\xc2\x85", "\xc2\xa0", "\xe1\x9a\x80",
		"\xe2\x80\xa8", "\xe2\x80\xa9", "\xe2\x80\xaf", "\xe2\x81\x9f",
		"\xe3\x80\x80" };

	if (n == 1)
		return s[0] == ' ' || (s[0] >= '\t' && s[0] <= '\r');
	if (n == 3 && memcmp(s, "\xe2\x80", 2) == 0 && (unsigned char)s[2] <= 0x8a)
		return true; /* U+2000 to U+200A */
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		if (strlen(others[i]) == n && memcmp(s, others[i], n) == 0)
			return true;
	return false;
}

static int note_word(void *ctx, const char *s, size_t n)
{
	(void)s;
	(void)n;
	*(bool *)ctx = true;
	return 0;
}

/* Whether these bytes are a character of a word (\w). */
static bool is_word(struct encoder *e, const char *s, size_t n)
{
	bool is = false;

	pre_split(&e->t->word, &e->run, s, n, note_word, &is);
	return is;
}

/* Whether what stands around a name, s[begin..end) of n bytes, lets it be the token. bare: a text
 * begins there. */
static bool may_stand(struct encoder *e, const struct token_piece *p, const char *s,
	size_t begin, size_t end, size_t n, bool bare)
{
	size_t before = begin ? char_before(s, begin) : 0;

	if (p->single_word &&
		((before && is_word(e, s + begin - before, before)) ||
			(end < n && is_word(e, s + end, char_at(s, end, n)))))
		return false;
	return !p->normalized || bare || (begin && s[begin - 1] == ' ');
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
	bool prefix = first && e->t->prefix != TOKEN_PREFIX_NEVER;
	size_t begin = 0, i = 0, len = 0;

	e->last_unknown = false;
	while (tree->count && i < n) {
		const struct token_piece *p;
		uint32_t id;
		size_t end;

		if (!tree->starts[(unsigned char)s[i]] ||
			(id = name_here(tree, &e->t->always, s, i, n, may, &len)) ==
				TOKEN_NONE ||
			!may_stand(e, &e->t->pieces[id], s, i, i + len, n,
				i == begin && prefix)) {
			i++;
			continue;
		}
		p = &e->t->pieces[id];
		end = i;
		if (p->normalized && !(i == begin && prefix))
			end--; /* the blank that the normaliser prepended to the name */
		while (p->lstrip && end > begin &&
			is_space(s + end - char_before(s, end), char_before(s, end)))
			end -= char_before(s, end);
		if (end > begin && section(e, s + begin, end - begin, prefix) < 0)
			return -1;
		encoder_put(e, id);
		if (stops_at(e, 1))
			return -1;
		i += len;
		while (p->rstrip && i < n && is_space(s + i, char_at(s, i, n)))
			i += char_at(s, i, n);
		begin = i;
		/* behind a name that was found before the normaliser another text begins */
		prefix = e->t->prefix == TOKEN_PREFIX_EACH && !p->normalized;
	}
	return section(e, s + begin, n - begin, prefix);
}

static int encode_part(const struct lm_token *t, struct buf *ids, const char *text,
	size_t bytes, bool special, bool first, const char *may, size_t most)
{
	struct encoder *e = encoder_take(t);
	int rc;

	if (!e)
		return -1;
	e->ids = ids;
	e->most = most;
	e->stop = ENCODER_ON;
	/* an id takes four bytes, about as many as its text */
	buf_reserve(ids,
		bytes / sizeof(uint32_t) < most ? bytes : most * sizeof(uint32_t));
	rc = encode(e, text, bytes, special, first, may);
	if (e->stop == ENCODER_MORE)
		rc = 1;
	else if (e->stop == ENCODER_WORD)
		rc = err_set(EX_DATAERR, "a word is longer than %zu bytes",
			LM_TOKEN_WORD_MAX);
	else if (rc == 0 && ids->len / sizeof(uint32_t) > most)
		rc = 1;
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
	return encode_part(t, ids, text, bytes, special, true, NULL, SIZE_MAX);
}

int lm_token_encode_most(const struct lm_token *t, struct buf *ids, const char *text,
	size_t bytes, bool special, const char *may, size_t most)
{
	if (check_length(bytes) < 0)
		return -1;
	return encode_part(t, ids, text, bytes, special, true, may, most);
}

int lm_token_encode_piece(const struct lm_token *t, struct buf *ids, const char *text,
	size_t bytes, bool special, bool begins)
{
	if (check_length(bytes) < 0)
		return -1;
	return encode_part(t, ids, text, bytes, special, begins, NULL, SIZE_MAX);
}

int lm_token_encode_marked(const struct lm_token *t, struct buf *ids, const char *text,
	size_t bytes, const char *may)
{
	if (check_length(bytes) < 0)
		return -1;
	return encode_part(t, ids, text, bytes, true, true, may, SIZE_MAX);
}

/* --- long texts in pieces ----------------------------------------------------------- */

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Letters of large alphabets, that no pattern takes for anything else. */
static const struct {
	uint32_t from, to;
} letters[] = { { 'A', 'Z' }, { 'a', 'z' }, { 0xc0, 0xd6 }, { 0xd8, 0xf6 },
	{ 0xf8, 0x24f }, { 0x388, 0x481 }, { 0x48a, 0x52f }, { 0x531, 0x556 },
	{ 0x561, 0x586 }, { 0x5d0, 0x5ea }, { 0x620, 0x63f }, { 0x641, 0x64a },
	{ 0x671, 0x6d3 }, { 0x905, 0x939 }, { 0x985, 0x9b9 }, { 0xb85, 0xbb9 },
	{ 0xe01, 0xe2e }, { 0x10d0, 0x10fa }, { 0x3041, 0x3096 }, { 0x30a1, 0x30fa },
	{ 0x3400, 0x4dbf }, { 0x4e00, 0x9fff }, { 0xac00, 0xd7a3 } };

/* Whether the character at s, of which n > 0 bytes are there, is a letter. */
static bool letter_at(const char *s, size_t n)
{
	const unsigned char *u = (const unsigned char *)s;
	uint32_t c = u[0];

	if (c >= 0xc0 && c < 0xe0 && n > 1)
		c = (c & 0x1f) << 6 | (u[1] & 0x3f);
	else if (c >= 0xe0 && c < 0xf0 && n > 2)
		c = (c & 0xf) << 12 | (u[1] & 0x3fu) << 6 | (u[2] & 0x3f);
	else if (c >= 0x80)
		return false;
	for (size_t i = 0; i < sizeof letters / sizeof *letters; i++)
		if (c <= letters[i].to)
			return c >= letters[i].from;
	return false;
}

/* The same of the character that ends before s, of which n > 0 bytes are there. */
static bool letter_before(const char *s, size_t n)
{
	size_t back = 1;

	while (back < n && back < 4 &&
		((unsigned char)s[-(ptrdiff_t)back] & 0xc0) == 0x80)
		back++;
	return letter_at(s - back, back);
}

/* Returns the first blank at or behind `at`, which is not 0, between two letters of ASCII: the
 * words of a text without lines, such as text8. */
static size_t next_word(const char *text, size_t bytes, size_t at)
{
	for (; at + 1 < bytes; at++)
		if (text[at] == ' ' && is_letter(text[at - 1]) && is_letter(text[at + 1]))
			return at;
	return bytes;
}

size_t lm_token_cut(const struct lm_token *t, const char *text, size_t bytes, size_t want)
{
	if (t->how == TOKEN_BYTES ? !t->pre.lines_apart : !t->line_ends || t->pre.count)
		return bytes;
	want = want < 2 ? 2 : want;
	for (size_t i = want; i < bytes; i++) {
		const char *line = memchr(text + i - 1, '\n', bytes - i);

		if (!line)
			break;
		i = (size_t)(line - text) + 1;
		if (i < bytes && i >= 2 && letter_at(text + i, bytes - i) &&
			letter_before(text + i - 1, i - 1))
			return i;
	}
	return t->how == TOKEN_BYTES ? next_word(text, bytes, want) : bytes;
}

/* Looks for a name that goes over such a place. */
bool lm_token_cuts(const struct lm_token *t)
{
	for (uint32_t id = 0; id < t->count; id++) {
		const struct token_piece *p = &t->pieces[id];
		const char *s = t->pool.data + p->at;

		if (p->type == LM_TOKEN_NORMAL || p->type == LM_TOKEN_BYTE)
			continue;
		for (size_t i = 0; i + 1 < p->bytes; i++)
			if ((s[i] == '\n' && letter_at(s + i + 1, p->bytes - i - 1)) ||
				(s[i + 1] == ' ' && is_letter(s[i])))
				return false;
	}
	return true;
}
