/* market.c - gets a market's list of prices: files, URLs, pages, keys. */
#include "cmd/rnp-price/feed/market.h"

#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/rnp-price/feed/feed.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/sha256.h"
#include "common/record/key.h"

#define PAGE_ROWS   100
#define TIMEOUT_MS  60000
#define PIECE_BYTES ((size_t)256 << 10)
#define RUNPOD_QUERY                                                             \
	"{\"query\":\"query { gpuTypes { id displayName memoryInGb securePrice " \
	"communityPrice secureSpotPrice communitySpotPrice lowestPrice(input: "  \
	"{gpuCount: 1}) { minimumBidPrice uninterruptablePrice } } }\"}"

static const struct feed_market markets[] = {
	{ "akash", feed_akash, FEED_WHOLE,
		.url = "https://console-api.akash.network/v1/gpu-prices" },
	{ "nosana", feed_nosana, FEED_WHOLE, .url = NULL },
	{ "prime", feed_prime, FEED_NUMBERED,
		.url = "https://api.primeintellect.ai/api/v1/availability/gpus" },
	{ "rnp", feed_rnp, FEED_CURSOR, .path = "/v1/nodes?quotes=true&limit=500" },
	{ "runpod", feed_runpod, FEED_WHOLE, .post = RUNPOD_QUERY,
		.url = "https://api.runpod.io/graphql" },
	{ "salad", feed_salad, FEED_WHOLE, .key_header = "Salad-Api-Key: " },
	{ "skypilot", feed_skypilot, FEED_WHOLE, .url = NULL },
	{ "vast", feed_vast, FEED_STREAM,
		.url = "https://console.vast.ai/api/v0/bundles/" },
};

const struct feed_market *feed_market_find(const char *name)
{
	for (size_t i = 0; i < sizeof markets / sizeof *markets; i++)
		if (strcmp(markets[i].name, name) == 0)
			return &markets[i];
	return NULL;
}

bool feed_is_url(const char *s)
{
	return strncmp(s, "http://", 7) == 0 || strncmp(s, "https://", 8) == 0;
}

const char *feed_place_name(const char *place)
{
	return strcmp(place, "-") == 0 ? "standard input" : place;
}

/* --- files -------------------------------------------------------------------------------- */

static int stream_file(const struct feed_source *s, struct feed *f)
{
	bool in = strcmp(s->place, "-") == 0;
	const char *name = feed_place_name(s->place);
	int fd = in ? STDIN_FILENO : open(s->place, O_RDONLY | O_CLOEXEC), rc = 0;
	struct feed_list *v;
	char *piece;
	size_t total = 0;
	ssize_t n = 0;

	if (fd < 0)
		return err_sys(0, "cannot open '%s'", s->place);
	if (in)
		io_say_typed();
	v = feed_list_open(f, &feed_vast_form, name);
	piece = xmalloc(PIECE_BYTES);
	while (rc == 0 && (n = read(fd, piece, PIECE_BYTES)) > 0) {
		total += (size_t)n;
		rc = total > FEED_BYTES_MAX ?
			err_set(EX_DATAERR, "'%s' is larger than %zu bytes", name,
				FEED_BYTES_MAX) :
			feed_list_push(v, piece, (size_t)n);
	}
	if (n < 0)
		rc = err_sys(EX_IOERR, "cannot read '%s'", name);
	if (rc == 0)
		rc = feed_list_end(v);
	free(piece);
	feed_list_close(v);
	if (!in)
		close(fd);
	return rc;
}

static int fetch_file(const struct feed_source *s, struct feed *f,
	struct feed_fetched *out)
{
	struct buf bytes = BUF_INIT;
	struct stat st;
	int rc;

	if (strcmp(s->place, "-") != 0 && stat(s->place, &st) == 0)
		out->modified_ms = (int64_t)st.st_mtim.tv_sec * 1000 +
			st.st_mtim.tv_nsec / 1000000;
	if (s->market->pages == FEED_STREAM)
		return stream_file(s, f);
	rc = io_read(&bytes, s->place, FEED_BYTES_MAX);
	if (rc == 0)
		rc = s->market->read(f, buf_text(&bytes), bytes.len,
			feed_place_name(s->place));
	if (rc == 0)
		rc = feed_complete(f, feed_place_name(s->place));
	buf_release(&bytes);
	return rc;
}

/* --- keys --------------------------------------------------------------------------------- */

static bool is_this_machine(const char *url)
{
	static const char *const here[] = { "http://127.",
		"http://localhost:", "http://localhost/", "http://[::1]" };

	for (size_t i = 0; i < sizeof here / sizeof *here; i++)
		if (strncmp(url, here[i], strlen(here[i])) == 0)
			return true;
	return false;
}

/* Appends the header that carries the key. */
static int add_key(struct buf *header, const struct feed_source *s)
{
	const char *before = s->market->key_header;
	char *key;

	if (strncmp(s->place, "https://", 8) != 0 && !is_this_machine(s->place))
		return err_set(EX_NOPERM,
			"%s: a key is not sent in the clear: the URL is not https",
			s->place);
	key = key_load_token(s->key_file);
	if (!key)
		return -1;
	buf_adds(header, before ? before : "Authorization: Bearer ");
	buf_adds(header, key);
	sodium_free(key);
	return 0;
}

/* --- URLs --------------------------------------------------------------------------------- */

/* A list that is read as it arrives. */
struct arriving {
	struct feed *f;
	const char *name;
	struct feed_list *vast;
	size_t bytes;
};

static int take_piece(void *ctx, const void *data, size_t len)
{
	struct arriving *a = ctx;

	a->bytes += len;
	if (a->bytes > FEED_BYTES_MAX)
		return err_set(EX_DATAERR, "'%s' answered with more than %zu bytes",
			a->name, FEED_BYTES_MAX);
	if (!a->vast)
		a->vast = feed_list_open(a->f, &feed_vast_form, a->name);
	return feed_list_push(a->vast, data, len);
}

static int restart(void *ctx)
{
	struct arriving *a = ctx;

	feed_list_close(a->vast);
	a->vast = NULL;
	a->bytes = 0;
	feed_release(a->f);
	return 0;
}

static void note_answer(const struct feed_source *s, const struct http_response *r,
	struct feed_fetched *out)
{
	out->unchanged = r->status == 304;
	out->modified_ms = r->modified_ms;
	snprintf(out->etag, sizeof out->etag, "%s", out->unchanged ? s->etag : r->etag);
}

static int fetch_stream(const struct feed_source *s, struct http *http,
	struct http_request *q, struct feed *f, struct feed_fetched *out)
{
	struct arriving a = { .f = f, .name = s->place };
	struct http_sink sink = { .write = take_piece, .restart = restart, .ctx = &a };
	struct http_response r = HTTP_RESPONSE_INIT;
	int rc;

	q->sink = &sink;
	q->compressed = true;
	q->etag = s->etag;
	rc = http_fetch(http, q, &r);
	if (rc == 0)
		note_answer(s, &r, out);
	if (rc == 0 && !out->unchanged) {
		if (!a.vast)
			a.vast = feed_list_open(f, &feed_vast_form, s->place);
		rc = feed_list_end(a.vast);
	}
	feed_list_close(a.vast);
	http_response_release(&r);
	return rc;
}

static int fetch_whole(const struct feed_source *s, struct http *http,
	struct http_request *q, struct feed *f, struct feed_fetched *out)
{
	struct http_response r = HTTP_RESPONSE_INIT;
	int rc;

	q->etag = s->etag;
	rc = http_fetch(http, q, &r);
	if (rc == 0)
		note_answer(s, &r, out);
	if (rc == 0 && !out->unchanged)
		rc = s->market->read(f, buf_text(&r.body), r.body.len, s->place);
	http_response_release(&r);
	return rc;
}

/* Appends the URL of the page that follows what f has. */
static int page_url(struct buf *url, const struct feed_source *s, const struct feed *f,
	int page)
{
	char before = strchr(s->place, '?') ? '&' : '?';

	buf_reset(url);
	if (s->market->pages == FEED_NUMBERED) {
		buf_addf(url, "%s%cpage=%d&page_size=%d", s->place, before, page,
			PAGE_ROWS);
		return 0;
	}
	if (http_url(url, s->place, s->market->path) < 0)
		return -1;
	if (f->next[0]) {
		buf_adds(url, "&cursor=");
		http_escape(url, f->next);
	}
	return 0;
}

/* Whether the market says that this was all. Numbered pages end with the rows that the market
 * says it has, or where it does not say, with a page that is not full. */
static bool is_last(const struct feed_source *s, const struct feed *f, long new_rows)
{
	if (s->market->pages == FEED_CURSOR)
		return !f->next[0];
	if (!new_rows)
		return true;
	return f->stated >= 0 ? f->rows >= f->stated : new_rows < PAGE_ROWS;
}

static int fetch_pages(const struct feed_source *s, struct http *http,
	struct http_request *q, struct feed *f, struct feed_fetched *out)
{
	unsigned char hash[32], last[32] = { 0 };
	char cursor[FEED_CURSOR_MAX] = "";
	struct buf url = BUF_INIT;
	size_t bytes = 0;
	bool ended = false;
	int rc = 0;

	for (int page = 1; rc == 0 && !ended; page++) {
		struct http_response r = HTTP_RESPONSE_INIT;
		long before = f->rows;

		if (page > FEED_PAGES_MAX)
			rc = err_set(EX_DATAERR, "%s: more than %d pages", s->place,
				FEED_PAGES_MAX);
		if (rc == 0)
			rc = page_url(&url, s, f, page);
		q->url = url.data;
		if (rc == 0)
			rc = http_fetch(http, q, &r);
		bytes += r.body.len;
		if (rc == 0 && bytes > FEED_BYTES_MAX)
			rc = err_set(EX_DATAERR, "'%s' answered with more than %zu bytes",
				s->place, FEED_BYTES_MAX);
		sha256(hash, buf_text(&r.body), r.body.len);
		if (rc == 0 && page > 1 && memcmp(hash, last, sizeof hash) == 0)
			rc = err_set(EX_DATAERR, "%s: page %d is page %d again", s->place,
				page, page - 1);
		memcpy(last, hash, sizeof last);
		snprintf(cursor, sizeof cursor, "%s", f->next);
		f->next[0] = '\0';
		if (rc == 0)
			rc = s->market->read(f, buf_text(&r.body), r.body.len, s->place);
		if (rc == 0 && f->next[0] && strcmp(cursor, f->next) == 0)
			rc = err_set(EX_DATAERR, "%s: page %d leads to itself", s->place,
				page);
		if (rc == 0 && page == 1)
			out->modified_ms = r.modified_ms;
		ended = is_last(s, f, f->rows - before);
		http_response_release(&r);
	}
	buf_release(&url);
	return rc;
}

static int fetch_url(const struct feed_source *s, struct feed *f,
	struct feed_fetched *out)
{
	struct http http = HTTP_INIT;
	struct buf key = BUF_INIT;
	const char *headers[] = { NULL, NULL };
	struct http_request q = {
		.url = s->place,
		.headers = headers,
		.ca_file = s->ca,
		.response_bytes_max = FEED_BYTES_MAX,
		.timeout_ms = s->market->pages == FEED_STREAM ? 0 : TIMEOUT_MS,
		.public_redirects = true,
		/* a key is for this server alone */
		.no_redirects = s->key_file != NULL,
		.body = s->market->post,
		.body_bytes = s->market->post ? strlen(s->market->post) : 0,
	};
	int rc = s->key_file ? add_key(&key, s) : 0;

	headers[0] = key.data;
	if (rc == 0 && s->market->pages == FEED_STREAM)
		rc = fetch_stream(s, &http, &q, f, out);
	else if (rc == 0 && s->market->pages == FEED_WHOLE)
		rc = fetch_whole(s, &http, &q, f, out);
	else if (rc == 0)
		rc = fetch_pages(s, &http, &q, f, out);
	if (rc == 0 && !out->unchanged)
		rc = feed_complete(f, s->place);
	if (rc < 0 && !s->key_file && err_get()->code == EX_NOPERM)
		err_hint("the market may want its API key: --key-file F");
	if (key.data)
		sodium_memzero(key.data, key.len);
	buf_release(&key);
	http_release(&http);
	return rc;
}

int feed_fetch(const struct feed_source *s, struct feed *f, struct feed_fetched *out)
{
	*out = (struct feed_fetched){ .modified_ms = -1 };
	return feed_is_url(s->place) ? fetch_url(s, f, out) : fetch_file(s, f, out);
}
