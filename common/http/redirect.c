/* redirect.c - where a connection leads, and where a redirect may. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "common/base/err.h"
#include "common/http/parts.h"
#include "common/net/net.h"

static bool refuses(const struct http *h, const struct http_request *q,
	const struct sockaddr *to, bool redirected)
{
	if (q->public_only)
		return net_is_private(to) || net_is_own(to);
	return redirected && q->public_redirects && net_is_private(to) &&
		!net_same_host(to, (const struct sockaddr *)&h->first);
}

/* A server must not make us ask a neighbour of ours: another machine of this network, or another
 * service of this machine, that trusts whoever can reach it. */
bool http_may_connect(struct http *h, const struct curl_sockaddr *address)
{
	struct http_transfer *t = h->now;
	const struct sockaddr *to = &address->addr;
	bool redirected = t && t->r->status >= 300 && t->r->status < 400;
	char text[INET6_ADDRSTRLEN + 1] = "";

	if (!redirected) {
		memset(&h->first, 0, sizeof h->first);
		memcpy(&h->first, to,
			address->addrlen < sizeof h->first ? address->addrlen :
							     sizeof h->first);
	}
	if (!t || !refuses(h, t->q, to, redirected))
		return true;
	if (to->sa_family == AF_INET)
		inet_ntop(AF_INET,
			&((const struct sockaddr_in *)(const void *)to)->sin_addr, text,
			sizeof text);
	else if (to->sa_family == AF_INET6)
		inet_ntop(AF_INET6,
			&((const struct sockaddr_in6 *)(const void *)to)->sin6_addr, text,
			sizeof text);
	t->callback_failed = true;
	err_set(EX_DATAERR, "'%s' %s the private address %s", t->q->url,
		redirected ? "redirects to" : "is at", text);
	return false;
}

void http_note_peer(CURL *curl, struct http_transfer *t)
{
	struct http_response *r = t->r;
	const char *peer = NULL, *local = NULL;
	long port = 0, tunnel = 0;

	http_curl.easy_getinfo(curl, CURLINFO_PRIMARY_IP, &peer);
	http_curl.easy_getinfo(curl, CURLINFO_LOCAL_IP, &local);
	http_curl.easy_getinfo(curl, CURLINFO_PRIMARY_PORT, &port);
	http_curl.easy_getinfo(curl, CURLINFO_HTTP_CONNECTCODE, &tunnel);
	t->refused_tunnel = tunnel >= 300;
	snprintf(r->peer_ip, sizeof r->peer_ip, "%s", peer ? peer : "");
	r->peer_port = (int)port;
	r->peer_own = peer && local && peer[0] && strcmp(peer, local) == 0;
}
