/* bandwidth_test.h - the verifier's half of the bandwidth test: random bytes go to a node and come
 * back, and the verifier times both ways. Uses httpd, libsodium, clock.
 *
 *   GET  /v1/exchange/{id}?bytes=N      answers N random bytes, new ones each time
 *   POST /v1/exchange/{id}?token=T      brings the same bytes back; T: the last 32 of them in hex
 *
 * The id is the SHA-256 of the challenge. The time down runs from the request line of the GET to
 * that of the POST, which nobody can write before the last bytes have arrived, and TCP delivers
 * them last. The time up runs from there until the body is complete; its bytes have to be those
 * that were sent, which do not compress and cannot be known before. Both times contain a round
 * trip and TCP's slow start, so that the rate is a lower bound, and larger exchanges come closer:
 * a node makes several, each four times as large, until one takes BANDWIDTH_TEST_ENOUGH_NS or has
 * BANDWIDTH_TEST_BYTES_MAX. The reading of an exchange is its slower direction; the reading of a
 * node is that of its best exchange.
 *
 * These functions do not know who asks. The registry admits only requests that the challenged
 * node has signed. Safe to call from several threads. */
#ifndef RNP_COMMON_REGISTRY_BANDWIDTH_TEST_H
#define RNP_COMMON_REGISTRY_BANDWIDTH_TEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/httpd/httpd.h"

#define BANDWIDTH_TEST_ID_CHARS    64
#define BANDWIDTH_TEST_TOKEN_BYTES 32
#define BANDWIDTH_TEST_BYTES_MIN   ((int64_t)1 << 20)
#define BANDWIDTH_TEST_BYTES_MAX   ((int64_t)32 << 20)
#define BANDWIDTH_TEST_ENOUGH_NS   500000000
/* Limit of exchanges of one node; further ones are refused. */
#define BANDWIDTH_TEST_TRIES_MAX 8
/* Limit of nodes that exchange at the same time: they disturb each other, and each takes
 * memory. */
#define BANDWIDTH_TEST_AT_ONCE 2
/* An exchange that takes longer is forgotten. */
#define BANDWIDTH_TEST_SECONDS 40
/* After this time another node may take the place of one that still exchanges. A node that
 * quadruples the size only while the slower way is under BANDWIDTH_TEST_ENOUGH_NS needs less than
 * 2 s each way, except for its first exchange on a line of some 100 kB/s. */
#define BANDWIDTH_TEST_PLACE_NS INT64_C(5000000000)
/* Limit of exchanges that a node may begin without ending the last one. Without it a node that
 * only begins would keep all others out. */
#define BANDWIDTH_TEST_DROPS_MAX 2
/* Limit of readings held until they are taken; beyond it the oldest is dropped. */
#define BANDWIDTH_TEST_NODES_MAX 1024

struct bandwidth_test_reading {
	int64_t bytes_per_s; /* 0: none yet */
	int64_t bytes;       /* of the best exchange */
	int64_t down_ns, up_ns;
	bool enough; /* a larger exchange would not improve the reading */
};

struct bandwidth_tests;

struct bandwidth_tests *bandwidth_tests_new(void);
void bandwidth_tests_free(struct bandwidth_tests *x);

/* Answer the two requests; q->arg is the id. *out is the reading of this exchange where r->status
 * is 200. Return HTTPD_NOW. */
enum httpd_when bandwidth_test_get(struct bandwidth_tests *x, struct httpd_request *q,
	struct httpd_reply *r);
enum httpd_when bandwidth_test_post(struct bandwidth_tests *x, struct httpd_request *q,
	struct httpd_reply *r, struct bandwidth_test_reading *out);

/* Returns how many bytes are to come back from a node, 0: none. */
int64_t bandwidth_test_awaited(struct bandwidth_tests *x, const char *id, int64_t now_ns);

/* Moves a node's reading out of the table. Returns false when there is none. */
bool bandwidth_test_take(struct bandwidth_tests *x, const char *id,
	struct bandwidth_test_reading *out);

/* --- without HTTP, for tests --------------------------------------------------------------- */

enum bandwidth_test_status {
	BANDWIDTH_TEST_OK,
	BANDWIDTH_TEST_BUSY, /* too many nodes exchange already */
	BANDWIDTH_TEST_TOO_OFTEN,
	BANDWIDTH_TEST_UNKNOWN, /* no exchange was begun, or it took too long */
	BANDWIDTH_TEST_WRONG,   /* token or bytes differ from those sent */
};

/* Begins an exchange of the given number of bytes at now_ns and writes them to out. */
enum bandwidth_test_status bandwidth_test_begin(struct bandwidth_tests *x, const char *id,
	int64_t bytes, int64_t now_ns, void *out);

/* Ends an exchange: data are the bytes that came back; they are overwritten. */
enum bandwidth_test_status bandwidth_test_end(struct bandwidth_tests *x, const char *id,
	const char *token, void *data, size_t bytes, int64_t arrived_ns,
	int64_t complete_ns, struct bandwidth_test_reading *out);

#endif
