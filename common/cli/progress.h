/* progress.h - a bar on standard error for work of more than two seconds. For cmd/ only.
 *
 * Only when standard error is a terminal and not with -q; else every call does nothing. */
#ifndef RNP_COMMON_CLI_PROGRESS_H
#define RNP_COMMON_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
	/* "nodes", "B"; "": what is counted means nothing to people, and its rate is left out.
	 * Borrowed. */
	const char *what, *unit;
	int64_t total, begun_ns, drawn_ns;
	/* start of the interval whose rate gives the time left, and of the next one */
	struct progress_mark {
		int64_t done, elapsed_ns;
	} from, next;
	char note[64]; /* after it all, such as "loss 3.21, 5 files"; "": none */
	bool on, drawn;
};

/* Starts a bar. total 0: unknown, the bar shows only count and rate. */
void progress_start(struct progress *p, const char *what, const char *unit,
	int64_t total);

/* Updates the amount done, of total. Cheap: draws at most ten times a second, no wider than the
 * terminal. The time left is computed from the rate of the last 5 to 10 seconds. */
void progress_update(struct progress *p, int64_t done);

/* Wipes a bar that stands on the terminal, so that rows and messages have a line of their own; the
 * next update draws it again below them. */
void progress_wipe(void);

/* Erases the bar: before other lines on standard error, and at the end. */
void progress_end(struct progress *p);

/* Sets what stands after the bar from now on. */
void progress_note(struct progress *p, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Formats the text of the bar, for tests: less than size bytes. What does not fit is left out, part
 * by part and whole; below 100 bytes the bar itself is shorter. */
void progress_text(char *out, int size, const struct progress *p, int64_t done,
	int64_t elapsed_ns);

#endif
