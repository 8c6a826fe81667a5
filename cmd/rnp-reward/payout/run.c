/* run.c - what the stages of a run share: the fields and the memo of its transactions, and what
 * follows when servers reject them. */
#include "cmd/rnp-reward/payout/run.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/address.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/json/json.h"

json_t *pay_shared_fields(struct pay_run *run)
{
	json_t *shared = json_record("rnp.tx");
	char text[ADDRESS_MAX];

	address_format(run->payer.wallet.bytes, text);
	json_set_text(shared, "payer", text);
	address_format(run->payer.mint.bytes, text);
	json_set_text(shared, "mint", text);
	json_set_text(shared, "genesis", run->genesis);
	if (run->payer.memo[0])
		json_set_text(shared, "memo", run->payer.memo);
	return shared;
}

int pay_set_memo(struct pay_run *run, int64_t newest)
{
	json_t *epoch = ledger_row(run->ledger, newest);
	const char *hex = json_string_value(json_object_get(epoch, "merkle_root"));
	unsigned char root[MERKLE_HASH_BYTES];
	size_t n;

	if (!epoch)
		return -1;
	if (hex &&
		sodium_hex2bin(root, sizeof root, hex, strlen(hex), NULL, &n, NULL) == 0)
		address_format(root, run->payer.memo);
	json_decref(epoch);
	return 0;
}

const char *pay_refusal(struct pay_run *run)
{
	static char text[sizeof run->rejection + 40];

	text[0] = '\0';
	if (run->rejection[0])
		snprintf(text, sizeof text, "; a server's first refusal: %s",
			run->rejection);
	return text;
}

int pay_still_in_flight(struct pay_run *run, int n)
{
	run->time_over = true;
	return err_set(EX_TEMPFAIL,
		"%d transactions are still in flight: go on with pay --resume%s%s%s", n,
		run->last_error[0] ? "; " : "", run->last_error,
		run->last_error[0] ? "" : pay_refusal(run));
}

/* --- payments that servers refuse ----------------------------------------------------------- */

/* With so many wallets named, each of a refused transaction gets one of its own: servers name only
 * the first that fails, and to find many one by one takes more rounds than a run has. */
#define REFUSED_MANY 4

/* Returns the transfer's token account if an instruction of the transaction is a transfer. What
 * fails in another one is not the wallet's fault: a payer without SOL cannot create an account. */
static const struct solana_key *transfer_to(const struct ledger_tx *tx, int instruction,
	struct solana_parsed *m)
{
	size_t head = 1 + SOLANA_SIGNATURE_BYTES;

	if (instruction < 0 || tx->action != ACTION_PAY || tx->len <= head ||
		!solana_parse(tx->bytes + head, tx->len - head, m) ||
		instruction >= m->n ||
		m->list[instruction].ndata != SOLANA_CHECKED_BYTES ||
		m->list[instruction].data[0] != SOLANA_TRANSFER_CHECKED ||
		m->list[instruction].nroles != 4)
		return NULL;
	return &m->keys[m->list[instruction].roles[2]];
}

static struct pay_refused *find_refused(const struct pay_run *run,
	const struct solana_key *wallet)
{
	for (size_t i = 0; i < run->nrefused; i++)
		if (memcmp(&run->refused[i].wallet, wallet, sizeof *wallet) == 0)
			return &run->refused[i];
	return NULL;
}

static struct pay_refused *add_refused(struct pay_run *run,
	const struct solana_key *wallet)
{
	struct pay_refused *r = find_refused(run, wallet);

	if (r)
		return r;
	run->refused = xrealloc(run->refused, (run->nrefused + 1) * sizeof *run->refused);
	r = &run->refused[run->nrefused++];
	*r = (struct pay_refused){ .wallet = *wallet };
	return r;
}

/* Returns which of these wallets has a token account, or -1. */
static int find_wallet(const struct pay_run *run, const struct owed *list, int n,
	const struct solana_key *account)
{
	struct solana_key own;

	for (int i = 0; i < n; i++)
		if (solana_associated(&list[i].wallet, &run->payer.token_program,
			    &run->payer.mint, &own) >= 0 &&
			memcmp(&own, account, sizeof own) == 0)
			return i;
	return -1;
}

static void keep_rejection(struct pay_run *run, const struct solana_key *wallet,
	const char *words)
{
	char text[ADDRESS_MAX] = "";

	if (run->rejection[0])
		return; /* later ones say that the blockhash has expired */
	if (wallet)
		address_format(wallet->bytes, text);
	snprintf(run->rejection, sizeof run->rejection, "%s%s%s%.240s",
		wallet ? "wallet " : "", text, wallet ? ": " : "", words);
}

void pay_note_refused(struct pay_run *run, const struct ledger_tx *tx,
	const struct rpc *server)
{
	static struct solana_parsed parsed;
	const struct solana_key *account = transfer_to(tx, server->failed_instruction,
		&parsed);
	struct owed list[PAYPLAN_PAYOUTS_MAX];
	struct pay_refused *r = NULL;
	struct buf reason = BUF_INIT;
	struct err error;
	int n, at = -1;

	err_save(&error);
	n = account ? ledger_payouts(run->ledger, tx->id, list, PAYPLAN_PAYOUTS_MAX) : 0;
	if (n > 0)
		at = find_wallet(run, list, n, account);
	if (at >= 0) {
		r = add_refused(run, &list[at].wallet);
		r->servers |= UINT32_C(1) << (server - run->servers);
		buf_addf(&reason, "servers refuse its payment: %.240s", error.text);
		if (!r->reason)
			r->reason = xstrdup(buf_text(&reason));
		for (int i = 0; i < n && run->nrefused >= REFUSED_MANY; i++)
			add_refused(run, &list[i].wallet);
	}
	keep_rejection(run, at < 0 ? NULL : &list[at].wallet, error.text);
	buf_release(&reason);
	err_clear();
	err_restore(&error);
}

void pay_apply_refused(const struct pay_run *run, struct owed *list, size_t n)
{
	int quorum = run->n < PAY_QUORUM ? run->n : PAY_QUORUM;

	for (size_t i = 0; i < n && run->nrefused; i++) {
		const struct pay_refused *r = find_refused(run, &list[i].wallet);

		if (!r)
			continue;
		list[i].alone = true;
		if (!list[i].held && __builtin_popcount(r->servers) >= quorum)
			list[i].held = r->reason;
	}
}

void pay_release_refused(struct pay_run *run)
{
	for (size_t i = 0; i < run->nrefused; i++)
		free(run->refused[i].reason);
	free(run->refused);
}

int pay_expire_again(struct pay_run *run)
{
	return err_set(EX_TEMPFAIL,
		"transactions expire again and again: the servers do not take them%s",
		pay_refusal(run));
}
