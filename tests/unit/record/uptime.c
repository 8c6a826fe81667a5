/* Uptime by hand-computed cases; beats promise 60 s unless said otherwise. */
#include "common/record/uptime.h"

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
	/* a gap of exactly twice the promise is up, one millisecond more is down as a whole */
	CHECK_I64(120 * S, UP(0, 120, 1000, BEAT(0), BEAT(120)));
	CHECK_I64(0, UP(0, 120, 1000, BEAT(0), { 120 * S + 1, 60 * S }));
	/* 0-60 up, 60-300 down, 300-360 up */
	CHECK_I64(120 * S, UP(0, 360, 1000, BEAT(0), BEAT(60), BEAT(300), BEAT(360)));
	/* the promise is that of the heartbeat before the gap */
	CHECK_I64(300 * S, UP(0, 300, 1000, { 0, 150 * S }, BEAT(300)));
	CHECK_I64(0, UP(0, 300, 1000, { 0, 149 * S }, { 300 * S, 900 * S }));
	/* the same heartbeat twice counts once */
	CHECK_I64(60 * S, UP(0, 60, 1000, BEAT(0), BEAT(0), BEAT(60)));
}

static void borders(void)
{
	/* before the first heartbeat is down; the window is [100, 200) */
	CHECK_I64(50 * S, UP(100, 200, 1000, BEAT(150), BEAT(200)));
	/* heartbeats outside decide about the gaps that cross the borders: 100-140 and 140-200 */
	CHECK_I64(100 * S, UP(100, 200, 1000, BEAT(90), BEAT(140), BEAT(230)));
	/* 140-270 is a gap of 130 s: down, also the part that lies inside */
	CHECK_I64(40 * S, UP(100, 200, 1000, BEAT(90), BEAT(140), BEAT(270)));
	/* a heartbeat at the end belongs to the next window: windows add up */
	CHECK_I64(100 * S, UP(100, 200, 1000, BEAT(100), BEAT(200), BEAT(260)));
	CHECK_I64(60 * S, UP(200, 300, 1000, BEAT(100), BEAT(200), BEAT(260)));
	CHECK_I64(0, UP(200, 200, 1000, BEAT(100), BEAT(200), BEAT(260)));
}

static void the_present(void)
{
	/* after the last one: up to now while the promise lives, down as a whole afterwards */
	CHECK_I64(70 * S, UP(0, 600, 70, BEAT(0)));
	CHECK_I64(120 * S, UP(0, 600, 120, BEAT(0)));
	CHECK_I64(0, UP(0, 600, 121, BEAT(0)));
	/* the window ends before now: the part inside, if the promise is still alive */
	CHECK_I64(30 * S, UP(0, 30, 100, BEAT(0)));
	CHECK_I64(0, UP(0, 30, 121, BEAT(0)));
	/* a node whose clock is ahead is not up in the future */
	CHECK_I64(0, UP(0, 600, 10, BEAT(20)));
	CHECK_I64(10 * S, UP(0, 600, 30, BEAT(20), BEAT(80)));
}

int main(void)
{
	whole_and_gaps();
	borders();
	the_present();
	TEST_END();
}
