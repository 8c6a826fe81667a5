/* ledger.h - the ledger of epochs: an append-only file of JSON Lines, each entry the rnp.epoch
 * that was paid with its place ("sequence") and the hash of the entry before ("previous").
 *
 * The hash of an entry is the SHA-256 of its canonical bytes (RFC 8785). Uses json, canon,
 * schema, io. */
#ifndef RNP_CMD_REWARD_LEDGER_H
#define RNP_CMD_REWARD_LEDGER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/buf.h"

/* What a walk over a ledger calls for each entry; returns 0 or -1 to stop. */
typedef int (*ledger_fn)(void *ctx, int64_t sequence, const json_t *entry);

/* Read a whole ledger and check its chain. Returns the number of entries, or -1: 66, 74, or 65
 * naming the entry that breaks the chain. fn may be NULL. *good: bytes up to the end of the
 * last whole line, may be NULL. last_hash: of the last entry, all 0 without one. */
int64_t ledger_walk(const char *path, ledger_fn fn, void *ctx,
	unsigned char last_hash[32], int64_t *good_bytes);

/* Append an epoch, flushed to the disk; the file is made when there is none. An epoch that is
 * in the ledger already with the same content is left alone (*there is true). The same policy
 * and times with another content are refused with 65. Sets sequence and previous in
 * record, those of the entry that was there too. Two writers are kept apart by a lock. Returns 0 or -1. */
int ledger_append(const char *path, json_t *record, bool *there);

#endif
