/* world_read.h - reads recorded markets, in the form of Prime's public history, for worlds.
 * Uses jansson. */
#ifndef RNP_PRICE_WORLD_READ_H
#define RNP_PRICE_WORLD_READ_H

#include <jansson.h>

#include "cmd/rnp-price/world.h"

#define WORLD_STEPS_MAX 100000

/* Adds the lines of the file at path to s: JSON objects with price_stats.median and
 * by_provider, an object of {count, min} by name, prices in dollars. Snapshots without a
 * provider are skipped. Returns 0, or -1: 65 naming the line and the field, 66, 74. */
int world_series_read(struct world_series *s, char *path);
void world_series_release(struct world_series *s);

/* Reads one snapshot from its record. Returns 1, 0 if it has no provider, or -1 (65). */
int world_snapshot_read(struct world_snapshot *out, const json_t *record,
	const char *where);

#endif
