/* error.c - turns a failed request into an exit code and a sentence. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "common/base/err.h"
#include "common/json/json.h"
#include "common/http/parts.h"

#define SHOWN_MAX 512

/* Returns the URL as a person gave it: without the path below /v1/ and the query that the programs
 * add, in which there may also be somebody's key. */
static const char *shown(const struct http_request *q, char out[SHOWN_MAX])
{
	const char *url = q->url;
	size_t n = strcspn(url, "?");

	if (q->name || q->unix_socket)
		return q->name ? q->name : q->unix_socket;
	/* the last: the person's URL may end in /v1 itself */
	for (size_t at = n; at-- > 0;)
		if (strncmp(url + at, "/v1/", 4) == 0) {
			n = at;
			break;
		}
	snprintf(out, SHOWN_MAX, "%.*s", n < SHOWN_MAX ? (int)n : SHOWN_MAX - 1, url);
	return out;
}

static int fail_local(const struct http_transfer *t, const char *url)
{
	if (t->callback_failed)
		return -1;
	if (t->aborted)
		return err_set(EX_TEMPFAIL, "'%s' was aborted", url);
	if (t->timed_out) {
		t->r->broken_off = t->answered;
		return err_set(EX_TEMPFAIL,
			t->waiting_ns ? "'%s' did not answer in time" :
					"'%s' is too slow",
			url);
	}
	if (t->too_large)
		return err_set(EX_DATAERR, "'%s' answered with more than %lld bytes", url,
			(long long)t->bytes_max);
	return 0;
}

/* Waiting does not mend a file that the user named. */
static int fail_certificates(const char *file, const char *url, const char *detail)
{
	if (!file)
		return err_set(EX_UNAVAILABLE, "no secure connection to '%s': %s", url,
			detail);
	if (access(file, R_OK) < 0)
		return err_sys(EX_NOINPUT, "cannot read certificates '%s'", file);
	return err_set(EX_DATAERR, "'%s' holds no certificates in PEM form", file);
}

/* A server that knows no TLS answers a hello with text, which OpenSSL takes for a version. */
static int fail_tls(const char *url, const char *detail)
{
	static const char scheme[] = "https://";

	if (!strstr(detail, "wrong version number") ||
		strncasecmp(url, scheme, sizeof scheme - 1) != 0)
		return err_set(EX_UNAVAILABLE, "no secure connection to '%s': %s", url,
			detail);
	err_set(EX_UNAVAILABLE,
		"no secure connection to '%s': what answers there speaks no TLS", url);
	return err_hint("if it speaks plain http: http://%s", url + sizeof scheme - 1);
}

/* Nobody can be reached: the server, what it redirects to, or the proxy before it. */
static int fail_connect(const struct http_transfer *t, const char *url, const char *why)
{
	char proxy[HTTP_SITE_MAX];

	http_proxy_name(t->q, proxy);
	if (proxy[0])
		return err_set(EX_UNAVAILABLE,
			"cannot get through the proxy '%s' to '%s': %s", proxy, url, why);
	return err_set(EX_UNAVAILABLE, "cannot reach '%s': %s", url, why);
}

/* A redirect that changes the scheme is not followed. */
static int fail_scheme(const struct http_transfer *t, const char *url)
{
	if (!t->answered)
		return err_set(EX_DATAERR, "'%s' did not answer with HTTP", url);
	if (http_is_between(t))
		return http_fail_between(t, url);
	if (!t->moved_to[0])
		return err_set(EX_DATAERR, "'%s' redirects to another scheme", url);
	err_set(EX_DATAERR, "'%s' redirects to '%s'", url, t->moved_to);
	return err_hint("give that address");
}

/* Whether the request went on to where a redirect led. */
static bool has_moved(const struct http_transfer *t)
{
	return t->moved_to[0] && (t->r->status < 300 || t->r->status >= 400);
}

/* Says of an error at the end of a redirect how it came there. Returns -1. */
static int add_redirect(const struct http_transfer *t)
{
	char text[SHOWN_MAX];

	return err_add("'%s' redirects to '%s'", shown(t->q, text), t->moved_to);
}

static int fail_transfer(const struct http_transfer *t, CURLcode rc, const char *url)
{
	const char *why = http_curl.easy_strerror(rc);
	const char *detail = t->detail[0] ? t->detail : why;

	switch (rc) {
	case CURLE_URL_MALFORMAT:
		return err_set(EX_USAGE, "'%s' is not a URL", url);
	case CURLE_UNSUPPORTED_PROTOCOL:
		/* our own URL was checked before: the cause is HTTP/0.9, or a redirect */
		return fail_scheme(t, url);
	case CURLE_OPERATION_TIMEDOUT:
		t->r->broken_off = t->answered;
		return err_set(EX_TEMPFAIL, "'%s' did not answer in time", url);
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_RESOLVE_PROXY:
	case CURLE_COULDNT_CONNECT:
		return fail_connect(t, url, why);
	case CURLE_PROXY:
		return fail_connect(t, url, detail);
	case CURLE_SSL_CACERT_BADFILE:
		return fail_certificates(t->q->ca_file, url, detail);
	case CURLE_PEER_FAILED_VERIFICATION:
		t->r->untrusted = true;
		/* fall through */
	case CURLE_SSL_CONNECT_ERROR:
	case CURLE_SSL_CERTPROBLEM:
	case CURLE_SSL_CIPHER:
	case CURLE_SSL_ISSUER_ERROR:
		return fail_tls(url, detail);
	case CURLE_GOT_NOTHING:
	case CURLE_SEND_ERROR:
	case CURLE_RECV_ERROR:
		if (t->refused_tunnel)
			return fail_connect(t, url, detail);
		t->r->broken_off = t->answered;
		return err_set(EX_UNAVAILABLE, "'%s' closed the connection: %s", url,
			detail);
	case CURLE_PARTIAL_FILE:
		t->r->broken_off = true;
		return err_set(EX_DATAERR, "'%s' broke off in the middle of its answer",
			url);
	default:
		return err_set(EX_DATAERR, "'%s' did not answer with HTTP: %s", url, why);
	}
}

int http_fail_transfer(const struct http_transfer *t, CURLcode rc)
{
	char text[SHOWN_MAX];
	/* a redirect whose end cannot be reached is the last answer that came */
	bool moved = t->moved_to[0] && rc != CURLE_UNSUPPORTED_PROTOCOL;
	const char *url = moved ? t->moved_to : shown(t->q, text);

	if (fail_local(t, url) == 0)
		fail_transfer(t, rc, url);
	return moved && !t->callback_failed && !t->aborted ? add_redirect(t) : -1;
}

/* Finds the message in an error body: our registry's {"error": ...}, {"message": ...},
 * Vast's {"msg": ...}, or OpenAI's {"error": {"message": ...}}. hint: what our market's
 * {"try": ...} says one can do; "": nothing. */
static void server_says(const struct http_response *r, char *text, size_t max, char *hint,
	size_t hint_max)
{
	json_t *body = r->body.len ? json_loadb(r->body.data, r->body.len, 0, NULL) :
				     NULL;
	const json_t *error = json_object_get(body, "error");
	const char *message = json_string_value(error);
	const char *try = message ? json_string_value(json_object_get(body, "try")) :
				    NULL;
	char says[128];

	if (!message)
		message = json_string_value(json_object_get(error, "message"));
	if (!message)
		message = json_string_value(json_object_get(body, "message"));
	if (!message)
		message = json_string_value(json_object_get(body, "msg"));
	if (message) {
		snprintf(text, max, ": %.400s", message);
	} else {
		http_body_says(r, says, sizeof says);
		snprintf(text, max, " (HTTP %d)%s", r->status, body ? "" : says);
	}
	snprintf(hint, hint_max, "%.200s", try ? try : "");
	json_decref(body);
}

static int fail_status(const struct http_transfer *t, const char *url)
{
	const struct http_response *r = t->r;
	char text[480], hint[201];
	size_t n = strlen(url);
	int code = EXIT_NO;

	if (http_is_between(t))
		return http_fail_between(t, url);
	/* a redirect to the same host, which is not followed */
	if (r->status >= 300 && r->status < 400 && t->moved_to[0])
		return fail_scheme(t, url);
	server_says(r, text, sizeof text, hint, sizeof hint);
	if (r->status == 401 || r->status == 403)
		code = EX_NOPERM;
	else if (r->status == 400 || r->status == 413 || r->status == 415 ||
		r->status == 422)
		code = EX_DATAERR;
	else if (r->status == 429 || r->status >= 500)
		code = EX_TEMPFAIL;
	else if (r->status < 400)
		code = EX_DATAERR; /* too many redirects, or an unexpected 1xx or 304 */
	err_set(code, "'%s' %s%s", url,
		code == EX_TEMPFAIL ? "cannot serve this now" : "refused", text);
	if (hint[0])
		err_hint("%s", hint);
	/* the programs add /v1 themselves */
	if (r->status == 404 && n > 3 && strcmp(url + n - 3, "/v1") == 0)
		err_hint("give the URL without /v1");
	return -1;
}

int http_fail_status(const struct http_transfer *t)
{
	char text[SHOWN_MAX];
	bool moved = has_moved(t);

	fail_status(t, moved ? t->moved_to : shown(t->q, text));
	return moved ? add_redirect(t) : -1;
}
