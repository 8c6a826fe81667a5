/* table.c - columns share the width, nothing is cut. */
#include "common/cli/table.h"

#include "tests/unit/test.h"

static void check_rows(void)
{
	struct table_column columns[] = { { .width = 4, .needed = 4 },
		{ .width = 3, .needed = 3, .number = true },
		{ .width = 30, .needed = 30 } };
	const char *row[] = { "name", "7", "a text that has many words in it" };
	struct buf out = BUF_INIT;

	CHECK(table_fit(columns, 3, 0) && columns[2].width == 30);
	CHECK(table_fit(columns, 3, 27) && columns[2].width == 16);
	table_row(&out, columns, 3, row);
	CHECK_TEXT("name    7  a text that has\n"
		   "           many words in it\n",
		buf_text(&out));
	/* a word that is wider than its column goes on in the next line; what is absent is said */
	buf_reset(&out);
	row[0] = "abcdefghi", row[1] = NULL, row[2] = "";
	table_headings(&out, columns, 3, row, "<", ">");
	CHECK_TEXT("<abcd    ->\n<efgh>\n<i>\n", buf_text(&out));
	/* a name goes on behind one of its parts */
	buf_reset(&out);
	columns[0].width = 10;
	row[0] = "rnp_serve_steps.total";
	table_row(&out, columns, 3, row);
	CHECK_TEXT("rnp_serve_    -\nsteps.\ntotal\n", buf_text(&out));
	/* of a key both ends are there */
	buf_reset(&out);
	columns[0].width = 12;
	row[0] = "2D8jUbvrABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkw7Qp";
	table_row(&out, columns, 3, row);
	CHECK_TEXT("2D8jU...w7Qp    -\n", buf_text(&out));
	columns[0].width = 4;
	/* a number that is wider than those before it stays whole, and the columns after it in
	 * line */
	buf_reset(&out);
	columns[1].number = columns[0].number = true;
	row[0] = "123456", row[1] = "7", row[2] = "x";
	table_row(&out, columns, 3, row);
	CHECK_TEXT("123456  7  x\n", buf_text(&out));
	columns[0].number = false;
	/* there is no room for columns of twelve: cards are better, and nothing has changed */
	columns[0].width = columns[0].needed = 40;
	CHECK(!table_fit(columns, 3, 20) && columns[0].width == 40 &&
		columns[2].width == 16);
	buf_release(&out);
}

/* Headings are wrapped before texts are, to their longest word, and never closer than the cells. */
static void check_headings(void)
{
	struct table_column columns[] = { { .number = true }, { .number = true }, { 0 } };
	const char *headings[] = { "changes a day", "p99", "why" };
	const char *row[] = { "3.56", "12 h 57 min", "a text of some words" };
	struct buf out = BUF_INIT;

	for (int i = 0; i < 3; i++) {
		table_heading(&columns[i], headings[i]);
		table_measure(&columns[i], row[i]);
	}
	CHECK(table_fit(columns, 3, 42));
	CHECK(columns[0].width == 7 && columns[1].width == 11 && columns[2].width == 20);
	CHECK(table_fit(columns, 3, 36));
	CHECK(columns[0].width == 7 && columns[1].width == 11 && columns[2].width == 14);
	table_headings(&out, columns, 3, headings, "", "");
	table_row(&out, columns, 3, row);
	CHECK_TEXT("changes          p99  why\n"
		   "  a day\n"
		   "   3.56  12 h 57 min  a text of some\n"
		   "                      words\n",
		buf_text(&out));
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
	/* a hash that does not fit is in no two lines, which nobody could copy; one that does is
	 * beside its label */
	buf_reset(&out);
	table_card_line(&out, "root", 6, "0123456789abcdef0123456789abcdef0123456789",
		40);
	CHECK_TEXT("root\n  0123456789abcdef0123456789abcdef0123456789\n",
		buf_text(&out));
	buf_reset(&out);
	table_card_line(&out, "root", 6,
		"of 0123456789abcdef0123456789abcdef0123456789, 7", 40);
	CHECK_TEXT("root    of\n"
		   "  0123456789abcdef0123456789abcdef0123456789,\n"
		   "        7\n",
		buf_text(&out));
	buf_reset(&out);
	table_card_line(&out, "root", 6, "0123456789abcdef0123456789abcdef", 40);
	CHECK_TEXT("root    0123456789abcdef0123456789abcdef\n", buf_text(&out));
	buf_release(&out);
}

int main(void)
{
	CHECK(table_width("\303\251a") == 2);
	check_rows();
	check_headings();
	check_cards();
	TEST_END();
}
