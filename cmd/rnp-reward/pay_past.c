/* pay_past.c - looks on the chain for payments that the ledger does not know of, before it makes any: the
 * transactions of the payer's account have the root of the epoch that they pay as their memo. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-reward/pay.h"
#include "common/base/address.h"
#include "common/base/base58.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/cli/prog.h"

#define PAGES_MAX   200 /* of RPC_PAST_MAX transactions */
#define STRANGE_MAX 20  /* transactions with other roots that are looked at */
#define DAY_S       86400
/* what is this old was held against the chain before something else was planned */
#define OLD_MS     INT64_C(604800000)
#define ROOT_CHARS 44

struct past {
	struct pay_run *run;
	struct ledger_root *roots;
	long nroots;
	char until[LEDGER_SIGNATURE_MAX];
	int64_t since_s;                 /* nothing of this ledger was paid before */
	int strange_seen;                /* with roots that this ledger does not have */
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

static int by_root(const void *a, const void *b)
{
	return memcmp(a, b, MERKLE_HASH_BYTES);
}

/* What a memo says: it pays an epoch of this ledger, or of another one, or has no root. */
enum tells { TELLS_NOTHING, TELLS_OURS, TELLS_STRANGE };

static enum tells read_memo(const struct past *p, const char *memo,
	unsigned char root[MERKLE_HASH_BYTES])
{
	unsigned char one[MERKLE_HASH_BYTES];
	enum tells found = TELLS_NOTHING;

	while ((memo = next_root(memo, one))) {
		const struct ledger_root *known = p->nroots ?
			bsearch(one, p->roots, (size_t)p->nroots, sizeof *p->roots,
				by_root) :
			NULL;

		/* what was imported without its claims was never paid from here */
		if (known && !known->payable)
			continue;
		memcpy(root, one, sizeof one);
		if (known)
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
enum whose { WHOSE_UNKNOWN, WHOSE_OTHERS, WHOSE_PAYER };

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
	return memcmp(&first.key, &run->payer.wallet, sizeof first.key) == 0 &&
			has_memo(&first, root) ?
		WHOSE_PAYER :
		WHOSE_OTHERS;
}

/* Returns 1 if the transaction is the payer's with this memo, 0 if it is certainly not, -1: no server shows it. The
 * server that told of it is asked first. */
static int prove(struct pay_run *run, int teller, const char *signature,
	const unsigned char root[MERKLE_HASH_BYTES])
{
	unsigned char bytes[SOLANA_TX_BYTES_MAX];
	size_t len;

	for (int k = 0; k < run->n; k++) {
		int rc = rpc_transaction(&run->servers[(teller + k) % run->n], signature,
			bytes, &len);
		enum whose whose = rc ? WHOSE_UNKNOWN :
					read_whose(run, signature, root, bytes, len);

		if (rc < 0) {
			prog_detail("%s", err_get()->text);
			err_clear();
		}
		if (whose != WHOSE_UNKNOWN)
			return whose == WHOSE_PAYER;
	}
	return -1;
}

/* --- the past --------------------------------------------------------------------------------- */

static int refuse(const struct past *p, int server, const struct rpc_past *one,
	enum tells tells, const unsigned char root[MERKLE_HASH_BYTES], int64_t given_up)
{
	const char *name = p->run->servers[server].voice.name;
	char memo[ADDRESS_MAX];

	address_format(root, memo);
	if (given_up >= 0)
		return err_set(EX_DATAERR,
			"%s says that transaction %" PRId64
			" (%s) has landed, which the ledger has given up: nothing is paid",
			name, given_up, one->signature);
	return err_set(EX_DATAERR,
		"transaction %s has paid for the epoch with root %s, and %s not in the "
		"ledger: it is a copy of before that, or was changed (%s)%s",
		one->signature, memo, tells == TELLS_OURS ? "is" : "both are", name,
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

int pay_check_past(struct pay_run *run)
{
	struct past p = { .run = run };
	int need = run->n < PAY_QUORUM ? run->n : PAY_QUORUM, told = 0, rc = 0;
	int64_t first_ms;

	p.nroots = ledger_roots(run->ledger, &p.roots, &first_ms);
	if (p.nroots < 0 ||
		ledger_old_signature(run->ledger, clock_now_ms() - OLD_MS, p.until) < 0)
		rc = -1;
	else if (first_ms != INT64_MAX)
		p.since_s = first_ms / 1000 - DAY_S;
	for (int i = 0; i < run->n && rc == 0; i++) {
		int all = look_at(&p, i);

		rc = all < 0 ? -1 : 0;
		told += all > 0;
	}
	free(p.roots);
	if (rc == 0 && p.strange[0])
		prog_warn(
			"transaction %s of this wallet has paid for an epoch that is not in the "
			"ledger: another one is paid from it, or this is an older copy",
			p.strange);
	if (rc == 0 && told < need)
		rc = err_set(EX_UNAVAILABLE,
			"only %d of %d servers tell of past transactions", told, run->n);
	return rc;
}
