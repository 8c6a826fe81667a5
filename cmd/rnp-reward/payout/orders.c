/* orders.c - carries out the burns and issues of a run, and checks what is planned before it is
 * signed. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-reward/payout/run.h"
#include "common/base/address.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/cli/prog.h"
#include "common/json/json.h"

/* --- burns and issues ----------------------------------------------------------------------- */

/* Adds an order for what each epoch claims. Locked tokens are issued only when a row releases
 * them, and that row is an epoch of its own. */
static int add_issues(struct pay_run *run)
{
	struct ledger_balance *list = NULL;
	int64_t *epochs = NULL;
	long n = ledger_payable(run->ledger, run->token, run->trust, run->need, &epochs);
	long m = n < 0 || ledger_check_claims(run->ledger, epochs, n, false) < 0 ?
		-1 :
		ledger_balances(run->ledger, &list);
	int rc = m < 0 ? -1 : 0;

	for (long i = 0, k = 0; i < m && k < n && rc == 0; i++) {
		struct ledger_order o = { .action = ACTION_MINT,
			.base_units = list[i].claimed };

		if (list[i].sequence != epochs[k])
			continue;
		k++;
		snprintf(o.id, sizeof o.id, "epoch %" PRId64, list[i].sequence);
		if (o.base_units)
			rc = ledger_add_order(run->ledger, &o);
	}
	free(epochs);
	free(list);
	return rc;
}

/* Enters the orders to burn and to issue into the ledger, in one commit. */
static int add_orders(struct pay_run *run)
{
	int rc = store_begin(&run->ledger->store);

	if (rc < 0)
		return -1;
	if (run->burns)
		rc = pay_add_burns(run);
	if (rc == 0 && run->issue)
		rc = add_issues(run);
	if (rc < 0) {
		store_rollback(&run->ledger->store);
		return -1;
	}
	return store_commit(&run->ledger->store);
}

/* The epochs that enough trusted keys have signed. */
struct signed_epochs {
	struct pay_run *run;
	int64_t *list;
	long n;
};

static int find_signed(struct pay_run *run, struct signed_epochs *s)
{
	*s = (struct signed_epochs){ .run = run };
	s->n = ledger_payable(run->ledger, run->token, run->trust, run->need, &s->list);
	return s->n < 0 ? -1 : 0;
}

/* Checks an order before its transaction is signed: a burn needs its record, an issue its signed
 * epoch. */
static int check_planned_order(void *ctx, const struct ledger_order *o)
{
	const struct signed_epochs *s = ctx;

	if (o->action == ACTION_MINT)
		return ledger_check_issue(s->run->ledger, o, s->list, s->n);
	return pay_has_burn(o) ? 0 :
				 err_set(EX_DATAERR,
					 "'%.300s' is planned and not signed, %" PRId64
					 " base units: go on with --burn and its record",
					 o->id, o->base_units);
}

static int check_order(struct pay_run *run, const struct ledger_order *o, int64_t balance)
{
	if (o->action == ACTION_BURN && o->base_units > balance)
		return err_set(EX_DATAERR,
			"the paying wallet has %" PRId64
			" base units, '%s' needs %" PRId64,
			balance, o->id, o->base_units);
	if (o->action == ACTION_MINT && !run->may_issue)
		return err_set(EX_DATAERR, "the payer is not the mint's authority");
	return 0;
}

/* Sets the memo, by which an older copy of this ledger can see that the order was carried out:
 * the root of an issue's epoch, the hash of a burn's id. */
static int set_order_memo(struct pay_run *run, const struct ledger_order *o)
{
	unsigned char root[MERKLE_HASH_BYTES];

	if (o->action == ACTION_MINT)
		return pay_set_memo(run, strtoll(o->id + strlen("epoch "), NULL, 10));
	pay_burn_root(o, root);
	address_format(root, run->payer.memo);
	return 0;
}

/* Plans an order and follows it to its end. */
static int carry_out(struct pay_run *run, const struct ledger_order *o)
{
	json_t *shared;
	int64_t id;

	if (set_order_memo(run, o) < 0)
		return -1;
	shared = pay_shared_fields(run);
	id = ledger_plan_order(run->ledger, o, shared, clock_now_ms());
	json_decref(shared);
	if (id >= 0 && id < run->first_tx)
		run->first_tx = id;
	return id < 0 ? -1 : pay_follow(run);
}

/* Carries out all open orders, one after another: each changes what the next one finds. */
static int carry_out_open(struct pay_run *run)
{
	struct signed_epochs epochs = { .n = 0 };
	struct ledger_order *list = NULL;
	int64_t balance;
	long n = ledger_open_orders(run->ledger, &list), left = 0;
	int rc = n < 0 ? -1 : 0;

	if (n > 0 && run->issue)
		rc = find_signed(run, &epochs);
	for (long i = 0; i < n && rc == 0; i++) {
		if ((list[i].action == ACTION_BURN && !run->burns) ||
			(list[i].action == ACTION_MINT && !run->issue))
			continue;
		if (list[i].action == ACTION_BURN && !pay_has_burn(&list[i])) {
			left++;
			continue;
		}
		if (list[i].action == ACTION_MINT)
			rc = ledger_check_issue(run->ledger, &list[i], epochs.list,
				epochs.n);
		if (rc == 0)
			rc = pay_check_payer(run, &balance);
		if (rc == 0)
			rc = check_order(run, &list[i], balance);
		if (rc == 0)
			rc = carry_out(run, &list[i]);
	}
	if (left && rc == 0)
		prog_warn(
			"%ld burns of earlier runs are open, and not in '%s': left to a run with their records",
			left, run->burns);
	free(epochs.list);
	free(list);
	return rc;
}

int pay_carry_out(struct pay_run *run)
{
	int64_t balance;
	int rc = 0;

	if (ledger_check_done(run->ledger) < 0 || pay_check_payer(run, &balance) < 0 ||
		pay_check_past(run) < 0 || add_orders(run) < 0)
		rc = -1;
	for (int rounds = 0; rc == 0 && (!rounds || run->expired); rounds++) {
		run->expired = 0;
		rc = rounds == PAY_ROUNDS_MAX ? pay_expire_again(run) :
						carry_out_open(run);
	}
	return rc;
}

int pay_check_planned(struct pay_run *run)
{
	struct signed_epochs epochs;
	int rc = find_signed(run, &epochs);

	if (rc == 0)
		rc = ledger_check_planned(run->ledger, epochs.list, epochs.n);
	if (rc == 0)
		rc = ledger_each_planned(run->ledger, check_planned_order, &epochs);
	free(epochs.list);
	return rc;
}
