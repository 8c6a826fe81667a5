/* difference.c - difference and the sampler's two decisions. uses: cmd/rnp-bench */
#include "cmd/rnp-bench/suites/difference.h"

#include "cmd/rnp-bench/suites/measure.h"
#include "tests/unit/test.h"

static void check_verdicts(void)
{
	struct figure slow = { 100, 90, 110 }, fast = { 200, 190, 210 },
		      wide = { 150, 110, 190 };
	struct difference d = difference_of(slow, fast, false);

	CHECK(d.verdict == VERDICT_BETTER);
	CHECK_I64(1000000, d.change_ppm);
	CHECK(!difference_is_regression(d, 0));
	d = difference_of(slow, fast, true);
	CHECK(d.verdict == VERDICT_WORSE);
	CHECK(difference_is_regression(d, 999999));
	CHECK(!difference_is_regression(d, 1000000));
	d = difference_of(fast, slow, false);
	CHECK(d.verdict == VERDICT_WORSE);
	CHECK_I64(-500000, d.change_ppm);
	CHECK(difference_of(slow, wide, false).verdict == VERDICT_SAME);
	CHECK(difference_of(wide, fast, false).verdict == VERDICT_SAME);
	CHECK_I64(0, difference_of((struct figure){ 0, 0, 0 }, fast, false).change_ppm);
	CHECK(difference_smaller_is_better("ns") && difference_smaller_is_better("B"));
	CHECK(!difference_smaller_is_better("B/s") &&
		!difference_smaller_is_better("ppm"));
}

static void check_sampler(void)
{
	static const double steady[] = { 4000, 4010, 3990, 4000, 4000, 3950, 4000, 4000 };
	static const double falling[] = { 4000, 4010, 3990, 4000, 3500, 3500, 3500,
		3500 };
	static const double hiccup[] = { 4000, 4010, 3990, 4000, 3500, 4000, 4000, 4000 };
	struct stats s = { .median = 100,
		.low = 99,
		.high = 101,
		.n = 10,
		.coverage_ppm = 978515 };

	CHECK(measure_enough(&s, false));
	s.high = 104;
	CHECK(!measure_enough(&s, false));
	s.high = 101;
	s.n = 9;
	CHECK(!measure_enough(&s, false) && measure_enough(&s, true));
	CHECK(!measure_clock_fell(steady, 8));
	CHECK(measure_clock_fell(falling, 8));
	CHECK(!measure_clock_fell(hiccup, 8));
	CHECK(!measure_clock_fell(falling, 3));
}

int main(void)
{
	check_verdicts();
	check_sampler();
	TEST_END();
}
