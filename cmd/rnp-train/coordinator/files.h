/* files.h - names of a coordinator's files and of its run's arrays, and the clock of its rounds. */
#ifndef RNP_TRAIN_COORDINATOR_FILES_H
#define RNP_TRAIN_COORDINATOR_FILES_H

#include "cmd/rnp-train/coordinator/coordinator.h"

/* The time of r's events: milliseconds of a clock that does not go back. */
int64_t coordinate_now(const struct coordinator *g);

/* Names of files in g->dir; the result is freed by the caller. */
char *coordinate_path(const struct coordinator *g, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* The name of a set of shards: the hash of their digests. */
void coordinate_digest(const struct lm_shards *set, char hex[PROTOCOL_HEX]);

/* Arrays of all parameters; round N ends with files NAME-N.f32 of those that the run has. */
enum coordinate_array {
	THETA,
	PUBLISHED,
	V,
	BUFFER,
	LAST,
	PARENT,
	REST,
	COORDINATE_ARRAYS
};

/* Their names in files, by place; NULL: the run has no such array. */
void coordinate_array_names(const struct coordinator *g,
	const char *names[COORDINATE_ARRAYS]);
/* The names of those that the run has, one after the other; ends with NULL. */
void coordinate_arrays(const struct coordinator *g,
	const char *names[COORDINATE_ARRAYS + 1]);

#endif
