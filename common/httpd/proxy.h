/* proxy.h - a proxy in front of the server: the URL that clients use, and whom the proxy speaks
 * for. Uses httpd, net/cidr. */
#ifndef RNP_COMMON_HTTPD_PROXY_H
#define RNP_COMMON_HTTPD_PROXY_H

#include <stdbool.h>
#include <stddef.h>

#include "common/httpd/httpd.h"
#include "common/net/cidr.h"

struct sockaddr;

struct httpd_proxy {
	struct httpd_external external; /* scheme NULL: none */
	char *text;                     /* what external points into */
	struct net_cidr *trusted;
	size_t ntrusted;
	const char *header; /* config's proxy_header */
};

/* Reads config's external_url and trusted proxies. Returns 0, or -1 (64). Close either way. */
int httpd_proxy_open(struct httpd_proxy *p, const struct httpd_config *config);
void httpd_proxy_close(struct httpd_proxy *p);

/* Whether what a peer says of its clients counts. Pure. */
bool httpd_proxy_trusts(const struct httpd_proxy *p, const struct sockaddr *peer);

/* Finds the client that a trusted proxy names in X-Forwarded-For or Forwarded (RFC 7239), read from
 * the right: the first that is no trusted proxy itself, as what stands before it anybody may have
 * written. Only p->header counts, if there is one. Returns 1; 0: there is neither; -1 with *why:
 * one is malformed, or they differ. Pure. */
int httpd_proxy_client(const struct httpd_proxy *p, const struct httpd_pair *headers,
	int nheaders, struct net_address *out, const char **why);

/* The target of a request as its client has sent it: below the external URL's path. The caller
 * frees it. */
char *httpd_external_target(const struct httpd_request *q);

#endif
