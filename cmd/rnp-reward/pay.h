/* pay.h - declarations that the files of rnp-reward pay share. */
#ifndef RNP_CMD_REWARD_PAY_H
#define RNP_CMD_REWARD_PAY_H

#include "cmd/rnp-reward/ledger_pay.h"
#include "cmd/rnp-reward/payplan.h"
#include "cmd/rnp-reward/rpc.h"
#include "common/cli/opt.h"
#include "common/record/key.h"

#define PAY_IN_FLIGHT_MAX 64
#define PAY_ROUNDS_MAX    20 /* rounds in which what has expired is planned again */

struct pay_run {
	struct ledger *ledger;
	struct key *key;        /* NULL: a signer outside of this program */
	const char *signer;     /* its command */
	struct opt_list nonces; /* accounts; none: recent blockhashes */
	const char *token;      /* of the epochs that are paid */
	const struct opt_list *trust;
	int need;          /* how many of trust must have signed an epoch */
	const char *burns; /* file of rnp.burn records, or NULL */
	bool issue;
	bool shared; /* other ledgers are paid from the wallet, too */
	struct payer payer;
	struct rpc servers[PAY_SERVERS_MAX];
	int n;
	char genesis[RPC_TEXT_MAX];
	int64_t poll_ms, timeout_ms;
	int in_flight_max;
	bool may_issue;   /* the payer is the mint's authority */
	int turn;         /* the server that sends next */
	int64_t first_tx; /* first transaction planned by this run; INT64_MAX: none yet */
	int64_t had; /* base units of the payer before the first payout; -1: none planned */
	int64_t paid_from; /* the transaction of that payout */
	int expired; /* transactions that have expired: what they paid is owed again */
	int unpaid;  /* payouts that failed or are refused */
	/* what the user was told: of each server (a bit) that it does not know enough; that the wallet has paid what
	 * is not in the ledger */
	uint32_t forgetful;
	bool strange_told;
	/* signatures of the past that are certainly not the payer's, each in RPC_SIGNATURE_MAX bytes */
	struct buf strangers;
	/* what keeps a transaction from its end, such as the one server that contradicts the others; or "" */
	char blame[200];
	/* what a server said first when it did not take a transaction: the reason, if it does not lie; or "" */
	char refused[300];
};

/* --- pay_orders.c: burns and issues, and what is planned ---------------------------------------- */

/* Reads the file of burns, if there is one. Returns 0, or -1 naming the record. */
int pay_read_burns(struct pay_run *run);
void pay_release_burns(void);

/* Returns the burn of that file which has this in its memo, or NULL. */
const char *pay_find_burn(const unsigned char root[MERKLE_HASH_BYTES]);

/* Returns since when those may have been burned; 0: not known, INT64_MAX: there are none. */
int64_t pay_burns_since(void);

/* Enters what is to be burned and issued, and carries it out; what expires is open again. */
int pay_carry_out(struct pay_run *run);

/* Checks that what is planned and not signed pays claims of epochs that are signed, burns what a record of the file
 * says, issues what an epoch claims. Returns 0, or -1: 65. */
int pay_check_planned(struct pay_run *run);

/* Returns the fields that all rnp.tx rows of a plan have; the caller owns it. */
json_t *pay_shared_fields(struct pay_run *run);

/* Sets the memo to the root of an epoch, as 44 characters. Returns 0, or -1. */
int pay_set_memo(struct pay_run *run, int64_t epoch);

/* Returns -1, with EX_TEMPFAIL: PAY_ROUNDS_MAX rounds have expired. */
int pay_expire_again(struct pay_run *run);

/* Returns what a server said first when it did not take a transaction, as the end of a sentence; "": none did. */
const char *pay_refusal(struct pay_run *run);

/* --- pay_look.c: what servers say before anything is signed ---------------------------------- */

/* Ignores servers of another cluster and those that do not answer. Returns 0, or -1: 65 none is
 * of the cluster, 69 too few answer. */
int pay_check_servers(struct pay_run *run);

/* Looks up the mint's program and decimals and the payer's account, as two servers report them
 * (one, if there is only one). Returns 0, or -1 naming the fault. */
int pay_check_payer(struct pay_run *run, int64_t *balance);

/* Looks up the accounts of all wallets: which must be created, and which cannot be paid (held). */
int pay_check_wallets(struct pay_run *run, struct owed *list, size_t n);

/* Holds what servers call final against the balances before and after, which is a second and
 * independent check: the payer must have as much less as the ledger paid since run->had. Returns 1
 * if so; 0 with a warning: something else has moved its tokens, or servers lie; -1. Of wallets it
 * warns only, since they may spend what they got. */
int pay_check_balances(struct pay_run *run, const struct owed *list, size_t n,
	int64_t paid);

/* Reads the value of a nonce account that authority controls. Returns false if it is none. */
bool pay_read_nonce(const struct rpc_account *a, const struct solana_key *authority,
	struct solana_key *value);

/* Gets the value of a nonce account, as two servers report it. Returns 0, or -1. */
int pay_check_nonce(struct pay_run *run, const char *address, struct solana_key *value);

/* --- pay_past.c: what the ledger does not know --------------------------------------------------- */

/* Looks on the chain for payments of epochs of this ledger that the ledger does not have, or has given up: it is a
 * copy of before them, or was changed, and would pay again. Every server is asked, and one that tells of such a
 * payment suffices: no server can make one up, since the payer's signature of it is checked. What a server hides,
 * another tells. A payment for an epoch that is not in the ledger is one, too: sealed again, an epoch may have another
 * root; with run->shared it is warned of. A burn of --burn that the ledger does not have is one, too. Call it after
 * pay_check_payer, before anything is planned or signed. Returns 0, or -1: 65 naming the transaction, 69 too few servers
 * answer, or know what is old enough. */
int pay_check_past(struct pay_run *run);

/* Waits until nothing can land that was signed before with a recent blockhash, whoever has signed it: another copy of
 * the ledger may have, a moment ago, of which no server can tell yet. Returns 0, or -1: 75. */
int pay_settle(struct pay_run *run);

/* --- pay_sign.c: the signature ---------------------------------------------------------------- */

/* Signs a message with the key, or has the signer do it, which is told the message in words. The
 * signature is checked. Returns 0, or -1: 65 the signer's answer is no signature of the payer, 75
 * it refuses or does not answer in time. */
int pay_sign(struct pay_run *run, const void *message, size_t len,
	unsigned char signature[SOLANA_SIGNATURE_BYTES]);

/* --- pay_flight.c: what is in flight --------------------------------------------------------- */

/* Signs planned transactions, sends signed ones, and follows sent ones, until none is in flight
 * or the time is over (75). */
int pay_follow(struct pay_run *run);

/* Does one round of that; *left: how many transactions have not ended. */
int pay_round(struct pay_run *run, int *left);

#endif
