/* utf8.c - RFC 3629, and messages that stay one line of it. */
#include "common/base/utf8.h"

#include "tests/unit/test.h"

int main(void)
{
	static const char *const good[] = { "", "abc", "é", "€", "😀", "\xed\x9f\xbf",
		"\xee\x80\x80", "\xf4\x8f\xbf\xbf", "12345678é", "1234567é" };
	static const char *const bad[] = { "\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x80\x80",
		"\xed\xa0\x80", "\xf0\x80\x80\x80", "\xf4\x90\x80\x80",
		"\xf5\x80\x80\x80", "\xff", "12345678\xc3", "\xe2\x82", "a\xc3(" };
	char commands[] = "\xc2\x9b"
			  "2J \u00a0\xc2\x80";
	char line[] = "a\nb\x01"
		      "é\xc3";

	for (size_t i = 0; i < sizeof good / sizeof *good; i++)
		CHECK(utf8_valid(good[i], strlen(good[i])));
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK(!utf8_valid(bad[i], strlen(bad[i])));
	utf8_clean_line(line);
	CHECK_TEXT("a?b?é?", line);
	utf8_clean_line(commands);
	CHECK_TEXT("??2J \u00a0??", commands);
	err_set(EX_DATAERR, "'%.1s'", "é");
	CHECK_TEXT("'?'", err_get()->text);
	err_clear();
	TEST_END();
}
