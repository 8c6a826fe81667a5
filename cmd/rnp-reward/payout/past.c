/* pay_past.c - looks on the chain for payments that the ledger does not know of, before it makes any: the
 * transactions of the payer's account have the root of the epoch that they pay as their memo. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cmd/rnp-reward/pay.h"
#include "common/base/address.h"
#include "common/base/base58.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/cli/prog.h"

#define PAGES_MAX     200 /* of RPC_PAST_MAX transactions */
#define STRANGE_MAX   20  /* transactions with other roots that are looked at */
#define STRANGERS_MAX 5000
#define DAY_S         86400
#define FIRST_SLOT    1 /* a server that has it has all */
/* what is this old was held against the chain before something else was planned */
#define OLD_MS     INT64_C(604800000)
#define ROOT_CHARS 44

struct past {
	struct pay_run *run;
	struct ledger_roots roots;
	char until[LEDGER_SIGNATURE_MAX];
	int64_t since_s;  /* nothing of this ledger was paid before */
	int64_t back_s;   /* so far back a server has to know transactions */
	int strange_seen; /* with roots that this ledger does not have */
	char strange[RPC_SIGNATURE_MAX]; /* one of them, of the payer */
};

/* --- memos ------------------------------------------------------------------------------------ */

/* Gets the next root in a list of memos ("[44] text; [5] text"). Returns what follows, or NULL: there is none. */
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

/* What a memo says: it pays an epoch of this ledger or is a burn of --burn, or it is of another one, or has no root. */
enum tells { TELLS_NOTHING, TELLS_OURS, TELLS_STRANGE };

static enum tells read_memo(const struct past *p, const char *memo,
	unsigned char root[MERKLE_HASH_BYTES])
{
	unsigned char one[MERKLE_HASH_BYTES];
	enum tells found = TELLS_NOTHING;

	while ((memo = next_root(memo, one))) {
		const struct ledger_root *known = ledger_find_root(&p->roots, one);

		/* what was imported without its claims was never paid from here, unless somebody has
		 * made one of the epochs payable that are paid for under this root, too */
		if (known && !known->payable && known->sequence < p->roots.first_sequence)
			continue;
		memcpy(root, one, sizeof one);
		if (known || pay_find_burn(one))
			return TELLS_OURS;
		found = TELLS_STRANGE;
	}
	return found;
}

/* --- proof ------------------------------------------------------------------------------------ */

/* Whether a message has this memo: whatever else it is, it has its characters. */
static bool has_memo(const struct solana_first *first,
	const unsigned char root[MERKLE_HASH_BYTES])
{
	char memo[ADDRESS_MAX];

	address_format(root, memo);
	return memmem(first->message, first->nmessage, memo, strlen(memo)) != NULL;
}

/* Whose a transaction is. Nobody but the payer can make one of the payer, though anybody can send one with such a
 * memo that names the payer's account. */
enum whose { WHOSE_UNKNOWN, WHOSE_STRANGER, WHOSE_PAYER_OTHER, WHOSE_PAYER };

/* Reads what a server gives as the bytes of a transaction. Only bytes that were signed with its signature tell whose
 * it is, since nobody can find another key or message for that: all others may be a lie, and tell nothing. */
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
		return WHOSE_STRANGER;
	return has_memo(&first, root) ? WHOSE_PAYER : WHOSE_PAYER_OTHER;
}

/* Whether a transaction is known to be a stranger's: anybody can send many for a few cents, and each is asked for
 * once a run, not by what each server tells. */
static bool is_stranger(const struct pay_run *run, const char *signature)
{
	for (size_t i = 0; i < run->strangers.len; i += RPC_SIGNATURE_MAX)
		if (strcmp(run->strangers.data + i, signature) == 0)
			return true;
	return false;
}

static void keep_stranger(struct pay_run *run, const char *signature)
{
	char text[RPC_SIGNATURE_MAX] = "";

	if (run->strangers.len >= STRANGERS_MAX * sizeof text)
		return;
	memcpy(text, signature, strnlen(signature, sizeof text - 1));
	buf_add(&run->strangers, text, sizeof text);
}

/* Returns 1 if the transaction is the payer's with this memo, 0 if it is certainly not, -1: no server shows it. The
 * server that told of it is asked first. */
static int prove(struct pay_run *run, int teller, const char *signature,
	const unsigned char root[MERKLE_HASH_BYTES])
{
	unsigned char bytes[SOLANA_TX_BYTES_MAX];
	size_t len;

	for (int k = 0; k < run->n && !is_stranger(run, signature); k++) {
		int rc = rpc_transaction(&run->servers[(teller + k) % run->n], signature,
			bytes, &len);
		enum whose whose = rc ? WHOSE_UNKNOWN :
					read_whose(run, signature, root, bytes, len);

		if (rc < 0) {
			prog_detail("%s", err_get()->text);
			err_clear();
		}
		if (whose == WHOSE_STRANGER)
			keep_stranger(run, signature);
		else if (whose != WHOSE_UNKNOWN)
			return whose == WHOSE_PAYER;
	}
	return is_stranger(run, signature) ? 0 : -1;
}

/* --- the past --------------------------------------------------------------------------------- */

static int refuse(const struct past *p, int server, const struct rpc_past *one,
	enum tells tells, const unsigned char root[MERKLE_HASH_BYTES], int64_t given_up)
{
	const char *name = p->run->servers[server].voice.name,
		   *burn = pay_find_burn(root);
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
		tells == TELLS_OURS ? "the epoch with root" :
				      "an epoch, or a burn, with the memo",
		memo, tells == TELLS_OURS ? "is" : "both are", name,
		tells == TELLS_OURS ? "" :
				      "; if another ledger has paid it, give --shared");
}

/* Holds one transaction of the past against the ledger. Returns 0, or -1. */
static int hold(struct past *p, int server, const struct rpc_past *one)
{
	unsigned char root[MERKLE_HASH_BYTES];
	enum tells tells = one->failed ? TELLS_NOTHING : read_memo(p, one->memo, root);
	int64_t id = -1;
	int status, mine;

	if (tells == TELLS_NOTHING ||
		(tells == TELLS_STRANGE && p->run->shared && p->strange[0]))
		return 0;
	status = ledger_find_tx(p->run->ledger, one->signature, &id);
	if (status < -1)
		return -1;
	if (status >= 0 && status != PAY_EXPIRED && status != PAY_FAILED)
		return 0;
	if (tells == TELLS_STRANGE && p->run->shared && p->strange_seen++ >= STRANGE_MAX)
		return 0;
	mine = prove(p->run, server, one->signature, root);
	if (mine == 0)
		return 0;
	if (tells == TELLS_STRANGE && p->run->shared) {
		if (mine > 0)
			strcpy(p->strange, one->signature);
		return 0;
	}
	return mine > 0 ?
		refuse(p, server, one, tells, root, id) :
		err_set(EX_TEMPFAIL,
			"%s tells of a payment that nobody shows, %s: leave it out, "
			"or ask again later",
			p->run->servers[server].voice.name, one->signature);
}

/* Returns 1 when a server has told all, 0 when it has not, -1 with err_set: nothing may be paid. */
static int look_at(struct past *p, int server)
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
			if (hold(p, server, &page[i]) < 0)
				return -1;
		}
		/* a server may give fewer at a time than it is asked for */
		if (!n)
			return 1;
		strcpy(before, page[n - 1].signature);
	}
	prog_warn("%s: the past of the payer's account has no end", r->voice.name);
	return 0;
}

/* Whether a server has not yet forgotten any transaction of the time that matters: many keep those of some days. */
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
	if (p->run->forgetful >> server & 1)
		return false;
	p->run->forgetful |= UINT32_C(1) << server;
	clock_format(known, at_s * 1000);
	clock_format(since, p->back_s * 1000);
	prog_warn(
		"%s: knows transactions since %s only, and there may be payments since %s",
		r->voice.name, known, since);
	return false;
}

/* Finds out since when transactions matter. */
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
	int need = run->n < PAY_QUORUM ? run->n : PAY_QUORUM, told = 0,
	    rc = set_times(&p);

	for (int i = 0; i < run->n && rc == 0; i++) {
		int all = look_at(&p, i);

		rc = all < 0 ? -1 : 0;
		told += all > 0 && reaches_back(&p, i);
	}
	free(p.roots.list);
	if (rc == 0 && p.strange[0] && !run->strange_told) {
		run->strange_told = true;
		prog_warn(
			"transaction %s of this wallet has paid for an epoch that is not in the "
			"ledger: another one is paid from it, or this is an older copy",
			p.strange);
	}
	if (rc == 0 && told < need)
		rc = err_set(EX_UNAVAILABLE,
			"only %d of %d servers tell of past transactions", told, run->n);
	return rc;
}

/* --- what is under way -------------------------------------------------------------------------- */

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
	/* one that was signed before has a blockhash of before, as if it were sent now */
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
