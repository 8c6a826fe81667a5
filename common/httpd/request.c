/* request.c - the pure parts of httpd about a request: its target, its route, entity tags. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/err.h"
#include "common/httpd/httpd.h"
#include "common/base/mem.h"
#include "common/base/utf8.h"

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes %XX (and + in a query) in place. Returns 0 or -1. */
static int unescape(char *text, bool plus)
{
	char *to = text;

	for (const char *s = text; *s; s++) {
		if (*s == '%') {
			int high = hex(s[1]), low = high < 0 ? -1 : hex(s[2]);

			if (low < 0 || (high == 0 && low == 0))
				return -1;
			*to++ = (char)(high * 16 + low);
			s += 2;
		} else {
			*to++ = plus && *s == '+' ? ' ' : *s;
		}
	}
	*to = '\0';
	return utf8_valid(text, (size_t)(to - text)) ? 0 : -1;
}

static int parse_query(struct httpd_request *q, char *text)
{
	char *rest = text;

	for (char *pair; (pair = strsep(&rest, "&"));) {
		char *value = strchr(pair, '=');

		if (!*pair)
			continue;
		if (q->nquery == HTTPD_QUERY_MAX)
			return -1;
		if (value)
			*value++ = '\0';
		else
			value = pair + strlen(pair);
		if (unescape(pair, true) < 0 || unescape(value, true) < 0)
			return -1;
		q->query[q->nquery++] = (struct httpd_pair){ pair, value };
	}
	return 0;
}

int httpd_parse_uri(struct httpd_request *q, const char *target)
{
	size_t n;
	const char *authority = httpd_target_authority(target, &n);
	struct buf uri = BUF_INIT;
	char *query;

	if (authority)
		target = authority + n;
	/* "http://host?x" has the path "/" */
	buf_adds(&uri, authority && *target != '/' ? "/" : "");
	buf_adds(&uri, target);
	q->uri = xstrdup(buf_text(&uri));
	buf_release(&uri);
	q->path = q->uri;
	q->nquery = 0;
	query = strchr(q->uri, '?');
	if (query) {
		*query++ = '\0';
		if (parse_query(q, query) < 0)
			return -1;
	}
	return unescape(q->uri, false);
}

/* Whether path matches route; the ends of the {...} within path go to at and len. */
static bool match(const char *route, const char *path, size_t at[HTTPD_ARGS_MAX],
	size_t len[HTTPD_ARGS_MAX], int *n)
{
	const char *p = path;

	*n = 0;
	for (; *route; route++) {
		if (*route != '{') {
			if (*route != *p++)
				return false;
			continue;
		}
		if (*n == HTTPD_ARGS_MAX)
			bug("a route has more than %d arguments", HTTPD_ARGS_MAX);
		at[*n] = (size_t)(p - path);
		len[*n] = strcspn(p, "/");
		if (!len[*n])
			return false;
		p += len[(*n)++];
		route = strchr(route, '}');
	}
	return !*p;
}

static void take_args(struct httpd_request *q, const size_t *at, const size_t *len, int n)
{
	free(q->args_text);
	q->args_text = n ? xstrdup(q->path) : NULL;
	q->nargs = n;
	q->arg = NULL;
	for (int i = 0; i < n; i++) {
		q->args[i] = q->args_text + at[i];
		q->args[i][len[i]] = '\0';
	}
	if (n)
		q->arg = q->args[0];
}

/* Whether a route's method allows the request's: "GET" allows HEAD as well. */
static void allow_method(struct httpd_request *q, const char *method)
{
	bool get = strcmp(method, "GET") == 0;
	size_t n = strlen(q->allow);

	if (n + strlen(method) + sizeof ", , HEAD" < sizeof q->allow &&
		!httpd_list_has(q->allow, method))
		snprintf(q->allow + n, sizeof q->allow - n, "%s%s%s", n ? ", " : "",
			method, get ? ", HEAD" : "");
}

const struct httpd_route *httpd_find_route(const struct httpd_route *routes,
	struct httpd_request *q, int *status, const char **allow)
{
	size_t at[HTTPD_ARGS_MAX], len[HTTPD_ARGS_MAX];
	int n;

	*status = 404;
	q->allow[0] = '\0';
	/* GET stands first in Allow, wherever it is in the table */
	for (const struct httpd_route *r = routes; r->method; r++)
		if (strcmp(r->method, "GET") == 0 && match(r->path, q->path, at, len, &n))
			allow_method(q, r->method);
	for (const struct httpd_route *r = routes; r->method; r++) {
		if (!match(r->path, q->path, at, len, &n))
			continue;
		if (strcmp(r->method, q->method) == 0 ||
			(strcmp(q->method, "HEAD") == 0 &&
				strcmp(r->method, "GET") == 0)) {
			take_args(q, at, len, n);
			return r;
		}
		allow_method(q, r->method);
		*allow = q->allow;
		*status = 405;
	}
	return NULL;
}

void httpd_own_url(struct buf *out, const struct httpd_request *q)
{
	const struct httpd_external *e = q->external;

	if (e)
		buf_addf(out, "%s://%s%s", e->scheme, e->authority, e->prefix);
	else
		buf_addf(out, "%s://%s", q->secure ? "https" : "http",
			q->authority && *q->authority ? q->authority : "HOST:PORT");
}

const char *httpd_query(const struct httpd_request *q, const char *key)
{
	for (int i = 0; i < q->nquery; i++)
		if (strcmp(q->query[i].key, key) == 0)
			return q->query[i].value;
	return NULL;
}

const char *httpd_header(const struct httpd_request *q, const char *name)
{
	return httpd_find_header(q->headers, q->nheaders, name);
}

bool httpd_etag_matches(const char *list, const char *etag)
{
	size_t n = strlen(etag);

	if (!list || !n)
		return false;
	for (const char *s = list; *s;) {
		s += strspn(s, " \t,");
		if (*s == '*')
			return true;
		if (strncmp(s, "W/", 2) == 0)
			s += 2;
		if (strncmp(s, etag, n) == 0 && (!s[n] || strchr(" \t,", s[n])))
			return true;
		s += strcspn(s, ",");
	}
	return false;
}

void httpd_request_release(struct httpd_request *q)
{
	buf_release(&q->body);
	free(q->uri);
	free(q->args_text);
	free(q->authority_text);
	q->uri = q->args_text = q->authority_text = NULL;
}
