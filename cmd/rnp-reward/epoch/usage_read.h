/* usage_read.h - reads rnp.usage records of an epoch, on all cores, into packed rows. */
#ifndef RNP_CMD_REWARD_EPOCH_USAGE_READ_H
#define RNP_CMD_REWARD_EPOCH_USAGE_READ_H

#include <jansson.h>

#include "cmd/rnp-reward/evidence/collect_item.h"
#include "cmd/rnp-reward/policy/rules.h"
#include "cmd/rnp-reward/epoch/usage_rows.h"

#define USAGE_BYTES_MAX 32768 /* largest record */

/* A device that a usage names, by the hash of its uuid. */
struct usage_device {
	struct device_key key;
	uint32_t row;
};

struct usages {
	struct usage_rows rows;
	const char *const *files; /* names for messages; borrowed */
	int nfiles;
	const unsigned char *wanted;  /* a node's address, or NULL; set before reading */
	json_t *wanted_record;        /* its record, unchanged, or NULL */
	struct usage_device *devices; /* in the order of the rows */
	size_t ndevices, devices_cap;
};
#define USAGES_INIT                     \
	{                               \
		.rows = USAGE_ROWS_INIT \
	}

/* Reads rnp.usage records of files (none: standard input) and enters their models into r.
 * Refuses other kinds, a second record of a node (naming both lines), and a record that names
 * another node's device, since a device is paid once. Returns 0, or -1 with err_set. The caller
 * releases u in either case. */
int usages_read(struct usages *u, struct rules *r, char **files, int nfiles);

/* Reads one record that is already parsed. where names it in errors. */
int usage_from_json(struct usage *u, struct rules *r, const json_t *record,
	const char *where);

/* Adds such a record with its further groups of GPUs. Returns 0, or -1 with err_set. */
int usage_rows_add_json(struct usage_rows *rows, struct rules *r, const json_t *record,
	const char *where);

/* Reads a line of the plain form that rnp-reward itself writes, without building objects:
 * several times faster. Returns false for any other line, good or bad, which usage_from_json
 * must then decide. Changes r's models only under its own lock. */
bool usage_from_plain(struct usage *u, struct rules *r, const char *line, size_t len);

/* Returns "file:3" of the i-th usage, in a thread-local static buffer. */
const char *usages_where(const struct usages *u, size_t i);

void usages_release(struct usages *u);

#endif
