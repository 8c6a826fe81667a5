/* net.c - measures the link to a peer: bytes down and up, and the round trip of a small
 * message.
 *
 * It uses a plain TCP connection if the peer has a reachable listener, otherwise HTTP.
 * Downloads are counted here; uploads are counted by the peer, which reports how much has
 * arrived, so that buffers on the way do not count. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cmd/rnp-bench/peer/peer.h"
#include "cmd/rnp-bench/suites/suite.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/json/json.h"
#include "common/base/mem.h"
#include "common/base/rng.h"

#define HTTP_FIRST_BYTES ((size_t)64 << 10)
#define HTTP_BYTES_MAX   ((size_t)4 << 20)
#define HTTP_LONG_NS     200000000

/* A connection starts slowly: with 10 segments, and twice as many after each round trip. After
 * ten round trips it has 15 MB in flight, or has reached the limit of the network. */
#define RAMP_TRIPS  10
#define RAMP_NEAR   1000000 /* ns: a round trip that needs no ramp */
#define RAMP_MAX_NS INT64_C(2000000000)

static struct {
	struct peer peer;
	bool open;
	int fd; /* of the session, -1: by HTTP */
	char *block;
	size_t bytes; /* of one HTTP request */
	uint64_t sent, arrived;
} net = { .fd = -1 };

static int open_peer(const struct settings *s)
{
	struct rng rng;

	if (!s->peer)
		return err_set(EX_UNAVAILABLE,
			"no peer to measure against: name one with --peer URL");
	if (!net.open && peer_open(&net.peer, s->peer) < 0)
		return -1;
	net.open = true;
	if (!net.block) {
		net.block = xmalloc(HTTP_BYTES_MAX);
		rng_seed(&rng, 3, 4);
		rng_bytes(&rng, net.block, HTTP_BYTES_MAX);
	}
	return 0;
}

static void close_net(void)
{
	if (net.open)
		peer_close(&net.peer);
	free(net.block);
	net.block = NULL;
	net.open = false;
}

static void hang_up(void)
{
	if (net.fd >= 0)
		close(net.fd);
	net.fd = -1;
}

/* Opens a session, or uses HTTP where the listener cannot be reached. */
static int open_session(const struct settings *s, enum peer_op op)
{
	if (open_peer(s) < 0)
		return -1;
	net.sent = net.arrived = 0;
	net.bytes = HTTP_FIRST_BYTES;
	net.fd = peer_dial(&net.peer, op);
	if (net.fd < 0 && err_get()->code != EX_UNAVAILABLE)
		return -1;
	if (net.fd < 0)
		err_clear();
	return 0;
}

static int open_ping(const struct settings *s)
{
	return open_session(s, PEER_PING);
}

/* Makes requests that grow until their own cost no longer shows. */
static void grow(int64_t took_ns)
{
	if (net.bytes < HTTP_BYTES_MAX && net.bytes <= net.peer.bytes_max / 2 &&
		took_ns < HTTP_LONG_NS)
		net.bytes *= 2;
}

static int down_by_http(double *work)
{
	struct http_response r = HTTP_RESPONSE_INIT;
	int64_t from = clock_mono_ns();
	size_t n = net.bytes;
	char path[64];
	int rc;

	snprintf(path, sizeof path, "/v1/bytes/%zu", n);
	rc = peer_fetch(&net.peer, path, NULL, 0, n, &r);
	grow(clock_mono_ns() - from);
	*work = (double)n;
	http_response_release(&r);
	return rc;
}

static int step_down(double *work)
{
	ssize_t n;

	if (net.fd < 0)
		return down_by_http(work);
	do
		n = recv(net.fd, net.block, PEER_BLOCK, 0);
	while (n < 0 && errno == EINTR);
	*work = (double)n;
	if (n == 0)
		return err_set(EX_DATAERR, "'%s' broke off in the middle of its bytes",
			net.peer.url);
	return n < 0 ? net_failed("receive", -1) : 0;
}

static int lies(void)
{
	return err_set(EX_DATAERR,
		"'%s' lies about sizes: it counts %llu bytes, %llu were sent",
		net.peer.url, (unsigned long long)net.arrived,
		(unsigned long long)net.sent);
}

static int up_by_http(double *work)
{
	struct http_response r = HTTP_RESPONSE_INIT;
	json_t *reply = NULL;
	int64_t bytes, from = clock_mono_ns();
	size_t n = net.bytes;
	int rc = peer_fetch(&net.peer, "/v1/bytes", net.block, n, 0, &r);

	grow(clock_mono_ns() - from);
	if (rc == 0) {
		reply = json_parse_object(buf_text(&r.body), r.body.len, net.peer.url);
		rc = reply ? json_get_i64(reply, net.peer.url, "bytes", 0,
				     JSON_SAFE_INTEGER_MAX, &bytes) :
			     -1;
	}
	if (rc == 0 && bytes != (int64_t)n) {
		net.sent = n;
		net.arrived = (uint64_t)bytes;
		rc = lies();
	}
	*work = (double)n;
	json_decref(reply);
	http_response_release(&r);
	return rc;
}

/* Reads reports, which are 8 bytes and arrive whole or in pieces; wait: until there is one. */
static int read_reports(bool wait)
{
	uint64_t report;
	char *to = (char *)&report;
	size_t have = 0;

	for (;;) {
		ssize_t n = recv(net.fd, to + have, sizeof report - have,
			wait || have ? 0 : MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && !wait && !have && (errno == EAGAIN || errno == EWOULDBLOCK))
			return 0;
		/* the last report and the end may come together */
		if (n == 0 && !have && net.arrived == net.sent)
			return 0;
		if (n == 0)
			return err_set(EX_DATAERR,
				"'%s' broke off in the middle of its bytes",
				net.peer.url);
		if (n < 0)
			return net_failed("receive", -1);
		have += (size_t)n;
		if (have < sizeof report)
			continue;
		if (report < net.arrived || report > net.sent) {
			net.arrived = report;
			return lies();
		}
		net.arrived = report;
		have = 0;
		wait = false;
	}
}

/* Sends while the socket takes it, until the peer reports that more has arrived. */
static int step_up(double *work)
{
	int64_t deadline_ns = clock_mono_ns() + PEER_TIMEOUT_MS * INT64_C(1000000);
	uint64_t before = net.arrived;

	if (net.fd < 0)
		return up_by_http(work);
	while (net.arrived == before) {
		ssize_t n = send(net.fd, net.block, PEER_BLOCK, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return net_failed("send", -1);
		net.sent += (uint64_t)n;
		if (clock_mono_ns() > deadline_ns)
			return err_set(EX_TEMPFAIL,
				"'%s' stalls: it does not say what has arrived",
				net.peer.url);
		if (read_reports(false) < 0)
			return -1;
	}
	*work = (double)(net.arrived - before);
	return 0;
}

/* Bytes sent while a connection is still getting faster do not count. */
static int ramp_up(int (*step)(double *))
{
	int64_t ramp_ns = net.peer.hello_ns * RAMP_TRIPS, from = clock_mono_ns();
	double work;

	if (net.fd < 0 || net.peer.hello_ns < RAMP_NEAR)
		return 0;
	if (ramp_ns > RAMP_MAX_NS)
		ramp_ns = RAMP_MAX_NS;
	while (clock_mono_ns() - from < ramp_ns)
		if (step(&work) < 0)
			return -1;
	return 0;
}

static int open_down(const struct settings *s)
{
	return open_session(s, PEER_DOWN) < 0 ? -1 : ramp_up(step_down);
}

static int open_up(const struct settings *s)
{
	return open_session(s, PEER_UP) < 0 ? -1 : ramp_up(step_up);
}

/* Checks that all that was sent has arrived, and no more. */
static int check_up(void)
{
	if (net.fd < 0)
		return 0;
	if (shutdown(net.fd, SHUT_WR) < 0)
		return net_failed("send", -1);
	while (net.arrived < net.sent)
		if (read_reports(true) < 0)
			return err_add("at the end of %llu bytes",
				(unsigned long long)net.sent);
	return 0;
}

static int step_ping(double *work)
{
	struct http_response r = HTTP_RESPONSE_INIT;
	char byte = 'p', back = 0;
	int rc;

	*work = 1;
	if (net.fd < 0) {
		rc = peer_fetch(&net.peer, "/v1/bytes/1", NULL, 0, 1, &r);
		http_response_release(&r);
		return rc;
	}
	if (net_send(net.fd, &byte, 1) < 0 || net_receive(net.fd, &back, 1) < 0)
		return -1;
	return back == byte ?
		0 :
		err_set(EX_DATAERR, "'%s' sends back another byte", net.peer.url);
}

static void describe(json_t *params)
{
	json_set_text(params, "transport", net.fd < 0 ? "http" : "tcp");
	json_set_i64(params, "block_bytes",
		net.fd < 0 ? (int64_t)net.bytes : (int64_t)PEER_BLOCK);
}

static void describe_ping(json_t *params)
{
	json_set_text(params, "transport", net.fd < 0 ? "http" : "tcp");
}

static const char *device(void)
{
	return net.open ? net.peer.url : "";
}

static const struct test tests[] = {
	{ "down", "B/s", "bytes from the peer over one connection", false, open_down,
		step_down, NULL, describe, hang_up },
	{ "up", "B/s", "bytes to the peer over one connection, as they arrive there",
		false, open_up, step_up, check_up, describe, hang_up },
	{ "ping", "ns", "one byte to the peer and back", true, open_ping, step_ping, NULL,
		describe_ping, hang_up },
	{ 0 },
};

const struct suite suite_net = { "net", tests, device, close_net, NULL, NULL };
