/* parse.c - the syntax of HTTP/1.1 messages: heads, framing, chunks, ranges. */
#include "common/httpd/parse.h"

#include <string.h>
#include <strings.h>

/* token characters (RFC 9110, 5.6.2) */
static bool is_token_char(unsigned char c)
{
	return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') ||
		(c && strchr("!#$%&'*+-.^_`|~", c));
}

static bool is_token(const char *s)
{
	if (!*s)
		return false;
	for (; *s; s++)
		if (!is_token_char((unsigned char)*s))
			return false;
	return true;
}

long httpd_scan_head(const char *data, size_t len, size_t *scanned, const char **why)
{
	/* the two bytes before *scanned may begin the empty line */
	size_t i = *scanned;

	for (; i < len; i++) {
		unsigned char c = (unsigned char)data[i];

		if (c >= ' ' && c != 0x7f)
			continue;
		if (c == '\r') {
			if (i + 1 == len)
				break; /* its LF has not come yet */
			if (data[i + 1] != '\n') {
				*why = "a CR without LF";
				return -1;
			}
			i++;
			if (i >= 3 && data[i - 3] == '\r' && data[i - 2] == '\n')
				return (long)i + 1;
			/* no request line: the caller has skipped one empty line already */
			if (i == 1) {
				*why = "an empty line where a request should begin";
				return -1;
			}
			continue;
		}
		if (c == '\t')
			continue;
		*why = c == '\n' ? "an LF without CR" :
			c == 0   ? "a NUL" :
				   "a control character";
		return -1;
	}
	*scanned = i;
	return 0;
}

/* Parses "GET /path HTTP/1.1", NUL-terminated. */
static int parse_request_line(struct httpd_head *h, char *line, const char **why)
{
	char *target = strchr(line, ' '), *version;

	*why = "the request line is malformed";
	if (!target)
		return 400;
	*target++ = '\0';
	version = strchr(target, ' ');
	if (!version || version == target)
		return 400;
	*version++ = '\0';
	if (!is_token(line) || strchr(target, '\t'))
		return 400;
	if (strncmp(version, "HTTP/", 5) != 0 || strlen(version) != 8 ||
		version[5] < '0' || version[5] > '9' || version[6] != '.' ||
		version[7] < '0' || version[7] > '9')
		return 400;
	if (version[5] != '1') {
		*why = "this server speaks HTTP/1.1";
		return 505;
	}
	h->method = line;
	h->target = target;
	h->minor = version[7] > '0';
	return 0;
}

/* Parses "Name: value", NUL-terminated. */
static int parse_field(struct httpd_head *h, char *line, const char **why)
{
	char *colon = strchr(line, ':'), *value, *end;

	*why = "a header field is malformed";
	if (*line == ' ' || *line == '\t') {
		*why = "a header field is folded";
		return 400;
	}
	if (!colon)
		return 400;
	*colon = '\0';
	if (!is_token(line)) /* false also for a space before the colon */
		return 400;
	if (h->nheaders == HTTPD_HEADERS_MAX) {
		*why = "too many header fields";
		return 431;
	}
	value = colon + 1;
	value += strspn(value, " \t");
	end = value + strlen(value);
	while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	*end = '\0';
	h->headers[h->nheaders++] = (struct httpd_pair){ line, value };
	return 0;
}

const char *httpd_find_header(const struct httpd_pair *headers, int n, const char *name)
{
	for (int i = 0; i < n; i++)
		if (strcasecmp(headers[i].key, name) == 0)
			return headers[i].value;
	return NULL;
}

static int count_header(const struct httpd_head *h, const char *name)
{
	int n = 0;

	for (int i = 0; i < h->nheaders; i++)
		n += strcasecmp(h->headers[i].key, name) == 0;
	return n;
}

bool httpd_list_has(const char *list, const char *word)
{
	size_t n = strlen(word);

	while (*list) {
		size_t len;

		list += strspn(list, " \t,");
		len = strcspn(list, " \t,");
		if (len == n && strncasecmp(list, word, n) == 0)
			return true;
		list += len;
		list += strcspn(list, ",");
	}
	return false;
}

/* Whether s begins with n characters that RFC 3986 allows in an authority without user information;
 * it may be empty. */
static bool is_host(const char *s, size_t n)
{
	return strspn(s,
		       "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
		       "-._~%!$&'()*+;=:[]") >= n;
}

static int parse_length(struct httpd_head *h, const char *text, const char **why)
{
	*why = "the Content-Length is malformed";
	if (!*text || strspn(text, "0123456789") != strlen(text))
		return 400;
	for (; *text; text++) {
		if (h->body_bytes > (uint64_t)(INT64_MAX - (*text - '0')) / 10)
			return 400;
		h->body_bytes = h->body_bytes * 10 + (uint64_t)(*text - '0');
	}
	h->body = h->body_bytes ? HTTPD_BODY_LENGTH : HTTPD_BODY_NONE;
	return 0;
}

/* Decides what follows the head (RFC 9112, 6). */
static int parse_framing(struct httpd_head *h, const char **why)
{
	const char *length = httpd_find_header(h->headers, h->nheaders, "Content-Length");
	const char *coding = httpd_find_header(h->headers, h->nheaders,
		"Transfer-Encoding");

	*why = "the Content-Length is given twice";
	if (count_header(h, "Content-Length") > 1)
		return 400;
	*why = "both a Content-Length and a Transfer-Encoding are given";
	if (length && coding)
		return 400;
	*why = "the Transfer-Encoding is given twice";
	if (count_header(h, "Transfer-Encoding") > 1)
		return 400;
	if (length)
		return parse_length(h, length, why);
	if (!coding)
		return 0;
	*why = "HTTP/1.0 has no Transfer-Encoding";
	if (h->minor == 0)
		return 400;
	*why = "no Transfer-Encoding but chunked is taken";
	if (strcasecmp(coding, "chunked") != 0)
		return 501;
	h->body = HTTPD_BODY_CHUNKED;
	return 0;
}

const char *httpd_target_authority(const char *target, size_t *bytes)
{
	size_t scheme = strncasecmp(target, "http://", 7) == 0 ? 7 :
		strncasecmp(target, "https://", 8) == 0        ? 8 :
								 0;

	*bytes = scheme ? strcspn(target + scheme, "/?#") : 0;
	return scheme ? target + scheme : NULL;
}

/* Finds whom the request is for. The Host has to be well formed even where it does not count. */
static int parse_host(struct httpd_head *h, const char **why)
{
	const char *field = httpd_find_header(h->headers, h->nheaders, "Host");
	int n = count_header(h, "Host");

	*why = n ? "the Host is given twice" : "the Host is missing";
	if (n > 1 || (n == 0 && h->minor > 0))
		return 400;
	*why = "the Host is malformed";
	if (n && !is_host(field, strlen(field)))
		return 400;
	h->authority = httpd_target_authority(h->target, &h->authority_bytes);
	if (!h->authority) {
		h->authority = n ? field : "";
		h->authority_bytes = strlen(h->authority);
		return 0;
	}
	*why = "the request target names no host";
	return h->authority_bytes && *h->authority != ':' &&
			is_host(h->authority, h->authority_bytes) ?
		0 :
		400;
}

static void parse_wishes(struct httpd_head *h)
{
	h->keep_alive = h->minor > 0;
	for (int i = 0; i < h->nheaders; i++) {
		const struct httpd_pair *f = &h->headers[i];

		if (strcasecmp(f->key, "Connection") == 0) {
			if (httpd_list_has(f->value, "keep-alive"))
				h->keep_alive = true;
			if (httpd_list_has(f->value, "close")) {
				h->keep_alive = false;
				return;
			}
		}
	}
}

static void parse_expect(struct httpd_head *h)
{
	for (int i = 0; h->minor > 0 && i < h->nheaders; i++)
		if (strcasecmp(h->headers[i].key, "Expect") == 0) {
			if (strcasecmp(h->headers[i].value, "100-continue") == 0)
				h->expect_continue = true;
			else
				h->expect_other = true;
		}
}

int httpd_parse_head(struct httpd_head *h, char *text, size_t len, const char **why)
{
	char *line = text, *end = text + len - 2; /* the empty line */
	int status = 0;

	h->method = h->target = NULL;
	h->authority = "";
	h->authority_bytes = 0;
	h->minor = h->nheaders = 0;
	h->body = HTTPD_BODY_NONE;
	h->body_bytes = 0;
	h->keep_alive = h->expect_continue = h->expect_other = false;
	for (bool first = true; line < end && !status; first = false) {
		char *next = memchr(line, '\r', (size_t)(end - line));

		*next = '\0';
		status = first ? parse_request_line(h, line, why) :
				 parse_field(h, line, why);
		line = next + 2;
	}
	if (!status)
		status = parse_host(h, why);
	if (!status)
		status = parse_framing(h, why);
	if (status)
		return status;
	parse_wishes(h);
	parse_expect(h);
	return 0;
}

/* --- chunks ------------------------------------------------------------------------------ */

#define CHUNK_LINE_MAX 256

enum {
	SIZE,      /* digits, or ';' of an extension, or CR */
	EXTENSION, /* up to CR */
	SIZE_LF,
	DATA,
	DATA_CR,
	DATA_LF,
	TRAILER, /* up to CR of a line; an empty line is the end */
	TRAILER_LF,
	END_LF,
	ENDED,
};

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool is_text(char c)
{
	return ((unsigned char)c >= ' ' && c != 0x7f) || c == '\t';
}

/* Reads one byte of the framing between chunks' data. Returns false: malformed. */
static bool chunk_byte(struct httpd_chunks *s, char c)
{
	switch (s->state) {
	case SIZE:
		if (hex_digit(c) >= 0 && s->digits < 15) {
			s->left = s->left * 16 + (uint64_t)hex_digit(c);
			s->digits++;
			return true;
		}
		s->state = c == ';' ? EXTENSION : SIZE_LF;
		return s->digits && (c == ';' || c == '\r');
	case EXTENSION:
		if (c == '\r')
			s->state = SIZE_LF;
		return c == '\r' || (is_text(c) && ++s->line <= CHUNK_LINE_MAX);
	case SIZE_LF:
		s->state = s->left ? DATA : TRAILER;
		s->line = 0;
		s->digits = 0;
		return c == '\n';
	case DATA_CR:
		s->state = DATA_LF;
		return c == '\r';
	case DATA_LF:
		s->state = SIZE;
		return c == '\n';
	case TRAILER:
		if (c == '\r') {
			s->state = s->in_line ? TRAILER_LF : END_LF;
			return true;
		}
		/* a line that begins with a space would be a folded one */
		if (!is_text(c) || (!s->in_line && !is_token_char((unsigned char)c)))
			return false;
		s->in_line = true;
		return ++s->line <= HTTPD_TRAILERS_MAX;
	case TRAILER_LF:
		s->state = TRAILER;
		s->in_line = false;
		return c == '\n';
	case END_LF:
		s->state = ENDED;
		return c == '\n';
	default:
		return false;
	}
}

enum httpd_chunk httpd_chunks_feed(struct httpd_chunks *s, const char *data, size_t len,
	size_t *used)
{
	for (*used = 0;;) {
		if (s->state == DATA) {
			if (s->left)
				return HTTPD_CHUNK_DATA;
			s->state = DATA_CR;
		}
		if (s->state == ENDED)
			return HTTPD_CHUNK_END;
		if (*used == len)
			return HTTPD_CHUNK_MORE;
		if (!chunk_byte(s, data[(*used)++]))
			return HTTPD_CHUNK_BAD;
	}
}

/* --- ranges ------------------------------------------------------------------------------ */

/* Reads digits at *text and moves *text behind them. A number beyond 2^63 - 1 becomes 2^63 - 1.
 * Returns false: no digit. */
static bool take_number(const char **text, uint64_t *out)
{
	const char *s = *text;

	*out = 0;
	for (; *s >= '0' && *s <= '9'; s++)
		*out = *out > (INT64_MAX - 9) / 10 ? INT64_MAX :
						     *out * 10 + (uint64_t)(*s - '0');
	if (s == *text)
		return false;
	*text = s;
	return true;
}

enum httpd_range httpd_parse_range(const char *text, uint64_t bytes, uint64_t *first,
	uint64_t *count)
{
	uint64_t from, to = INT64_MAX;

	if (strncasecmp(text, "bytes=", 6) != 0)
		return HTTPD_RANGE_NONE;
	text += 6;
	text += strspn(text, " \t");
	if (*text == '-') {
		text++;
		if (!take_number(&text, &to) || *text)
			return HTTPD_RANGE_NONE;
		if (!to || !bytes)
			return HTTPD_RANGE_UNSATISFIABLE;
		*count = to < bytes ? to : bytes;
		*first = bytes - *count;
		return HTTPD_RANGE_ONE;
	}
	if (!take_number(&text, &from) || *text++ != '-')
		return HTTPD_RANGE_NONE;
	if (*text && (!take_number(&text, &to) || *text || to < from))
		return HTTPD_RANGE_NONE;
	if (from >= bytes)
		return HTTPD_RANGE_UNSATISFIABLE;
	*first = from;
	*count = (to < bytes - 1 ? to : bytes - 1) - from + 1;
	return HTTPD_RANGE_ONE;
}
