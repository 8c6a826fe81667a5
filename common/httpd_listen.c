/* Where httpd listens, and what it does unless told otherwise. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/err.h"
#include "common/httpd_parts.h"
#include "common/io.h"

#define CONNECTIONS_MAX   4096
#define PER_CLIENT_MAX    512
#define REQUEST_TIMEOUT_S 20
#define THREADS_MAX       8

/* "host:port", "[v6]:port", ":port" */
static int split_address(const char *text, char host[256], char port[8])
{
	const char *colon = strrchr(text, ':');
	const char *start = text, *end = colon;
	char *junk;

	if (!colon || !colon[1] || strlen(colon + 1) > 5 ||
		strspn(colon + 1, "0123456789") != strlen(colon + 1) ||
		strtoul(colon + 1, &junk, 10) > 65535)
		return err_set(EX_USAGE, "--listen: '%.60s' is not HOST:PORT", text);
	if (*text == '[') {
		start++;
		end--;
		if (end <= start || *end != ']')
			return err_set(EX_USAGE, "--listen: '%.60s' is not HOST:PORT",
				text);
	}
	if (end - start > 255)
		return err_set(EX_USAGE, "--listen: the host's name is too long");
	snprintf(host, 256, "%.*s", (int)(end - start), start);
	snprintf(port, 8, "%s", colon + 1);
	return 0;
}

/* A listening socket, or -1 with errno. */
static int try_listen(const struct addrinfo *a)
{
	int on = 1, off = 0,
	    fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (a->ai_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
	if (bind(fd, a->ai_addr, a->ai_addrlen) < 0 || listen(fd, 1024) < 0) {
		int error = errno;

		close(fd);
		errno = error;
		return -1;
	}
	return fd;
}

int httpd_listen(const char *text, int *port_out)
{
	struct addrinfo hints = { .ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM },
			*list, *a;
	struct sockaddr_storage bound;
	socklen_t len = sizeof bound;
	char host[256], port[8];
	int rc, fd = -1;

	if (split_address(text, host, port) < 0)
		return -1;
	if (!host[0])
		hints.ai_family = AF_INET6; /* with IPv4 inside */
	rc = getaddrinfo(host[0] ? host : NULL, port, &hints, &list);
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

int httpd_connections_possible(int wanted)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return wanted;
	if (limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
		getrlimit(RLIMIT_NOFILE, &limit);
	}
	if (limit.rlim_cur != RLIM_INFINITY && (rlim_t)wanted + 64 > limit.rlim_cur)
		return limit.rlim_cur > 128 ? (int)limit.rlim_cur - 64 : 64;
	return wanted;
}

void httpd_defaults(struct httpd_config *c)
{
	if (!c->threads) {
		long cores = sysconf(_SC_NPROCESSORS_ONLN);

		c->threads = cores < 2      ? 2 :
			cores > THREADS_MAX ? THREADS_MAX :
					      (int)cores;
	}
	if (!c->connections_max)
		c->connections_max = CONNECTIONS_MAX;
	if (!c->per_client_max)
		c->per_client_max = PER_CLIENT_MAX;
	if (!c->request_timeout_s)
		c->request_timeout_s = REQUEST_TIMEOUT_S;
}

int httpd_write_port(const char *path, int port)
{
	char text[16];
	int n = snprintf(text, sizeof text, "%d\n", port);

	return path ? io_replace(path, text, (size_t)n, 0644) : 0;
}

static void stop_signals(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGINT);
}

void httpd_block_signals(void)
{
	sigset_t set;

	stop_signals(&set);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

bool httpd_is_signalled(void)
{
	struct timespec second = { 1, 0 };
	sigset_t set;

	stop_signals(&set);
	return sigtimedwait(&set, NULL, &second) >= 0;
}
