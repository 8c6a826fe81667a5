/* http.c - streams both ways, ranges, resume, limits and abort against a server in a
 * thread of this test, which answers as each case says, badly too.
 *
 * long because a server that misbehaves and the cases that it is for are read together.
 *
 * RNP_HTTP_BYTES: how much goes up and down in the test of memory (make soak: 8 GiB). */
#include "common/http/http.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/io.h"
#include "common/base/mem.h"
#include "common/base/num.h"
#include "common/http/parts.h"
#include "common/http/sign.h"
#include "common/net/net.h"
#include "tests/unit/test.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

#define WAIT_MS 20000 /* for what has to happen at all */

/* --- the server ---------------------------------------------------------------------------- */

struct exchange {
	int fd, number; /* of the connection: 1, 2, ... */
	char head[8192];
	struct buf body; /* what came after the head at once */
};

static struct server {
	int listen_fd, port;
	pthread_t thread;
	void (*_Atomic serve)(struct exchange *x);
	_Atomic int connections;
	_Atomic bool ended, busy;
	_Atomic int64_t counted; /* for the cases */
	char url[64];
} server;

static char last_head[8192]; /* of the last request; read when it has been answered */

static void send_all(struct exchange *x, const void *data, size_t n)
{
	net_send(x->fd, data, n); /* a client that left is no failure */
}

static void send_text(struct exchange *x, const char *text)
{
	send_all(x, text, strlen(text));
}

static void send_head(struct exchange *x, const char *status, int64_t bytes,
	const char *more)
{
	char head[600];

	snprintf(head, sizeof head,
		"HTTP/1.1 %s\r\nContent-Length: %lld\r\nConnection: close\r\n%s\r\n",
		status, (long long)bytes, more);
	send_text(x, head);
}

static void answer(struct exchange *x, const char *status, const char *body)
{
	send_head(x, status, (int64_t)strlen(body), "");
	send_text(x, body);
}

/* The value of a request's header, or "". Valid until the next call. */
static const char *header_of(const char *head, const char *name)
{
	static _Thread_local char value[400];
	char line[100];
	const char *at;

	snprintf(line, sizeof line, "\r\n%s: ", name);
	at = strcasestr(head, line);
	value[0] = '\0';
	if (at)
		snprintf(value, sizeof value, "%.*s",
			(int)strcspn(at + strlen(line), "\r"), at + strlen(line));
	return value;
}

static bool read_head(struct exchange *x)
{
	size_t len = 0;
	char *end;

	while (!(end = strstr(x->head, "\r\n\r\n"))) {
		ssize_t n = recv(x->fd, x->head + len, sizeof x->head - 1 - len, 0);

		if (n <= 0)
			return false;
		len += (size_t)n;
		x->head[len] = '\0';
	}
	end += 4;
	buf_add(&x->body, end, len - (size_t)(end - x->head));
	*end = '\0';
	return true;
}

static void *run_server(void *arg)
{
	(void)arg;
	while (!server.ended) {
		struct exchange *x = xcalloc(1, sizeof *x);

		x->fd = net_accept(server.listen_fd, WAIT_MS);
		if (x->fd >= 0 && !server.ended) {
			server.busy = true;
			x->number = ++server.connections;
			if (read_head(x)) {
				memcpy(last_head, x->head, sizeof last_head);
				server.serve(x);
			}
		}
		if (x->fd >= 0)
			close(x->fd);
		buf_release(&x->body);
		free(x);
		server.busy = false;
	}
	return NULL;
}

static void start_server(void)
{
	server.listen_fd = net_listen("127.0.0.1:0", "test", &server.port);
	CHECK(server.listen_fd >= 0);
	snprintf(server.url, sizeof server.url, "http://127.0.0.1:%d/file", server.port);
	CHECK(pthread_create(&server.thread, NULL, run_server, NULL) == 0);
}

static void stop_server(void)
{
	int fd;

	server.ended = true;
	fd = net_connect("127.0.0.1", server.port, WAIT_MS);
	pthread_join(server.thread, NULL);
	close(fd);
	close(server.listen_fd);
}

static void serve_with(void (*serve)(struct exchange *x))
{
	/* the last client may have left before its server has seen it */
	for (int i = 0; i < WAIT_MS && server.busy; i++)
		usleep(1000);
	server.serve = serve;
	server.connections = 0;
	server.counted = 0;
}

/* --- data ---------------------------------------------------------------------------------- */

#define SIZE ((int64_t)3 << 20)

/* The byte at each place of an endless file. */
static char byte_at(int64_t at)
{
	return (char)(at * 2654435761u >> 13);
}

static void fill(char *to, int64_t at, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] = byte_at(at + (int64_t)i);
}

static bool is_right(const char *data, int64_t at, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (data[i] != byte_at(at + (int64_t)i))
			return false;
	return true;
}

static void send_bytes(struct exchange *x, int64_t from, int64_t n)
{
	char piece[65536];

	for (int64_t at = 0; at < n; at += (int64_t)sizeof piece) {
		size_t bytes = n - at < (int64_t)sizeof piece ? (size_t)(n - at) :
								sizeof piece;

		fill(piece, from + at, bytes);
		if (net_send(x->fd, piece, bytes) < 0)
			return;
		server.counted += (int64_t)bytes;
	}
}

/* A sink that looks at what comes. */
struct taken {
	int64_t at, from;
	bool wrong, fails, cannot_restart;
	int again, restarts;
};

static int take(void *ctx, const void *data, size_t len)
{
	struct taken *t = ctx;

	if (t->fails)
		return err_set(EX_CANTCREAT, "the sink is full");
	if (t->again-- > 0)
		return HTTP_AGAIN;
	t->wrong = t->wrong || !is_right(data, t->from + t->at, len);
	t->at += (int64_t)len;
	return 0;
}

static int restart(void *ctx)
{
	struct taken *t = ctx;

	t->at = t->from = 0;
	t->restarts++;
	return 0;
}

#define SINK(taken)                                               \
	{                                                         \
		.write = take, .restart = restart, .ctx = (taken) \
	}

/* --- down ---------------------------------------------------------------------------------- */

static void serve_file(struct exchange *x)
{
	send_head(x, "200 OK", SIZE, "ETag: \"one\"\r\n");
	send_bytes(x, 0, SIZE);
}

static void serve_missing(struct exchange *x)
{
	answer(x, "404 Not Found", "{\"error\":\"no such file\"}");
}

static void check_sinks(struct http *h)
{
	struct taken taken = { .again = 3 };
	struct http_sink sink = SINK(&taken);
	struct http_request q = { .url = server.url, .sink = &sink };
	struct http_response r = HTTP_RESPONSE_INIT;
	char name[] = "/tmp/rnp-http-XXXXXX", *back = xmalloc((size_t)SIZE + 100);
	int fd = mkstemp(name);

	serve_with(serve_file);
	CHECK(http_fetch(h, &q, &r) == 0);
	CHECK(!taken.wrong && r.body.len == 0);
	CHECK_I64(SIZE, taken.at);
	CHECK_I64(SIZE, r.sunk_bytes);
	CHECK_I64(SIZE, r.total_bytes);
	CHECK_TEXT("\"one\"", r.etag);
	CHECK_TEXT("identity", header_of(last_head, "Accept-Encoding"));

	sink = (struct http_sink){ .fd = fd, .offset = 100 };
	CHECK(http_fetch(h, &q, &r) == 0);
	CHECK_I64(SIZE + 100, pread(fd, back, (size_t)SIZE + 100, 0));
	CHECK(is_right(back + 100, 0, (size_t)SIZE));

	/* an error's message is no part of the file */
	serve_with(serve_missing);
	taken = (struct taken){ .at = 0 };
	sink = (struct http_sink)SINK(&taken);
	CHECK(http_fetch(h, &q, &r) == -1 && err_get()->code == EXIT_NO);
	CHECK(strstr(err_get()->text, "no such file"));
	err_clear();
	CHECK_I64(0, taken.at);

	serve_with(serve_file);
	taken.fails = true;
	CHECK_FAILS(EX_CANTCREAT, http_fetch(h, &q, &r));
	CHECK_I64(1, r.tries);
	taken = (struct taken){ .at = 0 };
	q.response_bytes_max = 1000000;
	CHECK_FAILS(EX_DATAERR, http_fetch(h, &q, &r));
	CHECK(taken.at <= 1000000);

	unlink(name);
	close(fd);
	free(back);
	http_response_release(&r);
}

/* The server writes as long as anybody takes it; the sink waits until it cannot. */
#define MUCH ((int64_t)256 << 20)

static void serve_much(struct exchange *x)
{
	int bytes = 65536;

	setsockopt(x->fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
	send_head(x, "200 OK", MUCH, "");
	send_bytes(x, 0, MUCH);
}

static int64_t held_at, still_since_ns, seen = -1;

static int take_late(void *ctx, const void *data, size_t len)
{
	int64_t now_ns = clock_mono_ns();

	(void)ctx, (void)data, (void)len;
	if (seen != server.counted) {
		seen = server.counted;
		still_since_ns = now_ns;
	}
	if (now_ns - still_since_ns < 300000000)
		return HTTP_AGAIN;
	held_at = seen;
	return err_set(EX_NOPERM, "seen enough");
}

static void check_back_pressure(struct http *h)
{
	struct http_sink sink = { .write = take_late };
	struct http_request q = { .url = server.url, .sink = &sink };
	struct http_response r = HTTP_RESPONSE_INIT;

	serve_with(serve_much);
	CHECK_FAILS(EX_NOPERM, http_fetch(h, &q, &r));
	/* what the kernel's buffers on both sides and libcurl hold */
	CHECK(held_at > 0 && held_at < (int64_t)32 << 20);
	http_response_release(&r);
}

/* --- ranges and resume --------------------------------------------------------------------- */

/* Sends what is asked for, in pieces of a MiB and a bit: each connection breaks off. */
static const char *entity = "\"one\"";

static void serve_in_pieces(struct exchange *x)
{
	const char *range = header_of(x->head, "Range");
	int64_t from = *range ? strtoll(range + 6, NULL, 10) : 0;
	char more[200];

	if (*range && strcmp(header_of(x->head, "If-Range"), entity) != 0)
		from = 0;
	if (from)
		snprintf(more, sizeof more,
			"ETag: %s\r\nContent-Range: bytes %lld-%lld/%lld\r\n", entity,
			(long long)from, (long long)SIZE - 1, (long long)SIZE);
	else
		snprintf(more, sizeof more, "%s%s%s", *entity ? "ETag: " : "", entity,
			*entity ? "\r\n" : "");
	send_head(x, from ? "206 Partial Content" : "200 OK", SIZE - from, more);
	send_bytes(x, from, SIZE - from < 1200000 ? SIZE - from : 1200000);
}

/* The entity is another after the first piece. */
static void serve_changed(struct exchange *x)
{
	entity = x->number == 1 ? "\"one\"" : "\"two\"";
	if (x->number < 3) {
		serve_in_pieces(x);
		return;
	}
	send_head(x, "206 Partial Content", SIZE - 1200000,
		"ETag: \"two\"\r\nContent-Range: bytes 1200000-3145727/3145728\r\n");
	send_bytes(x, 1200000, SIZE - 1200000);
}

static void serve_wrong_range(struct exchange *x)
{
	if (x->number == 1) {
		serve_in_pieces(x);
		return;
	}
	send_head(x, "206 Partial Content", 5,
		"ETag: \"one\"\r\nContent-Range: bytes 5-9/3145728\r\n");
	send_bytes(x, 5, 5);
}

static void serve_other_part(struct exchange *x)
{
	if (x->number == 1) {
		serve_in_pieces(x);
		return;
	}
	send_head(x, "206 Partial Content", SIZE - 1200000,
		"ETag: \"two\"\r\nContent-Range: bytes 1200000-3145727/3145728\r\n");
	send_bytes(x, 1200000, SIZE - 1200000);
}

static void check_resume(struct http *h)
{
	struct taken taken = { .at = 0 };
	struct http_sink sink = SINK(&taken);
	struct http_request q = { .url = server.url, .sink = &sink, .tries = 2 };
	struct http_response r = HTTP_RESPONSE_INIT;

	/* three connections, though two tries are allowed: each brought more than a MiB */
	entity = "\"one\"";
	serve_with(serve_in_pieces);
	CHECK(http_fetch(h, &q, &r) == 0);
	CHECK(!taken.wrong);
	CHECK_I64(SIZE, taken.at);
	CHECK_I64(3, server.connections);
	CHECK_I64(0, taken.restarts);
	CHECK_TEXT("bytes=2400000-", header_of(last_head, "Range"));
	CHECK_TEXT("\"one\"", header_of(last_head, "If-Range"));

	/* a weak tag is none: from the beginning each time, and the tries come to their end */
	entity = "W/\"one\"";
	serve_with(serve_in_pieces);
	taken = (struct taken){ .at = 0 };
	CHECK_FAILS(EX_DATAERR, http_fetch(h, &q, &r));
	CHECK_I64(2, server.connections);
	CHECK_I64(1, taken.restarts);
	CHECK_TEXT("", header_of(last_head, "Range"));

	/* nothing can be taken back, so there is one try */
	sink.restart = NULL;
	serve_with(serve_in_pieces);
	CHECK_FAILS(EX_DATAERR, http_fetch(h, &q, &r));
	CHECK_I64(1, server.connections);
	sink.restart = restart;

	serve_with(serve_changed);
	taken = (struct taken){ .at = 0 };
	q.tries = 3;
	CHECK(http_fetch(h, &q, &r) == 0);
	CHECK(!taken.wrong);
	CHECK_I64(SIZE, taken.at);
	CHECK_I64(1, taken.restarts);

	entity = "\"one\"";
	serve_with(serve_wrong_range);
	CHECK_FAILS(EX_DATAERR, http_fetch(h, &q, &r));
	serve_with(serve_other_part);
	CHECK_FAILS(EX_DATAERR, http_fetch(h, &q, &r));
	http_response_release(&r);
}

static void serve_end(struct exchange *x)
{
	send_head(x, "416 Range Not Satisfiable", 0,
		"Content-Range: bytes */3145728\r\n");
}

static void serve_range(struct exchange *x)
{
	send_head(x, "206 Partial Content", 100,
		"Content-Range: bytes 1000-1099/3145728\r\n");
	send_bytes(x, 1000, 100);
}

static void check_ranges(struct http *h)
{
	static const struct {
		const char *text;
		int64_t first, last, total;
	} ranges[] = { { "bytes 0-9/100", 0, 9, 100 }, { "bytes 5-5/*", 5, 5, -1 },
		{ "bytes */7", -1, -1, 7 }, { "BYTES 1-2/3", 1, 2, 3 } };
	static const char *const wrong[] = { "", "bytes", "bytes ", "bytes 1-0/5",
		"bytes 0-5/5", "bytes */*", "bytes -1-2/3", "bytes 0-1/2 ", "bytes 0-1",
		"lines 0-1/2", "bytes 0-9999999999999999999/*" };
	struct taken taken = { .from = 1000 };
	struct http_sink sink = SINK(&taken);
	struct http_request q = { .url = server.url,
		.sink = &sink,
		.range_from = 1000,
		.range_bytes = 100 };
	struct http_response r = HTTP_RESPONSE_INIT;
	struct http_range range;

	for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
		CHECK(http_range_parse(&range, ranges[i].text) == 0);
		CHECK(range.first == ranges[i].first && range.last == ranges[i].last &&
			range.total == ranges[i].total);
	}
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		CHECK(http_range_parse(&range, wrong[i]) == -1);

	serve_with(serve_range);
	CHECK(http_fetch(h, &q, &r) == 0);
	CHECK(!taken.wrong && taken.at == 100);
	CHECK_TEXT("bytes=1000-1099", header_of(last_head, "Range"));
	CHECK_I64(SIZE, r.total_bytes);
	q.range_bytes = 50; /* fewer than come */
	CHECK_FAILS(EX_DATAERR, http_fetch(h, &q, &r));
	q.range_bytes = 0;
	serve_with(serve_file); /* which knows no ranges */
	CHECK_FAILS(EX_DATAERR, http_fetch(h, &q, &r));
	q.if_range = "\"zero\""; /* but then the whole is right */
	taken = (struct taken){ .from = 1000 };
	CHECK(http_fetch(h, &q, &r) == 0);
	CHECK(!taken.wrong && taken.restarts == 1 && taken.at == SIZE);
	serve_with(serve_end);
	q.range_from = SIZE;
	CHECK(http_fetch(h, &q, &r) == 0);
	q.range_from = SIZE - 1;
	CHECK_FAILS(EXIT_NO, http_fetch(h, &q, &r));
	http_response_release(&r);
}

static void check_file(const char *path)
{
	struct buf text = BUF_INIT;

	CHECK(io_read(&text, path, (size_t)SIZE) == 0);
	CHECK_I64(SIZE, (int64_t)text.len);
	CHECK(is_right(buf_text(&text), 0, text.len));
	buf_release(&text);
}

static void check_download(struct http *h)
{
	char dir[] = "/tmp/rnp-http-XXXXXX", path[60], part[70], tag[80];
	struct http_request q = { .url = server.url, .tries = 1 };
	struct http_response r = HTTP_RESPONSE_INIT;
	struct stat st;

	CHECK(mkdtemp(dir) != NULL);
	snprintf(path, sizeof path, "%s/file", dir);
	snprintf(part, sizeof part, "%s.part", path);
	snprintf(tag, sizeof tag, "%s.etag", part);
	CHECK(io_replace(path, "old", 3, 0644) == 0);
	entity = "\"one\"";
	serve_with(serve_in_pieces);
	CHECK_FAILS(EX_DATAERR, http_download(h, &q, path, &r));
	CHECK(stat(path, &st) == 0 && st.st_size == 3); /* the old one is still there */
	CHECK(stat(part, &st) == 0 && st.st_size == 1200000);
	CHECK_FAILS(EX_DATAERR, http_download(h, &q, path, &r));
	CHECK_TEXT("bytes=1200000-", header_of(last_head, "Range"));
	CHECK(http_download(h, &q, path, &r) == 0);
	check_file(path);
	CHECK(access(part, F_OK) < 0 && access(tag, F_OK) < 0);

	/* another one by then: anew */
	CHECK_FAILS(EX_DATAERR, http_download(h, &q, path, &r));
	entity = "\"two\"";
	q.tries = 2;
	CHECK(http_download(h, &q, path, &r) == 0);
	check_file(path);

	/* without a tag nothing is kept */
	entity = "";
	q.tries = 1;
	CHECK_FAILS(EX_DATAERR, http_download(h, &q, path, &r));
	CHECK(access(part, F_OK) < 0 && access(tag, F_OK) < 0);
	serve_with(serve_missing);
	CHECK_FAILS(EXIT_NO, http_download(h, &q, path, &r));
	CHECK(access(part, F_OK) < 0);
	check_file(path);

	/* whole already, and only not renamed */
	CHECK(rename(path, part) == 0 && io_replace(tag, "\"one\"", 5, 0644) == 0);
	serve_with(serve_end);
	CHECK(http_download(h, &q, path, &r) == 0);
	check_file(path);
	unlink(path);
	rmdir(dir);
	http_response_release(&r);
}

/* Header fields without end, as one answer and as many of 103. */
static void serve_headers(struct exchange *x)
{
	char line[1100];

	memset(line, 'x', sizeof line);
	memcpy(line, "X-More: ", 8);
	memcpy(line + 1000, "\r\n", 3);
	send_text(x, "HTTP/1.1 200 OK\r\n");
	for (int i = 0; i < 100000 && net_send(x->fd, line, 1002) == 0; i++)
		;
}

static void serve_early_hints(struct exchange *x)
{
	static const char hint[] = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";

	for (int i = 0; i < 1000000 && net_send(x->fd, hint, sizeof hint - 1) == 0; i++)
		;
}

static void check_headers(struct http *h)
{
	struct http_request q = { .url = server.url, .tries = 1 };
	struct http_response r = HTTP_RESPONSE_INIT;

	serve_with(serve_headers);
	CHECK(http_fetch(h, &q, &r) == -1 && err_get()->code == EX_DATAERR);
	CHECK(strstr(err_get()->text, "bytes of headers"));
	err_clear();
	serve_with(serve_early_hints);
	CHECK_FAILS(EX_DATAERR, http_fetch(h, &q, &r));
	http_response_release(&r);
}

/* --- up ------------------------------------------------------------------------------------ */

/* Counts the body as it comes, chunked or not, and looks at the bytes of one that is not. */
static void serve_upload(struct exchange *x)
{
	int64_t bytes = *header_of(x->head, "Content-Length") ?
		strtoll(header_of(x->head, "Content-Length"), NULL, 10) :
		-1;
	int64_t got = (int64_t)x->body.len;
	bool right = bytes < 0 || is_right(buf_text(&x->body), 0, x->body.len);
	char piece[65536], last[8] = "", text[100];

	if (bytes < 0 && got >= 7)
		memcpy(last, x->body.data + got - 7, 7);
	if (*header_of(x->head, "Expect"))
		send_text(x, "HTTP/1.1 100 Continue\r\n\r\n");
	while (got != bytes && (bytes >= 0 || strcmp(last, "\r\n0\r\n\r\n") != 0)) {
		ssize_t n = recv(x->fd, piece, sizeof piece, 0);

		if (n <= 0)
			return;
		right = right && (bytes < 0 || is_right(piece, got, (size_t)n));
		got += n;
		for (ssize_t i = n > 7 ? n - 7 : 0; i < n; i++) {
			memmove(last, last + 1, 6);
			last[6] = piece[i];
		}
	}
	server.counted = got;
	snprintf(text, sizeof text, "{\"right\":%s}", right ? "true" : "false");
	answer(x,
		server.connections == 1 && strstr(x->head, "busy") ? "503 Busy" :
								     "200 OK",
		text);
}

struct given {
	int64_t at, end;
	int again, rewinds;
};

static long give(void *ctx, void *to, size_t max)
{
	struct given *g = ctx;
	size_t n = g->end - g->at < (int64_t)max ? (size_t)(g->end - g->at) : max;

	if (g->again-- > 0)
		return HTTP_AGAIN;
	fill(to, g->at, n);
	g->at += (int64_t)n;
	return (long)n;
}

static long give_error(void *ctx, void *to, size_t max)
{
	(void)ctx, (void)to, (void)max;
	return err_set(EX_NOINPUT, "nothing to give");
}

static int rewind_given(void *ctx)
{
	struct given *g = ctx;

	g->at = 0;
	g->rewinds++;
	return 0;
}

static void serve_refusal(struct exchange *x)
{
	answer(x, "413 Too Large", "{\"error\":\"too large\"}");
}

static void check_sources(struct http *h)
{
	struct given given = { .end = SIZE, .again = 3 };
	struct http_source source = { .read = give,
		.rewind = rewind_given,
		.ctx = &given,
		.bytes = SIZE };
	struct http_request q = { .url = server.url, .source = &source };
	struct http_response r = HTTP_RESPONSE_INIT;
	char name[] = "/tmp/rnp-http-XXXXXX", *bytes = xmalloc((size_t)SIZE), busy[100];
	int fd = mkstemp(name);

	serve_with(serve_upload);
	CHECK(http_fetch(h, &q, &r) == 0);
	CHECK_TEXT("{\"right\":true}", buf_text(&r.body));
	CHECK_I64(SIZE, server.counted);
	CHECK(strncmp(last_head, "POST ", 5) == 0);
	CHECK_TEXT("", header_of(last_head, "Expect"));

	/* chunks, which cost some bytes more */
	given = (struct given){ .end = SIZE };
	source.bytes = -1;
	q.method = "PUT";
	q.expect = true;
	CHECK(http_fetch(h, &q, &r) == 0);
	CHECK(server.counted > SIZE);
	CHECK(strncmp(last_head, "PUT ", 4) == 0);
	CHECK_TEXT("chunked", header_of(last_head, "Transfer-Encoding"));
	CHECK_TEXT("100-continue", header_of(last_head, "Expect"));

	/* refused before the body is sent */
	serve_with(serve_refusal);
	given = (struct given){ .end = SIZE };
	source.bytes = SIZE;
	CHECK_FAILS(EX_DATAERR, http_fetch(h, &q, &r));
	CHECK_I64(0, given.at);
	q.expect = false;

	/* again after 503, from the beginning */
	serve_with(serve_upload);
	snprintf(busy, sizeof busy, "http://127.0.0.1:%d/busy", server.port);
	q.url = busy;
	given = (struct given){ .end = SIZE };
	CHECK(http_fetch(h, &q, &r) == 0);
	CHECK_TEXT("{\"right\":true}", buf_text(&r.body));
	CHECK(given.rewinds >= 1);
	CHECK_I64(2, r.tries);
	serve_with(serve_upload);
	source.rewind = NULL;
	given = (struct given){ .end = SIZE };
	CHECK_FAILS(EX_TEMPFAIL, http_fetch(h, &q, &r));
	CHECK_I64(1, r.tries);

	/* a file, from the middle on */
	serve_with(serve_upload);
	q.url = server.url;
	fill(bytes, 0, (size_t)SIZE);
	CHECK(pwrite(fd, bytes, (size_t)SIZE, 77) == SIZE);
	source = (struct http_source){ .fd = fd, .offset = 77, .bytes = SIZE };
	CHECK(http_fetch(h, &q, &r) == 0);
	CHECK_TEXT("{\"right\":true}", buf_text(&r.body));
	source.bytes = SIZE + 1; /* there are fewer */
	CHECK_FAILS(EX_IOERR, http_fetch(h, &q, &r));
	source = (struct http_source){ .read = give_error, .bytes = -1 };
	CHECK_FAILS(EX_NOINPUT, http_fetch(h, &q, &r));

	unlink(name);
	close(fd);
	free(bytes);
	http_response_release(&r);
}

/* --- limits -------------------------------------------------------------------------------- */

/* A byte every now and then, for as long as somebody takes it. */
static void serve_drops(struct exchange *x)
{
	send_head(x, "200 OK", SIZE, "");
	for (int i = 0; i < 1000 && net_send(x->fd, "x", 1) == 0; i++)
		usleep(20000);
}

static void serve_silence(struct exchange *x)
{
	char byte;

	while (recv(x->fd, &byte, 1, 0) > 0) /* until the client leaves */
		;
}

static int take_any(void *ctx, const void *data, size_t len)
{
	(void)ctx, (void)data, (void)len;
	return 0;
}

static void check_limits(struct http *h)
{
	struct http_sink sink = { .write = take_any };
	struct given given = { .end = 1 << 20 };
	struct http_source source = { .read = give, .ctx = &given, .bytes = 1 << 20 };
	struct http_request q = { .url = server.url,
		.sink = &sink,
		.tries = 1,
		.rate_min = 1000000,
		.rate_window_ms = 300 };
	struct http_response r = HTTP_RESPONSE_INIT;
	int64_t start_ns;

	serve_with(serve_drops);
	CHECK(http_fetch(h, &q, &r) == -1 && err_get()->code == EX_TEMPFAIL);
	CHECK(strstr(err_get()->text, "too slow") && r.broken_off);
	err_clear();
	serve_with(serve_silence);
	q.answer_timeout_ms = 200;
	CHECK(http_fetch(h, &q, &r) == -1 && err_get()->code == EX_TEMPFAIL);
	CHECK(strstr(err_get()->text, "did not answer in time") && !r.broken_off);
	err_clear();
	q = (struct http_request){ .url = server.url, .timeout_ms = 200, .tries = 1 };
	CHECK_FAILS(EX_TEMPFAIL, http_fetch(h, &q, &r));

	/* 1 MiB at 2 MiB/s takes some time; how much more, nobody can promise */
	q = (struct http_request){ .url = server.url,
		.sink = &sink,
		.rate_down_max = 2 << 20 };
	serve_with(serve_file);
	start_ns = clock_mono_ns();
	CHECK(http_fetch(h, &q, &r) == 0);
	CHECK(clock_mono_ns() - start_ns > 800000000);
	q = (struct http_request){ .url = server.url,
		.source = &source,
		.rate_up_max = 1 << 20 };
	serve_with(serve_upload);
	start_ns = clock_mono_ns();
	CHECK(http_fetch(h, &q, &r) == 0);
	CHECK(clock_mono_ns() - start_ns > 400000000);
	http_response_release(&r);
}

/* --- abort --------------------------------------------------------------------------------- */

static void serve_endless(struct exchange *x)
{
	send_head(x, "200 OK", MUCH * 100, "");
	send_bytes(x, 0, MUCH * 100);
}

/* Reads nothing of what is sent, until the client leaves. */
static void serve_deaf(struct exchange *x)
{
	struct pollfd p = { x->fd, POLLRDHUP, 0 };

	poll(&p, 1, WAIT_MS);
}

static void serve_later(struct exchange *x)
{
	send_head(x, "503 Busy", 0, "Retry-After: 50\r\n");
}

struct aborting {
	struct http_abort a;
	bool connects; /* the server gets to see it */
	int64_t at_ns;
};

static void *abort_soon(void *arg)
{
	struct aborting *g = arg;

	for (int i = 0; i < WAIT_MS && g->connects && !server.connections; i++)
		usleep(1000);
	usleep(100000);
	g->at_ns = clock_mono_ns();
	http_abort(&g->a);
	return NULL;
}

/* Aborts a request in the state that it is in 100 ms after it has come to the server. Returns how
 * many ms later it ended. */
static int64_t abort_one(struct http *h, struct http_request *q, bool connects)
{
	struct aborting g = { .connects = connects };
	struct http_response r = HTTP_RESPONSE_INIT;
	pthread_t thread;
	int64_t end_ns;

	CHECK(http_abort_open(&g.a) == 0);
	q->abort = &g.a;
	pthread_create(&thread, NULL, abort_soon, &g);
	CHECK(http_fetch(h, q, &r) == -1 && err_get()->code == EX_TEMPFAIL);
	end_ns = clock_mono_ns();
	CHECK(r.aborted);
	CHECK(strstr(err_get()->text, "was aborted"));
	err_clear();
	pthread_join(thread, NULL);

	/* it stays switched until it is reset */
	CHECK_FAILS(EX_TEMPFAIL, http_fetch(h, q, &r));
	http_abort_reset(&g.a);
	http_abort_close(&g.a);
	http_response_release(&r);
	return (end_ns - g.at_ns) / 1000000;
}

/* A port whose connections nobody takes any more, so that a further one is not made. */
static int full_port(int *port, int *others, int n)
{
	struct sockaddr_in to = { .sin_family = AF_INET };
	socklen_t len = sizeof to;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(bind(fd, (struct sockaddr *)&to, sizeof to) == 0 && listen(fd, 0) == 0);
	CHECK(getsockname(fd, (struct sockaddr *)&to, &len) == 0);
	for (int i = 0; i < n; i++) {
		others[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
			0);
		if (connect(others[i], (struct sockaddr *)&to, sizeof to) == 0)
			continue;
	}
	*port = ntohs(to.sin_port);
	return fd;
}

static void check_abort(struct http *h)
{
	struct http_sink sink = { .write = take_any };
	struct given given = { .end = INT64_MAX / 2 };
	struct http_source source = { .read = give,
		.ctx = &given,
		.bytes = INT64_MAX / 2 };
	struct http_request q = { .url = server.url };
	int64_t ms, worst = 0;
	int others[4], port, fd;
	char url[64];

	serve_with(serve_silence);
	ms = abort_one(h, &q, true);
	worst = ms > worst ? ms : worst;
	serve_with(serve_endless);
	q = (struct http_request){ .url = server.url, .sink = &sink };
	ms = abort_one(h, &q, true);
	worst = ms > worst ? ms : worst;
	serve_with(serve_deaf);
	q = (struct http_request){ .url = server.url, .source = &source };
	ms = abort_one(h, &q, true);
	worst = ms > worst ? ms : worst;
	serve_with(serve_later);
	q = (struct http_request){ .url = server.url };
	ms = abort_one(h, &q, true);
	worst = ms > worst ? ms : worst;
	fd = full_port(&port, others, 4);
	snprintf(url, sizeof url, "http://127.0.0.1:%d/", port);
	q = (struct http_request){ .url = url,
		.connect_timeout_ms = 60000,
		.timeout_ms = 60000 };
	ms = abort_one(h, &q, false);
	worst = ms > worst ? ms : worst;
	for (int i = 0; i < 4; i++)
		close(others[i]);
	close(fd);
	fprintf(stderr, "abort: %lld ms at worst\n", (long long)worst);
	CHECK(worst <
		5000); /* 100 ms on a quiet machine; all other limits are above 20 s */
}

/* --- proxies, redirects, signatures -------------------------------------------------------- */

static void serve_empty(struct exchange *x)
{
	answer(x, "200 OK", "{}");
}

static void check_proxy(struct http *h)
{
	struct http_request q = { .url = "http://nowhere.invalid/a?b=c", .tries = 1 };
	struct http_response r = HTTP_RESPONSE_INIT;
	char proxy[64];

	serve_with(serve_empty);
	snprintf(proxy, sizeof proxy, "http://127.0.0.1:%d", server.port);
	q.proxy = proxy;
	CHECK(http_fetch(h, &q, &r) == 0);
	CHECK(strncmp(last_head, "GET http://nowhere.invalid/a?b=c HTTP/1.1\r\n", 43) ==
		0);
	setenv("http_proxy", proxy, 1);
	q.proxy = NULL;
	last_head[0] = '\0';
	CHECK(http_fetch(h, &q, &r) == 0);
	CHECK(strncmp(last_head, "GET http://nowhere.invalid/a", 28) == 0);
	setenv("http_proxy", "http://127.0.0.1:1", 1);
	q.url = server.url;
	CHECK_FAILS(EX_UNAVAILABLE, http_fetch(h, &q, &r));
	q.proxy = "";
	CHECK(http_fetch(h, &q, &r) == 0);
	CHECK(strncmp(last_head, "GET /file HTTP/1.1\r\n", 20) == 0);
	q.proxy = NULL;
	setenv("no_proxy", "127.0.0.1", 1);
	CHECK(http_fetch(h, &q, &r) == 0);
	unsetenv("no_proxy");
	unsetenv("http_proxy");
	http_response_release(&r);
}

static void serve_reset(struct exchange *x)
{
	struct linger now = { 1, 0 };

	setsockopt(x->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

/* A connection that breaks off is named with the kernel's reason. */
static void check_reasons(struct http *h)
{
	struct http_request q = { .url = server.url, .tries = 1 };
	struct http_response r = HTTP_RESPONSE_INIT;

	serve_with(serve_reset);
	CHECK(http_fetch(h, &q, &r) == -1 && err_get()->code == EX_UNAVAILABLE);
	CHECK(strstr(err_get()->text, "Connection reset by peer") != NULL);
	err_clear();
	http_response_release(&r);
}

static void serve_redirect(struct exchange *x)
{
	if (strncmp(x->head, "GET /file", 9) == 0)
		send_head(x, "302 Found", 0, "Location: /there\r\n");
	else
		answer(x, "200 OK", "{}");
}

static void check_redirects(struct http *h)
{
	struct http_request q = { .url = server.url };
	struct http_response r = HTTP_RESPONSE_INIT;
	struct key k = KEY_INIT;

	serve_with(serve_redirect);
	CHECK(http_fetch(h, &q, &r) == 0);
	CHECK(strncmp(last_head, "GET /there ", 11) == 0);
	q.no_redirects = true;
	CHECK_FAILS(EX_DATAERR, http_fetch(h, &q, &r));
	CHECK_I64(302, r.status);
	/* a signature is for one place */
	q.no_redirects = false;
	CHECK(key_generate(&k) == 0);
	q.signer = &k;
	CHECK_FAILS(EX_DATAERR, http_fetch(h, &q, &r));
	key_release(&k);
	http_response_release(&r);
}

static void serve_pages(struct exchange *x)
{
	static const char page[] =
		"\xef\xbb\xbf\n<!DOCTYPE html><title> Log in\n</title>";

	if (strncmp(x->head, "GET /json", 9) == 0) {
		send_head(x, "200 OK", 2, "Content-Type: text/html\r\n");
		send_text(x, "{}");
	} else if (strncmp(x->head, "GET /later", 10) == 0 && server.connections == 1) {
		answer(x, "403 No", "Forbidden");
	} else if (strncmp(x->head, "GET /later", 10) == 0) {
		answer(x, "200 OK", "{}");
	} else if (strncmp(x->head, "GET /bare", 9) == 0) {
		answer(x, "511 Pay", "<html> <body>\n<p>Pay here</p></body></html>");
	} else if (strncmp(x->head, "GET /away", 9) == 0) {
		send_head(x, "302 Found", 0, "Location: //login.invalid/x\r\n");
	} else {
		send_head(x, "200 OK", (int64_t)strlen(page),
			"Content-Type: text/html\r\n");
		send_text(x, page);
	}
}

static int sink_nothing(void *ctx, const void *data, size_t len)
{
	(void)ctx, (void)data, (void)len;
	bug("a page went into the sink");
}

/* What a middlebox says is no answer. */
static void check_between(struct http *h)
{
	const struct http_sink sink = { .write = sink_nothing };
	char url[100];
	struct http_request q = { .url = url, .tries = 2 };
	struct http_response r = HTTP_RESPONSE_INIT;

	serve_with(serve_pages);
	snprintf(url, sizeof url, "http://127.0.0.1:%d/page", server.port);
	CHECK(http_fetch(h, &q, &r) == -1 && err_get()->code == EX_UNAVAILABLE);
	CHECK(strstr(err_get()->text, ": \"Log in\"") != NULL);
	err_clear();
	CHECK_I64(0, r.status);
	q.sink = &sink;
	CHECK_FAILS(EX_UNAVAILABLE, http_fetch(h, &q, &r));
	q.sink = NULL;
	/* JSON that is called a page is JSON */
	snprintf(url, sizeof url, "http://127.0.0.1:%d/json", server.port);
	CHECK(http_fetch(h, &q, &r) == 0);
	serve_with(serve_pages);
	snprintf(url, sizeof url, "http://127.0.0.1:%d/later", server.port);
	CHECK(http_fetch(h, &q, &r) == 0);
	CHECK_I64(2, r.tries);
	/* without a title */
	snprintf(url, sizeof url, "http://127.0.0.1:%d/bare", server.port);
	CHECK(http_fetch(h, &q, &r) == -1 && err_get()->code == EX_UNAVAILABLE);
	CHECK(strstr(err_get()->text, "(HTTP 511): \"Pay here\"") != NULL);
	err_clear();
	q.no_redirects = true;
	snprintf(url, sizeof url, "http://127.0.0.1:%d/away", server.port);
	CHECK(http_fetch(h, &q, &r) == -1 && err_get()->code == EX_UNAVAILABLE);
	CHECK(strstr(err_get()->text, "redirects to 'http://login.invalid'") != NULL);
	err_clear();
	http_response_release(&r);
}

static char signatures[3][400];

static void serve_signed(struct exchange *x)
{
	struct httpsig_policy p = { .required = HTTP_SIGN_COMPONENTS,
		.tag = HTTP_SIGN_TAG,
		.now_s = clock_now_ms() / 1000,
		.max_age_s = 60,
		.skew_s = 1 };
	char input[400], host[100];
	struct httpsig_field fields[2] = { { "Signature-Input", input },
		{ "Signature", signatures[x->number] } };
	struct httpsig_message m = { .method = "GET",
		.authority = host,
		.target = "/a/../b%20c?d=e",
		.fields = fields,
		.nfields = 2 };
	struct httpsig_result r;

	snprintf(host, sizeof host, "%s", header_of(x->head, "Host"));
	snprintf(input, sizeof input, "%s", header_of(x->head, "Signature-Input"));
	snprintf(signatures[x->number], 400, "%s", header_of(x->head, "Signature"));
	if (httpsig_verify(&m, &p, &r) != HTTPSIG_GOOD)
		answer(x, "401 No", r.reason);
	else if (x->number == 1)
		answer(x, "503 Busy", "{}");
	else
		answer(x, "200 OK", r.address);
}

static void check_signed(struct http *h)
{
	struct http_request q = { .tries = 2 };
	struct http_response r = HTTP_RESPONSE_INIT;
	struct key k = KEY_INIT;
	char url[100];

	CHECK(key_generate(&k) == 0);
	snprintf(url, sizeof url, "HTTP://127.0.0.1:%d/a/../b%%20c?d=e#f", server.port);
	q.url = url;
	q.signer = &k;
	serve_with(serve_signed);
	CHECK(http_fetch(h, &q, &r) == 0);
	CHECK_TEXT(k.address, buf_text(&r.body));
	CHECK_I64(2, r.tries);
	/* each try is signed anew, with its own nonce */
	CHECK(strcmp(signatures[1], signatures[2]) != 0);
	q.url = "http://user@127.0.0.1/";
	CHECK_FAILS(EX_USAGE, http_fetch(h, &q, &r));
	key_release(&k);
	http_response_release(&r);
}

/* --- memory -------------------------------------------------------------------------------- */

static int64_t much_bytes;

static void serve_very_much(struct exchange *x)
{
	static char piece[1 << 20];
	int64_t left = much_bytes;

	if (strncmp(x->head, "GET", 3) != 0) {
		left -= (int64_t)x->body.len;
		while (left > 0) {
			ssize_t n = recv(x->fd, piece, sizeof piece, 0);

			if (n <= 0)
				return;
			left -= n;
		}
		answer(x, "200 OK", "{}");
		return;
	}
	send_head(x, "200 OK", much_bytes, "");
	for (; left > 0; left -= (int64_t)sizeof piece)
		if (net_send(x->fd, piece,
			    left < (int64_t)sizeof piece ? (size_t)left : sizeof piece) <
			0)
			return;
}

static int64_t peak_bytes(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (int64_t)u.ru_maxrss * 1024;
}

static long give_any(void *ctx, void *to, size_t max)
{
	(void)ctx, (void)to;
	return (long)max;
}

/* More than the memory goes up and down. First, so that the peak is this test's. */
static void check_memory(struct http *h)
{
	const char *text = getenv("RNP_HTTP_BYTES");
	struct http_sink sink = { .write = take_any };
	struct http_source source = { .read = give_any };
	struct http_request q = { .url = server.url, .sink = &sink };
	struct http_response r = HTTP_RESPONSE_INIT;
	int64_t start_ns = clock_mono_ns(), down_ns;

	much_bytes = SANITIZED ? (int64_t)64 << 20 : (int64_t)512 << 20;
	if (text)
		CHECK(num_i64(text, "RNP_HTTP_BYTES", 1, INT64_MAX / 2, &much_bytes) ==
			0);
	serve_with(serve_very_much);
	CHECK(http_fetch(h, &q, &r) == 0);
	CHECK_I64(much_bytes, r.sunk_bytes);
	down_ns = clock_mono_ns() - start_ns;
	source.bytes = much_bytes;
	q = (struct http_request){ .url = server.url, .source = &source };
	CHECK(http_fetch(h, &q, &r) == 0);
	fprintf(stderr, "%.1f GiB down at %.2f GB/s, up at %.2f GB/s, %.1f MiB at most\n",
		(double)much_bytes / (1 << 30), (double)much_bytes / (double)down_ns,
		(double)much_bytes / (double)(clock_mono_ns() - start_ns - down_ns),
		(double)peak_bytes() / (1 << 20));
	if (!SANITIZED)
		CHECK(peak_bytes() < (int64_t)32 << 20);
	http_response_release(&r);
}

int main(void)
{
	struct http h = HTTP_INIT;

	if (sodium_init() < 0)
		return 1;
	unsetenv("http_proxy");
	unsetenv("all_proxy");
	start_server();
	check_memory(&h);
	check_sinks(&h);
	check_back_pressure(&h);
	check_resume(&h);
	check_ranges(&h);
	check_download(&h);
	check_headers(&h);
	check_sources(&h);
	check_limits(&h);
	check_abort(&h);
	check_proxy(&h);
	check_reasons(&h);
	check_redirects(&h);
	check_between(&h);
	check_signed(&h);
	http_release(&h);
	stop_server();
	TEST_END();
}
