/* rewards.h - what rnp-reward verify has read of an epoch, and how its rewards and its record are
 * compared with recomputed ones. Writes rnp.check records. Uses claims, recompute, write. */
#ifndef RNP_CMD_REWARD_AUDIT_REWARDS_H
#define RNP_CMD_REWARD_AUDIT_REWARDS_H

#include <sodium.h>
#include <stdbool.h>
#include <stddef.h>

#include "cmd/rnp-reward/epoch/claims.h"
#include "cmd/rnp-reward/epoch/core.h"
#include "common/base/buf.h"

/* The hash of a reward's line: a million lines need not be in memory. */
struct line_hash {
	unsigned char bytes[crypto_shorthash_BYTES];
};

struct rewards {
	struct claims claims;
	char root[2 * MERKLE_HASH_BYTES + 1]; /* of the claims, "" if there are none */
	json_t *epoch;
	/* if rewards are recomputed: the hash of each, in order, and their lines, if the input
	 * cannot be read a second time */
	struct line_hash *hashes;
	size_t nhashes, hashes_cap;
	struct buf rewards;
	char **files;
	int nfiles;       /* 0: the input is no list of regular files */
	struct buf roots; /* of the proofs, MERKLE_HASH_BYTES each */
	bool in_ledger;   /* the epoch is looked up in a ledger */
	bool all_ok, any;
};

/* Makes the key of the hashes. Call it once, before the first line is hashed. */
void rewards_init(void);

/* Writes one rnp.check line. reason NULL: it is good. */
int rewards_report(struct rewards *s, const char *what, const char *reason);

/* Reports whether the epoch's record fits its rewards. */
int rewards_check_epoch(struct rewards *s);

/* Whether files can be read a second time. */
bool rewards_can_reread(char **files, int n);

/* The note and keep of a claims_reader: they pass on the hash of a reward's line, followed by
 * the line if the input cannot be read again. */
void rewards_note(void *rewards, const char *line, size_t len, struct buf *out);
void rewards_keep(void *rewards, const char *note, size_t len);

/* A recompute_fn that compares the rewards that were read with the computed ones. */
int rewards_compare(void *rewards, const struct epoch *e, struct buf *reason);

/* Compares the rewards by the hashes of their lines alone, which is the fast way. Usually they
 * are the computed lines, byte for byte. Returns 1 if so, with the checks reported; 0 if not, or
 * if the files cannot be read, or not twice: then nothing is reported, and the caller parses the
 * input; or -1. */
int rewards_same(struct rewards *s, char **files, int n, const char *usage,
	const char *policy);

#endif
