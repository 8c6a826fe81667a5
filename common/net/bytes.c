/* bytes.c - counts the bytes that a TCP socket has carried, as the kernel reports them.
 * Separate from net.c, because the kernel's header of TCP and libc's cannot be included
 * together. */
#include "common/net/bytes.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>

void net_bytes(int fd, struct net_bytes *out)
{
	struct tcp_info i = { 0 };
	socklen_t len = sizeof i;

	*out = (struct net_bytes){ 0 };
	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &i, &len) < 0 ||
		len < offsetof(struct tcp_info, tcpi_bytes_sent) +
				sizeof i.tcpi_bytes_sent)
		return;
	out->sent = i.tcpi_bytes_sent;
	out->received = i.tcpi_bytes_received;
	out->rtt_us = i.tcpi_rtt;
}
