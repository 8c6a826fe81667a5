/* harmless.c - goes through a text character by character. */
#include "cmd/rnp-register/customer/harmless.h"

#include <stdbool.h>
#include <string.h>

#include "common/base/utf8.h"

#define ESC '\033'

/* How long a character is that begins with c. */
static size_t length_of(unsigned char c)
{
	return c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

/* Looks whether a colour begins at p: returns its length, 0: something else does, -1: it is not all
 * there yet. */
static int colour_at(const char *p, size_t len)
{
	size_t n = 2;

	if (len < 2)
		return -1;
	if (p[1] != '[')
		return 0;
	while (n < len && n < 24 &&
		((p[n] >= '0' && p[n] <= '9') || p[n] == ';' || p[n] == ':'))
		n++;
	if (n == len && n < 24)
		return -1;
	return n < len && p[n] == 'm' ? (int)n + 1 : 0;
}

/* Writes one character of n bytes, or what stands for it. */
static void add_char(struct buf *out, const char *p, size_t n)
{
	char text[8];
	unsigned char c = (unsigned char)*p;

	if (n == 1 && c < 0x80) {
		if (c == '\n' || c == '\t' || (c >= 0x20 && c != 0x7f)) {
			buf_addc(out, (char)c);
		} else {
			buf_addc(out, '^');
			buf_addc(out, (char)(c ^ 0x40));
		}
		return;
	}
	memcpy(text, p, n);
	text[n] = '\0';
	/* one "?" for the character, not for each of its bytes */
	utf8_clean_line(text);
	if (memcmp(text, p, n) == 0)
		buf_add(out, p, n);
	else
		buf_addc(out, '?');
}

/* A carriage return: with a newline behind it, it is that; else it ends a line itself. Returns the
 * bytes that are done, 0: that is not known yet. */
static size_t take_return(struct buf *out, const char *p, size_t len)
{
	if (len < 2)
		return 0;
	if (p[1] == '\r')
		return 1;
	buf_addc(out, '\n');
	return p[1] == '\n' ? 2 : 1;
}

/* Takes the character at p. Returns its bytes, 0: it is not all there yet. */
static size_t take(struct buf *out, const char *p, size_t len)
{
	size_t n = length_of((unsigned char)*p);
	int colour;

	if (*p == '\r')
		return take_return(out, p, len);
	if (*p == ESC) {
		colour = colour_at(p, len);
		if (colour < 0)
			return 0;
		if (colour > 0)
			return (size_t)colour;
	}
	if (n > len) {
		/* it may still become one */
		for (size_t i = 1; i < len; i++)
			if (((unsigned char)p[i] & 0xc0) != 0x80)
				n = 1;
		if (n > 1)
			return 0;
	}
	if (n > 1 && !utf8_valid(p, n))
		n = 1;
	add_char(out, p, n);
	return n;
}

void harmless_add(struct harmless *h, struct buf *out, const char *text, size_t len)
{
	struct buf both = BUF_INIT;
	size_t at = 0;

	if (h->nheld) {
		buf_add(&both, h->held, h->nheld);
		buf_add(&both, text, len);
		text = both.data;
		len = both.len;
		h->nheld = 0;
	}
	while (at < len) {
		size_t n = take(out, text + at, len - at);

		if (!n)
			break;
		at += n;
	}
	/* less than a colour may have */
	if (at < len) {
		memcpy(h->held, text + at, len - at);
		h->nheld = len - at;
	}
	buf_release(&both);
}

void harmless_end(struct harmless *h, struct buf *out)
{
	for (size_t i = 0; i < h->nheld; i++)
		if (h->held[i] == '\r')
			buf_addc(out, '\n');
		else
			add_char(out, h->held + i, 1);
	h->nheld = 0;
}
