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
	/* directions, marks, joiners, separators, fillers, tags; and what stands beside them */
	char unseen[] =
		"a\u202e\u2066\u200f\u061cb\u00ad\u200b\ufeffc\u2028\u2029\u3164\U000e0041";
	char seen[] =
		"\u2010\u2027\u202f\u205f\u2070\u0627\u05d0\uffef\ufffc\U000e1000~\u00a0\u00ae";
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
	utf8_clean_line(unseen);
	CHECK_TEXT("a???"
		   "???"
		   "???"
		   "??b??"
		   "???"
		   "???c???"
		   "???"
		   "???"
		   "????",
		unseen);
	utf8_clean_line(seen);
	CHECK_TEXT(
		"\u2010\u2027\u202f\u205f\u2070\u0627\u05d0\uffef\ufffc\U000e1000~\u00a0\u00ae",
		seen);
	CHECK(utf8_count("aé€😀", 10) == 4);
	CHECK(utf8_count("", 0) == 0);
	err_set(EX_DATAERR, "'%.1s'", "é");
	CHECK_TEXT("'?'", err_get()->text);
	err_clear();
	TEST_END();
}
