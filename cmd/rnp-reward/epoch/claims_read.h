/* claims_read.h - reads the rewards of an epoch on all cores, in their order. Uses claims, lines,
 * schema. */
#ifndef RNP_CMD_REWARD_EPOCH_CLAIMS_READ_H
#define RNP_CMD_REWARD_EPOCH_CLAIMS_READ_H

#include "cmd/rnp-reward/epoch/claims.h"
#include "common/base/buf.h"
#include "common/cli/records.h"

/* What is done with the records. note and keep may be NULL. */
struct claims_reader {
	struct claims *claims; /* gets each reward; claims_finish is left to the caller */
	void *ctx;
	/* Appends what is to be kept of a reward's line, on any thread. */
	void (*note)(void *ctx, const char *line, size_t len, struct buf *out);
	/* Receives it, in the order of the rewards, on one thread. */
	void (*keep)(void *ctx, const char *note, size_t len);
	/* Receives every record that is not a reward and fits its schema, on one thread, after the
	 * rewards before it. Returns 0, or -1 with err_set. */
	record_fn other;
};

/* Reads all records of files (none: standard input). Returns 0, or -1 with the first error in the
 * order of the input. */
int claims_read(const struct claims_reader *r, char **files, int n);

#endif
