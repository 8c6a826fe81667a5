/* payouts.h - payouts in the ledger: which claims are in which transaction, and its state.
 *
 * Every step of a transaction is a row of the chain (rnp.tx); the tables tx and payout follow from
 * those rows. A claim is owed, in flight with one transaction, or paid. Uses ledger, paystate. */
#ifndef RNP_CMD_REWARD_LEDGER_PAYOUTS_H
#define RNP_CMD_REWARD_LEDGER_PAYOUTS_H

#include "cmd/rnp-reward/ledger/ledger.h"
#include "cmd/rnp-reward/chain/paystate.h"
#include "common/chain/solana.h"
#include "common/base/address.h"

#define LEDGER_SIGNATURE_MAX 96 /* base58 of 64 bytes */
#define LEDGER_ORDER_MAX     512 /* "burn ", a job of 120 characters of UTF-8, and the NUL */

/* How much a wallet is owed by epochs that may be paid. */
struct owed {
	struct solana_key wallet;
	int64_t base_units;
	int64_t balance_before; /* for the planner: base units in its account before */
	bool alone;   /* it was in a transaction that failed, so it gets one by itself */
	bool refused; /* a transaction for it alone has failed */
	bool create;  /* for the planner: its account must be created */
	const char *held; /* for the planner: why it is not paid now, or NULL */
};

/* What a transaction does. */
enum pay_action { ACTION_PAY, ACTION_BURN, ACTION_MINT, ACTIONS };
extern const char *const pay_action_names[ACTIONS];

/* A transaction of the ledger. */
struct ledger_tx {
	int64_t id;
	enum pay_action action;
	enum pay_status status;
	int64_t base_units;
	int npayouts;
	char signature[LEDGER_SIGNATURE_MAX]; /* "" before it is signed */
	/* of the message, while it is planned and `asked` */
	unsigned char bytes[SOLANA_TX_BYTES_MAX];
	size_t len;
	int64_t last_valid;
	/* the server that it is sent to: peer.name, or in older ledgers its URL */
	char sender[400];
	char nonce[ADDRESS_MAX]; /* the nonce account that it uses, or "" */
	bool asked; /* the signer has got, or will get, the message with this blockhash */
	struct solana_key blockhash;
};

/* Tokens that are burned for a job, or issued for the claims of an epoch; once. */
struct ledger_order {
	char id[LEDGER_ORDER_MAX];
	enum pay_action action;
	int64_t base_units;
};

/* Lists what wallets are owed by the epochs in `epochs` (rows), in the order of the wallets.
 * The caller frees *out. Returns how many, or -1. */
long ledger_owed(struct ledger *l, const int64_t *epochs, size_t n, struct owed **out);

/* Lists the rows of epochs of a token that may be paid: at least `need` trusted parties have
 * signed or co-signed them. The caller frees *out. Returns how many, or -1. */
long ledger_payable(struct ledger *l, const char *token, const struct opt_list *trusted,
	int need, int64_t **out);

/* Adds an order. If there is one with its id already, it must be the same. Returns 0, or -1: 65. */
int ledger_add_order(struct ledger *l, const struct ledger_order *o);

/* Lists the orders that are in no transaction. The caller frees *out. Returns how many, or -1. */
long ledger_open_orders(struct ledger *l, struct ledger_order **out);

/* Reads an order from its columns id, action and base_units, the first of which is `at`. */
void ledger_read_order(sqlite3_stmt *q, int at, struct ledger_order *out);

/* Calls fn for the orders whose transactions are planned and not signed. Returns 0, or -1: fn's
 * error, or 65: a transaction differs from its order. */
typedef int (*ledger_order_fn)(void *ctx, const struct ledger_order *o);
int ledger_each_planned(struct ledger *l, ledger_order_fn fn, void *ctx);

/* Checks that an order issues exactly what one of these n epochs claims, and that these claims
 * are what was signed. Returns 0, or -1: 65. */
int ledger_check_issue(struct ledger *l, const struct ledger_order *o,
	const int64_t *epochs, long n);

/* Checks that no claim is owed, and no order open, that a transaction of the ledger pays or
 * carries out already. Returns 0, or -1: 65. */
int ledger_check_done(struct ledger *l);

/* Plans a transaction that carries out an order, in one commit. Returns its id, or -1. */
int64_t ledger_plan_order(struct ledger *l, const struct ledger_order *o,
	const json_t *record, int64_t now_ms);

/* Stores the message of a planned transaction (its bytes) with its blockhash or nonce, in one
 * commit, before the signer gets it: whatever happens, the same message is signed later.
 * tx->asked false: removes it. Returns 0, or -1. */
int ledger_store_message(struct ledger *l, const struct ledger_tx *tx);

/* Plans a transaction that pays these wallets all that the epochs owe them, in one commit.
 * record is an rnp.tx with the fields common to all (payer, mint, genesis, memo). Returns its
 * id, or -1. */
int64_t ledger_plan(struct ledger *l, const int64_t *epochs, size_t nepochs,
	const struct owed *list, int n, const json_t *record, int64_t now_ms);

/* Moves a transaction to another state, between store_begin and store_commit. record holds what
 * belongs to the step (signature and bytes, the reason of a failure) or is NULL; borrowed.
 * Returns 0, or -1. */
int ledger_move(struct ledger *l, const struct ledger_tx *tx, enum pay_status to,
	const json_t *record, int64_t now_ms);

/* Whether a transaction of the ledger already has this signature: then it was made with the
 * same blockhash, which has expired by now. Returns 1, 0, or -1. */
int ledger_has_signature(struct ledger *l, const char *signature);

/* Returns the state of the transaction with this signature, -1: there is none; -2 with err_set. */
int ledger_find_tx(struct ledger *l, const char *signature, int64_t *id);

/* Gets the signature of the newest finalised transaction from before a moment, and its time; "":
 * there is none. Returns 0, or -1. */
int ledger_old_signature(struct ledger *l, int64_t before_ms,
	char out[LEDGER_SIGNATURE_MAX], int64_t *at_ms);

/* The epochs of a ledger by their roots. */
struct ledger_root {
	unsigned char root[MERKLE_HASH_BYTES];
	int64_t sequence;
	bool payable; /* false: imported without its claims */
};
struct ledger_roots {
	struct ledger_root *list; /* in the order of the roots */
	size_t n;
	/* the earliest time at which a payable epoch begins or was signed; INT64_MAX: none is
	 * payable */
	int64_t first_ms;
	int64_t first_sequence; /* of the first payable epoch */
};
/* Reads the roots; the caller frees out->list. Returns 0, or -1. */
int ledger_read_roots(struct ledger *l, struct ledger_roots *out);

/* Returns the epoch with this root, or NULL. */
const struct ledger_root *ledger_find_root(const struct ledger_roots *roots,
	const unsigned char root[MERKLE_HASH_BYTES]);

/* Whether a transaction of the ledger has used a nonce account with this value. Returns 1, 0, or
 * -1. */
int ledger_used_nonce(struct ledger *l, const char *nonce,
	const struct solana_key *value);

/* Lists the transactions that have not ended, in order; at most max. Returns how many, or -1. */
int ledger_in_flight(struct ledger *l, struct ledger_tx *out, int max);

/* Reads the wallets of a transaction, in order, into out, which has max entries. Returns how
 * many, or -1. */
int ledger_payouts(struct ledger *l, int64_t tx, struct owed *out, int max);

/* Returns the last rnp.tx that was planned, or NULL; the caller owns it. Later ones must have
 * its payer, mint and genesis. */
json_t *ledger_last_plan(struct ledger *l);

/* Returns the base units of the payouts that were planned since a moment and have not failed or
 * expired; -1 with err_set. */
int64_t ledger_spent_since(struct ledger *l, int64_t since_ms);

/* Returns the same for the transactions from a number on, without what payer (NULL: nobody) pays to
 * itself. */
int64_t ledger_spent_from(struct ledger *l, int64_t first_tx,
	const struct solana_key *payer);

/* Called with a payout and its transaction. Returns 0, or -1 to stop. */
typedef int (*ledger_payout_fn)(void *ctx, const struct owed *payout,
	const struct ledger_tx *tx);

/* Calls fn for all payouts of the ledger, in order. Returns 0, or -1. */
int ledger_each_payout(struct ledger *l, ledger_payout_fn fn, void *ctx);

/* Calls fn for all burns and issues, with an empty payout; the amount is tx->base_units. Returns
 * 0, or -1. */
int ledger_each_order(struct ledger *l, ledger_payout_fn fn, void *ctx);

/* Checks the tables against the rows and the claims: see ledger_verify, which calls it. */
int ledger_verify_payouts(struct ledger *l, struct buf *reason);

#endif
