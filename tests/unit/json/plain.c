/* plain.c - tests common/json/plain.h: what it accepts is what jansson reads, and nothing more. */
#include <stdlib.h>

#include "common/json/json.h"
#include "common/json/plain.h"
#include "tests/unit/test.h"

static struct json_plain scan(const char *text)
{
	return (struct json_plain){ text, text + strlen(text) };
}

static void check_strings(void)
{
	static const char *const refused[] = { "", "\"", "\"a", "a\"", "\"\\n\"",
		"\"\x01\"", "\"\xc3\xa4\"", "'a'" };
	struct json_plain s = scan(" \t\"a b\" ,\"\"");
	const char *text;
	char copy[4];
	size_t len;

	CHECK(json_plain_string(&s, &text, &len) && len == 3 &&
		memcmp(text, "a b", 3) == 0);
	CHECK(json_plain_take(&s, ','));
	CHECK(json_plain_string(&s, &text, &len) && len == 0 && s.at == s.end);
	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
		s = scan(refused[i]);
		CHECK(!json_plain_string(&s, &text, &len));
	}
	s = scan("\"abc\"");
	CHECK(json_plain_copy(&s, copy, sizeof copy));
	CHECK_TEXT("abc", copy);
	s = scan("\"abcd\""); /* does not fit with its NUL */
	CHECK(!json_plain_copy(&s, copy, sizeof copy));
}

static void check_numbers(void)
{
	static const char *const refused[] = { "", "-1", "01", "x", "1000000000000000",
		"+1", ".5" };
	static const char *const sound[] = { "0", "7", "999999999999999", "1234567890" };
	struct json_plain s;
	int64_t v;

	for (size_t i = 0; i < sizeof sound / sizeof *sound; i++) {
		s = scan(sound[i]);
		CHECK(json_plain_whole(&s, &v) && s.at == s.end);
		CHECK_I64(strtoll(sound[i], NULL, 10), v);
	}
	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
		s = scan(refused[i]);
		CHECK(!json_plain_whole(&s, &v));
	}
	s = scan("1.5"); /* the fraction is left, and no caller expects it */
	CHECK(json_plain_whole(&s, &v) && *s.at == '.');
}

static void check_words(void)
{
	struct json_plain s = scan(" true,tru");

	CHECK(json_plain_word(&s, "true") && json_plain_take(&s, ','));
	CHECK(!json_plain_word(&s, "true"));
	CHECK(json_plain_is("v\":1", 1, "v"));
	CHECK(!json_plain_is("v\":1", 1, "version"));
	CHECK(!json_plain_is("version", 7, "v"));
}

/* What ends a string, or makes it not plain, is seen at each place of any length. */
static void check_places(void)
{
	const char bad[] = { '\\', '\n', 0x1f, 0, 0x7f, (char)0x80, (char)0xff };
	char line[48];

	for (int len = 1; len < 40; len++)
		for (int at = 0; at < len; at++) {
			struct json_plain s = { line, line + len + 2 };
			const char *text;
			size_t n;

			memset(line, at % 2 ? '~' : ' ', sizeof line);
			line[0] = line[len + 1] = '"';
			CHECK(json_plain_string(&s, &text, &n) && n == (size_t)len);
			CHECK(s.at == s.end);
			for (size_t k = 0; k < sizeof bad; k++) {
				line[1 + at] = bad[k];
				s.at = line;
				CHECK(!json_plain_string(&s, &text, &n));
			}
			line[1 + at] = '"';
			s.at = line;
			CHECK(json_plain_string(&s, &text, &n) && n == (size_t)at);
		}
}

/* Equal and, at each place, not. */
static void check_same(void)
{
	char a[32], b[32];

	for (size_t len = 0; len < sizeof a; len++) {
		memset(a, 'x', sizeof a);
		memcpy(b, a, sizeof b);
		b[len] = 'y';
		CHECK(json_plain_same(a, b, len));
		for (size_t at = 0; at < len; at++) {
			b[at] ^= 1;
			CHECK(!json_plain_same(a, b, len));
			b[at] ^= 1;
		}
	}
}

int main(void)
{
	check_places();
	check_same();
	check_strings();
	check_numbers();
	check_words();
	TEST_END();
}
