/* past.c - searches the chain for payments that the ledger does not have, before any is made.
 * The memo of a payment is the root of the epoch that it pays. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cmd/rnp-reward/payout/run.h"
#include "common/base/address.h"
#include "common/base/base58.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/cli/prog.h"

#define PAGES_MAX              200 /* each of RPC_PAST_MAX transactions */
#define FOREIGN_CHECKS_MAX     20 /* transactions with foreign roots that are looked up */
#define FOREIGN_SIGNATURES_MAX 5000
#define DAY_S                  86400
#define FIRST_SLOT             1 /* a server that has this slot has all */
/* transactions of this age were compared with the chain in earlier runs, before other ones were
 * planned */
#define OLD_MS     INT64_C(604800000)
#define ROOT_CHARS 44

struct past {
	struct pay_run *run;
	struct ledger_roots roots;
	char until[LEDGER_SIGNATURE_MAX];
	int64_t since_s;  /* nothing of this ledger was paid before this */
	int64_t back_s;   /* a server has to know all transactions since then */
	int foreign_seen; /* how many transactions with foreign roots were looked up */
	/* a payment of the payer's with a foreign root, or "" */
	char foreign[RPC_SIGNATURE_MAX];
};

/* --- memos ---------------------------------------------------------------------------------- */

/* Finds the next root in a list of memos ("[44] text; [5] text"). Returns the text behind it, or
 * NULL: there is none. */
static const char *next_root(const char *memo, unsigned char root[MERKLE_HASH_BYTES])
{
	static const char alphabet[] =
		"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

	while (*memo) {
		size_t len = strspn(memo, alphabet);
		char text[ROOT_CHARS + 1];

		if (len && len <= ROOT_CHARS) {
			memcpy(text, memo, len);
			text[len] = '\0';
			if (base58_decode(root, MERKLE_HASH_BYTES, text) ==
				MERKLE_HASH_BYTES)
				return memo + len;
		}
		memo += len ? len : 1;
	}
	return NULL;
}

/* What a memo names: nothing; an epoch of this ledger or a burn of --burn; another root. */
enum memo_kind { MEMO_NONE, MEMO_OURS, MEMO_FOREIGN };

static enum memo_kind read_memo(const struct past *p, const char *memo,
	unsigned char root[MERKLE_HASH_BYTES])
{
	unsigned char one[MERKLE_HASH_BYTES];
	enum memo_kind found = MEMO_NONE;

	while ((memo = next_root(memo, one))) {
		const struct ledger_root *known = ledger_find_root(&p->roots, one);

		/* An epoch that was imported without its claims is never paid from here. But a
		 * memo names only the newest epoch that is paid, so if an older one is payable,
		 * the payment may be for that. */
		if (known && !known->payable && known->sequence < p->roots.first_sequence)
			continue;
		memcpy(root, one, sizeof one);
		if (known || pay_find_burn(one))
			return MEMO_OURS;
		found = MEMO_FOREIGN;
	}
	return found;
}

/* --- proof ---------------------------------------------------------------------------------- */

/* Whether the characters of this memo are in a message. That suffices: the payer has signed it. */
static bool has_memo(const struct solana_first *first,
	const unsigned char root[MERKLE_HASH_BYTES])
{
	char memo[ADDRESS_MAX];

	address_format(root, memo);
	return memmem(first->message, first->nmessage, memo, strlen(memo)) != NULL;
}

/* Who has signed a transaction: it is not known, somebody else, the payer with another memo, the
 * payer. Anybody can send a transaction with such a memo that names the payer's account, but
 * nobody else can sign one as the payer. */
enum whose { WHOSE_UNKNOWN, WHOSE_FOREIGN, WHOSE_PAYER_OTHER, WHOSE_PAYER };

/* Finds the signer from the bytes that a server gives for a transaction. They prove something
 * only if the signature fits them, since nobody can find another key or message for it; other
 * bytes may be a lie. */
static enum whose read_whose(const struct pay_run *run, const char *signature,
	const unsigned char root[MERKLE_HASH_BYTES], const unsigned char *bytes,
	size_t len)
{
	struct solana_first first;
	char text[RPC_SIGNATURE_MAX];

	if (!solana_first_signer(bytes, len, &first))
		return WHOSE_UNKNOWN;
	base58_encode(text, first.signature, SOLANA_SIGNATURE_BYTES);
	if (strcmp(text, signature) != 0)
		return WHOSE_UNKNOWN;
	if (memcmp(&first.key, &run->payer.wallet, sizeof first.key) != 0)
		return WHOSE_FOREIGN;
	return has_memo(&first, root) ? WHOSE_PAYER : WHOSE_PAYER_OTHER;
}

/* Whether a transaction is known to be signed by somebody else. Anybody can send many of them for a
 * few cents, so the bytes of each are requested once a run, not once for each server. */
static bool is_foreign(const struct pay_run *run, const char *signature)
{
	for (size_t i = 0; i < run->foreign_signatures.len; i += RPC_SIGNATURE_MAX)
		if (strcmp(run->foreign_signatures.data + i, signature) == 0)
			return true;
	return false;
}

static void note_foreign(struct pay_run *run, const char *signature)
{
	char text[RPC_SIGNATURE_MAX] = "";

	if (run->foreign_signatures.len >= FOREIGN_SIGNATURES_MAX * sizeof text)
		return;
	memcpy(text, signature, strnlen(signature, sizeof text - 1));
	buf_add(&run->foreign_signatures, text, sizeof text);
}

/* Requests the bytes of a transaction, from the server `first` first. Returns 1: it is the
 * payer's, with this memo; 0: it certainly is not; -1: no server has the bytes. */
static int prove(struct pay_run *run, int first, const char *signature,
	const unsigned char root[MERKLE_HASH_BYTES])
{
	unsigned char bytes[SOLANA_TX_BYTES_MAX];
	size_t len;

	for (int k = 0; k < run->n && !is_foreign(run, signature); k++) {
		int rc = rpc_transaction(&run->servers[(first + k) % run->n], signature,
			bytes, &len);
		enum whose whose = rc ? WHOSE_UNKNOWN :
					read_whose(run, signature, root, bytes, len);

		if (rc < 0) {
			prog_detail("%s", err_get()->text);
			err_clear();
		}
		if (whose == WHOSE_FOREIGN)
			note_foreign(run, signature);
		else if (whose != WHOSE_UNKNOWN)
			return whose == WHOSE_PAYER;
	}
	return is_foreign(run, signature) ? 0 : -1;
}

/* --- the past ------------------------------------------------------------------------------- */

static int report_payment(const struct past *p, int server, const struct rpc_past *one,
	enum memo_kind kind, const unsigned char root[MERKLE_HASH_BYTES],
	int64_t given_up)
{
	const char *name = p->run->servers[server].peer.name, *burn = pay_find_burn(root);
	char memo[ADDRESS_MAX];

	address_format(root, memo);
	if (given_up >= 0)
		return err_set(EX_DATAERR,
			"%s says that transaction %" PRId64
			" (%s) has landed, which the ledger has given up: nothing is paid",
			name, given_up, one->signature);
	if (burn)
		return err_set(EX_DATAERR,
			"transaction %s has carried out '%.300s', and is not in the ledger: it "
			"is a copy of before that, or was changed (%s)",
			one->signature, burn, name);
	return err_set(EX_DATAERR,
		"transaction %s has paid for %s %s, and %s not in the ledger: it is a "
		"copy of before that, or was changed (%s)%s",
		one->signature,
		kind == MEMO_OURS ? "the epoch with root" :
				    "an epoch, or a burn, with the memo",
		memo, kind == MEMO_OURS ? "is" : "both are", name,
		kind == MEMO_OURS ? "" :
				    "; if another ledger has paid it, give --shared");
}

/* Compares one transaction of the chain with the ledger. Returns 0, or -1: it is a payment that
 * the ledger does not have. */
static int check_transaction(struct past *p, int server, const struct rpc_past *one)
{
	unsigned char root[MERKLE_HASH_BYTES];
	enum memo_kind kind = one->failed ? MEMO_NONE : read_memo(p, one->memo, root);
	int64_t id = -1;
	int status, mine;

	if (kind == MEMO_NONE ||
		(kind == MEMO_FOREIGN && p->run->shared && p->foreign[0]))
		return 0;
	status = ledger_find_tx(p->run->ledger, one->signature, &id);
	if (status < -1)
		return -1;
	if (status >= 0 && status != PAY_EXPIRED && status != PAY_FAILED)
		return 0;
	if (kind == MEMO_FOREIGN && p->run->shared &&
		p->foreign_seen++ >= FOREIGN_CHECKS_MAX)
		return 0;
	mine = prove(p->run, server, one->signature, root);
	if (mine == 0)
		return 0;
	if (kind == MEMO_FOREIGN && p->run->shared) {
		if (mine > 0)
			strcpy(p->foreign, one->signature);
		return 0;
	}
	return mine > 0 ?
		report_payment(p, server, one, kind, root, id) :
		err_set(EX_TEMPFAIL,
			"%s tells of a payment that nobody shows, %s: leave it out, "
			"or ask again later",
			p->run->servers[server].peer.name, one->signature);
}

/* Checks all transactions that a server lists. Returns 1; 0: its list is not complete; -1 with
 * err_set: nothing may be paid. */
static int check_server(struct past *p, int server)
{
	static struct rpc_past page[RPC_PAST_MAX];
	struct rpc *r = &p->run->servers[server];
	char before[RPC_SIGNATURE_MAX] = "";

	for (int pages = 0; pages < PAGES_MAX; pages++) {
		int n = rpc_past(r, &p->run->payer.account, before, p->until, page);

		if (n < 0) {
			prog_warn("%s", err_get()->text);
			err_clear();
			return 0;
		}
		for (int i = 0; i < n; i++) {
			if (page[i].at_s && page[i].at_s < p->since_s)
				return 1;
			if (check_transaction(p, server, &page[i]) < 0)
				return -1;
		}
		/* a page may be shorter than requested, so only an empty one is the end */
		if (!n)
			return 1;
		strcpy(before, page[n - 1].signature);
	}
	prog_warn("%s: the past of the payer's account has no end", r->peer.name);
	return 0;
}

/* Whether a server still has all transactions since back_s. Many keep only those of some days;
 * the user is told once. */
static bool reaches_back(const struct past *p, int server)
{
	struct rpc *r = &p->run->servers[server];
	char known[CLOCK_TEXT_MAX], since[CLOCK_TEXT_MAX];
	int64_t slot, at_s = 0;

	if (rpc_first_slot(r, &slot) < 0 ||
		(slot > FIRST_SLOT && rpc_slot_time(r, slot, &at_s) < 0)) {
		prog_warn("%s", err_get()->text);
		err_clear();
		return false;
	}
	if (slot <= FIRST_SLOT || at_s <= p->back_s)
		return true;
	if (p->run->pruned >> server & 1)
		return false;
	p->run->pruned |= UINT32_C(1) << server;
	clock_format(known, at_s * 1000);
	clock_format(since, p->back_s * 1000);
	prog_warn(
		"%s: knows transactions since %s only, and there may be payments since %s",
		r->peer.name, known, since);
	return false;
}

/* Sets the times since which transactions matter. */
static int set_times(struct past *p)
{
	int64_t first_ms = pay_burns_since(), until_ms = 0;

	if (ledger_read_roots(p->run->ledger, &p->roots) < 0 ||
		ledger_old_signature(p->run->ledger, clock_now_ms() - OLD_MS, p->until,
			&until_ms) < 0)
		return -1;
	if (p->roots.first_ms < first_ms)
		first_ms = p->roots.first_ms;
	if (first_ms != INT64_MAX && first_ms / 1000 > DAY_S)
		p->since_s = first_ms / 1000 - DAY_S;
	p->back_s = until_ms / 1000 > p->since_s ? until_ms / 1000 : p->since_s;
	return 0;
}

int pay_check_past(struct pay_run *run)
{
	struct past p = { .run = run };
	int need = run->n < PAY_QUORUM ? run->n : PAY_QUORUM, complete = 0,
	    rc = set_times(&p);

	for (int i = 0; i < run->n && rc == 0; i++) {
		int all = check_server(&p, i);

		rc = all < 0 ? -1 : 0;
		complete += all > 0 && reaches_back(&p, i);
	}
	free(p.roots.list);
	if (rc == 0 && p.foreign[0] && !run->foreign_reported) {
		run->foreign_reported = true;
		prog_warn(
			"transaction %s of this wallet has paid for an epoch that is not in the "
			"ledger: another one is paid from it, or this is an older copy",
			p.foreign);
	}
	if (rc == 0 && complete < need)
		rc = err_set(EX_UNAVAILABLE,
			"only %d of %d servers tell of past transactions", complete,
			run->n);
	return rc;
}

/* --- transactions in flight ----------------------------------------------------------------- */

int pay_settle(struct pay_run *run)
{
	struct pay_view v = { .servers = run->n };
	int64_t end_ns = clock_mono_ns() + run->timeout_ms * 1000000;
	struct timespec pause = { run->poll_ms / 1000, run->poll_ms % 1000 * 1000000 };

	for (int i = 0; i < run->n; i++) {
		if (rpc_height(&run->servers[i], "processed", &v.final_height[i]) < 0)
			v.final_height[i] = -1;
		v.seen[i] = PAY_NULL;
		err_clear();
	}
	/* a transaction that was signed before has a blockhash that is no newer than now */
	v.last_valid = pay_last_valid(0, v.final_height, run->n);
	if (v.last_valid < 0)
		return err_set(EX_TEMPFAIL,
			"--settle: the servers do not agree about the block height");
	prog_info("what was signed before can land until block height %" PRId64,
		v.last_valid);
	while (clock_mono_ns() < end_ns) {
		for (int i = 0; i < run->n; i++) {
			if (rpc_height(&run->servers[i], "finalized",
				    &v.final_height[i]) < 0)
				v.final_height[i] = -1;
			err_clear();
		}
		if (pay_decide(PAY_SENT, &v, NULL) == PAY_EXPIRED)
			return 0;
		nanosleep(&pause, NULL);
	}
	return err_set(EX_TEMPFAIL,
		"--settle: no two servers have a finalised block height above %" PRId64
		" that no other contradicts",
		v.last_valid);
}
