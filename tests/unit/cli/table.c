/* table.c - columns share the width, nothing is cut. */
#include "common/cli/table.h"

#include "tests/unit/test.h"

static void check_rows(void)
{
	struct table_column columns[] = { { 4, false }, { 3, true }, { 30, false } };
	const char *row[] = { "name", "7", "a text that has many words in it" };
	struct buf out = BUF_INIT;

	CHECK(table_fit(columns, 3, 0) && columns[2].width == 30);
	CHECK(table_fit(columns, 3, 27) && columns[2].width == 16);
	table_row(&out, columns, 3, row, "", "");
	CHECK_TEXT("name    7  a text that has\n"
		   "           many words in it\n",
		buf_text(&out));
	/* a word that is wider than its column goes on in the next line; what is absent is said */
	buf_reset(&out);
	row[0] = "abcdefghi", row[1] = NULL, row[2] = "";
	table_row(&out, columns, 3, row, "<", ">");
	CHECK_TEXT("<abcd    ->\n<efgh>\n<i>\n", buf_text(&out));
	/* there is no room for columns of twelve: cards are better, and nothing has changed */
	columns[0].width = 40;
	CHECK(!table_fit(columns, 3, 20) && columns[0].width == 40 &&
		columns[2].width == 16);
	buf_release(&out);
}

static void check_cards(void)
{
	struct buf out = BUF_INIT;

	table_card_line(&out, "why", 6, "one two three four five six seven", 24);
	CHECK_TEXT("why     one two three\n        four five six\n        seven\n",
		buf_text(&out));
	buf_reset(&out);
	table_card_line(&out, "a label too long", 6, "x", 24);
	CHECK_TEXT("a label too long  x\n", buf_text(&out));
	buf_reset(&out);
	table_card_line(&out, "empty", 6, "", 24);
	CHECK_TEXT("empty   \n", buf_text(&out));
	buf_release(&out);
}

int main(void)
{
	CHECK(table_width("\303\251a") == 2);
	check_rows();
	check_cards();
	TEST_END();
}
