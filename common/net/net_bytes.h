/* net_bytes.h - what a TCP socket has carried so far: payload with headers of HTTP, TLS and what was
 * sent twice, without headers of TCP and IP. Uses Linux. */
#ifndef RNP_COMMON_NET_NET_BYTES_H
#define RNP_COMMON_NET_NET_BYTES_H

#include <stdint.h>

struct net_bytes {
	uint64_t sent, received;
};

/* Zeros where the kernel (before 4.19) or the socket does not know. */
void net_bytes(int fd, struct net_bytes *out);

#endif
