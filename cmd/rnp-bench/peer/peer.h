/* peer.h - the protocol between rnp-bench serve and the suites net and comm.
 *
 * GET /v1/peer returns what a peer offers (rnp.peer), above all the port of its plain TCP
 * listener. A TCP session is opened by a struct peer_hello and answered by another one with the
 * same op, or PEER_BUSY. Numbers are in the byte order of both machines, which the magic
 * checks. */
#ifndef RNP_BENCH_PEER_PEER_H
#define RNP_BENCH_PEER_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/comm/comm.h"
#include "common/http/http.h"
#include "common/net/net.h"

#define PEER_MAGIC      UINT64_C(0x31726565702d706e) /* "np-peer1" */
#define PEER_BYTES_MAX  ((size_t)64 << 20)           /* of one message, body or sum */
#define PEER_REPS_MAX   100000
#define PEER_TIMEOUT_MS 5000 /* a peer that does nothing for this long has stalled */
/* between two orders its leader measures with other backends */
#define PEER_ORDER_MS 60000
#define PEER_BLOCK    ((size_t)128 << 10) /* one read or write, as iperf3 does them */

enum peer_op {
	PEER_BUSY,
	PEER_DOWN, /* sends random bytes until the client closes */
	PEER_UP,   /* takes bytes, and now and then reports how many as uint64_t */
	PEER_PING, /* returns each byte */
	PEER_COMM, /* the server becomes rank 1 of 2 and follows orders */
};

struct peer_hello {
	uint64_t magic;
	uint32_t op;
	uint32_t zero;
};

/* --- orders of rank 0 to all others -------------------------------------------------------- */

enum peer_work {
	PEER_END,
	PEER_PINGPONG, /* rank 1 receives and sends back, reps times */
	PEER_SUM,      /* all-reduce of zeros, reps times */
	PEER_CHECK,    /* all-reduce of peer_value, once */
	PEER_NCCL,     /* switches to NCCL; bytes: number of the GPU to use */
};

struct peer_order {
	uint32_t work, reps;
	uint64_t bytes;
};

/* Returns element i of rank r in a sum that is checked: whole numbers below 64, so that sums
 * are exact. */
static inline float peer_value(int rank, size_t i)
{
	return (float)((i * 7 + (size_t)rank * 13 + i / 64) % 64);
}

/* Carries out orders that come over one comm with data over another, which may be the same,
 * until the end. Returns 0, or -1 with err_set: 65 an order beyond the limits. */
int peer_follow(struct comm *orders, struct comm *data);

/* On rank 0: sends the order to all others, does its own part, and returns how long it took, a
 * whole round trip for a ping-pong. buffer: order.bytes from comm_alloc. PEER_CHECK: 65 if the
 * sum is wrong. */
int peer_lead(struct comm *orders, struct comm *data, const struct peer_order *order,
	void *buffer, int64_t *ns);

/* --- the client's side --------------------------------------------------------------------- */

struct peer {
	struct http http;
	const char *url; /* borrowed */
	char host[NET_HOST_MAX];
	int tcp_port; /* 0: it has none */
	size_t bytes_max;
	int64_t hello_ns; /* time until the last hello was answered: a round trip */
};
/* clang-format off */
#define PEER_INIT { .tcp_port = 0 }
/* clang-format on */

/* Asks the peer what it offers. Returns 0, or -1: 69 not there, 75 no answer in time, 65 its
 * answer is not an rnp.peer record. */
int peer_open(struct peer *p, const char *url);
void peer_close(struct peer *p);

/* Opens a TCP session and returns its socket, or -1: 69 it cannot be reached or has no
 * listener, 75 it is busy or stalls. */
int peer_dial(struct peer *p, enum peer_op op);

/* Makes one HTTP request with this body (NULL: GET), whose response must have exactly want
 * bytes, else 65; want 0: any number up to 64 KiB. */
int peer_fetch(struct peer *p, const char *path, const void *body, size_t body_bytes,
	size_t want, struct http_response *r);

/* Starts a peer on this machine if none was named: rnp-bench serve as a child process that ends
 * with us. url holds NET_HOST_MAX bytes. */
struct peer_child {
	int pid;
};
int peer_child_start(struct peer_child *child, char url[NET_HOST_MAX]);
void peer_child_stop(struct peer_child *child);

#endif
