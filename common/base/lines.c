/* lines.c - reads lines with limits, and maps them over all cores while keeping their order. */
#include "common/base/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/ahead.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/mem.h"
#include "common/base/threads.h"

#define READ_BYTES ((size_t)256 << 10)
/* a batch of them is large enough for full groups, whose work costs less for many lines */
#define GROUPS_READ_BYTES ((size_t)1 << 20)
#define BATCH_LINES       2048
#define FEW_LINES         8 /* that a thread takes at a time, at least */
#define BATCH_BYTES       ((size_t)2 << 20)
/* outputs that are fetched before their turn, so much of each, and then what the sink needs for
 * them */
#define AHEAD       12
#define AHEAD_SINK  6
#define AHEAD_BYTES 320
/* memory of a line's output buffer that is kept between batches */
#define KEEP_BYTES ((size_t)16 << 10)

static char *stdin_only[] = { (char *)"-" };

/* Files that together take more memory than the page cache has for them are all read past it, but
 * for small ones. */
static int64_t ahead_min(char **files, int nfiles)
{
	int64_t bytes = 0;

	for (int i = 0; i < nfiles; i++) {
		struct stat st;

		if (stat(files[i], &st) == 0 && S_ISREG(st.st_mode))
			bytes += st.st_size;
	}
	return bytes < ahead_bytes_min() ? INT64_MAX : LINES_AHEAD_MIN;
}

void lines_open(struct lines *l, char **files, int nfiles, size_t max_bytes)
{
	memset(l, 0, sizeof *l);
	l->files = nfiles ? files : stdin_only;
	l->nfiles = nfiles ? nfiles : 1;
	l->fd = -1;
	l->max_bytes = max_bytes;
	l->read_bytes = READ_BYTES;
	l->ahead_min = ahead_min(l->files, l->nfiles);
}

static void close_file(struct lines *l)
{
	ahead_close(l->ahead);
	l->ahead = NULL;
	if (l->fd > STDIN_FILENO)
		close(l->fd);
	l->fd = -1;
}

void lines_close(struct lines *l)
{
	close_file(l);
	buf_release(&l->block);
	buf_release(&l->held);
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
		io_say_typed();
	} else {
		l->fd = open(path, O_RDONLY | O_CLOEXEC);
		l->name = path;
	}
	if (l->fd < 0)
		return err_sys(0, "cannot open '%s'", path);
	/* standard input is shared with others, who would find O_DIRECT set */
	if (l->fd > STDIN_FILENO)
		l->ahead = ahead_open(l->fd, l->ahead_min);
	l->number = 0;
	l->ended = false;
	l->skips = false;
	return 1;
}

/* Moves the unread rest to the front and reads more after it. Returns 0 or -1. */
static int fill(struct lines *l)
{
	ssize_t n;
	char *to;

	if (l->from) {
		memmove(l->block.data, l->block.data + l->from, l->block.len - l->from);
		l->block.len -= l->from;
		l->from = 0;
	}
	to = buf_reserve(&l->block, l->read_bytes);
	do
		n = l->ahead ? ahead_read(l->ahead, to, l->read_bytes) :
			       read(l->fd, to, l->read_bytes);
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

/* Skips what there is of a line that was cut. */
static void skip_rest(struct lines *l)
{
	char *start = l->block.data + l->from;
	char *end = memchr(start, '\n', l->block.len - l->from);

	l->from = end ? l->from + (size_t)(end - start) + 1 : l->block.len;
	l->skips = !end;
}

/* Returns 1, or -1 if lines are not to be cut. `end`: its newline, NULL if that is not read yet. */
static int too_long(struct lines *l, char **line, size_t *len, const char *end)
{
	char *start = l->block.data + l->from;

	l->number++;
	if (!l->cuts)
		return err_set(EX_DATAERR, "%s: longer than %zu bytes", lines_where(l),
			l->max_bytes);
	start[l->max_bytes] = '\0';
	*line = start;
	*len = l->max_bytes;
	l->is_cut = true;
	l->skips = !end;
	l->from = end ? l->from + (size_t)(end - start) + 1 : l->block.len;
	return 1;
}

/* Finds the next line without reading: 1, or 0 when more must be read first, or -1 when it is
 * too long. */
static int line_at_hand(struct lines *l, char **line, size_t *len)
{
	l->is_cut = false;
	if (l->skips && l->from < l->block.len)
		skip_rest(l);
	while (l->from < l->block.len) {
		char *start = l->block.data + l->from;
		size_t there = l->block.len - l->from;
		char *end = memchr(start, '\n', there);
		size_t n = end ? (size_t)(end - start) : there;

		if (n > l->max_bytes)
			return too_long(l, line, len, end);
		if (!end && !l->ended)
			return 0;
		start[n] = '\0'; /* the newline, or the NUL after the last byte */
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

/* Lines that are worked on side by side; those of one file. */
struct batch {
	struct lines_job *jobs;
	int n;
	const char *name;
	int rc;         /* 1: there may be more after it; 0: the end; -1 */
	struct err err; /* if rc is -1: why there is none after the n good ones */
};

/* Collects the lines that are available; only the first may wait for input. They stay where
 * they are in the block. */
static void collect(struct lines *l, struct batch *b)
{
	struct lines_job *jobs = b->jobs;
	size_t bytes = 0;

	b->rc = lines_next(l, &jobs[0].line, &jobs[0].len);
	b->name = l->name;
	for (b->n = 0; b->rc == 1;) {
		jobs[b->n].number = l->number;
		bytes += jobs[b->n].len;
		if (++b->n == BATCH_LINES || bytes > BATCH_BYTES)
			break;
		b->rc = line_at_hand(l, &jobs[b->n].line, &jobs[b->n].len);
		if (b->rc == 0) {
			b->rc = 1;
			break;
		}
	}
	if (b->rc < 0)
		err_save(&b->err);
}

/* Moves what is read and not yet returned to the other block, so that the lines of the last batch
 * stay where they are while the next is collected. */
static void leave_block(struct lines *l)
{
	struct buf other = l->held;

	buf_reset(&other);
	buf_add(&other, l->block.data + l->from, l->block.len - l->from);
	l->held = l->block;
	l->block = other;
	l->from = 0;
}

/* Whether reading on cannot wait. */
static bool in_regular_file(const struct lines *l)
{
	struct stat st;

	return l->fd >= 0 && fstat(l->fd, &st) == 0 && S_ISREG(st.st_mode);
}

const char *lines_job_where(struct lines_job *job)
{
	if (!job->where.len) {
		buf_adds(&job->where, job->file);
		buf_addc(&job->where, ':');
		buf_add_i64(&job->where, job->number);
	}
	return job->where.data;
}

void lines_job_done(struct lines_job *job, int rc)
{
	job->rc = rc;
	if (rc == 0)
		return;
	job->err = job->err ? job->err : xmalloc(sizeof *job->err);
	err_save(job->err);
}

static void run_jobs(const char *name, struct lines_job *jobs, int n, lines_group_fn fn,
	void *ctx)
{
	for (int i = 0; i < n; i++) {
		jobs[i].file = name;
		buf_reset(&jobs[i].where);
		buf_reset(&jobs[i].out);
	}
	fn(ctx, jobs, n);
}

/* What is done with lines. */
struct work {
	lines_group_fn fn;
	lines_sink sink;
	lines_ahead_fn ahead; /* or NULL */
	void *ctx;
	int most; /* lines of a group */
};

/* Another thread wrote these outputs, and they are far away by now. */
static void fetch_ahead(const struct batch *b, int i, const struct work *w)
{
	const struct buf *far = i + AHEAD < b->n ? &b->jobs[i + AHEAD].out : NULL;
	const struct buf *near = i + AHEAD_SINK < b->n ? &b->jobs[i + AHEAD_SINK].out :
							 NULL;

	for (size_t k = 0; far && far->data && k < AHEAD_BYTES; k += 64)
		__builtin_prefetch(far->data + k);
	if (w->ahead && near && near->len)
		w->ahead(w->ctx, near->data, near->len);
}

/* Returns 0, or -1 when a line or the sink failed. */
static int hand_out(const struct batch *b, const struct work *w)
{
	struct lines_job *jobs = b->jobs;

	for (int i = 0; i < b->n; i++) {
		fetch_ahead(b, i, w);
		if (jobs[i].rc < 0)
			return err_restore(jobs[i].err);
		if (jobs[i].out.len &&
			w->sink(w->ctx, jobs[i].out.data, jobs[i].out.len) < 0)
			return -1;
		/* any line of a batch may be large once: such buffers are freed */
		if (jobs[i].out.cap > KEEP_BYTES)
			buf_release(&jobs[i].out);
	}
	return 0;
}

/* Returns how many lines a thread takes at a time: several turns for each, and whole eights, which
 * some work is done in. */
static int group_of(int n, int most)
{
	int group = (n / (4 * threads_max()) + FEW_LINES - 1) / FEW_LINES * FEW_LINES;

	return group < FEW_LINES ? FEW_LINES : group > most ? most : group;
}

/* What is done side by side: `before` is handed out, `now` worked on, and `next` collected; before
 * and next may be NULL. Returns 0, or -1 with the error of handing out. */
static int step(struct lines *l, const struct batch *before, const struct batch *now,
	struct batch *next, const struct work *w)
{
	int group = group_of(now->n, w->most), parts = 2 + (now->n + group - 1) / group;
	struct err error = { 0 };
	int rc = 0;

#pragma omp parallel for schedule(dynamic, 1) if (now->n > 16)
	for (int i = 0; i < parts; i++) {
		int at = (i - 2) * group;

		if (i == 0 && before && hand_out(before, w) < 0) {
			err_save(&error);
			rc = -1;
		}
		if (i == 1 && next)
			collect(l, next);
		if (i >= 2)
			run_jobs(now->name, now->jobs + at,
				now->n - at < group ? now->n - at : group, w->fn, w->ctx);
	}
	return rc < 0 ? err_restore(&error) : 0;
}

static int map(struct lines *l, const struct work *w)
{
	struct batch batches[3], *before = NULL, *now = NULL, *next = &batches[0];
	int rc;

	for (int i = 0; i < 3; i++)
		batches[i] = (struct batch){ .jobs = xcalloc(BATCH_LINES,
						     sizeof *batches[i].jobs) };
	collect(l, next);
	do {
		struct batch *free_one;
		bool ahead;

		free_one = next == &batches[0] ? &batches[1] :
			next == &batches[1]    ? &batches[2] :
						 &batches[0];
		now = next;
		ahead = now->rc == 1 && in_regular_file(l);
		if (ahead)
			leave_block(l);
		rc = step(l, before, now, ahead ? free_one : NULL, w);
		before = ahead ? now : NULL;
		next = free_one;
		/* a pipe's lines are passed on before more are waited for */
		if (rc == 0 && !ahead)
			rc = hand_out(now, w);
		if (rc == 0 && !ahead && now->rc == 1)
			collect(l, next);
	} while (rc == 0 && now->rc == 1);
	if (rc == 0 && now->rc < 0)
		rc = err_restore(&now->err);
	for (int i = 0; i < 3; i++) {
		for (int k = 0; k < BATCH_LINES; k++) {
			buf_release(&batches[i].jobs[k].out);
			buf_release(&batches[i].jobs[k].where);
			free(batches[i].jobs[k].err);
		}
		free(batches[i].jobs);
	}
	return rc;
}

int lines_map_groups(struct lines *l, lines_group_fn fn, lines_sink sink,
	lines_ahead_fn ahead, void *ctx)
{
	const struct work w = { fn, sink, ahead, ctx, LINES_GROUP };

	l->read_bytes = GROUPS_READ_BYTES;
	return map(l, &w);
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
			s->fn(s->ctx, jobs[i].line, jobs[i].len,
				lines_job_where(&jobs[i]), &jobs[i].out));
}

static int sink_single(void *ctx, const char *data, size_t len)
{
	const struct single *s = ctx;

	return s->sink(s->ctx, data, len);
}

int lines_map(struct lines *l, lines_fn fn, lines_sink sink, void *ctx)
{
	struct single s = { fn, sink, ctx };
	const struct work w = { run_single, sink_single, NULL, &s, FEW_LINES };

	return map(l, &w);
}
