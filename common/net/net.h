/* net.h - TCP sockets with time limits: listen, connect, and whole messages. Uses libc, err,
 * clock.
 *
 * Sockets block, are closed on exec and send without Nagle's delay. A peer that does nothing
 * for the time given to net_tune has stalled (75); a peer that closes in the middle of a
 * message has left (69). */
#ifndef RNP_COMMON_NET_NET_H
#define RNP_COMMON_NET_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sockaddr;

#define NET_HOST_MAX 256

/* Opens a listening socket that does not block, for "HOST:PORT", "[v6]:PORT" or ":PORT" (all
 * addresses). *port is the port that was bound; what names the text in errors ("--listen").
 * Returns the socket, or -1 with err_set: 64 malformed, 69 in use or not of this machine, 77
 * not permitted. */
int net_listen(const char *text, const char *what, int *port);

/* Takes "HOST:PORT" apart; the port may be 0. Returns 0, or -1 (64). */
int net_split(const char *text, const char *what, char host[NET_HOST_MAX], int *port);

/* Waits until fd is ready for events of poll(2), at most until deadline_ns of the monotonic clock.
 * Returns 1, 0 when it is not in time, or -1 with errno. */
int net_wait(int fd, short events, int64_t deadline_ns);

/* Returns a connected and tuned socket, or -1: 69 unreachable, 75 no answer in time. */
int net_connect(const char *host, int port, int64_t timeout_ms);

/* Returns the next connection, tuned, or -1: 75 none came in time. */
int net_accept(int listen_fd, int64_t timeout_ms);

/* Switches off the delay of small messages, and sets how long a peer may do nothing. */
int net_tune(int fd, int64_t timeout_ms);

/* Send or receive all of the bytes. Return 0, or -1: 75 stalled, 69 closed. */
int net_send(int fd, const void *data, size_t bytes);
int net_receive(int fd, void *data, size_t bytes);

/* Whether an address is not on the public internet: loopback, private (RFC 1918, RFC 4193),
 * link-local, shared (RFC 6598), multicast, reserved, or an IPv6 form of such an IPv4 address.
 * Families other than IPv4 and IPv6 count as private. Pure. */
bool net_is_private(const struct sockaddr *address);

/* Whether an address is one of this machine's, whatever it is to others. */
bool net_is_own(const struct sockaddr *address);

/* Whether two addresses are of one host, whatever their ports. Pure. */
bool net_same_host(const struct sockaddr *a, const struct sockaddr *b);

/* Sets the error of a send or receive that returned n <= 0 with errno. Returns -1. */
int net_failed(const char *verb, long n);

#endif
