/* nonces.c - a nonce counts once for each key, and a flood makes nobody forget it. */
#include "common/httpd/nonces.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/test.h"

#define NOW_S INT64_C(1767225600)

static void once(void)
{
	struct nonces *n = nonces_new(1024, true);

	CHECK(!nonces_seen(n, "a", "1", NOW_S + 60));
	CHECK(nonces_seen(n, "a", "1", NOW_S + 60));
	CHECK(!nonces_seen(n, "b", "1", NOW_S + 60));
	CHECK(!nonces_seen(n, "a", "2", NOW_S + 60));
	nonces_free(n);
	nonces_free(NULL);
}

/* Returns how many of a flood of others were taken, and whether the first is still known. */
static int flood(bool strict, bool *known)
{
	struct nonces *n = nonces_new(64, strict);
	int taken = 0;

	CHECK(!nonces_seen(n, "a", "first", NOW_S + 60));
	for (int i = 0; i < 10000; i++) {
		char nonce[16];

		snprintf(nonce, sizeof nonce, "%d", i);
		taken += !nonces_seen(n, "b", nonce, NOW_S + 61);
	}
	*known = nonces_seen(n, "a", "first", NOW_S + 60);
	nonces_free(n);
	return taken;
}

static void floods(void)
{
	bool known;

	CHECK_I64(63, flood(true, &known));
	CHECK(known);
	CHECK_I64(10000, flood(false, &known));
	CHECK(!known);
}

/* What is over makes room. */
static void over(void)
{
	struct nonces *n = nonces_new(8, true);

	for (int i = 0; i < 100; i++) {
		char nonce[16];

		snprintf(nonce, sizeof nonce, "%d", i);
		CHECK(!nonces_seen(n, "a", nonce, NOW_S - 1));
	}
	nonces_free(n);
}

int main(void)
{
	if (sodium_init() < 0 || setenv("RNP_NOW", "2026-01-01T00:00:00Z", 1) < 0)
		return 71;
	once();
	floods();
	over();
	TEST_END();
}
