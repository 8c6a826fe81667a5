/* twins.c - two machines with one key are found; a process that was started anew is not two. */
/* uses: cmd/rnp-register */
#include "cmd/rnp-register/storage/twins.h"

#include "tests/unit/test.h"

static struct twins *t;
static bool first;

static int64_t beat(const char *instance, int64_t at_s)
{
	return twins_note(t, "node", instance, at_s * 1000, &first);
}

/* Restarts give new numbers, which never come back; one that was tried out comes back once. */
static void alone(void)
{
	CHECK_I64(-1, beat("a", 0));
	CHECK_I64(-1, beat("a", 60));
	CHECK_I64(-1, beat("b", 120));
	CHECK_I64(-1, beat("c", 180));
	CHECK_I64(-1, beat("d", 181));
	CHECK_I64(-1, beat("tried", 182));
	CHECK_I64(-1, beat("d", 240));
	CHECK_I64(-1, beat("d", 300));
	CHECK_I64(-1, twins_of(t, "node", 300000));
}

/* Each is told how long ago the other came, and the first time it is news. */
static void two(void)
{
	beat("x", 10000);
	CHECK_I64(-1, beat("y", 10030));
	CHECK_I64(-1, beat("x", 10060));
	CHECK(!first);
	CHECK_I64(30000, beat("y", 10090));
	CHECK(first);
	CHECK_I64(30000, beat("x", 10120));
	CHECK(!first);
	CHECK_I64(40000, twins_of(t, "node", 10130000));
	/* of another node nothing is said */
	CHECK_I64(-1, twins_of(t, "other", 10130000));
	/* the other one is gone */
	for (int64_t at_s = 10180; at_s < 20000; at_s += 60)
		beat("x", at_s);
	CHECK_I64(-1, beat("x", 20000));
}

/* Of three every pair is found, though others come between. */
static void three(void)
{
	int64_t ms = -1;

	for (int i = 0; i < 9; i++)
		ms = beat(i % 3 == 0 ? "p" : i % 3 == 1 ? "q" : "r", 50000 + 20 * i);
	CHECK_I64(20000, ms);
}

int main(void)
{
	t = twins_new();
	alone();
	two();
	three();
	twins_free(t);
	TEST_END();
}
