/* csv.c - reads untrusted CSV, strictly as RFC 4180. */
#include "cmd/rnp-price/text/csv.h"

#include <string.h>

#include "common/base/err.h"
#include "common/base/utf8.h"

void csv_open(struct csv *c, const char *text, size_t len, const char *name)
{
	memset(c, 0, sizeof *c);
	c->text = text;
	c->len = len;
	c->name = name;
	c->next_line = 1;
	if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
		c->at = 3;
}

void csv_close(struct csv *c)
{
	buf_release(&c->bytes);
}

static int bad(const struct csv *c, int field, const char *reason)
{
	return err_set(EX_DATAERR, "%s:%ld: field %d: %s", c->name, c->line, field + 1,
		reason);
}

static int peek(const struct csv *c)
{
	return c->at < c->len ? (unsigned char)c->text[c->at] : -1;
}

/* Returns the length of the line break at the reading position, 0 if there is none. */
static size_t break_here(const struct csv *c)
{
	if (peek(c) == '\n')
		return 1;
	if (peek(c) == '\r' && c->at + 1 < c->len && c->text[c->at + 1] == '\n')
		return 2;
	return 0;
}

static int read_quoted(struct csv *c, int field)
{
	size_t begin = c->bytes.len;

	for (c->at++; c->at < c->len; c->at++) {
		char ch = c->text[c->at];

		if (ch == '"') {
			if (c->at + 1 == c->len || c->text[c->at + 1] != '"') {
				c->at++;
				return 0;
			}
			c->at++;
		}
		c->next_line += ch == '\n';
		if (c->bytes.len - begin >= CSV_FIELD_BYTES_MAX)
			return bad(c, field, "longer than 65536 bytes");
		buf_addc(&c->bytes, ch);
	}
	return bad(c, field, "the quotes are not closed");
}

static int read_plain(struct csv *c, int field)
{
	size_t begin = c->at;

	for (; peek(c) >= 0 && peek(c) != ',' && !break_here(c); c->at++) {
		if (peek(c) == '"')
			return bad(c, field, "a quote within a field that is not quoted");
		if (peek(c) == '\r')
			return bad(c, field, "a carriage return without a line feed");
	}
	if (c->at - begin > CSV_FIELD_BYTES_MAX)
		return bad(c, field, "longer than 65536 bytes");
	buf_add(&c->bytes, c->text + begin, c->at - begin);
	return 0;
}

/* Reads one field and appends it with a NUL; a comma, a line break or the end must follow. */
static int read_field(struct csv *c, int field)
{
	size_t begin = c->bytes.len;

	if ((peek(c) == '"' ? read_quoted(c, field) : read_plain(c, field)) < 0)
		return -1;
	if (peek(c) >= 0 && peek(c) != ',' && !break_here(c))
		return bad(c, field, "text behind the closing quote");
	if (c->bytes.len > begin &&
		memchr(c->bytes.data + begin, '\0', c->bytes.len - begin))
		return bad(c, field, "a NUL byte");
	if (!utf8_valid(buf_text(&c->bytes) + begin, c->bytes.len - begin))
		return bad(c, field, "not UTF-8");
	buf_addc(&c->bytes, '\0');
	return 0;
}

int csv_next(struct csv *c)
{
	int n = 0;
	const char *at;

	c->line = c->next_line;
	if (c->at >= c->len)
		return 0;
	if (!c->at && c->len >= 3 && memcmp(c->text, "\x1f\x8b\x08", 3) == 0)
		return err_set(EX_DATAERR, "%s: compressed with gzip: unpack it first",
			c->name);
	if (!c->at && c->len >= 2 &&
		(memcmp(c->text, "\xff\xfe", 2) == 0 ||
			memcmp(c->text, "\xfe\xff", 2) == 0 || !c->text[0] ||
			!c->text[1]))
		return err_set(EX_DATAERR, "%s: UTF-16 or UTF-32: save it as UTF-8",
			c->name);
	buf_reset(&c->bytes);
	for (;;) {
		if (n == CSV_FIELDS_MAX)
			return bad(c, n, "more than 64 fields");
		if (read_field(c, n) < 0)
			return -1;
		n++;
		if (peek(c) != ',')
			break;
		c->at++;
	}
	if (c->at < c->len) {
		c->at += break_here(c);
		c->next_line++;
	}
	if (c->nfields && n != c->nfields)
		return err_set(EX_DATAERR,
			"%s:%ld: the row has %d fields, the first has %d", c->name,
			c->line, n, c->nfields);
	c->nfields = n;
	/* the buffer no longer moves, so pointers into it stay valid */
	at = buf_text(&c->bytes);
	for (int i = 0; i < n; i++, at += strlen(at) + 1)
		c->fields[i] = at;
	return 1;
}
