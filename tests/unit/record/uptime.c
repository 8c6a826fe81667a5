/* uptime.c - uptime by hand-computed cases; beats promise 60 s unless said otherwise. */
#include "common/record/uptime.h"

#include "common/base/rng.h"
#include "tests/unit/test.h"

#define S INT64_C(1000)
#define BEAT(s)                 \
	{                       \
		(s) * S, 60 * S \
	}
#define UP(from, to, now, ...)                                        \
	uptime_ms((const struct uptime_beat[]){ __VA_ARGS__ },        \
		sizeof((const struct uptime_beat[]){ __VA_ARGS__ }) / \
			sizeof(struct uptime_beat),                   \
		(from)*S, (to)*S, (now)*S)

static void whole_and_gaps(void)
{
	/* no heartbeat, no uptime */
	CHECK_I64(0, uptime_ms(NULL, 0, 0, 100 * S, 200 * S));
	/* one each minute from the start to the end */
	CHECK_I64(180 * S, UP(0, 180, 1000, BEAT(0), BEAT(60), BEAT(120), BEAT(180)));
	/* a heartbeat covers its promise and no more: 0-60, 120- */
	CHECK_I64(60 * S, UP(0, 120, 1000, BEAT(0), BEAT(120)));
	/* 0-60 up, 60-300 down but for the promise, 300-360 up */
	CHECK_I64(180 * S, UP(0, 360, 1000, BEAT(0), BEAT(60), BEAT(300), BEAT(360)));
	/* sooner than promised: nothing counts twice */
	CHECK_I64(100 * S, UP(0, 300, 1000, BEAT(0), BEAT(10), BEAT(40)));
	/* the same heartbeat twice counts once */
	CHECK_I64(60 * S, UP(0, 60, 1000, BEAT(0), BEAT(0), BEAT(60)));
	/* an hour is the longest promise */
	CHECK_I64(3600 * S, UP(0, 9000, 9000, { 0, 7200 * S }));
}

/* The attack: 85 back-dated heartbeats, two hours apart, each with the longest promise, for a
 * week. They arrive at its end, all within a second, and that is when they count. */
static void back_dated(void)
{
	struct uptime_beat beats[85];

	for (int i = 0; i < 85; i++)
		beats[i] = (struct uptime_beat){ 604800 * S - 850 + 10 * i, 3600 * S };
	CHECK_I64(850, uptime_ms(beats, 85, 0, 604800 * S, 604800 * S));
	/* had they really come every two hours: half of the time, as promised */
	for (int i = 0; i < 85; i++)
		beats[i].at_ms = 7200 * S * i;
	CHECK_I64(84 * 3600 * S, uptime_ms(beats, 85, 0, 604800 * S, 604800 * S));
}

static void borders(void)
{
	/* before the first heartbeat is down; the window is [100, 200) */
	CHECK_I64(50 * S, UP(100, 200, 1000, BEAT(150), BEAT(200)));
	/* one from before the window covers its beginning: 100-150 */
	CHECK_I64(50 * S, UP(100, 200, 1000, BEAT(90), BEAT(300)));
	/* windows add up */
	CHECK_I64(60 * S, UP(100, 200, 1000, BEAT(100), BEAT(200), BEAT(260)));
	CHECK_I64(100 * S, UP(200, 300, 1000, BEAT(100), BEAT(200), BEAT(260)));
	CHECK_I64(0, UP(200, 200, 1000, BEAT(100), BEAT(200), BEAT(260)));
	/* after the last one: up to now while the promise lives */
	CHECK_I64(50 * S, UP(0, 600, 50, BEAT(0)));
	CHECK_I64(60 * S, UP(0, 600, 120, BEAT(0)));
	CHECK_I64(30 * S, UP(0, 30, 100, BEAT(0)));
	/* nobody is up in the future */
	CHECK_I64(0, UP(0, 600, 10, BEAT(20)));
}

/* Spans are the same time as uptime_ms sums, in order and apart. */
static void spans(void)
{
	struct uptime_beat beats[200];
	struct uptime_span out[200];
	struct rng r;

	rng_seed(&r, 1, 2);
	for (int round = 0; round < 500; round++) {
		int64_t from = 100 * S, to = 1000 * S, at = 0, sum = 0;
		size_t n = rng_below(&r, 200), count;

		for (size_t i = 0; i < n; i++) {
			at += (int64_t)rng_below(&r, 20 * (uint64_t)S);
			beats[i] = (struct uptime_beat){ at,
				(int64_t)(1 + rng_below(&r, 15)) * S };
		}
		count = uptime_spans(out, 200, beats, n, from, to);
		for (size_t i = 0; i < count; i++) {
			sum += out[i].to_ms - out[i].from_ms;
			CHECK(out[i].from_ms >= from && out[i].to_ms <= to &&
				out[i].from_ms < out[i].to_ms);
			CHECK(!i || out[i - 1].to_ms < out[i].from_ms);
		}
		CHECK_I64(uptime_ms(beats, n, from, to, to), sum);
		if (count > 3)
			CHECK_I64(3, (int64_t)uptime_spans(out, 3, beats, n, from, to));
	}
}

int main(void)
{
	whole_and_gaps();
	back_dated();
	borders();
	spans();
	TEST_END();
}
