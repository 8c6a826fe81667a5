/* work.c - tests proof of work: a found number is work for its token, address and difficulty
 * only. */
#include "common/record/work.h"

#include "tests/unit/test.h"

int main(void)
{
	uint64_t n = 0, total = 0;

	/* by hand: printf rnp-join-1:t:a:9 | sha256sum begins with 05, :21 with 0c, none other
	 * below 15 with 0 */
	for (uint64_t i = 0; i < 15; i++)
		CHECK(work_check("t", "a", i, 4) == (i == 9));
	CHECK(work_check("t", "a", 9, 5) && !work_check("t", "a", 9, 6));
	CHECK(work_check("t", "a", 21, 4) && !work_check("t", "a", 21, 5));
	for (uint64_t i = 0; i < 200; i++) {
		CHECK(work_check("t", "a", i, 0));
		CHECK(!work_check("t", "a", i, 256));
	}
	for (uint64_t k = 0; k < 64; k++) {
		CHECK(work_solve("token", "address", 8, n + 1, 1 << 20, &n));
		CHECK(work_check("token", "address", n, 8));
		total += work_check("token2", "address", n, 8) +
			work_check("token", "addres", n, 8) +
			work_check("token:", "address", n, 8);
	}
	/* one in 256 by chance: 192 tries, of which 7 or more are luck of one in a million */
	CHECK(total < 7);
	/* 64 times 2^8, within six standard deviations of 2^11 */
	CHECK(n > 16384 - 6 * 2048 && n < 16384 + 6 * 2048);
	CHECK(!work_solve("token", "address", 40, 0, 1000, &n));
	TEST_END();
}
