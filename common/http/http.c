/* http.c - requests: options, the loop that moves data and checks the limits, and retries.
 *
 * Each try is one transfer of libcurl's multi interface, in the caller's thread: only with it
 * can something other than data end a wait. */
#include "common/http/http.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/http/parts.h"
#include "common/http/sign.h"

#define CONNECT_TIMEOUT_MS 5000
#define TIMEOUT_MS         30000
#define ANSWER_TIMEOUT_MS  30000
#define RESPONSE_BYTES_MAX ((int64_t)16 << 20)
#define LARGE_BUFFER       (512L << 10) /* fewer calls for large bodies */
#define TRIES              4
#define PROGRESS_BYTES     ((int64_t)1 << 20) /* a try that brings this many does not count */
#define BACKOFF_FIRST_MS   250
#define BACKOFF_MAX_MS     10000
#define RETRY_AFTER_MAX_MS 60000
#define REDIRECTS_MAX      5L
#define RATE_MIN           1024
#define WINDOW_MS          10000 /* over which rate_min is measured */
#define POLL_MS            200
#define PAUSE_MS           10
#define EXPECT_MS          1000L

void http_release(struct http *h)
{
	if (h->curl)
		http_curl.easy_cleanup(h->curl);
	if (h->multi)
		http_curl.multi_cleanup(h->multi);
	*h = (struct http)HTTP_INIT;
}

void http_response_release(struct http_response *r)
{
	buf_release(&r->body);
}

/* --- options ------------------------------------------------------------------------------- */

#define SET(option, value) http_curl.easy_setopt(curl, (option), (value))

static bool has_body(const struct http_request *q)
{
	return q->body || q->source;
}

static const char *method_of(const struct http_request *q)
{
	if (q->method)
		return q->method;
	return has_body(q) ? "POST" : "GET";
}

static void add_header(struct curl_slist **list, struct buf *line)
{
	*list = http_curl.slist_append(*list, buf_text(line));
	buf_reset(line);
}

static int add_signature(struct curl_slist **list, const struct http_request *q)
{
	struct buf input = BUF_INIT, signature = BUF_INIT;
	int rc = http_sign(&input, &signature, method_of(q), q->url, q->signer);

	if (rc == 0) {
		add_header(list, &input);
		add_header(list, &signature);
	}
	buf_release(&input);
	buf_release(&signature);
	return rc;
}

static void add_range(struct curl_slist **list, const struct http_transfer *t,
	struct buf *line)
{
	int64_t from = t->range_from + t->sunk_before;
	const char *tag = t->resume_etag[0] ? t->resume_etag : t->q->if_range;

	if (!from && !t->range_bytes)
		return;
	buf_addf(line, "Range: bytes=%lld-", (long long)from);
	if (t->range_bytes)
		buf_add_i64(line, t->range_from + t->range_bytes - 1);
	add_header(list, line);
	if (tag && *tag) {
		buf_addf(line, "If-Range: %s", tag);
		add_header(list, line);
	}
}

static int make_headers(struct curl_slist **list, const struct http_transfer *t)
{
	const struct http_request *q = t->q;
	struct buf line = BUF_INIT;
	int rc = 0;

	/* where curl announces a large body, it waits a second for 100 Continue */
	*list = http_curl.slist_append(NULL,
		q->expect && has_body(q) ? "Expect: 100-continue" : "Expect:");
	if (has_body(q)) {
		buf_addf(&line, "Content-Type: %s",
			q->content_type ? q->content_type : "application/json");
		add_header(list, &line);
	}
	if (q->etag && q->etag[0]) {
		buf_addf(&line, "If-None-Match: %s", q->etag);
		add_header(list, &line);
	}
	/* a range of a compressed body cannot be decompressed */
	if (q->sink)
		*list = http_curl.slist_append(*list, "Accept-Encoding: identity");
	add_range(list, t, &line);
	for (int i = 0; q->headers && q->headers[i]; i++)
		*list = http_curl.slist_append(*list, q->headers[i]);
	if (q->signer)
		rc = add_signature(list, q);
	buf_release(&line);
	return rc;
}

/* --- sockets, counted --------------------------------------------------------------------- */

static curl_socket_t open_socket(void *ctx, curlsocktype purpose,
	struct curl_sockaddr *address)
{
	struct http *h = ctx;
	int fd;

	(void)purpose;
	if (!http_may_connect(h, address))
		return CURL_SOCKET_BAD;
	fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
	if (fd >= 0 && h->nsockets < HTTP_SOCKETS_MAX)
		h->sockets[h->nsockets++] = fd;
	return fd < 0 ? CURL_SOCKET_BAD : fd;
}

static int close_socket(void *ctx, curl_socket_t fd)
{
	struct http *h = ctx;
	struct net_bytes b;

	for (int i = 0; i < h->nsockets; i++)
		if (h->sockets[i] == fd) {
			net_bytes(fd, &b);
			h->closed.sent += b.sent;
			h->closed.received += b.received;
			h->sockets[i] = h->sockets[--h->nsockets];
			break;
		}
	return close(fd);
}

void http_bytes(const struct http *h, struct net_bytes *out)
{
	struct net_bytes b;

	*out = h->closed;
	for (int i = 0; i < h->nsockets; i++) {
		net_bytes(h->sockets[i], &b);
		out->sent += b.sent;
		out->received += b.received;
	}
}

int64_t http_rtt_us(const struct http *h)
{
	struct net_bytes b;
	int64_t us = 0;

	for (int i = 0; i < h->nsockets; i++) {
		net_bytes(h->sockets[i], &b);
		if (b.rtt_us > us)
			us = b.rtt_us;
	}
	return us;
}

static void set_limits(CURL *curl, const struct http_request *q)
{
	const char *scheme = strncasecmp(q->url, "https:", 6) == 0 ? "https" : "http";
	bool streams = q->source || q->sink;

	SET(CURLOPT_NOSIGNAL, 1L);
	/* so that a name lookup does not delay an abort */
	SET(CURLOPT_QUICK_EXIT, 1L);
	SET(CURLOPT_PROTOCOLS_STR, "http,https");
	SET(CURLOPT_REDIR_PROTOCOLS_STR, scheme);
	SET(CURLOPT_FOLLOWLOCATION,
		q->no_redirects || q->signer || q->unix_socket ? 0L : 1L);
	SET(CURLOPT_MAXREDIRS, REDIRECTS_MAX);
	SET(CURLOPT_POSTREDIR, (long)CURL_REDIR_POST_ALL);
	SET(CURLOPT_CONNECTTIMEOUT_MS,
		(long)(q->connect_timeout_ms ? q->connect_timeout_ms :
					       CONNECT_TIMEOUT_MS));
	if (q->timeout_ms || !streams)
		SET(CURLOPT_TIMEOUT_MS,
			(long)(q->timeout_ms ? q->timeout_ms : TIMEOUT_MS));
	SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	if (q->ca_file)
		SET(CURLOPT_CAINFO, q->ca_file);
	if (q->proxy)
		SET(CURLOPT_PROXY, q->proxy);
	if (q->unix_socket) {
		/* with a proxy of the environment, libcurl would ask that one */
		SET(CURLOPT_PROXY, "");
		SET(CURLOPT_UNIX_SOCKET_PATH, q->unix_socket);
	}
}

static void set_body(CURL *curl, struct http_transfer *t)
{
	const struct http_request *q = t->q;

	if (q->source) {
		SET(CURLOPT_UPLOAD, 1L);
		SET(CURLOPT_INFILESIZE_LARGE, (curl_off_t)q->source->bytes);
		SET(CURLOPT_READFUNCTION, http_on_read);
		SET(CURLOPT_READDATA, t);
		SET(CURLOPT_SEEKFUNCTION, http_on_seek);
		SET(CURLOPT_SEEKDATA, t);
		SET(CURLOPT_CUSTOMREQUEST, method_of(q));
	} else if (q->body) {
		SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)q->body_bytes);
		SET(CURLOPT_POSTFIELDS, q->body);
	}
	if (q->expect)
		SET(CURLOPT_EXPECT_100_TIMEOUT_MS, EXPECT_MS);
	if (q->method)
		SET(CURLOPT_CUSTOMREQUEST, q->method);
	if (q->method && strcmp(q->method, "HEAD") == 0)
		SET(CURLOPT_NOBODY, 1L);
}

static void set_options(struct http *h, struct http_transfer *t,
	struct curl_slist *headers)
{
	const struct http_request *q = t->q;
	CURL *curl = h->curl;

	http_curl.easy_reset(curl); /* options only: connections and sessions stay */
	set_limits(curl, q);
	SET(CURLOPT_OPENSOCKETFUNCTION, open_socket);
	SET(CURLOPT_OPENSOCKETDATA, h);
	SET(CURLOPT_CLOSESOCKETFUNCTION, close_socket);
	SET(CURLOPT_CLOSESOCKETDATA, h);
	SET(CURLOPT_ERRORBUFFER, t->detail);
	SET(CURLOPT_URL, q->url);
	SET(CURLOPT_PATH_AS_IS, q->signer ? 1L : 0L);
	SET(CURLOPT_USERAGENT, "rnp/" RNP_VERSION);
	if (!q->sink || q->compressed)
		SET(CURLOPT_ACCEPT_ENCODING, ""); /* all that libcurl can decompress */
	SET(CURLOPT_HTTPHEADER, headers);
	SET(CURLOPT_WRITEFUNCTION, http_on_body);
	SET(CURLOPT_WRITEDATA, t);
	t->curl = curl;
	SET(CURLOPT_HEADERFUNCTION, http_on_header);
	SET(CURLOPT_HEADERDATA, t);
	if (q->sink || q->source || t->bytes_max > RESPONSE_BYTES_MAX ||
		(int64_t)q->body_bytes > RESPONSE_BYTES_MAX) {
		SET(CURLOPT_BUFFERSIZE, LARGE_BUFFER);
		SET(CURLOPT_UPLOAD_BUFFERSIZE, LARGE_BUFFER);
	}
	set_body(curl, t);
}

/* --- the loop ------------------------------------------------------------------------------ */

static int64_t bytes_moved(CURL *curl)
{
	curl_off_t up = 0, down = 0;

	http_curl.easy_getinfo(curl, CURLINFO_SIZE_UPLOAD_T, &up);
	http_curl.easy_getinfo(curl, CURLINFO_SIZE_DOWNLOAD_T, &down);
	return up + down;
}

static bool is_connected(CURL *curl)
{
	curl_off_t us = 0;

	http_curl.easy_getinfo(curl, CURLINFO_PRETRANSFER_TIME_T, &us);
	return us > 0;
}

static int64_t rate_min(const struct http_request *q)
{
	int64_t rate = q->rate_min ? q->rate_min : RATE_MIN;
	int64_t max = q->rate_down_max;

	if (q->source && q->rate_up_max && (!max || q->rate_up_max < max))
		max = q->rate_up_max;
	return max && rate > max / 2 ? max / 2 : rate;
}

/* Whether the server is slower than rate_min allows. Called often. Time in our own callbacks
 * and time spent connecting do not count. */
static bool is_slow(struct http_transfer *t, CURL *curl)
{
	const struct http_request *q = t->q;
	int64_t window_ms = q->rate_window_ms ? q->rate_window_ms : WINDOW_MS;
	int64_t now_ns = clock_mono_ns(), moved;
	bool all_sent = q->source ? t->source_ended : true;
	int64_t answer_ms = q->answer_timeout_ms ? q->answer_timeout_ms :
						   ANSWER_TIMEOUT_MS;

	if ((!q->source && !q->sink) || rate_min(q) < 0)
		return false;
	if (t->paused || !is_connected(curl)) {
		t->window_ns = t->waiting_ns = 0;
		return false;
	}
	if (all_sent && !t->answered) {
		if (!t->waiting_ns)
			t->waiting_ns = now_ns;
		t->window_ns = 0;
		return now_ns - t->waiting_ns > answer_ms * 1000000;
	}
	t->waiting_ns = 0;
	moved = bytes_moved(curl);
	if (t->window_ns && now_ns - t->window_ns < window_ms * 1000000)
		return false;
	if (t->window_ns && moved - t->window_bytes < rate_min(q) * window_ms / 1000)
		return true;
	t->window_ns = now_ns;
	t->window_bytes = moved;
	return false;
}

/* Waits until there is something to do. */
static void wait_for_data(struct http *h, struct http_transfer *t)
{
	struct curl_waitfd stop = { .events = CURL_WAIT_POLLIN };
	bool can_stop = t->q->abort && t->q->abort->fd >= 0;

	if (can_stop)
		stop.fd = t->q->abort->fd;
	http_curl.multi_poll(h->multi, can_stop ? &stop : NULL, can_stop,
		t->paused ? PAUSE_MS : POLL_MS, NULL);
	if (t->paused) {
		t->paused = false;
		http_curl.easy_pause(h->curl, CURLPAUSE_CONT);
	}
}

/* Moves data until the transfer has ended or must be ended. */
static CURLcode perform(struct http *h, struct http_transfer *t)
{
	CURLcode rc = CURLE_ABORTED_BY_CALLBACK;
	int running = 1, left;
	CURLMsg *m;

	if (http_curl.multi_add_handle(h->multi, h->curl) != CURLM_OK)
		return CURLE_FAILED_INIT;
	for (;;) {
		t->aborted = http_is_aborted(t->q);
		if (t->aborted)
			break;
		if (http_curl.multi_perform(h->multi, &running) != CURLM_OK || !running)
			break;
		t->timed_out = is_slow(t, h->curl);
		if (t->timed_out)
			break;
		wait_for_data(h, t);
	}
	while ((m = http_curl.multi_info_read(h->multi, &left)))
		if (m->msg == CURLMSG_DONE && !running)
			rc = m->data.result;
	http_curl.multi_remove_handle(h->multi, h->curl);
	return rc;
}

/* --- tries --------------------------------------------------------------------------------- */

/* Forgets what one try has brought, and sets where the next one begins. */
static void begin_try(struct http_transfer *t)
{
	struct http_response *r = t->r;
	int64_t resume_at = t->q->sink ? http_transfer_resume_at(t) : 0;

	buf_reset(&r->body);
	r->etag[0] = r->content_type[0] = r->authenticate[0] = '\0';
	r->retry_after_ms = r->modified_ms = r->date_ms = r->total_bytes = -1;
	r->status = 0;
	r->untrusted = r->broken_off = false;
	t->sunk_before = resume_at > 0 ? resume_at : 0;
	t->sent = 0;
	t->answered = t->decided = t->into_sink = t->too_large = t->paused = false;
	t->aborted = t->timed_out = t->has_range = t->callback_failed = false;
	t->source_ended = false;
	t->header_bytes = 0;
	t->detail[0] = t->moved_to[0] = '\0';
	t->content_length = -1;
	t->window_ns = t->window_bytes = t->waiting_ns = 0;
}

static CURLcode try_once(struct http *h, struct http_transfer *t)
{
	struct curl_slist *headers = NULL;
	curl_off_t retry_after_s = 0;
	long status = 0;
	CURLcode rc = CURLE_ABORTED_BY_CALLBACK;

	begin_try(t);
	if (make_headers(&headers, t) < 0) {
		t->callback_failed = true;
	} else {
		set_options(h, t, headers);
		h->now = t;
		rc = perform(h, t);
		h->now = NULL;
		/* the handle lives on */
		http_curl.easy_setopt(h->curl, CURLOPT_ERRORBUFFER, (char *)NULL);
	}
	http_note_peer(h->curl, t);
	http_curl.easy_getinfo(h->curl, CURLINFO_RESPONSE_CODE, &status);
	http_curl.easy_getinfo(h->curl, CURLINFO_RETRY_AFTER, &retry_after_s);
	if (retry_after_s > 0) /* 0: not given */
		t->r->retry_after_ms = retry_after_s > 86400 ? 86400000 :
							       retry_after_s * 1000;
	t->r->status = (int)status;
	http_curl.slist_free_all(headers);
	return rc;
}

/* Whether the same request could succeed a little later. */
static bool is_temporary(const struct http_transfer *t, CURLcode rc)
{
	int status = t->r->status;

	if (t->aborted || t->callback_failed || t->too_large)
		return false;
	if (t->timed_out)
		return true;
	if (rc == CURLE_OK)
		return status == 429 || status == 502 || status == 503 || status == 504 ||
			((status == 401 || status == 403) && http_is_between(t));
	return rc == CURLE_COULDNT_CONNECT || rc == CURLE_OPERATION_TIMEDOUT ||
		rc == CURLE_COULDNT_RESOLVE_HOST || rc == CURLE_GOT_NOTHING ||
		rc == CURLE_SEND_ERROR || rc == CURLE_RECV_ERROR ||
		(t->q->sink && rc == CURLE_PARTIAL_FILE);
}

/* Whether the request can be sent again: the source can be read again, and the sink's bytes may
 * be discarded. */
static bool can_repeat(const struct http_transfer *t)
{
	const struct http_request *q = t->q;

	if (q->sink && q->sink->write && !q->sink->restart &&
		http_transfer_resume_at(t) < 0)
		return false;
	return !q->source || http_source_rewind(q->source) == 0;
}

/* Returns how long to wait before try number `next`: random, so that many clients that failed
 * together do not come back together. */
static int64_t wait_ms(int next, const struct http_response *r)
{
	int64_t ms = BACKOFF_FIRST_MS;
	uint16_t random = 0;

	for (int i = 2; i < next && ms < BACKOFF_MAX_MS; i++)
		ms *= 2;
	ms = ms < BACKOFF_MAX_MS ? ms : BACKOFF_MAX_MS;
	if (getrandom(&random, sizeof random, GRND_NONBLOCK) < 0)
		random = 0x8000;
	ms = ms / 2 + ms * random / 131072;
	return r->retry_after_ms > ms ? r->retry_after_ms : ms;
}

/* Sleeps, or returns at once when the request is aborted. */
static void sleep_ms(const struct http_request *q, int64_t ms)
{
	int64_t end_ns = clock_mono_ns() + ms * 1000000, left_ms;
	struct pollfd p = { q->abort ? q->abort->fd : -1, POLLIN, 0 };

	while ((left_ms = (end_ns - clock_mono_ns()) / 1000000) > 0)
		if (poll(&p, 1, (int)left_ms) > 0)
			return;
}

static int prepare(struct http *h, const struct http_request *q)
{
	if (http_check_scheme(q->url) < 0 || http_curl_open() < 0)
		return -1;
	if (q->unix_socket && strlen(q->unix_socket) > HTTP_SOCKET_MAX)
		return err_set(EX_USAGE, "'%s' is longer than a socket's path may be, %d",
			q->unix_socket, HTTP_SOCKET_MAX);
	if (!h->curl)
		h->curl = http_curl.easy_init();
	if (!h->multi)
		h->multi = http_curl.multi_init();
	return h->curl && h->multi ? 0 : err_set(EX_OSERR, "cannot start libcurl");
}

/* Whether the try brought the sink further than it ever was. A transfer that starts over each
 * time makes no progress. */
static bool has_progressed(struct http_transfer *t)
{
	bool much = t->r->sunk_bytes - t->furthest_bytes >= PROGRESS_BYTES &&
		http_transfer_resume_at(t) > 0;

	if (t->r->sunk_bytes > t->furthest_bytes)
		t->furthest_bytes = t->r->sunk_bytes;
	return much;
}

static CURLcode try_all(struct http *h, struct http_transfer *t)
{
	const struct http_request *q = t->q;
	struct http_response *r = t->r;
	int tries = q->tries ? q->tries : TRIES, counted = 0;
	CURLcode rc;

	for (r->tries = 1;; r->tries++) {
		rc = try_once(h, t);
		counted = has_progressed(t) ? 1 : counted + 1;
		if (!is_temporary(t, rc) || counted >= tries ||
			r->retry_after_ms > RETRY_AFTER_MAX_MS || !can_repeat(t))
			return rc;
		sleep_ms(q, wait_ms(counted + 1, r));
	}
}

/* Whether the range begins where the entity ends, so that there is nothing more to get. */
static bool is_complete(const struct http_transfer *t)
{
	return t->q->sink && t->r->status == 416 && t->has_range && t->range.first < 0 &&
		t->range.total == t->range_from + t->sunk_before;
}

int http_fetch(struct http *h, const struct http_request *q, struct http_response *r)
{
	struct http_transfer t = { .q = q,
		.r = r,
		.range_from = q->range_from,
		.range_bytes = q->range_bytes,
		.entity_bytes = -1,
		.up = &h->up,
		.down = &h->down,
		.bytes_max = q->response_bytes_max };
	CURLcode rc;

	if (prepare(h, q) < 0)
		return -1;
	if (!q->sink && !t.bytes_max)
		t.bytes_max = RESPONSE_BYTES_MAX;
	r->sunk_bytes = 0;
	rc = try_all(h, &t);
	r->aborted = t.aborted;
	if (rc != CURLE_OK)
		return http_fail_transfer(&t, rc);
	if (r->status >= 200 && r->status < 300 && !http_is_between(&t))
		return http_transfer_decide(&t);
	return (r->status == 304 && q->etag) || is_complete(&t) ? 0 :
								  http_fail_status(&t);
}
