/* net.c - addresses as texts, connections on loopback, whole messages, and peers that stall or
 * leave. */
#include "common/net/net.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "tests/unit/test.h"

#define WAIT_MS 20000 /* for what has to happen at all */

static void check_split(void)
{
	static const char *const wrong[] = { "", "host", "host:", ":x", "host:65536",
		"host:123456", "host:-1", "host:80 ", "[::1:80", "[]",
		"[]:", "host:0x10" };
	char host[NET_HOST_MAX], longest[NET_HOST_MAX + 10];
	int port;

	CHECK(net_split("localhost:80", "t", host, &port) == 0);
	CHECK_TEXT("localhost", host);
	CHECK_I64(80, port);
	CHECK(net_split("[::1]:65535", "t", host, &port) == 0);
	CHECK_TEXT("::1", host);
	CHECK_I64(65535, port);
	CHECK(net_split(":0", "t", host, &port) == 0);
	CHECK_TEXT("", host);
	CHECK_I64(0, port);
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		CHECK_FAILS(EX_USAGE, net_split(wrong[i], "t", host, &port));
	memset(longest, 'a', sizeof longest);
	snprintf(longest + NET_HOST_MAX - 1, 5, ":80");
	CHECK(net_split(longest, "t", host, &port) == 0);
	CHECK_I64(NET_HOST_MAX - 1, (int64_t)strlen(host));
	memset(longest, 'a', sizeof longest);
	snprintf(longest + NET_HOST_MAX, 5, ":80");
	CHECK_FAILS(EX_USAGE, net_split(longest, "t", host, &port));
}

/* Both ends of a connection on loopback. */
static void connect_pair(int fd[2], int64_t timeout_ms)
{
	int port, listening = net_listen("127.0.0.1:0", "test", &port);

	CHECK(listening >= 0 && port > 0);
	fd[0] = net_connect("127.0.0.1", port, timeout_ms);
	fd[1] = net_accept(listening, WAIT_MS);
	CHECK(fd[0] >= 0 && fd[1] >= 0);
	close(listening);
}

#define MUCH ((size_t)8 << 20) /* more than the kernel's buffers */

struct sending {
	int fd;
	const char *data;
	int rc;
};

static void *send_much(void *arg)
{
	struct sending *s = arg;

	s->rc = net_send(s->fd, s->data, MUCH);
	return NULL;
}

static void check_messages(void)
{
	char *data = xmalloc(MUCH), *back = xmalloc(MUCH), byte;
	struct sending s = { .data = data };
	pthread_t thread;
	int fd[2];

	for (size_t i = 0; i < MUCH; i++)
		data[i] = (char)(i * 2654435761u >> 11);
	connect_pair(fd, WAIT_MS);
	s.fd = fd[0];
	pthread_create(&thread, NULL, send_much, &s);
	CHECK(net_receive(fd[1], back, MUCH) == 0);
	pthread_join(thread, NULL);
	CHECK(s.rc == 0 && memcmp(data, back, MUCH) == 0);

	/* a message that breaks off is no message */
	CHECK(net_send(fd[0], "abc", 3) == 0);
	close(fd[0]);
	CHECK_FAILS(EX_UNAVAILABLE, net_receive(fd[1], back, 4));
	CHECK_FAILS(EX_UNAVAILABLE, net_receive(fd[1], &byte, 1));
	CHECK(net_receive(fd[1], back, 0) == 0);
	close(fd[1]);

	/* a peer that left is reported as an error, not by SIGPIPE */
	connect_pair(fd, WAIT_MS);
	close(fd[0]);
	s.fd = fd[1];
	CHECK_FAILS(EX_UNAVAILABLE, net_send(s.fd, data, MUCH));
	close(fd[1]);
	free(data);
	free(back);
}

static void check_stalls(void)
{
	char *data = xcalloc(1, MUCH), byte;
	int fd[2];

	/* nobody writes, and nobody reads */
	connect_pair(fd, 100);
	CHECK_FAILS(EX_TEMPFAIL, net_receive(fd[0], &byte, 1));
	CHECK_FAILS(EX_TEMPFAIL, net_send(fd[0], data, MUCH));
	close(fd[0]);
	close(fd[1]);
	free(data);
}

static void check_listening(void)
{
	char text[40];
	int port, other, fd = net_listen("127.0.0.1:0", "test", &port);

	CHECK(fd >= 0);
	CHECK_FAILS(EX_TEMPFAIL, net_accept(fd, 50));
	snprintf(text, sizeof text, "127.0.0.1:%d", port);
	CHECK_FAILS(EX_UNAVAILABLE, net_listen(text, "test", &other));
	close(fd);
	CHECK_FAILS(EX_UNAVAILABLE, net_connect("127.0.0.1", port, WAIT_MS));
	CHECK_FAILS(EX_USAGE, net_listen("127.0.0.1", "test", &port));
	/* an address that no machine has (RFC 5737) */
	CHECK_FAILS(EX_UNAVAILABLE, net_listen("192.0.2.1:0", "test", &port));
	/* all addresses, by IPv4 as well where there is IPv6 */
	fd = net_listen(":0", "test", &port);
	if (fd >= 0) {
		other = net_connect("127.0.0.1", port, WAIT_MS);
		CHECK(other >= 0);
		close(other);
		close(fd);
	}
	err_clear();
}

static bool is_private(const char *text)
{
	struct sockaddr_storage a = { 0 };
	struct sockaddr_in *v4 = (struct sockaddr_in *)&a;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&a;

	if (inet_pton(AF_INET, text, &v4->sin_addr) == 1)
		a.ss_family = AF_INET;
	else if (inet_pton(AF_INET6, text, &v6->sin6_addr) == 1)
		a.ss_family = AF_INET6;
	return net_is_private((struct sockaddr *)&a);
}

static void check_private(void)
{
	static const char *const inside[] = { "127.0.0.1", "127.255.0.9", "10.1.2.3",
		"172.16.0.1", "172.31.255.255", "192.168.0.1", "169.254.169.254",
		"100.64.0.1", "0.0.0.0", "224.0.0.1", "255.255.255.255", "198.18.0.1",
		"::", "::1", "fc00::1", "fdff::1", "fe80::1", "fec0::1", "ff02::1",
		"::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:a00:1::1", "no address" };
	static const char *const outside[] = { "1.1.1.1", "172.15.0.1", "172.32.0.1",
		"100.63.0.1", "100.128.0.1", "192.169.0.1", "198.20.0.1", "11.0.0.1",
		"2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101" };

	for (size_t i = 0; i < sizeof inside / sizeof *inside; i++)
		CHECK(is_private(inside[i]));
	for (size_t i = 0; i < sizeof outside / sizeof *outside; i++)
		CHECK(!is_private(outside[i]));
}

int main(void)
{
	check_private();
	check_split();
	check_messages();
	check_stalls();
	check_listening();
	TEST_END();
}
