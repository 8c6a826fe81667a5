/* times.h - how long requests took, in Prometheus' form. */
#ifndef RNP_SERVE_REQUEST_TIMES_H
#define RNP_SERVE_REQUEST_TIMES_H

#include <stdint.h>

/* A histogram of times in seconds, in buckets of powers of 2 from 1 ms. */
#define HISTOGRAM_BUCKETS 18

struct histogram {
	uint64_t counts[HISTOGRAM_BUCKETS]; /* [i]: at most 2^i ms; the last: more */
	uint64_t n;
	double sum;
};

/* Of requests: from request to first token, from token to token, and in the queue. */
struct request_times {
	struct histogram first, token, queue;
};

#endif
