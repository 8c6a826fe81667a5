/* plan.h - packs payouts into transactions: how many fit, and the message that pays them.
 * Pure. */
#ifndef RNP_CMD_REWARD_PAYOUT_PLAN_H
#define RNP_CMD_REWARD_PAYOUT_PLAN_H

#include "cmd/rnp-reward/ledger/payouts.h"
#include "common/chain/solana.h"
#include "common/base/buf.h"

#define PAYPLAN_PAYOUTS_MAX 24 /* per transaction; 1,232 bytes hold 20 */
#define PAYPLAN_PRICE_MAX   1000000

/* The payer and the parameters of its transactions. */
struct payer {
	struct solana_key wallet, mint, token_program;
	struct solana_key account; /* the wallet's token account for the mint */
	uint8_t decimals;
	uint64_t unit_price; /* micro-lamports per compute unit; 0: no such instruction */
	uint32_t unit_limit; /* of an existing message; 0: it is computed */
	char memo[ADDRESS_MAX]; /* "": none */
	bool legacy;
	bool with_nonce; /* transactions use a durable nonce instead of a blockhash */
	struct solana_key nonce; /* the nonce account of the next message */
	/* what a mint of Token-2022 withholds: 1/10000, and at most */
	int64_t fee_bps, fee_max;
	bool new_frozen; /* and accounts that are created begin frozen */
};

/* Builds the message that pays list[0..n) with a blockhash. Returns 0, or -1 (65): an address
 * cannot be derived. */
int payplan_message(struct buf *out, const struct payer *p,
	const struct solana_key *blockhash, const struct owed *list, int n);

/* Builds the message that burns from the payer's account, or issues to it. */
int payplan_order(struct buf *out, const struct payer *p,
	const struct solana_key *blockhash, enum pay_action action, int64_t base_units);

/* Adopts from an existing message what an option may have changed since: its form, and the limit
 * and price of its compute units. Returns false if the price is more than any option allows. */
bool payplan_adopt(struct payer *p, const struct solana_parsed *m);

/* Returns the most that the mint withholds from the recipient of an amount. */
int64_t payplan_fee(const struct payer *p, int64_t base_units);

/* Returns how many of list[0..n) fit into the next transaction. One that is `alone` gets a
 * transaction by itself, one that is `held` gets none, and must not be at the front. *bytes:
 * size of the transaction. Returns -1 with err_set. */
int payplan_fit(const struct payer *p, const struct owed *list, int n, size_t *bytes);

#endif
