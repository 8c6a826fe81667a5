/* preflight.c - checks the cluster, the mint, the payer and the wallets with the servers, before
 * anything is signed. */
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "cmd/rnp-reward/payout/run.h"
#include "common/base/err.h"
#include "common/cli/prog.h"

/* Offsets in the accounts of both token programs. */
#define MINT_DECIMALS 44
#define MINT_READY    45
#define MINT_BYTES    82
#define ACCOUNT_MINT  0
#define ACCOUNT_OWNER 32
#define ACCOUNT_SUM   64
#define ACCOUNT_STATE 108
#define ACCOUNT_BYTES 165

enum { STATE_INITIALISED = 1, STATE_FROZEN = 2 };

/* A mint of Token-2022 is padded to the size of an account; its extensions follow. */
#define EXTENSIONS 166
enum {
	EXTENSION_FEE = 1,
	EXTENSION_CONFIDENTIAL = 5, /* of an account */
	EXTENSION_NEW_STATE = 6,
	EXTENSION_MEMO = 8, /* of an account */
	EXTENSION_NO_TRANSFER = 9,
	EXTENSION_HOOK = 14,
	EXTENSION_PAUSE = 26
};
/* whether a confidential account takes amounts that all can read */
#define TAKES_OPEN 262
#define FEE_BYTES  108
#define FEE_OLDER  72 /* its epoch, maximum and rate, in 1/10000 */
#define FEE_NEWER  90

/* A nonce account of the system program. */
#define NONCE_BYTES     80
#define NONCE_CURRENT   1 /* the version; transactions with a legacy nonce no longer land */
#define NONCE_AUTHORITY 8
#define NONCE_VALUE     40

static int quorum(const struct pay_run *run)
{
	return run->n < PAY_QUORUM ? run->n : PAY_QUORUM;
}

/* --- servers -------------------------------------------------------------------------------- */

static void drop_server(struct pay_run *run, int i)
{
	rpc_release(&run->servers[i]);
	run->n--;
	memmove(&run->servers[i], &run->servers[i + 1],
		(size_t)(run->n - i) * sizeof *run->servers);
}

int pay_check_servers(struct pay_run *run)
{
	int asked = run->n, foreign = 0;
	char genesis[RPC_TEXT_MAX];

	for (int i = 0; i < run->n;) {
		bool answered = rpc_genesis(&run->servers[i], genesis) == 0;

		int same = rpc_find_same(run->servers, i, &run->servers[i]);

		if (answered && same < 0 && strcmp(genesis, run->genesis) == 0) {
			i++;
			continue;
		}
		if (answered && same >= 0)
			prog_warn(
				"%s: is the server of %s, and not a second one: left out",
				run->servers[i].peer.name, run->servers[same].peer.name);
		else if (answered)
			prog_warn("%s: is of another cluster (genesis %s): left out",
				run->servers[i].peer.name, genesis);
		else
			prog_warn("%s: left out", err_get()->text);
		err_clear();
		foreign += answered && same < 0;
		drop_server(run, i);
	}
	if (!run->n && foreign)
		return err_set(EX_DATAERR, "no server is of the cluster with genesis %s",
			run->genesis);
	if (run->n < (asked < PAY_QUORUM ? asked : PAY_QUORUM))
		return err_set(EX_UNAVAILABLE, "only %d of %d servers can be used",
			run->n, asked);
	return 0;
}

/* --- accounts on which servers agree -------------------------------------------------------- */

static bool same_account(const struct rpc_account *a, const struct rpc_account *b)
{
	return a->exists == b->exists && a->executable == b->executable &&
		memcmp(&a->program, &b->program, sizeof a->program) == 0 &&
		a->len == b->len && memcmp(a->data, b->data, a->len) == 0;
}

struct replies {
	struct rpc_account got[PAY_SERVERS_MAX][RPC_BATCH_MAX];
	bool answered[PAY_SERVERS_MAX];
};

static int ask_all(struct pay_run *run, const char *commitment,
	const struct solana_key *keys, int n, struct replies *replies)
{
	int answers = 0;

	for (int i = 0; i < run->n; i++) {
		replies->answered[i] = rpc_accounts(&run->servers[i], commitment, keys, n,
					       replies->got[i]) == 0;
		answers += replies->answered[i];
		if (!replies->answered[i])
			prog_warn("%s", err_get()->text);
		err_clear();
	}
	return answers >= quorum(run) ?
		0 :
		err_set(EX_UNAVAILABLE, "only %d of %d servers tell of accounts", answers,
			run->n);
}

/* Returns the account on which a quorum agrees, or NULL. */
static const struct rpc_account *agreed(const struct pay_run *run,
	const struct replies *replies, int k)
{
	for (int i = 0; i < run->n; i++) {
		int votes = 0;

		for (int j = 0; j < run->n && replies->answered[i]; j++)
			votes += replies->answered[j] &&
				same_account(&replies->got[i][k], &replies->got[j][k]);
		if (votes >= quorum(run))
			return &replies->got[i][k];
	}
	return NULL;
}

static uint64_t amount_of(const struct rpc_account *a)
{
	return solana_number(a->data + ACCOUNT_SUM, 8);
}

/* Returns why a token account cannot be used for this wallet and mint, or NULL. */
static const char *why_no_account(const struct rpc_account *a, const struct payer *p,
	const struct solana_key *wallet)
{
	if (memcmp(&a->program, &p->token_program, sizeof a->program) != 0 ||
		a->len < ACCOUNT_BYTES)
		return "its associated account is no token account";
	if (memcmp(a->data + ACCOUNT_MINT, &p->mint, SOLANA_KEY_BYTES) != 0)
		return "its associated account is of another mint";
	if (memcmp(a->data + ACCOUNT_OWNER, wallet, SOLANA_KEY_BYTES) != 0)
		return "its associated account belongs to another wallet";
	if (a->data[ACCOUNT_STATE] == STATE_FROZEN)
		return "its associated account is frozen";
	return a->data[ACCOUNT_STATE] == STATE_INITIALISED ?
		NULL :
		"its associated account is not ready";
}

/* Returns the content of an extension, which has at least so many bytes; NULL: it has none. */
static const unsigned char *extension(const struct rpc_account *a, int type, size_t least)
{
	for (size_t at = EXTENSIONS; at + 4 <= a->len;) {
		int has = (int)solana_number(a->data + at, 2);
		size_t len = (size_t)solana_number(a->data + at + 2, 2);

		at += 4;
		if (!has || len > a->len - at)
			return NULL;
		if (has == type)
			return len >= least ? a->data + at : NULL;
		at += len;
	}
	return NULL;
}

/* Returns why a wallet's account takes no plain transfer, or NULL. Its owner can set both at any
 * time. What else he can set hinders no transfer to him: a guard against other programs (CpiGuard)
 * looks at what he sends. */
static const char *why_not_taken(const struct rpc_account *a)
{
	const unsigned char *memo = extension(a, EXTENSION_MEMO, 1);
	const unsigned char *confidential = extension(a, EXTENSION_CONFIDENTIAL,
		TAKES_OPEN + 1);

	if (memo && *memo)
		return "its associated account requires a memo with each transfer: its owner has "
		       "to switch that off";
	return confidential && !confidential[TAKES_OPEN] ?
		"its associated account takes only confidential transfers: its owner has to "
		"switch that off" :
		NULL;
}

/* --- the mint ------------------------------------------------------------------------------- */

/* Reads the fee. A mint has two, one for the epochs before a certain one and one from it on; the
 * greater of each number counts, since the cluster's epoch is not known here. */
static void read_fee(struct payer *p, const unsigned char *data)
{
	static const int at[2] = { FEE_OLDER, FEE_NEWER };

	for (int i = 0; i < 2; i++) {
		uint64_t most = solana_number(data + at[i] + 8, 8);
		int64_t bps = (int64_t)solana_number(data + at[i] + 16, 2);

		p->fee_max = most > INT64_MAX      ? INT64_MAX :
			(int64_t)most > p->fee_max ? (int64_t)most :
						     p->fee_max;
		p->fee_bps = bps > p->fee_bps ? bps : p->fee_bps;
	}
}

/* Reads what extensions of a mint mean for payments. Returns 0, or -1: its tokens cannot be paid
 * by a plain transfer (65), or not now (75). */
static int read_extensions(struct payer *p, const struct rpc_account *mint)
{
	const unsigned char *fee = extension(mint, EXTENSION_FEE, FEE_BYTES),
			    *hook = extension(mint, EXTENSION_HOOK, 64),
			    *pause = extension(mint, EXTENSION_PAUSE, 33),
			    *state = extension(mint, EXTENSION_NEW_STATE, 1);

	if (extension(mint, EXTENSION_NO_TRANSFER, 0))
		return err_set(EX_DATAERR, "the mint's tokens cannot be transferred");
	/* a hook without a program does nothing */
	if (hook && solana_number(hook + 32, 8))
		return err_set(EX_DATAERR,
			"the mint has a transfer hook: a program of others "
			"would run with each payment");
	if (pause && pause[32])
		return err_set(EX_TEMPFAIL,
			"the mint is paused: nobody can transfer its tokens until its "
			"authority resumes it");
	p->new_frozen = state && *state == STATE_FROZEN;
	p->fee_bps = p->fee_max = 0;
	if (fee)
		read_fee(p, fee);
	return 0;
}

/* --- the payer ------------------------------------------------------------------------------ */

static int check_mint(struct pay_run *run, const struct rpc_account *mint)
{
	struct payer *p = &run->payer;

	if (!mint)
		return err_set(EX_UNAVAILABLE, "no two servers agree about the mint");
	if (!mint->exists)
		return err_set(EX_DATAERR, "there is no such mint in this cluster");
	if (memcmp(&mint->program, solana_program(SOLANA_TOKEN), SOLANA_KEY_BYTES) != 0 &&
		memcmp(&mint->program, solana_program(SOLANA_TOKEN_2022),
			SOLANA_KEY_BYTES) != 0)
		return err_set(EX_DATAERR, "the mint belongs to no token program");
	if (mint->len < MINT_BYTES || mint->data[MINT_READY] != 1)
		return err_set(EX_DATAERR, "what --mint names is not a mint");
	if (mint->data[MINT_DECIMALS] != p->decimals)
		return err_set(EX_DATAERR,
			"the mint has %d decimals, the ledger's amounts have %d",
			mint->data[MINT_DECIMALS], p->decimals);
	p->token_program = mint->program;
	if (read_extensions(p, mint) < 0)
		return -1;
	/* the mint's authority: a flag of 4 bytes and the key */
	run->may_issue = solana_number(mint->data, 4) == 1 &&
		memcmp(mint->data + 4, &p->wallet, SOLANA_KEY_BYTES) == 0;
	return solana_associated(&p->wallet, &p->token_program, &p->mint, &p->account) <
			0 ?
		err_set(EX_DATAERR, "the payer has no associated account") :
		0;
}

int pay_check_payer(struct pay_run *run, int64_t *balance)
{
	static struct replies replies;
	const struct rpc_account *account;
	const char *why;
	char text[ADDRESS_MAX];

	if (ask_all(run, "confirmed", &run->payer.mint, 1, &replies) < 0 ||
		check_mint(run, agreed(run, &replies, 0)) < 0 ||
		ask_all(run, "confirmed", &run->payer.account, 1, &replies) < 0)
		return -1;
	account = agreed(run, &replies, 0);
	address_format(run->payer.wallet.bytes, text);
	if (!account)
		return err_set(EX_UNAVAILABLE,
			"no two servers agree about the payer's account");
	if (!account->exists)
		return err_set(EX_DATAERR,
			"wallet %s, whose keypair this is, has no account for the mint",
			text);
	why = why_no_account(account, &run->payer, &run->payer.wallet);
	if (why)
		return err_set(EX_DATAERR, "wallet %s: %s", text, why);
	*balance = amount_of(account) > INT64_MAX ? INT64_MAX :
						    (int64_t)amount_of(account);
	return 0;
}

/* --- nonces --------------------------------------------------------------------------------- */

bool pay_read_nonce(const struct rpc_account *a, const struct solana_key *authority,
	struct solana_key *value)
{
	if (!a || !a->exists || a->len < NONCE_BYTES ||
		memcmp(&a->program, solana_program(SOLANA_SYSTEM), sizeof a->program) !=
			0 ||
		solana_number(a->data, 4) != NONCE_CURRENT ||
		solana_number(a->data + 4, 4) != 1 ||
		memcmp(a->data + NONCE_AUTHORITY, authority, SOLANA_KEY_BYTES) != 0)
		return false;
	memcpy(value, a->data + NONCE_VALUE, SOLANA_KEY_BYTES);
	return true;
}

int pay_check_nonce(struct pay_run *run, const char *address, struct solana_key *value)
{
	static struct replies replies;
	const struct rpc_account *account;
	struct solana_key key;

	if (address_parse(address, "--nonce", key.bytes) < 0 ||
		ask_all(run, "finalized", &key, 1, &replies) < 0)
		return -1;
	account = agreed(run, &replies, 0);
	if (!account)
		return err_set(EX_TEMPFAIL, "no two servers agree about nonce account %s",
			address);
	return pay_read_nonce(account, &run->payer.wallet, value) ?
		0 :
		err_set(EX_DATAERR, "%s is not a nonce account that the payer controls",
			address);
}

/* --- wallets -------------------------------------------------------------------------------- */

/* Sets whether a wallet's account must be created, and why it cannot be paid, if so. Idempotent
 * creation does no harm if the account exists, so it is omitted only if two servers agree that
 * it does. */
static void account_status(const struct pay_run *run, const struct rpc_account *a,
	struct owed *o)
{
	o->create = !a || !a->exists;
	o->balance_before = a && a->exists && amount_of(a) <= INT64_MAX ?
		(int64_t)amount_of(a) :
		0;
	if (!o->create && !o->held)
		o->held = why_no_account(a, &run->payer, &o->wallet);
	if (!o->create && !o->held)
		o->held = why_not_taken(a);
	if (o->create && !o->held && run->payer.new_frozen)
		o->held =
			"the mint freezes new accounts: its freeze authority has to thaw the "
			"wallet's account first";
}

/* Sets why tokens that are sent to the address would be lost, if so: what a token account's, a
 * mint's or a program's address has, nobody can ever move. An address of which the chain has
 * nothing, neither an account nor one for the token, may be mistyped. */
static void address_status(const struct pay_run *run, const struct rpc_account *a,
	struct owed *o)
{
	if (o->held)
		return;
	if (!a)
		o->held = "the servers do not agree about its account";
	else if (a->exists)
		o->held = rpc_why_no_wallet(a);
	else if (o->create && !run->allow_unfunded)
		o->held =
			"it is not funded: it has neither SOL nor an account for the token "
			"(--allow-unfunded-recipient)";
}

/* Looks up list[0..m), which fit one question. */
static int check_some(struct pay_run *run, struct owed *list, int m)
{
	static struct replies replies;
	struct solana_key keys[RPC_BATCH_MAX] = { 0 };

	for (int k = 0; k < m; k++) {
		/* nobody can have the key of an address off the curve */
		if (!solana_on_curve(&list[k].wallet) && !list[k].held)
			list[k].held = "it is not on the curve: no keypair can use it";
		if (solana_associated(&list[k].wallet, &run->payer.token_program,
			    &run->payer.mint, &keys[k]) < 0)
			return err_set(EX_DATAERR, "a wallet has no associated account");
	}
	if (ask_all(run, "confirmed", keys, m, &replies) < 0)
		return -1;
	for (int k = 0; k < m; k++) {
		account_status(run, agreed(run, &replies, k), &list[k]);
		keys[k] = list[k].wallet;
	}
	if (ask_all(run, "confirmed", keys, m, &replies) < 0)
		return -1;
	for (int k = 0; k < m; k++)
		address_status(run, agreed(run, &replies, k), &list[k]);
	return 0;
}

int pay_check_wallets(struct pay_run *run, struct owed *list, size_t n)
{
	for (size_t start = 0; start < n; start += RPC_BATCH_MAX)
		if (check_some(run, list + start,
			    n - start < RPC_BATCH_MAX ? (int)(n - start) :
							RPC_BATCH_MAX) < 0)
			return -1;
	return 0;
}

/* --- afterwards ----------------------------------------------------------------------------- */

static int check_source(struct pay_run *run, int64_t paid)
{
	static struct replies replies;
	const struct rpc_account *account;

	if (ask_all(run, "finalized", &run->payer.account, 1, &replies) < 0)
		return -1;
	account = agreed(run, &replies, 0);
	if (!account)
		return err_set(EX_TEMPFAIL,
			"no two servers agree about the payer's account after the payments");
	if (account->exists &&
		amount_of(account) == (uint64_t)(run->balance_before - paid))
		return 1;
	prog_warn("the paying wallet had %" PRId64 " base units, has paid %" PRId64
		  " by the ledger, and has %" PRIu64
		  ": something else has moved its tokens, or servers lie",
		run->balance_before, paid, account->exists ? amount_of(account) : 0);
	return 0;
}

/* Returns how many of these wallets have less than their balance before plus their payout, or
 * -1. */
static long count_lacking(struct pay_run *run, const struct owed *list, size_t n)
{
	static struct replies replies;
	struct solana_key accounts[RPC_BATCH_MAX];
	long lacking = 0;

	for (size_t start = 0; start < n; start += RPC_BATCH_MAX) {
		int m = n - start < RPC_BATCH_MAX ? (int)(n - start) : RPC_BATCH_MAX;

		for (int k = 0; k < m; k++)
			if (solana_associated(&list[start + (size_t)k].wallet,
				    &run->payer.token_program, &run->payer.mint,
				    &accounts[k]) < 0)
				return err_set(EX_DATAERR,
					"a wallet has no associated account");
		if (ask_all(run, "finalized", accounts, m, &replies) < 0)
			return -1;
		for (int k = 0; k < m; k++) {
			const struct owed *o = &list[start + (size_t)k];
			const struct rpc_account *a = agreed(run, &replies, k);
			bool own = memcmp(&o->wallet, &run->payer.wallet,
					   sizeof o->wallet) == 0;
			/* unsigned: a server may have claimed a balance close to INT64_MAX */
			uint64_t least = (uint64_t)o->balance_before +
				(uint64_t)o->base_units -
				(uint64_t)payplan_fee(&run->payer, o->base_units);

			lacking += a && !own && (!a->exists || amount_of(a) < least);
		}
	}
	return lacking;
}

int pay_check_balances(struct pay_run *run, const struct owed *list, size_t n,
	int64_t paid)
{
	int rc = check_source(run, paid);
	long lacking = rc < 0 ? -1 : count_lacking(run, list, n);

	if (lacking > 0)
		prog_warn("%ld wallets have less than they had and were paid: "
			  "they have spent some of it, or servers lie",
			lacking);
	return lacking < 0 ? -1 : rc;
}
