/* The TCP connections of httpd: who is slow, and how far away. */
#include <linux/tcp.h> /* netinet/tcp.h lacks tcpi_min_rtt */
#include <stddef.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/net/httpd_parts.h"
#include "common/base/mem.h"

struct httpd_tcp *httpd_tcp_add(struct httpd_connections *all, int fd)
{
	struct httpd_tcp *c = xcalloc(1, sizeof *c);
	int on = 1;

	c->fd = fd;
	c->since_ns = clock_mono_ns();
	/* replies are written whole: without this, the last piece of a TLS reply
	 * waits 40 ms for an acknowledgement that the client delays */
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	pthread_mutex_lock(&all->lock);
	c->next = all->first;
	c->link = &all->first;
	if (c->next)
		c->next->link = &c->next;
	all->first = c;
	pthread_mutex_unlock(&all->lock);
	return c;
}

void httpd_tcp_remove(struct httpd_connections *all, struct httpd_tcp *c)
{
	pthread_mutex_lock(&all->lock);
	*c->link = c->next;
	if (c->next)
		c->next->link = c->link;
	pthread_mutex_unlock(&all->lock);
	free(c);
}

/* libmicrohttpd's own timeout begins anew with every byte, so that a client that sends one
 * now and then would stay for ever. */
uint64_t httpd_close_slow(struct httpd_connections *all, int64_t limit_ns)
{
	int64_t now_ns = clock_mono_ns();
	uint64_t within = 0;

	pthread_mutex_lock(&all->lock);
	for (struct httpd_tcp *c = all->first; c; c = c->next) {
		int64_t since_ns = c->since_ns;

		if (since_ns && now_ns - since_ns > (c->idle ? limit_ns / 2 : limit_ns)) {
			shutdown(c->fd, SHUT_RDWR);
			c->since_ns = 0;
			within += !c->idle;
		}
	}
	pthread_mutex_unlock(&all->lock);
	return within;
}

int64_t httpd_tcp_roundtrip_ns(const struct httpd_tcp *c)
{
	struct tcp_info info = { 0 };
	socklen_t len = sizeof info;

	/* tcpi_min_rtt, since Linux 4.6: the mean would hold the queues that the body itself made */
	if (getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0 ||
		len < offsetof(struct tcp_info, tcpi_min_rtt) +
				sizeof info.tcpi_min_rtt ||
		info.tcpi_min_rtt == UINT32_MAX) /* not measured yet */
		return 0;
	return (int64_t)info.tcpi_min_rtt * 1000;
}
