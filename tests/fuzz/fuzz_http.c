/* fuzz_http.c - fuzz target: texts that servers and users give the HTTP client: Content-Range,
 * URLs, digests, and the notes beside a part of a download.
 *
 * It checks that an accepted range is a range and lies within its whole; that what notes say is
 * missing lies within the whole, does not overlap, and is the same when it is written and read
 * again; that an accepted URL
 * has a host and gives a message that can be signed, or an error; and that a line break never
 * adds a line to a signature base. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/http/parts.h"
#include "common/http/sign.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool promise)
{
	if (!promise)
		abort();
}

static void check_range(const char *text)
{
	struct http_range r;

	if (http_range_parse(&r, text) < 0)
		return;
	must(r.first >= -1 && r.last >= r.first && r.total >= -1);
	must(r.first >= 0 || r.total >= 0);
	must(r.total < 0 || r.last < r.total);
}

static void check_notes(const char *text)
{
	struct http_notes n, again;
	struct buf out = BUF_INIT;
	int64_t to;

	if (http_notes_parse(&n, text) == 0) {
		to = n.total;
		for (size_t i = 0; i < n.n; to = n.missing[i++].from)
			must(n.missing[i].from >= 0 && n.missing[i].bytes > 0 &&
				n.missing[i].bytes <= to - n.missing[i].from);
		http_notes_write(&out, &n);
		must(http_notes_parse(&again, buf_text(&out)) == 0);
		must(again.n == n.n && again.total == n.total);
		for (size_t i = 0; i < n.n; i++)
			must(again.missing[i].from == n.missing[i].from &&
				again.missing[i].bytes == n.missing[i].bytes);
		http_notes_release(&again);
	}
	http_notes_release(&n);
	buf_release(&out);
}

static void check_url(const char *text)
{
	struct httpsig_message m = { .method = "GET" };
	struct arena arena = ARENA_INIT;
	struct buf url = BUF_INIT, escaped = BUF_INIT;

	if (http_sign_split(&arena, text, &m) == 0) {
		must(*m.authority && *m.target == '/');
		must(!strpbrk(m.authority, "/?#@") && !strchr(m.target, '#'));
	}
	http_escape(&escaped, text);
	must(escaped.len <= 3 * strlen(text));
	must(!escaped.len || !strpbrk(escaped.data, " /?#&\r\n"));
	if (http_url(&url, text, "/path") == 0) {
		must(url.len >= 5 && strcmp(url.data + url.len - 5, "/path") == 0);
		must(!strpbrk(url.data, "?# \t\r\n"));
	}
	err_clear();
	arena_release(&arena);
	buf_release(&url);
	buf_release(&escaped);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = xstrndup((const char *)data, size);

	check_range(text);
	check_notes(text);
	check_url(text);
	free(text);
	return 0;
}
