/* table.c - lays out text for people: columns that share a width, and cards of a label and a
 * wrapped text. */
#include "common/cli/table.h"

#include <string.h>

#define NARROWEST 12
#define LONG_WORD 32
#define KEY_SHORT 24

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

/* Whether a name may go on in the next line behind this character. */
static bool joins(char c)
{
	return c == '.' || c == '_' || c == '/' || c == ',' || c == ':' || c == '@' ||
		c == '-' || c == '=';
}

/* Returns the bytes of the key or hash that a text begins with: a word of at least LONG_WORD
 * characters without a part, and the comma of a list behind it. 0: it begins with none. */
static size_t key_bytes(const char *text)
{
	size_t n = 0;

	while (text[n] && text[n] != ' ' && !(text[n] & 0x80) && !joins(text[n]))
		n++;
	if (n < LONG_WORD)
		return 0;
	n += text[n] == ',';
	return text[n] && text[n] != ' ' ? 0 : n;
}

/* Whether a text is a key or hash. */
static bool is_key(const char *text)
{
	size_t n = key_bytes(text);

	return n && !text[n] && text[n - 1] != ',';
}

void table_measure(struct table_column *c, const char *text)
{
	c->key = c->key || is_key(text);
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

/* What is shrunk in turn. */
enum shrunk { KEYS, HEADINGS, TEXTS, NOTHING };

static bool may_shrink(const struct table_column *c, enum shrunk which)
{
	if (which == KEYS)
		return c->key && c->width > KEY_SHORT;
	return which == HEADINGS ? c->width > c->needed :
				   !c->number && c->width > NARROWEST;
}

/* Returns the widest column that may be narrower, or -1 if there is none. */
static int widest_of(const struct table_column *columns, int n, enum shrunk which)
{
	int widest = -1;

	for (int i = 0; i < n; i++)
		if (may_shrink(&columns[i], which) &&
			(widest < 0 || columns[i].width > columns[widest].width))
			widest = i;
	return widest;
}

bool table_fit(struct table_column *columns, int n, size_t width)
{
	struct table_column before[TABLE_COLUMNS_MAX];

	if (!width || n < 1)
		return true;
	memcpy(before, columns, (size_t)n * sizeof *columns);
	while (total_width(columns, n) > width) {
		int widest = -1;

		for (int which = KEYS; which != NOTHING && widest < 0; which++)
			widest = widest_of(columns, n, (enum shrunk)which);
		if (widest < 0) {
			memcpy(columns, before, (size_t)n * sizeof *columns);
			return false;
		}
		columns[widest].width--;
	}
	return true;
}

/* Returns the bytes of the next line of text, at most width characters (0: all): it ends at the
 * last space that fits, else behind the last part of a name, else at the width. *skip: bytes up to
 * the next line. */
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

/* Shortens a key or hash to the width: "2D8jUbvr...w7Qp". Returns whether it did. */
static bool add_short(struct buf *out, const char *text, size_t chars, size_t width)
{
	size_t bytes = strlen(text);

	if (chars <= width || width < NARROWEST || !is_key(text))
		return false;
	buf_add(out, text, width - 7);
	buf_adds(out, "...");
	buf_adds(out, text + bytes - 4);
	return true;
}

/* A number is never broken: one that is wider than its column takes blanks from the next ones. */
static void add_cell(struct buf *out, const struct table_column *c, const char **text,
	bool heading, size_t *owed, size_t *debt)
{
	size_t whole = table_width(*text), chars = whole, skip, bytes, pad, paid;

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
	if (!c->number && !heading && add_short(out, *text, whole, c->width))
		skip = strlen(*text);
	else
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
	if (!left || key_bytes(text) <= left)
		add_blanks(out,
			indent > table_width(label) ? indent - table_width(label) :
						      TABLE_GAP);
	for (bool first = true; first || *text; first = false) {
		bytes = left ? key_bytes(text) : 0;
		if (bytes > left) {
			/* it can be copied, which one in two lines cannot */
			if (first)
				buf_addc(out, '\n');
			add_blanks(out, TABLE_GAP);
			skip = bytes + strspn(text + bytes, " ");
		} else {
			bytes = next_line(text, left, &skip);
			if (!first)
				add_blanks(out, indent);
		}
		buf_add(out, text, bytes);
		buf_addc(out, '\n');
		text += skip;
	}
}

const char *table_advice_command(const char *text)
{
	static const char *const begins[] = { "rnp-", "sudo ", "systemctl ", "install ",
		"apt-get ", "dnf ", "useradd ", "modprobe ", "nvidia-ctk ", "man ", "/" };
	const char *found = NULL;

	for (const char *at = text; (at = strstr(at, ": ")); at += 2)
		for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
			if (strncmp(at + 2, begins[i], strlen(begins[i])) == 0 && !found)
				found = at + 2;
	return found;
}

/* How many bytes of a command stand in a line of `left` columns: up to the last joint in it, or
 * where none fits, the first. */
static size_t command_line(const char *text, size_t left)
{
	size_t n = 0;

	if (!left || strlen(text) <= left)
		return strlen(text);
	for (const char *at = text; *at; at++) {
		size_t joint = strncmp(at, " | ", 3) == 0 ? 3 :
			strncmp(at, " && ", 4) == 0       ? 4 :
							    0;

		if (!joint)
			continue;
		if (n && (size_t)(at - text) + joint - 1 > left)
			break;
		n = (size_t)(at - text) + joint;
	}
	return n ? n : strlen(text);
}

void table_card_advice(struct buf *out, const char *label, size_t label_width,
	const char *text, size_t width)
{
	const char *command = table_advice_command(text);
	size_t indent = label_width + TABLE_GAP + 2;
	struct buf words = BUF_INIT;

	buf_add(&words, text, command ? (size_t)(command - text) - 1 : strlen(text));
	table_card_line(out, label, label_width, buf_text(&words), width);
	while (command && *command) {
		size_t n = command_line(command, width > indent ? width - indent : 0);

		add_blanks(out, indent);
		buf_add(out, command, command[n] ? n - 1 : n);
		buf_addc(out, '\n');
		command += n;
	}
	buf_release(&words);
}
