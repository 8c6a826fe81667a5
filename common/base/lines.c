/* lines.c - reads lines with limits, and maps them over all cores while keeping their order. */
#include "common/base/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/err.h"
#include "common/base/mem.h"

#define READ_BYTES  ((size_t)256 << 10)
#define BATCH_LINES 1024
#define FEW_LINES   8 /* that a thread takes at a time */
#define BATCH_BYTES ((size_t)1 << 20)
/* memory of a line's output buffer that is kept between batches */
#define KEEP_BYTES ((size_t)16 << 10)

static char *stdin_only[] = { (char *)"-" };

void lines_open(struct lines *l, char **files, int nfiles, size_t max_bytes)
{
	memset(l, 0, sizeof *l);
	l->files = nfiles ? files : stdin_only;
	l->nfiles = nfiles ? nfiles : 1;
	l->fd = -1;
	l->max_bytes = max_bytes;
}

static void close_file(struct lines *l)
{
	if (l->fd > STDIN_FILENO)
		close(l->fd);
	l->fd = -1;
}

void lines_close(struct lines *l)
{
	close_file(l);
	buf_release(&l->block);
	buf_release(&l->where);
}

const char *lines_where(struct lines *l)
{
	buf_reset(&l->where);
	buf_addf(&l->where, "%s:%ld", l->name ? l->name : "input", l->number);
	return l->where.data;
}

/* Opens the next file. Returns 1, 0 when there is none, -1. */
static int next_file(struct lines *l)
{
	const char *path;

	close_file(l);
	if (l->at == l->nfiles)
		return 0;
	path = l->files[l->at++];
	if (strcmp(path, "-") == 0) {
		l->fd = STDIN_FILENO;
		l->name = "stdin";
		/* who forgot a file would wait for an answer for ever */
		if (isatty(STDIN_FILENO))
			err_warn(
				"reads what you type here; Ctrl-D ends it, Ctrl-C gives up");
	} else {
		l->fd = open(path, O_RDONLY | O_CLOEXEC);
		l->name = path;
	}
	if (l->fd < 0)
		return err_sys(0, "cannot open '%s'", path);
	l->number = 0;
	l->ended = false;
	return 1;
}

/* Moves the unread rest to the front and reads more behind it. Returns 0 or -1. */
static int fill(struct lines *l)
{
	ssize_t n;

	if (l->from) {
		memmove(l->block.data, l->block.data + l->from, l->block.len - l->from);
		l->block.len -= l->from;
		l->from = 0;
	}
	do
		n = read(l->fd, buf_reserve(&l->block, READ_BYTES), READ_BYTES);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return err_sys(errno == EISDIR ? EX_NOINPUT : EX_IOERR,
			"cannot read '%s'", l->name);
	l->ended = n == 0;
	l->block.len += (size_t)n;
	return 0;
}

static bool blank(const char *line, size_t len)
{
	return strspn(line, " \t\r") == len;
}

/* Finds the next line without reading: 1, or 0 when more must be read first, or -1 when it is
 * too long. */
static int line_at_hand(struct lines *l, char **line, size_t *len)
{
	while (l->from < l->block.len) {
		char *start = l->block.data + l->from;
		size_t there = l->block.len - l->from;
		char *end = memchr(start, '\n', there);
		size_t n = end ? (size_t)(end - start) : there;

		if (n > l->max_bytes) {
			l->number++;
			return err_set(EX_DATAERR, "%s: longer than %zu bytes",
				lines_where(l), l->max_bytes);
		}
		if (!end && !l->ended)
			return 0;
		start[n] = '\0'; /* the newline, or the NUL behind the last byte */
		l->from += n + (end != NULL);
		l->number++;
		/* a raw NUL makes the text look shorter than it is: such a line is not blank,
		 * and the parser refuses it */
		if (blank(start, n))
			continue;
		*line = start;
		*len = n;
		return 1;
	}
	return 0;
}

bool lines_waiting(struct lines *l)
{
	struct pollfd p = { .fd = l->fd, .events = POLLIN };
	struct stat st;

	if (l->fd < 0 || fstat(l->fd, &st) < 0 || S_ISREG(st.st_mode))
		return false;
	if (l->from < l->block.len &&
		memchr(l->block.data + l->from, '\n', l->block.len - l->from))
		return true;
	return !l->ended && poll(&p, 1, 0) > 0 && p.revents & POLLIN;
}

int lines_next(struct lines *l, char **line, size_t *len)
{
	for (;;) {
		int rc;

		if (l->fd < 0) {
			rc = next_file(l);
			if (rc <= 0)
				return rc;
		}
		rc = line_at_hand(l, line, len);
		if (rc)
			return rc;
		if (l->ended)
			close_file(l);
		else if (fill(l) < 0)
			return -1;
	}
}

/* Collects the lines that are available; only the first may wait for input. They stay where
 * they are in the block. Returns how many, 0 at the end, -1 on error with *n good ones. */
static int collect(struct lines *l, struct lines_job *jobs, int *n)
{
	size_t bytes = 0;
	int rc = lines_next(l, &jobs[0].line, &jobs[0].len);

	for (*n = 0; rc == 1;) {
		jobs[*n].number = l->number;
		bytes += jobs[*n].len;
		if (++*n == BATCH_LINES || bytes > BATCH_BYTES)
			break;
		rc = line_at_hand(l, &jobs[*n].line, &jobs[*n].len);
		if (rc == 0)
			return 1;
	}
	return rc;
}

void lines_job_done(struct lines_job *job, int rc)
{
	job->rc = rc;
	if (rc < 0)
		err_save(&job->err);
}

static void run_jobs(struct lines *l, struct lines_job *jobs, int n, lines_group_fn fn,
	void *ctx)
{
	for (int i = 0; i < n; i++) {
		buf_reset(&jobs[i].where_text);
		buf_adds(&jobs[i].where_text, l->name);
		buf_addc(&jobs[i].where_text, ':');
		buf_add_i64(&jobs[i].where_text, jobs[i].number);
		jobs[i].where = jobs[i].where_text.data;
		buf_reset(&jobs[i].out);
	}
	fn(ctx, jobs, n);
}

/* Returns 0, or -1 when a line or the sink failed. */
static int hand_out(struct lines_job *jobs, int n, lines_sink sink, void *ctx)
{
	for (int i = 0; i < n; i++) {
		if (jobs[i].rc < 0)
			return err_restore(&jobs[i].err);
		if (jobs[i].out.len && sink(ctx, jobs[i].out.data, jobs[i].out.len) < 0)
			return -1;
		/* any line of a batch may be large once: such buffers are freed */
		if (jobs[i].out.cap > KEEP_BYTES)
			buf_release(&jobs[i].out);
	}
	return 0;
}

static int map(struct lines *l, int group, lines_group_fn fn, lines_sink sink, void *ctx)
{
	struct lines_job *jobs = xcalloc(BATCH_LINES, sizeof *jobs);
	int rc, n;

	do {
		struct err reading = { 0 };

		rc = collect(l, jobs, &n);
		if (rc < 0)
			err_save(&reading);
#pragma omp parallel for schedule(dynamic, 1) if (n > 16)
		for (int i = 0; i < n; i += group)
			run_jobs(l, jobs + i, n - i < group ? n - i : group, fn, ctx);
		if (hand_out(jobs, n, sink, ctx) < 0)
			rc = -1;
		else if (rc < 0)
			err_restore(&reading);
	} while (rc == 1);
	for (int i = 0; i < BATCH_LINES; i++) {
		buf_release(&jobs[i].out);
		buf_release(&jobs[i].where_text);
	}
	free(jobs);
	return rc;
}

int lines_map_groups(struct lines *l, lines_group_fn fn, lines_sink sink, void *ctx)
{
	return map(l, LINES_GROUP, fn, sink, ctx);
}

struct single {
	lines_fn fn;
	lines_sink sink;
	void *ctx;
};

static void run_single(void *ctx, struct lines_job *jobs, int n)
{
	const struct single *s = ctx;

	for (int i = 0; i < n; i++)
		lines_job_done(&jobs[i],
			s->fn(s->ctx, jobs[i].line, jobs[i].len, jobs[i].where,
				&jobs[i].out));
}

static int sink_single(void *ctx, const char *data, size_t len)
{
	const struct single *s = ctx;

	return s->sink(s->ctx, data, len);
}

int lines_map(struct lines *l, lines_fn fn, lines_sink sink, void *ctx)
{
	struct single s = { fn, sink, ctx };

	return map(l, FEW_LINES, run_single, sink_single, &s);
}
