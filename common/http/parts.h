/* parts.h - declarations that the files of the HTTP client share; not for callers. */
#ifndef RNP_COMMON_HTTP_PARTS_H
#define RNP_COMMON_HTTP_PARTS_H

#include <curl/curl.h>

#include "common/http/http.h"

/* The functions of libcurl, once http_curl_open has returned 0. */
extern struct http_curl {
	CURL *(*easy_init)(void);
	void (*easy_cleanup)(CURL *);
	void (*easy_reset)(CURL *);
	CURLcode (*easy_setopt)(CURL *, CURLoption, ...);
	CURLcode (*easy_getinfo)(CURL *, CURLINFO, ...);
	CURLcode (*easy_pause)(CURL *, int);
	const char *(*easy_strerror)(CURLcode);
	CURLcode (*global_init)(long);
	CURLM *(*multi_init)(void);
	CURLMcode (*multi_cleanup)(CURLM *);
	CURLMcode (*multi_add_handle)(CURLM *, CURL *);
	CURLMcode (*multi_remove_handle)(CURLM *, CURL *);
	CURLMcode (*multi_perform)(CURLM *, int *);
	CURLMcode (*multi_poll)(CURLM *, struct curl_waitfd *, unsigned, int, int *);
	CURLMsg *(*multi_info_read)(CURLM *, int *);
	struct curl_slist *(*slist_append)(struct curl_slist *, const char *);
	void (*slist_free_all)(struct curl_slist *);
} http_curl;

/* Whether a URL is http or https. Returns 0, or -1 (64). */
int http_check_scheme(const char *url);

/* Opens libcurl. Returns 0, or -1 (69) when there is none. */
int http_curl_open(void);

/* Content-Range: "bytes 0-9/100", "bytes 0-9/" and an asterisk, or "bytes", an asterisk and
 * "/100". */
struct http_range {
	int64_t first, last; /* -1: the range could not be satisfied */
	int64_t total;       /* -1: not known */
};

/* Parses the field. Returns 0, or -1 (no err_set): it is malformed, or contradicts itself.
 * Pure. */
int http_range_parse(struct http_range *out, const char *value);

/* Takes account of the time that has passed. Returns whether bytes may move at present; the
 * caller subtracts those that did. rate: bytes a second; 0: no limit. */
bool http_budget_allows(struct http_budget *b, int64_t rate);

#define HTTP_SITE_MAX 512

/* One request with all its tries. */
struct http_transfer {
	const struct http_request *q;
	struct http_response *r;
	CURL *curl;
	int64_t bytes_max;
	/* the range that is asked for; zeros, the whole entity, after the sink had to restart
	 * with it */
	int64_t range_from, range_bytes;
	int64_t sunk_before; /* bytes in the sink when the try began; it appends to them */

	/* of the sink's answer, over all tries */
	/* strong tag of the entity that the sink's bytes belong to, or "" */
	char resume_etag[HTTP_ETAG_MAX];
	int64_t entity_bytes;   /* from Content-Range or Content-Length, or -1 */
	int64_t furthest_bytes; /* the most that the sink ever had */

	/* of one try */
	int64_t sent; /* of the source */
	/* the status line has come, and it is decided where the body goes */
	bool answered, decided;
	bool into_sink, too_large, paused, aborted, timed_out, has_range;
	bool source_ended, refused_tunnel; /* by the proxy */
	int64_t looked_ns;                 /* when a callback last checked for an abort */
	size_t header_bytes;  /* of all answers of the try, redirects and 1xx included */
	bool callback_failed; /* the pending error has the reason */
	struct http_range range;
	int64_t content_length; /* -1: not given */
	/* "scheme://host:port" that the last redirect leads to, where it names a host; or "" */
	char moved_to[HTTP_SITE_MAX];
	/* libcurl's reason, with the kernel's or OpenSSL's; or "" */
	char detail[CURL_ERROR_SIZE];

	struct http_budget *up, *down;
	int64_t window_ns, window_bytes; /* see http_transfer_is_slow */
	int64_t waiting_ns; /* when the wait for an answer began; 0: not waiting */
};

/* libcurl's callbacks. The last argument is the transfer. */
size_t http_on_read(char *to, size_t size, size_t n, void *transfer);
int http_on_seek(void *transfer, curl_off_t offset, int origin);
size_t http_on_body(char *data, size_t size, size_t n, void *transfer);
size_t http_on_header(char *line, size_t size, size_t n, void *transfer);

/* Whether the request in progress may open a connection to that address, see public_redirects.
 * If not, the error is set. */
bool http_may_connect(struct http *h, const struct curl_sockaddr *address);

/* Notes whom the connection of this try leads to, and whether a proxy refused the way. */
void http_note_peer(CURL *curl, struct http_transfer *t);

/* Whether the program has aborted the request. */
bool http_is_aborted(const struct http_request *q);

/* Rewinds the source for another try. Returns 0 or -1. */
int http_source_rewind(const struct http_source *s);

/* Called at the end of a try that received a whole answer: decides what the status means for
 * the sink if no body has done so. Returns 0, or -1 with err_set. */
int http_transfer_decide(struct http_transfer *t);

/* Returns how many of the wanted bytes the sink has, where the next try continues. -1: it
 * cannot continue, the sink has to restart. */
int64_t http_transfer_resume_at(const struct http_transfer *t);

/* Set the error of a try, or of the last status. Return -1. */
int http_fail_transfer(const struct http_transfer *t, CURLcode rc);
int http_fail_status(const struct http_transfer *t);

/* --- what stands between us and a server ----------------------------------------------------- */

/* Whether a Content-Type is a web page's. */
bool http_says_page(const char *content_type);

/* Whether the whole answer is not the server's own word: a web page where data was asked for, 401
 * and 403 without JSON, 407 and 511, a redirect to another host that is not followed. */
bool http_is_between(const struct http_transfer *t);

/* Sets the error of such an answer (69), and r->status to 0. url: as it is shown. Returns -1. */
int http_fail_between(const struct http_transfer *t, const char *url);

/* Takes account of a Location header. */
void http_note_location(struct http_transfer *t, const char *location);

/* Writes "scheme://host:port" of the proxy that the request goes through, or "". */
void http_proxy_name(const struct http_request *q, char out[HTTP_SITE_MAX]);

/* Writes what a body that is no JSON says, `: "502 Bad Gateway"`, or "". */
void http_body_says(const struct http_response *r, char *text, size_t max);

/* --- downloads in ranges ---------------------------------------------------------------------- */

struct http_piece {
	int64_t from, bytes;
};

/* What is known of a part that several connections fetch. As text: the entity tag, the size of
 * the whole, and "FROM BYTES" for each range that is there, a line each. */
struct http_notes {
	char tag[HTTP_ETAG_MAX]; /* strong, with its quotes */
	int64_t total;           /* -1: not known */
	/* what is not there, the last first; no two of them overlap */
	struct http_piece *missing;
	size_t n, cap;
};

/* Parses the text of notes; a last line without its end is left out. Returns 0, or -1 (no
 * err_set): it is malformed. Release either way. Pure. */
int http_notes_parse(struct http_notes *out, const char *text);
/* Appends the text; what is missing is in the order above. */
void http_notes_write(struct buf *out, const struct http_notes *n);
/* What is missing is what lies between the n ranges `there`, which are sorted and may be longer
 * than the whole; out has its total and nothing missing yet. */
void http_notes_miss(struct http_notes *out, struct http_piece *there, size_t n);
void http_notes_release(struct http_notes *n);

/* Fetches q->url over at most q->connections connections, 1 or more, to fd, the open file `part`;
 * goes on where the notes in the file notes_path say. Returns 0 and r; 1: the server gives no
 * ranges, or they are of another entity now; -1 with err_set and r as http_fetch. */
int http_ranges(struct http *h, const struct http_request *q, int fd, const char *part,
	const char *notes_path, struct http_response *r);

#endif
