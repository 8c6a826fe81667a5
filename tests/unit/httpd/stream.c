/* stream.c - httpd's streams on loopback: bodies taken in pieces with pauses, refusals
 * before the body, files with ranges, sources, replies written by other threads, who leaves,
 * limits by rate and by budget. The client is raw sockets, so that it sees what is sent;
 * long because it is one table of cases against one server. */
#include "common/httpd/httpd.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/httpd/parts.h"
#include "tests/unit/test.h"

#define WAIT_MS 20000 /* for what comes at once on a quiet machine */

static int port;
static char file_path[] = "/tmp/httpd_stream.XXXXXX";

/* --- the program: handlers -------------------------------------------------------------- */

/* For the server's threads: counting of checks is the client's. */
static void must(bool promise)
{
	if (!promise)
		abort();
}

/* Resumes what has paused, half a millisecond later, from a thread of its own. Whoever pauses
 * leaves its request here, and takes it back when it is done. */
static struct {
	pthread_mutex_t lock;
	struct httpd_request *q[64];
	bool stop;
	pthread_t thread;
} resumer = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void resume_soon(struct httpd_request *q)
{
	int i = 0;

	pthread_mutex_lock(&resumer.lock);
	while (resumer.q[i] && i < 63)
		i++;
	resumer.q[i] = q;
	pthread_mutex_unlock(&resumer.lock);
}

static void forget(struct httpd_request *q)
{
	pthread_mutex_lock(&resumer.lock);
	for (int i = 0; i < 64; i++)
		if (resumer.q[i] == q)
			resumer.q[i] = NULL;
	pthread_mutex_unlock(&resumer.lock);
}

static void *run_resumer(void *arg)
{
	bool stop = false;

	(void)arg;
	while (!stop) {
		usleep(500);
		pthread_mutex_lock(&resumer.lock);
		for (int i = 0; i < 64; i++)
			if (resumer.q[i]) {
				httpd_resume(resumer.q[i]);
				resumer.q[i] = NULL;
			}
		stop = resumer.stop;
		pthread_mutex_unlock(&resumer.lock);
	}
	return NULL;
}

/* The state of one request of ours, from begin to done. */
struct work {
	uint64_t bytes, sum;
	int calls;
	bool stuck;
};

static _Atomic int works; /* that are not done */
static _Atomic int64_t gone_ns;
static _Atomic int gones;

static enum httpd_when begin(void *ctx, struct httpd_request *q, struct httpd_reply *r)
{
	const char *how = httpd_header(q, "x-how");
	struct work *w;

	(void)ctx;
	if (how && strcmp(how, "refuse") == 0)
		return httpd_error(r, 401, "who are you?");
	w = calloc(1, sizeof *w);
	w->stuck = how && strcmp(how, "stuck") == 0;
	q->state = w;
	works++;
	return HTTPD_GO_ON;
}

static void done(void *ctx, struct httpd_request *q)
{
	(void)ctx;
	forget(q);
	if (!q->state)
		return;
	if (httpd_disconnected(q)) {
		gone_ns = clock_mono_ns();
		gones++;
	}
	free(q->state);
	works--;
}

static uint64_t add_up(uint64_t sum, const unsigned char *data, size_t len)
{
	for (size_t i = 0; i < len; i++)
		sum = sum * 31 + data[i];
	return sum;
}

/* Takes 999 bytes at a time and pauses after every second piece. */
static long take(void *ctx, struct httpd_request *q, struct httpd_reply *r,
	const void *data, size_t len)
{
	struct work *w = q->state;
	size_t n = len < 999 ? len : 999;

	(void)ctx;
	if (w->stuck)
		return 0;
	if (w->bytes > 500000) {
		httpd_error(r, 422, "that is enough");
		return HTTPD_REFUSE;
	}
	if (n < len && ++w->calls % 2) {
		n = 500;
		resume_soon(q);
	} else {
		n = len;
	}
	w->sum = add_up(w->sum, data, n);
	w->bytes += n;
	return (long)n;
}

static enum httpd_when sunk(void *ctx, struct httpd_request *q, struct httpd_reply *r)
{
	struct work *w = q->state;

	(void)ctx;
	must(q->body_bytes == w->bytes && q->body.len == 0);
	buf_addf(&r->body, "%llu %llu", (unsigned long long)w->bytes,
		(unsigned long long)w->sum);
	return HTTPD_NOW;
}

static enum httpd_when get_file(void *ctx, struct httpd_request *q, struct httpd_reply *r)
{
	(void)ctx, (void)q;
	return httpd_reply_path(r, file_path);
}

static enum httpd_when get_missing(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	(void)ctx, (void)q;
	return httpd_reply_path(r, "/tmp");
}

static enum httpd_when get_text(void *ctx, struct httpd_request *q, struct httpd_reply *r)
{
	(void)ctx, (void)q;
	buf_adds(&r->body, "0123456789");
	r->ranges = true;
	return HTTPD_NOW;
}

/* ?n=: bytes that count up; a pause after every piece of a thousand. */
static long source(void *ctx, struct httpd_request *q, void *to, size_t cap)
{
	uint64_t want = strtoull(httpd_query(q, "n"), NULL, 10);
	struct work *w = q->state;
	size_t n = cap < 1000 ? cap : 1000;

	(void)ctx;
	if (w->stuck)
		return 0;
	if (httpd_query(q, "break") && w->bytes > 3000)
		return HTTPD_ABORT;
	if (w->bytes == want)
		return HTTPD_END;
	if (++w->calls % 2) {
		resume_soon(q);
		return 0;
	}
	if (n > want - w->bytes)
		n = (size_t)(want - w->bytes);
	for (size_t i = 0; i < n; i++)
		((unsigned char *)to)[i] = (unsigned char)((w->bytes + i) % 251);
	w->bytes += n;
	return (long)n;
}

static enum httpd_when get_source(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	(void)ctx;
	r->content_type = "application/octet-stream";
	return httpd_reply_source(r, source,
		httpd_query(q, "known") ?
			(int64_t)strtoull(httpd_query(q, "n"), NULL, 10) :
			-1);
}

static void *write_events(void *arg)
{
	struct httpd_request *q = arg;
	int n = atoi(httpd_query(q, "n"));
	char text[1100];
	int i;

	for (i = 0; i < n; i++) {
		int len = snprintf(text, sizeof text, "data: %d%*s\n\n", i,
			httpd_query(q, "large") ? 1000 : 0, "");

		if (httpd_write(q, text, (size_t)len) < 0)
			break;
		if (i < 3 && !httpd_query(q, "quick"))
			usleep(2000);
	}
	httpd_finish(q);
	return NULL;
}

static enum httpd_when get_events(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	pthread_t thread;

	(void)ctx;
	r->content_type = "text/event-stream";
	httpd_add_header(r, "X-Further", "%d", 7);
	must(pthread_create(&thread, NULL, write_events, q) == 0);
	pthread_detach(thread);
	return HTTPD_LATER;
}

/* One event, and then no more until the client leaves. */
static enum httpd_when get_quiet(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	(void)ctx, (void)r;
	must(httpd_try_write(q, "first", 5) == (strcmp(q->method, "HEAD") ? 0 : -1));
	return HTTPD_LATER;
}

static enum httpd_when get_wait(void *ctx, struct httpd_request *q, struct httpd_reply *r)
{
	(void)ctx, (void)q, (void)r;
	return HTTPD_LATER;
}

static void on_disconnect(void *ctx, struct httpd_request *q)
{
	(void)ctx;
	must(httpd_disconnected(q));
	httpd_finish(q);
}

/* The program writes something, so that it shows whether the client still reads. */
static void on_half_close(void *ctx, struct httpd_request *q)
{
	(void)ctx;
	must(!httpd_disconnected(q));
	must(httpd_try_write(q, " half", 5) == 0);
	if (httpd_query(q, "finish"))
		httpd_finish(q);
}

static enum httpd_when get_args(void *ctx, struct httpd_request *q, struct httpd_reply *r)
{
	(void)ctx;
	buf_addf(&r->body, "%d %s %s|%s|%s|%s", q->nargs, q->args[0], q->args[1], q->path,
		q->authority, q->target);
	for (int i = 0; i < q->nheaders; i++)
		if (q->headers[i].key[0] == 'X')
			buf_addf(&r->body, "|%s=%s", q->headers[i].key,
				q->headers[i].value);
	return HTTPD_NOW;
}

static enum httpd_when post_length(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	(void)ctx;
	buf_addf(&r->body, "%zu", q->body.len);
	return HTTPD_NOW;
}

/* Runs on the pool, with a body. */
static enum httpd_when post_slow(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	usleep(1000000);
	return post_length(ctx, q, r);
}

/* Runs on the pool: waits for that many ms, or answers later from there. */
static enum httpd_when get_slow(void *ctx, struct httpd_request *q, struct httpd_reply *r)
{
	(void)ctx;
	usleep((useconds_t)atoi(httpd_query(q, "ms")) * 1000);
	buf_adds(&r->body, "slow");
	if (httpd_query(q, "finish"))
		httpd_finish(q);
	return httpd_query(q, "later") || httpd_query(q, "finish") ? HTTPD_LATER :
								     HTTPD_NOW;
}

#define BIG 3000000

static enum httpd_when get_big(void *ctx, struct httpd_request *q, struct httpd_reply *r)
{
	(void)ctx, (void)q;
	memset(buf_reserve(&r->body, BIG), 'x', BIG);
	r->body.len = BIG;
	return HTTPD_NOW;
}

static enum httpd_when get_half(void *ctx, struct httpd_request *q, struct httpd_reply *r)
{
	(void)ctx, (void)q;
	memset(buf_reserve(&r->body, BIG / 2), 'x', BIG / 2);
	r->body.len = BIG / 2;
	return HTTPD_NOW;
}

static enum httpd_when begin_limited(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	(void)ctx, (void)r;
	q->body_bytes_max = 10;
	if (httpd_header(q, "x-until"))
		q->until_ns = clock_mono_ns() + 200000000;
	return HTTPD_GO_ON;
}

static const struct httpd_route routes[] = {
	HTTPD_POST("/limited", post_length, 1000000, .class = HTTPD_LARGE,
		.begin = begin_limited),
	HTTPD_POST("/sink", sunk, 1000000, .begin = begin, .take = take, .done = done),
	HTTPD_GET("/file", get_file),
	HTTPD_GET("/missing", get_missing),
	HTTPD_GET("/text", get_text),
	HTTPD_GET("/source", get_source, .begin = begin, .done = done),
	HTTPD_GET("/events", get_events),
	HTTPD_GET("/quiet", get_quiet, .begin = begin, .disconnected = on_disconnect,
		.done = done),
	HTTPD_GET("/halves", get_quiet, .begin = begin, .disconnected = on_disconnect,
		.half_closed = on_half_close, .done = done),
	HTTPD_GET("/wait", get_wait, .begin = begin, .disconnected = on_disconnect,
		.done = done),
	HTTPD_GET("/args/{a}/of/{b}", get_args),
	HTTPD_POST("/large", post_length, 1000000, .class = HTTPD_LARGE),
	HTTPD_POST("/small", post_length, 1000, .class = HTTPD_SMALL),
	HTTPD_GET("/big", get_big),
	HTTPD_GET("/half", get_half),
	HTTPD_POST("/slow", post_slow, 1000000, .slow = true, .begin = begin,
		.done = done),
	HTTPD_GET("/slow", get_slow, .slow = true, .begin = begin,
		.disconnected = on_disconnect, .done = done),
	{ 0 },
};

static void render(struct httpd_reply *r, const char *text)
{
	r->content_type = "text/plain";
	buf_addf(&r->body, "error %d: %s", r->status, text);
}

static struct httpd *start(struct httpd_config *config)
{
	struct httpd *h;

	config->listen = "127.0.0.1:0";
	config->log_off = true;
	config->routes = routes;
	config->error = render;
	h = httpd_start(config);
	if (!h) {
		fprintf(stderr, "%s\n", err_get()->text);
		exit(1);
	}
	port = httpd_port(h);
	return h;
}

/* --- the client ------------------------------------------------------------------------- */

/* from: the last byte of our address, 127.0.0.from */
static int dial_as(int from, int receive_bytes)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_in us = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(0x7f000000 + (uint32_t)from) };
	struct timeval limit = { WAIT_MS / 1000, 0 };
	int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;

	if (receive_bytes)
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_bytes,
			sizeof receive_bytes);
	CHECK(bind(fd, (struct sockaddr *)&us, sizeof us) == 0);
	CHECK(connect(fd, (struct sockaddr *)&a, sizeof a) == 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	return fd;
}

static int dial_with(int receive_bytes)
{
	return dial_as(1, receive_bytes);
}

static int dial(void)
{
	return dial_with(0);
}

static bool say(int fd, const void *data, size_t len)
{
	for (size_t at = 0; at < len;) {
		ssize_t n = send(fd, (const char *)data + at, len - at, MSG_NOSIGNAL);

		if (n <= 0)
			return false;
		at += (size_t)n;
	}
	return true;
}

static bool says(int fd, const char *text)
{
	return say(fd, text, strlen(text));
}

/* Reads until out ends with end, or the server closes (end NULL: until then). */
static void hear(int fd, struct buf *out, const char *end)
{
	size_t n = end ? strlen(end) : 0;

	while (!end || out->len < n || memcmp(out->data + out->len - n, end, n) != 0) {
		ssize_t got = recv(fd, buf_reserve(out, 65536), end ? 1 : 65536, 0);

		if (got <= 0)
			break;
		out->len += (size_t)got;
		out->data[out->len] = '\0';
	}
}

/* Sends text (of the client's last request on this connection) and hears all. */
static char *ask(const char *text)
{
	struct buf b = BUF_INIT;
	int fd = dial();

	CHECK(says(fd, text));
	hear(fd, &b, NULL);
	close(fd);
	buf_adds(&b, "");
	return buf_text(&b)[0] ? buf_take(&b) : (buf_release(&b), strdup(""));
}

/* memmem: with strict_string_checks each strstr of a sanitizer reads the whole of the rest. */
static int count_of(const char *text, const char *what)
{
	const char *end = text + strlen(text);
	int n = 0;

	for (; (text = memmem(text, (size_t)(end - text), what, strlen(what))); text++)
		n++;
	return n;
}

static const char *body_of(const char *reply)
{
	const char *end = strstr(reply, "\r\n\r\n");

	return end ? end + 4 : "";
}

#define CLOSE "Host: x\r\nConnection: close\r\n"

/* One answer whose head starts with want; its body (NULL: whatever). */
static void answers(const char *text, const char *want, const char *want_body)
{
	char *reply = ask(text);

	if (strncmp(reply, want, strlen(want)) != 0)
		CHECK_TEXT(want, reply);
	CHECK_I64(1, count_of(reply, "HTTP/1.1 "));
	if (want_body)
		CHECK_TEXT(want_body, body_of(reply));
	free(reply);
}

static void has(const char *text, const char *const lines[])
{
	char *reply = ask(text);

	for (int i = 0; lines[i]; i++)
		if (!strstr(reply, lines[i]))
			CHECK_TEXT(lines[i], reply);
	free(reply);
}

/* --- framing ---------------------------------------------------------------------------- */

static void framing(void)
{
	static const char *const bad[] = {
		"POST /small HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\na",
		"POST /small HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na",
		"POST /small HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
		"0\r\n\r\n",
		"POST /small HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n"
		"0\r\n\r\n",
		"GET /text HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
		"GET /text HTTP/1.1\r\nHost: x\r\nX: a\r\n b\r\n\r\n",
		"GET /text HTTP/1.1\nHost: x\n\n",
		"GET /text HTTP/1.1\r\nHost: x\r\nX: a\nY: b\r\n\r\n",
		"GET /text HTTP/1.1\r\nHost: x\r\nX: a\rY: b\r\n\r\n",
		"GET /text HTTP/1.1\r\nHost : x\r\n\r\n", "GET /text HTTP/1.1\r\n\r\n",
		"POST /small HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\na\r\n0\r\n\r\n",
		"POST /small HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\na\r\n0\r\n\r\n",
		"\x16\x03\x01\x02\r\n", /* TLS, to a server without */
	};
	/* after each something that must not be answered */
	char text[600];

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		snprintf(text, sizeof text, "%sGET /text HTTP/1.1\r\n" CLOSE "\r\n",
			bad[i]);
		answers(text, "HTTP/1.1 400 Bad Request\r\n", NULL);
	}
	answers("GET /text HTTP/3.0\r\n\r\n", "HTTP/1.1 505 ",
		"error 505: malformed request: this server speaks HTTP/1.1");
	answers("POST /small HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n",
		"HTTP/1.1 501 ", NULL);
	answers("GET /text?a=%zz HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 400 ",
		"error 400: the request target is malformed");
	answers("CONNECT x:1 HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 400 ", NULL);
	answers("\r\nGET /text HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 200 OK\r\n",
		"0123456789");
	answers("\r\n\r\nGET /text HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 400 ", NULL);
}

/* Byte by byte, and all at once. */
static void pieces_of_requests(void)
{
	const char *two =
		"POST /small HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
		"3\r\nabc\r\n1;e\r\nd\r\n0\r\nT: t\r\n\r\nGET /text HTTP/1.1\r\n" CLOSE
		"\r\n";
	struct buf b = BUF_INIT;
	int fd = dial();

	for (const char *s = two; *s; s++) {
		CHECK(say(fd, s, 1));
		if ((s - two) % 16 == 0)
			usleep(1000);
	}
	hear(fd, &b, NULL);
	CHECK_I64(2, count_of(buf_text(&b), "HTTP/1.1 200 OK"));
	CHECK(strstr(buf_text(&b), "\r\n\r\n4HTTP/1.1") != NULL);
	close(fd);
	buf_reset(&b);
	fd = dial();
	for (int i = 0; i < 200; i++) {
		char text[100];

		snprintf(text, sizeof text,
			"GET /args/%d/of/b HTTP/1.1\r\nHost: x\r\n\r\n", i);
		CHECK(says(fd, text));
	}
	CHECK(says(fd, "GET /text HTTP/1.1\r\n" CLOSE "\r\n"));
	hear(fd, &b, NULL);
	CHECK_I64(201, count_of(buf_text(&b), "HTTP/1.1 200 OK"));
	CHECK(strstr(buf_text(&b), "2 199 b|/args/199/of/b") != NULL);
	close(fd);
	buf_release(&b);
}

static void requests_in_full(void)
{
	answers("GET /args/a%20b/of/c?d=e HTTP/1.1\r\nX-A: 1\r\nX-B:  2 \r\nX-A: 3\r\n" CLOSE
		"\r\n",
		"HTTP/1.1 200 ",
		"2 a b c|/args/a b/of/c|x|/args/a%20b/of/c?d=e|X-A=1|X-B=2|X-A=3");
	answers("GET /args/a/b/of/c HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 404 ",
		"error 404: there is nothing at this path");
	answers("GET /args//of/c HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 404 ", NULL);
	answers("GET /args/a/of/ HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 404 ", NULL);
	answers("PUT /args/a/of/b HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 405 ", NULL);
	answers("GET /text HTTP/1.1\r\n" CLOSE "Content-Length: 1\r\n\r\na",
		"HTTP/1.1 413 ", NULL);
}

/* --- bodies ------------------------------------------------------------------------------ */

static void sink(size_t len, bool chunked)
{
	unsigned char *data = malloc(len + 1);
	char head[200], want[60];
	struct buf b = BUF_INIT;
	int fd = dial();

	for (size_t i = 0; i < len; i++)
		data[i] = (unsigned char)(i * 7 + i / 251);
	snprintf(head, sizeof head,
		chunked ? "POST /sink HTTP/1.1\r\n" CLOSE
			  "Transfer-Encoding: chunked\r\n\r\n%zx\r\n" :
			  "POST /sink HTTP/1.1\r\n" CLOSE "Content-Length: %zu\r\n\r\n",
		len);
	CHECK(says(fd, head) && say(fd, data, len));
	if (chunked)
		CHECK(says(fd, "\r\n0\r\n\r\n"));
	hear(fd, &b, NULL);
	snprintf(want, sizeof want, "%zu %llu", len,
		(unsigned long long)add_up(0, data, len));
	CHECK_TEXT(want, body_of(buf_text(&b)));
	close(fd);
	buf_release(&b);
	free(data);
}

/* Headers first; the body follows only where it is wanted. */
static void expect(const char *extra, const char *want)
{
	char text[300];
	struct buf b = BUF_INIT;
	int fd = dial();

	snprintf(text, sizeof text,
		"POST /sink HTTP/1.1\r\n" CLOSE "Expect: 100-continue\r\n%s\r\n", extra);
	CHECK(says(fd, text));
	hear(fd, &b, "\r\n\r\n");
	if (strncmp(buf_text(&b), want, strlen(want)) != 0)
		CHECK_TEXT(want, buf_text(&b));
	if (strstr(want, "100")) {
		CHECK(says(fd, "hello"));
		buf_reset(&b);
		hear(fd, &b, NULL);
		CHECK(strncmp(buf_text(&b), "HTTP/1.1 200 ", 13) == 0);
	} else {
		hear(fd, &b, NULL);
		CHECK(strstr(buf_text(&b), "Connection: close") != NULL);
	}
	CHECK_I64(1, count_of(buf_text(&b), "HTTP/1.1"));
	close(fd);
	buf_release(&b);
}

static void refused_within(void)
{
	static char text[900000];
	struct buf b = BUF_INIT;
	int fd = dial();

	/* what is sent against our will is thrown away, so that the reply arrives */
	CHECK(says(fd,
		"POST /sink HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\n"));
	memset(text, 'x', sizeof text);
	(void)say(fd, text, sizeof text);
	hear(fd, &b, NULL);
	CHECK(strncmp(buf_text(&b), "HTTP/1.1 422 ", 13) == 0);
	CHECK_TEXT("error 422: that is enough", body_of(buf_text(&b)));
	close(fd);
	buf_release(&b);
}

static void bodies(void)
{
	char *reply;

	sink(0, false);
	sink(0, true); /* a chunk of nothing is the end */
	sink(1, false);
	sink(998, true);
	sink(200000, false);
	sink(300000, true);
	expect("Content-Length: 5\r\n", "HTTP/1.1 100 Continue\r\n\r\n");
	expect("Content-Length: 5\r\nX-How: refuse\r\n", "HTTP/1.1 401 Unauthorized\r\n");
	expect("Content-Length: 1000001\r\n", "HTTP/1.1 413 Content Too Large\r\n");
	expect("Transfer-Encoding: chunked\r\nX-How: refuse\r\n", "HTTP/1.1 401 ");
	answers("POST /sink HTTP/1.1\r\n" CLOSE
		"Expect: else\r\nContent-Length: 1\r\n\r\na",
		"HTTP/1.1 417 ", NULL);
	/* a small body that is refused costs no connection */
	reply = ask(
		"POST /sink HTTP/1.1\r\nHost: x\r\nX-How: refuse\r\nContent-Length: 5\r\n\r\nhello"
		"GET /text HTTP/1.1\r\n" CLOSE "\r\n");
	CHECK(strncmp(reply, "HTTP/1.1 401 ", 13) == 0);
	CHECK(strstr(reply, "\r\n\r\n0123456789") != NULL);
	free(reply);
	refused_within();
}

/* --- replies ----------------------------------------------------------------------------- */

/* Limits that begin sets for one request. */
static void own_limits(void)
{
	struct buf b = BUF_INIT;
	int fd;

	answers("POST /limited HTTP/1.1\r\n" CLOSE "Content-Length: 10\r\n\r\n0123456789",
		"HTTP/1.1 200 ", NULL);
	answers("POST /limited HTTP/1.1\r\n" CLOSE
		"Content-Length: 11\r\n\r\n0123456789a",
		"HTTP/1.1 413 ", NULL);
	answers("POST /limited HTTP/1.1\r\n" CLOSE
		"Transfer-Encoding: chunked\r\n\r\n6\r\n012345\r\n6\r\n012345\r\n0\r\n\r\n",
		"HTTP/1.1 413 ", NULL);
	/* it is not slow, but its time is over */
	fd = dial();
	CHECK(says(fd,
		"POST /limited HTTP/1.1\r\n" CLOSE
		"X-Until: now\r\nContent-Length: 10\r\n\r\n01234"));
	hear(fd, &b, NULL);
	CHECK_TEXT("", buf_text(&b));
	close(fd);
	buf_release(&b);
	/* who is in time is answered */
	answers("POST /limited HTTP/1.1\r\n" CLOSE
		"X-Until: now\r\nContent-Length: 4\r\n\r\n0123",
		"HTTP/1.1 200 ", NULL);
}

static void ranges(void)
{
	char *reply = ask("HEAD /file HTTP/1.1\r\n" CLOSE "\r\n"),
	     *tag = strstr(reply, "ETag: ");
	char text[300];

	CHECK(tag != NULL && strstr(reply, "Accept-Ranges: bytes\r\n") != NULL);
	CHECK(strstr(reply, "Content-Length: 26\r\n") != NULL);
	CHECK_TEXT("", body_of(reply));
	if (!tag)
		return;
	tag += 6;
	tag[strcspn(tag, "\r")] = '\0';
	answers("GET /file HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 200 OK\r\n",
		"abcdefghijklmnopqrstuvwxyz");
	answers("GET /file HTTP/1.1\r\n" CLOSE "Range: bytes=3-5\r\n\r\n",
		"HTTP/1.1 206 Partial Content\r\n", "def");
	has("GET /file HTTP/1.1\r\n" CLOSE "Range: bytes=3-5\r\n\r\n",
		(const char *[]){ "Content-Range: bytes 3-5/26\r\n",
			"Content-Length: 3\r\n", NULL });
	answers("GET /file HTTP/1.1\r\n" CLOSE "Range: bytes=-2\r\n\r\n", "HTTP/1.1 206 ",
		"yz");
	answers("GET /file HTTP/1.1\r\n" CLOSE "Range: bytes=26-\r\n\r\n",
		"HTTP/1.1 416 Range Not Satisfiable\r\n",
		"error 416: the range is not within 26 bytes");
	has("GET /file HTTP/1.1\r\n" CLOSE "Range: bytes=26-\r\n\r\n",
		(const char *[]){ "Content-Range: bytes */26\r\n", NULL });
	answers("GET /file HTTP/1.1\r\n" CLOSE "Range: bytes=1-2,5-6\r\n\r\n",
		"HTTP/1.1 200 ", "abcdefghijklmnopqrstuvwxyz");
	answers("HEAD /file HTTP/1.1\r\n" CLOSE "Range: bytes=3-5\r\n\r\n",
		"HTTP/1.1 200 ", "");
	snprintf(text, sizeof text,
		"GET /file HTTP/1.1\r\n" CLOSE "Range: bytes=3-5\r\nIf-Range: %s\r\n\r\n",
		tag);
	answers(text, "HTTP/1.1 206 ", "def");
	snprintf(text, sizeof text,
		"GET /file HTTP/1.1\r\n" CLOSE
		"Range: bytes=3-5\r\nIf-Range: W/%s\r\n\r\n",
		tag);
	answers(text, "HTTP/1.1 200 ", "abcdefghijklmnopqrstuvwxyz");
	answers("GET /file HTTP/1.1\r\n" CLOSE
		"Range: bytes=3-5\r\nIf-Range: Sun, 22 Nov 2026 00:00:00 GMT"
		"\r\n\r\n",
		"HTTP/1.1 200 ", "abcdefghijklmnopqrstuvwxyz");
	snprintf(text, sizeof text,
		"GET /file HTTP/1.1\r\n" CLOSE
		"Range: bytes=3-5\r\nIf-None-Match: %s\r\n\r\n",
		tag);
	answers(text, "HTTP/1.1 304 Not Modified\r\n", "");
	answers("GET /text HTTP/1.1\r\n" CLOSE "Range: bytes=3-5\r\n\r\n",
		"HTTP/1.1 206 ", "345");
	answers("GET /missing HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 404 ",
		"error 404: there is no such file");
	free(reply);
}

/* Chunks of a reply put together; false: there was no end. */
static bool unchunk(const char *text, size_t len, struct buf *out)
{
	struct httpd_chunks s = { 0 };
	size_t at = 0, used;

	for (;;) {
		enum httpd_chunk kind = httpd_chunks_feed(&s, text + at, len - at, &used);
		size_t n;

		at += used;
		if (kind != HTTPD_CHUNK_DATA)
			return kind == HTTPD_CHUNK_END && at == len;
		n = s.left < len - at ? (size_t)s.left : len - at;
		if (!n)
			return false;
		buf_add(out, text + at, n);
		at += n;
		s.left -= n;
	}
}

static void get_all(const char *text, struct buf *b, size_t *head)
{
	int fd = dial();

	CHECK(says(fd, text));
	hear(fd, b, NULL);
	*head = (size_t)(body_of(buf_text(b)) - buf_text(b));
	close(fd);
}

static void counts_up(const char *data, size_t len, size_t want)
{
	size_t wrong = 0;

	CHECK_I64((int64_t)want, (int64_t)len);
	for (size_t i = 0; i < len; i++)
		wrong += (unsigned char)data[i] != i % 251;
	CHECK_I64(0, (int64_t)wrong);
}

static void sources(void)
{
	struct buf b = BUF_INIT, data = BUF_INIT;
	size_t head;

	get_all("GET /source?n=50500 HTTP/1.1\r\n" CLOSE "\r\n", &b, &head);
	CHECK(strstr(b.data, "Transfer-Encoding: chunked\r\n") != NULL);
	CHECK(unchunk(b.data + head, b.len - head, &data));
	counts_up(data.data, data.len, 50500);
	buf_reset(&b);
	buf_reset(&data);
	get_all("GET /source?n=50500&known HTTP/1.1\r\n" CLOSE "\r\n", &b, &head);
	CHECK(strstr(b.data, "Content-Length: 50500\r\n") != NULL);
	counts_up(b.data + head, b.len - head, 50500);
	buf_reset(&b);
	get_all("GET /source?n=50500 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", &b,
		&head);
	CHECK(!strstr(b.data, "Transfer-Encoding") &&
		strstr(b.data, "Connection: close\r\n"));
	counts_up(b.data + head, b.len - head, 50500);
	buf_reset(&b);
	/* what breaks off looks broken off */
	get_all("GET /source?n=50500&break HTTP/1.1\r\n" CLOSE "\r\n", &b, &head);
	CHECK(!unchunk(b.data + head, b.len - head, &data));
	buf_reset(&b);
	get_all("GET /source?n=50500&break&known HTTP/1.1\r\n" CLOSE "\r\n", &b, &head);
	CHECK(b.len - head < 50500);
	buf_reset(&b);
	get_all("HEAD /source?n=50500 HTTP/1.1\r\n" CLOSE "\r\n", &b, &head);
	CHECK_I64(0, (int64_t)(b.len - head));
	buf_release(&b);
	buf_release(&data);
}

static void events(void)
{
	struct buf b = BUF_INIT, data = BUF_INIT;
	size_t head;
	int fd = dial();

	/* each arrives as it is written, not when there is a lot of them */
	CHECK(says(fd, "GET /quiet HTTP/1.1\r\nHost: x\r\n\r\n"));
	hear(fd, &b, "first\r\n");
	CHECK(strstr(buf_text(&b), "\r\n\r\n5\r\nfirst\r\n") != NULL);
	close(fd);
	buf_reset(&b);
	get_all("GET /events?n=1000 HTTP/1.1\r\n" CLOSE "\r\n", &b, &head);
	CHECK(strstr(b.data, "Content-Type: text/event-stream\r\n") != NULL);
	CHECK(strstr(b.data, "X-Further: 7\r\n") != NULL);
	CHECK(unchunk(b.data + head, b.len - head, &data));
	CHECK_I64(1000, count_of(buf_text(&data), "data: "));
	CHECK(strncmp(buf_text(&data), "data: 0\n\ndata: 1\n\n", 18) == 0);
	buf_reset(&b);
	get_all("HEAD /events?n=10 HTTP/1.1\r\n" CLOSE "\r\n", &b, &head);
	CHECK_I64(0, (int64_t)(b.len - head));
	buf_reset(&b);
	get_all("GET /events?n=10 HTTP/1.0\r\n\r\n", &b, &head);
	CHECK_I64(10, count_of(buf_text(&b) + head, "data: "));
	CHECK(strncmp(b.data + head, "data: 0\n\n", 9) == 0);
	buf_release(&b);
	buf_release(&data);
}

/* The end often comes while the last piece is sent. */
static void quick_events(void)
{
	struct buf b = BUF_INIT;
	int fd = dial();

	for (int i = 0; i < 2000; i++) {
		buf_reset(&b);
		CHECK(says(fd, "GET /events?n=1&quick HTTP/1.1\r\nHost: x\r\n\r\n"));
		while (!b.len || !strstr(b.data, "\r\n0\r\n\r\n")) {
			ssize_t n = recv(fd, buf_reserve(&b, 4096), 4096, 0);

			if (n <= 0)
				break;
			b.len += (size_t)n;
			b.data[b.len] = '\0';
		}
		CHECK(strstr(buf_text(&b), "data: 0\n\n") != NULL);
	}
	close(fd);
	buf_release(&b);
}

/* Ten megabytes of events to a client that reads late: the writer waits, nothing is lost. */
static void slow_reader(void)
{
	struct buf b = BUF_INIT, data = BUF_INIT;
	int fd = dial_with(16384);

	CHECK(says(fd, "GET /events?n=10000&large HTTP/1.1\r\n" CLOSE "\r\n"));
	usleep(300000);
	hear(fd, &b, NULL);
	CHECK(unchunk(body_of(b.data), b.len - (size_t)(body_of(b.data) - b.data),
		&data));
	CHECK_I64(10000, count_of(buf_text(&data), "data: "));
	close(fd);
	buf_release(&b);
	buf_release(&data);
}

/* --- who leaves -------------------------------------------------------------------------- */

static bool until(_Atomic int *what, int value)
{
	for (int i = 0; i < WAIT_MS && *what != value; i++)
		usleep(1000);
	return *what == value;
}

static int compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

/* How long it takes, by the median of some times: one may hit a busy moment. */
static void leave(const char *text, bool reset)
{
	int64_t took_ns[9];

	for (int i = 0; i < 9; i++) {
		struct linger hard = { 1, 0 };
		int before = gones, fd = dial();
		int64_t left_ns;

		CHECK(says(fd, text));
		CHECK(until(&works, 1));
		usleep(3000);
		if (reset)
			setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
		left_ns = clock_mono_ns();
		close(fd);
		CHECK(until(&gones, before + 1));
		CHECK(until(&works, 0));
		took_ns[i] = gone_ns - left_ns;
	}
	qsort(took_ns, 9, sizeof *took_ns, compare);
	CHECK(took_ns[4] < 500000000);
	fprintf(stderr, "# gone after %.2f ms (%s)\n", (double)took_ns[4] / 1e6,
		reset ? "reset" : "closed");
}

/* The head of a stream is all that HEAD gets, but the handler holds the request until it
 * finishes. */
static void head_of_stream(void)
{
	struct buf b = BUF_INIT;
	int fd = dial();

	CHECK(says(fd, "HEAD /quiet HTTP/1.1\r\nHost: x\r\n\r\n"));
	hear(fd, &b, "\r\n\r\n");
	CHECK(strncmp(buf_text(&b), "HTTP/1.1 200 ", 13) == 0);
	usleep(20000);
	CHECK_I64(1, works);
	close(fd);
	CHECK(until(&works, 0));
	buf_release(&b);
}

/* At any moment, many times: nothing is left behind that httpd_stop would wait for. */
static void leave_at_once(void)
{
	static const char *const paths[] = { "/quiet", "/wait", "/events?n=3",
		"/source?n=9" };
	char text[100];

	for (int i = 0; i < 400; i++) {
		int fd = dial();

		snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n",
			paths[i % 4]);
		CHECK(says(fd, text));
		if (i % 3)
			usleep((useconds_t)(i % 97 * 10));
		close(fd);
	}
	CHECK(until(&works, 0));
}

static void leaving(void)
{
	for (int reset = 0; reset < 2; reset++) {
		leave("GET /wait HTTP/1.1\r\nHost: x\r\n\r\n", reset);
		leave("GET /quiet HTTP/1.1\r\nHost: x\r\n\r\n", reset);
		leave("GET /halves HTTP/1.1\r\nHost: x\r\n\r\n", reset);
		leave("GET /wait HTTP/1.0\r\n\r\n", reset);
		leave("GET /source?n=9 HTTP/1.1\r\nHost: x\r\nX-How: stuck\r\n\r\n",
			reset);
		leave("POST /sink HTTP/1.1\r\nHost: x\r\nX-How: stuck\r\nContent-Length: 9\r\n\r\nhi",
			reset);
		leave("POST /sink HTTP/1.1\r\nHost: x\r\nX-How: stuck\r\nTransfer-Encoding: chunked\r\n\r\n"
		      "9\r\nhi",
			reset);
		leave("POST /sink HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhi",
			reset);
	}
}

/* A client that closes only its sending half is answered: in full where it speaks HTTP/1.1, which
 * has interim responses. */
static void half_closed(const char *text, const char *want, int left)
{
	struct buf b = BUF_INIT;
	int fd = dial(), before = gones;
	const char *reply, *interim = "HTTP/1.1 100 Continue\r\n\r\n";

	CHECK(says(fd, text));
	shutdown(fd, SHUT_WR);
	hear(fd, &b, NULL);
	reply = buf_text(&b);
	while (strncmp(reply, interim, strlen(interim)) == 0)
		reply += strlen(interim);
	CHECK(strncmp(reply, "HTTP/1.1 200 ", 13) == 0);
	CHECK(strstr(body_of(reply), want) != NULL);
	CHECK_I64(left, gones - before);
	close(fd);
	CHECK(until(&works, 0));
	buf_release(&b);
}

/* Others do not wait for slow handlers, whatever thread their connections are on. */
static void slow_handlers(void)
{
	int fds[8];
	struct buf b = BUF_INIT;
	int64_t begun = clock_mono_ns(), answered;

	for (int i = 0; i < 8; i++) {
		fds[i] = dial();
		CHECK(says(fds[i], "GET /slow?ms=1000 HTTP/1.1\r\n" CLOSE "\r\n"));
	}
	CHECK(until(&works, 8));
	answers("GET /text HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 200 ", "0123456789");
	answered = clock_mono_ns();
	for (int i = 0; i < 8; i++) {
		buf_reset(&b);
		hear(fds[i], &b, NULL);
		CHECK_TEXT("slow", body_of(buf_text(&b)));
		close(fds[i]);
	}
	/* two at a time: 4 s in all, and the other was there long before */
	CHECK(clock_mono_ns() - begun > INT64_C(3900000000));
	CHECK(answered - begun < (clock_mono_ns() - begun) / 2);
	CHECK(until(&works, 0));
	answers("GET /slow?ms=0&finish HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 200 ",
		"slow");
	half_closed("GET /slow?ms=30 HTTP/1.1\r\n" CLOSE "\r\n", "slow", 0);
	half_closed("GET /slow?ms=30&finish HTTP/1.1\r\n" CLOSE "\r\n", "slow", 0);
	half_closed("GET /halves?finish HTTP/1.1\r\n" CLOSE "\r\n", "half", 0);
	/* what cannot be told is as before: it has left */
	half_closed("GET /quiet HTTP/1.1\r\n" CLOSE "\r\n", "first", 1);
	half_closed("GET /wait HTTP/1.0\r\n\r\n", "", 1);
	half_closed("GET /slow?ms=30 HTTP/1.0\r\n\r\n", "slow", 1);
	/* a client leaves: while it waits, while its request runs, and when the answer comes
	 * later */
	leave("GET /slow?ms=0&later HTTP/1.1\r\nHost: x\r\n\r\n", false);
	for (int i = 0; i < 100; i++) {
		char text[100];
		int fd = dial();

		snprintf(text, sizeof text,
			"GET /slow?ms=%d%s HTTP/1.1\r\nHost: x\r\n\r\n", i % 5,
			i % 3 == 0         ? "&later" :
				i % 3 == 1 ? "&finish" :
					     "");
		CHECK(says(fd, text));
		if (i % 7)
			usleep((useconds_t)(i % 11) * 300);
		close(fd);
	}
	CHECK(until(&works, 0));
	buf_release(&b);
}

/* One client's slow requests wait for each other, and another's for one of them at most. */
static void slow_clients_take_turns(void)
{
	struct buf b = BUF_INIT;
	int fds[12], other;

	for (int i = 0; i < 12; i++) {
		fds[i] = dial();
		CHECK(says(fds[i], "GET /slow?ms=1000 HTTP/1.1\r\n" CLOSE "\r\n"));
	}
	CHECK(until(&works, 12));
	other = dial_as(9, 0);
	CHECK(says(other, "GET /slow?ms=0 HTTP/1.1\r\n" CLOSE "\r\n"));
	hear(other, &b, NULL);
	CHECK_TEXT("slow", body_of(buf_text(&b)));
	CHECK(works >= 6);
	close(other);
	for (int i = 0; i < 12; i++)
		close(fds[i]);
	CHECK(until(&works, 0));
	buf_release(&b);
}

/* Large requests leave a thread to the small ones of the same address, and each is answered. */
static void large_bodies_leave_a_thread(void)
{
	static char body[100000];
	struct buf b = BUF_INIT;
	int fds[5];

	memset(body, 'x', sizeof body);
	for (int i = 0; i < 5; i++) {
		fds[i] = dial();
		CHECK(says(fds[i],
			"POST /slow HTTP/1.1\r\n" CLOSE
			"Content-Length: 100000\r\n\r\n"));
		CHECK(say(fds[i], body, sizeof body));
	}
	CHECK(until(&works, 5));
	for (int i = 0; i < 3; i++)
		answers("GET /slow?ms=1 HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 200 ",
			"slow");
	CHECK(works >= 3);
	for (int i = 0; i < 5; i++) {
		buf_reset(&b);
		hear(fds[i], &b, NULL);
		CHECK_TEXT("100000", body_of(buf_text(&b)));
		close(fds[i]);
	}
	CHECK(until(&works, 0));
	buf_release(&b);
}

/* --- limits ------------------------------------------------------------------------------ */

/* A body of each class fills its own budget; replies have one for all. */
static void budgets(void)
{
	struct httpd_config config = { .class_bytes = { [HTTPD_LARGE] = 1100000 },
		.reply_bytes = BIG + BIG / 2 };
	struct httpd *h = start(&config);
	static char body[999999];
	struct buf b = BUF_INIT;
	int fd = dial(), other, full[1];
	char *reply = NULL;

	memset(body, 'x', sizeof body);
	CHECK(says(fd,
		"POST /large HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"));
	CHECK(say(fd, body, sizeof body));
	/* as soon as it is read */
	for (int i = 0; i < WAIT_MS / 10; i++) {
		free(reply);
		other = dial();
		CHECK(says(other,
			"POST /large HTTP/1.1\r\n" CLOSE
			"Content-Length: 500000\r\n\r\n"));
		shutdown(other, SHUT_WR); /* no answer where there is room */
		buf_reset(&b);
		hear(other, &b, NULL);
		close(other);
		reply = strdup(buf_text(&b));
		if (strncmp(reply, "HTTP/1.1 503 ", 13) == 0)
			break;
		usleep(10000);
	}
	CHECK_TEXT("error 503: too many large requests at once", body_of(reply));
	free(reply);
	answers("POST /small HTTP/1.1\r\n" CLOSE "Content-Length: 5\r\n\r\nhello",
		"HTTP/1.1 200 ", "5");
	CHECK(says(fd, "x"));
	buf_reset(&b);
	hear(fd, &b, "1000000");
	CHECK(strncmp(buf_text(&b), "HTTP/1.1 200 ", 13) == 0);
	close(fd);
	/* a large reply that is not read */
	fd = dial_with(4096);
	CHECK(says(fd, "GET /big HTTP/1.1\r\nHost: x\r\n\r\n"));
	buf_reset(&b);
	hear(fd, &b, "\r\n\r\n");
	answers("GET /big HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 503 ",
		"error 503: too many large replies at once");
	answers("GET /text HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 200 ", "0123456789");
	full[0] = dial_with(4096);
	CHECK(says(full[0], "GET /half HTTP/1.1\r\nHost: x\r\n\r\n"));
	buf_reset(&b);
	hear(full[0], &b, "\r\n\r\n");
	answers("GET /source?n=10 HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 503 ", NULL);
	answers("GET /events?n=10 HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 503 ",
		"error 503: too many large replies at once");
	close(full[0]);
	close(fd);
	/* and its memory comes back */
	for (int i = 0; i < WAIT_MS / 10; i++) {
		reply = ask("GET /big HTTP/1.1\r\n" CLOSE "\r\n");
		other = strncmp(reply, "HTTP/1.1 200 ", 13) == 0;
		free(reply);
		if (other)
			break;
		usleep(10000);
	}
	CHECK(other);
	buf_release(&b);
	httpd_stop(h);
}

/* Of one address, where loopback is limited, too: not all of a budget. */
static void shares(void)
{
	struct httpd_config config = { .rate_loopback = true, .reply_bytes = 2 * BIG };
	struct httpd *h = start(&config);

	answers("GET /big HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 503 ", NULL);
	httpd_stop(h);
}

/* One byte of a thousand in time: slow, but not too slow, and longer than any total would allow. */
static void least_rate(void)
{
	struct httpd_config config = { .request_timeout_s = 4, .min_bytes = 2000 };
	struct httpd *h = start(&config);
	char piece[2000];
	struct buf b = BUF_INIT;
	int slow = dial(), stalled = dial(), trickle = dial(), head = dial();
	int64_t begun = clock_mono_ns();
	struct pollfd ended[3] = { { stalled, POLLIN | POLLHUP, 0 },
		{ trickle, POLLIN | POLLHUP, 0 }, { head, POLLIN | POLLHUP, 0 } };

	memset(piece, 'x', sizeof piece);
	CHECK(says(slow,
		"POST /large HTTP/1.1\r\n" CLOSE "Content-Length: 60000\r\n\r\n"));
	CHECK(says(stalled,
		"POST /large HTTP/1.1\r\n" CLOSE "Content-Length: 60000\r\n\r\n"));
	CHECK(says(trickle,
		"POST /large HTTP/1.1\r\n" CLOSE "Content-Length: 60000\r\n\r\n"));
	CHECK(says(head, "GET /text HTTP/1.1\r\nHost: x\r\n"));
	for (int i = 0; i < 30; i++) {
		CHECK(say(slow, piece, sizeof piece));
		(void)says(trickle, "x");
		(void)says(head, "X: y\r\n");
		usleep(200000);
	}
	CHECK(clock_mono_ns() - begun > INT64_C(5000000000));
	hear(slow, &b, NULL);
	CHECK_TEXT("60000", body_of(buf_text(&b)));
	/* the others were cut off meanwhile */
	for (int i = 0; i < 3; i++)
		CHECK(poll(&ended[i], 1, WAIT_MS) == 1 &&
			recv(ended[i].fd, piece, sizeof piece, 0) <= 0);
	buf_reset(&b);
	close(slow);
	/* replies: to a client that reads nothing, and to one that reads slowly */
	slow = dial_with(16384);
	close(stalled);
	stalled = dial_with(16384);
	CHECK(says(slow, "GET /big HTTP/1.1\r\n" CLOSE "\r\n"));
	CHECK(says(stalled, "GET /big HTTP/1.1\r\n" CLOSE "\r\n"));
	for (int i = 0; i < 30; i++) {
		ssize_t n = recv(slow, buf_reserve(&b, 65536), 10000, 0);

		CHECK(n > 0);
		b.len += n > 0 ? (size_t)n : 0;
		usleep(200000);
	}
	hear(slow, &b, NULL);
	CHECK(b.len > BIG);
	buf_reset(&b);
	hear(stalled, &b, NULL);
	CHECK(b.len < BIG);
	close(slow);
	close(stalled);
	close(trickle);
	close(head);
	buf_release(&b);
	httpd_stop(h);
}

static uint64_t key_of(const char *text)
{
	struct sockaddr_in6 six = { .sin6_family = AF_INET6 };
	struct sockaddr_in four = { .sin_family = AF_INET };

	if (inet_pton(AF_INET, text, &four.sin_addr) == 1)
		return httpd_client_key((struct sockaddr *)&four);
	CHECK(inet_pton(AF_INET6, text, &six.sin6_addr) == 1);
	return httpd_client_key((struct sockaddr *)&six);
}

/* The rest of an IPv6 address is the client's own to choose. */
static void clients_by_address(void)
{
	static struct httpd_limiter limiter = { .lock = PTHREAD_MUTEX_INITIALIZER,
		.rate_per_s = 1 };
	static struct httpd_clients clients = { .lock = PTHREAD_MUTEX_INITIALIZER };
	struct httpd_client *c[3];
	char text[60];

	CHECK(key_of("2001:db8::1") == key_of("2001:db8::ffff:ffff:ffff:ffff"));
	CHECK(key_of("2001:db8::1") != key_of("2001:db8:0:1::1"));
	CHECK(key_of("2001:db8::1") != key_of("2001:db9::1"));
	CHECK(key_of("::ffff:192.0.2.7") == key_of("192.0.2.7"));
	CHECK(key_of("::ffff:192.0.2.7") != key_of("::ffff:192.0.2.8"));
	CHECK(key_of("192.0.2.7") != key_of("192.0.2.8"));
	CHECK(key_of("0.0.0.1") != key_of("0:0:0:1::"));
	/* five at once, whatever the rest of the address is */
	for (int i = 0; i < 8; i++) {
		snprintf(text, sizeof text, "2001:db8::%d:%d", i, i + 1);
		CHECK(httpd_limiter_take(&limiter, key_of(text), 1000) == (i < 5));
	}
	CHECK(httpd_limiter_take(&limiter, key_of("2001:db8:0:1::1"), 1000));
	/* two connections of one address */
	for (int i = 0; i < 3; i++) {
		snprintf(text, sizeof text, "2001:db8::%d", i + 1);
		c[i] = httpd_clients_enter(&clients, key_of(text), 2);
		CHECK((c[i] != NULL) == (i < 2));
	}
	httpd_clients_leave(&clients, c[0]);
	CHECK(httpd_clients_enter(&clients, key_of("2001:db8::9"), 2) == c[1]);
	CHECK(httpd_clients_enter(&clients, key_of("2001:db8::9"), 2) == NULL);
	httpd_clients_leave(&clients, c[1]);
	httpd_clients_leave(&clients, c[1]);
}

/* A full server closes the connection that was idle for the longest time, and serves the new
 * one. */
static void full_of_idle(void)
{
	struct httpd_config config = { .connections_max = 100,
		.per_client_max = 1000,
		.threads = 1 };
	struct httpd *h = start(&config);
	int fds[150];

	for (int i = 0; i < 150; i++)
		fds[i] = dial();
	answers("GET /text HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 200 ", "0123456789");
	for (int i = 0; i < 150; i++)
		close(fds[i]);
	httpd_stop(h);
}

static void per_client(void)
{
	struct httpd_config config = { .per_client_max = 3 };
	struct httpd *h = start(&config);
	int fds[4], open = 0;
	char c;

	for (int i = 0; i < 4; i++) {
		fds[i] = dial();
		/* the last one is closed at once */
		CHECK(says(fds[i], "GET /text HTTP/1.1\r\nHost: x\r\n\r\n") || i == 3);
		open += recv(fds[i], &c, 1, 0) == 1;
	}
	CHECK_I64(3, open);
	for (int i = 0; i < 4; i++)
		close(fds[i]);
	httpd_stop(h);
}

int main(void)
{
	struct httpd_config config = { .threads = 2 };
	struct httpd *h;
	int fd = mkstemp(file_path);

	CHECK(fd >= 0 && write(fd, "abcdefghijklmnopqrstuvwxyz", 26) == 26);
	close(fd);
	CHECK(pthread_create(&resumer.thread, NULL, run_resumer, NULL) == 0);
	clients_by_address();
	h = start(&config);
	framing();
	pieces_of_requests();
	requests_in_full();
	bodies();
	own_limits();
	ranges();
	sources();
	events();
	quick_events();
	slow_reader();
	leaving();
	head_of_stream();
	leave_at_once();
	slow_handlers();
	slow_clients_take_turns();
	large_bodies_leave_a_thread();
	CHECK_I64(0, works);
	httpd_stop(h);
	budgets();
	shares();
	least_rate();
	full_of_idle();
	per_client();
	pthread_mutex_lock(&resumer.lock);
	resumer.stop = true;
	pthread_mutex_unlock(&resumer.lock);
	pthread_join(resumer.thread, NULL);
	unlink(file_path);
	TEST_END();
}
