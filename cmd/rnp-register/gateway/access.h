/* access.h - who may do what on a gateway: the registry's record as a table that is searched
 * without being read, and the line that sshd gets for a key. Uses sshkey, place, json, err,
 * buf. Pure. */
#ifndef RNP_CMD_REGISTER_GATEWAY_ACCESS_H
#define RNP_CMD_REGISTER_GATEWAY_ACCESS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/base/buf.h"

/* sshd reads no more addresses of a key. */
#define ACCESS_ADDRESSES_MAX 4000
#define ACCESS_BYTES_MAX     ((size_t)64 << 20) /* of a record */

struct access_counts {
	size_t keys, numbers;
};

/* Appends the table of an rnp.access record to out: a line a key, "BLOB TYPE OPTIONS", in the
 * order of the blobs' bytes. A key that stands in the record several times may do all of it.
 * Returns 0, or -1 (65) with out as it was. */
int access_compile(const json_t *record, const char *where, struct buf *out,
	struct access_counts *counts);

/* A part of a table, borrowed. */
struct access_span {
	const char *text;
	size_t len;
};

/* Finds the options of a key in a table of len bytes. Returns false when it has none. */
bool access_find(const char *table, size_t len, const char *type, const char *blob,
	struct access_span *options);

/* Whether options allow all that earlier ones did; both are of tables. */
bool access_covers(struct access_span now, struct access_span then);

#endif
