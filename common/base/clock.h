/* clock.h - the time of day, and a clock for intervals. Uses libc only.
 *
 * RNP_NOW (RFC 3339) sets the time of day for tests and recomputation; it then stands still.
 * Intervals are measured on the monotonic clock, which it does not affect. */
#ifndef RNP_COMMON_BASE_CLOCK_H
#define RNP_COMMON_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define CLOCK_TEXT_MAX 32

/* Returns milliseconds since 1970-01-01T00:00:00Z. A malformed RNP_NOW is reported by
 * prog_main. */
int64_t clock_now_ms(void);
int clock_check_env(void); /* 0, or -1 with err_set(EX_USAGE): RNP_NOW is malformed */

/* Returns nanoseconds since some fixed moment; never goes back. */
int64_t clock_mono_ns(void);

/* Returns the processor's time that the calling thread took so far, in nanoseconds. */
int64_t clock_thread_ns(void);

/* Sets *out to the moment ns from now on a clock of the system, for pthread_cond_timedwait. */
void clock_after(struct timespec *out, clockid_t clock, int64_t ns);

/* Formats RFC 3339, always UTC with a Z; the fraction is written only if it is not 0. */
void clock_format(char out[CLOCK_TEXT_MAX], int64_t ms);

/* Parses an RFC 3339 date-time with any offset, to the millisecond (finer digits are dropped),
 * years 1970 to 9999. Leap second 60 is taken as 59.999. Returns 0, or -1 with
 * err_set(EX_DATAERR); what names the value in the error. */
int clock_parse(const char *text, const char *what, int64_t *ms);

/* Reads a time as people write it: as clock_parse; or "now", "today", "yesterday", "tomorrow" (from
 * 00:00 UTC), a day "2026-11-20" or a minute "2026-11-20 18:00" of UTC, or what is before or after
 * now, "-7d", "-90m", "+2h". Returns 0, or -1 with err_set(EX_DATAERR). */
int clock_parse_people(const char *text, const char *what, int64_t *ms);

#endif
