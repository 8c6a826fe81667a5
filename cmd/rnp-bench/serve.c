/* serve.c - rnp-bench serve: runs the peer that net and comm measure against. */
#include "cmd/rnp-bench/peer/serve.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "cmd/rnp-bench/commands.h"
#include "cmd/rnp-bench/peer/peer.h"
#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/httpd/httpd.h"
#include "common/httpd/parts.h"
#include "common/base/mem.h"
#include "common/cli/prog.h"

#define CONNECTIONS_MAX 256
#define PER_CLIENT_MAX  16
#define RANDOM_BYTES    ((size_t)4 << 20)

static const char *listen_on, *port_file, *log_file, *key_path;
static int64_t tcp_port;

static const struct opt opts[] = {
	OPT_LISTEN(&listen_on),
	OPT_PORT_FILE(&port_file),
	OPT_IN(I64, "tcp-port", &tcp_port, "N", 1, 65535,
		"of the plain TCP listener (default any free one)"),
	OPT_LOG_FILE(&log_file),
	OPT_KEY(&key_path),
	{ 0 },
};

/* Logs sessions where requests are logged. */
static int open_log(int *fd)
{
	*fd = prog_quiet() && !log_file ? -1 : STDERR_FILENO;
	if (!log_file)
		return 0;
	*fd = open(log_file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
	return *fd < 0 ? err_sys(0, "cannot open log file '%s'", log_file) : 0;
}

/* Sends the same 4 MiB again and again, a distance beyond the window of any compressor on the
 * way. */
static char *random_bytes(size_t bytes)
{
	char *data = xmalloc(bytes);

	for (size_t at = 0; at < RANDOM_BYTES;) {
		ssize_t n = getrandom(data + at, RANDOM_BYTES - at, 0);

		if (n > 0)
			at += (size_t)n;
	}
	for (size_t at = RANDOM_BYTES; at < bytes; at += RANDOM_BYTES)
		memcpy(data + at, data, RANDOM_BYTES);
	return data;
}

/* Writes the same host with the port of the sessions. */
static void tcp_address(char out[NET_HOST_MAX + 16])
{
	const char *colon = strrchr(listen_on, ':');
	int host = colon ? (int)(colon - listen_on) : 0;

	snprintf(out, NET_HOST_MAX + 16, "%.*s:%d", host < NET_HOST_MAX ? host : 0,
		listen_on, (int)tcp_port);
}

static int serve(struct serve *s, int log)
{
	const struct httpd_config config = {
		.listen = listen_on,
		.port_file = port_file,
		.log_file = log_file,
		.log_off = prog_quiet() && !log_file,
		.connections_max = CONNECTIONS_MAX,
		.per_client_max = PER_CLIENT_MAX,
		.routes = serve_routes,
		.ctx = s,
	};
	char address[NET_HOST_MAX + 16], host[NET_HOST_MAX];
	struct serve_tcp *tcp;
	struct buf url = BUF_INIT;
	struct httpd *h;
	int port;

	if (net_split(listen_on, "--listen", host, &port) < 0)
		return -1;
	tcp_address(address);
	httpd_block_signals(); /* before there is any thread */
	tcp = serve_tcp_start(address, log);
	if (!tcp)
		return -1;
	s->tcp_port = serve_tcp_port(tcp);
	h = httpd_start(&config);
	if (h) {
		httpd_url(&url, h);
		prog_info(
			"%.*s is a peer: rnp-bench run --suite net --peer %.*s; port %d takes TCP sessions",
			(int)url.len - 1, url.data, (int)url.len - 1, url.data,
			s->tcp_port);
		buf_release(&url);
		httpd_wait(h, NULL);
		httpd_stop(h);
	}
	serve_tcp_stop(tcp);
	return h ? 0 : -1;
}

/* Without a key there is no bandwidth test; a key that was named must exist. */
static int find_key(struct serve *s, struct key *key)
{
	if (key_load(key, key_path, NULL) == 0) {
		s->key = key;
		return 0;
	}
	if (key_path)
		return -1;
	err_clear();
	return 0;
}

static int run(int n, char **args)
{
	struct serve s = { .output = PTHREAD_MUTEX_INITIALIZER };
	char *random = random_bytes(PEER_BYTES_MAX);
	struct key key = KEY_INIT;
	int log = -1, rc = open_log(&log);

	(void)n, (void)args;
	s.random = random;
	s.exchanges = bandwidth_tests_new();
	if (rc == 0)
		rc = find_key(&s, &key);
	if (rc == 0)
		rc = serve(&s, log);
	bandwidth_tests_free(s.exchanges);
	key_release(&key);
	if (log_file && log >= 0)
		close(log);
	free(random);
	return rc < 0 ? err_report() : EX_OK;
}

const struct command command_serve = {
	.name = "serve",
	.summary = "The peer that net and comm measure against, and that measures nodes.",
	.details =
		"Anybody who reaches it can use its network and some memory; the limits are in "
		"rnp-bench(1).\nEnds on SIGTERM and SIGINT.",
	.opts = opts,
	.run = run,
};
