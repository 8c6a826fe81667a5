#include "common/net/http.h"

#include <curl/curl.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <time.h>

#include "common/base/err.h"
#include "common/json/json.h"
#include "kernels/dev/library.h"

#define CONNECT_TIMEOUT_MS 5000
#define TIMEOUT_MS         30000
#define RESPONSE_BYTES_MAX ((size_t)16 << 20)
#define LARGE_BUFFER       (512L << 10) /* fewer calls for what is large */
#define TRIES              4
#define BACKOFF_FIRST_MS   250
#define BACKOFF_MAX_MS     10000
#define RETRY_AFTER_MAX_MS 60000
#define REDIRECTS_MAX      5L

static struct {
	CURL *(*easy_init)(void);
	void (*easy_cleanup)(CURL *);
	void (*easy_reset)(CURL *);
	CURLcode (*easy_setopt)(CURL *, CURLoption, ...);
	CURLcode (*easy_perform)(CURL *);
	CURLcode (*easy_getinfo)(CURL *, CURLINFO, ...);
	const char *(*easy_strerror)(CURLcode);
	CURLcode (*global_init)(long);
	struct curl_slist *(*slist_append)(struct curl_slist *, const char *);
	void (*slist_free_all)(struct curl_slist *);
	bool ready;
	char problem[200];
} lib;

static void load_library(void)
{
	static const struct library_symbol symbols[] = {
		{ "curl_easy_init", &lib.easy_init },
		{ "curl_easy_cleanup", &lib.easy_cleanup },
		{ "curl_easy_reset", &lib.easy_reset },
		{ "curl_easy_setopt", &lib.easy_setopt },
		{ "curl_easy_perform", &lib.easy_perform },
		{ "curl_easy_getinfo", &lib.easy_getinfo },
		{ "curl_easy_strerror", &lib.easy_strerror },
		{ "curl_global_init", &lib.global_init },
		{ "curl_slist_append", &lib.slist_append },
		{ "curl_slist_free_all", &lib.slist_free_all },
	};

	lib.ready = library_open("libcurl.so.4", symbols,
		sizeof symbols / sizeof *symbols, lib.problem, sizeof lib.problem);
	lib.ready = lib.ready && lib.global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
}

static int library(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, load_library);
	if (lib.ready)
		return 0;
	err_set(EX_UNAVAILABLE, "cannot use libcurl: %s", lib.problem);
	return err_hint("install the package libcurl4");
}

void http_release(struct http *h)
{
	if (h->curl)
		lib.easy_cleanup(h->curl);
	h->curl = NULL;
}

void http_response_release(struct http_response *r)
{
	buf_release(&r->body);
}

/* what the callbacks of one try need */
struct transfer {
	struct http_response *r;
	size_t bytes_max;
	bool too_large, answered;
};

static size_t on_body(char *data, size_t size, size_t n, void *arg)
{
	struct transfer *t = arg;
	size_t bytes = size * n;

	if (bytes > t->bytes_max - t->r->body.len) {
		t->too_large = true;
		return 0;
	}
	buf_add(&t->r->body, data, bytes);
	return bytes;
}

static bool header_is(const char *line, size_t len, const char *name, char *value,
	size_t max)
{
	size_t n = strlen(name);

	if (len <= n || strncasecmp(line, name, n) != 0 || line[n] != ':')
		return false;
	for (line += n + 1, len -= n + 1; len && (*line == ' ' || *line == '\t');
		line++, len--)
		;
	while (len && strchr("\r\n \t", line[len - 1]))
		len--;
	value[0] = '\0';
	if (len < max) {
		memcpy(value, line, len);
		value[len] = '\0';
	}
	return true;
}

/* "Sun, 06 Nov 1994 08:49:37 GMT", the one form that is sent today; -1: anything else */
static int64_t http_date_ms(const char *value)
{
	struct tm tm = { 0 };
	const char *end = strptime(value, "%a, %d %b %Y %H:%M:%S GMT", &tm);

	return end && !*end && tm.tm_year >= 70 ? (int64_t)timegm(&tm) * 1000 : -1;
}

static size_t on_header(char *line, size_t size, size_t n, void *arg)
{
	struct transfer *t = arg;
	size_t len = size * n;
	char value[64];

	if (len > 5 && strncasecmp(line, "HTTP/", 5) == 0) {
		/* a new answer: after a redirect, or 100 Continue */
		t->answered = true;
		t->r->etag[0] = t->r->content_type[0] = '\0';
		t->r->modified_ms = -1;
	}
	header_is(line, len, "etag", t->r->etag, sizeof t->r->etag);
	header_is(line, len, "content-type", t->r->content_type,
		sizeof t->r->content_type);
	if (header_is(line, len, "last-modified", value, sizeof value))
		t->r->modified_ms = http_date_ms(value);
	return len;
}

static struct curl_slist *make_headers(const struct http_request *q)
{
	struct curl_slist *list = NULL;
	struct buf line = BUF_INIT;

	/* curl waits a second for 100 Continue when it announces a large body */
	list = lib.slist_append(list, "Expect:");
	if (q->body) {
		buf_addf(&line, "Content-Type: %s",
			q->content_type ? q->content_type : "application/json");
		list = lib.slist_append(list, line.data);
	}
	if (q->etag && q->etag[0]) {
		buf_reset(&line);
		buf_addf(&line, "If-None-Match: %s", q->etag);
		list = lib.slist_append(list, line.data);
	}
	for (int i = 0; q->headers && q->headers[i]; i++)
		list = lib.slist_append(list, q->headers[i]);
	buf_release(&line);
	return list;
}

#define SET(option, value) lib.easy_setopt(curl, (option), (value))

static void set_limits(CURL *curl, const struct http_request *q)
{
	const char *scheme = strncasecmp(q->url, "https:", 6) == 0 ? "https" : "http";

	SET(CURLOPT_NOSIGNAL, 1L);
	SET(CURLOPT_PROTOCOLS_STR, "http,https");
	SET(CURLOPT_REDIR_PROTOCOLS_STR, scheme);
	SET(CURLOPT_FOLLOWLOCATION, 1L);
	SET(CURLOPT_MAXREDIRS, REDIRECTS_MAX);
	SET(CURLOPT_POSTREDIR, (long)CURL_REDIR_POST_ALL);
	SET(CURLOPT_CONNECTTIMEOUT_MS,
		(long)(q->connect_timeout_ms ? q->connect_timeout_ms :
					       CONNECT_TIMEOUT_MS));
	SET(CURLOPT_TIMEOUT_MS, (long)(q->timeout_ms ? q->timeout_ms : TIMEOUT_MS));
	SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	if (q->ca_file)
		SET(CURLOPT_CAINFO, q->ca_file);
}

static CURLcode try_once(struct http *h, const struct http_request *q, struct transfer *t)
{
	CURL *curl = h->curl;
	struct curl_slist *headers = make_headers(q);
	curl_off_t retry_after_s = 0;
	long status = 0;
	CURLcode rc;

	lib.easy_reset(curl); /* options only: connections and sessions stay */
	set_limits(curl, q);
	SET(CURLOPT_URL, q->url);
	SET(CURLOPT_USERAGENT, "rnp/" RNP_VERSION);
	SET(CURLOPT_ACCEPT_ENCODING, "");
	SET(CURLOPT_HTTPHEADER, headers);
	SET(CURLOPT_WRITEFUNCTION, on_body);
	SET(CURLOPT_WRITEDATA, t);
	SET(CURLOPT_HEADERFUNCTION, on_header);
	SET(CURLOPT_HEADERDATA, t);
	if (t->bytes_max > RESPONSE_BYTES_MAX || q->body_bytes > RESPONSE_BYTES_MAX) {
		SET(CURLOPT_BUFFERSIZE, LARGE_BUFFER);
		SET(CURLOPT_UPLOAD_BUFFERSIZE, LARGE_BUFFER);
	}
	if (q->body) {
		SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)q->body_bytes);
		SET(CURLOPT_POSTFIELDS, q->body);
	}
	if (q->method)
		SET(CURLOPT_CUSTOMREQUEST, q->method);
	rc = lib.easy_perform(curl);
	lib.easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
	lib.easy_getinfo(curl, CURLINFO_RETRY_AFTER, &retry_after_s); /* 0: not given */
	if (retry_after_s > 0)
		t->r->retry_after_ms = retry_after_s > 86400 ? 86400000 :
							       retry_after_s * 1000;
	t->r->status = (int)status;
	lib.slist_free_all(headers);
	return rc;
}

static int fail_transfer(const struct http_request *q, const struct transfer *t,
	CURLcode rc)
{
	const char *why = lib.easy_strerror(rc);

	if (t->too_large)
		return err_set(EX_DATAERR, "'%s' answered with more than %zu bytes",
			q->url, t->bytes_max);
	switch (rc) {
	case CURLE_URL_MALFORMAT:
		return err_set(EX_USAGE, "'%s' is not a URL", q->url);
	case CURLE_UNSUPPORTED_PROTOCOL:
		/* our own URL has been looked at: what came is HTTP/0.9, or a redirect */
		return err_set(EX_DATAERR,
			t->answered ? "'%s' redirects to another scheme" :
				      "'%s' did not answer with HTTP",
			q->url);
	case CURLE_OPERATION_TIMEDOUT:
		return err_set(EX_TEMPFAIL, "'%s' did not answer in time", q->url);
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_RESOLVE_PROXY:
	case CURLE_COULDNT_CONNECT:
		return err_set(EX_UNAVAILABLE, "cannot reach '%s': %s", q->url, why);
	case CURLE_SSL_CONNECT_ERROR:
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_SSL_CERTPROBLEM:
	case CURLE_SSL_CIPHER:
	case CURLE_SSL_ISSUER_ERROR:
		return err_set(EX_UNAVAILABLE, "no secure connection to '%s': %s", q->url,
			why);
	case CURLE_GOT_NOTHING:
	case CURLE_SEND_ERROR:
	case CURLE_RECV_ERROR:
		return err_set(EX_UNAVAILABLE, "'%s' closed the connection: %s", q->url,
			why);
	case CURLE_PARTIAL_FILE:
		return err_set(EX_DATAERR, "'%s' broke off in the middle of its answer",
			q->url);
	default:
		return err_set(EX_DATAERR, "'%s' did not answer with HTTP: %s", q->url,
			why);
	}
}

/* The message of an error body: our registry's {"error": ...}, or {"message": ...}. */
static void server_says(const struct http_response *r, char *text, size_t max)
{
	json_t *body = r->body.len ? json_loadb(r->body.data, r->body.len, 0, NULL) :
				     NULL;
	const char *message = json_string_value(json_object_get(body, "error"));

	if (!message)
		message = json_string_value(json_object_get(body, "message"));
	if (message)
		snprintf(text, max, ": %.400s", message);
	else
		snprintf(text, max, " (HTTP %d)", r->status);
	json_decref(body);
}

static int fail_status(const struct http_request *q, const struct http_response *r)
{
	char text[480];
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
		code = EX_DATAERR; /* a redirect without an end, or 1xx and 304 out of place */
	return err_set(code, "'%s' %s%s", q->url,
		code == EX_TEMPFAIL ? "cannot serve this now" : "refused", text);
}

static bool is_temporary(CURLcode rc, const struct http_response *r)
{
	if (rc == CURLE_OK)
		return r->status == 429 || r->status == 502 || r->status == 503 ||
			r->status == 504;
	return rc == CURLE_COULDNT_CONNECT || rc == CURLE_OPERATION_TIMEDOUT ||
		rc == CURLE_COULDNT_RESOLVE_HOST || rc == CURLE_GOT_NOTHING ||
		rc == CURLE_SEND_ERROR || rc == CURLE_RECV_ERROR;
}

/* How long before try number `next`: random, so that many clients that failed together do not
 * come back together. */
static int64_t wait_ms(int next, const struct http_response *r)
{
	int64_t ms = BACKOFF_FIRST_MS;
	uint16_t random = 0;

	for (int i = 2; i < next && ms < BACKOFF_MAX_MS; i++)
		ms *= 2;
	if (ms > BACKOFF_MAX_MS)
		ms = BACKOFF_MAX_MS;
	if (getrandom(&random, sizeof random, GRND_NONBLOCK) < 0)
		random = 0x8000;
	ms = ms / 2 + ms * random / 131072;
	return r->retry_after_ms > ms ? r->retry_after_ms : ms;
}

static void sleep_ms(int64_t ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000 };

	nanosleep(&t, NULL);
}

static int prepare(struct http *h, const struct http_request *q)
{
	if (strncasecmp(q->url, "http://", 7) != 0 &&
		strncasecmp(q->url, "https://", 8) != 0)
		return err_set(EX_USAGE, "'%s' is not an http or https URL", q->url);
	if (library() < 0)
		return -1;
	if (!h->curl)
		h->curl = lib.easy_init();
	return h->curl ? 0 : err_set(EX_OSERR, "cannot start libcurl");
}

int http_fetch(struct http *h, const struct http_request *q, struct http_response *r)
{
	int tries = q->tries ? q->tries : TRIES;
	struct transfer t = { r,
		q->response_bytes_max ? q->response_bytes_max : RESPONSE_BYTES_MAX, false,
		false };
	CURLcode rc;

	if (prepare(h, q) < 0)
		return -1;
	for (r->tries = 1;; r->tries++) {
		buf_reset(&r->body);
		r->etag[0] = r->content_type[0] = '\0';
		r->retry_after_ms = r->modified_ms = -1;
		rc = try_once(h, q, &t);
		if (!is_temporary(rc, r) || r->tries >= tries ||
			r->retry_after_ms > RETRY_AFTER_MAX_MS)
			break;
		sleep_ms(wait_ms(r->tries + 1, r));
	}
	if (rc != CURLE_OK)
		return fail_transfer(q, &t, rc);
	if ((r->status >= 200 && r->status < 300) || (r->status == 304 && q->etag))
		return 0;
	return fail_status(q, r);
}

int http_url(struct buf *out, const char *base, const char *path)
{
	size_t n = strlen(base);

	if (strncasecmp(base, "http://", 7) != 0 && strncasecmp(base, "https://", 8) != 0)
		return err_set(EX_USAGE, "'%s' is not an http or https URL", base);
	if (strpbrk(base, "?# \t\r\n"))
		return err_set(EX_USAGE, "'%s' has a query, a fragment or a space", base);
	while (n && base[n - 1] == '/')
		n--;
	buf_add(out, base, n);
	buf_adds(out, path);
	return 0;
}

void http_escape(struct buf *out, const char *text)
{
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
			(c >= '0' && c <= '9') || strchr("-._~", c))
			buf_addc(out, (char)c);
		else
			buf_addf(out, "%%%02X", c);
	}
}
