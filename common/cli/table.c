/* table.c - lays out text for people: columns that share a width, and cards of a label and a
 * wrapped text. */
#include "common/cli/table.h"

#include <string.h>

#define NARROWEST 12

static bool continues(char c)
{
	return ((unsigned char)c & 0xc0) == 0x80;
}

size_t table_width(const char *text)
{
	size_t n = 0;

	for (; *text; text++)
		n += !continues(*text);
	return n;
}

static size_t larger(size_t a, size_t b)
{
	return a > b ? a : b;
}

void table_heading(struct table_column *c, const char *text)
{
	c->width = larger(c->width, table_width(text));
	for (size_t n = 0, i = 0; text[i]; i++) {
		n = text[i] == ' ' ? 0 : n + !continues(text[i]);
		c->needed = larger(c->needed, n);
	}
}

void table_measure(struct table_column *c, const char *text)
{
	c->width = larger(c->width, table_width(text));
	c->needed = larger(c->needed, table_width(text));
}

static size_t total_width(const struct table_column *columns, int n)
{
	size_t sum = (size_t)(n - 1) * TABLE_GAP;

	for (int i = 0; i < n; i++)
		sum += columns[i].width;
	return sum;
}

/* Returns the widest column that may be narrower: one whose heading is wider than its cells, or
 * one of texts; -1 if there is none. */
static int widest_of(const struct table_column *columns, int n, bool headings)
{
	int widest = -1;

	for (int i = 0; i < n; i++) {
		const struct table_column *c = &columns[i];
		bool may = headings ? c->width > c->needed :
				      !c->number && c->width > NARROWEST;

		if (may && (widest < 0 || c->width > columns[widest].width))
			widest = i;
	}
	return widest;
}

bool table_fit(struct table_column *columns, int n, size_t width)
{
	struct table_column before[TABLE_COLUMNS_MAX];

	if (!width || n < 1)
		return true;
	memcpy(before, columns, (size_t)n * sizeof *columns);
	while (total_width(columns, n) > width) {
		int widest = widest_of(columns, n, true);

		if (widest < 0)
			widest = widest_of(columns, n, false);
		if (widest < 0) {
			memcpy(columns, before, (size_t)n * sizeof *columns);
			return false;
		}
		columns[widest].width--;
	}
	return true;
}

/* Whether a name may go on in the next line behind this character. */
static bool joins(char c)
{
	return c == '.' || c == '_' || c == '/' || c == ',' || c == ':';
}

/* Returns the bytes of the next line of text, at most width characters (0: all): it ends at the
 * last space that fits, else behind the last part of a name, else at the width. *skip: bytes up to the next
 * line. */
static size_t next_line(const char *text, size_t width, size_t *skip)
{
	size_t bytes = 0, chars = 0, blank = 0, part = 0;

	while (text[bytes] && (!width || chars < width || continues(text[bytes]))) {
		if (text[bytes] == ' ')
			blank = bytes;
		chars += !continues(text[bytes]);
		bytes++;
		if (joins(text[bytes - 1]))
			part = bytes;
	}
	if (text[bytes] && text[bytes] != ' ' && (blank || part))
		bytes = blank ? blank : part;
	*skip = bytes;
	while (text[*skip] == ' ')
		++*skip;
	while (bytes && text[bytes - 1] == ' ')
		bytes--;
	return bytes;
}

static void add_blanks(struct buf *out, size_t n)
{
	while (n--)
		buf_addc(out, ' ');
}

static size_t chars_of(const char *text, size_t bytes)
{
	size_t n = 0;

	for (size_t i = 0; i < bytes; i++)
		n += !continues(text[i]);
	return n;
}

/* A number is never broken: one that is wider than its column takes blanks from the next ones. */
static void add_cell(struct buf *out, const struct table_column *c, const char **text,
	bool heading, size_t *owed, size_t *debt)
{
	size_t chars = table_width(*text), skip, bytes, pad, paid;

	if (c->number && !heading && chars > c->width) {
		skip = bytes = strlen(*text);
		*debt += chars - c->width;
	} else {
		bytes = next_line(*text, c->width, &skip);
		chars = chars_of(*text, bytes);
	}
	pad = c->width > chars ? c->width - chars : 0;
	paid = *debt < pad ? *debt : pad;
	*debt -= paid;
	pad -= paid;

	/* spaces are written only when text follows, so that lines do not end in spaces */
	if (c->number)
		*owed += pad;
	if (bytes) {
		add_blanks(out, *owed);
		*owed = 0;
	}
	buf_add(out, *text, bytes);
	if (!c->number)
		*owed += pad;
	*text += skip;
}

static void add_row(struct buf *out, const struct table_column *columns, int n,
	const char *const *cells, bool heading, const char *on, const char *off)
{
	const char *rest[TABLE_COLUMNS_MAX];
	bool more = true;

	for (int i = 0; i < n; i++)
		rest[i] = cells[i] ? cells[i] : "-";
	while (more) {
		size_t owed = 0, debt = 0;

		more = false;
		buf_adds(out, on);
		for (int i = 0; i < n; i++) {
			add_cell(out, &columns[i], &rest[i], heading, &owed, &debt);
			owed += TABLE_GAP;
			more |= *rest[i] != '\0';
		}
		buf_adds(out, off);
		buf_addc(out, '\n');
	}
}

void table_headings(struct buf *out, const struct table_column *columns, int n,
	const char *const *cells, const char *on, const char *off)
{
	add_row(out, columns, n, cells, true, on, off);
}

void table_row(struct buf *out, const struct table_column *columns, int n,
	const char *const *cells)
{
	add_row(out, columns, n, cells, false, "", "");
}

void table_card_line(struct buf *out, const char *label, size_t label_width,
	const char *text, size_t width)
{
	size_t indent = label_width + TABLE_GAP, skip, bytes;
	size_t left = !width               ? 0 :
		width > indent + NARROWEST ? width - indent :
					     NARROWEST;

	buf_adds(out, label);
	add_blanks(out,
		indent > table_width(label) ? indent - table_width(label) : TABLE_GAP);
	for (bool first = true; first || *text; first = false) {
		bytes = next_line(text, left, &skip);
		if (!first)
			add_blanks(out, indent);
		buf_add(out, text, bytes);
		buf_addc(out, '\n');
		text += skip;
	}
}
