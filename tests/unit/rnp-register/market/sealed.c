/* sealed.c - secrets come out of their box for one key alone, and only unchanged. */
/* uses: cmd/rnp-register */
#include "cmd/rnp-register/market/sealed.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/test.h"

static void round_trip(const struct key *node, const struct key *other)
{
	static const char plain[] = "HF_TOKEN=a=b 'c'\0EMPTY=\0_1=\xc3\xa9";
	struct buf box = BUF_INIT, again = BUF_INIT, open = BUF_INIT;
	const char *name, *value;
	size_t at = 0, len;

	CHECK(sealed_close(&box, node->address, plain, sizeof plain) == 0);
	CHECK(!strstr(box.data, "HF_TOKEN"));
	/* no box is like the other */
	CHECK(sealed_close(&again, node->address, plain, sizeof plain) == 0);
	CHECK(strcmp(box.data, again.data) != 0);
	CHECK(sealed_open(&open, node, box.data) == 0);
	CHECK(sealed_next(&open, &at, &name, &len, &value));
	CHECK(len == 8 && memcmp(name, "HF_TOKEN", 8) == 0);
	CHECK_TEXT("a=b 'c'", value);
	CHECK(sealed_next(&open, &at, &name, &len, &value) && len == 5 && !*value);
	CHECK(sealed_next(&open, &at, &name, &len, &value) && len == 2);
	CHECK(!sealed_next(&open, &at, &name, &len, &value));
	CHECK_FAILS(EX_DATAERR, sealed_open(&open, other, box.data));
	box.data[20] ^= 1;
	CHECK_FAILS(EX_DATAERR, sealed_open(&open, node, box.data));
	buf_release(&box);
	buf_release(&again);
	sealed_wipe(&open);
}

/* What a stranger put into a box. */
static void refused(const struct key *node, const char *plain, size_t len)
{
	struct buf box = BUF_INIT, open = BUF_INIT;

	CHECK(sealed_close(&box, node->address, plain, len) == 0);
	CHECK_FAILS(EX_DATAERR, sealed_open(&open, node, box.data));
	buf_release(&box);
	sealed_wipe(&open);
}

int main(void)
{
	struct key node = KEY_INIT, other = KEY_INIT;
	struct buf box = BUF_INIT, open = BUF_INIT;
	char *large = calloc(1, SEALED_BYTES_MAX + 1);

	CHECK(sodium_init() >= 0 && key_generate(&node) == 0 &&
		key_generate(&other) == 0);
	round_trip(&node, &other);
	refused(&node, "A=b", 3);
	refused(&node, "=b", 3);
	refused(&node, "A", 2);
	refused(&node, "1A=b", 5);
	refused(&node, "A=b\0;rm -rf=x", 14);
	refused(&node, "A=b\0\0", 5);
	CHECK_FAILS(EX_DATAERR, sealed_open(&open, &node, ""));
	CHECK_FAILS(EX_DATAERR, sealed_open(&open, &node, "AAAA"));
	CHECK_FAILS(EX_DATAERR, sealed_open(&open, &node, "no base64 !"));
	CHECK_FAILS(EX_DATAERR, sealed_close(&box, "nobody", "A=b", 4));
	CHECK_FAILS(EX_DATAERR,
		sealed_close(&box, node.address, large, SEALED_BYTES_MAX + 1));
	free(large);
	buf_release(&box);
	sealed_wipe(&open);
	key_release(&node);
	key_release(&other);
	TEST_END();
}
