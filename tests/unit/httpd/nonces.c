/* nonces.c - a nonce counts once for each key; a flood makes nobody forget it, and keeps nobody
 * out. */
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

typedef bool (
	*seen_fn)(void *nonces, const char *address, const char *nonce, int64_t until_s);

/* Returns how many of a flood of another were taken. Whoever was there before is still known, and
 * whoever comes now finds room. */
static int flood(bool strict, seen_fn seen)
{
	struct nonces *n = nonces_new(64, strict);
	int taken = 0;

	CHECK(!nonces_seen(n, "a", "first", NOW_S + 60));
	for (int i = 0; i < 10000; i++) {
		char nonce[16];

		snprintf(nonce, sizeof nonce, "%d", i);
		taken += !seen(n, "b", nonce, NOW_S + 61);
	}
	CHECK(nonces_seen(n, "a", "first", NOW_S + 60));
	for (int i = 0; i < 16; i++) {
		char address[16];

		snprintf(address, sizeof address, "%d", i);
		CHECK(!nonces_seen(n, address, "1", NOW_S + 60));
		CHECK(nonces_seen(n, address, "1", NOW_S + 60));
	}
	nonces_free(n);
	return taken;
}

static void floods(void)
{
	CHECK_I64(63, flood(true, nonces_seen));
	CHECK_I64(10000, flood(false, nonces_seen));
	CHECK_I64(10000, flood(true, nonces_seen_of_stranger));
}

/* Keys that anybody can make are one: as many as one likes take no more room than one. */
static void strangers(void)
{
	struct nonces *n = nonces_new(64, true);
	int kept = 0;

	for (int i = 0; i < 20; i++) {
		char nonce[16];

		snprintf(nonce, sizeof nonce, "%d", i);
		CHECK(!nonces_seen(n, "a", nonce, NOW_S + 60));
	}
	for (int i = 0; i < 10000; i++) {
		char address[16];

		snprintf(address, sizeof address, "%d", i);
		CHECK(!nonces_seen_of_stranger(n, address, "x", NOW_S + 61));
		CHECK(nonces_seen_of_stranger(n, address, "x", NOW_S + 61));
	}
	for (int i = 0; i < 20; i++) {
		char nonce[16];

		snprintf(nonce, sizeof nonce, "%d", i);
		kept += nonces_seen(n, "a", nonce, NOW_S + 60);
	}
	CHECK_I64(20, kept);
	nonces_free(n);
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
	strangers();
	over();
	TEST_END();
}
