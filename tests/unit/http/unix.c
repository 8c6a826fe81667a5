/* unix.c - requests over a unix socket: no name is looked up, no proxy asked, no redirect followed,
 * and one handle keeps the connections of several sockets apart. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "common/http/http.h"
#include "tests/unit/test.h"

static char dir[] = "/tmp/rnp-unix-XXXXXX";

/* A server that answers every request with its name and the request's first line. */
struct server {
	const char *name;
	char path[60];
	int fd, asked;
	const char *head; /* of its answers */
	pthread_t thread;
};

/* Reads a request without a body, up to its empty line. Returns whether one came. */
static bool read_request(int fd, char *to, size_t max)
{
	size_t n = 0;

	to[0] = '\0';
	while (!strstr(to, "\r\n\r\n")) {
		ssize_t got = read(fd, to + n, max - 1 - n);

		if (got <= 0)
			return false;
		n += (size_t)got;
		to[n] = '\0';
	}
	return true;
}

static void answer_one(struct server *s, int fd)
{
	char request[4096], body[512], reply[1024];
	int n;

	while (read_request(fd, request, sizeof request)) {
		s->asked++;
		snprintf(body, sizeof body, "%s: %.*s", s->name,
			(int)strcspn(request, "\r"), request);
		n = snprintf(reply, sizeof reply, "%sContent-Length: %zu\r\n\r\n%s",
			s->head, strlen(body), body);
		if (write(fd, reply, (size_t)n) != n)
			return;
	}
}

/* One connection at a time: a client that opened two would hang. */
static void *serve(void *arg)
{
	struct server *s = arg;
	int fd;

	while ((fd = accept(s->fd, NULL, NULL)) >= 0) {
		answer_one(s, fd);
		close(fd);
	}
	return NULL;
}

static void start(struct server *s)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };

	snprintf(s->path, sizeof s->path, "%s/%s", dir, s->name);
	snprintf(at.sun_path, sizeof at.sun_path, "%s", s->path);
	s->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(bind(s->fd, (struct sockaddr *)&at, sizeof at) == 0);
	CHECK(listen(s->fd, 8) == 0);
	CHECK(pthread_create(&s->thread, NULL, serve, s) == 0);
}

static void stop(struct server *s)
{
	shutdown(s->fd, SHUT_RDWR);
	pthread_join(s->thread, NULL);
	close(s->fd);
	unlink(s->path);
}

/* The host of the URL is no name that anybody knows: it is only what the request says. */
static void check_two(struct http *h, struct server *a, struct server *b)
{
	struct http_request q = { .url = "http://d/one?x=1", .unix_socket = a->path };
	struct http_response r = HTTP_RESPONSE_INIT;

	for (int i = 0; i < 3; i++) {
		q.unix_socket = a->path;
		CHECK(http_fetch(h, &q, &r) == 0);
		CHECK_TEXT("a: GET /one?x=1 HTTP/1.1", buf_text(&r.body));
		q.unix_socket = b->path;
		CHECK(http_fetch(h, &q, &r) == 0);
		CHECK_TEXT("b: GET /one?x=1 HTTP/1.1", buf_text(&r.body));
	}
	http_response_release(&r);
}

/* A proxy of the environment, or of the request, is for hosts. */
static void check_proxies(struct http *h, struct server *a)
{
	struct http_request q = { .url = "http://d/proxy",
		.unix_socket = a->path,
		.tries = 1,
		.proxy = "http://127.0.0.1:1" };
	struct http_response r = HTTP_RESPONSE_INIT;

	setenv("http_proxy", "http://127.0.0.1:1", 1);
	CHECK(http_fetch(h, &q, &r) == 0);
	q.proxy = NULL;
	CHECK(http_fetch(h, &q, &r) == 0);
	CHECK_TEXT("a: GET /proxy HTTP/1.1", buf_text(&r.body));
	unsetenv("http_proxy");
	http_response_release(&r);
}

/* Whoever answers at a socket sends us nowhere else, not even to itself. */
static void check_redirect(struct http *h, struct server *a)
{
	struct http_request q = { .url = "http://d/there", .unix_socket = a->path };
	struct http_response r = HTTP_RESPONSE_INIT;
	const char *head = a->head;
	int asked = a->asked;

	a->head = "HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\n";
	CHECK(http_fetch(h, &q, &r) == -1);
	CHECK_I64(302, r.status);
	CHECK_I64(asked + 1, a->asked);
	err_clear();
	a->head = head;
	http_response_release(&r);
}

static void check_absent(struct http *h)
{
	char path[200];
	struct http_request q = { .url = "http://d/", .unix_socket = path, .tries = 1 };
	struct http_response r = HTTP_RESPONSE_INIT;

	snprintf(path, sizeof path, "%s/none", dir);
	CHECK(http_fetch(h, &q, &r) == -1);
	CHECK_I64(EX_UNAVAILABLE, err_get()->code);
	CHECK(strstr(err_get()->text, path) != NULL);
	err_clear();
	memset(path, 'x', HTTP_SOCKET_MAX + 1);
	path[HTTP_SOCKET_MAX + 1] = '\0';
	CHECK_FAILS(EX_USAGE, http_fetch(h, &q, &r));
	/* the longest that there is only fails because nobody is there */
	path[HTTP_SOCKET_MAX] = '\0';
	CHECK_FAILS(EX_UNAVAILABLE, http_fetch(h, &q, &r));
	http_response_release(&r);
}

int main(void)
{
	static const char ok[] = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n";
	struct server a = { .name = "a", .head = ok }, b = { .name = "b", .head = ok };
	struct http h = HTTP_INIT;

	if (!mkdtemp(dir))
		return 1;
	start(&a);
	start(&b);
	check_two(&h, &a, &b);
	check_proxies(&h, &a);
	check_redirect(&h, &a);
	check_absent(&h);
	http_release(&h);
	stop(&a);
	stop(&b);
	rmdir(dir);
	TEST_END();
}
