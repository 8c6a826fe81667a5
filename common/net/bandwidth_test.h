/* exchange.h - the bandwidth test of the proof of compute, the verifier's end: random bytes to a node and
 * back, timed here. Uses httpd, libsodium, clock.
 *
 *   GET  /v1/exchange/{id}?bytes=N      answers N random bytes, new ones each time
 *   POST /v1/exchange/{id}?token=T      the same bytes; T: the last 32 of them in hex
 *
 * The id is the SHA-256 of the challenge. Down is the time from the request line of the GET to that of the
 * POST, which nobody can write before the last bytes are there, and TCP delivers them last; up
 * is the time from there until the body is complete, and its bytes have to be those that were sent:
 * they do not compress and cannot be known before. Both times hold a round trip and TCP's slow start, so
 * that the rate is a lower bound, which larger exchanges bring closer: a node makes some, each four
 * times as large, until one takes BANDWIDTH_TEST_ENOUGH_NS or has BANDWIDTH_TEST_BYTES_MAX. An exchange's
 * reading is its slower direction, a node's that of its best exchange.
 *
 * Whoever knows the id may exchange: a friend of the node with a faster line could, as a friend
 * could compute. Safe to call from several threads. */
#ifndef RNP_COMMON_NET_BANDWIDTH_TEST_H
#define RNP_COMMON_NET_BANDWIDTH_TEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/net/httpd.h"

#define BANDWIDTH_TEST_ID_CHARS    64
#define BANDWIDTH_TEST_TOKEN_BYTES 32
#define BANDWIDTH_TEST_BYTES_MIN   ((int64_t)1 << 20)
#define BANDWIDTH_TEST_BYTES_MAX   ((int64_t)32 << 20)
#define BANDWIDTH_TEST_ENOUGH_NS   500000000
/* Of one node; more are refused. */
#define BANDWIDTH_TEST_TRIES_MAX 8
/* Nodes at the same time, each with one exchange: others disturb, and each takes memory. */
#define BANDWIDTH_TEST_AT_ONCE 2
/* An exchange that takes longer is given up. */
#define BANDWIDTH_TEST_SECONDS 40
/* Its place among those at once is another's sooner: who takes four times as much only while the slower way is under
 * BANDWIDTH_TEST_ENOUGH_NS needs less than 2 s each way, but for the first on a line of some 100 kB/s. */
#define BANDWIDTH_TEST_PLACE_NS INT64_C(5000000000)
/* Begun anew before the bytes came back: more in a row, and nobody could exchange but who does that. */
#define BANDWIDTH_TEST_DROPS_MAX 2
/* Readings that wait; beyond that the oldest is forgotten. */
#define BANDWIDTH_TEST_NODES_MAX 1024

struct bandwidth_test_reading {
	int64_t bytes_per_s; /* 0: none yet */
	int64_t bytes;       /* of the exchange that it is from */
	int64_t down_ns, up_ns;
	bool enough; /* no more is to be gained */
};

struct bandwidth_tests;

struct bandwidth_tests *bandwidth_tests_new(void);
void bandwidth_tests_free(struct bandwidth_tests *x);

/* The handlers' parts; q->arg is the id. post: *out is what this exchange gave when r->status is
 * 200. */
enum httpd_when bandwidth_test_get(struct bandwidth_tests *x, struct httpd_request *q,
	struct httpd_reply *r);
enum httpd_when bandwidth_test_post(struct bandwidth_tests *x, struct httpd_request *q,
	struct httpd_reply *r, struct bandwidth_test_reading *out);

/* What a node reached, and forget it. False: nothing. */
bool bandwidth_test_take(struct bandwidth_tests *x, const char *id,
	struct bandwidth_test_reading *out);

/* --- without HTTP, for tests --------------------------------------------------------------- */

enum bandwidth_test_said {
	BANDWIDTH_TEST_OK,
	BANDWIDTH_TEST_BUSY, /* too many at once */
	BANDWIDTH_TEST_TOO_OFTEN,
	BANDWIDTH_TEST_UNKNOWN, /* nothing was begun, or it took too long */
	BANDWIDTH_TEST_WRONG,   /* token or bytes are not those that were sent */
};

/* Begin an exchange of bytes at now_ns; out has room for them. */
enum bandwidth_test_said bandwidth_test_begin(struct bandwidth_tests *x, const char *id,
	int64_t bytes, int64_t now_ns, void *out);

/* The bytes came back; they are overwritten. */
enum bandwidth_test_said bandwidth_test_end(struct bandwidth_tests *x, const char *id,
	const char *token, void *data, size_t bytes, int64_t arrived_ns,
	int64_t complete_ns, struct bandwidth_test_reading *out);

#endif
