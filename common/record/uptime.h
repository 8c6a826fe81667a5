/* uptime.h - how long a node was up, from its heartbeats. Pure: no I/O, no clock.
 *
 * The rule: a heartbeat at t promises the next one within interval_s. The time from t to the
 * next heartbeat, half-open [t, next), is up when it is not longer than twice the promise, and
 * down as a whole when it is longer. After the last heartbeat that is known the time until now
 * is judged the same way. Nothing is known of the time before the first heartbeat, and that
 * counts as down. */
#ifndef RNP_COMMON_RECORD_UPTIME_H
#define RNP_COMMON_RECORD_UPTIME_H

#include <stddef.h>
#include <stdint.h>

struct uptime_beat {
	int64_t at_ms;
	int64_t interval_ms; /* the promise */
};

/* Milliseconds of [from_ms, to_ms) in which the node was up. beats are in ascending order of
 * at_ms (equal ones count once); give also the last one before from_ms and the first one at or
 * after to_ms, since they decide about the gaps that cross the borders. Time after now_ms is
 * never up; once now_ms is two promises past to_ms, the result no longer changes. */
int64_t uptime_ms(const struct uptime_beat *beats, size_t n, int64_t from_ms,
	int64_t to_ms, int64_t now_ms);

#endif
