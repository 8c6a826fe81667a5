/* sf.c - structured fields are read and written as RFC 9651 says, examples of its sections
 * 3 and 4 by hand, and what it forbids is refused. */
#include "common/httpsig/sf.h"

#include <stdlib.h>

#include "tests/unit/test.h"

/* Reads text, writes it again and compares; NULL: it has to be refused. */
static void check(int line, enum sf_kind kind, const char *text, const char *want)
{
	struct buf out = BUF_INIT;
	struct sf f;
	int rc = sf_parse(&f, kind, text, strlen(text), "field");
	bool ok = want ? rc == 0 && sf_write(&out, &f, kind) == 0 &&
			strcmp(buf_text(&out), want) == 0 :
			 rc == -1 && err_get()->code == EX_DATAERR;

	test_checks++;
	if (!ok) {
		test_failures++;
		fprintf(stderr, "%s:%d: '%s' became '%s', not '%s' (%s)\n", __FILE__,
			line, text, rc ? "an error" : buf_text(&out),
			want ? want : "an error", err_get()->text);
	}
	err_clear();
	sf_release(&f);
	buf_release(&out);
}

#define SAME(kind, text)         check(__LINE__, kind, text, text)
#define BECOMES(kind, text, out) check(__LINE__, kind, text, out)
#define REFUSED(kind, text)      check(__LINE__, kind, text, NULL)

static void check_items(void)
{
	SAME(SF_ITEM, "5");
	SAME(SF_ITEM, "-999999999999999");
	SAME(SF_ITEM, "5;foo=bar");
	SAME(SF_ITEM, "4.5");
	BECOMES(SF_ITEM, "  007 ", "7");
	BECOMES(SF_ITEM, "-0.500", "-0.5");
	BECOMES(SF_ITEM, "1.20", "1.2");
	BECOMES(SF_ITEM, "1.0", "1.0");
	SAME(SF_ITEM, "123456789012.1");
	SAME(SF_ITEM, "\"hello world\"");
	SAME(SF_ITEM, "\"a \\\"quoted\\\" \\\\ word\"");
	SAME(SF_ITEM, "foo123/456");
	SAME(SF_ITEM, "*a");
	SAME(SF_ITEM, ":cHJldGVuZCB0aGlzIGlzIGJpbmFyeSBjb250ZW50Lg==:");
	SAME(SF_ITEM, "::");
	SAME(SF_ITEM, "?1");
	SAME(SF_ITEM, "?0;a;b=?0");
	SAME(SF_ITEM, "@1659578233");
	SAME(SF_ITEM, "%\"This is intended for display to %c3%bcsers.\"");
	BECOMES(SF_ITEM, "1;  a=1;a=2", "1;a=2");

	REFUSED(SF_ITEM, "");
	REFUSED(SF_ITEM, "1 2");
	REFUSED(SF_ITEM, "1000000000000000");
	REFUSED(SF_ITEM, "1234567890123.1");
	REFUSED(SF_ITEM, "1.2345");
	REFUSED(SF_ITEM, "1.");
	REFUSED(SF_ITEM, "-");
	REFUSED(SF_ITEM, "\"open");
	REFUSED(SF_ITEM, "\"ends in \\");
	REFUSED(SF_ITEM, "\"wrong \\escape\"");
	REFUSED(SF_ITEM, "\"a\nb\"");
	REFUSED(SF_ITEM, "\"\xc3\xbc\"");
	REFUSED(SF_ITEM, ":no padding at all:");
	REFUSED(SF_ITEM, ":YQ:");
	REFUSED(SF_ITEM, ":YR==:"); /* the last bits are not 0 */
	REFUSED(SF_ITEM, ":YQ==");
	REFUSED(SF_ITEM, "?2");
	REFUSED(SF_ITEM, "@1.5");
	REFUSED(SF_ITEM, "%\"%C3%BC\"");
	REFUSED(SF_ITEM, "%\"%c3\"");
	REFUSED(SF_ITEM, "%\"%c");
	REFUSED(SF_ITEM, "%a");
	REFUSED(SF_ITEM, "1;A=1");
	REFUSED(SF_ITEM, "1;a=");
	REFUSED(SF_ITEM, "(1 2)");
}

static void check_lists(void)
{
	SAME(SF_LIST, "");
	SAME(SF_LIST, "sugar, tea, rum");
	BECOMES(SF_LIST, "  sugar\t,tea,\t rum ", "sugar, tea, rum");
	SAME(SF_LIST, "(\"foo\" \"bar\"), (\"baz\"), (\"bat\" \"one\"), ()");
	SAME(SF_LIST, "(\"foo\";a=1;b=2);lvl=5, (\"bar\" \"baz\");lvl=1");
	BECOMES(SF_LIST, "(  a   b  )", "(a b)");
	SAME(SF_LIST, "abc;a=1;b=2;cde_456, (ghi;jk=4 l);q=\"9\";r=w");
	REFUSED(SF_LIST, "a,");
	REFUSED(SF_LIST, ",a");
	REFUSED(SF_LIST, "a b");
	REFUSED(SF_LIST, "(a");
	REFUSED(SF_LIST, "(a,b)");
	REFUSED(SF_LIST, "(a\tb)");
	REFUSED(SF_LIST, "(\"a\"\"b\")");
}

static void check_dictionaries(void)
{
	SAME(SF_DICTIONARY, "en=\"Applepie\", da=:w4ZibGV0w6ZydGU=:");
	SAME(SF_DICTIONARY, "a=?0, b, c;foo=bar");
	SAME(SF_DICTIONARY, "rating=1.5, feelings=(joy sadness)");
	SAME(SF_DICTIONARY, "a=(1 2), b=3, c=4;aa=bb, d=(5 6);valid");
	BECOMES(SF_DICTIONARY, "a=1,b=2;x=1;y=2,   c=(a   b   c)",
		"a=1, b=2;x=1;y=2, c=(a b c)");
	BECOMES(SF_DICTIONARY, "a=1, b=2, a=3", "a=3, b=2");
	BECOMES(SF_DICTIONARY, "a=?1", "a");
	REFUSED(SF_DICTIONARY, "a=1 b=2");
	REFUSED(SF_DICTIONARY, "a=1,");
	REFUSED(SF_DICTIONARY, "1=a");
	REFUSED(SF_DICTIONARY, "A=1");
	REFUSED(SF_DICTIONARY, "a=");
}

static void check_values(void)
{
	const char text[] = "a=1;p=:AAECAw==:, b=(\"x\" y);q, a=2";
	const struct sf_member *m;
	const struct sf_value *v;
	struct sf f;

	CHECK(sf_parse(&f, SF_DICTIONARY, text, strlen(text), "field") == 0);
	CHECK(f.repeated);
	CHECK_I64(2, f.nmembers);
	m = sf_find(&f, "a");
	CHECK(m && !m->inner && m->items[0].value.type == SF_INTEGER);
	CHECK_I64(2, m->items[0].value.number);
	CHECK(sf_param(m->params, m->nparams, "p") == NULL);
	m = sf_find(&f, "b");
	CHECK(m && m->inner);
	CHECK_I64(2, m->nitems);
	CHECK_TEXT("x", m->items[0].value.text);
	CHECK(m->items[1].value.type == SF_TOKEN);
	v = sf_param(m->params, m->nparams, "q");
	CHECK(v && v->type == SF_BOOLEAN && v->number == 1);
	CHECK(sf_find(&f, "c") == NULL);
	sf_release(&f);
	sf_release(&f);

	/* a NUL byte is no text */
	CHECK_FAILS(EX_DATAERR, sf_parse(&f, SF_LIST, "a\0b", 3, "field"));
	CHECK_FAILS(EX_DATAERR, sf_parse(&f, SF_LIST, "\"a\0b\"", 5, "field"));
}

/* Limits on a stranger's fields. */
static void check_limits(void)
{
	struct buf text = BUF_INIT;
	struct sf f;

	for (int i = 0; i < SF_MEMBERS_MAX; i++)
		buf_addf(&text, "%sk%d", i ? "," : "", i);
	CHECK(sf_parse(&f, SF_DICTIONARY, text.data, text.len, "field") == 0);
	CHECK_I64(SF_MEMBERS_MAX, f.nmembers);
	sf_release(&f);
	buf_adds(&text, ",one_more");
	CHECK_FAILS(EX_DATAERR,
		sf_parse(&f, SF_DICTIONARY, text.data, text.len, "field"));
	buf_reset(&text);
	buf_addc(&text, '1');
	for (int i = 0; i <= SF_PARAMS_MAX; i++)
		buf_addf(&text, ";k%d", i);
	CHECK_FAILS(EX_DATAERR, sf_parse(&f, SF_ITEM, text.data, text.len, "field"));
	buf_reset(&text);
	for (size_t i = 0; i <= SF_TEXT_MAX; i++)
		buf_addc(&text, ' ');
	CHECK_FAILS(EX_DATAERR, sf_parse(&f, SF_LIST, text.data, text.len, "field"));
	buf_release(&text);
}

static void check_writing(void)
{
	struct sf_item item = {
		.value = { .type = SF_STRING, .text = "a\nb", .len = 3 }
	};
	struct sf_param wrong = { .key = "Key", .value = { .type = SF_BOOLEAN } };
	struct buf out = BUF_INIT;

	buf_adds(&out, "before");
	CHECK_FAILS(EX_DATAERR, sf_write_item(&out, &item));
	CHECK_TEXT("before", buf_text(&out));
	item.value = (struct sf_value){ .type = SF_TOKEN, .text = "1a", .len = 2 };
	CHECK_FAILS(EX_DATAERR, sf_write_item(&out, &item));
	item.value = (struct sf_value){ .type = SF_INTEGER, .number = INT64_MAX };
	CHECK_FAILS(EX_DATAERR, sf_write_item(&out, &item));
	item.value.number = 1;
	item.params = &wrong;
	item.nparams = 1;
	CHECK_FAILS(EX_DATAERR, sf_write_item(&out, &item));
	CHECK_TEXT("before", buf_text(&out));
	buf_release(&out);
}

int main(void)
{
	check_items();
	check_lists();
	check_dictionaries();
	check_values();
	check_limits();
	check_writing();
	TEST_END();
}
