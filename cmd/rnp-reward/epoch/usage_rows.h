/* usage_rows.h - the usages of an epoch, packed: about 120 bytes a node where struct usage has
 * 290, so that an epoch of 10^7 nodes fits into memory. Pure. Uses fields, mem.
 *
 * Rows are appended by one thread; any number may read them afterwards. */
#ifndef RNP_CMD_REWARD_EPOCH_USAGE_ROWS_H
#define RNP_CMD_REWARD_EPOCH_USAGE_ROWS_H

#include <stdbool.h>
#include <stddef.h>

#include "cmd/rnp-reward/policy/fields.h"

struct usage_page;

struct usage_rows {
	size_t n;
	struct usage_page **pages;
	size_t npages, cap;
	int64_t from_ms, to_ms; /* of the first row that has both; most have the same */
	bool dated;
	struct usage_group *groups; /* in the order of their rows */
	size_t ngroups, groups_cap;
};
#define USAGE_ROWS_INIT \
	{               \
		0       \
	}

void usage_rows_add(struct usage_rows *rows, const struct usage *u);

/* Adds a further group of GPUs to the last row; its row is set. */
void usage_rows_add_group(struct usage_rows *rows, const struct usage_group *g);

/* Finds the further groups of row i. Returns how many there are: nearly always 0. */
size_t usage_rows_groups(const struct usage_rows *rows, size_t i,
	const struct usage_group **first);

/* Unpacks row i. Fields that it lacks are 0. */
void usage_rows_get(const struct usage_rows *rows, size_t i, struct usage *u);

/* Gets only the times of row i, which is faster. */
void usage_rows_times(const struct usage_rows *rows, size_t i, int64_t *from_ms,
	int64_t *to_ms);

/* Return the address of the node of row i, and the one that is paid for it: its wallet, or the
 * node itself if it has none. They point into the row. */
const unsigned char *usage_rows_node(const struct usage_rows *rows, size_t i);
const unsigned char *usage_rows_claimant(const struct usage_rows *rows, size_t i);

/* A row in an order by address. */
struct usage_ref {
	uint64_t prefix; /* the address's first bytes */
	uint32_t row;
	bool first; /* of its address */
};

typedef const unsigned char *(*usage_key)(const struct usage_rows *rows, size_t i);

/* Returns all rows in the order of an address's bytes, those of one address in the order of the
 * rows; the caller frees them. 16 bytes a row, sorted on all cores. */
struct usage_ref *usage_rows_sort(const struct usage_rows *rows, usage_key key);

/* Finds two usages of one node: the lowest second one and the first. Returns false if there are
 * none. */
bool usage_rows_duplicate(const struct usage_rows *rows, size_t *first, size_t *second);

void usage_rows_release(struct usage_rows *rows);

#endif
