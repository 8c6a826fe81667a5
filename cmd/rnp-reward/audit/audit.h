/* audit.h - recomputes the sealed epochs of a ledger from the signed records of what nodes did,
 * and checks each transaction that paid them, down to its bytes and its signature. Uses ledger,
  * evidence, epoch, solana. */
#ifndef RNP_CMD_REWARD_AUDIT_AUDIT_H
#define RNP_CMD_REWARD_AUDIT_AUDIT_H

#include "cmd/rnp-reward/epoch/recompute.h"
#include "cmd/rnp-reward/evidence/evidence.h"
#include "cmd/rnp-reward/ledger/ledger.h"

/* Reports the result of a check; reason NULL: it is good. Returns 0, or -1 to stop. */
typedef int (*audit_fn)(void *ctx, const char *what, const char *reason);

struct audit {
	struct ledger *ledger;
	struct evidence evidence; /* its member claims must be true */
	struct opt_list files;    /* with records; each is read twice */
	const char *policy;       /* NULL: the one that each epoch names */
	const char *scores;       /* as given to usage --policy, or NULL */
	const json_t *published;  /* the rnp.epoch whose rewards are at hand, or NULL */
	struct recompute_hook rewards; /* compares them with the computed epoch */
	struct opt_list rpc; /* servers that are asked for signatures, or none */
	const char *ca;      /* file of the certificates to trust; NULL: the system's */
	audit_fn report;
	void *ctx;
};

/* Checks every epoch of the ledger that has times against the records: the claims in rnp.usage
 * records among them, field by field, then the claims and the row of the ledger. A difference
 * names the node or wallet, what is claimed, what the records give, and the last line of them
 * that it follows from. Returns 0, or -1: the records cannot be read. */
int audit_epochs(struct audit *a);

/* Checks every signed transaction of the ledger: the payer's signature over its bytes; that these
 * pay what was planned, to the accounts of those wallets, and do nothing else; and that a trusted
 * key has signed every epoch of which something was paid. With servers: that two of them (one, if
 * there is only one) know each finalised transaction as final. Returns 0, or -1. */
int audit_payouts(struct audit *a);

#endif
