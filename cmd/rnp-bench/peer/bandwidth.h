/* bandwidth.h - the node's end of the bandwidth test: exchanges random bytes with the verifier. */
#ifndef RNP_BENCH_PEER_BANDWIDTH_H
#define RNP_BENCH_PEER_BANDWIDTH_H

#include <pthread.h>
#include <stdbool.h>

#include "common/base/err.h"
#include "common/poc/poc.h"

/* A test that runs beside the others and shares their time. */
struct bandwidth {
	const char *verifier,
		*ca_file; /* URL of a registry or an rnp-bench serve; borrowed */
	const struct poc_challenge *c;
	int64_t left_ms;       /* of the challenge's time */
	const struct key *key; /* of the node: the requests are signed by it */
	pthread_t thread;
	bool started;
	int rc;
	struct err error;
};

/* Starts the test, once the fields before thread are set; without a verifier (NULL) it does
 * nothing. */
void bandwidth_start(struct bandwidth *b);

/* Waits until it is done, if it was started. Returns 0, or -1 with err_set: 69 the verifier is not
 * there or has no such test, 75 it is busy or too slow, 65 it sends something other than it
 * promised. */
int bandwidth_finish(struct bandwidth *b);

#endif
