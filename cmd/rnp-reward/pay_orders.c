/* pay_orders.c - burns and issues of a run, and what a planned transaction must be to be signed. */
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-reward/pay.h"
#include "common/base/address.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/cli/prog.h"
#include "common/cli/records.h"
#include "common/json/json.h"
#include "common/json/schema.h"

/* Returns the fields that all rnp.tx rows have; the caller owns it. */
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

/* The memo is the newest root that is paid for, as 44 characters. */
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

/* --- burns and issues ------------------------------------------------------------------------ */

/* What --burn says. The ledger has burns, too, but no signature of them: without their record they are not
 * carried out. */
static struct burns {
	struct ledger_order *due; /* in the order of their ids */
	size_t n, cap;
	int64_t now_ms, first_ms; /* when the first that is not due is */
	int64_t since_ms;         /* before it none of due was made; 0: not known */
	long early;
} burns;

/* What stands for a root in the memo of a burn: it names the job to whoever knows it. */
static void burn_root(const struct ledger_order *o, unsigned char root[MERKLE_HASH_BYTES])
{
	crypto_hash_sha256(root, (const unsigned char *)o->id, strlen(o->id));
}

const char *pay_find_burn(const unsigned char root[MERKLE_HASH_BYTES])
{
	unsigned char one[MERKLE_HASH_BYTES];

	for (size_t i = 0; i < burns.n; i++) {
		burn_root(&burns.due[i], one);
		if (memcmp(one, root, sizeof one) == 0)
			return burns.due[i].id;
	}
	return NULL;
}

int64_t pay_burns_since(void)
{
	return burns.n ? burns.since_ms : INT64_MAX;
}

static int add_burn(void *ctx, const struct record *r)
{
	struct burns *b = ctx;
	struct ledger_order o = { .action = ACTION_BURN };
	int64_t at_ms = 0;
	const char *job;

	if (schema_check(r->json, r->where, "rnp.burn") < 0)
		return -1;
	if (!json_object_get(r->json, "job"))
		return err_set(EX_DATAERR,
			"%s: it names no job, so that it could be burned twice",
			r->where);
	if (json_get_text(r->json, r->where, "job", &job) < 0 ||
		json_get_i64(r->json, r->where, "burned_base_units", 0, INT64_MAX,
			&o.base_units) < 0 ||
		json_opt_time(r->json, r->where, "burn_at", &at_ms) < 0)
		return -1;
	if (at_ms > b->now_ms) {
		b->first_ms = b->early++ && b->first_ms < at_ms ? b->first_ms : at_ms;
		return 0;
	}
	if ((size_t)snprintf(o.id, sizeof o.id, "burn %s", job) >= sizeof o.id)
		return err_set(EX_DATAERR, "%s: its job has too many bytes", r->where);
	if (!o.base_units)
		return 0;
	b->since_ms = b->n && b->since_ms < at_ms ? b->since_ms : at_ms;
	b->due = xgrow(b->due, &b->cap, b->n + 1, sizeof *b->due);
	b->due[b->n++] = o;
	return 0;
}

static int by_id(const void *a, const void *b)
{
	const struct ledger_order *x = a, *y = b;

	return strcmp(x->id, y->id);
}

int pay_read_burns(struct pay_run *run)
{
	char *files[1] = { (char *)run->burns }, at[CLOCK_TEXT_MAX];

	if (!run->burns)
		return 0;
	burns.now_ms = clock_now_ms();
	if (records_each(files, 1, JSON_RECORD_BYTES_MAX, add_burn, &burns) < 0)
		return -1;
	if (burns.n)
		qsort(burns.due, burns.n, sizeof *burns.due, by_id);
	for (size_t i = 1; i < burns.n; i++)
		if (by_id(&burns.due[i - 1], &burns.due[i]) == 0 &&
			burns.due[i - 1].base_units != burns.due[i].base_units)
			return err_set(EX_DATAERR, "%s: '%s' is there with two amounts",
				run->burns, burns.due[i].id);
	clock_format(at, burns.first_ms);
	if (burns.early)
		prog_info(
			"%ld burns are not due yet, the first at %s: left to a later run",
			burns.early, at);
	return 0;
}

/* Whether a burn is one of --burn. */
static bool is_given(const struct ledger_order *o)
{
	const struct ledger_order *found = burns.n ?
		bsearch(o, burns.due, burns.n, sizeof *burns.due, by_id) :
		NULL;

	return o->action == ACTION_BURN && found && found->base_units == o->base_units;
}

static int add_burns(struct pay_run *run)
{
	for (size_t i = 0; i < burns.n; i++)
		if (ledger_add_order(run->ledger, &burns.due[i]) < 0)
			return err_add("%s", run->burns);
	return 0;
}

/* What an epoch claims is issued; what it locks is, when it is released. */
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

/* Enters what is to be burned and issued, in one commit. */
static int add_orders(struct pay_run *run)
{
	int rc = store_begin(&run->ledger->store);

	if (rc < 0)
		return -1;
	if (run->burns)
		rc = add_burns(run);
	if (rc == 0 && run->issue)
		rc = add_issues(run);
	if (rc < 0) {
		store_rollback(&run->ledger->store);
		return -1;
	}
	return store_commit(&run->ledger->store);
}

/* The epochs that enough of those who are trusted have signed. */
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

/* What was planned is signed only if its record is given, or its epoch signed. */
static int check_planned_order(void *ctx, const struct ledger_order *o)
{
	const struct signed_epochs *s = ctx;

	if (o->action == ACTION_MINT)
		return ledger_check_issue(s->run->ledger, o, s->list, s->n);
	return is_given(o) ? 0 :
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

const char *pay_refusal(struct pay_run *run)
{
	static char text[sizeof run->refused + 40];

	text[0] = '\0';
	if (run->refused[0])
		snprintf(text, sizeof text, "; a server's first refusal: %s",
			run->refused);
	return text;
}

int pay_expire_again(struct pay_run *run)
{
	return err_set(EX_TEMPFAIL,
		"transactions expire again and again: the servers do not take them%s",
		pay_refusal(run));
}

/* By its memo an older copy of this ledger finds out that an order was carried out: that of an issue is the root of its
 * epoch. */
static int set_order_memo(struct pay_run *run, const struct ledger_order *o)
{
	unsigned char root[MERKLE_HASH_BYTES];

	if (o->action == ACTION_MINT)
		return pay_set_memo(run, strtoll(o->id + strlen("epoch "), NULL, 10));
	burn_root(o, root);
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
		if (list[i].action == ACTION_BURN && !is_given(&list[i])) {
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

/* Enters what is to be burned and issued, and carries it out; what expires is open again. */
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

/* What was planned is signed only if its claims are still those of epochs that are signed. */
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

void pay_release_burns(void)
{
	free(burns.due);
	burns.due = NULL;
}
