/* pay.c - rnp-reward pay: pays what sealed, signed epochs owe, on Solana; it can be interrupted
 * and resumed at any instant.
 *
 * long because the stages of a run are read in their order, in one place. */
#include "cmd/rnp-reward/payout/run.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/rnp-reward/commands.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/lock.h"
#include "common/base/money.h"
#include "common/cli/human.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/json/json.h"

#define DAY_MS INT64_C(86400000)

#define RENDER      "RENDER"
#define MAINNET     "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d"
#define RENDER_MINT "rndrizKT3MK1iimdxRdWabcF7Zg7AR5T4nud4EkHBof"

static struct {
	struct opt_list rpc, trust, nonces, given_up;
	const char *store, *keypair, *signer, *wallet, *mint, *cluster, *token, *burn,
		*ca;
	int64_t per_run, per_payout, per_day, dust, need, in_flight, unit_price, poll_ms,
		timeout_ms;
	bool dry_run, resume, status, legacy, issue, shared, settle, single_server,
		allow_unfunded;
} opts = { .token = RENDER,
	.mint = RENDER_MINT,
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
	OPT(TEXT, "store", &opts.store, "DB", "the ledger", .required = true),
	OPT(LIST, "rpc", &opts.rpc, "URL",
		"a Solana RPC server; give three of different operators"),
	/* not a setting: RPC servers have other certificates than the registry */
	OPT(TEXT, "ca", &opts.ca, "F",
		"trust these certificates (PEM), not the system's"),
	OPT(TEXT, "keypair", &opts.keypair, "F", "key file of the wallet that pays"),
	OPT(TEXT, "signer", &opts.signer, "CMD",
		"instead of --keypair: a command that signs what it is told in words"),
	OPT(TEXT, "wallet", &opts.wallet, "ADDRESS",
		"the wallet that --signer signs for, or that --dry-run asks about",
		.address = true),
	OPT(LIST, "nonce", &opts.nonces, "ADDRESS",
		"use this durable nonce account, not recent blockhashes; may be given "
		"again",
		.address = true),
	OPT(LIST, "trust", &opts.trust, "ADDRESS",
		"whose signatures on epochs count; may be given again", .address = true),
	OPT_IN(I64, "need", &opts.need, "M", 1, 64,
		"how many of them must have signed an epoch (default 1)"),
	OPT(TEXT, "mint", &opts.mint, "ADDRESS", "the token (default RENDER)",
		.address = true),
	OPT(TEXT, "token", &opts.token, "T", "pay epochs of this token (default RENDER)"),
	OPT(TEXT, "burn", &opts.burn, "F",
		"first burn what these rnp.burn records say, each job once"),
	OPT_SWITCH("issue", &opts.issue,
		"first issue what signed epochs claim to the payer, each epoch once"),
	OPT(TEXT, "cluster", &opts.cluster, "C",
		"mainnet, testnet, devnet or a genesis hash (default mainnet)"),
	OPT(RENDER, "max-per-run", &opts.per_run, "TOKENS", "plan no more than this"),
	OPT(RENDER, "max-per-payout", &opts.per_payout, "TOKENS",
		"a wallet that is owed more is not paid"),
	OPT(RENDER, "max-per-day", &opts.per_day, "TOKENS",
		"with what was planned in the 24 hours before, no more than this"),
	OPT(RENDER, "dust", &opts.dust, "TOKENS",
		"less than this is carried over (default 0.01)"),
	OPT_IN(I64, "in-flight", &opts.in_flight, "N", 1, PAY_IN_FLIGHT_MAX,
		"transactions in flight at a time (default 16)"),
	OPT_IN(I64, "unit-price", &opts.unit_price, "N", 0, PAYPLAN_PRICE_MAX,
		"priority fee: micro-lamports for a compute unit, at most 1000000 (default 0)"),
	OPT_SWITCH("legacy", &opts.legacy, "write legacy messages, not version 0"),
	OPT_IN(DURATION, "poll", &opts.poll_ms, "TIME", 1, 3600000,
		"between two looks at what is in flight (default 1s)"),
	OPT_IN(DURATION, "timeout", &opts.timeout_ms, "TIME", 1, 86400000,
		"leave what is in flight to a later run after this (default 600s)"),
	OPT_SWITCH("shared", &opts.shared,
		"the wallet pays other ledgers, too: their epochs stop nothing"),
	OPT_SWITCH("settle", &opts.settle,
		"first wait until nothing can land that another copy of the ledger has sent"),
	OPT_SWITCH("single-server", &opts.single_server,
		"go on with one --rpc, on whose word alone payments then count as made"),
	OPT(LIST, "give-up", &opts.given_up, "SIGNATURE",
		"you have made sure that this transaction paid nothing: pay anew; may be given "
		"again"),
	OPT_SWITCH("allow-unfunded-recipient", &opts.allow_unfunded,
		"pay new wallets, too: those with neither SOL nor an account for the token"),
	OPT_SWITCH("dry-run", &opts.dry_run,
		"plan and show the transactions; sign, send and store nothing"),
	OPT_SWITCH("resume", &opts.resume,
		"go on with what is in flight, plan nothing new"),
	OPT_SWITCH("status", &opts.status,
		"show every payout that was planned; asks no server"),
	{ .kind = OPT_END },
};

/* --- records -------------------------------------------------------------------------------- */

/* The payer of this run, once the mint's fee is known. */
static const struct payer *fee_payer;

/* This run, for its doubts and denials; or NULL. */
static const struct pay_run *doubting;

static const char *doubt_of(const struct ledger_tx *tx)
{
	if (!tx || !doubting)
		return NULL;
	return pay_doubts(doubting, tx->id) ?
		"servers say that it has failed, and a person decides (--give-up)" :
		pay_denied(doubting, tx->id);
}

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
	json_set_text(record, "reason", o->held ? o->held : doubt_of(tx));
	rc = out_record(record);
	json_decref(record);
	return rc;
}

/* ctx: a long that counts the payouts, or NULL. */
static int show_payout(void *ctx, const struct owed *o, const struct ledger_tx *tx)
{
	if (ctx)
		++*(long *)ctx;
	return write_payout(o, pay_status_names[tx->status], tx, tx->id, tx->len);
}

/* Selects the payouts of this run: those of transactions from a number on. */
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
	json_set_text(record, "reason", doubt_of(tx));
	rc = out_record(record);
	json_decref(record);
	return rc;
}

static int show_new(void *ctx, const struct owed *o, const struct ledger_tx *tx)
{
	struct since *s = ctx;

	/* the payouts of an expired transaction are in a later one, or owed again */
	if (tx->id < s->first || tx->status == PAY_EXPIRED)
		return 0;
	s->trouble = s->trouble || tx->status == PAY_FAILED;
	return show_payout(NULL, o, tx);
}

/* --- planning ------------------------------------------------------------------------------- */

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

/* Marks small amounts (dust), which are carried over: the accounts of their wallets need no
 * look-up. */
static void carry_dust(struct plan *p)
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
	/* the signatures cover the rows, but claims are paid from tables beside them: both must
	 * agree */
	if (ledger_check_claims(run->ledger, p->epochs, p->nepochs, true) < 0 ||
		ledger_check_times(run->ledger) < 0 || ledger_check_done(run->ledger) < 0)
		return -1;
	p->n = ledger_owed(run->ledger, p->epochs, (size_t)p->nepochs, &p->list);
	if (p->n <= 0)
		return p->n < 0 ? -1 : 0;
	carry_dust(p);
	if (find_budget(run, p) < 0 || pay_check_payer(run, &balance) < 0 ||
		pay_check_past(run) < 0 ||
		pay_check_wallets(run, p->list, (size_t)p->n) < 0 ||
		pay_set_memo(run, p->epochs[p->nepochs - 1]) < 0)
		return -1;
	pay_apply_refused(run, p->list, (size_t)p->n);
	p->shared = pay_shared_fields(run);
	if (run->balance_before < 0)
		run->balance_before = balance;
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

/* --- the run -------------------------------------------------------------------------------- */

static int show_plan(struct pay_run *run, const struct plan *p)
{
	int64_t batch = 0;

	run->payer.with_nonce = run->nonces.n;
	for (long i = 0; i < p->n && !p->list[i].held; batch++) {
		size_t bytes;
		int n = payplan_fit(&run->payer, p->list + i, (int)(p->n - i), &bytes);

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

/* Plans and sends transactions, as many at a time as may be in flight, until all wallets are
 * paid or the time is over; the rest is not planned. */
static int send_plan(struct pay_run *run, struct plan *p)
{
	int64_t end_ns = clock_mono_ns() + run->timeout_ms * 1000000, id;
	long at = 0, n_paid = 0; /* the wallets that are held come last */
	int left = 0, stuck;

	while (n_paid < p->n && !p->list[n_paid].held)
		n_paid++;
	while (at < n_paid) {
		while (left < run->in_flight_max && at < n_paid &&
			left + run->ndoubts + run->nbehind < PAY_IN_FLIGHT_MAX) {
			size_t bytes;
			int n;

			run->payer.with_nonce = run->nonces.n;
			n = payplan_fit(&run->payer, p->list + at, (int)(p->n - at),
				&bytes);
			if (n <= 0)
				return err_set(EX_DATAERR,
					"a payout does not fit a transaction");
			id = ledger_plan(run->ledger, p->epochs, (size_t)p->nepochs,
				p->list + at, n, p->shared, clock_now_ms());
			if (id < 0)
				return -1;
			run->first_tx = id < run->first_tx ? id : run->first_tx;
			run->first_payout = id < run->first_payout ? id :
								     run->first_payout;
			at += n;
			left++;
		}
		if (pay_round(run, &left) < 0)
			return -1;
		stuck = run->ndoubts + run->nbehind;
		if (run->ndoubts >= PAY_DOUBTS_MAX || stuck >= PAY_IN_FLIGHT_MAX)
			break;
		if (left >= run->in_flight_max || left + stuck >= PAY_IN_FLIGHT_MAX)
			usleep((useconds_t)(run->poll_ms * 1000));
		if (clock_mono_ns() > end_ns)
			break;
	}
	if (pay_follow(run) < 0)
		return -1;
	/* with doubts, or what is left behind, the run ends with an error of its own */
	return at == n_paid || run->ndoubts || run->nbehind ?
		0 :
		err_set(EX_TEMPFAIL,
			"the time is over, and %ld wallets are not paid yet: run pay again",
			n_paid - at);
}

/* Locks the ledger: two payers would plan the same payouts, so the second one is refused. */
static int lock(int *fd)
{
	*fd = open(opts.store, O_RDONLY | O_CLOEXEC);
	if (*fd < 0)
		return err_sys(0, "cannot open '%s'", opts.store);
	return lock_take(*fd, opts.store, "another payer is at work");
}

/* Checks that payer, mint and cluster are those of the ledger's earlier payouts. */
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
	/* a transaction that is planned already is signed with the memo of its plan */
	if (memo && strlen(memo) < sizeof run->payer.memo)
		strcpy(run->payer.memo, memo);
	json_decref(last);
	return rc;
}

/* Compares the balances after the payments with those before. */
static void check_balances(struct pay_run *run, const struct plan *p, bool *trouble)
{
	int64_t paid = ledger_spent_from(run->ledger, run->first_payout,
		&run->payer.wallet);
	size_t n = 0;
	int rc;

	/* the wallets that are paid come first */
	while (n < (size_t)p->n && !p->list[n].held)
		n++;
	/* after a failure some wallets have got nothing, which was reported already */
	rc = paid < 0 ? -1 : pay_check_balances(run, p->list, *trouble ? 0 : n, paid);
	*trouble = *trouble || rc == 0;
	if (rc < 0)
		prog_warn("balances could not be checked after the payments: %s",
			err_get()->text);
	err_clear();
	/* a payment by another copy of the ledger may have been in flight when this run began */
	if (pay_check_past(run) < 0) {
		*trouble = *trouble || err_get()->code == EX_DATAERR;
		prog_warn("after the payments: %s", err_get()->text);
	}
	err_clear();
}

/* Whether a list "A, B" has this name. */
static bool has_word(const char *list, const char *name)
{
	size_t n = strlen(name);

	for (const char *at = list; (at = strstr(at, name)); at++)
		if ((at == list || at[-1] == ' ') && (!at[n] || at[n] == ','))
			return true;
	return false;
}

/* Says why nothing is to be paid, to somebody who expected something. */
static int tell_nothing(struct pay_run *run, const struct plan *p)
{
	struct buf tokens = BUF_INIT;
	int rc = p->nepochs ? 0 : ledger_tokens(run->ledger, &tokens);

	if (rc < 0 || p->nepochs > 0)
		prog_info(
			"nothing to pay: the wallets have all that signed epochs owe them");
	else if (!tokens.len)
		prog_info("nothing to pay: '%s' has no epoch", opts.store);
	else if (has_word(tokens.data, opts.token))
		prog_info("nothing to pay: no epoch of %s has %" PRId64
			  " signatures of those who are trusted (--trust, --need)",
			opts.token, opts.need);
	else
		prog_info(
			"nothing to pay: '%s' has epochs of %s, and none of %s (--token)",
			opts.store, tokens.data, opts.token);
	buf_release(&tokens);
	return rc;
}

/* Leaves to a person what two servers call failed: who believes them pays twice if they lie. */
static int leave_doubts(const struct pay_run *run)
{
	return err_set(EX_TEMPFAIL,
		"%d transaction%s failed, as servers say, and nothing is paid again on their "
		"word: look at %s with an explorer, then run pay with --give-up %s",
		run->ndoubts, run->ndoubts == 1 ? "" : "s", run->doubts[0].signature,
		run->doubts[0].signature);
}

/* After pay_follow has failed: if only because the time was over, what is in flight is left to a
 * later run, and other wallets and epochs are paid meanwhile. Returns 0, or -1. */
static int leave_behind(struct pay_run *run)
{
	static struct ledger_tx list[PAY_IN_FLIGHT_MAX];
	int n = run->time_over ? ledger_in_flight(run->ledger, list, PAY_IN_FLIGHT_MAX) :
				 -1;

	if (n < 0)
		return -1;
	run->nbehind = n - run->ndoubts;
	run->behind = n ? list[n - 1].id + 1 : 0;
	if (!opts.resume)
		prog_warn("%s; what else is owed is paid meanwhile", err_get()->text);
	err_clear();
	return 0;
}

static int pay(struct pay_run *run)
{
	struct plan p = { .budget = -1 };
	struct since since = { INT64_MAX, false };
	int left, rc = -1;

	if (pay_read_burns(run) < 0 || pay_check_servers(run) < 0 ||
		check_same_payer(run) < 0 || pay_check_given_up(run) < 0 ||
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
				pay_check_past(run) < 0 ||
				(pay_follow(run) < 0 && leave_behind(run) < 0))
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
		/* not to the same servers as in the round before */
		run->next_sender = rounds;
		plan_release(&p);
		p = (struct plan){ .budget = -1 };
		rc = -1;
		if (rounds == PAY_ROUNDS_MAX)
			pay_expire_again(run);
		else if (make_plan(run, &p) == 0)
			rc = opts.dry_run ? show_plan(run, &p) : send_plan(run, &p);
	}
	since.first = run->first_tx < since.first ? run->first_tx : since.first;
	if (rc == 0 && !opts.dry_run)
		rc = ledger_each_payout(run->ledger, show_new, &since);
	/* what is in doubt, or in flight, has perhaps not left the wallet */
	if (rc == 0 && run->first_payout != INT64_MAX && !run->ndoubts && !run->behind)
		check_balances(run, &p, &since.trouble);
	if (rc == 0 && !opts.dry_run)
		rc = ledger_each_order(run->ledger, show_order, &since);
	if (rc == 0)
		rc = show_held(&p);
	if (rc == 0 && !opts.resume && !p.n && since.first == INT64_MAX)
		rc = tell_nothing(run, &p);
	run->unpaid = since.trouble || p.held;
	plan_release(&p);
	if (rc < 0)
		return -1;
	return run->ndoubts  ? leave_doubts(run) :
		run->nbehind ? pay_still_in_flight(run, run->nbehind) :
			       0;
}

static int set_cluster(struct pay_run *run)
{
	static const char *const clusters[][2] = { { "mainnet", MAINNET },
		{ "testnet", "4uhcVJyU9pJkvQyS88uRDiswHXSCkY3zQawwpjk2NsNY" },
		{ "devnet", "EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG" } };
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

/* Checks that neither what is called RENDER is another token, nor what has another name is paid in
 * RENDER. */
static int check_token(const struct pay_run *run)
{
	bool named = strcmp(opts.token, RENDER) == 0;
	bool is = strcmp(opts.mint, RENDER_MINT) == 0;

	if (!named && is)
		return err_set(EX_USAGE,
			"--token %.16s: the default --mint is RENDER's: give that of %.16s",
			opts.token, opts.token);
	return named && !is && strcmp(run->genesis, MAINNET) == 0 ?
		err_set(EX_USAGE,
			"--mint %s is not RENDER's on mainnet: name its token (--token)",
			opts.mint) :
		0;
}

static int set_wallet(struct pay_run *run, struct key *key)
{
	if (opts.signer) {
		run->signer = opts.signer;
		return address_parse(opts.wallet, "--wallet", run->payer.wallet.bytes);
	}
	/* nothing is signed: whose wallet it is suffices */
	if (opts.dry_run && !opts.keypair)
		return address_parse(opts.wallet, "--wallet", run->payer.wallet.bytes);
	if (key_load(key, opts.keypair, NULL) < 0)
		return -1;
	run->key = key;
	memcpy(run->payer.wallet.bytes, key->public_key, SOLANA_KEY_BYTES);
	return 0;
}

/* Checks the nonce accounts; each serves one transaction at a time, so none may stand twice. */
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
	bool payer = opts.keypair || opts.signer || (opts.dry_run && opts.wallet);

	if (!opts.rpc.n || !payer || !opts.trust.n)
		return err_set(EX_USAGE, "--rpc, %s and --trust are needed%s",
			opts.dry_run ? "--wallet (or --keypair)" : "--keypair",
			opts.dry_run ? "" : ", but for --status");
	if (opts.signer && (opts.keypair || !opts.wallet))
		return err_set(EX_USAGE,
			"--signer goes with --wallet, and without --keypair");
	if (opts.need > opts.trust.n)
		return err_set(EX_USAGE, "--need %" PRId64 " of %d that are trusted",
			opts.need, opts.trust.n);
	if (opts.settle && opts.rpc.n < PAY_QUORUM)
		return err_set(EX_USAGE, "--settle: one server alone cannot tell");
	if (opts.rpc.n == 1 && !opts.single_server && !opts.dry_run)
		return err_set(EX_USAGE,
			"--rpc: one server alone can say that payments were made which were not: "
			"give three of different operators, or --single-server to go on");
	if (rpc_check_once("--trust", &opts.trust) < 0 ||
		rpc_open(run->servers, &opts.rpc, opts.ca) < 0)
		return -1;
	run->n = run->given = opts.rpc.n;
	run->given_up = &opts.given_up;
	run->allow_unfunded = opts.allow_unfunded;
	if (address_parse(opts.mint, "--mint", run->payer.mint.bytes) < 0)
		return -1;
	if (set_cluster(run) < 0 || check_token(run) < 0 || set_wallet(run, key) < 0 ||
		set_nonces(run) < 0)
		return -1;
	run->token = opts.token;
	run->trust = &opts.trust;
	run->need = (int)opts.need;
	run->burns = opts.burn;
	run->issue = opts.issue;
	run->shared = opts.shared;
	run->first_tx = run->first_payout = INT64_MAX;
	run->balance_before = -1;
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

/* Amounts are shown in the one token that the ledger has; with several nobody knows, as payouts of
 * its past do not name theirs. */
static int name_token(struct ledger *l)
{
	struct buf tokens = BUF_INIT;
	int rc = ledger_tokens(l, &tokens);

	if (rc == 0)
		human_set_token(
			tokens.len && !strchr(tokens.data, ',') ? tokens.data : NULL);
	buf_release(&tokens);
	return rc;
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
		rc = rc == 0 ? name_token(&l) : -1;
		rc = rc == 0 ? ledger_each_payout(&l, show_payout, &shown) : -1;
		if (rc == 0 && !shown)
			prog_info("'%s' has paid no wallet yet", opts.store);
		rc = rc == 0 ? ledger_each_order(&l, show_order, &all) : -1;
	} else if (set_run(run, key) == 0 && lock(&fd) == 0 &&
		ledger_open_existing(&l, opts.store, opts.dry_run) == 0) {
		fee_payer = &run->payer;
		human_set_token(opts.token);
		doubting = run;
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
	buf_release(&run.foreign_signatures);
	pay_release_refused(&run);
	buf_release(&run.denials);
	buf_release(&run.hashes);
	key_release(&key);
	opt_list_release(&opts.rpc);
	opt_list_release(&opts.trust);
	opt_list_release(&opts.nonces);
	opt_list_release(&opts.given_up);
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
