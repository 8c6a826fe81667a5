/* hashes.h - at which servers the blockhashes of transactions in flight were good: a later run
 * goes on from there. No row of the chain, since nothing is paid by it alone. Uses ledger. */
#ifndef RNP_CMD_REWARD_LEDGER_HASHES_H
#define RNP_CMD_REWARD_LEDGER_HASHES_H

#include "cmd/rnp-reward/ledger/ledger.h"
#include "common/chain/solana.h"

/* Notes the finalised slot, plus 1, at which a server called a blockhash good. Forgotten when no
 * transaction with it is in flight any more. server: its peer.name. Returns 0, or -1. */
int ledger_note_hash(struct ledger *l, const struct solana_key *hash, const char *server,
	int64_t good_slot);

/* Gets that; 0: nothing is known. Returns 0, or -1. */
int ledger_hash_slot(struct ledger *l, const struct solana_key *hash, const char *server,
	int64_t *good_slot);

#endif
