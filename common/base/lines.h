/* lines.h - reads the lines of files or of standard input, with a limit on their length, one by
 * one or mapped by all cores in order. Uses libc, OpenMP (the team of kernels/dev/team.h), ahead,
 * buf, err.
 *
 * Memory does not grow with the input. Lines that arrive in a pipe are passed on at once. */
#ifndef RNP_COMMON_BASE_LINES_H
#define RNP_COMMON_BASE_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/err.h"

#define LINES_AHEAD_MIN (INT64_C(16) << 20)

struct lines {
	char **files; /* borrowed; NULL once standard input is read */
	int nfiles, at;
	int fd;                       /* -1: none open */
	size_t max_bytes, read_bytes; /* of a line; at a time */
	struct buf block; /* block.data[from..block.len) is read and not yet returned */
	size_t from;
	/* lines of a batch that is worked on while the next one is read */
	struct buf held;
	bool ended; /* the open file has no more */
	/* set after lines_open, for lines_next alone: a line that is too long is no error; its
	 * first max_bytes are returned, with is_cut set, and the rest is skipped as it is read */
	bool cuts;
	bool is_cut, skips;
	/* a file of so many bytes is read past the page cache: LINES_AHEAD_MIN where all together
	 * have ahead_bytes_min(), or what a test sets */
	int64_t ahead_min;
	struct ahead *ahead; /* NULL: the open file is not */
	const char *name;
	long number; /* of the last returned line, in its file */
	struct buf where;
};

/* Reads these files in turn ("-" and no file at all mean standard input). Opens nothing yet. A
 * line longer than max_bytes is an error, but with `cuts`. */
void lines_open(struct lines *l, char **files, int nfiles, size_t max_bytes);
void lines_close(struct lines *l);

/* Returns the next line that is not blank, without its newline, NUL-terminated, borrowed until
 * the next call: 1, 0 at the end, -1 on error: 66, 77, 65 (too long), 74. */
int lines_next(struct lines *l, char **line, size_t *len);

/* Whether lines_next would return at once: a line is at hand, or a pipe holds something. False at
 * files, whose lines are in no hurry, and at the end. */
bool lines_waiting(struct lines *l);

/* Returns "file:3" of the last returned line, for messages. Borrowed until the next call. */
const char *lines_where(struct lines *l);

/* Works on one line, on any thread, and appends its output to out. Returns 0, or -1 with
 * err_set. */
typedef int (
	*lines_fn)(void *ctx, char *line, size_t len, const char *where, struct buf *out);

/* Receives the results in input order, one after the other, on any thread. Returns 0, or -1 with
 * err_set. */
typedef int (*lines_sink)(void *ctx, const char *data, size_t len);

/* Calls fn for every line and passes its output to sink in the order of the input. The first
 * line that fails ends it: the sink has received everything before it and nothing of its own;
 * -1 and its error are returned. fn runs on all threads of the team; ctx is shared between
 * them. Of a regular file, the next lines are read, and the sink receives those before, while fn
 * works: fn and sink must not change the same things. */
int lines_map(struct lines *l, lines_fn fn, lines_sink sink, void *ctx);

/* One of several lines that are worked on together. Thousands of them are gone through in turn, so
 * they are small. */
struct lines_job {
	char *line; /* borrowed, as is file */
	size_t len;
	struct buf out;   /* its output: empty, to be appended to */
	const char *file; /* where it stands */
	long number;

	int rc; /* for lines.c: 0, or -1 with its error, set by lines_job_done */
	struct err *err;
	struct buf where;
};

#define LINES_GROUP 128 /* most lines of a group */

/* Works on n lines, 1 to LINES_GROUP, on any thread, and calls lines_job_done for each. */
typedef void (*lines_group_fn)(void *ctx, struct lines_job *jobs, int n);

/* Returns "file:3" of a line. Borrowed until the work on it is done. */
const char *lines_job_where(struct lines_job *job);

/* Notes what came of a line: 0, or -1 with the pending error, which becomes the line's. */
void lines_job_done(struct lines_job *job, int rc);

/* Is told, on its thread, of what the sink gets a little later, so that it can be fetched from
 * memory what the sink will look at. Not of all. */
typedef void (*lines_ahead_fn)(void *ctx, const char *data, size_t len);

/* The same as lines_map for work that costs less for several lines together: fn gets adjacent
 * lines. Groups are smaller than LINES_GROUP where fewer lines are at hand than the team needs.
 * ahead may be NULL. */
int lines_map_groups(struct lines *l, lines_group_fn fn, lines_sink sink,
	lines_ahead_fn ahead, void *ctx);

#endif
