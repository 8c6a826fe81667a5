/* net.c - TCP sockets: addresses as texts, connections with time limits, and transfers of all
 * bytes or an error. */
#include "common/net/net.h"

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/err.h"

#define BACKLOG 1024

int net_split(const char *text, const char *what, char host[NET_HOST_MAX], int *port)
{
	const char *colon = strrchr(text, ':');
	const char *start = text, *end = colon;

	if (!colon || !colon[1] || strlen(colon + 1) > 5 ||
		strspn(colon + 1, "0123456789") != strlen(colon + 1) ||
		strtoul(colon + 1, NULL, 10) > 65535)
		return err_set(EX_USAGE, "%s: '%.60s' is not HOST:PORT", what, text);
	if (*text == '[') {
		start++;
		end--;
		if (end <= start || *end != ']')
			return err_set(EX_USAGE, "%s: '%.60s' is not HOST:PORT", what,
				text);
	}
	if (end - start >= NET_HOST_MAX)
		return err_set(EX_USAGE, "%s: the host's name is too long", what);
	snprintf(host, NET_HOST_MAX, "%.*s", (int)(end - start), start);
	*port = atoi(colon + 1);
	return 0;
}

/* Returns a listening socket, or -1 with errno. */
static int try_listen(const struct addrinfo *a)
{
	int on = 1, off = 0,
	    fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (a->ai_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
	if (bind(fd, a->ai_addr, a->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0) {
		int error = errno;

		close(fd);
		errno = error;
		return -1;
	}
	return fd;
}

int net_listen(const char *text, const char *what, int *port_out)
{
	struct addrinfo hints = { .ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM },
			*list, *a;
	struct sockaddr_storage bound;
	socklen_t len = sizeof bound;
	char host[NET_HOST_MAX], service[8];
	int rc, port, fd = -1;

	if (net_split(text, what, host, &port) < 0)
		return -1;
	if (!host[0])
		hints.ai_family = AF_INET6; /* includes IPv4 */
	snprintf(service, sizeof service, "%d", port);
	rc = getaddrinfo(host[0] ? host : NULL, service, &hints, &list);
	if (rc)
		return err_set(EX_UNAVAILABLE, "cannot listen on '%s': %s", text,
			gai_strerror(rc));
	errno = 0;
	for (a = list; a && fd < 0; a = a->ai_next)
		fd = try_listen(a);
	freeaddrinfo(list);
	if (fd < 0)
		return err_sys(errno == EACCES ? EX_NOPERM : EX_UNAVAILABLE,
			"cannot listen on '%s'", text);
	if (getsockname(fd, (struct sockaddr *)&bound, &len) < 0) {
		err_sys(EX_OSERR, "cannot listen on '%s'", text);
		close(fd);
		return -1;
	}
	*port_out = ntohs(bound.ss_family == AF_INET6 ?
			((struct sockaddr_in6 *)&bound)->sin6_port :
			((struct sockaddr_in *)&bound)->sin_port);
	return fd;
}

int net_tune(int fd, int64_t timeout_ms)
{
	struct timeval t = { timeout_ms / 1000, timeout_ms % 1000 * 1000 };
	int on = 1;

	/* the socket pairs of tests have no such option */
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t) < 0 ||
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t) < 0)
		return err_sys(EX_OSERR, "cannot set the limits of a socket");
	return 0;
}

int net_wait(int fd, short events, int64_t deadline_ns)
{
	struct pollfd p = { fd, events, 0 };
	int64_t left_ms;
	int rc;

	do {
		left_ms = (deadline_ns - clock_mono_ns()) / 1000000;
		rc = poll(&p, 1, left_ms > 0 ? (int)left_ms : 0);
	} while (rc < 0 && errno == EINTR);
	return rc;
}

/* Returns a connected socket, or -1 with errno. */
static int try_connect(const struct addrinfo *a, int64_t deadline_ns)
{
	int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int error = 0, ready = 1;
	socklen_t len = sizeof error;

	if (fd < 0)
		return -1;
	if (connect(fd, a->ai_addr, a->ai_addrlen) < 0) {
		error = errno;
		if (error == EINPROGRESS) {
			ready = net_wait(fd, POLLOUT, deadline_ns);
			if (ready <= 0)
				error = ready ? errno : ETIMEDOUT;
			else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
				error = errno;
		}
	}
	if (!error && fcntl(fd, F_SETFL, 0) < 0)
		error = errno;
	if (!error)
		return fd;
	close(fd);
	errno = error;
	return -1;
}

int net_connect(const char *host, int port, int64_t timeout_ms)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list;
	int64_t deadline_ns = clock_mono_ns() + timeout_ms * 1000000;
	char service[8];
	int rc, fd = -1;

	snprintf(service, sizeof service, "%d", port);
	rc = getaddrinfo(host, service, &hints, &list);
	if (rc)
		return err_set(EX_UNAVAILABLE, "cannot reach '%s': %s", host,
			gai_strerror(rc));
	for (struct addrinfo *a = list; a && fd < 0; a = a->ai_next)
		fd = try_connect(a, deadline_ns);
	freeaddrinfo(list);
	if (fd < 0)
		return err_sys(errno == ETIMEDOUT ? EX_TEMPFAIL : EX_UNAVAILABLE,
			"cannot reach '%s' port %d", host, port);
	if (net_tune(fd, timeout_ms) == 0)
		return fd;
	close(fd);
	return -1;
}

int net_accept(int listen_fd, int64_t timeout_ms)
{
	int64_t deadline_ns = clock_mono_ns() + timeout_ms * 1000000;
	int fd, ready;

	do {
		ready = net_wait(listen_fd, POLLIN, deadline_ns);
		if (ready <= 0)
			return err_set(EX_TEMPFAIL, "nobody connected in time");
		fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
	} while (fd < 0 && (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED));
	if (fd < 0)
		return err_sys(EX_OSERR, "cannot accept a connection");
	if (net_tune(fd, timeout_ms) == 0)
		return fd;
	close(fd);
	return -1;
}

int net_failed(const char *verb, long n)
{
	if (n == 0)
		return err_set(EX_UNAVAILABLE, "the peer closed the connection");
	if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ETIMEDOUT)
		return err_set(EX_TEMPFAIL, "the peer stalls: cannot %s in time", verb);
	return err_sys(EX_UNAVAILABLE, "the peer is gone: cannot %s", verb);
}

int net_send(int fd, const void *data, size_t bytes)
{
	const char *from = data;

	while (bytes) {
		ssize_t n = send(fd, from, bytes, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return net_failed("send", -1);
		from += n;
		bytes -= (size_t)n;
	}
	return 0;
}

int net_receive(int fd, void *data, size_t bytes)
{
	char *to = data;

	while (bytes) {
		ssize_t n = recv(fd, to, bytes, MSG_WAITALL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return net_failed("receive", n);
		to += n;
		bytes -= (size_t)n;
	}
	return 0;
}

/* --- kinds of addresses ------------------------------------------------------------------ */

static bool v4_is_private(const unsigned char a[4])
{
	return a[0] == 0 || a[0] == 10 || a[0] == 127 || a[0] >= 224 ||
		(a[0] == 100 && (a[1] & 0xc0) == 64) || (a[0] == 169 && a[1] == 254) ||
		(a[0] == 172 && (a[1] & 0xf0) == 16) || (a[0] == 192 && a[1] == 168) ||
		(a[0] == 198 && (a[1] & 0xfe) == 18) ||
		(a[0] == 192 && a[1] == 0 && a[2] == 0);
}

static bool v6_is_private(const unsigned char a[16])
{
	static const unsigned char mapped[12] = { [10] = 0xff, [11] = 0xff };
	static const unsigned char nat64[12] = { 0, 0x64, 0xff, 0x9b };
	static const unsigned char zeros[12] = { 0 };

	if (memcmp(a, mapped, 12) == 0 || memcmp(a, nat64, 12) == 0 ||
		memcmp(a, zeros, 12) == 0) /* :: and ::1 are 0.0.0.0 and 0.0.0.1 */
		return v4_is_private(a + 12);
	if (a[0] == 0x20 && a[1] == 0x02) /* 6to4 */
		return v4_is_private(a + 2);
	return (a[0] & 0xfe) == 0xfc || (a[0] == 0xfe && (a[1] & 0xc0) == 0x80) ||
		(a[0] == 0xfe && (a[1] & 0xc0) == 0xc0) || a[0] == 0xff;
}

bool net_is_private(const struct sockaddr *address)
{
	if (address->sa_family == AF_INET) {
		struct sockaddr_in in;

		memcpy(&in, address, sizeof in);
		return v4_is_private((const unsigned char *)&in.sin_addr);
	}
	if (address->sa_family == AF_INET6) {
		struct sockaddr_in6 in6;

		memcpy(&in6, address, sizeof in6);
		return v6_is_private(in6.sin6_addr.s6_addr);
	}
	return true;
}

bool net_same_host(const struct sockaddr *a, const struct sockaddr *b)
{
	struct sockaddr_in6 x, y;

	if (a->sa_family != b->sa_family)
		return false;
	if (a->sa_family == AF_INET) {
		struct sockaddr_in v, w;

		memcpy(&v, a, sizeof v);
		memcpy(&w, b, sizeof w);
		return v.sin_addr.s_addr == w.sin_addr.s_addr;
	}
	if (a->sa_family != AF_INET6)
		return false;
	memcpy(&x, a, sizeof x);
	memcpy(&y, b, sizeof y);
	return memcmp(&x.sin6_addr, &y.sin6_addr, sizeof x.sin6_addr) == 0 &&
		x.sin6_scope_id == y.sin6_scope_id;
}

bool net_is_own(const struct sockaddr *address)
{
	struct ifaddrs *all = NULL;
	bool own = false;

	/* who cannot look takes it for one */
	if (getifaddrs(&all) < 0)
		return true;
	for (struct ifaddrs *a = all; a && !own; a = a->ifa_next)
		own = a->ifa_addr && a->ifa_addr->sa_family == address->sa_family &&
			net_same_host(a->ifa_addr, address);
	freeifaddrs(all);
	return own;
}
