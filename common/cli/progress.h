/* progress.h - a bar on standard error for work of more than two seconds. For cmd/ only.
 *
 * Only when standard error is a terminal and not with -q; else every call does nothing. */
#ifndef RNP_COMMON_CLI_PROGRESS_H
#define RNP_COMMON_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
	const char *what, *unit; /* "nodes", "B"; borrowed */
	int64_t total, begun_ns, drawn_ns;
	bool on, drawn;
};

/* Starts a bar. total 0: unknown, the bar shows only count and rate. */
void progress_start(struct progress *p, const char *what, const char *unit,
	int64_t total);

/* Updates the amount done, of total. Cheap: draws at most ten times a second. */
void progress_update(struct progress *p, int64_t done);

/* Erases the bar: before other lines on standard error, and at the end. */
void progress_end(struct progress *p);

/* Formats the text of the bar, for tests: at most size bytes. */
void progress_text(char *out, int size, const struct progress *p, int64_t done,
	int64_t elapsed_ns);

#endif
