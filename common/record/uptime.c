/* uptime.c - uptime as the union of what each heartbeat covers. */
#include "common/record/uptime.h"

static int64_t min(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* Returns the span of the window that the i-th heartbeat covers; empty if to_ms <= from_ms. */
static struct uptime_span covered(const struct uptime_beat *beats, size_t n, size_t i,
	int64_t from_ms, int64_t to_ms)
{
	int64_t interval_ms = min(beats[i].interval_ms, UPTIME_INTERVAL_MAX_MS);
	struct uptime_span s = { beats[i].at_ms, beats[i].at_ms + interval_ms };

	if (i + 1 < n)
		s.to_ms = min(s.to_ms, beats[i + 1].at_ms);
	if (s.from_ms < from_ms)
		s.from_ms = from_ms;
	s.to_ms = min(s.to_ms, to_ms);
	return s;
}

int64_t uptime_ms(const struct uptime_beat *beats, size_t n, int64_t from_ms,
	int64_t to_ms, int64_t now_ms)
{
	int64_t up = 0;

	for (size_t i = 0; i < n; i++) {
		struct uptime_span s = covered(beats, n, i, from_ms, min(to_ms, now_ms));

		if (s.to_ms > s.from_ms)
			up += s.to_ms - s.from_ms;
	}
	return up;
}

size_t uptime_spans(struct uptime_span *spans, size_t max,
	const struct uptime_beat *beats, size_t n, int64_t from_ms, int64_t to_ms)
{
	size_t count = 0;

	for (size_t i = 0; i < n; i++) {
		struct uptime_span s = covered(beats, n, i, from_ms, to_ms);

		if (s.to_ms <= s.from_ms)
			continue;
		if (count && spans[count - 1].to_ms == s.from_ms)
			spans[count - 1].to_ms = s.to_ms;
		else if (count < max)
			spans[count++] = s;
		else
			break;
	}
	return count;
}
