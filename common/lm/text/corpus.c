/* corpus.c - cuts the texts of a corpus into pieces. */
#include "common/lm/text/corpus.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/threads.h"
#include "common/base/utf8.h"
#include "common/lm/text/unpack.h"

#define PIECE_BYTES ((size_t)1 << 20)
#define BATCH_LEAST ((size_t)16 << 20)
#define LINE_MAX    ((size_t)64 << 20)
#define WORD_MAX    ((size_t)16 << 20)

struct corpus {
	const struct corpus_form *form;
	struct unpack *file;
	const char *name;
	struct buf read;                  /* what is read and not yet in a batch */
	size_t checked;                   /* bytes of it that are known to be UTF-8 */
	uint64_t before;                  /* bytes of the file in front of it */
	uint64_t line;                    /* number of the last line */
	bool has_begun, ended, is_inside; /* inside: of the document that the file is */
	struct corpus_batch batch;
};

static void consume(struct buf *b, size_t bytes)
{
	if (!bytes)
		return;
	b->len -= bytes;
	memmove(b->data, b->data + bytes, b->len);
}

/* --- what is no text ------------------------------------------------------------------------- */

/* Files that people have among their texts, by the bytes that they begin with. */
static const struct {
	size_t at, bytes;
	const char *magic, *what;
} known[] = {
	{ 0, 2, "\xff\xfe", "UTF-16: convert it (iconv -f UTF-16 -t UTF-8)" },
	{ 0, 2, "\xfe\xff", "UTF-16: convert it (iconv -f UTF-16 -t UTF-8)" },
	{ 0, 6, "\xfd\x37\x7a\x58\x5a\0", "compressed by xz: unpack it (xz -dc)" },
	{ 0, 3, "BZh", "compressed by bzip2: unpack it (bzip2 -dc)" },
	{ 0, 4, "\x04\x22\x4d\x18", "compressed by lz4: unpack it (lz4 -dc)" },
	{ 0, 4, "PK\3\4", "a zip archive: unpack it (unzip -p)" },
	{ 257, 5, "ustar", "a tar archive: unpack it (tar -xO)" },
	{ 0, 5, "%PDF-", "a PDF file: turn it into text (pdftotext)" },
	{ 0, 4, "PAR1", "a Parquet file: turn it into JSON Lines" },
	{ 0, 6, "ARROW1", "an Arrow file: turn it into JSON Lines" },
	{ 0, 4, "GGUF", "a GGUF model" },
	{ 8, 2, "{\"",
		"a safetensors file" }, /* behind a length whose last bytes are zeros */
	{ 0, 8, "RNPTOKS1", "a token shard: give it to --data" },
	{ 0, 4, "\x88\xd8\x34\x01", "a token shard of llm.c: give it to --data" },
	{ 0, 4, "\xa1\xd9\x34\x01", "a token shard of llm.c: give it to --data" },
};

static int known_as(const struct corpus *c)
{
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (c->read.len >= known[i].at + known[i].bytes &&
			memcmp(c->read.data + known[i].at, known[i].magic,
				known[i].bytes) == 0 &&
			(known[i].at != 8 || memcmp(c->read.data + 5, "\0\0\0", 3) == 0))
			return err_set(EX_DATAERR, "'%s' is no text, but %s", c->name,
				known[i].what);
	return 0;
}

static int no_text(const struct corpus *c, size_t at)
{
	unsigned char byte = (unsigned char)c->read.data[at];

	return err_set(EX_DATAERR,
		"'%s' is no UTF-8 text: byte 0x%02x at offset %llu (--bytes takes any bytes)",
		c->name, byte, (unsigned long long)(c->before + at));
}

/* Checks what was read since the last time. A zero byte is valid UTF-8, and in no text: it stands
 * in UTF-16 without a mark, and in what programs write for programs. */
static int check_text(struct corpus *c)
{
	const char *new = c->read.data + c->checked;
	size_t n = c->read.len - c->checked, valid = utf8_prefix(new, n);
	const char *zero = memchr(new, 0, valid);

	if (zero)
		return no_text(c, (size_t)(zero - c->read.data));
	c->checked += valid;
	/* a character may go on in the next bytes */
	if (valid < n && (c->ended || n - valid >= 4))
		return no_text(c, c->checked);
	return 0;
}

/* Integers beyond 64 bits are ids that nobody reads here. */
static json_t *load(const char *line, size_t len, json_error_t *why)
{
	const size_t flags = JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES;
	json_t *o = json_loadb(line, len, flags, why);

	if (!o && json_error_code(why) == json_error_numeric_overflow)
		o = json_loadb(line, len, flags | JSON_DECODE_INT_AS_REAL, why);
	return o;
}

/* JSON Lines that are read as a text teach a model JSON's own syntax. */
static void doubt_lines(const struct corpus *c)
{
	const char *end = c->read.len ? memchr(c->read.data, '\n', c->read.len) : NULL;
	json_error_t why;
	json_t *o = NULL;

	if (end && c->read.data[0] == '{' && !c->form->jsonl)
		o = load(c->read.data, (size_t)(end - c->read.data), &why);
	if (o)
		err_warn(
			"'%s' looks like JSON Lines: --jsonl FIELD takes the text of each line",
			c->name);
	json_decref(o);
}

static int begin(struct corpus *c)
{
	c->has_begun = true;
	if (c->form->any_bytes)
		return 0;
	if (c->read.len >= 3 && memcmp(c->read.data, "\xef\xbb\xbf", 3) == 0) {
		consume(&c->read, 3);
		c->before = 3;
	}
	doubt_lines(c);
	return known_as(c);
}

/* Reads until `want` bytes are there, or the file has ended. */
static int read_more(struct corpus *c, size_t want)
{
	while (!c->ended && c->read.len < want) {
		ssize_t n;

		buf_reserve(&c->read, PIECE_BYTES);
		n = unpack_read(c->file, c->read.data + c->read.len, PIECE_BYTES);
		if (n < 0)
			return -1;
		c->read.len += (size_t)n;
		c->ended = n == 0;
	}
	if (!c->has_begun && begin(c) < 0)
		return -1;
	return c->form->any_bytes ? 0 : check_text(c);
}

/* --- batches --------------------------------------------------------------------------------- */

static size_t batch_bytes(const struct corpus *c)
{
	size_t n = (size_t)threads_max() * 4 * PIECE_BYTES;

	if (c->form->batch_bytes)
		return c->form->batch_bytes;
	return n < BATCH_LEAST ? BATCH_LEAST : n;
}

static void add_piece(struct corpus_batch *b, size_t at, size_t bytes, bool begins,
	bool ends)
{
	b->pieces = xgrow(b->pieces, &b->cap, b->n + 1, sizeof *b->pieces);
	b->pieces[b->n++] = (struct corpus_piece){ at, bytes, begins, ends };
}

/* Drops what the batch before took of what was read. */
static void drop(struct corpus *c, size_t bytes)
{
	consume(&c->read, bytes);
	c->before += bytes;
	c->checked -= c->checked < bytes ? c->checked : bytes;
}

static size_t cut_at(corpus_cut_fn cut, const void *ctx, const char *text, size_t bytes,
	size_t want)
{
	return cut && want < bytes ? cut(ctx, text, bytes, want) : bytes;
}

static size_t longest_word(const char *text, size_t bytes)
{
	size_t longest = 0, from = 0;

	for (size_t i = 0; i <= bytes; i++)
		if (i == bytes || text[i] == ' ' || text[i] == '\n') {
			longest = i - from > longest ? i - from : longest;
			from = i + 1;
		}
	return longest;
}

/* Refuses a long piece that is one word: it would take some 25 times its bytes. */
static int check_words(const struct corpus *c, const char *text, size_t bytes)
{
	if (bytes <= WORD_MAX || longest_word(text, bytes) <= WORD_MAX)
		return 0;
	return err_set(EX_DATAERR,
		"'%s' has a word of more than %zu bytes behind offset %llu: is it text?",
		c->name, WORD_MAX, (unsigned long long)c->before);
}

/* Cuts the text of a batch into pieces, the last of which ends where the batch does. */
static int cut_pieces(struct corpus *c, size_t piece, bool begins, corpus_cut_fn cut,
	const void *ctx)
{
	struct corpus_batch *b = &c->batch;
	size_t at = 0, end = b->text.len;

	while (at < end) {
		size_t to = cut_at(cut, ctx, b->text.data, end, at + piece);

		if (check_words(c, b->text.data + at, to - at) < 0)
			return -1;
		add_piece(b, at, to - at, begins && at == 0, c->ended && to == end);
		at = to;
	}
	if (c->ended && !end)
		add_piece(b, 0, 0, begins, true);
	return 1;
}

/* Of a file that is one document: reads until a batch can be cut off, or it ends. */
static int next_of_text(struct corpus *c, corpus_cut_fn cut, const void *ctx)
{
	struct corpus_batch *b = &c->batch;
	size_t batch = batch_bytes(c), want = batch, end;
	size_t piece = batch / 4 < PIECE_BYTES ? batch / 4 : PIECE_BYTES;
	bool begins = !c->is_inside;
	int rc;

	if (c->ended)
		return 0;
	do {
		if (read_more(c, want) < 0)
			return -1;
		end = c->ended ?
			c->read.len :
			cut_at(cut, ctx, c->read.data, c->read.len, batch - piece);
		if (end == c->read.len && check_words(c, c->read.data, end) < 0)
			return -1;
		want = 2 * c->read.len;
	} while (!c->ended && end == c->read.len && end < LM_TOKEN_TEXT_MAX);
	if (!c->ended && end == c->read.len)
		return err_set(EX_DATAERR,
			"'%s' cannot be cut between words in %llu bytes: give it in parts",
			c->name, (unsigned long long)LM_TOKEN_TEXT_MAX);
	c->is_inside = true;
	buf_reset(&b->text);
	buf_add(&b->text, c->read.data, end);
	rc = cut_pieces(c, piece, begins, cut, ctx);
	drop(c, end);
	return rc;
}

static int add_line(struct corpus *c, const char *line, size_t len)
{
	struct corpus_batch *b = &c->batch;
	json_error_t why;
	json_t *o = load(line, len, &why);
	const json_t *text = json_object_get(o, c->form->jsonl);
	int rc = 0;

	if (!json_is_object(o))
		rc = err_set(EX_DATAERR, "%s:%llu: no JSON object%s%s%s", c->name,
			(unsigned long long)c->line, o ? "" : ": ", o ? "" : why.text,
			*line == '[' ? " (of an array: jq -c '.[]')" : "");
	else if (!json_is_string(text))
		rc = err_set(EX_DATAERR, "%s:%llu: no text in the field '%s'", c->name,
			(unsigned long long)c->line, c->form->jsonl);
	else if (check_words(c, json_string_value(text), json_string_length(text)) < 0)
		rc = -1;
	else {
		add_piece(b, b->text.len, json_string_length(text), true, true);
		buf_add(&b->text, json_string_value(text), json_string_length(text));
	}
	json_decref(o);
	return rc;
}

static bool is_blank(const char *line, size_t len)
{
	while (len && memchr(" \t\r", line[len - 1], 3))
		len--;
	return len == 0;
}

/* Of JSON Lines: takes whole lines until their documents are a batch. */
static int next_of_lines(struct corpus *c)
{
	struct corpus_batch *b = &c->batch;
	size_t want = 2 * PIECE_BYTES, from = 0, most = batch_bytes(c);

	buf_reset(&b->text);
	/* documents without text count, too */
	while (b->text.len + b->n * sizeof *b->pieces < most) {
		const char *line = c->read.data + from, *end;
		size_t there = c->read.len - from, len;

		end = there ? memchr(line, '\n', there) : NULL;
		if (!end && !c->ended) {
			want = from ? 2 * PIECE_BYTES : 2 * want;
			if (want > LINE_MAX)
				return err_set(EX_DATAERR,
					"%s:%llu: the line is longer than %zu bytes",
					c->name, (unsigned long long)c->line + 1,
					LINE_MAX);
			drop(c, from);
			from = 0;
			if (read_more(c, want) < 0)
				return -1;
			continue;
		}
		if (!there)
			break;
		c->line++;
		len = end ? (size_t)(end - line) : there;
		if (!is_blank(line, len) && add_line(c, line, len) < 0)
			return -1;
		from += end ? len + 1 : len;
	}
	drop(c, from);
	return b->n > 0;
}

int corpus_open(struct corpus **out, const char *path, const struct corpus_form *form)
{
	struct corpus *c = xcalloc(1, sizeof *c);

	c->form = form;
	c->name = strcmp(path, "-") == 0 ? "standard input" : path;
	if (unpack_open(&c->file, path) < 0) {
		free(c);
		return -1;
	}
	*out = c;
	return 0;
}

int corpus_next(struct corpus *c, const struct corpus_batch **out, corpus_cut_fn cut,
	const void *ctx)
{
	c->batch.n = 0;
	*out = &c->batch;
	return c->form->jsonl ? next_of_lines(c) : next_of_text(c, cut, ctx);
}

void corpus_close(struct corpus *c)
{
	if (!c)
		return;
	unpack_close(c->file);
	buf_release(&c->read);
	buf_release(&c->batch.text);
	free(c->batch.pieces);
	free(c);
}

/* --- ids ------------------------------------------------------------------------------------- */

static size_t cut_for(const void *t, const char *text, size_t bytes, size_t want)
{
	return lm_token_cut(t, text, bytes, want);
}

/* Encodes each piece into its own of ids. */
static int encode_batch(const struct corpus_batch *b, const struct lm_token *t,
	bool special, struct buf *ids)
{
	struct err first = { 0 };

#pragma omp parallel for schedule(dynamic)
	for (size_t i = 0; i < b->n; i++) {
		const struct corpus_piece *p = &b->pieces[i];

		if (lm_token_encode_piece(t, &ids[i], b->text.data + p->at, p->bytes,
			    special, p->begins) < 0) {
#pragma omp critical
			if (!first.code)
				err_save(&first);
		}
	}
	return first.code ? err_restore(&first) : 0;
}

int corpus_encode(const char *path, const struct corpus_form *form,
	const struct lm_token *t, bool special, corpus_ids_fn to, void *ctx,
	uint64_t *bytes)
{
	corpus_cut_fn cut = lm_token_cuts(t) ? cut_for : NULL;
	const struct corpus_batch *b;
	struct buf *ids = NULL;
	struct corpus *c = NULL;
	size_t cap = 0;
	int rc = corpus_open(&c, path, form);

	while (rc == 0 && (rc = corpus_next(c, &b, cut, t)) > 0) {
		ids = xgrow(ids, &cap, b->n, sizeof *ids);
		memset(ids, 0, b->n * sizeof *ids);
		rc = encode_batch(b, t, special, ids);
		for (size_t i = 0; i < b->n; i++) {
			if (rc == 0)
				rc = to(ctx, (const uint32_t *)(const void *)ids[i].data,
					ids[i].len / sizeof(uint32_t), b->pieces[i].ends);
			buf_release(&ids[i]);
		}
		if (bytes)
			*bytes += b->text.len;
	}
	free(ids);
	corpus_close(c);
	return rc;
}
