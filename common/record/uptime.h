/* uptime.h - how long a node was up, from its heartbeats. Pure: no I/O, no clock.
 *
 * The rule: a heartbeat that arrived at t promises the next one within its interval. It covers
 * the time from t to the next heartbeat, half-open, and at most its interval; time that no
 * heartbeat covers is down. So back-dated or sparse heartbeats earn only the time that they
 * promised. */
#ifndef RNP_COMMON_RECORD_UPTIME_H
#define RNP_COMMON_RECORD_UPTIME_H

#include <stddef.h>
#include <stdint.h>

struct uptime_beat {
	int64_t at_ms;       /* arrival */
	int64_t interval_ms; /* time within which the next one is promised */
};

struct uptime_span {
	int64_t from_ms, to_ms; /* half-open */
};

/* How far a record's time may be from the clock of the registry that takes it: so far back a node
 * may date a heartbeat, and so it announces nothing of the time until then (a maintenance, for
 * one). */
#define UPTIME_SKEW_MS INT64_C(300000)

/* Longest interval that counts: heartbeats that arrived longer before a window do not matter. */
#define UPTIME_INTERVAL_MAX_MS INT64_C(3600000)

/* Returns the milliseconds of [from_ms, to_ms) in which the node was up. beats are in ascending
 * order of at_ms (equal ones count once) and include those of the UPTIME_INTERVAL_MAX_MS before
 * from_ms. Time after now_ms is never up. */
int64_t uptime_ms(const struct uptime_beat *beats, size_t n, int64_t from_ms,
	int64_t to_ms, int64_t now_ms);

/* Writes the spans of [from_ms, to_ms) in which the node was up, ascending and not touching.
 * Returns how many; those beyond max are dropped. */
size_t uptime_spans(struct uptime_span *spans, size_t max,
	const struct uptime_beat *beats, size_t n, int64_t from_ms, int64_t to_ms);

#endif
