/* stats.c - medians and their intervals, held against values computed by hand. */
#include "common/base/stats.h"

#include "tests/unit/test.h"

/* The tails by hand, 2 * sum(C(n, i), i < k) / 2^n: n = 6: 2/64 (k = 1; k = 2 would be 14/64);
 * n = 9: 2 * 10 / 512 (k = 2; with C(9, 2) it would be 92/512); n = 10: 2 * 11 / 1024 (k = 2);
 * n = 20: 2 * 21700 / 2^20 (k = 6; sum to C(20, 5) = 1+20+190+1140+4845+15504). */
static void check_ranks(void)
{
	int64_t ppm;

	CHECK_I64(1, (int64_t)stats_rank(1, &ppm));
	CHECK_I64(0, ppm);
	CHECK_I64(1, (int64_t)stats_rank(5, &ppm));
	CHECK_I64(937500, ppm);
	CHECK_I64(1, (int64_t)stats_rank(6, &ppm));
	CHECK_I64(968750, ppm);
	CHECK_I64(2, (int64_t)stats_rank(9, &ppm));
	CHECK_I64(960937, ppm);
	CHECK_I64(2, (int64_t)stats_rank(10, &ppm));
	CHECK_I64(978515, ppm);
	CHECK_I64(6, (int64_t)stats_rank(20, &ppm));
	CHECK_I64(958610, ppm);
	/* normal approximation for many: k = n/2 - 0.98 sqrt(n), about */
	CHECK_I64(4902, (int64_t)stats_rank(10000, &ppm));
}

static void check_medians(void)
{
	static const double odd[] = { 9, 1, 5 };
	static const double ten[] = { 10, 9, 8, 7, 6, 5, 4, 3, 2, 1 };
	struct stats s;

	stats_of(odd, 3, &s);
	CHECK(s.median == 5 && s.low == 1 && s.high == 9 && s.n == 3);
	CHECK_I64(750000, s.coverage_ppm);
	CHECK_I64(INT64_MAX, stats_spread_ppm(&s));
	stats_of(ten, 10, &s);
	CHECK(s.median == 5.5 && s.low == 2 && s.high == 9);
	CHECK_I64(636364, stats_spread_ppm(&s)); /* 3.5 / 5.5 */
	CHECK(ten[0] == 10);
	CHECK(stats_percentile(ten, 10, 90) == 9 && stats_percentile(ten, 10, 91) == 10);
	CHECK(stats_percentile(ten, 10, 1) == 1 && stats_percentile(ten, 10, 100) == 10);
	CHECK(stats_percentile(ten, 1, 99) == 10 && stats_percentile(odd, 3, 50) == 5);
	stats_of(ten, 1, &s);
	CHECK(s.median == 10 && s.low == 10 && s.high == 10);
}

static void check_ratios(void)
{
	/* both drift together by half: every ratio is 2 but one */
	static const double a[] = { 2, 4, 6, 8, 10, 12, 14, 16, 90 };
	static const double b[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 };
	struct stats s;

	stats_of_ratio(a, b, 9, &s);
	CHECK(s.median == 2 && s.low == 2 && s.high == 2);
	CHECK_I64(0, stats_spread_ppm(&s));
}

int main(void)
{
	check_ranks();
	check_medians();
	check_ratios();
	TEST_END();
}
