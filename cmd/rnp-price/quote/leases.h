/* leases.h - the leases of a node, as its registry, market or operator reports them. Uses
 * jansson, err. */
#ifndef RNP_PRICE_QUOTE_LEASES_H
#define RNP_PRICE_QUOTE_LEASES_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#define LEASES_RUNS INT64_MAX /* the end of a lease that still runs */

struct leases {
	struct lease {
		int64_t begin_ms, end_ms;
	} * items;
	size_t n, cap;
};

/* Adds one rnp.lease record. Returns 0, or -1 with EX_DATAERR: malformed, or an end before its
 * begin. */
int leases_add(struct leases *l, const json_t *r, const char *where);

/* Reads rnp.lease records of a file ("-": standard input). Returns 0, or -1 (65: malformed, or
 * an end before its begin; 66; 74). */
int leases_read(struct leases *l, const char *path);
void leases_release(struct leases *l);

/* Counts what happened between two times: leases that began and that ended, hours worked, and
 * how many run at the end. */
struct leases_between {
	int64_t began, ended, running;
	double hours;
};
struct leases_between leases_between(const struct leases *l, int64_t from_ms,
	int64_t to_ms);

#endif
