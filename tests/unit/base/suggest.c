/* suggest.c - the nearest known name, or none. */
#include "common/base/suggest.h"

#include "tests/unit/test.h"

static const char *nearest(const char *wanted, const char *choices)
{
	static struct suggest s;

	s = (struct suggest){ .wanted = wanted };
	suggest_choices(&s, choices);
	return s.best;
}

int main(void)
{
	struct suggest s = { .wanted = "quoot" };
	char text[100];

	CHECK_TEXT("quote", nearest("qoute", "feed|quote|floor"));
	CHECK_TEXT("hardware_uusd", nearest("hardware_usd", "watts_load|hardware_uusd"));
	CHECK_TEXT("depreciation_days",
		nearest("depreciation_day", "depreciation_days|margin_ppm"));
	CHECK_TEXT("key-file", nearest("key_file", "key|key-file"));
	CHECK_TEXT("passphrase-file", nearest("pass", "key|passphrase-file"));
	CHECK_TEXT("list", nearest("LIST", "list|last"));
	/* nothing is near: no guess */
	CHECK_TEXT("", nearest("zebra", "feed|quote|floor"));
	CHECK_TEXT("", nearest("xy", "ab|cd"));
	CHECK_TEXT("", nearest("", "ab|cd"));
	CHECK_TEXT("", nearest("x", ""));
	CHECK_TEXT("",
		nearest("a name that is far longer than any name that there is, by a lot",
			"ab"));
	suggest_choices(&s, "quote");
	CHECK_TEXT("; did you mean 'quote'?", suggest_text(&s, text, sizeof text));
	s = (struct suggest){ .wanted = "zebra" };
	suggest_choices(&s, "quote");
	CHECK_TEXT("", suggest_text(&s, text, sizeof text));
	TEST_END();
}
