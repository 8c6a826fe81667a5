/* buf.c - always ends with a NUL, whatever was added and in whatever pieces. */
#include "common/base/buf.h"

#include <stdlib.h>

#include "common/base/mem.h"
#include "tests/unit/test.h"

static void check_add(void)
{
	struct buf b = BUF_INIT;

	CHECK_TEXT("", buf_text(&b));
	buf_add(&b, NULL, 0);
	CHECK_TEXT("", buf_text(&b));
	buf_adds(&b, "ab");
	buf_addc(&b, 'c');
	buf_add(&b, "\0d", 2);
	CHECK_I64(5, (int64_t)b.len);
	CHECK(memcmp(b.data, "abc\0d", 6) == 0);
	buf_reset(&b);
	CHECK_TEXT("", buf_text(&b));
	buf_addf(&b, "%d-%s", 7, "x");
	buf_add_hex(&b, "\x00\xff\x1a", 3);
	CHECK_TEXT("7-x00ff1a", buf_text(&b));
	buf_release(&b);
	CHECK_TEXT("", buf_text(&b));
	buf_release(&b);
}

static void check_large(void)
{
	struct buf b = BUF_INIT, c = BUF_INIT;
	char *text;

	for (int i = 0; i < 100000; i++)
		buf_addf(&b, "%05d", i);
	CHECK_I64(500000, (int64_t)b.len);
	CHECK(memcmp(b.data + 499990, "9999899999", 11) == 0);
	buf_addf(&c, "%s%s", b.data, b.data);
	CHECK_I64(1000000, (int64_t)c.len);
	text = buf_take(&b);
	CHECK(strlen(text) == 500000 && b.data == NULL && b.len == 0 && b.cap == 0);
	free(text);
	text = buf_take(&b);
	CHECK_TEXT("", text);
	free(text);
	buf_release(&c);
}

/* Room that was asked for and not used is not text: memory that was used before is not 0. */
static void check_reserve(void)
{
	struct buf b = BUF_INIT;
	char *used = xmalloc(5000);

	memset(used, 'x', 5000);
	free(used);
	buf_reserve(&b, 4990);
	CHECK_TEXT("", buf_text(&b));
	buf_adds(&b, "abc");
	buf_reserve(&b, 100000);
	CHECK_TEXT("abc", buf_text(&b));
	buf_release(&b);
}

static const char *shell(struct buf *b, const char *word)
{
	buf_reset(b);
	buf_add_shell(b, word);
	return buf_text(b);
}

static void check_shell(void)
{
	struct buf b = BUF_INIT;

	CHECK_TEXT("/etc/rnp/key.json", shell(&b, "/etc/rnp/key.json"));
	CHECK_TEXT("'my models/a b'", shell(&b, "my models/a b"));
	CHECK_TEXT("'it'\\''s'", shell(&b, "it's"));
	CHECK_TEXT("'$HOME;`x`'", shell(&b, "$HOME;`x`"));
	CHECK_TEXT("'~/a'", shell(&b, "~/a"));
	CHECK_TEXT("''", shell(&b, ""));
	CHECK_TEXT("'\xc3\xa4'", shell(&b, "\xc3\xa4"));
	buf_release(&b);
}

int main(void)
{
	check_shell();
	check_add();
	check_large();
	check_reserve();
	TEST_END();
}
