/* payplan.h - packs payouts into transactions: how many fit, and the message that pays them.
 * Pure. */
#ifndef RNP_CMD_REWARD_PAYPLAN_H
#define RNP_CMD_REWARD_PAYPLAN_H

#include "cmd/rnp-reward/ledger_pay.h"
#include "cmd/rnp-reward/solana.h"
#include "common/base/buf.h"

#define PAYPLAN_PAYOUTS_MAX 24 /* per transaction; 1,232 bytes hold 20 */

/* The payer and the parameters of its transactions. */
struct payer {
	struct solana_key wallet, mint, token_program,
		account; /* account: the token account of wallet for mint */
	uint8_t decimals;
	uint64_t unit_price; /* micro-lamports per compute unit; 0: no such instruction */
	char memo[ADDRESS_MAX]; /* "": none */
	bool legacy;
};

/* Builds the message that pays list[0..n) with a blockhash. Returns 0, or -1 (65): an address
 * cannot be derived. */
int payplan_message(struct buf *out, const struct payer *p,
	const struct solana_key *blockhash, const struct owed *list, int n);

/* Returns how many of list[0..n) the next transaction takes: as many as fit, `alone` ones by
 * themselves, `held` ones never (they must not be at the front). *bytes: size of the
 * transaction. Returns -1 with err_set. */
int payplan_take(const struct payer *p, const struct owed *list, int n, size_t *bytes);

#endif
