/* follow.c - one request for all ranks; after a break the next one says where each of them is. */
#include "cmd/rnp-register/customer/follow.h"

#include <string.h>
#include <unistd.h>

#include "common/base/err.h"

#define BREAKS_MAX 6
#define PAUSE_US   500000
/* A line that does not end is written in parts. */
#define LINE_MAX_BYTES ((size_t)16 << 10)

/* One answer. */
struct answer {
	struct follow *f;
	struct frames frames;
	bool moved; /* something came */
};

/* Passes the whole lines of what a rank has printed on. all: the rest, too. */
static int pass_lines(struct follow *f, int rank, bool all)
{
	struct buf *line = &f->ranks[rank].line;
	const char *last = line->len ? memrchr(line->data, '\n', line->len) : NULL;
	size_t n = last ? (size_t)(last + 1 - line->data) : 0;

	if ((all || line->len - n > LINE_MAX_BYTES) && n < line->len) {
		buf_addc(line, '\n');
		n = line->len;
	}
	if (!n)
		return 0;
	if (f->lines(f->ctx, rank, line->data, n) < 0)
		return -1;
	memmove(line->data, line->data + n, line->len - n + 1);
	line->len -= n;
	return 0;
}

static int take_bytes(void *ctx, int rank, int64_t at, const char *data, size_t len)
{
	struct answer *a = ctx;
	struct follow_rank *r = &a->f->ranks[rank];

	if (at < r->at)
		return err_set(EX_UNAVAILABLE, "the log of rank %d goes back", rank);
	if (at > r->at) {
		harmless_end(&r->harmless, &r->line);
		if (pass_lines(a->f, rank, true) < 0)
			return -1;
		if (a->f->dropped)
			a->f->dropped(a->f->ctx, rank, at - r->at);
	}
	r->at = at + (int64_t)len;
	a->moved = true;
	harmless_add(&r->harmless, &r->line, data, len);
	return pass_lines(a->f, rank, false);
}

static int take(void *ctx, const void *data, size_t len)
{
	struct answer *a = ctx;

	return frames_read(&a->frames, data, len, take_bytes, a);
}

static int make_url(const struct follow *f, struct buf *url)
{
	struct buf path = BUF_INIT;
	const char *before = "at=";
	int rc;

	buf_adds(&path, "/v1/logs/");
	http_escape(&path, f->cluster);
	if (f->rank >= 0)
		buf_addf(&path, "/%d", f->rank);
	buf_addc(&path, '?');
	for (int i = 0; i < FRAMES_RANKS_MAX && f->rank < 0; i++)
		if (f->ranks[i].at) {
			buf_addf(&path, "%s%d:%lld", before, i,
				(long long)f->ranks[i].at);
			before = ",";
		}
	if (f->rank >= 0 && f->ranks[f->rank].at)
		buf_addf(&path, "from=%lld", (long long)f->ranks[f->rank].at);
	if (f->follow)
		buf_addf(&path, "%sfollow=1", path.data[path.len - 1] == '?' ? "" : "&");
	if (path.data[path.len - 1] == '?')
		path.data[--path.len] = '\0';
	rc = http_url(url, f->base, path.data);
	buf_release(&path);
	return rc;
}

/* Returns 1: it goes on, 0: that was the end, or -1. */
static int run_once(struct follow *f, struct http *http, bool *moved)
{
	struct answer a = { .f = f };
	const struct http_sink sink = { .write = take, .ctx = &a };
	struct http_response r = HTTP_RESPONSE_INIT;
	struct buf url = BUF_INIT;
	int rc = -1;

	if (make_url(f, &url) == 0) {
		const struct http_request q = { .url = url.data,
			.ca_file = f->ca,
			.signer = f->key,
			.sink = &sink,
			/* a job may be silent for long */
			.rate_min = -1,
			.tries = 1,
			.abort = f->abort };

		rc = http_fetch(http, &q, &r);
	}
	*moved = a.moved;
	if (rc == 0 && !a.frames.ended)
		rc = err_set(EX_TEMPFAIL, "the registry ended the log before its end");
	if (rc < 0 && !r.aborted &&
		(err_get()->code == EX_TEMPFAIL || err_get()->code == EX_UNAVAILABLE))
		rc = 1;
	http_response_release(&r);
	buf_release(&url);
	return rc;
}

int follow_run(struct follow *f, struct http *http)
{
	int rc = 1;

	for (int breaks = 0; rc == 1;) {
		bool moved;

		rc = run_once(f, http, &moved);
		breaks = moved ? 0 : breaks + 1;
		if (rc == 1 && breaks == BREAKS_MAX)
			return -1;
		if (rc == 1)
			usleep(PAUSE_US << (breaks ? breaks - 1 : 0));
	}
	for (int i = 0; i < FRAMES_RANKS_MAX && rc == 0; i++) {
		harmless_end(&f->ranks[i].harmless, &f->ranks[i].line);
		rc = pass_lines(f, i, true);
	}
	return rc;
}

void follow_release(struct follow *f)
{
	for (int i = 0; i < FRAMES_RANKS_MAX; i++)
		buf_release(&f->ranks[i].line);
}
