/* logs.c - a job's output does nothing to the terminal, in whatever pieces it comes; and frames are
 * read in whatever pieces. */
/* uses: cmd/rnp-register */
#include "cmd/rnp-register/customer/frames.h"
#include "cmd/rnp-register/customer/harmless.h"

#include <stdlib.h>

#include "tests/unit/test.h"

/* The whole at once, byte by byte, and in pieces of three. */
static void shows(const char *text, size_t len, const char *want)
{
	for (size_t piece = 1; piece <= len + 1; piece += piece == 1 ? 2 : len) {
		struct harmless h = { .nheld = 0 };
		struct buf out = BUF_INIT;

		for (size_t at = 0; at < len; at += piece)
			harmless_add(&h, &out, text + at,
				len - at < piece ? len - at : piece);
		harmless_end(&h, &out);
		CHECK_TEXT(want, buf_text(&out));
		buf_release(&out);
	}
}

#define SHOWS(text, want) shows(text, sizeof text - 1, want)

static void harmless(void)
{
	SHOWS("plain\n\ttext\n", "plain\n\ttext\n");
	SHOWS("\033[31mred\033[0m \033[1;38;5;200mbold\033[m", "red bold");
	SHOWS("\033[2J\033[H", "^[[2J^[[H");
	SHOWS("\033]0;title\007", "^[]0;title^G");
	SHOWS("\033]52;c;cm0gLXJm\033\\", "^[]52;c;cm0gLXJm^[\\");
	SHOWS("\033Pq\033", "^[Pq^[");
	SHOWS("\033[6n\033[c", "^[[6n^[[c");
	SHOWS("\b\b\x7f\016", "^H^H^?^N");
	SHOWS(" 10%\r 20%\r\nend\r", " 10%\n 20%\nend\n");
	SHOWS("a\r\r\nb", "a\nb");
	SHOWS("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80",
		"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
	/* CSI as one character of 8 bits, a change of direction, half a character, none at all */
	SHOWS("\xc2\x9b"
	      "2J",
		"?2J");
	SHOWS("\xe2\x80\xae"
	      "abc",
		"?abc");
	SHOWS("\xe2\x82", "??");
	SHOWS("\xff\xfe\x80", "???");
	SHOWS("\xe2\x82\n", "??\n");
	SHOWS("\033[3", "^[[3");
	SHOWS("\033[111111111111111111111111111111m",
		"^[[111111111111111111111111111111m");
	SHOWS("nul\0nul", "nul^@nul");
}

/* --- frames ----------------------------------------------------------------------------------- */

struct seen {
	char text[200];
};

static int note(void *ctx, int rank, int64_t at, const char *data, size_t len)
{
	struct seen *s = ctx;
	size_t n = strlen(s->text);

	snprintf(s->text + n, sizeof s->text - n, "%d@%lld:%.*s;", rank, (long long)at,
		(int)len, data);
	return 0;
}

static int read_in(const char *text, size_t piece, struct seen *seen, bool *ended)
{
	struct frames f = { .nhead = 0 };
	size_t len = strlen(text);
	int rc = 0;

	memset(seen, 0, sizeof *seen);
	for (size_t at = 0; at < len && rc == 0; at += piece)
		rc = frames_read(&f, text + at, len - at < piece ? len - at : piece, note,
			seen);
	*ended = f.ended;
	return rc;
}

static void frames(void)
{
	static const char *const bad[] = {
		"1 2\n", "-1 0 3\nabc", "64 0 1\nx", "1 2 3 4\n", "0 0 1\nxend\n0 0 1\n",
		"0  0 1\n", " 0 0 1\n", "0 99999999999999999999999 1\nx",
		"00000000000000000000000000000000000000000000000000000000000000000000 0 1\n"
	};
	struct seen seen;
	bool ended;

	CHECK(read_in("0 0 3\nabc1 4096 0\n1 5000 2\nxyend\n", 1000, &seen, &ended) == 0);
	CHECK(ended);
	CHECK_TEXT("0@0:abc;1@5000:xy;", seen.text);
	CHECK(read_in("0 0 3\nabc1 4096 0\n1 5000 2\nxyend\n", 1, &seen, &ended) == 0);
	CHECK(ended);
	CHECK_TEXT("0@0:a;0@1:b;0@2:c;1@5000:x;1@5001:y;", seen.text);
	CHECK(read_in("0 0 5\nabc", 4, &seen, &ended) == 0 && !ended);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		CHECK_FAILS(EX_UNAVAILABLE, read_in(bad[i], 1000, &seen, &ended));
		CHECK_FAILS(EX_UNAVAILABLE, read_in(bad[i], 1, &seen, &ended));
	}
}

int main(void)
{
	harmless();
	frames();
	TEST_END();
}
