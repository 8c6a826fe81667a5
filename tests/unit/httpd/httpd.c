/* httpd.c - request targets, routes and entity tags by hand; and a real server on
 * loopback that answers later from another thread, refuses what is too much, and closes slow
 * clients. */
#include "common/httpd/httpd.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/http/http.h"
#include "tests/unit/test.h"

static enum httpd_when echo(void *ctx, struct httpd_request *q, struct httpd_reply *r)
{
	(void)ctx;
	r->content_type = "text/plain";
	buf_addf(&r->body, "%s|%s|%s", q->arg ? q->arg : "-", buf_text(&q->body),
		httpd_query(q, "x") ? httpd_query(q, "x") : "-");
	snprintf(r->etag, sizeof r->etag, "\"e\"");
	return HTTPD_NOW;
}

struct late {
	struct httpd_request *q;
	struct httpd_reply *r;
};

static void *answer_late(void *arg)
{
	struct late *l = arg;

	usleep(20000);
	buf_adds(&l->r->body, "{\"late\":true}");
	httpd_finish(l->q);
	free(l);
	return NULL;
}

static enum httpd_when later(void *ctx, struct httpd_request *q, struct httpd_reply *r)
{
	struct late *l = malloc(sizeof *l);
	pthread_t thread;

	(void)ctx;
	*l = (struct late){ q, r };
	pthread_create(&thread, NULL, answer_late, l);
	pthread_detach(thread);
	return HTTPD_LATER;
}

static enum httpd_when later_at_once(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	(void)ctx;
	buf_adds(&r->body, "{\"late\":false}");
	httpd_finish(q);
	return HTTPD_LATER;
}

/* Answers when httpd_stop has waited as long as it waits for others. */
#define VERY_LATE_US 5500000

static _Atomic bool very_late_called, very_late_answered;

static void *answer_very_late(void *arg)
{
	struct late *l = arg;

	usleep(VERY_LATE_US);
	very_late_answered = true;
	httpd_finish(l->q);
	free(l);
	return NULL;
}

static enum httpd_when very_late(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct late *l = malloc(sizeof *l);
	pthread_t thread;

	(void)ctx;
	*l = (struct late){ q, r };
	very_late_called = true;
	pthread_create(&thread, NULL, answer_very_late, l);
	pthread_detach(thread);
	return HTTPD_LATER;
}

static const struct httpd_route routes[] = {
	HTTPD_GET("/echo", echo),
	HTTPD_POST("/echo", echo, 100),
	HTTPD_GET("/echo/{name}", echo),
	HTTPD_GET("/later", later),
	HTTPD_GET("/later_at_once", later_at_once),
	HTTPD_GET("/very_late", very_late),
	{ 0 },
};

static void target(const char *text, int want, const char *path, const char *x)
{
	struct httpd_request q = { 0 };

	CHECK_I64(want, httpd_parse_uri(&q, text));
	if (want == 0) {
		CHECK_TEXT(path, q.path);
		CHECK_TEXT(x, httpd_query(&q, "x") ? httpd_query(&q, "x") : "-");
	}
	httpd_request_release(&q);
}

static void targets(void)
{
	char many[400] = "/p?";

	target("/p", 0, "/p", "-");
	target("/p?x=1&y=2", 0, "/p", "1");
	target("/p?y&x=a%20b+c%2Bd&", 0, "/p", "a b c+d");
	target("/a%2Fb+c?x", 0, "/a/b+c", "");
	target("/p?x=%c3%a4", 0, "/p", "\xc3\xa4");
	target("/p?x=%00", -1, "", "");
	target("http://h:1/p?x=1", 0, "/p", "1");
	target("HTTPS://h", 0, "/", "-");
	target("http://h?x=1", 0, "/", "1");
	target("/http://h/p", 0, "/http://h/p", "-");
	target("/p%0", -1, "", "");
	target("/p%", -1, "", "");
	target("/p?x=%g0", -1, "", "");
	target("/p?x=%ff", -1, "", "");
	target("/p\xff", -1, "", "");
	for (int i = 0; i < HTTPD_QUERY_MAX; i++)
		strcat(many, "a&");
	target(many, 0, "/p", "-");
	strcat(many, "a&");
	target(many, -1, "", "");
}

static int route(const char *method, const char *path, const char *want_arg)
{
	struct httpd_request q = { .method = method };
	const struct httpd_route *r;
	const char *allow = "";
	int status;

	CHECK_I64(0, httpd_parse_uri(&q, path));
	r = httpd_find_route(routes, &q, &status, &allow);
	if (r)
		CHECK_TEXT(want_arg, q.arg ? q.arg : "-");
	httpd_request_release(&q);
	return r ? (int)(r - routes) : -status;
}

static void find_routes(void)
{
	CHECK_I64(0, route("GET", "/echo", "-"));
	CHECK_I64(0, route("HEAD", "/echo", "-"));
	CHECK_I64(1, route("POST", "/echo", "-"));
	CHECK_I64(-405, route("PUT", "/echo", ""));
	CHECK_I64(2, route("GET", "/echo/joe", "joe"));
	CHECK_I64(-405, route("POST", "/echo/joe", ""));
	CHECK_I64(-404, route("GET", "/echo/", ""));
	CHECK_I64(-404, route("GET", "/echo/a/b", ""));
	CHECK_I64(-404, route("GET", "/echo/a%2Fb", ""));
	CHECK_I64(-404, route("GET", "/ech", ""));
}

static void etags(void)
{
	CHECK(httpd_etag_matches("\"a\"", "\"a\""));
	CHECK(httpd_etag_matches("W/\"a\"", "\"a\""));
	CHECK(httpd_etag_matches("\"b\", \"a\"", "\"a\""));
	CHECK(httpd_etag_matches(" * ", "\"a\""));
	CHECK(!httpd_etag_matches("\"ab\"", "\"a\""));
	CHECK(!httpd_etag_matches("\"a\"b", "\"a\""));
	CHECK(!httpd_etag_matches("\"b\"", "\"a\""));
	CHECK(!httpd_etag_matches("", "\"a\""));
	CHECK(!httpd_etag_matches(NULL, "\"a\""));
	CHECK(!httpd_etag_matches("\"a\"", ""));
}

static int port;
static struct http client = HTTP_INIT;

/* Returns the status; the body is compared when want is not NULL. */
static int ask(const char *path, const char *body, const char *etag, const char *want)
{
	struct http_response r = HTTP_RESPONSE_INIT;
	struct http_request q = { .body = body,
		.body_bytes = body ? strlen(body) : 0,
		.etag = etag,
		.tries = 1,
		.timeout_ms = 5000 };
	char url[200];
	int status;

	snprintf(url, sizeof url, "http://127.0.0.1:%d%s", port, path);
	q.url = url;
	(void)http_fetch(&client, &q, &r);
	err_clear();
	if (want)
		CHECK_TEXT(want, buf_text(&r.body));
	status = r.status;
	http_response_release(&r);
	return status;
}

static void answers(void)
{
	char large[101];

	CHECK_I64(200, ask("/echo?x=1", NULL, NULL, "-||1"));
	CHECK_I64(200, ask("/echo/joe", NULL, NULL, "joe||-"));
	CHECK_I64(200, ask("/echo", "body", NULL, "-|body|-"));
	CHECK_I64(304, ask("/echo", NULL, "\"e\"", ""));
	for (int i = 0; i < 20; i++) {
		CHECK_I64(200, ask("/later", NULL, NULL, "{\"late\":true}"));
		CHECK_I64(200, ask("/later_at_once", NULL, NULL, "{\"late\":false}"));
	}
	CHECK_I64(404,
		ask("/none", NULL, NULL,
			"{\"error\":\"there is nothing at this path\"}\n"));
	memset(large, 'x', 100);
	large[100] = '\0';
	CHECK_I64(200, ask("/echo", large, NULL, NULL));
	CHECK_I64(413,
		ask("/echo",
			"more than one hundred bytes, which is what the route that this"
			" is sent to takes and not a single one more than that",
			NULL, NULL));
	CHECK_I64(200, ask("/metrics", NULL, NULL, NULL));
}

static int dial(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct timeval limit = { 10, 0 };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	CHECK(connect(fd, (struct sockaddr *)&a, sizeof a) == 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
	return fd;
}

/* Sends a request that our own client would never send; returns the start of the answer. */
static void raw(const char *text, const char *want)
{
	int fd = dial();
	char answer[1024] = "";
	size_t n = 0;
	ssize_t got;

	CHECK(send(fd, text, strlen(text), MSG_NOSIGNAL) > 0);
	while (n < strlen(want) &&
		(got = recv(fd, answer + n, sizeof answer - 1 - n, 0)) > 0)
		n += (size_t)got;
	answer[strlen(want)] = '\0';
	CHECK_TEXT(want, answer);
	close(fd);
}

static void odd_requests(void)
{
	raw("GET http://x/echo HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200");
	raw("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\n"
	    "Content-Length: 2\r\n\r\n{}",
		"HTTP/1.1 415");
	raw("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Encoding: identity\r\n"
	    "Content-Length: 2\r\n\r\n{}",
		"HTTP/1.1 200");
	raw("GET /echo HTTP/1.1\r\n\r\n", "HTTP/1.1 400");
	raw("GET /echo HTTP/1.1\r\nHost: x\r\n\r\nGET /none HTTP/1.1\r\nHost: x\r\n\r\n",
		"HTTP/1.1 200");
}

/* A byte every 200 ms keeps a connection alive for a server that only looks for silence; here
 * a whole request has two seconds, a body another two. */
static void slow_clients(const char *start)
{
	int64_t begun = clock_mono_ns();
	int fd = dial();
	char answer[256];

	CHECK(send(fd, start, strlen(start), MSG_NOSIGNAL) > 0);
	for (int i = 0; i < 40; i++) {
		usleep(200000);
		if (send(fd, "x", 1, MSG_NOSIGNAL) < 0 ||
			recv(fd, answer, sizeof answer, MSG_DONTWAIT) == 0)
			break;
	}
	CHECK(clock_mono_ns() - begun > 1000000000);
	CHECK(clock_mono_ns() - begun < INT64_C(7000000000));
	close(fd);
}

#define LARGE ((size_t)80 << 20)

static enum httpd_when count(void *ctx, struct httpd_request *q, struct httpd_reply *r)
{
	(void)ctx;
	buf_addf(&r->body, "%zu", q->body.len);
	return HTTPD_NOW;
}

/* Until the server has read so much of a body. */
static void wait_for_body(size_t bytes)
{
	char want[60];

	snprintf(want, sizeof want, "\nrnp_http_body_bytes %zu\n", bytes);
	for (int i = 0; i < 2000; i++) {
		struct http_response r = HTTP_RESPONSE_INIT;
		char url[100];
		struct http_request q = { .url = url, .tries = 1 };
		bool there;

		snprintf(url, sizeof url, "http://127.0.0.1:%d/metrics", port);
		CHECK(http_fetch(&client, &q, &r) == 0);
		there = strstr(buf_text(&r.body), want) != NULL;
		http_response_release(&r);
		if (there)
			return;
		usleep(10000);
	}
	CHECK(!"the body was read");
}

/* A route takes what it says, also when that is more than others have together; what is under
 * way at once has a limit. */
static void large_bodies(void)
{
	static const struct httpd_route large[] = { HTTPD_POST("/large", count, LARGE),
		{ 0 } };
	struct httpd_config config = { .listen = "127.0.0.1:0",
		.log_off = true,
		.request_timeout_s = 600, /* the second may take long on a busy machine */
		.routes = large };
	struct httpd *h = httpd_start(&config);
	char head[100], *body = malloc(LARGE + 1);
	int fd;

	CHECK(h != NULL);
	memset(body, 'x', LARGE);
	body[LARGE] = '\0';
	port = httpd_port(h);
	CHECK_I64(200, ask("/large", body, NULL, "83886080"));
	snprintf(head, sizeof head,
		"POST /large HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n", LARGE);
	fd = dial();
	CHECK(send(fd, head, strlen(head), MSG_NOSIGNAL) > 0);
	for (size_t sent = 0; sent < LARGE - 1;) { /* all but its last byte */
		ssize_t n = send(fd, body, LARGE - 1 - sent, MSG_NOSIGNAL);

		if (n <= 0)
			break;
		sent += (size_t)n;
	}
	wait_for_body(LARGE - 1);
	CHECK_I64(503,
		ask("/large", body, NULL,
			"{\"error\":\"too many large requests at once\"}\n"));
	body[LARGE / 2] = '\0';
	CHECK_I64(200, ask("/large", body, NULL, "41943040"));
	close(fd);
	free(body);
	http_release(&client);
	httpd_stop(h);
}

/* --- places in the pool --------------------------------------------------------------------- */

#define ASKED 600 /* requests of one client: more than half of the places */

static _Atomic bool held = true;

static enum httpd_when hold(void *ctx, struct httpd_request *q, struct httpd_reply *r)
{
	(void)ctx, (void)q, (void)r;
	while (held)
		usleep(1000);
	return HTTPD_NOW;
}

static int dial_from(uint32_t address)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(address) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	CHECK(bind(fd, (struct sockaddr *)&a, sizeof a) == 0);
	a.sin_port = htons((uint16_t)port);
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(connect(fd, (struct sockaddr *)&a, sizeof a) == 0);
	return fd;
}

/* Waits until that many of them are answered, and checks that no more than one more is. */
static void wait_for_answers(const int *fds, int n, int want)
{
	struct pollfd p[ASKED];
	int answered = 0;

	for (int i = 0; i < n; i++)
		p[i] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
	for (int tries = 0; answered < want && tries < 6000; tries++) {
		answered = poll(p, (nfds_t)n, 0);
		usleep(10000);
	}
	CHECK(answered == want || answered == want + 1);
}

/* One address that fills the queue of slow handlers leaves half of it, and the next one half of
 * that: another one still gets in. */
static void shares_of_pool(void)
{
	static const struct httpd_route slow[] = {
		{ .method = "GET", .path = "/hold", .handler = hold, .slow = true }, { 0 }
	};
	struct httpd_config config = { .listen = "127.0.0.1:0",
		.log_off = true,
		.request_timeout_s = 600,
		.connections_max = 3 * ASKED,
		.per_client_max = ASKED,
		.slow_threads = 1,
		.routes = slow };
	static const char text[] = "GET /hold HTTP/1.1\r\nHost: x\r\n\r\n";
	/* one runs, 512 wait; 256 wait */
	const int refused[2] = { ASKED - 513, ASKED - 257 };
	struct httpd *h = httpd_start(&config);
	static int fds[2][ASKED];
	char answer[13] = "";
	int last;

	CHECK(h != NULL);
	port = httpd_port(h);
	for (uint32_t who = 0; who < 2; who++) {
		for (int i = 0; i < ASKED; i++) {
			fds[who][i] = dial_from(INADDR_LOOPBACK + who);
			CHECK(send(fds[who][i], text, sizeof text - 1, MSG_NOSIGNAL) > 0);
		}
		wait_for_answers(fds[who], ASKED, refused[who]);
	}
	last = dial_from(INADDR_LOOPBACK + 2);
	CHECK(send(last, text, sizeof text - 1, MSG_NOSIGNAL) > 0);
	held = false;
	CHECK(recv(last, answer, 12, MSG_WAITALL) == 12);
	CHECK_TEXT("HTTP/1.1 200", answer);
	for (int who = 0; who < 2; who++)
		for (int i = 0; i < ASKED; i++)
			close(fds[who][i]);
	close(last);
	httpd_stop(h);
}

/* A request that still waits for its answer when it is time to close gets it. */
static void stop_while_one_waits(struct httpd *h)
{
	const char *text = "GET /very_late HTTP/1.1\r\nHost: x\r\n\r\n";
	int fd = dial();

	CHECK(send(fd, text, strlen(text), MSG_NOSIGNAL) > 0);
	for (int i = 0; i < 1000 && !very_late_called; i++)
		usleep(10000);
	CHECK(very_late_called);
	httpd_stop(h);
	CHECK(very_late_answered);
	close(fd);
}

int main(void)
{
	struct httpd_config config = { .listen = "127.0.0.1:0",
		.log_off = true,
		.request_timeout_s = 2,
		.routes = routes };
	struct httpd *h;

	targets();
	find_routes();
	etags();
	h = httpd_start(&config);
	CHECK(h != NULL);
	if (h) {
		port = httpd_port(h);
		answers();
		odd_requests();
		slow_clients("GET /echo HT");
		slow_clients(
			"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 90\r\n\r\n");
		CHECK_I64(200, ask("/echo", NULL, NULL, "-||-"));
		http_release(&client);
		stop_while_one_waits(h);
	}
	shares_of_pool();
	large_bodies();
	config.listen = "nonsense";
	CHECK(httpd_start(&config) == NULL);
	CHECK_I64(EX_USAGE, err_get()->code);
	TEST_END();
}
