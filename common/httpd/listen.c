/* listen.c - defaults of httpd, signals, and the limit of file descriptors. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/base/err.h"
#include "common/httpd/parts.h"
#include "common/base/io.h"
#include "kernels/dev/cpus.h"

#define CONNECTIONS_MAX   4096
#define PER_CLIENT_MAX    512
#define REQUEST_TIMEOUT_S 20
#define LEAST_BYTES       16384
#define THREADS_MAX       8

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
		int cores = cpus_usable();

		c->threads = cores < 2 ? 2 : cores > THREADS_MAX ? THREADS_MAX : cores;
	}
	if (!c->slow_threads)
		c->slow_threads = c->threads;
	if (!c->connections_max)
		c->connections_max = CONNECTIONS_MAX;
	if (!c->per_client_max)
		c->per_client_max = PER_CLIENT_MAX;
	if (!c->request_timeout_s)
		c->request_timeout_s = REQUEST_TIMEOUT_S;
	if (!c->min_bytes)
		c->min_bytes = LEAST_BYTES;
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
