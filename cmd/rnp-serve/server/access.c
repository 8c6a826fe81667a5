/* access.c - the access rules, in the order in which they are checked. */
#include "cmd/rnp-serve/server/access.h"

#include <string.h>

#include "common/base/err.h"
#include "common/httpd/parts.h"

#define NAME_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_"

/* A name without a port matches every port. */
static bool is_named(const struct server *s, const char *authority)
{
	size_t len = strcspn(authority, ":");

	for (int i = 0; i < s->host_count; i++) {
		const char *name = s->hosts[i];

		if (strcasecmp(name, authority) == 0 ||
			(strlen(name) == len && strncasecmp(name, authority, len) == 0))
			return true;
	}
	return false;
}

/* --- names that options give -------------------------------------------------------------- */

/* Whether a text is NAME, NAME:PORT, ADDRESS or [ADDRESS]:PORT, as a Host field has it. */
static bool is_authority(const char *text)
{
	bool v6 = *text == '[';
	const char *chars = v6 ? "0123456789abcdefABCDEF:." : NAME_CHARS;
	size_t name = strspn(text + v6, chars);
	const char *port = text + v6 + name + v6;

	if (!name || (v6 && port[-1] != ']'))
		return false;
	return !*port ||
		(*port == ':' && port[1] && !port[1 + strspn(port + 1, "0123456789")]);
}

/* Whether a browser may send this as the origin of a page: nothing follows the host, and letters
 * are small. */
static bool is_origin(const char *text)
{
	const char *host = strstr(text, "://");

	if (strcmp(text, "null") == 0)
		return true;
	return host && host > text && is_authority(host + 3) &&
		strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789+-.") ==
		(size_t)(host - text) &&
		!text[strcspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ")];
}

int access_check_names(const struct server *s)
{
	for (int i = 0; i < s->host_count; i++)
		if (!is_authority(s->hosts[i]))
			return err_set(EX_USAGE,
				"--host: '%s' is not a name such as chat.example or chat.example:8080",
				s->hosts[i]);
	for (int i = 0; i < s->origin_count; i++)
		if (!is_origin(s->origins[i]))
			return err_set(EX_USAGE,
				"--origin: '%s' is not what browsers call a page's origin, such as https://chat.example",
				s->origins[i]);
	return 0;
}

/* --- requests ----------------------------------------------------------------------------- */

static bool refuse(struct httpd_reply *r, int status, const char *code, const char *text)
{
	struct api_error e;

	api_error_set(&e, status, code, NULL, "%s", text);
	api_error_reply(r, &e);
	return false;
}

/* Whether the page belongs to the server itself: its origin is the requested host, or that of the
 * URL by which clients ask a proxy. */
static bool is_same_origin(const struct httpd_request *q, const char *origin)
{
	const char *host = strstr(origin, "://");
	const struct httpd_external *e = q->external;

	if (!host)
		return false;
	return strcasecmp(host + 3, q->authority) == 0 ||
		(e && strcasecmp(host + 3, e->authority) == 0 &&
			strlen(e->scheme) == (size_t)(host - origin) &&
			strncasecmp(origin, e->scheme, strlen(e->scheme)) == 0);
}

/* Whether a proxy passed on the name that clients know. */
static bool is_external(const struct httpd_request *q)
{
	return q->external && strcasecmp(q->authority, q->external->authority) == 0;
}

static bool allows_origin(const struct server *s, const struct httpd_request *q,
	struct httpd_reply *r)
{
	const char *origin = httpd_header(q, "Origin");

	if (!origin || is_same_origin(q, origin))
		return true;
	for (int i = 0; i < s->origin_count; i++)
		if (strcmp(s->origins[i], origin) == 0) {
			httpd_add_header(r, "Access-Control-Allow-Origin", "%s",
				s->origins[i]);
			httpd_add_header(r, "Vary", "Origin");
			return true;
		}
	return refuse(r, 403, "origin_not_allowed",
		"pages of this origin may not ask: see --origin");
}

bool access_allows(struct server *s, const struct httpd_request *q, struct httpd_reply *r,
	bool open, struct api_key **key)
{
	*key = NULL;
	if (s->loopback && !httpd_is_loopback_name(q->authority) &&
		!is_named(s, q->authority) && !is_external(q))
		return refuse(r, 403, "host_not_allowed",
			"this name of the host is not known: see --host");
	if (!allows_origin(s, q, r))
		return false;
	if (open)
		return true;
	if (atomic_load(&s->loading)) {
		r->retry_after_s = 1;
		return refuse(r, 503, "loading", "the models are being loaded");
	}
	if (!s->keys.path)
		return true;
	*key = keys_find(&s->keys, httpd_header(q, "Authorization"));
	if (*key)
		return true;
	httpd_add_header(r, "WWW-Authenticate", "Bearer");
	return refuse(r, 401, "invalid_api_key",
		"this needs the header 'Authorization: Bearer KEY' with a key that is known");
}
