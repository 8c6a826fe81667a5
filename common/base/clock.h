/* clock.h - the time of day, and a clock for intervals. Uses libc only.
 *
 * RNP_NOW (RFC 3339) sets the time of day for tests and recomputation; it then stands still.
 * Intervals are measured on the monotonic clock, which it does not affect. */
#ifndef RNP_COMMON_BASE_CLOCK_H
#define RNP_COMMON_BASE_CLOCK_H

#include <stdint.h>

#define CLOCK_TEXT_MAX 32

/* Returns milliseconds since 1970-01-01T00:00:00Z. A malformed RNP_NOW is reported by
 * prog_main. */
int64_t clock_now_ms(void);
int clock_check_env(void); /* 0, or -1 with err_set(EX_USAGE): RNP_NOW is malformed */

/* Returns nanoseconds since some fixed moment; never goes back. */
int64_t clock_mono_ns(void);

/* Formats RFC 3339, always UTC with a Z; the fraction is written only if it is not 0. */
void clock_format(char out[CLOCK_TEXT_MAX], int64_t ms);

/* Parses an RFC 3339 date-time with any offset, to the millisecond (finer digits are dropped),
 * years 1970 to 9999. Leap second 60 is taken as 59.999. Returns 0, or -1 with
 * err_set(EX_DATAERR); what names the value in the error. */
int clock_parse(const char *text, const char *what, int64_t *ms);

#endif
