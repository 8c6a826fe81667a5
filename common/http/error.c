/* http_error.c - turns a failed request into an exit code and a sentence. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/err.h"
#include "common/json/json.h"
#include "common/net/http_parts.h"

#define SHOWN_MAX 512

/* Returns the URL as a person gave it: without the path below /v1/ and the query that the programs
 * add, in which there may also be somebody's key. */
static const char *shown(const struct http_request *q, char out[SHOWN_MAX])
{
	const char *url = q->url;
	const char *ours = strstr(url, "/v1/");
	size_t n = ours ? (size_t)(ours - url) : strcspn(url, "?");

	if (q->name)
		return q->name;
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

int http_fail_transfer(const struct http_transfer *t, CURLcode rc)
{
	char text[SHOWN_MAX];
	const char *why = http_curl.easy_strerror(rc), *url = shown(t->q, text);
	const char *detail = t->detail[0] ? t->detail : why;

	if (fail_local(t, url) < 0)
		return -1;
	switch (rc) {
	case CURLE_URL_MALFORMAT:
		return err_set(EX_USAGE, "'%s' is not a URL", url);
	case CURLE_UNSUPPORTED_PROTOCOL:
		/* our own URL was checked before: the cause is HTTP/0.9, or a redirect */
		return err_set(EX_DATAERR,
			t->answered ? "'%s' redirects to another scheme" :
				      "'%s' did not answer with HTTP",
			url);
	case CURLE_OPERATION_TIMEDOUT:
		t->r->broken_off = t->answered;
		return err_set(EX_TEMPFAIL, "'%s' did not answer in time", url);
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_RESOLVE_PROXY:
	case CURLE_COULDNT_CONNECT:
		return err_set(EX_UNAVAILABLE, "cannot reach '%s': %s", url, why);
	case CURLE_SSL_CACERT_BADFILE:
		return fail_certificates(t->q->ca_file, url, detail);
	case CURLE_PEER_FAILED_VERIFICATION:
		t->r->untrusted = true;
		/* fall through */
	case CURLE_SSL_CONNECT_ERROR:
	case CURLE_SSL_CERTPROBLEM:
	case CURLE_SSL_CIPHER:
	case CURLE_SSL_ISSUER_ERROR:
		return err_set(EX_UNAVAILABLE, "no secure connection to '%s': %s", url,
			detail);
	case CURLE_GOT_NOTHING:
	case CURLE_SEND_ERROR:
	case CURLE_RECV_ERROR:
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

/* Finds the message in an error body: our registry's {"error": ...}, {"message": ...},
 * Vast's {"msg": ...}, or OpenAI's {"error": {"message": ...}}. */
static void server_says(const struct http_response *r, char *text, size_t max)
{
	json_t *body = r->body.len ? json_loadb(r->body.data, r->body.len, 0, NULL) :
				     NULL;
	const json_t *error = json_object_get(body, "error");
	const char *message = json_string_value(error);

	if (!message)
		message = json_string_value(json_object_get(error, "message"));
	if (!message)
		message = json_string_value(json_object_get(body, "message"));
	if (!message)
		message = json_string_value(json_object_get(body, "msg"));
	if (message)
		snprintf(text, max, ": %.400s", message);
	else
		snprintf(text, max, " (HTTP %d)", r->status);
	json_decref(body);
}

int http_fail_status(const struct http_request *q, const struct http_response *r)
{
	char text[480], url[SHOWN_MAX];
	int code = EXIT_NO;

	server_says(r, text, sizeof text);
	if (r->status == 401 || r->status == 403)
		code = EX_NOPERM;
	else if (r->status == 400 || r->status == 413 || r->status == 415 ||
		r->status == 422)
		code = EX_DATAERR;
	else if (r->status == 429 || r->status >= 500)
		code = EX_TEMPFAIL;
	else if (r->status < 400)
		code = EX_DATAERR; /* too many redirects, or an unexpected 1xx or 304 */
	return err_set(code, "'%s' %s%s", shown(q, url),
		code == EX_TEMPFAIL ? "cannot serve this now" : "refused", text);
}
