/* records.h - JSON Lines in, one record at a time. Uses lines, json.
 *
 * For commands that take their input record by record; lines_map does it on all cores,
 * lines_next by hand. */
#ifndef RNP_COMMON_CLI_RECORDS_H
#define RNP_COMMON_CLI_RECORDS_H

#include <jansson.h>
#include <stddef.h>

/* One line of the input: an object. Borrowed for the call. */
struct record {
	json_t *json;
	const char *text; /* as received, NUL-terminated */
	size_t len;
	const char *where; /* "file:3" for messages */
};

/* Returns 0 to continue, or -1 with err_set. */
typedef int (*record_fn)(void *ctx, const struct record *r);

/* Calls fn for each record of these files ("-" or no file means standard input); a line longer
 * than max_bytes is an error. Returns 0 at the end, or -1 with the first error: fn's, or 66,
 * 77, 65, 74 from reading. */
int records_each(char **files, int n, size_t max_bytes, record_fn fn, void *ctx);

#endif
