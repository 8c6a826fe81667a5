/* proxy.c - the URL that clients use, and whom a proxy speaks for. */
#include "common/httpd/proxy.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/httpd/core.h"

/* --- the URL ----------------------------------------------------------------------------- */

static bool is_clean(const char *s)
{
	for (; *s; s++)
		if (*s <= 0x20 || *s > 0x7e || strchr("?#@\"'<>\\", *s))
			return false;
	return true;
}

/* Takes "https://host:port/path" apart; slashes at its end do not count. */
static int read_external(struct httpd_proxy *p, const char *url)
{
	size_t scheme = strncasecmp(url, "http://", 7) == 0 ? 4 :
		strncasecmp(url, "https://", 8) == 0        ? 5 :
							      0;
	size_t host = scheme ? strcspn(url + scheme + 3, "/") : 0;
	const char *path = scheme ? url + scheme + 3 + host : url;
	size_t n;

	if (!scheme || !host || !is_clean(url) || strstr(path, "//"))
		return err_set(EX_USAGE,
			"--external-url: '%s' is not a URL such as https://example.org/rnp",
			url);
	for (n = strlen(path); n && path[n - 1] == '/'; n--)
		;
	p->text = xmalloc(host + n + 2);
	memcpy(p->text, url + scheme + 3, host);
	p->text[host] = '\0';
	memcpy(p->text + host + 1, path, n);
	p->text[host + 1 + n] = '\0';
	p->external = (struct httpd_external){ .scheme = scheme == 4 ? "http" : "https",
		.authority = p->text,
		.prefix = p->text + host + 1 };
	return 0;
}

int httpd_proxy_open(struct httpd_proxy *p, const struct httpd_config *config)
{
	if (config->external_url && read_external(p, config->external_url) < 0)
		return -1;
	p->header = config->proxy_header;
	if (p->header && !config->ntrusted)
		return err_set(EX_USAGE, "--proxy-header needs --trusted-proxy");
	p->trusted = xcalloc((size_t)config->ntrusted + 1, sizeof *p->trusted);
	for (int i = 0; i < config->ntrusted; i++)
		if (net_cidr_parse(&p->trusted[p->ntrusted++], config->trusted_proxies[i],
			    "--trusted-proxy") < 0)
			return -1;
	return 0;
}

void httpd_proxy_close(struct httpd_proxy *p)
{
	free(p->text);
	free(p->trusted);
}

char *httpd_external_target(const struct httpd_request *q)
{
	struct buf target = BUF_INIT;

	if (*q->target == '/' && !q->below_prefix)
		buf_adds(&target, q->external->prefix);
	buf_adds(&target, q->target);
	return buf_take(&target);
}

/* --- the client -------------------------------------------------------------------------- */

/* A piece of a header line. */
struct piece {
	const char *s; /* NULL: none */
	size_t n;
};

/* What the elements of a field have named so far, from left to right. */
struct named {
	int rc; /* as httpd_proxy_client */
	struct net_address client;
};

/* Parses "192.0.2.1", "192.0.2.1:80", "[2001:db8::1]:80" or "2001:db8::1". */
static int read_node(struct net_address *out, struct piece node)
{
	const char *s = node.s, *end = s + node.n, *colon, *closed;

	if (s < end && *s == '[') {
		closed = memchr(s, ']', node.n);
		colon = closed ? closed + 1 : end;
		s++;
		node.n = closed ? (size_t)(closed - s) : 0;
	} else {
		colon = memchr(s, ':', node.n);
		if (!colon || memchr(colon + 1, ':', (size_t)(end - colon - 1)))
			colon = end;
		node.n = (size_t)(colon - s);
	}
	if (colon < end && (*colon != ':' || colon + 1 == end))
		return -1;
	for (const char *port = colon + 1; port < end; port++)
		if (*port < '0' || *port > '9')
			return -1;
	return net_address_parse(out, s, node.n);
}

/* Takes the next element. The client is the last that is no trusted proxy; where all are, the
 * first. */
static void take_node(const struct httpd_proxy *p, struct named *named, struct piece node)
{
	struct net_address a;

	if (!node.s || read_node(&a, node) < 0)
		named->rc = -1;
	else if (!named->rc || !net_cidr_has(p->trusted, p->ntrusted, &a))
		*named = (struct named){ .rc = 1, .client = a };
}

#define BLANK " \t"

static void read_x_forwarded_for(const struct httpd_proxy *p, struct named *named,
	const char *at)
{
	for (;;) {
		struct piece node = { .s = at + strspn(at, BLANK) };

		at = node.s + strcspn(node.s, ",");
		node.n = (size_t)(at - node.s);
		while (node.n && strchr(BLANK, node.s[node.n - 1]))
			node.n--;
		take_node(p, named, node);
		if (!*at++)
			break;
	}
}

/* Reads "name=value" or "name=\"value\"" and blanks after it. Returns 0, or -1: it is malformed, or
 * what follows is neither a semicolon, a comma nor the line's end. */
static int read_pair(const char **at, struct piece *name, struct piece *value)
{
	static const char ends[] = "=\",;\\" BLANK;
	const char *s = *at;

	*name = (struct piece){ s, strcspn(s, ends) };
	s += name->n;
	if (!name->n || *s != '=')
		return -1;
	s++;
	*value = (struct piece){ .s = s };
	if (*s == '"') {
		for (value->s = ++s; *s && *s != '"'; s++)
			s += *s == '\\' && s[1];
		value->n = (size_t)(s - value->s);
		if (!*s++)
			return -1;
	} else {
		value->n = strcspn(s, ends);
		s += value->n;
		if (!value->n)
			return -1;
	}
	*at = s + strspn(s, BLANK);
	return strchr(",;", **at) ? 0 : -1; /* which finds the end, too */
}

/* Reads one line of Forwarded. A client that leaves a quote open could swallow what its proxy
 * appends: such a line is refused as a whole. Returns 0, or -1: it is malformed. */
static int read_forwarded(const struct httpd_proxy *p, struct named *named,
	const char *at)
{
	struct piece node = { .s = NULL }, name, value;
	bool filled = false;

	for (;; at++) {
		at += strspn(at, BLANK);
		if (!strchr(",;", *at)) {
			if (read_pair(&at, &name, &value) < 0)
				return -1;
			filled = true;
			if (name.n == 3 && strncasecmp(name.s, "for", 3) == 0) {
				if (node.s)
					return -1;
				node = value;
			}
		}
		if (*at == ';')
			continue;
		if (filled)
			take_node(p, named, node);
		if (!*at)
			return 0;
		node.s = NULL;
		filled = false;
	}
}

/* Reads all lines of one of the two fields, each alone. Returns as httpd_proxy_client. */
static int read_field(const struct httpd_proxy *p, const struct httpd_pair *headers,
	int n, const char *name, struct net_address *out)
{
	struct named named = { .rc = 0 };
	bool found = false;

	for (int i = 0; i < n; i++) {
		if (strcasecmp(headers[i].key, name) != 0)
			continue;
		found = true;
		if (*name != 'F')
			read_x_forwarded_for(p, &named, headers[i].value);
		else if (read_forwarded(p, &named, headers[i].value) < 0)
			return -1;
	}
	*out = named.client;
	return found && !named.rc ? -1 : named.rc;
}

bool httpd_proxy_trusts(const struct httpd_proxy *p, const struct sockaddr *peer)
{
	struct net_address a = net_address_of(peer);

	return p->ntrusted && net_cidr_has(p->trusted, p->ntrusted, &a);
}

int httpd_proxy_client(const struct httpd_proxy *p, const struct httpd_pair *headers,
	int nheaders, struct net_address *out, const char **why)
{
	static const char *const names[] = { "X-Forwarded-For", "Forwarded" };
	int found = 0;

	for (int i = 0; i < 2; i++) {
		struct net_address a;
		int rc = 0;

		if (!p->header || strcasecmp(p->header, names[i]) == 0)
			rc = read_field(p, headers, nheaders, names[i], &a);
		if (rc < 0)
			*why = i ? "Forwarded is malformed or names no address" :
				   "X-Forwarded-For names no address";
		/* a proxy that writes one may pass on what a client wrote into the other */
		else if (rc && found && memcmp(&a, out, sizeof a) != 0)
			*why = "X-Forwarded-For and Forwarded name different clients: the server's --proxy-header says which one counts";
		if (*why)
			return -1;
		if (rc)
			*out = a;
		found |= rc;
	}
	return found;
}

bool httpd_exchange_identify(struct httpd_exchange *x)
{
	struct httpd *h = x->h;
	struct httpd_client *client;
	struct sockaddr_storage from;
	struct net_address a;
	const char *why = NULL;
	int found;

	if (!x->conn->trusted)
		return true;
	found = httpd_proxy_client(&h->proxy, x->q.headers, x->q.nheaders, &a, &why);
	if (found < 0)
		httpd_error(&x->r, 400, "%s", why);
	if (found <= 0)
		return found == 0;
	net_address_to(&a, &from);
	httpd_client_text((const struct sockaddr *)&from, x->address);
	x->exempt = httpd_is_loopback((const struct sockaddr *)&from) &&
		!h->config.rate_loopback;
	client = httpd_clients_enter(&h->clients,
		httpd_client_key((const struct sockaddr *)&from),
		h->config.per_client_max);
	if (client)
		x->client = client;
	else
		httpd_error(&x->r, 429, "too many requests at once from %s", x->q.client);
	return client != NULL;
}
