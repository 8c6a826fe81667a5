/* difference.c - compares two medians with their intervals. */
#include "cmd/rnp-bench/suites/difference.h"

#include <string.h>

bool difference_smaller_is_better(const char *unit)
{
	static const char *const units[] = { "ns", "us", "ms", "s", "B" };

	for (size_t i = 0; i < sizeof units / sizeof *units; i++)
		if (strcmp(unit, units[i]) == 0)
			return true;
	return false;
}

struct difference difference_of(struct figure old, struct figure new,
	bool smaller_is_better)
{
	struct difference d = { VERDICT_SAME, 0 };
	__int128 change = (__int128)new.median - old.median;

	if (old.median > 0) {
		change = change * 1000000 / old.median;
		d.change_ppm = change > INT64_C(1) << 52 ? INT64_C(1) << 52 :
							   (int64_t)change;
	}
	if (new.low > old.high)
		d.verdict = smaller_is_better ? VERDICT_WORSE : VERDICT_BETTER;
	else if (new.high < old.low)
		d.verdict = smaller_is_better ? VERDICT_BETTER : VERDICT_WORSE;
	return d;
}

bool difference_is_regression(struct difference d, int64_t threshold_ppm)
{
	int64_t size = d.change_ppm < 0 ? -d.change_ppm : d.change_ppm;

	return d.verdict == VERDICT_WORSE && size > threshold_ppm;
}
