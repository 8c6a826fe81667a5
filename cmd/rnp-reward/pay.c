/* pay.c - rnp-reward pay: pays what sealed, signed epochs owe, on Solana; it can be interrupted
 * and resumed at any instant.
 *
 * long because the stages of a run are read in their order, in one place. */
#include "cmd/rnp-reward/pay.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "cmd/rnp-reward/commands.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/money.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/json/json.h"

#define DAY_MS INT64_C(86400000)

static struct {
	struct opt_list rpc, trust, nonces;
	const char *store, *keypair, *signer, *wallet, *mint, *cluster, *token, *burn,
		*ca;
	int64_t per_run, per_payout, per_day, dust, need, in_flight, unit_price, poll_ms,
		timeout_ms;
	bool dry_run, resume, status, legacy, issue, shared, settle;
} opts = { .token = "RENDER",
	.mint = "rndrizKT3MK1iimdxRdWabcF7Zg7AR5T4nud4EkHBof",
	.cluster = "mainnet",
	.per_run = -1,
	.per_payout = -1,
	.per_day = -1,
	.dust = 1000000,
	.need = 1,
	.in_flight = 16,
	.poll_ms = 1000,
	.timeout_ms = 600000 };

static const struct opt options[] = {
	{ .name = "store",
		.kind = OPT_TEXT,
		.required = true,
		.to = &opts.store,
		.metavar = "DB",
		.help = "the ledger" },
	{ .name = "rpc",
		.kind = OPT_LIST,
		.to = &opts.rpc,
		.metavar = "URL",
		.help = "a Solana RPC server; give three of different operators" },
	/* not a setting: the registry's certificates would stand for those of these servers */
	{ .name = "ca",
		.kind = OPT_TEXT,
		.to = &opts.ca,
		.metavar = "F",
		.help = "trust these certificates (PEM), not the system's" },
	{ .name = "keypair",
		.kind = OPT_TEXT,
		.to = &opts.keypair,
		.metavar = "F",
		.help = "key file of the wallet that pays" },
	{ .name = "signer",
		.kind = OPT_TEXT,
		.to = &opts.signer,
		.metavar = "CMD",
		.help = "instead of --keypair: a command that signs what it is told in words" },
	{ .name = "wallet",
		.kind = OPT_TEXT,
		.address = true,
		.to = &opts.wallet,
		.metavar = "ADDRESS",
		.help = "the wallet that --signer signs for" },
	{ .name = "nonce",
		.kind = OPT_LIST,
		.address = true,
		.to = &opts.nonces,
		.metavar = "ADDRESS",
		.help = "use this durable nonce account, not recent blockhashes; may be given "
			"again" },
	{ .name = "trust",
		.kind = OPT_LIST,
		.address = true,
		.to = &opts.trust,
		.metavar = "ADDRESS",
		.help = "whose signatures on epochs count; may be given again" },
	{ .name = "need",
		.kind = OPT_I64,
		.to = &opts.need,
		.metavar = "M",
		.help = "how many of them must have signed an epoch (default 1)",
		.min = 1,
		.max = 64 },
	{ .name = "mint",
		.kind = OPT_TEXT,
		.address = true,
		.to = &opts.mint,
		.metavar = "ADDRESS",
		.help = "the token (default RENDER)" },
	{ .name = "token",
		.kind = OPT_TEXT,
		.to = &opts.token,
		.metavar = "T",
		.help = "pay epochs of this token (default RENDER)" },
	{ .name = "burn",
		.kind = OPT_TEXT,
		.to = &opts.burn,
		.metavar = "F",
		.help = "first burn what these rnp.burn records say, each job once" },
	{ .name = "issue",
		.kind = OPT_FLAG,
		.to = &opts.issue,
		.help = "first issue what signed epochs claim to the payer, each epoch once" },
	{ .name = "cluster",
		.kind = OPT_TEXT,
		.to = &opts.cluster,
		.metavar = "C",
		.help = "mainnet, testnet, devnet or a genesis hash (default mainnet)" },
	{ .name = "max-per-run",
		.kind = OPT_RENDER,
		.to = &opts.per_run,
		.metavar = "TOKENS",
		.help = "plan no more than this" },
	{ .name = "max-per-payout",
		.kind = OPT_RENDER,
		.to = &opts.per_payout,
		.metavar = "TOKENS",
		.help = "a wallet that is owed more is not paid" },
	{ .name = "max-per-day",
		.kind = OPT_RENDER,
		.to = &opts.per_day,
		.metavar = "TOKENS",
		.help = "with what was planned in the 24 hours before, no more than this" },
	{ .name = "dust",
		.kind = OPT_RENDER,
		.to = &opts.dust,
		.metavar = "TOKENS",
		.help = "less than this is carried over (default 0.01)" },
	{ .name = "in-flight",
		.kind = OPT_I64,
		.to = &opts.in_flight,
		.metavar = "N",
		.help = "transactions in flight at a time (default 16)",
		.min = 1,
		.max = PAY_IN_FLIGHT_MAX },
	{ .name = "unit-price",
		.kind = OPT_I64,
		.to = &opts.unit_price,
		.metavar = "N",
		.help = "priority fee: micro-lamports for a compute unit, at most 1000000 (default 0)",
		.min = 0,
		.max = PAYPLAN_PRICE_MAX },
	{ .name = "legacy",
		.kind = OPT_FLAG,
		.to = &opts.legacy,
		.help = "write legacy messages, not version 0" },
	{ .name = "poll",
		.kind = OPT_DURATION,
		.to = &opts.poll_ms,
		.metavar = "TIME",
		.help = "between two looks at what is in flight (default 1s)",
		.min = 1,
		.max = 3600000 },
	{ .name = "timeout",
		.kind = OPT_DURATION,
		.to = &opts.timeout_ms,
		.metavar = "TIME",
		.help = "leave what is in flight to a later run after this (default 600s)",
		.min = 1,
		.max = 86400000 },
	{ .name = "shared",
		.kind = OPT_FLAG,
		.to = &opts.shared,
		.help = "the wallet pays other ledgers, too: their epochs stop nothing" },
	{ .name = "settle",
		.kind = OPT_FLAG,
		.to = &opts.settle,
		.help = "first wait until nothing can land that another copy of the ledger has sent" },
	{ .name = "dry-run",
		.kind = OPT_FLAG,
		.to = &opts.dry_run,
		.help = "plan and show the transactions; sign, send and store nothing" },
	{ .name = "resume",
		.kind = OPT_FLAG,
		.to = &opts.resume,
		.help = "go on with what is in flight, plan nothing new" },
	{ .name = "status",
		.kind = OPT_FLAG,
		.to = &opts.status,
		.help = "show every payout that was planned; asks no server" },
	{ .kind = OPT_END },
};

/* --- records --------------------------------------------------------------------------------- */

/* The payer of this run, once the mint's fee is known. */
static const struct payer *fee_payer;

/* Writes one rnp.payout; tx NULL: it is in no transaction. */
static int write_payout(const struct owed *o, const char *status,
	const struct ledger_tx *tx, int64_t batch, size_t bytes)
{
	json_t *record = json_record("rnp.payout");
	char wallet[ADDRESS_MAX];
	int rc;

	address_format(o->wallet.bytes, wallet);
	json_set_text(record, "wallet", wallet);
	json_set_i64(record, "base_units", o->base_units);
	json_set_text(record, "status", status);
	if (batch >= 0)
		json_set_i64(record, "batch", batch);
	if (bytes)
		json_set_i64(record, "transaction_bytes", (int64_t)bytes);
	if (batch >= 0)
		json_set_bool(record, "creates_account", o->create);
	if (fee_payer && payplan_fee(fee_payer, o->base_units))
		json_set_i64(record, "fee_base_units",
			payplan_fee(fee_payer, o->base_units));
	if (tx && tx->signature[0])
		json_set_text(record, "signature", tx->signature);
	json_set_text(record, "reason", o->held);
	rc = out_record(record);
	json_decref(record);
	return rc;
}

/* ctx may count the payouts. */
static int show_payout(void *ctx, const struct owed *o, const struct ledger_tx *tx)
{
	if (ctx)
		++*(long *)ctx;
	return write_payout(o, pay_status_names[tx->status], tx, tx->id, tx->len);
}

/* Only payouts of this run: transactions from a number on. */
struct since {
	int64_t first;
	bool trouble;
};

/* Writes one rnp.payout for a burn or an issue. */
static int show_order(void *ctx, const struct owed *none, const struct ledger_tx *tx)
{
	struct since *s = ctx;
	json_t *record;
	int rc;

	(void)none;
	if (tx->id < s->first || tx->status == PAY_EXPIRED)
		return 0;
	s->trouble = s->trouble || tx->status == PAY_FAILED;
	record = json_record("rnp.payout");
	json_set_text(record, "action", pay_action_names[tx->action]);
	json_set_i64(record, "base_units", tx->base_units);
	json_set_text(record, "status", pay_status_names[tx->status]);
	json_set_i64(record, "batch", tx->id);
	if (tx->signature[0])
		json_set_text(record, "signature", tx->signature);
	rc = out_record(record);
	json_decref(record);
	return rc;
}

static int show_new(void *ctx, const struct owed *o, const struct ledger_tx *tx)
{
	struct since *s = ctx;

	/* payouts of expired transactions are in a later transaction, or owed again */
	if (tx->id < s->first || tx->status == PAY_EXPIRED)
		return 0;
	s->trouble = s->trouble || tx->status == PAY_FAILED;
	return show_payout(NULL, o, tx);
}

/* --- planning -------------------------------------------------------------------------------- */

struct plan {
	int64_t *epochs;
	long nepochs;
	struct owed *list;
	long n;
	json_t *shared; /* fields common to the rnp.tx rows */
	int64_t budget; /* base units that may still be planned; -1: no limit */
	bool held;      /* some wallet that is owed something is not paid */
};

static void plan_release(struct plan *p)
{
	free(p->epochs);
	free(p->list);
	json_decref(p->shared);
}

/* Returns the smaller of this run's limit and the day's. */
static int find_budget(struct pay_run *run, struct plan *p)
{
	int64_t planned = ledger_spent_from(run->ledger, run->first_tx, NULL);

	if (planned < 0)
		return -1;
	p->budget = opts.per_run < 0   ? -1 :
		opts.per_run > planned ? opts.per_run - planned :
					 0;
	if (opts.per_day >= 0) {
		int64_t spent = ledger_spent_since(run->ledger, clock_now_ms() - DAY_MS);
		int64_t left = opts.per_day - spent;

		if (spent < 0)
			return -1;
		left = left < 0 ? 0 : left;
		if (p->budget < 0 || left < p->budget)
			p->budget = left;
	}
	return 0;
}

static int by_kind(const void *a, const void *b)
{
	const struct owed *x = a, *y = b;

	if (!x->held != !y->held)
		return x->held ? 1 : -1;
	if (x->alone != y->alone)
		return x->alone - y->alone;
	if (x->create != y->create)
		return x->create - y->create;
	return memcmp(&x->wallet, &y->wallet, sizeof x->wallet);
}

/* Marks the wallets that are not paid, with the reason, and sorts the others by kind, so that
 * each transaction holds many. */
static void choose(struct plan *p)
{
	int64_t budget = p->budget;

	for (long i = 0; i < p->n; i++) {
		struct owed *o = &p->list[i];

		if (o->held)
			continue;
		if (o->refused)
			o->held = "its payment failed by itself before";
		else if (opts.per_payout >= 0 && o->base_units > opts.per_payout)
			o->held = "it is more than --max-per-payout";
	}
	qsort(p->list, (size_t)p->n, sizeof *p->list, by_kind);
	for (long i = 0; i < p->n; i++) {
		struct owed *o = &p->list[i];

		if (o->held || p->budget < 0)
			continue;
		if (o->base_units > budget)
			o->held = "over the limit of this run or day";
		else
			budget -= o->base_units;
	}
	qsort(p->list, (size_t)p->n, sizeof *p->list, by_kind);
}

/* Small amounts (dust) are carried over; their wallets' accounts need not be looked up. */
static void leave_dust(struct plan *p)
{
	for (long i = 0; i < p->n; i++)
		if (p->list[i].base_units < opts.dust)
			p->list[i].held = "less than --dust: carried over";
}

static int make_plan(struct pay_run *run, struct plan *p)
{
	int64_t balance, sum = 0;

	p->nepochs = ledger_payable(run->ledger, opts.token, &opts.trust, (int)opts.need,
		&p->epochs);
	if (p->nepochs <= 0)
		return p->nepochs < 0 ? -1 : 0;
	/* signed are the rows, and paid are the claims beside them */
	if (ledger_check_claims(run->ledger, p->epochs, p->nepochs, true) < 0 ||
		ledger_check_times(run->ledger) < 0 || ledger_check_done(run->ledger) < 0)
		return -1;
	p->n = ledger_owed(run->ledger, p->epochs, (size_t)p->nepochs, &p->list);
	if (p->n <= 0)
		return p->n < 0 ? -1 : 0;
	leave_dust(p);
	if (find_budget(run, p) < 0 || pay_check_payer(run, &balance) < 0 ||
		pay_check_past(run) < 0 ||
		pay_check_wallets(run, p->list, (size_t)p->n) < 0 ||
		pay_set_memo(run, p->epochs[p->nepochs - 1]) < 0)
		return -1;
	p->shared = pay_shared_fields(run);
	if (run->had < 0)
		run->had = balance;
	choose(p);
	for (long i = 0; i < p->n && !p->list[i].held; i++)
		sum += p->list[i].base_units;
	if (sum > balance) {
		struct buf has = BUF_INIT, wants = BUF_INIT;

		money_format(&has, balance, MONEY_RENDER_DECIMALS);
		money_format(&wants, sum, MONEY_RENDER_DECIMALS);
		err_set(EX_DATAERR,
			"the paying wallet has %s tokens, the payouts need %s", has.data,
			wants.data);
		buf_release(&has);
		buf_release(&wants);
		return -1;
	}
	return 0;
}

/* --- the run --------------------------------------------------------------------------------- */

static int show_plan(struct pay_run *run, const struct plan *p)
{
	int64_t batch = 0;

	run->payer.with_nonce = run->nonces.n;
	for (long i = 0; i < p->n && !p->list[i].held; batch++) {
		size_t bytes;
		int n = payplan_take(&run->payer, p->list + i, (int)(p->n - i), &bytes);

		if (n <= 0)
			return n;
		for (int k = 0; k < n; k++, i++)
			if (write_payout(&p->list[i], "planned", NULL, batch, bytes) < 0)
				return -1;
	}
	return 0;
}

static int show_held(struct plan *p)
{
	for (long i = 0; i < p->n; i++) {
		const struct owed *o = &p->list[i];
		bool dust = o->held && o->base_units < opts.dust;

		if (!o->held)
			continue;
		p->held = p->held || !dust;
		if (write_payout(o, dust ? "carried" : "held", NULL, -1, 0) < 0)
			return -1;
	}
	return 0;
}

/* Keeps as many transactions in flight as allowed, until all is paid; what the time does not suffice
 * for is not planned. */
static int fly(struct pay_run *run, struct plan *p)
{
	int64_t end_ns = clock_mono_ns() + run->timeout_ms * 1000000, id;
	long at = 0, n_paid = 0; /* those that are held come last */
	int left = 0;

	while (n_paid < p->n && !p->list[n_paid].held)
		n_paid++;
	while (at < n_paid) {
		while (left < run->in_flight_max && at < n_paid) {
			size_t bytes;
			int n;

			run->payer.with_nonce = run->nonces.n;
			n = payplan_take(&run->payer, p->list + at, (int)(p->n - at),
				&bytes);
			if (n <= 0)
				return err_set(EX_DATAERR,
					"a payout does not fit a transaction");
			id = ledger_plan(run->ledger, p->epochs, (size_t)p->nepochs,
				p->list + at, n, p->shared, clock_now_ms());
			if (id < 0)
				return -1;
			run->first_tx = id < run->first_tx ? id : run->first_tx;
			run->paid_from = id < run->paid_from ? id : run->paid_from;
			at += n;
			left++;
		}
		if (pay_round(run, &left) < 0)
			return -1;
		if (left >= run->in_flight_max)
			usleep((useconds_t)(run->poll_ms * 1000));
		if (clock_mono_ns() > end_ns)
			break;
	}
	if (pay_follow(run) < 0)
		return -1;
	return at == n_paid ?
		0 :
		err_set(EX_TEMPFAIL,
			"the time is over, and %ld wallets are not paid yet: run pay again",
			n_paid - at);
}

/* Two payers would plan the same payouts, so the second one is refused. */
static int lock(int *fd)
{
	*fd = open(opts.store, O_RDONLY | O_CLOEXEC);
	if (*fd < 0)
		return err_sys(0, "cannot open '%s'", opts.store);
	if (flock(*fd, LOCK_EX | LOCK_NB) < 0)
		return err_set(EX_TEMPFAIL, "'%s': another payer is at work", opts.store);
	return 0;
}

/* A ledger continues with the payer, mint and cluster of its earlier payouts. */
static int check_same_payer(struct pay_run *run)
{
	static const char *const keys[] = { "payer", "mint", "genesis" };
	json_t *last = ledger_last_plan(run->ledger);
	const char *memo = json_string_value(json_object_get(last, "memo"));
	char texts[3][RPC_TEXT_MAX];
	int rc = 0;

	address_format(run->payer.wallet.bytes, texts[0]);
	address_format(run->payer.mint.bytes, texts[1]);
	snprintf(texts[2], sizeof texts[2], "%s", run->genesis);
	for (int i = 0; last && i < 3 && rc == 0; i++) {
		const char *before = json_string_value(json_object_get(last, keys[i]));

		if (before && strcmp(before, texts[i]) != 0)
			rc = err_set(EX_DATAERR, "this ledger is paid with %s %s, not %s",
				keys[i], before, texts[i]);
	}
	/* what was planned before is signed with the memo that it was planned with */
	if (memo && strlen(memo) < sizeof run->payer.memo)
		strcpy(run->payer.memo, memo);
	json_decref(last);
	return rc;
}

/* What was just paid against the balances before and after. */
static void check_balances(struct pay_run *run, const struct plan *p, bool *trouble)
{
	int64_t paid = ledger_spent_from(run->ledger, run->paid_from, &run->payer.wallet);
	size_t n = 0;
	int rc;

	/* those that are paid come first */
	while (n < (size_t)p->n && !p->list[n].held)
		n++;
	/* after a failure some of these have got nothing, as has been said */
	rc = paid < 0 ? -1 : pay_check_balances(run, p->list, *trouble ? 0 : n, paid);
	*trouble = *trouble || rc == 0;
	if (rc < 0)
		prog_warn("balances could not be checked after the payments: %s",
			err_get()->text);
	err_clear();
	/* what an older copy of the ledger does not know may have been under way when this run began */
	if (pay_check_past(run) < 0) {
		*trouble = *trouble || err_get()->code == EX_DATAERR;
		prog_warn("after the payments: %s", err_get()->text);
	}
	err_clear();
}

static int pay(struct pay_run *run)
{
	struct plan p = { .budget = -1 };
	struct since since = { INT64_MAX, false };
	int left, rc = -1;

	if (pay_read_burns(run) < 0 || pay_check_servers(run) < 0 ||
		check_same_payer(run) < 0 ||
		(opts.settle && !opts.dry_run && pay_settle(run) < 0))
		return -1;
	/* transactions in flight come first: they decide what is still owed */
	if (!opts.dry_run) {
		struct ledger_tx before[1];

		left = ledger_in_flight(run->ledger, before, 1);
		if (left < 0)
			return -1;
		if (left) {
			int64_t balance;

			since.first = before[0].id;
			if (pay_check_planned(run) < 0 ||
				pay_check_payer(run, &balance) < 0 ||
				pay_check_past(run) < 0 || pay_follow(run) < 0)
				return -1;
		}
	}
	rc = !opts.dry_run && !opts.resume && (opts.burn || opts.issue) ?
		pay_carry_out(run) :
		0;
	for (int rounds = 0; !opts.resume && rc == 0 && (!rounds || run->expired);
		rounds++) {
		/* payouts of expired transactions are planned again */
		run->expired = 0;
		plan_release(&p);
		p = (struct plan){ .budget = -1 };
		rc = -1;
		if (rounds == PAY_ROUNDS_MAX)
			pay_expire_again(run);
		else if (make_plan(run, &p) == 0)
			rc = opts.dry_run ? show_plan(run, &p) : fly(run, &p);
	}
	since.first = run->first_tx < since.first ? run->first_tx : since.first;
	if (rc == 0 && !opts.dry_run)
		rc = ledger_each_payout(run->ledger, show_new, &since);
	if (rc == 0 && run->paid_from != INT64_MAX)
		check_balances(run, &p, &since.trouble);
	if (rc == 0 && !opts.dry_run)
		rc = ledger_each_order(run->ledger, show_order, &since);
	if (rc == 0)
		rc = show_held(&p);
	run->unpaid = since.trouble || p.held;
	plan_release(&p);
	return rc;
}

static int set_cluster(struct pay_run *run)
{
	static const char *const clusters[][2] = {
		{ "mainnet", "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d" },
		{ "testnet", "4uhcVJyU9pJkvQyS88uRDiswHXSCkY3zQawwpjk2NsNY" },
		{ "devnet", "EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG" }
	};
	unsigned char hash[KEY_PUBLIC_BYTES];

	snprintf(run->genesis, sizeof run->genesis, "%s", opts.cluster);
	for (size_t i = 0; i < sizeof clusters / sizeof *clusters; i++)
		if (strcmp(opts.cluster, clusters[i][0]) == 0)
			snprintf(run->genesis, sizeof run->genesis, "%s", clusters[i][1]);
	return address_parse(run->genesis, "--cluster", hash) < 0 ?
		err_set(EX_USAGE,
			"--cluster: '%.60s' is neither a cluster nor a genesis hash",
			opts.cluster) :
		0;
}

static int set_wallet(struct pay_run *run, struct key *key)
{
	if (opts.signer) {
		run->signer = opts.signer;
		return address_parse(opts.wallet, "--wallet", run->payer.wallet.bytes);
	}
	if (key_load(key, opts.keypair, NULL) < 0)
		return -1;
	run->key = key;
	memcpy(run->payer.wallet.bytes, key->public_key, SOLANA_KEY_BYTES);
	return 0;
}

/* A nonce account is for one transaction at a time. */
static int set_nonces(struct pay_run *run)
{
	run->nonces = opts.nonces;
	for (int i = 0; i < run->nonces.n; i++)
		if (address_parse(run->nonces.items[i], "--nonce",
			    run->payer.nonce.bytes) < 0)
			return -1;
	return rpc_check_once("--nonce", &opts.nonces);
}

static int set_run(struct pay_run *run, struct key *key)
{
	if (!opts.rpc.n || (!opts.keypair && !opts.signer) || !opts.trust.n)
		return err_set(EX_USAGE,
			"--rpc, --keypair and --trust are needed, but for --status");
	if (opts.signer && (opts.keypair || !opts.wallet))
		return err_set(EX_USAGE,
			"--signer goes with --wallet, and without --keypair");
	if (opts.need > opts.trust.n)
		return err_set(EX_USAGE, "--need %" PRId64 " of %d that are trusted",
			opts.need, opts.trust.n);
	if (opts.settle && opts.rpc.n < PAY_QUORUM)
		return err_set(EX_USAGE, "--settle: one server alone cannot tell");
	if (rpc_check_once("--trust", &opts.trust) < 0 ||
		rpc_open(run->servers, &opts.rpc, opts.ca) < 0)
		return -1;
	run->n = opts.rpc.n;
	if (address_parse(opts.mint, "--mint", run->payer.mint.bytes) < 0)
		return -1;
	if (set_cluster(run) < 0 || set_wallet(run, key) < 0 || set_nonces(run) < 0)
		return -1;
	run->token = opts.token;
	run->trust = &opts.trust;
	run->need = (int)opts.need;
	run->burns = opts.burn;
	run->issue = opts.issue;
	run->shared = opts.shared;
	run->first_tx = run->paid_from = INT64_MAX;
	run->had = -1;
	run->payer.decimals = MONEY_RENDER_DECIMALS;
	run->payer.unit_price = (uint64_t)opts.unit_price;
	run->payer.legacy = opts.legacy;
	run->poll_ms = opts.poll_ms;
	run->timeout_ms = opts.timeout_ms;
	run->in_flight_max = run->nonces.n && run->nonces.n < opts.in_flight ?
		run->nonces.n :
		(int)opts.in_flight;
	return 0;
}

static int run_pay(struct pay_run *run, struct key *key)
{
	struct ledger l = LEDGER_INIT;
	int fd = -1, rc = -1;
	struct since all = { .first = 0 };
	long shown = 0;

	run->ledger = &l;
	if (opts.status) {
		rc = ledger_open(&l, opts.store, true);
		rc = rc == 0 ? ledger_each_payout(&l, show_payout, &shown) : -1;
		if (rc == 0 && !shown)
			prog_info("'%s' has paid no wallet yet", opts.store);
		rc = rc == 0 ? ledger_each_order(&l, show_order, &all) : -1;
	} else if (set_run(run, key) == 0 && lock(&fd) == 0 &&
		ledger_open_existing(&l, opts.store, opts.dry_run) == 0) {
		fee_payer = &run->payer;
		rc = pay(run);
	}
	ledger_close(&l);
	if (fd >= 0)
		close(fd);
	return rc;
}

static int run(int n, char **args)
{
	static struct pay_run run;
	struct key key = KEY_INIT;
	int rc;

	(void)n;
	(void)args;
	memset(&run, 0, sizeof run);
	rc = run_pay(&run, &key);
	for (int i = 0; i < run.n; i++)
		rpc_release(&run.servers[i]);
	buf_release(&run.strangers);
	key_release(&key);
	opt_list_release(&opts.rpc);
	opt_list_release(&opts.trust);
	opt_list_release(&opts.nonces);
	pay_release_burns();
	if (rc < 0)
		return err_report();
	return run.unpaid ? EXIT_NO : EX_OK;
}

const struct command command_pay = {
	.name = "pay",
	.summary = "Pay what signed epochs of a ledger owe, on Solana, each wallet once.",
	.details =
		"Writes one rnp.payout for each wallet: planned, finalised, failed, held (with the\n"
		"reason) or carried. Exits 1 when a wallet cannot be paid, 75 when transactions are\n"
		"still in flight.",
	.columns = "wallet,base_units,status,batch,transaction_bytes,signature,reason",
	.opts = options,
	.run = run,
};
