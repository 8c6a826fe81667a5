/* parse.h - the syntax of HTTP/1.1 messages (RFC 9112), strictly: refuses what two
 * readers could understand in two ways. Pure: bytes in, values out. Uses libc.
 *
 * Refused although other servers accept some of it: bare LF and bare CR, NUL and other control
 * characters, folded fields, space before a colon, a second Host or Content-Length,
 * Content-Length beside Transfer-Encoding, any transfer coding but one "chunked". */
#ifndef RNP_COMMON_HTTPD_PARSE_H
#define RNP_COMMON_HTTPD_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTPD_HEADERS_MAX  100
#define HTTPD_HEAD_MAX     24576 /* request line and fields, with the empty line */
#define HTTPD_TRAILERS_MAX 8192

struct httpd_pair {
	const char *key, *value;
};

/* Looks for the end of a head in data. *scanned is how far an earlier call came (at first 0).
 * Returns the bytes of the head with its empty line; 0: it is incomplete; -1: it has a byte
 * that no head may have, which *why names. */
long httpd_scan_head(const char *data, size_t len, size_t *scanned, const char **why);

enum httpd_body { HTTPD_BODY_NONE, HTTPD_BODY_LENGTH, HTTPD_BODY_CHUNKED };

/* A head taken apart. All texts lie in the bytes that it was parsed from. */
struct httpd_head {
	const char *method, *target;
	/* whom it is for: authority_bytes of the target in absolute form, which the Host field does
	 * not count beside (RFC 9112, 3.2.2), else of that field; 0: HTTP/1.0 without one */
	const char *authority;
	size_t authority_bytes;
	int minor; /* of HTTP/1.x: 0 or 1 */
	struct httpd_pair headers[HTTPD_HEADERS_MAX];
	int nheaders;
	/* what follows the head */
	enum httpd_body body;
	uint64_t body_bytes; /* of HTTPD_BODY_LENGTH */
	bool keep_alive;     /* the client may send more on this connection */
	bool expect_continue, expect_other;
};

/* Takes apart a whole head (see httpd_scan_head) of len bytes; text is changed: NULs are put
 * in, and it must live as long as out is used. Returns 0, or a status: 400, 431, 501, 505, with
 * a sentence in *why. */
int httpd_parse_head(struct httpd_head *out, char *text, size_t len, const char **why);

/* Finds the authority of a target in absolute form, "http://AUTHORITY/path". Returns where it
 * begins, or NULL: the target has another form. */
const char *httpd_target_authority(const char *target, size_t *bytes);

/* Returns a field by name (case does not matter), or NULL; the first of several. */
const char *httpd_find_header(const struct httpd_pair *headers, int n, const char *name);

/* Whether a list such as that of Connection contains a word (case does not matter). */
bool httpd_list_has(const char *list, const char *word);

/* --- chunks (RFC 9112, 7.1) --- */

struct httpd_chunks {
	int state;
	uint64_t left; /* of the chunk's data, which the caller takes and counts down */
	size_t line;   /* bytes of the present line, or of all trailers */
	int digits;    /* of the size */
	bool in_line;  /* a trailer's line has begun */
};

enum httpd_chunk {
	HTTPD_CHUNK_BAD = -1,
	HTTPD_CHUNK_MORE, /* all bytes are used up before the end */
	HTTPD_CHUNK_DATA, /* s->left bytes of data are next */
	HTTPD_CHUNK_END,
};

/* Reads the framing between chunks' data. *used: how many bytes of it. s starts as zeros. */
enum httpd_chunk httpd_chunks_feed(struct httpd_chunks *s, const char *data, size_t len,
	size_t *used);

/* --- ranges (RFC 9110, 14) --- */

enum httpd_range {
	HTTPD_RANGE_NONE, /* no range that we serve: send the whole */
	HTTPD_RANGE_ONE,
	HTTPD_RANGE_UNSATISFIABLE, /* 416 */
};

/* Parses a Range field for an entity of `bytes` bytes: "bytes=5-9", "bytes=5-", "bytes=-5". A
 * list of several ranges is not served. *first and *count are set for HTTPD_RANGE_ONE. */
enum httpd_range httpd_parse_range(const char *text, uint64_t bytes, uint64_t *first,
	uint64_t *count);

#endif
