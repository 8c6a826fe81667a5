/* httpd_parts.h - what httpd.c is made of besides libmicrohttpd: counters, log, rate limits.
 *
 * Private to httpd. All are safe to call from several threads. */
#ifndef RNP_COMMON_NET_HTTPD_PARTS_H
#define RNP_COMMON_NET_HTTPD_PARTS_H

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "common/base/buf.h"
#include "common/net/httpd.h"

#define HTTPD_ROUTES_MAX 48
#define HTTPD_BUCKETS    10

/* Requests by route and class of status, and how long they took. The last row is for what no
 * route matched. */
struct httpd_counters {
	_Atomic uint64_t requests[HTTPD_ROUTES_MAX + 1][6];
	_Atomic uint64_t took[HTTPD_ROUTES_MAX + 1][HTTPD_BUCKETS + 1];
	_Atomic uint64_t took_ns[HTTPD_ROUTES_MAX + 1];
	_Atomic uint64_t limited, slow_closed, log_dropped;
	_Atomic int64_t connections;
};

/* route: its index, or -1. */
void httpd_count(struct httpd_counters *c, int route, int status, int64_t ns);
void httpd_counters_write(struct buf *out, const struct httpd_counters *c,
	const struct httpd_route *routes);

/* The TCP connections, for the watch over slow clients. */
struct httpd_tcp {
	struct httpd_tcp *next, **link;
	int fd;
	/* when the present wait for the client began; 0: the client waits for us */
	_Atomic int64_t since_ns;
	_Atomic bool idle; /* between two requests */
};

struct httpd_connections {
	pthread_mutex_t lock;
	struct httpd_tcp *first;
};

/* One that was opened: its entry, until it is removed. */
struct httpd_tcp *httpd_tcp_add(struct httpd_connections *all, int fd);
void httpd_tcp_remove(struct httpd_connections *all, struct httpd_tcp *c);

/* End those whose client takes longer than limit_ns to send a request or to take a reply, or half of that between two. Returns
 * how many were within a request. */
uint64_t httpd_close_slow(struct httpd_connections *all, int64_t limit_ns);

/* See httpd_roundtrip_ns. */
int64_t httpd_tcp_roundtrip_ns(const struct httpd_tcp *c);

/* Log lines wait in memory and are written by httpd_log_flush alone, so that a reader of the
 * log who is slow stops no request; beyond 4 MiB they are dropped and counted. */
struct httpd_log {
	pthread_mutex_t lock;
	struct buf lines, writing;
	int fd; /* -1: off */
};

int httpd_log_open(struct httpd_log *l, const struct httpd_config *config);
void httpd_log_add(struct httpd_log *l, struct httpd_counters *c,
	const struct httpd_request *q, int status, size_t bytes, int64_t ns);
void httpd_log_flush(struct httpd_log *l);
void httpd_log_close(struct httpd_log *l);

/* Token buckets by client address, in a table of fixed size: an address that meets another in
 * its slot takes it over, so a full table forgives rather than refuses. */
#define HTTPD_LIMITER_SLOTS 8192

struct httpd_limiter {
	pthread_mutex_t lock;
	int64_t rate_per_s;
	struct httpd_bucket {
		uint64_t client; /* hash of the address */
		int64_t micro_tokens, at_ns;
	} slots[HTTPD_LIMITER_SLOTS];
};

/* May this client go on? A bucket holds as many requests as five seconds allow. Of an IPv6
 * address the first 64 bits count: the rest is the client's own to choose. */
bool httpd_limiter_take(struct httpd_limiter *l, const struct sockaddr *client,
	int64_t now_ns);

/* Is it this machine? (IPv4 within IPv6 included) */
bool httpd_is_loopback(const struct sockaddr *client);

/* Its address, "203.0.113.7"; "" where there is none. */
void httpd_client_text(const struct sockaddr *client, char text[INET6_ADDRSTRLEN]);

/* Every connection is a descriptor: as many as wanted, or as the system lets us have. */
int httpd_connections_possible(int wanted);

/* Put defaults in place of zeros. */
void httpd_defaults(struct httpd_config *c);

/* SIGTERM and SIGINT wait for httpd_wait, in this thread and those it makes. */
void httpd_block_signals(void);

/* Sleep for a second at most; true: one of them came. */
bool httpd_is_signalled(void);

/* Write the port to a file; path NULL: nothing. */
int httpd_write_port(const char *path, int port);

#endif
