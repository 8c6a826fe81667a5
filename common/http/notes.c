/* notes.c - the notes beside a part of a download that several connections fetch: which
 * bytes are there, as text that a kill may cut short anywhere. Pure. */
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/http/parts.h"

/* Reads digits up to the character `end`, which is skipped. */
static bool take_number(const char **s, char end, int64_t *out)
{
	size_t digits = strspn(*s, "0123456789");

	if (!digits || digits > 18 || (*s)[digits] != end)
		return false;
	*out = strtoll(*s, NULL, 10);
	*s += digits + 1;
	return true;
}

/* Reads the lines after the first two up to the last that has an end. Returns how many ranges,
 * or -1. */
static long read_there(const char *s, int64_t total, struct http_piece *there)
{
	long n = 0;

	for (; strchr(s, '\n'); n++) {
		struct http_piece *p = &there[n];

		if (!take_number(&s, ' ', &p->from) ||
			!take_number(&s, '\n', &p->bytes) || !p->bytes ||
			p->bytes > total - p->from)
			return -1;
	}
	return n;
}

static int by_from(const void *a, const void *b)
{
	const struct http_piece *x = a, *y = b;

	return (x->from > y->from) - (x->from < y->from);
}

static void add_missing(struct http_notes *out, int64_t from, int64_t to)
{
	if (from >= to)
		return;
	out->missing = xgrow(out->missing, &out->cap, out->n + 1, sizeof *out->missing);
	out->missing[out->n++] = (struct http_piece){ from, to - from };
}

void http_notes_miss(struct http_notes *out, struct http_piece *there, size_t n)
{
	int64_t at = 0;

	if (n)
		qsort(there, n, sizeof *there, by_from);
	for (size_t i = 0; i < n; i++) {
		add_missing(out, at, there[i].from);
		if (there[i].from + there[i].bytes > at)
			at = there[i].from + there[i].bytes;
	}
	add_missing(out, at, out->total);
	for (size_t i = 0; i < out->n / 2; i++) {
		struct http_piece swap = out->missing[i];

		out->missing[i] = out->missing[out->n - 1 - i];
		out->missing[out->n - 1 - i] = swap;
	}
}

int http_notes_parse(struct http_notes *out, const char *text)
{
	const char *end = strchr(text, '\n'), *s;
	size_t len = end ? (size_t)(end - text) : 0;
	struct http_piece *there;
	long n;

	*out = (struct http_notes){ .total = -1 };
	if (len < 2 || len >= sizeof out->tag || *text != '"' || text[len - 1] != '"')
		return -1;
	s = end + 1;
	if (!take_number(&s, '\n', &out->total))
		return -1;
	memcpy(out->tag, text, len);
	there = xcalloc(strlen(s) / 4 + 1,
		sizeof *there); /* a line has four characters or more */
	n = read_there(s, out->total, there);
	if (n >= 0)
		http_notes_miss(out, there, (size_t)n);
	free(there);
	return n < 0 ? -1 : 0;
}

void http_notes_write(struct buf *out, const struct http_notes *n)
{
	int64_t at = 0;

	buf_addf(out, "%s\n%lld\n", n->tag, (long long)n->total);
	for (size_t i = n->n; i-- > 0; at = n->missing[i].from + n->missing[i].bytes)
		if (n->missing[i].from > at)
			buf_addf(out, "%lld %lld\n", (long long)at,
				(long long)(n->missing[i].from - at));
	if (n->total > at)
		buf_addf(out, "%lld %lld\n", (long long)at, (long long)(n->total - at));
}

void http_notes_release(struct http_notes *n)
{
	free(n->missing);
	*n = (struct http_notes){ .total = -1 };
}
