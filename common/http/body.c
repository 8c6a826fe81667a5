/* body.c - moves bodies: from the source, into the sink or the answer's buffer, and reads
 * the headers that decide which. These are libcurl's callbacks. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/http/parts.h"

/* Limit of an answer that does not go to the sink: an error's message. */
#define MESSAGE_BYTES_MAX ((size_t)64 << 10)
/* Lists of nodes and offers become 30 times as many bytes, at most. */
#define INFLATED_TIMES 100
#define INFLATED_FREE  ((int64_t)8 << 20) /* so many may come from how few they want */

/* --- rates --------------------------------------------------------------------------------- */

#define BURST_BYTES ((int64_t)64 << 10)
/* a burst may be this fraction of a second's bytes, if that is more */
#define BURST_PER_S 20
#define NS_PER_S    INT64_C(1000000000)

/* libcurl's own limits let a second's worth pass at once. */
bool http_budget_allows(struct http_budget *b, int64_t rate)
{
	int64_t now_ns = clock_mono_ns(), limit, passed_ns;

	if (!rate)
		return true;
	limit = rate / BURST_PER_S > BURST_BYTES ? rate / BURST_PER_S : BURST_BYTES;
	passed_ns = now_ns - b->at_ns;
	if (!b->at_ns || passed_ns > NS_PER_S)
		b->bytes = b->at_ns ? limit : BURST_BYTES;
	else
		b->bytes += (int64_t)((double)rate * (double)passed_ns /
			(double)NS_PER_S);
	if (b->bytes > limit)
		b->bytes = limit;
	b->at_ns = now_ns;
	return b->bytes > 0;
}

/* --- abort --------------------------------------------------------------------------------- */

#define LOOK_NS INT64_C(5000000)

/* On a fast line libcurl moves tens of megabytes before its loop comes back. */
static bool look_for_abort(struct http_transfer *t)
{
	int64_t now_ns;

	if (!t->q->abort)
		return false;
	now_ns = clock_mono_ns();
	if (now_ns - t->looked_ns < LOOK_NS)
		return false;
	t->looked_ns = now_ns;
	t->aborted = http_is_aborted(t->q);
	return t->aborted;
}

/* --- the source ---------------------------------------------------------------------------- */

static long read_source(const struct http_source *s, int64_t sent, char *to, size_t max)
{
	ssize_t n;

	if (s->bytes >= 0 && (int64_t)max > s->bytes - sent)
		max = (size_t)(s->bytes - sent);
	if (!max)
		return 0;
	if (s->read)
		return s->read(s->ctx, to, max);
	do
		n = pread(s->fd, to, max, s->offset + sent);
	while (n < 0 && errno == EINTR);
	return n < 0 ? err_sys(EX_IOERR, "cannot read what is to be sent") : n;
}

size_t http_on_read(char *to, size_t size, size_t n, void *transfer)
{
	struct http_transfer *t = transfer;
	const struct http_source *s = t->q->source;
	size_t max = size * n;
	long got = HTTP_AGAIN;

	if (look_for_abort(t))
		return CURL_READFUNC_ABORT;
	if (http_budget_allows(t->up, t->q->rate_up_max)) {
		/* libcurl's buffer may be larger than the whole body */
		if (t->q->rate_up_max && (int64_t)max > t->up->bytes)
			max = (size_t)t->up->bytes;
		got = read_source(s, t->sent, to, max);
	}
	if (got == HTTP_AGAIN) {
		t->paused = true;
		return CURL_READFUNC_PAUSE;
	}
	if (got == 0 && s->bytes > t->sent)
		got = err_set(EX_IOERR,
			"what is to be sent ends after %lld of %lld bytes",
			(long long)t->sent, (long long)s->bytes);
	if (got < 0 || got > (long)max) {
		t->callback_failed = true;
		return CURL_READFUNC_ABORT;
	}
	t->sent += got;
	t->up->bytes -= got;
	t->source_ended = got == 0 || t->sent == s->bytes;
	return (size_t)got;
}

int http_source_rewind(const struct http_source *s)
{
	if (!s->read)
		return 0;
	return s->rewind ? s->rewind(s->ctx) : -1;
}

int http_on_seek(void *transfer, curl_off_t offset, int origin)
{
	struct http_transfer *t = transfer;

	if (offset != 0 || origin != SEEK_SET || http_source_rewind(t->q->source) < 0)
		return CURL_SEEKFUNC_FAIL;
	t->sent = 0;
	t->source_ended = false;
	return CURL_SEEKFUNC_OK;
}

/* --- the sink ------------------------------------------------------------------------------ */

/* Returns the offset in the file of the first byte of the body: earlier after a restart with
 * the whole entity, which begins at byte 0. */
static int64_t sink_offset(const struct http_transfer *t)
{
	return t->q->sink->offset - (t->q->range_from - t->range_from);
}

static int write_sink(const struct http_transfer *t, const char *data, size_t len)
{
	const struct http_sink *s = t->q->sink;
	int64_t at = sink_offset(t) + t->r->sunk_bytes;

	if (s->write)
		return s->write(s->ctx, data, len);
	if (io_write_all_at(s->fd, data, len, at) < 0)
		return err_sys(EX_IOERR, "cannot write what came");
	return 0;
}

/* Discards the sink's bytes, so that the next ones are the first. */
static int restart_sink(struct http_transfer *t)
{
	const struct http_sink *s = t->q->sink;

	if (s->restart && s->restart(s->ctx) < 0)
		return -1;
	if (s->write && !s->restart)
		return err_set(EX_DATAERR,
			"'%s' starts again in the middle of its answer", t->q->url);
	t->range_from = t->range_bytes = t->sunk_before = t->r->sunk_bytes = 0;
	if (s->write)
		return 0;
	if (sink_offset(t) < 0)
		return err_set(EX_DATAERR, "'%s' has changed, and is no part any more",
			t->q->url);
	/* anything but a regular file, such as /dev/null, cannot be truncated and need not be */
	if (ftruncate(s->fd, sink_offset(t)) < 0 && errno != EINVAL)
		return err_sys(EX_IOERR, "cannot write what came");
	return 0;
}

/* Checks that the body of a 206 is the range that was asked for. */
static int decide_range(struct http_transfer *t)
{
	const struct http_request *q = t->q;
	int64_t from = t->range_from + t->sunk_before;
	const char *tag = t->resume_etag[0] ? t->resume_etag : q->if_range;

	if (tag && *tag && t->r->etag[0] && strcmp(tag, t->r->etag) != 0)
		return err_set(EX_DATAERR, "'%s' sends a part of something else", q->url);
	if (!t->has_range || t->range.first != from)
		return err_set(EX_DATAERR, "'%s' sends another range than bytes %lld on",
			q->url, (long long)from);
	if (t->range_bytes && t->range.last >= t->range_from + t->range_bytes)
		return err_set(EX_DATAERR, "'%s' sends more than was asked for", q->url);
	if (t->entity_bytes >= 0 && t->range.total >= 0 &&
		t->entity_bytes != t->range.total)
		return err_set(EX_DATAERR, "'%s' contradicts itself about its size",
			q->url);
	if (t->content_length >= 0 &&
		t->content_length != t->range.last - t->range.first + 1)
		return err_set(EX_DATAERR, "'%s' contradicts itself about its size",
			q->url);
	t->entity_bytes = t->range.total;
	return 0;
}

static int decide_whole(struct http_transfer *t)
{
	const struct http_request *q = t->q;
	bool is_part = t->range_from || t->range_bytes;

	if (is_part && !q->if_range)
		return err_set(EX_DATAERR, "'%s' knows no ranges", q->url);
	if ((t->r->sunk_bytes || is_part) && restart_sink(t) < 0)
		return -1;
	t->entity_bytes = t->content_length;
	return 0;
}

static bool asked_for_part(const struct http_transfer *t)
{
	return t->range_from || t->range_bytes || t->sunk_before;
}

int http_transfer_decide(struct http_transfer *t)
{
	struct http_response *r = t->r;
	int rc = 0;

	if (t->decided)
		return 0;
	t->decided = true;
	t->into_sink = t->q->sink && r->status >= 200 && r->status < 300 &&
		!http_says_page(r->content_type);
	if (!t->into_sink)
		return 0;
	rc = r->status == 206 && asked_for_part(t) ? decide_range(t) : decide_whole(t);
	if (rc < 0)
		return -1;
	r->total_bytes = t->entity_bytes;
	/* a weak tag means that entities are equivalent, not that they have the same bytes */
	if (r->status != 206 || r->etag[0])
		snprintf(t->resume_etag, sizeof t->resume_etag, "%s",
			r->etag[0] == '"' ? r->etag : "");
	return 0;
}

int64_t http_transfer_resume_at(const struct http_transfer *t)
{
	const char *tag = t->resume_etag[0] ? t->resume_etag : t->q->if_range;

	if (!t->r->sunk_bytes)
		return 0;
	/* a range would be one of the compressed bytes */
	if (t->q->compressed)
		return -1;
	return tag && *tag ? t->r->sunk_bytes : -1;
}

static size_t add_to_sink(struct http_transfer *t, const char *data, size_t bytes)
{
	int rc = HTTP_AGAIN;

	if (http_budget_allows(t->down, t->q->rate_down_max))
		rc = write_sink(t, data, bytes);

	if (rc == HTTP_AGAIN) {
		t->paused = true;
		return CURL_WRITEFUNC_PAUSE;
	}
	t->callback_failed = rc < 0;
	if (rc < 0)
		return CURL_WRITEFUNC_ERROR;
	t->r->sunk_bytes += (int64_t)bytes;
	t->down->bytes -= (int64_t)bytes;
	return bytes;
}

/* Whether an answer, with `more` bytes that come now, unpacks to more than any list would that we
 * read: gzip makes a thousand bytes of one. Sets the error then. */
static bool inflates(const struct http_transfer *t, size_t more)
{
	int64_t unpacked = t->r->sunk_bytes - t->sunk_before +
		(int64_t)(t->r->body.len + more);
	curl_off_t sent = 0;

	if (unpacked <= INFLATED_FREE)
		return false;
	http_curl.easy_getinfo(t->curl, CURLINFO_SIZE_DOWNLOAD_T, &sent);
	if (unpacked <= sent * INFLATED_TIMES)
		return false;
	err_set(EX_DATAERR,
		"'%s' sent %lld bytes that unpack to more than %d times as many",
		t->q->url, (long long)sent, INFLATED_TIMES);
	return true;
}

size_t http_on_body(char *data, size_t size, size_t n, void *transfer)
{
	struct http_transfer *t = transfer;
	struct buf *body = &t->r->body;
	size_t bytes = size * n, cap;

	if (look_for_abort(t))
		return CURL_WRITEFUNC_ERROR;
	if (http_transfer_decide(t) < 0 || inflates(t, bytes)) {
		t->callback_failed = true;
		return CURL_WRITEFUNC_ERROR;
	}
	if (t->into_sink) {
		t->too_large = t->bytes_max &&
			(int64_t)bytes > t->bytes_max - t->r->sunk_bytes;
		return t->too_large ? CURL_WRITEFUNC_ERROR : add_to_sink(t, data, bytes);
	}
	if (t->q->sink) {
		cap = MESSAGE_BYTES_MAX - body->len;
		buf_add(body, data, bytes < cap ? bytes : cap);
		return bytes;
	}
	if (bytes > (size_t)t->bytes_max - body->len) {
		t->too_large = true;
		return CURL_WRITEFUNC_ERROR;
	}
	buf_add(body, data, bytes);
	return bytes;
}

/* --- headers ------------------------------------------------------------------------------- */

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

/* Reads "Sun, 06 Nov 1994 08:49:37 GMT", the only form that is sent today; -1: anything else. */
static int64_t http_date_ms(const char *value)
{
	struct tm tm = { 0 };
	const char *end = strptime(value, "%a, %d %b %Y %H:%M:%S GMT", &tm);

	return end && !*end && tm.tm_year >= 70 ? (int64_t)timegm(&tm) * 1000 : -1;
}

/* Reads decimal digits up to any other character; -1: none, or too many. */
static int64_t take_number(const char **s)
{
	size_t digits = strspn(*s, "0123456789");
	int64_t n;

	if (!digits || digits > 18)
		return -1;
	n = strtoll(*s, NULL, 10);
	*s += digits;
	return n;
}

int http_range_parse(struct http_range *out, const char *value)
{
	const char *s = value + 6;

	*out = (struct http_range){ -1, -1, -1 };
	if (strncasecmp(value, "bytes ", 6) != 0)
		return -1;
	if (*s == '*') {
		s++;
	} else {
		out->first = take_number(&s);
		if (out->first < 0 || *s++ != '-')
			return -1;
		out->last = take_number(&s);
		if (out->last < out->first)
			return -1;
	}
	if (*s++ != '/')
		return -1;
	if (strcmp(s, "*") == 0)
		return out->first >= 0 ? 0 : -1;
	out->total = take_number(&s);
	return out->total < 0 || *s || out->last >= out->total ? -1 : 0;
}

/* libcurl keeps all header fields of an answer, however many a server sends: this is the limit. */
#define HEADER_BYTES_MAX ((size_t)256 << 10)

/* Begins a new answer: the first, or one after a redirect or 100 Continue. */
static void begin_answer(struct http_transfer *t, const char *line, size_t len)
{
	const char *space = memchr(line, ' ', len);

	t->answered = true;
	t->decided = t->has_range = false;
	t->content_length = -1;
	t->r->etag[0] = t->r->content_type[0] = t->r->authenticate[0] = '\0';
	t->r->modified_ms = t->r->date_ms = -1;
	t->r->status = space && len - (size_t)(space - line) > 3 ?
		(int)strtol(space + 1, NULL, 10) :
		0;
}

size_t http_on_header(char *line, size_t size, size_t n, void *transfer)
{
	struct http_transfer *t = transfer;
	struct http_response *r = t->r;
	size_t len = size * n;
	char value[64], location[HTTP_SITE_MAX];
	const char *number = value;

	t->header_bytes += len;
	if (t->header_bytes > HEADER_BYTES_MAX) {
		t->callback_failed = true;
		err_set(EX_DATAERR, "'%s' answered with more than %zu bytes of headers",
			t->q->name ? t->q->name : t->q->url, HEADER_BYTES_MAX);
		return 0;
	}
	if (len > 5 && strncasecmp(line, "HTTP/", 5) == 0)
		begin_answer(t, line, len);
	header_is(line, len, "etag", r->etag, sizeof r->etag);
	header_is(line, len, "content-type", r->content_type, sizeof r->content_type);
	header_is(line, len, "www-authenticate", r->authenticate, sizeof r->authenticate);
	if (header_is(line, len, "location", location, sizeof location))
		http_note_location(t, location);
	if (header_is(line, len, "last-modified", value, sizeof value))
		r->modified_ms = http_date_ms(value);
	if (header_is(line, len, "date", value, sizeof value))
		r->date_ms = http_date_ms(value);
	if (header_is(line, len, "content-length", value, sizeof value))
		t->content_length = take_number(&number);
	if (header_is(line, len, "content-range", value, sizeof value))
		t->has_range = http_range_parse(&t->range, value) == 0;
	return len;
}
