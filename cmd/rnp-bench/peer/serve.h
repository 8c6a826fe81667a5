/* serve.h - rnp-bench serve: its HTTP routes and its TCP sessions. */
#ifndef RNP_BENCH_PEER_SERVE_H
#define RNP_BENCH_PEER_SERVE_H

#include <pthread.h>

#include "common/registry/bandwidth_test.h"
#include "common/httpd/httpd.h"
#include "common/record/key.h"

/* Limits of TCP sessions: how many at once, from one address, and of the kind that needs
 * memory; and how long one may take. */
#define SERVE_SESSIONS_MAX    32
#define SERVE_PER_CLIENT_MAX  8
#define SERVE_COMM_MAX        4
#define SERVE_SESSION_SECONDS 120

/* Starts the listener of the TCP sessions, which accepts in a thread of its own. host_port as
 * in --listen. log: descriptor for a line per session, or -1. NULL with err_set. */
struct serve_tcp;
struct serve_tcp *serve_tcp_start(const char *host_port, int log);
int serve_tcp_port(const struct serve_tcp *t);

/* Stops accepting, closes open sessions, frees t. */
void serve_tcp_stop(struct serve_tcp *t);

/* Shared by the routes. */
struct serve {
	int tcp_port;
	const char *random; /* PEER_BYTES_MAX random bytes */
	struct bandwidth_tests *exchanges;
	/* signs the results of bandwidth tests; NULL: none are offered */
	const struct key *key;
	pthread_mutex_t output; /* guards standard output, where results are written */
};

extern const struct httpd_route serve_routes[];

#endif
