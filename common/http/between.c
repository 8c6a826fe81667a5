/* between.c - what stands between us and a server, and answers in its place: a proxy, a redirect, a
 * firewall's page, a hotel's login page. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/err.h"
#include "common/http/parts.h"

/* --- what answered ------------------------------------------------------------------------- */

/* Returns where the body begins, after a byte order mark and blanks; "" where there is none. */
static const char *body_of(const struct http_response *r)
{
	const char *s = r->body.len ? r->body.data : "";

	s += strncmp(s, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
	return s + strspn(s, " \t\r\n");
}

bool http_says_page(const char *content_type)
{
	return strncasecmp(content_type, "text/html", 9) == 0 ||
		strncasecmp(content_type, "application/xhtml", 17) == 0;
}

/* All that we ask for is data. Some servers call their JSON a page. */
static bool is_page(const struct http_response *r)
{
	const char *s = body_of(r);

	return strncasecmp(s, "<!doctype html", 14) == 0 ||
		strncasecmp(s, "<html", 5) == 0 ||
		(http_says_page(r->content_type) && *s != '{' && *s != '[');
}

static bool is_json(const struct http_response *r)
{
	json_t *body = json_loadb(buf_text(&r->body), r->body.len, 0, NULL);
	bool is = json_is_object(body);

	json_decref(body);
	return is;
}

/* Whether a redirect, followed or not, led to another host than that of the URL. */
static bool leads_away(const struct http_transfer *t)
{
	const char *from = strstr(t->q->url, "://"), *to = strstr(t->moved_to, "://");
	size_t n;

	if (!from || !to)
		return false;
	n = strcspn(from + 3, ":/?#");
	return strncasecmp(from + 3, to + 3, n) != 0 || !strchr(":/?#", to[3 + n]);
}

bool http_is_between(const struct http_transfer *t)
{
	const struct http_response *r = t->r;

	if (t->into_sink)
		return false;
	switch (r->status) {
	case 407:
	case 511: /* Network Authentication Required, RFC 6585 */
		return true;
	case 401:
	case 403:
		return !is_json(r);
	case 413:
	case 429:
		return false; /* a proxy's limit holds for whoever asks through it */
	}
	if (r->status >= 300 && r->status < 400)
		return r->status != 304 && leads_away(t);
	return r->status >= 200 && r->status < 500 && is_page(r);
}

/* --- how it is called ---------------------------------------------------------------------- */

/* Writes "scheme://host:port" of a URL, without a user and a password. "": it has no host. */
static void site_of(const char *url, char out[HTTP_SITE_MAX])
{
	const char *host = strstr(url, "://"), *at;
	size_t n;

	out[0] = '\0';
	if (!host)
		return;
	n = strcspn(host + 3, "/?#");
	at = memrchr(host + 3, '@', n);
	if (at)
		n -= (size_t)(at + 1 - (host + 3));
	if (n && n < HTTP_SITE_MAX / 2)
		snprintf(out, HTTP_SITE_MAX, "%.*s%.*s", (int)(host + 3 - url), url,
			(int)n, at ? at + 1 : host + 3);
}

void http_note_location(struct http_transfer *t, const char *location)
{
	char site[HTTP_SITE_MAX];

	if (t->r->status < 300 || t->r->status >= 400)
		return;
	/* "//host/path" keeps the scheme */
	if (strncmp(location, "//", 2) == 0)
		snprintf(site, sizeof site, "%.*s%.*s",
			(int)(strcspn(t->q->url, ":") + 1), t->q->url, HTTP_SITE_MAX / 2,
			location);
	else
		site_of(location, site);
	if (site[0])
		site_of(site, t->moved_to);
}

/* Whether no_proxy, as in curl(1), excludes a host. */
static bool is_excluded(const char *host, size_t n)
{
	const char *list = getenv("no_proxy");

	list = list ? list : getenv("NO_PROXY");
	for (; list && *list; list += strcspn(list, ", "), list += strspn(list, ", ")) {
		size_t len = strcspn(list, ", ");
		const char *name = list + (*list == '.');

		len -= *list == '.';
		if (len == 1 && *name == '*')
			return true;
		if (len && len <= n && strncasecmp(name, host + n - len, len) == 0 &&
			(len == n || host[n - len - 1] == '.'))
			return true;
	}
	return false;
}

/* The variables that libcurl reads; http_proxy in lower case alone, as HTTP_PROXY is a header that
 * a client of a CGI program may set. */
static const char *proxy_of_environment(bool https)
{
	static const char *const names[] = { "https_proxy", "HTTPS_PROXY", "http_proxy",
		"all_proxy", "ALL_PROXY" };
	const char *value = NULL;

	for (size_t i = 0; !value && i < sizeof names / sizeof *names; i++)
		if (i > 2 || (i < 2) == https)
			value = getenv(names[i]);
	return value;
}

void http_proxy_name(const struct http_request *q, char out[HTTP_SITE_MAX])
{
	const char *host = strstr(q->url, "://"), *proxy = q->proxy;

	out[0] = '\0';
	if (q->unix_socket)
		return;
	host = host ? host + 3 : q->url;
	if (!proxy && !is_excluded(host, strcspn(host, ":/?#")))
		proxy = proxy_of_environment(strncasecmp(q->url, "https:", 6) == 0);
	if (!proxy || !*proxy)
		return;
	if (strstr(proxy, "://")) {
		site_of(proxy, out);
	} else {
		char url[HTTP_SITE_MAX];

		snprintf(url, sizeof url, "http://%.*s", HTTP_SITE_MAX / 2, proxy);
		site_of(url, out);
	}
}

/* Returns where a page's text begins: its title, else what follows the first tags. */
static const char *text_of(const char *page)
{
	const char *s = strcasestr(page, "<title>"), *end;

	if (s)
		return s + 7 + strspn(s + 7, " \t\r\n");
	for (s = page; *s == '<' && (end = strchr(s, '>'));
		s = end + 1 + strspn(end + 1, " \t\r\n"))
		if (strncasecmp(s, "<script", 7) == 0 || strncasecmp(s, "<style", 6) == 0)
			return "";
	return s;
}

void http_body_says(const struct http_response *r, char *text, size_t max)
{
	const char *s = text_of(body_of(r));
	int n = (int)strcspn(s, "<\r\n");

	if (n > 80)
		n = 80;
	snprintf(text, max, "%s%.*s%s", n ? ": \"" : "", n, s, n ? "\"" : "");
}

int http_fail_between(const struct http_transfer *t, const char *url)
{
	struct http_response *r = t->r;
	char proxy[HTTP_SITE_MAX], says[128];
	int status = r->status;

	http_proxy_name(t->q, proxy);
	http_body_says(r, says, sizeof says);
	/* so that nobody takes it for the server's */
	r->status = 0;
	if (status == 407) {
		err_set(EX_UNAVAILABLE,
			"%s%s%s before '%s' asks for a name and a password (HTTP 407)",
			proxy[0] ? "the proxy '" : "a proxy", proxy, proxy[0] ? "'" : "",
			url);
		return err_hint(
			"put them into the proxy's address: http://NAME:PASSWORD@HOST");
	}
	if (status >= 300 && status < 400)
		err_set(EX_UNAVAILABLE, "'%s' redirects to '%s' (HTTP %d)", url,
			t->moved_to, status);
	else
		err_set(EX_UNAVAILABLE,
			"%s%s%s%s came in place of an answer of '%s' (HTTP %d)%s",
			is_page(r) ? "a web page" : "a refusal that is no JSON",
			proxy[0] ? " through the proxy '" : "", proxy,
			proxy[0] ? "'" : "", url, status, says);
	return err_hint(
		"a login page, a proxy or a firewall may stand between, or the URL is wrong");
}
