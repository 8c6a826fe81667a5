/* pairs.h - the figures of two files of rnp.bench records, test by test. */
#ifndef RNP_BENCH_FIGURES_PAIRS_H
#define RNP_BENCH_FIGURES_PAIRS_H

#include <jansson.h>
#include <stddef.h>

#include "cmd/rnp-bench/suites/difference.h"

struct entry {
	char *key; /* equal for two figures of the same thing */
	json_t *record;
};

struct entries {
	struct entry *at;
	size_t n, cap;
};

void entries_release(struct entries *e);

/* Reads the records of a file ("-": standard input); of several about one thing the last counts.
 * Returns 0, or -1 with err_set. */
int entries_load(struct entries *e, char *path);

/* The entry with this key, or NULL. */
struct entry *entries_find(const struct entries *e, const char *key);

struct figure figure_of(const json_t *record);

/* A new rnp.compare record of two rnp.bench records of one thing, with the reason in why. */
json_t *compare_record(const json_t *old, const json_t *new, struct difference d);

#endif
