/* verify_parts.h - what the files of rnp-reward verify share: what was read, and the rewards of it
 * that are held against computed ones. */
#ifndef RNP_CMD_REWARD_VERIFY_PARTS_H
#define RNP_CMD_REWARD_VERIFY_PARTS_H

#include <sodium.h>
#include <stdbool.h>
#include <stddef.h>

#include "cmd/rnp-reward/claims.h"
#include "cmd/rnp-reward/core.h"
#include "common/base/buf.h"

/* A reward's line by its hash, so that a million need not be in memory. */
struct line_hash {
	unsigned char bytes[crypto_shorthash_BYTES];
};

struct seen {
	struct claims claims;
	char root[2 * MERKLE_HASH_BYTES + 1]; /* of the claims, "" if there are none */
	json_t *epoch;
	/* if rewards are recomputed: the hash of each, in order; and their lines, only where the
	 * input cannot be read a second time */
	struct line_hash *hashes;
	size_t nhashes, hashes_cap;
	struct buf rewards;
	char **files;
	int nfiles;       /* 0: standard input, or what is no regular file */
	struct buf roots; /* of the proofs, MERKLE_HASH_BYTES each */
	bool all_ok, any;
};

/* Call it once, before the first line is hashed. */
void seen_init(void);

/* Writes one rnp.check line. reason NULL: it is good. */
int seen_report(struct seen *s, const char *what, const char *reason);

/* Reports whether the epoch's record fits its rewards. */
int seen_check_epoch(struct seen *s);

/* Whether files can be read a second time. */
bool seen_regular(char **files, int n);

/* A claims_reader's note and keep: the hash of a reward's line, and after it the line if the input
 * cannot be read again. */
void seen_note(void *seen, const char *line, size_t len, struct buf *out);
void seen_keep(void *seen, const char *note, size_t len);

/* An again_fn: compares the rewards that were read with the computed ones. */
int seen_compare(void *seen, const struct epoch *e, struct buf *reason);

/* Reads no more of the rewards than their hashes. Usually all lines are those that are computed: then
 * what they claim is known, too. Returns 1 if so, with the checks reported; 0 if not, or if
 * something cannot be read, or not twice: then nothing is reported, and all is to be read with
 * care; or -1. */
int seen_same(struct seen *s, char **files, int n, const char *usage, const char *policy);

#endif
