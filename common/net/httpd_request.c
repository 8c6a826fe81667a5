/* The pure parts of httpd: request targets, routes, entity tags. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/json/canon.h"
#include "common/net/httpd.h"
#include "common/base/mem.h"
#include "common/base/utf8.h"

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decode %XX (and + in a query) in place. Returns 0 or -1. */
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

/* The path of a target in absolute form (RFC 9112, 3.2.2), or the target. */
static const char *skip_origin(const char *target)
{
	size_t scheme = strncasecmp(target, "http://", 7) == 0 ? 7 :
		strncasecmp(target, "https://", 8) == 0        ? 8 :
								 0;
	const char *path = target + scheme;

	if (!scheme)
		return target;
	path += strcspn(path, "/?");
	return *path == '/' ? path : "/";
}

int httpd_parse_uri(struct httpd_request *q, const char *target)
{
	char *query;

	target = skip_origin(target);
	q->uri = xstrdup(target);
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

/* Returns the argument of the route ("" when it has none), or NULL: another path. */
static char *match(const char *route, char *path)
{
	const char *brace = strchr(route, '{');
	size_t n = brace ? (size_t)(brace - route) : 0;

	if (!brace)
		return strcmp(route, path) == 0 ? path + strlen(path) : NULL;
	if (strncmp(route, path, n) != 0 || !path[n] || strchr(path + n, '/'))
		return NULL;
	return path + n;
}

const struct httpd_route *httpd_find_route(const struct httpd_route *routes,
	struct httpd_request *q, int *status, const char **allow)
{
	*status = 404;
	for (const struct httpd_route *r = routes; r->method; r++) {
		char *arg = match(r->path, (char *)q->path);

		if (!arg)
			continue;
		if (strcmp(r->method, q->method) == 0 ||
			(strcmp(q->method, "HEAD") == 0 &&
				strcmp(r->method, "GET") == 0)) {
			q->arg = *arg ? arg : NULL;
			return r;
		}
		/* a path has one or two methods: GET, POST */
		*allow = *status == 405               ? "GET, HEAD, POST" :
			strcmp(r->method, "GET") == 0 ? "GET, HEAD" :
							"POST";
		*status = 405;
	}
	return NULL;
}

const char *httpd_query(const struct httpd_request *q, const char *key)
{
	for (int i = 0; i < q->nquery; i++)
		if (strcmp(q->query[i].key, key) == 0)
			return q->query[i].value;
	return NULL;
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
	q->uri = NULL;
}

void httpd_finish(struct httpd_request *q)
{
	q->finish(q);
}

enum httpd_when httpd_error(struct httpd_reply *r, int status, const char *fmt, ...)
{
	char text[1200];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	utf8_clean_line(text); /* "%.40s" may have cut a character in half */
	r->status = status;
	r->etag[0] = '\0';
	r->content_type = NULL;
	buf_reset(&r->body);
	buf_adds(&r->body, "{\"error\":");
	canon_string(&r->body, text, strlen(text));
	buf_adds(&r->body, "}\n");
	return HTTPD_NOW;
}
