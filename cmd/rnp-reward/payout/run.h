/* run.h - a run of rnp-reward pay: its state, and its stages. Uses ledger, rpc, plan. */
#ifndef RNP_CMD_REWARD_PAYOUT_RUN_H
#define RNP_CMD_REWARD_PAYOUT_RUN_H

#include "cmd/rnp-reward/ledger/payouts.h"
#include "cmd/rnp-reward/payout/plan.h"
#include "common/chain/rpc.h"
#include "common/cli/opt.h"
#include "common/record/key.h"

#define PAY_IN_FLIGHT_MAX 64
#define PAY_ROUNDS_MAX    20 /* how often payouts of expired transactions are planned anew */
#define PAY_DOUBTS_MAX    16 /* with so many nothing more is planned */

/* A transaction that may have failed. */
struct pay_doubt {
	int64_t id;
	char signature[LEDGER_SIGNATURE_MAX];
};

/* A wallet in a transaction that servers refuse, because its execution would fail. */
struct pay_refused {
	struct solana_key wallet;
	/* a bit for each that says so of the payment to this wallet; 0: none */
	uint32_t servers;
	char *reason; /* the first one's words, for the record; or NULL */
};

/* What a server says against a payment that counts as made. */
struct pay_denial {
	int64_t id;
	char text[200];
};

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
	bool allow_unfunded; /* wallets that nothing is known of on the chain are paid */
	bool shared;         /* the wallet pays for other ledgers, too */
	struct payer payer;
	struct rpc servers[PAY_SERVERS_MAX];
	int n;     /* servers that are asked */
	int given; /* servers that the user has given */
	char genesis[RPC_TEXT_MAX];
	int64_t poll_ms, timeout_ms;
	int in_flight_max;
	bool may_issue;     /* the payer is the mint's authority */
	int next_sender;    /* index of the server that sends the next transaction */
	uint32_t avoid;     /* bit per server that sends none if others can */
	uint32_t denied;    /* bit per server whose denials the user was warned of */
	struct buf denials; /* an array of struct pay_denial */
	struct buf hashes;  /* see hashes.c */
	/* transactions with a lower id are left to a later run; how many of these are in flight */
	int64_t behind;
	int nbehind;
	bool time_over;   /* the last error is that of pay_still_in_flight */
	int64_t first_tx; /* first transaction planned by this run; INT64_MAX: none yet */
	int64_t balance_before; /* of the payer before its first payout; -1: none is planned */
	int64_t first_payout; /* the transaction with that payout; INT64_MAX: none yet */
	int expired; /* transactions that have expired: their payouts are owed again */
	int unpaid;  /* whether some payouts failed or are held */
	/* signatures of transactions that a person has given up */
	const struct opt_list *given_up;
	/* transactions in flight that failed, as servers say: only a person's word ends them */
	struct pay_doubt doubts[PAY_IN_FLIGHT_MAX];
	int ndoubts;
	/* warnings that the user has seen: a bit for each server that no longer has old
	 * transactions; and that the wallet has paid something that is not in the ledger */
	uint32_t pruned;
	bool foreign_reported;
	/* transactions that somebody else has signed, each signature in RPC_SIGNATURE_MAX bytes */
	struct buf foreign_signatures;
	/* why a transaction does not end, for example which server alone contradicts the others;
	 * or "" */
	char last_error[400];
	/* the first reason that a server gave for rejecting a transaction; or "" */
	char rejection[300];
	struct pay_refused *refused;
	size_t nrefused;
};

/* --- run.c: what the stages share ----------------------------------------------------------- */

/* Returns the fields that all rnp.tx rows of a plan have; the caller owns it. */
json_t *pay_shared_fields(struct pay_run *run);

/* Sets the memo to the root of an epoch, as 44 characters. Returns 0, or -1. */
int pay_set_memo(struct pay_run *run, int64_t epoch);

/* Returns the first reason that a server gave for rejecting a transaction, as the end of a
 * sentence; or "". */
const char *pay_refusal(struct pay_run *run);

/* Sets the error EX_TEMPFAIL: the time is over, and n transactions are in flight. Returns -1. */
int pay_still_in_flight(struct pay_run *run, int n);

/* Notes that a server refuses a transaction, and whose payment fails as it says: after the error of
 * rpc_send, which stays. */
void pay_note_refused(struct pay_run *run, const struct ledger_tx *tx,
	const struct rpc *server);

/* Has wallets of refused payments paid alone, so that they stop nobody else; holds those of which
 * two servers (one, if there is only one) have said it. */
void pay_apply_refused(const struct pay_run *run, struct owed *list, size_t n);
void pay_release_refused(struct pay_run *run);

/* Sets the error EX_TEMPFAIL: transactions have expired in PAY_ROUNDS_MAX rounds. Returns -1. */
int pay_expire_again(struct pay_run *run);

/* --- burns.c: the records of --burn --------------------------------------------------------- */

/* Reads the file of burns, if there is one. Returns 0, or -1 naming the record. */
int pay_read_burns(struct pay_run *run);
void pay_release_burns(void);

/* Whether an order is a burn of that file. */
bool pay_has_burn(const struct ledger_order *o);

/* Computes what the memo of a burn has in the place of an epoch's root: it names the job only to
 * those who know it. */
void pay_burn_root(const struct ledger_order *o, unsigned char root[MERKLE_HASH_BYTES]);

/* Returns the id of the burn of that file whose memo has this, or NULL. */
const char *pay_find_burn(const unsigned char root[MERKLE_HASH_BYTES]);

/* Returns the time before which none of them can have been burned; 0: not known, INT64_MAX: there
 * are none. */
int64_t pay_burns_since(void);

/* Enters them into the ledger as orders, between store_begin and store_commit. Returns 0, or -1. */
int pay_add_burns(struct pay_run *run);

/* --- orders.c: burns and issues are carried out --------------------------------------------- */

/* Enters into the ledger what is to be burned and issued, and carries it out. An order whose
 * transaction expires is planned again. Returns 0, or -1. */
int pay_carry_out(struct pay_run *run);

/* Checks the transactions that are planned and not signed: they pay claims of epochs that are
 * signed, burn what a record of the file says, issue what an epoch claims. Returns 0, or -1: 65. */
int pay_check_planned(struct pay_run *run);

/* --- preflight.c: what servers say before anything is signed -------------------------------- */

/* Drops the servers of another cluster and those that do not answer. Returns 0, or -1: 65 none
 * is of the cluster, 69 too few answer. */
int pay_check_servers(struct pay_run *run);

/* Looks up the mint's program and decimals and the payer's account, as two servers report them
 * (one, if there is only one). Returns 0, or -1 naming the fault. */
int pay_check_payer(struct pay_run *run, int64_t *balance);

/* Looks up the accounts of all wallets, and sets which must be created, and which cannot be paid
 * (held). Returns 0, or -1. */
int pay_check_wallets(struct pay_run *run, struct owed *list, size_t n);

/* Compares the final balances with those before, as a second and independent check: the payer must
 * have less than run->balance_before by what the ledger has paid since. Returns 1 if so; 0 with a
 * warning: something else has moved its tokens, or servers lie; or -1. A wallet that has too little
 * causes only a warning, since it may have spent the tokens. */
int pay_check_balances(struct pay_run *run, const struct owed *list, size_t n,
	int64_t paid);

/* Reads the value of a nonce account that authority controls. Returns false if it is none. */
bool pay_read_nonce(const struct rpc_account *a, const struct solana_key *authority,
	struct solana_key *value);

/* Gets the value of a nonce account, as two servers report it. Returns 0, or -1. */
int pay_check_nonce(struct pay_run *run, const char *address, struct solana_key *value);

/* --- past.c: payments that the ledger does not have ----------------------------------------- */

/* Searches the chain for payments that the ledger does not have, or has given up. If there is
 * one, the ledger is an older copy or was changed, and would pay twice. Such payments are: of an
 * epoch of this ledger; of an epoch that is not in it, since an epoch that is sealed anew may
 * have another root (with run->shared only a warning); a burn of --burn. Every server is asked,
 * and the answer of one suffices: it cannot invent a payment, since the payer's signature is
 * checked, and what one hides another shows. Call it after pay_check_payer, before anything is
 * planned or signed. Returns 0, or -1: 65 naming the transaction; 69 too few servers answer, or
 * have old transactions; 75 no server shows the bytes of a payment. */
int pay_check_past(struct pay_run *run);

/* Waits until no transaction with a recent blockhash of before this call can land any more:
 * another copy of the ledger may have signed one that no server knows yet. Returns 0, or -1: 75. */
int pay_settle(struct pay_run *run);

/* --- sign.c: the signature ---------------------------------------------------------------- */

/* Signs a message with the key, or asks the signer, which gets the message in words, too. The
 * signature is checked. Returns 0, or -1: 65 the signer's answer is no signature of the payer, 75
 * it refuses or does not answer in time. */
int pay_sign(struct pay_run *run, const void *message, size_t len,
	unsigned char signature[SOLANA_SIGNATURE_BYTES]);

/* --- answers.c: where servers differ -------------------------------------------------------- */

/* Writes the servers' block heights to last_error; claimed: until which a blockhash is good. */
void pay_format_heights(struct pay_run *run, const int64_t *heights, int64_t claimed);

/* Writes what each server says of a transaction to last_error, if they do not say the same. */
void pay_format_answers(struct pay_run *run, const struct ledger_tx *tx,
	const struct pay_view *v);

/* Notes the servers that call a transaction failed which more than half call final, and warns of
 * each once. */
void pay_note_denials(struct pay_run *run, const struct ledger_tx *tx,
	const struct pay_view *v);

/* Returns which server denies a payment of this run that counts as made, in words; or NULL. */
const char *pay_denied(const struct pay_run *run, int64_t tx);

/* --- hashes.c: whether blockhashes have gone ------------------------------------------------- */

/* Watches the blockhash of a transaction from now on, if any server's finalised height is far below
 * its last valid one; from where an earlier run has left it. Returns 0, or -1. */
int pay_watch_hash(struct pay_run *run, const struct ledger_tx *tx,
	const struct pay_view *v);

/* Asks a server about all blockhashes that are watched; one that does not answer has said
 * nothing. Notes in the ledger when one is good. Returns 0, or -1: the ledger cannot be written. */
int pay_ask_hashes(struct pay_run *run, int server);

/* Whether this server has seen the blockhash of a transaction go. */
bool pay_hash_gone(const struct pay_run *run, int server, const struct ledger_tx *tx);

/* --- flight.c: what is in flight --------------------------------------------------------- */

/* Signs planned transactions, sends signed ones, and follows sent ones, until none is in flight
 * or the time is over (75). */
int pay_follow(struct pay_run *run);

/* Does one round of that; *left: how many transactions are still in flight, those in run->doubts
 * and those that are left to a later run not counted. Returns 0, or -1. */
int pay_round(struct pay_run *run, int *left);

/* Whether a transaction is in run->doubts. */
bool pay_doubts(const struct pay_run *run, int64_t tx);

/* Checks that each signature that a person has given up is that of a transaction in flight, or of
 * one that is over. Returns 0, or -1: 65. */
int pay_check_given_up(struct pay_run *run);

#endif
