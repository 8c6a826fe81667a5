/* shuffle.c - order: an epoch takes every window once, in an order of its own, and stays within
 * the text. */
#include "common/lm/train/shuffle.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/exit.h"
#include "common/base/mem.h"
#include "tests/unit/test.h"

static void epochs(uint64_t count, uint32_t length)
{
	struct shuffle o;
	uint64_t same = 0;
	unsigned char *seen;

	CHECK(shuffle_init(&o, count, length, 7) == 0);
	CHECK(o.windows == (count - 1) / length);
	seen = xmalloc(o.windows);
	for (uint64_t epoch = 0; epoch < 3; epoch++) {
		uint64_t shift = shuffle_at(&o, epoch * o.windows) % length;

		memset(seen, 0, o.windows);
		for (uint64_t i = 0; i < o.windows; i++) {
			uint64_t at = shuffle_at(&o, epoch * o.windows + i);

			CHECK(at + length + 1 <= count);
			CHECK(at % length == shift);
			CHECK(!seen[at / length]);
			seen[at / length] = 1;
			same += at == shuffle_at(&o, i);
		}
	}
	/* the first epoch is itself; two others agree with it by chance only */
	CHECK(same < o.windows + 12);
	free(seen);
}

int main(void)
{
	struct shuffle a, b;
	int differ = 0;

	epochs(1001, 10);
	epochs(100000, 7);
	epochs(65537, 64);
	epochs(12, 11);
	CHECK(shuffle_init(&a, 100000, 8, 1) == 0);
	CHECK(shuffle_init(&b, 100000, 8, 2) == 0);
	for (uint64_t n = 0; n < 100; n++)
		differ += shuffle_at(&a, n) != shuffle_at(&b, n);
	CHECK(differ > 90);
	CHECK_FAILS(EX_DATAERR, shuffle_init(&a, 10, 10, 0));
	TEST_END();
}
