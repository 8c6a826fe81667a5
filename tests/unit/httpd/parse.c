/* parse.c - heads that two servers could read in two ways are refused (RFC
 * 9112, and the usual ways of request smuggling), chunks in every division, ranges by hand. */
#include "common/httpd/parse.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/test.h"

/* The status of a head: 200 taken, 0 not complete. Each prefix of it must not say otherwise. */
static int head(struct httpd_head *h, const char *text, size_t len)
{
	static char copy[65536];
	const char *why = NULL;
	size_t scanned = 0;
	long n = 0;
	int status;

	for (size_t upto = 1; upto <= len && n == 0; upto++)
		n = httpd_scan_head(text, upto, &scanned, &why);
	if (n <= 0) {
		CHECK((n < 0) == (why != NULL));
		return n < 0 ? 400 : 0;
	}
	CHECK_I64((int64_t)len, n);
	memcpy(copy, text, len);
	status = httpd_parse_head(h, copy, len, &why);
	return status ? status : 200;
}

#define HEAD(status, text) CHECK_I64(status, head(&h, text, sizeof(text) - 1))
/* a line after a request line and a Host that are well formed */
#define LINE(status, line) HEAD(status, "POST / HTTP/1.1\r\nHost: x\r\n" line "\r\n\r\n")

/* Whom a request is for, of a target beside "Host: h:1". */
static void is_for(const char *want, const char *target)
{
	struct httpd_head h;
	char text[200], got[100];
	int n = snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: h:1\r\n\r\n",
		target);

	CHECK_I64(200, head(&h, text, (size_t)n));
	snprintf(got, sizeof got, "%.*s", (int)h.authority_bytes, h.authority);
	CHECK_TEXT(want, got);
}

static void authorities(void)
{
	struct httpd_head h;

	is_for("h:1", "/");
	is_for("h:1", "*");
	is_for("h:1", "/http://x/");
	is_for("h:1", "ftp://x/");
	is_for("x", "http://x");
	is_for("x:80", "HTTP://x:80/p?q=http://y/");
	is_for("[::1]:8", "https://[::1]:8?q");
	is_for("x", "http://x#f");
	HEAD(200, "GET / HTTP/1.0\r\n\r\n");
	CHECK_I64(0, (int64_t)h.authority_bytes);
	HEAD(200, "GET http://x/ HTTP/1.0\r\n\r\n");
	CHECK_I64(1, (int64_t)h.authority_bytes);
}

static void framing(void)
{
	struct httpd_head h;

	LINE(200, "Content-Length: 5");
	CHECK_I64(HTTPD_BODY_LENGTH, h.body);
	CHECK_I64(5, (int64_t)h.body_bytes);
	LINE(200, "content-length:  9223372036854775807 ");
	LINE(200, "Content-Length: 00");
	CHECK_I64(HTTPD_BODY_NONE, h.body);
	LINE(200, "Transfer-Encoding: Chunked");
	CHECK_I64(HTTPD_BODY_CHUNKED, h.body);
	LINE(200, "X: y");
	CHECK_I64(HTTPD_BODY_NONE, h.body);
	LINE(400, "Content-Length: 5\r\nContent-Length: 6");
	LINE(400, "Content-Length: 5\r\ncontent-length: 5");
	LINE(400, "Content-Length: 5, 5");
	LINE(400, "Content-Length: +5");
	LINE(400, "Content-Length: -5");
	LINE(400, "Content-Length: 0x5");
	LINE(400, "Content-Length: 5 5");
	LINE(400, "Content-Length:");
	LINE(400, "Content-Length: 9223372036854775808");
	LINE(400, "Content-Length: 99999999999999999999999");
	LINE(400, "Content-Length: 5\r\nTransfer-Encoding: chunked");
	LINE(400, "Transfer-Encoding: chunked\r\nContent-Length: 5");
	LINE(400, "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked");
	LINE(400, "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity");
	LINE(501, "Transfer-Encoding: gzip, chunked");
	LINE(501, "Transfer-Encoding: identity");
	LINE(501, "Transfer-Encoding: xchunked");
	LINE(501, "Transfer-Encoding: chunked,");
	LINE(501, "Transfer-Encoding:");
	LINE(400,
		"Transfer-Encoding: \x0b"
		"chunked");
	LINE(400, "Transfer-Encoding : chunked");
	HEAD(400, "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n");
}

static void lines(void)
{
	struct httpd_head h;

	HEAD(200, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
	HEAD(200, "GET / HTTP/1.0\r\n\r\n");
	HEAD(200, "GET /?a=b HTTP/1.9\r\nHost:\r\n\r\n");
	CHECK_I64(1, h.minor);
	HEAD(200, "M-SEARCH * HTTP/1.1\r\nHost: [::1]:80\r\n\r\n");
	CHECK_TEXT("M-SEARCH", h.method);
	CHECK_TEXT("*", h.target);
	HEAD(0, "GET / HTTP/1.1\r\nHost: x\r\n\r");
	HEAD(0, "GET / HTTP/1.1\r\nHost: x\r\n");
	/* ends of lines */
	HEAD(400, "GET / HTTP/1.1\nHost: x\n\n");
	HEAD(400, "GET / HTTP/1.1\r\nHost: x\n\r\n");
	HEAD(400, "GET / HTTP/1.1\r\nHost: x\r\n\n");
	HEAD(400, "GET / HTTP/1.1\rHost: x\r\n\r\n");
	HEAD(400,
		"GET / HTTP/1.1\r\nA: b\rTransfer-Encoding: chunked\r\nHost: x\r\n\r\n");
	HEAD(400, "GET / HTTP/1.1\r\nA: b\r\r\nHost: x\r\n\r\n");
	HEAD(400, "GET / HTTP/1.1\r\nA: \0b\r\nHost: x\r\n\r\n");
	HEAD(400, "GET / HTTP/1.1\r\nA: \x7f\r\nHost: x\r\n\r\n");
	HEAD(400, "GET /\x01 HTTP/1.1\r\nHost: x\r\n\r\n");
	/* the request line */
	HEAD(400, "GET /\r\n\r\n");
	HEAD(400, "GET  / HTTP/1.1\r\nHost: x\r\n\r\n");
	HEAD(400, "GET / HTTP/1.1 \r\nHost: x\r\n\r\n");
	HEAD(400, "GET / a HTTP/1.1\r\nHost: x\r\n\r\n");
	HEAD(400, " GET / HTTP/1.1\r\nHost: x\r\n\r\n");
	HEAD(400, "GET\t/ HTTP/1.1\r\nHost: x\r\n\r\n");
	HEAD(400, "G(T / HTTP/1.1\r\nHost: x\r\n\r\n");
	HEAD(400, "GET / HTTP/1.10\r\nHost: x\r\n\r\n");
	HEAD(400, "GET / http/1.1\r\nHost: x\r\n\r\n");
	HEAD(400, "GET / HTTP/1,1\r\nHost: x\r\n\r\n");
	HEAD(505, "PRI * HTTP/2.0\r\n\r\n");
	HEAD(505, "GET / HTTP/0.9\r\n\r\n");
	/* fields */
	HEAD(400, "GET / HTTP/1.1\r\n\r\n");
	LINE(400, "Host: y");
	LINE(400, "host: x");
	HEAD(400, "GET / HTTP/1.0\r\nHost: x\r\nHost: x\r\n\r\n");
	HEAD(400, "GET / HTTP/1.1\r\nHost: x y\r\n\r\n");
	HEAD(400, "GET / HTTP/1.1\r\nHost: x, y\r\n\r\n");
	HEAD(400, "GET / HTTP/1.1\r\nHost: x/y\r\n\r\n");
	HEAD(400, "GET / HTTP/1.1\r\nHost: a@x\r\n\r\n");
	/* a target with an authority: it counts, and the Host has to be well formed all the same */
	HEAD(400, "GET http://x/ HTTP/1.1\r\n\r\n");
	HEAD(400, "GET http://x/ HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n");
	HEAD(400, "GET http://x/ HTTP/1.1\r\nHost: a@x\r\n\r\n");
	HEAD(400, "GET http:/// HTTP/1.1\r\nHost: x\r\n\r\n");
	HEAD(400, "GET http://?x HTTP/1.1\r\nHost: x\r\n\r\n");
	HEAD(400, "GET http://:80/ HTTP/1.1\r\nHost: x\r\n\r\n");
	HEAD(400, "GET http://a@x/ HTTP/1.1\r\nHost: x\r\n\r\n");
	HEAD(400, "GET https://x\\y/ HTTP/1.1\r\nHost: x\r\n\r\n");
	LINE(400, "A: b\r\n c");
	LINE(400, "A: b\r\n\tc");
	HEAD(400, "GET / HTTP/1.1\r\n Host: x\r\n\r\n");
	LINE(400, "A : b");
	LINE(400, "A\t: b");
	LINE(400, ": b");
	LINE(400, "A");
	LINE(400, "A b: c");
	LINE(400, "\xc3\xa4: b");
	LINE(200, "A: \t b c\xc3\xa4 \t");
	CHECK_TEXT("b c\xc3\xa4", httpd_find_header(h.headers, h.nheaders, "a"));
	LINE(200, "A:");
	CHECK_TEXT("", httpd_find_header(h.headers, h.nheaders, "A"));
	CHECK(httpd_find_header(h.headers, h.nheaders, "B") == NULL);
}

static void wishes(void)
{
	struct httpd_head h;

	LINE(200, "A: b");
	CHECK(h.keep_alive && !h.expect_continue && !h.expect_other);
	LINE(200, "Connection: x, Close");
	CHECK(!h.keep_alive);
	LINE(200, "Connection: keep-alive\r\nConnection: close");
	CHECK(!h.keep_alive);
	LINE(200, "Connection: closed");
	CHECK(h.keep_alive);
	HEAD(200, "GET / HTTP/1.0\r\n\r\n");
	CHECK(!h.keep_alive);
	HEAD(200,
		"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\nExpect: 100-continue\r\n\r\n");
	CHECK(h.keep_alive && !h.expect_continue);
	LINE(200, "Expect: 100-Continue");
	CHECK(h.expect_continue && !h.expect_other);
	LINE(200, "Expect: 200-ok");
	CHECK(h.expect_other);
}

static void many_fields(void)
{
	static char text[HTTPD_HEADERS_MAX * 8 + 100];
	struct httpd_head h;

	for (int n = HTTPD_HEADERS_MAX - 1; n <= HTTPD_HEADERS_MAX; n++) {
		strcpy(text, "GET / HTTP/1.1\r\nHost: x\r\n");
		for (int i = 0; i < n; i++)
			strcat(text, "A: b\r\n");
		strcat(text, "\r\n");
		CHECK_I64(n < HTTPD_HEADERS_MAX ? 200 : 431,
			head(&h, text, strlen(text)));
	}
}

/* Decodes text given in pieces of step bytes. Returns 1 end, 0 more, -1 bad; what is after the end
 * must be "rest". */
static int decode(const char *text, size_t len, size_t step, char *out)
{
	struct httpd_chunks s = { 0 };
	size_t at = 0, piece = 0;

	*out = '\0';
	for (;;) {
		size_t used, have = (piece < len ? piece : len) - at, n;
		enum httpd_chunk kind = httpd_chunks_feed(&s, text + at, have, &used);

		CHECK(used <= have);
		at += used;
		have -= used;
		switch (kind) {
		case HTTPD_CHUNK_BAD:
			return -1;
		case HTTPD_CHUNK_END:
			CHECK(len - at == 4 && memcmp(text + at, "rest", 4) == 0);
			return 1;
		case HTTPD_CHUNK_MORE:
			CHECK_I64(0, (int64_t)have);
			if (at == len)
				return 0;
			piece += step;
			break;
		case HTTPD_CHUNK_DATA:
			n = s.left < have ? (size_t)s.left : have;
			strncat(out, text + at, n);
			at += n;
			s.left -= n;
			if (!n && at == len)
				return 0;
			if (!n)
				piece += step;
		}
	}
}

static void chunks_are(int want, const char *text, size_t len, const char *want_data)
{
	char out[1000];

	for (size_t step = 1; step <= len; step++) {
		CHECK_I64(want, decode(text, len, step, out));
		if (want_data)
			CHECK_TEXT(want_data, out);
	}
}

#define CHUNKS(want, text, data) chunks_are(want, text, sizeof(text) - 1, data)

static void chunks(void)
{
	char many[9000];

	CHUNKS(1, "5\r\nhello\r\n0\r\n\r\nrest", "hello");
	CHUNKS(1, "0\r\n\r\nrest", "");
	CHUNKS(1,
		"a;x=y\r\n0123456789\r\n3;\"q q\"\r\nabc\r\n000\r\nA: b\r\nC: d\r\n\r\nrest",
		"0123456789abc");
	CHUNKS(1, "00A\r\n0123456789\r\n0\r\n\r\nrest", "0123456789");
	CHUNKS(0, "5\r\nhel", "hel");
	CHUNKS(0, "5\r\nhello\r\n0\r\n", "hello");
	CHUNKS(-1, "5\nhello\r\n0\r\n\r\n", "");
	CHUNKS(-1, "5\r\nhello0\r\n\r\n", "hello");
	CHUNKS(-1, "5\r\nhello\n0\r\n\r\n", "hello");
	CHUNKS(-1, "5\r\nhelloo\r\n0\r\n\r\n", "hello");
	CHUNKS(-1, "\r\n", "");
	CHUNKS(-1, ";a\r\n", "");
	CHUNKS(-1, " 5\r\nhello\r\n", "");
	CHUNKS(-1, "5 \r\nhello\r\n", "");
	CHUNKS(-1, "+5\r\nhello\r\n", "");
	CHUNKS(-1, "-5\r\nhello\r\n", "");
	CHUNKS(-1, "0x5\r\nhello\r\n", "");
	CHUNKS(-1, "g\r\n", "");
	CHUNKS(-1, "1000000000000000\r\n", ""); /* 16 digits */
	CHUNKS(-1, "ffffffffffffffff5\r\nhello\r\n", "");
	CHUNKS(-1, "5;a\nb\r\nhello\r\n", "");
	CHUNKS(-1, "5;a\rb\r\nhello\r\n", "");
	CHUNKS(-1, "5;\0\r\nhello\r\n", "");
	CHUNKS(-1, "0\r\n\n", "");
	CHUNKS(-1, "0\r\nA: b\n\r\n", "");
	CHUNKS(-1, "0\r\nA: b\r\n c\r\n\r\n", "");
	CHUNKS(-1, "0\r\n\rX", "");
	/* lines without end */
	memset(many, 'x', sizeof many);
	memcpy(many, "5;", 2);
	CHECK_I64(-1, decode(many, sizeof many, sizeof many, (char[10]){ 0 }));
	memcpy(many, "0\r\n", 3);
	CHECK_I64(-1, decode(many, sizeof many, sizeof many, (char[10]){ 0 }));
}

static void range(enum httpd_range want, const char *text, uint64_t bytes,
	int64_t want_first, int64_t want_count)
{
	uint64_t first = 77, count = 77;

	CHECK_I64(want, httpd_parse_range(text, bytes, &first, &count));
	if (want == HTTPD_RANGE_ONE) {
		CHECK_I64(want_first, (int64_t)first);
		CHECK_I64(want_count, (int64_t)count);
	}
}

static void ranges(void)
{
	range(HTTPD_RANGE_ONE, "bytes=0-0", 10, 0, 1);
	range(HTTPD_RANGE_ONE, "bytes=2-5", 10, 2, 4);
	range(HTTPD_RANGE_ONE, "Bytes= 2-", 10, 2, 8);
	range(HTTPD_RANGE_ONE, "bytes=9-9999999999999999999999999", 10, 9, 1);
	range(HTTPD_RANGE_ONE, "bytes=-3", 10, 7, 3);
	range(HTTPD_RANGE_ONE, "bytes=-30", 10, 0, 10);
	range(HTTPD_RANGE_ONE, "bytes=8589934592-", (uint64_t)9 << 30, (int64_t)8 << 30,
		(int64_t)1 << 30);
	range(HTTPD_RANGE_UNSATISFIABLE, "bytes=10-", 10, 0, 0);
	range(HTTPD_RANGE_UNSATISFIABLE, "bytes=99999999999999999999999-", 10, 0, 0);
	range(HTTPD_RANGE_UNSATISFIABLE, "bytes=0-", 0, 0, 0);
	range(HTTPD_RANGE_UNSATISFIABLE, "bytes=-0", 10, 0, 0);
	range(HTTPD_RANGE_UNSATISFIABLE, "bytes=-5", 0, 0, 0);
	range(HTTPD_RANGE_NONE, "bytes=5-2", 10, 0, 0);
	range(HTTPD_RANGE_NONE, "bytes=1-2,4-5", 10, 0, 0);
	range(HTTPD_RANGE_NONE, "bytes=a-", 10, 0, 0);
	range(HTTPD_RANGE_NONE, "bytes=-", 10, 0, 0);
	range(HTTPD_RANGE_NONE, "bytes=1", 10, 0, 0);
	range(HTTPD_RANGE_NONE, "bytes=1-2x", 10, 0, 0);
	range(HTTPD_RANGE_NONE, "lines=1-2", 10, 0, 0);
	range(HTTPD_RANGE_NONE, "", 10, 0, 0);
}

int main(void)
{
	authorities();
	framing();
	lines();
	wishes();
	many_fields();
	chunks();
	ranges();
	TEST_END();
}
