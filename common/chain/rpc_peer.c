/* rpc_peer.c - compares servers by their names and addresses. */
#include "common/chain/rpc_peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/base/err.h"
#include "common/net/net.h"

#define LOOPBACK "localhost"

static bool is_loopback_v4(const struct in_addr *a)
{
	uint32_t n = ntohl(a->s_addr);

	return n >> 24 == 127 || n == 0; /* 0.0.0.0 leads here, too */
}

/* Writes an IPv4 address in its canonical form; one within IPv6 becomes the same text. */
static void put_v4(char out[RPC_PEER_HOST_MAX], const struct in_addr *a, bool *is_public)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr = *a };

	*is_public = !net_is_private((const struct sockaddr *)&in);
	if (is_loopback_v4(a))
		strcpy(out, LOOPBACK);
	else
		inet_ntop(AF_INET, a, out, RPC_PEER_HOST_MAX);
}

static void put_v6(char out[RPC_PEER_HOST_MAX], const struct in6_addr *a, bool *is_public)
{
	struct sockaddr_in6 in = { .sin6_family = AF_INET6, .sin6_addr = *a };
	struct in_addr inner;

	if (IN6_IS_ADDR_V4MAPPED(a)) {
		memcpy(&inner, a->s6_addr + 12, sizeof inner);
		put_v4(out, &inner, is_public);
		return;
	}
	*is_public = !net_is_private((const struct sockaddr *)&in);
	if (IN6_IS_ADDR_LOOPBACK(a) || IN6_IS_ADDR_UNSPECIFIED(a))
		strcpy(out, LOOPBACK);
	else
		inet_ntop(AF_INET6, a, out, RPC_PEER_HOST_MAX);
}

/* Writes a host in its canonical form. curl takes numbers in all forms that inet_aton knows. */
static void put_host(char out[RPC_PEER_HOST_MAX], const char *host, size_t n,
	bool *is_public)
{
	const char *domain;
	struct in_addr v4;
	struct in6_addr v6;

	for (size_t i = 0; i < n; i++)
		out[i] = (char)(host[i] >= 'A' && host[i] <= 'Z' ? host[i] + 32 :
								   host[i]);
	out[n] = '\0';
	if (n && out[n - 1] == '.') /* the root */
		out[--n] = '\0';
	domain = strrchr(out, '.');
	if (inet_aton(out, &v4))
		put_v4(out, &v4, is_public);
	else if (inet_pton(AF_INET6, out, &v6) == 1)
		put_v6(out, &v6, is_public);
	else if (domain && strcmp(domain, "." LOOPBACK) == 0)
		strcpy(out, LOOPBACK);
}

/* Reads ":443", or nothing, which leaves *port alone. Returns 0, or -1: it is no port. */
static int read_port(const char *text, size_t n, int *port)
{
	int v = 0;

	if (n <= 1) /* a colon alone means the default, too */
		return n == 0 || *text == ':' ? 0 : -1;
	if (*text != ':' || n > 6)
		return -1;
	for (size_t i = 1; i < n; i++) {
		if (text[i] < '0' || text[i] > '9')
			return -1;
		v = v * 10 + text[i] - '0';
	}
	*port = v;
	return v <= 65535 ? 0 : -1;
}

int rpc_peer_parse(struct rpc_peer *out, const char *url)
{
	bool tls = strncasecmp(url, "https://", 8) == 0, ignored;
	const char *authority = url + (tls ? 8 : 7), *host, *end, *port;
	size_t n;

	*out = (struct rpc_peer){ .tls = tls, .port = tls ? 443 : 80 };
	if (!tls && strncasecmp(url, "http://", 7) != 0)
		return err_set(EX_USAGE, "'%.200s' is not an http or https URL", url);
	end = authority + strcspn(authority, "/?#\\");
	for (const char *at = authority; at < end; at++)
		if (*at == '@') /* a user's name, and a password */
			authority = at + 1;
	host = authority + (*authority == '[');
	if (*authority == '[') {
		n = strcspn(host, "]%/"); /* a zone names an interface of this machine */
		port = host + strcspn(host, "]/");
		port = *port == ']' ? port + 1 : NULL;
	} else {
		n = strcspn(host, ":/?#\\");
		port = host + n;
	}
	if (!n || n >= sizeof out->host || !port || port > end ||
		read_port(port, (size_t)(end - port), &out->port) < 0)
		return err_set(EX_USAGE, "'%.200s' is not a URL with a host", url);
	put_host(out->host, host, n, &ignored);
	snprintf(out->name, sizeof out->name, "http%s://%.*s", tls ? "s" : "",
		(int)(end - authority), authority);
	return 0;
}

void rpc_peer_note_address(struct rpc_peer *v, const char *ip, int port, bool own)
{
	char host[RPC_PEER_HOST_MAX];
	size_t n = strcspn(ip, "%");

	if (!n || n >= RPC_PEER_IP_MAX)
		return;
	put_host(host, ip, n, &v->is_public);
	snprintf(v->ip, sizeof v->ip, "%.*s", RPC_PEER_IP_MAX - 1, own ? LOOPBACK : host);
	v->ip_port = port;
	v->is_public = v->is_public && !own;
}

bool rpc_peer_same(const struct rpc_peer *a, const struct rpc_peer *b)
{
	return a->port == b->port && strcmp(a->host, b->host) == 0;
}

bool rpc_peer_same_server(const struct rpc_peer *a, const struct rpc_peer *b)
{
	if (rpc_peer_same(a, b))
		return true;
	if (!a->ip[0] || a->ip_port != b->ip_port || strcmp(a->ip, b->ip) != 0)
		return false;
	return !(a->tls && b->tls && a->is_public && b->is_public);
}
