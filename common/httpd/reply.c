/* reply.c - replies of httpd: errors, files, sources, and the head of a reply with its
 * ranges. The parts that programs call are in httpd.h. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/base/err.h"
#include "common/base/utf8.h"
#include "common/json/canon.h"
#include "common/httpd/core.h"

static void render_default(struct httpd_reply *r, const char *text)
{
	buf_adds(&r->body, "{\"error\":");
	canon_string(&r->body, text, strlen(text));
	buf_adds(&r->body, "}\n");
}

/* Discards the body that was to be sent. */
static void drop_content(struct httpd_reply *r)
{
	if (r->from == HTTPD_FROM_FILE)
		close(r->fd);
	r->from = HTTPD_FROM_BODY;
	r->ranges = false;
	r->etag[0] = '\0';
	r->content_type = NULL;
	buf_reset(&r->body);
}

enum httpd_when httpd_error(struct httpd_reply *r, int status, const char *fmt, ...)
{
	char text[1200];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	utf8_clean_line(text); /* "%.40s" may have cut a character in half */
	drop_content(r);
	r->status = status;
	(r->render ? r->render : render_default)(r, text);
	return HTTPD_NOW;
}

void httpd_reply_release(struct httpd_reply *r)
{
	drop_content(r);
	buf_release(&r->body);
	buf_release(&r->headers);
}

enum httpd_when httpd_reply_file(struct httpd_reply *r, int fd, int64_t offset,
	int64_t bytes)
{
	r->from = HTTPD_FROM_FILE;
	r->fd = fd;
	r->offset = offset;
	r->bytes = bytes;
	r->ranges = true;
	if (!r->content_type)
		r->content_type = "application/octet-stream";
	return HTTPD_NOW;
}

enum httpd_when httpd_reply_path(struct httpd_reply *r, const char *path)
{
	struct stat s;
	/* O_NONBLOCK, so that opening a pipe does not wait */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR || errno == EACCES ?
			httpd_error(r, 404, "there is no such file") :
			httpd_error(r, 503, "the file cannot be opened at present");
	if (fstat(fd, &s) < 0 || !S_ISREG(s.st_mode)) {
		close(fd);
		return httpd_error(r, 404, "there is no such file");
	}
	if (!r->etag[0])
		snprintf(r->etag, sizeof r->etag, "\"%jx-%jx-%" PRIx64 "\"",
			(uintmax_t)s.st_ino, (uintmax_t)s.st_size,
			(int64_t)s.st_mtim.tv_sec * 1000000000 + s.st_mtim.tv_nsec);
	return httpd_reply_file(r, fd, 0, s.st_size);
}

enum httpd_when httpd_reply_source(struct httpd_reply *r, httpd_source source,
	int64_t bytes)
{
	r->from = HTTPD_FROM_SOURCE;
	r->source = source;
	r->bytes = bytes;
	return HTTPD_NOW;
}

enum httpd_when httpd_reply_memory(struct httpd_reply *r, const void *data, size_t bytes)
{
	r->from = HTTPD_FROM_MEMORY;
	r->memory = data;
	r->offset = 0;
	r->bytes = (int64_t)bytes;
	return HTTPD_NOW;
}

void httpd_add_header(struct httpd_reply *r, const char *name, const char *fmt, ...)
{
	char value[2048];
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(value, sizeof value, fmt, args);
	va_end(args);
	if (n < 0 || (size_t)n >= sizeof value || strpbrk(value, "\r\n") || !*name ||
		strpbrk(name, ": \t\r\n"))
		bug("'%.60s' is no header field", name);
	buf_addf(&r->headers, "%s: %s\r\n", name, value);
}

/* --- the head ---------------------------------------------------------------------------- */

static const char *reason(int status)
{
	static const struct {
		int status;
		const char *text;
	} reasons[] = {
		{ 200, "OK" },
		{ 201, "Created" },
		{ 202, "Accepted" },
		{ 204, "No Content" },
		{ 206, "Partial Content" },
		{ 301, "Moved Permanently" },
		{ 302, "Found" },
		{ 303, "See Other" },
		{ 304, "Not Modified" },
		{ 307, "Temporary Redirect" },
		{ 308, "Permanent Redirect" },
		{ 400, "Bad Request" },
		{ 401, "Unauthorized" },
		{ 402, "Payment Required" },
		{ 403, "Forbidden" },
		{ 404, "Not Found" },
		{ 405, "Method Not Allowed" },
		{ 406, "Not Acceptable" },
		{ 408, "Request Timeout" },
		{ 409, "Conflict" },
		{ 410, "Gone" },
		{ 411, "Length Required" },
		{ 412, "Precondition Failed" },
		{ 413, "Content Too Large" },
		{ 414, "URI Too Long" },
		{ 415, "Unsupported Media Type" },
		{ 416, "Range Not Satisfiable" },
		{ 417, "Expectation Failed" },
		{ 422, "Unprocessable Content" },
		{ 425, "Too Early" },
		{ 426, "Upgrade Required" },
		{ 428, "Precondition Required" },
		{ 429, "Too Many Requests" },
		{ 431, "Request Header Fields Too Large" },
		{ 499, "Client Closed Request" },
		{ 500, "Internal Server Error" },
		{ 501, "Not Implemented" },
		{ 502, "Bad Gateway" },
		{ 503, "Service Unavailable" },
		{ 504, "Gateway Timeout" },
		{ 505, "HTTP Version Not Supported" },
		{ 507, "Insufficient Storage" },
	};

	for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
		if (reasons[i].status == status)
			return reasons[i].text;
	return "Unknown";
}

void httpd_format_date(char out[HTTPD_DATE_MAX], time_t at)
{
	static const char days[][4] = { "Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat" };
	static const char months[][4] = { "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul",
		"Aug", "Sep", "Oct", "Nov", "Dec" };
	struct tm t;

	gmtime_r(&at, &t); /* strftime would follow the locale */
	snprintf(out, HTTPD_DATE_MAX, "%s, %02d %s %d %02d:%02d:%02d GMT",
		days[t.tm_wday], t.tm_mday, months[t.tm_mon], t.tm_year + 1900, t.tm_hour,
		t.tm_min, t.tm_sec);
}

int64_t httpd_content_bytes(const struct httpd_reply *r)
{
	return r->from == HTTPD_FROM_BODY ? (int64_t)r->body.len : r->bytes;
}

/* If-Range (RFC 9110, 13.1.5): a date never matches, as no Last-Modified is sent. */
static bool range_holds(const struct httpd_request *q, const struct httpd_reply *r)
{
	const char *tag = httpd_header(q, "If-Range");

	return !tag || (r->etag[0] && strcmp(tag, r->etag) == 0);
}

void httpd_settle(const struct httpd_request *q, struct httpd_reply *r)
{
	const char *range = httpd_header(q, "Range");
	uint64_t first, count;
	int64_t all = httpd_content_bytes(r);

	if (r->status != 200)
		return;
	if (r->etag[0] && httpd_etag_matches(q->if_none_match, r->etag)) {
		char etag[HTTPD_ETAG_MAX];
		const char *type = r->content_type;

		memcpy(etag, r->etag, sizeof etag);
		drop_content(r);
		memcpy(r->etag, etag, sizeof etag);
		r->content_type = type;
		r->status = 304;
		return;
	}
	if (!r->ranges || all < 0)
		return;
	httpd_add_header(r, "Accept-Ranges", "bytes");
	if (!range || strcmp(q->method, "GET") != 0 || !range_holds(q, r))
		return;
	switch (httpd_parse_range(range, (uint64_t)all, &first, &count)) {
	case HTTPD_RANGE_NONE:
		return;
	case HTTPD_RANGE_UNSATISFIABLE:
		httpd_error(r, 416, "the range is not within %" PRId64 " bytes", all);
		httpd_add_header(r, "Content-Range", "bytes */%" PRId64, all);
		return;
	case HTTPD_RANGE_ONE:
		break;
	}
	r->status = 206;
	httpd_add_header(r, "Content-Range", "bytes %" PRIu64 "-%" PRIu64 "/%" PRId64,
		first, first + count - 1, all);
	if (r->from == HTTPD_FROM_BODY) {
		memmove(r->body.data, r->body.data + first, count);
		r->body.len = count;
		return;
	}
	r->offset += (int64_t)first;
	r->bytes = (int64_t)count;
}

void httpd_write_head(struct buf *out, const struct httpd_reply *r, const char *date,
	enum httpd_persist persist)
{
	int64_t bytes = httpd_content_bytes(r);

	buf_addf(out, "HTTP/1.1 %d %s\r\nDate: %s\r\n", r->status, reason(r->status),
		date);
	if (persist != HTTPD_PERSIST)
		buf_adds(out,
			persist == HTTPD_KEEP_ALIVE ? "Connection: Keep-Alive\r\n" :
						      "Connection: close\r\n");
	if (r->status != 204)
		buf_addf(out, "Content-Type: %s\r\n",
			r->content_type ? r->content_type : "application/json");
	if (r->etag[0])
		buf_addf(out, "ETag: %s\r\n", r->etag);
	if (r->allow)
		buf_addf(out, "Allow: %s\r\n", r->allow);
	if (r->retry_after_s)
		buf_addf(out, "Retry-After: %d\r\n", r->retry_after_s);
	buf_add(out, buf_text(&r->headers), r->headers.len);
	buf_addf(out, "Cache-Control: %s\r\n",
		r->cache_control ? r->cache_control : "no-cache");
	if (r->status != 304 && r->status != 204) {
		if (bytes >= 0)
			buf_addf(out, "Content-Length: %" PRId64 "\r\n", bytes);
		else if (persist != HTTPD_CLOSE_DELIMITED)
			buf_adds(out, "Transfer-Encoding: chunked\r\n");
	}
	buf_adds(out, "\r\n");
}
