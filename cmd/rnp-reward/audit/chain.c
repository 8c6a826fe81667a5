/* chain.c - checks the transactions of a ledger against their plans, their signatures, and
 * what servers say about them. */
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-reward/audit/audit.h"
#include "cmd/rnp-reward/ledger/payouts.h"
#include "common/chain/rpc.h"
#include "common/chain/solana.h"
#include "common/base/address.h"
#include "common/base/base58.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/json/json.h"

struct transactions {
	struct audit *audit;
	json_t **planned; /* by number */
	size_t n, cap;
	struct rpc servers[PAY_SERVERS_MAX];
	int nservers;
	const char *final[RPC_BATCH_MAX]; /* signatures to ask the servers for; owned */
	int64_t final_tx[RPC_BATCH_MAX];
	int nfinal;
};

static int report(struct transactions *t, int64_t tx, const char *reason)
{
	char what[64];

	snprintf(what, sizeof what, "transaction %" PRId64, tx);
	return t->audit->report(t->audit->ctx, what, reason);
}

/* --- the bytes of a transaction ------------------------------------------------------------- */

struct bytes {
	unsigned char all[SOLANA_TX_BYTES_MAX];
	size_t len;
	const unsigned char *message;
	size_t nmessage;
};

static const char *read_bytes(struct bytes *b, const json_t *row)
{
	const char *text = json_string_value(json_object_get(row, "transaction"));

	if (!text ||
		sodium_base642bin(b->all, sizeof b->all, text, strlen(text), NULL,
			&b->len, NULL, sodium_base64_VARIANT_ORIGINAL) != 0 ||
		b->len <= 1 + SOLANA_SIGNATURE_BYTES || b->all[0] != 1)
		return "its bytes are not a transaction of one signature";
	b->message = b->all + 1 + SOLANA_SIGNATURE_BYTES;
	b->nmessage = b->len - 1 - SOLANA_SIGNATURE_BYTES;
	return NULL;
}

static bool is_key(const struct solana_key *key, const json_t *text)
{
	char own[ADDRESS_MAX];

	address_format(key->bytes, own);
	return json_is_string(text) && strcmp(json_string_value(text), own) == 0;
}

static const char *check_signature(const struct bytes *b, const struct solana_parsed *m,
	const json_t *planned, const json_t *row)
{
	const char *stated = json_string_value(json_object_get(row, "signature"));
	char text[LEDGER_SIGNATURE_MAX];

	base58_encode(text, b->all + 1, SOLANA_SIGNATURE_BYTES);
	if (!stated || strcmp(stated, text) != 0)
		return "its bytes have another signature than its row";
	if (m->nsigners != 1 || !is_key(&m->keys[0], json_object_get(planned, "payer")))
		return "another than its payer is to sign it";
	if (!is_key(&m->blockhash, json_object_get(row, "blockhash")))
		return "its bytes have another blockhash than its row";
	return crypto_sign_verify_detached(b->all + 1, b->message, b->nmessage,
		       m->keys[0].bytes) == 0 ?
		NULL :
		"its signature is not its payer's";
}

/* --- what it does --------------------------------------------------------------------------- */

static bool is_program(const struct solana_parsed *m, int i, enum solana_program which)
{
	return memcmp(&m->keys[m->list[i].program], solana_program(which),
		       SOLANA_KEY_BYTES) == 0;
}

static bool is_token(const struct solana_parsed *m, int i)
{
	return is_program(m, i, SOLANA_TOKEN) || is_program(m, i, SOLANA_TOKEN_2022);
}

/* Whether instruction i burns from, or issues to, the payer's account the amount of the plan. */
static bool carries_out(const struct solana_parsed *m, int i, const json_t *planned)
{
	bool burn = strcmp(json_string_value(json_object_get(planned, "action")),
			    "burn") == 0;
	const int *roles = m->list[i].roles;
	struct solana_key mint, account;
	int64_t due = 0;

	if (json_get_i64(planned, "plan", "base_units", 1, INT64_MAX, &due) < 0 ||
		!json_object_get(planned, "mint") ||
		address_parse(json_string_value(json_object_get(planned, "mint")), "mint",
			mint.bytes) < 0 ||
		solana_associated(&m->keys[0], &m->keys[m->list[i].program], &mint,
			&account) < 0) {
		err_clear();
		return false;
	}
	return m->list[i].nroles == 3 &&
		m->list[i].data[0] ==
		(burn ? SOLANA_BURN_CHECKED : SOLANA_MINT_TO_CHECKED) &&
		solana_checked_amount(m->list[i].data) == (uint64_t)due &&
		memcmp(&m->keys[roles[burn]], &mint, sizeof mint) == 0 &&
		memcmp(&m->keys[roles[!burn]], &account, sizeof account) == 0;
}

/* Whether instruction i transfers what a payout says, to the associated account of its wallet. */
static bool pays(const struct solana_parsed *m, int i, const json_t *planned,
	const json_t *payout)
{
	const struct solana_key *program = &m->keys[m->list[i].program];
	struct solana_key wallet, mint, account;
	int64_t due = 0;

	if (address_parse(json_string_value(json_object_get(payout, "wallet")), "wallet",
		    wallet.bytes) < 0 ||
		json_get_i64(payout, "payout", "base_units", 1, INT64_MAX, &due) < 0 ||
		!json_object_get(planned, "mint") ||
		address_parse(json_string_value(json_object_get(planned, "mint")), "mint",
			mint.bytes) < 0 ||
		solana_associated(&wallet, program, &mint, &account) < 0) {
		err_clear();
		return false;
	}
	return solana_checked_amount(m->list[i].data) == (uint64_t)due &&
		memcmp(&m->keys[m->list[i].roles[1]], &mint, sizeof mint) == 0 &&
		memcmp(&m->keys[m->list[i].roles[2]], &account, sizeof account) == 0;
}

/* Returns why instruction i does not belong into a payout, or NULL. */
static const char *check_instruction(const struct solana_parsed *m, int i,
	const json_t *planned, size_t *paid)
{
	const char *memo = json_string_value(json_object_get(planned, "memo"));
	const json_t *payout;

	if (is_program(m, i, SOLANA_COMPUTE_BUDGET) ||
		(is_program(m, i, SOLANA_SYSTEM) && m->list[i].ndata == 4 &&
			m->list[i].data[0] == 4) ||
		(is_program(m, i, SOLANA_ASSOCIATED) && m->list[i].ndata == 1))
		return NULL;
	if (is_program(m, i, SOLANA_MEMO))
		return memo && strlen(memo) == m->list[i].ndata &&
				memcmp(memo, m->list[i].data, m->list[i].ndata) == 0 ?
			NULL :
			"its memo is not the planned one";
	if (is_token(m, i) && m->list[i].ndata == SOLANA_CHECKED_BYTES &&
		json_object_get(planned, "action")) {
		if (*paid || !carries_out(m, i, planned))
			return "it does something else than what was ordered";
		++*paid;
		return NULL;
	}
	if (!is_token(m, i) || m->list[i].ndata != SOLANA_CHECKED_BYTES ||
		m->list[i].data[0] != SOLANA_TRANSFER_CHECKED || m->list[i].nroles != 4)
		return "it does something else than to pay";
	payout = json_array_get(json_object_get(planned, "payouts"), *paid);
	if (!payout || !pays(m, i, planned, payout))
		return "it pays what was not planned";
	++*paid;
	return NULL;
}

static const char *check_signed(const json_t *planned, const json_t *row)
{
	struct solana_parsed m;
	struct bytes b;
	size_t paid = 0,
	       due = json_object_get(planned, "action") ?
		1 :
		json_array_size(json_object_get(planned, "payouts"));
	const char *why = read_bytes(&b, row);

	if (!why && !solana_parse(b.message, b.nmessage, &m))
		why = "its bytes are not a message";
	if (!why)
		why = check_signature(&b, &m, planned, row);
	for (int i = 0; !why && i < m.n; i++)
		why = check_instruction(&m, i, planned, &paid);
	if (!why && paid != due)
		why = "it does not pay all that was planned";
	return why;
}

/* --- servers -------------------------------------------------------------------------------- */

/* Asks all servers for the signatures that have been collected. */
static int ask(struct transactions *t)
{
	enum pay_seen seen[PAY_SERVERS_MAX][RPC_BATCH_MAX];
	int need = t->nservers < PAY_QUORUM ? t->nservers : PAY_QUORUM, rc = 0;
	bool answered[PAY_SERVERS_MAX];
	int same;

	for (int s = 0; s < t->nservers && t->nfinal; s++) {
		answered[s] = rpc_statuses(&t->servers[s], t->final, t->nfinal,
				      seen[s]) == 0;
		err_clear();
		same = rpc_find_same(t->servers, s, &t->servers[s]);
		if (same >= 0)
			return err_set(EX_UNAVAILABLE,
				"%s is the server of %s, and not a second one",
				t->servers[s].peer.name, t->servers[same].peer.name);
	}
	for (int i = 0; i < t->nfinal; i++) {
		char text[160];
		int known = 0;

		for (int s = 0; s < t->nservers; s++)
			known += answered[s] && seen[s][i] == PAY_SEEN_FINAL;
		snprintf(text, sizeof text,
			"%d of %d servers know signature %.88s as final", known,
			t->nservers, t->final[i]);
		if (known < need && rc == 0)
			rc = report(t, t->final_tx[i], text);
		free((char *)t->final[i]);
	}
	t->nfinal = 0;
	return rc;
}

static int remember_final(struct transactions *t, int64_t tx, const json_t *planned)
{
	const char *signature = json_string_value(json_object_get(planned, "was_signed"));

	if (!t->nservers || !signature)
		return 0;
	t->final[t->nfinal] = xstrdup(signature);
	t->final_tx[t->nfinal++] = tx;
	return t->nfinal == RPC_BATCH_MAX ? ask(t) : 0;
}

/* --- rows ----------------------------------------------------------------------------------- */

static int remember_plan(struct transactions *t, int64_t tx, const json_t *row)
{
	if (tx != (int64_t)t->n)
		return report(t, tx, "it is not planned in the order of its number");
	t->planned = xgrow(t->planned, &t->cap, t->n + 1, sizeof *t->planned);
	t->planned[t->n++] = json_copy((json_t *)row);
	return 0;
}

static int check_row(void *ctx, int64_t sequence, const json_t *row)
{
	struct transactions *t = ctx;
	const char *status = json_string_value(json_object_get(row, "status"));
	const char *why;
	int64_t tx;

	(void)sequence;
	if (strcmp(json_string_value(json_object_get(row, "kind")), "rnp.tx") != 0)
		return 0;
	if (json_get_i64(row, "row", "tx", 0, INT64_MAX, &tx) < 0)
		return -1;
	if (strcmp(status, "planned") == 0)
		return remember_plan(t, tx, row);
	if (tx >= (int64_t)t->n)
		return report(t, tx, "it was never planned");
	if (strcmp(status, "signed") == 0) {
		why = check_signed(t->planned[tx], row);
		json_set(t->planned[tx], "was_signed",
			json_incref(json_object_get(row, "signature")));
		return why ? report(t, tx, why) : 0;
	}
	if (strcmp(status, "finalised") != 0)
		return 0;
	if (!json_object_get(t->planned[tx], "was_signed"))
		return report(t, tx, "it is final, and was never signed");
	return remember_final(t, tx, t->planned[tx]);
}

/* Reports the epochs that are paid, at least in part, although no trusted key has signed them. */
static int check_signers(struct audit *a)
{
	struct ledger_balance *list;
	long n = ledger_balances(a->ledger, &list);
	int rc = n < 0 ? -1 : 0;

	for (long i = 0; i < n && rc == 0; i++) {
		char what[64];
		int signers;

		if (!list[i].paid && !list[i].in_flight)
			continue;
		signers = ledger_signers(a->ledger, list[i].sequence, &a->evidence.trust);
		snprintf(what, sizeof what, "epoch %" PRId64, list[i].sequence);
		rc = signers < 0 ?
			-1 :
			signers ?
			0 :
			a->report(a->ctx, what,
				"some of it is paid, and nobody who is trusted has "
				"signed it");
	}
	free(list);
	return rc;
}

static int open_servers(struct transactions *t)
{
	const struct opt_list *urls = &t->audit->rpc;

	if (rpc_open(t->servers, urls, t->audit->ca) < 0)
		return -1;
	t->nservers = urls->n;
	return 0;
}

int audit_payouts(struct audit *a)
{
	struct transactions *t = xcalloc(1, sizeof *t);
	int rc;

	t->audit = a;
	rc = open_servers(t);
	if (rc == 0)
		rc = check_signers(a);
	if (rc == 0)
		rc = ledger_each(a->ledger, NULL, 0, check_row, t);
	if (rc == 0)
		rc = ask(t);
	for (int i = 0; i < t->nfinal; i++)
		free((char *)t->final[i]);
	for (int s = 0; s < t->nservers; s++)
		rpc_release(&t->servers[s]);
	for (size_t i = 0; i < t->n; i++)
		json_decref(t->planned[i]);
	free(t->planned);
	free(t);
	return rc;
}
