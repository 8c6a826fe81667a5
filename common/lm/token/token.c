/* token.c - opening and closing of a tokenizer, its ids, and decoding. */
#include "common/lm/token/token.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/err.h"
#include "common/base/io.h"
#include "common/lm/token/inside.h"
#include "common/base/mem.h"
#include "common/base/utf8.h"

#define FILE_BYTES_MAX   ((size_t)256 << 20)
#define CONFIG_BYTES_MAX ((size_t)16 << 20)

void lm_token_close(struct lm_token *t)
{
	if (!t)
		return;
	encoder_free(t->idle);
	pre_release(&t->pre);
	pre_release(&t->word);
	free(t->pieces);
	buf_release(&t->pool);
	free(t->names.slots);
	free(t->words.slots);
	free(t->merges);
	free(t->table);
	free(t->always.nodes);
	free(t->all.nodes);
	free(t->chat_template);
	free(t->tool_template);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

/* Writes "DIR/name" for a file of that name in the directory of path. */
static char *beside(const char *path, const char *name)
{
	const char *slash = strrchr(path, '/');
	struct buf out = BUF_INIT;

	if (slash)
		buf_add(&out, path, (size_t)(slash - path) + 1);
	buf_adds(&out, name);
	return buf_take(&out);
}

/* Reads a template of a file of that name beside path into *to; without such a file *to stays. */
static int read_beside(char **to, const char *path, const char *name)
{
	char *jinja_path = beside(path, name);
	struct buf text = BUF_INIT;
	struct stat st;
	int rc = 0;

	if (stat(jinja_path, &st) == 0) {
		rc = io_read(&text, jinja_path, LM_TOKEN_TEMPLATE_MAX);
		if (rc == 0)
			rc = token_set_template(to, buf_text(&text), text.len,
				jinja_path);
	}
	buf_release(&text);
	free(jinja_path);
	return rc;
}

/* Reads the templates that stand in files of their own. Makers mend a template there and leave the
 * older one in tokenizer_config.json, so the file wins, as in transformers. */
static int read_templates(struct lm_token *t, const char *path)
{
	if (read_beside(&t->chat_template, path, "chat_template.jinja") < 0)
		return -1;
	return read_beside(&t->tool_template, path,
		"additional_chat_templates/tool_use.jinja");
}

static int open_json(struct lm_token **out, const char *path, uint32_t vocab)
{
	struct buf text = BUF_INIT, config = BUF_INIT;
	char *config_path = beside(path, "tokenizer_config.json");
	struct stat st;
	int rc = io_read(&text, path, FILE_BYTES_MAX);

	if (rc == 0 && stat(config_path, &st) == 0)
		rc = io_read(&config, config_path, CONFIG_BYTES_MAX);
	if (rc == 0)
		rc = token_read_json(out, buf_text(&text), text.len, config.data,
			config.len, vocab, path);
	if (rc == 0 && read_templates(*out, path) < 0) {
		lm_token_close(*out);
		*out = NULL;
		rc = -1;
	}
	buf_release(&text);
	buf_release(&config);
	free(config_path);
	return rc;
}

static int open_bin(struct lm_token **out, const char *path, uint32_t vocab)
{
	struct buf data = BUF_INIT;
	int rc = io_read(&data, path, FILE_BYTES_MAX);

	if (rc == 0)
		rc = lm_token_read_bin(out, data.data, data.len, vocab, path);
	buf_release(&data);
	return rc;
}

/* Recognises the format by its first bytes: "GGUF", "{" (perhaps after white space), else a
 * llama2.c file. */
static int open_file(struct lm_token **out, const char *path, uint32_t vocab)
{
	unsigned char first[64];
	FILE *f = fopen(path, "rbe");
	size_t n, i = 0;

	if (!f)
		return err_sys(0, "cannot open '%s'", path);
	n = fread(first, 1, sizeof first, f);
	fclose(f);
	if (n >= 4 && memcmp(first, "GGUF", 4) == 0)
		return token_read_gguf(out, path);
	while (i < n && strchr(" \t\r\n", first[i]) && first[i])
		i++;
	if (i < n && first[i] == '{')
		return open_json(out, path, vocab);
	return open_bin(out, path, vocab);
}

int lm_token_open(struct lm_token **out, const char *path, uint32_t vocab)
{
	struct stat st;
	char *inside;
	int rc;

	*out = NULL;
	if (stat(path, &st) < 0)
		return err_sys(0, "cannot open '%s'", path);
	if (!S_ISDIR(st.st_mode))
		return open_file(out, path, vocab);
	inside = xmalloc(strlen(path) + sizeof "/tokenizer.json");
	strcpy(inside, path);
	strcat(inside, "/tokenizer.json");
	rc = stat(inside, &st) < 0 ? err_sys(0, "cannot open '%s'", inside) :
				     open_json(out, inside, vocab);
	free(inside);
	return rc;
}

/* --- what it is -------------------------------------------------------------------------- */

uint32_t lm_token_count(const struct lm_token *t)
{
	return t->count;
}

int64_t lm_token_bos(const struct lm_token *t)
{
	return t->bos;
}

int64_t lm_token_eos(const struct lm_token *t)
{
	return t->eos;
}

bool lm_token_adds_bos(const struct lm_token *t)
{
	return t->adds_bos && t->bos >= 0;
}

int64_t lm_token_last(const struct lm_token *t)
{
	if (!t->adds_eos)
		return -1;
	return t->last >= 0 ? t->last : t->eos;
}

const char *lm_token_chat_template(const struct lm_token *t)
{
	return t->chat_template ? t->chat_template : t->tool_template;
}

const char *lm_token_tool_template(const struct lm_token *t)
{
	return t->tool_template;
}

const char *lm_token_text(const struct lm_token *t, uint32_t id, size_t *bytes)
{
	if (id >= t->count)
		bug("token %u of %u", id, t->count);
	*bytes = t->pieces[id].bytes;
	return t->pool.data + t->pieces[id].at;
}

float lm_token_score(const struct lm_token *t, uint32_t id)
{
	if (id >= t->count)
		bug("token %u of %u", id, t->count);
	return t->pieces[id].score;
}

enum lm_token_type lm_token_type(const struct lm_token *t, uint32_t id)
{
	if (id >= t->count)
		bug("token %u of %u", id, t->count);
	return (enum lm_token_type)t->pieces[id].type;
}

bool lm_token_ends(const struct lm_token *t, uint32_t id)
{
	const struct token_piece *p;

	if (id >= t->count)
		return false;
	p = &t->pieces[id];
	return id == t->eos || token_ends_fill(t, id) ||
		(p->type == LM_TOKEN_CONTROL &&
			token_ends_by_name(t->pool.data + p->at, p->bytes));
}

int64_t lm_token_find(const struct lm_token *t, const char *name, size_t bytes)
{
	uint32_t id = token_find(t, name, bytes);

	return id < t->count ? (int64_t)id : -1;
}

void lm_token_merge(const struct lm_token *t, uint32_t i, struct buf *out)
{
	for (int side = 0; side < 2; side++) {
		const struct token_piece *p;

		if (i >= t->merge_count)
			bug("merge %u of %zu", i, t->merge_count);
		p = &t->pieces[t->merges[i][side]];
		if (side)
			buf_addc(out, ' ');
		buf_add(out, t->pool.data + p->at, p->bytes);
	}
}

void lm_token_describe(const struct lm_token *t, struct lm_token_about *about)
{
	*about = (struct lm_token_about){
		.model = t->how == TOKEN_BYTES ? "gpt2" : "llama",
		.pre = t->how == TOKEN_BYTES ? t->pre.name : "default",
		.count = t->count,
		.merges = t->how == TOKEN_SCORES ? 0 : (uint32_t)t->merge_count,
		.bos = t->bos,
		.eos = t->eos,
		.unknown = t->unknown,
		.pad = t->pad,
		.adds_bos = t->adds_bos,
		.adds_eos = t->adds_eos,
		.adds_space_prefix = t->prefix != TOKEN_PREFIX_NEVER,
		.chat_template = t->chat_template,
		.tool_template = t->tool_template,
	};
}

/* Padding tokens, as common/lm/export/token.c and llama.cpp's converter spell them, produce no
 * text. */
static uint32_t count_unpadded(const struct lm_token *t)
{
	uint32_t n = t->count;

	for (; n; n--) {
		const struct token_piece *p = &t->pieces[n - 1];
		char padding[24];
		int bytes = snprintf(padding, sizeof padding, "[PAD%u]", n - 1);

		if (p->bytes != (uint32_t)bytes ||
			memcmp(t->pool.data + p->at, padding, p->bytes) != 0)
			break;
	}
	return n;
}

void lm_token_fingerprint(const struct lm_token *t, unsigned char out[32])
{
	crypto_generichash_state state;
	uint32_t n = count_unpadded(t);
	unsigned char bytes = t->how == TOKEN_BYTES;

	crypto_generichash_init(&state, NULL, 0, 32);
	crypto_generichash_update(&state, &bytes, 1);
	for (uint32_t id = 0; id < n; id++) {
		const struct token_piece *p = &t->pieces[id];

		crypto_generichash_update(&state, (const unsigned char *)&p->bytes,
			sizeof p->bytes);
		crypto_generichash_update(&state,
			(const unsigned char *)t->pool.data + p->at, p->bytes);
	}
	crypto_generichash_final(&state, out, 32);
}

/* --- ids to text ------------------------------------------------------------------------- */

static bool is_text(const struct lm_token *t, uint32_t id)
{
	uint8_t type = t->pieces[id].type;

	return type != LM_TOKEN_CONTROL && type != LM_TOKEN_UNKNOWN;
}

int lm_token_piece(const struct lm_token *t, struct buf *out, uint32_t id, bool first,
	bool special)
{
	const struct token_piece *p;
	const char *text;
	size_t n;

	if (id >= t->count)
		return err_set(EX_DATAERR, "token %u is outside the vocabulary of %u", id,
			t->count);
	p = &t->pieces[id];
	if (!special && !is_text(t, id))
		return 0;
	text = t->pool.data + p->raw_at;
	n = p->raw_bytes;
	if (first && t->prefix != TOKEN_PREFIX_NEVER && t->blanks && n && *text == ' ') {
		text++;
		n--;
	}
	buf_add(out, text, n);
	return 0;
}

void lm_detoken_init(struct lm_detoken *d, const struct lm_token *t)
{
	*d = (struct lm_detoken){ .token = t };
}

/* Returns how many bytes at the front of s are one character; 0: it may become one with more
 * bytes; -1: never. broken then receives how many are replaced together (the longest part that
 * could have begun a character, as Unicode recommends). */
static int character(const unsigned char *s, size_t n, size_t *broken)
{
	size_t want = s[0] < 0x80 ? 1 :
		s[0] < 0xc2       ? 0 :
		s[0] < 0xe0       ? 2 :
		s[0] < 0xf0       ? 3 :
		s[0] < 0xf5       ? 4 :
				    0;

	*broken = 1;
	if (!want)
		return -1;
	for (size_t i = 1; i < want; i++) {
		unsigned char low = 0x80, high = 0xbf;

		if (i >= n)
			return 0;
		if (i == 1 && s[0] == 0xe0)
			low = 0xa0;
		else if (i == 1 && s[0] == 0xed)
			high = 0x9f;
		else if (i == 1 && s[0] == 0xf0)
			low = 0x90;
		else if (i == 1 && s[0] == 0xf4)
			high = 0x8f;
		if (s[i] < low || s[i] > high) {
			*broken = i;
			return -1;
		}
	}
	return (int)want;
}

static void flow(struct lm_detoken *d, struct buf *out, const char *s, size_t n)
{
	while (n) {
		size_t broken;
		int len = character((const unsigned char *)s, n, &broken);

		if (len == 0) {
			memcpy(d->held, s, n);
			d->held_bytes = (unsigned)n;
			return;
		}
		if (len < 0)
			buf_adds(out, "\xef\xbf\xbd");
		else
			buf_add(out, s, (size_t)len);
		s += len < 0 ? broken : (size_t)len;
		n -= len < 0 ? broken : (size_t)len;
	}
}

int lm_detoken_push(struct lm_detoken *d, struct buf *out, uint32_t id)
{
	struct buf text = BUF_INIT;
	int rc;

	buf_add(&text, d->held, d->held_bytes);
	rc = lm_token_piece(d->token, &text, id, !d->started, false);
	if (rc == 0) {
		/* special tokens, which produce no text, precede it */
		d->started |= text.len > d->held_bytes || is_text(d->token, id);
		d->held_bytes = 0;
		flow(d, out, buf_text(&text), text.len);
	}
	buf_release(&text);
	return rc;
}

void lm_detoken_end(struct lm_detoken *d, struct buf *out)
{
	if (d->held_bytes)
		buf_adds(out, "\xef\xbf\xbd");
	d->held_bytes = 0;
}
