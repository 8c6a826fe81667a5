/* parts.h - the parts of httpd besides its connections: counters, log, limits by address.
 *
 * Private to httpd. All are safe to call from several threads. */
#ifndef RNP_COMMON_HTTPD_PARTS_H
#define RNP_COMMON_HTTPD_PARTS_H

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "common/base/buf.h"
#include "common/httpd/httpd.h"

#define HTTPD_ROUTES_MAX 48
#define HTTPD_BUCKETS    10

/* Requests by route and class of status, and how long they took. The last row is for requests
 * that no route matched. */
struct httpd_counters {
	_Atomic uint64_t requests[HTTPD_ROUTES_MAX + 1][6];
	_Atomic uint64_t took[HTTPD_ROUTES_MAX + 1][HTTPD_BUCKETS + 1];
	_Atomic uint64_t took_ns[HTTPD_ROUTES_MAX + 1];
	_Atomic uint64_t limited, slow_closed, log_dropped;
	_Atomic uint64_t sent, received; /* bytes of all sockets: httpd_bytes */
	_Atomic int64_t connections;
};

/* route: its index, or -1. */
void httpd_count(struct httpd_counters *c, int route, int status, int64_t ns);
void httpd_counters_write(struct buf *out, const struct httpd_counters *c,
	const struct httpd_route *routes);

/* Log lines wait in memory and are written by httpd_log_flush alone, so that a slow reader of
 * the log delays no request; beyond 4 MiB they are dropped and counted. */
struct httpd_log {
	pthread_mutex_t lock;
	struct buf lines, writing;
	int fd;          /* -1: off */
	bool for_people; /* standard error is a terminal: lines without JSON */
};

int httpd_log_open(struct httpd_log *l, const struct httpd_config *config);
void httpd_log_add(struct httpd_log *l, struct httpd_counters *c,
	const struct httpd_request *q, int status, size_t bytes, int64_t ns);
void httpd_log_flush(struct httpd_log *l);
void httpd_log_close(struct httpd_log *l);

/* Returns the key of a client's address: the first 64 bits of an IPv6 address, as the client
 * chooses the rest itself; IPv4 within IPv6 counts as IPv4. Never 0. The hash differs by
 * process, so that nobody can choose addresses that collide. */
uint64_t httpd_client_key(const struct sockaddr *client);

/* Token buckets by client, in a table of fixed size: a client takes over its slot from another
 * that collides with it, so that a full table admits too much rather than too little. */
#define HTTPD_LIMITER_SLOTS 8192

struct httpd_limiter {
	pthread_mutex_t lock;
	int64_t rate_per_s;
	struct httpd_bucket {
		uint64_t client; /* key of the address */
		int64_t micro_tokens, at_ns;
	} slots[HTTPD_LIMITER_SLOTS];
};

/* Returns whether the client may send a request now. A bucket holds the requests of 5 s. */
bool httpd_limiter_take(struct httpd_limiter *l, uint64_t client, int64_t now_ns);

/* The resources that one client uses at present; freed with its last connection. */
struct httpd_client {
	struct httpd_client *next;
	uint64_t key;
	int connections;
	/* handlers that run in the pool, and requests that wait for one, under its lock */
	int in_pool, waiting;
	_Atomic size_t class_bytes[HTTPD_CLASSES], reply_bytes;
};

#define HTTPD_CLIENT_SLOTS 4096

struct httpd_clients {
	pthread_mutex_t lock;
	struct httpd_client *slots[HTTPD_CLIENT_SLOTS];
};

/* Counts one more connection of a client. Returns NULL if it has max of them already. */
struct httpd_client *httpd_clients_enter(struct httpd_clients *all, uint64_t key,
	int max);
void httpd_clients_leave(struct httpd_clients *all, struct httpd_client *client);

/* A budget of memory for one purpose. */
struct httpd_budget {
	_Atomic size_t used;
	size_t max, share; /* limits of all clients, of one client */
};

/* Takes bytes out of the budget, for the client whose use is mine (NULL: no share). Returns
 * false, and takes nothing, when the budget is exhausted. */
bool httpd_budget_take(struct httpd_budget *b, _Atomic size_t *mine, size_t bytes);
/* The same, even if the budget is exhausted. */
void httpd_budget_force(struct httpd_budget *b, _Atomic size_t *mine, size_t bytes);
void httpd_budget_give(struct httpd_budget *b, _Atomic size_t *mine, size_t bytes);

/* Whether the address is this machine's own loopback (IPv4 within IPv6 included). */
bool httpd_is_loopback(const struct sockaddr *client);

/* Whether a name is "localhost", "127.1.2.3", "[::1]" or "a.localhost", each with or without a
 * port. */
bool httpd_is_loopback_name(const char *host);
/* Whether only this machine can connect to what listens there: "127.0.0.1:8080". */
bool httpd_listens_alone(const char *listen);

/* The key of an address that is given as text, as httpd_request has it: of IPv6 a /64 is one. */
uint64_t httpd_client_group(const char *client);

/* Returns the address as text, "203.0.113.7"; "" where there is none. */
void httpd_client_text(const struct sockaddr *client, char text[INET6_ADDRSTRLEN]);

/* Raises the limit of file descriptors, as every connection is one: to the wanted number, or as
 * far as the system allows. */
int httpd_connections_possible(int wanted);

/* Puts defaults in place of zeros. */
void httpd_defaults(struct httpd_config *c);

/* Blocks SIGTERM and SIGINT, which httpd_wait awaits, in this thread and those it makes. */
void httpd_block_signals(void);

/* Sleeps for a second at most; returns true when one of the two signals came. */
bool httpd_is_signalled(void);

/* Writes the port to a file; path NULL: does nothing. */
int httpd_write_port(const char *path, int port);

#endif
