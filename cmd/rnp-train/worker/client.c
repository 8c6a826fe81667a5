/* client.c - tries, waits, clocks. */
#include "cmd/rnp-train/worker/client.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/rnp-train/wire/sign.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/sha256.h"
#include "common/cli/prog.h"
#include "common/httpsig/content_digest.h"
#include "common/json/json.h"
#include "common/record/signature.h"

#define SKEWS_NS           INT64_C(600000000000) /* see CLIENT_SKEWS */
#define PACE_MS            1000
#define WAIT_FIRST_MS      250
#define WAIT_MAX_MS        5000
#define TIMEOUT_MS         30000
#define FETCH_TRIES        6
#define CONNECTIONS        4
#define CONNECTION_EACH_US 4000 /* of round trip: one more */
#define RATE_EACH          8192 /* of a limit: a coordinator closes those that are much slower */
/* bytes: a fetch that gets so many goes on, however often it breaks off */
#define PROGRESS  65536
#define FILE_PART 65536 /* of a file, read at a time */

int64_t client_now_ms(const struct client *c)
{
	return clock_now_ms() + c->skew_ms;
}

/* Whether the difference may be taken over now. Clocks are set, also the coordinator's, but not all
 * the time. */
static bool may_take_clock(struct client *c)
{
	const int64_t now_ns = clock_mono_ns();
	const int64_t oldest_ns = c->skews_ns[CLIENT_SKEWS - 1];

	if (oldest_ns && now_ns - oldest_ns < SKEWS_NS)
		return false;
	memmove(c->skews_ns + 1, c->skews_ns, sizeof c->skews_ns - sizeof *c->skews_ns);
	c->skews_ns[0] = now_ns;
	return true;
}

/* A clock that is wrong: the difference is taken over, and said. */
static bool take_clock(struct client *c, const struct http_response *r)
{
	int64_t skew_ms = r->date_ms - clock_now_ms();

	if (r->date_ms < 0 || llabs(skew_ms - c->skew_ms) < PROTOCOL_SKEW_MS / 2 ||
		!may_take_clock(c))
		return false;
	c->skew_ms = skew_ms;
	prog_warn(
		"this machine's clock is %lld s off the coordinator's, which is used instead",
		(long long)(-skew_ms / 1000));
	return true;
}

/* Keeps what other threads may read. */
static void note_answer(struct client *c, const struct http_response *r)
{
	struct net_bytes b;

	http_bytes(&c->http, &b);
	c->sent = b.sent;
	c->received = b.received;
	if (r->status)
		c->answered_ms = clock_now_ms();
}

/* Waits; returns -1 where the wait was broken off. */
static int wait_ms(const struct client *c, int64_t ms)
{
	struct pollfd p = { .fd = c->abort ? c->abort->fd : -1, .events = POLLIN };

	return poll(&p, 1, (int)ms) > 0 ? -1 : 0;
}

void client_pace(const struct client *c, int64_t began_ns)
{
	int64_t ms = PACE_MS - (clock_mono_ns() - began_ns) / 1000000;

	if (ms > 0)
		wait_ms(c, ms);
}

/* A body in memory, read as it is sent: only so is its rate limited. */
struct body {
	const char *data;
	size_t bytes, at;
};

static long read_body(void *ctx, void *to, size_t max)
{
	struct body *b = ctx;
	size_t n = b->bytes - b->at < max ? b->bytes - b->at : max;

	memcpy(to, b->data + b->at, n);
	b->at += n;
	return (long)n;
}

static int rewind_body(void *ctx)
{
	((struct body *)ctx)->at = 0;
	return 0;
}

static int fetch(struct client *c, const struct client_request *q, const char *url,
	const char *const *headers, struct http_response *r)
{
	struct body body = { .data = q->body, .bytes = q->body_bytes };
	const struct http_source source = { .read = read_body,
		.rewind = rewind_body,
		.ctx = &body,
		.bytes = (int64_t)q->body_bytes };
	bool limited = c->up_max && q->body;
	const struct http_source *from = q->file ? q->file : limited ? &source : NULL;
	int64_t timeout_ms = q->timeout_ms ? q->timeout_ms :
		c->answer_ms               ? c->answer_ms :
					     TIMEOUT_MS;
	struct http_request h = { .method = q->method,
		.url = url,
		.headers = headers,
		.content_type = q->content_type,
		.body = from ? NULL : q->body,
		.body_bytes = from ? 0 : q->body_bytes,
		.source = from,
		.ca_file = c->ca,
		.proxy = c->proxy,
		.no_redirects = true,
		.timeout_ms = timeout_ms,
		.answer_timeout_ms = timeout_ms,
		.rate_up_max = c->up_max,
		.rate_down_max = c->down_max,
		.tries = 1,
		.abort = c->abort };

	return http_fetch(&c->http, &h, r);
}

/* The header fields of a request that is signed. */
struct signing {
	struct buf lines[PROTOCOL_LINES];
	const char *headers[PROTOCOL_LINES + 1]; /* ends with NULL */
};

#define SIGNING_INIT                                                \
	{                                                           \
		.lines = { BUF_INIT, BUF_INIT, BUF_INIT, BUF_INIT } \
	}

/* The digest of bytes of a file, which are read once more when they are sent. Returns 0, or -1 with
 * err_set(EX_IOERR). */
static int digest_file(struct content_digest *d, const struct http_source *file)
{
	struct sha256_state state;
	char *part = xmalloc(FILE_PART);
	int64_t at = 0;

	sha256_init(&state);
	while (at < file->bytes) {
		int64_t left = file->bytes - at;
		ssize_t n = pread(file->fd, part,
			(size_t)(left < FILE_PART ? left : FILE_PART), file->offset + at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			errno = n ? errno : EIO; /* shorter than it was */
			break;
		}
		sha256_update(&state, part, (size_t)n);
		at += n;
	}
	free(part);
	*d = (struct content_digest){ .has_sha256 = true };
	sha256_final(&state, d->sha256);
	return at == file->bytes ? 0 : err_sys(EX_IOERR, "cannot read what is sent");
}

static int sign(struct signing *s, const struct client *c, const char *url,
	const struct client_request *q)
{
	struct content_digest d;
	int n;

	if (q->file && digest_file(&d, q->file) < 0)
		return -1;
	if (q->body)
		content_digest_of(&d, q->body, q->body_bytes);
	n = protocol_sign(s->lines, q->method, url, q->file || q->body ? &d : NULL,
		c->run, c->key, client_now_ms(c) / 1000);
	for (int i = 0; i < n; i++)
		s->headers[i] = s->lines[i].data;
	return n < 0 ? -1 : 0;
}

static void signing_release(struct signing *s)
{
	for (int i = 0; i < PROTOCOL_LINES; i++)
		buf_release(&s->lines[i]);
}

static int send_once(struct client *c, const struct client_request *q,
	struct http_response *r)
{
	struct signing s = SIGNING_INIT;
	struct buf url = BUF_INIT;
	int rc = http_url(&url, c->url, q->path);

	if (rc == 0 && q->sign)
		rc = sign(&s, c, url.data, q);
	if (rc == 0) {
		rc = fetch(c, q, url.data, q->sign ? s.headers : NULL, r);
		note_answer(c, r);
	}
	signing_release(&s);
	buf_release(&url);
	return rc;
}

/* Whether it is worth trying again: nobody answered, or not to the end, or it said "later". A
 * certificate that was not accepted yet is for a person to look at; one that was may be renewed. */
static bool is_temporary(const struct client *c, const struct http_response *r)
{
	int code = err_get()->code;

	if (r->untrusted && !c->answered_ms)
		return false;
	return !r->aborted &&
		((!r->status && (code == EX_UNAVAILABLE || code == EX_TEMPFAIL)) ||
			r->broken_off || r->status == 429 || r->status >= 500);
}

/* Signs a record for this try: one that waited for a minute would be too old. */
static int sign_record(const struct client *c, json_t *record, struct buf *text)
{
	int64_t now_ms = client_now_ms(c);
	int rc;

	json_object_del(record, "proof");
	json_set_time(record, "at", now_ms);
	rc = signature_add(record, c->key, now_ms);
	buf_reset(text);
	json_write(text, record);
	return rc;
}

/* Whether a 2xx is the coordinator's. Returns 0, or -1 with r->status 0, as one that did not come.
 */
static int check_answer(const struct client *c, const struct client_request *q,
	struct http_response *r)
{
	json_t *answer;
	bool has;

	if (!q->has || r->status < 200 || r->status >= 300 ||
		(r->status == 204 && q->may_be_empty))
		return 0;
	answer = json_parse_object(buf_text(&r->body), r->body.len, "answer");
	has = json_object_get(answer, q->has) != NULL;
	json_decref(answer);
	if (has)
		return 0;
	err_set(EX_UNAVAILABLE,
		"'%s' said HTTP %d without the '%s' of a coordinator's answer", c->url,
		r->status, q->has);
	err_hint(
		"a login page or a proxy may stand between, or the URL is no coordinator's");
	r->status = 0;
	return -1;
}

/* One try, with the record, if there is one, as its body. */
static int try_once(struct client *c, const struct client_request *q, struct buf *text,
	struct http_response *r)
{
	struct client_request now = *q;

	http_response_release(r);
	*r = (struct http_response)HTTP_RESPONSE_INIT;
	if (q->record && sign_record(c, q->record, text) < 0)
		return -1;
	if (q->record) {
		now.body = text->data;
		now.body_bytes = text->len;
	}
	return send_once(c, &now, r) < 0 ? -1 : check_answer(c, q, r);
}

/* Waits between two tries, and says once what for. Returns 0, or -1 where it was broken off. */
static int pause_before(const struct client *c, struct http_response *r, int64_t ms,
	bool *said)
{
	if (r->retry_after_ms > ms && r->retry_after_ms < 60000)
		ms = r->retry_after_ms;
	if (!*said && ms > 1000) {
		prog_info("waiting for the coordinator: %s", err_get()->text);
		*said = true;
	}
	if (wait_ms(c, ms) == 0)
		return 0;
	r->aborted = true;
	return err_set(EX_TEMPFAIL, "stopped while waiting");
}

int client_send(struct client *c, const struct client_request *q, struct http_response *r)
{
	int64_t began_ns = clock_mono_ns(), pause_ms = WAIT_FIRST_MS;
	struct buf text = BUF_INIT;
	bool said = false;
	int rc;

	for (;;) {
		rc = try_once(c, q, &text, r);
		if (rc == 0 || r->aborted)
			break;
		if (r->status == 401 && (q->sign || q->record) && take_clock(c, r))
			continue;
		if (!is_temporary(c, r)) {
			/* a redirect leads to another address, which a person has to give */
			if (r->status >= 400) {
				err_clear();
				rc = 0;
			}
			break;
		}
		if ((clock_mono_ns() - began_ns) / 1000000 > c->give_up_ms) {
			rc = err_add("gave up");
			break;
		}
		rc = pause_before(c, r, pause_ms, &said);
		if (rc < 0)
			break;
		pause_ms = pause_ms * 2 < WAIT_MAX_MS ? pause_ms * 2 : WAIT_MAX_MS;
	}
	buf_release(&text);
	return rc;
}

json_t *client_run(struct client *c)
{
	const struct client_request q = { .method = "GET",
		.path = "/v1/run",
		.has = "kind" };
	struct http_response r = HTTP_RESPONSE_INIT;
	json_t *record = NULL;

	if (client_send(c, &q, &r) == 0) {
		take_clock(c, &r);
		if (r.status == 200)
			record = json_parse_object(buf_text(&r.body), r.body.len,
				"the run's record");
		else
			client_refused(&r, EX_DATAERR, "the run's record");
	}
	http_response_release(&r);
	return record;
}

int client_post(struct client *c, const char *path, json_t *record, const char *has,
	struct http_response *r)
{
	const struct client_request q = { .method = "POST",
		.path = path,
		.record = record,
		.has = has,
		.timeout_ms = TIMEOUT_MS };

	return client_send(c, &q, r);
}

int client_connections(const struct client *c, int64_t rate)
{
	int64_t n = CONNECTIONS + http_rtt_us(&c->http) / CONNECTION_EACH_US;

	if (n > CLIENT_CONNECTIONS_MAX)
		n = CLIENT_CONNECTIONS_MAX;
	if (rate && n > rate / RATE_EACH)
		n = rate / RATE_EACH;
	return n > 1 ? (int)n : 1;
}

static uint64_t received(const struct client *c)
{
	struct net_bytes b;

	http_bytes(&c->http, &b);
	return b.received;
}

static int download(struct client *c, const char *url, const char *to, uint64_t max,
	uint64_t *guess)
{
	struct http_response r = HTTP_RESPONSE_INIT;
	int64_t began_ns = clock_mono_ns();
	uint64_t began = received(c), had = began;
	int rc = 0;

	while (rc == 0) {
		struct http_request h = { .url = url,
			.ca_file = c->ca,
			.proxy = c->proxy,
			.no_redirects = true,
			.response_bytes_max = (int64_t)max,
			.rate_down_max = c->down_max,
			.tries = FETCH_TRIES,
			.connections = client_connections(c, c->down_max),
			.bytes_guess = guess ? (int64_t)*guess : 0,
			.abort = c->abort };

		http_response_release(&r);
		r = (struct http_response)HTTP_RESPONSE_INIT;
		rc = http_download(&c->http, &h, to, &r);
		note_answer(c, &r);
		if (received(c) - had > PROGRESS) {
			had = received(c);
			began_ns = clock_mono_ns();
		}
		/* nor without end, where what is fetched becomes another */
		if (rc == 0 || !is_temporary(c, &r) || had - began > FETCH_TRIES * max ||
			(clock_mono_ns() - began_ns) / 1000000 > c->give_up_ms)
			break;
		rc = 0;
		if (wait_ms(c, WAIT_MAX_MS) < 0)
			rc = err_set(EX_TEMPFAIL, "stopped while waiting");
	}
	if (rc == 0 && guess && r.total_bytes >= 0)
		*guess = (uint64_t)r.total_bytes;
	if (rc < 0 && r.status == 404) {
		err_clear();
		rc = 1;
	}
	http_response_release(&r);
	return rc;
}

int client_fetch(struct client *c, const char *path, const char *to, uint64_t max,
	uint64_t *guess)
{
	struct buf url = BUF_INIT;
	int rc = http_url(&url, c->url, path);

	if (rc == 0)
		rc = download(c, url.data, to, max, guess);
	buf_release(&url);
	return rc;
}

void client_wait(const struct client *c, const struct http_abort *event,
	const struct http_abort *stop)
{
	struct pollfd p[] = { { .fd = c->abort ? c->abort->fd : -1, .events = POLLIN },
		{ .fd = event->fd, .events = POLLIN } };

	while (!p[1].revents) {
		if (poll(p, 2, -1) < 0)
			p[0].revents = p[1].revents = 0; /* a signal */
		if (p[0].revents) {
			http_abort(stop);
			p[0].fd = -1;
			p[0].revents = 0;
		}
	}
}

void client_count_bytes(struct client *c, struct net_bytes *counted, struct client *to)
{
	struct net_bytes b;

	http_bytes(&c->http, &b);
	to->http.closed.sent += b.sent - counted->sent;
	to->http.closed.received += b.received - counted->received;
	*counted = b;
}

int client_refused(const struct http_response *r, int code, const char *what)
{
	json_t *body = r->body.len ?
		json_parse_object(buf_text(&r->body), r->body.len, "answer") :
		NULL;
	const char *text = json_string_value(json_object_get(body, "error"));

	err_set(code, "%s: the coordinator says %d%s%.300s", what, r->status,
		text ? ": " : "", text ? text : "");
	json_decref(body);
	return -1;
}
