/* feed.c - a long poll, or a look at a file's time. */
#include "cmd/rnp-register/gateway/feed.h"

#include <inttypes.h>

#include "cmd/rnp-register/gateway/notes.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/json/json.h"

#define WAIT_S     25
#define TIMEOUT_MS 40000

/* Makes a text the table. */
static int use(struct gateway_feed *f, const struct buf *text, const char *where,
	struct access_counts *counts)
{
	json_t *record = json_parse_object(buf_text(text), text->len, where);
	struct buf table = BUF_INIT;
	int64_t seq = f->seq;
	int rc = -1;

	if (record && access_compile(record, where, &table, counts) == 0 &&
		json_opt_i64(record, where, "seq", 0, JSON_SAFE_INTEGER_MAX, &seq) == 0)
		rc = notes_put_table(f->directory, &table);
	if (rc == 0)
		f->seq = seq;
	json_decref(record);
	buf_release(&table);
	return rc < 0 ? -1 : GATEWAY_CHANGED;
}

static bool is_same_file(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_size == b->st_size &&
		a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
		a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static int turn_file(struct gateway_feed *f, struct access_counts *counts)
{
	struct buf text = BUF_INIT;
	struct stat st;
	int rc = -1;

	if (stat(f->file, &st) < 0)
		return err_sys(0, "cannot read '%s'", f->file);
	if (is_same_file(&st, &f->last))
		return GATEWAY_SAME;
	if (io_read(&text, f->file, ACCESS_BYTES_MAX) == 0)
		rc = use(f, &text, f->file, counts);
	/* one that is refused is looked at again when it is another */
	f->last = st;
	buf_release(&text);
	return rc;
}

static int turn_registry(struct gateway_feed *f, struct access_counts *counts)
{
	struct http_response r = HTTP_RESPONSE_INIT;
	struct buf path = BUF_INIT, url = BUF_INIT;
	int rc = -1;

	buf_addf(&path, "/v1/access?wait=%d", f->seq < 0 ? 0 : WAIT_S);
	if (f->seq >= 0)
		buf_addf(&path, "&after=%" PRId64, f->seq);
	if (http_url(&url, f->registry, path.data) == 0) {
		const struct http_request q = { .url = url.data,
			.name = f->registry,
			.signer = f->key,
			.ca_file = f->ca,
			.timeout_ms = TIMEOUT_MS,
			.response_bytes_max = ACCESS_BYTES_MAX,
			.tries = 1,
			.abort = f->abort };

		rc = http_fetch(&f->http, &q, &r);
	}
	if (rc == 0 && r.status == 204)
		rc = GATEWAY_SAME;
	else if (rc == 0)
		rc = use(f, &r.body, f->registry, counts);
	http_response_release(&r);
	buf_release(&path);
	buf_release(&url);
	return rc;
}

int gateway_feed_turn(struct gateway_feed *f, struct access_counts *counts)
{
	return f->file ? turn_file(f, counts) : turn_registry(f, counts);
}

void gateway_feed_release(struct gateway_feed *f)
{
	http_release(&f->http);
}
