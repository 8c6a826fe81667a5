/* bytes.h - counts the bytes that a TCP socket has carried so far, and its round trip: payload with
 * headers of HTTP and TLS and with retransmissions, without headers of TCP and IP. Uses Linux. */
#ifndef RNP_COMMON_NET_BYTES_H
#define RNP_COMMON_NET_BYTES_H

#include <stdint.h>

struct net_bytes {
	uint64_t sent, received;
	int64_t rtt_us; /* round trip, smoothed */
};

/* Returns zeros where the kernel (before 4.19) or the socket does not count. */
void net_bytes(int fd, struct net_bytes *out);

#endif
