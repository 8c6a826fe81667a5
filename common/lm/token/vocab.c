/* vocab.c - the vocabulary of a tokenizer: spellings, index, merges. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/lm/token/inside.h"
#include "common/base/mem.h"

struct lm_token *token_new(enum token_how how)
{
	struct lm_token *t = xcalloc(1, sizeof *t);

	t->how = how;
	t->bos = t->eos = t->eot = t->unknown = t->pad = t->last = -1;
	for (int i = 0; i < TOKEN_FILLS; i++)
		t->fill[i] = -1;
	memset(t->byte_id, 0xff, sizeof t->byte_id);
	pthread_mutex_init(&t->lock, NULL);
	return t;
}

/* --- GPT-2's alphabet --------------------------------------------------------------------- */

/* Printable characters of Latin-1 stand for themselves, the other 68 bytes for U+0100 and on, in
 * their order. */
static bool stands_for_itself(unsigned c)
{
	return (c >= 0x21 && c <= 0x7e) || (c >= 0xa1 && c <= 0xac) ||
		(c >= 0xae && c <= 0xff);
}

static struct {
	uint16_t letter[256];
	int16_t byte[0x100 + 68]; /* -1: not in the alphabet */
} alphabet;

static void alphabet_fill(void)
{
	unsigned next = 0x100;

	memset(alphabet.byte, 0xff, sizeof alphabet.byte);
	for (unsigned c = 0; c < 256; c++) {
		alphabet.letter[c] = (uint16_t)(stands_for_itself(c) ? c : next++);
		alphabet.byte[alphabet.letter[c]] = (int16_t)c;
	}
}

static void alphabet_ready(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, alphabet_fill);
}

unsigned token_spell_byte(unsigned char byte, char out[2])
{
	unsigned c;

	alphabet_ready();
	c = alphabet.letter[byte];
	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	out[0] = (char)(0xc0 | c >> 6);
	out[1] = (char)(0x80 | (c & 0x3f));
	return 2;
}

/* Appends the bytes of a spelling, in which characters outside the alphabet stay unchanged. */
static void token_unspell(struct buf *out, const char *text, size_t bytes)
{
	alphabet_ready();
	for (size_t i = 0; i < bytes; i++) {
		unsigned char lead = (unsigned char)text[i];
		bool two = lead >= 0xc0 && lead < 0xe0 && i + 1 < bytes;
		unsigned c = two ?
			(lead & 0x1fu) << 6 | ((unsigned char)text[i + 1] & 0x3fu) :
			lead;

		if ((two || lead < 0x80) && c < 0x100 + 68 && alphabet.byte[c] >= 0) {
			buf_addc(out, (char)alphabet.byte[c]);
			i += two;
		} else {
			buf_addc(out, text[i]);
		}
	}
}

/* --- tokens and their index -------------------------------------------------------------- */

static const char *spelling(const struct lm_token *t, uint32_t id)
{
	return t->pool.data + t->pieces[id].at;
}

static uint64_t hash_of(const char *text, size_t bytes)
{
	uint64_t h = UINT64_C(0x9e3779b97f4a7c15) ^ bytes, v;

	for (; bytes >= 8; text += 8, bytes -= 8) {
		memcpy(&v, text, 8);
		h = (h ^ v) * UINT64_C(0xff51afd7ed558ccd);
		h ^= h >> 32;
	}
	v = 0;
	memcpy(&v, text, bytes);
	h = (h ^ v) * UINT64_C(0xc4ceb9fe1a85ec53);
	return h ^ h >> 29;
}

static uint32_t index_find(const struct lm_token *t, const struct token_index *x,
	const char *text, size_t bytes)
{
	if (!x->slots)
		return TOKEN_NONE;
	for (uint32_t i = (uint32_t)hash_of(text, bytes) & x->mask;;
		i = (i + 1) & x->mask) {
		uint32_t id = x->slots[i];
		const struct token_piece *p;

		if (id == TOKEN_NONE)
			return TOKEN_NONE;
		p = &t->pieces[id];
		if ((x->raw ? p->raw_bytes : p->bytes) == bytes &&
			memcmp(t->pool.data + (x->raw ? p->raw_at : p->at), text,
				bytes) == 0)
			return id;
	}
}

static void index_put(const struct lm_token *t, struct token_index *x, uint32_t id)
{
	const struct token_piece *p = &t->pieces[id];
	const char *text = t->pool.data + (x->raw ? p->raw_at : p->at);
	uint32_t i = (uint32_t)hash_of(text, x->raw ? p->raw_bytes : p->bytes) & x->mask;

	while (x->slots[i] != TOKEN_NONE)
		i = (i + 1) & x->mask;
	x->slots[i] = id;
}

static void index_make(const struct lm_token *t, struct token_index *x, size_t capacity)
{
	size_t size = 64;

	while (size < 2 * capacity)
		size *= 2;
	free(x->slots);
	x->slots = xmalloc(size * sizeof *x->slots);
	memset(x->slots, 0xff, size * sizeof *x->slots);
	x->mask = (uint32_t)(size - 1);
	for (uint32_t id = 0; id < t->known; id++)
		index_put(t, x, id);
}

uint32_t token_find(const struct lm_token *t, const char *text, size_t bytes)
{
	return index_find(t, &t->names, text, bytes);
}

uint32_t token_find_word(const struct lm_token *t, const char *text, size_t bytes)
{
	return index_find(t, &t->words, text, bytes);
}

/* Converts a spelling to text: bytes of GPT-2's alphabet, blanks of SentencePiece, the byte of
 * "<0x0A>". */
static void set_raw(struct lm_token *t, struct token_piece *p)
{
	struct buf raw = BUF_INIT;
	const char *text = t->pool.data + p->at;

	if (p->type == LM_TOKEN_BYTE && p->bytes == 6) {
		char hex[3] = { text[3], text[4], '\0' };

		buf_addc(&raw, (char)strtoul(hex, NULL, 16));
	} else if (p->type == LM_TOKEN_CONTROL || p->type == LM_TOKEN_UNKNOWN ||
		p->type == LM_TOKEN_USER_DEFINED) {
		buf_add(&raw, text, p->bytes);
	} else if (t->how == TOKEN_BYTES) {
		token_unspell(&raw, text, p->bytes);
	} else {
		for (size_t i = 0; i < p->bytes; i++)
			if (t->blanks && p->bytes - i >= TOKEN_BLANK_BYTES &&
				memcmp(text + i, TOKEN_BLANK, TOKEN_BLANK_BYTES) == 0) {
				buf_addc(&raw, ' ');
				i += TOKEN_BLANK_BYTES - 1;
			} else {
				buf_addc(&raw, text[i]);
			}
	}
	if (raw.len == p->bytes && memcmp(buf_text(&raw), text, raw.len) == 0) {
		p->raw_at = p->at;
	} else {
		p->raw_at = (uint32_t)t->pool.len;
		buf_add(&t->pool, raw.data, raw.len);
	}
	p->raw_bytes = (uint32_t)raw.len;
	buf_release(&raw);
}

static int add_piece(struct lm_token *t, const char *text, size_t bytes, float score,
	enum lm_token_type type, const char *where)
{
	if (bytes > TOKEN_BYTES_MAX)
		return err_set(EX_DATAERR, "%s: token %u is longer than %zu bytes", where,
			t->known, TOKEN_BYTES_MAX);
	if (t->pool.len > TOKEN_POOL_BYTES_MAX)
		return err_set(EX_DATAERR, "%s: the vocabulary is larger than %zu bytes",
			where, TOKEN_POOL_BYTES_MAX);
	t->pieces = xgrow(t->pieces, &t->pieces_cap, t->known + 1, sizeof *t->pieces);
	t->pieces[t->known++] = (struct token_piece){ .at = (uint32_t)t->pool.len,
		.bytes = (uint32_t)bytes,
		.score = score,
		.type = (uint8_t)type };
	buf_add(&t->pool, text, bytes);
	return 0;
}

int token_add(struct lm_token *t, const char *text, size_t bytes, float score,
	enum lm_token_type type, const char *where)
{
	char empty[32];

	if (t->count == TOKEN_COUNT_MAX)
		return err_set(EX_DATAERR, "%s: more than %u tokens", where,
			TOKEN_COUNT_MAX);
	if (!isfinite(score))
		return err_set(EX_DATAERR, "%s: the score of token %u is not finite",
			where, t->count);
	/* named as in llama.cpp: never found in a text, but with a row in the model */
	if (!bytes) {
		bytes = (size_t)snprintf(empty, sizeof empty, "[EMPTY_%u]", t->count);
		text = empty;
		type = LM_TOKEN_UNUSED;
	}
	if (add_piece(t, text, bytes, score, type, where) < 0)
		return -1;
	t->count++;
	return 0;
}

int token_index(struct lm_token *t, const char *where)
{
	if (!t->count)
		return err_set(EX_DATAERR, "%s: no tokens", where);
	index_make(t, &t->names, t->known);
	for (uint32_t id = 0; id < t->count; id++)
		if (token_find(t, spelling(t, id), t->pieces[id].bytes) != id)
			return err_set(EX_DATAERR, "%s: tokens %u and %u are both '%.*s'",
				where,
				token_find(t, spelling(t, id), t->pieces[id].bytes), id,
				(int)(t->pieces[id].bytes < 40 ? t->pieces[id].bytes :
								 40),
				spelling(t, id));
	return 0;
}

void token_index_add(struct lm_token *t, uint32_t id)
{
	if ((uint64_t)t->known * 2 > t->names.mask)
		index_make(t, &t->names, 2 * (size_t)t->known);
	else
		index_put(t, &t->names, id);
}

/* --- merges ------------------------------------------------------------------------------ */

static uint32_t slot_of(const struct lm_token *t, uint64_t pair)
{
	uint64_t h = pair * UINT64_C(0x9e3779b97f4a7c15);

	return (uint32_t)(h >> 32) & t->table_mask;
}

const struct token_merge *token_pair(const struct lm_token *t, uint32_t left,
	uint32_t right)
{
	uint64_t pair = (uint64_t)left << 32 | right;

	if (!t->table)
		return NULL;
	for (uint32_t i = slot_of(t, pair);; i = (i + 1) & t->table_mask) {
		if (t->table[i].pair == pair)
			return &t->table[i];
		if (t->table[i].pair == UINT64_MAX)
			return NULL;
	}
}

/* Returns the id of a text that a merge names; without strict, a new one when no token has it. */
static int merge_id(struct lm_token *t, const char *text, size_t bytes, bool strict,
	uint32_t *id, const char *where)
{
	*id = token_find(t, text, bytes);
	if (*id != TOKEN_NONE)
		return 0;
	if (strict || t->known >= TOKEN_COUNT_MAX + TOKEN_MERGES_MAX)
		return err_set(EX_DATAERR, "%s: merge %zu has '%.*s', which is no token",
			where, t->merge_count, (int)(bytes < 40 ? bytes : 40), text);
	if (add_piece(t, text, bytes, 0, LM_TOKEN_NORMAL, where) < 0)
		return -1;
	*id = t->known - 1;
	token_index_add(t, *id);
	return 0;
}

int token_add_merge(struct lm_token *t, const char *left, size_t left_bytes,
	const char *right, size_t right_bytes, bool strict, const char *where)
{
	uint32_t pair[2];

	if (t->merge_count == TOKEN_MERGES_MAX)
		return err_set(EX_DATAERR, "%s: more than %u merges", where,
			TOKEN_MERGES_MAX);
	if (!left_bytes || !right_bytes)
		return err_set(EX_DATAERR, "%s: merge %zu is not two texts", where,
			t->merge_count);
	if (merge_id(t, left, left_bytes, strict, &pair[0], where) < 0 ||
		merge_id(t, right, right_bytes, strict, &pair[1], where) < 0)
		return -1;
	t->merges = xgrow(t->merges, &t->merges_cap, t->merge_count + 1,
		sizeof *t->merges);
	memcpy(t->merges[t->merge_count++], pair, sizeof pair);
	return 0;
}

/* Finds the place of a pair in the table: its own, or a free one. */
static struct token_merge *place_of(struct lm_token *t, uint64_t pair)
{
	uint32_t i = slot_of(t, pair);

	while (t->table[i].pair != UINT64_MAX && t->table[i].pair != pair)
		i = (i + 1) & t->table_mask;
	return &t->table[i];
}

/* Removes each merge that comes again later, so that whoever reads what we write has the same
 * ranks, whichever of two equal ones counts there. */
static void drop_repeated(struct lm_token *t)
{
	size_t n = 0;

	for (size_t rank = 0; rank < t->merge_count; rank++) {
		const uint32_t *m = t->merges[rank];
		struct token_merge *at = place_of(t, (uint64_t)m[0] << 32 | m[1]);

		if (at->rank != rank)
			continue;
		at->rank = (uint32_t)n;
		memmove(t->merges[n++], m, sizeof *t->merges);
	}
	t->merge_count = n;
}

static int table_make(struct lm_token *t, bool strict, const char *where)
{
	struct buf both = BUF_INIT;
	bool repeated = false;
	size_t size = 64;
	int rc = 0;

	while (size < 2 * t->merge_count)
		size *= 2;
	t->table = xmalloc(size * sizeof *t->table);
	memset(t->table, 0xff, size * sizeof *t->table);
	t->table_mask = (uint32_t)(size - 1);
	for (size_t rank = 0; rank < t->merge_count && rc == 0; rank++) {
		const uint32_t *m = t->merges[rank];
		uint64_t pair = (uint64_t)m[0] << 32 | m[1];
		struct token_merge *at = place_of(t, pair);
		uint32_t id;

		buf_reset(&both);
		buf_add(&both, spelling(t, m[0]), t->pieces[m[0]].bytes);
		buf_add(&both, spelling(t, m[1]), t->pieces[m[1]].bytes);
		rc = merge_id(t, both.data, both.len, strict, &id, where);
		if (rc == 0 && at->pair == UINT64_MAX)
			*at = (struct token_merge){ pair, (uint32_t)rank, id };
		else if (rc == 0 && t->last_merge_counts)
			at->rank = (uint32_t)rank, repeated = true;
	}
	buf_release(&both);
	if (repeated && rc == 0)
		drop_repeated(t);
	return rc;
}

/* --- what is known by name --------------------------------------------------------------- */

bool token_ends_by_name(const char *text, size_t bytes)
{
	static const char *const names[] = { "<|eot_id|>", "<|im_end|>", "<|end|>",
		"<|return|>", "<|call|>", "<|flush|>", "<|calls|>", "<end_of_turn>",
		"<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]",
		"[EOS]", "<|end_of_text|>", "<end_of_utterance>", "<eos>", "<turn|>",
		"<|tool_response>", "[e~[",
		"<\xef\xbd\x9c"
		"end" TOKEN_BLANK "of" TOKEN_BLANK "sentence\xef\xbd\x9c>" };

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strlen(names[i]) == bytes && memcmp(names[i], text, bytes) == 0)
			return true;
	return false;
}

int token_set_template(char **to, const char *text, size_t bytes, const char *where)
{
	if (bytes > LM_TOKEN_TEMPLATE_MAX)
		return err_set(EX_DATAERR,
			"%s: the chat template is longer than %zu bytes", where,
			LM_TOKEN_TEMPLATE_MAX);
	if (memchr(text, '\0', bytes))
		return err_set(EX_DATAERR, "%s: the chat template has a NUL", where);
	free(*to);
	*to = bytes ? xstrndup(text, bytes) : NULL;
	return 0;
}

/* --- the tree of names to look for ------------------------------------------------------- */

static void tree_add(struct token_tree *tree, const char *text, size_t bytes, uint32_t id)
{
	uint32_t at = 0;

	if (!tree->count) {
		tree->nodes = xgrow(NULL, &tree->cap, 1, sizeof *tree->nodes);
		tree->nodes[tree->count++] = (struct token_node){ .id = TOKEN_NONE };
	}
	tree->starts[(unsigned char)text[0]] = true;
	for (size_t i = 0; i < bytes; i++) {
		uint8_t byte = (uint8_t)text[i];
		uint32_t next = tree->nodes[at].child;

		while (next && tree->nodes[next].byte != byte)
			next = tree->nodes[next].brother;
		if (!next) {
			next = (uint32_t)tree->count;
			tree->nodes = xgrow(tree->nodes, &tree->cap, tree->count + 1,
				sizeof *tree->nodes);
			tree->nodes[tree->count++] = (struct token_node){
				.brother = tree->nodes[at].child,
				.id = TOKEN_NONE,
				.byte = byte
			};
			tree->nodes[at].child = next;
		}
		at = next;
	}
	tree->nodes[at].id = id;
}

/* --- the whole --------------------------------------------------------------------------- */

static void join(struct lm_token *t, unsigned before, unsigned now)
{
	t->joins[before][now >> 6] |= UINT64_C(1) << (now & 63);
}

/* Records which bytes follow which in this spelling. */
static void note_joins(struct lm_token *t, const struct token_piece *p)
{
	const char *s = t->pool.data + p->at;
	unsigned before = 0, now;

	for (size_t i = 0; i < p->bytes; i++) {
		size_t at = i;

		now = (unsigned char)s[i];
		if (p->bytes - i >= TOKEN_BLANK_BYTES &&
			memcmp(s + i, TOKEN_BLANK, TOKEN_BLANK_BYTES) == 0) {
			now = ' ';
			i += TOKEN_BLANK_BYTES - 1;
		}
		if (at)
			join(t, before, now);
		if (s[at] == '\n' && p->bytes > 1)
			t->line_ends = false;
		before = now;
	}
}

/* Looks up the id of each byte's symbol, ghosts included. */
static void find_bytes(struct lm_token *t)
{
	for (unsigned b = 0; b < 256; b++) {
		char text[8];
		size_t n;

		if (t->how == TOKEN_BYTES)
			n = token_spell_byte((unsigned char)b, text);
		else
			n = (size_t)snprintf(text, sizeof text, "<0x%02X>", b);
		t->byte_id[b] = t->no_byte_fallback ? TOKEN_NONE : token_find(t, text, n);
	}
}

static void check_special(const struct lm_token *t, int64_t *id)
{
	if (*id < 0 || *id >= t->count)
		*id = -1;
}

int token_finish(struct lm_token *t, const char *where)
{
	if (t->how ==
		TOKEN_BYTES) /* each byte is a symbol, whether or not it is a token */
		for (unsigned b = 0; b < 256; b++) {
			char text[2];
			uint32_t id;

			if (merge_id(t, text, token_spell_byte((unsigned char)b, text),
				    false, &id, where) < 0)
				return -1;
		}
	if (t->how != TOKEN_SCORES && table_make(t, false, where) < 0)
		return -1;
	find_bytes(t);
	check_special(t, &t->bos);
	check_special(t, &t->eos);
	check_special(t, &t->unknown);
	check_special(t, &t->pad);
	check_special(t, &t->last);
	t->line_ends = true;
	for (unsigned before = 0; before < 256; before++) /* characters are never split */
		t->joins[before][2] = UINT64_MAX;
	for (uint32_t id = 0; id < t->known; id++) {
		struct token_piece *p = &t->pieces[id];
		bool special = p->type == LM_TOKEN_CONTROL || p->type == LM_TOKEN_UNKNOWN;

		set_raw(t, p);
		p = &t->pieces[id];
		if (p->bytes > t->longest)
			t->longest = p->bytes;
		if (!special && p->type != LM_TOKEN_BYTE)
			note_joins(t, p);
		if (id >= t->count || p->bytes > TOKEN_SPECIAL_MAX)
			continue;
		if (special || p->type == LM_TOKEN_USER_DEFINED)
			tree_add(&t->all, spelling(t, id), p->bytes, id);
		if (p->type == LM_TOKEN_USER_DEFINED)
			tree_add(&t->always, spelling(t, id), p->bytes, id);
	}
	if (t->how == TOKEN_BYTES && t->ignore_merges) {
		uint32_t known = t->known;

		t->words.raw = true;
		t->known = t->count; /* ghosts are not words */
		index_make(t, &t->words, t->count);
		t->known = known;
	}
	return 0;
}
