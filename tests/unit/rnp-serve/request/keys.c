/* keys: what a key may have at a time and in a minute, to the last stream and token; what is not
 * needed comes back.
 * uses: cmd/rnp-serve */
#include "cmd/rnp-serve/request/keys.h"

#include <string.h>

#include "tests/unit/test.h"

#define SECOND INT64_C(1000000000)

static struct keys all = { .lock = PTHREAD_MUTEX_INITIALIZER };

static int take(struct api_key *key, struct key_share *share, int64_t now)
{
	int wait_s;

	return keys_take(&all, key, share, now, &wait_s);
}

static void streams(void)
{
	struct api_key key = { .limit_streams = 3 };
	struct key_share one = { .streams = 1 }, two = { .streams = 2 },
			 four = { .streams = 4 };
	int wait_s;

	CHECK_FAILS(EX_TEMPFAIL, take(&key, &four, SECOND));
	CHECK(take(&key, &two, SECOND) == 0);
	CHECK_FAILS(EX_TEMPFAIL, take(&key, &two, SECOND));
	CHECK(keys_may_ask(&all, &key, SECOND, &wait_s) == 0);
	CHECK(take(&key, &one, SECOND) == 0); /* the last one */
	CHECK_FAILS(EX_TEMPFAIL, take(&key, &one, SECOND));
	CHECK_FAILS(EX_TEMPFAIL, keys_may_ask(&all, &key, SECOND, &wait_s));
	keys_give(&all, &key, &one, 0);
	CHECK(take(&key, &one, SECOND) == 0);
	keys_give(&all, &key, &one, 0);
	keys_give(&all, &key, &two, 0);
	CHECK(key.streams == 0 && key.requests == 3 && key.refused == 4);
}

static void tokens(void)
{
	struct api_key key = { .limit_tokens = 100 };
	struct key_share exact = { 1, 40, 60, true }, more = { 1, 40, 1000, true },
			 any = { 1, 40, 1000, false }, none = { 1, 100, 0, false };
	struct key_share too_long = { 1, 100, 1, false };
	int wait_s;

	CHECK_FAILS(EX_DATAERR, take(&key, &too_long, SECOND));
	CHECK(take(&key, &none, SECOND) == 0); /* to the last token */
	CHECK_FAILS(EX_TEMPFAIL, keys_may_ask(&all, &key, SECOND, &wait_s));
	keys_give(&all, &key, &none, 0);
	/* a minute later, to the last token again, and no sooner */
	CHECK_FAILS(EX_TEMPFAIL, take(&key, &exact, 60 * SECOND));
	CHECK(take(&key, &exact, 61 * SECOND) == 0);
	CHECK_I64(60, (int64_t)exact.answer_tokens);
	keys_give(&all, &key, &exact, 5); /* 55 come back */
	CHECK_FAILS(EX_TEMPFAIL, keys_take(&all, &key, &exact, 61 * SECOND, &wait_s));
	CHECK_I64(27, wait_s);
	/* who names no number gets what is left, who names more than there ever is the same */
	CHECK(take(&key, &any, 61 * SECOND) == 0);
	CHECK_I64(15, (int64_t)any.answer_tokens);
	keys_give(&all, &key, &any, 15);
	CHECK(take(&key, &more, 121 * SECOND) == 0);
	CHECK_I64(60, (int64_t)more.answer_tokens);
	keys_give(&all, &key, &more, 60);
	/* but not less than an eighth of a minute's */
	any.answer_tokens = 1000;
	CHECK_FAILS(EX_TEMPFAIL, take(&key, &any, 150 * SECOND));
	CHECK(take(&key, &any, 154 * SECOND) == 0);
	CHECK_I64(15, (int64_t)any.answer_tokens);
	keys_give(&all, &key, &any, 0);
	/* what a refusal costs is no debt */
	keys_charge(&all, &key, 1000, 154 * SECOND);
	CHECK(key.bucket == 0);
	CHECK(keys_may_ask(&all, &key, 155 * SECOND, &wait_s) == 0);
}

int main(void)
{
	streams();
	tokens();
	TEST_END();
}
