/* challenge.c - when a node is challenged next, by what became of its last challenges. */
/* uses: cmd/rnp-register */
#include "cmd/rnp-register/challenges/table.h"

#include <stdio.h>

#include "common/base/clock.h"
#include "tests/unit/test.h"

#define DRAWS 4000

/* How long until the next challenge: the mean and the longest of many draws, in units of the
 * configured mean. */
static void draw(int failed, double *mean, double *most)
{
	struct registry g = { .config = { .challenge_every_ms = 1000000 } };
	struct challenged a = { .failed = failed };

	*mean = *most = 0;
	for (int i = 0; i < DRAWS; i++) {
		int64_t from_ns = clock_mono_ns();
		double until = (double)(challenged_due_ns(&g, &a) - from_ns) / 1e12;

		CHECK(until >= 0);
		*mean += until / DRAWS;
		*most = until > *most ? until : *most;
	}
}

/* Three failures cost nothing, then each doubles the time, up to 64 times. */
static void less_often(void)
{
	static const int times[] = { 1, 1, 1, 1, 2, 4, 8, 16, 32, 64, 64 };

	for (int failed = 0; failed <= 10; failed++) {
		double mean, most;

		draw(failed, &mean, &most);
		/* of 4,000 even draws the mean is within 6 standard errors */
		CHECK(mean > times[failed] * 0.94 && mean < times[failed] * 1.06);
		CHECK(most > times[failed] * 1.9 && most <= times[failed] * 2.001);
	}
}

static void at_once(void)
{
	struct challenged a = { .failed = 0 };

	for (; a.failed < 3; a.failed++)
		CHECK(challenged_at_once(&a));
	CHECK(!challenged_at_once(&a));
	a.failed = 1000;
	CHECK(!challenged_at_once(&a));
}

int main(void)
{
	less_often();
	at_once();
	TEST_END();
}
