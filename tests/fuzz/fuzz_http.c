/* fuzz_http: what a stranger sends to a server of ours - heads, chunks, ranges.
 *
 * Input: the number of bytes of the first piece, then the bytes; they are read whole and in
 * pieces.
 *
 * Promises held: pieces are read as the whole is; a head that is taken can be understood in one
 * way only (one Host, one Content-Length or one Transfer-Encoding, lines that end with CR LF,
 * names that are tokens, no control characters); chunks never use more than there is, and give the
 * same bytes in every division; a range lies within what it is of. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/buf.h"
#include "common/net/httpd_parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool promise)
{
	if (!promise)
		abort();
}

static int count(const struct httpd_head *h, const char *name)
{
	int n = 0;

	for (int i = 0; i < h->nheaders; i++)
		n += strcasecmp(h->headers[i].key, name) == 0;
	return n;
}

static void check_text(const char *s)
{
	for (; *s; s++)
		must((unsigned char)*s >= ' ' || *s == '\t');
}

static void check_range(const char *text)
{
	static const uint64_t sizes[] = { 0, 1, 1000, UINT64_C(1) << 40 };
	uint64_t first, bytes;

	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		if (httpd_parse_range(text, sizes[i], &first, &bytes) == HTTPD_RANGE_ONE)
			must(bytes > 0 && first < sizes[i] && bytes <= sizes[i] - first);
}

/* A head that was taken. */
static void check_head(const struct httpd_head *h, const char *raw, size_t len)
{
	int lengths = count(h, "Content-Length"), codings = count(h, "Transfer-Encoding");

	must(h->method[0] && h->target[0]);
	must(count(h, "Host") == 1 || (count(h, "Host") == 0 && h->minor == 0));
	must(lengths + codings <= 1);
	must((h->body == HTTPD_BODY_CHUNKED) == (codings == 1));
	must(h->body != HTTPD_BODY_LENGTH || (lengths == 1 && h->body_bytes > 0));
	for (size_t i = 0; i < len; i++) {
		must(raw[i] != '\n' || (i && raw[i - 1] == '\r'));
		must(raw[i] != '\r' || raw[i + 1] == '\n');
		must(raw[i] != '\0');
		/* nothing is folded */
		must(i < 2 || raw[i - 1] != '\n' || (raw[i] != ' ' && raw[i] != '\t'));
	}
	for (int i = 0; i < h->nheaders; i++) {
		must(h->headers[i].key[0] && !strpbrk(h->headers[i].key, " \t:"));
		check_text(h->headers[i].value);
		check_range(h->headers[i].value);
		(void)httpd_list_has(h->headers[i].value, "close");
	}
}

static void head(const char *data, size_t size, size_t first)
{
	struct httpd_head h;
	const char *why = NULL, *why_pieces = NULL;
	size_t scanned = 0, again = 0;
	long n = httpd_scan_head(data, size, &scanned, &why);
	long pieces = httpd_scan_head(data, first, &again, &why_pieces);

	must(n <= (long)size && (n < 0) == (why != NULL));
	must(pieces == 0 || pieces == n);
	if (pieces == 0)
		must(httpd_scan_head(data, size, &again, &why_pieces) == n);
	if (n > 0) {
		char *text = malloc((size_t)n);

		memcpy(text, data, (size_t)n);
		if (httpd_parse_head(&h, text, (size_t)n, &why) == 0)
			check_head(&h, data, (size_t)n);
		else
			must(why != NULL);
		free(text);
	}
}

/* The data of the chunks; returns how it ended and in *used how far it came. */
static enum httpd_chunk decode(const char *data, size_t size, size_t first,
	struct buf *out, size_t *at)
{
	struct httpd_chunks s = { 0 };
	size_t upto = first;

	*at = 0;
	for (;;) {
		size_t used, n;
		enum httpd_chunk kind = httpd_chunks_feed(&s, data + *at, upto - *at,
			&used);

		must(used <= upto - *at);
		*at += used;
		if (kind == HTTPD_CHUNK_BAD || kind == HTTPD_CHUNK_END)
			return kind;
		n = kind == HTTPD_CHUNK_DATA ? upto - *at : 0;
		if (kind == HTTPD_CHUNK_DATA && s.left < n)
			n = (size_t)s.left;
		buf_add(out, data + *at, n);
		*at += n;
		s.left -= n;
		if (n)
			continue;
		must(*at == upto);
		if (upto == size)
			return HTTPD_CHUNK_MORE;
		upto = size;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf whole = BUF_INIT, pieces = BUF_INIT;
	size_t first, at, at_pieces;
	char *text;

	if (size < 2 || size > 65536)
		return 0;
	text = malloc(size - 1); /* so that a byte behind the end is found */
	memcpy(text, data + 1, size - 1);
	first = data[0] % size;
	head(text, size - 1, first);
	must(decode(text, size - 1, size - 1, &whole, &at) ==
		decode(text, size - 1, first, &pieces, &at_pieces));
	must(at == at_pieces && whole.len == pieces.len &&
		memcmp(buf_text(&whole), buf_text(&pieces), whole.len) == 0);
	buf_release(&whole);
	buf_release(&pieces);
	free(text);
	return 0;
}
