#include "common/record/uptime.h"

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

int64_t uptime_ms(const struct uptime_beat *beats, size_t n, int64_t from_ms,
	int64_t to_ms, int64_t now_ms)
{
	int64_t up = 0;

	for (size_t i = 0; i < n; i++) {
		int64_t start = beats[i].at_ms;
		int64_t next = i + 1 < n ? beats[i + 1].at_ms : now_ms;
		int64_t end = least(least(next, now_ms), to_ms);

		if (next - start > 2 * beats[i].interval_ms)
			continue;
		if (start < from_ms)
			start = from_ms;
		if (end > start)
			up += end - start;
	}
	return up;
}
