/* bandwidth_test.c - exchange: the slower way counts, only the very bytes count, and nobody can
 * take all. */
#include "common/registry/bandwidth_test.h"

#include <sodium.h>
#include <stdlib.h>

#include "common/base/mem.h"
#include "tests/unit/test.h"

#define MS INT64_C(1000000)
#define S  (1000 * MS)
#define N  BANDWIDTH_TEST_BYTES_MIN

static const char *id(int i)
{
	static char text[BANDWIDTH_TEST_ID_CHARS + 1];

	snprintf(text, sizeof text, "%064d", i);
	return text;
}

static void token_of(char token[2 * BANDWIDTH_TEST_TOKEN_BYTES + 1],
	const unsigned char *data, int64_t bytes)
{
	sodium_bin2hex(token, 2 * BANDWIDTH_TEST_TOKEN_BYTES + 1,
		data + bytes - BANDWIDTH_TEST_TOKEN_BYTES, BANDWIDTH_TEST_TOKEN_BYTES);
}

/* One exchange that takes so long each way. */
static enum bandwidth_test_status exchange(struct bandwidth_tests *x, int node,
	unsigned char *data, int64_t bytes, int64_t at_ns, int64_t down_ns, int64_t up_ns,
	struct bandwidth_test_reading *out)
{
	enum bandwidth_test_status said = bandwidth_test_begin(x, id(node), bytes, at_ns,
		data);
	char token[2 * BANDWIDTH_TEST_TOKEN_BYTES + 1];

	if (said != BANDWIDTH_TEST_OK)
		return said;
	token_of(token, data, bytes);
	return bandwidth_test_end(x, id(node), token, data, (size_t)bytes,
		at_ns + down_ns, at_ns + down_ns + up_ns, out);
}

static void test_readings(unsigned char *data)
{
	struct bandwidth_tests *x = bandwidth_tests_new();
	struct bandwidth_test_reading r;

	CHECK(!bandwidth_test_take(x, id(1), &r));
	CHECK_I64(BANDWIDTH_TEST_OK, exchange(x, 1, data, N, S, 100 * MS, 200 * MS, &r));
	CHECK_I64(5 * N, r.bytes_per_s);
	CHECK(!r.enough && r.down_ns == 100 * MS && r.up_ns == 200 * MS);
	CHECK_I64(BANDWIDTH_TEST_OK,
		exchange(x, 1, data, 4 * N, 2 * S, 400 * MS, 100 * MS, &r));
	CHECK_I64(10 * N, r.bytes_per_s);
	/* the best counts; half a second is enough */
	CHECK_I64(BANDWIDTH_TEST_OK, exchange(x, 1, data, N, 3 * S, 500 * MS, 1, &r));
	CHECK(r.enough && r.bytes_per_s == 2 * N);
	CHECK(bandwidth_test_take(x, id(1), &r));
	CHECK_I64(10 * N, r.bytes_per_s);
	CHECK_I64(4 * N, r.bytes);
	CHECK(!bandwidth_test_take(x, id(1), &r));
	CHECK_I64(BANDWIDTH_TEST_OK,
		exchange(x, 1, data, BANDWIDTH_TEST_BYTES_MAX, S, 1, 1, &r));
	CHECK(r.enough);
	bandwidth_tests_free(x);
}

static void test_cheats(unsigned char *data)
{
	struct bandwidth_tests *x = bandwidth_tests_new();
	unsigned char *again = xmalloc((size_t)N);
	char token[2 * BANDWIDTH_TEST_TOKEN_BYTES + 1];
	struct bandwidth_test_reading r;

	/* bytes that nobody sent, an old exchange's, too few, a bit that differs, no token */
	CHECK_I64(BANDWIDTH_TEST_UNKNOWN,
		bandwidth_test_end(x, id(1), "", data, (size_t)N, S, S, &r));
	for (int cheat = 0; cheat < 5; cheat++) {
		size_t bytes = (size_t)N;

		CHECK_I64(BANDWIDTH_TEST_OK,
			bandwidth_test_begin(x, id(cheat), N, S, data));
		memcpy(again, data, (size_t)N);
		token_of(token, data, N);
		if (cheat == 0)
			memset(data, 0, (size_t)N);
		if (cheat == 1)
			CHECK_I64(BANDWIDTH_TEST_OK,
				bandwidth_test_begin(x, id(cheat), N, S, again));
		if (cheat == 2)
			bytes--;
		if (cheat == 3)
			data[N / 2] ^= 1;
		if (cheat == 4)
			token[0] = token[0] == '0' ? '1' : '0';
		CHECK_I64(BANDWIDTH_TEST_WRONG,
			bandwidth_test_end(x, id(cheat), token, data, bytes, 2 * S, 3 * S,
				&r));
		/* the chance is gone */
		CHECK_I64(BANDWIDTH_TEST_UNKNOWN,
			bandwidth_test_end(x, id(cheat), token, again, (size_t)N, 2 * S,
				3 * S, &r));
		CHECK(!bandwidth_test_take(x, id(cheat), &r));
	}
	free(again);
	bandwidth_tests_free(x);
}

/* Two nodes that never come back: how long can they keep a third from a place? */
static void test_places(unsigned char *data)
{
	struct bandwidth_tests *x = bandwidth_tests_new();
	char token[2 * BANDWIDTH_TEST_TOKEN_BYTES + 1];
	unsigned char few[64];
	struct bandwidth_test_reading r;
	int64_t at = S, kept = 0;

	for (; at < 200 * S; at += S / 2) {
		for (int i = 1; i <= BANDWIDTH_TEST_AT_ONCE; i++)
			bandwidth_test_begin(x, id(i), N, at, data);
		kept += bandwidth_test_begin(x, id(9), N, at, data) ==
				BANDWIDTH_TEST_BUSY ?
			S / 2 :
			0;
	}
	CHECK(kept > 0 &&
		kept <= (BANDWIDTH_TEST_DROPS_MAX + 1) * BANDWIDTH_TEST_PLACE_NS);
	bandwidth_tests_free(x);

	x = bandwidth_tests_new();
	for (int i = 1; i <= BANDWIDTH_TEST_AT_ONCE; i++)
		CHECK_I64(BANDWIDTH_TEST_OK, bandwidth_test_begin(x, id(i), N, S, data));
	/* a second try of one of them takes nobody's place but its own */
	CHECK_I64(BANDWIDTH_TEST_OK, bandwidth_test_begin(x, id(1), N, 2 * S, data));
	CHECK_I64(BANDWIDTH_TEST_BUSY, bandwidth_test_begin(x, id(9), N, 2 * S, data));
	/* a slow line's place is another's, its exchange is still its own */
	token_of(token, data, N);
	CHECK_I64(BANDWIDTH_TEST_OK, exchange(x, 9, few, sizeof few, 9 * S, 1, 1, &r));
	CHECK_I64(BANDWIDTH_TEST_OK,
		bandwidth_test_end(x, id(1), token, data, (size_t)N, 10 * S, 20 * S, &r));
	CHECK_I64(N / 10, r.bytes_per_s);
	bandwidth_tests_free(x);
}

static void test_limits(unsigned char *data)
{
	struct bandwidth_tests *x = bandwidth_tests_new();
	struct bandwidth_test_reading r;

	for (int i = 0; i < BANDWIDTH_TEST_AT_ONCE; i++)
		CHECK_I64(BANDWIDTH_TEST_OK, bandwidth_test_begin(x, id(i), N, S, data));
	CHECK_I64(BANDWIDTH_TEST_BUSY, bandwidth_test_begin(x, id(9), N, 2 * S, data));
	/* a client that does not return loses its place */
	CHECK_I64(BANDWIDTH_TEST_OK,
		exchange(x, 9, data, N, S + BANDWIDTH_TEST_PLACE_NS, 1, 1, &r));
	for (int i = 1; i < BANDWIDTH_TEST_TRIES_MAX; i++)
		CHECK_I64(BANDWIDTH_TEST_OK, exchange(x, 9, data, N, 100 * S, 1, 1, &r));
	CHECK(r.enough);
	CHECK_I64(BANDWIDTH_TEST_TOO_OFTEN, exchange(x, 9, data, N, 100 * S, 1, 1, &r));
	/* too late */
	CHECK_I64(BANDWIDTH_TEST_UNKNOWN,
		exchange(x, 10, data, N, 200 * S, BANDWIDTH_TEST_SECONDS * S, 1, &r));
	/* more nodes than there are places: the oldest is forgotten */
	for (int i = 0; i < BANDWIDTH_TEST_NODES_MAX; i++)
		CHECK_I64(BANDWIDTH_TEST_OK,
			exchange(x, 100 + i, data, 64, (300 + i) * S, 1, 1, &r));
	CHECK(!bandwidth_test_take(x, id(9), &r));
	CHECK(bandwidth_test_take(x, id(100 + BANDWIDTH_TEST_NODES_MAX - 1), &r));
	bandwidth_tests_free(x);
}

int main(void)
{
	unsigned char *data = xmalloc((size_t)BANDWIDTH_TEST_BYTES_MAX);

	test_readings(data);
	test_cheats(data);
	test_places(data);
	test_limits(data);
	free(data);
	TEST_END();
}
