/* test.h - the few macros of our unit tests: a test program checks, counts and exits 0 or 1.
 *
 * Every failure prints file, line, what was expected and what came. */
#ifndef RNP_TESTS_UNIT_TEST_H
#define RNP_TESTS_UNIT_TEST_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "common/base/err.h"

static int test_failures, test_checks;

#define CHECK(condition)                                                             \
	do {                                                                         \
		test_checks++;                                                       \
		if (!(condition)) {                                                  \
			test_failures++;                                             \
			fprintf(stderr, "%s:%d: not true: %s (pending error: %s)\n", \
				__FILE__, __LINE__, #condition, err_get()->text);    \
		}                                                                    \
	} while (0)

#define CHECK_I64(expected, got)                                                       \
	do {                                                                           \
		int64_t want_ = (expected), have_ = (got);                             \
		test_checks++;                                                         \
		if (want_ != have_) {                                                  \
			test_failures++;                                               \
			fprintf(stderr, "%s:%d: %s is %" PRId64 ", not %" PRId64 "\n", \
				__FILE__, __LINE__, #got, have_, want_);               \
		}                                                                      \
	} while (0)

#define CHECK_TEXT(expected, got)                                                    \
	do {                                                                         \
		const char *want_ = (expected), *have_ = (got);                      \
		test_checks++;                                                       \
		if (strcmp(want_, have_) != 0) {                                     \
			test_failures++;                                             \
			fprintf(stderr, "%s:%d: %s is\n  %s\nnot\n  %s\n", __FILE__, \
				__LINE__, #got, have_, want_);                       \
		}                                                                    \
	} while (0)

/* The call must fail with this exit code; the pending error is cleared. */
#define CHECK_FAILS(code_, call)                                                       \
	do {                                                                           \
		test_checks++;                                                         \
		if ((call) != -1 || err_get()->code != (code_)) {                      \
			test_failures++;                                               \
			fprintf(stderr, "%s:%d: %s: code %d (%s), not %d\n", __FILE__, \
				__LINE__, #call, err_get()->code, err_get()->text,     \
				code_);                                                \
		}                                                                      \
		err_clear();                                                           \
	} while (0)

/* Last line of main(). */
#define TEST_END()                                                                     \
	do {                                                                           \
		if (!test_checks)                                                      \
			fprintf(stderr, "no check ran\n");                             \
		fprintf(stderr, "%d checks, %d failed\n", test_checks, test_failures); \
		return test_failures || !test_checks;                                  \
	} while (0)

#endif
