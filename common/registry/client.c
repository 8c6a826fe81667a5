/* registry_client.c - tasks of every client of a registry: posting a record to the path of its
 * kind, and following the pages of a list. */
#include "common/net/registry_client.h"

#include <stdbool.h>
#include <string.h>

#include "common/base/err.h"
#include "common/json/json.h"

#define REPLY_BYTES_MAX ((size_t)64 << 10)
#define PAGE_BYTES_MAX  ((size_t)300 << 20) /* 1000 nodes of the largest kind */
#define CURSOR_MAX      128

/* Appends the path that a record is posted to. An answer is large, and its query names the node
 * and the challenge, so that the registry knows whose it is before the body comes. */
static void path_for(struct buf *path, const json_t *record)
{
	const char *kind = json_string_value(json_object_get(record, "kind"));
	const char *node = json_string_value(json_object_get(record, "node"));
	const char *challenge = json_string_value(
		json_object_get(record, "challenge_sha256"));
	static const struct {
		const char *kind, *path;
	} paths[] = { { "rnp.node", "/v1/nodes" }, { "rnp.heartbeat", "/v1/heartbeats" },
		{ "rnp.roots", "/v1/roots" }, { "rnp.answer", "/v1/answers" } };
	const char *found = "/v1/records";

	for (size_t i = 0; kind && i < sizeof paths / sizeof *paths; i++)
		if (strcmp(kind, paths[i].kind) == 0)
			found = paths[i].path;
	buf_adds(path, found);
	if (strcmp(found, "/v1/answers") == 0 && node && challenge) {
		buf_adds(path, "?node=");
		http_escape(path, node);
		buf_adds(path, "&challenge=");
		http_escape(path, challenge);
	}
}

static int post(struct http *http, const char *base, const char *path, const char *work,
	struct http_request *q, struct http_response *r)
{
	struct buf url = BUF_INIT;
	int rc = http_url(&url, base, path);

	if (rc == 0 && work) {
		buf_adds(&url, "?work=");
		http_escape(&url, work);
	}
	q->response_bytes_max = REPLY_BYTES_MAX;
	q->url = url.data;
	if (rc == 0)
		rc = http_fetch(http, q, r);
	buf_release(&url);
	return rc;
}

int registry_post(struct http *http, const char *base, const char *ca, int64_t per_try_ms,
	const json_t *record, const void *body, size_t bytes, struct http_response *r)
{
	struct buf path = BUF_INIT;
	struct http_request q = { .body = body,
		.body_bytes = bytes,
		.ca_file = ca,
		.timeout_ms = per_try_ms };

	int rc;

	path_for(&path, record);
	rc = post(http, base, path.data, NULL, &q, r);
	buf_release(&path);
	return rc;
}

int registry_post_work(struct http *http, const char *base, const char *ca,
	int64_t per_try_ms, const char *work, const void *body, size_t bytes,
	struct http_response *r)
{
	struct http_request q = { .body = body,
		.body_bytes = bytes,
		.ca_file = ca,
		.timeout_ms = per_try_ms };

	return post(http, base, "/v1/nodes", work, &q, r);
}

#define STATUS_WORK 428 /* Precondition Required, RFC 6585 */

bool registry_work_read(const struct http_response *r, struct registry_work *out)
{
	struct err error;
	json_t *reply;
	const json_t *work;
	const char *token;
	int64_t bits;
	bool good = false;

	if (r->status != STATUS_WORK)
		return false;
	err_save(&error);
	reply = json_parse_object(buf_text(&r->body), r->body.len, "reply");
	work = json_object_get(reply, "work");
	if (work && json_get_text(work, "reply", "token", &token) == 0 &&
		json_get_i64(work, "reply", "bits", 1, WORK_BITS_MAX, &bits) == 0 &&
		strlen(token) < sizeof out->token) {
		strcpy(out->token, token);
		out->bits = (int)bits;
		good = true;
	}
	json_decref(reply);
	err_clear();
	err_restore(&error);
	return good;
}

/* The place in a list. Pages that lead in a circle would be followed for ever: the cursor of a page
 * whose number is a power of two is kept, until the next such page, and comes again in every circle
 * (Brent, "An improved Monte Carlo factorization algorithm", 1980). */
struct place {
	char cursor[CURSOR_MAX], kept[CURSOR_MAX]; /* "": the first page */
	int64_t pages;
};

/* The next page's cursor replaces this one's; "" at the end. */
static int read_cursor(struct place *at, const json_t *page, const char *base)
{
	const char *next = "";

	if (json_opt_text(page, base, "next", &next) < 0)
		return -1;
	if (strlen(next) >= CURSOR_MAX)
		return err_set(EX_DATAERR, "%s: the cursor of the next page is too long",
			base);
	if (next[0] && (strcmp(next, at->cursor) == 0 || strcmp(next, at->kept) == 0))
		return err_set(EX_DATAERR, "%s: its pages lead in a circle", base);
	strcpy(at->cursor, next);
	at->pages++;
	if (!(at->pages & (at->pages - 1)))
		strcpy(at->kept, next);
	return 0;
}

/* Gets one page. Returns as fn does: 0 go on, 1 end, -1 with err_set. */
static int one_page(struct http *http, struct http_request *q, const char *base,
	const char *list, struct place *at, registry_page_fn fn, void *ctx)
{
	struct http_response r = HTTP_RESPONSE_INIT;
	json_t *page = NULL, *items;
	int rc = -1;

	if (http_fetch(http, q, &r) < 0)
		goto out;
	page = json_parse_object_to(buf_text(&r.body), r.body.len, JSON_DEPTH_MAX_LIST,
		base);
	if (page && json_get_array(page, base, list, &items) == 0 &&
		read_cursor(at, page, base) == 0)
		rc = fn(ctx, items);
out:
	json_decref(page);
	http_response_release(&r);
	return rc;
}

int registry_each_page(struct http *http, const char *base, const char *ca,
	const char *path, const char *list, registry_page_fn fn, void *ctx)
{
	struct http_request q = { .ca_file = ca, .response_bytes_max = PAGE_BYTES_MAX };
	struct place at = { .pages = 0 };
	struct buf url = BUF_INIT;
	int rc;

	do {
		buf_reset(&url);
		rc = http_url(&url, base, path);
		if (rc == 0 && at.cursor[0]) {
			buf_addf(&url, "%ccursor=", strchr(path, '?') ? '&' : '?');
			http_escape(&url, at.cursor);
		}
		q.url = url.data;
		if (rc == 0)
			rc = one_page(http, &q, base, list, &at, fn, ctx);
	} while (rc == 0 && at.cursor[0]);
	buf_release(&url);
	return rc < 0 ? -1 : 0;
}

struct each {
	registry_item_fn fn;
	void *ctx;
};

static int each_of(void *ctx, const json_t *items)
{
	struct each *e = ctx;
	const json_t *item;
	size_t i;
	int rc = 0;

	json_array_foreach(items, i, item)
		if ((rc = e->fn(e->ctx, item)) != 0)
			break;
	return rc;
}

int registry_each(struct http *http, const char *base, const char *ca, const char *path,
	const char *list, registry_item_fn fn, void *ctx)
{
	struct each e = { fn, ctx };

	return registry_each_page(http, base, ca, path, list, each_of, &e);
}
