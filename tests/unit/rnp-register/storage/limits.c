/* limits.c - allowances by address and node, and what joining costs when many join. */
/* uses: cmd/rnp-register */
#include "cmd/rnp-register/storage/limits.h"

#include <stdio.h>
#include <string.h>

#include "tests/unit/test.h"

#define NOW INT64_C(1800000000000)

static void buckets(void)
{
	struct limits_config config = { .bytes_per_day = 86400 };
	struct limits *l = limits_new(&config);

	/* a day's allowance at once, and then a byte a second */
	CHECK(limits_take(l, LIMIT_BYTES, "a", 86000, NOW));
	CHECK(!limits_take(l, LIMIT_BYTES, "a", 401, NOW));
	CHECK(limits_has(l, LIMIT_BYTES, "a", 400, NOW));
	CHECK(limits_take(l, LIMIT_BYTES, "b", 86400, NOW));
	CHECK(!limits_take(l, LIMIT_BYTES, "a", 500, NOW + 99000));
	CHECK(limits_take(l, LIMIT_BYTES, "a", 500, NOW + 101000));
	/* stored bytes count as used, and the client has to wait */
	limits_charge(l, LIMIT_BYTES, "a", 86400, NOW + 101000);
	CHECK(!limits_has(l, LIMIT_BYTES, "a", 1, NOW + 86000000));
	CHECK(limits_has(l, LIMIT_BYTES, "a", 1, NOW + 86600000 + 101000));
	/* a clock that was set back grants nothing */
	CHECK(!limits_has(l, LIMIT_BYTES, "b", 1, NOW - 86400000));
	/* another limit of the same name is another bucket */
	for (int i = 0; i < 120; i++)
		CHECK(limits_take(l, LIMIT_BEATS, "b", 1, NOW));
	CHECK(!limits_take(l, LIMIT_BEATS, "b", 1, NOW));
	CHECK(limits_take(l, LIMIT_BEATS, "b", 1, NOW + 1000));
	limits_free(l);
}

/* A client that has used nothing is evicted first, one that has used up its allowance stays, but
 * for one that shares a set with three others like it: the key of the hash is random, so that
 * nobody can bring that about, and of 1,000 in 16,384 sets of four one run in a hundred has such a
 * set. */
static void eviction(void)
{
	struct limits_config config = { .bytes_per_day = 1000 };
	struct limits *l = limits_new(&config);
	int kept = 0;

	for (int i = 0; i < 1000; i++) {
		char who[16];

		snprintf(who, sizeof who, "u%d", i);
		CHECK(limits_take(l, LIMIT_BYTES, who, 1000, NOW));
	}
	for (int i = 0; i < 200000; i++) {
		char who[16];

		snprintf(who, sizeof who, "s%d", i);
		limits_take(l, LIMIT_BYTES, who, 1, NOW);
	}
	for (int i = 0; i < 1000; i++) {
		char who[16];

		snprintf(who, sizeof who, "u%d", i);
		kept += !limits_has(l, LIMIT_BYTES, who, 500, NOW);
	}
	CHECK(kept >= 996);
	limits_free(l);
}

static void addresses(void)
{
	static const char *const cases[][3] = {
		{ "203.0.113.7", "203.0.113.7", "203.0.113" },
		{ "::ffff:203.0.113.7", "203.0.113.7", "203.0.113" },
		{ "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::", "2001:db8:1::" },
		{ "2001:db8:1:2:ffff::1", "2001:db8:1:2::", "2001:db8:1::" },
	};
	struct limits_config config = { .loopback = false };
	struct limits *l = limits_new(&config);
	char out[LIMITS_CLIENT_MAX];

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		limits_client(out, cases[i][0]);
		CHECK_TEXT(cases[i][1], out);
		limits_block(out, cases[i][0]);
		CHECK_TEXT(cases[i][2], out);
		CHECK(limits_hold_for(l, cases[i][0]));
	}
	CHECK(!limits_hold_for(l, "127.0.0.1") && !limits_hold_for(l, "::1") &&
		!limits_hold_for(l, "::ffff:127.0.0.2"));
	limits_free(l);
}

/* Work of that many bits for a token, as a client does it. */
static bool joins(struct limits *l, const char *node, const char *token, int bits,
	int64_t now_ms)
{
	char work[WORK_TOKEN_MAX + 32];
	uint64_t number = 0;

	CHECK(work_solve(token, node, bits, 0, UINT64_C(1) << 24, &number));
	snprintf(work, sizeof work, "%s.%llu", token, (unsigned long long)number);
	return limits_join_check(l, node, work, now_ms);
}

/* A number that nobody worked for. */
static bool joins_without_work(struct limits *l, const char *node, const char *token,
	int bits, int64_t now_ms)
{
	char work[WORK_TOKEN_MAX + 32];
	uint64_t number = 0;

	while (work_check(token, node, number, bits))
		number++;
	snprintf(work, sizeof work, "%s.%llu", token, (unsigned long long)number);
	return limits_join_check(l, node, work, now_ms);
}

static void joining(void)
{
	struct limits_config config = { .join_bits = 8 };
	struct limits *l = limits_new(&config), *other = limits_new(&config);
	char token[WORK_TOKEN_MAX], forged[WORK_TOKEN_MAX];

	limits_join_token(l, "node", 8, NOW, token);
	CHECK(joins(l, "node", token, 8, NOW));
	CHECK(!joins_without_work(l, "node", token, 8, NOW));
	/* of another node, of another registry, with less work in it than was asked for */
	CHECK(!joins(l, "nobody", token, 8, NOW));
	CHECK(!joins(other, "node", token, 8, NOW));
	snprintf(forged, sizeof forged, "%.*s-5-%s", (int)strcspn(token, "-"), token,
		strrchr(token, '-') + 1);
	CHECK(!joins(l, "node", forged, 5, NOW));
	/* it is good for ten minutes, for no more than twenty, and not before it was given */
	CHECK(joins(l, "node", token, 8, NOW + 599000));
	CHECK(!joins(l, "node", token, 8, NOW + 1201000));
	CHECK(!joins(l, "node", token, 8, NOW - 600000));
	/* two bits more with each doubling from 128 within the hour on */
	for (int i = 0; i < 127; i++)
		limits_joined(l, NOW);
	CHECK_I64(8, limits_join_bits(l, NOW));
	limits_joined(l, NOW);
	CHECK_I64(10, limits_join_bits(l, NOW));
	CHECK(joins(l, "node", token, 8, NOW));
	for (int i = 0; i < 384; i++)
		limits_joined(l, NOW + 60000);
	CHECK_I64(14, limits_join_bits(l, NOW + 60000));
	/* what was easy when it was asked for is not enough any more, but a little less is */
	CHECK(!joins(l, "node", token, 8, NOW + 60000));
	limits_join_token(l, "node", 10, NOW + 60000, token);
	CHECK(joins(l, "node", token, 10, NOW + 60000));
	/* an hour later it is quiet again */
	CHECK_I64(8, limits_join_bits(l, NOW + 3700000));
	limits_free(l);
	limits_free(other);
}

int main(void)
{
	buckets();
	eviction();
	addresses();
	joining();
	TEST_END();
}
